//! The report at exit, written by a destructor: after the program's own exit handlers, so that destroys in
//! them are counted too.
//!
//! Nothing here takes a lock that another thread could hold for ever: counts are read while others may still
//! count.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ibv_sa_report::Report;

use crate::boundary::{contain, faulted, uncancelled};
use crate::settings::{self, Format};
use crate::{provider, state, stderr};

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

#[cfg_attr(test, allow(dead_code))]
extern "C" fn at_exit() {
    contain((), || uncancelled(write_report));
}

fn write_report() {
    let Some(report_to) = settings::if_read().and_then(|settings| settings.report.as_ref()) else { return };
    // No ledger: this process, perhaps a child of one that did, used no RDMA. A faulted one must say so.
    let snapshot = match state::existing() {
        Some(ledger) => ledger.snapshot(),
        None if faulted() => Default::default(),
        None => return,
    };
    let pid = std::process::id();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        pid,
        program: &program(),
        provider: &provider::name(),
        faulted: faulted(),
        lines_dropped: stderr::dropped(),
        snapshot: &snapshot,
    };
    let text = match report_to.format {
        Format::Text => report.text(),
        Format::Json => report.json(),
    };
    match &report_to.file {
        None => stderr::write_lines(&text),
        Some(pattern) => {
            let name = settings::expand(pattern, pid).expect("the pattern was checked when it was read");
            let path = Path::new(std::ffi::OsStr::from_bytes(&name));
            if let Err(error) = append(path, &text) {
                stderr::say(&format!(
                    "IBV_SA_REPORT: cannot write \"{}\": {error}; the report is lost",
                    path.to_string_lossy().escape_debug()
                ));
            }
        }
    }
}

/// Appends to a regular file that is not reached through a symbolic link, made with mode 0600.
fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        // O_NONBLOCK: opening a FIFO that nobody reads must fail, not wait.
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => io::Error::other("it is a symbolic link, which is not followed"),
            _ => error,
        })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    stderr::without_signals(|| file.write_all(text.as_bytes()))
}

fn program() -> String {
    unsafe extern "C" {
        static program_invocation_short_name: *const libc::c_char;
    }
    // SAFETY: glibc sets this to a C string before any code of the program runs, and never to NULL.
    let name = unsafe { std::ffi::CStr::from_ptr(program_invocation_short_name) };
    name.to_string_lossy().into_owned()
}
