//! The transport for real ports, with a test double in place of libibumad (common/libibumad.c): a port that another
//! process has, a device that is taken away, and how often devices are looked at. The kernel's part is played, so
//! that this shows what the daemon makes of it and not that a kernel does so.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Client, Heard, LIMIT};
use ibv_sa_daemon::engine::{DefaultPolicy, Settings};
use ibv_sa_daemon::transport::umad::Umad;
use ibv_sa_daemon::{Config, run};
use ibv_sa_wire::proto::{ClientMessage, PortSelector, Register};
use ibv_sa_wire::{Filter, Guid, Trap};

const SOCKET: &str = "IBV_SA_TEST_SOCKET";
const DEVICE: &str = "fake0";

/// Not a test but the daemon of the others: this binary is started once more, with the double where the loader looks.
#[test]
fn daemon_process() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    common::end_with_parent();
    run(Config {
        socket: socket.into(),
        settings: Settings { linger: 0, close: 0, ..Settings::default() },
        policy: Box::new(DefaultPolicy::default()),
        transport: Box::new(|sink| Ok(Box::new(Umad::new(sink)?))),
        log: Box::new(|record| eprintln!("{}", record.text)),
        signals: true,
    })
    .expect("a clean end");
}

struct Host {
    directory: tempfile::TempDir,
    child: Child,
}

impl Host {
    fn new(switches: &[&str]) -> Host {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/libibumad.c");
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&path.join("libibumad.so.3"), &source])
            .status()
            .expect("a C compiler");
        assert!(status.success(), "the double compiles, with the header of libibumad-dev");
        for switch in switches {
            std::fs::write(path.join(switch), "").expect("a file");
        }
        let child = Command::new(std::env::current_exe().expect("it runs"))
            .args(["--exact", "daemon_process", "--nocapture"])
            .env("LD_LIBRARY_PATH", path)
            .env("DOUBLE_DIR", path)
            .env(SOCKET, path.join("sa.sock"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(path.join("log")).expect("a file"))
            .spawn()
            .expect("it runs");
        let host = Host { directory, child };
        host.wait_for("the socket", |host| host.socket().exists());
        host
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("sa.sock")
    }

    fn switch(&self, name: &str, on: bool) {
        let path = self.directory.path().join(name);
        if on { std::fs::write(path, "") } else { std::fs::remove_file(path) }.expect("a file");
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    fn calls(&self, name: &str) -> usize {
        self.text("calls").lines().filter(|line| *line == name).count()
    }

    fn wait_for(&self, what: &str, done: impl Fn(&Host) -> bool) {
        let end = Instant::now() + LIMIT;
        while !done(self) {
            assert!(Instant::now() < end, "{what} did not come: {}", self.text("log"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    let client = Client::new(&host.socket());
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
    let client = Client::new(&host.socket());
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
    let client = Client::new(&host.socket());
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
