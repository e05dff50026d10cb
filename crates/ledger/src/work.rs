//! Work requests posted to one QP or SRQ, and how many of them have completed.
//!
//! Counted apart by those who write: threads that post, and threads that poll the send CQ or the receive CQ. Each has
//! lines of its own. A difference of two counts is only right if what was posted is read first and what has completed
//! second: then it is never more than was outstanding at some moment between.

use crate::sync::*;

/// Runs of groups that are remembered of one send queue.
const RUNS: usize = 9;

/// Completions after which a run's beginning is moved on.
const LONG: u64 = if cfg!(test) { 100 } else { 1 << 20 };

/// Work requests of one call that are known one by one.
pub const KNOWN: u32 = 64;

const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// What was posted in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Posted {
    /// Work requests.
    pub number: u32,
    /// Of them, those with `IBV_SEND_SIGNALED`.
    pub signalled: u32,
    /// Which of the first [`KNOWN`] are signalled.
    pub which: u64,
}

impl Posted {
    /// One more.
    #[inline]
    pub fn push(&mut self, signalled: bool) {
        if signalled {
            self.which |= u64::from(self.number < KNOWN) << (self.number % KNOWN);
            self.signalled += 1;
        }
        self.number += 1;
    }

    /// Only the first of them. `None` where nobody remembers which those were.
    pub fn first(self, number: u32) -> Option<Self> {
        if number >= self.number {
            return Some(self);
        }
        if number > KNOWN {
            return (self.signalled == self.number).then_some(Self { number, signalled: number, ..self });
        }
        let which = if number == KNOWN { self.which } else { self.which & ((1 << number) - 1) };
        Some(Self { number, signalled: which.count_ones(), which })
    }
}

/// Sends that were posted. A request that is not signalled completes only if it fails; otherwise the next signalled one
/// retires it. A run is a row of signalled requests each of which has the same number of others before it: `first << 32
/// | others`, where `first` counts signalled ones.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Sends {
    signalled: AtomicU64,
    /// Those that are not. As long as there are none, runs do not matter.
    others: AtomicU64,
    /// `others` of the runs before `head`.
    before: AtomicU64,
    /// Odd while a thread writes what is below; who finds it odd stays out.
    version: AtomicU32,
    /// `others` behind the last signalled one.
    open: AtomicU32,
    /// The first run that may not have completed, and the number of runs begun.
    head: AtomicU64,
    tail: AtomicU64,
    pub(crate) share: Share,
    runs: [AtomicU64; RUNS],
}

/// Receives that were posted.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Receives {
    number: AtomicU64,
    pub(crate) share: Share,
}

/// What a queue had outstanding when its CQ's room was last shared out.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Share {
    pub(crate) epoch: AtomicU32,
    pub(crate) base: AtomicU32,
}

/// A count with a line of its own.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Completed(AtomicU64);

/// A QP (both sides of it) or an SRQ (receives only).
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Work {
    state: AtomicU32,
    /// Which use of this place it is.
    pub(crate) generation: AtomicU32,
    /// Book of the CQ that it completes to, plus 1.
    pub(crate) send_cq: AtomicU32,
    pub(crate) recv_cq: AtomicU32,
    /// 1 if all sends are signalled (`sq_sig_all`).
    pub(crate) all_signalled: AtomicU32,
    /// 1 if receives are an SRQ's.
    pub(crate) uses_srq: AtomicU32,
    /// 1 once one of its work requests failed, or it was moved to ERR: what completes then, and where, is not told.
    pub(crate) failed: AtomicU32,
    /// 1 once nobody knows what is outstanding of its sends.
    pub(crate) blurred: AtomicU32,
    pub(crate) number: AtomicU32,
    pub(crate) sends: Sends,
    pub(crate) receives: Receives,
    sent: Completed,
    received: Completed,
}

impl Share {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self { epoch: AtomicU32::new(0), base: AtomicU32::new(0) }
    }

    fn reset(&self) {
        self.epoch.store(0, Relaxed);
        self.base.store(0, Relaxed);
    }
}

impl Work {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU32::new(FREE),
            generation: AtomicU32::new(0),
            send_cq: AtomicU32::new(0),
            recv_cq: AtomicU32::new(0),
            all_signalled: AtomicU32::new(0),
            uses_srq: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            blurred: AtomicU32::new(0),
            number: AtomicU32::new(0),
            sends: Sends {
                signalled: AtomicU64::new(0),
                others: AtomicU64::new(0),
                before: AtomicU64::new(0),
                version: AtomicU32::new(0),
                open: AtomicU32::new(0),
                head: AtomicU64::new(0),
                tail: AtomicU64::new(0),
                share: Share::new(),
                runs: [const { AtomicU64::new(0) }; RUNS],
            },
            receives: Receives { number: AtomicU64::new(0), share: Share::new() },
            sent: Completed(AtomicU64::new(0)),
            received: Completed(AtomicU64::new(0)),
        }
    }

    /// Takes it for a new queue. False if it is in use.
    pub(crate) fn take(&self) -> bool {
        if self.state.compare_exchange(FREE, TAKEN, AcqRel, Relaxed).is_err() {
            return false;
        }
        for word in [&self.send_cq, &self.recv_cq, &self.all_signalled, &self.uses_srq, &self.number] {
            word.store(0, Relaxed);
        }
        self.begin_again();
        true
    }

    /// Gives it back, unless this use of it is over.
    pub(crate) fn give_back(&self, generation: u32) {
        let next = generation.wrapping_add(1);
        if self.generation.compare_exchange(generation, next, AcqRel, Relaxed).is_ok() {
            self.send_cq.store(0, Release);
            self.recv_cq.store(0, Release);
            self.state.store(FREE, Release);
        }
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.state.load(Acquire) == TAKEN
    }

    /// Nothing is outstanding: it is new, or was moved to RESET.
    pub(crate) fn begin_again(&self) {
        let sends = &self.sends;
        for word in [&self.failed, &self.blurred, &sends.version, &sends.open] {
            word.store(0, Relaxed);
        }
        for word in [&sends.signalled, &sends.others, &sends.before, &sends.head, &sends.tail] {
            word.store(0, Relaxed);
        }
        for word in [&self.receives.number, &self.sent.0, &self.received.0] {
            word.store(0, Relaxed);
        }
        sends.share.reset();
        self.receives.share.reset();
    }

    /// Sends were posted.
    #[inline]
    pub(crate) fn post_sends(&self, posted: Posted) {
        let number = u64::from(posted.number);
        let sends = &self.sends;
        if self.all_signalled.load(Relaxed) == 1 {
            sends.signalled.fetch_add(number, SeqCst);
        } else if posted.signalled == posted.number && sends.others.load(SeqCst) == 0 {
            sends.signalled.fetch_add(number, SeqCst);
            // Another thread has posted the first one that is not signalled: one of the two sees the other.
            if sends.others.load(SeqCst) != 0 {
                self.blur();
            }
        } else if !sends.post(posted, self.sent.0.load(Acquire)) {
            self.blur();
        }
    }

    pub(crate) fn is_blurred(&self) -> bool {
        self.blurred.load(Relaxed) == 1
    }

    #[cold]
    pub(crate) fn blur(&self) {
        self.blurred.store(1, Relaxed);
    }

    /// Receives were posted.
    #[inline]
    pub(crate) fn post_receives(&self, number: u32) {
        self.receives.number.fetch_add(number.into(), SeqCst);
    }

    /// Signalled sends have completed.
    #[inline]
    pub(crate) fn complete_sends(&self, number: u64) {
        self.sent.0.fetch_add(number, SeqCst);
    }

    /// Receives have completed.
    #[inline]
    pub(crate) fn complete_receives(&self, number: u64) {
        self.received.0.fetch_add(number, SeqCst);
    }

    /// All sends that were ever posted: to be read before [`Work::sends_gone`].
    #[inline]
    pub(crate) fn sends_posted(&self) -> u64 {
        self.sends.signalled.load(SeqCst).wrapping_add(self.sends.others.load(SeqCst))
    }

    /// Those that cannot complete any more. `None` while another thread posts.
    #[inline]
    pub(crate) fn sends_gone(&self) -> Option<u64> {
        let sends = &self.sends;
        if sends.others.load(SeqCst) == 0 {
            return Some(self.sent.0.load(SeqCst));
        }
        let sent = self.sent.0.load(SeqCst);
        Some(sent.wrapping_add(sends.retired(sent)?))
    }

    #[inline]
    pub(crate) fn receives_posted(&self) -> u64 {
        self.receives.number.load(SeqCst)
    }

    #[inline]
    pub(crate) fn receives_gone(&self) -> u64 {
        self.received.0.load(SeqCst)
    }
}

fn run(first: u64, others: u32) -> u64 {
    first << 32 | u64::from(others)
}

/// Signalled requests from the first of a run up to `number`; none if they are not that many.
fn since(number: u64, run: u64) -> u64 {
    (number as u32).wrapping_sub((run >> 32) as u32).cast_signed().max(0) as u64
}

impl Sends {
    fn run(&self, at: u64) -> &AtomicU64 {
        &self.runs[(at % RUNS as u64) as usize]
    }

    /// `completed` signalled ones have completed. False if nobody knows any more what is outstanding.
    fn post(&self, posted: Posted, completed: u64) -> bool {
        let version = self.version.load(Relaxed);
        if posted.number > KNOWN
            || version & 1 != 0
            || self.version.compare_exchange(version, version + 1, SeqCst, Relaxed).is_err()
        {
            return false;
        }
        let known = self.post_alone(posted, completed);
        self.version.store(version.wrapping_add(2), SeqCst);
        known
    }

    fn post_alone(&self, posted: Posted, completed: u64) -> bool {
        let others = u64::from(posted.number - posted.signalled);
        self.others.fetch_add(others, SeqCst);
        let began = self.signalled.load(SeqCst);
        self.retire(completed.min(began));
        let (mut signalled, mut open) = (began, self.open.load(Relaxed));
        for place in 0..posted.number {
            if posted.which >> place & 1 == 0 {
                open += 1;
                continue;
            }
            if !self.group(signalled, open) {
                return false;
            }
            signalled += 1;
            open = 0;
        }
        self.open.store(open, Relaxed);
        // A thread that took the shorter way meanwhile has moved it on: its group has another place than it should.
        self.signalled.compare_exchange(began, signalled, SeqCst, Relaxed).is_ok()
    }

    /// A signalled request with so many others before it. False if there is no room for another run.
    fn group(&self, signalled: u64, others: u32) -> bool {
        let (head, tail) = (self.head.load(Relaxed), self.tail.load(Relaxed));
        let last = if tail == 0 { 0 } else { self.run(tail - 1).load(Relaxed) as u32 };
        if last == others {
            return true;
        }
        if tail - head >= RUNS as u64 {
            return false;
        }
        self.run(tail).store(run(signalled, others), Release);
        self.tail.store(tail + 1, Release);
        true
    }

    /// Forgets runs all of which have completed.
    fn retire(&self, completed: u64) {
        let tail = self.tail.load(Relaxed);
        let mut head = self.head.load(Relaxed);
        let mut before = self.before.load(Relaxed);
        while tail > head + 1 {
            let (this, next) = (self.run(head).load(Relaxed), self.run(head + 1).load(Relaxed));
            if since(completed, next) == 0 {
                break;
            }
            before += since(next >> 32, this) * u64::from(this as u32);
            head += 1;
        }
        if tail > head {
            // The one run of a regular program goes on for ever, and half a word says where it began.
            let this = self.run(head).load(Relaxed);
            let done = since(completed, this);
            if done > LONG {
                before += done * u64::from(this as u32);
                self.run(head).store(run(completed, this as u32), Release);
            }
        }
        self.before.store(before, Release);
        self.head.store(head, Release);
    }

    /// Requests that are not signalled and were retired by the first `completed` signalled ones. `None` while another
    /// thread posts.
    fn retired(&self, completed: u64) -> Option<u64> {
        let version = self.version.load(SeqCst);
        if version & 1 != 0 {
            return None;
        }
        let completed = completed.min(self.signalled.load(SeqCst));
        let (head, tail) = (self.head.load(Acquire), self.tail.load(Acquire));
        let mut retired = self.before.load(Acquire);
        for at in head..tail.min(head + RUNS as u64) {
            let this = self.run(at).load(Acquire);
            let mut number = since(completed, this);
            if at + 1 < tail {
                let next = self.run(at + 1).load(Acquire);
                number = number.min(since(next >> 32, this));
            }
            retired += number * u64::from(this as u32);
        }
        (self.version.load(SeqCst) == version).then_some(retired)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests_work.rs"]
mod tests;
