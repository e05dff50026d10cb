//! Strangers at a real daemon: MADs that are none and sessions that are none, on real sockets. They are counted, one
//! line of a kind a second is logged, and who is no stranger gets its notices.

mod common;
#[path = "common/host.rs"]
mod host;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::{Client, Heard, LIMIT};
use host::{Host, config};
use ibv_sa_daemon::engine::{Address, Record, Settings};
use ibv_sa_daemon::transport::embedded::{DEVICE, Embedded, SM_LID};
use ibv_sa_samples::messages::gid;
use ibv_sa_samples::sessions::{Verdict, judge, mutated};
use ibv_sa_samples::{Random, captures, mutate, scaled};
use ibv_sa_wire::mad::{GSI_QPN, Notice, Received};
use ibv_sa_wire::{Filter, Subject, Trap};

const BATCHES: u64 = 60;
const SESSIONS: u64 = 60;
const MADS: u64 = 300;
const IN: Filter = Filter { is_generic: Some(true), trap: Some(64), ..Filter::EVERYTHING };

/// A daemon, and the lines that it has logged.
fn host() -> (Host, Arc<Mutex<Vec<Record>>>) {
    let (directory, sa) = (tempfile::tempdir().expect("a directory"), Embedded::default());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = lines.clone();
    let settings = Settings { linger: 50_000_000, ..Settings::default() };
    let config = ibv_sa_daemon::Config {
        log: Box::new(move |record| log.lock().expect("no panic").push(record.clone())),
        ..config(directory.path().join("sa.sock"), &sa, settings)
    };
    (Host::of(directory, sa, config), lines)
}

/// What the daemon has to have counted.
#[derive(Default)]
struct Expected {
    protocol_errors: u64,
    mads_malformed: u64,
    /// The same at ports that sessions have opened, which may be closed before it arrives.
    mads_elsewhere: u64,
}

impl Expected {
    /// A session, until the daemon has ended it or has answered to all of it.
    fn session(&mut self, host: &Host, random: &mut Random) {
        let packets = mutated(random);
        let verdict = judge(&packets, true);
        if verdict != judge(&packets, false) {
            // Whether the daemon had answered the query before the next is for chance to say.
            return;
        }
        let client = Client::connect(&host.socket());
        for packet in &packets {
            // It may have hung up already.
            let _ = rustix::net::send(&client.fd, packet, rustix::net::SendFlags::NOSIGNAL);
        }
        self.protocol_errors += u64::from(verdict.is_counted());
        if verdict == Verdict::Fine {
            return;
        }
        let end = Instant::now() + LIMIT;
        while client.hear(LIMIT) != Heard::Closed {
            assert!(Instant::now() < end, "{verdict:?} and still open: {packets:?}");
        }
    }

    fn mad(&mut self, host: &Host, random: &mut Random, valid: &[Vec<u8>]) {
        let mad = mutate::bytes(random, &random.clone().pick(valid).clone(), valid);
        let lid = *random.pick(&[SM_LID, SM_LID, 3, 0xFFFF]);
        let ports = host.sa.arrive(Address { lid, qpn: GSI_QPN, sl: 0, pkey_index: 0 }, &mad);
        if Received::decode(&mad).is_err() {
            self.mads_malformed += 1;
            self.mads_elsewhere += ports as u64 - 1;
        }
    }
}

#[test]
fn a_storm_is_counted_and_logged_little_and_keeps_nobody_from_notices() {
    let (host, lines) = host();
    let valid: Vec<Vec<u8>> = captures().into_values().map(Vec::from).collect();
    let (mut random, mut expected) = (Random::new(7), Expected::default());
    let start = Instant::now();
    // Keeps the port open.
    let steady = Client::new(&host.socket());
    steady.registered(1, DEVICE, IN.about(Subject::Gid(gid(0xEE))));
    for batch in 0..scaled(BATCHES) {
        for _ in 0..SESSIONS {
            for _ in 0..MADS / SESSIONS {
                expected.mad(&host, &mut random, &valid);
            }
            expected.session(&host, &mut random);
        }
        // Nobody sends a notice of it but the SA: once in the whole test for each batch.
        let subject = gid(0xEF);
        let client = Client::new(&host.socket());
        client.registered(batch + 1, DEVICE, IN.about(Subject::Gid(subject)));
        let notice = Notice::about_gid(Trap(64), subject, SM_LID, gid(batch as u8));
        host.sa.happen(&notice);
        assert_eq!(client.hear(LIMIT), Heard::Notice(batch + 1, 1, notice), "batch {batch}");
        client.unregister(batch + 1);
        assert_eq!(client.hear(LIMIT), Heard::Unregistered(batch + 1), "batch {batch}: once");
    }
    assert!(expected.protocol_errors > 100 && expected.mads_malformed > 100, "a storm");
    // An answer is as good as new for a moment, also one that a stranger asked for.
    host.wait_for("what is counted at last", |_| {
        let status: serde_json::Value = serde_json::from_str(&steady.status()).expect("JSON");
        let counted = |what: &str| status["counters"][what].as_u64().expect("a number");
        let (sessions, mads) = (counted("protocol_errors"), counted("mads_malformed"));
        let most = expected.mads_malformed + expected.mads_elsewhere;
        assert!(
            sessions <= expected.protocol_errors && mads <= most,
            "{sessions} sessions, {mads} MADs instead of {} and {most}",
            expected.protocol_errors
        );
        sessions == expected.protocol_errors && mads >= expected.mads_malformed
    });

    let seconds = start.elapsed().as_secs() + 1;
    let lines = lines.lock().expect("no panic");
    for (kind, count) in [
        ("protocol", expected.protocol_errors),
        ("malformed MAD", expected.mads_malformed + expected.mads_elsewhere),
    ] {
        let of_kind: Vec<_> = lines.iter().filter(|line| line.kind == kind).collect();
        let told = of_kind.len() as u64;
        assert!((1..=seconds).contains(&told), "{told} lines of {kind} in {seconds} s");
        let suppressed: u64 = of_kind.iter().map(|line| line.suppressed).sum();
        assert!(told + suppressed <= count, "{told} + {suppressed} of {count}");
    }
}
