//! What a CQ's book has of its headroom: depth, the queues that complete to it, and why it is not checked.

use crate::headroom::Side;
use crate::sync::*;
use crate::waits::Token;

/// Queues that a CQ lists; where it has more, all queues of the process are looked through.
const LISTED: usize = 15;

/// Read after each post, and written when something changes.
#[repr(C, align(64))]
pub(crate) struct Room {
    /// 0: not known.
    pub(crate) depth: AtomicU32,
    /// One bit for each [`crate::Unchecked`]: those that stay, and those that hold while a QP is as it is.
    pub(crate) unchecked: AtomicU32,
    pub(crate) was_unchecked: AtomicU32,
    /// 1 after a QP with an SRQ ended: the next post is too many to count.
    pub(crate) srq_user_ended: AtomicU32,
    /// 1 once its line was said.
    pub(crate) told: AtomicU32,
    /// Goes up when a queue comes or goes: a sum from before and after is of no use.
    pub(crate) version: AtomicU32,
    /// Place of the CQ plus 1, and generation.
    pub(crate) place: AtomicU32,
    pub(crate) generation: AtomicU32,
    /// What the QPs of its context are found by, but for their numbers.
    pub(crate) key: AtomicU64,
    /// Of a CQ with many queues: how often its room was shared out, and how much of it each queue got.
    share: AtomicU64,
    pub(crate) visits: AtomicU32,
    /// Queues that complete to it, and those of them that are not listed.
    queues: AtomicU32,
    spilled: AtomicU32,
    /// Place of this book plus 1.
    pub(crate) own: AtomicU32,
}

/// The queues that complete to a CQ.
#[repr(C, align(64))]
pub(crate) struct Members {
    listed: [AtomicU32; LISTED],
    /// Places that were ever taken lie below this.
    used: AtomicU32,
}

/// A count with a line of its own.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Lone {
    pub(crate) number: AtomicU64,
}

/// Which side a listed queue is.
const RECEIVE: u32 = 1 << 13;

impl Room {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            depth: AtomicU32::new(0),
            unchecked: AtomicU32::new(0),
            was_unchecked: AtomicU32::new(0),
            srq_user_ended: AtomicU32::new(0),
            told: AtomicU32::new(0),
            version: AtomicU32::new(0),
            place: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            key: AtomicU64::new(0),
            share: AtomicU64::new(0),
            visits: AtomicU32::new(0),
            queues: AtomicU32::new(0),
            spilled: AtomicU32::new(0),
            own: AtomicU32::new(0),
        }
    }

    pub(crate) fn reset(&self) {
        for word in [
            &self.depth,
            &self.unchecked,
            &self.was_unchecked,
            &self.srq_user_ended,
            &self.told,
            &self.place,
            &self.generation,
            &self.visits,
            &self.queues,
            &self.spilled,
        ] {
            word.store(0, Relaxed);
        }
        self.changed();
    }

    pub(crate) fn token(&self) -> Token {
        Token { place: self.place.load(Relaxed), generation: self.generation.load(Relaxed) }
    }

    /// Sums of before are of no use, and nothing is left of the shares.
    pub(crate) fn changed(&self) {
        self.version.fetch_add(1, SeqCst);
        self.share_out(0);
    }

    pub(crate) fn share_out(&self, each: u64) {
        let epoch = (self.share.load(Relaxed) >> 32) as u32;
        let each = each.min(i32::MAX as u64);
        self.share.store(u64::from(epoch.wrapping_add(1)) << 32 | each, Relaxed);
    }

    /// The number of the last sharing out, and what each queue got.
    pub(crate) fn share(&self) -> (u32, u32) {
        let share = self.share.load(Relaxed);
        ((share >> 32) as u32, share as u32)
    }
}

impl Room {
    pub(crate) fn add(&self, members: &Members, work: u32, side: Side) {
        let word = listed(work, side);
        let free = |place: &AtomicU32| place.compare_exchange(0, word, AcqRel, Relaxed).is_ok();
        match members.listed.iter().position(free) {
            Some(place) => members.used.fetch_max(place as u32 + 1, AcqRel),
            None => self.spilled.fetch_add(1, AcqRel),
        };
        self.queues.fetch_add(1, Relaxed);
        self.changed();
    }

    pub(crate) fn remove(&self, members: &Members, work: u32, side: Side) {
        let word = listed(work, side);
        let taken = |place: &AtomicU32| place.compare_exchange(word, 0, AcqRel, Relaxed).is_ok();
        if !members.listed.iter().any(taken) {
            let _ = self.spilled.fetch_update(AcqRel, Relaxed, |spilled| spilled.checked_sub(1));
        }
        let _ = self.queues.fetch_update(Relaxed, Relaxed, |queues| queues.checked_sub(1));
        self.changed();
    }

    #[inline]
    pub(crate) fn has_spilled(&self) -> bool {
        self.spilled.load(Acquire) != 0
    }

    pub(crate) fn queues(&self) -> u32 {
        self.queues.load(Relaxed)
    }
}

impl Members {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { listed: [const { AtomicU32::new(0) }; LISTED], used: AtomicU32::new(0) }
    }

    pub(crate) fn reset(&self) {
        for word in self.listed.iter().chain([&self.used]) {
            word.store(0, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn list(&self) -> impl Iterator<Item = (u32, Side)> {
        let used = self.used.load(Acquire) as usize;
        self.listed.iter().take(used).filter_map(|word| match word.load(Acquire) {
            0 => None,
            word if word & RECEIVE == 0 => Some((word, Side::Send)),
            word => Some((word & !RECEIVE, Side::Receive)),
        })
    }
}

/// The word of a work has a bit to spare for the side.
fn listed(work: u32, side: Side) -> u32 {
    match side {
        Side::Send => work,
        Side::Receive => work | RECEIVE,
    }
}
