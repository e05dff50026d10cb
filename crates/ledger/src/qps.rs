//! QPs in the books, and the verdict on those whose completions failed.

use crate::context::Context;
use crate::events::Kind;
use crate::object::Home;
use crate::qp::{Moved, Qp, RECV_CQ, SEND_CQ};
use crate::sync::*;
use crate::table::{ALIVE, DEAD, Entry, FOREIGN};
use crate::traffic::TrafficCounts;
use crate::verdict::{Address, Cause, Failure, Unseen, Verdict, WR_FLUSH_ERR, leaves_qp_alone};
use crate::{ContextName, Ident, Ledger, NO_DEVICE, Thread};

/// `enum ibv_qp_state`, as far as it is of interest.
const RESET: u32 = 0;
const RTR: u32 = 2;
const RTS: u32 = 3;
const ERR: u32 = 6;
/// Not one of them: the program destroys the QP.
const DESTROYED: u32 = 7;

/// How long a first failure may come after the flushes, in another CQ, before they are spoken of without one.
const PATIENCE: u64 = 2_000_000_000;

/// A QP at its birth.
#[derive(Clone, Copy, Debug)]
pub struct NewQp {
    /// Its context.
    pub context: usize,
    /// Number and handle.
    pub ident: Ident,
    /// Its CQs; 0 where it has none.
    pub send_cq: usize,
    /// See `send_cq`.
    pub recv_cq: usize,
    /// The device moves it to ERR when its connection ends, in order or not: so does iWARP (RFC 5040).
    pub ends_with_connection: bool,
    /// A failure moves it to ERR, as it does with RC and XRC.
    pub connected: bool,
}

/// A completion with an error status.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// The CQ.
    pub cq: usize,
    /// The CQ's context.
    pub context: usize,
    /// Whose it is; `None` where the CQ has no means to tell.
    pub qp_num: Option<u32>,
    /// Its QP is not moved to ERR by it: so it is with transports of a vendor's own, where it is a part of the flow control.
    pub qp_goes_on: bool,
    /// What is defined of it.
    pub failure: Failure,
}

/// A QP in the books, for as long as its entry is not used for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QpToken {
    place: u32,
    generation: u32,
}

/// What is to be said of a completion that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToSay {
    /// Nothing, or nothing yet.
    Nothing,
    /// It is the first failure of this QP.
    FirstFailure(QpToken, Failure),
    /// This QP's work requests were flushed a while ago, and no failure has come.
    FlushedAlone(QpToken),
}

/// A move of a QP between its two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Moving {
    qp: QpToken,
    to: u32,
    before: Moved,
}

/// What a QP is found by, from the number of its context and its own.
#[inline]
pub(crate) fn qp_key(context: u32, qp_num: u32) -> usize {
    (context as usize) << 36 | (qp_num as usize) << 4
}

impl Ledger {
    /// What QPs are found by: numbers are unique within a device, and a context has one.
    fn qp_key(&self, context: usize, qp_num: u32) -> Option<usize> {
        Some(qp_key(self.context(context)?.id.load(Relaxed), qp_num))
    }

    fn qp_place(&self, context: usize, qp_num: u32) -> Option<(QpToken, &Qp)> {
        let place = self.qps.find(self.qp_key(context, qp_num)?)?;
        let qp = self.qps.at(place);
        Some((QpToken { place: place as u32 + 1, generation: qp.head().generation() }, qp))
    }

    pub(crate) fn live_qp(&self, context: usize, qp_num: u32) -> Option<(QpToken, &Qp)> {
        self.qp_place(context, qp_num).filter(|(_, qp)| qp.head().state() != DEAD)
    }

    fn qp(&self, token: QpToken) -> Option<&Qp> {
        let qp = self.qps.at(token.place.checked_sub(1)? as usize);
        (qp.head().generation() == token.generation).then_some(qp)
    }

    /// A QP was created.
    pub fn qp_created(&self, new: &NewQp) {
        let home = self.home(new.context);
        let Some(key) = self.qp_key(new.context, new.ident.number) else { return };
        let state = match self.context_of(home) {
            Some(context) if !Self::is_foreign(context) => ALIVE,
            _ => FOREIGN,
        };
        let known = self.qps.find(key);
        let reused = known.is_some();
        let fill = |qp: &Qp| {
            qp.reset();
            qp.context.store(home.context, Relaxed);
            qp.context_generation.store(home.context_generation, Relaxed);
            qp.number.store(new.ident.number, Relaxed);
            qp.handle.store(new.ident.handle, Relaxed);
            qp.born.store(1, Relaxed);
            qp.ends_with_connection.store(new.ends_with_connection.into(), Relaxed);
            qp.connected.store(new.connected.into(), Relaxed);
            qp.reused.store(reused.into(), Relaxed);
            qp.foreign.store((state == FOREIGN).into(), Relaxed);
            qp.send_cq.store(new.send_cq, Relaxed);
            qp.recv_cq.store(new.recv_cq, Relaxed);
        };
        let kept = match known {
            Some(place) => self.qps.succeed((place, key), state, |old| self.forget(old), fill),
            None => self.qps.insert(key, state, |old| self.forget(old), fill).is_some(),
        };
        if !kept {
            self.crowded_out.fetch_add(1, Relaxed);
        }
    }

    /// The place of a QP is used for another. That there was something to say of it is not forgotten.
    fn forget(&self, qp: &Qp) {
        if !qp.is_well()
            && let Some(context) = self.context_of(self.home_of(qp))
        {
            context.forgotten_verdicts.fetch_add(1, Relaxed);
        }
    }

    fn home_of(&self, qp: &Qp) -> Home {
        Home {
            context: qp.context.load(Relaxed),
            context_generation: qp.context_generation.load(Relaxed),
            device: NO_DEVICE,
        }
    }

    /// A QP is about to be destroyed: what is flushed meanwhile is flushed because of it.
    pub fn qp_is_destroyed(&self, token: QpToken, tid: u32, at: u64) -> Moving {
        match self.qp(token) {
            Some(qp) => Moving { qp: token, to: DESTROYED, before: qp.moves(DESTROYED, tid, at) },
            None => Moving::default(),
        }
    }

    /// The destroy is over. If it was done, nothing is concluded from the QP's number from now on.
    pub fn qp_destroyed(&self, moving: &Moving, ok: bool) {
        match moving.qp.place.checked_sub(1) {
            Some(place) if ok => _ = self.qps.bury(place as usize, moving.qp.generation),
            Some(_) => self.qp_moved(moving, false),
            None => {}
        }
    }

    /// The QPs of a context that is closed are gone with it.
    pub(crate) fn bury_qps_of(&self, place: u32, generation: u32) {
        for (at, qp) in self.qps.entries_with_place() {
            if qp.context.load(Relaxed) == place + 1 && qp.context_generation.load(Relaxed) == generation {
                self.qps.bury(at, qp.head().generation());
            }
        }
    }

    /// The program connects a QP.
    pub fn qp_peer_is(&self, context: usize, qp_num: u32, number: Option<u32>, address: Option<Address>) {
        if let Some((_, qp)) = self.live_qp(context, qp_num) {
            qp.peer_is(number, address);
        }
    }

    /// The program is about to move a QP to this state (`enum ibv_qp_state`): what is flushed from now on may be flushed
    /// because of it.
    pub fn qp_moves(&self, context: usize, qp_num: u32, to: u32, tid: u32, at: u64) -> Moving {
        match self.live_qp(context, qp_num) {
            Some((token, qp)) if to == RESET || to == ERR => {
                if to == ERR {
                    self.work_fails(qp.work.load(Relaxed));
                }
                Moving { qp: token, to, before: qp.moves(to, tid, at) }
            }
            Some((token, _)) => Moving { qp: token, to, before: Moved::default() },
            None => Moving::default(),
        }
    }

    /// The move is over.
    pub fn qp_moved(&self, moving: &Moving, ok: bool) {
        if let Some(qp) = self.qp(moving.qp) {
            if ok && matches!(moving.to, RESET | RTR | RTS) {
                self.forget(qp);
            }
            match (ok, moving.to) {
                (false, RESET | ERR | DESTROYED) => qp.unmoved(moving.before),
                (true, RESET) => {
                    qp.begin_again();
                    self.work_begins_again(qp.work.load(Acquire));
                }
                (true, RTR) => qp.is_ready(),
                (true, RTS) => {
                    qp.recovered();
                    qp.ran.store(1, Relaxed);
                }
                _ => {}
            }
        }
    }

    /// The QP with this number, if it is in the books and alive.
    pub fn qp_numbered(&self, context: usize, qp_num: u32) -> QpToken {
        self.live_qp(context, qp_num).map_or(QpToken::default(), |(token, _)| token)
    }

    /// An event says that the QP has failed.
    pub fn qp_event(&self, context: usize, qp_num: u32, event_type: u32, tid: u32, at: u64) {
        if let Some((_, qp)) = self.live_qp(context, qp_num) {
            qp.event_got(event_type, tid, at);
        }
    }

    /// Numbers of the QPs alive that complete to this CQ.
    pub(crate) fn qps_on(&self, cq: usize) -> impl Iterator<Item = u32> {
        self.qps
            .entries()
            .filter(move |qp| {
                qp.head().state() != DEAD
                    && [&qp.send_cq, &qp.recv_cq].iter().any(|its| its.load(Relaxed) == cq)
            })
            .map(|qp| qp.number.load(Relaxed))
    }

    /// A completion failed.
    pub fn completion_failed(&self, failed: &Failed) -> ToSay {
        let traffic = self.failed_on(failed);
        if failed.qp_goes_on {
            return ToSay::Nothing;
        }
        if failed.qp_num.is_none() {
            traffic.nameless.fetch_add(1, Relaxed);
        }
        let found = failed.qp_num.and_then(|qp_num| self.qp_or_foreign(failed.context, qp_num));
        let Some((token, qp)) = found.filter(|(_, qp)| qp.may_have(failed.cq)) else {
            traffic.unattributed.fetch_add(1, Relaxed);
            return ToSay::Nothing;
        };
        for (side, bit) in [(&qp.send_cq, SEND_CQ), (&qp.recv_cq, RECV_CQ)] {
            if side.load(Relaxed) == failed.cq {
                qp.failed_on.fetch_or(bit, Relaxed);
            }
        }
        let failure = &failed.failure;
        if failure.status != WR_FLUSH_ERR {
            if leaves_qp_alone(failure.status) {
                return ToSay::Nothing;
            }
            self.work_fails(qp.work.load(Relaxed));
            if !qp.failed(failure) {
                return ToSay::Nothing;
            }
            return ToSay::FirstFailure(token, *failure);
        }
        self.work_fails(qp.work.load(Relaxed));
        let first = qp.flushed(failure.wr_id, failure.at);
        if failure.at.saturating_sub(first) >= PATIENCE && self.is_untold(qp) {
            return ToSay::FlushedAlone(token);
        }
        ToSay::Nothing
    }

    /// The QP will not be polled for any more, or not in this life. True if its flushes have not been spoken of, and
    /// should be.
    pub fn qp_ends(&self, token: QpToken) -> bool {
        self.qp(token).is_some_and(|qp| self.is_untold(qp))
    }

    /// QPs alive of an open context, or of all.
    pub fn qps_of(&self, context: Option<usize>) -> impl Iterator<Item = QpToken> {
        let home = context.map(|context| self.home(context));
        self.qps
            .entries_with_place()
            .filter(move |(_, qp)| {
                qp.head().state() != DEAD
                    && home.is_none_or(|home| {
                        qp.context.load(Relaxed) == home.context
                            && qp.context_generation.load(Relaxed) == home.context_generation
                    })
            })
            .map(|(place, qp)| QpToken { place: place as u32 + 1, generation: qp.head().generation() })
    }

    /// Whether flushes of a QP are to be spoken of now: no failure was seen, neither the program itself nor the end of a
    /// connection is the reason, and nobody has spoken of them yet. If the program did not make the QP ready through us,
    /// or the context is not ours from its birth, too much happens around us.
    fn is_untold(&self, qp: &Qp) -> bool {
        qp.flushes.load(Relaxed) != 0
            && !qp.is_told()
            && !qp.has_failed()
            && qp.knows_flush()
            && qp.ran.load(Relaxed) == 1
            && qp.head().state() == ALIVE
            && qp.ends_with_connection.load(Relaxed) == 0
            && matches!(self.cause(qp), Cause::Unknown(_) | Cause::Event(_))
            && qp.tell()
    }

    fn qp_or_foreign(&self, context: usize, qp_num: u32) -> Option<(QpToken, &Qp)> {
        match self.qp_place(context, qp_num) {
            Some((_, qp)) if qp.head().state() == DEAD => None,
            Some(found) => Some(found),
            None => {
                let key = self.qp_key(context, qp_num)?;
                let home = self.home(context);
                let fill = |qp: &Qp| {
                    qp.reset();
                    qp.context.store(home.context, Relaxed);
                    qp.context_generation.store(home.context_generation, Relaxed);
                    qp.number.store(qp_num, Relaxed);
                    qp.foreign.store(1, Relaxed);
                };
                if self.qps.insert(key, FOREIGN, |old| self.forget(old), fill).is_none() {
                    self.crowded_out.fetch_add(1, Relaxed);
                }
                self.qp_place(context, qp_num)
            }
        }
    }

    /// Counts it where it was polled.
    fn failed_on(&self, failed: &Failed) -> &TrafficCounts {
        let tally = self.tally(failed.context);
        tally.statuses.add(failed.failure.status as usize, 1);
        let object = self
            .live_object(Kind::Cq, failed.cq)
            .or_else(|| self.object_or_foreign(Kind::Cq, failed.cq, failed.context, failed.failure.at));
        let traffic = object.map_or(&tally.traffic, |object| &object.traffic);
        traffic.failed.fetch_add(1, Relaxed);
        traffic
    }

    /// What is known about the failures of a QP. `None` if the token's entry serves another QP by now.
    pub fn verdict(&self, token: QpToken) -> Option<Verdict> {
        let qp = self.qp(token)?;
        let context = self.context_of(self.home_of(qp));
        Some(Verdict {
            context: context.map_or(ContextName::default(), |context| self.name_of(context)),
            ident: Ident { number: qp.number.load(Relaxed), handle: qp.handle.load(Relaxed) },
            born: qp.born.load(Relaxed) == 1,
            foreign: qp.foreign.load(Relaxed) == 1,
            connected: qp.connected.load(Relaxed) == 1,
            destroyed: qp.head().state() == DEAD,
            peer: qp.peer(),
            failures: qp.failures.load(Relaxed),
            flushes: qp.flushes.load(Relaxed),
            first_flush: qp.first_flush_wr_id.load(Relaxed),
            cause: self.cause(qp),
        })
    }

    fn cause(&self, qp: &Qp) -> Cause {
        let moved = |(to, tid, at)| Cause::Moved { to, by: Thread { tid, ..Default::default() }, at };
        match (qp.first_failure(), qp.moved_before_flush(), qp.event()) {
            (Some(failure), ..) => Cause::Failure(failure),
            (None, Some(_), Some(event)) if qp.moved_after_event() => Cause::Event(event),
            (None, Some(found), _) => moved(found),
            (None, None, Some(event)) => Cause::Event(event),
            (None, None, None) => match self.context_of(self.home_of(qp)) {
                Some(context) if context.has_failed() => Cause::DeviceGone,
                context => Cause::Unknown(self.unseen(qp, context)),
            },
        }
    }

    fn unseen(&self, qp: &Qp, context: Option<&Context>) -> Unseen {
        let cqs = [(&qp.send_cq, SEND_CQ), (&qp.recv_cq, RECV_CQ)];
        let failed_on = qp.failed_on.load(Relaxed);
        let mut unseen = Unseen {
            foreign: qp.foreign.load(Relaxed) == 1,
            connection_ended: qp.ends_with_connection.load(Relaxed) == 1,
            unwatched: self.unwatched.load(Relaxed) + self.unwatched_cqs.load(Relaxed) != 0,
            events_unread: context.is_some_and(|context| context.asked.load(Relaxed) == 0),
            ..Default::default()
        };
        for (address, bit) in cqs {
            let address = address.load(Relaxed);
            let Some(cq) = self.live_object(Kind::Cq, address) else { continue };
            if failed_on & bit == 0 {
                unseen.other_cq = cq.ident().map(|ident| ident.handle);
            }
            // Its only event is CQ_ERR.
            unseen.overrun |= cq.got_by_type[0].load(Relaxed) != 0;
            if bit == SEND_CQ || address != qp.send_cq.load(Relaxed) {
                unseen.unattributed += cq.traffic.nameless.load(Relaxed);
            }
        }
        unseen
    }

    /// Verdicts on the QPs of which completions failed.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.qps.entries_with_place().filter(|(_, qp)| !qp.is_well()).filter_map(|(place, qp)| {
            self.verdict(QpToken { place: place as u32 + 1, generation: qp.head().generation() })
        })
    }
}
