//! Asynchronous events: read and acknowledged.

use crate::abi::*;
use crate::boundary::{bookkeeping, counting};
use crate::forward::absent;
use crate::interpose::context::adopt_into;
use crate::provider::real;

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let Some(function) = real::ibv_get_async_event() else { return absent!(minus1) };
    // SAFETY: the caller's promises are those that the real function asks for. The thread may be cancelled in
    // here; nothing of ours is held.
    let result = unsafe { function(context, event) };
    if result == 0 && counting() {
        // SAFETY: the real function has filled the event in; the context is open while it is read.
        unsafe { got(context, (*event).event_type) };
    }
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    let Some(function) = real::ibv_ack_async_event() else { return absent!(void) };
    // Counted before the call: once a destroy may go on, the event's memory may be gone.
    if counting() {
        // SAFETY: the caller passes an event that it has read.
        unsafe { acked((*event).event_type) };
    }
    // SAFETY: the caller's promises are those that the real function asks for.
    unsafe { function(event) };
}

/// # Safety
/// `context` is open.
#[inline(never)]
unsafe extern "C" fn got(context: *mut ibv_context, event_type: c_uint) {
    bookkeeping(|ledger| {
        // SAFETY: open, as the caller promises.
        unsafe { adopt_into(ledger, context) };
        ledger.async_event_got(context.addr(), event_type);
    });
}

#[inline(never)]
extern "C" fn acked(event_type: c_uint) {
    bookkeeping(|ledger| ledger.async_event_acked(event_type));
}
