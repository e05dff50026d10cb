//! Deliveries per second: the daemon beside the bare loop.

use std::process::Command;
use std::time::Instant;

use crate::bare::Bare;
use crate::feed::{Credits, Load, feed, happen};
use crate::host::Host;
use crate::programs::Programs;
use crate::{Fault, LIMIT, Outcome, say};

/// Programs and registrations of each.
const CASES: [(usize, usize); 4] = [(1, 1000), (10, 100), (100, 10), (100, 1)];
/// Notices of a round.
const DELIVERIES: usize = 100_000;
/// Notices of a chunk: for one program, so that three chunks fit into its queue in the daemon, and for all.
const CHUNK_OF_ONE: usize = 2000;
const CHUNK: usize = 20_000;
const AHEAD: usize = 3;

/// One case.
pub struct Throughput {
    /// Programs.
    pub clients: usize,
    /// Of each.
    pub registrations: usize,
    /// Of one round.
    pub deliveries: usize,
    /// What the daemon took, each round.
    pub daemon: Vec<Taken>,
    /// What the bare loop took, each round.
    pub bare: Vec<Taken>,
}

/// Time of all deliveries of a round, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Taken {
    /// From the first report to the word of the last program that it has all.
    pub time: u64,
    /// On a CPU, of the sending thread alone.
    pub cpu: u64,
}

/// All cases, daemon and loop in turn.
pub fn measure(rounds: usize) -> Outcome<Vec<Throughput>> {
    let case = |&(clients, registrations): &(usize, usize)| {
        let all = clients * registrations;
        let chunk = (CHUNK_OF_ONE / registrations).min(CHUNK / all).max(1);
        Load { clients, registrations, reports: DELIVERIES / all, chunk }
    };
    let loads: Vec<Load> = CASES.iter().map(case).collect();
    let mut results: Vec<Throughput> = loads
        .iter()
        .map(|load| Throughput {
            clients: load.clients,
            registrations: load.registrations,
            deliveries: load.deliveries(),
            daemon: Vec::new(),
            bare: Vec::new(),
        })
        .collect();
    for round in 0..rounds {
        say(&format!("deliveries: round {} of {rounds}", round + 1));
        for (result, load) in results.iter_mut().zip(&loads) {
            // Each goes first in its turn.
            if round % 2 == 0 {
                result.daemon.push(of_daemon(load)?);
                result.bare.push(of_bare(load)?);
            } else {
                result.bare.push(of_bare(load)?);
                result.daemon.push(of_daemon(load)?);
            }
        }
    }
    Ok(results)
}

fn of_daemon(load: &Load) -> Outcome<Taken> {
    let host = Host::new()?;
    let (programs, mut credits) = readers("daemon", &host.socket(), load)?;
    credits.wait_for(1)?;
    let taken = taken(
        || host.cpu_time(),
        || {
            feed(load, &mut credits, AHEAD, |number| {
                happen(&host.sa, number);
                Ok(())
            })
        },
    )?;
    programs.finish()?;
    Ok(taken)
}

fn of_bare(load: &Load) -> Outcome<Taken> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("bare.sock");
    let (bare, ready) = Bare::start(&socket, *load)?;
    let (programs, mut credits) = readers("bare", &socket, load)?;
    ready.recv_timeout(LIMIT)?;
    credits.wait_for(1)?;
    let taken = taken(|| bare.cpu_time(), || feed(load, &mut credits, AHEAD, |_| bare.report()))?;
    programs.finish()?;
    bare.finish()?;
    Ok(taken)
}

fn readers(from: &str, socket: &std::path::Path, load: &Load) -> Outcome<(Programs, Credits)> {
    let (reader, writer) = std::io::pipe()?;
    let own = std::env::current_exe()?;
    let programs = Programs::start(load.clients, writer, |number| {
        let mut command = Command::new(&own);
        command.args(["reader", from]).arg(socket).arg(number.to_string()).args(load.words());
        command
    })?;
    Ok((programs, Credits::new(reader, load.clients)))
}

fn taken(cpu: impl Fn() -> Outcome<u64>, run: impl FnOnce() -> Outcome<()>) -> Outcome<Taken> {
    let (before, start) = (cpu()?, Instant::now());
    run()?;
    let time = u64::try_from(start.elapsed().as_nanos()).map_err(Fault::from)?;
    Ok(Taken { time, cpu: cpu()? - before })
}
