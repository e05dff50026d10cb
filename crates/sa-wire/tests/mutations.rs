//! What strangers make of valid MADs and messages: read or refused by what holds for all bytes, and refused for every
//! reason that there is.

use std::collections::BTreeSet;

use ibv_sa_samples::{Random, captures, holds, messages, mutate, names, scaled};
use ibv_sa_wire::filter::FilterError;
use ibv_sa_wire::mad::{MadError, SaMessage};
use ibv_sa_wire::proto::ProtoError;

/// Spoilt samples for each valid one.
const EACH: u64 = 2000;

names!(mad_reason, MAD_REASONS, MadError {
    MadError::Short { .. } => "short",
    MadError::BaseVersion(_) => "base version",
    MadError::Class(_) => "class",
    MadError::ClassVersion(_) => "class version",
    MadError::RecordDistance(_) => "record distance",
    MadError::Attribute { .. } => "attribute",
});

names!(proto_reason, PROTO_REASONS, ProtoError {
    ProtoError::Short { .. } => "short",
    ProtoError::Long { .. } => "long",
    ProtoError::Length { .. } => "length",
    ProtoError::Kind(_) => "kind",
    ProtoError::Magic(_) => "magic",
    ProtoError::Versions { .. } => "versions",
    ProtoError::Reserved => "reserved",
    ProtoError::Flags(_) => "flags",
    ProtoError::Mask(_) => "mask",
    ProtoError::Unmasked => "unmasked",
    ProtoError::Bool(_) => "bool",
    ProtoError::Status(_) => "status",
    ProtoError::Id => "id",
    ProtoError::Text => "text",
    ProtoError::Port => "port",
    ProtoError::Filter(FilterError::EmptyLids(_)) => "empty LIDs",
    ProtoError::Filter(FilterError::Type(_)) => "type",
    ProtoError::Filter(FilterError::Producer(_)) => "producer",
    ProtoError::Filter(FilterError::Subject) => "subject",
    ProtoError::NothingLost => "nothing lost",
    ProtoError::Chunk { .. } => "chunk",
});

/// What no program can be refused for, because no message of a program has it.
const NOT_OF_PROGRAMS: &[&str] = &["status", "nothing lost", "chunk"];
/// And no daemon.
const NOT_OF_DAEMONS: &[&str] =
    &["magic", "flags", "mask", "unmasked", "bool", "port", "empty LIDs", "type", "producer", "subject"];

fn all_but(reasons: &[&'static str], without: &[&str]) -> BTreeSet<&'static str> {
    reasons.iter().copied().filter(|reason| !without.contains(reason)).collect()
}

#[test]
fn spoilt_mads() {
    let valid: Vec<Vec<u8>> = captures().into_values().map(Vec::from).collect();
    assert_eq!(valid.len(), 59);
    let (mut seen, mut read) = (BTreeSet::new(), 0);
    for (n, one) in valid.iter().enumerate() {
        let mut random = Random::new(n as u64);
        for _ in 0..scaled(EACH) {
            let mad = mutate::bytes(&mut random, one, &valid);
            match holds::mad(&mad) {
                Ok(()) => read += 1,
                Err(error) => _ = seen.insert(mad_reason(&error)),
            }
            // Whoever asks for an attribute that it has not, gets none of another.
            if let Ok(Err(error)) = SaMessage::parse(&mad).map(|message| message.mc_member_record()) {
                seen.insert(mad_reason(&error));
            }
        }
    }
    assert_eq!(seen, all_but(MAD_REASONS, &[]));
    assert!(read > valid.len() as u64 * EACH / 4, "{read} are MADs still");
}

#[test]
fn spoilt_messages_of_programs() {
    let valid = messages::client();
    let (mut seen, mut read) = (BTreeSet::new(), 0);
    for (n, one) in valid.iter().enumerate() {
        let mut random = Random::new(n as u64);
        for _ in 0..scaled(5 * EACH) {
            match holds::client_message(&mutate::packet(&mut random, one, &valid)) {
                Ok(_) => read += 1,
                Err(error) => _ = seen.insert(proto_reason(&error)),
            }
        }
    }
    assert_eq!(seen, all_but(PROTO_REASONS, NOT_OF_PROGRAMS));
    assert!(read > valid.len() as u64 * EACH / 10, "{read} are messages still");
}

#[test]
fn spoilt_messages_of_the_daemon() {
    let valid = messages::server(5);
    let (mut seen, mut read) = (BTreeSet::new(), 0);
    for (n, one) in valid.iter().enumerate() {
        let mut random = Random::new(n as u64);
        for _ in 0..scaled(EACH) {
            match holds::server_message(&mutate::packet(&mut random, one, &valid)) {
                Ok(_) => read += 1,
                Err(error) => _ = seen.insert(proto_reason(&error)),
            }
        }
    }
    assert_eq!(seen, all_but(PROTO_REASONS, NOT_OF_DAEMONS));
    assert!(read > valid.len() as u64 * EACH / 10, "{read} are messages still");
}
