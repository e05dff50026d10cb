//! Which notices a registration gets, and which subscriptions at the SA bring them.
//!
//! Two questions with different answers. An SA compares a subscription with the *issuer* of a notice, and the
//! issuer of traps 64 to 67 is always the SM: "tell me about that port" is nothing an SA can do. So registrations
//! are matched here, notice by notice, and at the SA stand only few and coarse subscriptions, each of them shared
//! by all registrations that need it.
//!
//! Coarse, because two entries that overlap each send their own report of one event: a trap is either subscribed by
//! its number or comes under "all".

use core::fmt;

use crate::mad::{Notice, Subscription, Trap};
use crate::{Gid, LID_ANY};

/// Which components of a [`Filter`] count, as one number: bit for bit the `component_mask` of the C interface.
pub mod component {
    /// The issuer's GID.
    pub const GID: u32 = 1 << 0;
    /// The issuer's range of LIDs.
    pub const LIDS: u32 = 1 << 1;
    /// Generic or vendor.
    pub const IS_GENERIC: u32 = 1 << 2;
    /// The type.
    pub const TYPE: u32 = 1 << 3;
    /// Trap number or device id.
    pub const TRAP: u32 = 1 << 4;
    /// Producer type or vendor id.
    pub const PRODUCER: u32 = 1 << 5;
    /// The GID that the notice is about.
    pub const SUBJECT_GID: u32 = 1 << 6;
    /// The LID that the notice is about.
    pub const SUBJECT_LID: u32 = 1 << 7;
    /// All of them.
    pub const ALL: u32 = (1 << 8) - 1;
}

/// LIDs from `begin` to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LidRange {
    /// First; [`LID_ANY`] for all LIDs, then `end` does not count.
    pub begin: u16,
    /// Last; 0 for `begin` alone.
    pub end: u16,
}

impl LidRange {
    /// Whether it has that LID, as IBA 13.4.8.3 defines it.
    pub fn contains(&self, lid: u16) -> bool {
        match *self {
            LidRange { begin: LID_ANY, .. } => true,
            LidRange { begin, end: 0 } => lid == begin,
            LidRange { begin, end } => begin <= lid && lid <= end,
        }
    }

    /// Whether it has no LID at all.
    pub fn is_empty(&self) -> bool {
        self.begin != LID_ANY && (self.begin == 0 && self.end == 0 || self.end != 0 && self.begin > self.end)
    }
}

/// What a notice is about, which is not its issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A port or a multicast group.
    Gid(Gid),
    /// A port.
    Lid(u16),
}

/// What a registration wants. All components that are given have to match; without any, everything does.
///
/// The wildcards of InformInfo (IBA 13.4.8.3) work too and are the same as not giving the component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// The issuer's GID. As in InformInfo, `lids` does not count beside it.
    pub gid: Option<Gid>,
    /// The issuer's LID.
    pub lids: Option<LidRange>,
    /// Generic or vendor.
    pub is_generic: Option<bool>,
    /// The type, 0xFFFF for all.
    pub kind: Option<u16>,
    /// Trap number or device id, 0xFFFF for all.
    pub trap: Option<u16>,
    /// Producer type or vendor id, 0xFFFFFF for all.
    pub producer: Option<u32>,
    /// What it is about.
    pub subject: Option<Subject>,
}

/// A filter that nothing can match, which must be a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// The range has no LID.
    EmptyLids(LidRange),
    /// Types have 7 bits.
    Type(u16),
    /// Producer types and vendor ids have 24 bits.
    Producer(u32),
    /// No notice is about the zero GID or LID 0.
    Subject,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterError::EmptyLids(range) => write!(f, "no LID from {} to {}", range.begin, range.end),
            FilterError::Type(kind) => write!(f, "notice type {kind} has more than 7 bits"),
            FilterError::Producer(producer) => write!(f, "producer 0x{producer:x} has more than 24 bits"),
            FilterError::Subject => f.write_str("no notice is about GID 0 or LID 0"),
        }
    }
}

impl core::error::Error for FilterError {}

impl Filter {
    /// Everything.
    pub const EVERYTHING: Filter = Filter {
        gid: None,
        lids: None,
        is_generic: None,
        kind: None,
        trap: None,
        producer: None,
        subject: None,
    };

    /// A generic trap; everything for [`Trap::ALL`], vendors' notices included.
    pub fn trap(trap: Trap) -> Filter {
        match trap {
            Trap::ALL => Filter::EVERYTHING,
            Trap(number) => Filter { is_generic: Some(true), trap: Some(number), ..Filter::EVERYTHING },
        }
    }

    /// The same with a subject.
    pub fn about(self, subject: Subject) -> Filter {
        Filter { subject: Some(subject), ..self }
    }

    /// Which components are given: bits of [`component`].
    pub fn mask(&self) -> u32 {
        let bit = |given: bool, bit: u32| if given { bit } else { 0 };
        bit(self.gid.is_some(), component::GID)
            | bit(self.lids.is_some(), component::LIDS)
            | bit(self.is_generic.is_some(), component::IS_GENERIC)
            | bit(self.kind.is_some(), component::TYPE)
            | bit(self.trap.is_some(), component::TRAP)
            | bit(self.producer.is_some(), component::PRODUCER)
            | bit(matches!(self.subject, Some(Subject::Gid(_))), component::SUBJECT_GID)
            | bit(matches!(self.subject, Some(Subject::Lid(_))), component::SUBJECT_LID)
    }

    /// Refuses what can never match.
    pub fn check(&self) -> Result<(), FilterError> {
        if let Some(lids) = self.lids.filter(LidRange::is_empty) {
            return Err(FilterError::EmptyLids(lids));
        }
        if let Some(kind) = self.kind.filter(|&kind| kind > 0x7F && kind != Subscription::ANY) {
            return Err(FilterError::Type(kind));
        }
        if let Some(producer) = self.producer.filter(|&producer| producer > Subscription::ANY_PRODUCER) {
            return Err(FilterError::Producer(producer));
        }
        match self.subject {
            Some(Subject::Gid(Gid::ZERO) | Subject::Lid(0)) => Err(FilterError::Subject),
            _ => Ok(()),
        }
    }

    /// Whether a registration with this filter gets that notice.
    pub fn matches(&self, notice: &Notice) -> bool {
        let issuer = match (self.gid, self.lids) {
            (Some(gid), _) if !gid.is_zero() => gid == notice.issuer_gid,
            (_, Some(lids)) => lids.contains(notice.issuer_lid.get()),
            _ => true,
        };
        issuer
            && self.is_generic.is_none_or(|generic| generic == notice.is_generic())
            && self
                .kind
                .is_none_or(|kind| kind == Subscription::ANY || kind == u16::from(notice.notice_type().0))
            && self.trap.is_none_or(|trap| trap == Subscription::ANY || trap == notice.number.get())
            && self.producer.is_none_or(|producer| {
                producer == Subscription::ANY_PRODUCER || producer == notice.producer.get()
            })
            && match self.subject {
                None => true,
                Some(Subject::Gid(gid)) => notice.subject_gids().contains(&gid),
                Some(Subject::Lid(lid)) => notice.subject_lids().contains(&lid),
            }
    }

    /// What has to stand at the SA so that every notice that matches arrives: at most one subscription for generic
    /// notices and one for vendors', by trap number or device id where the filter has one, for all issuers. The rest
    /// of the filter is applied here.
    pub fn subscriptions(&self) -> Subscriptions {
        let trap = self.trap.unwrap_or(Subscription::ANY);
        let one = |wanted: bool, all: Subscription| {
            (self.is_generic.is_none_or(|generic| generic == wanted)).then_some(Subscription { trap, ..all })
        };
        Subscriptions {
            generic: one(true, Subscription::ALL_GENERIC),
            vendor: one(false, Subscription::ALL_VENDOR),
        }
    }

    /// Whether only traps 256 to 259 can match: keys and who used them.
    pub fn is_security(&self) -> bool {
        self.is_generic == Some(true) && self.trap.is_some_and(|trap| Trap(trap).is_security())
    }
}

/// The subscriptions of one filter: none, one or two that do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// For generic notices.
    pub generic: Option<Subscription>,
    /// For vendors' notices.
    pub vendor: Option<Subscription>,
}

impl IntoIterator for Subscriptions {
    type Item = Subscription;
    type IntoIter =
        core::iter::Chain<core::option::IntoIter<Subscription>, core::option::IntoIter<Subscription>>;

    fn into_iter(self) -> Self::IntoIter {
        self.generic.into_iter().chain(self.vendor)
    }
}
