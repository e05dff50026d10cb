//! Functions that C programs reach through pointers in the context, where no preloaded symbol is seen:
//! `ops.poll_cq`, and the creation of extended objects and WQs in `struct verbs_context`.
//!
//! The pointer in the context is replaced by a trampoline. There is a fixed set of them for each member, one for
//! each distinct function of a provider (which has one or two), with that function's address beside it: the
//! provider's own function is found without a look-up. Contexts are only touched when a report was asked for.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

use ibv_sa_ledger::{Kind, Ledger};

use crate::abi::*;
use crate::boundary::bookkeeping;
use crate::interpose::object::{created, destroyed};

/// Distinct functions that can be watched for each member.
const SLOTS: usize = 16;

/// Whether the structure, which grows at its front, is large enough to have the member
/// (`verbs_get_ctx_op`, <infiniband/verbs.h>).
macro_rules! has {
    ($extended:expr, $member:ident) => {
        (*$extended).sz
            >= core::mem::size_of::<verbs_context>() - core::mem::offset_of!(verbs_context, $member)
    };
}
pub(crate) use has;

/// The addresses of the functions behind one set of trampolines.
struct Slots([AtomicUsize; SLOTS]);

impl Slots {
    const fn new() -> Self {
        Self([const { AtomicUsize::new(0) }; SLOTS])
    }

    /// The slot of `function`; a free one becomes it.
    fn of(&self, function: usize) -> Option<usize> {
        self.0.iter().position(|slot| {
            slot.compare_exchange(0, function, AcqRel, Acquire).is_ok() || slot.load(Acquire) == function
        })
    }
}

/// Puts a trampoline in place of the function at `member`. False if none was free.
///
/// # Safety
/// `member` is a live, pointer-aligned function pointer that is only read by other threads.
unsafe fn replace(member: *mut usize, slots: &Slots, trampolines: &[usize; SLOTS]) -> bool {
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

/// One module for each member: its slots, its trampolines, and what happens around the provider's function.
macro_rules! trampolines {
    ($(
        $(#[$doc:meta])*
        $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;
        before $before:expr;
        after |$kept:ident, $result:ident| $after:expr;
    )*) => {$(
        $(#[$doc])*
        mod $name {
            use super::*;

            static SLOTS_OF: Slots = Slots::new();

            unsafe extern "C-unwind" fn enter<const SLOT: usize>($($arg: $ty),*) -> $ret {
                let address = SLOTS_OF.0[SLOT].load(Acquire);
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

            fn addresses() -> [usize; SLOTS] {
                type Function = unsafe extern "C-unwind" fn($($ty),*) -> $ret;
                let functions: [Function; SLOTS] = [
                    enter::<0>, enter::<1>, enter::<2>, enter::<3>, enter::<4>, enter::<5>, enter::<6>, enter::<7>,
                    enter::<8>, enter::<9>, enter::<10>, enter::<11>, enter::<12>, enter::<13>, enter::<14>,
                    enter::<15>,
                ];
                functions.map(|function| (function as *const ()).expose_provenance())
            }

            /// # Safety
            /// As [`super::replace`].
            pub(super) unsafe fn watch(member: *mut usize) -> bool {
                // SAFETY: as the caller promises.
                unsafe { replace(member, &SLOTS_OF, &addresses()) }
            }
        }
    )*};
}

trampolines! {
    /// An empty poll costs the jump and one test.
    poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int;
    before ();
    after |_kept, result| if result > 0 { polled(cq, result.min(num_entries), wc) };

    create_cq_ex(context: *mut ibv_context, attr: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
    before ();
    after |_kept, cq| extended_cq_created(cq, context);

    create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
    before ();
    after |_kept, qp| created(Kind::Qp, qp.cast(), context);

    open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp;
    before ();
    after |_kept, qp| created(Kind::Qp, qp.cast(), context);

    create_srq_ex(context: *mut ibv_context, attr: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
    before ();
    after |_kept, srq| created(Kind::Srq, srq.cast(), context);

    create_wq(context: *mut ibv_context, attr: *mut ibv_wq_init_attr) -> *mut ibv_wq;
    before ();
    after |_kept, wq| created(Kind::Wq, wq.cast(), context);

    destroy_wq(wq: *mut ibv_wq) -> c_int;
    before (*wq).context;
    after |context, result| destroyed(Kind::Wq, context, result);
}

#[inline(never)]
extern "C" fn extended_cq_created(cq: *mut ibv_cq_ex, context: *mut ibv_context) {
    if !cq.is_null() {
        bookkeeping(|ledger| ledger.extended_cq_created(cq.addr(), context.addr()));
    }
}

/// # Safety
/// `cq` is live and `wc` holds `number` completions that the provider has filled in.
#[inline(never)]
unsafe extern "C" fn polled(cq: *mut ibv_cq, number: c_int, wc: *mut ibv_wc) {
    bookkeeping(|ledger| {
        let number = usize::try_from(number).unwrap_or(0);
        // SAFETY: as the caller promises. Only the status is read: of a failed completion, most fields are
        // undefined (ibv_poll_cq(3)).
        let failed = (0..number).filter(|i| unsafe { (*wc.add(*i)).status != IBV_WC_SUCCESS }).count();
        // SAFETY: live, as the caller promises.
        let context = unsafe { (*cq).context };
        ledger.polled(cq.addr(), context.addr(), number as u32, failed as u32);
    });
}

/// Watches the context's completions and extended objects.
///
/// # Safety
/// `context` is open.
pub(crate) unsafe fn watch(context: *mut ibv_context, ledger: &Ledger) {
    // SAFETY: the member lies in an open context; libibverbs writes it only while it opens the context.
    let mut watched = unsafe { poll_cq::watch((&raw mut (*context).ops.poll_cq).cast()) };
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
