//! Asynchronous events: read and acknowledged.

use ibv_sa_ledger::{Handed, Kind, Sign, Thread, What, event_name, is_of_port};
use ibv_sa_report::lines;

use crate::abi::*;
use crate::boundary::{bookkeeping, counting, errno};
use crate::forward::absent;
use crate::interpose::bad_ack::{self, Passed};
use crate::interpose::context::adopt_into;
use crate::interpose::hand_over::hand_over;
use crate::interpose::{headroom, removal};
use crate::provider::real;
use crate::settings::CqMode;
use crate::{clock, settings, tell, watch};

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let Some(function) = real::ibv_get_async_event() else { return absent!(minus1) };
    if counting() {
        asked_for(context.addr());
    }
    // SAFETY: the caller's promises are those that the real function asks for. The thread may be cancelled in
    // here; nothing of ours is held.
    let result = unsafe { function(context, event) };
    if counting() {
        if result == 0 {
            // SAFETY: the real function has filled the event in; the context is open while it is read, and so is the
            // object of an event that nobody has acknowledged.
            unsafe {
                let handed = got(context, event);
                if handed.events != 0
                    && let Some(kind) = Kind::of_event((*event).event_type)
                {
                    hand_over(kind, (*event).element.qp.cast(), handed);
                }
            }
        } else {
            failed(context.addr());
        }
    }
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    let Some(function) = real::ibv_ack_async_event() else { return absent!(void) };
    // Looked at before the call: once a destroy may go on, the event's memory may be gone.
    // SAFETY: the caller passes an event that it has read.
    let passed = if counting() { unsafe { acked(event) } } else { Passed::all(1) };
    if passed.forward != 0 {
        // SAFETY: the caller's promises are those that the real function asks for.
        unsafe { function(event) };
    }
    if passed.handed != Handed::default() {
        // SAFETY: an event of this object is open still, so it is alive; and so is the event in the caller's hands.
        unsafe { passed.hand_over_for(event) };
    }
}

/// The address in an event, if its type says that there is one: only that member of the union is read.
///
/// # Safety
/// `event` was filled in by libibverbs.
unsafe fn element(event: *const ibv_async_event) -> Option<usize> {
    // SAFETY: as the caller promises; all pointer members of the union lie at one place.
    unsafe { Kind::of_event((*event).event_type).map(|_| (*event).element.qp.addr()) }
}

/// # Safety
/// `context` is open, `event` was filled in by libibverbs.
#[inline(never)]
unsafe extern "C" fn got(context: *mut ibv_context, event: *const ibv_async_event) -> Handed {
    let mut handed = Handed::default();
    bookkeeping(|ledger| {
        // SAFETY: as the caller promises.
        let (event_type, element, fd, port) = unsafe {
            adopt_into(ledger, context);
            let event_type = (*event).event_type;
            let port = is_of_port(event_type).then(|| (*event).element.port_num);
            (event_type, element(event), (*context).async_fd, port)
        };
        let tid = clock::tid();
        let who = (tid, clock::me);
        let got = ledger.event_got((context.addr(), fd), event_type, element, who, clock::now());
        handed = got.handed;
        if got.look_after {
            watch::look_after_destroyer(ledger, got.token);
        }
        if let Some(other) = got.other_reader {
            let event = match port {
                Some(port) => format!("{}, port {port}", event_name(event_type)),
                None => event_name(event_type),
            };
            let name = ledger.context_name(context.addr());
            let one = tell::person(&Thread { tid: other, ..Default::default() });
            let text = lines::two_readers(&name, &one, &tell::person(&clock::me()), &event);
            tell::incident(ledger, What::TwoReaders, name.id, tid, &text);
        }
        if settings::get().cq != CqMode::Off
            && (IBV_EVENT_QP_FATAL..=IBV_EVENT_QP_ACCESS_ERR).contains(&event_type)
        {
            // SAFETY: as the caller promises; what an event is about is alive until the event is acknowledged.
            let number = unsafe { (*(*event).element.qp).qp_num };
            ledger.qp_event(context.addr(), number, event_type, tid, clock::now());
        }
        if event_type == IBV_EVENT_CQ_ERR && got.first_of_type {
            // SAFETY: as the caller promises; what an event is about is alive until the event is acknowledged.
            unsafe { headroom::cq_failed(ledger, (*event).element.cq) };
        }
        if got.first_fatal {
            removal::tell(ledger, context.addr(), "DEVICE_FATAL was read by");
        }
    });
    handed
}

#[inline(never)]
extern "C" fn asked_for(context: usize) {
    bookkeeping(|ledger| ledger.event_asked_for(context));
}

#[inline(never)]
extern "C" fn failed(context: usize) {
    bookkeeping(|ledger| match errno() {
        libc::EAGAIN => ledger.events_drained(context),
        libc::EIO => {
            removal::sign(ledger, context, Sign::GetFailed, "ibv_get_async_event failed with EIO in")
        }
        _ => {}
    });
}

/// # Safety
/// `event` was filled in by libibverbs, or is a copy of one that was.
#[inline(never)]
unsafe extern "C" fn acked(event: *const ibv_async_event) -> Passed {
    let mut passed = Passed::all(1);
    bookkeeping(|ledger| {
        // SAFETY: as the caller promises.
        let (event_type, element) = unsafe { ((*event).event_type, element(event)) };
        let ack = ledger.event_acked(event_type, element, settings::get().ack);
        passed = Passed { forward: ack.forward, handed: ack.handed };
        if ack.fault.is_some() || ack.look_after {
            bad_ack::report(ledger, &ack, Some(event_type));
        }
    });
    passed
}

impl Passed {
    /// # Safety
    /// The event's object is alive, and an event of it is open.
    unsafe fn hand_over_for(self, event: *const ibv_async_event) {
        // SAFETY: as the caller promises.
        unsafe {
            if let Some(kind) = Kind::of_event((*event).event_type) {
                hand_over(kind, (*event).element.qp.cast(), self.handed);
            }
        }
    }
}
