//! What a program sends from its Hello on, and what a daemon must make of it.

use ibv_sa_wire::proto::{ClientMessage, MAX_REQUEST, ProtoError, VERSION};

use crate::mutate::{self, Random};

/// How a daemon ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It does not.
    Fine,
    /// No version that both speak: refused.
    Version,
    /// A packet without a byte is the end.
    Ended,
    /// A packet longer than any message.
    Long(usize),
    /// No message.
    NoMessage(ProtoError),
    /// A second Hello.
    SecondHello,
    /// A request before the Hello.
    BeforeHello,
    /// A StatusQuery before the answer to the last.
    QueryTooSoon,
}

impl Verdict {
    /// Whether the daemon counts it as an error of the program's.
    pub fn is_counted(&self) -> bool {
        !matches!(self, Verdict::Fine | Verdict::Version | Verdict::Ended)
    }
}

/// A valid session in which a few packets were spoilt, left out, sent twice or in another order.
pub fn mutated(random: &mut Random) -> Vec<Vec<u8>> {
    let valid = crate::messages::client();
    let mut packets = vec![valid[0].clone()];
    for _ in 0..random.below(8) {
        packets.push(random.pick(&valid[3..]).clone());
    }
    for _ in 0..=random.below(2) {
        let at = random.below(packets.len());
        match random.below(8) {
            0 => packets.insert(at, random.pick(&valid).clone()),
            1 if packets.len() > 1 => drop(packets.remove(at)),
            2 => {
                let other = random.below(packets.len());
                packets.swap(at, other);
            }
            _ => packets[at] = mutate::packet(random, &packets[at], &valid),
        }
    }
    packets
}

/// What a daemon makes of it, if it has answered each query before the next packet, or none of them.
pub fn judge(packets: &[Vec<u8>], answered: bool) -> Verdict {
    let (mut greeted, mut asked) = (false, false);
    for packet in packets {
        if packet.is_empty() {
            return Verdict::Ended;
        }
        if packet.len() > MAX_REQUEST {
            return Verdict::Long(packet.len());
        }
        match (ClientMessage::decode(packet), greeted) {
            (Err(error), _) => return Verdict::NoMessage(error),
            (Ok(ClientMessage::Hello(_)), true) => return Verdict::SecondHello,
            (Ok(ClientMessage::Hello(hello)), false) => {
                if hello.common_version(VERSION, VERSION).is_none() {
                    return Verdict::Version;
                }
                greeted = true;
            }
            (Ok(_), false) => return Verdict::BeforeHello,
            (Ok(ClientMessage::StatusQuery(_)), true) if asked => return Verdict::QueryTooSoon,
            (Ok(ClientMessage::StatusQuery(_)), true) => asked = !answered,
            (Ok(ClientMessage::Register(_) | ClientMessage::Unregister(_)), true) => {}
        }
    }
    Verdict::Fine
}
