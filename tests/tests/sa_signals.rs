//! Signals that come in the daemon's first moments: SIGHUP ends it at no time, SIGTERM ends it cleanly at any.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ibv_sa_tests::product;
use rustix::process::{Pid, Signal, kill_process};
use wait_timeout::ChildExt;

const LIMIT: Duration = Duration::from_secs(20);

fn ibv_sa() -> PathBuf {
    product("build/release/ibv-sa", "make build/release/ibv-sa")
}

/// A command that is killed with the thread that starts it, however that ends.
fn ending_with_this_test() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig=KILL", "--"]);
    command
}

fn rounds() -> u32 {
    if std::env::var_os("SOAK").is_some() { 1000 } else { 30 }
}

/// `ibv-sa daemon` in a directory of its own; killed with this.
struct Daemon {
    child: Child,
    dir: tempfile::TempDir,
}

impl Daemon {
    /// As soon as anybody can see that it is there: its lock is the first thing that it makes.
    fn that_begins() -> Daemon {
        let dir = tempfile::tempdir().expect("a directory");
        let child = ending_with_this_test()
            .arg(ibv_sa())
            .args(["daemon", "--socket"])
            .arg(dir.path().join("sa.sock"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.path().join("log")).expect("a file"))
            .spawn()
            .expect("it starts");
        let mut daemon = Daemon { child, dir };
        daemon.until("takes its lock", |dir| dir.join("sa.sock.lock").exists());
        daemon
    }

    /// Without a pause in between: it is about the first moment.
    fn until(&mut self, what: &str, done: impl Fn(&Path) -> bool) {
        let end = Instant::now() + LIMIT;
        while !done(self.dir.path()) {
            let ended = self.child.try_wait().expect("ours");
            assert_eq!(ended, None, "it has to live until it {what}: {}", self.log());
            assert!(Instant::now() < end, "it never {what}: {}", self.log());
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait_timeout(LIMIT).expect("ours");
        status.unwrap_or_else(|| panic!("it does not end: {}", self.log()))
    }

    /// It ends as it should, and leaves what it may leave.
    fn ends_cleanly(mut self) {
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{status}: {}", self.log());
        let names = std::fs::read_dir(self.dir.path()).expect("ours").map_while(Result::ok);
        let left: Vec<_> = names
            .map(|entry| entry.file_name())
            .filter(|name| name != "log" && name != "sa.sock.lock")
            .collect();
        assert!(left.is_empty(), "{left:?} stays: {}", self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listens(dir: &Path) -> bool {
    // Of another type than this one.
    let other = Some(rustix::io::Errno::PROTOTYPE.raw_os_error());
    UnixStream::connect(dir.join("sa.sock")).is_err_and(|error| error.raw_os_error() == other)
}

#[test]
fn hup_in_the_first_moment_reads_the_policy_and_ends_nothing() {
    for _ in 0..rounds() {
        let mut daemon = Daemon::that_begins();
        daemon.send(Signal::HUP);
        daemon.until("listens", listens);
        // It is heeded, not lost.
        daemon.until("reads its policy", |dir| {
            let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            log.contains("policy counts") || log.contains("the policy was read")
        });
        daemon.send(Signal::TERM);
        daemon.ends_cleanly();
    }
}

#[test]
fn term_and_int_end_it_cleanly_in_whatever_moment() {
    for round in 0..rounds() {
        for signal in [Signal::TERM, Signal::INT] {
            let daemon = Daemon::that_begins();
            // From before the socket is made to after the loop has begun, in steps that a busy machine stretches.
            std::thread::sleep(Duration::from_micros(u64::from(round % 30) * 150));
            daemon.send(signal);
            daemon.ends_cleanly();
        }
    }
}

#[test]
fn signals_are_caught_before_anything_that_takes_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let (trace, policy) = (dir.path().join("trace"), dir.path().join("policy.toml"));
    std::fs::write(&policy, "rule = [{ users = ['nobody'], action = 'deny' }]\n").expect("a file");
    let mut strace = ending_with_this_test()
        .args(["strace", "-f", "-qq", "-e", "signal=none", "-e", "trace=rt_sigaction,openat", "-o"])
        .arg(&trace)
        .arg(ibv_sa())
        .args(["daemon", "--socket"])
        .arg(dir.path().join("sa.sock"))
        .arg("--policy")
        .arg(&policy)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("setpriv (util-linux) is there");
    let end = Instant::now() + LIMIT;
    while !listens(dir.path()) {
        assert_eq!(strace.try_wait().expect("ours"), None, "it has ended");
        assert!(Instant::now() < end, "the daemon does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    let tracer = strace.id();
    let children = std::fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children"));
    let daemon: i32 = children.expect("it runs").trim().parse().expect("one");
    kill_process(Pid::from_raw(daemon).expect("a process"), Signal::TERM).expect("it runs");
    assert!(strace.wait_timeout(LIMIT).expect("ours").expect("it ends").success());

    let trace = std::fs::read_to_string(&trace).expect("written by strace");
    let at = |what: &str| {
        let mut lines = trace.lines();
        lines.position(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what} in {trace}"))
    };
    // The policy file, in which names of users stand, is the first thing that may take long.
    let first = at("policy.toml");
    for name in ["SIGHUP", "SIGINT", "SIGTERM"] {
        let caught = at(&format!("rt_sigaction({name}, {{sa_handler=0x"));
        assert!(caught < first, "{name} is caught after the policy was read: {trace}");
    }
    assert!(first < at("sa.sock.lock"), "{trace}");
}
