//! Objects while they are destroyed: who waits for what, and acks that are given out of turn.

use crate::Ledger;
use crate::account::{Account, after_write};
use crate::events::Kind;
use crate::object::{Ident, Object};
use crate::open::{Taken, Thread};
use crate::qps::Moving;
use crate::sync::*;
use crate::table::{ALIVE, Entry, FOREIGN};
use crate::waits::{Token, Wait};

/// Acks that are to be passed on at once: there are events that they belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Handed {
    /// Of asynchronous events.
    pub events: u32,
    /// Of completion events.
    pub completions: u32,
}

/// A destroy that begins.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Destroying {
    /// The object.
    pub token: Token,
    /// A QP, in the books of completions.
    pub moving: Moving,
    /// Held acks that find an open event now.
    pub handed: Handed,
    /// Whether it may come to wait: events are open, or acks are held.
    pub may_wait: bool,
    /// Nothing is to be said of it before it has waited for long: the device is gone, and it will not wait; or what is
    /// open may be acknowledged already, by a way that does not lead past us.
    pub silent: bool,
}

/// A destroy that returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// EBUSY for the first time.
    pub refused: bool,
    /// It was looked after.
    pub was_watched: bool,
}

impl Ledger {
    /// A destroy begins, by the thread `by`.
    pub fn destroy_begins(&self, kind: Kind, address: usize, by: u32, now: u64) -> Destroying {
        let Some(place) = self.objects.find(address) else { return Destroying::default() };
        let object = self.objects.at(place);
        let generation = object.head().generation();
        // Somebody else's object lives at the address of one that we saw die. Acks that were held are its own.
        self.objects.revive(place, generation);
        let token = Token { place: place as u32 + 1, generation };
        if object.kind() != kind {
            // Another object lives here than the one that we know, which was destroyed around us.
            self.disown(token, kind);
        }
        let gone = self.context_of(object.home()).is_some_and(|context| context.is_gone());
        object.destroy_since.store(now, Relaxed);
        object.destroyer.store(by, SeqCst);
        after_write();
        let handed = Handed { events: object.events.pair(), completions: object.completions.pair() };
        self.close_paired(object, handed.events);
        Destroying { token, moving: Moving::default(), handed, may_wait: object.may_wait(), silent: gone }
    }

    /// What the books have of an object turns out to be of another one, which lived at its address before. All that is
    /// kept of it are acks that are held: they may be needed.
    pub fn disown(&self, token: Token, kind: Kind) {
        let Some(object) = self.object(token) else { return };
        object.head().turn(token.generation, ALIVE, FOREIGN);
        object.describe(kind, object.home(), None, object.seen_at.load(Relaxed), true);
        object.events.settle();
        object.completions.settle();
        self.open_events.forget(object.head().address());
    }

    /// What people know it by, if its birth was seen.
    pub fn ident(&self, token: Token) -> Option<Ident> {
        self.object(token)?.ident()
    }

    /// By how much the acks that libibverbs has counted of an object exceed those that went to it from here, of
    /// asynchronous and of completion events. Less than none: some are on their way, or it is another object than the
    /// one in the books.
    pub fn drift(&self, token: Token, completed: (u32, u32)) -> (i32, i32) {
        let Some(object) = self.object(token) else { return (0, 0) };
        let drift = |account: &Account, completed: u32| {
            completed.wrapping_sub(account.acked.load(Relaxed) as u32) as i32
        };
        (drift(&object.events, completed.0), drift(&object.completions, completed.1))
    }

    /// So many acks went to libibverbs around us: as many events that are open here may be acknowledged already.
    pub fn acked_around(&self, token: Token, (events, completions): (u32, u32)) {
        if let Some(object) = self.object(token) {
            object.events.acked_around(events);
            object.completions.acked_around(completions);
        }
    }

    /// The destroy returned; `context` is where the object belonged.
    pub fn destroy_ended(
        &self,
        destroying: &Destroying,
        kind: Kind,
        context: usize,
        succeeded: bool,
        busy: bool,
    ) -> Ended {
        let mut ended = Ended::default();
        let object = self.object(destroying.token);
        if let Some(object) = object {
            object.destroyer.store(0, SeqCst);
            ended.was_watched = self.waits.remove(destroying.token);
            let gone = self.context_of(object.home()).is_some_and(|context| context.is_gone());
            ended.refused = busy && !gone && object.refused.swap(1, Relaxed) == 0;
        }
        if succeeded {
            let home = self.home(context);
            let lives = match self.context_of(home) {
                Some(context) => &context.tally.lives,
                None => &self.devices[home.device as usize].tally.lives,
            };
            lives[kind as usize].destroyed.fetch_add(1, Relaxed);
            if let Some(object) = object {
                self.work_ends(object);
                self.bury_object(destroying.token.place as usize - 1, destroying.token.generation);
            }
        }
        ended
    }

    /// The destroy of an object that is in progress, as one to look after from `first_look` on. False if there is no
    /// room. `by` is who destroys it; without a name where that is not known.
    pub fn look_after(&self, token: Token, by: Thread, first_look: u64) -> bool {
        let Some(object) = self.object(token) else { return false };
        let since = object.destroy_since.load(Relaxed);
        self.waits.add(&Wait { token, by, since, next_at: first_look, ..Default::default() })
    }

    /// The thread that destroys an object now, and since when.
    pub fn destroyer(&self, token: Token) -> Option<(u32, u64)> {
        let object = self.object(token)?;
        let tid = object.destroyer.load(SeqCst);
        (tid != 0).then(|| (tid, object.destroy_since.load(Relaxed)))
    }

    /// Destroys that are looked after.
    pub fn waits(&self) -> impl Iterator<Item = Wait> {
        self.waits.active()
    }

    /// A destroy was looked at: what is known of it now.
    pub fn looked_at(&self, wait: &Wait) {
        self.waits.looked_at(wait);
    }

    /// A destroy is not to be looked after any more: it has returned.
    pub fn looked_after(&self, wait: &Wait) {
        self.waits.drop(wait);
    }

    /// The destroying thread is gone without having come back: it was cancelled, or jumped out.
    pub fn destroy_left(&self, wait: &Wait) {
        if let Some(object) = self.object(wait.token) {
            // Another thread may have come to destroy it since.
            let _ = object.destroyer.compare_exchange(wait.by.tid, 0, SeqCst, Relaxed);
        }
        self.waits.drop(wait);
    }

    /// Open events and held acks that have come to meet.
    pub fn pair(&self, token: Token) -> Handed {
        let Some(object) = self.object(token) else { return Handed::default() };
        let handed = Handed { events: object.events.pair(), completions: object.completions.pair() };
        self.close_paired(object, handed.events);
        handed
    }

    /// Held acks were passed on for this many of its open events.
    pub(crate) fn close_paired(&self, object: &Object, number: u32) {
        for _ in 0..number {
            let event_type = self.open_events.close(object.head().address(), object.kind().any_event());
            object.count_acked(event_type);
        }
    }

    /// Takes one held ack of an object none of whose events is open.
    pub fn release_one(&self, token: Token) -> Handed {
        let Some(object) = self.object(token) else { return Handed::default() };
        if object.events.release_one() {
            object.count_acked(object.kind().any_event());
            Handed { events: 1, completions: 0 }
        } else if object.completions.release_one() {
            Handed { events: 0, completions: 1 }
        } else {
            Handed::default()
        }
    }

    /// Closes, for the program, an asynchronous event that `tid` took (or any that has details, if `None`), and says
    /// which.
    pub fn rescue_event(&self, token: Token, tid: Option<u32>) -> Option<Taken> {
        let object = self.object(token)?;
        let address = object.head().address();
        let taken = self.open_events.take(address, tid)?;
        if object.events.rescue(1) == 0 {
            // It may be acknowledged already: still open, for all that is known here.
            self.open_events.add(address, &taken);
            return None;
        }
        object.count_acked(taken.event_type);
        Some(taken)
    }

    /// Closes, for the program, all asynchronous events that are left, of which there are no details; says how many.
    pub fn rescue_unlisted(&self, token: Token) -> u32 {
        let Some(object) = self.object(token) else { return 0 };
        let rescued = object.events.rescue(u32::MAX);
        for _ in 0..rescued {
            object.count_acked(object.kind().any_event());
        }
        rescued
    }

    /// Closes, for the program, all completion events that are open, and says how many they were.
    pub fn rescue_completions(&self, token: Token) -> u32 {
        self.object(token).map_or(0, |object| object.completions.rescue(u32::MAX))
    }
}
