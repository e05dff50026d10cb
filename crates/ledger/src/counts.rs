//! The counters and their names.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// `enum ibv_event_type` without the prefix, by number (rdma-core 65, `<infiniband/verbs.h>`).
const EVENTS: [&str; 21] = [
    "CQ_ERR",
    "QP_FATAL",
    "QP_REQ_ERR",
    "QP_ACCESS_ERR",
    "COMM_EST",
    "SQ_DRAINED",
    "PATH_MIG",
    "PATH_MIG_ERR",
    "DEVICE_FATAL",
    "PORT_ACTIVE",
    "PORT_ERR",
    "LID_CHANGE",
    "PKEY_CHANGE",
    "SM_CHANGE",
    "SRQ_ERR",
    "SRQ_LIMIT_REACHED",
    "QP_LAST_WQE_REACHED",
    "CLIENT_REREGISTER",
    "GID_CHANGE",
    "WQ_FATAL",
    "DEVICE_SPEED_CHANGE",
];

/// The name of an asynchronous event type; a number that no libibverbs knows is printed as a number.
pub fn event_name(event_type: u32) -> String {
    match EVENTS.get(event_type as usize) {
        Some(name) => (*name).into(),
        None => format!("event {event_type}"),
    }
}

/// Event types counted one by one; all others share the last counter.
pub(crate) const EVENT_TYPES: usize = 64;

/// A counter for each event type.
pub(crate) struct EventCounts([AtomicU64; EVENT_TYPES]);

impl EventCounts {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; EVENT_TYPES])
    }

    pub(crate) fn count(&self, event_type: u32) {
        self.0[(event_type as usize).min(EVENT_TYPES - 1)].fetch_add(1, Relaxed);
    }

    /// Number and name of each type that occurred.
    pub(crate) fn seen(&self) -> Vec<(String, u64)> {
        self.0
            .iter()
            .enumerate()
            .map(|(number, count)| (number, count.load(Relaxed)))
            .filter(|(_, count)| *count != 0)
            .map(|(number, count)| match number {
                n if n == EVENT_TYPES - 1 => (format!("event {n} or above"), count),
                n => (event_name(n as u32), count),
            })
            .collect()
    }
}

/// Kinds of objects whose life is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Queue pair.
    Qp,
    /// Completion queue, also an extended one.
    Cq,
    /// Shared receive queue.
    Srq,
    /// Work queue.
    Wq,
    /// Completion event channel.
    CompChannel,
}

pub(crate) const KINDS: usize = 5;

#[derive(Default)]
pub(crate) struct LifeCounts {
    pub(crate) created: AtomicU64,
    pub(crate) destroyed: AtomicU64,
}

/// What went through CQs.
#[derive(Default)]
pub(crate) struct TrafficCounts {
    pub(crate) polled: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) events_got: AtomicU64,
    pub(crate) events_acked: AtomicU64,
}

impl TrafficCounts {
    pub(crate) const fn new() -> Self {
        Self {
            polled: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            events_got: AtomicU64::new(0),
            events_acked: AtomicU64::new(0),
        }
    }

    fn all(&self) -> [&AtomicU64; 4] {
        [&self.polled, &self.failed, &self.events_got, &self.events_acked]
    }

    pub(crate) fn move_into(&self, other: &Self) {
        for (mine, theirs) in self.all().into_iter().zip(other.all()) {
            theirs.fetch_add(mine.swap(0, Relaxed), Relaxed);
        }
    }
}

pub(crate) struct Device {
    pub(crate) name: Name,
    pub(crate) opened: AtomicU64,
    pub(crate) adopted: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) objects: [LifeCounts; KINDS],
    pub(crate) async_events: EventCounts,
    /// Of CQs that are gone.
    pub(crate) traffic: TrafficCounts,
}

impl Device {
    pub(crate) const fn new() -> Self {
        Self {
            name: Name::new(),
            opened: AtomicU64::new(0),
            adopted: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            objects: [const { LifeCounts { created: AtomicU64::new(0), destroyed: AtomicU64::new(0) } };
                KINDS],
            async_events: EventCounts::new(),
            traffic: TrafficCounts::new(),
        }
    }
}

/// A device's name, written once.
pub(crate) struct Name {
    state: AtomicU32,
    words: [AtomicU64; 8],
}

const FREE: u32 = 0;
const WRITING: u32 = 1;
const WRITTEN: u32 = 2;

impl Name {
    const fn new() -> Self {
        Self { state: AtomicU32::new(FREE), words: [const { AtomicU64::new(0) }; 8] }
    }

    /// Whether this is the place of `name`; a free place becomes it.
    pub(crate) fn is_or_becomes(&self, name: &[u8]) -> bool {
        match self.state.compare_exchange(FREE, WRITING, Acquire, Acquire) {
            Ok(_) => {
                for (word, value) in self.words.iter().zip(words(name)) {
                    word.store(value, Relaxed);
                }
                self.state.store(WRITTEN, Release);
                true
            }
            // Another thread is writing this place: a second place for the same name does no harm,
            // because places of one name are added up in the snapshot.
            Err(WRITING) => false,
            Err(_) => self.words.iter().zip(words(name)).all(|(a, b)| a.load(Relaxed) == b),
        }
    }

    /// The name, if one was written.
    pub(crate) fn get(&self) -> Option<String> {
        if self.state.load(Acquire) != WRITTEN {
            return None;
        }
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

fn words(name: &[u8]) -> [u64; 8] {
    let mut padded = [0u8; 64];
    let length = name.len().min(64);
    padded[..length].copy_from_slice(&name[..length]);
    std::array::from_fn(|i| u64::from_ne_bytes(std::array::from_fn(|j| padded[i * 8 + j])))
}
