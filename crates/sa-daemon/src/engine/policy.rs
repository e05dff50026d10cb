//! Times and limits, and who may have what.

use std::path::Path;

use ibv_sa_wire::Filter;
use ibv_sa_wire::mad::Notice;

use super::types::{Peer, PortName};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;

/// Times in nanoseconds, and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a subscription stays after its last user left: the next one may be about to come.
    pub linger: u64,
    /// How long an answer of the SA may take.
    pub answer: u64,
    /// First pause after a request without an answer; doubles each time.
    pub pause: u64,
    /// Longest pause.
    pub longest_pause: u64,
    /// Requests without success before a new registration fails.
    pub attempts: u32,
    /// Wait after a port or SM event, as they come in groups.
    pub settle: u64,
    /// Subscriptions are made again spread over this time: every host of the subnet does it at once.
    pub spread: u64,
    /// Requests that a port may send at once, and then per second.
    pub burst: u32,
    /// See `burst`.
    pub per_second: u32,
    /// Mean time between comparisons with the SA's own table; 0 for never.
    pub audit: u64,
    /// How long a port stays open after its last subscription went: a late Report still gets its answer.
    pub close: u64,
    /// Connections of one user.
    pub clients_per_user: usize,
    /// Registrations of one user.
    pub registrations_per_user: usize,
    /// Notices that wait for one user's clients.
    pub queued_per_user: usize,
    /// Notices that wait for one client.
    pub queued_per_client: usize,
    /// Start of transaction ids and of all that is random. Daemon and monitor mix time and process into it.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            linger: 2 * SECOND,
            answer: SECOND,
            pause: SECOND / 2,
            longest_pause: 30 * SECOND,
            attempts: 4,
            settle: 100 * MILLISECOND,
            spread: 5 * SECOND,
            burst: 5,
            per_second: 20,
            audit: 120 * SECOND,
            close: SECOND,
            clients_per_user: 256,
            registrations_per_user: 16_384,
            queued_per_user: 524_288,
            queued_per_client: 8192,
            seed: 1,
        }
    }
}

impl Settings {
    /// What each user may have, where the policy says nothing else.
    pub fn limits(&self) -> Limits {
        Limits {
            clients: self.clients_per_user,
            registrations: self.registrations_per_user,
            queued: self.queued_per_user,
            queued_per_client: self.queued_per_client,
        }
    }
}

/// How much one user may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections.
    pub clients: usize,
    /// Registrations.
    pub registrations: usize,
    /// Notices that wait for all its clients.
    pub queued: usize,
    /// Notices that wait for one client.
    pub queued_per_client: usize,
}

/// Who may have what. The answers are asked for once per connection, registration and notice.
pub trait Policy: Send {
    /// May this process have a connection at all?
    fn may_connect(&self, peer: &Peer) -> bool;
    /// May it register this on this port?
    fn may_register(&self, peer: &Peer, port: &PortName, filter: &Filter) -> bool;
    /// May it see this notice of this port, under whatever filter?
    fn may_receive(&self, peer: &Peer, port: &PortName, notice: &Notice) -> bool;
    /// How much its user may have; `defaults` are those of the settings.
    fn limits(&self, _peer: &Peer, defaults: Limits) -> Limits {
        defaults
    }
    /// The file that it comes from, if it does.
    fn file(&self) -> Option<&Path> {
        None
    }
}

/// Any local user, but traps 256 to 259, which tell keys, for administrators only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultPolicy {
    /// Users that may have everything.
    pub administrators: Vec<u32>,
}

impl Default for DefaultPolicy {
    fn default() -> Self {
        DefaultPolicy { administrators: vec![0] }
    }
}

impl Policy for DefaultPolicy {
    fn may_connect(&self, _peer: &Peer) -> bool {
        true
    }

    fn may_register(&self, peer: &Peer, _port: &PortName, filter: &Filter) -> bool {
        self.administrators.contains(&peer.uid)
            || !filter.subscriptions().into_iter().any(|wish| wish.needs_trust())
    }

    fn may_receive(&self, peer: &Peer, _port: &PortName, notice: &Notice) -> bool {
        self.administrators.contains(&peer.uid) || !notice.trap().is_some_and(|trap| trap.is_security())
    }
}
