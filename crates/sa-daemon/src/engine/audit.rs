//! Comparing what should stand with the SA's own table, because an SA tells nobody when it forgets.

use std::collections::BTreeSet;

use ibv_sa_wire::Subscription;
use ibv_sa_wire::mad::{Records, Status};

use super::context::Context;
use super::fault::{self, Fault};
use super::port::{Link, Outcome, Port};
use super::subscription::{Phase, State};
use super::types::Level;

/// Records that fit in one MAD.
const ONE_MAD: usize = 3;
/// What the SA confirmed and never lists it knows under another name than ours: then its table says nothing.
const MISSES: u32 = 3;
/// Doubts in a row need one look, not one each.
const SOON: u64 = 1_000_000_000;

/// When the SA's table is looked at next.
#[derive(Debug, Default)]
pub struct Audit {
    due: Option<u64>,
    tid: Option<u32>,
    /// The table of this SM was seen, or will not be.
    looked: bool,
    /// Questions in a row without an answer.
    tries: u32,
    /// Something has come up since the question went out.
    doubted: bool,
    /// What changed while the question was out: the table may be older than that.
    changed: BTreeSet<Subscription>,
    /// Looks in a row that found something missing, and nothing that stands.
    misses: u32,
    /// Under our name, but not made from our queue pair.
    not_ours: BTreeSet<Subscription>,
}

impl Audit {
    /// At the next interval, unless something is planned already.
    pub fn schedule(&mut self, context: &mut Context<'_>) {
        let (now, interval) = (context.now, context.settings.audit);
        if interval == 0 {
            self.due = None;
        } else if self.due.is_none_or(|due| due <= now) {
            self.due = Some(now + context.around(interval));
        }
    }

    /// Another SM, another table.
    pub fn restart(&mut self, due: Option<u64>) {
        *self = Audit { due, ..Audit::default() };
    }

    /// The SA may have something that is not in our books.
    pub fn doubt(&mut self, context: &mut Context<'_>) {
        (self.looked, self.tries, self.doubted) = (false, 0, true);
        let soon = context.now + SOON;
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }

    /// Subscriptions of an earlier life may stand beside ours, and double what they bring.
    pub fn is_unsure(&self) -> bool {
        !self.looked && self.due.is_some()
    }

    /// When to ask.
    pub fn deadline(&self) -> Option<u64> {
        self.due
    }

    /// Is it time?
    pub fn is_due(&self, now: u64) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// The question is out.
    pub fn asked(&mut self, tid: u32, context: &mut Context<'_>) {
        self.tid = Some(tid);
        self.changed.clear();
        self.doubted = false;
        self.schedule(context);
        if self.looked {
            return;
        }
        if self.tries < context.settings.attempts {
            // To be unsure until the next interval because one MAD was lost would be long.
            let again = context.now + context.settings.answer + context.pause(self.tries);
            self.due = Some(self.due.map_or(again, |due| due.min(again)));
            self.tries += 1;
        } else {
            self.looked = true;
        }
    }

    /// Takes the answer to the last question, and only that one.
    fn answered(&mut self, tid: u32, context: &mut Context<'_>) -> bool {
        if self.tid.take_if(|asked| *asked == tid).is_none() {
            return false;
        }
        if !self.looked && !self.doubted {
            (self.looked, self.due) = (true, None);
            self.schedule(context);
        }
        true
    }

    fn count_misses(&mut self, misses_something: bool, lists_some: bool) {
        self.misses = if lists_some || !misses_something && self.misses < MISSES {
            0
        } else {
            (self.misses + 1).min(MISSES + 1)
        };
    }

    /// The SA has taken or ended this one.
    pub fn change(&mut self, subscription: Subscription) {
        if self.tid.is_some() {
            self.changed.insert(subscription);
        }
    }

    /// Never mind this one again.
    pub fn not_ours(&mut self, subscription: Subscription) {
        self.not_ours.insert(subscription);
    }
}

impl Port {
    /// The SA has no table for us: one with nothing to list says so in its own way.
    pub fn not_audited(&mut self, tid: u32, status: Status, context: &mut Context<'_>) {
        if !status.is_temporary() {
            self.audit.answered(tid, context);
        }
    }

    /// The SA's table, as far as it is about us.
    pub fn audited(&mut self, tid: u32, records: Records<'_>, context: &mut Context<'_>) -> Vec<Outcome> {
        if !self.audit.answered(tid, context) {
            return Vec::new();
        }
        let changed = std::mem::take(&mut self.audit.changed);
        let gid = self.state.gid;
        let mut count = 0;
        let table: BTreeSet<Subscription> = records
            .inspect(|_| count += 1)
            .filter(|record| record.subscriber == gid)
            .map(|record| Subscription::from_inform_info(&record.inform))
            .collect();
        let whole = count < ONE_MAD || matches!(self.link, Link::Open(info) if info.long_tables);
        let is_listed = |wish: &Subscription| table.iter().any(|one| same(one, wish));
        let stands = |state: &State| state.phase == Phase::Standing;
        let missing: Vec<Subscription> = self
            .subscriptions
            .iter()
            .filter(|(wish, state)| stands(state) && !changed.contains(wish) && !is_listed(wish))
            .map(|(wish, _)| *wish)
            .filter(|_| whole && !fault::is(Fault::BlindAudit))
            .collect();
        let lists_some = self.subscriptions.iter().any(|(wish, state)| stands(state) && is_listed(wish));
        let is_lost = lists_some || self.audit.misses < MISSES;
        self.audit.count_misses(!missing.is_empty(), lists_some);
        if self.audit.misses == MISSES {
            let (name, gid) = (&self.name, self.state.gid);
            context.log(Level::Warning, "audit", || {
                format!("{name}: the SA lists nothing for {gid} that it confirms: its table is no help")
            });
        }
        let mut outcomes = Vec::new();
        for wish in missing {
            let Some(state) = self.subscriptions.get_mut(&wish) else { continue };
            state.enter(Phase::Idle, Some(context.now + context.random.below(context.settings.settle)));
            // Where the table is no help it is asked for again all the same, which changes nothing if it stands.
            state.standing = !is_lost;
            if is_lost {
                let name = &self.name;
                context.log(Level::Warning, "lost", || format!("{name}: the SA has forgotten {wish}"));
                outcomes.push(Outcome::Lost);
            }
        }
        if !outcomes.is_empty() && !lists_some {
            // Nothing of ours is there: most likely the SM was started anew, and counts from its start again.
            self.recent.forget();
        }
        for found in table {
            let known = self.subscriptions.keys().chain(&changed).any(|one| same(one, &found));
            if !known && !fault::is(Fault::KeptStray) && !self.audit.not_ours.contains(&found) {
                let name = &self.name;
                context.log(Level::Info, "stray", || {
                    format!("{name}: the SA has a subscription of ours that nobody wants: {found}")
                });
                self.subscriptions.insert(found, State::stray(context.now + context.settings.linger));
            }
        }
        outcomes
    }
}

/// An SA may store the end of a range that does not count in its own way.
fn same(one: &Subscription, other: &Subscription) -> bool {
    let plain = |subscription: &Subscription| {
        let all = subscription.lid_begin == ibv_sa_wire::LID_ANY || !subscription.gid.is_zero();
        Subscription { lid_end: if all { 0 } else { subscription.lid_end }, ..*subscription }
    };
    plain(one) == plain(other)
}
