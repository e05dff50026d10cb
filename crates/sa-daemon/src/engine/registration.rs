//! Registrations: what one program wants of one port, found by notice.

use std::collections::{BTreeSet, HashMap};

use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::{Filter, Subscription};

use super::types::{ClientId, PortId};

/// Never used again for another registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistrationId(pub u64);

/// Where a registration stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its program has heard nothing yet.
    Pending,
    /// Status 0 was told; notices are delivered.
    Active,
    /// What passes by itself was told, -ENETRESET most of the time, and will be followed by 0.
    Gap,
    /// A negative status was told, and nothing will follow.
    Lost,
}

/// One registration.
#[derive(Debug)]
pub struct Registration {
    /// Whose.
    pub client: ClientId,
    /// What the client calls it.
    pub name: u64,
    /// On which port.
    pub port: PortId,
    /// What it wants.
    pub filter: Filter,
    /// Make it again after it was lost.
    pub auto_reregister: bool,
    /// Where it stands.
    pub standing: Standing,
    /// Notices that matched so far.
    pub sequence: u64,
}

impl Registration {
    /// What has to stand at the SA for it.
    pub fn wishes(&self) -> impl Iterator<Item = Subscription> + use<> {
        self.filter.subscriptions().into_iter()
    }
}

/// The registrations of a port by the numbers they want.
#[derive(Debug, Default)]
pub struct Index {
    by_number: HashMap<(bool, u16), BTreeSet<RegistrationId>>,
    /// Those that wait for a subscription.
    pub waiting: BTreeSet<RegistrationId>,
    /// All of them.
    pub all: BTreeSet<RegistrationId>,
}

impl Index {
    /// Takes one in, as waiting.
    pub fn insert(&mut self, id: RegistrationId, wishes: impl Iterator<Item = Subscription>) {
        self.all.insert(id);
        self.waiting.insert(id);
        for wish in wishes {
            self.by_number.entry((wish.is_generic, wish.trap)).or_default().insert(id);
        }
    }

    /// Takes one out. Returns whether it was in.
    pub fn remove(&mut self, id: RegistrationId, wishes: impl Iterator<Item = Subscription>) -> bool {
        self.waiting.remove(&id);
        let was_in = self.all.remove(&id);
        for wish in wishes {
            let number = (wish.is_generic, wish.trap);
            if let Some(ids) = self.by_number.get_mut(&number) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_number.remove(&number);
                }
            }
        }
        was_in
    }

    /// Those whose number matches, each once.
    pub fn candidates(&self, notice: &Notice) -> impl Iterator<Item = RegistrationId> {
        let generic = notice.is_generic();
        let number = notice.number.get();
        // A filter has one number for a kind of notice, so that no registration is under both.
        let any = (number != Subscription::ANY).then_some((generic, Subscription::ANY));
        let keys = [Some((generic, number)), any];
        keys.into_iter().flatten().filter_map(|key| self.by_number.get(&key)).flatten().copied()
    }
}
