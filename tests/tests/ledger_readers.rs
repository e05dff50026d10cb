//! Who reads the events of a context: two threads, or one that leaves some behind.

use ibv_sa_tests::FLAVOURS;
use ibv_sa_tests::ledger::{all_at_once, incidents, pairs, run_ledger, with_report};
use serde_json::json;

#[test]
fn two_readers_of_one_context() {
    for flavour in FLAVOURS {
        for readers in ["2", "3", "5"] {
            let (outcome, report) = with_report(run_ledger("readers", &[readers], Some(flavour)));
            let outcome = outcome.assert_ok();
            outcome.assert_says(&[]);
            // Once for each context.
            let said = incidents(&report, "two_readers");
            assert_eq!(said.len(), 1, "{report:#}");
            let short = |key: &str| outcome.value(key).trim_start_matches("thread ").to_string();
            let wanted = format!(
                "scr0 (context 1): async events are read by two threads, {} and {}: each takes events from the other; \
                 this one was PORT_ACTIVE, port 2",
                short("reader0"),
                short("reader1")
            );
            assert_eq!((&said[0]["text"], &said[0]["level"]), (&json!(wanted), &json!("info")), "{report:#}");
        }
        let (_, report) = with_report(run_ledger("readers", &["1"], Some(flavour)));
        assert_eq!(report["incidents"], json!([]), "{report:#}");
    }
}

const QUEUED: &str = "scr0 (context 1): async events have been queued for # s: the last ibv_get_async_event did not reach \
                      EAGAIN and none followed; an edge-triggered reader reads until EAGAIN";

#[test]
fn an_edge_triggered_reader_leaves_events_behind() {
    all_at_once(pairs(&["edge", "exit"], &FLAVOURS), |(how, flavour)| {
        let (outcome, report) = with_report(run_ledger("backlog", &[how], Some(flavour)));
        let outcome = outcome.assert_ok();
        let numbers = outcome.assert_says(&[QUEUED]);
        assert!((numbers[0] - outcome.number("age")).abs() < 0.4, "{outcome}");
        assert_eq!(incidents(&report, "backlog").len(), 1, "{report:#}");
    });
}

#[test]
fn no_events_are_left_behind() {
    all_at_once(pairs(&["drained", "blocking", "late", "late2", "quick"], &FLAVOURS), |(how, flavour)| {
        let (outcome, report) = with_report(run_ledger("backlog", &[how], Some(flavour)));
        outcome.assert_ok().assert_says(&[]);
        assert_eq!(incidents(&report, "backlog").len(), 0, "{report:#}");
    });
}

/// The same program says the same to its user without the shim.
#[test]
fn the_reader_is_not_disturbed() {
    all_at_once(["edge", "exit", "drained", "blocking", "late", "quick"], |how| {
        let plain = run_ledger("backlog", &[how], None).run().assert_ok();
        assert_eq!(plain.value("end"), "0");
    });
}
