//! A fixed-size table from addresses to entries, without locks.
//!
//! Entries lie densely in a pool, so that few pages are touched; an index finds them by open addressing with a bounded
//! probe. Nothing here waits: a `fork` in the middle of anything leaves no lock behind. An entry that is dead stays
//! findable until its place is needed. Two threads that insert one address at once may make two entries for it: the one
//! found first is used from then on, and sums over all entries stay right.

use crate::sync::*;

/// States of an entry; 0 is free. One thread is filling it or taking it out.
const CLAIMED: u32 = 1;
/// Seen from its birth.
pub(crate) const ALIVE: u32 = 2;
/// First seen after its birth, or born where we cannot see all.
pub(crate) const FOREIGN: u32 = 3;
/// Destroyed or closed; nothing new was seen at its address.
pub(crate) const DEAD: u32 = 4;
/// Dead, and its place is being taken for another address.
const TAKEN: u32 = 5;

/// Words of the index: 0 is empty, this was in use, any other is the place of an entry plus 1.
const REMOVED: u32 = u32::MAX;
/// Index words looked at for one address.
const PROBE: usize = 64;
/// Dead entries that are kept before one of them is used again.
const KEPT: u32 = 1024;
/// Entries looked at for a dead one.
const SWEEP: usize = 64;

/// What every entry begins with.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Head {
    address: AtomicUsize,
    /// Generation in the high half, state in the low.
    life: AtomicU64,
}

impl Head {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { address: AtomicUsize::new(0), life: AtomicU64::new(0) }
    }

    pub(crate) fn address(&self) -> usize {
        self.address.load(Acquire)
    }

    pub(crate) fn state(&self) -> u32 {
        self.life.load(Acquire) as u32
    }

    /// Which life of this place it is.
    pub(crate) fn generation(&self) -> u32 {
        (self.life.load(Acquire) >> 32) as u32
    }

    /// Goes over from one state to another within a life; false if it is not in that state or life.
    pub(crate) fn turn(&self, generation: u32, from: u32, to: u32) -> bool {
        let life = |state| u64::from(generation) << 32 | u64::from(state);
        self.life.compare_exchange(life(from), life(to), AcqRel, Acquire).is_ok()
    }

    /// Claims the entry of `address` and says in which state it was; `None` if another thread has claimed it, or has
    /// used its place for another address since it was found.
    fn claim(&self, address: usize) -> Option<u32> {
        loop {
            let life = self.life.load(Acquire);
            if matches!(life as u32, CLAIMED | TAKEN) || self.address() != address {
                return None;
            }
            let claimed = life & !0xffff_ffff | u64::from(CLAIMED);
            // Every use of the place for another address is another life.
            if self.life.compare_exchange(life, claimed, AcqRel, Acquire).is_ok() {
                return Some(life as u32);
            }
        }
    }

    /// Whoever has claimed it gives it up, in the same life.
    fn end(&self) {
        let life = self.life.load(Acquire);
        self.life.store(life & !0xffff_ffff | u64::from(DEAD), Release);
    }

    fn begin(&self, state: u32) {
        let generation = self.generation().wrapping_add(1);
        self.life.store(u64::from(generation) << 32 | u64::from(state), Release);
    }
}

/// What a [`Table`] stores.
pub(crate) trait Entry {
    fn head(&self) -> &Head;
}

/// `N` entries and `WORDS` index words, a power of two; the all-zero table is empty.
#[repr(C)]
pub(crate) struct Table<E, const N: usize, const WORDS: usize> {
    used: AtomicU32,
    dead: AtomicU32,
    cursor: AtomicU32,
    spare: AtomicU32,
    index: [AtomicU32; WORDS],
    entries: [E; N],
}

impl<E: Entry, const N: usize, const WORDS: usize> Table<E, N, WORDS> {
    #[cfg(not(loom))]
    pub(crate) const fn new(entries: [E; N]) -> Self {
        assert!(WORDS.is_power_of_two() && N < REMOVED as usize && WORDS >= N);
        Self {
            used: AtomicU32::new(0),
            dead: AtomicU32::new(0),
            cursor: AtomicU32::new(0),
            spare: AtomicU32::new(0),
            index: [const { AtomicU32::new(0) }; WORDS],
            entries,
        }
    }

    #[cfg(loom)]
    pub(crate) fn new(entries: [E; N]) -> Self {
        Self {
            used: AtomicU32::new(0),
            dead: AtomicU32::new(0),
            cursor: AtomicU32::new(0),
            spare: AtomicU32::new(0),
            index: std::array::from_fn(|_| AtomicU32::new(0)),
            entries,
        }
    }

    fn probe(&self, address: usize) -> impl Iterator<Item = &AtomicU32> {
        // Objects are at least 16-byte aligned heap blocks: the low bits say nothing.
        let hash = (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15usize);
        let start = hash >> (usize::BITS - WORDS.trailing_zeros());
        (0..PROBE.min(WORDS)).map(move |step| &self.index[(start + step) & (WORDS - 1)])
    }

    /// The place of the entry of `address`, dead or not.
    pub(crate) fn find(&self, address: usize) -> Option<usize> {
        if address == 0 {
            return None;
        }
        for word in self.probe(address) {
            match word.load(Acquire) {
                0 => return None,
                REMOVED => {}
                word => {
                    let place = word as usize - 1;
                    let head = self.entries[place].head();
                    if head.address() == address && head.state() != TAKEN {
                        return Some(place);
                    }
                }
            }
        }
        None
    }

    pub(crate) fn at(&self, place: usize) -> &E {
        &self.entries[place]
    }

    /// Takes a place for `address` and fills it before any other thread can find it. `evict` sees a dead entry before
    /// its place is used again. `None` when there is no room.
    pub(crate) fn insert(
        &self,
        address: usize,
        state: u32,
        evict: impl Fn(&E),
        fill: impl Fn(&E),
    ) -> Option<usize> {
        if address == 0 {
            return None;
        }
        let place = self.take_place(&evict)?;
        let entry = &self.entries[place];
        fill(entry);
        entry.head().address.store(address, Release);
        entry.head().begin(state);
        self.index(address, place).then_some(place)
    }

    /// Makes an entry findable. False if there is no room in the index.
    fn index(&self, address: usize, place: usize) -> bool {
        for word in self.probe(address) {
            let seen = word.load(Relaxed);
            let free = seen == 0 || seen == REMOVED;
            if free && word.compare_exchange(seen, place as u32 + 1, AcqRel, Relaxed).is_ok() {
                return true;
            }
        }
        // Nobody can find it: it is a dead entry of no address.
        let head = self.entries[place].head();
        head.address.store(0, Release);
        head.begin(DEAD);
        self.dead.fetch_add(1, Relaxed);
        false
    }

    /// Something new lives at the address of an entry: it gets an entry of its own, and the old one is dead and can
    /// only be listed. Where there is no room for two the new one takes the old one's place. False if there is none
    /// at all.
    pub(crate) fn succeed(
        &self,
        (old, address): (usize, usize),
        state: u32,
        evict: impl Fn(&E),
        fill: impl Fn(&E),
    ) -> bool {
        let entry = &self.entries[old];
        // Claimed, so that its place cannot go to another address before its word in the index has changed.
        let Some(was) = entry.head().claim(address) else {
            // Another thread has taken it away, to use its place for another address.
            return self.insert(address, state, evict, fill).is_some();
        };
        if was == DEAD {
            self.dead.fetch_sub(1, Relaxed);
        }
        let Some(place) = self.take_place(&evict) else {
            evict(entry);
            fill(entry);
            entry.head().begin(state);
            return true;
        };
        let new = &self.entries[place];
        fill(new);
        new.head().address.store(address, Release);
        new.head().begin(state);
        // In one step: at no time is the address unknown.
        let (old_word, new_word) = (old as u32 + 1, place as u32 + 1);
        let switched = self
            .probe(address)
            .any(|word| word.compare_exchange(old_word, new_word, AcqRel, Relaxed).is_ok());
        entry.head().end();
        self.dead.fetch_add(1, Relaxed);
        switched || self.index(address, place)
    }

    /// The entry is dead from now on, unless it has begun another life. True if it was alive.
    pub(crate) fn bury(&self, place: usize, generation: u32) -> bool {
        let head = self.entries[place].head();
        let buried = head.turn(generation, ALIVE, DEAD) || head.turn(generation, FOREIGN, DEAD);
        if buried {
            self.dead.fetch_add(1, Relaxed);
        }
        buried
    }

    /// A dead entry turns out to stand for something that lives: its life goes on, as a foreign one.
    pub(crate) fn revive(&self, place: usize, generation: u32) {
        if self.entries[place].head().turn(generation, DEAD, FOREIGN) {
            self.dead.fetch_sub(1, Relaxed);
        }
    }

    /// All entries, dead ones too, with their places.
    pub(crate) fn entries_with_place(&self) -> impl Iterator<Item = (usize, &E)> {
        let used = (self.used.load(Acquire) as usize).min(N);
        self.entries[..used]
            .iter()
            .enumerate()
            .filter(|(_, entry)| matches!(entry.head().state(), ALIVE | FOREIGN | DEAD))
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &E> {
        self.entries_with_place().map(|(_, entry)| entry)
    }

    /// A place that only the caller knows.
    fn take_place(&self, evict: &impl Fn(&E)) -> Option<usize> {
        if self.dead.load(Relaxed) >= KEPT.min(N as u32 / 2).max(1)
            && let Some(place) = self.take_dead(evict, SWEEP)
        {
            return Some(place);
        }
        let fresh = self.used.fetch_update(AcqRel, Acquire, |used| (used < N as u32).then_some(used + 1));
        match fresh {
            Ok(place) => Some(place as usize),
            Err(_) => self.take_dead(evict, N),
        }
    }

    fn take_dead(&self, evict: impl Fn(&E), at_most: usize) -> Option<usize> {
        let used = (self.used.load(Acquire) as usize).clamp(1, N);
        if self.dead.load(Relaxed) == 0 {
            return None;
        }
        for _ in 0..at_most.min(used) {
            let place = self.cursor.fetch_add(1, Relaxed) as usize % used;
            let entry = &self.entries[place];
            let head = entry.head();
            if head.state() == DEAD && head.turn(head.generation(), DEAD, TAKEN) {
                self.dead.fetch_sub(1, Relaxed);
                let address = head.address();
                if address != 0 {
                    evict(entry);
                    self.unindex(address, place);
                }
                return Some(place);
            }
        }
        None
    }

    fn unindex(&self, address: usize, place: usize) {
        let own = place as u32 + 1;
        for word in self.probe(address) {
            if word.compare_exchange(own, REMOVED, AcqRel, Relaxed).is_ok() {
                return;
            }
        }
    }
}
