//! The answers of a policy file.

use std::path::{Path, PathBuf};

use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::{Filter, Subscription};

use super::traps::{Kind, Traps};
use crate::engine::{DefaultPolicy, Limits, Peer, Policy, PortName};

/// A user or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its number.
    pub id: u32,
    /// What the file calls it, unless by its number.
    pub name: Option<String>,
}

/// Whom something is about: who is one of the users or in one of the groups. Everybody, if there is neither.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Who {
    /// By user.
    pub users: Vec<Named>,
    /// By group.
    pub groups: Vec<Named>,
}

impl Who {
    /// Nobody is left out.
    pub fn is_everybody(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// Is it about this process?
    pub fn has(&self, peer: &Peer) -> bool {
        let is_in = |group: &Named| group.id == peer.gid || peer.groups.contains(&group.id);
        self.is_everybody()
            || self.users.iter().any(|user| user.id == peer.uid)
            || self.groups.iter().any(is_in)
    }
}

/// Ports by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// Of this device; of all if there is none.
    pub device: Option<String>,
    /// This number; all if there is none.
    pub number: Option<u8>,
}

impl Ports {
    fn has(&self, port: &PortName) -> bool {
        self.device.as_ref().is_none_or(|device| *device == port.device)
            && self.number.is_none_or(|number| number == port.number)
    }
}

/// What becomes of what a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// They may.
    Allow,
    /// They may not.
    Deny,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Where it begins.
    pub line: usize,
    /// Whom it is about.
    pub who: Who,
    /// At which ports; at all if the list is empty.
    pub ports: Vec<Ports>,
    /// About which traps.
    pub traps: Traps,
    /// Whether they may.
    pub decision: Decision,
}

impl Rule {
    /// About all ports?
    pub fn is_everywhere(&self) -> bool {
        let all = Ports { device: None, number: None };
        self.ports.is_empty() || self.ports.contains(&all)
    }

    fn has(&self, peer: &Peer, port: &PortName) -> bool {
        self.who.has(peer) && (self.ports.is_empty() || self.ports.iter().any(|ports| ports.has(port)))
    }
}

/// Limits that a file gives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitChanges {
    /// See `Limits`.
    pub clients: Option<usize>,
    /// See `Limits`.
    pub registrations: Option<usize>,
    /// See `Limits`.
    pub queued: Option<usize>,
    /// See `Limits`.
    pub queued_per_client: Option<usize>,
}

impl LimitChanges {
    /// The others stay.
    pub fn over(&self, limits: Limits) -> Limits {
        Limits {
            clients: self.clients.unwrap_or(limits.clients),
            registrations: self.registrations.unwrap_or(limits.registrations),
            queued: self.queued.unwrap_or(limits.queued),
            queued_per_client: self.queued_per_client.unwrap_or(limits.queued_per_client),
        }
    }
}

/// Other limits for some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Where it begins.
    pub line: usize,
    /// For whom.
    pub who: Who,
    /// Which.
    pub limits: LimitChanges,
}

/// A policy file that was read. After its rules come those of [`DefaultPolicy`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Where it was.
    pub(super) file: Option<PathBuf>,
    /// For everybody.
    pub(super) limits: LimitChanges,
    /// The first that matches decides.
    pub(super) rules: Vec<Rule>,
    /// The first that matches counts.
    pub(super) overrides: Vec<Override>,
    pub(super) otherwise: DefaultPolicy,
}

impl Rules {
    /// The first rule that is about this, if any.
    fn decision(&self, peer: &Peer, port: &PortName, kind: Kind) -> Option<Decision> {
        let rule = self.rules.iter().find(|rule| rule.traps.contains(kind) && rule.has(peer, port))?;
        Some(rule.decision)
    }

    fn allows(&self, peer: &Peer, port: &PortName, wish: &Subscription) -> bool {
        let kind = if wish.is_generic { Kind::Trap(wish.trap) } else { Kind::Vendor };
        match self.decision(peer, port, kind) {
            Some(decision) => decision == Decision::Allow,
            None => self.otherwise.administrators.contains(&peer.uid) || !wish.needs_trust(),
        }
    }

    /// Is any notice of these kinds left? Which ones, is seen when they come.
    fn leaves_something(&self, peer: &Peer, port: &PortName, generic: bool, vendor: bool) -> bool {
        let mut denied = Traps::default();
        for rule in self.rules.iter().filter(|rule| rule.has(peer, port)) {
            match rule.decision {
                Decision::Deny if rule.traps.all => return false,
                Decision::Deny => denied.add(&rule.traps),
                Decision::Allow if rule.traps.goes_beyond(&denied, generic, vendor) => return true,
                Decision::Allow => {}
            }
        }
        Traps::all().goes_beyond(&denied, generic, vendor)
    }
}

impl Policy for Rules {
    /// Who is left with nothing is refused here already, so that it hears so once.
    fn may_connect(&self, peer: &Peer) -> bool {
        let total =
            |rule: &&Rule| rule.decision == Decision::Allow || (rule.traps.all && rule.is_everywhere());
        let first = self.rules.iter().filter(|rule| rule.who.has(peer)).find(total);
        first.is_none_or(|rule| rule.decision == Decision::Allow)
    }

    fn may_register(&self, peer: &Peer, port: &PortName, filter: &Filter) -> bool {
        let wishes = filter.subscriptions();
        if wishes.into_iter().any(|wish| wish.trap == Subscription::ANY) {
            return self.leaves_something(peer, port, wishes.generic.is_some(), wishes.vendor.is_some());
        }
        wishes.into_iter().all(|wish| self.allows(peer, port, &wish))
    }

    fn may_receive(&self, peer: &Peer, port: &PortName, notice: &Notice) -> bool {
        match self.decision(peer, port, Kind::of(notice)) {
            Some(decision) => decision == Decision::Allow,
            None => self.otherwise.may_receive(peer, port, notice),
        }
    }

    fn limits(&self, peer: &Peer, defaults: Limits) -> Limits {
        let limits = self.limits.over(defaults);
        let first = self.overrides.iter().find(|one| one.who.has(peer));
        first.map_or(limits, |one| one.limits.over(limits))
    }

    fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}
