//! Creation and destruction of QPs, CQs, SRQs and completion channels.
//!
//! WQs, and objects made by the extended calls, are made through pointers in the context:
//! [`crate::interpose::trampoline`].

use ibv_sa_ledger::{Created, Handed, Ident, Kind, NewQp};

use crate::abi::*;
use crate::boundary::{bookkeeping, counting, errno};
use crate::clock;
use crate::forward::absent;
use crate::interpose::context::{self, adopt, adopt_into};
use crate::interpose::destroy;
use crate::interpose::hand_over::hand_over;
use crate::interpose::{backlog, headroom, removal};
use crate::provider::real;
use crate::settings::{self, CqMode};

/// The context an object belongs to; NULL for a NULL object.
macro_rules! context_of {
    ($object:expr) => {
        if $object.is_null() { core::ptr::null_mut() } else { (*$object).context }
    };
}

/// What people know an object by.
///
/// # Safety
/// `object` is alive and of this kind.
pub(crate) unsafe fn ident(kind: Kind, object: *mut c_void) -> Ident {
    let (number, handle);
    // SAFETY: as the caller promises; these members do not change. An extended CQ or QP begins as a plain one does.
    unsafe {
        match kind {
            Kind::Qp => {
                let qp: *mut ibv_qp = object.cast();
                (number, handle) = ((*qp).qp_num, (*qp).handle);
            }
            Kind::Wq => {
                let wq: *mut ibv_wq = object.cast();
                (number, handle) = ((*wq).wq_num, (*wq).handle);
            }
            Kind::Cq => {
                let cq: *mut ibv_cq = object.cast();
                (number, handle) = (0, (*cq).handle);
            }
            Kind::Srq => {
                let srq: *mut ibv_srq = object.cast();
                (number, handle) = (0, (*srq).handle);
            }
            Kind::CompChannel => {
                let channel: *mut ibv_comp_channel = object.cast();
                (number, handle) = ((*channel).fd as u32, 0);
            }
        }
    }
    Ident { number, handle }
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
    let began = clock::now();
    // SAFETY: the caller's promises are those that the real function asks for.
    let cq = unsafe { function(context, cqe, cq_context, channel, comp_vector) };
    // SAFETY: NULL or a CQ that the real function has just made.
    unsafe { created(Kind::Cq, cq.cast(), context, began) };
    cq
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn ibv_create_qp(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    let Some(function) = real::ibv_create_qp() else { return absent!(null) };
    let began = clock::now();
    // SAFETY: the caller's promises are those that the real function asks for.
    let qp = unsafe { function(pd, attr) };
    // SAFETY: NULL or a QP that the real function has just made; the caller's PD is alive.
    unsafe {
        let context = if qp.is_null() { context_if_gone(pd) } else { (*qp).context };
        created(Kind::Qp, qp.cast(), context, began);
        if !attr.is_null() {
            headroom::qp_created(qp, (*attr).sq_sig_all, false);
        }
    }
    qp
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn ibv_create_srq(
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    let Some(function) = real::ibv_create_srq() else { return absent!(null) };
    let began = clock::now();
    // SAFETY: the caller's promises are those that the real function asks for.
    let srq = unsafe { function(pd, attr) };
    // SAFETY: NULL or an SRQ that the real function has just made; the caller's PD is alive.
    unsafe {
        let context = if srq.is_null() { context_if_gone(pd) } else { (*srq).context };
        created(Kind::Srq, srq.cast(), context, began);
        headroom::srq_created(srq, core::ptr::null_mut());
    }
    srq
}

/// A binary of the 1.0 ABI passes another structure here: the context is never looked into, and so never adopted.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    let Some(function) = real::ibv_create_comp_channel() else { return absent!(null) };
    // SAFETY: the caller's promises are those that the real function asks for.
    let channel = unsafe { function(context) };
    // SAFETY: NULL or a channel that the real function has just made.
    unsafe { channel_created(channel, context) };
    channel
}

macro_rules! destroys {
    ($($name:ident($object:ident: $ty:ty), $kind:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($object: *mut $ty) -> c_int {
            let Some(function) = real::$name() else { return absent!(errno) };
            if !counting() || $object.is_null() {
                // SAFETY: the caller's promises are those that the real function asks for.
                return unsafe { function($object) };
            }
            // SAFETY: the caller passes a live object, whose context is open; after the call it may be gone.
            let (context, destroying) = unsafe {
                let context = context_of!($object);
                (context, destroy::begin(Kind::$kind, $object.cast(), context))
            };
            if destroying.handed != Handed::default() {
                // SAFETY: alive until the real destroy.
                unsafe { hand_over(Kind::$kind, $object.cast(), destroying.handed) };
            }
            // SAFETY: the caller's promises are those that the real function asks for. The thread may be cancelled
            // in here; nothing of ours is held.
            let result = unsafe { function($object) };
            destroy::end(&destroying, Kind::$kind, context, result);
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

/// The context of a PD, where a call has just failed as calls to a removed device fail; NULL otherwise.
///
/// # Safety
/// `pd` is alive.
unsafe fn context_if_gone(pd: *mut ibv_pd) -> *mut ibv_context {
    // SAFETY: as the caller promises.
    if errno() == libc::EIO { unsafe { context_of!(pd) } } else { core::ptr::null_mut() }
}

/// # Safety
/// `context` is open, or NULL beside an `object` that is NULL; `object` is NULL or was just made in it.
#[inline(never)]
pub(crate) unsafe extern "C" fn created(
    kind: Kind,
    object: *mut c_void,
    context: *mut ibv_context,
    began: u64,
) {
    bookkeeping(|ledger| {
        if object.is_null() {
            if errno() == libc::EIO && !context.is_null() {
                // SAFETY: open, as the caller promises.
                let fd = unsafe { (*context).async_fd };
                removal::command_failed(ledger, context.addr(), fd, "a call to create an object");
            }
            return;
        }
        // SAFETY: as the caller promises.
        let ident = unsafe {
            adopt_into(ledger, context);
            ident(kind, object)
        };
        // SAFETY: open, as the caller promises.
        let transport = unsafe { context::transport(context) };
        let (address, context) = (object.addr(), context.addr());
        ledger.created(&Created { kind, address, context, ident, began });
        if kind == Kind::Cq {
            // SAFETY: as the caller promises; an extended CQ begins as a plain one does.
            unsafe { headroom::cq_sized(ledger, object.cast()) };
        }
        if kind == Kind::Qp && settings::get().cq != CqMode::Off {
            // SAFETY: as the caller promises; an extended QP begins as a plain one does.
            let (send_cq, recv_cq, qp_type) = unsafe {
                let qp: *mut ibv_qp = object.cast();
                ((*qp).send_cq.addr(), (*qp).recv_cq.addr(), (*qp).qp_type)
            };
            ledger.qp_created(&NewQp {
                context,
                ident,
                send_cq,
                recv_cq,
                ends_with_connection: transport == IBV_TRANSPORT_IWARP,
                connected: matches!(qp_type, IBV_QPT_RC | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV),
            });
        }
        backlog::look(ledger, context, clock::now());
    });
}

/// # Safety
/// `channel` is NULL or was just made.
#[inline(never)]
unsafe extern "C" fn channel_created(channel: *mut ibv_comp_channel, context: *mut ibv_context) {
    if channel.is_null() {
        return;
    }
    bookkeeping(|ledger| {
        // SAFETY: as the caller promises.
        let ident = unsafe { ident(Kind::CompChannel, channel.cast()) };
        let (address, context) = (channel.addr(), context.addr());
        // Channels have no events that an ack could be missing of: nothing can have happened before.
        let began = clock::now();
        ledger.created(&Created { kind: Kind::CompChannel, address, context, ident, began });
    });
}
