//! How many lines are said: ten at once, then one a second.

use crate::sync::*;

const BURST: u64 = 10;
const SECOND: u64 = 1_000_000_000;

/// All zero bytes: nothing was said.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Pace {
    /// The time at which the lines said so far would have been said at one a second.
    paid_until: AtomicU64,
    left_out: AtomicU64,
}

impl Pace {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { paid_until: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Whether a line may be said now; then with the number of those that could not be since the last one.
    pub(crate) fn allow(&self, now: u64) -> Option<u64> {
        let allowed = self.paid_until.fetch_update(Relaxed, Relaxed, |paid| {
            let paid = paid.max(now.saturating_sub(BURST * SECOND)) + SECOND;
            (paid <= now.max(BURST * SECOND)).then_some(paid)
        });
        match allowed {
            Ok(_) => Some(self.left_out.swap(0, Relaxed)),
            Err(_) => {
                self.left_out.fetch_add(1, Relaxed);
                None
            }
        }
    }

    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Relaxed)
    }
}
