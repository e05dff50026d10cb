//! What one process did with RDMA: contexts, objects, events, acknowledgements, completions.
//!
//! One fixed-size block that is valid when all its bytes are zero and holds no pointer: it may lie anywhere, also in a
//! file. No lock, no system call, and no allocation but for what is read out for people; every method may be called
//! from any thread at any time. Objects are known by their address and are never looked into. Times are nanoseconds of
//! CLOCK_MONOTONIC and come from the caller.
//!
//! | module | what it keeps |
//! |---|---|
//! | [`contexts`] | contexts: opened, adopted, closed, gone; who reads their events |
//! | [`objects`] | objects: created, met, named |
//! | [`destroys`] | objects while they are destroyed: who waits for what |
//! | [`acks`] | events got, acks given, and what is to be done with each ack |
//! | [`account`] | the arithmetic of acks for one object |
//! | [`qps`] | QPs, and the verdict on those whose completions failed |
//! | [`cq_book`], [`traffic`] | completions of a CQ |
//! | [`headroom`], [`work`], [`room`] | work that was posted and may complete, against a CQ's depth |
//! | [`slots`] | addresses of functions |
//! | [`lints`] | patterns of arming and waiting that miss completions |
//! | [`table`] | addresses to entries, without locks |

#![forbid(unsafe_code)]

mod account;
mod acks;
mod context;
mod contexts;
mod counts;
mod cq_book;
mod destroys;
mod device;
mod events;
mod headroom;
mod incident;
mod lints;
mod object;
mod objects;
mod open;
mod pace;
mod qp;
mod qps;
mod room;
mod slots;
mod snapshot;
mod sync;
mod table;
mod traffic;
mod verdict;
mod waits;
mod work;

pub use acks::{Ack, AckMode, Fault, Got};
pub use context::Sign;
pub use contexts::{Closing, ContextName};
pub use cq_book::Done;
pub use destroys::{Destroying, Ended, Handed};
pub use events::{Kind, event_name, is_of_port};
pub use headroom::{CqLine, Headroom, NewWork, Unchecked};
pub use incident::{Incident, What};
pub use lints::Lint;
pub use object::Ident;
pub use objects::{Created, ObjectName, OpenNow};
pub use open::{Taken, Thread};
pub use qps::{Failed, Moving, NewQp, QpToken, ToSay};
pub use slots::Slots;
pub use snapshot::{AckSums, ContextSnapshot, DeviceSnapshot, Lifetimes, ObjectSnapshot, Snapshot, Traffic};
pub use verdict::{Address, Cause, Failure, Peer, Unseen, Verdict, status_name};
pub use waits::{Token, Wait};
pub use work::Posted;

use context::Context;
use counts::EventCounts;
use cq_book::CqBooks;
use device::Device;
use headroom::Works;
use incident::Incidents;
use lints::Sites;
use object::Object;
use open::OpenEvents;
use pace::Pace;
use qp::Qp;
use sync::*;
use table::Table;
use waits::Waits;

/// Places for devices; the last one stands for all that did not fit, and for what belongs to none.
const DEVICES: usize = 64;
const NO_DEVICE: u32 = DEVICES as u32 - 1;
/// Contexts open at one time.
const CONTEXTS: usize = 1024;
/// QPs, CQs, SRQs, WQs and completion channels alive at one time.
const OBJECTS: usize = 16384;
/// QPs alive at one time.
const QPS: usize = 16384;

/// The books of one process.
#[repr(C)]
pub struct Ledger {
    contexts: Table<Context, CONTEXTS, { CONTEXTS * 4 }>,
    objects: Table<Object, OBJECTS, { OBJECTS * 4 }>,
    qps: Table<Qp, QPS, { QPS * 4 }>,
    cq_books: CqBooks,
    works: Works,
    sites: Sites,
    open_events: OpenEvents,
    waits: Waits,
    incidents: Incidents,
    pace: Pace,
    devices: [Device; DEVICES],
    /// Acks of events that have no object, and of objects that are not in the books.
    loose_acks: EventCounts,
    foreign_acks: AtomicU64,
    began: AtomicU64,
    contexts_met: AtomicU32,
    /// Contexts, objects and devices that the tables had no room for.
    crowded_out: AtomicU64,
    /// Open events that there were no places for: they count, but nobody can say who took them.
    unlisted: AtomicU64,
    /// Contexts whose ops table was left alone for want of a trampoline.
    unwatched: AtomicU64,
    /// Extended CQs whose own polls were left alone for want of a trampoline.
    unwatched_cqs: AtomicU64,
    /// Extended CQs of providers that give completions twice.
    repeating_cqs: AtomicU64,
}

#[cfg(not(loom))]
impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

impl Ledger {
    /// Empty books. All bytes are zero.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            contexts: Table::new([const { Context::new() }; CONTEXTS]),
            objects: Table::new([const { Object::new() }; OBJECTS]),
            qps: Table::new([const { Qp::new() }; QPS]),
            cq_books: CqBooks::new(),
            works: Works::new(),
            sites: Sites::new(),
            open_events: OpenEvents::new(),
            waits: Waits::new(),
            incidents: Incidents::new(),
            pace: Pace::new(),
            devices: [const { Device::new() }; DEVICES],
            loose_acks: EventCounts::new(),
            foreign_acks: AtomicU64::new(0),
            began: AtomicU64::new(0),
            contexts_met: AtomicU32::new(0),
            crowded_out: AtomicU64::new(0),
            unlisted: AtomicU64::new(0),
            unwatched: AtomicU64::new(0),
            unwatched_cqs: AtomicU64::new(0),
            repeating_cqs: AtomicU64::new(0),
        }
    }

    /// These books begin now, unless they have begun.
    pub fn begin(&self, now: u64) {
        let _ = self.began.compare_exchange(0, now, Relaxed, Relaxed);
    }

    /// When they began.
    pub fn began(&self) -> u64 {
        self.began.load(Relaxed)
    }

    /// A context whose ops table could not be watched: no trampoline was free.
    pub fn context_unwatched(&self) {
        self.unwatched.fetch_add(1, Relaxed);
    }

    /// An extended CQ whose own polls could not be watched: no trampoline was free.
    pub fn cq_unwatched(&self) {
        self.unwatched_cqs.fetch_add(1, Relaxed);
    }

    /// Keeps an incident. Returns its place for [`Self::happened_again`] and [`Self::amend`].
    pub fn happened(&self, incident: &Incident) -> Option<u32> {
        self.incidents.add(incident)
    }

    /// The incident happened again.
    pub fn happened_again(&self, place: u32) {
        self.incidents.again(place);
    }

    /// Whether there is room for another incident.
    pub fn keeps_incidents(&self) -> bool {
        self.incidents.has_room()
    }

    /// An incident happened of which only the number is kept.
    pub fn incident_left_out(&self) {
        self.incidents.leave_out();
    }

    /// Adds to the text of an incident.
    pub fn amend(&self, place: u32, text: &str) {
        self.incidents.amend(place, text);
    }

    /// Whether another line may be said now, and how many had to be left out before it.
    pub fn may_say(&self, now: u64) -> Option<u64> {
        self.pace.allow(now)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(all(test, not(loom)))]
mod tests_headroom;
#[cfg(all(test, not(loom)))]
mod tests_lints;
#[cfg(all(test, loom))]
mod tests_loom;
#[cfg(all(test, not(loom)))]
mod tests_verdicts;
