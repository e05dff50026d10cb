//! The report at exit: after the program's own exit handlers and after the destructors of all libraries, so that
//! destroys in them are counted too.
//!
//! Counts are read while others may still count; nothing is locked, and nothing is taken from the program's malloc,
//! which a thread that called exit() in a signal handler may hold.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ibv_sa_report::Report;

use crate::boundary::{contain, faulted, uncancelled, without_books};
use crate::interpose::{backlog, completion};
use crate::settings::{self, Format};
use crate::{clock, provider, state, stderr};

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

unsafe extern "C" {
    /// Linux Standard Base, glibc: a handler without a library (NULL) runs at the very end of exit().
    fn __cxa_atexit(
        handler: extern "C" fn(*mut libc::c_void),
        argument: *mut libc::c_void,
        library: *mut libc::c_void,
    ) -> libc::c_int;
}

/// Our destructor runs among those of other libraries, in an order that says nothing: the report waits for all.
extern "C" fn at_exit() {
    if let Some(ledger) = state::existing()
        && !faulted()
    {
        contain((), || {
            backlog::look_at_all(ledger);
            completion::all_end(ledger, None);
        });
    }
    if settings::if_read().is_none_or(|settings| settings.report.is_none()) {
        return;
    }
    // SAFETY: the handler is a function of a library that is never unloaded (-z nodelete).
    if unsafe { __cxa_atexit(at_the_very_end, std::ptr::null_mut(), std::ptr::null_mut()) } != 0 {
        at_the_very_end(std::ptr::null_mut());
    }
}

extern "C" fn at_the_very_end(_: *mut libc::c_void) {
    contain((), || uncancelled(write_report));
}

fn write_report() {
    let Some(report_to) = settings::if_read().and_then(|settings| settings.report.as_ref()) else { return };
    // No ledger: this process, perhaps a child of one that did, used no RDMA; or it has to say why there is none.
    let snapshot = match state::existing() {
        Some(ledger) => ledger.snapshot(),
        None if faulted() || without_books() => Default::default(),
        None => return,
    };
    let pid = std::process::id();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        pid,
        ack_mode: settings::get().ack,
        hang_secs: settings::get().hang_secs,
        cq_mode: settings::get().cq.name(),
        times: (clock::now(), state::existing().map_or(0, |ledger| ledger.began())),
        program: &program(),
        provider: &provider::name(),
        faulted: faulted(),
        without_books: without_books(),
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
    let held = hold_standard_fds()?;
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
    drop(held);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    stderr::without_signals(|| write_whole(&mut file, text.as_bytes()))
}

/// In one piece or not at all: half a line would spoil the line that another process adds.
fn write_whole(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let written = file.write(bytes)?;
    if written == bytes.len() {
        return Ok(());
    }
    let end = file.stream_position()?;
    if file.metadata()?.len() == end {
        file.set_len(end - written as u64)?;
    }
    Err(io::Error::other("no space for all of it"))
}

/// A program that closed its fds 0 to 2 may still write there: the report's file must never be one of them. These
/// take the places meanwhile; with O_PATH they refuse reads and writes as a closed descriptor does (open(2)).
fn hold_standard_fds() -> io::Result<Vec<File>> {
    let mut held = Vec::new();
    loop {
        let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open("/")?;
        if place.as_raw_fd() > 2 {
            return Ok(held);
        }
        held.push(place);
    }
}

fn program() -> String {
    unsafe extern "C" {
        static program_invocation_short_name: *const libc::c_char;
    }
    // SAFETY: a C string that glibc sets before any code of the program runs; the program may have changed it.
    unsafe {
        if program_invocation_short_name.is_null() {
            return "unknown".into();
        }
        std::ffi::CStr::from_ptr(program_invocation_short_name).to_string_lossy().into_owned()
    }
}
