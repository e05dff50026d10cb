//! The transport for real ports, with test doubles in place of libibumad and libibverbs (common/*.c): a port that another
//! process has, a device that is taken away and comes back, events of a device, and how often devices are looked at. The
//! kernel's part is played, so that this shows what the daemon makes of it and not that a kernel does so.

mod common;
#[path = "common/daemon.rs"]
mod daemon;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Client, Heard, LIMIT};
use daemon::{ARGS, Daemon, own};
use ibv_sa_daemon::engine::Settings;
use ibv_sa_daemon::transport::umad::Umad;
use ibv_sa_wire::proto::{ClientMessage, PortSelector, Register};
use ibv_sa_wire::{Filter, Guid, Trap};

const DEVICE: &str = "fake0";

/// Not a test but the daemon of the others: this binary is started once more, with the double where the loader looks.
#[test]
fn daemon_process() {
    let settings = Settings { linger: 0, close: 0, spread: 100_000_000, ..Settings::default() };
    daemon::serve(settings, |sink| Ok(Box::new(Umad::new(sink)?)));
}

fn double(source: &str, library: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common").join(source);
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([library, &source])
        .status()
        .expect("a C compiler");
    assert!(status.success(), "the double compiles, with the headers of libibumad-dev and libibverbs-dev");
}

struct Host {
    directory: tempfile::TempDir,
    daemon: Daemon,
}

impl Host {
    fn new(switches: &[&str]) -> Host {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        double("libibumad.c", &path.join("libibumad.so.3"));
        if switches.contains(&"verbs") {
            double("libibverbs.c", &path.join("libibverbs.so.1"));
            let fifo = Command::new("mkfifo").arg(path.join("events")).status().expect("mkfifo (coreutils)");
            assert!(fifo.success());
        }
        for switch in switches {
            std::fs::write(path.join(switch), "").expect("a file");
        }
        let mut command = Command::new(own());
        command
            .args(ARGS)
            .env("LD_LIBRARY_PATH", path)
            .env("DOUBLE_DIR", path)
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(path.join("log")).expect("a file"));
        let daemon = Daemon::start(&mut command, path.join("sa.sock"));
        daemon.listens();
        Host { directory, daemon }
    }

    fn switch(&self, name: &str, on: bool) {
        let path = self.directory.path().join(name);
        if on { std::fs::write(path, "") } else { std::fs::remove_file(path) }.expect("a file");
    }

    fn wait_for(&self, what: &str, done: impl Fn(&Host) -> bool) {
        self.daemon.wait_for(what, || done(self));
    }

    /// Something happens to the device.
    fn event(&self, event_type: i32, port: i32) {
        let fifo = std::fs::OpenOptions::new().write(true).open(self.directory.path().join("events"));
        let event = [event_type.to_ne_bytes(), port.to_ne_bytes()].concat();
        fifo.and_then(|mut fifo| fifo.write_all(&event)).expect("a reader");
    }

    /// The device has this name from now on, and its port this GUID.
    fn device(&self, name: &str, guid: u64) {
        let (new, path) = (self.directory.path().join("device.new"), self.directory.path().join("device"));
        std::fs::write(&new, format!("{name} {guid:016x}\n")).expect("a file");
        std::fs::rename(new, path).expect("a file");
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    fn calls(&self, name: &str) -> usize {
        self.text("calls").lines().filter(|line| *line == name).count()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the daemon's log:\n{}", self.text("log"));
        }
    }
}

fn status(client: &Client, id: u64) -> i32 {
    loop {
        match client.hear(LIMIT) {
            Heard::Status(of, status) if of == id => return status,
            Heard::Registered(_, 0) | Heard::Status(..) => {}
            other => panic!("{other:?} instead of a status"),
        }
    }
}

#[test]
fn another_process_has_the_reports_of_the_port() {
    let host = Host::new(&["taken"]);
    let client = Client::new(&host.daemon.socket);
    client.register(1, DEVICE, Filter::trap(Trap(64)), Register::AUTO_REREGISTER);
    assert_eq!(status(&client, 1), -libc::EBUSY);
    client.register(2, DEVICE, Filter::trap(Trap(64)), 0);
    assert_eq!(status(&client, 2), -libc::EBUSY);
    let log = host.text("log");
    assert!(
        log.contains("fake0/1: another program receives the reports of the SA at this port: end it"),
        "{log}"
    );
    // It was ended. The one that is to be made again is.
    host.switch("taken", false);
    assert_eq!(status(&client, 1), 0);
    client.registered(3, DEVICE, Filter::trap(Trap(64)));
}

#[test]
fn nothing_is_sent_to_a_port_that_is_closed() {
    let host = Host::new(&[]);
    let client = Client::new(&host.daemon.socket);
    client.registered(1, DEVICE, Filter::trap(Trap(64)));
    client.register(2, DEVICE, Filter::trap(Trap(65)), Register::AUTO_REREGISTER);
    assert_eq!(status(&client, 2), 0);
    // The device goes; until the daemon knows, programs want more of it.
    host.switch("gone", true);
    let mut id = 3;
    let end = Instant::now() + LIMIT;
    while host.calls("open") < 2 {
        assert!(Instant::now() < end, "the port is not opened again");
        client.register(id, DEVICE, Filter::trap(Trap(1000 + id as u16)), 0);
        id += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    host.switch("gone", false);
    assert_eq!(status(&client, 1), -libc::ENETRESET);
    while status(&client, 2) != 0 {}
    assert!(host.calls("close") > 0);
    assert_eq!(host.calls("send to a closed port"), 0, "{}", host.text("calls"));
}

#[test]
fn devices_are_not_read_for_each_registration() {
    let host = Host::new(&[]);
    let client = Client::new(&host.daemon.socket);
    let start = Instant::now();
    for id in 1..=500 {
        let name = format!("nothing{id}");
        let name = if id % 2 == 0 { &name } else { "" };
        let port = PortSelector::new(name, Guid::from(id), 1).expect("a port");
        let filter = Filter::trap(Trap(64));
        client.send(&ClientMessage::Register(Register { id, flags: 0, port, filter }));
        assert_eq!(client.hear(LIMIT), Heard::Registered(id, -libc::ENODEV));
    }
    let (looks, most) = (host.calls("get_ca"), 1 + start.elapsed().as_secs() as usize);
    assert!((1..=most).contains(&looks), "{looks} looks, {most} s");
}

const DEVICE_FATAL: i32 = 8;
const PORT_ERR: i32 = 10;
const SM_CHANGE: i32 = 13;
const CLIENT_REREGISTER: i32 = 17;

#[test]
fn an_sm_that_asks_for_subscriptions_again_gets_them() {
    let host = Host::new(&["verbs"]);
    let client = Client::new(&host.daemon.socket);
    client.register(1, DEVICE, Filter::trap(Trap(64)), Register::AUTO_REREGISTER);
    assert_eq!(status(&client, 1), 0);
    let (mut sends, mut acks) = (host.calls("send"), 0);
    for event in [CLIENT_REREGISTER, SM_CHANGE] {
        // Of another port, and of no port: nothing.
        host.event(event, 2);
        host.event(PORT_ERR, 1);
        acks += 2;
        host.wait_for("their acks", |host| host.calls("ack") == acks);
        // Several at once are one.
        for _ in 0..3 {
            host.event(event, 1);
        }
        acks += 3;
        assert_eq!(status(&client, 1), -libc::ENETRESET);
        assert_eq!(status(&client, 1), 0);
        host.wait_for("all acks", |host| host.calls("ack") == acks);
        sends += 1;
        assert_eq!(host.calls("send"), sends, "one subscription: {}", host.text("calls"));
    }
    assert!(!host.text("log").contains("no events"), "{}", host.text("log"));
    // A device that is to go is let go of, and looked at again.
    host.event(DEVICE_FATAL, 0);
    host.wait_for("the device's close", |host| host.calls("close_device") == 1);
    host.wait_for("a line", |host| {
        host.text("log")
            .contains("no events of the device, so that it is looked at twice a second: DEVICE_FATAL")
    });
}

#[test]
fn a_device_that_hangs_up_is_not_listened_to_for_ever() {
    let host = Host::new(&["verbs", "hung-up"]);
    let client = Client::new(&host.daemon.socket);
    client.registered(1, DEVICE, Filter::trap(Trap(64)));
    let line =
        "fake0/1: no events of the device, so that it is looked at twice a second: the device has gone";
    host.wait_for("a line", |host| host.text("log").contains(line));
    assert_eq!(host.calls("close_device"), 1);
}

#[test]
fn without_events_of_the_device_the_log_says_so() {
    let host = Host::new(&[]);
    let client = Client::new(&host.daemon.socket);
    client.registered(1, DEVICE, Filter::trap(Trap(64)));
    host.wait_for("a line", |host| {
        host.text("log")
            .contains("fake0/1: no events of the device, so that it is looked at twice a second: libibverbs")
    });
}

#[test]
fn a_device_that_comes_back_is_known_by_its_ports_guid() {
    let host = Host::new(&["verbs"]);
    let client = Client::new(&host.daemon.socket);
    client.register(1, DEVICE, Filter::trap(Trap(64)), Register::AUTO_REREGISTER);
    assert_eq!(status(&client, 1), 0);
    // It goes, and its name is another device's.
    host.switch("gone", true);
    assert_eq!(status(&client, 1), -libc::ENETRESET);
    host.device(DEVICE, 0x9999);
    host.switch("gone", false);
    let line = "fake0/1: the port with GUID 0x0000000000001235 is gone; the device of that name is another one now, \
                with GUID 0x0000000000009999";
    host.wait_for(line, |host| host.text("log").contains(line));
    // Who means the new one gets it.
    let other = Client::new(&host.daemon.socket);
    let mut id = 0;
    let mut is_served = || {
        id += 1;
        other.register(id, DEVICE, Filter::trap(Trap(64)), 0);
        status(&other, id) == 0
    };
    // Which devices there are was read within a second, perhaps before it came.
    let end = Instant::now() + LIMIT;
    while !is_served() {
        assert!(Instant::now() < end, "{}", host.text("log"));
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(other);
    // It comes back under another name.
    host.device("fake7", 0x1235);
    assert_eq!(status(&client, 1), 0);
    let log = host.text("log");
    assert!(log.contains("fake0/1: the port with GUID 0x0000000000001235 is at fake7 now"), "{log}");
    // A program that had opened it by its old name still means this one.
    let port = PortSelector::new(DEVICE, Guid::from(0x1234), 1).expect("a port");
    let register = Register { id: 2, flags: 0, port, filter: Filter::trap(Trap(65)) };
    client.send(&ClientMessage::Register(register));
    assert_eq!(status(&client, 2), 0);
}
