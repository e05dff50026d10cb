//! Events got and acks given.

use crate::context::Sign;
use crate::events::{DEVICE_FATAL, Kind};
use crate::object::Object;
use crate::open::{Taken, Thread};
use crate::sync::*;
use crate::table::{ALIVE, DEAD, Entry, FOREIGN};
use crate::waits::Token;
use crate::{Handed, Ledger};

/// `IBV_SA_ACK`: what becomes of an ack for no event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum AckMode {
    /// It is held back, and passed on when it is needed after all.
    #[default]
    Protect,
    /// It is passed on.
    Forward,
    /// As `Protect`; and events that nobody acknowledges are acknowledged for the program when their object goes.
    Rescue,
    /// The program is aborted.
    Abort,
}

impl AckMode {
    /// As the setting spells it.
    pub fn name(self) -> &'static str {
        match self {
            AckMode::Protect => "protect",
            AckMode::Forward => "forward",
            AckMode::Rescue => "rescue",
            AckMode::Abort => "abort",
        }
    }

    fn holds(self) -> bool {
        matches!(self, AckMode::Protect | AckMode::Rescue)
    }
}

/// What is wrong with an ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No event of the object is open, or not that many.
    NotOpen {
        /// Acks given in this call.
        given: u32,
        /// Of them, those for which an event was open.
        good: u32,
        /// Events got of this object, of this sort.
        got: u64,
        /// Acks passed on before this call.
        acked: u64,
    },
    /// The object was destroyed before.
    Destroyed {
        /// Acks given in this call.
        given: u32,
    },
    /// The object at that address is of another kind than the event's.
    OtherKind {
        /// Acks given in this call.
        given: u32,
    },
}

/// What is to be done with an ack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ack {
    /// How many of the acks are to be passed on now.
    pub forward: u32,
    /// The object, if it is in the books.
    pub token: Token,
    /// What is to be said about it.
    pub fault: Option<Fault>,
    /// Held acks that found an open event just now.
    pub handed: Handed,
    /// A destroy of this object is in progress and may wait for an ack that is held.
    pub look_after: bool,
}

/// The two sorts of events that a CQ has apart from each other.
#[derive(Clone, Copy)]
enum Sort {
    Event,
    Completion,
}

/// An asynchronous event that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Got {
    /// The object of the event, if it has one and that is in the books.
    pub token: Token,
    /// Held acks that find this event open.
    pub handed: Handed,
    /// A destroy of the object is in progress, and will wait for the ack of this event.
    pub look_after: bool,
    /// The thread that read the event before, if it is another one and this was not said yet.
    pub other_reader: Option<u32>,
    /// The first sign that the device has failed.
    pub first_fatal: bool,
    /// The first event of this type of this object.
    pub first_of_type: bool,
}

impl Ledger {
    /// An asynchronous event was read from a context's `fd` by the thread `tid`; `name` is asked for if it is not known
    /// yet. `element` is the address in the event, read only if the type has an object.
    pub fn event_got(
        &self,
        (context, fd): (usize, i32),
        event_type: u32,
        element: Option<usize>,
        (tid, name): (u32, impl FnOnce() -> Thread),
        at: u64,
    ) -> Got {
        let mut got = Got::default();
        let entry = self.context(context);
        if let Some(entry) = entry {
            let before = entry.reader.load(Relaxed);
            if before != tid {
                entry.reader.store(tid, Relaxed);
                let first = before != 0 && entry.two_readers_told.swap(1, Relaxed) == 0;
                got.other_reader = first.then_some(before);
            }
            entry.fd.store(fd as u32, Relaxed);
            entry.got_until(at);
            got.first_fatal = event_type == DEVICE_FATAL && entry.sign(Sign::DeviceFatal);
        }
        let object = Kind::of_event(event_type)
            .zip(element)
            .and_then(|(kind, address)| self.object_or_foreign(kind, address, context, at));
        let Some(object) = object else {
            match entry {
                Some(entry) => entry.tally.async_got.count(event_type),
                None => self.device_tally(context).async_got.count(event_type),
            }
            return got;
        };
        got.first_of_type = object.count_got(event_type);
        let address = object.head().address();
        let by = match entry {
            Some(entry) => entry.named.thread(tid, name),
            None => name(),
        };
        // The details first: a close that follows the count finds them.
        if !self.open_events.add(address, &Taken { event_type, by, at }) {
            self.unlisted.fetch_add(1, Relaxed);
        }
        object.events.got_one();
        if object.destroyer.load(SeqCst) != 0 {
            got.handed.events = object.events.pair();
            self.close_paired(object, got.handed.events);
            got.look_after = object.events.open.load(SeqCst) != 0;
            got.token = self.token_of(object);
        }
        got
    }

    /// A completion event of `cq` was read, by the thread `tid`; `name` is asked for if it is not known yet. Only
    /// what is about a destroy in progress is filled in.
    pub fn comp_event_got(
        &self,
        cq: usize,
        context: usize,
        (tid, name): (u32, impl FnOnce() -> Thread),
        at: u64,
    ) -> Got {
        let mut got = Got::default();
        let known = self.live_object(Kind::Cq, cq);
        let Some(object) = known.or_else(|| self.object_or_foreign(Kind::Cq, cq, context, at)) else {
            self.device_tally(context).comp_got.fetch_add(1, Relaxed);
            return got;
        };
        object.named.thread(tid, name);
        object.completion_got(tid, at);
        if let Some(book) = self.cq_books.of(object) {
            book.arming.fired();
        }
        if object.destroyer.load(SeqCst) != 0 {
            got.handed.completions = object.completions.pair();
            got.look_after = object.completions.open.load(SeqCst) != 0;
            got.token = self.token_of(object);
        }
        got
    }

    /// The token of an object that was just found by its address.
    fn token_of(&self, object: &Object) -> Token {
        let place = self.objects.find(object.head().address());
        place.map_or(Token::default(), |place| Token {
            place: place as u32 + 1,
            generation: self.objects.at(place).head().generation(),
        })
    }

    /// An asynchronous event is acknowledged. `element` as in [`Self::event_got`].
    pub fn event_acked(&self, event_type: u32, element: Option<usize>, mode: AckMode) -> Ack {
        let object = Kind::of_event(event_type)
            .zip(element)
            .and_then(|(kind, address)| Some((kind, self.objects.find(address)?)));
        let Some((kind, place)) = object else {
            self.loose_acks.count(event_type);
            if Kind::of_event(event_type).is_some() {
                self.foreign_acks.fetch_add(1, Relaxed);
            }
            return Ack { forward: 1, ..Default::default() };
        };
        let object = self.objects.at(place);
        let ack = self.acked(place, kind, Sort::Event, 1, mode);
        if ack.forward != 0 {
            object.count_acked(event_type);
        }
        if ack.fault.is_none() && ack.forward != 0 {
            self.open_events.close(object.head().address(), event_type);
        }
        self.close_paired(object, ack.handed.events);
        ack
    }

    /// `number` completion events of `cq`, which belongs to `context`, are acknowledged.
    pub fn comp_events_acked(&self, cq: usize, number: u32, mode: AckMode) -> Ack {
        match self.objects.find(cq) {
            _ if number == 0 => Ack::default(),
            Some(place) => self.acked(place, Kind::Cq, Sort::Completion, number, mode),
            None => {
                self.foreign_acks.fetch_add(number.into(), Relaxed);
                self.devices[crate::NO_DEVICE as usize].tally.comp_acked.fetch_add(number.into(), Relaxed);
                Ack { forward: number, ..Default::default() }
            }
        }
    }

    fn acked(&self, place: usize, kind: Kind, sort: Sort, number: u32, mode: AckMode) -> Ack {
        let object = self.objects.at(place);
        let head = object.head();
        let token = Token { place: place as u32 + 1, generation: head.generation() };
        let gone = self.context_of(object.home()).is_some_and(|context| context.is_gone());
        let account = match sort {
            Sort::Event => &object.events,
            Sort::Completion => &object.completions,
        };
        let mut ack = Ack { token, ..Default::default() };
        match head.state() {
            ALIVE if !gone => {}
            DEAD => {
                return self.acked_after_destroy(object, account, ack, number, mode, gone);
            }
            // Foreign, gone, or on its way between two lives: we do not know all of it.
            state => {
                let split = account.ack(number);
                account.pass(split.surplus);
                let forward = number - split.swallowed;
                if state == FOREIGN {
                    self.foreign_acks.fetch_add(forward.into(), Relaxed);
                }
                return Ack { forward, ..ack };
            }
        }
        if object.kind() != kind {
            account.bad.fetch_add(number, Relaxed);
            ack.fault = Some(Fault::OtherKind { given: number });
            self.hold_or_pass(account, number, mode, &mut ack);
            return ack;
        }
        let acked = account.acked.load(Relaxed);
        let split = account.ack(number);
        ack.forward = split.good;
        if split.surplus != 0 {
            account.bad.fetch_add(split.surplus, Relaxed);
            let got = account.got.load(Relaxed);
            ack.fault = Some(Fault::NotOpen { given: number, good: split.good, got, acked });
            self.hold_or_pass(account, split.surplus, mode, &mut ack);
            if object.destroyer.load(SeqCst) != 0 {
                let paired = account.pair();
                match sort {
                    Sort::Event => ack.handed.events = paired,
                    Sort::Completion => ack.handed.completions = paired,
                }
                ack.look_after = object.held() != 0;
            }
        }
        ack
    }

    fn acked_after_destroy(
        &self,
        object: &Object,
        account: &crate::account::Account,
        mut ack: Ack,
        number: u32,
        mode: AckMode,
        gone: bool,
    ) -> Ack {
        let split = account.ack_late(number);
        if split.surplus == 0 {
            return ack;
        }
        // On a device that is gone a destroy waits for nobody: the ack that comes late is not the program's fault.
        if !gone {
            account.bad.fetch_add(split.surplus, Relaxed);
            ack.fault = Some(Fault::Destroyed { given: split.surplus });
        }
        self.hold_or_pass(account, split.surplus, mode, &mut ack);
        ack.look_after = object.destroyer.load(SeqCst) != 0;
        ack
    }

    fn hold_or_pass(&self, account: &crate::account::Account, surplus: u32, mode: AckMode, ack: &mut Ack) {
        if mode.holds() {
            account.hold(surplus);
        } else {
            account.pass(surplus);
            ack.forward += surplus;
        }
    }
}
