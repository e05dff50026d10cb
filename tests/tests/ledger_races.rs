//! What happens while a destroy is under way: in the kernel, or waiting for what is not in the books.

use ibv_sa_tests::FLAVOURS;
use ibv_sa_tests::ledger::{
    KINDS, all_at_once, ledger_library, near, pairs, run_ledger, waits_for, with_report, words,
};

/// What takes its time in the kernel does not wait for acks: nothing is said, and no held ack goes on.
#[test]
fn a_destroy_that_takes_long() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        let run = |args: &[&str]| with_report(run_ledger("slow", args, Some(flavour)));
        let (outcome, report) = run(&[form, "2", "2400"]);
        let outcome = outcome.assert_ok();
        near(outcome.number("waited"), 2.4, &outcome);
        outcome.assert_says(&["*held back*"]);
        assert_eq!(report["acks"]["released"], 0, "{report:#}");
        let (outcome, _) = run(&[form, "0", "1700", "1200"]);
        let outcome = outcome.assert_ok();
        near(outcome.number("waited"), 1.7, &outcome);
        // It came while the destroy was in the kernel, which then waited for nothing.
        outcome.assert_says(&[]);
    });
}

/// It was read when the destroy had begun, and the kernel had not taken it back yet: nothing was open at the beginning.
#[test]
fn an_event_that_is_read_during_the_destroy() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        let run = |args: &[&str]| run_ledger("racing", args, Some(flavour)).run().assert_ok();
        let outcome = run(&[form, "0", "1700"]);
        let numbers = outcome.assert_says(&[&waits_for(&words(form), "destroyer", "{reader}")]);
        near(numbers[0], 1.0, &outcome);
        near(numbers[1], 0.9, &outcome);
        near(outcome.number("waited"), 1.8, &outcome);
        // In time, or with an ack that was held before: nothing to say of the wait.
        run(&[form, "0", "400"]).assert_says(&[]);
        let outcome = run(&[form, "1", "0"]);
        outcome.assert_says(&["*held back*"]);
        near(outcome.number("waited"), 0.3, &outcome);
    });
}

/// It was read when the destroy had begun.
#[test]
fn rescue_of_an_event_that_is_read_during_the_destroy() {
    all_at_once(pairs(&KINDS, &FLAVOURS), |(form, flavour)| {
        // The program acknowledges much later, when the object is gone.
        let run = run_ledger("racing", &[form, "0", "2500"], Some(flavour)).env("IBV_SA_ACK", "rescue");
        let outcome = run.run().assert_ok();
        outcome.assert_says(&[
            "*taken by {reader} # s ago, is acknowledged for the program (IBV_SA_ACK=rescue)",
        ]);
        assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
        near(outcome.number("waited"), 1.2, &outcome);
    });
}

/// One held ack after the other goes on, and yet it does not take for ever; and one line is enough.
#[test]
fn many_events_are_read_around_us() {
    all_at_once(pairs(&["qp", "comp"], &FLAVOURS), |(form, flavour)| {
        let plugin = ledger_library("around_plugin");
        let args = [plugin.to_str().expect("UTF-8"), form, "thirty"];
        run_ledger("around", &args, None).run().assert_ok();
        let (outcome, report) = with_report(run_ledger("around", &args, Some(flavour)));
        let outcome = outcome.assert_ok();
        assert_eq!(outcome.value("destroyed"), "0", "{outcome}");
        assert!(outcome.number("waited") < 2.5, "{outcome}");
        let told = outcome.messages().iter().filter(|line| line.contains("read around this library")).count();
        assert_eq!(told, 1, "{outcome}");
        assert_eq!(report["acks"]["released"], 30, "{report:#}");
    });
}
