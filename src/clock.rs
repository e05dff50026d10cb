//! The time, and the thread that we run in.

use ibv_sa_ledger::Thread;

/// Nanoseconds of CLOCK_MONOTONIC, exact to a few milliseconds: ages are told in tenths of a second, and the coarse
/// clock costs a tenth of the exact one (clock_gettime(2)).
#[inline]
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the out pointer is valid; this clock always exists (Linux 2.6.32).
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// This thread's id. Asked of the kernel each time: memory of our own for each thread may, in a library that was
/// opened late, have to be allocated at first touch, by a malloc that a signal handler must not call.
#[inline]
pub(crate) fn tid() -> u32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() as u32 }
}

/// This thread, with its name.
pub(crate) fn me() -> Thread {
    let mut name = [0; 16];
    // SAFETY: PR_GET_NAME fills at most 16 bytes (prctl(2)).
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    Thread { tid: tid(), name }
}
