//! Objects in the books.

use crate::counts::Tally;
use crate::events::Kind;
use crate::object::{Ident, Object};
use crate::open::Taken;
use crate::sync::*;
use crate::table::{ALIVE, Entry, FOREIGN};
use crate::waits::Token;
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
        let tally = match self.context_of(home) {
            Some(context) => {
                context.forgotten.fetch_add((!object.is_blank()).into(), Relaxed);
                &context.tally
            }
            None => &self.devices[home.device as usize].tally,
        };
        object.add_to(tally);
        self.work_ends(object);
        self.cq_ends(object);
        self.cq_books.take_back(object, &tally.opcodes);
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

    /// An extended CQ was created with a reader of the qp_num.
    pub fn cq_tells_qp(&self, cq: usize) {
        if let Some(object) = self.live_object(Kind::Cq, cq) {
            object.tells_qp.store(1, Relaxed);
        }
    }

    /// Whether that is known of it. A reader that was not asked for may be any garbage.
    pub fn tells_qp(&self, cq: usize) -> bool {
        self.live_object(Kind::Cq, cq).is_some_and(|object| object.tells_qp.load(Relaxed) == 1)
    }

    pub(crate) fn live_object(&self, kind: Kind, address: usize) -> Option<&Object> {
        let object = self.objects.at(self.objects.find(address)?);
        object.is_live(kind).then_some(object)
    }

    /// Where a context's sums are.
    pub(crate) fn tally(&self, context: usize) -> &Tally {
        self.context(context).map_or_else(|| self.device_tally(context), |context| &context.tally)
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

    pub(crate) fn may_wait(&self) -> bool {
        self.events.open.load(SeqCst) != 0 || self.completions.open.load(SeqCst) != 0 || self.held() != 0
    }
}
