//! What every part of the engine needs while it handles one event.

use std::collections::HashMap;

use super::policy::Settings;
use super::types::{Action, Level, Record};

const SECOND: u64 = 1_000_000_000;

/// Numbers that need not be good, only different on every host: xorshift64*.
pub struct Random(u64);

impl Random {
    /// Any seed will do.
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `limit`, or 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next() % limit }
    }
}

/// At most one line of a kind a second.
#[derive(Default)]
pub struct Limiter {
    kinds: HashMap<&'static str, (u64, u64)>,
}

impl Limiter {
    /// The number of lines left out before this one, or `None` if this one is left out.
    pub fn admit(&mut self, now: u64, kind: &'static str) -> Option<u64> {
        let (next, suppressed) = self.kinds.entry(kind).or_insert((0, 0));
        if now < *next {
            *suppressed += 1;
            return None;
        }
        *next = now + SECOND;
        Some(std::mem::take(suppressed))
    }
}

/// Passed down while one event is handled.
pub struct Context<'a> {
    /// When it happened.
    pub now: u64,
    /// Times and limits.
    pub settings: &'a Settings,
    /// For jitter.
    pub random: &'a mut Random,
    /// What is to be done.
    pub actions: &'a mut Vec<Action>,
    /// For the log.
    pub limiter: &'a mut Limiter,
}

impl Context<'_> {
    /// A line of the log, unless one of its kind was written within a second.
    pub fn log(&mut self, level: Level, kind: &'static str, text: impl FnOnce() -> String) {
        if let Some(suppressed) = self.limiter.admit(self.now, kind) {
            self.actions.push(Action::Log(Record { level, kind, text: text(), suppressed }));
        }
    }

    /// Something between half of `time` and one and a half.
    pub fn around(&mut self, time: u64) -> u64 {
        time / 2 + self.random.below(time)
    }

    /// The pause before the next try after so many.
    pub fn pause(&mut self, attempt: u32) -> u64 {
        let pause = self.settings.pause.saturating_mul(1 << attempt.min(16)).min(self.settings.longest_pause);
        self.around(pause)
    }
}
