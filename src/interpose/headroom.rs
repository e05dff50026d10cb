//! Headroom of CQs, where all completions are counted: what objects are made with, and what is said.

use ibv_sa_ledger::{Kind, Ledger, NewWork, Token, Unchecked, What};
use ibv_sa_report::headroom as lines;

use crate::abi::*;
use crate::boundary::bookkeeping;
use crate::provider;
use crate::settings::{self, CqMode};
use crate::{clock, tell};

fn is_counted() -> bool {
    settings::get().cq == CqMode::Full
}

/// A CQ was created, or resized: it is in the books.
///
/// # Safety
/// `cq` is live.
pub(super) unsafe fn cq_sized(ledger: &Ledger, cq: *mut ibv_cq) {
    if is_counted() {
        // SAFETY: live, as the caller promises.
        let (depth, channel) = unsafe { ((*cq).cqe, (*cq).channel) };
        ledger.cq_depth(cq.addr(), u32::try_from(depth).unwrap_or(0), None);
        ledger.cq_has_channel(cq.addr(), channel.addr());
    }
}

/// An extended CQ was created.
///
/// # Safety
/// `cq` is live; `attr` is what it was created with.
pub(super) unsafe fn extended_cq_created(
    ledger: &Ledger,
    cq: *mut ibv_cq_ex,
    attr: *const ibv_cq_init_attr_ex,
) {
    if settings::get().cq == CqMode::Off {
        return;
    }
    // SAFETY: live, as the caller promises, and so is its context.
    let repeats = unsafe { repeats_completions((*cq).context) };
    if repeats {
        ledger.cq_repeats(cq.addr());
    }
    if !is_counted() {
        return;
    }
    // SAFETY: as the caller promises.
    let (ignores, tells) = unsafe {
        let ignores = (*attr).comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0
            && (*attr).flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0;
        (ignores, ledger.tells_qp(cq.addr()) && (*cq).read_opcode.is_some())
    };
    for (holds, why) in
        [(ignores, Unchecked::IgnoresOverrun), (!tells, Unchecked::NoQpNum), (repeats, Unchecked::Repeats)]
    {
        if holds {
            ledger.uncheck_cq(cq.addr(), why);
        }
    }
}

/// Whether an extended CQ of this context gives completions again when a batch has ended: Soft-RoCE, before rdma-core
/// 59. A sysfs file of that name is rxe's alone.
///
/// # Safety
/// `context` is open.
unsafe fn repeats_completions(context: *mut ibv_context) -> bool {
    // SAFETY: an open context has a device, whose path is a C string that does not change.
    let path = unsafe {
        let device = (*context).device;
        if device.is_null() {
            return false;
        }
        let path = &raw const (*device).ibdev_path;
        core::slice::from_raw_parts(path.cast::<u8>(), size_of_val(&*path))
    };
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    provider::is_rxe(&path[..end]) && provider::is_before_59()
}

/// A QP was created: it is in the books. `posts_by_wr`: it can post through `ibv_wr_*`.
///
/// # Safety
/// `qp` is NULL or live, and nobody else has seen it yet.
#[inline(never)]
pub(super) unsafe extern "C" fn qp_created(qp: *mut ibv_qp, sq_sig_all: c_int, posts_by_wr: bool) {
    if qp.is_null() {
        return;
    }
    bookkeeping(|ledger| {
        if !is_counted() {
            return;
        }
        // SAFETY: live, as the caller promises; an extended QP begins as a plain one does.
        let qp_ref = unsafe { &*qp };
        let in_order = matches!(
            qp_ref.qp_type,
            IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_UD | IBV_QPT_RAW_PACKET | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV
        );
        let unchecked = match (in_order, posts_by_wr) {
            (false, _) => Some(Unchecked::OtherQp),
            (true, true) => Some(Unchecked::WrApi),
            (true, false) => None,
        };
        ledger.work_begins(&NewWork {
            context: qp_ref.context.addr(),
            qp: qp.addr(),
            number: qp_ref.qp_num,
            send_cq: qp_ref.send_cq.addr(),
            recv_cq: qp_ref.recv_cq.addr(),
            srq: qp_ref.srq.addr(),
            all_signalled: sq_sig_all != 0,
            unchecked,
        });
    });
}

/// An SRQ was created; `cq` is where it completes if that is not what its QPs say, or NULL.
///
/// # Safety
/// `srq` is NULL or live.
#[inline(never)]
pub(super) unsafe extern "C" fn srq_created(srq: *mut ibv_srq, cq: *mut ibv_cq) {
    if !srq.is_null() {
        bookkeeping(|ledger| {
            if is_counted() {
                ledger.srq_begins(srq.addr(), cq.addr());
            }
        });
    }
}

/// A WQ was created.
///
/// # Safety
/// `wq` is NULL or live.
#[inline(never)]
pub(super) unsafe extern "C" fn wq_created(wq: *mut ibv_wq) {
    if !wq.is_null() {
        bookkeeping(|ledger| {
            if is_counted() {
                // SAFETY: live, as the caller promises.
                ledger.uncheck_cq(unsafe { (*wq).cq.addr() }, Unchecked::OtherQueue);
            }
        });
    }
}

/// More is outstanding than fits into this CQ.
#[cold]
#[inline(never)]
pub(super) fn say(ledger: &Ledger, cq: Token) {
    if let Some((Kind::Cq, address)) = ledger.address_of(cq)
        && let Some(line) = ledger.cq_line(address)
    {
        tell::incident(ledger, What::CqHeadroom, line.name.context.id, clock::tid(), &lines::exceeded(&line));
    }
}

/// CQ_ERR was read, for the first time of this CQ.
///
/// # Safety
/// `cq` is live.
pub(super) unsafe fn cq_failed(ledger: &Ledger, cq: *mut ibv_cq) {
    if !is_counted() {
        return;
    }
    if let Some(line) = ledger.cq_line(cq.addr()) {
        // SAFETY: live, as the caller promises.
        let depth = u32::try_from(unsafe { (*cq).cqe }).unwrap_or(0);
        let text = lines::failed(&line, depth);
        tell::incident(ledger, What::CqError, line.name.context.id, clock::tid(), &text);
    }
}
