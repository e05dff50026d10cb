//! Acks, right and wrong: what libibverbs counts, what is held back, and what is said of it.

use ibv_sa_tests::ledger::{FORMS, KINDS, all_at_once, object_in, pairs, run_ledger, with_report, words};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run};
use serde_json::{Value, json};
use std::time::Duration;

/// Libibverbs alone: it ends with 0, or hangs.
#[track_caller]
fn alone(program: &str, args: &[&str], hangs: bool) {
    let run = run_ledger(program, args, None);
    let outcome =
        if hangs { run.timeout(Duration::from_millis(400)).run_or_hang() } else { run.run().assert_ok() };
    assert_eq!(outcome.hung, hangs, "{outcome}");
    assert_eq!(outcome.stderr, "", "{outcome}");
}

/// Under the shim the destroy comes back, and at once.
#[track_caller]
fn finishes(run: Run) -> (Outcome, Value) {
    let (outcome, report) = with_report(run);
    let outcome = outcome.assert_ok();
    assert!(outcome.number("waited") < 0.7, "it waited: {outcome}");
    assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
    assert_eq!(report["partial"], false, "{report:#}");
    (outcome, report)
}

/// The acks of the whole report.
fn acks(bad: u64, held: u64, released: u64) -> Value {
    json!({ "bad": bad, "held": held, "released": released, "rescued": 0, "swallowed": 0, "foreign": 0 })
}

/// What the report must say of an object of this form.
#[track_caller]
fn assert_object(object: &Value, form: &str, got: u64, acked: u64, bad: u64, held: u64) {
    let words = words(form);
    let fields = |names: &[&str]| names.iter().map(|name| object[*name].clone()).collect::<Vec<_>>();
    let (events, comp) = if words.is_comp() {
        assert_eq!(object["async_acks"], 0, "{object:#}");
        (json!({}), json!({ "got": got, "acked": acked }))
    } else {
        assert_eq!(object["async_acks"], acked, "{object:#}");
        let events = if got > 0 { json!({ words.event: got }) } else { json!({}) };
        (events, json!({ "got": 0, "acked": 0 }))
    };
    assert_eq!(
        fields(&["kind", "foreign", "state", "async_events", "comp_events", "bad_acks", "held_acks", "open"]),
        [
            json!(words.kind),
            json!(false),
            json!("destroyed"),
            events,
            comp,
            json!(bad),
            json!(held),
            json!([])
        ],
        "{object:#}"
    );
}

#[test]
fn every_event_acknowledged_once() {
    for (form, flavour) in pairs(&FORMS, &FLAVOURS) {
        alone("acks", &[form, "3", "3"], false);
        let (outcome, report) = finishes(run_ledger("acks", &[form, "3", "3"], Some(flavour)));
        outcome.assert_says(&[]);
        assert_object(object_in(&report, outcome.value("object")), form, 3, 3, 0, 0);
        assert_eq!(report["acks"], acks(0, 0, 0), "{report:#}");
        assert_eq!((&report["incidents"], &report["incidents_left_out"]), (&json!([]), &json!(0)));
    }
}

/// The line of one ack too many.
fn one_too_many(form: &str, got: u64, acked: u64) -> String {
    let words = words(form);
    if words.is_comp() {
        return format!(
            "ibv_ack_cq_events: {{object}}: {{thread}} acknowledged 1 completion event, but none is open (got \
             {got}, acknowledged {acked}); the ack is held back: ack each event once, on its own CQ"
        );
    }
    format!(
        "ibv_ack_async_event: {{object}}: {{thread}} acknowledged {}, but no event of this {} is open (got {got}, \
         acknowledged {acked}); the ack is held back: ack each event once",
        words.event, words.kind
    )
}

#[test]
fn an_ack_too_many() {
    all_at_once(pairs(&FORMS, &FLAVOURS), |(form, flavour)| {
        alone("acks", &[form, "1", "2"], true);
        let (outcome, report) = finishes(run_ledger("acks", &[form, "1", "2"], Some(flavour)));
        outcome.assert_says(&[&one_too_many(form, 1, 1)]);
        assert_eq!(report["acks"], acks(1, 1, 0), "{report:#}");
        let object = object_in(&report, outcome.value("object"));
        assert_eq!((&object["bad_acks"], &object["held_acks"]), (&json!(1), &json!(1)), "{object:#}");
    });
}

#[test]
fn an_ack_of_an_event_that_was_never_got() {
    all_at_once(pairs(&FORMS, &FLAVOURS), |(form, flavour)| {
        alone("acks", &[form, "0", "1"], true);
        let (outcome, report) = finishes(run_ledger("acks", &[form, "0", "1"], Some(flavour)));
        outcome.assert_says(&[&one_too_many(form, 0, 0)]);
        assert_eq!(report["acks"], acks(1, 1, 0), "{report:#}");
    });
}

#[test]
fn batches() {
    for flavour in FLAVOURS {
        for args in
            [&["1000", "1000"][..], &["1000", "999", "1"], &["1000", "0", "400", "600", "0"], &["0", "0"]]
        {
            alone("batch", args, false);
            let (outcome, _) = finishes(run_ledger("batch", args, Some(flavour)));
            outcome.assert_says(&[]);
        }
        // Of the last three, one is open.
        let (outcome, report) = finishes(run_ledger("batch", &["10", "9", "3"], Some(flavour)));
        outcome.assert_says(&[
            "ibv_ack_cq_events: {object}: {thread} acknowledged 3 completion events, but 1 is \
             open (got 10, acknowledged 9); 2 acks are held back: ack each event once, on its own CQ",
        ]);
        assert_eq!(report["acks"]["held"], 2, "{report:#}");
        let object = object_in(&report, outcome.value("object"));
        assert_eq!(object["held_acks"], 2, "{object:#}");
    }
}

/// The largest number that the argument can hold, as a program passes that forgot to set it.
#[test]
fn more_acks_than_there_can_be() {
    for flavour in FLAVOURS {
        let (outcome, report) = finishes(run_ledger("batch", &["5", "-1"], Some(flavour)));
        outcome.assert_says(&[
            "ibv_ack_cq_events: {object}: {thread} acknowledged 4294967295 completion events, \
             but 5 are open (got 5, acknowledged 0); 4294967290 acks are held back: ack each event once, on its own CQ",
        ]);
        assert_eq!(report["acks"]["held"], 4_294_967_290_u64, "{report:#}");
    }
}

#[test]
fn an_ack_on_the_wrong_cq() {
    all_at_once(FLAVOURS, |flavour| {
        alone("wrong_cq", &["corrected"], true);
        let (outcome, report) = finishes(run_ledger("wrong_cq", &["corrected"], Some(flavour)));
        let line = one_too_many("comp", 0, 0).replace("{object}", "{wrong}");
        outcome.assert_says(&[&line]);
        assert_eq!(outcome.value("wrong_destroyed"), "0");
        assert_object(object_in(&report, outcome.value("right")), "comp", 1, 1, 0, 0);
        assert_eq!(object_in(&report, outcome.value("wrong"))["held_acks"], 1, "{report:#}");

        // The right one never gets its ack: that destroy hangs, as without us, and the lines say all.
        let run = run_ledger("wrong_cq", &[], Some(flavour)).timeout(Duration::from_millis(1300));
        let outcome = run.run_or_hang();
        assert!(outcome.hung, "{outcome}");
        outcome.assert_says(&[
            &line,
            "ibv_destroy_cq: {right}: {thread} took 1 completion event itself # s ago and did not acknowledge it: \
             unless another thread does, this destroy never returns; call ibv_ack_cq_events first",
            "ibv_destroy_cq: {right}: {thread} has waited for # s: 1 completion event, taken by {thread} # s ago, \
             is not acknowledged; call ibv_ack_cq_events*",
        ]);
    });
}

#[test]
fn two_cqs_of_one_channel() {
    all_at_once(FLAVOURS, |flavour| {
        alone("two_cqs", &["0"], false);
        let (outcome, report) = finishes(run_ledger("two_cqs", &["0"], Some(flavour)));
        outcome.assert_says(&[]);
        for (cq, events) in [("first", 20), ("second", 40)] {
            assert_object(object_in(&report, outcome.value(cq)), "comp", events, events, 0, 0);
        }
        let run = run_ledger("two_cqs", &["3"], Some(flavour)).timeout(Duration::from_millis(1600));
        let outcome = run.run_or_hang();
        assert!(outcome.hung, "{outcome}");
        assert_eq!(outcome.value("first_destroyed"), "0", "{outcome}");
        outcome.assert_mentions("ibv_destroy_cq: {second}: {thread} took 3 completion events itself*");
        outcome.assert_mentions(
            "ibv_destroy_cq: {second}: {thread} has waited for # s: 3 completion events, the first taken by \
             {thread} # s ago, the last # s ago, are not acknowledged; call ibv_ack_cq_events*",
        );
        assert!(!outcome.stderr.contains(outcome.value("first")), "{outcome}");
    });
}

#[test]
fn copies_are_acknowledged_by_other_threads_in_another_order() {
    let plain = run_ledger("copies", &[], None).run().assert_ok();
    for flavour in FLAVOURS {
        let (outcome, report) = with_report(run_ledger("copies", &[], Some(flavour)));
        outcome.assert_same(&plain);
        assert_eq!(report["acks"], acks(0, 0, 0), "{report:#}");
    }
}

#[test]
fn events_without_an_object_need_no_ack() {
    alone("unaffiliated", &[], false);
    for flavour in FLAVOURS {
        let (outcome, report) = finishes(run_ledger("unaffiliated", &[], Some(flavour)));
        outcome.assert_says(&[]);
        assert_eq!(report["acks"], acks(0, 0, 0), "{report:#}");
        let context = &report["contexts"][0];
        let events = &context["async_events"];
        for known in
            ["PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "GID_CHANGE", "DEVICE_SPEED_CHANGE", "event 21"]
        {
            assert_eq!(events[known], 3, "{report:#}");
        }
        assert_eq!(events, &report["devices"][0]["async_events"], "{report:#}");
        assert_eq!((&context["objects"], &report["incidents"]), (&json!([]), &json!([])), "{report:#}");
    }
}

#[test]
fn an_ack_before_the_get() {
    for (form, flavour) in pairs(&FORMS, &FLAVOURS) {
        // EARLY acks, READS events, LATE acks.
        for (args, released) in
            [([form, "1", "1", "0"], 1), ([form, "3", "3", "0"], 3), ([form, "1", "2", "1"], 1)]
        {
            alone("early", &args, false);
            let (outcome, report) = finishes(run_ledger("early", &args, Some(flavour)));
            outcome.assert_says(&[&one_too_many(form, 0, 0)]);
            let early: u64 = args[1].parse().expect("a number");
            assert_eq!(report["acks"], acks(early, early, released), "{args:?} {report:#}");
            let object = object_in(&report, outcome.value("object"));
            assert_eq!(object["open"], json!([]), "{report:#}");
            // Each event has its ack in the end, by every count.
            let reads: u64 = args[2].parse().expect("a number");
            if words(form).is_comp() {
                assert_eq!(object["comp_events"], json!({ "got": reads, "acked": reads }), "{report:#}");
            } else {
                assert_eq!(object["async_acks"], reads, "{report:#}");
                assert_eq!(report["async_acks"], json!({ words(form).event: reads }), "{report:#}");
            }
        }
    }
}

/// One comes too early and the right one later: libibverbs alone hangs.
#[test]
fn an_ack_before_the_get_and_one_after_it() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        let args = [form, "1", "1", "1"];
        alone("early", &args, true);
        let (outcome, report) = finishes(run_ledger("early", &args, Some(flavour)));
        outcome.assert_says(&[&one_too_many(form, 0, 0)]);
        assert_eq!(report["acks"], acks(1, 1, 0), "{report:#}");
    });
}

#[test]
fn an_ack_for_the_object_that_lives_at_the_address_now() {
    all_at_once(pairs(&FORMS, &FLAVOURS), |(form, flavour)| {
        alone("reuse", &[form], true);
        let (outcome, report) = finishes(run_ledger("reuse", &[form], Some(flavour)));
        assert_eq!(outcome.value("same"), "yes", "{outcome}");
        outcome.assert_says(&[&one_too_many(form, 1, 1)]);
        // Both are listed, although only the new one can be found by the address.
        let context = &report["contexts"][0];
        assert_eq!(
            (&context["objects_left_out"], context["objects"].as_array().map(Vec::len)),
            (&json!(0), Some(2))
        );
        assert_eq!(object_in(&report, outcome.value("object"))["held_acks"], 1, "{report:#}");
    });
}

/// An old QP's event when an SRQ or a CQ lives there: nobody's counters are touched.
#[test]
fn an_ack_for_an_address_where_another_kind_of_object_lives() {
    for (form, flavour) in pairs(&["srq", "cq", "comp"], &FLAVOURS) {
        let (outcome, report) = finishes(run_ledger("reuse", &["qp", form], Some(flavour)));
        assert_eq!(outcome.value("same"), "yes", "{outcome}");
        outcome.assert_says(&["ibv_ack_async_event: *: {thread} acknowledged SQ_DRAINED, *"]);
        assert_eq!(report["acks"]["bad"], 1, "{report:#}");
    }
}

#[test]
fn an_ack_after_the_destroy() {
    for (form, flavour) in pairs(&FORMS, &FLAVOURS) {
        let words = words(form);
        let (outcome, report) = finishes(run_ledger("after_destroy", &[form], Some(flavour)));
        let event = if words.is_comp() { "1 completion event" } else { words.event };
        outcome.assert_says(&[&format!(
            "{}: {{object}}: {{thread}} acknowledged {event}, but the {} was destroyed before; the ack is held back: \
             ack each event before its object is destroyed",
            words.ack, words.kind
        )]);
        assert_eq!(report["acks"], acks(1, 1, 0), "{report:#}");
    }
}

/// With an object alive and an event open; then the device is opened again.
#[test]
fn a_context_is_closed_early() {
    for (form, flavour) in pairs(&KINDS, &FLAVOURS) {
        alone("reopen", &[form], false);
        let (outcome, report) = finishes(run_ledger("reopen", &[form], Some(flavour)));
        assert_eq!(outcome.value("same_context"), "yes", "{outcome}");
        // The old one has given its place away, and is counted.
        let contexts = report["contexts"].as_array().expect("contexts");
        let states: Vec<&Value> = contexts.iter().map(|context| &context["state"]).collect();
        assert_eq!(
            (states, &report["contexts_left_out"]),
            (vec![&json!("closed"); 2], &json!(0)),
            "{report:#}"
        );
        assert_eq!(object_in(&report, outcome.value("object"))["bad_acks"], 0, "{report:#}");
    }
}

/// The line is written with a cancellation pending, and errno is what it was.
#[test]
fn an_ack_is_no_cancellation_point() {
    for (form, flavour) in pairs(&KINDS, &FLAVOURS) {
        let outcome = run_ledger("cancel_ack", &[form], Some(flavour)).run().assert_ok();
        assert_eq!((outcome.value("cancelled"), outcome.value("acked")), ("1", "2 errno=77"), "{outcome}");
        assert_eq!(outcome.messages().len(), 1, "{outcome}");
        assert!(outcome.stdout.contains("another thread: one round\n"), "{outcome}");
    }
}

/// The number in the event's structure was overwritten.
#[test]
fn an_ack_of_another_kind_of_event() {
    const CQ_ERR: &str = "0";
    const SRQ_ERR: &str = "14";
    for (form, number, name) in
        [("qp", SRQ_ERR, "SRQ_ERR"), ("srq", CQ_ERR, "CQ_ERR"), ("cq", SRQ_ERR, "SRQ_ERR")]
    {
        for flavour in FLAVOURS {
            let (outcome, report) = finishes(run_ledger("wrong_kind", &[form, number], Some(flavour)));
            outcome.assert_says(&[&format!(
                "ibv_ack_async_event: {{object}}: {{thread}} acknowledged {name}, which is no event of a {}; the ack is \
                 held back: ack the event as ibv_get_async_event filled it in",
                words(form).kind
            )]);
            assert_eq!(report["acks"]["bad"], 1, "{report:#}");
        }
    }
}

/// Another event of the same kind: an ack is an ack.
#[test]
fn an_ack_of_another_event_of_the_object() {
    const PATH_MIG: &str = "6";
    let (outcome, _) = finishes(run_ledger("wrong_kind", &["qp", PATH_MIG], Some(Flavour::Release)));
    outcome.assert_says(&[&one_too_many("qp", 1, 1)]);
}
