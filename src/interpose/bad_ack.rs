//! Acks for no event.

use ibv_sa_ledger::{Ack, AckMode, Fault, Handed, Ledger, What};
use ibv_sa_report::lines;

use crate::{clock, settings, stderr, tell, watch};

/// What becomes of the acks of one call.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Passed {
    /// How many of them are passed on.
    pub(crate) forward: u32,
    /// Acks that were held and are passed on beside.
    pub(crate) handed: Handed,
}

impl Passed {
    pub(crate) fn all(number: u32) -> Self {
        Self { forward: number, handed: Handed { events: 0, completions: 0 } }
    }
}

/// `event_type` is `None` for completion events.
#[cold]
pub(crate) fn report(ledger: &'static Ledger, ack: &Ack, event_type: Option<u32>) {
    if let Some(fault) = ack.fault {
        tell_of(ledger, ack, fault, event_type);
    }
    if ack.look_after {
        watch::look_after_destroyer(ledger, ack.token);
    }
}

/// Counted first: a program that does it all the time must not pay for texts that nobody reads.
fn tell_of(ledger: &Ledger, ack: &Ack, fault: Fault, event_type: Option<u32>) {
    let mode = settings::get().ack;
    let calls = ledger.bad_call(ack.token);
    if !tell::is_round(calls) && mode != AckMode::Abort {
        return;
    }
    let held = match (mode, fault) {
        (AckMode::Forward | AckMode::Abort, _) => 0,
        (_, Fault::NotOpen { given, good, .. }) => given - good,
        (_, Fault::Destroyed { given } | Fault::OtherKind { given }) => given,
    };
    let me = clock::me();
    let name = ledger.object_name(ack.token);
    let text = match &name {
        Some(name) => lines::bad_ack(name, &tell::person(&me), event_type, fault, held, mode),
        // Its place in the books went to another object in this moment.
        None => format!("{} acknowledged an event of an object that is gone", tell::person(&me)),
    };
    if mode == AckMode::Abort {
        // The last line is always said, however many there were.
        stderr::say(&text);
        // SAFETY: abort(3) has no preconditions.
        unsafe { libc::abort() };
    }
    if calls == 1 {
        let context = name.map_or(0, |name| name.context.id);
        if let Some(place) = tell::incident(ledger, What::BadAck, context, me.tid, &text) {
            ledger.bad_acks_are(ack.token, place);
        }
    } else {
        tell::line(ledger, &format!("{text} (bad ack number {calls} of it)"));
    }
}
