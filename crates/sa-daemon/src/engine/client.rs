//! Connected programs and what each user has.

use std::collections::{BTreeMap, HashMap};

use ibv_sa_wire::Filter;

use super::policy::Limits;
use super::queue::Queue;
use super::registration::RegistrationId;
use super::types::{Peer, PortName};

/// What a program asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// To get the notices of a port.
    Register {
        /// What the client calls it.
        id: u64,
        /// Which port, or why there is none: a negative errno.
        port: Result<PortName, i32>,
        /// Which notices.
        filter: Filter,
        /// Make it again after it was lost.
        auto_reregister: bool,
    },
    /// To get them no more.
    Unregister {
        /// The registration.
        id: u64,
    },
    /// How the daemon does: see `Engine::status`.
    Status {
        /// Comes back in the answer.
        query: u32,
    },
}

/// An answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Whether there is such a registration now.
    Registered {
        /// The registration.
        id: u64,
        /// 0 or negative errno.
        status: i32,
    },
    /// Nothing comes for this registration any more.
    Unregistered {
        /// The registration.
        id: u64,
    },
    /// How the daemon does: see `Engine::status`.
    Status {
        /// Of the request.
        query: u32,
    },
}

/// One connection.
pub struct Client {
    /// Who.
    pub peer: Peer,
    /// What its user may have.
    pub limits: Limits,
    /// Its registrations by its own names.
    pub registrations: HashMap<u64, RegistrationId>,
    /// What waits for it.
    pub queue: Queue<Reply>,
}

/// What one user has.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Connections.
    pub clients: usize,
    /// Registrations.
    pub registrations: usize,
    /// Notices that wait.
    pub queued: usize,
}

/// What all users have. A user with nothing is not in it. They are few, and looked up for each notice.
#[derive(Default)]
pub struct Users(BTreeMap<u32, Usage>);

impl Users {
    /// What this user has.
    pub fn get(&self, uid: u32) -> Usage {
        self.0.get(&uid).copied().unwrap_or_default()
    }

    /// Changes it.
    pub fn change(&mut self, uid: u32, change: impl FnOnce(&mut Usage)) {
        let usage = self.0.entry(uid).or_default();
        change(usage);
        if *usage == Usage::default() {
            self.0.remove(&uid);
        }
    }
}
