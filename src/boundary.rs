//! Where our own work ends and the program's begins.
//!
//! Work of ours runs inside [`bookkeeping`]: errno is as it was afterwards, a panic goes no further. One panic
//! switches all bookkeeping off for the rest of the process: the program goes on as if we were not there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use ibv_sa_ledger::Ledger;
use libc::c_int;

use crate::{settings, state, stderr};

/// The process in which a fault of ours has switched bookkeeping off; a child does not report its parent's fault.
static FAULTED_IN: AtomicU32 = AtomicU32::new(0);

/// The process that had no memory for the books.
static WITHOUT_BOOKS: AtomicU32 = AtomicU32::new(0);

/// Whether bookkeeping is done: not known before the first RDMA call has read the settings.
static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// Whether a fault of ours has switched bookkeeping off in this process.
pub(crate) fn faulted() -> bool {
    FAULTED_IN.load(Relaxed) == std::process::id()
}

/// Whether this process should have counted and had no memory for it.
pub(crate) fn without_books() -> bool {
    WITHOUT_BOOKS.load(Relaxed) == std::process::id()
}

/// False once a fault of ours has switched bookkeeping off: callers then skip even the call to theirs.
#[inline]
pub(crate) fn counting() -> bool {
    MODE.load(Relaxed) != OFF
}

/// Runs `work` on the books of this process, unless a fault of ours has switched that off.
#[inline]
pub(crate) fn bookkeeping(work: impl FnOnce(&'static Ledger)) {
    let mode = MODE.load(Relaxed);
    if mode == OFF || (mode == UNKNOWN && first_use() == OFF) {
        return;
    }
    contain((), || {
        if cfg!(feature = "panic-probe") {
            panic!("panic probe");
        }
        match state::ledger() {
            Some(ledger) => work(ledger),
            None => WITHOUT_BOOKS.store(std::process::id(), Relaxed),
        }
    });
}

#[cold]
#[inline(never)]
fn first_use() -> u8 {
    let mode = contain(OFF, || {
        settings::get();
        ON
    });
    // A fault that another thread met meanwhile stays.
    let _ = MODE.compare_exchange(UNKNOWN, mode, Relaxed, Relaxed);
    mode
}

/// Runs `work` with errno kept; a panic becomes one line on stderr and the value `otherwise`.
#[inline]
pub(crate) fn contain<R>(otherwise: R, work: impl FnOnce() -> R) -> R {
    let errno = errno();
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        FAULTED_IN.store(std::process::id(), Relaxed);
        MODE.store(OFF, Relaxed);
        // A panic's payload may itself panic when dropped.
        std::mem::forget(panic);
        otherwise
    });
    set_errno(errno);
    result
}

/// Replaces the panic message of the standard library, which writes to stderr whatever became of it.
pub(crate) fn silence_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(|l| format!("{}:{}", l.file(), l.line())).unwrap_or_default();
        stderr::say(&format!(
            "internal error at {place}: {message}; counting is off, the program goes on without it"
        ));
    }));
}

/// This thread's errno.
#[inline]
pub(crate) fn errno() -> c_int {
    // SAFETY: __errno_location (errno(3)) always returns this thread's valid errno.
    unsafe { *libc::__errno_location() }
}

/// Sets this thread's errno.
#[inline]
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Runs `work`, which may block or do I/O, with cancellation of this thread held off
/// (pthread_setcancelstate(3)): a cancellation in the middle of our code would abort the program.
pub(crate) fn uncancelled<R>(work: impl FnOnce() -> R) -> R {
    const PTHREAD_CANCEL_DISABLE: c_int = 1;
    let mut old = 0;
    // SAFETY: the out pointer is valid; the call has no other precondition.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut old) };
    let result = work();
    // SAFETY: restores the value read above.
    unsafe { pthread_setcancelstate(old, &mut old) };
    result
}
