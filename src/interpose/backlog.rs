//! Asynchronous events that a reader leaves queued.
//!
//! An edge-triggered reader (epoll(7), EPOLLET) is told once that there are events, and must read until EAGAIN. One that
//! stops before never hears of the rest. There is no thread of ours that could look: each call that is not on the data
//! path looks whether it is time to.

use ibv_sa_ledger::{Ledger, What};
use ibv_sa_report::lines;

use crate::boundary::uncancelled;
use crate::{clock, tell, watch};

#[inline]
pub(crate) fn look(ledger: &Ledger, context: usize, now: u64) {
    if let Some(fd) = ledger.look_for_backlog(context, now, watch::patience()) {
        look_at(ledger, context, now, fd);
    }
}

/// At exit: the second look, perhaps, where there was a first one.
pub(crate) fn look_at_all(ledger: &Ledger) {
    let now = clock::now();
    for context in ledger.open_contexts() {
        look(ledger, context, now);
    }
}

#[cold]
fn look_at(ledger: &Ledger, context: usize, now: u64, fd: i32) {
    let queued = uncancelled(|| is_nonblocking(fd) && is_readable(fd));
    if let Some(since) = ledger.backlog_found(context, now, queued) {
        let name = ledger.context_name(context);
        let text = lines::backlog(&name, now - since);
        tell::incident(ledger, What::Backlog, name.id, clock::tid(), &text);
    }
}

/// A reader whose descriptor blocks comes back when poll(2) says so; it cannot read until EAGAIN.
fn is_nonblocking(fd: i32) -> bool {
    // SAFETY: F_GETFL takes no argument; a descriptor that is not open gives -1.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags != -1 && flags & libc::O_NONBLOCK != 0
}

fn is_readable(fd: i32) -> bool {
    poll_now(fd) & libc::POLLIN != 0
}

/// Whether something can be read from a descriptor now.
pub(crate) fn has_event(fd: i32) -> bool {
    uncancelled(|| is_readable(fd))
}

/// Whether the device behind a context's descriptor is gone: the kernel says so by POLLERR (poll(2)).
pub(crate) fn has_error(fd: i32) -> bool {
    uncancelled(|| poll_now(fd)) & (libc::POLLERR | libc::POLLHUP) != 0
}

fn poll_now(fd: i32) -> i16 {
    let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd; a timeout of 0 never waits.
    unsafe { libc::poll(&mut ready, 1, 0) };
    ready.revents
}
