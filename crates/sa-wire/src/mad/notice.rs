//! Notices (IBA 13.4.8.2).

use core::fmt;

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::trap::Trap;
use crate::Gid;

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
    pub(super) const GID: usize = 6;

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
            write!(f, ": LID {} GUID {guid}", self.lid().unwrap_or(0))?;
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
