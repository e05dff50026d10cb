//! The ledger of this process, and of no other: a child starts with an empty one.
//!
//! The pointer to the ledger lies in a page that the kernel wipes in every child with memory of its own
//! (MADV_WIPEONFORK, madvise(2)): fork, `_Fork` and clone alike, where no atfork handler may run. The
//! parent's ledger is left behind in the child, untouched. After vfork the child shares the parent's memory
//! and counts for the parent.

use std::mem::size_of;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

use ibv_sa_ledger::Ledger;

use crate::clock;
use crate::sa::process::Process;

struct Page {
    ledger: AtomicPtr<Ledger>,
    /// The channels, registrations and events of [`crate::sa`].
    sa: AtomicPtr<Process>,
    /// See [`crate::watch`]: a child has no such thread.
    watch: AtomicU32,
}

static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::null_mut());

/// The ledger of this process, made at first use. `None` if there is no memory for it.
#[inline]
pub(crate) fn ledger() -> Option<&'static Ledger> {
    existing().or_else(first_use)
}

/// The ledger, if this process has used RDMA.
#[inline]
pub(crate) fn existing() -> Option<&'static Ledger> {
    // SAFETY: a non-null PAGE is a mapping made by `map` that is never unmapped.
    let page = unsafe { PAGE.load(Acquire).as_ref() }?;
    // SAFETY: a non-null ledger is a mapping as large as a Ledger, filled with zeros, which is a valid
    // Ledger (all atomics); it is never unmapped and only shared.
    unsafe { page.ledger.load(Acquire).as_ref() }
}

/// The page, made at first use.
fn page() -> Option<&'static Page> {
    if PAGE.load(Acquire).is_null() {
        let page = map::<Page>()?;
        wipe_on_fork(page);
        publish(&PAGE, page);
    }
    // SAFETY: as in `existing`.
    unsafe { PAGE.load(Acquire).as_ref() }
}

/// Where the pointer to what [`crate::sa`] has lies. `None` if there is no memory for it.
pub(crate) fn sa() -> Option<&'static AtomicPtr<Process>> {
    Some(&page()?.sa)
}

#[cold]
fn first_use() -> Option<&'static Ledger> {
    let page = page()?;
    let fresh = map::<Ledger>()?;
    // Most of it is never touched: huge pages would make it all resident. Without that advice it is only larger.
    // SAFETY: the range is a mapping of ours.
    unsafe { libc::madvise(fresh.cast(), size_of::<Ledger>(), libc::MADV_NOHUGEPAGE) };
    publish(&page.ledger, fresh);
    let ledger = existing()?;
    ledger.begin(clock::now());
    Some(ledger)
}

/// The state of this process's watching thread; `None` before the books exist.
pub(crate) fn watch() -> Option<&'static AtomicU32> {
    // SAFETY: as in `existing`.
    unsafe { PAGE.load(Acquire).as_ref() }.map(|page| &page.watch)
}

/// Puts `fresh` in place unless another thread was first; then gives it back.
pub(crate) fn publish<T>(place: &AtomicPtr<T>, fresh: *mut T) {
    if place.compare_exchange(std::ptr::null_mut(), fresh, AcqRel, Acquire).is_err() {
        // SAFETY: `fresh` came from `map::<T>` and nobody else has seen it.
        unsafe { libc::munmap(fresh.cast(), size_of::<T>()) };
    }
}

/// Zeroed memory straight from the kernel: malloc may be held by a thread that did not survive a fork.
pub(crate) fn map<T>() -> Option<*mut T> {
    // SAFETY: an anonymous private mapping has no preconditions (mmap(2)).
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<T>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    (memory != libc::MAP_FAILED).then_some(memory.cast())
}

fn wipe_on_fork(page: *mut Page) {
    // SAFETY: the range is a mapping of ours.
    let advised = unsafe { libc::madvise(page.cast(), size_of::<Page>(), libc::MADV_WIPEONFORK) };
    if advised != 0 {
        // Kernels before 4.14: at least fork(3) itself is covered.
        // SAFETY: the handler is a plain function of a library that is never unloaded (-z nodelete).
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    }
}

unsafe extern "C" fn forget() {
    // SAFETY: as in `existing`.
    if let Some(page) = unsafe { PAGE.load(Acquire).as_ref() } {
        page.watch.store(0, Release);
        page.sa.store(std::ptr::null_mut(), Release);
        page.ledger.store(std::ptr::null_mut(), Release);
    }
}
