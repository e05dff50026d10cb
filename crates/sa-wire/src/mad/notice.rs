//! Notices (IBA 13.4.8.2) and their data details (14.2.5.1).

use core::fmt;

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::trap::Trap;
use crate::{Gid, Guid};

/// 24 bits, big-endian: queue pair numbers, producer types, vendor ids.
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
pub struct U24(pub [u8; 3]);

impl U24 {
    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> U24 {
        let [_, a, b, c] = value.to_be_bytes();
        U24([a, b, c])
    }

    /// As a number.
    pub const fn get(self) -> u32 {
        let [a, b, c] = self.0;
        u32::from_be_bytes([0, a, b, c])
    }
}

impl fmt::Debug for U24 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:06x}", self.get())
    }
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NoticeType(pub u8);

impl NoticeType {
    /// The node is unusable.
    pub const FATAL: NoticeType = NoticeType(0);
    /// Something needs attention soon.
    pub const URGENT: NoticeType = NoticeType(1);
    /// Somebody used a wrong key.
    pub const SECURITY: NoticeType = NoticeType(2);
    /// News of the subnet from its manager.
    pub const SUBNET_MANAGEMENT: NoticeType = NoticeType(3);
    /// For information.
    pub const INFORMATIONAL: NoticeType = NoticeType(4);
    /// No notice: the answer to Get(Notice) when there is none.
    pub const EMPTY: NoticeType = NoticeType(0x7F);
}

impl fmt::Display for NoticeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            NoticeType::FATAL => f.write_str("fatal"),
            NoticeType::URGENT => f.write_str("urgent"),
            NoticeType::SECURITY => f.write_str("security"),
            NoticeType::SUBNET_MANAGEMENT => f.write_str("subnet management"),
            NoticeType::INFORMATIONAL => f.write_str("informational"),
            NoticeType::EMPTY => f.write_str("empty"),
            NoticeType(other) => write!(f, "type {other}"),
        }
    }
}

impl fmt::Debug for NoticeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What kind of node made a generic notice.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Producer(pub u32);

impl Producer {
    /// A channel adapter.
    pub const CA: Producer = Producer(1);
    /// A switch.
    pub const SWITCH: Producer = Producer(2);
    /// A router.
    pub const ROUTER: Producer = Producer(3);
    /// A manager of a class; for traps 64 to 67 the subnet manager.
    pub const CLASS_MANAGER: Producer = Producer(4);
}

impl fmt::Display for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Producer::CA => f.write_str("CA"),
            Producer::SWITCH => f.write_str("switch"),
            Producer::ROUTER => f.write_str("router"),
            Producer::CLASS_MANAGER => f.write_str("class manager"),
            Producer(other) => write!(f, "producer {other}"),
        }
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which number space a notice's number belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeKind {
    /// One of the specification's traps, and what made it.
    Generic {
        /// Its number.
        trap: Trap,
        /// What made it.
        producer: Producer,
    },
    /// A vendor's own.
    Vendor {
        /// The vendor's number for the device.
        device: u16,
        /// The vendor's IEEE id.
        vendor: u32,
    },
}

/// A notice, 80 bytes, in the form of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Notice {
    /// 1 bit: generic; 7 bits: type.
    pub generic_type: u8,
    /// Producer type, or vendor id.
    pub producer: U24,
    /// Trap number, or device id.
    pub number: U16,
    /// Who sent the trap; the SM for those it makes itself.
    pub issuer_lid: U16,
    /// 1 bit: toggle; 15 bits: count of notices in a queue. Nothing to do with forwarded ones.
    pub toggle_count: U16,
    /// Depends on the number; `details[n]` is byte 66 + n of the MAD.
    pub details: [u8; 54],
    /// Who sent the trap. The SA fills it in.
    pub issuer_gid: Gid,
}

const _: () = assert!(size_of::<Notice>() == Notice::SIZE);

/// Flags of trap 144 that say what else changed ([`LocalChange::flags`]).
pub mod changes {
    /// The node's description.
    pub const NODE_DESCRIPTION: u16 = 0x01;
    /// The link widths that are enabled.
    pub const LINK_WIDTH_ENABLED: u16 = 0x02;
    /// The link speeds that are enabled.
    pub const LINK_SPEED_ENABLED: u16 = 0x04;
    /// The priority of the SM on that port.
    pub const SM_PRIORITY: u16 = 0x08;
    /// The position in a hierarchy of nodes.
    pub const HIERARCHY_INFO: u16 = 0x10;
    /// The second capability mask.
    pub const CAPABILITY_MASK2: u16 = 0x20;
}

/// Data details of trap 144.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalChange {
    /// The port's LID.
    pub lid: u16,
    /// Whether `flags` say anything; if not, the capability mask changed.
    pub other_changes: bool,
    /// The capability mask now.
    pub capabilities: u32,
    /// See [`changes`].
    pub flags: u16,
    /// The second capability mask now.
    pub capabilities2: u16,
}

/// Data details of trap 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMKey {
    /// Who used the key; adapters of several makers have their own LID here.
    pub lid: u16,
    /// Source LID of a directed route, 0xFFFF if it began there.
    pub dr_slid: u16,
    /// Method of the offending datagram.
    pub method: u8,
    /// Its attribute.
    pub attribute: u16,
    /// Its modifier.
    pub modifier: u32,
    /// The wrong key.
    pub m_key: u64,
    /// Whether the datagram was directed by hops.
    pub directed: bool,
    /// Whether there were more hops than found room.
    pub truncated: bool,
    /// How many of the hops in `path` count, at most 30.
    pub hops: u8,
    /// The ports it came through, last first.
    pub path: [u8; 30],
}

/// Data details of traps 257 and 258.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadKey {
    /// Where the packet came from.
    pub lid1: u16,
    /// Where it went.
    pub lid2: u16,
    /// The wrong P_Key (16 bits) or Q_Key.
    pub key: u32,
    /// Service level.
    pub sl: u8,
    /// Queue pair it came from.
    pub qp1: u32,
    /// Queue pair it went to.
    pub qp2: u32,
    /// Where it came from, if it had a global header.
    pub gid1: Gid,
    /// Where it went, if it had a global header.
    pub gid2: Gid,
}

/// Data details of trap 259.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSwitchPKey {
    /// One bit for each field below that the switch filled in, in the specification's order. Not relied upon here:
    /// a field that is zero names nothing.
    pub valid: u16,
    /// Where the packet came from.
    pub lid1: u16,
    /// Where it went.
    pub lid2: u16,
    /// The wrong P_Key.
    pub p_key: u16,
    /// Service level.
    pub sl: u8,
    /// Queue pair it came from.
    pub qp1: u32,
    /// Queue pair it went to.
    pub qp2: u32,
    /// Where it came from, if it had a global header.
    pub gid1: Gid,
    /// Where it went, if it had a global header.
    pub gid2: Gid,
    /// LID of the switch that saw it.
    pub switch_lid: u16,
    /// Port of the switch where it came in.
    pub port: u8,
}

/// Up to two addresses that a notice is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subjects<T> {
    /// The only one, or where the packet came from.
    pub first: Option<T>,
    /// Where the packet went.
    pub second: Option<T>,
}

impl<T: PartialEq> Subjects<T> {
    fn one(first: Option<T>) -> Subjects<T> {
        Subjects { first, second: None }
    }

    /// Whether it is one of them.
    pub fn contains(&self, address: &T) -> bool {
        self.first.as_ref() == Some(address) || self.second.as_ref() == Some(address)
    }
}

impl Default for Notice {
    fn default() -> Notice {
        Notice {
            generic_type: 0,
            producer: U24::default(),
            number: 0.into(),
            issuer_lid: 0.into(),
            toggle_count: 0.into(),
            details: [0; 54],
            issuer_gid: Gid::ZERO,
        }
    }
}

impl Notice {
    /// Bytes of a notice.
    pub const SIZE: usize = 80;
    /// Where the GID of traps 64 to 67 begins in the details.
    const GID: usize = 6;

    /// A generic notice without details.
    pub fn generic(kind: NoticeType, producer: Producer, trap: Trap) -> Notice {
        Notice {
            generic_type: 0x80 | kind.0 & 0x7F,
            producer: U24::new(producer.0),
            number: trap.0.into(),
            ..Notice::default()
        }
    }

    /// A vendor's notice without details.
    pub fn vendor(kind: NoticeType, vendor: u32, device: u16) -> Notice {
        Notice {
            generic_type: kind.0 & 0x7F,
            producer: U24::new(vendor),
            number: device.into(),
            ..Notice::default()
        }
    }

    /// What an SM says about a GID: traps 64 to 67.
    pub fn about_gid(trap: Trap, gid: Gid, sm_lid: u16, sm_gid: Gid) -> Notice {
        let mut notice = Notice::generic(NoticeType::SUBNET_MANAGEMENT, Producer::CLASS_MANAGER, trap);
        notice.issuer_lid = sm_lid.into();
        notice.issuer_gid = sm_gid;
        notice.details[Self::GID..Self::GID + 16].copy_from_slice(&gid.0);
        notice
    }

    /// Whether it is one of the specification's notices.
    pub fn is_generic(&self) -> bool {
        self.generic_type & 0x80 != 0
    }

    /// How bad it is.
    pub fn notice_type(&self) -> NoticeType {
        NoticeType(self.generic_type & 0x7F)
    }

    /// Its number and who defines it.
    pub fn kind(&self) -> NoticeKind {
        let (number, producer) = (self.number.get(), self.producer.get());
        if self.is_generic() {
            NoticeKind::Generic { trap: Trap(number), producer: Producer(producer) }
        } else {
            NoticeKind::Vendor { device: number, vendor: producer }
        }
    }

    /// Its trap number, if it is generic.
    pub fn trap(&self) -> Option<Trap> {
        self.is_generic().then(|| Trap(self.number.get()))
    }

    /// Whether it tells keys and who used them: traps 256 to 259.
    pub fn is_security(&self) -> bool {
        self.trap().is_some_and(Trap::is_security)
    }

    /// Without the bytes that say nothing.
    ///
    /// An SM makes the notices of traps 64 to 67 itself and OpenSM leaves what it does not fill in as it lay on its
    /// stack: toggle and count, and all details but the GID. They differ in every copy and show addresses of
    /// another process, so nothing may compare, log or pass on a notice before this. Other notices come from a
    /// device or vendor and stay as they are: a later specification may give meaning to bytes reserved today.
    pub fn masked(&self) -> Notice {
        if !self.trap().is_some_and(Trap::is_about_gid) {
            return *self;
        }
        let mut notice = *self;
        notice.toggle_count = 0.into();
        notice.details[..Self::GID].fill(0);
        notice.details[Self::GID + 16..].fill(0);
        notice
    }

    /// The details of traps 64 to 67: the port or the group.
    pub fn gid(&self) -> Option<Gid> {
        self.trap()?.is_about_gid().then(|| self.gid_at(Self::GID))
    }

    /// The details of traps 128 to 131, 144, 145 and 256: the port that the notice is about. 128: of the switch.
    pub fn lid(&self) -> Option<u16> {
        match self.trap()?.0 {
            128 => Some(self.u16_at(0)),
            129..=131 | 144 | 145 | 256 => Some(self.u16_at(2)),
            _ => None,
        }
    }

    /// The details of traps 129 to 131: the number of the port. 259: of the switch's port.
    pub fn port(&self) -> Option<u8> {
        match self.trap()?.0 {
            129..=131 => Some(self.details[4]),
            259 => Some(self.details[50]),
            _ => None,
        }
    }

    /// The details of trap 144.
    pub fn local_change(&self) -> Option<LocalChange> {
        (self.trap()? == Trap::CAPABILITY_CHANGED).then(|| LocalChange {
            lid: self.u16_at(2),
            other_changes: self.details[5] & 1 != 0,
            capabilities: self.u32_at(6),
            flags: self.u16_at(10),
            capabilities2: self.u16_at(12),
        })
    }

    /// The details of trap 145: the new system image GUID.
    pub fn system_image_guid(&self) -> Option<Guid> {
        (self.trap()? == Trap::SYSTEM_IMAGE_GUID_CHANGED).then(|| Guid::from(self.u64_at(6)))
    }

    /// The details of trap 256.
    pub fn bad_m_key(&self) -> Option<BadMKey> {
        (self.trap()? == Trap::BAD_M_KEY).then(|| BadMKey {
            lid: self.u16_at(2),
            dr_slid: self.u16_at(4),
            method: self.details[6],
            attribute: self.u16_at(8),
            modifier: self.u32_at(10),
            m_key: self.u64_at(14),
            directed: self.details[23] & 0x80 != 0,
            truncated: self.details[23] & 0x40 != 0,
            hops: (self.details[23] & 0x3F).min(30),
            path: self.bytes_at(24),
        })
    }

    /// The details of traps 257 and 258.
    pub fn bad_key(&self) -> Option<BadKey> {
        matches!(self.trap()?, Trap::BAD_P_KEY | Trap::BAD_Q_KEY).then(|| BadKey {
            lid1: self.u16_at(2),
            lid2: self.u16_at(4),
            key: self.u32_at(6),
            sl: self.details[10] >> 4,
            qp1: self.u32_at(10) & 0xFF_FFFF,
            qp2: self.u32_at(14) & 0xFF_FFFF,
            gid1: self.gid_at(18),
            gid2: self.gid_at(34),
        })
    }

    /// The details of trap 259.
    pub fn bad_switch_p_key(&self) -> Option<BadSwitchPKey> {
        (self.trap()? == Trap::BAD_P_KEY_AT_SWITCH).then(|| BadSwitchPKey {
            valid: self.u16_at(0),
            lid1: self.u16_at(2),
            lid2: self.u16_at(4),
            p_key: self.u16_at(6),
            sl: self.details[8] >> 4,
            qp1: self.u32_at(8) & 0xFF_FFFF,
            qp2: self.u32_at(12) & 0xFF_FFFF,
            gid1: self.gid_at(16),
            gid2: self.gid_at(32),
            switch_lid: self.u16_at(48),
            port: self.details[50],
        })
    }

    /// The LIDs that it is about: not the issuer, unless that is the subject. None for traps 64 to 67 and for
    /// notices whose details are not known here.
    pub fn subject_lids(&self) -> Subjects<u16> {
        let named = |lid: u16| (lid != 0).then_some(lid);
        match self.trap() {
            Some(Trap::BAD_P_KEY | Trap::BAD_Q_KEY | Trap::BAD_P_KEY_AT_SWITCH) => {
                Subjects { first: named(self.u16_at(2)), second: named(self.u16_at(4)) }
            }
            _ => Subjects::one(self.lid().and_then(named)),
        }
    }

    /// The GIDs that it is about: the port or group of traps 64 to 67, both ends of a packet with a wrong key, and
    /// for what a port says of itself the issuer's, which the SA filled in.
    pub fn subject_gids(&self) -> Subjects<Gid> {
        let named = |gid: Gid| (!gid.is_zero()).then_some(gid);
        match self.trap() {
            Some(Trap::BAD_P_KEY | Trap::BAD_Q_KEY) => {
                Subjects { first: named(self.gid_at(18)), second: named(self.gid_at(34)) }
            }
            Some(Trap::BAD_P_KEY_AT_SWITCH) => {
                Subjects { first: named(self.gid_at(16)), second: named(self.gid_at(32)) }
            }
            Some(trap) if trap.is_about_gid() => Subjects::one(self.gid().and_then(named)),
            _ if self.lid() == Some(self.issuer_lid.get()) => Subjects::one(named(self.issuer_gid)),
            _ => Subjects { first: None, second: None },
        }
    }

    /// `N` bytes of the details, from `offset`. Offsets are constants within the 54 bytes.
    fn bytes_at<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        if let Some(from) = self.details.get(offset..offset + N) {
            bytes.copy_from_slice(from);
        }
        bytes
    }

    fn u16_at(&self, offset: usize) -> u16 {
        U16::from_bytes(self.bytes_at(offset)).get()
    }

    fn u32_at(&self, offset: usize) -> u32 {
        U32::from_bytes(self.bytes_at(offset)).get()
    }

    fn u64_at(&self, offset: usize) -> u64 {
        U64::from_bytes(self.bytes_at(offset)).get()
    }

    fn gid_at(&self, offset: usize) -> Gid {
        Gid(self.bytes_at(offset))
    }
}

/// One line: what happened, to whom, who says so. Undefined bytes do not show.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            NoticeKind::Generic { trap, .. } => write!(f, "{trap}")?,
            NoticeKind::Vendor { device, vendor } => {
                write!(f, "notice of vendor 0x{vendor:06x} device 0x{device:04x}")?
            }
        }
        if let Some(gid) = self.gid() {
            write!(f, ": {gid}")?;
        } else if let Some(change) = self.local_change() {
            write!(f, ": LID {} capabilities 0x{:08x}", change.lid, change.capabilities)?;
            if change.other_changes {
                write!(f, " changes 0x{:02x}", change.flags)?;
            }
        } else if let Some(guid) = self.system_image_guid() {
            write!(f, ": LID {} GUID {guid}", self.u16_at(2))?;
        } else if let Some(bad) = self.bad_m_key() {
            let (method, attribute) = (super::Method(bad.method), super::Attribute(bad.attribute));
            write!(f, ": from LID {}, {method} of attribute 0x{:04x}", bad.lid, attribute.0)?;
        } else if let Some(bad) = self.bad_key() {
            write!(
                f,
                ": key 0x{:x} from LID {} QP {} to LID {} QP {}",
                bad.key, bad.lid1, bad.qp1, bad.lid2, bad.qp2
            )?;
        } else if let Some(bad) = self.bad_switch_p_key() {
            write!(
                f,
                ": key 0x{:x} from LID {} QP {} to LID {} QP {}",
                bad.p_key, bad.lid1, bad.qp1, bad.lid2, bad.qp2
            )?;
            write!(f, ", seen by switch LID {} port {}", bad.switch_lid, bad.port)?;
        } else if let Some(lid) = self.lid() {
            write!(f, ": LID {lid}")?;
            if let Some(port) = self.port() {
                write!(f, " port {port}")?;
            }
        }
        write!(f, " ({}; from ", self.notice_type())?;
        if let NoticeKind::Generic { producer, .. } = self.kind() {
            write!(f, "{producer} ")?;
        }
        write!(f, "LID {} {})", self.issuer_lid, self.issuer_gid)
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
