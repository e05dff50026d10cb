//! Polls of a CQ, which C programs reach through `ops.poll_cq` of the context or through the members of an extended CQ.
//!
//! What an empty poll may cost is counted in instructions: the trampoline of `poll_cq` is written by hand, and of
//! completions that have no error only the statuses are looked at.

use ibv_sa_ledger::{Done, Ledger, Slots};

use crate::abi::*;
use crate::boundary::bookkeeping;
use crate::interpose::completion;
use crate::interpose::context::{adopt_into, transport};
use crate::interpose::trampoline::{FEW, MANY, all_of, replace, trampolines};
use crate::settings::{self, CqMode};

/// The functions behind the trampolines of `ops.poll_cq`.
static POLL_CQ: Slots<FEW> = Slots::new();

/// A poll that returned something, or failed, or any where all are counted, goes on in [`looked_at`], which returns to
/// the program. Only caller-saved registers are used, and the arguments lie on the stack meanwhile: with three of them
/// it is aligned as the ABI asks.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn enter<const SLOT: usize, const ALL: bool>(
    cq: *mut ibv_cq,
    num_entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_def_cfa_offset 16",
        "push rsi",
        ".cfi_def_cfa_offset 24",
        "push rdx",
        ".cfi_def_cfa_offset 32",
        "call qword ptr [rip + {slots} + {offset}]",
        ".if {all} == 0",
        "test eax, eax",
        "jne 2f",
        "add rsp, 24",
        ".cfi_def_cfa_offset 8",
        "ret",
        "2:",
        ".cfi_def_cfa_offset 32",
        ".endif",
        "pop rcx",
        ".cfi_def_cfa_offset 24",
        "pop rdx",
        ".cfi_def_cfa_offset 16",
        "pop rdi",
        ".cfi_def_cfa_offset 8",
        "mov esi, eax",
        "jmp {looked_at}",
        ".cfi_endproc",
        slots = sym POLL_CQ,
        offset = const SLOT * size_of::<usize>(),
        all = const ALL as usize,
        looked_at = sym looked_at::<ALL>,
    )
}

#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C-unwind" fn enter<const SLOT: usize, const ALL: bool>(
    cq: *mut ibv_cq,
    num_entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    type PollCq = unsafe extern "C-unwind" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
    // SAFETY: this trampoline stands in for the function at this address, which the provider had stored in
    // `ops.poll_cq`; the caller keeps the promises that it asks for.
    unsafe {
        let function = core::mem::transmute::<usize, PollCq>(POLL_CQ.address(SLOT));
        match function(cq, num_entries, wc) {
            0 if !ALL => 0,
            result => looked_at::<ALL>(cq, result, num_entries, wc),
        }
    }
}

/// A poll returned `result`, which is 0 only where all are counted, and which is returned again.
///
/// # Safety
/// `cq` is live; where `result` is from 1 to `num_entries`, the provider has filled in so many of `wc`.
unsafe extern "C" fn looked_at<const ALL: bool>(
    cq: *mut ibv_cq,
    result: c_int,
    num_entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        if ALL {
            return counted(cq, result, num_entries, wc);
        }
        // More than was asked for: then the provider has not filled it in.
        if result > num_entries {
            return failed(cq, result, num_entries, wc);
        }
        let any = match result {
            1 => (*wc).status,
            16.. => many(wc, result),
            2..16 => few(wc, result),
            _ => return failed(cq, result, num_entries, wc),
        };
        if any == IBV_WC_SUCCESS { result } else { failed(cq, result, num_entries, wc) }
    }
}

/// The statuses of 16 or more completions, or-ed together. Success is 0 in all versions of the ABI.
///
/// # Safety
/// `wc` holds `number` completions.
#[inline(always)]
unsafe fn many(mut wc: *const ibv_wc, number: c_int) -> ibv_wc_status {
    // SAFETY: as the caller promises; 16 are there at each turn.
    unsafe {
        let (mut any, mut left) = (0, number);
        loop {
            any |= four(wc) | four(wc.add(4)) | four(wc.add(8)) | four(wc.add(12));
            wc = wc.add(16);
            left -= 16;
            if left < 16 {
                break;
            }
        }
        // The usual array is full or a multiple of 16.
        if left == 0 { any } else { any | few(wc, left) }
    }
}

/// Those of a few.
///
/// # Safety
/// As [`many`].
#[inline(always)]
unsafe fn few(mut wc: *const ibv_wc, number: c_int) -> ibv_wc_status {
    // SAFETY: as the caller promises; the loops take what is there and no more.
    unsafe {
        let (mut any, mut left) = (0, number);
        while left >= 4 {
            any |= four(wc);
            wc = wc.add(4);
            left -= 4;
        }
        while left > 0 {
            // Volatile: for three at most, vector code is only longer.
            any |= (&raw const (*wc).status).read_volatile();
            wc = wc.add(1);
            left -= 1;
        }
        any
    }
}

/// # Safety
/// `wc` holds four completions.
#[inline(always)]
unsafe fn four(wc: *const ibv_wc) -> ibv_wc_status {
    // SAFETY: as the caller promises.
    unsafe { (*wc).status | (*wc.add(1)).status | (*wc.add(2)).status | (*wc.add(3)).status }
}

/// # Safety
/// As [`looked_at`].
#[cold]
#[inline(never)]
unsafe extern "C" fn failed(cq: *mut ibv_cq, result: c_int, num_entries: c_int, wc: *const ibv_wc) -> c_int {
    bookkeeping(|ledger| {
        // SAFETY: live, as the caller promises.
        let context = unsafe { (*cq).context };
        match usize::try_from(result) {
            // SAFETY: as the caller promises.
            Ok(number) if result <= num_entries => unsafe { failures(ledger, cq, context, wc, number) },
            // What it says is passed on; it is no completion that anybody could read.
            Ok(_) => {}
            Err(_) => ledger.poll_failed(cq.addr(), context.addr()),
        }
    });
    // The compiler must not know that it is the argument: it would keep a register for it in the caller.
    core::hint::black_box(result)
}

/// The same where all completions are counted.
///
/// # Safety
/// As [`looked_at`].
#[inline(never)]
unsafe extern "C" fn counted(cq: *mut ibv_cq, result: c_int, num_entries: c_int, wc: *const ibv_wc) -> c_int {
    bookkeeping(|ledger| {
        // SAFETY: live, as the caller promises.
        let context = unsafe { (*cq).context };
        let Ok(number) = usize::try_from(result) else {
            return ledger.poll_failed(cq.addr(), context.addr());
        };
        if number == 0 {
            return ledger.polled_empty(cq.addr());
        }
        // See `failed`.
        if result > num_entries {
            return;
        }
        // SAFETY: as the caller promises. Of a failed completion the opcode is not defined (ibv_poll_cq(3)).
        unsafe {
            let good = (0..number).map(|i| wc.add(i)).filter(|wc| (**wc).status == IBV_WC_SUCCESS);
            // Who asks for one knows that one is there: a pingpong waits for the next after that.
            let is_full = result == num_entries && result > 1;
            ledger.polled(
                cq.addr(),
                context.addr(),
                (number as u32, is_full),
                good.map(|wc| Done { opcode: (*wc).opcode, qp_num: (*wc).qp_num }),
            );
            let any = if number < 16 { few(wc, number as c_int) } else { many(wc, number as c_int) };
            if any != IBV_WC_SUCCESS {
                failures(ledger, cq, context, wc, number);
            }
        }
    });
    result
}

/// # Safety
/// `wc` holds `number` completions; `cq` and its context are live.
unsafe fn failures(
    ledger: &'static Ledger,
    cq: *mut ibv_cq,
    context: *mut ibv_context,
    wc: *const ibv_wc,
    number: usize,
) {
    // SAFETY: open, as the caller promises. After fork it is not in this process's books yet.
    let qp_goes_on = unsafe {
        adopt_into(ledger, context);
        qp_goes_on(context)
    };
    for i in 0..number {
        // SAFETY: as the caller promises. These four members are all that is defined of a failed completion
        // (ibv_poll_cq(3)).
        let (status, wr_id, qp_num, vendor_err) = unsafe {
            let wc = wc.add(i);
            ((*wc).status, (*wc).wr_id, (*wc).qp_num, (*wc).vendor_err)
        };
        if status != IBV_WC_SUCCESS {
            let known = completion::Known { status, wr_id, qp_num: Some(qp_num), vendor_err, qp_goes_on };
            completion::failed(ledger, (cq.addr(), context.addr()), &known);
        }
    }
}

trampolines! {
    /// Extended CQs: only completions with an error are looked at.
    MANY start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int;
    before ();
    after |_kept, result| if result == 0 && (*cq).status != IBV_WC_SUCCESS { one_failed(cq) };

    MANY next_poll(cq: *mut ibv_cq_ex) -> c_int;
    before ();
    after |_kept, result| if result == 0 && (*cq).status != IBV_WC_SUCCESS { one_failed(cq) };

    /// All are counted.
    MANY start_poll_counted(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int;
    before ();
    after |_kept, result| if result == 0 { one_counted(cq) } else { none_counted(cq.addr()) };

    MANY next_poll_counted(cq: *mut ibv_cq_ex) -> c_int;
    before ();
    after |_kept, result| if result == 0 { one_counted(cq) };
}

/// Whether a failure leaves its QP alone: with transports of a vendor's own (EFA, usNIC) each work request fails by itself.
///
/// # Safety
/// `context` is open.
unsafe fn qp_goes_on(context: *mut ibv_context) -> bool {
    // SAFETY: as the caller promises.
    let transport = unsafe { transport(context) };
    matches!(transport, IBV_TRANSPORT_USNIC | IBV_TRANSPORT_USNIC_UDP | IBV_TRANSPORT_UNSPECIFIED)
}

/// Whose completion an extended CQ stands at, if the CQ tells that. mlx4 leaves garbage where a reader was not asked for.
///
/// # Safety
/// `cq` is live and stands at a completion.
unsafe fn qp_num(ledger: &Ledger, cq: *mut ibv_cq_ex) -> Option<u32> {
    // SAFETY: as the caller promises; the reader was asked for when the CQ was created.
    unsafe { (*cq).read_qp_num.filter(|_| ledger.tells_qp(cq.addr())).map(|read| read(cq)) }
}

/// What can be told of the failed completion at which an extended CQ stands: a CQ has the readers that it was created
/// with (ibv_create_cq_ex(3)).
///
/// # Safety
/// `cq` is live and stands at a completion with an error status.
unsafe fn known(ledger: &'static Ledger, cq: *mut ibv_cq_ex) -> completion::Known {
    // SAFETY: as the caller promises; the members are functions of the provider for a CQ that stands at a completion.
    unsafe {
        completion::Known {
            status: (*cq).status,
            wr_id: (*cq).wr_id,
            qp_num: qp_num(ledger, cq),
            vendor_err: (*cq).read_vendor_err.map_or(0, |read| read(cq)),
            qp_goes_on: qp_goes_on((*cq).context),
        }
    }
}

/// # Safety
/// As [`known`].
#[cold]
#[inline(never)]
unsafe extern "C" fn one_failed(cq: *mut ibv_cq_ex) {
    bookkeeping(|ledger| {
        ledger.cq_polled_as_extended(cq.addr());
        // SAFETY: as the caller promises.
        let (known, context) = unsafe {
            adopt_into(ledger, (*cq).context);
            (known(ledger, cq), (*cq).context)
        };
        completion::failed(ledger, (cq.addr(), context.addr()), &known);
    });
}

/// # Safety
/// `cq` is live and stands at a completion.
#[inline(never)]
unsafe extern "C" fn one_counted(cq: *mut ibv_cq_ex) {
    bookkeeping(|ledger| {
        ledger.cq_polled_as_extended(cq.addr());
        // SAFETY: as the caller promises; see `known`.
        unsafe {
            let (status, context) = ((*cq).status, (*cq).context);
            let good = status == IBV_WC_SUCCESS;
            // Without readers nobody can say which opcode it is, or whose.
            let done = good.then(|| Done {
                opcode: (*cq).read_opcode.map_or(u32::MAX, |read| read(cq)),
                qp_num: qp_num(ledger, cq).unwrap_or(u32::MAX),
            });
            ledger.polled(cq.addr(), context.addr(), (1, false), done.into_iter());
            if !good {
                completion::failed(ledger, (cq.addr(), context.addr()), &known(ledger, cq));
            }
        }
    });
}

/// It has no completion now, or cannot tell.
#[inline(never)]
extern "C" fn none_counted(cq: usize) {
    bookkeeping(|ledger| ledger.polled_empty(cq));
}

/// Watches the polls of a context. False if no trampoline was free.
///
/// # Safety
/// `context` is open.
pub(super) unsafe fn watch(context: *mut ibv_context) -> bool {
    let trampolines = match settings::get().cq {
        CqMode::Off => return true,
        CqMode::Errors => addresses::<false>(),
        CqMode::Full => addresses::<true>(),
    };
    // SAFETY: the member lies in an open context; libibverbs writes it only while it opens the context.
    unsafe { replace((&raw mut (*context).ops.poll_cq).cast(), &POLL_CQ, &trampolines) }
}

fn addresses<const ALL: bool>() -> [usize; FEW] {
    let functions: [unsafe extern "C-unwind" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int; FEW] =
        all_of!(FEW, ALL);
    functions.map(|function| (function as *const ()).expose_provenance())
}

/// Watches the polls of an extended CQ. False if no trampoline was free.
///
/// # Safety
/// `cq` is a live extended CQ that nobody else has seen yet.
pub(super) unsafe fn watch_extended(cq: *mut ibv_cq_ex) -> bool {
    // SAFETY: live and ours alone, as the caller promises; providers set these members when they create the CQ.
    unsafe {
        let (start, next) = (&raw mut (*cq).start_poll, &raw mut (*cq).next_poll);
        match settings::get().cq {
            CqMode::Off => true,
            CqMode::Errors => start_poll::watch(start.cast()) && next_poll::watch(next.cast()),
            CqMode::Full => start_poll_counted::watch(start.cast()) && next_poll_counted::watch(next.cast()),
        }
    }
}
