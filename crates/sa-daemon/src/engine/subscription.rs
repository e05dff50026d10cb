//! One subscription of a port and where it stands with the SA.

use super::fault::{self, Fault};

/// Where a subscription stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Wanted; the request goes out when due.
    Idle,
    /// The request is out; due when its answer is overdue.
    Asking,
    /// The SA has it.
    Standing,
    /// Not wanted any more; goes when due.
    Leaving,
    /// The request to end it is out; due when its answer is overdue.
    Withdrawing,
}

/// One subscription.
#[derive(Debug)]
pub struct State {
    /// Where it stands.
    pub phase: Phase,
    /// When the next step has to be taken; never if the port is not ready.
    pub due: Option<u64>,
    /// Requests of this phase without success.
    pub attempt: u32,
    /// The SA confirmed it and nothing has happened since that may have ended it.
    pub standing: bool,
    /// A request went out and nobody knows what became of it.
    pub asked: bool,
    /// So it was before the last request: of the earlier ones nobody will ever know.
    pub asked_before: bool,
    /// The SA confirmed it once, and nobody has ended it.
    pub held: bool,
    /// The SA said no to the last request.
    pub refused: bool,
    /// It stood, as far as anybody knew, when the first request to end it went out, and the SA has heeded none.
    pub firm: bool,
    /// Found in the SA's table under our name without our asking. It may belong to another queue pair, so it
    /// serves nobody.
    pub stray: bool,
    /// Transaction ids of this phase's requests, late answers included.
    pub tids: Vec<u32>,
}

impl State {
    /// Wanted from `due` on.
    pub fn wanted(due: Option<u64>) -> Self {
        State {
            phase: Phase::Idle,
            due,
            attempt: 0,
            standing: false,
            asked: false,
            asked_before: false,
            held: false,
            refused: false,
            firm: false,
            stray: false,
            tids: Vec::new(),
        }
    }

    /// Found in the SA's table.
    pub fn stray(due: u64) -> Self {
        State { phase: Phase::Leaving, stray: true, ..State::wanted(Some(due)) }
    }

    /// Starts a phase: answers to requests of the one before do not count any more.
    pub fn enter(&mut self, phase: Phase, due: Option<u64>) {
        let tids = if fault::is(Fault::StaleTid) { std::mem::take(&mut self.tids) } else { Vec::new() };
        *self = State { phase, due, attempt: 0, refused: false, firm: false, tids, ..*self };
    }

    /// Does the SA send reports for it, as far as anybody knows?
    pub fn serves(&self) -> bool {
        self.standing && !self.stray
    }

    /// May the SA send reports for it?
    pub fn may_report(&self) -> bool {
        self.standing || self.stray || self.asked
    }
}

/// How many requests a port may still send: a bucket that fills at a steady rate.
#[derive(Debug, Default)]
pub struct Budget {
    /// When the bucket would be full again; one request moves it by one interval.
    full_at: u64,
}

impl Budget {
    /// Takes one, or says when there is one.
    pub fn take(&mut self, now: u64, burst: u32, per_second: u32) -> Result<(), u64> {
        let interval = 1_000_000_000 / u64::from(per_second.max(1));
        let ahead = self.full_at.saturating_sub(now);
        let most = interval * u64::from(burst.saturating_sub(1));
        if ahead > most {
            return Err(now + (ahead - most));
        }
        self.full_at = now.max(self.full_at) + interval;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_allows_a_burst_then_a_rate() {
        let mut budget = Budget::default();
        let mut now = 0;
        let mut sent = Vec::new();
        while sent.len() < 45 {
            match budget.take(now, 5, 20) {
                Ok(()) => sent.push(now),
                Err(next) => now = next,
            }
        }
        assert_eq!(sent[4], 0);
        assert_eq!(sent[5], 50_000_000);
        assert_eq!(sent[44], 2_000_000_000);
    }
}
