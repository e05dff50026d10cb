//! Devices by name. They are never taken out: a device that comes back adds to the same sums.

use crate::counts::Tally;
use crate::sync::*;

pub(crate) struct Device {
    pub(crate) name: Name,
    pub(crate) opened: AtomicU64,
    pub(crate) adopted: AtomicU64,
    pub(crate) closed: AtomicU64,
    /// Of contexts whose place was used again, and of what had no room.
    pub(crate) tally: Tally,
}

impl Device {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            name: Name::new(),
            opened: AtomicU64::new(0),
            adopted: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            tally: Tally::new(),
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
    #[cfg(not(loom))]
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
