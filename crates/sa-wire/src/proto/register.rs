//! The beginning and the end of a registration.

use core::fmt;

use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Kind, ProtoError, wire};
use crate::filter::{Filter, LidRange, Subject, component};
use crate::{Gid, Guid};

/// Which port of which device. Name and GUID both count where both are given: a name alone may mean another device
/// after a hot plug, and in a container.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortSelector {
    name: [u8; PortSelector::NAME],
    /// The device's node GUID, or zero.
    pub node_guid: Guid,
    /// From 1.
    pub port: u8,
}

/// A port that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectorError;

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a port: a device name of up to 64 printable ASCII characters without '/', or a node GUID; a port from 1")
    }
}

impl core::error::Error for SelectorError {}

impl PortSelector {
    /// Bytes of a device's name at most.
    pub const NAME: usize = 64;

    /// A port by the device's name, its node GUID, or both.
    pub fn new(name: &str, node_guid: Guid, port: u8) -> Result<PortSelector, SelectorError> {
        let mut selector = PortSelector { name: [0; PortSelector::NAME], node_guid, port };
        selector.name.get_mut(..name.len()).ok_or(SelectorError)?.copy_from_slice(name.as_bytes());
        if selector.is_valid() && !name.contains('\0') { Ok(selector) } else { Err(SelectorError) }
    }

    /// The device's name; empty if it is known by its GUID alone.
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.name_len()]).unwrap_or_default()
    }

    fn name_len(&self) -> usize {
        self.name.iter().position(|&byte| byte == 0).unwrap_or(PortSelector::NAME)
    }

    fn is_valid(&self) -> bool {
        let (name, rest) = self.name.split_at(self.name_len());
        self.port != 0
            && !(name.is_empty() && self.node_guid.is_zero())
            && name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'/')
            && rest.iter().all(|&byte| byte == 0)
    }
}

impl fmt::Display for PortSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => write!(f, "{}/{}", self.node_guid, self.port),
            name => write!(f, "{name}/{}", self.port),
        }
    }
}

impl fmt::Debug for PortSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} ({})", self.name(), self.port, self.node_guid)
    }
}

/// Wants notices of a port. The daemon closes the connection of a client that sends one with id 0, with a flag that
/// does not exist, or with a filter that [`Filter::check`] refuses: the client's library answers the program itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// The client's name for the registration, not 0.
    pub id: u64,
    /// Bits of the constants below.
    pub flags: u32,
    /// The port at which the notices arrive.
    pub port: PortSelector,
    /// Which notices.
    pub filter: Filter,
}

impl Register {
    /// The daemon subscribes again by itself after a loss; a StatusChange with 0 follows the one that told it.
    pub const AUTO_REREGISTER: u32 = 1 << 0;
    /// All flags of this version.
    pub const FLAGS: u32 = Register::AUTO_REREGISTER;
}

/// Answer to [`Register`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The registration.
    pub id: u64,
    /// 0: it exists and waits for the SA. -EACCES: policy; -EBUSY: too many; -EEXIST: the id is in use; -ENODEV: no
    /// such device or port; -EOPNOTSUPP: no InfiniBand port, so no SA.
    pub status: i32,
}

/// Wants no more notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unregister {
    /// The registration.
    pub id: u64,
}

/// Answer to [`Unregister`], also for a registration that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unregistered {
    /// The registration that was.
    pub id: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FilterBody {
    mask: U32,
    producer: U32,
    lid_begin: U16,
    lid_end: U16,
    kind: U16,
    trap: U16,
    subject_lid: U16,
    is_generic: u8,
    reserved: [u8; 5],
    gid: Gid,
    subject_gid: Gid,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RegisterBody {
    id: U64,
    flags: U32,
    port: u8,
    reserved: [u8; 3],
    node_guid: Guid,
    name: [u8; PortSelector::NAME],
    filter: FilterBody,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RegisteredBody {
    id: U64,
    status: I32,
    reserved: [u8; 4],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct IdBody {
    id: U64,
}

const _: () = assert!(super::HEADER_SIZE + size_of::<RegisterBody>() <= super::MAX_REQUEST);

impl FilterBody {
    fn new(filter: &Filter) -> FilterBody {
        let lids = filter.lids.unwrap_or(LidRange { begin: 0, end: 0 });
        let (subject_gid, subject_lid) = match filter.subject {
            Some(Subject::Gid(gid)) => (gid, 0),
            Some(Subject::Lid(lid)) => (Gid::ZERO, lid),
            None => (Gid::ZERO, 0),
        };
        FilterBody {
            mask: filter.mask().into(),
            producer: filter.producer.unwrap_or(0).into(),
            lid_begin: lids.begin.into(),
            lid_end: lids.end.into(),
            kind: filter.kind.unwrap_or(0).into(),
            trap: filter.trap.unwrap_or(0).into(),
            subject_lid: subject_lid.into(),
            is_generic: filter.is_generic.unwrap_or(false).into(),
            reserved: [0; 5],
            gid: filter.gid.unwrap_or(Gid::ZERO),
            subject_gid,
        }
    }

    fn filter(&self) -> Result<Filter, ProtoError> {
        let mask = self.mask.get();
        let subjects = component::SUBJECT_GID | component::SUBJECT_LID;
        if mask & !component::ALL != 0 || mask & subjects == subjects {
            return Err(ProtoError::Mask(mask));
        }
        if self.is_generic > 1 {
            return Err(ProtoError::Bool(self.is_generic));
        }
        wire::zero(&self.reserved)?;
        let given = |component: u32| mask & component != 0;
        let filter = Filter {
            gid: given(component::GID).then_some(self.gid),
            lids: given(component::LIDS)
                .then_some(LidRange { begin: self.lid_begin.get(), end: self.lid_end.get() }),
            is_generic: given(component::IS_GENERIC).then_some(self.is_generic == 1),
            kind: given(component::TYPE).then_some(self.kind.get()),
            trap: given(component::TRAP).then_some(self.trap.get()),
            producer: given(component::PRODUCER).then_some(self.producer.get()),
            subject: if given(component::SUBJECT_GID) {
                Some(Subject::Gid(self.subject_gid))
            } else {
                given(component::SUBJECT_LID).then_some(Subject::Lid(self.subject_lid.get()))
            },
        };
        if FilterBody::new(&filter) != *self {
            return Err(ProtoError::Unmasked);
        }
        filter.check().map_err(ProtoError::Filter)?;
        Ok(filter)
    }
}

impl Register {
    pub(super) fn read(body: &[u8]) -> Result<Register, ProtoError> {
        let body: RegisterBody = wire::body(body)?;
        wire::zero(&body.reserved)?;
        let flags = body.flags.get();
        if flags & !Register::FLAGS != 0 {
            return Err(ProtoError::Flags(flags));
        }
        let port = PortSelector { name: body.name, node_guid: body.node_guid, port: body.port };
        if port.port == 0 || port.name[0] == 0 && port.node_guid.is_zero() {
            return Err(ProtoError::Port);
        }
        if !port.is_valid() {
            return Err(ProtoError::Text);
        }
        Ok(Register { id: wire::id(body.id.get())?, flags, port, filter: body.filter.filter()? })
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        let body = RegisterBody {
            id: self.id.into(),
            flags: self.flags.into(),
            port: self.port.port,
            reserved: [0; 3],
            node_guid: self.port.node_guid,
            name: self.port.name,
            filter: FilterBody::new(&self.filter),
        };
        wire::seal(packet, Kind::REGISTER, &[body.as_bytes()])
    }
}

impl Registered {
    pub(super) fn read(body: &[u8]) -> Result<Registered, ProtoError> {
        let body: RegisteredBody = wire::body(body)?;
        wire::zero(&body.reserved)?;
        Ok(Registered { id: wire::id(body.id.get())?, status: wire::status(body.status.get())? })
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        let body = RegisteredBody { id: self.id.into(), status: self.status.into(), reserved: [0; 4] };
        wire::seal(packet, Kind::REGISTERED, &[body.as_bytes()])
    }
}

impl Unregister {
    pub(super) fn read(body: &[u8]) -> Result<Unregister, ProtoError> {
        let body: IdBody = wire::body(body)?;
        Ok(Unregister { id: wire::id(body.id.get())? })
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        wire::seal(packet, Kind::UNREGISTER, &[IdBody { id: self.id.into() }.as_bytes()])
    }
}

impl Unregistered {
    pub(super) fn read(body: &[u8]) -> Result<Unregistered, ProtoError> {
        let body: IdBody = wire::body(body)?;
        Ok(Unregistered { id: wire::id(body.id.get())? })
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        wire::seal(packet, Kind::UNREGISTERED, &[IdBody { id: self.id.into() }.as_bytes()])
    }
}
