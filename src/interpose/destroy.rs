//! A destroy between its two ends: it may wait for acks.

use core::mem::size_of;

use ibv_sa_ledger::{AckMode, Destroying, Kind, Ledger, OpenNow, Sign, Taken, Thread, Token, What};
use ibv_sa_report::lines::{self, CompletionsTaken, TakenBy};

use crate::abi::*;
use crate::boundary::{bookkeeping, uncancelled};
use crate::interpose::object::ident;
use crate::interpose::{backlog, completion, removal};
use crate::settings::CqMode;
use crate::{clock, settings, tell, watch};

/// Bytes of an object that libibverbs waits in.
pub(crate) fn size_of_kind(kind: Kind) -> usize {
    match kind {
        Kind::Qp => size_of::<ibv_qp>(),
        Kind::Cq => size_of::<ibv_cq>(),
        Kind::Srq => size_of::<ibv_srq>(),
        Kind::Wq => size_of::<ibv_wq>(),
        Kind::CompChannel => size_of::<ibv_comp_channel>(),
    }
}

/// The acks that libibverbs itself has counted, of asynchronous and of completion events. Other threads may count at
/// this moment: a value that is about to change is as good as the one before.
///
/// # Safety
/// `object` is alive and of this kind.
unsafe fn counted(kind: Kind, object: *mut c_void) -> (u32, u32) {
    macro_rules! member {
        ($ty:ident, $member:ident) => {
            (&raw const (*object.cast::<$ty>()).$member).read_volatile()
        };
    }
    // SAFETY: as the caller promises.
    unsafe {
        match kind {
            Kind::Qp => (member!(ibv_qp, events_completed), 0),
            Kind::Srq => (member!(ibv_srq, events_completed), 0),
            Kind::Wq => (member!(ibv_wq, events_completed), 0),
            Kind::Cq => (member!(ibv_cq, async_events_completed), member!(ibv_cq, comp_events_completed)),
            Kind::CompChannel => (0, 0),
        }
    }
}

/// Returns acks that are to be handed over before the real destroy.
///
/// # Safety
/// `object` is alive and of this kind; `context` is open, and the object's.
#[inline(never)]
pub(crate) unsafe extern "C" fn begin(
    kind: Kind,
    object: *mut c_void,
    context: *mut ibv_context,
) -> Destroying {
    let mut destroying = Destroying::default();
    bookkeeping(|ledger| {
        let now = clock::now();
        destroying = ledger.destroy_begins(kind, object.addr(), clock::tid(), now);
        if kind == Kind::Qp && settings::get().cq != CqMode::Off {
            // SAFETY: alive and of this kind, as the caller promises.
            let number = unsafe { (*object.cast::<ibv_qp>()).qp_num };
            destroying.moving = completion::qp_is_destroyed(ledger, context.addr(), number, now);
        }
        if destroying.may_wait {
            // SAFETY: open, as the caller promises.
            let fd = unsafe { (*context).async_fd };
            if backlog::has_error(fd) {
                let sign_of = "its async descriptor reports an error in";
                removal::sign(ledger, context.addr(), Sign::PollError, sign_of);
            }
            // SAFETY: alive and of this kind, as the caller promises.
            if unsafe { compare_books(ledger, &mut destroying, kind, object) } {
                prepare(ledger, &mut destroying, now);
            }
        }
    });
    destroying
}

/// Compares our books of an object with libibverbs's own. False if they are not of the same object: then nothing in them
/// is to be relied on.
///
/// # Safety
/// As [`counted`].
#[cold]
unsafe fn compare_books(
    ledger: &'static Ledger,
    destroying: &mut Destroying,
    kind: Kind,
    object: *mut c_void,
) -> bool {
    /// Acks of other threads, between our books and libibverbs's, take microseconds.
    const LOOKS: u32 = 50;
    let handed = destroying.handed;
    // SAFETY: as the caller promises.
    let known = unsafe { ledger.ident(destroying.token).is_none_or(|known| known == ident(kind, object)) };
    for _ in 0..if known { LOOKS } else { 0 } {
        // SAFETY: as the caller promises.
        let completed = unsafe { counted(kind, object) };
        // What is about to be handed over is in our books already.
        let completed =
            (completed.0.wrapping_add(handed.events), completed.1.wrapping_add(handed.completions));
        let (events, completions) = ledger.drift(destroying.token, completed);
        if events >= 0 && completions >= 0 {
            destroying.silent |= events + completions > 0;
            ledger.acked_around(destroying.token, (events as u32, completions as u32));
            return true;
        }
        // SAFETY: sleeping has no preconditions.
        uncancelled(|| unsafe { libc::usleep(20) });
    }
    ledger.disown(destroying.token, kind);
    destroying.silent = true;
    // Acks may be held that the object at this address needs.
    let now = clock::now();
    watch::look_after(ledger, destroying.token, clock::me(), now + watch::patience());
    false
}

#[inline(never)]
pub(crate) extern "C" fn end(destroying: &Destroying, kind: Kind, context: *mut ibv_context, result: c_int) {
    bookkeeping(|ledger| {
        let context = context.addr();
        let (ok, busy) = (result == 0, result == libc::EBUSY);
        // Asked while its name is still known.
        let name = busy.then(|| ledger.object_name(destroying.token)).flatten();
        ledger.qp_destroyed(&destroying.moving, ok);
        let ended = ledger.destroy_ended(destroying, kind, context, ok, busy);
        if ended.was_watched {
            watch::wake();
        }
        if let Some(name) = name.filter(|_| ended.refused) {
            let text = lines::refused(&name);
            tell::incident(ledger, What::DestroyRefused, name.context.id, clock::tid(), &text);
        }
        if result == libc::EIO {
            let sign_of = format!("{} failed with EIO in", lines::destroy_of(kind));
            removal::sign(ledger, context, Sign::DestroyFailed, &sign_of);
        }
        backlog::look(ledger, context, clock::now());
    });
}

/// Events are open or acks are held: what can be done and said before the wait.
#[cold]
fn prepare(ledger: &'static Ledger, destroying: &mut Destroying, now: u64) {
    let me = clock::me();
    let token = destroying.token;
    let Some(name) = ledger.object_name(token) else { return };
    if settings::get().ack == AckMode::Rescue && !destroying.silent {
        rescue_own(ledger, destroying, &me, now);
    }
    let Some(open) = ledger.open_now(token) else { return };
    if open.events == 0 && open.completions == 0 && open.held == 0 {
        return;
    }
    // A thread that waits for itself is spoken of at once, but not before it is seen to wait.
    let own = !destroying.silent && self_deadlock(ledger, token, &me, &open, now).is_some();
    let first_look = now + if own { SOON } else { watch::patience() };
    if watch::look_after(ledger, token, me, first_look) || destroying.silent {
        return;
    }
    // Nobody will be there to say it later.
    let text = self_deadlock(ledger, token, &me, &open, now)
        .or_else(|| waiting(ledger, token, &me, 0, &open, now))
        .unwrap_or_default();
    if !text.is_empty() {
        tell::incident(ledger, What::DestroyWaits, name.context.id, me.tid, &text);
    }
}

/// Until a thread that waits for itself is spoken of, in nanoseconds.
const SOON: u64 = 100_000_000;

/// The line about a thread that destroys what it took an event of itself, if it did.
pub(crate) fn self_deadlock(
    ledger: &Ledger,
    token: Token,
    me: &Thread,
    open: &OpenNow,
    now: u64,
) -> Option<String> {
    let own = open.listed.iter().find(|taken| taken.by.tid == me.tid).map(|taken| taken_by(taken, now));
    let completions = (open.completions != 0 && ledger.completions_all_by(token, me.tid))
        .then(|| (open.completions, now.saturating_sub(open.last.at)));
    let name = ledger.object_name(token)?;
    (own.is_some() || completions.is_some())
        .then(|| lines::self_deadlock(&name, &tell::person(me), own.as_ref(), completions))
}

/// Acknowledges for the program what the destroying thread took itself.
fn rescue_own(ledger: &Ledger, destroying: &mut Destroying, me: &Thread, now: u64) {
    let token = destroying.token;
    let Some(open) = ledger.open_now(token) else { return };
    let mut events = Vec::new();
    while let Some(taken) = ledger.rescue_event(token, Some(me.tid)) {
        events.push(taken_by(&taken, now));
    }
    let own = ledger.completions_all_by(token, me.tid);
    let completions = if own { ledger.rescue_completions(token) } else { 0 };
    destroying.handed.events += events.len() as u32;
    destroying.handed.completions += completions;
    say_rescued(ledger, token, me.tid, &events, 0, (completions != 0).then(|| completions_taken(&open, now)));
}

pub(crate) fn say_rescued(
    ledger: &Ledger,
    token: Token,
    tid: u32,
    events: &[TakenBy],
    unlisted: u32,
    completions: Option<CompletionsTaken>,
) {
    if (!events.is_empty() || unlisted != 0 || completions.is_some())
        && let Some(name) = ledger.object_name(token)
    {
        let text = lines::rescued(&name, events, unlisted, completions.as_ref());
        tell::incident(ledger, What::Rescued, name.context.id, tid, &text);
    }
}

/// The line about a destroy that waits, if there is something that it waits for.
pub(crate) fn waiting(
    ledger: &Ledger,
    token: Token,
    by: &Thread,
    waited: u64,
    open: &OpenNow,
    now: u64,
) -> Option<String> {
    let name = ledger.object_name(token)?;
    let mut events: Vec<TakenBy> = open.listed.iter().map(|taken| taken_by(taken, now)).collect();
    for _ in events.len() as u64..open.events {
        events.push(TakenBy { event_type: 0, by: None, age: 0 });
    }
    let completions = (open.completions != 0).then(|| completions_taken(open, now));
    (!events.is_empty() || completions.is_some())
        .then(|| lines::waits(&name, &tell::person(by), waited, &events, completions.as_ref()))
}

pub(crate) fn taken_by(taken: &Taken, now: u64) -> TakenBy {
    TakenBy {
        event_type: taken.event_type,
        by: Some(tell::person(&taken.by)),
        age: now.saturating_sub(taken.at),
    }
}

pub(crate) fn completions_taken(open: &OpenNow, now: u64) -> CompletionsTaken {
    let one = |taken: &Taken| (tell::person(&taken.by), now.saturating_sub(taken.at));
    CompletionsTaken { number: open.completions, first: one(&open.first), last: one(&open.last) }
}
