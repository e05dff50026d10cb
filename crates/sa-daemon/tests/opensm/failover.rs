//! SMs and ports that go and come: who was promised it hears of each gap once, and then of all that happens, once.

use std::io::Write;
use std::time::{Duration, Instant};

use ibv_sa_daemon::engine::Settings;
use ibv_sa_daemon::transport::ibsim::DEVICE;
use ibv_sa_wire::Filter;
use ibv_sa_wire::proto::Register;
use rustix::process::Signal;

use crate::common::{Client, Heard, LIMIT, QUIET};
use crate::fabric::Fabric;
use crate::node::{Host, SECOND};
use crate::oracle::{Reported, heard, tally};
use crate::{hca3, node, trap};

const RESET: i32 = -libc::ENETRESET;
/// How often a port is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Traps of the registrations that come again after a gap.
const BOTH: &[u16] = &[64, 65];

/// An answer comes at once here, or there is no SM.
fn settings() -> Settings {
    Settings { answer: SECOND / 4, pause: SECOND / 20, longest_pause: SECOND / 2, ..node::settings() }
}

/// A program with registrations that come again after a gap, each with its trap's number, and one that does not.
struct Program {
    client: Client,
    steady: &'static [u16],
    /// The one that does not: trap 65.
    single: u64,
}

impl Program {
    fn new(host: &Host, steady: &'static [u16]) -> Program {
        let client = Client::new(&host.socket);
        for number in steady {
            let id = u64::from(*number);
            client.register(id, DEVICE, trap(*number), Register::AUTO_REREGISTER);
            assert_eq!(client.hear(LIMIT), Heard::Registered(id, 0));
            assert_eq!(client.hear(LIMIT), Heard::Status(id, 0));
        }
        client.registered(100, DEVICE, trap(65));
        Program { client, steady, single: 100 }
    }

    /// All registrations that come again are told this, and perhaps the other, once.
    #[track_caller]
    fn are_told(&self, status: i32, single: Option<(u64, i32)>) {
        let due = self.steady.iter().map(|trap| (u64::from(*trap), status)).chain(single);
        let due: Vec<_> = due.collect();
        let mut statuses = Vec::new();
        while statuses.len() < due.len() {
            match self.client.hear(LIMIT) {
                Heard::Status(id, status) => statuses.push((id, status)),
                // Of the old SM's last days.
                Heard::Notice(..) => {}
                other => panic!("{other:?} after {statuses:?}"),
            }
        }
        statuses.sort();
        assert_eq!(statuses, due);
    }

    /// Everybody hears of the gap, once.
    #[track_caller]
    fn is_reset(&self) {
        self.are_told(RESET, Some((self.single, RESET)));
    }

    /// It is over for those that it does not end, which is said once. The third is made anew.
    #[track_caller]
    fn comes_back(&mut self) {
        self.are_told(0, None);
        self.settle();
        self.client.unregister(self.single);
        assert_eq!(self.client.hear(LIMIT), Heard::Unregistered(self.single));
        self.single += 1;
        self.client.registered(self.single, DEVICE, trap(65));
    }

    /// Notices of the gap's end may still come, but no status.
    #[track_caller]
    fn settle(&self) {
        loop {
            match self.client.hear(QUIET) {
                Heard::Notice(..) => {}
                Heard::Nothing => return,
                other => panic!("{other:?} after the gap's end"),
            }
        }
    }

    #[track_caller]
    fn has_a_gap(&mut self) {
        self.is_reset();
        self.comes_back();
    }

    /// Hca3 goes and comes, and everybody gets all that the SM of that name reports, once.
    #[track_caller]
    fn hears_once(&self, fabric: &Fabric, sm: &str) {
        self.settle();
        let reported = Reported::from_now(fabric, sm);
        reported.flap("Unlink \"Hca3\"", 65, 1);
        reported.flap("ReLink \"Hca3\"", 64, 1);
        let due = self.steady.iter().map(|trap| (u64::from(*trap), reported.of(&[*trap])));
        let due: Vec<_> = due.chain([(self.single, reported.of(&[65]))]).collect();
        let count = due.iter().map(|(_, due)| due.values().sum::<usize>()).sum();
        let came = heard(&self.client, count).into_iter().map(|(id, came)| (id, tally(came)));
        let came: Vec<_> = came.collect();
        assert_eq!(came, due);
        assert!(
            came.iter().all(|(_, came)| came.keys().any(|name| name.ends_with(&hca3().to_string()))),
            "{came:?}"
        );
    }
}

/// A configuration of OpenSM.
fn conf(text: &str) -> tempfile::TempPath {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("there is room");
    file.into_temp_path()
}

/// The SM is another one soon, at the latest after one more sweep of the one before. If not, then OpenSM waits for a MAD
/// that ibsim has lost between two SMs, for ever.
fn is_replaced(fabric: &Fabric, before: u16) -> bool {
    let soon = |time| {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if fabric.sm_lid() != before {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    };
    if soon(QUIET) {
        return true;
    }
    fabric.signal("main", Signal::HUP);
    soon(LIMIT / 10)
}

/// A standby looks after the master twice a second.
const WATCHFUL: &str = "sminfo_polling_timeout 500\npolling_retry_number 2\n";

#[test]
fn a_standby_takes_over_from_one_that_is_killed() {
    let fabric = Fabric::new();
    let watchful = conf(WATCHFUL);
    let watchful = watchful.to_str().expect("a plain path");
    fabric.another_sm("main", "second", "Hca2", &["-F", watchful]);
    let host = Host::at(&fabric, "Hca4", settings());
    let mut program = Program::new(&host, BOTH);
    program.hears_once(&fabric, "main");
    fabric.script("smstop", &["main", "KILL"]);
    program.has_a_gap();
    fabric.wait_for_subscriptions(&["64", "65"]);
    program.hears_once(&fabric, "second");
}

#[test]
fn an_sm_that_is_killed_is_followed_by_one_elsewhere() {
    let fabric = Fabric::new();
    let host = Host::at(&fabric, "Hca4", settings());
    let mut program = Program::new(&host, BOTH);
    fabric.script("smstop", &["main", "KILL"]);
    fabric.script("sm", &["other", "Hca2"]);
    program.has_a_gap();
    fabric.wait_for_subscriptions(&["64", "65"]);
    program.hears_once(&fabric, "other");
}

#[test]
fn what_a_former_master_remembers_brings_nothing_twice_and_goes() {
    assert!((0..12).any(|_| a_master_is_followed_by_another_and_returns()), "no SM hands over");
}

/// False if there was no handover to look at.
fn a_master_is_followed_by_another_and_returns() -> bool {
    let watchful = conf(WATCHFUL);
    let watchful = watchful.to_str().expect("a plain path");
    let fabric = Fabric::with(&["-F", watchful]);
    // What is found at the SA and nobody wants stays so long that links can change meanwhile.
    let host = Host::at(&fabric, "Hca4", Settings { linger: 3 * SECOND, ..settings() });
    // ibsim has room for two records in a table.
    let mut program = Program::new(&host, &[65]);
    let all = Client::new(&host.socket);
    all.registered(1, DEVICE, Filter { is_generic: Some(true), ..Filter::EVERYTHING });
    fabric.wait_for_subscriptions(&["65535"]);

    let before = fabric.sm_lid();
    fabric.another_sm("main", "second", "Hca2", &["-p", "15", "-F", watchful]);
    if !is_replaced(&fabric, before) {
        // They do not end when they are asked to either.
        ["main", "second"].iter().for_each(|name| _ = fabric.script("smstop", &[name, "KILL"]));
        return false;
    }
    program.has_a_gap();
    drop(all);
    fabric.wait_for_subscriptions(&["65"]);
    program.hears_once(&fabric, "second");

    // The former master is the master again, and has not forgotten that all was wanted.
    fabric.script("smstop", &["second"]);
    program.has_a_gap();
    fabric.wait_for_subscriptions(&["65", "65535"]);
    program.hears_once(&fabric, "main");
    assert_eq!(fabric.subscriptions(), ["65", "65535"], "all was wanted while links changed");
    fabric.wait_for_subscriptions(&["65"]);
    program.hears_once(&fabric, "main");
    true
}

#[test]
fn an_sm_that_is_started_anew_counts_anew() {
    let fabric = Fabric::new();
    let host = Host::at(&fabric, "Hca4", Settings { audit: SECOND, ..settings() });
    let mut program = Program::new(&host, BOTH);
    for _ in 0..2 {
        // The same Reports with the same ids as those of the SM before.
        program.hears_once(&fabric, "main");
        fabric.script("smstop", &["main", "KILL"]);
        fabric.script("sm", &["main", "Hca1"]);
        program.has_a_gap();
    }
    program.hears_once(&fabric, "main");
    fabric.wait_for_subscriptions(&["64", "65"]);
}

#[test]
fn a_subscriber_that_goes_and_comes_back() {
    for keeps in [true, false] {
        let text = if keeps { "" } else { "drop_event_subscriptions TRUE\n" };
        let conf = conf(text);
        let fabric = Fabric::with(&["-F", conf.to_str().expect("a plain path")]);
        let host = Host::at(&fabric, "Hca4", settings());
        let mut program = Program::new(&host, BOTH);
        for _ in 0..2 {
            let reported = Reported::from_now(&fabric, "main");
            reported.flap("Unlink \"Hca4\"", 65, 1);
            program.is_reset();
            reported.flap("ReLink \"Hca4\"", 64, 1);
            program.comes_back();
            fabric.wait_for_subscriptions(&["64", "65"]);
            program.hears_once(&fabric, "main");
        }
    }
}
