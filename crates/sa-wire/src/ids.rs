//! Addresses: GID and GUID, kept as the bytes of the wire.

use core::fmt;
use core::net::Ipv6Addr;
use core::str::FromStr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The LID that stands for all LIDs where a subscription begins its range (IBA 13.4.8.3).
pub const LID_ANY: u16 = 0xFFFF;

/// A GID: 64 bits of subnet prefix and the port's GUID, or a multicast address. Same form as an IPv6 address.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// No GID: in a subscription, "whatever GID".
    pub const ZERO: Gid = Gid([0; 16]);

    /// Whether no GID is named.
    pub fn is_zero(&self) -> bool {
        *self == Gid::ZERO
    }

    /// Whether it names a multicast group (ff00::/8).
    pub fn is_multicast(&self) -> bool {
        self.0[0] == 0xFF
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv6Addr::from(self.0), f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is no GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseGidError;

impl fmt::Display for ParseGidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a GID: 8 groups of up to 4 hexadecimal digits, as in fe80::10:7")
    }
}

impl core::error::Error for ParseGidError {}

impl FromStr for Gid {
    type Err = ParseGidError;

    fn from_str(text: &str) -> Result<Self, ParseGidError> {
        Ipv6Addr::from_str(text).map(|address| Gid(address.octets())).map_err(|_| ParseGidError)
    }
}

/// A GUID in network order, as sysfs and verbs have it.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct Guid(pub [u8; 8]);

impl Guid {
    /// No GUID.
    pub const ZERO: Guid = Guid([0; 8]);

    /// Whether no GUID is named.
    pub fn is_zero(&self) -> bool {
        *self == Guid::ZERO
    }
}

impl From<u64> for Guid {
    fn from(value: u64) -> Guid {
        Guid(value.to_be_bytes())
    }
}

impl From<Guid> for u64 {
    fn from(guid: Guid) -> u64 {
        u64::from_be_bytes(guid.0)
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}", u64::from(*self))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
