//! Compiling the C programs of `ctests/`.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

use crate::{path, tool};

/// The C compilers that the programs must pass without a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compiler {
    Gcc,
    Clang,
}

impl Compiler {
    fn command(self) -> &'static str {
        match self {
            Compiler::Gcc => "gcc",
            Compiler::Clang => "clang",
        }
    }
}

const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"];

/// Compiles one C file (path below the top of the repository) with gcc. The arguments come after
/// the file name, so libraries can be among them.
pub fn cc(source: &str, args: &[&str]) -> PathBuf {
    cc_with(Compiler::Gcc, source, args)
}

/// As [`cc`], with a compiler of choice. The product is kept in `build/ctests` until the source, a
/// header that it includes or a library named by its full path is newer.
pub fn cc_with(compiler: Compiler, source: &str, args: &[&str]) -> PathBuf {
    // Two tests may ask for the same program; the second then finds it made.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());

    let from = path(source);
    assert!(from.exists(), "{} is missing", from.display());
    let mut hasher = DefaultHasher::new();
    (compiler, &from, args).hash(&mut hasher);
    let stem = from.file_stem().expect("a file name").to_string_lossy();
    let name = format!("{stem}-{:016x}", hasher.finish());
    let dir = path("build/ctests");
    fs::create_dir_all(&dir).expect("build/ctests can be made");
    let exe = dir.join(&name);
    let deps = dir.join(format!("{name}.d"));
    if is_fresh(&exe, &deps, args) {
        return exe;
    }

    // Renamed into place: another process may be running or making the same file.
    let made = dir.join(format!("{name}.{}", std::process::id()));
    let output = Command::new(tool(compiler.command()))
        .args(STRICT)
        .args(["-MMD", "-MF"])
        .arg(&deps)
        .arg("-I")
        .arg(path("testbed/scripted"))
        .arg("-I")
        .arg(path("ctests"))
        .arg("-I")
        .arg(path("include"))
        .arg("-o")
        .arg(&made)
        .arg(&from)
        .args(args)
        .output()
        .expect("the compiler starts");
    assert!(
        output.status.success(),
        "{} {source} {args:?}:\n{}",
        compiler.command(),
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(&made, &exe).expect("rename in build/ctests");
    exe
}

fn is_fresh(exe: &Path, deps: &Path, args: &[&str]) -> bool {
    let Some(made) = modified(exe) else {
        return false;
    };
    let Ok(rule) = fs::read_to_string(deps) else {
        return false;
    };
    let sources = rule.split_once(':').map_or("", |(_, rest)| rest);
    let sources = sources.split_whitespace().filter(|word| *word != "\\");
    let libraries = args.iter().copied().filter(|arg| arg.starts_with('/'));
    sources.chain(libraries).all(|file| modified(Path::new(file)).is_some_and(|time| time <= made))
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|meta| meta.modified()).ok()
}

/// A name for a file or a folder made from free text.
pub fn clean_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
