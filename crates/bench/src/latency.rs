//! How long a notice takes from the arrival of its Report until `ibv_sa_get_event` returns it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::feed::{Credits, Load, feed, happen};
use crate::host::Host;
use crate::programs::Programs;
use crate::{Outcome, say};

/// Between two reports, so that the daemon and the programs sleep when the next one comes.
const PAUSE: Duration = Duration::from_micros(200);

/// Programs, registrations of each, reports of a round.
const CASES: [(usize, usize, usize); 4] = [(1, 1, 500), (1, 1000, 20), (10, 100, 20), (100, 10, 20)];

/// One case.
pub struct Latency {
    /// Programs.
    pub clients: usize,
    /// Of each.
    pub registrations: usize,
    /// Of all rounds together.
    pub deliveries: usize,
    /// Of each round: half of the notices took no longer, and 99 of 100. Nanoseconds.
    pub rounds: Vec<(u32, u32)>,
}

/// All cases, in turn.
pub fn measure(program: &Path, rounds: usize) -> Outcome<Vec<Latency>> {
    let mut results: Vec<Latency> = CASES
        .iter()
        .map(|&(clients, registrations, _)| Latency {
            clients,
            registrations,
            deliveries: 0,
            rounds: Vec::new(),
        })
        .collect();
    for round in 0..rounds {
        say(&format!("latency: round {} of {rounds}", round + 1));
        for (result, &(clients, registrations, reports)) in results.iter_mut().zip(&CASES) {
            let times = one(program, &Load { clients, registrations, reports, chunk: 1 })?;
            result.deliveries += times.len();
            result.rounds.push((share(&times, 50), share(&times, 99)));
        }
    }
    Ok(results)
}

/// How long each delivery took, sorted.
fn one(program: &Path, load: &Load) -> Outcome<Vec<u32>> {
    let (host, files) = (Host::new()?, tempfile::tempdir()?);
    let (reader, writer) = std::io::pipe()?;
    let file = |number: usize| files.path().join(number.to_string());
    let programs = Programs::start(load.clients, writer, |number| {
        let mut command = Command::new(program);
        command
            .env("IBV_SA_SOCKET", host.socket())
            .arg(number.to_string())
            .args(load.words())
            .arg(file(number));
        command
    })?;
    feed(load, &mut Credits::new(reader, load.clients), 1, |number| {
        std::thread::sleep(PAUSE);
        happen(&host.sa, number);
        Ok(())
    })?;
    programs.finish()?;
    let mut times = Vec::new();
    for number in 0..load.clients {
        let bytes = fs::read(file(number))?;
        times.extend(bytes.as_chunks().0.iter().map(|time| u32::from_ne_bytes(*time)));
    }
    if times.len() != load.deliveries() {
        return Err(format!("{} times of {} deliveries", times.len(), load.deliveries()).into());
    }
    times.sort_unstable();
    Ok(times)
}

/// The time that so many of 100 do not exceed.
fn share(sorted: &[u32], percent: usize) -> u32 {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
}
