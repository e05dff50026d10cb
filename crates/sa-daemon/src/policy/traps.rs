//! Sets of traps.

use std::collections::BTreeSet;
use std::fmt;

use ibv_sa_wire::mad::Notice;

/// Traps 256 to 259, which tell keys and who used them.
pub const SECURITY: std::ops::RangeInclusive<u16> = 256..=259;

/// What a notice is, as rules tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A generic trap.
    Trap(u16),
    /// A vendor's notice.
    Vendor,
}

impl Kind {
    /// Of a notice.
    pub fn of(notice: &Notice) -> Kind {
        notice.trap().map_or(Kind::Vendor, |trap| Kind::Trap(trap.0))
    }
}

/// Some traps, or all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traps {
    /// Everything.
    pub all: bool,
    /// All vendors' notices.
    pub vendor: bool,
    /// These generic traps.
    pub numbers: BTreeSet<u16>,
}

impl Traps {
    /// Everything.
    pub fn all() -> Traps {
        Traps { all: true, ..Traps::default() }
    }

    /// Is it in?
    pub fn contains(&self, kind: Kind) -> bool {
        self.all
            || match kind {
                Kind::Trap(number) => self.numbers.contains(&number),
                Kind::Vendor => self.vendor,
            }
    }

    /// Those too.
    pub fn add(&mut self, others: &Traps) {
        self.all |= others.all;
        self.vendor |= others.vendor;
        self.numbers.extend(&others.numbers);
    }

    /// Is there one of the wanted kinds that is not in `others`, which are not all?
    pub fn goes_beyond(&self, others: &Traps, generic: bool, vendor: bool) -> bool {
        // Single numbers never make up all generic traps: a file is too short to list them.
        (generic && (self.all || self.numbers.iter().any(|number| !others.numbers.contains(number))))
            || (vendor && (self.all || self.vendor) && !others.vendor)
    }
}

impl fmt::Display for Traps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.all {
            return f.write_str("everything");
        }
        let security = SECURITY.into_iter().all(|number| self.numbers.contains(&number));
        let single = self.numbers.iter().filter(|number| !(security && SECURITY.contains(number)));
        let mut parts: Vec<String> = single.map(u16::to_string).collect();
        if security {
            parts.push(format!("{} to {}", SECURITY.start(), SECURITY.end()));
        }
        if !parts.is_empty() {
            let word = if self.numbers.len() == 1 { "trap" } else { "traps" };
            write!(f, "{word} {}", parts.join(", "))?;
        }
        match (self.vendor, parts.is_empty()) {
            (true, true) => f.write_str("vendors' notices"),
            (true, false) => f.write_str(" and vendors' notices"),
            _ => Ok(()),
        }
    }
}
