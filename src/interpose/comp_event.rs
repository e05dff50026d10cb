//! Completion events: read and acknowledged.

use crate::abi::*;
use crate::boundary::{bookkeeping, counting};
use crate::forward::absent;
use crate::interpose::context::adopt_into;
use crate::provider::real;

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let Some(function) = real::ibv_get_cq_event() else { return absent!(minus1) };
    // SAFETY: the caller's promises are those that the real function asks for. The thread may be cancelled in
    // here; nothing of ours is held.
    let result = unsafe { function(channel, cq, cq_context) };
    if result == 0 && counting() {
        // SAFETY: the real function has stored the CQ and looked into it to hand out its cq_context.
        unsafe { got(*cq) };
    }
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    let Some(function) = real::ibv_ack_cq_events() else { return absent!(void) };
    // Counted before the call: once a destroy may go on, the CQ may be gone.
    if counting() {
        // SAFETY: the caller passes a live CQ.
        unsafe { acked(cq, nevents) };
    }
    // SAFETY: the caller's promises are those that the real function asks for.
    unsafe { function(cq, nevents) };
}

/// # Safety
/// `cq` is live.
#[inline(never)]
unsafe extern "C" fn got(cq: *mut ibv_cq) {
    bookkeeping(|ledger| {
        // SAFETY: a live CQ has an open context.
        let context = unsafe {
            let context = (*cq).context;
            adopt_into(ledger, context);
            context
        };
        ledger.comp_event_got(cq.addr(), context.addr());
    });
}

/// # Safety
/// `cq` is live.
#[inline(never)]
unsafe extern "C" fn acked(cq: *mut ibv_cq, nevents: c_uint) {
    bookkeeping(|ledger| {
        // SAFETY: live, as the caller promises.
        let context = unsafe { (*cq).context };
        ledger.comp_events_acked(cq.addr(), context.addr(), nevents);
    });
}
