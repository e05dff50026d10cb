//! Packets that are none.

use core::fmt;

use super::{Kind, MAX_PACKET};
use crate::filter::FilterError;

/// Why a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtoError {
    /// Shorter than a header or than its message.
    Short {
        /// Bytes it has to have.
        need: usize,
        /// Bytes it has.
        have: usize,
    },
    /// Longer than its message, or than any.
    Long {
        /// Bytes it may have.
        limit: usize,
        /// Bytes it has.
        have: usize,
    },
    /// The header names another length than the packet has.
    Length {
        /// Of the header.
        named: u32,
        /// Of the packet.
        have: usize,
    },
    /// No message of this direction.
    Kind(Kind),
    /// A Hello without the word that begins it.
    Magic(u32),
    /// No version, or the lowest above the highest.
    Versions {
        /// Lowest.
        min: u16,
        /// Highest.
        max: u16,
    },
    /// A reserved field, or an undefined byte of a notice, is not zero.
    Reserved,
    /// A flag that this version does not have.
    Flags(u32),
    /// A component that this version does not have, or one given twice.
    Mask(u32),
    /// A component that the mask does not name is not zero.
    Unmasked,
    /// Neither 0 nor 1.
    Bool(u8),
    /// A status is 0 or a negative errno; of a refusal, a negative errno.
    Status(i32),
    /// Registrations have ids above 0.
    Id,
    /// A device's name, or the text of a refusal, has characters it must not have.
    Text,
    /// The port has no name and no GUID, or no number.
    Port,
    /// A filter that nothing can match.
    Filter(FilterError),
    /// An overflow without loss.
    NothingLost,
    /// A chunk without data, or behind the end of the whole.
    Chunk {
        /// Where it begins.
        offset: u32,
        /// Its length.
        len: usize,
        /// Length of the whole.
        total: u32,
    },
}

impl fmt::Display for ProtoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtoError::Short { need, have } => write!(f, "packet of {have} bytes, needs {need}"),
            ProtoError::Long { limit, have } => write!(f, "packet of {have} bytes, at most {limit}"),
            ProtoError::Length { named, have } => {
                write!(f, "packet of {have} bytes says that it has {named}")
            }
            ProtoError::Kind(kind) => write!(f, "{kind} is not for this side"),
            ProtoError::Magic(magic) => write!(f, "begins with 0x{magic:08x}: another protocol"),
            ProtoError::Versions { min, max } => write!(f, "no version from {min} to {max}"),
            ProtoError::Reserved => f.write_str("a reserved field is not zero"),
            ProtoError::Flags(flags) => write!(f, "unknown flags 0x{flags:x}"),
            ProtoError::Mask(mask) => write!(f, "component mask 0x{mask:x}"),
            ProtoError::Unmasked => f.write_str("a component that the mask does not name is not zero"),
            ProtoError::Bool(value) => write!(f, "{value} is neither 0 nor 1"),
            ProtoError::Status(status) => write!(f, "status {status} is no negative errno"),
            ProtoError::Id => f.write_str("registration id 0"),
            ProtoError::Text => f.write_str("text with characters that it must not have"),
            ProtoError::Port => f.write_str("no port: it has no device name and no GUID, or number 0"),
            ProtoError::Filter(error) => fmt::Display::fmt(error, f),
            ProtoError::NothingLost => f.write_str("overflow of 0 notices"),
            ProtoError::Chunk { offset, len, total } => {
                write!(f, "chunk of {len} bytes at {offset} of {total} (packets have at most {MAX_PACKET})")
            }
        }
    }
}

impl core::error::Error for ProtoError {}
