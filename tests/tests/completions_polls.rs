//! Polls, one by one: no completion that failed is missed or counted twice, and a poll does what it does without the
//! shim, also if it never returns.

use std::collections::BTreeMap;
use std::time::Duration;

use ibv_sa_tests::ledger::{all_at_once, incidents, pairs, run_completions, with_report};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, is_valid};
use serde_json::{Value, json};

const LOOKING: [&str; 2] = ["errors", "full"];

fn completions(report: &Value) -> &Value {
    &report["devices"][0]["completions"]
}

#[track_caller]
fn play(program: &str, args: &[&str], flavour: Flavour, cq: &str) -> (Outcome, Value) {
    let run =
        run_completions(program, args, Some(flavour)).env("IBV_SA_CQ", cq).timeout(Duration::from_secs(60));
    let (outcome, report) = with_report(run);
    let outcome = outcome.assert_ok();
    // Both flavours write the same.
    assert!(flavour == Flavour::Debug || is_valid(&report), "{report:#}");
    (outcome, report)
}

// ---- batches ----------------------------------------------------------------------------------

/// Every size of a batch and every position in it.
#[test]
fn no_failure_hides_in_a_batch() {
    all_at_once(pairs(&["0", "1", "30"], &pairs(&FLAVOURS, &LOOKING)), |(extra, (flavour, cq))| {
        let (outcome, report) = play("batch", &["70", extra], flavour, cq);
        let failed = 70 * 71 / 2;
        assert_eq!(outcome.value("failed"), failed.to_string());
        assert_eq!(
            (&completions(&report)["failed"], &completions(&report)["unattributed"]),
            (&json!(failed), &json!(0))
        );
        let context = &report["contexts"][0];
        let listed = context["verdicts"].as_array().expect("verdicts");
        assert!(
            listed.iter().all(|verdict| verdict["failures"] == 1 && verdict["flushes"] == 0),
            "{context:#}"
        );
        assert_eq!(context["verdicts_left_out"].as_u64().expect("a number") + listed.len() as u64, failed);
    });
}

#[test]
fn the_right_completion_of_a_batch_is_named() {
    const SIZES: [&str; 10] = ["1", "2", "3", "4", "5", "15", "16", "17", "31", "64"];
    all_at_once(pairs(&FLAVOURS, &LOOKING), |(flavour, cq)| {
        let args: Vec<&str> = ["one"].into_iter().chain(SIZES).collect();
        let (outcome, report) = play("batch", &args, flavour, cq);
        let verdicts = report["contexts"][0]["verdicts"].as_array().expect("verdicts");
        let mut found: Vec<String> = verdicts
            .iter()
            .map(|verdict| {
                let cause = &verdict["cause"];
                let text = |field: &str| cause[field].as_str().expect("a text");
                format!("{} {} {} {}", verdict["qp_num"], text("status"), cause["vendor_err"], text("wr_id"))
            })
            .collect();
        let mut wanted: Vec<String> = outcome.values("verdict").into_iter().map(str::to_string).collect();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
        assert_eq!(found.len(), 3 * SIZES.len());
    });
}

/// Counts of a program that chance makes equal the report's.
#[test]
fn full_counts_equal_the_programs_own() {
    all_at_once(pairs(&["1", "2", "3"], &FLAVOURS), |(seed, flavour)| {
        let (outcome, report) = play("random", &[seed, "3000"], flavour, "full");
        let counts = |key: &str| -> BTreeMap<String, u64> {
            let pair = |text: &str| {
                text.rsplit_once(' ').map(|(name, number)| (name.to_string(), number.parse().unwrap()))
            };
            outcome.values(key).into_iter().map(|text| pair(text).expect("a name and a number")).collect()
        };
        let completions = completions(&report);
        assert_eq!(completions["polled"].to_string(), outcome.value("polled"), "{report:#}");
        assert_eq!(completions["failed"].to_string(), outcome.value("failed"), "{report:#}");
        assert_eq!(completions["by_opcode"], json!(counts("opcode")), "{outcome}");
        assert_eq!(completions["by_status"], json!(counts("status")), "{outcome}");
        assert_eq!(completions["by_opcode"].as_object().map(|counts| counts.len()), Some(21));
        // Those of the CQs are those of their device.
        let objects = report["contexts"][0]["objects"].as_array().expect("objects");
        let polled = objects.iter().filter_map(|object| object["completions"]["polled"].as_u64());
        assert_eq!(polled.sum::<u64>().to_string(), outcome.value("polled"), "{report:#}");
        let mut opcodes = BTreeMap::new();
        for object in objects {
            for (name, number) in object["completions"]["by_opcode"].as_object().into_iter().flatten() {
                *opcodes.entry(name.clone()).or_insert(0) += number.as_u64().expect("a number");
            }
        }
        assert_eq!(opcodes, counts("opcode"), "{report:#}");
        // And each QP's: statuses of tag matching (22 and 23) are no failures of it.
        let verdicts = report["contexts"][0]["verdicts"].as_array().expect("verdicts");
        assert_eq!(verdicts.len(), 4, "{report:#}");
        let flushes: BTreeMap<String, u64> = verdicts
            .iter()
            .map(|verdict| (verdict["qp_num"].to_string(), verdict["flushes"].as_u64().expect("a number")))
            .collect();
        assert_eq!(flushes, counts("flush"));
        let failures: u64 = verdicts.iter().filter_map(|verdict| verdict["failures"].as_u64()).sum();
        let tag_matching = counts("status")
            .iter()
            .filter(|(name, _)| name.starts_with("TM_"))
            .map(|(_, number)| number)
            .sum::<u64>();
        assert_eq!(failures + tag_matching, counts("failure").values().sum::<u64>(), "{report:#}");

        let (other, report) = play("random", &[seed, "3000"], flavour, "errors");
        assert_eq!(other.stdout, outcome.stdout);
        assert_eq!(self::completions(&report)["by_status"], json!(counts("status")), "{other}");
    });
}

// ---- many of them -----------------------------------------------------------------------------

#[test]
fn a_million_flushes_are_one_line() {
    all_at_once(pairs(&["flushes", "alone"], &pairs(&FLAVOURS, &LOOKING)), |(how, (flavour, cq))| {
        let (outcome, report) = play("storm", &[how, "1000000"], flavour, cq);
        if how == "alone" {
            outcome
                .assert_says(&["{qp}: # work requests were flushed (WR_FLUSH_ERR, first wr_id 0x5678): *"]);
        } else {
            outcome.assert_says(&["{qp}: first failure RETRY_EXC_ERR (vendor_err 0x8c, wr_id 0x1234): *"]);
        }
        assert_eq!(report["contexts"][0]["verdicts"][0]["flushes"], 1_000_000, "{report:#}");
        assert_eq!(completions(&report)["by_status"]["WR_FLUSH_ERR"], 1_000_000, "{report:#}");
        assert_eq!(report["incidents"].as_array().map(Vec::len), Some(1), "{report:#}");
    });
}

#[test]
fn failures_of_very_many_qps() {
    for (flavour, cq) in pairs(&FLAVOURS, &LOOKING) {
        let (outcome, report) = play("storm", &["qps", "3000"], flavour, cq);
        let lines = outcome.messages().len() as u64;
        assert!((10..=12 + outcome.number("took") as u64).contains(&lines), "{lines} lines: {outcome}");
        assert_eq!(completions(&report)["failed"], 3000, "{report:#}");
        let context = &report["contexts"][0];
        let listed = context["verdicts"].as_array().map(Vec::len);
        assert_eq!((listed, &context["verdicts_left_out"]), (Some(256), &json!(3000 - 256)), "{context:#}");
        let kept = incidents(&report, "first_failure").len() as u64;
        assert!(kept >= 10, "{report:#}");
        assert_eq!(report["incidents_left_out"], 3000 - kept, "{report:#}");
    }
}

// ---- polls that return something else ---------------------------------------------------------

#[test]
fn polls_that_return_no_completions() {
    let plain = run_completions("polls", &[], None).run().assert_ok();
    for cq in ["off", "errors", "full"] {
        for flavour in FLAVOURS {
            let (outcome, report) = play("polls", &[], flavour, cq);
            assert_eq!(outcome.stdout, plain.stdout);
            if cq == "off" {
                outcome.assert_says(&[]);
                continue;
            }
            outcome.assert_says(&["{qp}: first failure LOC_PROT_ERR (vendor_err 0x84, wr_id 0x9): *"]);
            let completions = completions(&report);
            assert_eq!(completions["poll_errors"].to_string(), outcome.value("poll_errors"), "{report:#}");
            assert_eq!(
                completions["by_status"],
                json!({ "LOC_PROT_ERR": 1, "WR_FLUSH_ERR": 1 }),
                "{report:#}"
            );
            let polled = if cq == "full" { json!(3) } else { json!(null) };
            assert_eq!(completions["polled"], polled, "{report:#}");
        }
    }
}

/// `IBV_SA_CQ=off`: polls go straight to the provider.
#[test]
fn only_what_is_looked_at_is_hooked() {
    for flavour in FLAVOURS {
        for (cq, owner) in
            [("off", "libibverbs.so.1"), ("errors", "libibv_sa.so.1"), ("full", "libibv_sa.so.1")]
        {
            let (outcome, _) = play("untouched", &[], flavour, cq);
            for poll in ["poll_cq", "start_poll", "next_poll"] {
                assert_eq!(outcome.value(poll), owner, "{poll}, {cq}: {outcome}");
            }
            assert_eq!(
                (outcome.value("end_poll"), outcome.value("read_qp_num")),
                ("libibverbs.so.1", "libibverbs.so.1")
            );
            assert_eq!(outcome.value("create_cq_ex"), "libibv_sa.so.1");
        }
    }
}

// ---- threads, handlers, children --------------------------------------------------------------

#[test]
fn two_threads_or_a_handler_poll_for_one_qp() {
    all_at_once(pairs(&["threads", "handler"], &pairs(&FLAVOURS, &LOOKING)), |(how, (flavour, cq))| {
        let number = if how == "handler" { "3000" } else { "20000" };
        let (outcome, report) = play("together", &[how, number], flavour, cq);
        outcome.assert_says(&["{qp}: first failure RETRY_EXC_ERR (vendor_err 0x8c, wr_id *): *"]);
        let verdict = &report["contexts"][0]["verdicts"][0];
        assert_eq!(verdict["failures"].to_string(), outcome.value("failures"), "{report:#}");
        assert_eq!(verdict["flushes"].to_string(), outcome.value("flushes"), "{report:#}");
        assert_eq!(report["contexts"][0]["verdicts"].as_array().map(Vec::len), Some(1), "{report:#}");
    });
}

/// A child's books are empty: its parent's QPs are first seen when they fail.
#[test]
fn a_child_polls_its_parents_cqs() {
    for (flavour, cq) in pairs(&FLAVOURS, &LOOKING) {
        let run = run_completions("forked", &[], Some(flavour)).env("IBV_SA_CQ", cq);
        let (outcome, reports) = ibv_sa_tests::with_reports(run);
        let outcome = outcome.assert_ok();
        outcome.assert_says(&[
            "{qp}: first failure LOC_PROT_ERR (vendor_err 0x84, wr_id 0x1): *",
            "QP qp_num # (scr0): first failure REM_ACCESS_ERR (vendor_err 0x8a, wr_id 0x2): *",
        ]);
        assert_eq!(reports.len(), 2, "{outcome}");
        let pid = outcome.number("child") as u64;
        let (child, parent): (Vec<&Value>, Vec<&Value>) =
            reports.iter().partition(|report| report["pid"] == pid);
        assert_eq!(completions(child[0])["by_status"], json!({ "REM_ACCESS_ERR": 2 }), "{:#}", child[0]);
        assert_eq!(completions(parent[0])["by_status"], json!({ "LOC_PROT_ERR": 2, "WR_FLUSH_ERR": 2 }));
        let verdicts = &parent[0]["contexts"][0]["verdicts"];
        assert_eq!(
            (&verdicts[0]["failures"], &verdicts[0]["flushes"]),
            // The extended CQ does not tell whose its completions are.
            (&json!(1), &json!(1)),
            "{verdicts:#}"
        );
    }
}

// ---- the stack --------------------------------------------------------------------------------

/// Through the frames of the trampolines a thread is cancelled, ended, unwound and looked at.
#[test]
fn a_poll_that_does_not_return() {
    let ways = ["cancelled", "deferred", "exit", "forced", "backtrace", "signal"];
    all_at_once(pairs(&pairs(&ways, &["plain", "start"]), &FLAVOURS), |((way, poll), flavour)| {
        let plain = run_completions("unwind", &[way, poll], None).run().assert_ok();
        let sees =
            if ["backtrace", "signal"].contains(&way) { "callers seen\n" } else { "callers not asked for\n" };
        assert!(plain.stdout.ends_with(sees) && plain.stdout.contains("cleanup 1"), "{plain}");
        for cq in ["off", "errors", "full"] {
            let outcome =
                run_completions("unwind", &[way, poll], Some(flavour)).env("IBV_SA_CQ", cq).run().assert_ok();
            assert_eq!(outcome.stdout, plain.stdout, "{cq}: {outcome}");
        }
    });
}

/// A thread that polls without end may be cancelled anywhere, also in the trampoline; but not while all is counted.
#[test]
fn a_thread_that_polls_without_end_is_cancelled() {
    for (cq, found) in [("off", "1"), ("errors", "0"), ("errors", "1")] {
        let run = run_completions("spinning", &["400", found], Some(Flavour::Release)).env("IBV_SA_CQ", cq);
        let outcome = run.timeout(Duration::from_secs(60)).run().assert_ok();
        assert_eq!((&*outcome.stdout, &*outcome.stderr), ("cancelled=400\n", ""), "{outcome}");
    }
}

/// A provider may have more functions to poll an extended CQ than there are trampolines.
#[test]
fn more_ways_to_poll_than_trampolines() {
    for (flavour, cq) in pairs(&FLAVOURS, &LOOKING) {
        let (outcome, report) = play("ways", &["70"], flavour, cq);
        assert_eq!((outcome.value("right"), outcome.value("watched")), ("70", "64"), "{outcome}");
        assert_eq!(report["partial"], true, "{report:#}");
        assert!(report["gaps"].to_string().contains("6 extended CQ(s)"), "{report:#}");
        // One failure was polled from each; what nobody saw is not counted.
        assert_eq!(completions(&report)["failed"], 64, "{report:#}");
        outcome.assert_says(&[
            "QP qp_num {qp_num} (scr0): first failure LOC_PROT_ERR (vendor_err 0x0, wr_id 0x1): *",
        ]);
        let (_, report) = play("ways", &["64"], flavour, cq);
        assert_eq!(report["partial"], false, "{report:#}");
    }
}

/// After each instruction of ours the poll's caller is found on the stack.
#[test]
fn every_instruction_can_be_unwound() {
    for (flavour, cq) in pairs(&FLAVOURS, &LOOKING) {
        let (outcome, _) = play("steps", &[], flavour, cq);
        assert_eq!(outcome.values("lost"), Vec::<&str>::new(), "{outcome}");
        // What an empty poll costs: three pushes, the call, a test, a jump that is not taken, the way back. Where all
        // are counted it is looked at.
        match cq {
            "errors" => assert_eq!(outcome.value("empty"), "8", "{outcome}"),
            _ => assert!(outcome.number("empty") > 8.0, "{outcome}"),
        }
        assert!(outcome.number("good") > 20.0 && outcome.number("failed") > 100.0, "{outcome}");
    }
}
