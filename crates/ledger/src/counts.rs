//! Counters that are summed up: of a context for objects that are gone, of a device for contexts that are gone.

use crate::events::{KINDS, event_name};
use crate::sync::*;
use crate::traffic::{OpcodeCounts, StatusCounts, TrafficCounts};

/// Event types counted one by one; all others share the last counter.
pub(crate) const EVENT_TYPES: usize = 64;

/// A counter for each event type.
pub(crate) struct EventCounts([AtomicU64; EVENT_TYPES]);

impl EventCounts {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; EVENT_TYPES])
    }

    pub(crate) fn count(&self, event_type: u32) {
        self.add(event_type, 1);
    }

    pub(crate) fn add(&self, event_type: u32, number: u64) {
        if number != 0 {
            self.0[(event_type as usize).min(EVENT_TYPES - 1)].fetch_add(number, Relaxed);
        }
    }

    pub(crate) fn add_to(&self, sums: &mut EventSums) {
        for (sum, count) in sums.0.iter_mut().zip(&self.0) {
            *sum += count.load(Relaxed);
        }
    }

    fn move_into(&self, other: &Self) {
        for (mine, theirs) in self.0.iter().zip(&other.0) {
            let count = mine.swap(0, Relaxed);
            if count != 0 {
                theirs.fetch_add(count, Relaxed);
            }
        }
    }
}

/// Sums by event type, as plain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventSums(pub(crate) [u64; EVENT_TYPES]);

impl EventSums {
    pub(crate) const NONE: Self = Self([0; EVENT_TYPES]);

    pub(crate) fn add(&mut self, event_type: u32, number: u64) {
        self.0[(event_type as usize).min(EVENT_TYPES - 1)] += number;
    }

    /// Name and number of each type that occurred.
    pub(crate) fn named(&self) -> Vec<(String, u64)> {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, count)| **count != 0)
            .map(|(number, count)| match number {
                n if n == EVENT_TYPES - 1 => (format!("event {n} or above"), *count),
                n => (event_name(n as u32), *count),
            })
            .collect()
    }
}

#[derive(Default)]
pub(crate) struct LifeCounts {
    pub(crate) created: AtomicU64,
    pub(crate) destroyed: AtomicU64,
}

/// Acks that were not simply passed on, and those of foreign objects.
#[derive(Default)]
pub(crate) struct AckCounts {
    pub(crate) bad: AtomicU64,
    pub(crate) held: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) rescued: AtomicU64,
    pub(crate) swallowed: AtomicU64,
    pub(crate) foreign: AtomicU64,
}

impl AckCounts {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            bad: AtomicU64::new(0),
            held: AtomicU64::new(0),
            released: AtomicU64::new(0),
            rescued: AtomicU64::new(0),
            swallowed: AtomicU64::new(0),
            foreign: AtomicU64::new(0),
        }
    }

    fn all(&self) -> [&AtomicU64; 6] {
        [&self.bad, &self.held, &self.released, &self.rescued, &self.swallowed, &self.foreign]
    }
}

/// The sums of a context or a device.
pub(crate) struct Tally {
    /// Read, also those about objects that are gone.
    pub(crate) async_got: EventCounts,
    /// Acknowledged, of objects that are gone.
    pub(crate) async_acked: EventCounts,
    pub(crate) lives: [LifeCounts; KINDS],
    pub(crate) comp_got: AtomicU64,
    pub(crate) comp_acked: AtomicU64,
    pub(crate) acks: AckCounts,
    pub(crate) traffic: TrafficCounts,
    pub(crate) statuses: StatusCounts,
    pub(crate) opcodes: OpcodeCounts,
}

impl Tally {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            async_got: EventCounts::new(),
            async_acked: EventCounts::new(),
            lives: [const { LifeCounts { created: AtomicU64::new(0), destroyed: AtomicU64::new(0) } }; KINDS],
            comp_got: AtomicU64::new(0),
            comp_acked: AtomicU64::new(0),
            acks: AckCounts::new(),
            traffic: TrafficCounts::new(),
            statuses: StatusCounts::new(),
            opcodes: OpcodeCounts::new(),
        }
    }

    pub(crate) fn move_into(&self, other: &Self) {
        self.async_got.move_into(&other.async_got);
        self.async_acked.move_into(&other.async_acked);
        for (mine, theirs) in self.lives.iter().zip(&other.lives) {
            move_one(&mine.created, &theirs.created);
            move_one(&mine.destroyed, &theirs.destroyed);
        }
        move_one(&self.comp_got, &other.comp_got);
        move_one(&self.comp_acked, &other.comp_acked);
        for (mine, theirs) in self.acks.all().into_iter().zip(other.acks.all()) {
            move_one(mine, theirs);
        }
        self.traffic.move_into(&other.traffic);
        self.statuses.move_into(&other.statuses);
        self.opcodes.move_into(&other.opcodes);
    }
}

fn move_one(mine: &AtomicU64, theirs: &AtomicU64) {
    theirs.fetch_add(mine.swap(0, Relaxed), Relaxed);
}
