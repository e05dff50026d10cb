//! The books under load, the pace of the lines, and the JSON report.

use std::time::Duration;

use ibv_sa_tests::ledger::{KINDS, all_at_once, incidents, object_in, pairs, run_ledger, with_report, words};
use ibv_sa_tests::{FLAVOURS, Flavour, are_valid, is_valid};
use serde_json::{Value, json};

/// The 1st, the 10th, the 100th ... bad ack of an object makes a line; all are counted.
#[test]
fn a_million_bad_acks_of_one_object() {
    all_at_once(pairs(&["qp", "comp"], &FLAVOURS), |(form, flavour)| {
        let run = run_ledger("storm", &[form, "1", "1000000"], Some(flavour));
        let (outcome, report) = with_report(run.timeout(Duration::from_secs(60)));
        let outcome = outcome.assert_ok();
        let messages = outcome.messages();
        assert_eq!(messages.len(), 7, "{outcome}");
        let ack = words(form).ack;
        for message in &messages {
            assert!(message.starts_with(&format!(
                "{ack}: {}: {} acknow",
                outcome.value("object"),
                outcome.value("thread")
            )));
        }
        assert_eq!((&report["acks"]["bad"], &report["acks"]["held"]), (&json!(1_000_000), &json!(1_000_000)));
        let object = object_in(&report, outcome.value("object"));
        assert_eq!((&object["bad_acks"], &object["held_acks"]), (&json!(1_000_000), &json!(1_000_000)));
        // One incident for each object.
        let bad = incidents(&report, "bad_ack");
        assert_eq!(bad.len(), 1, "{report:#}");
        assert_eq!(bad[0]["count"], 1_000_000, "{report:#}");
        assert!(is_valid(&report), "{report:#}");
    });
}

#[test]
fn bad_acks_of_very_many_objects() {
    for flavour in FLAVOURS {
        let (outcome, report) = with_report(run_ledger("storm", &["qp", "3000", "1"], Some(flavour)));
        let outcome = outcome.assert_ok();
        let lines = outcome.messages().len();
        assert!((10..=20).contains(&lines), "{lines}: {outcome}");
        assert_eq!(report["acks"]["bad"], 3000, "{report:#}");
        let kept = incidents(&report, "bad_ack").len() as u64;
        assert!(kept >= 10, "{report:#}");
        assert_eq!(report["incidents_left_out"], 3000 - kept);
        assert!(is_valid(&report));
    }
}

/// Ten in a burst, then one a second, and each of those says how many there were in between.
#[test]
fn lines_come_one_a_second() {
    all_at_once(FLAVOURS, |flavour| {
        let run = run_ledger("storm", &["srq", "32", "1", "100"], Some(flavour));
        let (outcome, report) = with_report(run);
        let outcome = outcome.assert_ok();
        let messages = outcome.messages();
        let seconds = outcome.number("took") as usize;
        assert!((11..=12 + seconds).contains(&messages.len()), "{outcome}");
        assert!(messages[..10].iter().all(|line| !line.contains("left out")), "{outcome}");
        let with_a_count = messages.iter().filter(|line| line.contains("left out"));
        let left_out: u64 = with_a_count.map(|line| count_before(line, " lines left out")).sum();
        assert!(left_out > 5, "{outcome}");
        // What no line told of is in the report.
        let untold = report["lines_left_out"].as_u64().expect("a number");
        assert_eq!(left_out + messages.len() as u64 + untold, 32, "{outcome}");
        assert_eq!(report["acks"]["bad"], 32, "{report:#}");
    });
}

fn count_before(line: &str, words: &str) -> u64 {
    let before = line.split(words).next().unwrap_or_default();
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or_else(|_| panic!("no count in {line}"))
}

#[test]
fn more_objects_than_the_books_hold() {
    all_at_once(pairs(&["qp", "comp"], &FLAVOURS), |(form, flavour)| {
        let run = run_ledger("many", &[form, "100000"], Some(flavour)).timeout(Duration::from_secs(60));
        let (outcome, report) = with_report(run);
        let outcome = outcome.assert_ok();
        assert_eq!(outcome.value("alive"), "0", "{outcome}");
        outcome.assert_says(&[]);
        assert_eq!(report["partial"], true, "{}", report["gaps"]);
        // What finds no room is counted all the same, under its device or under none.
        let sum = |pointer: &str| -> u64 {
            let devices = report["devices"].as_array().into_iter().flatten();
            devices.filter_map(|device| device.pointer(pointer)?.as_u64()).sum()
        };
        if form == "qp" {
            assert_eq!(sum("/objects/qp/destroyed"), 100_000, "{report:#}");
            assert_eq!(sum("/async_events/SQ_DRAINED"), 100_000, "{report:#}");
            assert_eq!(report["async_acks"], json!({ "SQ_DRAINED": 100_000 }), "{report:#}");
        } else {
            assert_eq!(sum("/objects/cq/destroyed"), 100_000, "{report:#}");
            assert_eq!(
                (sum("/comp_events/got"), sum("/comp_events/acked")),
                (100_000, 100_000),
                "{report:#}"
            );
        }
    });
}

#[test]
fn many_objects_that_do_fit() {
    for (form, flavour) in pairs(&KINDS, &FLAVOURS) {
        let (outcome, report) = with_report(run_ledger("many", &[form, "1000"], Some(flavour)));
        outcome.assert_ok().assert_says(&[]);
        assert_eq!(report["partial"], false, "{}", report["gaps"]);
        // At most 256 are listed; those left out are counted.
        let context = &report["contexts"][0];
        let listed = context["objects"].as_array().map_or(0, Vec::len) as u64;
        assert_eq!(context["objects_left_out"].as_u64().unwrap_or_default() + listed, 1000, "{context:#}");
        assert_eq!(listed, 256, "{context:#}");
    }
}

#[test]
fn eight_threads_count_exactly() {
    const EVENTS: u64 = 3000;
    for flavour in FLAVOURS {
        let (outcome, report) = with_report(run_ledger("eight", &[&EVENTS.to_string()], Some(flavour)));
        let outcome = outcome.assert_ok();
        outcome.assert_says(&[]);
        assert!(outcome.number("waited") < 0.7, "{outcome}");
        assert_eq!(report["partial"], false, "{}", report["gaps"]);
        let find = |kind: &str, handle: Option<u64>, number: Option<u64>| -> &Value {
            let objects = report["contexts"][0]["objects"].as_array().expect("objects");
            let wanted = |object: &&Value| {
                object["kind"] == kind
                    && handle.is_none_or(|handle| object["handle"] == handle)
                    && number.is_none_or(|number| object["number"] == number)
            };
            objects.iter().find(wanted).unwrap_or_else(|| panic!("{report:#}"))
        };
        let parse = |text: &str| text.parse().expect("a number");
        let comp = find("CQ", Some(parse(outcome.value("comp"))), None);
        assert_eq!(comp["comp_events"], json!({ "got": 8 * EVENTS, "acked": 8 * EVENTS }), "{comp:#}");
        let shared = find("QP", None, Some(parse(outcome.value("shared"))));
        assert_eq!(shared["async_events"], json!({ "SQ_DRAINED": 8 * EVENTS }), "{shared:#}");
        assert_eq!(
            (&shared["async_acks"], &shared["bad_acks"]),
            (&json!(8 * EVENTS), &json!(0)),
            "{shared:#}"
        );
        for own in outcome.values("own") {
            let own = find("QP", None, Some(parse(own)));
            assert_eq!((&own["async_acks"], &own["bad_acks"]), (&json!(EVENTS), &json!(0)), "{own:#}");
        }
        assert_eq!(report["async_acks"], json!({ "SQ_DRAINED": 16 * EVENTS }), "{report:#}");
        assert_eq!(incidents(&report, "two_readers").len(), 1, "{report:#}");
    }
}

/// Counts of an object, of its context and of its device agree, and the lines are in the report word for word.
#[test]
fn the_report_agrees_with_itself_and_the_lines() {
    let cases = [
        ("acks", &["qp", "1", "3"][..]),
        ("acks", &["wq", "4", "4"]),
        ("late", &["srq", "2", "1500"]),
        ("late", &["open_qp", "1", "1500", "ended"]),
        ("handler", &["comp_ex", "500"]),
        ("after_destroy", &["cq_ex"]),
        ("exit_waiting", &["qp_ex", "1200", "exit"]),
        ("refused", &["qp", "16"]),
        ("removal", &["blocking", "fatal", "remove", "get", "get", "destroy"]),
        ("readers", &["2"]),
        ("backlog", &["edge"]),
    ];
    all_at_once(cases, |(program, args)| {
        let (outcome, report) = with_report(run_ledger(program, args, Some(Flavour::Release)));
        assert!(is_valid(&report), "{report:#}");
        let all = report["incidents"].as_array().expect("incidents");
        let at: Vec<u64> = all.iter().map(|incident| incident["at_ms"].as_u64().expect("a time")).collect();
        assert!(at.is_sorted(), "{report:#}");
        let texts: Vec<&str> = all.iter().filter_map(|incident| incident["text"].as_str()).collect();
        for message in outcome.messages() {
            assert!(
                texts.iter().any(|text| text.starts_with(message)),
                "not in the report: {message}\n{report:#}"
            );
        }
        let sum = |objects: &Value, field: &str| -> u64 {
            let objects = objects.as_array().into_iter().flatten();
            objects.filter_map(|object| object[field].as_u64()).sum()
        };
        let objects = &report["contexts"][0]["objects"];
        assert_eq!(report["acks"]["bad"], sum(objects, "bad_acks"), "{report:#}");
        assert_eq!(report["acks"]["held"], sum(objects, "held_acks"), "{report:#}");
        assert_eq!(report["contexts"][0]["async_events"], report["devices"][0]["async_events"], "{report:#}");
    });
}

/// The schema can say no: every field that the ledger writes is one that it demands, at every level.
#[test]
fn the_schema_demands_every_field() {
    let (_, report) =
        with_report(run_ledger("exit_waiting", &["qp", "2500", "exit"], Some(Flavour::Release)));
    assert!(is_valid(&report), "{report:#}");
    let pointers =
        ["", "/acks", "/contexts/0", "/contexts/0/objects/0", "/contexts/0/objects/0/open/0", "/incidents/0"];
    let mut wrong = Vec::new();
    for pointer in pointers {
        let fields = report.pointer(pointer).and_then(Value::as_object);
        for field in fields.unwrap_or_else(|| panic!("{pointer} {report:#}")).keys() {
            let mut without = report.clone();
            without.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object").remove(field);
            wrong.push((format!("without {pointer}/{field}"), without));
        }
    }
    for (pointer, value) in [
        ("/ack_mode", json!("none")),
        ("/hang_secs", json!(0)),
        ("/contexts/0/state", json!("lost")),
        ("/contexts/0/objects/0/kind", json!("PD")),
        ("/contexts/0/objects/0/open/0/count", json!(-1)),
        ("/incidents/0/kind", json!("other")),
        ("/incidents/0/level", json!("error")),
    ] {
        let mut other = report.clone();
        *other.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} {report:#}")) = value;
        wrong.push((format!("another {pointer}"), other));
    }
    let (names, reports): (Vec<String>, Vec<Value>) = wrong.into_iter().unzip();
    let accepted = names.iter().zip(are_valid(&reports)).filter(|(_, valid)| *valid);
    assert_eq!(accepted.map(|(name, _)| name).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Without IBV_SA_REPORT the books are kept all the same, and nothing is written at the end.
#[test]
fn the_books_need_no_report() {
    for flavour in FLAVOURS {
        let outcome = run_ledger("acks", &["qp_ex", "1", "2"], Some(flavour)).run().assert_ok();
        assert_eq!(outcome.messages().len(), 1, "{outcome}");
        let text = run_ledger("acks", &["qp_ex", "1", "2"], Some(flavour)).env("IBV_SA_REPORT", "text");
        let text = text.run().assert_ok();
        assert!(text.messages().len() > 3, "{text}");
        assert!(text.stderr.contains("held"), "the text form is silent about it: {text}");
    }
}
