//! Lines and reports on a terminal: they never stop the program and never make it wait.

use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run, harmless};

fn on_terminal(args: &[&str], shimmed: Option<Flavour>, report: &str) -> Outcome {
    let run =
        Run::new(harmless("on_terminal")).args(args).arg(harmless("rounds")).scripted().shim_if(shimmed);
    run.env("IBV_SA_REPORT", report).env("IBV_SA_NO_SUCH_SETTING", "1").run().assert_ok()
}

/// `stty tostop`: a write from the background raises SIGTTOU, which stops a program.
#[test]
fn a_background_job_is_not_stopped() {
    let plain = on_terminal(&["background"], None, "text");
    assert_eq!(plain.stdout, "rounds: 1, alive: 0\nended with 0\n", "{plain}");
    for flavour in FLAVOURS {
        for report in ["text", "json"] {
            let run = on_terminal(&["background"], Some(flavour), report);
            assert_eq!(run.stdout, plain.stdout, "{run}");
            // The complaint and the report are there.
            assert!(run.stderr.contains("IBV_SA_NO_SUCH_SETTING"), "{run}");
            assert!(run.stderr.contains("scr0"), "{run}");
        }
    }
}

/// Ready to be written to means that one byte fits.
#[test]
fn a_nearly_full_terminal_does_not_block() {
    for room in ["0", "1", "64", "500", "1500"] {
        let plain = on_terminal(&["full", room], None, "text");
        assert_eq!(plain.stdout, "rounds: 1, alive: 0\nended with 0\n", "{plain}");
        for flavour in FLAVOURS {
            for report in ["text", "json"] {
                let run = on_terminal(&["full", room], Some(flavour), report);
                assert_eq!(run.stdout, plain.stdout, "room for {room} bytes: {run}");
            }
        }
    }
}
