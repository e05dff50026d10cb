//! Children made in every way use RDMA on their own and start with an empty report; the parent goes on as
//! if there had been none.

use std::time::Duration;

use ibv_sa_tests::{
    FLAVOURS, Flavour, Outcome, Run, acks_after, assert_report, device_after, harmless, with_reports,
};
use serde_json::{Value, json};

fn check_parent(report: &Value, busy: bool) {
    let mut device = device_after(3, 2, 2);
    let mut acks = acks_after(3);
    if busy {
        device["async_events"]["GID_CHANGE"] = json!(1);
        acks["GID_CHANGE"] = json!(1);
    }
    assert_report(report, device, acks);
}

fn forked(form: &str, busy: bool) {
    let program = harmless("forks");
    let run = |flavour: Option<Flavour>| {
        let run = Run::new(&program).arg(form).args(busy.then_some("busy"));
        run.scripted().shim_if(flavour)
    };
    let plain = run(None).run().assert_ok();
    let says_child = form != "vfork";
    let child = if says_child { "child: two rounds\n" } else { "" };
    let parent = "child ended with 3\nanother thread: one round\nanother thread: one round\n";
    assert_eq!(plain.stdout, format!("{child}{parent}"));
    for flavour in FLAVOURS {
        run(Some(flavour)).run().assert_same(&plain);
        let (outcome, reports) = with_reports(run(Some(flavour)));
        outcome.assert_same(&plain);
        if says_child {
            assert_eq!(reports.len(), 2, "{outcome}");
            assert_report(&reports[0], device_after(2, 2, 2), acks_after(2));
            check_parent(&reports[1], busy);
        } else {
            assert_eq!(reports.len(), 1, "{outcome}");
            check_parent(&reports[0], busy);
        }
        // What is wrong with the settings is said once, not again by each child of the same program.
        let noisy = run(Some(flavour)).env("IBV_SA_NO_SUCH_SETTING", "1").run();
        let lines = if form == "spawn" { 2 } else { 1 };
        assert_eq!(noisy.shim_lines().len(), lines, "{noisy}");
        assert_eq!((noisy.code, &noisy.stdout), (plain.code, &plain.stdout));
    }
}

#[test]
fn fork() {
    forked("fork", false);
    forked("fork", true);
}

#[test]
fn fork_without_atfork_handlers() {
    forked("_Fork", false);
    forked("_Fork", true);
}

#[test]
fn clone_system_call() {
    forked("clone", false);
    forked("clone", true);
}

#[test]
fn vfork_and_exit() {
    forked("vfork", false);
    forked("vfork", true);
}

#[test]
fn posix_spawn() {
    forked("spawn", false);
    forked("spawn", true);
}

/// The number that the program prints to stderr, which is another one in every run.
fn rounds(run: &Outcome) -> u64 {
    let number = run.stderr.strip_prefix("rounds ").and_then(|rest| rest.trim().parse().ok());
    number.unwrap_or_else(|| panic!("{run}"))
}

#[test]
fn many_forks_while_eight_threads_take_events() {
    const CHILDREN: u64 = 40;
    let program = harmless("fork_storm");
    for flavour in [None, Some(FLAVOURS[0]), Some(FLAVOURS[1])] {
        let run = Run::new(&program).arg(CHILDREN.to_string()).scripted().shim_if(flavour);
        let (outcome, mut reports) = with_reports(run.timeout(Duration::from_secs(60)));
        assert_eq!(outcome.stdout, format!("good children: {CHILDREN} of {CHILDREN}\n"), "{outcome}");
        let rounds = rounds(&outcome);
        assert!(rounds > CHILDREN, "the threads hardly ran: {outcome}");
        if flavour.is_none() {
            assert!(reports.is_empty());
            continue;
        }
        assert_eq!(reports.len() as u64, CHILDREN + 1);
        let parent = reports.pop().expect("the parent's counts are the highest");
        assert_report(&parent, device_after(rounds, 8, 8), acks_after(rounds));
        for child in &reports {
            assert_report(child, device_after(2, 2, 2), acks_after(2));
        }
    }
}
