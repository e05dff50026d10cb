//! One port and its subscriptions at the SA: which are needed, which stand, what has to be sent next.
//!
//! Registrations are counted here, not known. What happens to a subscription is told as [`Outcome`]s, and the
//! engine tells the registrations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ibv_sa_wire::Subscription;
use ibv_sa_wire::mad::{GSI_QPN, Notice, Report, SaMad, request};
use zerocopy::IntoBytes;

use super::audit::Audit;
use super::context::Context;
use super::fault::{self, Fault};
use super::plan::{Wishes, all_of, matches, overlap};
use super::recent::{MaskedNotice, Recent};
use super::subscription::{Budget, Phase, State};
use super::types::{Action, Address, Level, PortId, PortInfo, PortName, PortState};
use super::work;

/// A subscription that was just ended may still have a Report on its way.
pub(super) const OVERLAP_AFTER: u64 = 1_000_000_000;

/// However many want it, a port that could not be opened is not tried again sooner.
const AGAIN: u64 = 1_000_000_000;

/// How many times a notice may come while nobody knows what an earlier life has left at the SA.
const UNSURE: usize = 4;

/// What became of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The SA has it.
    Standing,
    /// The SA lost it.
    Lost,
    /// The SA had lost it when it was to be ended, nobody knows since when. Another one serves in its place.
    Forgotten(Subscription),
    /// The SA refused it, or did not answer: negative errno.
    Failed(Subscription, i32),
}

/// Whether the transport has the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It was asked to.
    Opening,
    /// It has.
    Open(PortInfo),
    /// It could not; ask again then.
    Failed {
        /// When it could not.
        at: u64,
        /// When to ask.
        again: u64,
    },
}

/// One port.
pub struct Port {
    pub(super) id: PortId,
    pub(super) name: PortName,
    pub(super) link: Link,
    pub(super) state: PortState,
    pub(super) subscriptions: BTreeMap<Subscription, State>,
    pub(super) audit: Audit,
    /// What registrations want.
    pub(super) wishes: Wishes,
    pub(super) planned: BTreeSet<Subscription>,
    pub(super) recent: Recent,
    budget: Budget,
    /// Subscriptions that the SA has ended, and until when Reports of theirs may come.
    pub(super) ended: Vec<(u64, Subscription)>,
    close_at: Option<u64>,
    failures: u32,
    /// Nobody waits any more: leave without a linger.
    pub(super) ending: bool,
}

impl Port {
    /// A port that the transport is asked to open.
    pub fn open(id: PortId, name: PortName, context: &mut Context<'_>) -> Self {
        context.actions.push(Action::OpenPort { port: id, name: name.clone() });
        Port {
            id,
            name,
            link: Link::Opening,
            state: PortState::default(),
            subscriptions: BTreeMap::new(),
            audit: Audit::default(),
            wishes: Wishes::default(),
            planned: BTreeSet::new(),
            recent: Recent::default(),
            budget: Budget::default(),
            ended: Vec::new(),
            close_at: None,
            failures: 0,
            ending: false,
        }
    }

    /// Can the SA be asked?
    pub fn is_ready(&self) -> bool {
        matches!(self.link, Link::Open(_)) && self.state.is_ready()
    }

    /// Does the transport have it?
    pub fn is_open(&self) -> bool {
        matches!(self.link, Link::Open(_))
    }

    /// Do reports come for this wish?
    pub fn is_served(&self, wish: &Subscription) -> bool {
        // A wish names one number or all, and so does what was ever planned.
        [*wish, all_of(wish.is_generic)]
            .iter()
            .any(|one| self.subscriptions.get(one).is_some_and(|state| state.serves()))
    }

    /// The planned subscription that brings the notices of a wish.
    pub fn carrier(&self, wish: &Subscription) -> Option<Subscription> {
        self.planned.get(wish).or_else(|| self.planned.get(&all_of(wish.is_generic))).copied()
    }

    /// One more registration wants this.
    pub fn want(&mut self, wish: Subscription, context: &mut Context<'_>) {
        if self.wishes.add(wish) {
            self.replan(context);
        }
    }

    /// One less.
    pub fn unwant(&mut self, wish: Subscription, context: &mut Context<'_>) {
        if self.wishes.remove(wish) {
            self.replan(context);
        }
    }

    pub(super) fn replan(&mut self, context: &mut Context<'_>) {
        self.planned = self.wishes.plan();
        work::steps(self.subscriptions.len());
        let now = self.is_ready().then_some(context.now);
        for wish in &self.planned {
            let state = self.subscriptions.entry(*wish).or_insert_with(|| State::wanted(now));
            if state.phase == Phase::Leaving {
                // A stray serves nobody until we have asked for it ourselves.
                let phase = if state.serves() { Phase::Standing } else { Phase::Idle };
                state.asked |= state.stray;
                state.stray = false;
                state.enter(phase, if phase == Phase::Idle { now } else { None });
            }
        }
        let linger = if self.ending { 0 } else { context.settings.linger };
        for (wish, state) in &mut self.subscriptions {
            let leaves = state.phase == Phase::Standing || state.phase == Phase::Idle && state.may_report();
            if leaves && !self.planned.contains(wish) {
                state.enter(Phase::Leaving, now.map(|now| now + linger));
            }
            if self.ending && state.phase == Phase::Leaving {
                state.due = now;
            }
        }
        let planned = &self.planned;
        // Of a port that is gone nothing can be taken back.
        let failed = matches!(self.link, Link::Failed { .. });
        self.subscriptions
            .retain(|wish, state| planned.contains(wish) || !failed && state.phase != Phase::Idle);
        let unused = self.subscriptions.is_empty() && self.wishes.is_empty();
        self.close_at = unused.then(|| context.now + if self.ending { 0 } else { context.settings.close });
    }

    /// Every standing subscription may be gone: the port or the SM is another one. Makes them again from `from`
    /// on, if the SA can be asked.
    fn lose_lease(&mut self, context: &mut Context<'_>) {
        if !fault::is(Fault::RememberedSm) {
            self.recent.forget();
        }
        let ready = self.is_ready();
        for (wish, state) in &mut self.subscriptions {
            let (settle, spread) = (context.settings.settle, context.settings.spread);
            let due = ready.then(|| context.now + settle + context.random.below(spread));
            state.asked |= state.standing || matches!(state.phase, Phase::Asking | Phase::Withdrawing);
            state.standing = false;
            if !self.planned.contains(wish) {
                let linger = context.settings.linger;
                state.enter(Phase::Leaving, due.map(|due| due + linger));
            } else {
                // What is about to be asked for anyway is not put off: events come in groups.
                let due = if state.phase == Phase::Idle && ready {
                    state.due.into_iter().chain(due).min()
                } else {
                    due
                };
                let due = due.filter(|_| !fault::is(Fault::LostResubscription));
                state.enter(Phase::Idle, due);
            }
        }
        let audit = ready.then(|| context.now + context.settings.settle + context.settings.spread);
        self.audit.restart(audit);
    }

    /// The transport has the port.
    pub fn opened(&mut self, info: PortInfo, state: PortState, context: &mut Context<'_>) {
        self.link = Link::Open(info);
        self.failures = 0;
        self.state = state;
        let first = self.subscriptions.values().all(|state| !state.asked);
        self.lose_lease(context);
        if first && self.is_ready() {
            // Nobody else comes back at this moment.
            self.subscriptions.values_mut().for_each(|state| state.due = Some(context.now));
        }
    }

    /// The transport lost the port. The SA may keep what stood.
    pub fn failed(&mut self, context: &mut Context<'_>) {
        let pause = context.pause(self.failures);
        self.failures += 1;
        self.link = Link::Failed { at: context.now, again: context.now + pause };
        self.state = PortState::default();
        self.lose_lease(context);
        let planned = &self.planned;
        self.subscriptions.retain(|wish, _| planned.contains(wish));
        self.replan(context);
    }

    /// Somebody new waits for an answer, and not as long as those do who have had one.
    pub fn hurry(&mut self) {
        if let Link::Failed { at, again } = &mut self.link {
            *again = (*again).min(*at + AGAIN);
        }
    }

    /// The port was looked at. Returns whether subscriptions may have been lost.
    pub fn changed(&mut self, state: PortState, context: &mut Context<'_>) -> bool {
        let before = std::mem::replace(&mut self.state, state);
        let same = (before.lid, before.sm_lid, before.gid) == (state.lid, state.sm_lid, state.gid);
        if before.is_ready() == state.is_ready() && (same || !state.is_ready()) {
            return false;
        }
        let name = &self.name;
        context.log(Level::Info, "port", || {
            let how = if state.is_ready() { "ready" } else { "not ready" };
            format!("{name}: {how}, LID {}, SM at LID {}", state.lid, state.sm_lid)
        });
        if fault::is(Fault::FormerSm) {
            self.state.sm_lid = before.sm_lid;
        }
        self.lose_lease(context);
        before.is_ready()
    }

    /// The SM asked for all subscriptions, or is another one. Returns whether subscriptions may have been lost.
    pub fn reregister(&mut self, context: &mut Context<'_>) -> bool {
        let ready = self.is_ready();
        if ready {
            self.lose_lease(context);
        }
        ready
    }

    /// When something is to be done.
    pub fn deadline(&self) -> Option<u64> {
        let again = match self.link {
            Link::Failed { again, .. } if !self.wishes.is_empty() => Some(again),
            _ => None,
        };
        let subscriptions = self.subscriptions.values().filter_map(|state| state.due).min();
        [again, subscriptions, self.audit.deadline(), self.close_at].into_iter().flatten().min()
    }

    /// Does what is due. Returns what came of it, and whether the port is needed no more.
    pub fn tick(&mut self, context: &mut Context<'_>) -> (Vec<Outcome>, bool) {
        let mut outcomes = Vec::new();
        if let Link::Failed { again, .. } = self.link
            && again <= context.now
            && !self.wishes.is_empty()
        {
            self.link = Link::Opening;
            context.actions.push(Action::OpenPort { port: self.id, name: self.name.clone() });
        }
        let is_due = |due: Option<u64>| due.is_some_and(|due| due <= context.now);
        let due: Vec<Subscription> =
            self.subscriptions.iter().filter(|(_, state)| is_due(state.due)).map(|(wish, _)| *wish).collect();
        for wish in due {
            outcomes.extend(self.step(wish, context));
        }
        if self.is_ready() && self.audit.is_due(context.now) && !self.subscriptions.is_empty() {
            let tid = next_tid(context);
            self.audit.asked(tid, context);
            self.send(&request::inform_info_table(u64::from(tid), Some(self.state.gid)), context);
        } else if self.audit.is_due(context.now) {
            self.audit.schedule(context);
        }
        (outcomes, self.close_at.is_some_and(|at| at <= context.now))
    }

    fn step(&mut self, wish: Subscription, context: &mut Context<'_>) -> Option<Outcome> {
        let state = self.subscriptions.get(&wish)?;
        let phase = match state.phase {
            Phase::Asking | Phase::Withdrawing => return self.unanswered(wish, -libc::ETIMEDOUT, context),
            Phase::Standing => return None,
            Phase::Idle => Phase::Asking,
            Phase::Leaving => Phase::Withdrawing,
        };
        // What takes its place has to stand first, unless it never will.
        let successors =
            || self.planned.iter().filter(|one| overlap(one, &wish)).map(|one| &self.subscriptions[one]);
        let waits = phase == Phase::Withdrawing && successors().any(|one| !one.serves() && !one.refused);
        let waits = waits && !fault::is(Fault::BreakBeforeMake);
        let orphans = phase == Phase::Withdrawing && successors().any(|one| one.refused);
        let go = if waits {
            Err(context.now + context.settings.answer)
        } else {
            self.budget.take(context.now, context.settings.burst, context.settings.per_second)
        };
        let state = self.subscriptions.get_mut(&wish)?;
        if let Err(later) = go {
            state.due = Some(later);
            return None;
        }
        let tid = next_tid(context);
        if state.tids.len() == 4 {
            state.tids.remove(0);
        }
        state.tids.push(tid);
        state.phase = phase;
        state.asked_before = std::mem::replace(&mut state.asked, true);
        state.stray &= phase == Phase::Withdrawing;
        // Longer than the transport waits: its word comes first.
        state.due = Some(context.now + context.settings.answer + context.settings.answer / 4);
        let mad = if phase == Phase::Asking {
            request::subscribe(u64::from(tid), &wish)
        } else {
            if state.attempt == 0 {
                state.firm = state.standing;
            }
            state.standing = false;
            request::unsubscribe(u64::from(tid), &wish, GSI_QPN)
        };
        self.send(&mad, context);
        orphans.then_some(Outcome::Lost)
    }

    fn send(&self, mad: &SaMad, context: &mut Context<'_>) {
        let to = Address { lid: self.state.sm_lid, qpn: GSI_QPN, sl: self.state.sm_sl, pkey_index: 0 };
        let answer_within = (context.settings.answer / 1_000_000) as u32;
        context.actions.push(send(self.id, to, mad, answer_within));
    }

    /// A Report came: answers it, and returns the notice if it is the first time and from the SM.
    pub fn report(&mut self, from: Address, report: &Report, context: &mut Context<'_>) -> Option<Notice> {
        if !fault::is(Fault::UnansweredReport) {
            context.actions.push(send(self.id, from, &report.response(), 0));
        }
        let notice = report.notice();
        let standing = self
            .subscriptions
            .iter()
            .filter(|(one, state)| state.may_report() && matches(one, &notice))
            .count();
        if from.lid != self.state.sm_lid {
            return None;
        }
        self.ended.retain(|(until, _)| context.now < *until);
        let late = |one: &Subscription| matches(one, &notice) && !self.subscriptions.contains_key(one);
        let late = self.ended.iter().filter(|(_, one)| late(one)).count();
        let mut times = standing + late;
        if self.audit.is_unsure() {
            times = times.max(UNSURE);
        }
        let mut bytes: MaskedNotice = [0; 80];
        bytes.copy_from_slice(notice.as_bytes());
        let bytes = Arc::new(bytes);
        if fault::is(Fault::DoubledOverlap) {
            times = 1;
        }
        let is_first = self.recent.is_first(context.now, from.lid, report.tid(), &bytes, times);
        if !is_first && !fault::is(Fault::RepeatedReport) {
            return None;
        }
        if standing + late == 0 {
            // A subscription of an earlier life stands at the SA: find it.
            self.audit.doubt(context);
        }
        Some(notice)
    }

    /// Everything goes, at once.
    pub fn end(&mut self, context: &mut Context<'_>) {
        self.ending = true;
        self.replan(context);
    }
}

fn next_tid(context: &mut Context<'_>) -> u32 {
    context.random.next() as u32
}

fn send(port: PortId, to: Address, mad: &SaMad, answer_within: u32) -> Action {
    let mut bytes = Box::new([0; 256]);
    bytes.copy_from_slice(mad.as_bytes());
    Action::SendMad { port, to, mad: bytes, answer_within }
}
