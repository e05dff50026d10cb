//! Books that no longer fit: objects and acks went around the shim, or a command failed in between. No destroy hangs
//! for that, and nothing untrue is said.

use std::time::Duration;

use ibv_sa_tests::ledger::{
    KINDS, all_at_once, incidents, ledger_library, near, pairs, run_ledger, with_report, words,
};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run};
use serde_json::json;

/// A program whose first argument is the plug-in.
fn with_plugin(program: &str, args: &[&str], flavour: Option<Flavour>) -> Run {
    let plugin = ledger_library("around_plugin");
    let plugin = plugin.to_str().expect("UTF-8");
    run_ledger(program, &[&[plugin], args].concat(), flavour)
}

#[track_caller]
fn destroyed_at_once(outcome: &Outcome) {
    assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
    assert!(outcome.number("waited") < 0.5, "{outcome}");
}

/// The ack that is held belongs to an event that is got after the failure.
#[test]
fn a_command_fails_while_an_ack_is_held() {
    let calls = ["ibv_create_cq", "ibv_alloc_pd", "ibv_modify_qp"];
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        for call in calls {
            destroyed_at_once(&run_ledger("eio_held", &[form, call], None).run().assert_ok());
            let (outcome, report) = with_report(run_ledger("eio_held", &[form, call], Some(flavour)));
            let outcome = outcome.assert_ok();
            destroyed_at_once(&outcome);
            outcome.assert_says(&["*held back*", "*failed with EIO in {thread}"]);
            assert_eq!(report["contexts"][0]["state"], "closed", "{report:#}");
        }
    });
}

/// Forms that a plug-in makes without the shim; the others are made through pointers that are ours also there.
const AROUND: [&str; 4] = ["qp", "cq", "comp", "srq"];

/// Whatever lived at its address before: what is known of that one is not used.
#[test]
fn another_object_lives_at_the_address() {
    all_at_once(pairs(&pairs(&AROUND, &AROUND), &["0", "1", "2"]), |((old, new), events)| {
        let args = [old, new, events];
        let plain = with_plugin("replaced", &args, None).run().assert_ok();
        assert_eq!(plain.value("same"), "yes", "{plain}");
        for (flavour, mode) in pairs(&FLAVOURS, &["protect", "rescue"]) {
            let run = with_plugin("replaced", &args, Some(flavour)).env("IBV_SA_ACK", mode);
            let outcome = run.run().assert_ok();
            assert_eq!(outcome.value("same"), "yes", "{outcome}");
            destroyed_at_once(&outcome);
            outcome.assert_says(&[]);
        }
    });
}

#[test]
fn one_of_two_events_is_acknowledged_around_us() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        for mode in ["protect", "rescue"] {
            let run = with_plugin("partly_around", &[form, "300"], Some(flavour)).env("IBV_SA_ACK", mode);
            let (outcome, report) = with_report(run);
            let outcome = outcome.assert_ok();
            assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
            near(outcome.number("waited"), 0.3, &outcome);
            outcome.assert_says(&[]);
            assert_eq!(report["incidents"], json!([]), "{report:#}");
        }
    });
}

/// The other one is missing: one ack is given for the program, not two.
#[test]
fn rescue_after_an_ack_that_went_around_us() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        let plain = with_plugin("partly_around", &[form, "0"], None).timeout(Duration::from_millis(500));
        assert!(plain.run_or_hang().hung);
        let run = with_plugin("partly_around", &[form, "0"], Some(flavour)).env("IBV_SA_ACK", "rescue");
        let (outcome, report) = with_report(run);
        let outcome = outcome.assert_ok();
        assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
        near(outcome.number("waited"), 1.0, &outcome);
        assert_eq!(report["acks"]["rescued"], 1, "{report:#}");
        assert_eq!(incidents(&report, "rescued").len(), 1, "{report:#}");
    });
}

/// Nothing was open when the destroy began: the thread that looked after it goes all the same.
#[test]
fn an_ack_for_what_was_read_around_us_comes_late() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        let outcome = with_plugin("late_surplus", &[form], Some(flavour)).run().assert_ok();
        assert_eq!(outcome.values("destroyed"), ["0", "0"], "{outcome}");
        for waited in outcome.values("waited") {
            assert!(waited.parse::<f64>().is_ok_and(|seconds| seconds < 1.8), "{outcome}");
        }
        assert_eq!(outcome.value("threads"), "1", "{outcome}");
    });
}

/// "This destroy never returns" would be wrong.
#[test]
fn a_destroy_is_refused_while_its_thread_holds_an_event() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        let (outcome, report) = with_report(run_ledger("refused_open", &[form], Some(flavour)));
        let outcome = outcome.assert_ok();
        assert_eq!(outcome.value("refused"), "16", "{outcome}");
        destroyed_at_once(&outcome);
        outcome.assert_says(&[&format!(
            "{}: {{object}}: refused with EBUSY, not waiting: *",
            words(form).destroy
        )]);
        assert_eq!(incidents(&report, "destroy_waits").len(), 0, "{report:#}");
    });
}
