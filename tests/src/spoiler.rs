//! The scripted daemon's spoilt packets, and what a program's library must make of each.

use std::collections::{BTreeMap, BTreeSet};

use ibv_sa_samples::{Random, messages, mutate, names};
use ibv_sa_wire::proto::{MAX_PACKET, ServerMessage, VERSION};

/// Where a connection is when a packet comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// A call waits for the answer to its Hello.
    New,
    /// Nobody waits: the library has connected again by itself.
    Again,
    /// It is open.
    Open,
}

/// What a packet is to a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A message at its time, which changes nothing for the connection.
    Heard,
    /// No byte: the end.
    Ended,
    /// Longer than any message.
    TooLong,
    /// No message.
    NoMessage,
    /// Welcome in a version that the library does not speak.
    OtherVersion,
    /// A message that cannot be the answer to a Hello.
    OutOfTurn,
    /// Refused, with this errno.
    Refused(i32),
}

names!(name, NAMES, Verdict {
    Verdict::Heard => "heard",
    Verdict::Ended => "ended",
    Verdict::TooLong => "too long",
    Verdict::NoMessage => "no message",
    Verdict::OtherVersion => "other version",
    Verdict::OutOfTurn => "out of turn",
    Verdict::Refused(_) => "refused",
});

fn judge(packet: &[u8], phase: Phase) -> Verdict {
    if packet.is_empty() {
        return Verdict::Ended;
    }
    if packet.len() > MAX_PACKET {
        return Verdict::TooLong;
    }
    match (ServerMessage::decode(packet), phase) {
        (Err(_), _) => Verdict::NoMessage,
        (Ok(_), Phase::Open) => Verdict::Heard,
        (Ok(ServerMessage::Welcome(welcome)), _) if welcome.version == VERSION => Verdict::Heard,
        (Ok(ServerMessage::Welcome(_)), _) => Verdict::OtherVersion,
        (Ok(ServerMessage::Refused(refused)), _) => Verdict::Refused(-refused.status),
        (Ok(_), _) => Verdict::OutOfTurn,
    }
}

/// Makes them, and keeps account of what became of the connections.
pub struct Spoiler {
    random: Random,
    /// The last verdict of each connection that got one.
    judged: BTreeMap<u64, Verdict>,
    closed: BTreeSet<u64>,
    last: Option<Verdict>,
    made: usize,
    seen: BTreeSet<(Phase, &'static str)>,
}

impl Spoiler {
    pub fn new() -> Spoiler {
        Spoiler {
            random: Random::new(7),
            judged: BTreeMap::new(),
            closed: BTreeSet::new(),
            last: None,
            made: 0,
            seen: BTreeSet::new(),
        }
    }

    /// One for this connection, about a registration of that number. Half of them are well-formed.
    pub fn packet(&mut self, connection: u64, id: u64, phase: Phase) -> Vec<u8> {
        let valid = messages::server(id);
        let mut packet = self.random.pick(&valid).clone();
        if phase != Phase::Open && self.random.one_in(2) {
            // Welcome or Refused.
            packet = valid[self.random.below(3)].clone();
        }
        if self.random.one_in(2) {
            packet = mutate::packet(&mut self.random, &packet, &valid);
        }
        // Few mutations go so far.
        match self.random.below(24) {
            0 => packet.clear(),
            1 => {
                // Cut off where a buffer ends it is a message.
                packet = valid.iter().max_by_key(|one| one.len()).expect("messages").clone();
                packet.resize(MAX_PACKET + 1 + self.random.below(99), 0);
            }
            _ => {}
        }
        let verdict = judge(&packet, phase);
        self.judged.insert(connection, verdict);
        self.last = Some(verdict);
        self.made += 1;
        self.seen.insert((phase, name(&verdict)));
        packet
    }

    /// The library has hung up.
    pub fn closed(&mut self, connection: u64) {
        self.closed.insert(connection);
    }

    /// How many were made.
    pub fn made(&self) -> usize {
        self.made
    }

    /// The errno of the call that got the last packet as its answer; 0 if it did well.
    pub fn errno(&self) -> i32 {
        match self.last {
            Some(Verdict::Heard) | None => 0,
            Some(Verdict::Ended) => ECONNRESET,
            Some(Verdict::Refused(errno)) => errno,
            Some(_) => EPROTO,
        }
    }

    /// Connections that are open and should not be, or the other way round.
    pub fn wrong(&self) -> usize {
        let wrong = |(connection, verdict): &(&u64, &Verdict)| {
            self.closed.contains(*connection) == (**verdict == Verdict::Heard)
        };
        self.judged.iter().filter(wrong).count()
    }

    /// From now on other reasons count.
    pub fn forget(&mut self) {
        self.judged.clear();
    }

    /// What has not been seen in any of the phases in which it can be.
    pub fn unseen(&self) -> Vec<(Phase, &'static str)> {
        let phases = [Phase::New, Phase::Again, Phase::Open];
        let of_greetings = ["other version", "out of turn", "refused"];
        phases
            .into_iter()
            .flat_map(|phase| NAMES.iter().map(move |name| (phase, *name)))
            .filter(|(phase, name)| *phase != Phase::Open || !of_greetings.contains(name))
            .filter(|one| !self.seen.contains(one))
            .collect()
    }
}

const EPROTO: i32 = rustix::io::Errno::PROTO.raw_os_error();
const ECONNRESET: i32 = rustix::io::Errno::CONNRESET.raw_os_error();
