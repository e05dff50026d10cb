//! Lines on the program's stderr, which is not ours.
//!
//! Never a signal, never a wait, never into a file that has taken the place of stderr since we first looked.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::boundary::uncancelled;

/// Device and inode of fd 2 when the first RDMA call was made; inode 0 means: not known, stay silent.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// Lines that could not be written, and in which process: a child does not answer for its parent.
static DROPPED: AtomicU64 = AtomicU64::new(0);
static DROPPED_IN: AtomicU32 = AtomicU32::new(0);

/// Notes which file stderr is now.
pub(crate) fn remember_identity() {
    if let Some(status) = status() {
        DEVICE.store(status.st_dev, Relaxed);
        INODE.store(status.st_ino, Release);
    }
}

/// Lines that this process could not write.
pub(crate) fn dropped() -> u64 {
    if DROPPED_IN.load(Relaxed) == std::process::id() { DROPPED.load(Relaxed) } else { 0 }
}

fn drop_lines(number: usize) {
    let pid = std::process::id();
    if DROPPED_IN.swap(pid, Relaxed) != pid {
        DROPPED.store(0, Relaxed);
    }
    DROPPED.fetch_add(number as u64, Relaxed);
}

/// Writes one line with our prefix, or counts it as dropped. What comes from other hands (variables, file names,
/// other libraries' errors) may be in it: nothing in the line can move a terminal's cursor or forge another line.
pub(crate) fn say(line: &str) {
    let line: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    write_lines(&format!("ibv_sa[{}]: {line}\n", std::process::id()));
}

/// Writes lines that have their prefix already, or counts those that cannot be written.
pub(crate) fn write_lines(lines: &str) {
    uncancelled(|| {
        for block in blocks(lines) {
            // A pipe takes up to PIPE_BUF bytes whole (pipe(7)), so that lines of processes do not mix; a JSON
            // line may be longer.
            if !block.as_bytes().chunks(libc::PIPE_BUF).all(write_now) {
                drop_lines(block.matches('\n').count());
            }
        }
    });
}

/// Cuts after line ends, into blocks as large as possible of at most PIPE_BUF bytes; a longer line is a block.
fn blocks(mut lines: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if lines.is_empty() {
            return None;
        }
        let mut end = 0;
        for line in lines.split_inclusive('\n') {
            if end != 0 && end + line.len() > libc::PIPE_BUF {
                break;
            }
            end += line.len();
        }
        let (block, rest) = lines.split_at(end);
        lines = rest;
        Some(block)
    })
}

fn status() -> Option<libc::stat> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat fills the structure when it returns 0 (stat(2)).
    unsafe { (libc::fstat(2, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
}

/// Writes if that can be done at once and stderr is still the file that it was.
fn write_now(bytes: &[u8]) -> bool {
    let inode = INODE.load(Acquire);
    let Some(status) = status() else { return false };
    if inode == 0 || (status.st_dev, status.st_ino) != (DEVICE.load(Relaxed), inode) {
        return false;
    }
    let mut ready = libc::pollfd { fd: 2, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one valid pollfd; a timeout of 0 never waits.
    let polled = unsafe { libc::poll(&mut ready, 1, 0) };
    if polled != 1 || ready.revents != libc::POLLOUT {
        return false;
    }
    let written = without_signals(|| match status.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => {
            // SAFETY: the buffer is valid for its length.
            result(unsafe { libc::send(2, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) })
        }
        libc::S_IFCHR | libc::S_IFIFO => write_unblocked(bytes),
        _ => write_to(2, bytes),
    });
    written.is_ok_and(|written| written == bytes.len())
}

/// Writes to a terminal or pipe without waiting. Ready means that one byte fits, and O_NONBLOCK on fd 2 itself would
/// be seen by all who share it: so through a descriptor of our own.
fn write_unblocked(bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string (proc(5)).
    match unsafe { libc::open(c"/proc/self/fd/2".as_ptr(), flags) } {
        // No /proc, no descriptor left or no right to open what was handed to us: then as it is.
        -1 => write_to(2, bytes),
        own => {
            let written = write_to(own, bytes);
            // SAFETY: `own` was opened above and is ours alone.
            unsafe { libc::close(own) };
            written
        }
    }
}

fn write_to(fd: libc::c_int, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    result(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
}

fn result(written: isize) -> io::Result<usize> {
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Runs `write` so that this process never sees the signals it may raise: SIGPIPE for a pipe without a reader,
/// SIGXFSZ for a file at its size limit (setrlimit(2)), SIGTTOU for a background job's terminal (which lets a write
/// through while the signal is blocked, termios(3)).
pub(crate) fn without_signals<R>(write: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    // SAFETY: all sets are initialised before use; the mask is restored to what it was. A signal that was
    // pending before stays pending; one that our write raised is directed at this thread (signal(7)) and is
    // taken by sigtimedwait, which does not wait with a zero timeout.
    unsafe {
        let mut ours: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut ours);
        libc::sigaddset(&mut ours, libc::SIGPIPE);
        libc::sigaddset(&mut ours, libc::SIGXFSZ);
        libc::sigaddset(&mut ours, libc::SIGTTOU);
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut pending);
        let mut old: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &ours, &mut old);
        let result = write();
        let raised = match result.as_ref().err().and_then(io::Error::raw_os_error) {
            Some(libc::EPIPE) => Some(libc::SIGPIPE),
            Some(libc::EFBIG) => Some(libc::SIGXFSZ),
            _ => None,
        };
        if let Some(signal) = raised
            && libc::sigismember(&pending, signal) == 0
        {
            let mut one: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut one);
            libc::sigaddset(&mut one, signal);
            let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&one, std::ptr::null_mut(), &zero);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_at_line_ends_and_fit_a_pipe() {
        let text = "x".repeat(99) + "\n";
        let text = text.repeat(100) + &"y".repeat(5000) + "\nlast\n";
        let parts: Vec<&str> = blocks(&text).collect();
        assert_eq!(parts.concat(), text);
        assert_eq!(parts.iter().filter(|part| part.len() > libc::PIPE_BUF).count(), 1);
        assert!(parts.iter().all(|part| part.ends_with('\n')));
        assert_eq!(parts[0].len(), 4000);
    }
}
