//! Daemon and programs that are killed while notices flow: whoever is left goes on, with each notice once.

#[path = "../../crates/sa-daemon/tests/common/mod.rs"]
mod common;
#[path = "../../crates/sa-daemon/tests/common/fabric.rs"]
mod fabric;
#[path = "sa_fabric/flow.rs"]
mod flow;
#[path = "sa_fabric/host.rs"]
mod host;

use std::time::{Duration, Instant};

use fabric::Fabric;
use flow::{Flow, end, go_on, obey, program};
use host::{Host, LIMIT};
use rustix::process::Signal;
use serde_json::Value;

const ONE: u32 = 1001;
const OTHER: u32 = 1002;
/// Any number that no SM makes, and another one.
const TRAP: u16 = 1234;
const VICTIMS: u16 = 1235;

fn rounds() -> usize {
    if std::env::var_os("SOAK").is_some() { 100 } else { 10 }
}

#[test]
fn a_daemon_that_is_killed_under_load() {
    let mut host = Host::at(Fabric::in_order(), "Hca4");
    let flow = Flow::start(&host.fabric, &[TRAP]);
    let mut programs = Vec::from([ONE, ONE, OTHER].map(|uid| program(&host, uid, TRAP, true)));
    go_on(&mut programs, &flow);
    // Memory in KiB and descriptors, of each program and after each round.
    let mut sizes: Vec<Vec<(u64, u64)>> = vec![Vec::new(); programs.len()];
    for round in 1..=rounds() {
        // Wherever it is.
        std::thread::sleep(Duration::from_millis(13 * (round as u64 % 8)));
        host.kill();
        flow.pause(true);
        obey(&mut programs, "free");
        host.start();
        obey(&mut programs, &format!("back {round}"));
        flow.pause(false);
        go_on(&mut programs, &flow);
        for (program, sizes) in programs.iter_mut().zip(&mut sizes) {
            program.says("measure");
            let line = program.line();
            let (memory, descriptors) = line.split_once(' ').expect("two numbers");
            let number = |text: &str| text.parse().expect("a number");
            sizes.push((number(memory), number(descriptors)));
        }
    }
    println!("KiB and descriptors after each kill: {sizes:?}");
    for sizes in sizes {
        assert!(sizes.iter().all(|(_, descriptors)| *descriptors == sizes[0].1), "{sizes:?}");
        // The kernel gives pages in groups: the least of the last third against the most of the first.
        let third = sizes.len() / 3;
        let most = sizes[..third].iter().map(|(memory, _)| *memory).max();
        let least = sizes[sizes.len() - third..].iter().map(|(memory, _)| *memory).min();
        assert!(least < most.map(|most| most + 512), "{sizes:?}");
    }
    end(programs, &host);
}

#[test]
fn programs_that_are_killed_with_events_in_their_hands() {
    let host = Host::at(Fabric::in_order(), "Hca4");
    let flow = Flow::start(&host.fabric, &[TRAP, VICTIMS]);
    let mut others = Vec::from([ONE, OTHER].map(|uid| program(&host, uid, TRAP, false)));
    for _ in 0..rounds() {
        let mut victims = [program(&host, ONE, VICTIMS, true)];
        go_on(&mut victims, &flow);
        assert_eq!(victims[0].signal(Signal::KILL).code(), None);
        go_on(&mut others, &flow);
    }
    let end_by = Instant::now() + LIMIT;
    // The others and who asks, and what the others want.
    let is_as_before = |status: &Value| {
        let list = |value: &Value| value.as_array().map(Vec::len);
        (list(&status["clients"]), list(&status["ports"][0]["subscriptions"]))
            == (Some(others.len() + 1), Some(1))
    };
    while !is_as_before(&host.status()) {
        assert!(Instant::now() < end_by, "something of the dead is left: {}", host.status());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(host.status()["counters"]["lost"], 0);
    end(others, &host);
}
