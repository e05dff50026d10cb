//! Most of a fabric goes and comes back while 50 programs listen: each gets all of it, with the limits as they are.

#[path = "../../crates/sa-daemon/tests/common/mod.rs"]
mod common;
#[path = "../../crates/sa-daemon/tests/common/fabric.rs"]
mod fabric;
#[path = "sa_fabric/host.rs"]
mod host;

use std::time::{Duration, Instant};

use fabric::Fabric;
use host::{Host, LIMIT, Talk};
use rustix::process::{Pid, Signal, kill_process};

const USER: u32 = 1001;
const HCAS: usize = 200;
/// Not among them are the SM, who asks it, and the daemon.
const LEAVING: std::ops::Range<usize> = 30..180;
const PROGRAMS: usize = 50;
/// Of each of the two traps, in each program.
const REGISTRATIONS: usize = 20;
/// Of each trap.
const DELIVERIES: usize = LEAVING.end.abs_diff(LEAVING.start) * PROGRAMS * REGISTRATIONS;

#[test]
fn a_burst_reaches_every_registration_once() {
    // OpenSM does not hear of all that comes back, as switches have said too much by then: it looks every second.
    let host = Host::at(Fabric::tree(HCAS, 20, &["-s", "1"]), "H199");
    let (registrations, gids) = (REGISTRATIONS.to_string(), LEAVING.len().to_string());
    let start = |_| host.c_program_with(USER, "ctests/sa/burst.c", &[registrations.as_str(), gids.as_str()]);
    let mut programs: Vec<Talk> = (0..PROGRAMS).map(start).collect();
    programs.iter_mut().for_each(|one| one.hears_line("ready"));
    host.fabric.wait_for_subscriptions(&["64", "65"]);
    let all = |command: &str| {
        let commands: Vec<_> = LEAVING.map(|hca| format!("{command} \"H{hca:03}\"")).collect();
        host.fabric.batch(&commands);
    };
    all("Unlink");
    all_have_heard(&mut programs, "65");
    // Nobody reads until all of it is there.
    signal(&programs, Signal::STOP);
    all("ReLink");
    let end = Instant::now() + LIMIT;
    while counters(&host) != (2 * DELIVERIES as u64, 0) {
        assert!(Instant::now() < end, "delivered and lost: {:?}, and each {DELIVERIES}", counters(&host));
        std::thread::sleep(Duration::from_millis(100));
    }
    signal(&programs, Signal::CONT);
    all_have_heard(&mut programs, "64");
    for program in &mut programs {
        program.says_no_more();
        program.hears_line("good");
        assert!(program.wait().success());
    }
    assert_eq!(counters(&host), (2 * DELIVERIES as u64, 0));
    host.fabric.wait_for_subscriptions(&[]);
}

fn all_have_heard(programs: &mut [Talk], trap: &str) {
    let (mut first, mut last) = (u64::MAX, 0);
    for program in programs {
        let line = program.line();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words.len(), words[0]), (3, trap), "{line}");
        let time = |word: &str| word.parse::<u64>().expect("a number");
        (first, last) = (first.min(time(words[1])), last.max(time(words[2])));
    }
    println!("{DELIVERIES} deliveries of trap {trap} in {:?}", Duration::from_nanos(last - first));
}

fn signal(programs: &[Talk], signal: Signal) {
    programs.iter().for_each(|one| kill_process(Pid::from_child(&one.child), signal).expect("it runs"));
}

/// Delivered, lost.
fn counters(host: &Host) -> (u64, u64) {
    let counters = &host.status()["counters"];
    let number = |name: &str| counters[name].as_u64().expect("a number");
    (number("delivered"), number("lost"))
}
