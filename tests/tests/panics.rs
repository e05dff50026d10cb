//! A fault of our own: the flavour `panic` panics in every piece of bookkeeping. The program never notices.

use ibv_sa_tests::{Flavour, Run, harmless, with_reports};

#[test]
fn a_panic_inside_never_reaches_the_program() {
    for (program, args) in [
        ("rounds", &["20"][..]),
        ("cancel", &["async", "deferred"]),
        ("cancel", &["comp", "asynchronous"]),
        ("cancel", &["qp", "deferred"]),
        ("cancel", &["cq", "pending"]),
        ("cancel_first_call", &[]),
        ("signals", &["async", "eintr"]),
        ("signals", &["comp", "longjmp"]),
        ("exit_in_handler", &["self", "async"]),
        ("exit_in_handler", &["other", "comp"]),
        ("forks", &["vfork", "busy"]),
        ("adopt", &[]),
        ("crowd", &["devices", "24"]),
    ] {
        let run = || Run::new(harmless(program)).args(args).scripted();
        let plain = run().run();
        assert_eq!(plain.stderr, "");
        let (outcome, reports) = with_reports(run().shim(Flavour::Panic));
        assert_eq!((outcome.code, outcome.signal), (plain.code, plain.signal), "{outcome}");
        assert_eq!(outcome.stdout, plain.stdout, "{outcome}");
        // One line, and the report does not pretend to be whole.
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome}");
        assert_eq!(outcome.shim_lines().len(), 1, "{outcome}");
        assert!(outcome.stderr.contains("internal error"), "{outcome}");
        assert_eq!(reports.len(), 1, "{outcome}");
        assert_eq!(reports[0]["partial"], true, "{:#}", reports[0]);
        assert!(reports[0]["gaps"].to_string().contains("internal error"), "{:#}", reports[0]);
    }
}

/// Nor many at once.
#[test]
fn many_threads_and_children() {
    let run = Run::new(harmless("fork_storm")).arg("10").scripted().shim(Flavour::Panic);
    let (outcome, _) = with_reports(run.timeout(std::time::Duration::from_secs(60)));
    assert_eq!((outcome.code, &*outcome.stdout), (Some(0), "good children: 10 of 10\n"), "{outcome}");
}
