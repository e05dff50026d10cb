//! Sessions of strangers against one connection: each ends for the reason for which it has to end, and for every
//! reason that there is.

use std::collections::BTreeSet;
use std::io;

use ibv_sa_samples::sessions::{Verdict, judge, mutated};
use ibv_sa_samples::{Random, names, scaled};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

use super::connection::{Breach, Connection, Why};
use crate::driver::Driver;
use crate::engine::{ClientId, DefaultPolicy, Event, Peer, Settings};
use crate::transport::Transport;
use crate::transport::embedded::Embedded;

const SESSIONS: u64 = 6000;

names!(why_of, WHYS, Why {
    Why::Closed => "closed",
    Why::Version(_) => "version",
    Why::Protocol(Breach::Long(_)) => "long",
    Why::Protocol(Breach::NoMessage(_)) => "no message",
    Why::Protocol(Breach::SecondHello) => "second Hello",
    Why::Protocol(Breach::BeforeHello) => "before Hello",
    Why::Protocol(Breach::QueryTooSoon) => "query too soon",
});

fn verdict(why: &Why) -> Verdict {
    match why {
        Why::Closed => Verdict::Ended,
        Why::Version(_) => Verdict::Version,
        Why::Protocol(Breach::Long(length)) => Verdict::Long(*length),
        Why::Protocol(Breach::NoMessage(error)) => Verdict::NoMessage(*error),
        Why::Protocol(Breach::SecondHello) => Verdict::SecondHello,
        Why::Protocol(Breach::BeforeHello) => Verdict::BeforeHello,
        Why::Protocol(Breach::QueryTooSoon) => Verdict::QueryTooSoon,
    }
}

#[test]
fn a_session_ends_for_what_was_wrong_with_it_and_not_otherwise() {
    let transport = |sink| -> io::Result<Box<dyn Transport>> {
        let sa = Embedded::default();
        sa.attach(sink);
        Ok(Box::new(sa))
    };
    let policy = Box::new(DefaultPolicy::default());
    let mut driver =
        Driver::new(Settings::default(), policy, Box::new(transport), Box::new(|_| {})).expect("an eventfd");
    let peer = Peer { uid: 0, gid: 0, pid: 1, comm: String::new(), groups: Vec::new() };
    let (mut seen, mut fine) = (BTreeSet::new(), 0);
    for seed in 0..scaled(SESSIONS) {
        let packets = mutated(&mut Random::new(seed));
        let client = ClientId(seed);
        driver.event(Event::ClientConnected { client, peer: peer.clone() });
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None)
                .expect("sockets");
        let mut connection = Connection::new(ours, None, peer.clone());
        for packet in &packets {
            send(&theirs, packet, SendFlags::NOSIGNAL).expect("room");
        }
        // Nothing is written, so that no query is answered.
        let read = connection.read(client, &mut driver, 1);
        let ended = read.as_ref().map_or_else(verdict, |()| Verdict::Fine);
        assert_eq!(ended, judge(&packets, false), "seed {seed}: {packets:?}");
        match read {
            Ok(()) => fine += 1,
            Err(why) => _ = seen.insert(why_of(&why)),
        }
        driver.event(Event::ClientGone { client });
        driver.turn();
    }
    assert_eq!(seen, WHYS.iter().copied().collect());
    assert!(fine > 100, "{fine} sessions are still none of these");
    assert!(driver.engine.status().clients.is_empty());
}
