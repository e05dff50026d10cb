//! What one process did with RDMA: contexts, objects, events, acknowledgements, completions.
//!
//! Counters only, in one fixed-size block that is valid when all its bytes are zero. No lock, no
//! allocation, no system call; every method may be called from any thread at any time. Objects are known
//! by their address and are never looked into.

#![forbid(unsafe_code)]

mod counts;
mod snapshot;
mod table;

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

pub use counts::{Kind, event_name};
pub use snapshot::{DeviceSnapshot, Lifetimes, Snapshot, Traffic};

use counts::{Device, EventCounts, TrafficCounts};
use table::{Entry, Table};

/// Places for devices; the last one stands for all that did not fit, and for what belongs to none.
const DEVICES: usize = 64;
const NO_DEVICE: u32 = DEVICES as u32 - 1;
/// Contexts open at one time that surely find room.
const CONTEXTS: usize = 1024;
/// CQs alive at one time that surely find room.
const CQS: usize = 4096;
/// A table is twice as large, so that a place near an address's own is found within a short probe.
const SPARE: usize = 2;

/// An open context.
#[repr(C, align(64))]
struct Context {
    key: AtomicUsize,
    device: AtomicU32,
    /// 1 if it was first seen in another call than open or import.
    adopted: AtomicU32,
}

/// A live CQ. One cache line each, so that threads that poll their own CQs never share one.
#[repr(C, align(64))]
struct Cq {
    key: AtomicUsize,
    context: AtomicUsize,
    device: AtomicU32,
    traffic: TrafficCounts,
}

impl Entry for Context {
    fn key(&self) -> &AtomicUsize {
        &self.key
    }
}

impl Entry for Cq {
    fn key(&self) -> &AtomicUsize {
        &self.key
    }
}

/// The books of one process.
pub struct Ledger {
    contexts: Table<Context, { CONTEXTS * SPARE }>,
    cqs: Table<Cq, { CQS * SPARE }>,
    devices: [Device; DEVICES],
    async_acks: EventCounts,
    /// Contexts, CQs and devices that the tables had no room for.
    crowded_out: AtomicU64,
    /// Contexts whose ops table was left alone for want of a trampoline.
    unwatched: AtomicU64,
    /// Extended CQs whose own polls were left alone for want of a trampoline.
    unwatched_cqs: AtomicU64,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

impl Ledger {
    /// Empty books. All bytes are zero.
    pub const fn new() -> Self {
        Self {
            contexts: Table::new(
                [const {
                    Context {
                        key: AtomicUsize::new(0),
                        device: AtomicU32::new(0),
                        adopted: AtomicU32::new(0),
                    }
                }; CONTEXTS * SPARE],
            ),
            cqs: Table::new(
                [const {
                    Cq {
                        key: AtomicUsize::new(0),
                        context: AtomicUsize::new(0),
                        device: AtomicU32::new(0),
                        traffic: TrafficCounts::new(),
                    }
                }; CQS * SPARE],
            ),
            devices: [const { Device::new() }; DEVICES],
            async_acks: EventCounts::new(),
            crowded_out: AtomicU64::new(0),
            unwatched: AtomicU64::new(0),
            unwatched_cqs: AtomicU64::new(0),
        }
    }

    /// A context that the program got from an open or import call.
    pub fn context_opened(&self, context: usize, device: &[u8]) {
        // A provider may call exported functions on a context while it opens it (bnxt_re queries the device).
        if let Some(early) = self.contexts.find(context)
            && early.adopted.swap(0, Relaxed) == 1
        {
            self.devices[early.device.load(Relaxed) as usize].adopted.fetch_sub(1, Relaxed);
        }
        let (device, _) = self.remember(context, device, 0);
        self.devices[device as usize].opened.fetch_add(1, Relaxed);
    }

    /// A context met for the first time in another call. True if it is in the books from now on.
    pub fn context_adopted(&self, context: usize, device: &[u8]) -> bool {
        if self.knows_context(context) {
            return false;
        }
        let (device, kept) = self.remember(context, device, 1);
        // Where there is no room, the same context comes here again and again: only the lack is counted.
        if kept {
            self.devices[device as usize].adopted.fetch_add(1, Relaxed);
        }
        kept
    }

    /// Whether a context is in the books.
    pub fn knows_context(&self, context: usize) -> bool {
        self.contexts.find(context).is_some()
    }

    /// The device's place, and whether there was room for the context.
    fn remember(&self, context: usize, name: &[u8], adopted: u32) -> (u32, bool) {
        let device = self.device_named(name);
        // Where a context of the same address was closed around us, the new one takes its place.
        self.contexts.remove(context, |_| {});
        let kept = self.contexts.insert(context, |entry| {
            entry.device.store(device, Relaxed);
            entry.adopted.store(adopted, Relaxed);
        });
        let kept = kept.is_some();
        if !kept || device == NO_DEVICE {
            self.crowded_out.fetch_add(1, Relaxed);
        }
        (device, kept)
    }

    /// The context is about to be closed: its CQs are gone with it. Returns what
    /// [`Self::context_close_ended`] wants.
    pub fn context_closing(&self, context: usize) -> Closing {
        let device = self.device_of(context);
        let known = self.contexts.remove(context, |_| {});
        for (address, entry) in self.cqs.iter() {
            if entry.context.load(Relaxed) == context {
                self.cq_gone(address);
            }
        }
        Closing { device, known }
    }

    /// The close returned; where it failed, the context is still there.
    pub fn context_close_ended(&self, closing: Closing, context: usize, closed: bool) {
        let device = closing.device;
        if closed {
            self.devices[device as usize].closed.fetch_add(1, Relaxed);
        } else if closing.known {
            self.contexts.insert(context, |entry| {
                entry.device.store(device, Relaxed);
                // The place may have had an adopted context before. What this one was is counted already.
                entry.adopted.store(0, Relaxed);
            });
        }
    }

    /// A context whose ops table could not be watched: no trampoline was free.
    pub fn context_unwatched(&self) {
        self.unwatched.fetch_add(1, Relaxed);
    }

    /// An object was created.
    pub fn created(&self, kind: Kind, context: usize) {
        let device = &self.devices[self.device_of(context) as usize];
        device.objects[kind as usize].created.fetch_add(1, Relaxed);
    }

    /// A CQ was created. What an older CQ at this address left behind is credited before it counts.
    pub fn cq_created(&self, cq: usize, context: usize) {
        self.cq_gone(cq);
        self.traffic(cq, context);
        self.created(Kind::Cq, context);
    }

    /// An extended CQ whose own polls could not be watched: no trampoline was free.
    pub fn cq_unwatched(&self) {
        self.unwatched_cqs.fetch_add(1, Relaxed);
    }

    /// An object was destroyed (the real destroy returned 0).
    pub fn destroyed(&self, kind: Kind, context: usize) {
        let device = &self.devices[self.device_of(context) as usize];
        device.objects[kind as usize].destroyed.fetch_add(1, Relaxed);
    }

    /// The CQ at this address is about to be destroyed or replaced; what it counted stays with its device. Should it
    /// live on, its next use brings it back.
    pub fn cq_gone(&self, cq: usize) {
        self.cqs.remove(cq, |entry| self.credit(entry));
    }

    fn credit(&self, entry: &Cq) {
        let device = &self.devices[entry.device.load(Relaxed) as usize];
        entry.traffic.move_into(&device.traffic);
    }

    /// An asynchronous event was read.
    pub fn async_event_got(&self, context: usize, event_type: u32) {
        let device = &self.devices[self.device_of(context) as usize];
        device.async_events.count(event_type);
    }

    /// An asynchronous event is acknowledged. The ack names no context, so these are counted for the process.
    pub fn async_event_acked(&self, event_type: u32) {
        self.async_acks.count(event_type);
    }

    /// A completion event was read for `cq`, which belongs to `context`.
    pub fn comp_event_got(&self, cq: usize, context: usize) {
        self.traffic(cq, context).events_got.fetch_add(1, Relaxed);
    }

    /// `number` completion events of `cq` are acknowledged.
    pub fn comp_events_acked(&self, cq: usize, context: usize, number: u32) {
        self.traffic(cq, context).events_acked.fetch_add(number.into(), Relaxed);
    }

    /// A poll of `cq` returned `number` completions, `failed` of them with an error status.
    pub fn polled(&self, cq: usize, context: usize, number: u32, failed: u32) {
        let traffic = self.traffic(cq, context);
        traffic.polled.fetch_add(number.into(), Relaxed);
        if failed != 0 {
            traffic.failed.fetch_add(failed.into(), Relaxed);
        }
    }

    /// The counters of a CQ, adopted when first seen.
    fn traffic(&self, cq: usize, context: usize) -> &TrafficCounts {
        if let Some(entry) = self.cqs.find(cq) {
            return &entry.traffic;
        }
        let device = self.device_of(context);
        let inserted = self.cqs.insert(cq, |entry| {
            self.credit(entry);
            entry.context.store(context, Relaxed);
            entry.device.store(device, Relaxed);
        });
        match inserted {
            Some(entry) => &entry.traffic,
            None => {
                // No count is lost: the device's own counters take it, on a line that threads share.
                self.crowded_out.fetch_add(1, Relaxed);
                &self.devices[device as usize].traffic
            }
        }
    }

    fn device_of(&self, context: usize) -> u32 {
        match self.contexts.find(context) {
            Some(entry) => entry.device.load(Relaxed),
            None => NO_DEVICE,
        }
    }

    fn device_named(&self, name: &[u8]) -> u32 {
        self.devices[..NO_DEVICE as usize]
            .iter()
            .position(|device| device.name.is_or_becomes(name))
            .map_or(NO_DEVICE, |place| place as u32)
    }
}

/// A close between its two ends.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Closing {
    device: u32,
    known: bool,
}

#[cfg(test)]
mod tests;
