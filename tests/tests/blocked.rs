//! A thread blocked in a get or a destroy is cancelled, hit by a signal, jumped out of, or the program
//! exits around it: all as without the shim, and another thread then uses the same context.

use ibv_sa_tests::{
    FLAVOURS, Outcome, Run, acks_after, assert_report, device_after, harmless, harmless_linked, with_reports,
};
use serde_json::{Value, json};

/// Runs a program of `ctests/harmless` without the shim, preloaded, and linked, in both flavours; all must end
/// and print alike. Returns the first run and the reports of the others.
fn all_ways(program: &str, args: &[&str]) -> (Outcome, Vec<Value>) {
    let plain = Run::new(harmless(program)).args(args).scripted().run();
    assert_eq!(plain.stderr, "");
    let mut found = Vec::new();
    for flavour in FLAVOURS {
        Run::new(harmless(program)).args(args).scripted().shim(flavour).run().assert_same(&plain);
        let preloaded = Run::new(harmless(program)).args(args).scripted().shim(flavour);
        let linked = Run::new(harmless_linked(program, flavour)).args(args).scripted();
        let linked = linked.library_path(ibv_sa_tests::shim_dir(flavour));
        for run in [preloaded, linked] {
            let (outcome, reports) = with_reports(run);
            outcome.assert_same(&plain);
            assert_eq!(reports.len(), 1, "{outcome}");
            found.extend(reports);
        }
    }
    (plain.assert_code_of(program), found)
}

/// What the programs end with when all went well.
trait Ends {
    fn assert_code_of(self, program: &str) -> Self;
}

impl Ends for Outcome {
    fn assert_code_of(self, program: &str) -> Self {
        self.assert_code(if program == "exit_in_handler" { 7 } else { 0 })
    }
}

fn cancelled(call: &str, kind: &str) {
    let (plain, reports) = all_ways("cancel", &[call, kind]);
    let wanted = format!("{call}, {kind}: cancelled, cleanup 11\nanother thread: one round\n");
    assert_eq!(plain.stdout, wanted);
    for report in &reports {
        // One round, and the objects of the first thread, which are never destroyed.
        let mut device = device_after(1, 1, 0);
        for kind in ["qp", "cq", "srq", "comp_channel"] {
            device["objects"][kind]["created"] = json!(2);
        }
        let taken = match call {
            "qp" => Some("COMM_EST"),
            "srq" => Some("SRQ_LIMIT_REACHED"),
            _ => None,
        };
        if let Some(event) = taken {
            device["async_events"][event] = json!(2);
        }
        if call == "cq" {
            device["async_events"]["CQ_ERR"] = json!(1);
        }
        assert_report(report, device, acks_after(1));
    }
}

#[test]
fn deferred_cancel_in_the_gets() {
    cancelled("async", "deferred");
    cancelled("comp", "deferred");
}

#[test]
fn deferred_cancel_in_the_destroys() {
    cancelled("qp", "deferred");
    cancelled("cq", "deferred");
    cancelled("srq", "deferred");
}

#[test]
fn asynchronous_cancel_in_the_gets() {
    cancelled("async", "asynchronous");
    cancelled("comp", "asynchronous");
}

#[test]
fn asynchronous_cancel_in_the_destroys() {
    cancelled("qp", "asynchronous");
    cancelled("cq", "asynchronous");
    cancelled("srq", "asynchronous");
}

#[test]
fn cancel_that_came_before_the_call() {
    cancelled("async", "pending");
    cancelled("comp", "pending");
    cancelled("qp", "pending");
    cancelled("cq", "pending");
    cancelled("srq", "pending");
}

#[test]
fn cancel_pending_at_the_very_first_call() {
    let (plain, _) = all_ways("cancel_first_call", &[]);
    assert_eq!(plain.stdout, "past the first call\ncancelled\nanother thread: one round\n");
    // Also when that call has something to say.
    for flavour in FLAVOURS {
        let program = harmless("cancel_first_call");
        let run = Run::new(program).scripted().shim(flavour).env("IBV_SA_NO_SUCH_SETTING", "1").run();
        assert_eq!(run.stdout, plain.stdout, "{run}");
        assert_eq!(run.code, Some(0), "{run}");
        assert_eq!(run.shim_lines().len(), 1, "{run}");
    }
}

fn hit_by_signal(call: &str, how: &str, first: &str, events: u64) {
    let (plain, reports) = all_ways("signals", &[call, how]);
    let wanted = format!("{first}\nget again: 0, errno 0\nhandled: 1\nanother thread: one round\n");
    assert_eq!(plain.stdout, wanted);
    for report in &reports {
        let mut device = device_after(1, 1, 1);
        for kind in ["qp", "cq", "srq", "comp_channel"] {
            device["objects"][kind] = json!({ "created": 2, "destroyed": 2 });
        }
        let mut acks = acks_after(1);
        if call == "async" {
            device["async_events"]["COMM_EST"] = json!(1 + events);
            acks["COMM_EST"] = json!(1 + events);
        } else {
            device["comp_events"] = json!({ "got": 1 + events, "acked": 1 + events });
        }
        assert_report(report, device, acks);
    }
}

#[test]
fn a_signal_interrupts_a_get() {
    hit_by_signal("async", "eintr", "get: -1, errno 4", 1);
    hit_by_signal("comp", "eintr", "get: -1, errno 4", 1);
}

#[test]
fn a_get_goes_on_after_a_signal_with_restart() {
    hit_by_signal("async", "restart", "get: 0, errno 0", 2);
    hit_by_signal("comp", "restart", "get: 0, errno 0", 2);
}

#[test]
fn a_signal_handler_jumps_out_of_a_get() {
    hit_by_signal("async", "longjmp", "jumped out", 1);
    hit_by_signal("comp", "longjmp", "jumped out", 1);
}

#[test]
fn a_signal_handler_exits_around_a_get() {
    for who in ["self", "other"] {
        for call in ["async", "comp"] {
            let (plain, reports) = all_ways("exit_in_handler", &[who, call]);
            assert_eq!(plain.stdout, "exit handler: one round\n");
            for report in &reports {
                // The exit handler's round is counted: the report comes last.
                assert_eq!(report["devices"][0]["completions"]["failed"], 1, "{report:#}");
                assert_eq!(report["async_acks"], acks_after(1), "{report:#}");
            }
        }
    }
}
