//! The books at one moment, as plain values.

use std::sync::atomic::Ordering::*;

use crate::counts::{KINDS, TrafficCounts};
use crate::{CONTEXTS, CQS, DEVICES, Ledger};

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

/// The whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Devices in the order in which they were met.
    pub devices: Vec<DeviceSnapshot>,
    /// Asynchronous events acknowledged, by type.
    pub async_acks: Vec<(String, u64)>,
    /// How often a context, a CQ or a device found no room in the tables.
    pub crowded_out: u64,
    /// Contexts whose completions were not watched.
    pub unwatched: u64,
    /// Extended CQs whose own polls (ibv_start_poll, ibv_next_poll) were not watched.
    pub unwatched_cqs: u64,
}

impl Snapshot {
    /// How many contexts and CQs the books hold at one time, and how many devices.
    pub const CAPACITY: (usize, usize, usize) = (CONTEXTS, CQS, DEVICES - 1);
}

impl Traffic {
    fn add(&mut self, counts: &TrafficCounts) {
        self.polled += counts.polled.load(Relaxed);
        self.failed += counts.failed.load(Relaxed);
        self.events_got += counts.events_got.load(Relaxed);
        self.events_acked += counts.events_acked.load(Relaxed);
    }
}

impl DeviceSnapshot {
    fn is_blank(&self) -> bool {
        *self == Self { name: self.name.clone(), ..Self::default() }
    }

    fn merge(&mut self, other: Self) {
        self.opened += other.opened;
        self.adopted += other.adopted;
        self.closed += other.closed;
        for (mine, theirs) in self.objects.iter_mut().zip(other.objects) {
            mine.created += theirs.created;
            mine.destroyed += theirs.destroyed;
        }
        for (name, count) in other.async_events {
            match self.async_events.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => self.async_events.push((name, count)),
            }
        }
        self.traffic.polled += other.traffic.polled;
        self.traffic.failed += other.traffic.failed;
        self.traffic.events_got += other.traffic.events_got;
        self.traffic.events_acked += other.traffic.events_acked;
    }
}

impl Ledger {
    /// Copies the books. Other threads may go on counting meanwhile.
    pub fn snapshot(&self) -> Snapshot {
        let mut places: Vec<DeviceSnapshot> = self
            .devices
            .iter()
            .map(|device| {
                let mut traffic = Traffic::default();
                traffic.add(&device.traffic);
                DeviceSnapshot {
                    name: device.name.get(),
                    opened: device.opened.load(Relaxed),
                    adopted: device.adopted.load(Relaxed),
                    closed: device.closed.load(Relaxed),
                    objects: std::array::from_fn(|kind| Lifetimes {
                        created: device.objects[kind].created.load(Relaxed),
                        destroyed: device.objects[kind].destroyed.load(Relaxed),
                    }),
                    async_events: device.async_events.seen(),
                    traffic,
                }
            })
            .collect();
        for cq in self.cqs.places() {
            let device = (cq.device.load(Relaxed) as usize).min(DEVICES - 1);
            places[device].traffic.add(&cq.traffic);
        }
        let mut devices: Vec<DeviceSnapshot> = Vec::new();
        for place in places {
            if place.is_blank() {
                continue;
            }
            match devices.iter_mut().find(|known| known.name == place.name) {
                Some(known) => known.merge(place),
                None => devices.push(place),
            }
        }
        Snapshot {
            devices,
            async_acks: self.async_acks.seen(),
            crowded_out: self.crowded_out.load(Relaxed),
            unwatched: self.unwatched.load(Relaxed),
            unwatched_cqs: self.unwatched_cqs.load(Relaxed),
        }
    }
}
