//! What is counted of a CQ only where all completions are: kept apart, for most objects have none of it.

use crate::Ledger;
use crate::events::Kind;
use crate::object::Object;
use crate::sync::*;
use crate::traffic::{OpcodeCounts, opcode_place};

/// CQs that are counted by opcode at one time.
pub(crate) const BOOKS: usize = 4096;

/// In the place of a book's number: there was none for this CQ.
const NO_BOOK: u32 = u32::MAX;

const FREE: u32 = 0;
const TAKEN: u32 = 1;

#[repr(C, align(64))]
pub(crate) struct CqBook {
    state: AtomicU32,
    pub(crate) opcodes: OpcodeCounts,
}

impl CqBook {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { state: AtomicU32::new(FREE), opcodes: OpcodeCounts::new() }
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

    /// Gives a CQ its book, unless all are taken.
    #[cold]
    fn give(&self, cq: &Object) -> Option<&CqBook> {
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

impl Ledger {
    /// A poll of `cq` returned completions: so many, and these opcodes of those that have no error status. Nothing else
    /// is defined of the others (ibv_poll_cq(3)).
    pub fn polled(&self, cq: usize, context: usize, number: u32, opcodes: impl Iterator<Item = u32>) {
        let object =
            self.live_object(Kind::Cq, cq).or_else(|| self.object_or_foreign(Kind::Cq, cq, context, 0));
        let (traffic, counts) = match object {
            Some(object) => {
                let book = self.cq_books.of(object).or_else(|| self.cq_books.give(object));
                let counts = match book {
                    Some(book) => &book.opcodes,
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
        for opcode in opcodes {
            let next = opcode_place(opcode);
            if next != place && run != 0 {
                counts.add(place, run);
                run = 0;
            }
            place = next;
            run += 1;
        }
        if run != 0 {
            counts.add(place, run);
        }
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
