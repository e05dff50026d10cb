//! Objects in the books.

use crate::account::{Account, after_write};
use crate::counts::Tally;
use crate::events::Kind;
use crate::object::{Ident, Object};
use crate::open::{Taken, Thread};
use crate::sync::*;
use crate::table::{ALIVE, Entry, FOREIGN};
use crate::waits::{Token, Wait};
use crate::{ContextName, Ledger, NO_DEVICE};

/// A creation that succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// Its kind.
    pub kind: Kind,
    /// Where it lies.
    pub address: usize,
    /// Its context.
    pub context: usize,
    /// What people know it by.
    pub ident: Ident,
    /// When the call began: events of the new object may have been read since.
    pub began: u64,
}

/// What people know an object by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// Its kind.
    pub kind: Kind,
    /// Number and handle, if its birth was seen.
    pub ident: Option<Ident>,
    /// Its context and device.
    pub context: ContextName,
}

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

/// What is open of an object at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenNow {
    /// Asynchronous events, oldest first; those without details are only in `events`.
    pub listed: Vec<Taken>,
    /// Number of asynchronous events.
    pub events: u64,
    /// Number of completion events.
    pub completions: u64,
    /// When and by whom the first of them was taken.
    pub first: Taken,
    /// When and by whom the last of them was taken.
    pub last: Taken,
    /// Held acks of both sorts.
    pub held: u32,
}

impl Ledger {
    /// An object was created.
    pub fn created(&self, created: &Created) {
        let Created { kind, address, context, ident, began } = *created;
        let home = self.home(context);
        let state = match self.context_of(home) {
            Some(context) if !Self::is_foreign(context) => ALIVE,
            _ => FOREIGN,
        };
        let lives = match self.context_of(home) {
            Some(context) => &context.tally.lives,
            None => &self.devices[home.device as usize].tally.lives,
        };
        lives[kind as usize].created.fetch_add(1, Relaxed);
        let fill = |object: &Object| {
            object.reset();
            object.describe(kind, home, Some(ident), began, state == FOREIGN);
        };
        let kept = match self.objects.find(address) {
            Some(place) => {
                let old = self.objects.at(place);
                let generation = old.head().generation();
                // Another thread has read an event of the new object before its creator came here.
                if old.head().state() == FOREIGN && old.seen_at.load(Relaxed) >= began {
                    old.describe(kind, home, Some(ident), began, state == FOREIGN);
                    state == FOREIGN || old.head().turn(generation, FOREIGN, ALIVE)
                } else {
                    self.open_events.forget(address);
                    self.objects.succeed((place, address), state, |old| self.retire(old), fill)
                }
            }
            None => self.objects.insert(address, state, |old| self.retire(old), fill).is_some(),
        };
        if !kept {
            self.crowded_out.fetch_add(1, Relaxed);
        }
    }

    /// The object at this address, taken in as foreign when it is not in the books.
    pub(crate) fn object_or_foreign(
        &self,
        kind: Kind,
        address: usize,
        context: usize,
        at: u64,
    ) -> Option<&Object> {
        let fill = |object: &Object| {
            object.reset();
            object.describe(kind, self.home(context), None, at, true);
        };
        let place = match self.objects.find(address) {
            // Dead, or destroyed around us: what an event is about is alive, and of the event's kind.
            Some(place) if !self.objects.at(place).is_live(kind) => {
                self.open_events.forget(address);
                self.objects.succeed((place, address), FOREIGN, |old| self.retire(old), fill);
                self.objects.find(address)
            }
            Some(place) => Some(place),
            None => self.objects.insert(address, FOREIGN, |old| self.retire(old), fill),
        };
        if place.is_none() {
            self.crowded_out.fetch_add(1, Relaxed);
        }
        Some(self.objects.at(place?))
    }

    /// The place of an object is used again: what it counted stays with its context, or with its device.
    fn retire(&self, object: &Object) {
        let home = object.home();
        match self.context_of(home) {
            Some(context) => {
                context.forgotten.fetch_add((!object.is_blank()).into(), Relaxed);
                object.add_to(&context.tally);
            }
            None => object.add_to(&self.devices[home.device as usize].tally),
        }
    }

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
        Destroying { token, handed, may_wait: object.may_wait(), silent: gone }
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
            if object.is_some() {
                self.bury_object(destroying.token.place as usize - 1, destroying.token.generation);
            }
        }
        ended
    }

    /// The object at this place is gone, unless the place has begun another life.
    pub(crate) fn bury_object(&self, place: usize, generation: u32) {
        self.objects.bury(place, generation);
    }

    /// The object behind a token, unless it has begun another life.
    pub(crate) fn object(&self, token: Token) -> Option<&Object> {
        let object = self.objects.at(token.place.checked_sub(1)? as usize);
        (object.head().generation() == token.generation).then_some(object)
    }

    /// Where it lies, and its kind.
    pub fn address_of(&self, token: Token) -> Option<(Kind, usize)> {
        self.object(token).map(|object| (object.kind(), object.head().address()))
    }

    /// What people know it by.
    pub fn object_name(&self, token: Token) -> Option<ObjectName> {
        let object = self.object(token)?;
        let home = object.home();
        let context = match self.context_of(home) {
            Some(context) => self.name_of(context),
            None => ContextName { id: 0, device: self.devices[home.device as usize].name.get() },
        };
        Some(ObjectName { kind: object.kind(), ident: object.ident(), context })
    }

    /// What is open of it.
    pub fn open_now(&self, token: Token) -> Option<OpenNow> {
        let object = self.object(token)?;
        let taken = |at: &AtomicU64, by: &AtomicU32| Taken {
            by: object.named.known(by.load(Relaxed)),
            at: at.load(Relaxed),
            ..Default::default()
        };
        Some(OpenNow {
            listed: self.open_events.list(object.head().address()),
            events: object.events.open.load(SeqCst),
            completions: object.completions.open.load(SeqCst),
            first: taken(&object.first_at, &object.first_by),
            last: taken(&object.last_at, &object.last_by),
            held: object.held(),
        })
    }

    /// Whether all its open completion events were taken by this thread.
    pub fn completions_all_by(&self, token: Token, tid: u32) -> bool {
        self.object(token).is_some_and(|object| object.completions_all_by(tid))
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

    /// A poll of `cq` returned `number` completions, `failed` of them with an error status.
    pub fn polled(&self, cq: usize, context: usize, number: u32, failed: u32) {
        match self.live_object(Kind::Cq, cq).or_else(|| self.object_or_foreign(Kind::Cq, cq, context, 0)) {
            Some(object) => object.traffic.count(number, failed),
            // No count is lost: the device's own counters take it, on a line that threads share.
            None => self.device_tally(context).traffic.count(number, failed),
        }
    }

    pub(crate) fn live_object(&self, kind: Kind, address: usize) -> Option<&Object> {
        let object = self.objects.at(self.objects.find(address)?);
        object.is_live(kind).then_some(object)
    }

    pub(crate) fn device_tally(&self, context: usize) -> &Tally {
        let device = self.context(context).map_or(NO_DEVICE, |context| context.device.load(Relaxed));
        &self.devices[device as usize].tally
    }

    /// A call with a bad ack of this object: the how manieth it is.
    pub fn bad_call(&self, token: Token) -> u32 {
        let Some(object) = self.object(token) else { return 0 };
        let calls = object.bad_calls.fetch_add(1, Relaxed) + 1;
        if let Some(incident) = object.bad_acks_told.load(Relaxed).checked_sub(1) {
            self.incidents.again(incident);
        }
        calls
    }

    /// Bad acks of this object are that incident.
    pub fn bad_acks_are(&self, token: Token, incident: u32) {
        if let Some(object) = self.object(token) {
            object.bad_acks_told.store(incident + 1, Relaxed);
        }
    }
}

impl Object {
    fn is_live(&self, kind: Kind) -> bool {
        matches!(self.head().state(), ALIVE | FOREIGN) && self.kind() == kind
    }

    pub(crate) fn held(&self) -> u32 {
        self.events.held().saturating_add(self.completions.held())
    }

    fn may_wait(&self) -> bool {
        self.events.open.load(SeqCst) != 0 || self.completions.open.load(SeqCst) != 0 || self.held() != 0
    }
}
