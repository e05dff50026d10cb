//! Header and helpers that all messages share.

use core::fmt;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{HEADER_SIZE, ProtoError};

/// Which message a packet is. Numbers of clients' messages are below 128, the daemon's are above; none is ever
/// used for something else.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(pub u16);

impl Kind {
    /// [`super::Hello`].
    pub const HELLO: Kind = Kind(1);
    /// [`super::Register`].
    pub const REGISTER: Kind = Kind(2);
    /// [`super::Unregister`].
    pub const UNREGISTER: Kind = Kind(3);
    /// [`super::StatusQuery`].
    pub const STATUS_QUERY: Kind = Kind(4);
    /// [`super::Welcome`].
    pub const WELCOME: Kind = Kind(129);
    /// [`super::Refused`].
    pub const REFUSED: Kind = Kind(130);
    /// [`super::Registered`].
    pub const REGISTERED: Kind = Kind(131);
    /// [`super::Unregistered`].
    pub const UNREGISTERED: Kind = Kind(132);
    /// [`super::NoticeEvent`].
    pub const NOTICE: Kind = Kind(133);
    /// [`super::StatusChange`].
    pub const STATUS_CHANGE: Kind = Kind(134);
    /// [`super::Overflow`].
    pub const OVERFLOW: Kind = Kind(135);
    /// [`super::StatusChunk`].
    pub const STATUS_CHUNK: Kind = Kind(136);
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Kind::HELLO => "Hello",
            Kind::REGISTER => "Register",
            Kind::UNREGISTER => "Unregister",
            Kind::STATUS_QUERY => "StatusQuery",
            Kind::WELCOME => "Welcome",
            Kind::REFUSED => "Refused",
            Kind::REGISTERED => "Registered",
            Kind::UNREGISTERED => "Unregistered",
            Kind::NOTICE => "Notice",
            Kind::STATUS_CHANGE => "StatusChange",
            Kind::OVERFLOW => "Overflow",
            Kind::STATUS_CHUNK => "StatusChunk",
            Kind(other) => return write!(f, "message {other}"),
        })
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    kind: U16,
    reserved: U16,
    len: U32,
}

const _: () = assert!(size_of::<Header>() == HEADER_SIZE);

/// Checks the header; the body is whatever is behind it.
pub(super) fn open(packet: &[u8], limit: usize) -> Result<(Kind, &[u8]), ProtoError> {
    let have = packet.len();
    if have > limit {
        return Err(ProtoError::Long { limit, have });
    }
    let (header, body) =
        Header::ref_from_prefix(packet).map_err(|_| ProtoError::Short { need: HEADER_SIZE, have })?;
    if header.len.get() as usize != have {
        return Err(ProtoError::Length { named: header.len.get(), have });
    }
    if header.reserved.get() != 0 {
        return Err(ProtoError::Reserved);
    }
    Ok((Kind(header.kind.get()), body))
}

/// A body of fixed layout, which has to be all there is.
pub(super) fn body<T: FromBytes>(bytes: &[u8]) -> Result<T, ProtoError> {
    let (need, have) = (HEADER_SIZE + size_of::<T>(), HEADER_SIZE + bytes.len());
    if have > need {
        return Err(ProtoError::Long { limit: need, have });
    }
    T::read_from_bytes(bytes).map_err(|_| ProtoError::Short { need, have })
}

/// Header and the parts of the body into the front of `packet`, which has room for every message of its direction.
pub(super) fn seal(packet: &mut [u8], kind: Kind, parts: &[&[u8]]) -> usize {
    let len = HEADER_SIZE + parts.iter().map(|part| part.len()).sum::<usize>();
    let header = Header { kind: kind.0.into(), reserved: 0.into(), len: (len as u32).into() };
    let mut at = 0;
    for part in [header.as_bytes()].iter().chain(parts) {
        if let Some(room) = packet.get_mut(at..at + part.len()) {
            room.copy_from_slice(part);
        }
        at += part.len();
    }
    len
}

/// The lowest negative errno: Linux has none above.
pub(super) const LOWEST_STATUS: i32 = -4095;

/// A status is 0 or a negative errno.
pub(super) fn status(status: i32) -> Result<i32, ProtoError> {
    if (LOWEST_STATUS..=0).contains(&status) { Ok(status) } else { Err(ProtoError::Status(status)) }
}

/// Registrations have ids above 0.
pub(super) fn id(id: u64) -> Result<u64, ProtoError> {
    if id == 0 { Err(ProtoError::Id) } else { Ok(id) }
}

/// Reserved fields are zero.
pub(super) fn zero(bytes: &[u8]) -> Result<(), ProtoError> {
    if bytes.iter().all(|&byte| byte == 0) { Ok(()) } else { Err(ProtoError::Reserved) }
}
