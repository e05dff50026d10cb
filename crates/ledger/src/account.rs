//! Events got and acks given of one object.
//!
//! libibverbs compares two sums when an object is destroyed: events that the kernel handed out, and acks. It waits
//! while they differ, so that one ack too many hangs as well as one too few. The rule here keeps them equal whenever
//! the program has acknowledged all it got: an ack goes on only if an event is open; any other is held, and goes on
//! when it is needed after all.

use crate::counts::AckCounts;
use crate::sync::*;

/// All zero bytes: nothing happened.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Account {
    /// Got and not acknowledged.
    pub(crate) open: AtomicU64,
    pub(crate) got: AtomicU64,
    /// Acks that were passed on, whoever gave them.
    pub(crate) acked: AtomicU64,
    /// Acks held back at this moment.
    held: AtomicU32,
    /// Acks given for the program, whose own ack may still come.
    owed: AtomicU32,
    pub(crate) bad: AtomicU32,
    pub(crate) ever_held: AtomicU32,
    pub(crate) released: AtomicU32,
    pub(crate) rescued: AtomicU32,
    pub(crate) swallowed: AtomicU32,
    /// Acks that libibverbs has counted and that did not come from here, when last looked at.
    around: AtomicU32,
}

/// What is to be done with acks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    /// For events that are open: pass them on.
    pub(crate) good: u32,
    /// For events that were acknowledged for the program: say nothing.
    pub(crate) swallowed: u32,
    /// For no event that we know.
    pub(crate) surplus: u32,
}

impl Account {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            open: AtomicU64::new(0),
            got: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            held: AtomicU32::new(0),
            owed: AtomicU32::new(0),
            bad: AtomicU32::new(0),
            ever_held: AtomicU32::new(0),
            released: AtomicU32::new(0),
            rescued: AtomicU32::new(0),
            swallowed: AtomicU32::new(0),
            around: AtomicU32::new(0),
        }
    }

    /// An event was read. True if none was open before.
    pub(crate) fn got_one(&self) -> bool {
        self.got.fetch_add(1, Relaxed);
        let first = self.open.fetch_add(1, SeqCst) == 0;
        after_write();
        first
    }

    /// The program gives `number` acks.
    pub(crate) fn ack(&self, number: u32) -> Split {
        let good = self.take_open(number);
        Split { good, ..self.ack_late(number - good) }
    }

    /// The program gives `number` acks of an object that is gone.
    pub(crate) fn ack_late(&self, number: u32) -> Split {
        let swallowed = take(&self.owed, number);
        if swallowed != 0 {
            self.swallowed.fetch_add(swallowed, Relaxed);
        }
        Split { good: 0, swallowed, surplus: number - swallowed }
    }

    /// Closes up to `number` open events, whose acks the caller then passes on.
    fn take_open(&self, number: u32) -> u32 {
        let mut taken = 0;
        let _ = self.open.fetch_update(SeqCst, SeqCst, |open| {
            taken = u64::from(number).min(open) as u32;
            (taken != 0).then(|| open - u64::from(taken))
        });
        if taken != 0 {
            self.acked.fetch_add(taken.into(), Relaxed);
        }
        taken
    }

    /// Surplus acks that are not passed on for now.
    pub(crate) fn hold(&self, number: u32) {
        self.ever_held.fetch_add(number, Relaxed);
        let _ = self.held.fetch_update(SeqCst, SeqCst, |held| Some(held.saturating_add(number)));
        after_write();
    }

    /// Surplus acks that are passed on all the same.
    pub(crate) fn pass(&self, number: u32) {
        self.acked.fetch_add(number.into(), Relaxed);
    }

    pub(crate) fn held(&self) -> u32 {
        self.held.load(SeqCst)
    }

    /// Held acks for which an event is open: how many are to be passed on now.
    pub(crate) fn pair(&self) -> u32 {
        let mut paired = 0;
        // Most objects never have a held ack.
        while self.held() != 0 {
            let held = self.held.swap(0, SeqCst);
            let taken = self.take_open(held);
            paired += taken;
            if taken == held {
                break;
            }
            self.held.fetch_add(held - taken, SeqCst);
            after_write();
            // An event may have come while the acks were in our hands, where its reader could not see them.
            if self.open.load(SeqCst) == 0 {
                break;
            }
        }
        if paired != 0 {
            self.released.fetch_add(paired, Relaxed);
        }
        paired
    }

    /// Takes one held ack, to be passed on although no event is open.
    pub(crate) fn release_one(&self) -> bool {
        let released = take(&self.held, 1) == 1;
        if released {
            self.released.fetch_add(1, Relaxed);
            self.acked.fetch_add(1, Relaxed);
        }
        released
    }

    /// So many acks went around us.
    pub(crate) fn acked_around(&self, number: u32) {
        self.around.store(number, Relaxed);
    }

    /// Closes up to `number` open events on the program's behalf; their acks are to be passed on, and the program's
    /// own, should they come, go nowhere. Those that may be acknowledged already are left alone.
    pub(crate) fn rescue(&self, number: u32) -> u32 {
        let around = u64::from(self.around.load(Relaxed));
        let open = self.open.load(SeqCst).saturating_sub(around).min(u32::MAX.into()) as u32;
        let rescued = self.take_open(number.min(open));
        self.rescued.fetch_add(rescued, Relaxed);
        self.owed.fetch_add(rescued, SeqCst);
        rescued
    }

    /// Neither an event nor an ack was seen.
    pub(crate) fn is_blank(&self) -> bool {
        self.got.load(Relaxed) == 0
            && self.acked.load(Relaxed) == 0
            && [&self.bad, &self.ever_held, &self.swallowed].into_iter().all(|sum| sum.load(Relaxed) == 0)
    }

    /// Nothing happened yet.
    pub(crate) fn reset(&self) {
        for sum in [&self.open, &self.got, &self.acked] {
            sum.store(0, Relaxed);
        }
        for sum in [
            &self.held,
            &self.owed,
            &self.bad,
            &self.ever_held,
            &self.released,
            &self.rescued,
            &self.swallowed,
            &self.around,
        ] {
            sum.store(0, Relaxed);
        }
    }

    pub(crate) fn add_to(&self, acks: &AckCounts) {
        acks.bad.fetch_add(self.bad.load(Relaxed).into(), Relaxed);
        acks.held.fetch_add(self.ever_held.load(Relaxed).into(), Relaxed);
        acks.released.fetch_add(self.released.load(Relaxed).into(), Relaxed);
        acks.rescued.fetch_add(self.rescued.load(Relaxed).into(), Relaxed);
        acks.swallowed.fetch_add(self.swallowed.load(Relaxed).into(), Relaxed);
    }

    /// All open events turn out to be acknowledged by a way that does not lead past here.
    pub(crate) fn settle(&self) {
        self.open.store(0, SeqCst);
    }
}

/// Three threads look for each other's writes: one reads an event, one holds an ack, one begins a destroy. Each writes,
/// comes here, and then looks; so the last one sees what the others wrote.
///
/// All of these accesses are sequentially consistent, which says it already; loom takes them for less, and needs a fence.
pub(crate) fn after_write() {
    #[cfg(loom)]
    loom::sync::atomic::fence(SeqCst);
}

/// Takes up to `number` out of `sum`.
fn take(sum: &AtomicU32, number: u32) -> u32 {
    let mut taken = 0;
    if number != 0 {
        let _ = sum.fetch_update(SeqCst, SeqCst, |value| {
            taken = number.min(value);
            (taken != 0).then(|| value - taken)
        });
    }
    taken
}
