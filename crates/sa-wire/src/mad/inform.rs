//! Subscriptions: InformInfo (IBA 13.4.8.3) and InformInfoRecord (15.2.5.12), and the typed form the daemon uses.

use core::fmt;

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::notice::{Notice, Producer, U24};
use super::trap::Trap;
use crate::{Gid, LID_ANY};

/// What a subscriber wants, 36 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct InformInfo {
    /// Issuer of the notice; if not zero the LID range is ignored.
    pub gid: Gid,
    /// First LID of the issuer, [`LID_ANY`] for all.
    pub lid_begin: U16,
    /// Last LID of the issuer.
    pub lid_end: U16,
    /// 0.
    pub reserved1: U16,
    /// Not zero: generic notices; zero: a vendor's.
    pub is_generic: u8,
    /// 1 to subscribe, 0 to end it. OpenSM refuses other values.
    pub subscribe: u8,
    /// Notice type, 0xFFFF for all.
    pub kind: U16,
    /// Trap number or device id, 0xFFFF for all.
    pub trap: U16,
    /// The subscriber's queue pair. OpenSM ignores it in a subscription (it takes the request's source) and
    /// compares it at its end.
    pub qpn: U24,
    /// 3 reserved bits, 5 bits of response time.
    pub resp_time: u8,
    /// 0.
    pub reserved2: u8,
    /// Producer type or vendor id, 0xFFFFFF for all.
    pub producer: U24,
}

/// A subscription in the SA's table, 60 bytes and 4 of padding to the next record.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct InformInfoRecord {
    /// Who gets the reports.
    pub subscriber: Gid,
    /// Numbers the subscriber's records; OpenSM has 0 in all.
    pub enumeration: U16,
    /// 0.
    pub reserved: [u8; 6],
    /// The subscription. The queue pair is 0 unless the request was trusted.
    pub inform: InformInfo,
    /// To a multiple of 8.
    pub padding: [u8; 4],
}

const _: () = assert!(size_of::<InformInfo>() == 36);
const _: () = assert!(size_of::<InformInfoRecord>() == 64);

impl InformInfoRecord {
    /// Component mask bit of the subscriber's GID.
    pub const MASK_SUBSCRIBER: u64 = 1;
    /// Bytes of a record without the padding.
    pub const SIZE: usize = 60;
}

/// A range of LIDs that no SA would match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LidRangeError {
    /// First LID.
    pub begin: u16,
    /// Last LID.
    pub end: u16,
}

impl fmt::Display for LidRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LID range {}-{} is empty", self.begin, self.end)
    }
}

impl core::error::Error for LidRangeError {}

/// One subscription as the SA compares it: two that differ in any field are two entries in its table, and each
/// entry sends its own Report of one event. Who subscribes (address and queue pair) is part of the entry too, but
/// belongs to the port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subscription {
    /// The issuer's GID, or zero.
    pub gid: Gid,
    /// The issuer's first LID, or [`LID_ANY`].
    pub lid_begin: u16,
    /// The issuer's last LID.
    pub lid_end: u16,
    /// Generic notices, or a vendor's. The two never overlap: everything takes two subscriptions.
    pub is_generic: bool,
    /// Notice type, or 0xFFFF.
    pub kind: u16,
    /// Trap number or device id, or 0xFFFF.
    pub trap: u16,
    /// Producer type or vendor id, or 0xFFFFFF.
    pub producer: u32,
    /// How fast we answer a report: 4.096 us times two to this power, 5 bits.
    pub resp_time: u8,
}

impl Subscription {
    /// Stands for all types, traps or device ids.
    pub const ANY: u16 = 0xFFFF;
    /// Stands for all producer types or vendor ids.
    pub const ANY_PRODUCER: u32 = 0xFF_FFFF;
    /// 2 s, which is what users of InfiniBand subscribe with.
    pub const RESP_TIME: u8 = 19;

    /// All generic notices.
    pub const ALL_GENERIC: Subscription = Subscription::new(true, Subscription::ANY);
    /// All notices of vendors.
    pub const ALL_VENDOR: Subscription = Subscription::new(false, Subscription::ANY);

    const fn new(is_generic: bool, trap: u16) -> Subscription {
        Subscription {
            gid: Gid::ZERO,
            lid_begin: LID_ANY,
            lid_end: 0,
            is_generic,
            kind: Subscription::ANY,
            trap,
            producer: Subscription::ANY_PRODUCER,
            resp_time: Subscription::RESP_TIME,
        }
    }

    /// One generic trap, whoever issues it.
    pub const fn trap(trap: Trap) -> Subscription {
        Subscription::new(true, trap.0)
    }

    /// One device id, of all vendors.
    pub const fn device(device: u16) -> Subscription {
        Subscription::new(false, device)
    }

    /// Limits it to issuers with LIDs from `begin` to `end`.
    ///
    /// A single LID has `begin` = `end`: the specification also allows 0 for `end` then, and OpenSM accepts that
    /// and matches nothing. A range that ends below its begin is accepted and matches nothing either.
    pub fn with_lids(self, begin: u16, end: u16) -> Result<Subscription, LidRangeError> {
        if begin == LID_ANY {
            return Ok(Subscription { lid_begin: LID_ANY, lid_end: 0, ..self });
        }
        if begin == 0 && end == 0 || begin > end {
            return Err(LidRangeError { begin, end });
        }
        Ok(Subscription { lid_begin: begin, lid_end: end, ..self })
    }

    /// The request that makes it (`subscribe`), or ends it: then `qpn` has to be the queue pair it was made from.
    pub fn inform_info(&self, subscribe: bool, qpn: u32) -> InformInfo {
        InformInfo {
            gid: self.gid,
            lid_begin: self.lid_begin.into(),
            lid_end: self.lid_end.into(),
            reserved1: 0.into(),
            is_generic: self.is_generic.into(),
            subscribe: subscribe.into(),
            kind: self.kind.into(),
            trap: self.trap.into(),
            qpn: U24::new(qpn),
            resp_time: self.resp_time & 0x1F,
            reserved2: 0,
            producer: U24::new(self.producer),
        }
    }

    /// What an InformInfo names, as the SA compares it (reserved bits do not count).
    pub fn from_inform_info(inform: &InformInfo) -> Subscription {
        Subscription {
            gid: inform.gid,
            lid_begin: inform.lid_begin.get(),
            lid_end: inform.lid_end.get(),
            is_generic: inform.is_generic != 0,
            kind: inform.kind.get(),
            trap: inform.trap.get(),
            producer: inform.producer.get(),
            resp_time: inform.resp_time & 0x1F,
        }
    }

    /// Whether an SA forwards that notice to it (IBA 13.4.8.3; OpenSM does just that). All that it looks at is the
    /// issuer, never what the notice is about.
    pub fn matches(&self, notice: &Notice) -> bool {
        let lid = notice.issuer_lid.get();
        let issuer = if self.gid.is_zero() {
            self.lid_begin == LID_ANY || self.lid_begin <= lid && lid <= self.lid_end
        } else {
            self.gid == notice.issuer_gid
        };
        issuer
            && self.is_generic == notice.is_generic()
            && (self.kind == Subscription::ANY || self.kind == u16::from(notice.notice_type().0))
            && (self.trap == Subscription::ANY || self.trap == notice.number.get())
            && (self.producer == Subscription::ANY_PRODUCER || self.producer == notice.producer.get())
    }

    /// Whether all notices of `other` come under this one too: while both stand, each arrives twice.
    pub fn covers(&self, other: &Subscription) -> bool {
        let issuer = if !self.gid.is_zero() {
            self.gid == other.gid
        } else if self.lid_begin == LID_ANY {
            true
        } else {
            other.gid.is_zero()
                && other.lid_begin != LID_ANY
                && self.lid_begin <= other.lid_begin
                && other.lid_end <= self.lid_end
        };
        issuer
            && self.is_generic == other.is_generic
            && (self.kind == Subscription::ANY || self.kind == other.kind)
            && (self.trap == Subscription::ANY || self.trap == other.trap)
            && (self.producer == Subscription::ANY_PRODUCER || self.producer == other.producer)
    }

    /// Whether an SA asks for trust (its SM_Key) before it grants this.
    pub fn needs_trust(&self) -> bool {
        self.is_generic && Trap(self.trap).is_security()
    }
}

impl fmt::Display for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_generic, self.trap) {
            (true, Subscription::ANY) => f.write_str("all generic traps")?,
            (false, Subscription::ANY) => f.write_str("all vendor notices")?,
            (true, trap) => write!(f, "{}", Trap(trap))?,
            (false, device) => write!(f, "vendor device 0x{device:04x}")?,
        }
        if self.kind != Subscription::ANY {
            write!(f, ", type {}", self.kind)?;
        }
        if self.producer != Subscription::ANY_PRODUCER {
            if self.is_generic {
                write!(f, ", made by {}", Producer(self.producer))?;
            } else {
                write!(f, ", vendor 0x{:06x}", self.producer)?;
            }
        }
        if !self.gid.is_zero() {
            write!(f, ", issuer {}", self.gid)
        } else if self.lid_begin != LID_ANY {
            write!(f, ", issuer LIDs {}-{}", self.lid_begin, self.lid_end)
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
