//! What went through CQs.

use crate::sync::*;
use crate::verdict::status_name;

/// What went through a CQ. A line of its own: threads that poll their own CQs share none.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct TrafficCounts {
    /// Completions, where all of them are counted.
    pub(crate) polled: AtomicU64,
    /// Those with an error status.
    pub(crate) failed: AtomicU64,
    /// Of those, the ones of which nobody can say which QP they belong to.
    pub(crate) unattributed: AtomicU64,
    /// Of those, the ones that came without a qp_num.
    pub(crate) nameless: AtomicU64,
    /// Polls that failed themselves.
    pub(crate) poll_errors: AtomicU64,
}

impl TrafficCounts {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            polled: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            unattributed: AtomicU64::new(0),
            nameless: AtomicU64::new(0),
            poll_errors: AtomicU64::new(0),
        }
    }

    fn all(&self) -> [&AtomicU64; 5] {
        [&self.polled, &self.failed, &self.unattributed, &self.nameless, &self.poll_errors]
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.all().into_iter().all(|count| count.load(Relaxed) == 0)
    }

    pub(crate) fn reset(&self) {
        for count in self.all() {
            count.store(0, Relaxed);
        }
    }

    pub(crate) fn add_to(&self, other: &Self) {
        for (mine, theirs) in self.all().into_iter().zip(other.all()) {
            theirs.fetch_add(mine.load(Relaxed), Relaxed);
        }
    }

    pub(crate) fn move_into(&self, other: &Self) {
        for (mine, theirs) in self.all().into_iter().zip(other.all()) {
            theirs.fetch_add(mine.swap(0, Relaxed), Relaxed);
        }
    }
}

/// Counters by number, the last of which stands for all numbers from it on.
pub(crate) struct Counts<const N: usize>([AtomicU64; N]);

impl<const N: usize> Counts<N> {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; N])
    }

    #[inline]
    pub(crate) fn add(&self, place: usize, number: u64) {
        self.0[place.min(N - 1)].fetch_add(number, Relaxed);
    }

    pub(crate) fn reset(&self) {
        for count in &self.0 {
            count.store(0, Relaxed);
        }
    }

    pub(crate) fn add_to(&self, other: &Self) {
        for (mine, theirs) in self.0.iter().zip(&other.0) {
            let count = mine.load(Relaxed);
            if count != 0 {
                theirs.fetch_add(count, Relaxed);
            }
        }
    }

    pub(crate) fn move_into(&self, other: &Self) {
        self.add_to(other);
        self.reset();
    }

    pub(crate) fn add_to_sums(&self, sums: &mut [u64; N]) {
        for (sum, count) in sums.iter_mut().zip(&self.0) {
            *sum += count.load(Relaxed);
        }
    }
}

/// Statuses counted one by one.
pub(crate) const STATUSES: usize = 32;
/// Completions with an error status, by status.
pub(crate) type StatusCounts = Counts<STATUSES>;

/// Name and number of each status that occurred.
pub(crate) fn named_statuses(sums: &[u64; STATUSES]) -> Vec<(String, u64)> {
    named(sums, |status| match status {
        n if n == STATUSES - 1 => format!("status {n} or above"),
        n => status_name(n as u32),
    })
}

/// Opcodes of the two halves of `enum ibv_wc_opcode`, and one place for all others.
pub(crate) const OPCODES: usize = 21;
const RECEIVES: usize = 10;
/// Completions without an error, by opcode.
pub(crate) type OpcodeCounts = Counts<OPCODES>;

/// `enum ibv_wc_opcode` without the prefix (rdma-core 65, `<infiniband/verbs.h>`).
const OPCODE_NAMES: [&str; OPCODES] = [
    "SEND",
    "RDMA_WRITE",
    "RDMA_READ",
    "COMP_SWAP",
    "FETCH_ADD",
    "BIND_MW",
    "LOCAL_INV",
    "TSO",
    "FLUSH",
    "ATOMIC_WRITE",
    "RECV",
    "RECV_RDMA_WITH_IMM",
    "TM_ADD",
    "TM_DEL",
    "TM_SYNC",
    "TM_RECV",
    "TM_NO_TAG",
    "DRIVER1",
    "DRIVER2",
    "DRIVER3",
    "other",
];

/// The counter of an opcode.
#[inline]
pub(crate) fn opcode_place(opcode: u32) -> usize {
    match opcode as usize {
        opcode @ 0..RECEIVES => opcode,
        opcode @ 128..138 => opcode - 128 + RECEIVES,
        _ => OPCODES - 1,
    }
}

/// Name and number of each opcode that occurred.
pub(crate) fn named_opcodes(sums: &[u64; OPCODES]) -> Vec<(String, u64)> {
    named(sums, |place| OPCODE_NAMES[place].into())
}

fn named(sums: &[u64], name: impl Fn(usize) -> String) -> Vec<(String, u64)> {
    let occurred = sums.iter().enumerate().filter(|(_, count)| **count != 0);
    occurred.map(|(place, count)| (name(place), *count)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn opcodes_have_their_places() {
        let name = |opcode| OPCODE_NAMES[opcode_place(opcode)];
        assert_eq!((name(0), name(9), name(10), name(127)), ("SEND", "ATOMIC_WRITE", "other", "other"));
        assert_eq!((name(128), name(137), name(138)), ("RECV", "DRIVER3", "other"));
        assert_eq!(name(u32::MAX), "other");
    }

    #[test]
    fn counts_that_no_place_is_left_for_share_the_last() {
        let counts = StatusCounts::new();
        counts.add(5, 2);
        counts.add(31, 1);
        counts.add(usize::MAX, 1);
        let mut sums = [0; STATUSES];
        counts.add_to_sums(&mut sums);
        assert_eq!(
            named_statuses(&sums),
            [("WR_FLUSH_ERR".into(), 2), ("status 31 or above".to_string(), 2)]
        );
    }
}
