//! What else a program is and does: it ends its readers, has large thread-local storage or real-time priority, and gives
//! up its rights.

use std::time::Duration;

use ibv_sa_tests::ledger::{
    all_at_once, ledger, ledger_library, near, pairs, run_ledger, waits_for, with_report, words,
};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run, need_root, tool};
use serde_json::json;

/// The get fails with EIO; the channel is freed by then.
#[test]
fn a_channel_is_destroyed_under_its_reader() {
    let flavours = [None, Some(Flavour::Debug), Some(Flavour::Release)];
    // EIO; and EAGAIN from a channel whose context was closed before.
    all_at_once(pairs(&[("channel", "-1 5"), ("leaked", "-1 11")], &flavours), |((how, answer), flavour)| {
        let run = Run::new(tool("valgrind")).args(["-q", "--error-exitcode=9"]);
        let run = run.arg(ledger("reader_woken")).arg(how).scripted().shim_if(flavour);
        let outcome = run.timeout(Duration::from_secs(60)).run().assert_ok();
        assert_eq!(outcome.value("get"), answer, "{outcome}");
        // Neither valgrind nor the shim has anything to say.
        assert_eq!(outcome.stderr, "", "{outcome}");
    });
}

/// That ends the readers, and is no sign of a device that is gone.
#[test]
fn a_context_is_closed_under_its_readers() {
    all_at_once(pairs(&["comp", "async"], &FLAVOURS), |(how, flavour)| {
        let (outcome, report) = with_report(run_ledger("reader_woken", &[how], Some(flavour)));
        let outcome = outcome.assert_ok();
        assert_eq!((outcome.value("get"), outcome.value("closed")), ("-1 5", "0"), "{outcome}");
        outcome.assert_says(&[]);
        assert_eq!(report["incidents"], json!([]), "{report:#}");
        assert_eq!(report["contexts"][0]["state"], "closed", "{report:#}");
    });
}

/// Signs count again once a close has failed.
#[test]
fn a_context_could_not_be_closed() {
    for flavour in FLAVOURS {
        let outcome = run_ledger("reader_woken", &["refused"], Some(flavour)).run().assert_ok();
        assert_eq!(outcome.values("closed"), ["-1", "0"], "{outcome}");
        outcome.assert_says(&[
            "scr0 (context 1): the device has failed or is gone: ibv_get_async_event failed with EIO in {reader}",
        ]);
    }
}

/// It is taken from the stack of every thread, also of the one that looks after destroys.
#[test]
fn much_thread_local_storage() {
    all_at_once(pairs(&["qp", "comp"], &FLAVOURS), |(form, flavour)| {
        let outcome = run_ledger("big_tls", &[form, "1", "1600"], Some(flavour)).run().assert_ok();
        let numbers = outcome.assert_says(&[&waits_for(&words(form), "thread", "{reader}")]);
        near(numbers[0], 1.0, &outcome);
        near(outcome.number("waited"), 1.4, &outcome);
        run_ledger("big_tls", &[form, "1", "600"], Some(flavour)).run().assert_ok().assert_says(&[]);
        let run = run_ledger("big_tls", &[form, "1", "2500"], Some(flavour)).env("IBV_SA_ACK", "rescue");
        let outcome = run.run().assert_ok();
        outcome.assert_says(&["*taken by {reader} # s ago, is acknowledged for the program*"]);
        near(outcome.number("waited"), 1.0, &outcome);
    });
}

fn dropped(form: &str, what: &str, flavour: Flavour) -> Outcome {
    need_root();
    let plugin = ledger_library("around_plugin");
    let args = [plugin.to_str().expect("UTF-8"), form, what];
    let outcome = run_ledger("dropped", &args, Some(flavour)).run().assert_ok();
    assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
    outcome
}

/// What the destroying thread waits for cannot be read any more, only that it sleeps.
#[test]
fn a_daemon_has_given_up_its_rights() {
    let cases = pairs(&["qp", "comp"], &["double", "read", "late"]);
    all_at_once(pairs(&cases, &FLAVOURS), |((form, what), flavour)| {
        let outcome = dropped(form, what, flavour);
        let waited = outcome.number("waited");
        match what {
            // It is in the kernel: a second ack is not what it waits for.
            "double" => {
                outcome.assert_says(&["*held back*"]);
                near(waited, 2.5, &outcome);
            }
            "read" => {
                outcome.assert_says(&[
                    "*held back*",
                    "*read around this library; a held ack goes to libibverbs",
                ]);
                assert!(waited < 2.4, "{outcome}");
            }
            _ => {
                let numbers = outcome.assert_mentions(&waits_for(&words(form), "thread", "{reader}"));
                assert!((0.9..2.2).contains(&numbers[0]), "{outcome}");
                near(waited, 2.4, &outcome);
            }
        }
    });
}

/// The thread that looks after its destroys does not.
#[test]
fn a_thread_has_real_time_priority() {
    need_root();
    for flavour in FLAVOURS {
        let outcome = run_ledger("realtime", &["qp"], Some(flavour)).run().assert_ok();
        assert_eq!(outcome.values("stranger"), ["0 0"], "{outcome}");
        assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
    }
}

/// Huge pages would make all of the books resident.
#[test]
fn the_books_are_of_small_pages() {
    let large = |outcome: &Outcome| (outcome.number("large"), outcome.number("small_pages"));
    let plain = run_ledger("huge_pages", &[], None).run().assert_ok();
    for flavour in FLAVOURS {
        let outcome = run_ledger("huge_pages", &[], Some(flavour)).run().assert_ok();
        let ((before, small), (after, small_now)) = (large(&plain), large(&outcome));
        assert!(after > before && small_now - small == after - before, "{plain}\n{outcome}");
    }
}
