//! The daemon with libibumad, on umad2sim: in a process of its own, as that is a preload.

mod common;
#[path = "common/fabric.rs"]
mod fabric;

use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use common::{Client, Heard, LIMIT, QUIET};
use fabric::Fabric;
use ibv_sa_daemon::engine::{DefaultPolicy, Settings};
use ibv_sa_daemon::transport::umad::Umad;
use ibv_sa_daemon::{Config, Signals, run};
use ibv_sa_wire::{Filter, Trap};

const SOCKET: &str = "IBV_SA_TEST_SOCKET";
const DEVICE: &str = "ibsim0";

/// Not a test but the daemon of the others: this binary is started once more, under the preload.
#[test]
fn daemon_process() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    common::end_with_parent();
    run(Config {
        socket: socket.into(),
        settings: Settings { linger: 200_000_000, close: 200_000_000, ..Settings::default() },
        policy: Box::new(DefaultPolicy::default()),
        transport: Box::new(|sink| Ok(Box::new(Umad::new(sink)?))),
        log: Box::new(|record| eprintln!("{}", record.text)),
        signals: Some(Signals::catch().expect("two sockets")),
    })
    .expect("a clean end");
}

struct Host {
    socket: PathBuf,
    child: Child,
}

impl Host {
    fn at(fabric: &Fabric, node: &str) -> Host {
        let socket = fabric.path().join("umad.sock");
        let own = std::env::current_exe().expect("it runs");
        let args = [own.to_str().expect("a plain path"), "--exact", "daemon_process", "--nocapture"];
        let child = fabric
            .command("run", &[&[node], &args[..]].concat())
            .env("GMP", "1")
            .env(SOCKET, &socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("bash is there");
        let end = Instant::now() + LIMIT;
        while !Path::new(&socket).exists() {
            assert!(Instant::now() < end, "the daemon does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Host { socket, child }
    }

    fn signal(&mut self, signal: rustix::process::Signal) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it runs");
        self.child.wait().expect("it is ours")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn libibumad_end_to_end() {
    let fabric = Fabric::new();
    let mut host = Host::at(&fabric, "Hca4");
    let client = Client::new(&host.socket);
    client.register(9, "nothing0", Filter::trap(Trap(65)), 0);
    assert_eq!(client.hear(LIMIT), Heard::Registered(9, -libc::ENODEV));
    client.registered(1, DEVICE, Filter::trap(Trap(65)));
    client.registered(2, DEVICE, Filter::trap(Trap(64)));
    fabric.wait_for_subscriptions(&["64", "65"]);
    fabric.unlink("Hca3");
    assert!(matches!(client.hear(LIMIT), Heard::Notice(1, 1, notice) if notice.trap() == Some(Trap(65))));
    fabric.relink("Hca3");
    assert!(matches!(client.hear(LIMIT), Heard::Notice(2, 1, notice) if notice.trap() == Some(Trap(64))));
    assert_eq!(client.hear(QUIET), Heard::Nothing);
    client.unregister(2);
    assert_eq!(client.hear(LIMIT), Heard::Unregistered(2));
    fabric.wait_for_subscriptions(&["65"]);
    // The port is let go, and opened again.
    client.unregister(1);
    assert_eq!(client.hear(LIMIT), Heard::Unregistered(1));
    fabric.wait_for_subscriptions(&[]);
    std::thread::sleep(Duration::from_secs(1));
    client.registered(3, DEVICE, Filter::trap(Trap(65)));
    fabric.unlink("Hca3");
    assert!(matches!(client.hear(LIMIT), Heard::Notice(3, 1, _)));
    assert!(host.signal(rustix::process::Signal::TERM).success());
    assert_eq!(fabric.subscriptions(), [""; 0]);
    assert_eq!(client.hear(LIMIT), Heard::Closed);
    assert!(!host.socket.exists());
}
