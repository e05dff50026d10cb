//! Reports, as many at once as the programs that get them have room for.

use std::io::{PipeReader, Read};

use ibv_sa_daemon::transport::embedded::Embedded;
use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::{Gid, Trap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::{LIMIT, Outcome};

/// What the reports are about.
pub const TRAP: u16 = 64;

/// What goes through the daemon.
#[derive(Clone, Copy)]
pub struct Load {
    /// Programs.
    pub clients: usize,
    /// Of each.
    pub registrations: usize,
    /// Reports of the SA.
    pub reports: usize,
    /// After so many of them, each program says that it has got them.
    pub chunk: usize,
}

impl Load {
    /// As the arguments of a program.
    pub fn words(&self) -> [String; 3] {
        [self.registrations, self.reports, self.chunk].map(|number| number.to_string())
    }

    /// From them.
    pub fn parse(words: &[&str]) -> Outcome<Load> {
        let numbers = words.iter().map(|word| word.parse()).collect::<Result<Vec<usize>, _>>()?;
        match numbers[..] {
            [registrations, reports, chunk] => Ok(Load { clients: 1, registrations, reports, chunk }),
            _ => Err("a load has three numbers".into()),
        }
    }

    /// How often each program says that it is so far.
    pub fn parts(&self) -> usize {
        self.reports.div_ceil(self.chunk)
    }

    /// How many notices arrive in all.
    pub fn deliveries(&self) -> usize {
        self.clients * self.registrations * self.reports
    }
}

/// What the programs have said.
pub struct Credits {
    from: PipeReader,
    of: Vec<usize>,
}

impl Credits {
    /// Of so many programs, none of which has said anything.
    pub fn new(from: PipeReader, clients: usize) -> Credits {
        Credits { from, of: vec![0; clients] }
    }

    /// Waits until all have said so many words.
    pub fn wait_for(&mut self, words: usize) -> Outcome<()> {
        let mut bytes = [0; 256];
        while self.of.iter().any(|said| *said < words) {
            let mut ready = [PollFd::new(&self.from, PollFlags::IN)];
            if poll(&mut ready, Some(&Timespec::try_from(LIMIT)?))? == 0 {
                return Err("notices do not arrive".into());
            }
            let length = self.from.read(&mut bytes)?;
            if length == 0 {
                return Err("the programs have ended".into());
            }
            for byte in &bytes[..length] {
                *self.of.get_mut(usize::from(*byte)).ok_or("a word of nobody")? += 1;
            }
        }
        Ok(())
    }
}

/// Sends the reports, and waits until all programs have got all of them. `ahead` is how many chunks may be under way.
pub fn feed(
    load: &Load,
    credits: &mut Credits,
    ahead: usize,
    mut report: impl FnMut(u64) -> Outcome<()>,
) -> Outcome<()> {
    for at in 0..load.reports {
        // The first word of all is that they are ready.
        if at % load.chunk == 0 {
            credits.wait_for(1 + (at / load.chunk + 1).saturating_sub(ahead))?;
        }
        report(at as u64 + 1)?;
    }
    credits.wait_for(1 + load.parts())
}

/// A Report of that number arrives, now.
pub fn happen(sa: &Embedded, number: u64) {
    let mut about = [0; 16];
    about[..8].copy_from_slice(&now().to_be_bytes());
    about[8..].copy_from_slice(&number.to_be_bytes());
    sa.happen(&Notice::about_gid(Trap(TRAP), Gid(about), 1, Gid([1; 16])));
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
