//! A daemon in a process of its own: the test's binary, started once more.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ibv_sa_daemon::engine::{DefaultPolicy, Settings};
use ibv_sa_daemon::transport::{Sink, Transport};
use ibv_sa_daemon::{Config, Signals, run};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{LIMIT, end_with_parent};

/// Where the daemon listens; only in its environment.
const SOCKET: &str = "IBV_SA_TEST_SOCKET";
/// With these the binary is the daemon: its test `daemon_process` has to call `serve`.
pub const ARGS: [&str; 3] = ["--exact", "daemon_process", "--nocapture"];

/// The test's binary.
pub fn own() -> PathBuf {
    std::env::current_exe().expect("it runs")
}

/// Is the daemon, where the process was started as one.
pub fn serve(
    settings: Settings,
    transport: impl FnOnce(Sink) -> io::Result<Box<dyn Transport>> + Send + 'static,
) {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    end_with_parent();
    run(Config {
        socket: socket.into(),
        settings,
        policy: Box::new(DefaultPolicy::default()),
        transport: Box::new(transport),
        log: Box::new(|record| eprintln!("{}", record.text)),
        signals: Some(Signals::catch().expect("two sockets")),
    })
    .expect("a clean end");
}

/// The process, killed with this.
pub struct Daemon {
    pub socket: PathBuf,
    child: Child,
}

impl Daemon {
    /// Runs a command that becomes the daemon.
    pub fn start(command: &mut Command, socket: PathBuf) -> Daemon {
        let child = command.env(SOCKET, &socket).stdout(Stdio::null()).spawn().expect("it runs");
        Daemon { socket, child }
    }

    pub fn listens(&self) {
        self.wait_for("the socket", || self.socket.exists());
    }

    pub fn wait_for(&self, what: &str, done: impl Fn() -> bool) {
        let end = Instant::now() + LIMIT;
        while !done() {
            assert!(Instant::now() < end, "{what} did not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.child.id()).into()
    }

    pub fn signal(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
        self.child.wait().expect("it is ours")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
