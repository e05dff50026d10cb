//! A few addresses, each in a place of its own for as long as the process lives.

use crate::sync::*;

/// `N` places for the addresses of functions; the all-zero set is empty. It is an array of them and nothing else: code
/// reaches a place by its offset.
#[repr(transparent)]
pub struct Slots<const N: usize>([AtomicUsize; N]);

#[cfg(not(loom))]
impl<const N: usize> Default for Slots<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Slots<N> {
    /// All free.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self([const { AtomicUsize::new(0) }; N])
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicUsize::new(0)))
    }

    /// What is in a place; 0 if it is free.
    #[inline]
    pub fn address(&self, slot: usize) -> usize {
        self.0[slot].load(Acquire)
    }

    /// The place of `address`, which is not 0; a free one becomes it. `None` if there is none.
    pub fn of(&self, address: usize) -> Option<usize> {
        self.0.iter().position(|slot| {
            slot.compare_exchange(0, address, AcqRel, Acquire).is_ok() || slot.load(Acquire) == address
        })
    }
}
