//! The beginning of a connection.

use core::fmt;

use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Kind, ProtoError, VERSION, wire};

const MAGIC: u32 = u32::from_le_bytes(*b"ibSA");

/// Which versions a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Lowest.
    pub min_version: u16,
    /// Highest.
    pub max_version: u16,
}

impl Default for Hello {
    fn default() -> Hello {
        Hello { min_version: VERSION, max_version: VERSION }
    }
}

impl Hello {
    /// The highest version that both sides speak.
    pub fn common_version(&self, min: u16, max: u16) -> Option<u16> {
        let highest = self.max_version.min(max);
        (highest >= self.min_version && highest >= min).then_some(highest)
    }
}

/// The connection is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that counts.
    pub version: u16,
    /// What the daemon can do beyond the version; none is defined.
    pub features: u64,
    /// Differs between two runs of the daemon: after a reconnect, whether it forgot everything.
    pub instance: u64,
    /// Registrations that this user may have.
    pub max_registrations: u32,
    /// Packets that wait for one connection before notices are lost.
    pub max_queued: u32,
}

/// Why there will be no connection; the daemon closes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Negative errno, -4095 to -1.
    pub status: i32,
    text: [u8; Refused::TEXT],
}

impl Refused {
    /// Bytes of text at most.
    pub const TEXT: usize = 160;

    /// A negative errno and what a person should know; text that does not fit is cut at a character, control
    /// characters become spaces.
    pub fn new(status: i32, text: &str) -> Refused {
        let mut refused = Refused { status: status.clamp(wire::LOWEST_STATUS, -1), text: [0; Refused::TEXT] };
        let mut end = 0;
        for c in text.chars() {
            let c = if c.is_control() { ' ' } else { c };
            let Some(room) = refused.text.get_mut(end..end + c.len_utf8()) else { break };
            end += c.encode_utf8(room).len();
        }
        refused
    }

    /// What a person should know.
    pub fn text(&self) -> &str {
        let end = self.text.iter().position(|&byte| byte == 0).unwrap_or(Refused::TEXT);
        core::str::from_utf8(&self.text[..end]).unwrap_or_default()
    }
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refused {{ status: {}, text: {:?} }}", self.status, self.text())
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HelloBody {
    magic: U32,
    min_version: U16,
    max_version: U16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct WelcomeBody {
    version: U16,
    reserved: [u8; 6],
    features: U64,
    instance: U64,
    max_registrations: U32,
    max_queued: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RefusedBody {
    status: I32,
    text: [u8; Refused::TEXT],
}

impl Hello {
    pub(super) fn read(body: &[u8]) -> Result<Hello, ProtoError> {
        let body: HelloBody = wire::body(body)?;
        if body.magic.get() != MAGIC {
            return Err(ProtoError::Magic(body.magic.get()));
        }
        let (min, max) = (body.min_version.get(), body.max_version.get());
        if min == 0 || min > max {
            return Err(ProtoError::Versions { min, max });
        }
        Ok(Hello { min_version: min, max_version: max })
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        let body = HelloBody {
            magic: MAGIC.into(),
            min_version: self.min_version.into(),
            max_version: self.max_version.into(),
        };
        wire::seal(packet, Kind::HELLO, &[body.as_bytes()])
    }
}

impl Welcome {
    pub(super) fn read(body: &[u8]) -> Result<Welcome, ProtoError> {
        let body: WelcomeBody = wire::body(body)?;
        wire::zero(&body.reserved)?;
        let version = body.version.get();
        if version == 0 {
            return Err(ProtoError::Versions { min: version, max: version });
        }
        Ok(Welcome {
            version,
            features: body.features.get(),
            instance: body.instance.get(),
            max_registrations: body.max_registrations.get(),
            max_queued: body.max_queued.get(),
        })
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        let body = WelcomeBody {
            version: self.version.into(),
            reserved: [0; 6],
            features: self.features.into(),
            instance: self.instance.into(),
            max_registrations: self.max_registrations.into(),
            max_queued: self.max_queued.into(),
        };
        wire::seal(packet, Kind::WELCOME, &[body.as_bytes()])
    }
}

impl Refused {
    pub(super) fn read(body: &[u8]) -> Result<Refused, ProtoError> {
        let body: RefusedBody = wire::body(body)?;
        let status = wire::status(body.status.get())?;
        if status == 0 {
            return Err(ProtoError::Status(status));
        }
        let refused = Refused { status, text: body.text };
        // The same text, made anew, has the same bytes exactly if it is valid, without control characters, and
        // nothing is behind its end.
        if Refused::new(refused.status, refused.text()) != refused {
            return Err(ProtoError::Text);
        }
        Ok(refused)
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        let body = RefusedBody { status: self.status.into(), text: self.text };
        wire::seal(packet, Kind::REFUSED, &[body.as_bytes()])
    }
}
