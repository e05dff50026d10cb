//! Acks for no event.

use ibv_sa_ledger::{Ack, AckMode, Fault, Handed, Ledger, Thread, What};
use ibv_sa_report::lines;

use crate::{clock, settings, tell, watch};

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
    if ack.look_after
        && let Some((tid, since)) = ledger.destroyer(ack.token)
    {
        let by = Thread { tid, ..Default::default() };
        watch::look_after(ledger, ack.token, by, since + watch::patience());
    }
}

fn tell_of(ledger: &Ledger, ack: &Ack, fault: Fault, event_type: Option<u32>) {
    let Some(name) = ledger.object_name(ack.token) else { return };
    let mode = settings::get().ack;
    let held = match (mode, fault) {
        (AckMode::Forward | AckMode::Abort, _) | (_, Fault::OtherKind) => 0,
        (_, Fault::NotOpen { given, good, .. }) => given - good,
        (_, Fault::Destroyed { given }) => given,
    };
    let me = clock::me();
    let (bad, told) = ledger.bad_acks(ack.token);
    let text = lines::bad_ack(&name, &tell::person(&me), event_type, fault, held, mode);
    match told {
        None => {
            if let Some(place) = tell::incident(ledger, What::BadAck, name.context.id, me.tid, &text) {
                ledger.bad_acks_are(ack.token, place);
            }
        }
        Some(place) => {
            ledger.happened_again(place);
            if tell::is_round(bad) {
                tell::line(ledger, &format!("{text} ({bad} bad acks of it so far)"));
            }
        }
    }
    if mode == AckMode::Abort {
        // SAFETY: abort(3) has no preconditions.
        unsafe { libc::abort() };
    }
}
