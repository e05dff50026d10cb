//! The books at one moment, as plain values.

use crate::account::Account;
use crate::context::Context;
use crate::counts::{AckCounts, EventSums, Tally};
use crate::events::{KINDS, Kind};
use crate::headroom::Headroom;
use crate::object::{Ident, Object};
use crate::open::Taken;
use crate::sync::*;
use crate::table::{DEAD, Entry, FOREIGN};
use crate::traffic::{OPCODES, STATUSES, TrafficCounts, named_opcodes, named_statuses};
use crate::verdict::Verdict;
use crate::{CONTEXTS, DEVICES, Incident, Ledger, OBJECTS};

/// Objects listed of a context.
const LISTED: usize = 256;

/// Created and destroyed objects of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// Calls that returned an object.
    pub created: u64,
    /// Calls that returned 0.
    pub destroyed: u64,
}

/// What went through CQs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Work completions that polls returned, where all of them are counted.
    pub polled: u64,
    /// Those with an error status.
    pub failed: u64,
    /// Of those, the ones of which nobody can say which QP they belong to.
    pub unattributed: u64,
    /// Polls that failed themselves.
    pub poll_errors: u64,
    /// Completion events read.
    pub events_got: u64,
    /// Completion events acknowledged.
    pub events_acked: u64,
}

/// Acks that were not simply passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSums {
    /// Of no event that was open.
    pub bad: u64,
    /// Of those, held back.
    pub held: u64,
    /// Of those, passed on later.
    pub released: u64,
    /// Given for the program.
    pub rescued: u64,
    /// The program's own acks of those.
    pub swallowed: u64,
    /// Of objects that were first seen after their birth: passed on.
    pub foreign: u64,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSnapshot {
    /// Its name; `None` for what belongs to no context that we know.
    pub name: Option<String>,
    /// Contexts opened or imported.
    pub opened: u64,
    /// Contexts first seen in another call.
    pub adopted: u64,
    /// Contexts closed.
    pub closed: u64,
    /// By [`crate::Kind`].
    pub objects: [Lifetimes; KINDS],
    /// Asynchronous events read, by type.
    pub async_events: Vec<(String, u64)>,
    /// Completions and completion events.
    pub traffic: Traffic,
    /// Completions with an error status, by status.
    pub statuses: Vec<(String, u64)>,
    /// Completions without, by opcode, where all completions are counted.
    pub opcodes: Vec<(String, u64)>,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSnapshot {
    /// Its kind.
    pub kind: Kind,
    /// Number and handle, if its birth was seen.
    pub ident: Option<Ident>,
    /// First seen after its birth, or on a context that was.
    pub foreign: bool,
    /// It is there no more.
    pub destroyed: bool,
    /// Asynchronous events read, by type.
    pub async_events: Vec<(String, u64)>,
    /// Asynchronous events acknowledged.
    pub async_acks: u64,
    /// Completion events and completions.
    pub traffic: Traffic,
    /// Completions of a CQ without an error status, by opcode, where all completions are counted.
    pub opcodes: Vec<(String, u64)>,
    /// Of a CQ, where all completions are counted.
    pub headroom: Option<Headroom>,
    /// Its acks.
    pub acks: AckSums,
    /// Asynchronous events that are open and have details, oldest first.
    pub open: Vec<Taken>,
    /// Asynchronous events that are open and have none.
    pub open_unlisted: u64,
    /// Completion events that are open.
    pub open_completions: u64,
    /// When and by whom the first of those was taken.
    pub first_completion: Taken,
}

/// One context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextSnapshot {
    /// Its number.
    pub id: u32,
    /// Its device.
    pub device: Option<String>,
    /// First seen in another call than open or import.
    pub adopted: bool,
    /// It was closed.
    pub closed: bool,
    /// Its device is gone.
    pub gone: bool,
    /// Asynchronous events read, those of its objects among them, by type.
    pub async_events: Vec<(String, u64)>,
    /// Its objects of which there is something to say.
    pub objects: Vec<ObjectSnapshot>,
    /// Those that found no room in the list, or whose place was used again.
    pub objects_left_out: u64,
    /// QPs of which completions failed.
    pub verdicts: Vec<Verdict>,
    /// Those that found no room in the list.
    pub verdicts_left_out: u64,
}

/// The whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Devices in the order in which they were met.
    pub devices: Vec<DeviceSnapshot>,
    /// Contexts in the order in which they were met, as far as their places were not used again.
    pub contexts: Vec<ContextSnapshot>,
    /// Contexts whose places were used again, or that never had one.
    pub contexts_left_out: u64,
    /// Asynchronous events acknowledged, by type.
    pub async_acks: Vec<(String, u64)>,
    /// Acks of the whole process.
    pub acks: AckSums,
    /// Incidents in order.
    pub incidents: Vec<Incident>,
    /// Incidents that are only counted.
    pub incidents_left_out: u32,
    /// Lines that were not said because there were too many.
    pub lines_left_out: u64,
    /// How often a context, an object or a device found no room in the tables.
    pub crowded_out: u64,
    /// Events that were open without details.
    pub unlisted: u64,
    /// Contexts whose completions were not watched.
    pub unwatched: u64,
    /// Extended CQs whose own polls (ibv_start_poll, ibv_next_poll) were not watched.
    pub unwatched_cqs: u64,
    /// Extended CQs of providers that give completions twice.
    pub repeating_cqs: u64,
}

impl Snapshot {
    /// How many contexts and objects the books hold at one time, and how many devices.
    pub const CAPACITY: (usize, usize, usize) = (CONTEXTS, OBJECTS, DEVICES - 1);
}

impl AckSums {
    fn add(&mut self, counts: &AckCounts) {
        self.bad += counts.bad.load(Relaxed);
        self.held += counts.held.load(Relaxed);
        self.released += counts.released.load(Relaxed);
        self.rescued += counts.rescued.load(Relaxed);
        self.swallowed += counts.swallowed.load(Relaxed);
        self.foreign += counts.foreign.load(Relaxed);
    }
}

/// Sums of a device while they are added up.
#[derive(Clone)]
struct Sums {
    async_got: EventSums,
    async_acked: EventSums,
    lives: [Lifetimes; KINDS],
    traffic: Traffic,
    acks: AckSums,
    statuses: [u64; STATUSES],
    opcodes: [u64; OPCODES],
}

impl Sums {
    const NONE: Self = Self {
        async_got: EventSums::NONE,
        async_acked: EventSums::NONE,
        lives: [Lifetimes { created: 0, destroyed: 0 }; KINDS],
        traffic: Traffic {
            polled: 0,
            failed: 0,
            unattributed: 0,
            poll_errors: 0,
            events_got: 0,
            events_acked: 0,
        },
        acks: AckSums { bad: 0, held: 0, released: 0, rescued: 0, swallowed: 0, foreign: 0 },
        statuses: [0; STATUSES],
        opcodes: [0; OPCODES],
    };

    fn add(&mut self, tally: &Tally) {
        tally.async_got.add_to(&mut self.async_got);
        tally.async_acked.add_to(&mut self.async_acked);
        for (sum, life) in self.lives.iter_mut().zip(&tally.lives) {
            sum.created += life.created.load(Relaxed);
            sum.destroyed += life.destroyed.load(Relaxed);
        }
        self.traffic.merge(&Traffic {
            events_got: tally.comp_got.load(Relaxed),
            events_acked: tally.comp_acked.load(Relaxed),
            ..completions_of(&tally.traffic)
        });
        tally.statuses.add_to_sums(&mut self.statuses);
        tally.opcodes.add_to_sums(&mut self.opcodes);
        self.acks.add(&tally.acks);
    }

    /// Adds an object; returns the events that were read of it.
    fn add_object(&mut self, object: &Object) -> EventSums {
        let mut own = EventSums::NONE;
        for (index, event_type) in object.kind().event_types().iter().enumerate() {
            let got = object.got_by_type[index].load(Relaxed).into();
            own.add(*event_type, got);
            self.async_got.add(*event_type, got);
            self.async_acked.add(*event_type, object.acked_by_type[index].load(Relaxed).into());
        }
        self.traffic.merge(&traffic_of(object));
        self.acks.add(&acks_of(object));
        own
    }
}

fn completions_of(counts: &TrafficCounts) -> Traffic {
    Traffic {
        polled: counts.polled.load(Relaxed),
        failed: counts.failed.load(Relaxed),
        unattributed: counts.unattributed.load(Relaxed),
        poll_errors: counts.poll_errors.load(Relaxed),
        ..Default::default()
    }
}

fn traffic_of(object: &Object) -> Traffic {
    Traffic {
        events_got: object.completions.got.load(Relaxed),
        events_acked: object.completions.acked.load(Relaxed),
        ..completions_of(&object.traffic)
    }
}

fn acks_of(object: &Object) -> AckCounts {
    let counts = AckCounts::default();
    object.events.add_to(&counts);
    object.completions.add_to(&counts);
    counts
}

impl Ledger {
    /// Copies the books. Other threads may go on counting meanwhile.
    #[inline(never)]
    pub fn snapshot(&self) -> Snapshot {
        let mut sums: Vec<Sums> = self
            .devices
            .iter()
            .map(|device| {
                let mut sums = Sums::NONE;
                sums.add(&device.tally);
                sums
            })
            .collect();
        let mut contexts: Vec<(ContextSnapshot, EventSums)> = Vec::new();
        // Which of those a context's place became.
        let mut listed = vec![None; CONTEXTS];
        for (place, context) in self.contexts.entries_with_place() {
            sums[context.device.load(Relaxed) as usize].add(&context.tally);
            let mut events = EventSums::NONE;
            context.tally.async_got.add_to(&mut events);
            listed[place] = Some(contexts.len());
            contexts.push((self.describe(context), events));
        }
        for object in self.objects.entries() {
            if object.head().address() == 0 {
                continue;
            }
            let home = object.home();
            let sums = &mut sums[home.device as usize];
            let own = sums.add_object(object);
            if let Some(book) = self.cq_books.of(object) {
                book.opcodes.add_to_sums(&mut sums.opcodes);
            }
            let context = self.context_of(home).and_then(|_| listed[home.context as usize - 1]);
            if let Some(context) = context {
                let (context, events) = &mut contexts[context];
                events.add_all(&own);
                self.list_object(context, object);
            }
        }
        contexts.sort_unstable_by_key(|(context, _)| context.id);
        self.list_verdicts(&mut contexts);
        let mut async_acks = EventSums::NONE;
        self.loose_acks.add_to(&mut async_acks);
        let mut acks = AckSums { foreign: self.foreign_acks.load(Relaxed), ..Default::default() };
        for sums in &sums {
            async_acks.add_all(&sums.async_acked);
            acks.merge(&sums.acks);
        }
        Snapshot {
            devices: self.devices_of(sums),
            contexts_left_out: u64::from(self.contexts_met.load(Relaxed))
                .saturating_sub(contexts.len() as u64),
            contexts: contexts
                .into_iter()
                .map(|(context, events)| ContextSnapshot { async_events: events.named(), ..context })
                .collect(),
            async_acks: async_acks.named(),
            acks,
            incidents: self.incidents.list(),
            incidents_left_out: self.incidents.left_out(),
            lines_left_out: self.pace.left_out(),
            crowded_out: self.crowded_out.load(Relaxed),
            unlisted: self.unlisted.load(Relaxed),
            unwatched: self.unwatched.load(Relaxed),
            unwatched_cqs: self.unwatched_cqs.load(Relaxed),
            repeating_cqs: self.repeating_cqs.load(Relaxed),
        }
    }

    fn devices_of(&self, sums: Vec<Sums>) -> Vec<DeviceSnapshot> {
        let mut merged: Vec<(DeviceSnapshot, Sums)> = Vec::new();
        for (device, sums) in self.devices.iter().zip(sums) {
            let fresh = DeviceSnapshot {
                name: device.name.get(),
                opened: device.opened.load(Relaxed),
                adopted: device.adopted.load(Relaxed),
                closed: device.closed.load(Relaxed),
                ..Default::default()
            };
            match merged.iter_mut().find(|(known, _)| known.name == fresh.name) {
                Some((known, known_sums)) => {
                    known.opened += fresh.opened;
                    known.adopted += fresh.adopted;
                    known.closed += fresh.closed;
                    known_sums.merge(&sums);
                }
                None => merged.push((fresh, sums)),
            }
        }
        merged
            .into_iter()
            .map(|(device, sums)| DeviceSnapshot {
                objects: sums.lives,
                async_events: sums.async_got.named(),
                traffic: sums.traffic,
                statuses: named_statuses(&sums.statuses),
                opcodes: named_opcodes(&sums.opcodes),
                ..device
            })
            .filter(|device| *device != DeviceSnapshot { name: device.name.clone(), ..Default::default() })
            .collect()
    }

    fn describe(&self, context: &Context) -> ContextSnapshot {
        let name = self.name_of(context);
        ContextSnapshot {
            id: name.id,
            device: name.device,
            adopted: context.head().state() == FOREIGN,
            closed: context.head().state() == DEAD,
            gone: context.is_gone(),
            objects_left_out: context.forgotten.load(Relaxed),
            verdicts_left_out: context.forgotten_verdicts.load(Relaxed),
            ..Default::default()
        }
    }

    /// `contexts` are in the order of their numbers.
    fn list_verdicts(&self, contexts: &mut [(ContextSnapshot, EventSums)]) {
        for verdict in self.verdicts() {
            let place = contexts.binary_search_by_key(&verdict.context.id, |(context, _)| context.id);
            let Ok(place) = place else { continue };
            let context = &mut contexts[place].0;
            if context.verdicts.len() < LISTED {
                context.verdicts.push(verdict);
            } else {
                context.verdicts_left_out += 1;
            }
        }
    }

    fn list_object(&self, context: &mut ContextSnapshot, object: &Object) {
        let headroom = self.headroom_of(object);
        if object.is_blank() && headroom.as_ref().is_none_or(Headroom::is_blank) {
            return;
        }
        let mut acks = AckSums::default();
        acks.add(&acks_of(object));
        if context.objects.len() == LISTED {
            context.objects_left_out += 1;
            return;
        }
        let mut events = EventSums::NONE;
        for (index, event_type) in object.kind().event_types().iter().enumerate() {
            events.add(*event_type, object.got_by_type[index].load(Relaxed).into());
        }
        // Another object may live at the address of a dead one.
        let destroyed = object.head().state() == DEAD;
        let still = |account: &Account| if destroyed { 0 } else { account.open.load(Relaxed) };
        let open = if destroyed { Vec::new() } else { self.open_events.list(object.head().address()) };
        context.objects.push(ObjectSnapshot {
            kind: object.kind(),
            ident: object.ident(),
            foreign: object.foreign.load(Relaxed) == 1,
            destroyed,
            async_events: events.named(),
            async_acks: object.events.acked.load(Relaxed),
            traffic: traffic_of(object),
            opcodes: self.cq_books.of(object).map_or(Vec::new(), |book| {
                let mut sums = [0; OPCODES];
                book.opcodes.add_to_sums(&mut sums);
                named_opcodes(&sums)
            }),
            headroom,
            acks,
            open_unlisted: still(&object.events).saturating_sub(open.len() as u64),
            open,
            open_completions: still(&object.completions),
            first_completion: Taken {
                by: object.named.known(object.first_by.load(Relaxed)),
                at: object.first_at.load(Relaxed),
                ..Default::default()
            },
        });
    }
}

impl EventSums {
    fn add_all(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }
}

impl AckSums {
    fn merge(&mut self, other: &Self) {
        self.bad += other.bad;
        self.held += other.held;
        self.released += other.released;
        self.rescued += other.rescued;
        self.swallowed += other.swallowed;
        self.foreign += other.foreign;
    }
}

impl Traffic {
    fn merge(&mut self, other: &Self) {
        self.polled += other.polled;
        self.failed += other.failed;
        self.unattributed += other.unattributed;
        self.poll_errors += other.poll_errors;
        self.events_got += other.events_got;
        self.events_acked += other.events_acked;
    }
}

fn add_each(sums: &mut [u64], others: &[u64]) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}

impl Sums {
    fn merge(&mut self, other: &Self) {
        self.async_got.add_all(&other.async_got);
        self.async_acked.add_all(&other.async_acked);
        for (mine, theirs) in self.lives.iter_mut().zip(&other.lives) {
            mine.created += theirs.created;
            mine.destroyed += theirs.destroyed;
        }
        self.traffic.merge(&other.traffic);
        add_each(&mut self.statuses, &other.statuses);
        add_each(&mut self.opcodes, &other.opcodes);
        self.acks.merge(&other.acks);
    }
}
