//! Programs that are in the daemon's way: others have all that is theirs meanwhile.

#[path = "../../crates/sa-daemon/tests/common/mod.rs"]
mod common;
#[path = "../../crates/sa-daemon/tests/common/fabric.rs"]
mod fabric;
#[path = "sa_fabric/flow.rs"]
mod flow;
#[path = "sa_fabric/host.rs"]
mod host;

use std::time::{Duration, Instant};

use common::{Client, Heard};
use fabric::Fabric;
use flow::{Flow, end, go_on, obey, program};
use host::{DEVICE, Host, LIMIT, Talk};
use ibv_sa_wire::{Filter, Trap};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

const ONE: u32 = 1001;
const OTHER: u32 = 1002;
/// Any number that no SM makes.
const TRAP: u16 = 1234;

#[test]
fn a_program_that_is_stopped_is_told_how_much_it_lost() {
    let mut host = Host::at(Fabric::in_order(), "Hca4");
    host.govern(&format!("[[override]]\nusers = [{OTHER}]\nqueued_per_connection = 400\n"));
    let flow = Flow::start(&host.fabric, &[TRAP]);
    let mut others = [program(&host, ONE, TRAP, false)];
    let mut stopped = [program(&host, OTHER, TRAP, false)];
    go_on(&mut stopped, &flow);
    for times in 1..=2 {
        let pid = Pid::from_child(&stopped[0].child);
        kill_process(pid, Signal::STOP).expect("it runs");
        let lost = || host.status()["counters"]["lost"].as_u64().expect("a number");
        let (before, end_by) = (lost(), Instant::now() + LIMIT);
        // So much that each of its registrations has lost some.
        while lost() < before + 200 {
            assert!(Instant::now() < end_by, "nothing is lost: {}", host.status());
            std::thread::sleep(Duration::from_millis(20));
        }
        go_on(&mut others, &flow);
        // While it catches up it could lose more.
        flow.pause(true);
        obey(&mut others, &format!("until {}", flow.sent()));
        kill_process(pid, Signal::CONT).expect("it is there");
        obey(&mut stopped, &format!("until {}", flow.sent()));
        obey(&mut stopped, &format!("told 0 {times}"));
        flow.pause(false);
        go_on(&mut stopped, &flow);
    }
    obey(&mut others, "told 0 0");
    end(others.into_iter().chain(stopped).collect(), &host);
}

#[test]
fn without_descriptors_the_daemon_serves_those_it_has() {
    let host = Host::at(Fabric::in_order(), "Hca4");
    let flow = Flow::start(&host.fabric, &[TRAP]);
    let mut programs = [program(&host, ONE, TRAP, false)];
    let pid = host.daemon_pid();
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count();
    let most = Some(descriptors() as u64 + 8);
    let limit = Rlimit { current: most, maximum: most };
    let pid = Pid::from_raw(pid as i32).expect("not 0");
    prlimit(Some(pid), Resource::Nofile, limit).expect("it is ours");
    // They say nothing, and the last ones are not even accepted.
    let silent: Vec<Client> = (0..20).map(|_| Client::connect(&host.socket())).collect();
    let end_by = Instant::now() + LIMIT;
    while !host.log().contains("warning: no connection is accepted for a second: Too many open files") {
        assert!(Instant::now() < end_by, "it says nothing of it: {}", host.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..5 {
        go_on(&mut programs, &flow);
    }
    obey(&mut programs, "told 0 0");
    drop(silent);
    // They are forgotten, and there is room again.
    let late = Client::new(&host.socket());
    late.registered(1, DEVICE, Filter::trap(Trap(TRAP)));
    assert!(matches!(late.hear(LIMIT), Heard::Notice(1, 1, _)));
    go_on(&mut programs, &flow);
    drop((late, flow));
    end(programs.into(), &host);
}

#[test]
fn a_program_that_dies_before_its_registration_stands() {
    let host = Host::new();
    let witness = Client::new(&host.socket());
    witness.registered(1, DEVICE, Filter::trap(Trap(65)));
    host.fabric.signal("main", Signal::STOP);
    let hasty = || {
        let mut command = host.as_user(ONE, &host.public().join("ibv-sa"));
        command.args(["monitor", "--device", DEVICE, "--trap", "64"]);
        Talk::start(command)
    };
    let mut hasty: Vec<Talk> = (0..10).map(|_| hasty()).collect();
    let registrations = || host.status()["ports"][0]["registrations"].as_u64();
    let until = |count| {
        let end_by = Instant::now() + LIMIT;
        while registrations() != Some(count) {
            assert!(Instant::now() < end_by, "not {count} registrations: {}", host.status());
        }
    };
    until(11);
    hasty.iter_mut().for_each(|one| assert_eq!(one.signal(Signal::KILL).code(), None));
    until(1);
    host.fabric.signal("main", Signal::CONT);
    host.fabric.wait_for_subscriptions(&["65"]);
    host.fabric.unlink("Hca3");
    assert!(matches!(witness.hear(LIMIT), Heard::Notice(1, 1, _)));
    drop(witness);
    host.fabric.wait_for_subscriptions(&[]);
}
