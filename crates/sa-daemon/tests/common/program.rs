//! A program that sees SMs and ports go and come, and what an SM is told for it.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::Write;

use ibv_sa_daemon::engine::Settings;
use ibv_sa_daemon::transport::ibsim::DEVICE;
use ibv_sa_wire::proto::Register;

use crate::common::{Client, Heard, LIMIT, QUIET};
use crate::fabric::Fabric;
use crate::node::{self, Host, SECOND, hca3, trap};
use crate::oracle::{Reported, heard, tally};

pub const RESET: i32 = -libc::ENETRESET;
/// Traps of the registrations that come again after a gap.
pub const BOTH: &[u16] = &[64, 65];

/// An answer comes at once here, or there is no SM.
pub fn settings() -> Settings {
    Settings { answer: SECOND / 4, pause: SECOND / 20, longest_pause: SECOND / 2, ..node::settings() }
}

/// A program with registrations that come again after a gap, each with its trap's number, and one that does not.
pub struct Program {
    pub client: Client,
    steady: &'static [u16],
    /// The one that does not: trap 65.
    single: u64,
}

impl Program {
    pub fn new(host: &Host, steady: &'static [u16]) -> Program {
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
    pub fn are_told(&self, status: i32, single: Option<(u64, i32)>) {
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
    pub fn is_reset(&self) {
        self.are_told(RESET, Some((self.single, RESET)));
    }

    /// It is over for those that it does not end, which is said once. The third is made anew.
    #[track_caller]
    pub fn comes_back(&mut self) {
        self.are_told(0, None);
        self.settle();
        self.client.unregister(self.single);
        assert_eq!(self.client.hear(LIMIT), Heard::Unregistered(self.single));
        self.single += 1;
        self.client.registered(self.single, DEVICE, trap(65));
    }

    /// Notices of the gap's end may still come, but no status.
    #[track_caller]
    pub fn settle(&self) {
        loop {
            match self.client.hear(QUIET) {
                Heard::Notice(..) => {}
                Heard::Nothing => return,
                other => panic!("{other:?} after the gap's end"),
            }
        }
    }

    #[track_caller]
    pub fn has_a_gap(&mut self) {
        self.is_reset();
        self.comes_back();
    }

    /// Hca3 goes and comes, and everybody gets all that the SM of that name reports, once.
    #[track_caller]
    pub fn hears_once(&self, fabric: &Fabric, sm: &str) {
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
pub fn conf(text: &str) -> tempfile::TempPath {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("there is room");
    file.into_temp_path()
}

/// A standby looks after the master twice a second.
pub const WATCHFUL: &str = "sminfo_polling_timeout 500\npolling_retry_number 2\n";
