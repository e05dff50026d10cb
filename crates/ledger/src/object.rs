//! An object whose destroy waits for acks (QP, CQ, SRQ, WQ), or a completion channel.

use crate::account::Account;
use crate::counts::Tally;
use crate::events::{Kind, TYPES, place};
use crate::open::Named;
use crate::sync::*;
use crate::table::{Entry, Head};
use crate::traffic::TrafficCounts;

/// What people know an object by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ident {
    /// QP number, WQ number, or the descriptor of a completion channel.
    pub number: u32,
    /// The kernel's handle of it.
    pub handle: u32,
}

#[repr(C, align(64))]
pub(crate) struct Object {
    head: Head,
    kind: AtomicU32,
    /// Place of its context plus 1; 0: it belongs to no context that we know.
    context: AtomicU32,
    context_generation: AtomicU32,
    device: AtomicU32,
    number: AtomicU32,
    handle: AtomicU32,
    has_ident: AtomicU32,
    /// The thread that is destroying it now, or 0.
    pub(crate) destroyer: AtomicU32,
    pub(crate) seen_at: AtomicU64,
    pub(crate) destroy_since: AtomicU64,
    /// Asynchronous events.
    pub(crate) events: Account,
    /// Completion events.
    pub(crate) completions: Account,
    pub(crate) got_by_type: [AtomicU32; TYPES],
    pub(crate) acked_by_type: [AtomicU32; TYPES],
    /// Of the completion events that are open: when the first and the last were taken, and by whom.
    pub(crate) first_at: AtomicU64,
    pub(crate) last_at: AtomicU64,
    pub(crate) first_by: AtomicU32,
    pub(crate) last_by: AtomicU32,
    /// 1 if several threads took them.
    pub(crate) several: AtomicU32,
    /// Calls with a bad ack, and the place of their incident plus 1.
    pub(crate) bad_calls: AtomicU32,
    pub(crate) bad_acks_told: AtomicU32,
    /// 1 if it was first seen after its birth, or on a context that was.
    pub(crate) foreign: AtomicU32,
    /// A thread that took completion events.
    pub(crate) named: Named,
    /// 1 after its destroy was refused.
    pub(crate) refused: AtomicU32,
    /// Place of a CQ's book plus 1: see [`crate::cq_book`].
    pub(crate) book: AtomicU32,
    /// 1 for an extended CQ that was created with a reader of the qp_num.
    pub(crate) tells_qp: AtomicU32,
    /// See [`crate::headroom`].
    pub(crate) repeats: AtomicU32,
    /// A QP's or SRQ's place among those whose work is counted: see [`crate::headroom`].
    pub(crate) work: AtomicU32,
    pub(crate) traffic: TrafficCounts,
}

/// Where an object belongs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Home {
    pub(crate) context: u32,
    pub(crate) context_generation: u32,
    pub(crate) device: u32,
}

impl Entry for Object {
    fn head(&self) -> &Head {
        &self.head
    }
}

impl Object {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            head: Head::new(),
            kind: AtomicU32::new(0),
            context: AtomicU32::new(0),
            context_generation: AtomicU32::new(0),
            device: AtomicU32::new(0),
            number: AtomicU32::new(0),
            handle: AtomicU32::new(0),
            has_ident: AtomicU32::new(0),
            destroyer: AtomicU32::new(0),
            seen_at: AtomicU64::new(0),
            destroy_since: AtomicU64::new(0),
            events: Account::new(),
            completions: Account::new(),
            got_by_type: [const { AtomicU32::new(0) }; TYPES],
            acked_by_type: [const { AtomicU32::new(0) }; TYPES],
            first_at: AtomicU64::new(0),
            last_at: AtomicU64::new(0),
            first_by: AtomicU32::new(0),
            last_by: AtomicU32::new(0),
            several: AtomicU32::new(0),
            bad_calls: AtomicU32::new(0),
            bad_acks_told: AtomicU32::new(0),
            foreign: AtomicU32::new(0),
            named: Named::new(),
            refused: AtomicU32::new(0),
            book: AtomicU32::new(0),
            tells_qp: AtomicU32::new(0),
            repeats: AtomicU32::new(0),
            work: AtomicU32::new(0),
            traffic: TrafficCounts::new(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::from_number(self.kind.load(Relaxed))
    }

    pub(crate) fn home(&self) -> Home {
        Home {
            context: self.context.load(Relaxed),
            context_generation: self.context_generation.load(Relaxed),
            device: self.device.load(Relaxed),
        }
    }

    pub(crate) fn ident(&self) -> Option<Ident> {
        (self.has_ident.load(Relaxed) == 1)
            .then(|| Ident { number: self.number.load(Relaxed), handle: self.handle.load(Relaxed) })
    }

    /// What it is; its counters stay.
    pub(crate) fn describe(&self, kind: Kind, home: Home, ident: Option<Ident>, at: u64, foreign: bool) {
        self.foreign.store(foreign.into(), Relaxed);
        self.kind.store(kind as u32, Relaxed);
        self.context.store(home.context, Relaxed);
        self.context_generation.store(home.context_generation, Relaxed);
        self.device.store(home.device, Relaxed);
        let known = ident.unwrap_or_default();
        self.number.store(known.number, Relaxed);
        self.handle.store(known.handle, Relaxed);
        self.has_ident.store(ident.is_some().into(), Relaxed);
        self.seen_at.store(at, Relaxed);
    }

    /// A blank object for another life at this place.
    pub(crate) fn reset(&self) {
        self.destroyer.store(0, Relaxed);
        self.destroy_since.store(0, Relaxed);
        self.events.reset();
        self.completions.reset();
        for count in self.got_by_type.iter().chain(&self.acked_by_type) {
            count.store(0, Relaxed);
        }
        self.several.store(0, Relaxed);
        self.bad_calls.store(0, Relaxed);
        self.bad_acks_told.store(0, Relaxed);
        self.named.forget();
        self.refused.store(0, Relaxed);
        self.tells_qp.store(0, Relaxed);
        self.repeats.store(0, Relaxed);
        self.traffic.reset();
    }

    /// Adds its counters to a tally.
    pub(crate) fn add_to(&self, tally: &Tally) {
        for (index, event_type) in self.kind().event_types().iter().enumerate() {
            tally.async_got.add(*event_type, self.got_by_type[index].load(Relaxed).into());
            tally.async_acked.add(*event_type, self.acked_by_type[index].load(Relaxed).into());
        }
        tally.comp_got.fetch_add(self.completions.got.load(Relaxed), Relaxed);
        tally.comp_acked.fetch_add(self.completions.acked.load(Relaxed), Relaxed);
        for account in [&self.events, &self.completions] {
            account.add_to(&tally.acks);
        }
        self.traffic.add_to(&tally.traffic);
    }

    /// True if it is the first.
    pub(crate) fn count_got(&self, event_type: u32) -> bool {
        self.got_by_type[place(self.kind(), event_type)].fetch_add(1, Relaxed) == 0
    }

    pub(crate) fn count_acked(&self, event_type: u32) {
        self.acked_by_type[place(self.kind(), event_type)].fetch_add(1, Relaxed);
    }

    /// A completion event was read.
    pub(crate) fn completion_got(&self, tid: u32, at: u64) {
        if self.completions.got_one() {
            self.first_at.store(at, Relaxed);
            self.first_by.store(tid, Relaxed);
            self.several.store(0, Relaxed);
        } else if self.last_by.load(Relaxed) != tid {
            self.several.store(1, Relaxed);
        }
        self.last_at.store(at, Relaxed);
        self.last_by.store(tid, Relaxed);
    }

    /// Whether there is anything to say of it.
    pub(crate) fn is_blank(&self) -> bool {
        [&self.events, &self.completions].into_iter().all(Account::is_blank) && self.traffic.is_blank()
    }

    /// Whether all open completion events were taken by one thread.
    pub(crate) fn completions_all_by(&self, tid: u32) -> bool {
        self.last_by.load(Relaxed) == tid && self.several.load(Relaxed) == 0
    }
}
