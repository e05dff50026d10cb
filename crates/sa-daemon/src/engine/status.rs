//! What an operator may see of the engine.

use ibv_sa_wire::Subscription;

use super::Engine;
use super::port::Link;
use super::subscription::Phase;
use super::types::{Peer, PortName, PortState};

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
    /// Registrations that need it.
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
    /// Ports in use.
    pub ports: Vec<PortStatus>,
    /// Connected programs.
    pub clients: Vec<ClientStatus>,
    /// Since the start.
    pub counters: Counters,
}

impl Engine {
    /// How everything is.
    pub fn status(&self) -> Status {
        let ports = self.ports.values().map(|entry| PortStatus {
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
                    registrations: entry.port.users(subscription),
                })
                .collect(),
        });
        let clients = self.clients.values().map(|client| ClientStatus {
            peer: client.peer.clone(),
            registrations: client.registrations.len(),
            queued: client.queue.notices(),
            lost: client.queue.lost(),
        });
        Status { ports: ports.collect(), clients: clients.collect(), counters: self.counters }
    }
}
