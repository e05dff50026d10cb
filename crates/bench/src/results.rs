//! The figures, for people and for machines.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::latency::Latency;
use crate::standing::{Idle, Standing};
use crate::throughput::{Taken, Throughput};

/// Best and median.
fn of_rounds<T: Ord + Copy + Default>(values: impl Iterator<Item = T>) -> (T, T) {
    let mut all: Vec<T> = values.collect();
    all.sort_unstable();
    let median = all.get(all.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    (all.first().copied().unwrap_or_default(), median)
}

fn programs(clients: usize, registrations: usize) -> String {
    let one = if clients == 1 { "program" } else { "programs" };
    format!("{clients} {one} of {registrations}")
}

/// The first table.
pub fn latency(all: &[Latency]) -> String {
    let mut text = String::from(
        "from the Report's arrival to the return of ibv_sa_get_event, us\n\
         registrations                deliveries    p50: best  median    p99: best  median\n",
    );
    let us = |nanoseconds: u32| f64::from(nanoseconds) / 1000.0;
    for one in all {
        let p50 = of_rounds(one.rounds.iter().map(|round| round.0));
        let p99 = of_rounds(one.rounds.iter().map(|round| round.1));
        let _ = writeln!(
            text,
            "{:<28} {:>10}   {:>10.0} {:>7.0}   {:>10.0} {:>7.0}",
            programs(one.clients, one.registrations),
            one.deliveries,
            us(p50.0),
            us(p50.1),
            us(p99.0),
            us(p99.1)
        );
    }
    text.push('\n');
    text
}

/// The same.
pub fn latency_json(one: &Latency) -> Value {
    let p50 = of_rounds(one.rounds.iter().map(|round| round.0));
    let p99 = of_rounds(one.rounds.iter().map(|round| round.1));
    json!({
        "clients": one.clients,
        "registrations": one.clients * one.registrations,
        "deliveries": one.deliveries,
        "p50_ns_best": p50.0,
        "p50_ns_median": p50.1,
        "p99_ns_best": p99.0,
        "p99_ns_median": p99.1,
    })
}

/// Of one sender: deliveries per second, best and median; nanoseconds on a CPU for each, best and median.
struct Rate {
    best: f64,
    median: f64,
    cpu_best: f64,
    cpu_median: f64,
}

fn rate(rounds: &[Taken], deliveries: usize) -> Rate {
    let time = of_rounds(rounds.iter().map(|round| round.time));
    let cpu = of_rounds(rounds.iter().map(|round| round.cpu));
    let count = deliveries as f64;
    Rate {
        best: count * 1e9 / time.0 as f64,
        median: count * 1e9 / time.1 as f64,
        cpu_best: cpu.0 as f64 / count,
        cpu_median: cpu.1 as f64 / count,
    }
}

/// The second table.
pub fn throughput(all: &[Throughput]) -> String {
    let mut text = String::from(
        "                             deliveries a second, thousands            the sender's CPU, ns for each\n\
         registrations                bare: best  median  daemon: best  median  bare: best  median  daemon: best  median\n",
    );
    let mut shares = String::new();
    for one in all {
        let (bare, daemon) = (rate(&one.bare, one.deliveries), rate(&one.daemon, one.deliveries));
        let name = programs(one.clients, one.registrations);
        let _ = writeln!(
            text,
            "{name:<28} {:>10.0} {:>7.0} {:>13.0} {:>7.0} {:>11.0} {:>7.0} {:>13.0} {:>7.0}",
            bare.best / 1e3,
            bare.median / 1e3,
            daemon.best / 1e3,
            daemon.median / 1e3,
            bare.cpu_best,
            bare.cpu_median,
            daemon.cpu_best,
            daemon.cpu_median
        );
        let _ = writeln!(
            shares,
            "{name:<28} the daemon delivers {:.0} % of what the bare loop does (best), {:.0} % (median)",
            100.0 * daemon.best / bare.best,
            100.0 * daemon.median / bare.median
        );
    }
    format!("{text}{shares}\n")
}

/// The same.
pub fn throughput_json(one: &Throughput) -> Value {
    let sender = |rounds: &[Taken]| {
        let rate = rate(rounds, one.deliveries);
        json!({
            "per_second_best": rate.best,
            "per_second_median": rate.median,
            "cpu_ns_best": rate.cpu_best,
            "cpu_ns_median": rate.cpu_median,
        })
    };
    json!({
        "clients": one.clients,
        "registrations": one.clients * one.registrations,
        "deliveries": one.deliveries,
        "bare": sender(&one.bare),
        "daemon": sender(&one.daemon),
    })
}

/// The third table.
pub fn standing(all: &[Standing]) -> String {
    let mut text = String::from(
        "the daemon with                                   VmRSS: none      all  bytes each   idle for  CPU, us  wake-ups\n",
    );
    for one in all {
        let name = format!("{} registrations of {} programs, {}", one.registrations, one.clients, one.what);
        let _ = write!(
            text,
            "{name:<49} {:>7.1} MB {:>5.1} MB {:>11}",
            one.memory[0] as f64 / 1024.0,
            one.memory[1] as f64 / 1024.0,
            bytes_each(one)
        );
        if let Some(Idle { time, cpu, wakes }) = &one.idle {
            let _ = write!(text, " {time:>8} s {:>8.0} {wakes:>9}", *cpu as f64 / 1000.0);
        }
        text.push('\n');
    }
    text
}

fn bytes_each(one: &Standing) -> u64 {
    one.memory[1].saturating_sub(one.memory[0]) * 1024 / one.registrations as u64
}

/// The same.
pub fn standing_json(one: &Standing) -> Value {
    json!({
        "traps": one.what,
        "clients": one.clients,
        "registrations": one.registrations,
        "rss_kib_without": one.memory[0],
        "rss_kib": one.memory[1],
        "bytes_each": bytes_each(one),
        "idle_s": one.idle.as_ref().map(|idle| idle.time),
        "idle_cpu_ns": one.idle.as_ref().map(|idle| idle.cpu),
        "idle_wakes": one.idle.as_ref().map(|idle| idle.wakes),
    })
}
