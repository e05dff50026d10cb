//! A destroy between its two ends: it may wait for acks.

use core::mem::size_of;

use ibv_sa_ledger::{AckMode, Destroying, Kind, Ledger, OpenNow, Sign, Taken, Thread, Token, What};
use ibv_sa_report::lines::{self, CompletionsTaken, TakenBy};

use crate::abi::*;
use crate::boundary::bookkeeping;
use crate::interpose::{backlog, removal};
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

/// The acks that libibverbs itself has counted, of asynchronous and of completion events.
pub(crate) trait Completed {
    /// # Safety
    /// The object is alive.
    unsafe fn completed(self) -> (u32, u32);
}

macro_rules! completed {
    ($($ty:ident => |$object:ident| $counts:expr;)*) => {$(
        impl Completed for *mut $ty {
            #[inline]
            unsafe fn completed(self) -> (u32, u32) {
                let $object = self;
                $counts
            }
        }
    )*};
}

/// Other threads may count at this moment: a value that is about to change is as good as the one before.
macro_rules! counted {
    ($object:ident.$member:ident) => {
        // SAFETY: alive, as the caller of `completed` promises.
        unsafe { (&raw const (*$object).$member).read_volatile() }
    };
}

completed! {
    ibv_qp => |qp| (counted!(qp.events_completed), 0);
    ibv_srq => |srq| (counted!(srq.events_completed), 0);
    ibv_wq => |wq| (counted!(wq.events_completed), 0);
    ibv_cq => |cq| (counted!(cq.async_events_completed), counted!(cq.comp_events_completed));
    ibv_comp_channel => |_channel| (0, 0);
}

/// Returns acks that are to be handed over before the real destroy.
///
/// # Safety
/// `context` is open; it is the object's.
#[inline(never)]
pub(crate) unsafe extern "C" fn begin(
    kind: Kind,
    object: usize,
    context: *mut ibv_context,
    events: u32,
    completions: u32,
) -> Destroying {
    let mut destroying = Destroying::default();
    bookkeeping(|ledger| {
        let now = clock::now();
        destroying = ledger.destroy_begins(kind, object, (events, completions), clock::tid(), now);
        if destroying.may_wait {
            // SAFETY: open, as the caller promises.
            let fd = unsafe { (*context).async_fd };
            if backlog::has_error(fd) {
                let sign_of = "its async descriptor reports an error in";
                removal::sign(ledger, context.addr(), Sign::PollError, sign_of);
            } else {
                prepare(ledger, &mut destroying, now);
            }
        }
    });
    destroying
}

#[inline(never)]
pub(crate) extern "C" fn end(destroying: &Destroying, kind: Kind, context: *mut ibv_context, result: c_int) {
    bookkeeping(|ledger| {
        let context = context.addr();
        let (ok, busy) = (result == 0, result == libc::EBUSY);
        // Asked while its name is still known.
        let name = busy.then(|| ledger.object_name(destroying.token)).flatten();
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
    let mut told = destroying.silent;
    let own = open.listed.iter().find(|taken| taken.by.tid == me.tid).filter(|_| !told);
    let own_completions = !told && open.completions != 0 && ledger.completions_all_by(token, me.tid);
    if own.is_some() || own_completions {
        let by = tell::person(&me);
        let event = own.map(|taken| TakenBy {
            event_type: taken.event_type,
            by: Some(by.clone()),
            age: now.saturating_sub(taken.at),
        });
        let completions = own_completions.then(|| (open.completions, now.saturating_sub(open.last.at)));
        let text = lines::self_deadlock(&name, &by, event.as_ref(), completions);
        tell::incident(ledger, What::DestroyWaits, name.context.id, me.tid, &text);
        told = true;
    }
    let waits = open.events != 0 || open.completions != 0;
    let to_be_watched = waits || open.held != 0;
    let unwatched = to_be_watched && !watch::look_after(ledger, token, me, now + watch::patience());
    if unwatched && waits && !told {
        // Nobody will be there to say it later.
        let text = waiting(ledger, token, &me, 0, &open, now).unwrap_or_default();
        tell::incident(ledger, What::DestroyWaits, name.context.id, me.tid, &text);
    }
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
