//! Bytes as what strangers do to a daemon: a real one, with an SA in the same process, on a real socket. Whatever they
//! do, a program that was there before gets its notice, once; what they did wrong is counted; limits hold.

#![no_main]

#[path = "../../crates/sa-daemon/tests/common/mod.rs"]
mod common;
#[path = "../../crates/sa-daemon/tests/common/host.rs"]
mod host;

use std::path::PathBuf;
use std::time::Duration;

use common::{Client, Heard};
use host::config;
use ibv_sa_daemon::engine::{Address, Settings};
use ibv_sa_daemon::transport::embedded::{DEVICE, Embedded, SM_LID};
use ibv_sa_daemon::{Config, Daemon};
use ibv_sa_samples::messages::{gid, of_client};
use ibv_sa_samples::sessions::{Verdict, judge};
use ibv_sa_samples::steps::{PROGRAMS, Step, steps};
use ibv_sa_wire::mad::{GSI_QPN, Notice, Received};
use ibv_sa_wire::proto::{ClientMessage, Hello, StatusQuery};
use ibv_sa_wire::{Filter, Gid, Subject, Trap};
use libfuzzer_sys::fuzz_target;
use rustix::net::SendFlags;

/// Small, so that they are reached.
const REGISTRATIONS: usize = 12;
const QUEUED: usize = 8;

/// The daemon, in the thread of those who talk to it: the same input has the same consequences.
struct World {
    daemon: Daemon,
    sa: Embedded,
    path: PathBuf,
    programs: [Option<Program>; PROGRAMS],
    wrong: Wrong,
}

/// A stranger's connection, and what it has sent.
struct Program {
    client: Client,
    sent: Vec<Vec<u8>>,
    closed: bool,
}

/// How often the daemon must have found something wrong.
#[derive(Default)]
struct Wrong {
    sessions: u64,
    mads: u64,
    /// A status that was made for a stranger may be shown to others.
    asked: bool,
}

impl Program {
    /// Reads all that there is.
    fn listen(&mut self) {
        loop {
            match self.client.hear(Duration::ZERO) {
                Heard::Closed => return self.closed = true,
                Heard::Nothing => return,
                _ => {}
            }
        }
    }
}

impl World {
    /// The daemon does all that there is to do, and everybody hears it.
    fn settle(&mut self) {
        loop {
            while self.daemon.turn(Some(Duration::ZERO)).expect("it goes on") {}
            self.programs.iter_mut().flatten().for_each(Program::listen);
            if !self.daemon.turn(Some(Duration::ZERO)).expect("it goes on") {
                return;
            }
        }
    }

    fn send(&mut self, which: usize, packet: &[u8]) {
        let new = || Program { client: Client::connect(&self.path), sent: Vec::new(), closed: false };
        let program = self.programs[which].get_or_insert_with(new);
        // A daemon that has hung up has seen enough.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if rustix::net::send(&program.client.fd, packet, flags).is_ok() {
            program.sent.push(packet.to_vec());
            self.wrong.asked |= matches!(ClientMessage::decode(packet), Ok(ClientMessage::StatusQuery(_)));
        }
        self.settle();
    }

    /// Was a program treated as it had to be?
    fn end(&mut self, which: usize) {
        let Some(program) = self.programs[which].take() else { return };
        let verdict = judge(&program.sent, true);
        self.wrong.sessions += u64::from(verdict.is_counted());
        assert_eq!(program.closed, verdict != Verdict::Fine, "{verdict:?}");
        drop(program);
        self.settle();
    }

    fn step(&mut self, step: &Step<'_>) {
        match *step {
            Step::Packet(which, packet) => self.send(which, packet),
            Step::Mad(lid, mad) => {
                let from = Address { lid, qpn: GSI_QPN, sl: 0, pkey_index: 0 };
                let ports = self.sa.arrive(from, mad) as u64;
                self.wrong.mads += if Received::decode(mad).is_err() { ports } else { 0 };
            }
            Step::Hello(which) => {
                self.end(which);
                self.send(which, &of_client(&ClientMessage::Hello(Hello::default())));
            }
            Step::Close(which) => self.end(which),
            Step::Notice(number) => {
                let trap = Trap(64 + u16::from(number) % 4);
                self.sa.happen(&Notice::about_gid(trap, gid(number), SM_LID, gid(1)));
            }
        }
        self.settle();
    }
}

/// A GID that the input cannot name: it changes with it.
fn marker(bytes: &[u8]) -> Gid {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    let hash = |start: u64| bytes.iter().fold(start, step);
    let mut gid = [0xFE; 16];
    gid[..8].copy_from_slice(&hash(0xCBF2_9CE4_8422_2325).to_be_bytes());
    gid[8..].copy_from_slice(&(hash(1) | 1).to_be_bytes());
    Gid(gid)
}

fuzz_target!(|bytes: &[u8]| {
    let (directory, sa) = (tempfile::tempdir().expect("a directory"), Embedded::default());
    let settings = Settings {
        registrations_per_user: REGISTRATIONS,
        queued_per_client: QUEUED,
        // Nothing waits for its turn.
        burst: 1000,
        per_second: 1_000_000,
        ..Settings::default()
    };
    let path = directory.path().join("sa.sock");
    let config = Config {
        log: Box::new(|record| assert!(!record.text.chars().any(char::is_control), "{}", record.text)),
        ..config(path.clone(), &sa, settings)
    };
    let daemon = Daemon::new(config).expect("it listens");
    let mut world = World { daemon, sa, path, programs: Default::default(), wrong: Wrong::default() };

    let steady = Client::connect(&world.path);
    steady.send(&ClientMessage::Hello(Hello::default()));
    let subject = marker(bytes);
    steady.register(1, DEVICE, Filter::trap(Trap::GID_IN_SERVICE).about(Subject::Gid(subject)), 0);
    world.settle();
    let hear = || steady.hear(Duration::ZERO);
    assert_eq!([hear(), hear(), hear()], [Heard::Welcome, Heard::Registered(1, 0), Heard::Status(1, 0)]);

    steps(bytes).for_each(|step| world.step(&step));
    (0..PROGRAMS).for_each(|which| world.end(which));

    let notice = Notice::about_gid(Trap::GID_IN_SERVICE, subject, SM_LID, gid(1));
    world.sa.happen(&notice);
    world.settle();
    assert_eq!([hear(), hear()], [Heard::Notice(1, 1, notice), Heard::Nothing]);
    steady.send(&ClientMessage::StatusQuery(StatusQuery { query: 5 }));
    world.settle();
    let mut text = String::new();
    while let Heard::Chunk(_, _, part) = hear() {
        text.push_str(&part);
    }
    let status: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let clients = status["clients"].as_array().expect("a list");
    let of_all = |what: &str| clients.iter().filter_map(|client| client[what].as_u64()).collect::<Vec<_>>();
    assert!(of_all("registrations").iter().sum::<u64>() <= REGISTRATIONS as u64);
    assert!(of_all("queued").iter().all(|queued| *queued <= QUEUED as u64));
    if !world.wrong.asked {
        assert_eq!(clients.len(), 1, "the strangers are gone");
        assert_eq!(status["counters"]["mads_malformed"], world.wrong.mads);
        assert_eq!(status["counters"]["protocol_errors"], world.wrong.sessions);
    }
    // A clean end; nothing of it is left at the SA.
    world.daemon.stopper().stop();
    while !world.daemon.is_over() {
        world.daemon.turn(None).expect("it ends");
    }
    assert!(world.sa.with_sa(|sa| sa.subscribers.is_empty()));
});
