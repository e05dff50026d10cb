//! Patterns of arming and waiting that miss completions, where all completions are counted.
//!
//! A CQ that is armed makes one event, for the next completion to come: what came before makes none. So a program that
//! arms, and then waits, has to poll until the CQ is empty in between. Only what must be wrong is found: the CQ is
//! armed and has no event, work is outstanding that was posted before it was armed, and nothing was posted since that
//! could complete instead.

use crate::cq_book::CqBook;
use crate::sync::*;
use crate::waits::Token;
use crate::{CqLine, Ledger};

/// Call sites that are remembered; those beyond are not spoken of.
const SITES: usize = 64;

/// What a program does before it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Lint {
    /// It armed the CQ and did not poll it after that.
    ArmedWithoutPoll = 1,
    /// Its last poll filled the array: more may be there.
    FullPoll = 2,
}

/// Polled since it was armed: not at all; until it was empty, or nearly; the last array was full.
const NOT_POLLED: u32 = 0;
const POLLED: u32 = 1;
const FULL: u32 = 2;

/// Not armed; armed; armed for solicited completions, which nobody can foresee.
const IDLE: u32 = 0;
const ARMED: u32 = 1;
const SOLICITED: u32 = 2;

/// A CQ between its arming and its event. Written by those who arm and poll it.
#[repr(C, align(64))]
pub(crate) struct Arming {
    /// Address of its channel, or 0.
    channel: AtomicUsize,
    state: AtomicU32,
    polled: AtomicU32,
    /// 1 if it had been polled, and work was outstanding, when it was armed.
    had_work: AtomicU32,
    /// How much had been posted by then.
    posted: AtomicU64,
}

impl Arming {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            channel: AtomicUsize::new(0),
            state: AtomicU32::new(IDLE),
            polled: AtomicU32::new(NOT_POLLED),
            had_work: AtomicU32::new(0),
            posted: AtomicU64::new(0),
        }
    }

    pub(crate) fn reset(&self) {
        self.channel.store(0, Relaxed);
        self.state.store(IDLE, Relaxed);
    }

    /// It was polled. Most polls come when it is not armed, or not for the first time: they write nothing.
    #[inline]
    pub(crate) fn polled(&self, full: bool) {
        if self.state.load(Relaxed) != IDLE {
            let polled = if full { FULL } else { POLLED };
            if self.polled.load(Relaxed) != polled {
                self.polled.store(polled, Relaxed);
            }
        }
    }

    /// Its event was got.
    pub(crate) fn fired(&self) {
        self.state.store(IDLE, Relaxed);
    }

    fn lint(&self) -> Option<Lint> {
        if self.state.load(Acquire) != ARMED {
            return None;
        }
        match self.polled.load(Relaxed) {
            NOT_POLLED if self.had_work.load(Relaxed) == 1 => Some(Lint::ArmedWithoutPoll),
            FULL => Some(Lint::FullPoll),
            _ => None,
        }
    }
}

/// Call sites of which something was said. All zero bytes: none.
#[repr(C)]
pub(crate) struct Sites([AtomicUsize; SITES]);

impl Sites {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self([const { AtomicUsize::new(0) }; SITES])
    }

    /// Whether this is the first time, and the place is remembered.
    fn is_first(&self, site: usize) -> bool {
        for known in &self.0 {
            match known.compare_exchange(0, site, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(other) if other == site => return false,
                Err(_) => {}
            }
        }
        false
    }
}

impl Ledger {
    /// A CQ was created with a completion channel.
    pub fn cq_has_channel(&self, cq: usize, channel: usize) {
        if let Some((_, book)) = self.cq_book(cq) {
            book.arming.channel.store(channel, Release);
        }
    }

    /// A CQ is about to be armed. One that is armed already stays so: it was polled since then, or not.
    pub fn cq_armed(&self, cq: usize, solicited_only: bool) {
        let Some((object, book)) = self.cq_book(cq) else { return };
        let arming = &book.arming;
        if arming.state.load(Relaxed) == ARMED {
            return;
        }
        let (posted, outstanding) = self.posted_and_outstanding(book).unwrap_or_default();
        let had_work = outstanding != 0 && object.traffic.polled.load(Relaxed) != 0;
        arming.polled.store(NOT_POLLED, Relaxed);
        arming.had_work.store(had_work.into(), Relaxed);
        arming.posted.store(posted, Relaxed);
        arming.state.store(if solicited_only { SOLICITED } else { ARMED }, Release);
    }

    /// A poll found nothing.
    pub fn polled_empty(&self, cq: usize) {
        if let Some((_, book)) = self.cq_book(cq) {
            book.arming.polled(false);
        }
    }

    /// A program is about to wait at this channel: a CQ of it whose completions it would miss.
    pub fn waits_badly(&self, channel: usize) -> Option<(Lint, Token)> {
        self.cq_books.taken().find_map(|book| {
            if book.arming.channel.load(Acquire) != channel {
                return None;
            }
            let lint = book.arming.lint()?;
            let (posted, outstanding) = self.posted_and_outstanding(book)?;
            let is_same = posted == book.arming.posted.load(Relaxed) && outstanding != 0;
            is_same.then(|| (lint, book.room.token()))
        })
    }

    /// Whether a lint is new at the place in the program that it was found at.
    pub fn is_first_at(&self, site: usize, lint: Lint) -> bool {
        // The lowest bits of an address tell nothing that two call sites would not differ in otherwise.
        self.sites.is_first(site << 2 | lint as usize)
    }

    /// A CQ for a line about it.
    pub fn cq_line_of(&self, cq: Token) -> Option<CqLine> {
        self.cq_line(self.address_of(cq)?.1)
    }

    /// `None` where headroom is not known.
    fn posted_and_outstanding(&self, book: &CqBook) -> Option<(u64, u64)> {
        let is_counted = book.room.unchecked.load(Relaxed) == 0 && !book.room.has_spilled();
        is_counted.then(|| self.near_sums(book)).flatten()
    }
}
