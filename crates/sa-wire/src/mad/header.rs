//! The three headers of an SA MAD.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Attribute, Method, SA_CLASS, SA_CLASS_VERSION, Status};

/// The header that all MADs share (IBA 13.4.2).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct MadHeader {
    /// 1.
    pub base_version: u8,
    /// Management class; the SA's is [`SA_CLASS`].
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// What is asked.
    pub method: Method,
    /// How it went, see [`Status`].
    pub status: U16,
    /// Belongs to the class; 0 for the SA.
    pub class_specific: U16,
    /// Transaction id, see [`super::tid_low`].
    pub tid: U64,
    /// See [`Attribute`].
    pub attribute: U16,
    /// 0.
    pub reserved: U16,
    /// Meaning depends on the attribute.
    pub modifier: U32,
}

impl MadHeader {
    /// How it went.
    pub fn status(&self) -> Status {
        Status(self.status.get())
    }

    /// What it is about.
    pub fn attribute(&self) -> Attribute {
        Attribute(self.attribute.get())
    }
}

/// The header of the protocol that carries tables (IBA 13.6.2). All zero where it is not in use. The kernel runs
/// the protocol; what it hands over has the first segment's header.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RmppHeader {
    /// 1 where the protocol is in use.
    pub version: u8,
    /// Data, acknowledgement, stop, abort.
    pub kind: u8,
    /// Response time (5 bits), then flags (last, first, active).
    pub time_flags: u8,
    /// Why it was stopped or aborted.
    pub status: u8,
    /// Number of the segment.
    pub segment: U32,
    /// Length of the payload, or new last segment of the window.
    pub length: U32,
}

/// The SA's own header (IBA 15.2.1.1).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SaHeader {
    /// 0 for an ordinary request. OpenSM compares it with its `sa_key` and drops a request with a wrong one.
    pub sm_key: U64,
    /// Distance of records in a table in units of 8 bytes; 0 for an empty table.
    pub offset: U16,
    /// 0.
    pub reserved: U16,
    /// Which components of the record a query looks at.
    pub component_mask: U64,
}

/// All three.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Headers {
    /// The common header.
    pub mad: MadHeader,
    /// For tables.
    pub rmpp: RmppHeader,
    /// The SA's own.
    pub sa: SaHeader,
}

impl Headers {
    /// Headers of an SA request without trust, mask or modifier.
    pub fn request(method: Method, attribute: Attribute, tid: u64) -> Headers {
        Headers {
            mad: MadHeader {
                base_version: 1,
                class: SA_CLASS,
                class_version: SA_CLASS_VERSION,
                method,
                tid: tid.into(),
                attribute: attribute.0.into(),
                ..MadHeader::default()
            },
            ..Headers::default()
        }
    }
}

const _: () = assert!(size_of::<MadHeader>() == 24);
const _: () = assert!(size_of::<RmppHeader>() == 12);
const _: () = assert!(size_of::<SaHeader>() == 20);
const _: () = assert!(size_of::<Headers>() == super::HEADERS_SIZE);
