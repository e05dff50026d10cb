//! Destroys that wait: which event is open, who took it and when, said at once or after IBV_SA_HANG_SECS; and all goes on
//! as libibverbs would.

use std::time::Duration;

use ibv_sa_tests::ledger::{
    FORMS, KINDS, all_at_once, incidents, ledger_library, near, object_in, pairs, run_ledger, took_itself,
    waits_for, with_report, words,
};
use ibv_sa_tests::{FLAVOURS, Flavour, Run};
use serde_json::json;

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Libibverbs alone hangs.
#[track_caller]
fn hangs_alone(program: &str, args: &[&str]) {
    let outcome = run_ledger(program, args, None).timeout(millis(500)).run_or_hang();
    assert!(outcome.hung, "{outcome}");
}

#[test]
fn an_event_without_an_ack() {
    all_at_once(FORMS, |form| {
        hangs_alone("acks", &[form, "1", "0"]);
        for flavour in FLAVOURS {
            let run = run_ledger("acks", &[form, "1", "0"], Some(flavour)).timeout(millis(2500));
            let outcome = run.run_or_hang();
            assert!(outcome.hung, "{outcome}");
            let words = words(form);
            let later = waits_for(&words, "thread", "{thread}");
            let numbers = outcome.assert_says(&[&took_itself(&words, "thread"), &later, &later]);
            let held = outcome.number("held");
            for (found, wanted) in numbers.iter().zip([held, 1.0, 1.0 + held, 2.0, 2.0 + held]) {
                near(*found, wanted, &outcome);
            }
        }
        // The same program destroys at once when it acknowledges.
        run_ledger("acks", &[form, "1", "1"], Some(Flavour::Release)).run().assert_ok().assert_says(&[]);
    });
}

/// Lines come at once, twice, four times ... the time.
#[test]
fn the_intervals_grow() {
    let run = run_ledger("late", &["qp", "1", "0"], Some(Flavour::Release)).timeout(millis(5500));
    let outcome = run.run_or_hang();
    assert!(outcome.hung, "{outcome}");
    let line = waits_for(&words("qp"), "thread", "{reader}");
    let numbers = outcome.assert_says(&[&line, &line, &line]);
    for (at, wanted) in [(0, 1.0), (2, 2.0), (4, 4.0)] {
        near(numbers[at], wanted, &outcome);
    }
}

#[test]
fn an_event_that_another_thread_holds() {
    all_at_once(pairs(&FORMS, &FLAVOURS), |(form, flavour)| {
        let run = run_ledger("late", &[form, "1", "1600"], Some(flavour));
        let (outcome, report) = with_report(run);
        let outcome = outcome.assert_ok();
        let numbers = outcome.assert_says(&[&waits_for(&words(form), "thread", "{reader}")]);
        near(numbers[0], 1.0, &outcome);
        near(numbers[1], 1.2, &outcome);
        near(outcome.number("waited"), 1.4, &outcome);
        assert_eq!(outcome.value("destroyed"), "0");
        let said = incidents(&report, "destroy_waits");
        assert_eq!(said.len(), 1, "{report:#}");
        assert_eq!((&said[0]["level"], &said[0]["context"]), (&json!("warning"), &json!(1)), "{report:#}");
        assert!(said[0]["text"].as_str().is_some_and(|text| outcome.stderr.contains(text)), "{report:#}");
        let waiter = outcome.value("thread");
        let tid = waiter.split(' ').nth(1).and_then(|tid| tid.parse::<u64>().ok());
        assert_eq!(said[0]["tid"].as_u64(), tid, "{report:#}");
        assert_eq!(object_in(&report, outcome.value("object"))["bad_acks"], 0, "{report:#}");
    });
}

/// In time: nothing to say.
#[test]
fn an_ack_that_comes_while_the_destroy_waits() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        let (outcome, report) = with_report(run_ledger("late", &[form, "2", "600"], Some(flavour)));
        let outcome = outcome.assert_ok();
        outcome.assert_says(&[]);
        near(outcome.number("waited"), 0.4, &outcome);
        assert_eq!(report["incidents"], json!([]), "{report:#}");
    });
}

#[test]
fn the_time_can_be_set() {
    let run = run_ledger("late", &["qp", "1", "0"], Some(Flavour::Release));
    let outcome = run.env("IBV_SA_HANG_SECS", "2").timeout(millis(2800)).run_or_hang();
    let numbers = outcome.assert_says(&[&waits_for(&words("qp"), "thread", "{reader}")]);
    near(numbers[0], 2.0, &outcome);
}

#[test]
fn several_open_events() {
    all_at_once(FLAVOURS, |flavour| {
        let run = |args: &[&str]| run_ledger("late", args, Some(flavour)).run().assert_ok();
        let taken = |event: &str| format!("{event}, taken by {{reader}} # s ago, is not acknowledged");
        let start = "ibv_destroy_qp: {object}: {thread} has waited for # s: ";
        let end = "; call ibv_ack_async_event for each event that was got";

        let outcome = run(&["qp", "3", "1600"]);
        let list = [taken("SQ_DRAINED"), taken("COMM_EST"), taken("QP_ACCESS_ERR")].join("; ");
        let numbers = outcome.assert_says(&[&format!("{start}{list}{end}")]);
        for (found, wanted) in numbers.iter().zip([1.0, 1.4, 1.3, 1.2]) {
            near(*found, wanted, &outcome);
        }

        let outcome = run(&["qp", "6", "1600"]);
        let list = ["SQ_DRAINED", "COMM_EST", "QP_ACCESS_ERR", "QP_REQ_ERR"].map(taken).join("; ");
        outcome.assert_says(&[&format!("{start}{list}*and 2 more*{end}")]);

        let outcome = run(&["comp", "12", "1600"]);
        let numbers = outcome.assert_says(&[
            "ibv_destroy_cq: {object}: {thread} has waited for # s: 12 completion events, the first taken by {reader} # s \
             ago, the last # s ago, are not acknowledged; call ibv_ack_cq_events*",
        ]);
        for (found, wanted) in numbers[1..].iter().zip([2.3, 1.2]) {
            near(*found, wanted, &outcome);
        }
    });
}

#[test]
fn the_thread_that_took_it_has_ended() {
    all_at_once(pairs(&["qp", "comp"], &FLAVOURS), |(form, flavour)| {
        let outcome = run_ledger("late", &[form, "1", "1600", "ended"], Some(flavour)).run().assert_ok();
        let (thread, _) = outcome.value("reader").rsplit_once(')').expect("a name in brackets");
        outcome.assert_says(&[&waits_for(&words(form), "thread", &format!("{thread}, ended)"))]);
    });
}

#[test]
fn a_handler_destroys_the_object_whose_event_it_holds() {
    all_at_once(pairs(&FORMS, &FLAVOURS), |(form, flavour)| {
        let line = took_itself(&words(form), "handler");
        // Another thread acknowledges: the destroy comes back.
        let (outcome, report) = with_report(run_ledger("handler", &[form, "700"], Some(flavour)));
        let outcome = outcome.assert_ok();
        let numbers = outcome.assert_says(&[&line]);
        near(numbers[numbers.len() - 1], 0.15, &outcome);
        near(outcome.number("waited"), 0.55, &outcome);
        assert_eq!(incidents(&report, "destroy_waits").len(), 1, "{report:#}");
    });
}

#[test]
fn several_destroys_wait_at_one_time() {
    all_at_once(pairs(&["qp", "comp"], &FLAVOURS), |(form, flavour)| {
        let (outcome, report) = with_report(run_ledger("waits", &[form, "6", "100"], Some(flavour)));
        let outcome = outcome.assert_ok();
        let line = waits_for(&words(form), "waiter", "{main}");
        let lines: Vec<String> = (0..6)
            .map(|i| {
                line.replace("{object}", &format!("{{object{i}}}"))
                    .replace("{waiter}", &format!("{{waiter{i}}}"))
            })
            .collect();
        let numbers = outcome.assert_says(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        for waited in numbers.chunks(numbers.len() / 6).map(|of_line| of_line[0]) {
            near(waited, 1.0, &outcome);
        }
        assert_eq!(incidents(&report, "destroy_waits").len(), 6, "{report:#}");
    });
}

/// More than one helper can look after: the others are spoken of before their wait.
#[test]
fn very_many_destroys_wait_at_one_time() {
    all_at_once(FLAVOURS, |flavour| {
        let (outcome, report) = with_report(run_ledger("waits", &["qp", "100", "1"], Some(flavour)));
        let outcome = outcome.assert_ok();
        assert_eq!(outcome.value("destroyed"), "100", "{outcome}");
        assert_eq!(incidents(&report, "destroy_waits").len(), 100, "{report:#}");
        assert_eq!(report["partial"], false, "{report:#}");
    });
}

#[test]
fn no_helper_can_be_made() {
    let few = ledger_library("no_threads");
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        // The program itself needs one thread.
        let run = run_ledger("late", &[form, "1", "700"], Some(flavour));
        let outcome = run.preload(&few).env("NO_THREADS_AFTER", "1").run().assert_ok();
        let words = words(form);
        let event = if words.is_comp() { "1 completion event" } else { words.event };
        outcome.assert_says(&[&format!(
            "{}: {{object}}: {{thread}} *{event}, taken by {{reader}} # s ago,*",
            words.destroy
        )]);
        near(outcome.number("waited"), 0.5, &outcome);
    });
}

/// A limit of the system, not a library, refuses the thread.
#[test]
fn no_more_processes_for_this_user() {
    ibv_sa_tests::need_root();
    let program = ibv_sa_tests::ledger::ledger("acks");
    let script = format!(
        "exec setpriv --reuid 64321 --regid 64321 --clear-groups prlimit --nproc=1 {} qp 1 0",
        program.display()
    );
    let preload = format!("LD_PRELOAD={}", ibv_sa_tests::shim(Flavour::Release).display());
    let script = script.replace("--nproc=1 ", &format!("--nproc=1 env {preload} "));
    let outcome =
        Run::sh(&script).scripted().env("IBV_SA_HANG_SECS", "1").timeout(millis(1500)).run_or_hang();
    assert!(outcome.hung, "{outcome}");
    let numbers = outcome.assert_mentions(&took_itself(&words("qp"), "thread"));
    assert!(numbers[0] < 0.5, "{outcome}");
}

#[test]
fn a_destroy_that_waits_is_cancelled() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        let run = |flavour| run_ledger("cancel_waiting", &[form], flavour).run().assert_ok();
        let (plain, outcome) = (run(None), run(Some(flavour)));
        for outcome in [&plain, &outcome] {
            assert_eq!(outcome.value("cancelled"), "1 cleaned=1", "{outcome}");
            assert_eq!(outcome.value("threads"), "+0", "{outcome}");
            assert!(outcome.stdout.contains("another thread: one round\n"), "{outcome}");
        }
        let line = waits_for(&words(form), "victim", "{thread}");
        let mentioned = outcome.assert_mentions(&line);
        near(mentioned[0], 1.0, &outcome);
        // Nothing more is said of a wait that is over.
        outcome.assert_says(&[&line]);
    });
}

#[test]
fn a_child_is_made_while_a_destroy_waits() {
    all_at_once(pairs(&["fork", "_Fork", "vfork"], &FLAVOURS), |(how, flavour)| {
        for form in ["qp", "comp"] {
            let run = run_ledger("fork_waiting", &[form, how], Some(flavour));
            let outcome = run.run().assert_ok();
            assert_eq!(outcome.value("child_ended"), "3", "{outcome}");
            assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
            assert_eq!(outcome.value("alive"), "0", "{outcome}");
            if how == "vfork" {
                continue;
            }
            assert_eq!(outcome.value("child_destroyed"), "0", "{outcome}");
            let words = words(form);
            outcome.assert_mentions(&waits_for(&words, "waiter", "{main}"));
            outcome.assert_mentions(&took_itself(&words, "child").replace("{object}", "{child_object}"));
            let later = waits_for(&words, "child", "{child}").replace("{object}", "{child_object}");
            outcome.assert_mentions(&later);
            // Each line has the id of the process that it speaks of.
            let child = outcome.value("child").split(' ').nth(1).expect("a number").to_string();
            let of_child = outcome.stderr.lines().filter(|line| line.contains(outcome.value("child_object")));
            for line in of_child {
                assert!(line.starts_with(&format!("ibv_sa[{child}]: ")), "{outcome}");
            }
        }
    });
}

#[test]
fn the_program_ends_while_a_destroy_waits() {
    let ways = [("exit", Some(5)), ("_exit", Some(5)), ("kill", None)];
    all_at_once(pairs(&[0, 1300], &ways), |(ms, (how, code))| {
        for flavour in FLAVOURS {
            let run = run_ledger("exit_waiting", &["qp", &ms.to_string(), how], Some(flavour));
            let outcome = run.run();
            assert_eq!(outcome.code, code, "{outcome}");
            assert_eq!(outcome.signal, if how == "kill" { Some(15) } else { None }, "{outcome}");
            let line = waits_for(&words("qp"), "waiter", "{thread}");
            if ms > 0 {
                outcome.assert_says(&[&line]);
            } else {
                outcome.assert_says(&[]);
            }
        }
    });
}

/// The report of such an end says what is open.
#[test]
fn what_is_open_at_the_end() {
    for (form, flavour) in pairs(&KINDS, &FLAVOURS) {
        let (outcome, report) = with_report(run_ledger("exit_waiting", &[form, "0", "exit"], Some(flavour)));
        let object = object_in(&report, outcome.value("object"));
        assert_eq!(object["state"], "alive", "{report:#}");
        let open = &object["open"][0];
        let thread = outcome.value("thread");
        assert!(thread.starts_with(&format!("thread {} (", open["tid"])), "{thread} {report:#}");
        assert_eq!(
            (&open["type"], &open["count"], &open["thread"]),
            (&json!(words(form).event), &json!(1), &json!("main")),
            "{report:#}"
        );
        assert!(open["age_ms"].as_u64().is_some_and(|age| age < 1000), "{report:#}");
    }
}

#[test]
fn the_helper_takes_no_signal_and_goes() {
    all_at_once(pairs(&["qp", "comp", "wq"], &FLAVOURS), |(form, flavour)| {
        let outcome = run_ledger("helper", &[form], Some(flavour)).run().assert_ok();
        assert_eq!(outcome.value("strangers"), "1", "{outcome}");
        let (name, open_signals) = outcome.value("stranger").rsplit_once(' ').expect("a name and a mask");
        assert!(name.starts_with("ibv_sa"), "the thread has no name of ours: {outcome}");
        assert_eq!(open_signals, "0", "{outcome}");
        assert_eq!(outcome.value("pending"), "1 1", "{outcome}");
        assert_eq!(outcome.value("handled"), "0", "{outcome}");
        assert_eq!(outcome.value("handled_at_last"), "2", "{outcome}");
        assert_eq!(outcome.value("strangers_after"), "0", "{outcome}");
        assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
    });
}
