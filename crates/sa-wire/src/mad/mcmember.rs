//! MCMemberRecord (IBA 15.2.5.17): only what it takes to create and delete a group, which is how traps 66 and 67
//! come about.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Gid;

/// 52 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct McMemberRecord {
    /// The group.
    pub mgid: Gid,
    /// The member.
    pub port_gid: Gid,
    /// Q_Key of the group.
    pub qkey: U32,
    /// LID of the group.
    pub mlid: U16,
    /// 2 bits of selector, 6 bits of MTU.
    pub mtu: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Partition.
    pub pkey: U16,
    /// 2 bits of selector, 6 bits of rate.
    pub rate: u8,
    /// 2 bits of selector, 6 bits of packet life time.
    pub life_time: u8,
    /// 4 bits of service level, 20 of flow label, 8 of hop limit.
    pub sl_flow_hop: U32,
    /// 4 bits of scope, 4 of join state.
    pub scope_join: u8,
    /// 1 bit: another may join for this port.
    pub proxy_join: u8,
    /// 0.
    pub reserved: U16,
}

const _: () = assert!(size_of::<McMemberRecord>() == 52);
