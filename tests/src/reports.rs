//! Running a program with the exit report on, and what the reports of its processes must say.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::{Outcome, Run, path};

/// Runs it with JSON reports, one for each process; they come sorted by how many failed completions they count.
pub fn with_reports(run: Run) -> (Outcome, Vec<Value>) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let target = format!("json:{}/%p", dir.path().display());
    let outcome = run.env("IBV_SA_REPORT", target).run();
    let mut reports: Vec<Value> = fs::read_dir(dir.path())
        .expect("the folder can be read")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).expect("a report in UTF-8");
            let report: Value =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in the report {text:?}"));
            assert_eq!(
                Some(report["pid"].to_string()),
                path.file_name().map(|name| name.to_string_lossy().into_owned()),
                "the report has another process's id"
            );
            report
        })
        .collect();
    reports.sort_by_key(failed);
    (outcome, reports)
}

fn failed(report: &Value) -> u64 {
    let devices = report["devices"].as_array().into_iter().flatten();
    devices.filter_map(|device| device["completions"]["failed"].as_u64()).sum()
}

/// What a report must say of a device after that many rounds (`one_round` in `ctests/harmless/harmless.h`).
pub fn device_after(rounds: u64, opened: u64, closed: u64) -> Value {
    let life = json!({ "created": rounds, "destroyed": rounds });
    json!({
        "name": "scr0",
        "contexts": { "opened": opened, "adopted": 0, "closed": closed },
        "objects": {
            "qp": life, "cq": life, "srq": life, "comp_channel": life,
            "wq": { "created": 0, "destroyed": 0 },
        },
        "async_events": acks_after(rounds),
        "comp_events": { "got": rounds, "acked": rounds },
        "completions": {
            "polled": null, "failed": rounds, "unattributed": 0, "poll_errors": 0,
            "by_status": { "WR_FLUSH_ERR": rounds }, "by_opcode": null,
        },
    })
}

/// The same under `IBV_SA_CQ=full`.
pub fn device_after_in_full(rounds: u64, opened: u64, closed: u64) -> Value {
    let mut device = device_after(rounds, opened, closed);
    device["completions"]["polled"] = json!(3 * rounds);
    device["completions"]["by_opcode"] = json!({ "SEND": 2 * rounds });
    device
}

/// The asynchronous events that so many rounds take and acknowledge.
pub fn acks_after(rounds: u64) -> Value {
    json!({
        "COMM_EST": rounds, "SQ_DRAINED": rounds, "SRQ_LIMIT_REACHED": rounds, "PORT_ACTIVE": rounds,
    })
}

/// Fails unless the report is complete and has this one device and these acknowledgements.
#[track_caller]
pub fn assert_report(report: &Value, device: Value, acks: Value) {
    assert_eq!(report["schema"], "ibv_sa.report/1");
    assert_eq!((&report["partial"], &report["gaps"]), (&json!(false), &json!([])), "{report:#}");
    assert_eq!(report["devices"], json!([device]), "{report:#}");
    assert_eq!(report["async_acks"], acks, "{report:#}");
}

/// Whether the schema accepts a report.
pub fn is_valid(report: &Value) -> bool {
    are_valid(std::slice::from_ref(report))[0]
}

/// Which of the reports the schema accepts: Debian's python3-jsonschema says so.
pub fn are_valid(reports: &[Value]) -> Vec<bool> {
    const SCRIPT: &str = "import json, sys, jsonschema
validator = jsonschema.Draft202012Validator(json.load(open(sys.argv[1])))
print(*(int(validator.is_valid(report)) for report in json.load(open(sys.argv[2]))))";

    let dir = tempfile::tempdir().expect("a temporary folder");
    let instances = dir.path().join("reports.json");
    fs::write(&instances, serde_json::to_vec(reports).expect("JSON")).expect("a file");
    let checked = Command::new("/usr/bin/python3")
        .args(["-W", "ignore", "-c", SCRIPT])
        .args([path("docs/report-schema.json"), instances])
        .output()
        .expect("python3 runs");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(!said.contains("No module"), "python3-jsonschema is missing: run `make setup`: {said}");
    assert!(checked.status.success(), "{said}");
    let verdicts = String::from_utf8_lossy(&checked.stdout);
    verdicts.split_whitespace().map(|verdict| verdict == "1").collect()
}
