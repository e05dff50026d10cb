//! Programs that arm a CQ and wait: those that may miss a completion are told, once for each place, and no others.

use ibv_sa_tests::ledger::{all_at_once, incidents, pairs, with_report};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run, cc, is_valid, scripted_dir};
use serde_json::Value;

fn run(what: &str, mode: &str, flavour: Flavour) -> (Outcome, Value) {
    let flags = [&*format!("-L{}", scripted_dir().display()), "-Ictests", "-libverbs"];
    let program = cc("ctests/completions/lint_waits.c", &flags);
    let run = Run::new(program).arg(what).scripted().shim(flavour).env("IBV_SA_CQ", mode);
    let (outcome, report) = with_report(run);
    assert!(is_valid(&report), "{report:#}");
    (outcome.assert_ok(), report)
}

const ARMED: &str =
    "ibv_get_cq_event at lint_waits-*+0x*: thread * waits for {cq}, which was armed after its last poll: *";
const FULL: &str =
    "ibv_get_cq_event at lint_waits-*+0x*: thread * waits for {cq}, whose last poll filled the array: *";

#[test]
fn what_may_be_missed_is_said_once_for_each_place() {
    let cases: [(&str, &str, &[&str]); 3] = [
        ("bad_arm", "armed_without_poll", &[ARMED]),
        ("bad_arm_again", "armed_without_poll", &[ARMED, ARMED]),
        ("bad_full", "full_poll", &[FULL]),
    ];
    all_at_once(pairs(&cases, &FLAVOURS), |((what, kind, says), flavour)| {
        let (outcome, report) = run(what, "full", flavour);
        outcome.assert_says(says);
        assert_eq!(incidents(&report, kind).len(), says.len(), "{report:#}");
        // Two places are two.
        let lines = outcome.messages();
        assert!(lines.len() < 2 || lines[0] != lines[1], "{outcome}");
        run(what, "errors", flavour).0.assert_says(&[]);
    });
}

#[test]
fn what_is_right_is_not_spoken_of() {
    let right = [
        ("poll_after_arm", 0.0),
        ("until_empty", 0.0),
        // As a pingpong does, which has one message on its way.
        ("one_of_one", 0.0),
        ("arm_first", 0.0),
        ("post_after_arm", 0.0),
        ("nothing_posted", 0.0),
        ("solicited", 0.0),
        ("event_is_there", 1.0),
        ("still_armed", 0.0),
        ("other_cq", 0.0),
    ];
    all_at_once(pairs(&right, &FLAVOURS), |((what, events), flavour)| {
        let (outcome, _) = run(what, "full", flavour);
        outcome.assert_says(&[]);
        assert_eq!(outcome.number("events"), events, "{outcome}");
    });
}
