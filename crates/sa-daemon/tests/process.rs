//! The daemon as a process: descriptors, signals, clients that die.

mod common;
#[path = "common/daemon.rs"]
mod daemon;

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Client, Heard, LIMIT};
use daemon::{ARGS, Daemon, own};
use ibv_sa_daemon::engine::Settings;
use ibv_sa_daemon::transport::embedded::{DEVICE, Embedded};
use ibv_sa_wire::{Filter, Trap};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType,
};
use rustix::process::Signal;

const CLIENT: &str = "IBV_SA_TEST_CLIENT";

/// Not a test but the daemon of the others: this binary is started once more.
#[test]
fn daemon_process() {
    daemon::serve(Settings { linger: 0, close: 0, ..Settings::default() }, |sink| {
        let embedded = Embedded::default();
        embedded.attach(sink);
        Ok(Box::new(embedded))
    });
}

/// Not a test either: a program that registers, leaves its socket to a child, and dies.
#[test]
#[expect(clippy::zombie_processes, reason = "the child has to outlive its parent")]
fn client_process() {
    let Some(socket) = std::env::var_os(CLIENT) else { return };
    let client = Client::new(Path::new(&socket));
    client.registered(1, DEVICE, Filter::trap(Trap(64)));
    let copy = client.fd.try_clone().expect("a descriptor");
    Command::new("sleep")
        .arg("5")
        .stdin(copy)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sleep");
}

struct Host {
    daemon: Daemon,
    _directory: tempfile::TempDir,
}

impl Host {
    /// A daemon that bash starts after `prepare`.
    fn new(prepare: &str, stdin: Stdio) -> Host {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("bash");
        command.args(["-c", &format!("{prepare} exec \"$0\" \"$@\"")]).arg(own()).args(ARGS).stdin(stdin);
        let daemon = Daemon::start(&mut command, directory.path().join("sa.sock"));
        Host { daemon, _directory: directory }
    }

    fn plain() -> Host {
        let host = Host::new("", Stdio::null());
        host.daemon.listens();
        host
    }

    fn socket(&self) -> &Path {
        &self.daemon.socket
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(self.daemon.proc("fd")).expect("it runs").count()
    }

    /// Ticks of 10 ms that it has used.
    fn cpu(&self) -> u64 {
        let stat = std::fs::read_to_string(self.daemon.proc("stat")).expect("it runs");
        let fields = stat.rsplit(')').next().expect("a name").split_whitespace();
        fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }

    fn end(mut self) {
        assert!(self.daemon.signal(Signal::TERM).success());
    }
}

#[test]
fn out_of_descriptors_is_a_pause_and_no_spin() {
    let host = Host::new("ulimit -n 30;", Stdio::null());
    host.daemon.listens();
    let first = Client::new(host.socket());
    let crowd: Vec<Client> = (0..60).map(|_| Client::connect(host.socket())).collect();
    std::thread::sleep(Duration::from_millis(200));
    let before = host.cpu();
    std::thread::sleep(Duration::from_secs(2));
    assert!(host.cpu() - before <= 10, "{} ticks in 2 s", host.cpu() - before);
    first.registered(1, DEVICE, Filter::trap(Trap(64)));
    drop(crowd);
    let late = Client::new(host.socket());
    late.registered(1, DEVICE, Filter::trap(Trap(64)));
    host.end();
}

#[test]
fn descriptors_are_as_many_as_may_be_and_the_socket_is_for_all() {
    let host = Host::new("ulimit -Sn 30; umask 077;", Stdio::null());
    host.daemon.listens();
    let crowd: Vec<Client> = (0..60).map(|_| Client::new(host.socket())).collect();
    let mode = std::fs::metadata(host.socket()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    drop(crowd);
    host.end();
}

#[test]
fn a_client_is_its_process_and_not_its_descriptor() {
    let host = Host::plain();
    let status = Command::new(own())
        .args(["--exact", "client_process"])
        .env(CLIENT, host.socket())
        .stdout(Stdio::null())
        .status()
        .expect("it runs");
    assert!(status.success());
    let witness = Client::new(host.socket());
    host.daemon.wait_for("the end of the dead client", || {
        let status: serde_json::Value = serde_json::from_str(&witness.status()).expect("JSON");
        status["clients"].as_array().map(Vec::len) == Some(1)
            && status["ports"].as_array().map(Vec::len) == Some(0)
    });
    host.end();
}

#[test]
fn descriptors_that_are_sent_are_closed() {
    let host = Host::plain();
    let client = Client::new(host.socket());
    client.registered(1, DEVICE, Filter::trap(Trap(64)));
    let before = host.descriptors();
    let file = std::fs::File::open("/dev/null").expect("a file");
    let files = [file.as_fd(); 8];
    let mut packet = [0; 256];
    let message = ibv_sa_wire::proto::ClientMessage::Unregister(ibv_sa_wire::proto::Unregister { id: 9 });
    let length = message.encode(&mut packet);
    for _ in 0..20 {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
        let bytes = [IoSlice::new(&packet[..length])];
        rustix::net::sendmsg(&client.fd, &bytes, &mut ancillary, SendFlags::NOSIGNAL).expect("sent");
        assert_eq!(client.hear(LIMIT), Heard::Unregistered(9));
    }
    assert_eq!(host.descriptors(), before);
    host.end();
}

#[test]
fn the_socket_may_be_systemds() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("activated.sock");
    let fd: OwnedFd =
        rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    rustix::net::bind(&fd, &SocketAddrUnix::new(&path).expect("a path")).expect("bound");
    rustix::net::listen(&fd, 8).expect("it listens");
    // The first client is there before the daemon.
    let early = Client::connect(&path);
    let host = Host::new("exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1;", Stdio::from(fd));
    early.send(&ibv_sa_wire::proto::ClientMessage::Hello(Default::default()));
    assert_eq!(early.hear(LIMIT), Heard::Welcome);
    early.registered(1, DEVICE, Filter::trap(Trap(64)));
    assert!(!host.socket().exists());
    host.end();
    assert!(path.exists(), "it is systemd's to remove");
}

#[test]
fn register_and_free_leave_nothing_behind() {
    let host = Host::plain();
    let client = Client::new(host.socket());
    let round = |id: u64| {
        client.registered(id, DEVICE, Filter::trap(Trap(64)));
        client.unregister(id);
        assert_eq!(client.hear(LIMIT), Heard::Unregistered(id));
        drop(Client::new(host.socket()));
    };
    let memory = || {
        let status = std::fs::read_to_string(host.daemon.proc("status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number")
    };
    (1..=500).for_each(round);
    let (descriptors, before) = (host.descriptors(), memory());
    (501..=3000).for_each(round);
    host.daemon.wait_for("the end of the last client", || host.descriptors() <= descriptors);
    // An allocator keeps what it likes; a leak of each round would be larger.
    let after = memory();
    assert!(after < before + 4096, "{before} kB grew to {after} kB");
    host.end();
}
