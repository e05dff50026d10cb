//! What a registration gets.

use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Kind, ProtoError, wire};
use crate::mad::Notice;

/// Something happened in the subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticeEvent {
    /// The registration.
    pub id: u64,
    /// Counts the notices that matched this registration, from 1, lost ones included.
    pub sequence: u64,
    /// When the daemon read the report: nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// LID of the SA that sent it.
    pub source_lid: u16,
    /// Masked. Encoding clears undefined bytes ([`Notice::masked`]), decoding refuses them.
    pub notice: Notice,
}

/// Something happened to a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// The registration.
    pub id: u64,
    /// 0: the SA has the subscription. Otherwise a negative errno, see the module's text.
    pub status: i32,
}

/// The client was too slow: its queue was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// The registration.
    pub id: u64,
    /// Notices lost here, at least 1.
    pub lost: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct NoticeBody {
    id: U64,
    sequence: U64,
    time_ns: U64,
    source_lid: U16,
    reserved: [u8; 6],
    notice: Notice,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StatusChangeBody {
    id: U64,
    status: I32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OverflowBody {
    id: U64,
    lost: U64,
}

impl NoticeEvent {
    pub(super) fn read(body: &[u8]) -> Result<NoticeEvent, ProtoError> {
        let body: NoticeBody = wire::body(body)?;
        wire::zero(&body.reserved)?;
        if body.notice != body.notice.masked() {
            return Err(ProtoError::Reserved);
        }
        Ok(NoticeEvent {
            id: wire::id(body.id.get())?,
            sequence: body.sequence.get(),
            time_ns: body.time_ns.get(),
            source_lid: body.source_lid.get(),
            notice: body.notice,
        })
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        let body = NoticeBody {
            id: self.id.into(),
            sequence: self.sequence.into(),
            time_ns: self.time_ns.into(),
            source_lid: self.source_lid.into(),
            reserved: [0; 6],
            notice: self.notice.masked(),
        };
        wire::seal(packet, Kind::NOTICE, &[body.as_bytes()])
    }
}

impl StatusChange {
    pub(super) fn read(body: &[u8]) -> Result<StatusChange, ProtoError> {
        let body: StatusChangeBody = wire::body(body)?;
        wire::zero(body.reserved.as_bytes())?;
        Ok(StatusChange { id: wire::id(body.id.get())?, status: wire::status(body.status.get())? })
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        let body = StatusChangeBody { id: self.id.into(), status: self.status.into(), reserved: 0.into() };
        wire::seal(packet, Kind::STATUS_CHANGE, &[body.as_bytes()])
    }
}

impl Overflow {
    pub(super) fn read(body: &[u8]) -> Result<Overflow, ProtoError> {
        let body: OverflowBody = wire::body(body)?;
        if body.lost.get() == 0 {
            return Err(ProtoError::NothingLost);
        }
        Ok(Overflow { id: wire::id(body.id.get())?, lost: body.lost.get() })
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        let body = OverflowBody { id: self.id.into(), lost: self.lost.into() };
        wire::seal(packet, Kind::OVERFLOW, &[body.as_bytes()])
    }
}
