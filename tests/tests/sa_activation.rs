//! The daemon as systemd starts it: a socket that is there before the daemon and after it. Which descriptors it takes,
//! which it refuses, and what programs see when it ends and the next of them starts it again.

#[path = "../../crates/sa-daemon/tests/common/mod.rs"]
mod common;
#[path = "../../crates/sa-daemon/tests/common/fabric.rs"]
mod fabric;
#[path = "sa_fabric/host.rs"]
mod host;

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use host::{Host, LIMIT, command};
use ibv_sa_tests::Run;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use wait_timeout::ChildExt;

/// `systemd-socket-activate` with these arguments and then the daemon; ended with the thread that starts it.
fn activate(args: &[&str]) -> Child {
    Command::new("setpriv")
        .args(["--pdeathsig=KILL", "--", "systemd-socket-activate"])
        .args(args)
        .arg(command())
        .arg("daemon")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("setpriv (util-linux) is there")
}

fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// It ends by itself; what it said.
fn ended(mut child: Child) -> Output {
    if child.wait_timeout(LIMIT).expect("ours").is_none() {
        child.kill().expect("ours");
    }
    child.wait_with_output().expect("ours")
}

#[track_caller]
fn assert_refuses(child: Child, words: &str) {
    let output = ended(child);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{}: {text}", output.status);
    assert!(text.contains(words), "{text}");
}

#[test]
fn a_socket_of_another_type_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let listen = |path: &Path| format!("--listen={}", path.display());
    let words = "no listening SOCK_SEQPACKET unix socket";

    let stream = dir.path().join("stream");
    let child = activate(&[&listen(&stream)]);
    until("the socket", || stream.exists());
    let _client = UnixStream::connect(&stream).expect("it listens");
    assert_refuses(child, words);

    let datagram = dir.path().join("datagram");
    let child = activate(&["--datagram", &listen(&datagram)]);
    until("the socket", || datagram.exists());
    let client = UnixDatagram::unbound().expect("a socket");
    client.send_to(b"x", &datagram).expect("it is there");
    assert_refuses(child, words);
}

/// Whoever connects at a second one would wait for ever.
#[test]
fn two_sockets_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    let listen = |path: &Path| format!("--listen={}", path.display());
    let child = activate(&["--seqpacket", &listen(&one), &listen(&other)]);
    until("the sockets", || one.exists() && other.exists());
    let _client = common::Client::connect(&other);
    assert_refuses(child, "systemd handed over 2 sockets");
}

/// What is meant for another process, or is not there at all, does not count: it listens where it is told to.
#[test]
fn descriptors_for_others_and_for_nobody_are_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let there = dir.path().join("there");
    let theirs = listener(&there);
    for (round, script) in
        ["exec 3<&0; export LISTEN_PID=1", "exec 3<&-; export LISTEN_PID=$$"].iter().enumerate()
    {
        let socket = dir.path().join(format!("{round}.sock"));
        let mut daemon = Command::new("setpriv")
            .args(["--pdeathsig=KILL", "--", "bash", "-c"])
            .arg(format!("{script} LISTEN_FDS=1; exec \"$0\" daemon --socket \"$1\" 0</dev/null"))
            .arg(command())
            .arg(&socket)
            .stdin(theirs.try_clone().expect("a descriptor"))
            .stdout(Stdio::null())
            .spawn()
            .expect("setpriv (util-linux) is there");
        until("the socket", || socket.exists());
        Run::new(command()).args(["status", "--socket"]).arg(&socket).run().assert_ok();
        kill_process(Pid::from_child(&daemon), Signal::TERM).expect("it runs");
        let status = daemon.wait_timeout(LIMIT).expect("ours").expect("it ends");
        assert_eq!(status.code(), Some(0), "{script}");
        assert!(!socket.exists() && there.exists(), "{script}");
    }
}

fn listener(path: &Path) -> OwnedFd {
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let fd = fd.expect("a socket");
    rustix::net::bind(&fd, &SocketAddrUnix::new(path).expect("a path")).expect("bound");
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("ours");
    rustix::net::listen(&fd, 128).expect("it listens");
    fd
}

/// As process 1 does: holds the socket, and starts a daemon when somebody waits there. systemd-socket-activate closes
/// it when its only daemon ends.
struct Manager<'a> {
    host: &'a Host,
    listener: OwnedFd,
}

impl Manager<'_> {
    fn next_daemon(&self) -> Child {
        let mut waits = [PollFd::new(&self.listener, PollFlags::IN)];
        let limit = Timespec::try_from(LIMIT).expect("a time");
        assert_eq!(poll(&mut waits, Some(&limit)), Ok(1), "nobody connects");
        let script = "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"";
        let run =
            self.host.fabric.command("run", &["Hca4", command().to_str().expect("a plain path"), "daemon"]);
        Command::new("bash")
            .args(["-c", script, "bash"])
            .arg(run.get_program())
            .args(run.get_args())
            .env("GMP", "1")
            .stdin(self.listener.try_clone().expect("a descriptor"))
            .stdout(Stdio::null())
            .spawn()
            .expect("bash is there")
    }
}

#[test]
fn programs_outlive_the_daemon_and_start_the_next_one() {
    let mut host = Host::new();
    host.stop();
    let manager = Manager { listener: listener(&host.socket()), host: &host };
    let mut program = host.c_program(1001, "ctests/sa/gap.c");
    let reset = format!("registration lost {}", -rustix::io::Errno::NETRESET.raw_os_error());
    for signal in [Signal::TERM, Signal::KILL, Signal::TERM] {
        // This very program is the one that waits at the socket.
        let mut daemon = manager.next_daemon();
        program.hears_line("registration active 0");
        let status = host.status();
        assert_eq!(
            (&status["pid"], status["clients"].as_array().map(Vec::len)),
            (&daemon.id().into(), Some(2))
        );
        host.fabric.unlink_and_see("Hca3");
        program.hears_line("GID out of service 0");
        host.fabric.relink("Hca3");
        kill_process(Pid::from_child(&daemon), signal).expect("it runs");
        let ended = daemon.wait_timeout(LIMIT).expect("ours").expect("it ends");
        assert_eq!(ended.code(), (signal == Signal::TERM).then_some(0), "{ended}");
        assert!(host.socket().exists(), "it is systemd's to remove");
        if signal == Signal::KILL {
            host.forget_client();
        }
        // The gap is an event.
        program.hears_line(&reset);
    }
    let mut daemon = manager.next_daemon();
    program.hears_line("registration active 0");
    let mut other = host.monitor(1002, &["--trap", "65"]);
    host.fabric.unlink("Hca3");
    other.hears(&[65]);
    program.hears_line("GID out of service 0");
    kill_process(Pid::from_child(&daemon), Signal::TERM).expect("it runs");
    assert!(daemon.wait_timeout(LIMIT).expect("ours").expect("it ends").success());
}
