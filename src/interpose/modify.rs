//! `ibv_modify_qp`: who a QP's peer is, and whether the program itself ends it.

use ibv_sa_ledger::{Address, Moving};

use crate::abi::*;
use crate::boundary::{bookkeeping, counting};
use crate::clock;
use crate::forward::absent;
use crate::interpose::{completion, removal};
use crate::provider::real;
use crate::settings::{self, CqMode};

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    let Some(function) = real::ibv_modify_qp() else { return absent!(errno) };
    if !counting() || qp.is_null() || attr.is_null() {
        // SAFETY: the caller's promises are those that the real function asks for.
        return unsafe { function(qp, attr, attr_mask) };
    }
    // SAFETY: the caller passes a live QP and valid attributes, which the call leaves alive.
    unsafe {
        let moving = before(qp, attr, attr_mask);
        let result = function(qp, attr, attr_mask);
        after(qp, attr, attr_mask, &moving, result);
        result
    }
}

/// # Safety
/// `qp` is live, `attr` has the members that the mask names.
#[inline(never)]
unsafe extern "C" fn before(qp: *mut ibv_qp, attr: *const ibv_qp_attr, mask: c_int) -> Moving {
    let mut moving = Moving::default();
    bookkeeping(|ledger| {
        if settings::get().cq == CqMode::Off || mask as u32 & IBV_QP_STATE == 0 {
            return;
        }
        // SAFETY: as the caller promises.
        let (context, number, to) = unsafe { ((*qp).context.addr(), (*qp).qp_num, (*attr).qp_state) };
        if to == IBV_QPS_RESET {
            completion::qp_ends(ledger, ledger.qp_numbered(context, number));
        }
        moving = ledger.qp_moves(context, number, to, clock::tid(), clock::now());
    });
    moving
}

/// # Safety
/// As [`before`].
#[inline(never)]
unsafe extern "C" fn after(
    qp: *mut ibv_qp,
    attr: *const ibv_qp_attr,
    mask: c_int,
    moving: &Moving,
    result: c_int,
) {
    bookkeeping(|ledger| {
        // SAFETY: as the caller promises.
        let (context, number) = unsafe { ((*qp).context, (*qp).qp_num) };
        if result == libc::EIO {
            // SAFETY: the context of a live QP is open.
            let fd = unsafe { (*context).async_fd };
            removal::command_failed(ledger, context.addr(), fd, "ibv_modify_qp");
        }
        if settings::get().cq == CqMode::Off {
            return;
        }
        ledger.qp_moved(moving, result == 0);
        if result == 0 && mask as u32 & (IBV_QP_AV | IBV_QP_DEST_QPN) != 0 {
            // SAFETY: as the caller promises.
            let (peer, address) = unsafe { peer(&*attr, mask as u32) };
            ledger.qp_peer_is(context.addr(), number, peer, address);
        }
    });
}

/// # Safety
/// `attr` has the members that the mask names.
unsafe fn peer(attr: &ibv_qp_attr, mask: u32) -> (Option<u32>, Option<Address>) {
    let number = if mask & IBV_QP_DEST_QPN == 0 { None } else { Some(attr.dest_qp_num) };
    // What the mask does not name may be uninitialised.
    let address = if mask & IBV_QP_AV == 0 {
        None
    } else if attr.ah_attr.is_global == 0 {
        Some(Address::Lid(attr.ah_attr.dlid))
    } else {
        // SAFETY: all members of the union are the same 16 bytes.
        Some(Address::Gid(unsafe { attr.ah_attr.grh.dgid.raw }))
    };
    (number, address)
}
