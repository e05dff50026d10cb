//! The programs of `ctests/examples`, compiled with both compilers and run.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ibv_sa_daemon::engine::{DefaultPolicy, Settings};
use ibv_sa_daemon::transport::embedded::{DEVICE, Embedded};
use ibv_sa_daemon::{Config, Daemon};
use ibv_sa_tests::{
    Compiler, FLAVOURS, Flavour, ScriptedDaemon, cc_with, sa_program, scripted_dir, shim_dir,
};
use ibv_sa_wire::{Gid, Notice, Trap};
use rustix::process::{Pid, Signal, kill_process};

/// A program with which a test talks.
struct Talk {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Talk {
    fn start(daemon: &ScriptedDaemon, example: &str, flavour: Flavour) -> Talk {
        Talk::with(&daemon.socket(), "ibsim0", &format!("ctests/examples/{example}.c"), flavour)
    }

    fn with(socket: &Path, device: &str, source: &str, flavour: Flavour) -> Talk {
        let program = sa_program(source, flavour, &[]);
        let libraries = format!("{}:{}", shim_dir(flavour).display(), scripted_dir().display());
        // A test that fails ends its program too.
        let mut child = Command::new("timeout")
            .arg("60")
            .arg(program)
            .args([device, "1"])
            .env("LD_LIBRARY_PATH", libraries)
            .env("IBV_SA_SOCKET", socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Talk { child, stdin, stdout: BufReader::new(stdout) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line.trim_end().into()
    }

    #[track_caller]
    fn hears(&mut self, wanted: &str) {
        assert_eq!(self.line(), wanted);
    }

    /// timeout(1) passes the signal on.
    fn end(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it lives");
        self.child.wait().expect("it ends");
    }

    fn says(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("it reads");
    }
}

#[test]
fn gid_watch() {
    for flavour in FLAVOURS {
        let daemon = ScriptedDaemon::start();
        let mut talk = Talk::start(&daemon, "gid_watch", flavour);
        talk.hears("registration active (in): active");
        talk.hears("registration active (out): active");
        daemon.command("notice 0 64 fe80::10:7");
        talk.hears("GID in service: fe80::10:7");
        daemon.command("notice 0 65 fe80::10:7");
        talk.hears("GID out of service: fe80::10:7");
        daemon.command("overflow 1 3");
        talk.hears("notices lost (in): notices were lost: events were not got in time");
        daemon.command("close");
        for which in ["out", "in"] {
            talk.hears(&format!(
                "registration lost ({which}): lost: the SM changed, or the daemon; register again"
            ));
        }
        talk.hears("registration active (out): active");
        talk.hears("registration active (in): active");
        talk.end();
    }
}

/// The daemon itself, with an SA in the same process: two programs share its subscriptions.
#[test]
fn gid_watch_twice_with_the_daemon() {
    for flavour in FLAVOURS {
        let dir = tempfile::tempdir().expect("a folder");
        let (socket, sa) = (dir.path().join("sa.sock"), Embedded::default());
        let start = || {
            let sa = sa.clone();
            let config = Config {
                socket: socket.clone(),
                settings: Settings { linger: 50_000_000, ..Settings::default() },
                policy: Box::new(DefaultPolicy::default()),
                transport: Box::new(move |sink| {
                    sa.attach(sink);
                    Ok(Box::new(sa))
                }),
                log: Box::new(|record| eprintln!("{}", record.text)),
                signals: None,
            };
            let daemon = Daemon::new(config).expect("it listens");
            (daemon.stopper(), std::thread::spawn(move || daemon.run()))
        };
        let (stopper, thread) = start();
        let mut programs =
            [0, 1].map(|_| Talk::with(&socket, DEVICE, "ctests/examples/gid_watch.c", flavour));
        for talk in &mut programs {
            talk.hears("registration active (in): active");
            talk.hears("registration active (out): active");
        }
        assert_eq!(sa.with_sa(|sa| sa.subscribers.len()), 2);
        let gid: Gid = "fe80::10:7".parse().expect("a GID");
        sa.happen(&Notice::about_gid(Trap::GID_OUT_OF_SERVICE, gid, 1, gid));
        programs.iter_mut().for_each(|talk| talk.hears("GID out of service: fe80::10:7"));

        // It is started anew.
        stopper.stop();
        thread.join().expect("no panic").expect("a clean end");
        let (stopper, thread) = start();
        for talk in &mut programs {
            for which in ["out", "in"] {
                let lost = "lost: the SM changed, or the daemon; register again";
                talk.hears(&format!("registration lost ({which}): {lost}"));
            }
            // The daemon takes its time, for each its own.
            let mut lines = [talk.line(), talk.line()];
            lines.sort();
            assert_eq!(lines, ["registration active (in): active", "registration active (out): active"]);
        }
        sa.happen(&Notice::about_gid(Trap::GID_IN_SERVICE, gid, 1, gid));
        programs.iter_mut().for_each(|talk| talk.hears("GID in service: fe80::10:7"));
        for talk in &mut programs {
            talk.end();
        }
        for _ in 0..1000 {
            if sa.with_sa(|sa| sa.subscribers.is_empty()) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(sa.with_sa(|sa| sa.subscribers.len()), 0);
        stopper.stop();
        thread.join().expect("no panic").expect("a clean end");
    }
}

#[test]
fn path_cache() {
    for flavour in FLAVOURS {
        let daemon = ScriptedDaemon::start();
        let mut talk = Talk::start(&daemon, "path_cache", flavour);
        talk.hears("cache emptied: registration active");
        talk.hears("cache emptied: registration active");
        for (gid, answer) in [("fe80::7", "asked for"), ("fe80::7", "known"), ("fe80::8", "asked for")] {
            talk.says(gid);
            talk.hears(&format!("{gid}: {answer}"));
        }
        daemon.command("notice 0 65 fe80::7");
        talk.hears("entry dropped: GID out of service");
        daemon.command("notice 0 64 fe80::7");
        talk.hears("not cached: GID in service");
        for (gid, answer) in [("fe80::7", "asked for"), ("fe80::8", "known")] {
            talk.says(gid);
            talk.hears(&format!("{gid}: {answer}"));
        }
        daemon.command("overflow 2 1");
        talk.hears("cache emptied: notices lost");
        talk.says("fe80::8");
        talk.hears("fe80::8: asked for");
        drop(talk.stdin);
        assert!(talk.child.wait().expect("it ends").success());
        while daemon.command("live") != "0" {
            std::thread::yield_now();
        }
    }
}

#[test]
fn one_loop() {
    for flavour in FLAVOURS {
        let daemon = ScriptedDaemon::start();
        let mut talk = Talk::with(&daemon.socket(), "ibsim0", "ctests/sa/one_loop.c", flavour);
        talk.hears("SA: registration active: active");
        daemon.command("notice 0 65 fe80::3");
        talk.hears("SA: GID out of service: look again");
        for (word, line) in [("async", "device: event_type 9"), ("completion", "completion: wr_id 42")] {
            talk.says(word);
            talk.hears(line);
        }
        talk.says("fatal");
        talk.hears("device: event_type 8");
        talk.hears("end");
        assert!(talk.child.wait().expect("it ends").success());
    }
}

#[test]
fn clang_takes_the_examples_and_the_programs_of_the_tests() {
    let dir = format!("-L{}", shim_dir(Flavour::Release).display());
    for folder in ["ctests/examples", "ctests/sa"] {
        let mut seen = 0;
        for entry in std::fs::read_dir(ibv_sa_tests::path(folder)).expect("readable") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            if name.ends_with(".c") {
                cc_with(Compiler::Clang, &format!("{folder}/{name}"), &[&dir, "-libv_sa"]);
                seen += 1;
            }
        }
        assert!(seen >= 3, "only {seen} programs in {folder}");
    }
}
