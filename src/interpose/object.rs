//! Creation and destruction of QPs, CQs, SRQs and completion channels.
//!
//! WQs, and objects made by the extended calls, are made through pointers in the context:
//! [`crate::interpose::trampoline`].

use ibv_sa_ledger::Kind;

use crate::abi::*;
use crate::boundary::{bookkeeping, counting};
use crate::forward::absent;
use crate::interpose::context::{adopt, adopt_into};
use crate::provider::real;

/// The context an object belongs to; NULL for a NULL object.
macro_rules! context_of {
    ($object:expr) => {
        if $object.is_null() { core::ptr::null_mut() } else { (*$object).context }
    };
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    let Some(function) = real::ibv_create_cq() else { return absent!(null) };
    // SAFETY: the caller passes an open context, as the real function demands.
    unsafe { adopt(context) };
    // SAFETY: the caller's promises are those that the real function asks for.
    let cq = unsafe { function(context, cqe, cq_context, channel, comp_vector) };
    cq_created(cq, context);
    cq
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn ibv_create_qp(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    let Some(function) = real::ibv_create_qp() else { return absent!(null) };
    // SAFETY: the caller's promises are those that the real function asks for.
    let qp = unsafe { function(pd, attr) };
    // SAFETY: NULL or a QP that the real function has just made.
    unsafe { created_in(Kind::Qp, qp.cast(), context_of!(qp)) };
    qp
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn ibv_create_srq(
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    let Some(function) = real::ibv_create_srq() else { return absent!(null) };
    // SAFETY: the caller's promises are those that the real function asks for.
    let srq = unsafe { function(pd, attr) };
    // SAFETY: NULL or an SRQ that the real function has just made.
    unsafe { created_in(Kind::Srq, srq.cast(), context_of!(srq)) };
    srq
}

/// A binary of the 1.0 ABI passes another structure here: the context is never looked into.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    let Some(function) = real::ibv_create_comp_channel() else { return absent!(null) };
    // SAFETY: the caller's promises are those that the real function asks for.
    let channel = unsafe { function(context) };
    created(Kind::CompChannel, channel.cast(), context);
    channel
}

macro_rules! destroys {
    ($($name:ident($object:ident: $ty:ty), $kind:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($object: *mut $ty) -> c_int {
            let Some(function) = real::$name() else { return absent!(errno) };
            // SAFETY: the caller passes a live object; after the call it may be gone.
            let context = unsafe { context_of!($object) };
            if Kind::$kind == Kind::Cq && counting() {
                cq_going($object.addr());
            }
            // SAFETY: the caller's promises are those that the real function asks for.
            let result = unsafe { function($object) };
            destroyed(Kind::$kind, context, result);
            result
        }
    )*};
}

destroys! {
    ibv_destroy_qp(qp: ibv_qp), Qp;
    ibv_destroy_cq(cq: ibv_cq), Cq;
    ibv_destroy_srq(srq: ibv_srq), Srq;
    ibv_destroy_comp_channel(channel: ibv_comp_channel), CompChannel;
}

#[inline(never)]
pub(crate) extern "C" fn created(kind: Kind, object: *mut c_void, context: *mut ibv_context) {
    if !object.is_null() {
        bookkeeping(|ledger| ledger.created(kind, context.addr()));
    }
}

/// As [`created`], and adopts the context.
///
/// # Safety
/// `context` is open unless `object` is NULL.
#[inline(never)]
unsafe extern "C" fn created_in(kind: Kind, object: *mut c_void, context: *mut ibv_context) {
    if !object.is_null() && !context.is_null() {
        bookkeeping(|ledger| {
            // SAFETY: open, as the caller promises.
            unsafe { adopt_into(ledger, context) };
            ledger.created(kind, context.addr());
        });
    }
}

#[inline(never)]
extern "C" fn cq_created(cq: *mut ibv_cq, context: *mut ibv_context) {
    if !cq.is_null() {
        bookkeeping(|ledger| ledger.cq_created(cq.addr(), context.addr()));
    }
}

/// Before the destroy: once that returns, another thread may have a new CQ at this address.
#[inline(never)]
extern "C" fn cq_going(cq: usize) {
    bookkeeping(|ledger| ledger.cq_gone(cq));
}

#[inline(never)]
pub(crate) extern "C" fn destroyed(kind: Kind, context: *mut ibv_context, result: c_int) {
    if result == 0 {
        bookkeeping(|ledger| ledger.destroyed(kind, context.addr()));
    }
}
