//! The harness of the integration tests: where things are, how a C program is compiled, and how a
//! program is run so that neither a hang nor a stray child outlives its test.
//!
//! A missing tool or a missing build product fails the test with the command that makes it;
//! nothing is skipped.
//!
//! ```no_run
//! use ibv_sa_tests::{Flavour, Run, cc};
//! let exe = cc("ctests/harmless/events.c", &["-libverbs"]);
//! Run::new(&exe).scripted().shim(Flavour::Release).run().assert_ok();
//! ```

#![forbid(unsafe_code)]

mod build;
pub mod ledger;
mod reports;
mod run;
mod sa;
mod spoiler;

pub use build::{Compiler, cc, cc_with, clean_name};
pub use reports::{
    acks_after, are_valid, assert_report, device_after, device_after_in_full, is_valid, with_reports,
};
pub use run::{Outcome, Run};
pub use sa::{ScriptedDaemon, sa_program};
pub use spoiler::Phase;

use std::path::{Path, PathBuf};

/// Which build of the shim a test means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    Debug,
    Release,
    /// Built with the feature `panic-probe`: the shim panics inside on request.
    Panic,
}

/// The two flavours that every behaviour is tried in: what a cancellation or a panic does to a
/// frame differs between an optimised and an unoptimised build.
pub const FLAVOURS: [Flavour; 2] = [Flavour::Debug, Flavour::Release];

impl Flavour {
    /// The folder of the flavour below `build/`.
    pub fn dir(self) -> &'static str {
        match self {
            Flavour::Debug => "debug",
            Flavour::Release => "release",
            Flavour::Panic => "panic",
        }
    }
}

/// The top of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("tests/ lies in the repository").to_path_buf()
}

/// A path below the top of the repository.
pub fn path(relative: impl AsRef<Path>) -> PathBuf {
    root().join(relative)
}

/// A build product; panics with the command that makes it when it is not there.
pub fn product(relative: &str, made_by: &str) -> PathBuf {
    let found = path(relative);
    assert!(found.exists(), "{} is missing: run `{made_by}` in {}", found.display(), root().display());
    found
}

/// The shared library of one flavour.
pub fn shim(flavour: Flavour) -> PathBuf {
    product(
        &format!("build/{}/libibv_sa.so.1", flavour.dir()),
        &format!("make build/{}/libibv_sa.so.1", flavour.dir()),
    )
}

/// The folder of one flavour, for `-L` and `LD_LIBRARY_PATH`.
pub fn shim_dir(flavour: Flavour) -> PathBuf {
    shim(flavour).parent().expect("it has a folder").into()
}

/// The scripted provider: a test double with libibverbs's ABI and SONAME, no device behind it.
pub fn scripted() -> PathBuf {
    product("build/scripted/libibverbs.so.1", "make build/scripted/libibverbs.so.1")
}

/// The folder of the scripted provider, for `-L` and `LD_LIBRARY_PATH`.
pub fn scripted_dir() -> PathBuf {
    scripted().parent().expect("it has a folder").into()
}

/// Compiles a program of `ctests/harmless`, linked as any RDMA program is; the scripted provider lends its name.
pub fn harmless(name: &str) -> PathBuf {
    let dir = format!("-L{}", scripted_dir().display());
    cc(&format!("ctests/harmless/{name}.c"), &[&dir, "-libverbs"])
}

/// The same, linked with the shim, which comes first: `-libv_sa -libverbs`.
pub fn harmless_linked(name: &str, flavour: Flavour) -> PathBuf {
    let (ours, theirs) = (shim_dir(flavour), scripted_dir());
    let (ours, theirs) = (format!("-L{}", ours.display()), format!("-L{}", theirs.display()));
    cc(&format!("ctests/harmless/{name}.c"), &[&ours, &theirs, "-libv_sa", "-libverbs"])
}

/// Set-ID files, capabilities and mounts need root; without it such a test fails, it is not skipped.
pub fn need_root() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root: run `sudo make test`");
}

/// A tool on `PATH`; panics with what to install when it is not there.
pub fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("the tool `{name}` is missing: run `make setup`"))
}
