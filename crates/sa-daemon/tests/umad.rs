//! The daemon with libibumad, on umad2sim: in a process of its own, as that is a preload.

mod common;
#[path = "common/daemon.rs"]
mod daemon;
#[path = "common/fabric.rs"]
mod fabric;

use std::time::Duration;

use common::{Client, Heard, LIMIT, QUIET};
use daemon::{ARGS, Daemon, own};
use fabric::Fabric;
use ibv_sa_daemon::engine::Settings;
use ibv_sa_daemon::transport::umad::Umad;
use ibv_sa_wire::{Filter, Trap};

const DEVICE: &str = "ibsim0";

/// Not a test but the daemon of the others: this binary is started once more, under the preload.
#[test]
fn daemon_process() {
    let settings = Settings { linger: 200_000_000, close: 200_000_000, ..Settings::default() };
    daemon::serve(settings, |sink| Ok(Box::new(Umad::new(sink)?)));
}

fn daemon_at(fabric: &Fabric, node: &str) -> Daemon {
    let own = own();
    let args = [&[node, own.to_str().expect("a plain path")], &ARGS[..]].concat();
    let daemon = Daemon::start(fabric.command("run", &args).env("GMP", "1"), fabric.path().join("umad.sock"));
    daemon.listens();
    daemon
}

#[test]
fn libibumad_end_to_end() {
    let fabric = Fabric::new();
    let mut host = daemon_at(&fabric, "Hca4");
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
