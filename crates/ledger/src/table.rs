//! A fixed-size table from addresses to entries, without locks.
//!
//! Open addressing with a bounded probe. Nothing here waits, so a `fork` in the middle of anything
//! leaves no lock behind. Two threads that insert one address at once may make two entries for it:
//! the one found first is used from then on, and sums over all entries stay right.

use std::sync::atomic::{AtomicUsize, Ordering::*};

const EMPTY: usize = 0;
const REMOVED: usize = 1;
/// An entry that one thread is filling or taking out; no object has this address.
const CLAIMED: usize = 2;
const PROBE: usize = 64;

/// What a [`Table`] stores.
pub(crate) trait Entry {
    /// The address this entry is for, or a mark that it is free.
    fn key(&self) -> &AtomicUsize;
}

/// `N` is a power of two; the all-zero table is empty.
#[repr(transparent)]
pub(crate) struct Table<E, const N: usize>([E; N]);

impl<E: Entry, const N: usize> Table<E, N> {
    pub(crate) const fn new(entries: [E; N]) -> Self {
        assert!(N.is_power_of_two());
        Self(entries)
    }

    fn probe(&self, address: usize) -> impl Iterator<Item = &E> {
        // Objects are at least 16-byte aligned heap blocks: the low bits say nothing.
        let hash = (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15usize);
        let start = hash >> (usize::BITS - N.trailing_zeros());
        (0..PROBE.min(N)).map(move |step| &self.0[(start + step) & (N - 1)])
    }

    /// The entry of `address`.
    pub(crate) fn find(&self, address: usize) -> Option<&E> {
        if address <= CLAIMED {
            return None;
        }
        for entry in self.probe(address) {
            match entry.key().load(Acquire) {
                key if key == address => return Some(entry),
                EMPTY => return None,
                _ => {}
            }
        }
        None
    }

    /// Takes a free entry for `address` and fills it with `fill` before any other thread can find it.
    /// `None` when the table has no room near its place.
    pub(crate) fn insert(&self, address: usize, fill: impl Fn(&E)) -> Option<&E> {
        if address <= CLAIMED {
            return None;
        }
        for entry in self.probe(address) {
            let key = entry.key();
            let seen = key.load(Relaxed);
            let free = seen == EMPTY || seen == REMOVED;
            if free && key.compare_exchange(seen, CLAIMED, Acquire, Relaxed).is_ok() {
                fill(entry);
                key.store(address, Release);
                return Some(entry);
            }
        }
        None
    }

    /// Takes every entry of `address` out, after `last` has looked at it.
    pub(crate) fn remove(&self, address: usize, last: impl Fn(&E)) -> bool {
        let mut found = false;
        while let Some(entry) = self.find(address) {
            if entry.key().compare_exchange(address, CLAIMED, Acquire, Relaxed).is_ok() {
                last(entry);
                entry.key().store(REMOVED, Release);
                found = true;
            }
        }
        found
    }

    /// All places, used or free. A thread that found an entry just before it was taken out may still write to it.
    pub(crate) fn places(&self) -> impl Iterator<Item = &E> {
        self.0.iter()
    }

    /// All entries in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &E)> {
        self.0.iter().map(|entry| (entry.key().load(Acquire), entry)).filter(|(key, _)| *key > CLAIMED)
    }
}
