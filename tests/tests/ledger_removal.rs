//! A device that goes away, whatever the program does first; and destroys that are refused.

use ibv_sa_tests::ledger::{all_at_once, incidents, object_in, pairs, run_ledger, with_report, words};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run, tool};
use serde_json::{Value, json};
use std::time::Duration;

/// Without the shim and with it; the program prints the same but for ids.
#[track_caller]
fn removal(personality: &str, steps: &[&str], flavour: Flavour) -> (Outcome, Value) {
    let args: Vec<&str> = [personality].into_iter().chain(steps.iter().copied()).collect();
    let plain = run_ledger("removal", &args, None).run().assert_ok();
    let (outcome, report) = with_report(run_ledger("removal", &args, Some(flavour)));
    let outcome = outcome.assert_ok();
    let essence = |outcome: &Outcome| -> Vec<String> {
        let lines = outcome
            .stdout
            .lines()
            .filter(|line| !line.starts_with("thread=") && !line.starts_with("waited="));
        lines.map(str::to_string).collect()
    };
    assert_eq!(essence(&outcome), essence(&plain), "{outcome}");
    for waited in outcome.values("waited") {
        assert!(waited.parse::<f64>().is_ok_and(|seconds| seconds < 0.7), "{outcome}");
    }
    (outcome, report)
}

const GONE: &str = "scr0 (context 1): the device has failed or is gone: ";
const DEVICE_FATAL: &str = "DEVICE_FATAL was read by {thread}";
const GET_EIO: &str = "ibv_get_async_event failed with EIO in {thread}";
const DESTROY_EIO: &str = "ibv_destroy_qp failed with EIO in {thread}";
/// Before it says that a destroy will not return, the shim looks whether there is a device that could make it wait.
const POLL_ERROR: &str = "its async descriptor reports an error in {thread}";

#[test]
fn the_first_sign_is_said_and_no_other() {
    let cases: [(&str, &[&str], &str, &str); 9] = [
        ("blocking", &["fatal", "remove", "get", "get", "destroy", "rest"], DEVICE_FATAL, "8,-1 5"),
        ("blocking", &["remove", "get", "get", "destroy", "rest"], GET_EIO, "-1 5,-1 5"),
        ("blocking", &["fatal", "remove", "destroy", "get", "get", "rest"], POLL_ERROR, "8,-1 5"),
        ("nonblocking", &["fatal", "remove", "get", "get", "get", "destroy"], DEVICE_FATAL, "8,-1 11,-1 11"),
        ("nonblocking", &["fatal", "remove", "destroy", "get", "get"], POLL_ERROR, "8,-1 11"),
        ("nonblocking", &["remove", "get", "get", "destroy", "rest"], POLL_ERROR, "-1 11,-1 11"),
        ("blocking", &["ack", "remove", "destroy", "get"], DESTROY_EIO, "-1 5"),
        ("nonblocking", &["ack", "remove", "get", "destroy"], DESTROY_EIO, "-1 11"),
        ("nonblocking", &["fatal", "get", "remove", "get", "destroy", "rest"], DEVICE_FATAL, "8,-1 11"),
    ];
    all_at_once(pairs(&cases, &FLAVOURS), |((personality, steps, sign, gets), flavour)| {
        let (outcome, report) = removal(personality, steps, flavour);
        outcome.assert_says(&[&format!("{GONE}{sign}")]);
        assert_eq!(outcome.values("get").join(","), gets, "{outcome}");
        assert_eq!(outcome.value("destroyed"), "5", "{outcome}");
        let gone = incidents(&report, "device_gone");
        assert_eq!(gone.len(), 1, "{report:#}");
        assert_eq!(report["contexts"][0]["state"], "gone", "{report:#}");
        // What was open when it went is no leak and no hang.
        assert_eq!(incidents(&report, "destroy_waits").len(), 0, "{report:#}");
        // The later signs are in the time line.
        let text = gone[0]["text"].as_str().unwrap_or_default();
        if *gets == *"8,-1 5" {
            for sign in ["DEVICE_FATAL", "ibv_get_async_event", "ibv_destroy_qp"] {
                assert!(text.contains(sign), "{sign}: {report:#}");
            }
        }
    });
}

#[test]
fn a_command_fails_first() {
    for flavour in FLAVOURS {
        let (outcome, report) = removal("blocking", &["remove", "command", "get", "destroy"], flavour);
        assert_eq!((outcome.value("command"), outcome.value("destroyed")), ("5 5 5 5", "5"), "{outcome}");
        outcome.assert_says(&[&format!("{GONE}ibv_modify_qp failed with EIO in {{thread}}")]);
        let gone = incidents(&report, "device_gone");
        assert_eq!(gone.len(), 1, "{report:#}");
        let text = gone[0]["text"].as_str().unwrap_or_default();
        assert!(text.contains("ibv_get_async_event") && text.contains("ibv_destroy_qp"), "{report:#}");
    }
}

/// Firmware may answer so for its own reasons: it is said, and the books stay open as long as the kernel has the device.
#[test]
fn one_command_fails_with_eio() {
    for flavour in FLAVOURS {
        let steps = ["eio", "ack", "ack", "destroy", "rest", "close"];
        let (outcome, report) =
            with_report(run_ledger("removal", &[&["blocking"], &steps[..]].concat(), Some(flavour)));
        let outcome = outcome.assert_ok();
        assert_eq!(
            (outcome.value("eio"), outcome.value("destroyed"), outcome.value("rest")),
            ("5", "0", "0 0 0")
        );
        outcome.assert_says(&[
            &format!("{GONE}ibv_modify_qp failed with EIO in {{thread}}"),
            "ibv_ack_async_event: {object}: {thread} acknowledged COMM_EST, but no event of this QP is open *",
        ]);
        assert_eq!(report["contexts"][0]["state"], "closed", "{report:#}");
        // A hang is explained.
        let run = run_ledger("removal", &["blocking", "eio", "destroy"], Some(flavour));
        let outcome = run.timeout(Duration::from_millis(500)).run_or_hang();
        assert!(outcome.hung, "{outcome}");
        outcome.assert_mentions("ibv_destroy_qp: {object}: {thread} took COMM_EST itself *");
    }
}

/// EAGAIN alone is no sign; nothing is said of a device that answers so for ever.
#[test]
fn again_and_again_is_no_sign() {
    for flavour in FLAVOURS {
        let (outcome, report) = removal("nonblocking", &["remove", "get", "get", "get"], flavour);
        outcome.assert_says(&[]);
        assert_eq!(outcome.values("get"), ["-1 11", "-1 11", "-1 11"]);
        assert_eq!(report["contexts"][0]["state"], "open", "{report:#}");
    }
}

/// An event that is read is not a removal that is done: the destroy still waits for the ack, as libibverbs does.
#[test]
fn a_device_that_failed_but_is_there() {
    all_at_once(FLAVOURS, |flavour| {
        let (outcome, _) = removal("blocking", &["fatal", "get", "ack", "destroy", "rest", "close"], flavour);
        assert_eq!((outcome.value("destroyed"), outcome.value("rest")), ("0", "0 0 0"), "{outcome}");
        outcome.assert_says(&[&format!("{GONE}{DEVICE_FATAL}")]);
        for flavour in [None, Some(flavour)] {
            let run = run_ledger("removal", &["blocking", "fatal", "get", "destroy"], flavour);
            let outcome = run.timeout(Duration::from_millis(700)).run_or_hang();
            assert!(outcome.hung, "{outcome}");
        }
    });
}

#[test]
fn other_calls_fail_too() {
    for flavour in FLAVOURS {
        let steps = ["remove", "poll", "query", "get", "ack", "destroy", "rest", "close", "again"];
        let (outcome, report) = removal("blocking", &steps, flavour);
        assert_eq!(
            (outcome.value("query"), outcome.value("closed"), outcome.value("again")),
            ("5", "0", "0")
        );
        assert_eq!(outcome.messages().len(), 1, "{outcome}");
        // The context that was opened afterwards is another one, and in good health.
        let states: Vec<&Value> =
            report["contexts"].as_array().into_iter().flatten().map(|context| &context["state"]).collect();
        assert_eq!(states.last(), Some(&&json!("closed")), "{report:#}");
    }
}

/// The destroys succeed and wait for nothing; the ack that comes then must not touch what was freed.
#[test]
fn destroys_that_succeed_on_a_removed_device() {
    let args = ["blocking", "fatal", "remove", "get", "get", "destroy", "rest", "ack", "close", "again"];
    all_at_once(FLAVOURS, |flavour| {
        let run = || run_ledger("removal", &args, Some(flavour)).env("RDMAV_ALLOW_DISASSOC_DESTROY", "1");
        let (outcome, report) = with_report(run());
        let outcome = outcome.assert_ok();
        assert_eq!((outcome.value("destroyed"), outcome.value("rest")), ("0", "0 0 0"), "{outcome}");
        assert_eq!(incidents(&report, "destroy_waits").len(), 0, "{report:#}");
        // No bad ack: a destroy that waits for nobody makes every later ack late.
        assert_eq!(report["acks"]["bad"], 0, "{report:#}");
        let careful = Run::new(tool("valgrind")).args(["-q", "--error-exitcode=9"]);
        let careful = careful.arg(ibv_sa_tests::ledger::ledger("removal")).args(args).scripted();
        let careful = careful.env("RDMAV_ALLOW_DISASSOC_DESTROY", "1").timeout(Duration::from_secs(60));
        careful.shim(flavour).run().assert_ok();
    });
}

// ---- refused --------------------------------------------------------------------------------

#[test]
fn a_channel_in_use() {
    for flavour in FLAVOURS {
        let (outcome, report) = with_report(run_ledger("refused", &["channel", "16"], Some(flavour)));
        let outcome = outcome.assert_ok();
        assert_eq!((outcome.value("refused"), outcome.value("destroyed")), ("16 16", "0"), "{outcome}");
        outcome.assert_says(&[
            "ibv_destroy_comp_channel: {object}: refused with EBUSY, not waiting: CQs still use it; destroy those first",
        ]);
        assert_eq!(report["devices"][0]["objects"]["comp_channel"], json!({ "created": 1, "destroyed": 1 }));
        assert_eq!(incidents(&report, "destroy_refused").len(), 1, "{report:#}");
    }
}

#[test]
fn a_destroy_that_is_refused() {
    all_at_once(pairs(&["qp", "cq", "comp", "srq", "wq"], &FLAVOURS), |(form, flavour)| {
        let words = words(form);
        let (outcome, report) = with_report(run_ledger("refused", &[form, "16"], Some(flavour)));
        let outcome = outcome.assert_ok();
        assert_eq!((outcome.value("refused"), outcome.value("destroyed")), ("16 16", "0"), "{outcome}");
        assert!(outcome.number("waited") < 0.7, "it is no longer in the books: {outcome}");
        let messages = outcome.messages();
        assert_eq!(messages.len(), 2, "{outcome}");
        outcome.assert_mentions(&format!(
            "{}: {{object}}: refused with EBUSY, not waiting: * still use*",
            words.destroy
        ));
        outcome.assert_mentions(&format!("{}: {{object}}: {{thread}} acknowledged *", words.ack));
        let users = match form {
            "cq" | "comp" => "QPs or WQs",
            "srq" => "QPs",
            "qp" => "multicast groups or flows",
            _ => "",
        };
        assert!(messages[0].contains(users), "{outcome}");
        let refused = incidents(&report, "destroy_refused");
        assert_eq!(refused.len(), 1, "{report:#}");
        assert_eq!(object_in(&report, outcome.value("object"))["state"], "destroyed", "{report:#}");
    });
}

/// Any other error: nothing is said, and the object stays in the books.
#[test]
fn a_destroy_that_fails() {
    for (form, flavour) in pairs(&["qp", "comp", "wq"], &FLAVOURS) {
        let outcome = run_ledger("refused", &[form, "22"], Some(flavour)).run().assert_ok();
        assert_eq!((outcome.value("refused"), outcome.value("destroyed")), ("22 22", "0"), "{outcome}");
        outcome.assert_says(&[&format!("{}: {{object}}: {{thread}} acknowledged *", words(form).ack)]);
    }
}
