//! Events that are open: which type, who took it, when.
//!
//! Details for people; whether an ack is good is decided by the object's [`crate::account::Account`]. Open addressing
//! by the object's address, several entries for one address; when there is no room near its place an event stays
//! without details.

use crate::sync::*;

/// Events with details at one time.
pub(crate) const OPEN_EVENTS: usize = 4096;
const WORDS: usize = OPEN_EVENTS * 2;
const PROBE: usize = 64;

const EMPTY: usize = 0;
const REMOVED: usize = 1;
/// One thread is filling it or taking it out; no object has this address.
const CLAIMED: usize = 2;

/// A thread as people know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Thread {
    /// Thread id (gettid(2)).
    pub tid: u32,
    /// Its name at that time, padded with zeros (pthread_setname_np(3)); all zeros if it was not asked for.
    pub name: [u8; 16],
}

/// A thread whose name is known: most events of an object are taken by one thread, which need not be asked each time.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Named {
    tid: AtomicU32,
    name: [AtomicU64; 2],
}

impl Named {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { tid: AtomicU32::new(0), name: [const { AtomicU64::new(0) }; 2] }
    }

    /// This thread; `ask` is asked for it if it is another than before.
    pub(crate) fn thread(&self, tid: u32, ask: impl FnOnce() -> Thread) -> Thread {
        if self.tid.load(Relaxed) == tid {
            return self.known(tid);
        }
        let thread = ask();
        for (word, half) in self.name.iter().zip(thread.name_words()) {
            word.store(half, Relaxed);
        }
        self.tid.store(tid, Relaxed);
        thread
    }

    /// This thread, with its name if that is known.
    pub(crate) fn known(&self, tid: u32) -> Thread {
        if self.tid.load(Relaxed) == tid {
            Thread::new(tid, [self.name[0].load(Relaxed), self.name[1].load(Relaxed)])
        } else {
            Thread { tid, ..Default::default() }
        }
    }

    pub(crate) fn forget(&self) {
        self.tid.store(0, Relaxed);
    }
}

/// An event that was got and not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// `enum ibv_event_type`.
    pub event_type: u32,
    /// Who got it.
    pub by: Thread,
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub at: u64,
}

#[repr(C, align(64))]
struct Place {
    address: AtomicUsize,
    at: AtomicU64,
    name: [AtomicU64; 2],
    event_type: AtomicU32,
    tid: AtomicU32,
}

impl Thread {
    pub(crate) fn new(tid: u32, words: [u64; 2]) -> Self {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&words[0].to_ne_bytes());
        name[8..].copy_from_slice(&words[1].to_ne_bytes());
        Self { tid, name }
    }

    pub(crate) fn name_words(&self) -> [u64; 2] {
        let half = |from: usize| u64::from_ne_bytes(std::array::from_fn(|byte| self.name[from + byte]));
        [half(0), half(8)]
    }
}

impl Place {
    fn read(&self) -> Taken {
        Taken {
            event_type: self.event_type.load(Relaxed),
            by: Thread::new(self.tid.load(Relaxed), [self.name[0].load(Relaxed), self.name[1].load(Relaxed)]),
            at: self.at.load(Relaxed),
        }
    }

    fn write(&self, taken: &Taken) {
        for (word, half) in self.name.iter().zip(taken.by.name_words()) {
            word.store(half, Relaxed);
        }
        self.event_type.store(taken.event_type, Relaxed);
        self.tid.store(taken.by.tid, Relaxed);
        self.at.store(taken.at, Relaxed);
    }
}

/// All zero bytes: no event is open.
#[repr(C)]
pub(crate) struct OpenEvents([Place; WORDS]);

impl OpenEvents {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self(
            [const {
                Place {
                    address: AtomicUsize::new(0),
                    at: AtomicU64::new(0),
                    name: [const { AtomicU64::new(0) }; 2],
                    event_type: AtomicU32::new(0),
                    tid: AtomicU32::new(0),
                }
            }; WORDS],
        )
    }

    fn probe(&self, address: usize) -> impl Iterator<Item = &Place> {
        let hash = (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15usize);
        let start = hash >> (usize::BITS - WORDS.trailing_zeros());
        (0..PROBE).map(move |step| &self.0[(start + step) & (WORDS - 1)])
    }

    fn of(&self, address: usize) -> impl Iterator<Item = &Place> {
        self.probe(address)
            .take_while(|place| place.address.load(Acquire) != EMPTY)
            .filter(move |place| place.address.load(Acquire) == address)
    }

    /// False if there was no room for the details.
    pub(crate) fn add(&self, address: usize, taken: &Taken) -> bool {
        for place in self.probe(address) {
            let seen = place.address.load(Relaxed);
            let free = seen == EMPTY || seen == REMOVED;
            if free && place.address.compare_exchange(seen, CLAIMED, AcqRel, Relaxed).is_ok() {
                place.write(taken);
                place.address.store(address, Release);
                return true;
            }
        }
        false
    }

    /// Takes out the oldest event of this type, or if there is none the oldest of any type. Returns its type.
    pub(crate) fn close(&self, address: usize, event_type: u32) -> u32 {
        while let Some(place) = self
            .of(address)
            .min_by_key(|place| (place.event_type.load(Relaxed) != event_type, place.at.load(Relaxed)))
        {
            let closed = place.event_type.load(Relaxed);
            if self.remove(place, address) {
                return closed;
            }
        }
        event_type
    }

    /// Takes out an event that `tid` took, or with `None` any event.
    pub(crate) fn take(&self, address: usize, tid: Option<u32>) -> Option<Taken> {
        for place in self.of(address) {
            if tid.is_none_or(|tid| place.tid.load(Relaxed) == tid) {
                let taken = place.read();
                if self.remove(place, address) {
                    return Some(taken);
                }
            }
        }
        None
    }

    fn remove(&self, place: &Place, address: usize) -> bool {
        let removed = place.address.compare_exchange(address, CLAIMED, AcqRel, Relaxed).is_ok();
        if removed {
            place.address.store(REMOVED, Release);
        }
        removed
    }

    /// All that are open of an object, oldest first.
    pub(crate) fn list(&self, address: usize) -> Vec<Taken> {
        let mut taken: Vec<Taken> = self.of(address).map(Place::read).collect();
        taken.sort_unstable_by_key(|event| event.at);
        taken
    }

    /// Forgets all events of an object.
    pub(crate) fn forget(&self, address: usize) {
        for place in self.of(address) {
            self.remove(place, address);
        }
    }
}
