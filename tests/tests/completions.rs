//! What is said of a QP whose completions fail, and what the report knows of it: `ctests/completions/scene.c` does what
//! its steps say and prints what it got.

use ibv_sa_tests::ledger::{all_at_once, incidents, pairs, run_completions, with_report};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, are_valid};
use serde_json::{Value, json};

const ONLY_FOLLOWS: &str = "WR_FLUSH_ERR on this QP only follows from it";

/// The number of a QP that nobody has made (`other:` in scene.c).
const OTHER: u64 = 703710;

/// The modes in which errors are looked at.
const LOOKING: [&str; 2] = ["errors", "full"];

/// One scene, and what is to be made of it.
struct Scene {
    steps: &'static str,
    /// What the shim says: `first`, `first2`: the first failure of the first and the second QP; others are patterns.
    says: &'static [&'static str],
    /// For each QP with failed completions: its key, failures, flushes, and the kind of the cause.
    verdicts: &'static [(&'static str, u64, u64, &'static str)],
    unattributed: u64,
}

const fn scene(
    steps: &'static str,
    says: &'static [&'static str],
    verdicts: &'static [(&'static str, u64, u64, &'static str)],
) -> Scene {
    Scene { steps, says, verdicts, unattributed: 0 }
}

/// That a failure was not seen, and where it may be.
const UNREAD: &str = "{qp}: # work requests were flushed (WR_FLUSH_ERR, first wr_id *): no first failure was visible to \
                      this process: *an event that says why (QP_FATAL, QP_REQ_ERR, QP_ACCESS_ERR) may lie unread: call \
                      ibv_get_async_event";
const AROUND: &str = "{qp}: # work requests were flushed (WR_FLUSH_ERR, first wr_id *): no first failure was visible to \
                      this process: its driver, or code around this library, moved the QP to ERR";
const OTHER_CQ: &str = "{qp}: # work requests were flushed (WR_FLUSH_ERR, first wr_id *): no first failure was visible to \
                        this process: it may lie unpolled in the QP's other CQ (handle {send_cq})*";
const ONE_FLUSH: &str = "{qp}: 1 work request was flushed (WR_FLUSH_ERR, first wr_id {flushed}): *";
const GONE: &str = "*: the device has failed or is gone: *";

const FAILURES: [Scene; 12] = [
    scene("poll:send:12 close", &["first"], &[("qp", 1, 0, "failure")]),
    scene("poll:send:0x3,13,5x4 poll:recv:5x9 close", &["first"], &[("qp", 1, 13, "failure")]),
    // More failures than one, and a status that nobody knows.
    scene("poll:recv:4 poll:send:10,1000 close", &["first"], &[("qp", 3, 0, "failure")]),
    scene("poll:send:1000 close", &["first"], &[("qp", 1, 0, "failure")]),
    // The flushes are polled before the failure, which lies in the other CQ.
    scene("poll:recv:5x3 poll:send:9 close", &["before"], &[("qp", 1, 3, "failure")]),
    scene("+one_cq poll:send:5,11,5 close", &["before"], &[("qp", 1, 2, "failure")]),
    scene("+srq poll:recv:0,1,5 close", &["first"], &[("qp", 1, 1, "failure")]),
    scene("+qp_ex poll:send:2,5 close", &["first"], &[("qp", 1, 1, "failure")]),
    scene("+open_qp poll:recv:7,5 close", &["first"], &[("qp", 1, 1, "failure")]),
    // The second life of a number, and the second life of a QP.
    scene(
        "+open_qp poll:send:12 destroy another poll:send:13,5 close",
        &["first", "first2"],
        &[("qp", 1, 0, "failure"), ("qp2", 1, 1, "failure")],
    ),
    scene("poll:send:12,5 modify:reset poll:recv:0,0 close", &["first"], &[]),
    // Statuses of tag matching say nothing of the QP.
    scene("poll:recv:22,23,0 close", &[], &[]),
];

const FLUSHES: [Scene; 21] = [
    // No event can lie unread, for somebody asks.
    scene("+one_cq ask poll:recv:5x2 close", &[AROUND], &[("qp", 0, 2, "unknown")]),
    scene("poll:recv:5x3 shut", &[OTHER_CQ], &[("qp", 0, 3, "unknown")]),
    scene("modify:reset modify:rtr poll:recv:5x2 close", &[OTHER_CQ], &[("qp", 0, 2, "unknown")]),
    scene("poll:recv:5x3 close", &[OTHER_CQ], &[("qp", 0, 3, "unknown")]),
    // Whoever made it ready around us may have ended it around us.
    scene("+unready poll:recv:5x3 close", &[], &[("qp", 0, 3, "unknown")]),
    scene("poll:recv:5x3 destroy close", &[OTHER_CQ], &[("qp", 0, 3, "unknown")]),
    scene("poll:recv:5x3", &[OTHER_CQ], &[("qp", 0, 3, "unknown")]),
    scene("poll:recv:5 modify:reset close", &[ONE_FLUSH], &[]),
    scene("+one_cq poll:recv:5x2 close", &[UNREAD], &[("qp", 0, 2, "unknown")]),
    scene("poll:recv:5x3 queue:send:12 close", &[OTHER_CQ], &[("qp", 0, 3, "unknown")]),
    scene(
        "+one_cq poll:recv:5 wait poll:recv:5 poll:recv:5 close",
        &["{qp}: 2 *"],
        &[("qp", 0, 3, "unknown")],
    ),
    // Afterwards the failure is still worth a line.
    scene(
        "poll:recv:5 wait poll:recv:5 poll:send:12 close",
        &[OTHER_CQ, "before"],
        &[("qp", 1, 2, "failure")],
    ),
    // The program's own doing.
    scene("modify:err poll:recv:5x3 close", &[], &[("qp", 0, 3, "moved")]),
    scene("modify:reset poll:recv:5x3 close", &[], &[("qp", 0, 3, "moved")]),
    scene("modify:err poll:recv:5 wait poll:recv:5 close", &[], &[("qp", 0, 2, "moved")]),
    scene("modify:err poll:recv:5 poll:send:12 close", &["before"], &[("qp", 1, 1, "failure")]),
    // Not its doing: the move failed, came later, or was another.
    scene("refuse:err poll:recv:5x2 close", &[OTHER_CQ], &[("qp", 0, 2, "unknown")]),
    scene("poll:recv:5x2 modify:err close", &[OTHER_CQ], &[("qp", 0, 2, "unknown")]),
    // Twice, as some do: the first move is the one.
    scene("modify:err poll:recv:5 event:3 modify:err close", &[], &[("qp", 0, 1, "moved")]),
    scene("modify:rtr poll:recv:5x2 close", &[OTHER_CQ], &[("qp", 0, 2, "unknown")]),
    scene(
        "overrun poll:send:5 poll:recv:5 close",
        &["*was overrun (CQ_ERR), which loses completions*"],
        &[("qp", 0, 2, "unknown")],
    ),
];

const OTHERS: [Scene; 10] = [
    // An event says why.
    scene(
        "event:1 poll:recv:5 close",
        &["{qp}: *QP_FATAL says why, got by thread {tid} # s ago"],
        &[("qp", 0, 1, "event")],
    ),
    scene(
        "poll:recv:5 event:3 close",
        &["{qp}: *QP_ACCESS_ERR says why, got by thread {tid} # s ago"],
        &[("qp", 0, 1, "event")],
    ),
    scene(
        "event:2 modify:err poll:recv:5 close",
        &["{qp}: *QP_REQ_ERR says why, *"],
        &[("qp", 0, 1, "event")],
    ),
    // Other events of the QP say nothing of it.
    scene("event:4 poll:recv:5x2 close", &[OTHER_CQ], &[("qp", 0, 2, "unknown")]),
    scene("remove poll:recv:5x2", &[GONE], &[("qp", 0, 2, "device_gone")]),
    // Nothing is concluded from the number of a QP that is gone, or that was never there.
    Scene { unattributed: 3, ..scene("destroy poll:recv:5x2,12 close", &[], &[]) },
    scene("other:send:5x2 close", &[], &[("other", 0, 2, "unknown")]),
    // On a context whose birth was not seen flushes say too little.
    scene("+around poll:recv:5x2 close", &[], &[("qp_num", 0, 2, "unknown")]),
    scene("+around poll:recv:5x2 poll:send:12 close", &["before"], &[("qp_num", 1, 2, "failure")]),
    scene("other:send:13 close", &["other"], &[("other", 1, 0, "failure")]),
];

/// Fails unless the shim says what the scene says, in each mode and through plain and extended CQs.
fn check(scenes: &[Scene]) {
    let indices: Vec<usize> = (0..scenes.len()).collect();
    all_at_once(pairs(&indices, &pairs(&FLAVOURS, &LOOKING)), |(index, (flavour, cq))| {
        let scene = &scenes[index];
        for options in [&[][..], &["+ex"]] {
            play(scene, options, flavour, cq);
        }
    });
}

fn steps<'a>(scene: &Scene, options: &[&'a str]) -> Vec<&'a str>
where
    'static: 'a,
{
    options.iter().copied().chain(scene.steps.split(' ')).collect()
}

#[track_caller]
fn play(scene: &Scene, options: &[&str], flavour: Flavour, cq: &str) {
    let run = run_completions("scene", &steps(scene, options), Some(flavour));
    let (outcome, report) = with_report(run.env("IBV_SA_CQ", cq).env("POISON", "255"));
    let outcome = outcome.assert_ok();
    let mut patterns: Vec<String> = scene.says.iter().map(|says| pattern(says)).collect();
    if cq == "full" && scene.steps.contains("overrun") {
        patterns.insert(0, "*: CQ_ERR: *".into());
    }
    outcome.assert_says(&patterns.iter().map(String::as_str).collect::<Vec<_>>());
    let told = incidents(&report, "first_failure").len() + incidents(&report, "flushed_alone").len();
    assert_eq!(told, scene.says.iter().filter(|says| **says != GONE).count(), "{outcome}\n{report:#}");
    judge(scene, &outcome, &report, cq);
}

fn pattern(says: &str) -> String {
    match says {
        "first" | "first2" => {
            let life = &says["first".len()..];
            format!("{{qp{life}}}: first failure {{first{life}}}: *; {ONLY_FOLLOWS}")
        }
        "before" => {
            format!(
                "{{qp}}: first failure {{first}}: *; {ONLY_FOLLOWS}, of which # work request* flushed that w* polled before"
            )
        }
        "other" => format!("QP qp_num {OTHER} (scr0): first failure RNR_RETRY_EXC_ERR (vendor_err 0x8d, *"),
        other => other.into(),
    }
}

/// The report's verdicts are what the program got.
#[track_caller]
fn judge(scene: &Scene, outcome: &Outcome, report: &Value, cq: &str) {
    let completions = &report["devices"][0]["completions"];
    assert_eq!(completions["unattributed"], scene.unattributed, "{outcome}\n{report:#}");
    assert_eq!(completions["polled"].is_u64(), cq == "full", "{report:#}");
    let failed = completions["failed"].as_u64().expect("a number");
    let printed =
        ["first", "later", "flushed", "first2", "flushed2"].map(|key| outcome.values(key).len() as u64);
    if !scene.steps.contains("other") {
        assert_eq!(failed, printed.iter().sum::<u64>(), "{outcome}\n{report:#}");
    }
    let verdicts = report["contexts"][0]["verdicts"].as_array().expect("verdicts");
    assert_eq!(verdicts.len(), scene.verdicts.len(), "{outcome}\n{report:#}");
    for (key, failures, flushes, cause) in scene.verdicts {
        let foreign = ["qp_num", "other"].contains(key);
        let number: u64 = match *key {
            "other" => OTHER,
            "qp_num" => outcome.number("qp_num") as u64,
            key => outcome.number(&key.replace("qp", "qp_num")) as u64,
        };
        let wanted = |verdict: &&Value| {
            verdict["qp_num"] == number
                && (verdict["cause"]["kind"] == *cause)
                && verdict["flushes"] == *flushes
        };
        let found = verdicts.iter().find(wanted);
        let verdict = found.unwrap_or_else(|| panic!("no verdict on {key}: {outcome}\n{report:#}"));
        assert_eq!(verdict["failures"], *failures, "{outcome}\n{report:#}");
        assert_eq!(verdict["foreign"], foreign, "{report:#}");
        if !foreign {
            let handle = format!("(handle {},", verdict["handle"]);
            assert!(outcome.value(key).contains(&handle), "{outcome}\n{report:#}");
        }
        if *flushes != 0 && *key == "qp" {
            assert_eq!(verdict["first_flush_wr_id"], outcome.values("flushed")[0], "{outcome}\n{report:#}");
        }
        if *cause == "failure" && *key != "other" {
            let key = if *key == "qp2" { "first2" } else { "first" };
            let vendor_err = verdict["cause"]["vendor_err"].as_u64().expect("a number");
            let text = |field: &str| verdict["cause"][field].as_str().expect("a text");
            let failure = format!("{} (vendor_err {vendor_err:#x}, wr_id {})", text("status"), text("wr_id"));
            assert_eq!(failure, outcome.value(key), "{report:#}");
        }
    }
}

#[test]
fn the_first_failure_is_said_once() {
    check(&FAILURES);
}

#[test]
fn flushes_without_a_failure_are_said_once_when_the_qp_ends() {
    check(&FLUSHES);
}

#[test]
fn events_removals_and_strangers() {
    check(&OTHERS);
}

/// `IBV_SA_CQ=off`: no line, no verdict, no count.
#[test]
fn nothing_is_looked_at() {
    let all = FAILURES.iter().chain(&FLUSHES).chain(&OTHERS).filter(|scene| !scene.steps.contains("wait"));
    let all: Vec<&Scene> = all.collect();
    let indices: Vec<usize> = (0..all.len()).collect();
    all_at_once(pairs(&indices, &FLAVOURS), |(index, flavour)| {
        let run = run_completions("scene", &steps(all[index], &[]), Some(flavour)).env("IBV_SA_CQ", "off");
        let (outcome, report) = with_report(run);
        let outcome = outcome.assert_ok();
        let gone = usize::from(all[index].says.contains(&GONE));
        assert_eq!(outcome.messages().len(), gone, "{outcome}");
        assert_eq!(report["contexts"][0]["verdicts"], json!([]), "{report:#}");
        assert_eq!(report["devices"][0]["completions"]["failed"], json!(null), "{report:#}");
    });
}

/// The program prints the same in every mode as without the shim, and the schema takes every report.
#[test]
fn the_program_sees_no_difference() {
    let all: Vec<&Scene> = FAILURES.iter().chain(&FLUSHES).chain(&OTHERS).collect();
    let all: Vec<&&Scene> = all.iter().filter(|scene| !scene.steps.contains("wait")).collect();
    let mut reports = Vec::new();
    for scene in all {
        let plain = run_completions("scene", &steps(scene, &["+ex"]), None).run().assert_ok();
        assert_eq!(plain.stderr, "");
        for cq in ["off", "errors", "full"] {
            let run = run_completions("scene", &steps(scene, &["+ex"]), Some(Flavour::Release));
            let (outcome, report) = with_report(run.env("IBV_SA_CQ", cq));
            let without_tid = |text: &str| text.lines().skip(1).collect::<Vec<_>>().join("\n");
            assert_eq!(without_tid(&outcome.stdout), without_tid(&plain.stdout), "{outcome}");
            reports.push(report);
        }
    }
    let valid = are_valid(&reports);
    let wrong = reports.iter().zip(valid).find(|(_, valid)| !valid);
    assert!(wrong.is_none(), "{wrong:#?}");
}

/// Whom a QP was connected to is part of its name.
#[test]
fn the_peer_is_named() {
    for (how, name, lid, gid) in [
        ("lid", "LID 17185", json!(17185), json!(null)),
        (
            "gid",
            "GID 2021:2223:2425:2627:2829:2a2b:2c2d:2e2f",
            json!(null),
            json!("2021:2223:2425:2627:2829:2a2b:2c2d:2e2f"),
        ),
    ] {
        for flavour in FLAVOURS {
            let run = run_completions(
                "scene",
                &[&format!("connect:{how}"), "poll:send:12", "close"],
                Some(flavour),
            );
            let (outcome, report) = with_report(run);
            let outcome = outcome.assert_ok();
            outcome.assert_says(&[&format!(
                "{{qp}}, peer qp_num 1193046 at {name}: first failure {{first}}: *"
            )]);
            let peer = &report["contexts"][0]["verdicts"][0]["peer"];
            assert_eq!(*peer, json!({ "qp_num": 1193046, "lid": lid, "gid": gid }), "{report:#}");
        }
    }
}

/// An extended CQ has the readers that the program asked for.
#[test]
fn readers_that_are_not_there() {
    all_at_once(pairs(&FLAVOURS, &LOOKING), |(flavour, cq)| {
        let play = |options: &[&str]| {
            let args: Vec<&str> =
                options.iter().copied().chain(["poll:recv:0,5x2", "poll:send:12,0", "close"]).collect();
            let (outcome, report) =
                with_report(run_completions("scene", &args, Some(flavour)).env("IBV_SA_CQ", cq));
            (outcome.assert_ok(), report)
        };
        // Whose failures they are nobody can say.
        let (outcome, report) = play(&["+ex", "+no_qp_num"]);
        outcome.assert_says(&[]);
        let completions = &report["devices"][0]["completions"];
        assert_eq!(
            (&completions["failed"], &completions["unattributed"]),
            (&json!(3), &json!(3)),
            "{report:#}"
        );
        assert_eq!(report["contexts"][0]["verdicts"], json!([]), "{report:#}");

        let (outcome, report) = play(&["+ex", "+no_vendor_err"]);
        outcome.assert_says(&[&pattern("before")]);
        let cause = &report["contexts"][0]["verdicts"][0]["cause"];
        assert_eq!(
            (&cause["status"], &cause["vendor_err"]),
            (&json!("RETRY_EXC_ERR"), &json!(0)),
            "{report:#}"
        );

        let (outcome, report) = play(&["+ex", "+no_opcode"]);
        outcome.assert_says(&[&pattern("before")]);
        let opcodes = if cq == "full" { json!({ "other": 2 }) } else { json!(null) };
        assert_eq!(report["devices"][0]["completions"]["by_opcode"], opcodes, "{report:#}");
    });
}

/// What is not defined of a failed completion has no influence on anything.
#[test]
fn undefined_fields_are_not_read() {
    all_at_once(pairs(&FLAVOURS, &LOOKING), |(flavour, cq)| {
        for options in [&[][..], &["+ex"]] {
            let runs = ["0", "255", "90"].map(|poison| {
                let args: Vec<&str> = options
                    .iter()
                    .copied()
                    .chain(["poll:recv:0,5,0", "poll:send:0,12,10,5", "close"])
                    .collect();
                let run =
                    run_completions("scene", &args, Some(flavour)).env("IBV_SA_CQ", cq).env("POISON", poison);
                let (outcome, mut report) = with_report(run);
                let said = outcome.messages().join("\n");
                // Times and threads are those of the run.
                for field in ["pid", "seconds", "started", "ended", "incidents"] {
                    report.as_object_mut().expect("an object").remove(field);
                }
                let cause = &mut report["contexts"][0]["verdicts"][0]["cause"];
                cause.as_object_mut().expect("an object").remove("at_ms");
                let completions = report["devices"].clone();
                (said, completions, report["contexts"][0]["verdicts"].clone())
            });
            assert_eq!(runs[0], runs[1]);
            assert_eq!(runs[0], runs[2]);
        }
    });
}

/// The schema misses every field of a verdict, whatever its cause is, and refuses other values.
#[test]
fn the_schema_demands_every_field_of_a_verdict() {
    let mut wrong = Vec::new();
    for steps in [
        "connect:gid poll:send:12,5 close",
        "modify:err poll:recv:5 close",
        "event:1 poll:recv:5 close",
        "poll:recv:5 close",
    ] {
        let args: Vec<&str> = steps.split(' ').collect();
        let (_, report) = with_report(run_completions("scene", &args, Some(Flavour::Release)));
        assert!(are_valid(std::slice::from_ref(&report))[0], "{report:#}");
        for place in ["", "/cause", "/peer"] {
            let pointer = format!("/contexts/0/verdicts/0{place}");
            let fields = report.pointer(&pointer).and_then(Value::as_object);
            for field in fields.into_iter().flat_map(|fields| fields.keys()) {
                let mut without = report.clone();
                let object = without.pointer_mut(&pointer).and_then(Value::as_object_mut).expect("an object");
                object.remove(field);
                wrong.push((format!("{steps}: without {pointer}/{field}"), without));
            }
        }
        for (pointer, value) in [
            ("/contexts/0/verdicts/0/cause/kind", json!("magic")),
            ("/contexts/0/verdicts/0/state", json!("undead")),
            ("/contexts/0/verdicts/0/flushes", json!(-1)),
            ("/devices/0/completions/failed", json!("3")),
            ("/devices/0/completions/by_status", json!({ "no status": 1 })),
            ("/cq_mode", json!("some")),
        ] {
            let mut other = report.clone();
            *other.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} {report:#}")) = value;
            wrong.push((format!("{steps}: another {pointer}"), other));
        }
    }
    let (names, reports): (Vec<String>, Vec<Value>) = wrong.into_iter().unzip();
    let accepted = names.iter().zip(are_valid(&reports)).filter(|(_, valid)| *valid);
    assert_eq!(accepted.map(|(name, _)| name).collect::<Vec<_>>(), Vec::<&String>::new());
}
