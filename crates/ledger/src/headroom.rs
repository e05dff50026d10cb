//! Headroom of CQs: work that was posted and may complete, against the CQ's depth.
//!
//! Counted where all completions are. What cannot be counted makes a CQ unchecked: a warning that is false would be
//! worse than none. A sum is taken after each post; it is never more than was outstanding at some moment, because
//! completions are counted before the program learns of them, and posts when they have returned.

use crate::cq_book::CqBook;
use crate::events::Kind;
use crate::object::Object;
use crate::qps::qp_key;
use crate::room::Members;
use crate::sync::*;
use crate::table::Entry;
use crate::waits::Token;
use crate::work::{Posted, Work};
use crate::{Ledger, ObjectName};

/// QPs and SRQs that are counted at one time.
pub(crate) const WORKS: usize = 4096;
/// Visits of queues, by sums over more of them than a CQ lists, that one CQ is worth.
const VISITS: u32 = 1 << 22;
/// An extended CQ gives completions twice where it is polled as such; it was.
const MAY_REPEAT: u32 = 1;
const REPEATS: u32 = 2;
/// QPs named in a line.
const NAMED: usize = 8;

/// Why a CQ's headroom is not known, or was not all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Unchecked {
    /// The CQ was not seen at its birth, or there was no room for it.
    Unseen,
    /// It was created to ignore overruns.
    IgnoresOverrun,
    /// A QP of it can post through `ibv_wr_*`.
    WrApi,
    /// A QP completes to it that was not seen at its birth, or that there was no room for, or whose requests may complete
    /// out of order.
    OtherQp,
    /// A WQ, an XRC SRQ or one for tag matching completes to it.
    OtherQueue,
    /// The QPs of one SRQ complete to several CQs.
    SharedSrq,
    /// A QP with an SRQ ended, and nobody knows what it had received.
    SrqUserEnded,
    /// Work requests of a QP failed: what is flushed does not tell which queue it was in.
    QpFailed,
    /// The order of a QP's unsignalled sends is not known.
    Blurred,
    /// Memory windows were bound by `ibv_bind_mw`.
    BindMw,
    /// It is an extended CQ whose completions do not tell their QP or opcode.
    NoQpNum,
    /// It is an extended CQ of a provider that gives completions twice.
    Repeats,
    /// It has too many queues for its depth to be followed at a bearable price.
    Crowded,
    /// It had completion events, but no poll of it was seen.
    PolledElsewhere,
}

impl Unchecked {
    const ALL: [Unchecked; 14] = [
        Unchecked::Unseen,
        Unchecked::IgnoresOverrun,
        Unchecked::WrApi,
        Unchecked::OtherQp,
        Unchecked::OtherQueue,
        Unchecked::SharedSrq,
        Unchecked::SrqUserEnded,
        Unchecked::QpFailed,
        Unchecked::Blurred,
        Unchecked::BindMw,
        Unchecked::NoQpNum,
        Unchecked::Repeats,
        Unchecked::Crowded,
        Unchecked::PolledElsewhere,
    ];

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The QPs and SRQ that a new QP is made with, for its headroom.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewWork {
    /// Its context, its address and its number.
    pub context: usize,
    /// See `context`.
    pub qp: usize,
    /// See `context`.
    pub number: u32,
    /// Its CQs; 0 where it has none.
    pub send_cq: usize,
    /// See `send_cq`.
    pub recv_cq: usize,
    /// Its SRQ, or 0.
    pub srq: usize,
    /// All its sends are signalled.
    pub all_signalled: bool,
    /// Why its CQs cannot be checked.
    pub unchecked: Option<Unchecked>,
}

/// What is known of a CQ's headroom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headroom {
    /// Its depth, as it was granted.
    pub depth: u32,
    /// The most that was seen outstanding.
    pub mark: u64,
    /// What is outstanding now; `None` where it is not known.
    pub outstanding: Option<u64>,
    /// Whether more was outstanding than its depth.
    pub exceeded: bool,
    /// Why it could not be checked all the time.
    pub unchecked: Vec<Unchecked>,
}

impl Headroom {
    /// Whether there is nothing to say of it.
    pub(crate) fn is_blank(&self) -> bool {
        self.mark == 0 && self.unchecked.is_empty()
    }
}

/// A CQ for a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CqLine {
    /// The CQ.
    pub name: ObjectName,
    /// Numbers of some of the QPs that complete to it.
    pub qps: Vec<u32>,
    /// How many more there are.
    pub more: usize,
    /// Its headroom, where it is counted.
    pub headroom: Option<Headroom>,
}

/// All zero bytes: none is taken.
#[repr(C)]
pub(crate) struct Works {
    next: AtomicU32,
    /// Places that were ever taken lie below this.
    used: AtomicU32,
    works: [Work; WORKS],
}

/// A place of a [`Work`] and which use of it, in one word with a bit to spare between; 0 is none.
fn word(place: usize, generation: u32) -> u32 {
    generation << 14 | (place as u32 + 1)
}

fn place_of(word: u32) -> Option<usize> {
    (word & 0x1fff).checked_sub(1).map(|place| place as usize)
}

impl Works {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { next: AtomicU32::new(0), used: AtomicU32::new(0), works: [const { Work::new() }; WORKS] }
    }

    #[inline]
    pub(crate) fn of(&self, word: u32) -> Option<&Work> {
        let work = self.works.get(place_of(word)?)?;
        (work.generation.load(Relaxed) << 14 == word & !0x3fff).then_some(work)
    }

    fn take(&self) -> Option<(u32, &Work)> {
        /// Places looked at; those of QPs that are gone are given back at random.
        const LOOKS: u32 = 64;
        for _ in 0..LOOKS {
            let place = self.next.fetch_add(1, Relaxed) as usize % WORKS;
            let work = &self.works[place];
            if work.take() {
                self.used.fetch_max(place as u32 + 1, AcqRel);
                return Some((word(place, work.generation.load(Relaxed)), work));
            }
        }
        None
    }

    fn used(&self) -> impl Iterator<Item = (u32, &Work)> {
        let used = self.used.load(Acquire) as usize;
        self.works[..used.min(WORKS)]
            .iter()
            .enumerate()
            .filter(|(_, work)| work.is_taken())
            .map(|(place, work)| (word(place, work.generation.load(Relaxed)), work))
    }
}

/// Which of a QP's queues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Send,
    Receive,
}

impl Ledger {
    fn book_at(&self, place_plus_1: u32) -> Option<&CqBook> {
        self.cq_books.at(place_plus_1)
    }

    pub(crate) fn cq_book(&self, cq: usize) -> Option<(&Object, &CqBook)> {
        let object = self.live_object(Kind::Cq, cq)?;
        Some((object, self.cq_books.of(object)?))
    }

    /// A CQ was created or resized: its depth as it was granted.
    pub fn cq_depth(&self, cq: usize, depth: u32, unchecked: Option<Unchecked>) {
        let Some(object) = self.live_object(Kind::Cq, cq) else { return };
        let fresh = self.cq_books.of(object).is_none();
        let Some(book) = self.cq_books.of(object).or_else(|| self.cq_books.give(object)) else { return };
        if fresh && let Some(place) = self.objects.find(cq) {
            book.room.place.store(place as u32 + 1, Relaxed);
            book.room.generation.store(object.head().generation(), Relaxed);
            let id = self.context_of(object.home()).map_or(0, |context| context.id.load(Relaxed));
            book.room.key.store(qp_key(id, 0) as u64, Relaxed);
        }
        book.room.depth.store(depth, Relaxed);
        book.room.changed();
        self.uncheck_book(book, unchecked);
    }

    fn uncheck_book(&self, book: &CqBook, unchecked: Option<Unchecked>) {
        if let Some(unchecked) = unchecked
            && book.room.unchecked.load(Relaxed) & unchecked.bit() == 0
        {
            book.room.unchecked.fetch_or(unchecked.bit(), Relaxed);
        }
    }

    /// From now on this CQ is not checked.
    pub fn uncheck_cq(&self, cq: usize, unchecked: Unchecked) {
        if let Some((_, book)) = self.cq_book(cq) {
            self.uncheck_book(book, Some(unchecked));
        }
    }

    /// From now on the CQs of this QP are not checked.
    pub fn uncheck_qp(&self, qp: usize, unchecked: Unchecked) {
        if let Some(work) = self.work_of(Kind::Qp, qp) {
            for cq in [&work.send_cq, &work.recv_cq] {
                if let Some(book) = self.book_at(cq.load(Relaxed)) {
                    self.uncheck_book(book, Some(unchecked));
                }
            }
        }
    }

    /// A QP was created. It is in the books already.
    pub fn work_begins(&self, new: &NewWork) {
        let cqs = [new.send_cq, new.recv_cq].map(|cq| self.cq_book(cq).map(|(_, book)| book));
        let uncheck = |unchecked| {
            for book in cqs.into_iter().flatten() {
                self.uncheck_book(book, Some(unchecked));
            }
        };
        if let Some(unchecked) = new.unchecked {
            uncheck(unchecked);
        }
        let object = self.live_object(Kind::Qp, new.qp);
        let numbered = self.live_qp(new.context, new.number);
        let taken = self.works.take();
        let (Some(object), Some((_, qp)), Some((word, work))) = (object, numbered, taken) else {
            return uncheck(Unchecked::OtherQp);
        };
        work.number.store(new.number, Relaxed);
        work.all_signalled.store(new.all_signalled.into(), Relaxed);
        work.uses_srq.store((new.srq != 0).into(), Relaxed);
        if let Some(book) = cqs[0] {
            work.send_cq.store(self.cq_books.place_of(book), Release);
            book.room.add(&book.members, word, Side::Send);
        }
        if let Some(book) = cqs[1] {
            work.recv_cq.store(self.cq_books.place_of(book), Release);
            if new.srq == 0 {
                book.room.add(&book.members, word, Side::Receive);
            } else {
                self.srq_completes_to(new.srq, book);
            }
        }
        object.work.store(word, Release);
        qp.work.store(word, Release);
    }

    /// An SRQ was created; `cq` is where it completes if that is not what its QPs say (XRC, tag matching).
    pub fn srq_begins(&self, srq: usize, cq: usize) {
        self.uncheck_cq(cq, Unchecked::OtherQueue);
        if let Some(object) = self.live_object(Kind::Srq, srq)
            && let Some((word, work)) = self.works.take()
        {
            work.uses_srq.store(1, Relaxed);
            object.work.store(word, Release);
        }
    }

    fn srq_completes_to(&self, srq: usize, book: &CqBook) {
        let object = self.live_object(Kind::Srq, srq);
        let word = object.map_or(0, |object| object.work.load(Acquire));
        let Some(work) = self.works.of(word) else {
            return self.uncheck_book(book, Some(Unchecked::OtherQueue));
        };
        let place = self.cq_books.place_of(book);
        match work.recv_cq.compare_exchange(0, place, AcqRel, Acquire) {
            Ok(_) => book.room.add(&book.members, word, Side::Receive),
            Err(other) if other == place => {}
            Err(other) => {
                for book in [self.book_at(other), Some(book)].into_iter().flatten() {
                    self.uncheck_book(book, Some(Unchecked::SharedSrq));
                }
            }
        }
    }

    fn work_of(&self, kind: Kind, address: usize) -> Option<&Work> {
        self.works.of(self.live_object(kind, address)?.work.load(Acquire))
    }

    /// A QP or an SRQ is gone, and its completions with it.
    pub(crate) fn work_ends(&self, object: &Object) {
        let word = object.work.swap(0, AcqRel);
        let Some(work) = self.works.of(word) else { return };
        let (send, receive) = (work.send_cq.load(Acquire), work.recv_cq.load(Acquire));
        if let Some(book) = self.book_at(send) {
            book.room.remove(&book.members, word, Side::Send);
        }
        if let Some(book) = self.book_at(receive) {
            if work.uses_srq.load(Relaxed) == 1 {
                book.room.srq_user_ended.store(1, Relaxed);
            }
            book.room.remove(&book.members, word, Side::Receive);
        }
        work.give_back(work.generation.load(Relaxed));
    }

    /// The book of a CQ is about to be another's: QPs that were left behind with a closed context know it still.
    pub(crate) fn cq_ends(&self, object: &Object) {
        let Some(book) = self.cq_books.of(object) else { return };
        let place = self.cq_books.place_of(book);
        for (_, work) in self.works.used() {
            for cq in [&work.send_cq, &work.recv_cq] {
                let _ = cq.compare_exchange(place, 0, AcqRel, Relaxed);
            }
        }
    }

    /// A QP was moved to RESET: its work requests and completions are gone.
    pub(crate) fn work_begins_again(&self, word: u32) {
        let Some(work) = self.works.of(word) else { return };
        work.begin_again();
        for (cq, receives) in [(&work.send_cq, false), (&work.recv_cq, true)] {
            if let Some(book) = self.book_at(cq.load(Acquire)) {
                if receives && work.uses_srq.load(Relaxed) == 1 {
                    book.room.srq_user_ended.store(1, Relaxed);
                }
                book.room.changed();
            }
        }
    }

    /// Work requests of a QP fail from now on.
    pub(crate) fn work_fails(&self, word: u32) {
        let Some(work) = self.works.of(word) else { return };
        work.failed.store(1, Relaxed);
        if work.uses_srq.load(Relaxed) == 1
            && let Some(book) = self.book_at(work.recv_cq.load(Acquire))
        {
            book.room.srq_user_ended.store(1, Relaxed);
        }
    }

    /// Sends were posted to this QP. The CQ, if there is a line to be said about it.
    #[inline]
    pub fn posted_sends(&self, qp: usize, posted: Posted) -> Option<Token> {
        let work = self.work_of(Kind::Qp, qp)?;
        work.post_sends(posted);
        self.judge(work, Side::Send, posted.number)
    }

    /// How many requests of a call were posted is not known.
    #[cold]
    pub fn posts_unclear(&self, kind: Kind, address: usize) {
        if let Some(work) = self.work_of(kind, address) {
            work.blur();
        }
    }

    /// An extended CQ was created whose provider gives completions twice where it is polled as such.
    pub fn cq_repeats(&self, cq: usize) {
        if let Some(object) = self.live_object(Kind::Cq, cq) {
            object.repeats.store(MAY_REPEAT, Relaxed);
        }
    }

    /// An extended CQ was polled as such.
    pub fn cq_polled_as_extended(&self, cq: usize) {
        if let Some(object) = self.live_object(Kind::Cq, cq)
            && object.repeats.load(Relaxed) == MAY_REPEAT
            && object.repeats.swap(REPEATS, Relaxed) == MAY_REPEAT
        {
            self.repeating_cqs.fetch_add(1, Relaxed);
        }
    }

    /// Receives were posted to this QP or SRQ. As [`Ledger::posted_sends`].
    #[inline]
    pub fn posted_receives(&self, kind: Kind, address: usize, number: u32) -> Option<Token> {
        let work = self.work_of(kind, address)?;
        work.post_receives(number);
        self.judge(work, Side::Receive, number)
    }

    /// So many completions of one QP and side came out of a CQ.
    #[inline]
    pub(crate) fn retired(&self, book: &CqBook, qp_num: u32, side: Side, number: u64) {
        let Some(place) = self.qps.find(book.room.key.load(Relaxed) as usize | qp_key(0, qp_num)) else {
            return self.uncheck_book(book, Some(Unchecked::OtherQp));
        };
        // A QP that was destroyed has no work any more, and a completion that is late retires none.
        let Some(work) = self.works.of(self.qps.at(place).work.load(Acquire)) else { return };
        match side {
            Side::Send => work.complete_sends(number),
            Side::Receive if work.uses_srq.load(Relaxed) == 1 => {
                book.from_srqs.number.fetch_add(number, SeqCst);
            }
            Side::Receive => work.complete_receives(number),
        }
    }

    /// After a post.
    #[inline]
    fn judge(&self, work: &Work, side: Side, number: u32) -> Option<Token> {
        let place = match side {
            Side::Send => work.send_cq.load(Acquire),
            Side::Receive => work.recv_cq.load(Acquire),
        };
        let book = self.book_at(place)?;
        let room = &book.room;
        if room.unchecked.load(Relaxed) != 0 {
            return None;
        }
        if room.srq_user_ended.load(Relaxed) != 0 {
            self.uncheck_book(book, Some(Unchecked::SrqUserEnded));
            return None;
        }
        if book.room.has_spilled() && !self.used_up(book, work, side, number) {
            return None;
        }
        let sum = self.sum(place, book, true)?;
        if sum > book.mark.load(Relaxed) {
            book.mark.fetch_max(sum, Relaxed);
        }
        let depth = room.depth.load(Relaxed);
        if sum <= depth.into() || room.told.load(Relaxed) != 0 {
            return None;
        }
        self.exceeded(place, book)
    }

    /// Of a CQ with many queues: whether this queue has used up its share of the room that was left at the last sum.
    fn used_up(&self, book: &CqBook, work: &Work, side: Side, number: u32) -> bool {
        let (share, now) = match side {
            Side::Send => match work.sends_gone() {
                Some(gone) => (&work.sends.share, work.sends_posted().wrapping_sub(gone)),
                None => return true,
            },
            Side::Receive => {
                let posted = work.receives_posted();
                // What an SRQ has outstanding is not known: all that it was given counts.
                (&work.receives.share, posted.wrapping_sub(work.receives_gone()))
            }
        };
        let (epoch, allowed) = book.room.share();
        let now = now as u32;
        if share.epoch.load(Relaxed) != epoch {
            share.base.store(now.wrapping_sub(number), Relaxed);
            share.epoch.store(epoch, Relaxed);
        }
        now.wrapping_sub(share.base.load(Relaxed)).cast_signed() > allowed.cast_signed()
    }

    /// What is outstanding of a CQ. `None` where this cannot be told now.
    fn sum(&self, place: u32, book: &CqBook, judging: bool) -> Option<u64> {
        let version = book.room.version.load(SeqCst);
        let sum = if book.room.has_spilled() {
            self.sum_of(book, || self.members_far(place), judging)
        } else {
            self.sum_of(book, || self.members_near(&book.members), judging)
        }?;
        if book.room.version.load(SeqCst) != version {
            return None;
        }
        if book.room.has_spilled() && judging {
            let number = self.works.used.load(Relaxed);
            if book.room.visits.fetch_add(number, Relaxed) > VISITS {
                self.uncheck_book(book, Some(Unchecked::Crowded));
                return None;
            }
            let left = u64::from(book.room.depth.load(Relaxed)).saturating_sub(sum);
            book.room.share_out(left / u64::from(book.room.queues()).max(1));
        }
        Some(sum)
    }

    fn sum_of<'a, I: Iterator<Item = (&'a Work, Side)>>(
        &'a self,
        book: &CqBook,
        members: impl Fn() -> I,
        judging: bool,
    ) -> Option<u64> {
        let (mut posted, mut gone) = (0_u64, 0_u64);
        for (work, side) in members() {
            posted = posted.wrapping_add(match side {
                Side::Send => work.sends_posted(),
                Side::Receive => work.receives_posted(),
            });
        }
        for (work, side) in members() {
            let unclear = if work.failed.load(Relaxed) == 1 {
                Some(Unchecked::QpFailed)
            } else if work.is_blurred() {
                Some(Unchecked::Blurred)
            } else {
                None
            };
            if unclear.is_some() {
                if judging {
                    self.uncheck_for_now(book, unclear);
                }
                return None;
            }
            gone = gone.wrapping_add(match side {
                Side::Send => work.sends_gone()?,
                Side::Receive => work.receives_gone(),
            });
        }
        gone = gone.wrapping_add(book.from_srqs.number.load(SeqCst));
        Some(posted.wrapping_sub(gone).cast_signed().max(0).cast_unsigned())
    }

    /// What was posted to the queues that a CQ lists, and what of it is outstanding.
    pub(crate) fn near_sums(&self, book: &CqBook) -> Option<(u64, u64)> {
        let posted = self.members_near(&book.members).fold(0_u64, |sum, (work, side)| {
            sum.wrapping_add(match side {
                Side::Send => work.sends_posted(),
                Side::Receive => work.receives_posted(),
            })
        });
        Some((posted, self.sum_of(book, || self.members_near(&book.members), false)?))
    }

    /// Not checked while one of its QPs is as it is.
    fn uncheck_for_now(&self, book: &CqBook, unchecked: Option<Unchecked>) {
        if let Some(unchecked) = unchecked
            && book.room.was_unchecked.load(Relaxed) & unchecked.bit() == 0
        {
            book.room.was_unchecked.fetch_or(unchecked.bit(), Relaxed);
        }
    }

    fn members_near<'a>(&'a self, members: &'a Members) -> impl Iterator<Item = (&'a Work, Side)> {
        members.list().filter_map(|(word, side)| Some((self.works.of(word)?, side)))
    }

    fn members_far(&self, place: u32) -> impl Iterator<Item = (&Work, Side)> {
        self.works.used().flat_map(move |(_, work)| {
            let sends = (work.send_cq.load(Acquire) == place).then_some((work, Side::Send));
            // The receives of a QP with an SRQ are the SRQ's: it has a number of its own.
            let own = work.uses_srq.load(Relaxed) == 0 || work.number.load(Relaxed) == 0;
            let receives = (own && work.recv_cq.load(Acquire) == place).then_some((work, Side::Receive));
            [sends, receives].into_iter().flatten()
        })
    }

    #[cold]
    fn exceeded(&self, place: u32, book: &CqBook) -> Option<Token> {
        let token = book.room.token();
        let object = self.object(token)?;
        if object.completions.got.load(Relaxed) != 0 && object.traffic.polled.load(Relaxed) == 0 {
            self.uncheck_book(book, Some(Unchecked::PolledElsewhere));
            return None;
        }
        // Once more: what a queue had a moment ago may have been another's.
        let sum = self.sum(place, book, true)?;
        (sum > book.room.depth.load(Relaxed).into() && book.room.told.swap(1, AcqRel) == 0).then_some(token)
    }

    /// The CQ at this address, with the QPs that complete to it.
    pub fn cq_line(&self, cq: usize) -> Option<CqLine> {
        let place = self.objects.find(cq)?;
        let object = self.live_object(Kind::Cq, cq)?;
        let token = Token { place: place as u32 + 1, generation: object.head().generation() };
        let numbers: Vec<u32> = self.qps_on(cq).collect();
        Some(CqLine {
            name: self.object_name(token)?,
            more: numbers.len().saturating_sub(NAMED),
            qps: numbers.into_iter().take(NAMED).collect(),
            headroom: self.headroom_of(object),
        })
    }

    /// Of a CQ, where all completions are counted.
    pub(crate) fn headroom_of(&self, object: &Object) -> Option<Headroom> {
        let book = self.cq_books.of(object)?;
        let room = &book.room;
        let mut bits = room.unchecked.load(Relaxed) | room.was_unchecked.load(Relaxed);
        if room.depth.load(Relaxed) == 0 {
            bits |= Unchecked::Unseen.bit();
        }
        if object.completions.got.load(Relaxed) != 0 && object.traffic.polled.load(Relaxed) == 0 {
            bits |= Unchecked::PolledElsewhere.bit();
        }
        let now = if bits == 0 { self.sum(self.cq_books.place_of(book), book, false) } else { None };
        Some(Headroom {
            depth: room.depth.load(Relaxed),
            mark: book.mark.load(Relaxed),
            outstanding: now,
            exceeded: room.told.load(Relaxed) != 0,
            unchecked: Unchecked::ALL.into_iter().filter(|why| bits & why.bit() != 0).collect(),
        })
    }
}

const _: () = assert!(WORKS < 0x1fff);
