//! Headroom of CQs: work that was posted and may complete, against their depth.

use ibv_sa_tests::ledger::{all_at_once, incidents, object_in, with_report};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run, cc, is_valid, scripted_dir};
use serde_json::{Value, json};

fn program() -> std::path::PathBuf {
    cc(
        "ctests/completions/headroom_posts.c",
        &[&format!("-L{}", scripted_dir().display()), "-Ictests", "-libverbs"],
    )
}

#[track_caller]
fn run(what: &str, mode: &str, flavour: Flavour) -> (Outcome, Value) {
    let run = Run::new(program()).arg(what).scripted().shim(flavour).env("IBV_SA_CQ", mode);
    let (outcome, report) = with_report(run);
    (outcome.assert_ok(), report)
}

const REMEDY: &str = "create it with a larger cqe, have fewer work requests outstanding, or poll it sooner";

fn warning(outstanding: u32) -> String {
    format!(
        "{{cq}}: {outstanding} work requests are outstanding that may complete to it, and it has room for 4 completions \
         (those that are not signalled complete if they fail): it can be overrun, which loses completions; QP \
         {{number}} completes to it; {REMEDY}"
    )
}

/// Depth, mark, what is outstanding, whether it was exceeded, and why it was not checked.
#[track_caller]
fn assert_headroom(outcome: &Outcome, report: &Value, expected: (u32, u64, Value, bool), why: &str) {
    let (depth, mark, outstanding, exceeded) = expected;
    let headroom = &object_in(report, outcome.value("cq"))["headroom"];
    let found = [&headroom["depth"], &headroom["mark"], &headroom["outstanding"], &headroom["exceeded"]];
    assert_eq!(
        found,
        [&json!(depth), &json!(mark), &outstanding, &json!(exceeded)],
        "{headroom:#} {outcome}"
    );
    assert_eq!(headroom["checked"], why.is_empty(), "{headroom:#}");
    let reasons = headroom["why"].as_array().expect("reasons");
    assert_eq!(reasons.len(), usize::from(!why.is_empty()), "{headroom:#}");
    assert!(
        reasons.iter().all(|reason| reason.as_str().is_some_and(|text| text.contains(why))),
        "{headroom:#}"
    );
}

#[test]
fn one_line_says_that_a_cq_can_be_overrun() {
    all_at_once(FLAVOURS, |flavour| {
        for (what, outstanding, mark, left) in
            [("over", 5, 7, 7), ("list", 5, 5, 0), ("srq", 5, 5, 5), ("extended", 5, 5, 5)]
        {
            let (outcome, report) = run(what, "full", flavour);
            outcome.assert_says(&[&warning(outstanding)]);
            assert_headroom(&outcome, &report, (4, mark, json!(left), true), "");
            assert_eq!(incidents(&report, "cq_headroom").len(), 1, "{report:#}");
            assert!(is_valid(&report), "{report:#}");
        }
    });
}

#[test]
fn nothing_is_said_of_what_fits() {
    all_at_once(FLAVOURS, |flavour| {
        for (what, depth, mark, left) in [
            ("full", 4, 4, 4),
            ("correct", 4, 4, 0),
            ("refused", 4, 4, 4),
            ("resized", 8, 8, 8),
            ("reset", 4, 4, 4),
        ] {
            let (outcome, report) = run(what, "full", flavour);
            outcome.assert_says(&[]);
            assert_headroom(&outcome, &report, (depth, mark, json!(left), false), "");
            assert!(is_valid(&report), "{report:#}");
        }
    });
}

#[test]
fn what_cannot_be_counted_is_said_to_be_unchecked() {
    all_at_once(FLAVOURS, |flavour| {
        for (what, mark, why) in [
            ("ignore", 0, "IGNORE_OVERRUN"),
            ("wr", 0, "ibv_wr_*"),
            ("unclear", 0, "is not known"),
            ("elsewhere", 4, "around this library"),
            ("flushed", 4, "in error"),
        ] {
            let (outcome, report) = run(what, "full", flavour);
            outcome.assert_says(&[]);
            let object = object_in(&report, outcome.value("cq"));
            let mark = if what == "elsewhere" { object["headroom"]["mark"].as_u64().unwrap() } else { mark };
            assert_headroom(&outcome, &report, (4, mark, Value::Null, false), why);
        }
    });
}

#[test]
fn an_overrun_is_explained() {
    for flavour in FLAVOURS {
        let line = |known: &str| {
            format!(
                "{{cq}}: CQ_ERR: it was most likely overrun, and completions are lost: it has room for 4; {known}; QP \
                 {{number}} completes to it; {REMEDY}"
            )
        };
        let (outcome, report) = run("cq_err", "full", flavour);
        outcome.assert_says(&[&line("at most 4 work requests were seen outstanding at one time")]);
        assert_eq!(incidents(&report, "cq_error").len(), 1, "{report:#}");
        for mode in ["errors", "off"] {
            let (outcome, report) = run("cq_err", mode, flavour);
            outcome.assert_says(&[]);
            assert!(object_in(&report, outcome.value("cq"))["headroom"].is_null(), "{report:#}");
        }
    }
}

#[test]
fn headroom_is_counted_in_full_only() {
    for mode in ["off", "errors"] {
        let (outcome, report) = run("over", mode, Flavour::Release);
        outcome.assert_says(&[]);
        assert!(incidents(&report, "cq_headroom").is_empty(), "{report:#}");
    }
}
