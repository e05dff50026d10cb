//! `ibv_resize_cq`: a CQ's depth as it is granted.

use crate::abi::*;
use crate::boundary::{bookkeeping, counting};
use crate::forward::absent;
use crate::interpose::{headroom, removal};
use crate::provider::real;

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    let Some(function) = real::ibv_resize_cq() else { return absent!(errno) };
    // SAFETY: the caller's promises are those that the real function asks for.
    let result = unsafe { function(cq, cqe) };
    if counting() && !cq.is_null() {
        // SAFETY: the caller passes a live CQ, which the call leaves alive.
        unsafe { resized(cq, result) };
    }
    result
}

/// # Safety
/// `cq` is live.
#[inline(never)]
unsafe extern "C" fn resized(cq: *mut ibv_cq, result: c_int) {
    bookkeeping(|ledger| match result {
        // SAFETY: live, as the caller promises.
        0 => unsafe { headroom::cq_sized(ledger, cq) },
        libc::EIO => {
            // SAFETY: the context of a live CQ is open.
            let (context, fd) = unsafe { ((*cq).context.addr(), (*(*cq).context).async_fd) };
            removal::command_failed(ledger, context, fd, "ibv_resize_cq");
        }
        _ => {}
    });
}
