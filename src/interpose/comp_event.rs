//! Completion events: read and acknowledged.

use ibv_sa_ledger::{Handed, Kind, Sign};

use crate::abi::*;
use crate::boundary::{bookkeeping, counting, errno};
use crate::forward::absent;
use crate::interpose::bad_ack::{self, Passed};
use crate::interpose::context::adopt_into;
use crate::interpose::hand_over::hand_over;
use crate::interpose::{backlog, lint, removal};
use crate::provider::real;
use crate::{clock, settings, watch};

/// Goes on in [`get_cq_event`], with the place in the program that it returns to.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov rcx, [rsp]",
        "jmp {get}",
        ".cfi_endproc",
        get = sym get_cq_event,
    )
}

/// Here the place is not known: all are one.
#[cfg(not(target_arch = "x86_64"))]
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { get_cq_event(channel, cq, cq_context, 0) }
}

/// The address of the channel's context, which may be closed.
///
/// # Safety
/// `channel` is live.
unsafe fn before_get(channel: *mut ibv_comp_channel, site: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        lint::before_wait(channel, site);
        (*channel).context.addr()
    }
}

/// # Safety
/// As `ibv_get_cq_event` asks.
unsafe extern "C-unwind" fn get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
    site: usize,
) -> c_int {
    let Some(function) = real::ibv_get_cq_event() else { return absent!(minus1) };
    // Looked at before the call: another thread may destroy the channel to end it.
    // SAFETY: the caller passes a live channel.
    let context = if counting() { unsafe { before_get(channel, site) } } else { 0 };
    // SAFETY: the caller's promises are those that the real function asks for. The thread may be cancelled in
    // here; nothing of ours is held.
    let result = unsafe { function(channel, cq, cq_context) };
    if counting() {
        if result == 0 {
            // SAFETY: the real function has stored the CQ and looked into it to hand out its cq_context; with an
            // event open it stays alive.
            unsafe {
                let handed = got(*cq);
                if handed.completions != 0 {
                    hand_over(Kind::Cq, (*cq).cast(), handed);
                }
            }
        } else if errno() == libc::EIO {
            failed(context);
        }
    }
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    let Some(function) = real::ibv_ack_cq_events() else { return absent!(void) };
    // Looked at before the call: once a destroy may go on, the CQ may be gone.
    let passed = if counting() { acked(cq.addr(), nevents) } else { Passed::all(nevents) };
    if passed.forward != 0 || nevents == 0 {
        // SAFETY: the caller's promises are those that the real function asks for.
        unsafe { function(cq, passed.forward) };
    }
    if passed.handed != Handed::default() {
        // SAFETY: an event of this CQ is open still, so it is alive.
        unsafe { hand_over(Kind::Cq, cq.cast(), passed.handed) };
    }
}

/// # Safety
/// `cq` is live.
#[inline(never)]
unsafe extern "C" fn got(cq: *mut ibv_cq) -> Handed {
    let mut handed = Handed::default();
    bookkeeping(|ledger| {
        // SAFETY: a live CQ has an open context.
        let context = unsafe {
            let context = (*cq).context;
            adopt_into(ledger, context);
            context
        };
        let now = clock::now();
        let got = ledger.comp_event_got(cq.addr(), context.addr(), (clock::tid(), clock::me), now);
        handed = got.handed;
        if got.look_after {
            watch::look_after_destroyer(ledger, got.token);
        }
        backlog::look(ledger, context.addr(), now);
    });
    handed
}

#[inline(never)]
extern "C" fn failed(context: usize) {
    bookkeeping(|ledger| {
        // A reader whose channel is destroyed under it gets EIO too: what counts is whether the device is there.
        if backlog::has_error(ledger.async_fd(context)) {
            removal::sign(ledger, context, Sign::GetFailed, "ibv_get_cq_event failed with EIO in");
        }
    });
}

/// The CQ is only known by its address: it may have been destroyed before.
#[inline(never)]
extern "C" fn acked(cq: usize, nevents: c_uint) -> Passed {
    let mut passed = Passed::all(nevents);
    bookkeeping(|ledger| {
        let ack = ledger.comp_events_acked(cq, nevents, settings::get().ack);
        passed = Passed { forward: ack.forward, handed: ack.handed };
        if ack.fault.is_some() || ack.look_after {
            bad_ack::report(ledger, &ack, None);
        }
    });
    passed
}
