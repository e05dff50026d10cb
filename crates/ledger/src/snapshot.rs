//! The books at one moment, as plain values.

use crate::account::Account;
use crate::context::Context;
use crate::counts::{AckCounts, EventSums, Tally};
use crate::events::{KINDS, Kind};
use crate::object::{Ident, Object};
use crate::open::Taken;
use crate::sync::*;
use crate::table::{DEAD, Entry, FOREIGN};
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
    /// Work completions that polls returned.
    pub polled: u64,
    /// Those of them with an error status.
    pub failed: u64,
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
}

impl Sums {
    const NONE: Self = Self {
        async_got: EventSums::NONE,
        async_acked: EventSums::NONE,
        lives: [Lifetimes { created: 0, destroyed: 0 }; KINDS],
        traffic: Traffic { polled: 0, failed: 0, events_got: 0, events_acked: 0 },
        acks: AckSums { bad: 0, held: 0, released: 0, rescued: 0, swallowed: 0, foreign: 0 },
    };

    fn add(&mut self, tally: &Tally) {
        tally.async_got.add_to(&mut self.async_got);
        tally.async_acked.add_to(&mut self.async_acked);
        for (sum, life) in self.lives.iter_mut().zip(&tally.lives) {
            sum.created += life.created.load(Relaxed);
            sum.destroyed += life.destroyed.load(Relaxed);
        }
        self.traffic.polled += tally.traffic.polled.load(Relaxed);
        self.traffic.failed += tally.traffic.failed.load(Relaxed);
        self.traffic.events_got += tally.comp_got.load(Relaxed);
        self.traffic.events_acked += tally.comp_acked.load(Relaxed);
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
        let traffic = traffic_of(object);
        self.traffic.polled += traffic.polled;
        self.traffic.failed += traffic.failed;
        self.traffic.events_got += traffic.events_got;
        self.traffic.events_acked += traffic.events_acked;
        self.acks.add(&acks_of(object));
        own
    }
}

fn traffic_of(object: &Object) -> Traffic {
    Traffic {
        polled: object.traffic.polled.load(Relaxed),
        failed: object.traffic.failed.load(Relaxed),
        events_got: object.completions.got.load(Relaxed),
        events_acked: object.completions.acked.load(Relaxed),
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
            let own = sums[home.device as usize].add_object(object);
            let context = self.context_of(home).and_then(|_| listed[home.context as usize - 1]);
            if let Some(context) = context {
                let (context, events) = &mut contexts[context];
                events.add_all(&own);
                self.list_object(context, object);
            }
        }
        contexts.sort_unstable_by_key(|(context, _)| context.id);
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
            ..Default::default()
        }
    }

    fn list_object(&self, context: &mut ContextSnapshot, object: &Object) {
        if object.is_blank() {
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

impl Sums {
    fn merge(&mut self, other: &Self) {
        self.async_got.add_all(&other.async_got);
        self.async_acked.add_all(&other.async_acked);
        for (mine, theirs) in self.lives.iter_mut().zip(&other.lives) {
            mine.created += theirs.created;
            mine.destroyed += theirs.destroyed;
        }
        self.traffic.polled += other.traffic.polled;
        self.traffic.failed += other.traffic.failed;
        self.traffic.events_got += other.traffic.events_got;
        self.traffic.events_acked += other.traffic.events_acked;
        self.acks.merge(&other.acks);
    }
}
