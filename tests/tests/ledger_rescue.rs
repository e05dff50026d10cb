//! IBV_SA_ACK: forward, abort and rescue; and settings that cannot be understood.

use std::time::Duration;

use ibv_sa_tests::ledger::{
    FORMS, KINDS, all_at_once, incidents, object_in, pairs, run_ledger, with_report, words,
};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run};
use serde_json::json;

fn mode(program: &str, args: &[&str], flavour: Flavour, mode: &str) -> Run {
    run_ledger(program, args, Some(flavour)).env("IBV_SA_ACK", mode)
}

/// The line of a second ack, up to what becomes of it.
fn second_ack(form: &str) -> String {
    let words = words(form);
    if words.is_comp() {
        return "ibv_ack_cq_events: {object}: {thread} acknowledged 1 completion event, but none is open (got 1, acknowledged \
                1); "
            .into();
    }
    format!(
        "ibv_ack_async_event: {{object}}: {{thread}} acknowledged {}, but no event of this {} is open (got 1, \
         acknowledged 1); ",
        words.event, words.kind
    )
}

#[test]
fn forward_lets_libibverbs_hang() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        let run = mode("acks", &[form, "1", "2"], flavour, "forward").timeout(Duration::from_millis(700));
        let outcome = run.run_or_hang();
        assert!(outcome.hung, "{outcome}");
        let line = second_ack(form) + "forwarded, so the destroy will wait for ever: ack each event once*";
        outcome.assert_says(&[&line]);
        // What libibverbs alone would finish, finishes.
        for args in [["acks", form, "2", "2", ""], ["early", form, "2", "2", "0"]] {
            let args: Vec<&str> = args.into_iter().filter(|arg| !arg.is_empty()).collect();
            let outcome = mode(args[0], &args[1..], flavour, "forward").run().assert_ok();
            assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
            assert!(outcome.number("waited") < 0.7, "{outcome}");
        }
    });
}

#[test]
fn abort_aborts_after_the_line() {
    all_at_once(pairs(&FORMS, &FLAVOURS), |(form, flavour)| {
        let outcome = mode("acks", &[form, "1", "2"], flavour, "abort").run();
        assert_eq!((outcome.code, outcome.signal), (None, Some(6)), "{outcome}");
        outcome.assert_says(&[&(second_ack(form) + "aborting, as IBV_SA_ACK=abort asks*")]);
        assert!(outcome.values("destroyed").is_empty(), "{outcome}");
        let good = mode("acks", &[form, "2", "2"], flavour, "abort").run().assert_ok();
        good.assert_says(&[]);
    });
    let outcome = mode("after_destroy", &["qp"], Flavour::Release, "abort").run();
    assert_eq!(outcome.signal, Some(6), "{outcome}");
    assert_eq!(outcome.messages().len(), 1, "{outcome}");
}

/// The line of an ack that is given for the program.
fn given(form: &str, taker: &str) -> String {
    let words = words(form);
    let event = if words.is_comp() { "*completion event*" } else { words.event };
    format!(
        "{}: {{object}}: {event}, taken by {{{taker}}} # s ago, is acknowledged for the program (IBV_SA_ACK=rescue)",
        words.destroy
    )
}

#[track_caller]
fn destroyed_after(outcome: &Outcome, seconds: f64) {
    assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
    let waited = outcome.number("waited");
    assert!(waited >= seconds - 0.1 && waited < seconds + 0.7, "{outcome}");
}

#[test]
fn rescue_acknowledges_at_once_what_the_thread_took_itself() {
    all_at_once(pairs(&FORMS, &FLAVOURS), |(form, flavour)| {
        let (outcome, report) = with_report(mode("acks", &[form, "1", "0"], flavour, "rescue"));
        let outcome = outcome.assert_ok();
        outcome.assert_mentions(&given(form, "thread"));
        destroyed_after(&outcome, 0.0);
        assert_eq!(report["ack_mode"], "rescue");
        assert_eq!(report["acks"]["rescued"], 1, "{report:#}");
        assert_eq!(incidents(&report, "rescued").len(), 1, "{report:#}");
        let object = object_in(&report, outcome.value("object"));
        assert_eq!(object["rescued_acks"], 1, "{report:#}");
        // It went to libibverbs as any other.
        let words = words(form);
        if words.is_comp() {
            assert_eq!(object["comp_events"], json!({ "got": 1, "acked": 1 }), "{report:#}");
        } else {
            assert_eq!(object["async_acks"], 1, "{report:#}");
            assert_eq!(report["async_acks"], json!({ words.event: 1 }), "{report:#}");
        }
    });
}

#[test]
fn rescue_acknowledges_several() {
    for (form, flavour) in pairs(&KINDS, &FLAVOURS) {
        let (outcome, report) = with_report(mode("acks", &[form, "5", "2"], flavour, "rescue"));
        destroyed_after(&outcome.assert_ok(), 0.0);
        assert_eq!(report["acks"]["rescued"], 3, "{report:#}");
    }
}

/// More than there is room to note who took them: nothing untrue is said of the others.
#[test]
fn rescue_acknowledges_very_many() {
    for (form, flavour) in pairs(&["qp", "comp"], &FLAVOURS) {
        let (outcome, report) = with_report(mode("acks", &[form, "2000", "0"], flavour, "rescue"));
        let outcome = outcome.assert_ok();
        assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
        assert_eq!(report["acks"]["rescued"], 2000, "{report:#}");
        for line in outcome.messages() {
            assert!(!line.contains("thread 0 ") && !line.contains("QP_FATAL"), "{line}");
        }
    }
}

/// Others may still acknowledge what they took: only after IBV_SA_HANG_SECS. Their ack is swallowed.
#[test]
fn rescue_waits_for_what_another_thread_took() {
    all_at_once(pairs(&FORMS, &FLAVOURS), |(form, flavour)| {
        let (outcome, report) = with_report(mode("rescue_late", &[form, "no"], flavour, "rescue"));
        let outcome = outcome.assert_ok();
        outcome.assert_mentions(&given(form, "holder"));
        destroyed_after(&outcome, 1.0);
        let acks = json!({ "bad": 0, "held": 0, "released": 0, "rescued": 1, "swallowed": 1, "foreign": 0 });
        assert_eq!(report["acks"], acks, "{report:#}");
        assert!(!outcome.stderr.contains("destroyed before"), "{outcome}");
    });
}

#[test]
fn rescue_is_not_needed_when_the_ack_comes() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        let (outcome, report) = with_report(mode("late", &[form, "1", "600"], flavour, "rescue"));
        let outcome = outcome.assert_ok();
        outcome.assert_says(&[]);
        destroyed_after(&outcome, 0.4);
        assert_eq!(report["acks"]["rescued"], 0, "{report:#}");
    });
}

/// Once a new object lives at the address, acks count for the new one.
#[test]
fn a_late_ack_when_the_address_is_used_again() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        for reused in ["idle", "open"] {
            let (outcome, report) = with_report(mode("rescue_late", &[form, reused], flavour, "rescue"));
            let outcome = outcome.assert_ok();
            assert_eq!(outcome.value("same"), "yes", "{outcome}");
            assert_eq!(outcome.value("new_destroyed"), "0", "{outcome}");
            destroyed_after(&outcome, 1.0);
            assert_eq!(report["acks"]["rescued"], 1, "{report:#}");
        }
    });
}

/// As protect does.
#[test]
fn rescue_holds_bad_acks_back() {
    for (form, flavour) in pairs(&KINDS, &FLAVOURS) {
        let outcome = mode("acks", &[form, "1", "3"], flavour, "rescue").run().assert_ok();
        destroyed_after(&outcome, 0.0);
        outcome.assert_says(&[&(second_ack(form) + "*held back: ack each event once*")]);
    }
}

#[test]
fn values_that_cannot_be_understood() {
    let bad = [
        ("IBV_SA_ACK", &["Protect", "rescue ", "none", "1"][..]),
        ("IBV_SA_HANG_SECS", &["0", "86401", "-1", "1.5", "5s", " 5", "+5", "0x5", "99999999999999999999"]),
    ];
    let cases = bad.iter().flat_map(|(name, values)| values.iter().map(move |value| (*name, *value)));
    for (name, value) in cases {
        for flavour in FLAVOURS {
            let run = run_ledger("acks", &["qp", "1", "1"], Some(flavour)).env(name, value);
            let (outcome, report) = with_report(run);
            let outcome = outcome.assert_ok();
            outcome.assert_says(&[&format!("{name}=\"{value}\" *")]);
            assert_eq!(report["ack_mode"], "protect", "{report:#}");
            let seconds = if name == "IBV_SA_HANG_SECS" { 5 } else { 1 };
            assert_eq!(report["hang_secs"], seconds, "{report:#}");
        }
    }
}

#[test]
fn values_that_are_understood() {
    for (ack, seconds) in [("protect", 1), ("forward", 5), ("rescue", 60), ("abort", 86400), ("", 7)] {
        let run = mode("acks", &["qp", "1", "1"], Flavour::Release, ack);
        let (outcome, report) = with_report(run.env("IBV_SA_HANG_SECS", seconds.to_string()));
        outcome.assert_ok().assert_says(&[]);
        assert_eq!(report["ack_mode"], if ack.is_empty() { "protect" } else { ack });
        assert_eq!(report["hang_secs"], seconds, "{report:#}");
    }
}
