//! `ibv_sa_*` against a daemon whose packets are spoilt: each is refused or taken for what it says, for every reason
//! that there is, and afterwards notices come as ever.

use std::time::Duration;

use ibv_sa_tests::{FLAVOURS, Phase, Run, ScriptedDaemon, product};

/// Each has some 150 spoilt packets.
const ROUNDS: u64 = 8;

#[test]
fn what_a_spoilt_daemon_says_ends_a_connection_or_nothing() {
    std::thread::scope(|scope| {
        for flavour in FLAVOURS {
            scope.spawn(move || {
                let daemon = ScriptedDaemon::start();
                let rounds = ibv_sa_samples::scaled(ROUNDS).to_string();
                let run = daemon.program("spoilt", flavour).arg(rounds).timeout(Duration::from_secs(600));
                let outcome = run.run().assert_ok();
                assert_eq!(outcome.stdout, "good\n", "{outcome}");
                assert_eq!(daemon.unseen(), [], "kinds of packets that did not come");
                let lines = outcome.shim_lines();
                assert_eq!(lines.len(), outcome.stderr.lines().count(), "{outcome}");
                assert_eq!(lines.len(), outcome.stderr.lines().count(), "{outcome}");
                // Ten at once and one a second: which come is for chance to say.
                let known =
                    ["refuses this program: ", "speaks another protocol", "is no message, or out of turn"];
                let is_known = |line: &&str| known.iter().any(|words| line.contains(words));
                assert!(lines.len() >= 10 && lines.iter().all(is_known), "{outcome}");
            });
        }
    });
}

/// A command that takes so long hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// EPROTO.
const PROTOCOL: &str = "71";

/// The commands have a connection of their own.
#[test]
fn a_command_says_what_is_wrong_with_a_spoilt_daemon() {
    let daemon = ScriptedDaemon::start();
    let socket = daemon.socket();
    let monitor_with = |more: &[&str]| {
        let command = Run::new(product("build/release/ibv-sa", "make build/release/ibv-sa"));
        let args = ["monitor", "--device", "ibsim0", "--port", "1", "--socket"];
        command.args(args).arg(&socket).args(more).timeout(LIMIT).run()
    };
    let monitor = || monitor_with(&["--timeout", "0.05"]);
    daemon.command("greet spoilt new");
    let mut refused = 0;
    for _ in 0..ibv_sa_samples::scaled(80) {
        let outcome = monitor();
        let lines = outcome.stderr.lines().count();
        if daemon.command("spoilt errno") == "0" {
            assert_eq!(outcome.code, Some(0), "it is as it should be: {outcome}");
        } else {
            assert_eq!((outcome.code, lines, &*outcome.stdout), (Some(125), 1, ""), "{outcome}");
            refused += 1;
        }
    }
    assert!(refused > 20);
    daemon.command("greet version 2");
    let outcome = monitor();
    assert!(outcome.code == Some(125) && outcome.stderr.contains("another protocol"), "{outcome}");
    // And later, when it listens.
    daemon.command("greet welcome");
    let mut refused = 0;
    for _ in 0..ibv_sa_samples::scaled(80) {
        let outcome = std::thread::scope(|scope| {
            let monitor = scope.spawn(|| monitor_with(&["--count", "1"]));
            while daemon.command("live") != "1" && !monitor.is_finished() {
                std::thread::yield_now();
            }
            daemon.command("spoil");
            // One that goes on ends with a notice; one that has to connect again must have come so far.
            while !monitor.is_finished() {
                daemon.command("notice 0 64 fe80::7");
                std::thread::sleep(Duration::from_millis(10));
            }
            monitor.join().expect("no panic")
        });
        // What is well-formed may be an end too: the registration is refused.
        let codes: &[i32] = if daemon.command("spoilt errno") == PROTOCOL { &[125] } else { &[0, 125] };
        assert!(outcome.code.is_some_and(|code| codes.contains(&code)), "{outcome}");
        refused += u32::from(codes.len() == 1);
        while daemon.command("live") != "0" {
            std::thread::yield_now();
        }
    }
    assert!(refused > 20);
    // It connects once: there is no answer to a later Hello.
    let unseen: Vec<_> = daemon.unseen().into_iter().filter(|(phase, _)| *phase != Phase::Again).collect();
    assert_eq!(unseen, [], "kinds of packets that did not come");
}
