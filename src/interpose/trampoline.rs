//! Functions that C programs reach through pointers, where no preloaded symbol is seen: `ops.poll_cq` of a context, the
//! creation of extended objects and WQs in `struct verbs_context`, and the polls of an extended CQ.
//!
//! The pointer is replaced by a trampoline. There is a fixed set of them for each member, one for
//! each distinct function of a provider (which has one or two), with that function's address beside it: the
//! provider's own function is found without a look-up. What happens around polls: [`crate::interpose::poll`].

use std::sync::atomic::{AtomicPtr, Ordering::*};

use ibv_sa_ledger::{Destroying, Handed, Kind, Ledger, Slots};

use crate::abi::*;
use crate::boundary::bookkeeping;
use crate::clock;
use crate::interpose::hand_over::hand_over;
use crate::interpose::object::created;
use crate::interpose::{destroy, headroom, poll, posting};
use crate::settings::{self, CqMode};

/// Distinct functions that can be watched for a member of the context: a provider has one or two.
pub(super) const FEW: usize = 16;
/// And for a member of an extended CQ: mlx5 alone has 24 ways to start a poll.
pub(super) const MANY: usize = 64;

/// Whether the structure, which grows at its front, is large enough to have the member
/// (`verbs_get_ctx_op`, <infiniband/verbs.h>).
macro_rules! has {
    ($extended:expr, $member:ident) => {
        (*$extended).sz
            >= core::mem::size_of::<verbs_context>() - core::mem::offset_of!(verbs_context, $member)
    };
}
pub(crate) use has;

/// Puts a trampoline in place of the function at `member`. False if none was free.
///
/// # Safety
/// `member` is a live, pointer-aligned function pointer that is only read by other threads.
pub(super) unsafe fn replace<const N: usize>(
    member: *mut usize,
    slots: &Slots<N>,
    trampolines: &[usize; N],
) -> bool {
    // SAFETY: as the caller promises; all writers use this function.
    let member = unsafe { AtomicPtr::from_ptr(member.cast::<*mut ()>()) };
    let current = member.load(Acquire).addr();
    if current == 0 || trampolines.contains(&current) {
        return true;
    }
    match slots.of(current) {
        Some(slot) => {
            member.store(core::ptr::with_exposed_provenance_mut(trampolines[slot]), Release);
            true
        }
        None => false,
    }
}

/// All trampolines of a set; `$all` is one more parameter of theirs.
#[rustfmt::skip]
macro_rules! all_of {
    (FEW $(, $all:ident)?) => {
        [
            enter::<0 $(, $all)?>, enter::<1 $(, $all)?>, enter::<2 $(, $all)?>, enter::<3 $(, $all)?>,
            enter::<4 $(, $all)?>, enter::<5 $(, $all)?>, enter::<6 $(, $all)?>, enter::<7 $(, $all)?>,
            enter::<8 $(, $all)?>, enter::<9 $(, $all)?>, enter::<10 $(, $all)?>, enter::<11 $(, $all)?>,
            enter::<12 $(, $all)?>, enter::<13 $(, $all)?>, enter::<14 $(, $all)?>, enter::<15 $(, $all)?>,
        ]
    };
    (MANY) => {
        [
            enter::<0>, enter::<1>, enter::<2>, enter::<3>, enter::<4>, enter::<5>, enter::<6>, enter::<7>,
            enter::<8>, enter::<9>, enter::<10>, enter::<11>, enter::<12>, enter::<13>, enter::<14>, enter::<15>,
            enter::<16>, enter::<17>, enter::<18>, enter::<19>, enter::<20>, enter::<21>, enter::<22>, enter::<23>,
            enter::<24>, enter::<25>, enter::<26>, enter::<27>, enter::<28>, enter::<29>, enter::<30>, enter::<31>,
            enter::<32>, enter::<33>, enter::<34>, enter::<35>, enter::<36>, enter::<37>, enter::<38>, enter::<39>,
            enter::<40>, enter::<41>, enter::<42>, enter::<43>, enter::<44>, enter::<45>, enter::<46>, enter::<47>,
            enter::<48>, enter::<49>, enter::<50>, enter::<51>, enter::<52>, enter::<53>, enter::<54>, enter::<55>,
            enter::<56>, enter::<57>, enter::<58>, enter::<59>, enter::<60>, enter::<61>, enter::<62>, enter::<63>,
        ]
    };
}
pub(super) use all_of;

/// One module for each member: its slots, its trampolines, and what happens around the provider's function.
macro_rules! trampolines {
    ($(
        $(#[$doc:meta])*
        $number:ident $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;
        before $before:expr;
        after |$kept:ident, $result:ident| $after:expr;
    )*) => {$(
        $(#[$doc])*
        mod $name {
            use super::*;

            static SLOTS: Slots<$number> = Slots::new();

            unsafe extern "C-unwind" fn enter<const SLOT: usize>($($arg: $ty),*) -> $ret {
                let address = SLOTS.address(SLOT);
                // SAFETY: this trampoline stands in for the function at this address, which the provider had stored
                // in the member with this signature; the caller keeps the promises that it asks for. After the call
                // only what it has made or left alive is looked into.
                unsafe {
                    let function = core::mem::transmute::<
                        usize,
                        unsafe extern "C-unwind" fn($($ty),*) -> $ret,
                    >(address);
                    let $kept = $before;
                    let $result = function($($arg),*);
                    $after;
                    $result
                }
            }

            fn addresses() -> [usize; $number] {
                let functions: [unsafe extern "C-unwind" fn($($ty),*) -> $ret; $number] = all_of!($number);
                functions.map(|function| (function as *const ()).expose_provenance())
            }

            /// # Safety
            /// As [`super::replace`].
            pub(super) unsafe fn watch(member: *mut usize) -> bool {
                // SAFETY: as the caller promises.
                unsafe { replace(member, &SLOTS, &addresses()) }
            }
        }
    )*};
}
pub(super) use trampolines;

trampolines! {
    FEW create_cq_ex(context: *mut ibv_context, attr: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
    before clock::now();
    after |began, cq| extended_cq_created(cq, context, attr, began);

    FEW create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
    before clock::now();
    after |began, qp| extended_qp_created(qp, context, attr, began);

    FEW open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp;
    before clock::now();
    after |began, qp| created(Kind::Qp, qp.cast(), context, began);

    FEW create_srq_ex(context: *mut ibv_context, attr: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
    before clock::now();
    after |began, srq| extended_srq_created(srq, context, attr, began);

    FEW create_wq(context: *mut ibv_context, attr: *mut ibv_wq_init_attr) -> *mut ibv_wq;
    before clock::now();
    after |began, wq| {
        created(Kind::Wq, wq.cast(), context, began);
        headroom::wq_created(wq);
    };

    FEW destroy_wq(wq: *mut ibv_wq) -> c_int;
    before wq_going(wq);
    after |going, result| destroy::end(&going.0, Kind::Wq, going.1, result);
}

/// # Safety
/// `wq` is alive.
unsafe fn wq_going(wq: *mut ibv_wq) -> (Destroying, *mut ibv_context) {
    // SAFETY: alive, as the caller promises.
    unsafe {
        let destroying = destroy::begin(Kind::Wq, wq.cast(), (*wq).context);
        if destroying.handed != Handed::default() {
            hand_over(Kind::Wq, wq.cast(), destroying.handed);
        }
        (destroying, (*wq).context)
    }
}

/// # Safety
/// `context` is open; `qp` is NULL or a QP that nobody else has seen yet, made with `attr`.
unsafe fn extended_qp_created(
    qp: *mut ibv_qp,
    context: *mut ibv_context,
    attr: *const ibv_qp_init_attr_ex,
    began: u64,
) {
    // SAFETY: as the caller promises.
    unsafe {
        created(Kind::Qp, qp.cast(), context, began);
        let posts_by_wr = (*attr).comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
        headroom::qp_created(qp, (*attr).sq_sig_all, posts_by_wr);
    }
}

/// # Safety
/// `context` is open; `srq` is NULL or an SRQ that nobody else has seen yet, made with `attr`.
unsafe fn extended_srq_created(
    srq: *mut ibv_srq,
    context: *mut ibv_context,
    attr: *const ibv_srq_init_attr_ex,
    began: u64,
) {
    // SAFETY: as the caller promises.
    unsafe {
        created(Kind::Srq, srq.cast(), context, began);
        let has_cq = (*attr).comp_mask & IBV_SRQ_INIT_ATTR_CQ != 0;
        headroom::srq_created(srq, if has_cq { (*attr).cq } else { core::ptr::null_mut() });
    }
}

/// # Safety
/// `context` is open; `cq` is NULL or an extended CQ that nobody else has seen yet, made with `attr`.
#[inline(never)]
unsafe extern "C" fn extended_cq_created(
    cq: *mut ibv_cq_ex,
    context: *mut ibv_context,
    attr: *const ibv_cq_init_attr_ex,
    began: u64,
) {
    // SAFETY: as the caller promises.
    unsafe { created(Kind::Cq, cq.cast(), context, began) };
    if cq.is_null() {
        return;
    }
    bookkeeping(|ledger| {
        // SAFETY: as the caller promises.
        if unsafe { (*attr).wc_flags } & u64::from(IBV_WC_EX_WITH_QP_NUM) != 0 {
            ledger.cq_tells_qp(cq.addr());
        }
        // SAFETY: live and ours alone, as the caller promises.
        if !unsafe { poll::watch_extended(cq) } {
            ledger.cq_unwatched();
        }
        // SAFETY: as the caller promises.
        unsafe { headroom::extended_cq_created(ledger, cq, attr) };
    });
}

/// Watches the context's extended objects and its polls.
///
/// # Safety
/// `context` is open.
pub(crate) unsafe fn watch(context: *mut ibv_context, ledger: &Ledger) {
    // SAFETY: open, as the caller promises.
    let mut watched = unsafe { poll::watch(context) };
    if settings::get().cq == CqMode::Full {
        // SAFETY: open, as the caller promises.
        watched &= unsafe { posting::watch(context) };
    }
    // SAFETY: open, as the caller promises.
    if let Some(extended) = unsafe { extended(context) } {
        macro_rules! watch_members {
            ($($member:ident),*) => {$(
                // SAFETY: `has` says that this libibverbs's structure has the member; otherwise as above.
                unsafe {
                    if has!(extended, $member) {
                        watched &= $member::watch((&raw mut (*extended).$member).cast());
                    }
                }
            )*};
        }
        watch_members!(create_cq_ex, create_qp_ex, open_qp, create_srq_ex, create_wq, destroy_wq);
    }
    if !watched {
        ledger.context_unwatched();
    }
}

/// The extended context around a context, if it has one.
///
/// # Safety
/// `context` is open.
pub(crate) unsafe fn extended(context: *mut ibv_context) -> Option<*mut verbs_context> {
    // SAFETY: open, as the caller promises. A context with this mark is the last member of a verbs_context
    // (`verbs_get_ctx`, <infiniband/verbs.h>).
    unsafe {
        ((*context).abi_compat.addr() == usize::MAX)
            .then(|| context.byte_sub(core::mem::offset_of!(verbs_context, context)).cast())
    }
}
