//! What is counted of a CQ only where all completions are: kept apart, for most objects have none of it.

use crate::Ledger;
use crate::events::Kind;
use crate::headroom::Side;
use crate::lints::Arming;
use crate::object::Object;
use crate::room::{Lone, Members, Room};
use crate::sync::*;
use crate::traffic::{OpcodeCounts, opcode_place};

/// CQs that are counted by opcode at one time.
pub(crate) const BOOKS: usize = 4096;

/// In the place of a book's number: there was none for this CQ.
const NO_BOOK: u32 = u32::MAX;
/// `IBV_WC_RECV`: the bit of all receives.
const RECV: u32 = 128;

const FREE: u32 = 0;
const TAKEN: u32 = 1;

#[repr(C, align(64))]
pub(crate) struct CqBook {
    state: AtomicU32,
    pub(crate) opcodes: OpcodeCounts,
    pub(crate) room: Room,
    pub(crate) members: Members,
    /// The most that was seen outstanding. Written by threads that post, and only when it rises.
    pub(crate) mark: AtomicU64,
    /// Receives of SRQs that completed here. Written by threads that poll.
    pub(crate) from_srqs: Lone,
    pub(crate) arming: Arming,
}

impl CqBook {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU32::new(FREE),
            opcodes: OpcodeCounts::new(),
            room: Room::new(),
            members: Members::new(),
            mark: AtomicU64::new(0),
            from_srqs: Lone { number: AtomicU64::new(0) },
            arming: Arming::new(),
        }
    }
}

/// All zero bytes: none is taken.
#[repr(C)]
pub(crate) struct CqBooks {
    /// Where a free one is looked for first.
    next: AtomicU32,
    books: [CqBook; BOOKS],
}

impl CqBooks {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { next: AtomicU32::new(0), books: [const { CqBook::new() }; BOOKS] }
    }

    /// The book of a CQ, if it has one.
    #[inline]
    pub(crate) fn of(&self, cq: &Object) -> Option<&CqBook> {
        self.books.get((cq.book.load(Acquire) as usize).wrapping_sub(1))
    }

    /// Those that are taken.
    pub(crate) fn taken(&self) -> impl Iterator<Item = &CqBook> {
        let used = (self.next.load(Relaxed) as usize).min(BOOKS);
        self.books[..used].iter().filter(|book| book.state.load(Acquire) == TAKEN)
    }

    /// The book that a queue knows by its place plus 1.
    #[inline]
    pub(crate) fn at(&self, place_plus_1: u32) -> Option<&CqBook> {
        self.books.get((place_plus_1 as usize).wrapping_sub(1))
    }

    /// The place of a book, plus 1.
    pub(crate) fn place_of(&self, book: &CqBook) -> u32 {
        book.room.own.load(Relaxed)
    }

    /// Gives a CQ its book, unless all are taken.
    #[cold]
    pub(crate) fn give(&self, cq: &Object) -> Option<&CqBook> {
        /// Books looked at; those of CQs that are gone are given back at random.
        const LOOKS: u32 = 64;
        if cq.book.load(Relaxed) == NO_BOOK {
            return None;
        }
        for _ in 0..LOOKS {
            let place = self.next.fetch_add(1, Relaxed) as usize % BOOKS;
            let book = &self.books[place];
            if book.state.compare_exchange(FREE, TAKEN, AcqRel, Relaxed).is_err() {
                continue;
            }
            book.opcodes.reset();
            book.room.reset();
            book.room.own.store(place as u32 + 1, Relaxed);
            book.members.reset();
            book.mark.store(0, Relaxed);
            book.from_srqs.number.store(0, Relaxed);
            book.arming.reset();
            if cq.book.compare_exchange(0, place as u32 + 1, AcqRel, Relaxed).is_err() {
                book.state.store(FREE, Release);
            }
            return self.of(cq);
        }
        // It is not looked for again.
        let _ = cq.book.compare_exchange(0, NO_BOOK, AcqRel, Relaxed);
        None
    }

    /// The CQ's place is used again.
    pub(crate) fn take_back(&self, cq: &Object, into: &OpcodeCounts) {
        let book = self.of(cq);
        cq.book.store(0, Release);
        if let Some(book) = book {
            book.opcodes.add_to(into);
            book.state.store(FREE, Release);
        }
    }
}

/// A completion without an error.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// `enum ibv_wc_opcode`; `u32::MAX` where the CQ cannot tell.
    pub opcode: u32,
    /// Whose it is.
    pub qp_num: u32,
}

/// Completions in a row of one QP and side are retired together.
struct Retired<'a> {
    ledger: &'a Ledger,
    book: Option<&'a CqBook>,
    of: Option<(u32, Side)>,
    number: u64,
}

impl Retired<'_> {
    #[inline]
    fn add(&mut self, done: Done) {
        let side = if done.opcode & RECV == 0 { Side::Send } else { Side::Receive };
        let of = Some((done.qp_num, side));
        if self.of != of {
            self.flush();
            self.of = of;
            self.number = 0;
        }
        self.number += 1;
    }

    #[inline]
    fn flush(&self) {
        if let (Some(book), Some((qp_num, side))) = (self.book, self.of) {
            self.ledger.retired(book, qp_num, side, self.number);
        }
    }
}

impl Ledger {
    /// A poll of `cq` returned completions: so many, as many as it could have or not, and these that have no error
    /// status. Of the others no opcode is defined (ibv_poll_cq(3)).
    pub fn polled(
        &self,
        cq: usize,
        context: usize,
        (number, is_full): (u32, bool),
        good: impl Iterator<Item = Done>,
    ) {
        let object =
            self.live_object(Kind::Cq, cq).or_else(|| self.object_or_foreign(Kind::Cq, cq, context, 0));
        let mut headroom = None;
        let (traffic, counts) = match object {
            Some(object) => {
                let book = self.cq_books.of(object).or_else(|| self.cq_books.give(object));
                let counts = match book {
                    Some(book) => {
                        book.arming.polled(is_full);
                        headroom = (book.room.depth.load(Relaxed) != 0).then_some(book);
                        &book.opcodes
                    }
                    None => &self.tally(context).opcodes,
                };
                (&object.traffic, counts)
            }
            // No count is lost: the device's own counters take it, on a line that threads share.
            None => {
                let tally = self.tally(context);
                (&tally.traffic, &tally.opcodes)
            }
        };
        traffic.polled.fetch_add(number.into(), Relaxed);
        // Completions of one opcode come in a row.
        let (mut place, mut run) = (0, 0);
        let mut retired = Retired { ledger: self, book: headroom, of: None, number: 0 };
        for done in good {
            let next = opcode_place(done.opcode);
            if next != place && run != 0 {
                counts.add(place, run);
                run = 0;
            }
            place = next;
            run += 1;
            retired.add(done);
        }
        if run != 0 {
            counts.add(place, run);
        }
        retired.flush();
    }

    /// A poll of `cq` itself failed.
    pub fn poll_failed(&self, cq: usize, context: usize) {
        let object =
            self.live_object(Kind::Cq, cq).or_else(|| self.object_or_foreign(Kind::Cq, cq, context, 0));
        let traffic = match object {
            Some(object) => &object.traffic,
            None => &self.tally(context).traffic,
        };
        traffic.poll_errors.fetch_add(1, Relaxed);
    }
}
