//! The report says what the program did, no more and no less, and where it cannot know it says so.

use ibv_sa_tests::{
    FLAVOURS, Flavour, Run, acks_after, assert_report, device_after, device_after_in_full, harmless,
    with_reports,
};
use serde_json::{Value, json};

fn report_in(cq: &str, program: &str, args: &[&str], flavour: Flavour) -> Value {
    let run = || Run::new(harmless(program)).args(args).scripted();
    let plain = run().run().assert_ok();
    let (outcome, mut reports) = with_reports(run().shim(flavour).env("IBV_SA_CQ", cq));
    outcome.assert_same(&plain);
    assert_eq!(reports.len(), 1, "{outcome}");
    reports.remove(0)
}

/// What programs do is the same in each mode of looking at completions.
fn report_of(program: &str, args: &[&str], flavour: Flavour) -> Value {
    report_in("full", program, args, flavour)
}

fn sum(report: &Value, pointer: &str) -> u64 {
    let devices = report["devices"].as_array().expect("devices");
    devices.iter().filter_map(|device| device.pointer(pointer)?.as_u64()).sum()
}

#[test]
fn counts_grow_with_the_work() {
    for flavour in FLAVOURS {
        for rounds in [1, 2, 50] {
            let args: &[&str] = &[&rounds.to_string()];
            let report = report_of("rounds", args, flavour);
            assert_report(&report, device_after_in_full(rounds, rounds, rounds), acks_after(rounds));
            let report = report_in("errors", "rounds", args, flavour);
            assert_report(&report, device_after(rounds, rounds, rounds), acks_after(rounds));
            // What is not looked at is not said to be nothing.
            let report = report_in("off", "rounds", args, flavour);
            let mut device = device_after(rounds, rounds, rounds);
            for (_, count) in device["completions"].as_object_mut().expect("an object") {
                *count = Value::Null;
            }
            device["completions"].as_object_mut().expect("an object").remove("by_status");
            assert_report(&report, device, acks_after(rounds));
            assert_eq!(report["program"].as_str().map(|name| name.starts_with("rounds")), Some(true));
        }
    }
}

#[test]
fn a_context_is_adopted_when_first_seen() {
    for flavour in FLAVOURS {
        let report = report_of("adopt", &[], flavour);
        let mut device = device_after_in_full(2, 0, 1);
        device["name"] = json!("scr1");
        device["contexts"]["adopted"] = json!(1);
        assert_report(&report, device, acks_after(2));
    }
}

/// A program that never calls RDMA although it could, writes no report.
#[test]
fn no_rdma_no_report() {
    for flavour in FLAVOURS {
        let (outcome, reports) = with_reports(Run::new(harmless("plain")).shim(flavour));
        outcome.assert_code(42);
        assert_eq!(reports.len(), 0);
        let (outcome, reports) = with_reports(Run::new(harmless("rounds")).arg("0").scripted().shim(flavour));
        outcome.assert_ok();
        assert_eq!(reports.len(), 0);
    }
}

#[test]
fn more_contexts_than_the_books_hold() {
    for flavour in FLAVOURS {
        for (contexts, partial) in [(1024, false), (2600, true)] {
            let report = report_of("crowd", &["contexts", &contexts.to_string()], flavour);
            assert_eq!(report["partial"], partial, "{report:#}");
            assert_eq!(report["gaps"].as_array().map(Vec::is_empty), Some(!partial), "{report:#}");
            // Even then nothing is lost, only attributed to no known device.
            assert_eq!(sum(&report, "/contexts/opened"), contexts);
            assert_eq!(sum(&report, "/contexts/closed"), contexts);
            assert_eq!(sum(&report, "/async_events/PORT_ERR"), contexts);
            assert_eq!(report["async_acks"], json!({ "PORT_ERR": contexts }));
        }
    }
}

#[test]
fn more_cqs_than_the_books_hold() {
    for flavour in FLAVOURS {
        for (cqs, partial) in [(16000, false), (20000, true)] {
            let report = report_of("crowd", &["cqs", &cqs.to_string()], flavour);
            assert_eq!(report["partial"], partial, "{report:#}");
            assert_eq!(sum(&report, "/completions/polled"), 2 * cqs);
            assert_eq!(sum(&report, "/comp_events/got"), cqs);
            assert_eq!(sum(&report, "/comp_events/acked"), cqs);
            assert_eq!(sum(&report, "/objects/cq/destroyed"), cqs);
        }
    }
}

#[test]
fn more_provider_functions_than_trampolines() {
    for flavour in FLAVOURS {
        let report = report_of("crowd", &["devices", "16"], flavour);
        assert_eq!(report["partial"], false, "{report:#}");
        assert_eq!(sum(&report, "/completions/polled"), 3 * 16);

        let report = report_of("crowd", &["devices", "24"], flavour);
        assert_eq!(report["partial"], true, "{report:#}");
        let gaps = report["gaps"].to_string();
        assert!(gaps.contains("8 context(s) were not watched"), "{gaps}");
        assert_eq!(sum(&report, "/completions/polled"), 3 * 16);
        let failing = report_in("errors", "crowd", &["devices", "24"], flavour);
        assert!(failing["gaps"].to_string().contains("8 context(s) were not watched"), "{failing:#}");
        assert_eq!(sum(&failing, "/completions/failed"), 16);
        // What is not looked at lacks no trampoline.
        let off = report_in("off", "crowd", &["devices", "24"], flavour);
        assert_eq!((&off["partial"], &off["gaps"]), (&json!(false), &json!([])), "{off:#}");
        // All the rest does not depend on trampolines.
        assert_eq!(sum(&report, "/comp_events/got"), 24);
        assert_eq!(sum(&report, "/contexts/opened"), 24);
        assert_eq!(report["async_acks"], acks_after(24));
    }
}

/// By the exported symbol or by C's inline function: a completion is counted once.
#[test]
fn both_ways_to_poll_count_once() {
    for flavour in FLAVOURS {
        let run = Run::new(harmless("exported_poll")).scripted().shim(flavour).env("IBV_SA_CQ", "full");
        let (outcome, reports) = with_reports(run);
        let outcome = outcome.assert_ok();
        assert_eq!(outcome.stdout, "calls of the provider: 3\n");
        let completions = json!({
            "polled": 10, "failed": 0, "unattributed": 0, "poll_errors": 0,
            "by_status": {}, "by_opcode": { "SEND": 10 },
        });
        assert_eq!(reports[0]["devices"][0]["completions"], completions);
    }
}

/// What a CQ counted stays with its device when another device's CQ comes to live at its address.
#[test]
fn a_new_cq_at_an_old_address_is_another_cq() {
    for flavour in FLAVOURS {
        let (outcome, reports) =
            with_reports(Run::new(harmless("reuse")).scripted().shim(flavour).env("IBV_SA_CQ", "full"));
        assert_eq!(outcome.assert_ok().stdout, "same address: yes\n");
        let devices = reports[0]["devices"].as_array().expect("devices");
        let polled = |name: &str| {
            let device = devices.iter().find(|device| device["name"] == name);
            device.and_then(|device| device["completions"]["polled"].as_u64())
        };
        assert_eq!((polled("scr0"), polled("scr1")), (Some(20), Some(30)), "{:#}", reports[0]);
    }
}

/// Whether the schema accepts a report: Debian's python3-jsonschema says so.
fn is_valid(report: &Value) -> bool {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let instance = dir.path().join("report.json");
    std::fs::write(&instance, report.to_string()).expect("a file");
    let checked = std::process::Command::new("/usr/bin/python3")
        .args(["-W", "ignore", "-m", "jsonschema", "-i"])
        .args([instance, ibv_sa_tests::path("docs/report-schema.json")])
        .output()
        .expect("python3 runs");
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!said.contains("No module"), "python3-jsonschema is missing: run `make setup`: {said}");
    checked.status.success()
}

#[test]
fn reports_are_what_the_schema_says() {
    let plain = report_of("rounds", &["1"], Flavour::Release);
    assert!(is_valid(&plain), "{plain:#}");
    let partial = report_of("crowd", &["devices", "24"], Flavour::Release);
    assert!(is_valid(&partial), "{partial:#}");
    for cq in ["off", "errors"] {
        let report = report_in(cq, "rounds", &["1"], Flavour::Release);
        assert!(is_valid(&report), "{report:#}");
    }

    // The schema can say no: every field that we write is one that it demands.
    let fields: Vec<String> = plain.as_object().expect("an object").keys().cloned().collect();
    for field in fields {
        let mut without = plain.clone();
        without.as_object_mut().expect("an object").remove(&field);
        assert!(!is_valid(&without), "the schema does not miss {field}");
    }
}
