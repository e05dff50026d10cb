//! `ibv_sa_*` against a daemon that does what it is told: C programs of `ctests/sa`, one behaviour each.

use std::collections::BTreeSet;
use std::time::Duration;

use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run, ScriptedDaemon, path, sa_program, shim_dir, tool};

/// A program that takes so long hangs. A loaded machine is slow.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs a program with each flavour, each with a daemon of its own; all must end well.
fn good(program: &str, args: &[&str]) -> Vec<Outcome> {
    let one = |flavour| {
        let daemon = ScriptedDaemon::start();
        let run = daemon.program(program, flavour).args(args).timeout(LIMIT);
        let outcome = run.run().assert_ok();
        assert_eq!(outcome.stdout, "good\n", "{outcome}");
        outcome
    };
    FLAVOURS.map(one).into()
}

/// And has nothing to say.
fn quiet(program: &str, args: &[&str]) {
    for outcome in good(program, args) {
        assert_eq!(outcome.stderr, "", "{outcome}");
    }
}

#[test]
fn a_channel_registrations_events_and_notices() {
    quiet("basic", &[]);
}

#[test]
fn every_errno() {
    quiet("errors", &[]);
}

#[test]
fn what_becomes_of_a_registration() {
    for outcome in good("statuses", &[]) {
        let lines = outcome.shim_lines();
        assert_eq!(lines.len(), 1, "{outcome}");
        assert!(lines[0].contains("trap number 64 is in host order"), "{outcome}");
        assert!(lines[0].contains("htobe16(64)"), "{outcome}");
    }
}

#[test]
fn filters_reach_the_daemon() {
    quiet("filters", &[]);
}

#[test]
fn acks_in_any_thread_and_order_once() {
    quiet("acks", &[]);
}

#[test]
fn the_descriptor_in_poll_select_and_epoll() {
    for how in ["nonblock", "poll", "select", "level", "edge"] {
        quiet("polling", &[how]);
    }
}

#[test]
fn each_event_goes_to_one_of_many_threads() {
    quiet("threads", &[]);
}

#[test]
fn a_get_is_a_cancellation_point_and_nothing_else_is() {
    for kind in ["deferred", "asynchronous", "pending"] {
        quiet("cancel", &["get", kind]);
    }
    for call in ["free", "destroy", "ack", "register", "create"] {
        quiet("cancel", &[call, "pending"]);
    }
}

#[test]
fn signals_interrupt_a_get() {
    for how in ["eintr", "restart", "longjmp"] {
        quiet("signals", &[how]);
    }
}

#[test]
fn a_handler_jumps_out_of_a_wait() {
    for call in ["free", "destroy"] {
        quiet("jumps", &[call]);
    }
}

#[test]
fn a_child_has_nothing_of_its_parents() {
    for fork in ["fork", "_Fork"] {
        for parent in ["idle", "busy"] {
            quiet("forks", &[fork, parent]);
        }
    }
}

#[test]
fn the_daemon_ends_and_comes_back() {
    for outcome in good("reconnect", &[]) {
        let lines = outcome.shim_lines();
        assert!(
            lines[0].contains("no daemon for SA notices") && lines[0].contains("`ibv-sa daemon`"),
            "{outcome}"
        );
        assert!(lines[1].contains("no message"), "{outcome}");
        assert_eq!(lines.len(), 2, "{outcome}");
    }
}

#[test]
fn a_daemon_that_comes_back_and_refuses() {
    std::thread::scope(|scope| {
        for how in ["register-busy", "register-nodev", "activate-nodev", "first", "good"] {
            scope.spawn(move || quiet("returns", &[how]));
        }
    });
}

/// The errno and the words of a refusal come through, whatever the daemon has read before it hung up.
#[test]
fn a_refusal_without_a_hearing() {
    for order in ["early", "late"] {
        for outcome in good("turned_away", &[order]) {
            let lines = outcome.shim_lines();
            assert_eq!(lines.len(), 2, "{outcome}");
            for line in lines {
                assert!(line.contains("the daemon refuses this program: too many"), "{outcome}");
            }
        }
    }
}

#[test]
fn more_readers_than_are_remembered() {
    quiet("readers", &[]);
}

#[test]
fn a_kernel_without_memory_for_a_packet() {
    quiet("no_buffers", &[]);
}

#[test]
fn a_daemon_that_does_not_read_stops_nobody() {
    quiet("stalled", &[]);
}

#[test]
fn memory_and_descriptors_stay_flat() {
    let (registrations, channels) =
        if std::env::var_os("SOAK").is_some() { ("100000", "10000") } else { ("10000", "2000") };
    quiet("rounds", &[registrations, channels]);
}

/// The programs of `ctests/sa` as they are run under tools that find faults in memory.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("acks", &[]),
    ("basic", &[]),
    ("cancel", &["get", "deferred"]),
    ("cancel", &["destroy", "pending"]),
    ("create", &["2"]),
    ("errnos", &["ibv_sa_create_event_channel", "ECONNRESET"]),
    ("errnos", &["ibv_sa_get_event", "ENOMEM"]),
    ("errors", &[]),
    ("filters", &[]),
    ("forks", &["fork", "idle"]),
    ("jumps", &["free"]),
    ("jumps", &["destroy"]),
    ("no_buffers", &[]),
    ("polling", &["edge"]),
    ("polling", &["select"]),
    ("readers", &[]),
    ("reconnect", &[]),
    ("returns", &["good"]),
    ("rounds", &["300", "100"]),
    ("signals", &["longjmp"]),
    ("signals", &["restart"]),
    ("spoilt", &["1"]),
    ("stalled", &[]),
    ("statuses", &[]),
    ("threads", &[]),
    ("turned_away", &["early"]),
    ("waits", &["free", "other", "50"]),
];

#[test]
fn every_program_is_tried_under_the_tools() {
    // These need another daemon, another library, or an input: sa_daemon, sa_errnos, sa_examples, those with a fabric.
    let elsewhere = ["burst", "crowd", "fault", "flow", "gap", "one_loop", "storm", "told"];
    let all: BTreeSet<String> = std::fs::read_dir(path("ctests/sa"))
        .expect("readable")
        .filter_map(|entry| {
            Some(entry.expect("an entry").file_name().to_str()?.strip_suffix(".c")?.to_owned())
        })
        .collect();
    let named = PROGRAMS.iter().map(|(program, _)| *program).chain(elsewhere).map(String::from);
    assert_eq!(named.collect::<BTreeSet<_>>(), all);
}

fn with_tool(tool: impl Fn(&ScriptedDaemon, &str) -> Run) {
    for (program, args) in PROGRAMS {
        let daemon = ScriptedDaemon::start();
        if *program == "create" {
            daemon.command("stop");
        }
        let run = tool(&daemon, &format!("ctests/sa/{program}.c")).args(*args);
        let outcome = run.timeout(LIMIT).run().assert_ok();
        assert_eq!(outcome.stdout, "good\n", "{outcome}");
        let found = ["ERROR", "runtime error"].iter().any(|words| outcome.stderr.contains(words));
        assert!(!found, "{outcome}");
    }
}

#[test]
fn valgrind_finds_nothing() {
    with_tool(|daemon, source| {
        let exe = sa_program(source, Flavour::Debug, &[]);
        let run = Run::new(tool("valgrind")).args(["-q", "--error-exitcode=98"]).arg(exe);
        daemon.with_daemon(run).library_path(shim_dir(Flavour::Debug))
    });
}

#[test]
fn the_sanitizers_find_nothing() {
    with_tool(|daemon, source| {
        let exe = sa_program(source, Flavour::Release, &["-fsanitize=address,undefined"]);
        daemon.run(exe, Flavour::Release).env("ASAN_OPTIONS", "detect_leaks=0")
    });
}
