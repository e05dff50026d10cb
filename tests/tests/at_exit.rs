//! The report at exit at bad moments, and what it must not leave out.

use std::path::PathBuf;
use std::time::Duration;

use ibv_sa_tests::{
    FLAVOURS, Flavour, Run, acks_after, assert_report, cc, device_after, harmless, scripted_dir, with_reports,
};
use serde_json::json;

#[test]
fn no_memory() {
    let run = || Run::new(harmless("malloc_fails")).arg("exit").scripted();
    let plain = run().run().assert_ok();
    for flavour in FLAVOURS {
        let (outcome, reports) = with_reports(run().shim(flavour));
        outcome.assert_same(&plain);
        assert_report(&reports[0], device_after(1, 1, 1), acks_after(1));
        let text = run().shim(flavour).env("IBV_SA_REPORT", "text").run().assert_ok();
        assert!(text.stderr.contains("completions failed 1"), "{text}");
    }
}

/// The thread that exits holds malloc's lock.
#[test]
fn exit_in_a_signal_handler_that_interrupted_malloc() {
    let program = harmless("exit_in_malloc");
    let run = || Run::new(&program).scripted().timeout(Duration::from_secs(5));
    for _ in 0..20 {
        run().run().assert_code(7);
        for flavour in FLAVOURS {
            let (outcome, reports) = with_reports(run().shim(flavour));
            outcome.assert_code(7);
            assert_report(&reports[0], device_after(1, 1, 1), acks_after(1));
        }
    }
}

#[test]
fn a_program_without_a_name() {
    let run = || Run::new(harmless("no_name")).scripted();
    let plain = run().run().assert_ok();
    for flavour in FLAVOURS {
        let (outcome, reports) = with_reports(run().shim(flavour));
        outcome.assert_same(&plain);
        assert_eq!(reports[0]["program"], "unknown");
    }
}

fn library_that_destroys() -> PathBuf {
    let dir = format!("-L{}", scripted_dir().display());
    cc("ctests/harmless/library_destroys.c", &["-shared", "-fPIC", &dir, "-libverbs"])
}

#[track_caller]
fn destroys_are_counted(run: impl Fn() -> Run) {
    let plain = run().run().assert_ok();
    assert_eq!(plain.stdout, "main returns\ndestructor: all destroyed\n");
    for flavour in FLAVOURS {
        let (outcome, reports) = with_reports(run().shim(flavour));
        outcome.assert_same(&plain);
        assert_eq!(reports.len(), 1, "{outcome}");
        let device = &reports[0]["devices"][0];
        assert_eq!(device["contexts"], json!({ "opened": 1, "adopted": 0, "closed": 1 }));
        for kind in ["qp", "cq", "srq", "comp_channel"] {
            assert_eq!(device["objects"][kind], json!({ "created": 1, "destroyed": 1 }), "{kind}");
        }
    }
}

#[test]
fn a_linked_librarys_destructor_destroys() {
    let library = library_that_destroys();
    let library = library.to_str().expect("UTF-8");
    let program = cc("ctests/harmless/late_destroys.c", &["-DLINKED", library]);
    destroys_are_counted(|| Run::new(&program).scripted());
}

#[test]
fn a_plugins_destructor_destroys() {
    let program = cc("ctests/harmless/late_destroys.c", &[]);
    destroys_are_counted(|| Run::new(&program).arg(library_that_destroys()).scripted());
}

#[test]
fn a_child_does_not_report_its_parents_fault() {
    let run = || Run::new(harmless("parents_faults")).scripted();
    let plain = run().run().assert_ok();
    let (outcome, reports) = with_reports(run().shim(Flavour::Panic));
    assert_eq!((outcome.code, &outcome.stdout), (plain.code, &plain.stdout), "{outcome}");
    assert_eq!(outcome.shim_lines().len(), 1, "{outcome}");
    assert_eq!(reports.len(), 1, "the child used no RDMA: {outcome}");
    assert_eq!(reports[0]["partial"], true);
}

#[test]
fn a_child_does_not_report_its_parents_lost_lines() {
    let run = || Run::new(harmless("parents_faults")).arg("lost").scripted();
    let plain = run().run().assert_ok();
    for flavour in FLAVOURS {
        let (outcome, reports) = with_reports(run().shim(flavour).env("IBV_SA_NO_SUCH_SETTING", "1"));
        outcome.assert_same(&plain);
        assert_eq!(reports.len(), 2, "{outcome}");
        // Sorted by failed completions: the child made one round, the parent two.
        let lost = |report: &serde_json::Value| report["stderr_lines_dropped"].as_u64();
        assert_eq!((lost(&reports[0]), lost(&reports[1])), (Some(0), Some(1)), "{reports:#?}");
    }
}

#[test]
fn no_memory_for_the_books_is_said() {
    let refuses = cc("ctests/harmless/mmap_refuses.c", &["-shared", "-fPIC"]);
    let run = || Run::new(harmless("rounds")).scripted().preload(&refuses);
    let plain = run().run().assert_ok();
    for flavour in FLAVOURS {
        let (outcome, reports) = with_reports(run().shim(flavour));
        outcome.assert_same(&plain);
        assert_eq!(reports.len(), 1, "{outcome}");
        assert_eq!((&reports[0]["partial"], &reports[0]["devices"]), (&json!(true), &json!([])));
        assert!(reports[0]["gaps"].to_string().contains("no memory"), "{:#}", reports[0]);
    }
}
