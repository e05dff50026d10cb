//! What OpenSM's log says that happened, and what a program was told: the same words for both.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ibv_sa_wire::mad::Notice;

use crate::common::{Client, Heard, LIMIT, QUIET};
use crate::fabric::Fabric;

/// How many of each, under "TRAP SUBJECT".
pub type Tally = BTreeMap<String, usize>;

/// A notice in those words.
pub fn named(notice: &Notice) -> String {
    let trap = notice.number.get();
    match (notice.gid(), notice.lid()) {
        (Some(gid), _) => format!("{trap} {gid}"),
        (None, Some(lid)) => format!("{trap} {lid}"),
        (None, None) => format!("{trap} nobody"),
    }
}

/// A line of the log in those words, if it is about a notice that was reported.
fn read(line: &str) -> Option<String> {
    let (_, told) = line.split_once("log_notice: Reporting ")?;
    let mut quoted = told.split('"');
    let trap = match quoted.nth(1)? {
        "GID in service" => 64,
        "GID out of service" => 65,
        "Link state change" => 128,
        "CapabilityMask, NodeDescription, Link [Width|Speed] Enabled, SM priority changed" => 144,
        other => panic!("{other} is not known here: {line}"),
    };
    let subject = quoted.next()?.trim_start_matches(", GID:");
    let lid =
        subject.trim_start_matches(" from").trim_start_matches(" switch").trim_start().strip_prefix("LID ");
    let subject = lid.and_then(|rest| rest.split(',').next()).unwrap_or(subject);
    Some(format!("{trap} {subject}"))
}

/// How many of each.
pub fn tally(names: impl IntoIterator<Item = String>) -> Tally {
    let mut tally = Tally::new();
    names.into_iter().for_each(|name| *tally.entry(name).or_default() += 1);
    tally
}

/// What differs: what came and what was due, of each.
pub fn difference(came: &Tally, due: &Tally) -> BTreeMap<String, (usize, usize)> {
    let names = came.keys().chain(due.keys()).cloned();
    let count = |tally: &Tally, name: &str| tally.get(name).copied().unwrap_or(0);
    let both = names.map(|name| (count(came, &name), count(due, &name), name));
    both.filter(|(came, due, _)| came != due).map(|(came, due, name)| (name, (came, due))).collect()
}

/// All that an SM has reported since a moment.
pub struct Reported<'a> {
    fabric: &'a Fabric,
    sm: &'a str,
    from: usize,
}

impl<'a> Reported<'a> {
    /// From now on, by the SM of that name in fabric.sh.
    pub fn from_now(fabric: &'a Fabric, sm: &'a str) -> Reported<'a> {
        let mut reported = Reported { fabric, sm, from: 0 };
        reported.again();
        reported
    }

    /// What was reported until now does not count any more.
    pub fn again(&mut self) {
        self.from += self.names().len();
    }

    fn log(&self) -> String {
        let log = self.fabric.path().join(format!("sm-{}/osm.log", self.sm));
        String::from_utf8_lossy(&std::fs::read(log).expect("OpenSM's log")).into_owned()
    }

    /// In the order in which it did.
    pub fn names(&self) -> Vec<String> {
        self.log().lines().filter_map(read).skip(self.from).collect()
    }

    /// Those of some traps.
    pub fn of(&self, traps: &[u16]) -> Tally {
        let wanted: Vec<String> = traps.iter().map(|trap| format!("{trap} ")).collect();
        tally(self.names().into_iter().filter(|name| wanted.iter().any(|one| name.starts_with(one))))
    }

    /// Until there are so many of a trap.
    pub fn wait_for(&self, trap: u16, count: usize) {
        let end = Instant::now() + LIMIT;
        let have = || self.of(&[trap]).values().sum::<usize>();
        while have() < count {
            let late = end < Instant::now();
            assert!(!late, "OpenSM has seen {} of {count} times trap {trap}: {}", have(), self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A console command, and all that OpenSM has to say of it.
    pub fn flap(&self, command: &str, trap: u16, count: usize) {
        let before: usize = self.of(&[trap]).values().sum();
        self.fabric.tell(command);
        self.wait_for(trap, before + count);
    }
}

/// What a program was told, notices by registration, until there were so many in all and no more for a moment.
pub fn heard(client: &Client, count: usize) -> BTreeMap<u64, Vec<String>> {
    let mut all = BTreeMap::<u64, Vec<String>>::new();
    let mut so_far = 0;
    let mut last = BTreeMap::new();
    loop {
        match client.hear(if so_far < count { LIMIT } else { QUIET }) {
            Heard::Notice(id, sequence, notice) => {
                all.entry(id).or_default().push(named(&notice));
                let before = last.insert(id, sequence);
                assert!(before.is_none_or(|before| before + 1 == sequence), "one is missing: {all:?}");
                so_far += 1;
            }
            Heard::Nothing => return all,
            other => panic!("{other:?} among {all:?}"),
        }
    }
}
