//! Events and acks that go around the shim, and objects that it has not seen being made.

use ibv_sa_tests::ledger::{
    FORMS, KINDS, all_at_once, incidents, ledger_library, object_in, pairs, run_ledger, with_report, words,
};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run, cc};
use serde_json::{Value, json};
use std::time::Duration;

fn around(form: &str, what: &str, flavour: Option<Flavour>) -> Run {
    let plugin = ledger_library("around_plugin");
    let plugin = plugin.to_str().expect("UTF-8");
    run_ledger("around", &[plugin, form, what], flavour)
}

/// Both alone and under the shim the destroy comes back; under the shim at once.
#[track_caller]
fn at_once(form: &str, what: &str, flavour: Flavour) -> (Outcome, Value) {
    around(form, what, None).run().assert_ok();
    let (outcome, report) = with_report(around(form, what, Some(flavour)));
    let outcome = outcome.assert_ok();
    assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
    assert!(outcome.number("waited") < 0.7, "{outcome}");
    (outcome, report)
}

/// Read by a plug-in that the shim cannot see, acknowledged through the shim: it must not hang because of us.
#[test]
fn an_event_is_read_around_us() {
    all_at_once(pairs(&FORMS, &FLAVOURS), |(form, flavour)| {
        around(form, "read", None).run().assert_ok();
        let (outcome, report) = with_report(around(form, "read", Some(flavour)));
        let outcome = outcome.assert_ok();
        assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
        let waited = outcome.number("waited");
        assert!((0.9..1.8).contains(&waited), "{outcome}");
        let words = words(form);
        outcome.assert_says(&[
            &format!("{}: {{object}}: {{thread}} acknowledged *", words.ack),
            &format!(
                "{}: {{object}}: {{thread}} has waited for # s though every event that was got is acknowledged: one was \
                 read around this library; a held ack goes to libibverbs",
                words.destroy
            ),
        ]);
        let acks = json!({ "bad": 1, "held": 1, "released": 1, "rescued": 0, "swallowed": 0, "foreign": 0 });
        assert_eq!(report["acks"], acks, "{report:#}");
        assert_eq!(incidents(&report, "acks_released").len(), 1, "{report:#}");
        assert_eq!(object_in(&report, outcome.value("object"))["released_acks"], 1, "{report:#}");
    });
}

#[test]
fn one_of_two_events_is_read_around_us() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        around(form, "one_of_two", None).run().assert_ok();
        let outcome = around(form, "one_of_two", Some(flavour)).run().assert_ok();
        assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
        assert!(outcome.number("waited") < 1.8, "{outcome}");
    });
}

/// The object's own count shows that ack, so nothing may be said of a hang.
#[test]
fn an_event_is_acknowledged_around_us() {
    for (form, flavour) in pairs(&FORMS, &FLAVOURS) {
        let (outcome, report) = at_once(form, "ack", flavour);
        outcome.assert_says(&[]);
        assert_eq!(report["incidents"], json!([]), "{report:#}");
    }
}

#[test]
fn an_event_is_read_and_acknowledged_around_us() {
    for (form, flavour) in pairs(&KINDS, &FLAVOURS) {
        at_once(form, "both", flavour).0.assert_says(&[]);
    }
}

/// The other forms are made by inline functions, through pointers that are ours also in the plug-in.
const MADE_AROUND: [&str; 4] = ["qp", "cq", "comp", "srq"];

#[test]
fn an_object_is_made_around_us() {
    for (form, flavour) in pairs(&MADE_AROUND, &FLAVOURS) {
        let (outcome, report) = at_once(form, "create", flavour);
        outcome.assert_says(&[]);
        // Its kind is known by its events, and nothing else.
        let objects = report["contexts"][0]["objects"].as_array().expect("objects");
        assert_eq!(objects.len(), 1, "{report:#}");
        assert_eq!(
            (&objects[0]["kind"], &objects[0]["foreign"], &objects[0]["state"]),
            (&json!(words(form).kind), &json!(true), &json!("destroyed")),
            "{report:#}"
        );
        assert_eq!(report["acks"]["foreign"], 1, "{report:#}");
        assert_eq!(report["incidents"], json!([]), "{report:#}");
    }
}

#[test]
fn an_object_is_destroyed_around_us() {
    for (form, flavour) in pairs(&KINDS, &FLAVOURS) {
        let (outcome, report) = at_once(form, "destroy", flavour);
        assert_eq!(outcome.value("same"), "yes", "{outcome}");
        outcome.assert_says(&[]);
        let object = object_in(&report, outcome.value("object"));
        assert_eq!((&object["foreign"], &object["bad_acks"]), (&json!(false), &json!(0)), "{report:#}");
    }
}

#[test]
fn a_context_is_opened_around_us() {
    for (form, flavour) in pairs(&FORMS, &FLAVOURS) {
        let (outcome, report) = at_once(form, "context", flavour);
        outcome.assert_says(&[]);
        assert_eq!(report["contexts"][0]["adopted"], true, "{report:#}");
    }
}

/// Some go around us, some do not: none of the program's acks is held back for that.
#[test]
fn events_of_one_object_go_both_ways() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        for flavour in [None, Some(flavour)] {
            let outcome = around(form, "mixed", flavour).run().assert_ok();
            outcome.assert_says(&[]);
            let waited = outcome.number("waited");
            assert!((0.2..0.8).contains(&waited), "{outcome}");
        }
    });
}

/// What a child has from its parent was there before its books.
#[test]
fn a_child_uses_what_it_inherited() {
    for (form, how) in pairs(&FORMS, &["fork", "_Fork"]) {
        for flavour in [None, Some(Flavour::Debug), Some(Flavour::Release)] {
            let outcome = run_ledger("inherited", &[form, how, "1"], flavour).run().assert_ok();
            outcome.assert_says(&[]);
            assert_eq!(outcome.value("child_ended"), "3", "{outcome}");
            assert_eq!((outcome.value("child_destroyed"), outcome.value("parent_destroyed")), ("0", "0"));
        }
    }
    for flavour in [None, Some(Flavour::Debug), Some(Flavour::Release)] {
        let run = run_ledger("inherited", &["qp", "fork", "2"], flavour).timeout(Duration::from_millis(700));
        assert!(run.run_or_hang().hung);
    }
}

/// There is no memory for the books: everything is passed on.
#[test]
fn no_memory_for_the_books() {
    let refuses = cc("ctests/harmless/mmap_refuses.c", &["-shared", "-fPIC"]);
    for (form, flavour) in pairs(&FORMS, &FLAVOURS) {
        for (program, args) in [("acks", &[form, "2", "2"][..]), ("early", &[form, "2", "3", "1"])] {
            let outcome = run_ledger(program, args, Some(flavour)).preload(&refuses).run().assert_ok();
            assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
            assert!(outcome.messages().len() <= 1, "{outcome}");
        }
    }
}

/// Too many acks of what was there before us are passed on: it hangs as with libibverbs alone.
#[test]
fn foreign_acks_are_passed_on() {
    all_at_once(pairs(&MADE_AROUND, &["double", "twice"]), |(form, what)| {
        for flavour in [None, Some(Flavour::Debug), Some(Flavour::Release)] {
            let run = around(form, what, flavour).timeout(Duration::from_millis(700));
            let outcome = run.run_or_hang();
            assert!(outcome.hung, "{outcome}");
            assert!(!outcome.stderr.contains("held back"), "{outcome}");
        }
    });
}
