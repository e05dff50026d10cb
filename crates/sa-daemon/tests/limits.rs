//! What the daemon refuses, and that whoever is refused learns it.

mod common;
#[path = "common/host.rs"]
mod host;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::{Client, Heard, LIMIT};
use host::{Host, config};
use ibv_sa_daemon::engine::{Peer, Policy, PortName, Settings};
use ibv_sa_daemon::transport::embedded::{DEVICE, Embedded};
use ibv_sa_daemon::{Config, Daemon};
use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::proto::{ClientMessage, Hello, StatusQuery};
use ibv_sa_wire::{Filter, Trap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const FULL: Heard = Heard::Refused(-libc::EBUSY);
const ROUNDS: usize = 200;

fn hello() -> ClientMessage {
    ClientMessage::Hello(Hello::default())
}

fn one_each() -> Settings {
    Settings { clients_per_user: 1, ..Settings::default() }
}

#[test]
fn a_refusal_arrives_whenever_the_hello_comes() {
    let host = Host::with(one_each());
    let first = Client::new(&host.socket());
    for _ in 0..ROUNDS {
        // As programs do: sometimes the daemon is quicker, sometimes not.
        let second = Client::connect(&host.socket());
        second.send(&hello());
        assert_eq!(second.hear(LIMIT), FULL);
        assert_eq!(second.hear(LIMIT), Heard::Closed);
        // After the daemon has refused.
        let second = Client::connect(&host.socket());
        assert_eq!(second.hear(LIMIT), FULL);
        second.send(&hello());
        assert_eq!(second.hear(LIMIT), Heard::Closed);
    }
    first.registered(1, DEVICE, Filter::trap(Trap(64)));
    // Once there is room again. When the daemon has seen the end of the first is its own affair.
    drop(first);
    host.wait_for("room", |host| {
        let next = Client::connect(&host.socket());
        next.send(&hello());
        next.hear(LIMIT) == Heard::Welcome
    });
}

#[test]
fn a_refusal_arrives_where_the_hello_was_there_first() {
    for _ in 0..ROUNDS / 50 {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, sa) = (directory.path().join("sa.sock"), Embedded::default());
        let settings = Settings { clients_per_user: 0, ..Settings::default() };
        let daemon = Daemon::new(config(path.clone(), &sa, settings)).expect("it listens");
        let clients: Vec<Client> = (0..50).map(|_| Client::connect(&path)).collect();
        clients.iter().for_each(|one| one.send(&hello()));
        let stopper = daemon.stopper();
        let daemon = std::thread::spawn(move || daemon.run());
        for client in clients {
            assert_eq!(client.hear(LIMIT), FULL);
            assert_eq!(client.hear(LIMIT), Heard::Closed);
        }
        stopper.stop();
        daemon.join().expect("no panic").expect("a clean end");
    }
}

#[test]
fn who_says_nothing_is_told_and_let_go() {
    let host = Host::with(one_each());
    let _first = Client::new(&host.socket());
    let silent: Vec<Client> = (0..100).map(|_| Client::connect(&host.socket())).collect();
    for client in &silent {
        assert_eq!(client.hear(LIMIT), FULL);
    }
    let end = Instant::now() + LIMIT;
    for client in &silent {
        // The daemon has closed its end, and not only said that nothing follows.
        let is_over = || {
            let mut fds = [PollFd::new(&client.fd, PollFlags::empty())];
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 })).expect("poll works");
            fds[0].revents().contains(PollFlags::HUP)
        };
        while !is_over() {
            assert!(Instant::now() < end, "the daemon keeps its end");
        }
    }
}

#[test]
fn what_is_no_message_is_logged_once_a_second_with_its_sender() {
    let (directory, sa) = (tempfile::tempdir().expect("a directory"), Embedded::default());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = lines.clone();
    let config = Config {
        log: Box::new(move |record| log.lock().expect("no panic").push(record.clone())),
        ..config(directory.path().join("sa.sock"), &sa, Settings::default())
    };
    let host = Host::of(directory, sa, config);
    let start = Instant::now();
    for _ in 0..500 {
        let bad = Client::connect(&host.socket());
        bad.send_bytes(&[1, 2, 3]);
        assert_eq!(bad.hear(LIMIT), Heard::Closed);
    }
    let seconds = start.elapsed().as_secs() as usize;
    let lines = lines.lock().expect("no panic").clone();
    assert!((1..=1 + seconds).contains(&lines.len()), "{} lines in {seconds} s", lines.len());
    let own = format!("client {} (", std::process::id());
    assert!(lines[0].text.starts_with(&own) && lines[0].text.contains("3 bytes"), "{}", lines[0].text);
    let status: serde_json::Value =
        serde_json::from_str(&Client::new(&host.socket()).status()).expect("JSON");
    assert_eq!(status["counters"]["protocol_errors"], 500);
}

struct Nobody;

impl Policy for Nobody {
    fn may_connect(&self, _peer: &Peer) -> bool {
        false
    }
    fn may_register(&self, _peer: &Peer, _port: &PortName, _filter: &Filter) -> bool {
        false
    }
    fn may_receive(&self, _peer: &Peer, _port: &PortName, _notice: &Notice) -> bool {
        false
    }
}

#[test]
fn who_is_not_allowed_learns_that() {
    let (directory, sa) = (tempfile::tempdir().expect("a directory"), Embedded::default());
    let config = Config {
        policy: Box::new(Nobody),
        ..config(directory.path().join("sa.sock"), &sa, Settings::default())
    };
    let host = Host::of(directory, sa, config);
    let client = Client::connect(&host.socket());
    client.send(&hello());
    assert_eq!(client.hear(LIMIT), Heard::Refused(-libc::EACCES));
}

#[test]
fn one_status_query_at_a_time() {
    let host = Host::new();
    let (patient, hasty) = (Client::new(&host.socket()), Client::new(&host.socket()));
    patient.status();
    patient.status();
    // Far more than the daemon answers before it looks again: some come before the answer to the one before.
    rustix::io::ioctl_fionbio(&hasty.fd, true).expect("non-blocking");
    let mut packet = [0; 256];
    let length = ClientMessage::StatusQuery(StatusQuery { query: 1 }).encode(&mut packet);
    let end = Instant::now() + LIMIT;
    let mut closed = false;
    while !closed && Instant::now() < end {
        match rustix::net::send(&hasty.fd, &packet[..length], rustix::net::SendFlags::NOSIGNAL) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => {}
            Err(_) => closed = true,
        }
    }
    assert!(closed, "the daemon answers whoever does not wait for its answers");
}
