//! The data details of notices (IBA 14.2.5.1): a layout for each trap.

use zerocopy::big_endian::{U16, U32, U64};

use super::notice::Notice;
use super::trap::Trap;
use crate::{Gid, Guid};

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

impl Notice {
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
