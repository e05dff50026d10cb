//! What is known of a QP when its completions fail: who its peer is, who moved it, which failure came first.

use crate::open::Taken;
use crate::sync::*;
use crate::table::{Entry, Head};
use crate::verdict::{Address, Failure, Peer};

/// No failure was seen; one thread is writing it down; it is there.
const NONE: u32 = 0;
const WRITING: u32 = 1;
const WRITTEN: u32 = 2;

/// Where a QP's completions go.
pub(crate) const SEND_CQ: u32 = 1;
pub(crate) const RECV_CQ: u32 = 2;

/// A QP, found by its context and number: that is all that a completion tells.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Qp {
    head: Head,
    /// Place of its context plus 1.
    pub(crate) context: AtomicU32,
    pub(crate) context_generation: AtomicU32,
    pub(crate) number: AtomicU32,
    pub(crate) handle: AtomicU32,
    /// 1 if it was seen when it was created.
    pub(crate) born: AtomicU32,
    /// 1 if its connection's end moves it to ERR, as iWARP does.
    pub(crate) ends_with_connection: AtomicU32,
    /// 1 if its number served another QP before it: completions of that one may come still.
    pub(crate) reused: AtomicU32,
    /// 1 once the program has made it ready through us: then its end will come through us too.
    pub(crate) ran: AtomicU32,
    /// 1 if a failure moves it to ERR: those of other types go on, or wait in SQE.
    pub(crate) connected: AtomicU32,
    /// 1: first seen after its birth, or on a context that was. Its death does not change that.
    pub(crate) foreign: AtomicU32,
    pub(crate) send_cq: AtomicUsize,
    pub(crate) recv_cq: AtomicUsize,
    /// Its place among those whose work is counted: see [`crate::headroom`].
    pub(crate) work: AtomicU32,
    /// 0: none; 1: a LID; 2: a GID.
    address_kind: AtomicU32,
    lid: AtomicU32,
    gid: [AtomicU64; 2],
    /// The peer's QP number plus 1.
    peer_number: AtomicU64,
    /// The state that the program moved it to, plus 1, when, and which thread did.
    moved_to: AtomicU32,
    moved_by: AtomicU32,
    moved_at: AtomicU64,
    /// 1 if an event had said before that it failed.
    moved_after_event: AtomicU32,
    /// An event of this QP that says that it failed: its type plus 1, who got it and when.
    event: AtomicU32,
    event_by: AtomicU32,
    event_at: AtomicU64,
    stage: AtomicU32,
    status: AtomicU32,
    vendor_err: AtomicU32,
    /// CQs on which something failed: [`SEND_CQ`], [`RECV_CQ`].
    pub(crate) failed_on: AtomicU32,
    wr_id: AtomicU64,
    failed_at: AtomicU64,
    /// Completions with an error status other than a flush.
    pub(crate) failures: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) first_flush_at: AtomicU64,
    pub(crate) first_flush_wr_id: AtomicU64,
    /// What `moved_to` was then, plus 1; 0 until that is known. And by whom and when.
    moved_before_flush: AtomicU32,
    flush_after_event: AtomicU32,
    flush_moved_by: AtomicU32,
    flush_moved_at: AtomicU64,
    /// 1 once a flush without a visible failure was spoken of.
    told: AtomicU32,
}

impl Entry for Qp {
    fn head(&self) -> &Head {
        &self.head
    }
}

/// What a program's own move of a QP replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Moved {
    pub(crate) to: u32,
    pub(crate) by: u32,
    pub(crate) at: u64,
    pub(crate) after_event: u32,
}

impl Qp {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            head: Head::new(),
            context: AtomicU32::new(0),
            context_generation: AtomicU32::new(0),
            number: AtomicU32::new(0),
            handle: AtomicU32::new(0),
            born: AtomicU32::new(0),
            ends_with_connection: AtomicU32::new(0),
            reused: AtomicU32::new(0),
            ran: AtomicU32::new(0),
            connected: AtomicU32::new(0),
            foreign: AtomicU32::new(0),
            send_cq: AtomicUsize::new(0),
            recv_cq: AtomicUsize::new(0),
            work: AtomicU32::new(0),
            address_kind: AtomicU32::new(0),
            lid: AtomicU32::new(0),
            gid: [const { AtomicU64::new(0) }; 2],
            peer_number: AtomicU64::new(0),
            moved_to: AtomicU32::new(0),
            moved_by: AtomicU32::new(0),
            moved_at: AtomicU64::new(0),
            moved_after_event: AtomicU32::new(0),
            event: AtomicU32::new(0),
            event_by: AtomicU32::new(0),
            event_at: AtomicU64::new(0),
            stage: AtomicU32::new(NONE),
            status: AtomicU32::new(0),
            vendor_err: AtomicU32::new(0),
            failed_on: AtomicU32::new(0),
            wr_id: AtomicU64::new(0),
            failed_at: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            first_flush_at: AtomicU64::new(0),
            first_flush_wr_id: AtomicU64::new(0),
            moved_before_flush: AtomicU32::new(0),
            flush_after_event: AtomicU32::new(0),
            flush_moved_by: AtomicU32::new(0),
            flush_moved_at: AtomicU64::new(0),
            told: AtomicU32::new(0),
        }
    }

    /// Another QP at this place.
    pub(crate) fn reset(&self) {
        self.handle.store(0, Relaxed);
        self.born.store(0, Relaxed);
        self.ends_with_connection.store(0, Relaxed);
        self.send_cq.store(0, Relaxed);
        self.recv_cq.store(0, Relaxed);
        for word in [&self.reused, &self.ran, &self.connected, &self.work, &self.moved_to] {
            word.store(0, Relaxed);
        }
        self.begin_again();
    }

    /// The same QP, moved to RESET: what it was connected to and what went wrong lies behind it. That it was moved does
    /// not: flushes of before may still lie in its CQs.
    pub(crate) fn begin_again(&self) {
        self.address_kind.store(0, Relaxed);
        self.peer_number.store(0, Relaxed);
        self.recovered();
    }

    /// The same QP, made ready to receive after RESET: what is flushed from now on has another reason.
    pub(crate) fn is_ready(&self) {
        self.begin_again();
        self.moved_to.store(0, Relaxed);
        self.ran.store(1, Relaxed);
    }

    /// It works again: what went wrong, as it may in SQE, lies behind it.
    pub(crate) fn recovered(&self) {
        for word in [&self.event, &self.failed_on, &self.told] {
            word.store(0, Relaxed);
        }
        for word in [&self.failures, &self.flushes, &self.first_flush_at] {
            word.store(0, Relaxed);
        }
        self.moved_before_flush.store(0, Relaxed);
        self.stage.store(NONE, Release);
    }

    /// Whether a completion with its number, polled from this CQ, is its own. Numbers of WQs and of raw packet queues
    /// are others, and a QP that was destroyed leaves completions behind.
    pub(crate) fn may_have(&self, cq: usize) -> bool {
        let cqs = [&self.send_cq, &self.recv_cq].map(|cq| cq.load(Relaxed));
        // One of XRC that was opened has none of its own: receives complete to the CQ of the SRQ.
        let own = cqs.contains(&cq) || cqs == [0, 0];
        let before = self.reused.load(Relaxed) == 1 && self.ran.load(Relaxed) == 0;
        self.born.load(Relaxed) == 0 || (own && !before)
    }

    pub(crate) fn peer_is(&self, number: Option<u32>, address: Option<Address>) {
        if let Some(number) = number {
            self.peer_number.store(u64::from(number) + 1, Relaxed);
        }
        match address {
            Some(Address::Lid(lid)) => {
                self.lid.store(lid.into(), Relaxed);
                self.address_kind.store(1, Release);
            }
            Some(Address::Gid(gid)) => {
                let halves: [[u8; 8]; 2] =
                    [std::array::from_fn(|i| gid[i]), std::array::from_fn(|i| gid[8 + i])];
                for (mine, half) in self.gid.iter().zip(halves) {
                    mine.store(u64::from_be_bytes(half), Relaxed);
                }
                self.address_kind.store(2, Release);
            }
            None => {}
        }
    }

    pub(crate) fn peer(&self) -> Option<Peer> {
        let number = (self.peer_number.load(Relaxed) as i64 - 1).try_into().ok();
        let address = match self.address_kind.load(Acquire) {
            1 => Some(Address::Lid(self.lid.load(Relaxed) as u16)),
            2 => {
                let halves = [0, 1].map(|half: usize| self.gid[half].load(Relaxed).to_be_bytes());
                Some(Address::Gid(std::array::from_fn(|i| halves[i / 8][i % 8])))
            }
            _ => None,
        };
        (number.is_some() || address.is_some()).then_some(Peer { number, address })
    }

    /// The program moves it. Returns what this replaces, for [`Qp::unmoved`].
    pub(crate) fn moves(&self, to: u32, by: u32, at: u64) -> Moved {
        let before = Moved {
            to: self.moved_to.load(Relaxed),
            by: self.moved_by.load(Relaxed),
            at: self.moved_at.load(Relaxed),
            after_event: self.moved_after_event.load(Relaxed),
        };
        self.moved_after_event.store((self.event.load(Acquire) != 0).into(), Relaxed);
        self.moved_at.store(at, Relaxed);
        self.moved_by.store(by, Relaxed);
        self.moved_to.store(to + 1, Release);
        before
    }

    /// That move failed.
    pub(crate) fn unmoved(&self, before: Moved) {
        self.moved_at.store(before.at, Relaxed);
        self.moved_after_event.store(before.after_event, Relaxed);
        self.moved_by.store(before.by, Relaxed);
        self.moved_to.store(before.to, Release);
    }

    /// Whether it is known what the first flush found.
    pub(crate) fn knows_flush(&self) -> bool {
        self.moved_before_flush.load(Acquire) != 0
    }

    /// The state that the program had moved it to when the first work request was flushed, by whom and when.
    pub(crate) fn moved_before_flush(&self) -> Option<(u32, u32, u64)> {
        let to = self.moved_before_flush.load(Acquire).checked_sub(2)?;
        Some((to, self.flush_moved_by.load(Relaxed), self.flush_moved_at.load(Relaxed)))
    }

    /// Whether an event had said before that move that it failed: the move answers the event.
    pub(crate) fn moved_after_event(&self) -> bool {
        self.flush_after_event.load(Relaxed) == 1
    }

    /// An event of it says that it failed; the first one counts.
    pub(crate) fn event_got(&self, event_type: u32, by: u32, at: u64) {
        if self.event.load(Relaxed) == 0 {
            self.event_at.store(at, Relaxed);
            self.event_by.store(by, Relaxed);
            self.event.store(event_type + 1, Release);
        }
    }

    pub(crate) fn event(&self) -> Option<Taken> {
        let event_type = self.event.load(Acquire).checked_sub(1)?;
        let by = crate::Thread { tid: self.event_by.load(Relaxed), ..Default::default() };
        Some(Taken { event_type, by, at: self.event_at.load(Relaxed) })
    }

    /// A work request failed. True if it is the first one of this QP.
    pub(crate) fn failed(&self, failure: &Failure) -> bool {
        self.failures.fetch_add(1, Relaxed);
        if self.stage.load(Relaxed) != NONE
            || self.stage.compare_exchange(NONE, WRITING, Acquire, Relaxed).is_err()
        {
            return false;
        }
        self.status.store(failure.status, Relaxed);
        self.vendor_err.store(failure.vendor_err, Relaxed);
        self.wr_id.store(failure.wr_id, Relaxed);
        self.failed_at.store(failure.at, Relaxed);
        self.stage.store(WRITTEN, Release);
        true
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.stage.load(Acquire) != NONE
    }

    pub(crate) fn first_failure(&self) -> Option<Failure> {
        (self.stage.load(Acquire) == WRITTEN).then(|| Failure {
            status: self.status.load(Relaxed),
            vendor_err: self.vendor_err.load(Relaxed),
            wr_id: self.wr_id.load(Relaxed),
            at: self.failed_at.load(Relaxed),
        })
    }

    /// A work request was flushed. Returns when the first one was.
    pub(crate) fn flushed(&self, wr_id: u64, at: u64) -> u64 {
        self.flushes.fetch_add(1, Relaxed);
        match self.first_flush_at.compare_exchange(0, at, Relaxed, Relaxed) {
            Ok(_) => {
                self.first_flush_wr_id.store(wr_id, Relaxed);
                let moved_to = self.moved_to.load(Acquire);
                self.flush_after_event.store(self.moved_after_event.load(Relaxed), Relaxed);
                self.flush_moved_by.store(self.moved_by.load(Relaxed), Relaxed);
                self.flush_moved_at.store(self.moved_at.load(Relaxed), Relaxed);
                self.moved_before_flush.store(moved_to + 1, Release);
                at
            }
            Err(first) => first,
        }
    }

    pub(crate) fn is_told(&self) -> bool {
        self.told.load(Relaxed) == 1
    }

    /// True for the first who asks in this life of the QP.
    pub(crate) fn tell(&self) -> bool {
        self.told.swap(1, Relaxed) == 0
    }

    /// Whether no completion of it has failed.
    pub(crate) fn is_well(&self) -> bool {
        self.flushes.load(Relaxed) == 0 && self.failures.load(Relaxed) == 0
    }
}
