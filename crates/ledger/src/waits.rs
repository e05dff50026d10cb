//! Destroys that somebody has to look after: they wait for acks, or may come to wait.

use crate::open::Thread;
use crate::sync::*;

/// Destroys looked after at one time.
pub(crate) const WAITS: usize = 512;

/// States of a place; any other is the ticket of the destroy that has it.
const FREE: u64 = 0;
const CLAIMED: u64 = 1;

/// An object in one of its lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Token {
    /// Its place plus 1; 0 stands for an object that is not in the books.
    pub(crate) place: u32,
    pub(crate) generation: u32,
}

/// A destroy in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// What is destroyed.
    pub token: Token,
    /// Who waits.
    pub by: Thread,
    /// Since when, in nanoseconds of CLOCK_MONOTONIC.
    pub since: u64,
    /// When to look at it next.
    pub next_at: u64,
    /// How often it was spoken of.
    pub told: u32,
    /// How often in a row nothing was found open.
    pub idle: u32,
    /// How often the thread had gone to sleep when it was last looked at.
    pub switches: u64,
    /// Which destroy it is: places and tokens come back.
    pub ticket: u64,
}

#[repr(C, align(64))]
struct Place {
    state: AtomicU64,
    place: AtomicU32,
    generation: AtomicU32,
    tid: AtomicU32,
    name: [AtomicU64; 2],
    since: AtomicU64,
    next_at: AtomicU64,
    told: AtomicU32,
    idle: AtomicU32,
    switches: AtomicU64,
}

impl Place {
    fn token(&self) -> Token {
        Token { place: self.place.load(Relaxed), generation: self.generation.load(Relaxed) }
    }
}

/// All zero bytes: no destroy is in progress.
#[repr(C)]
pub(crate) struct Waits {
    /// Places in use or about to be: most destroys find none, and look no further.
    used: AtomicU32,
    tickets: AtomicU64,
    places: [Place; WAITS],
}

impl Waits {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            used: AtomicU32::new(0),
            tickets: AtomicU64::new(0),
            places: [const {
                Place {
                    state: AtomicU64::new(0),
                    place: AtomicU32::new(0),
                    generation: AtomicU32::new(0),
                    tid: AtomicU32::new(0),
                    name: [const { AtomicU64::new(0) }; 2],
                    since: AtomicU64::new(0),
                    next_at: AtomicU64::new(0),
                    told: AtomicU32::new(0),
                    idle: AtomicU32::new(0),
                    switches: AtomicU64::new(0),
                }
            }; WAITS],
        }
    }

    /// The place of a destroy, and its ticket.
    fn of(&self, token: Token) -> Option<(&Place, u64)> {
        if self.used.load(SeqCst) == 0 {
            return None;
        }
        self.places.iter().find_map(|place| {
            let ticket = place.state.load(Acquire);
            (ticket > CLAIMED && place.token() == token).then_some((place, ticket))
        })
    }

    /// False if there is no room. One destroy takes one place, however often it is added.
    pub(crate) fn add(&self, wait: &Wait) -> bool {
        if self.of(wait.token).is_some() {
            return true;
        }
        self.used.fetch_add(1, SeqCst);
        for place in &self.places {
            if place.state.compare_exchange(FREE, CLAIMED, AcqRel, Relaxed).is_ok() {
                place.place.store(wait.token.place, Relaxed);
                place.generation.store(wait.token.generation, Relaxed);
                place.tid.store(wait.by.tid, Relaxed);
                for (word, half) in place.name.iter().zip(wait.by.name_words()) {
                    word.store(half, Relaxed);
                }
                place.since.store(wait.since, Relaxed);
                place.next_at.store(wait.next_at, Relaxed);
                place.told.store(wait.told, Relaxed);
                place.idle.store(wait.idle, Relaxed);
                place.switches.store(wait.switches, Relaxed);
                place.state.store(self.tickets.fetch_add(1, Relaxed) + CLAIMED + 1, SeqCst);
                return true;
            }
        }
        self.used.fetch_sub(1, SeqCst);
        false
    }

    /// The destroy is over. True if it was looked after.
    pub(crate) fn remove(&self, token: Token) -> bool {
        let mut removed = false;
        while let Some((place, ticket)) = self.of(token) {
            if place.state.compare_exchange(ticket, FREE, SeqCst, Relaxed).is_ok() {
                self.used.fetch_sub(1, SeqCst);
                removed = true;
            }
        }
        removed
    }

    pub(crate) fn active(&self) -> impl Iterator<Item = Wait> {
        self.places.iter().filter_map(|place| {
            let ticket = place.state.load(SeqCst);
            (ticket > CLAIMED).then(|| Wait {
                token: place.token(),
                by: Thread::new(
                    place.tid.load(Relaxed),
                    [place.name[0].load(Relaxed), place.name[1].load(Relaxed)],
                ),
                since: place.since.load(Relaxed),
                next_at: place.next_at.load(Relaxed),
                told: place.told.load(Relaxed),
                idle: place.idle.load(Relaxed),
                switches: place.switches.load(Relaxed),
                ticket,
            })
        })
    }

    /// It was looked at: what is known of it now.
    pub(crate) fn looked_at(&self, wait: &Wait) {
        if let Some((place, ticket)) = self.of(wait.token)
            && ticket == wait.ticket
        {
            place.next_at.store(wait.next_at, Relaxed);
            place.told.store(wait.told, Relaxed);
            place.idle.store(wait.idle, Relaxed);
            place.switches.store(wait.switches, Relaxed);
        }
    }

    /// It is not to be looked at any more; another destroy that has its place by now is left alone.
    pub(crate) fn drop(&self, wait: &Wait) {
        if let Some((place, ticket)) = self.of(wait.token)
            && ticket == wait.ticket
            && place.state.compare_exchange(ticket, FREE, SeqCst, Relaxed).is_ok()
        {
            self.used.fetch_sub(1, SeqCst);
        }
    }
}
