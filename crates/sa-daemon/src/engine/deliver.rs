//! From a MAD to the queues of those who want what it says.

use std::sync::Arc;

use ibv_sa_wire::mad::{Notice, Received};

use super::context::Context;
use super::queue::Item;
use super::registration::Standing;
use super::types::{Address, ClientId, Level, PortId};
use super::{Action, Engine, Reply, ctx};

/// A notice as it was received, shared by all who get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// When.
    pub time: u64,
    /// LID of the SA.
    pub source_lid: u16,
    /// Masked.
    pub notice: Notice,
}

/// One thing to tell a client.
pub type Outgoing = Item<Reply>;

impl Engine {
    pub(super) fn mad(&mut self, now: u64, port: PortId, from: Address, mad: &[u8]) {
        let Some(entry) = self.ports.get_mut(&port) else { return };
        let received = match Received::decode(mad) {
            Ok(received) => received,
            Err(error) => {
                self.counters.mads_malformed += 1;
                let name = &entry.port.name;
                ctx!(self, now).log(Level::Warning, "malformed MAD", || {
                    format!("{name}: from LID {}: {error}", from.lid)
                });
                return;
            }
        };
        match received {
            Received::Report(report) => {
                self.counters.reports += 1;
                match entry.port.report(from, &report, &mut ctx!(self, now)) {
                    Some(notice) => self.deliver(now, port, from.lid, notice),
                    None => self.counters.reports_dropped += 1,
                }
            }
            Received::InformInfo { tid, status, .. } => {
                let outcome = entry.port.answered(tid, status, &mut ctx!(self, now));
                self.outcomes(now, port, outcome);
            }
            Received::InformInfoTable { tid, status, records } if status.is_ok() => {
                let outcomes = entry.port.audited(tid, records, &mut ctx!(self, now));
                self.outcomes(now, port, outcomes);
            }
            Received::InformInfoTable { tid, status, .. } => {
                entry.port.not_audited(tid, status, &mut ctx!(self, now));
            }
            _ => self.counters.mads_ignored += 1,
        }
        self.tick(now);
    }

    fn deliver(&mut self, now: u64, port: PortId, source_lid: u16, notice: Notice) {
        let Some(entry) = self.ports.get(&port) else { return };
        let delivery = Arc::new(Delivery { time: now, source_lid, notice });
        let mut wanted = false;
        for id in entry.index.candidates(&notice) {
            let Some(registration) = self.registrations.get_mut(&id) else { continue };
            let Some(client) = self.clients.get_mut(&registration.client) else { continue };
            if registration.standing != Standing::Active || !registration.filter.matches(&notice) {
                continue;
            }
            if !self.policy.may_receive(&client.peer, &entry.port.name, &notice) {
                continue;
            }
            wanted = true;
            registration.sequence += 1;
            let uid = client.peer.uid;
            let room = self.users.get(uid).queued < client.limits.queued;
            if client.queue.is_empty() {
                self.actions.push(Action::Wake { client: registration.client });
            }
            if client.queue.push_notice(registration.name, registration.sequence, &delivery, room) {
                self.users.change(uid, |usage| usage.queued += 1);
                self.counters.delivered += 1;
            } else {
                self.counters.lost += 1;
                let peer = &client.peer;
                ctx!(self, now).log(Level::Warning, "overflow", || {
                    let comm = peer.comm.escape_debug();
                    format!(
                        "client {} ({comm}) of user {} reads too slowly: notices are lost",
                        peer.pid, peer.uid
                    )
                });
            }
        }
        if !wanted {
            self.counters.notices_unwanted += 1;
        }
    }

    /// The next thing to tell a client. Stays until [`Engine::sent`].
    pub fn outgoing(&mut self, client: ClientId) -> Option<&Outgoing> {
        self.clients.get_mut(&client)?.queue.front()
    }

    /// The client's socket has taken [`Engine::outgoing`].
    pub fn sent(&mut self, client: ClientId) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        if client.queue.pop() {
            self.users.change(client.peer.uid, |usage| usage.queued -= 1);
        }
    }

    /// Answers that a client has not read. Whoever asks without reading is not to be read from either.
    pub fn unread_replies(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |client| client.queue.replies())
    }
}
