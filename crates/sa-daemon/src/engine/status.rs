//! What an operator may see of the engine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ibv_sa_wire::Subscription;

use super::Engine;
use super::port::Link;
use super::subscription::Phase;
use super::types::{ClientId, Peer, PortId, PortName, PortState};

/// Events since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reports that came.
    pub reports: u64,
    /// Of those, repeated ones and ones from somewhere else than the SM.
    pub reports_dropped: u64,
    /// Notices that no registration wanted.
    pub notices_unwanted: u64,
    /// Notices queued for a registration.
    pub delivered: u64,
    /// Notices that found a full queue.
    pub lost: u64,
    /// MADs that could not be read.
    pub mads_malformed: u64,
    /// MADs that are not for us.
    pub mads_ignored: u64,
    /// Times that all subscriptions of a port may have been lost.
    pub leases_lost: u64,
    /// Connections refused.
    pub clients_refused: u64,
    /// Registrations refused by policy or limits.
    pub registrations_refused: u64,
}

/// A subscription at the SA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionStatus {
    /// What of.
    pub subscription: Subscription,
    /// Where it stands: "wanted", "asking", "standing", "leaving" or "withdrawing".
    pub phase: &'static str,
    /// Whose registrations need it.
    pub owners: Vec<OwnerStatus>,
}

/// A program that needs a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerStatus {
    /// Who.
    pub peer: Peer,
    /// Its registrations that need it.
    pub registrations: usize,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortStatus {
    /// Which.
    pub name: PortName,
    /// The transport has it.
    pub open: bool,
    /// How it is.
    pub state: PortState,
    /// Its subscriptions.
    pub subscriptions: Vec<SubscriptionStatus>,
    /// Its registrations.
    pub registrations: usize,
}

/// A connected program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientStatus {
    /// Who.
    pub peer: Peer,
    /// Its registrations.
    pub registrations: usize,
    /// Notices that wait.
    pub queued: usize,
    /// Notices lost.
    pub lost: u64,
}

/// The whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The file that the policy comes from; none if it is the built-in one.
    pub policy: Option<PathBuf>,
    /// Ports in use.
    pub ports: Vec<PortStatus>,
    /// Connected programs.
    pub clients: Vec<ClientStatus>,
    /// Since the start.
    pub counters: Counters,
}

impl Engine {
    /// Who needs which subscription, with how many registrations.
    fn owners(&self) -> BTreeMap<(PortId, Subscription), BTreeMap<ClientId, usize>> {
        let mut owners: BTreeMap<_, BTreeMap<ClientId, usize>> = BTreeMap::new();
        for (port, entry) in &self.ports {
            for registration in entry.index.all.iter().filter_map(|id| self.registrations.get(id)) {
                for carrier in registration.wishes().filter_map(|wish| entry.port.carrier(&wish)) {
                    let clients = owners.entry((*port, carrier)).or_default();
                    *clients.entry(registration.client).or_default() += 1;
                }
            }
        }
        owners
    }

    /// How everything is.
    pub fn status(&self) -> Status {
        let mut owners = self.owners();
        let mut owners_of = |port: PortId, subscription: Subscription| -> Vec<OwnerStatus> {
            let clients = owners.remove(&(port, subscription)).unwrap_or_default();
            let owner = |(client, registrations): (ClientId, usize)| {
                let peer = self.clients.get(&client)?.peer.clone();
                Some(OwnerStatus { peer, registrations })
            };
            clients.into_iter().filter_map(owner).collect()
        };
        let ports = self.ports.iter().map(|(id, entry)| PortStatus {
            name: entry.port.name.clone(),
            open: matches!(entry.port.link, Link::Open(_)),
            state: entry.port.state,
            registrations: entry.index.all.len(),
            subscriptions: entry
                .port
                .subscriptions
                .iter()
                .map(|(subscription, state)| SubscriptionStatus {
                    subscription: *subscription,
                    phase: match state.phase {
                        Phase::Idle => "wanted",
                        Phase::Asking => "asking",
                        Phase::Standing => "standing",
                        Phase::Leaving => "leaving",
                        Phase::Withdrawing => "withdrawing",
                    },
                    owners: owners_of(*id, *subscription),
                })
                .collect(),
        });
        let clients = self.clients.values().map(|client| ClientStatus {
            peer: client.peer.clone(),
            registrations: client.registrations.len(),
            queued: client.queue.notices(),
            lost: client.queue.lost(),
        });
        let policy = self.policy.file().map(PathBuf::from);
        Status { policy, ports: ports.collect(), clients: clients.collect(), counters: self.counters }
    }
}
