//! Work requests posted and CQs armed, where headroom is counted: `ops.post_send`, `post_recv`, `post_srq_recv`,
//! `bind_mw` and `req_notify_cq` of a context.
//!
//! A list is walked before the call: what is posted may complete, and another thread may free it, before the call is
//! back. After the call it is only compared with.

use ibv_sa_ledger::{Kind, Posted, Slots, Unchecked};

use crate::abi::*;
use crate::boundary::bookkeeping;
use crate::interpose::headroom;
use crate::interpose::trampoline::{FEW, all_of, replace, trampolines};

/// Requests of a list whose addresses are kept.
const KEPT: usize = 8;

/// A list as it was before the call.
#[derive(Clone, Copy)]
#[repr(C)]
struct List {
    posted: Posted,
    addresses: [usize; KEPT],
}

impl List {
    const EMPTY: Self = Self { posted: Posted { number: 0, signalled: 0, which: 0 }, addresses: [0; KEPT] };

    #[inline]
    fn push(&mut self, address: usize, signalled: bool) {
        if let Some(place) = self.addresses.get_mut(self.posted.number as usize) {
            *place = address;
        }
        self.posted.push(signalled);
    }

    /// Those that a call posted which says that the one at `bad` is the first that it did not. `None` if nobody can
    /// tell: a provider may forget to say it.
    fn up_to(&self, bad: usize) -> Option<Posted> {
        let known = &self.addresses[..KEPT.min(self.posted.number as usize)];
        self.posted.first(known.iter().position(|address| *address == bad)? as u32)
    }
}

trampolines! {
    FEW post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int;
    before sends(wr);
    after |list, result| sent(qp, &list, result, bad_wr);

    FEW post_recv(qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int;
    before receives(wr);
    after |list, result| received(Kind::Qp, qp.addr(), &list, result, bad_wr);

    FEW post_srq_recv(srq: *mut ibv_srq, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int;
    before receives(wr);
    after |list, result| received(Kind::Srq, srq.addr(), &list, result, bad_wr);

    /// The provider posts a send for it, which nobody else sees.
    FEW bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int;
    before bound(qp.addr());
    after |_kept, result| {};

    FEW req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int;
    before armed(cq.addr(), solicited_only);
    after |_kept, result| {};
}

/// # Safety
/// `wr` is NULL or a list as `ibv_post_send` wants it.
// Not in each of the trampolines.
#[inline(never)]
unsafe fn sends(mut wr: *const ibv_send_wr) -> List {
    let mut list = List::EMPTY;
    // SAFETY: as the caller promises.
    while let Some(one) = unsafe { wr.as_ref() } {
        list.push(wr.addr(), one.send_flags & IBV_SEND_SIGNALED != 0);
        wr = one.next;
    }
    list
}

/// # Safety
/// `wr` is NULL or a list as `ibv_post_recv` wants it.
#[inline(never)]
unsafe fn receives(mut wr: *const ibv_recv_wr) -> List {
    let mut list = List::EMPTY;
    // SAFETY: as the caller promises.
    while let Some(one) = unsafe { wr.as_ref() } {
        list.push(wr.addr(), true);
        wr = one.next;
    }
    list
}

/// # Safety
/// `qp` is live; `bad_wr` is what the call was given.
#[inline(never)]
unsafe extern "C" fn sent(qp: *mut ibv_qp, list: &List, result: c_int, bad_wr: *const *mut ibv_send_wr) {
    bookkeeping(|ledger| {
        let posted = match result {
            0 => Some(list.posted),
            // SAFETY: NULL, or where the call had to say which request it refused.
            _ => list.up_to(unsafe { bad_wr.as_ref() }.map_or(0, |bad| bad.addr())),
        };
        match posted {
            Some(posted) if posted.number == 0 => {}
            Some(posted) => {
                if let Some(cq) = ledger.posted_sends(qp.addr(), posted) {
                    headroom::say(ledger, cq);
                }
            }
            None => ledger.posts_unclear(Kind::Qp, qp.addr()),
        }
    });
}

/// # Safety
/// The QP or SRQ is live; `bad_wr` is what the call was given.
#[inline(never)]
unsafe extern "C" fn received(
    kind: Kind,
    address: usize,
    list: &List,
    result: c_int,
    bad_wr: *const *mut ibv_recv_wr,
) {
    bookkeeping(|ledger| {
        let posted = match result {
            0 => Some(list.posted),
            // SAFETY: NULL, or where the call had to say which request it refused.
            _ => list.up_to(unsafe { bad_wr.as_ref() }.map_or(0, |bad| bad.addr())),
        };
        match posted {
            Some(posted) if posted.number == 0 => {}
            Some(posted) => {
                if let Some(cq) = ledger.posted_receives(kind, address, posted.number) {
                    headroom::say(ledger, cq);
                }
            }
            None => ledger.posts_unclear(kind, address),
        }
    });
}

#[inline(never)]
extern "C" fn bound(qp: usize) {
    bookkeeping(|ledger| ledger.uncheck_qp(qp, Unchecked::BindMw));
}

#[inline(never)]
extern "C" fn armed(cq: usize, solicited_only: c_int) {
    bookkeeping(|ledger| ledger.cq_armed(cq, solicited_only != 0));
}

/// Watches the posts of a context. False if no trampoline was free.
///
/// # Safety
/// `context` is open.
pub(super) unsafe fn watch(context: *mut ibv_context) -> bool {
    // SAFETY: the members lie in an open context; libibverbs writes them only while it opens the context.
    unsafe {
        let ops = &raw mut (*context).ops;
        post_send::watch((&raw mut (*ops).post_send).cast())
            & post_recv::watch((&raw mut (*ops).post_recv).cast())
            & post_srq_recv::watch((&raw mut (*ops).post_srq_recv).cast())
            & bind_mw::watch((&raw mut (*ops).bind_mw).cast())
            & req_notify_cq::watch((&raw mut (*ops).req_notify_cq).cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(number: usize) -> List {
        let mut list = List::EMPTY;
        (0..number).for_each(|i| list.push(0x1000 + i, i % 2 == 0));
        list
    }

    #[test]
    fn a_refused_list_was_posted_up_to_the_bad_one() {
        let three = list(3);
        assert_eq!(three.up_to(0x1000), Some(Posted::default()));
        assert_eq!(three.up_to(0x1002), Some(Posted { number: 2, signalled: 1, which: 1 }));
        assert_eq!(three.up_to(0x1003), None, "not one of them");
        assert_eq!(three.up_to(0), None);
        assert_eq!(list(KEPT + 1).up_to(0x1000 + KEPT), None, "not kept");
    }
}
