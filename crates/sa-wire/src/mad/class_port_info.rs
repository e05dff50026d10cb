//! ClassPortInfo: what an SA is (IBA 13.4.8.1).

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Gid;

/// 72 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ClassPortInfo {
    /// Of the MAD format.
    pub base_version: u8,
    /// Of the class.
    pub class_version: u8,
    /// Generic bits, then the class's own.
    pub capabilities: U16,
    /// 27 bits of more capabilities, 5 bits of response time.
    pub capabilities2_resp_time: U32,
    /// Where requests go instead.
    pub redirect_gid: Gid,
    /// Traffic class, service level, flow label.
    pub redirect_class_sl_flow: U32,
    /// 0: ask by GID.
    pub redirect_lid: U16,
    /// Partition of that address.
    pub redirect_pkey: U16,
    /// Queue pair of that address, 24 bits.
    pub redirect_qpn: U32,
    /// Its Q_Key.
    pub redirect_qkey: U32,
    /// Where the class sends its traps.
    pub trap_gid: Gid,
    /// Traffic class, service level, flow label.
    pub trap_class_sl_flow: U32,
    /// LID of that address.
    pub trap_lid: U16,
    /// Partition of that address.
    pub trap_pkey: U16,
    /// Hop limit, then 24 bits of queue pair.
    pub trap_hop_limit_qpn: U32,
    /// Its Q_Key.
    pub trap_qkey: U32,
}

const _: () = assert!(size_of::<ClassPortInfo>() == 72);

impl ClassPortInfo {
    /// How long the SA may take for an answer: 4.096 us times two to this power.
    pub fn resp_time(&self) -> u8 {
        (self.capabilities2_resp_time.get() & 0x1F) as u8
    }

    /// The same in microseconds, rounded up.
    pub fn resp_time_us(&self) -> u64 {
        (4096u64 << self.resp_time()).div_ceil(1000)
    }

    /// The upper 27 bits.
    pub fn capabilities2(&self) -> u32 {
        self.capabilities2_resp_time.get() >> 5
    }
}
