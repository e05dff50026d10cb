//! What the SA's answers, and their absence, mean for a port's subscriptions.

use ibv_sa_wire::Subscription;
use ibv_sa_wire::mad::Status;

use super::context::Context;
use super::port::{OVERLAP_AFTER, Outcome, Port};
use super::subscription::Phase;
use super::types::Level;

impl Port {
    /// An answer to Set(InformInfo).
    pub fn answered(&mut self, tid: u32, status: Status, context: &mut Context<'_>) -> Option<Outcome> {
        let (&wish, state) = self.subscriptions.iter_mut().find(|(_, state)| state.tids.contains(&tid))?;
        if status.is_temporary() {
            // A late one says nothing new: the next request is on its way.
            return if state.tids.last() == Some(&tid)
                && matches!(state.phase, Phase::Asking | Phase::Withdrawing)
            {
                self.unanswered(wish, -libc::EBUSY, context)
            } else {
                None
            };
        }
        if !status.is_ok()
            && state.tids.last() != Some(&tid)
            && matches!(state.phase, Phase::Asking | Phase::Idle)
        {
            // A later request is out, and the SA may have thought better of it.
            return None;
        }
        match state.phase {
            Phase::Leaving | Phase::Withdrawing => {
                let firm = state.firm;
                if !status.is_ok() && state.stray {
                    self.audit.not_ours(wish);
                } else if !status.is_ok() && state.attempt == 0 {
                    // Most likely gone already, which is as good. The table knows. If there was a request before,
                    // it has ended it and only its answer was lost.
                    let name = &self.name;
                    context.log(Level::Info, "withdraw", || {
                        format!("{name}: {wish} was not subscribed any more: {status}")
                    });
                    self.audit.doubt(context);
                }
                let forgotten = !status.is_ok() && firm;
                self.remove(&wish, context);
                forgotten.then_some(Outcome::Forgotten(wish))
            }
            _ if status.is_ok() => {
                state.enter(Phase::Standing, None);
                (state.standing, state.held) = (true, true);
                self.audit.change(wish);
                self.replan(context);
                self.audit.schedule(context);
                Some(Outcome::Standing)
            }
            _ => {
                let name = &self.name;
                context.log(Level::Warning, "refused", || {
                    format!("{name}: the SA refused to subscribe {wish}: {status}")
                });
                let again = context.now + context.around(context.settings.longest_pause);
                state.enter(Phase::Idle, Some(again));
                // One that refuses to renew it may have it still, or have it of a request whose answer was lost.
                (state.asked, state.standing, state.refused) =
                    (state.held || state.asked_before, false, true);
                // Nobody may want it any more.
                self.replan(context);
                let denied = wish.needs_trust() || status == Status::DENIED;
                Some(Outcome::Failed(wish, if denied { -libc::EACCES } else { -libc::EINVAL }))
            }
        }
    }

    /// A request that the transport could not bring to an answer.
    pub fn send_failed(&mut self, tid: u32, context: &mut Context<'_>) -> Option<Outcome> {
        let (&wish, state) = self.subscriptions.iter().find(|(_, state)| state.tids.last() == Some(&tid))?;
        matches!(state.phase, Phase::Asking | Phase::Withdrawing)
            .then(|| self.unanswered(wish, -libc::ETIMEDOUT, context))?
    }

    /// No answer, or none that says anything.
    pub(super) fn unanswered(
        &mut self,
        wish: Subscription,
        status: i32,
        context: &mut Context<'_>,
    ) -> Option<Outcome> {
        let state = self.subscriptions.get_mut(&wish)?;
        state.attempt += 1;
        // One that was not answered may have been heard.
        state.firm &= status == -libc::EBUSY;
        let attempt = state.attempt;
        let pause = context.pause(attempt - 1);
        state.due = Some(context.now + pause);
        let exhausted = attempt >= context.settings.attempts;
        match state.phase {
            Phase::Asking | Phase::Idle | Phase::Standing => {
                state.phase = Phase::Idle;
                if exhausted {
                    let (name, sm) = (&self.name, self.state.sm_lid);
                    context.log(Level::Warning, "silent", || {
                        let what = if status == -libc::EBUSY { "is busy" } else { "does not answer" };
                        format!("{name}: the SA at LID {sm} {what}: {wish} is not subscribed after {attempt} requests")
                    });
                }
                self.replan(context);
                exhausted.then_some(Outcome::Failed(wish, status))
            }
            Phase::Leaving | Phase::Withdrawing => {
                state.phase = Phase::Leaving;
                if exhausted {
                    let name = &self.name;
                    context.log(Level::Warning, "kept", || {
                        format!("{name}: the SA does not answer the end of {wish}; it may keep it")
                    });
                }
                // While others get notices here, its reports come as well and have to be known for what they are.
                if exhausted && self.wishes.is_empty() {
                    self.audit.doubt(context);
                    self.remove(&wish, context);
                } else if self.planned.contains(&wish) {
                    self.replan(context);
                }
                None
            }
        }
    }

    fn remove(&mut self, wish: &Subscription, context: &mut Context<'_>) {
        self.subscriptions.remove(wish);
        self.ended.retain(|(until, one)| context.now < *until && one != wish);
        self.ended.push((context.now + OVERLAP_AFTER, *wish));
        self.audit.change(*wish);
        self.replan(context);
    }
}
