//! What port events and the SA's answers mean for registrations.

use ibv_sa_wire::Subscription;

use super::context::Context;
use super::port::Outcome;
use super::registration::{Registration, RegistrationId, Standing};
use super::types::{Level, PortId, PortInfo, PortState};
use super::{Action, Engine, Entry, Fault, ctx, fault, work};

impl Engine {
    pub(super) fn port_opened(&mut self, now: u64, port: PortId, info: PortInfo, state: PortState) {
        let Some(entry) = self.ports.get_mut(&port) else { return };
        entry.port.opened(info, state, &mut ctx!(self, now));
        let name = &entry.port.name;
        ctx!(self, now).log(Level::Info, "open", || {
            format!("{name}: open, LID {}, SM at LID {}", state.lid, state.sm_lid)
        });
        self.check_waiting(now, port);
        self.tick(now);
    }

    pub(super) fn port_failed(&mut self, now: u64, port: PortId, status: i32, reason: &str) {
        let Some(entry) = self.ports.get_mut(&port) else { return };
        entry.port.failed(&mut ctx!(self, now));
        let name = &entry.port.name;
        ctx!(self, now).log(Level::Error, "port failed", || format!("{name}: {}", reason.escape_debug()));
        self.lease_lost(now, port);
        // What programs are told is a closed set; the log has the rest.
        let status = match -status {
            libc::EBUSY | libc::EOPNOTSUPP => status,
            libc::EACCES | libc::EPERM => -libc::EACCES,
            // No driver behind the node, another one, or no node.
            libc::ENODEV | libc::ENXIO | libc::ENOTTY | libc::ENOENT => -libc::ENODEV,
            _ => -libc::ENETDOWN,
        };
        for id in self.waiting(port, |_| true) {
            self.set_status(now, id, status);
        }
        self.tick(now);
    }

    pub(super) fn port_state(&mut self, now: u64, port: PortId, state: PortState) {
        let Some(entry) = self.ports.get_mut(&port) else { return };
        if entry.port.changed(state, &mut ctx!(self, now)) {
            self.lease_lost(now, port);
        }
        self.check_waiting(now, port);
        self.tick(now);
    }

    pub(super) fn port_reregister(&mut self, now: u64, port: PortId) {
        let Some(entry) = self.ports.get_mut(&port) else { return };
        if entry.port.reregister(&mut ctx!(self, now)) {
            self.lease_lost(now, port);
        }
        self.tick(now);
    }

    /// Tells every registration of the port that was active that notices may have been missed.
    fn lease_lost(&mut self, now: u64, port: PortId) {
        if fault::is(Fault::UntoldGap) {
            return;
        }
        // Several events in a row are one loss.
        self.counters.leases_lost += u64::from(self.gap(now, port, |_, _| true));
    }

    pub(super) fn outcomes(&mut self, now: u64, port: PortId, outcomes: impl IntoIterator<Item = Outcome>) {
        for outcome in outcomes {
            match outcome {
                Outcome::Standing => self.check_waiting(now, port),
                Outcome::Lost => {
                    self.gap(now, port, |entry, wish| !entry.port.is_served(wish));
                }
                Outcome::Forgotten(subscription) => {
                    self.gap(now, port, |_, wish| subscription.covers(wish));
                    self.check_waiting(now, port);
                }
                Outcome::Failed(subscription, status) => {
                    let Some(entry) = self.ports.get(&port) else { return };
                    let failed: Vec<RegistrationId> = self
                        .waiting(port, |one| one == Standing::Pending)
                        .into_iter()
                        .filter(|id| {
                            let mut wishes = self.registrations[id].wishes();
                            wishes.any(|wish| entry.port.carrier(&wish) == Some(subscription))
                        })
                        .collect();
                    for id in failed {
                        self.set_status(now, id, status);
                    }
                    // Of those that are active it was asked for again, and did not stand any more.
                    self.gap(now, port, |entry, wish| !entry.port.is_served(wish));
                }
            }
        }
    }

    fn waiting(&self, port: PortId, which: impl Fn(Standing) -> bool) -> Vec<RegistrationId> {
        let Some(entry) = self.ports.get(&port) else { return Vec::new() };
        let standing =
            |id: &RegistrationId| self.registrations.get(id).is_some_and(|one| which(one.standing));
        entry.index.waiting.iter().copied().filter(standing).collect()
    }

    /// Those that wait and now have what they wait for, or never will.
    pub(super) fn check_waiting(&mut self, now: u64, port: PortId) {
        for id in self.waiting(port, |_| true) {
            self.check(now, id);
        }
    }

    /// One of them.
    pub(super) fn check(&mut self, now: u64, id: RegistrationId) {
        work::steps(1);
        let Some(registration) = self.registrations.get(&id) else { return };
        let Some(entry) = self.ports.get(&registration.port) else { return };
        if registration.wishes().all(|wish| entry.port.is_served(&wish)) {
            self.set_status(now, id, 0);
        } else if entry.port.is_open() && !entry.port.is_ready() {
            self.set_status(now, id, -libc::ENETDOWN);
        }
    }

    /// Tells those that are active and may have missed something: one of their wishes is one of these. Returns whether
    /// there are any.
    fn gap(&mut self, now: u64, port: PortId, is_one: impl Fn(&Entry, &Subscription) -> bool) -> bool {
        let Some(entry) = self.ports.get(&port) else { return false };
        let is_hit = |one: &Registration| {
            one.standing == Standing::Active && one.wishes().any(|wish| is_one(entry, &wish))
        };
        let all = entry.index.all.iter().copied();
        let hit: Vec<_> = all.filter(|id| self.registrations.get(id).is_some_and(is_hit)).collect();
        let any = !hit.is_empty();
        for id in hit {
            self.set_status(now, id, -libc::ENETRESET);
        }
        any
    }

    /// Tells a registration's client, and lets go of what is lost for good.
    fn set_status(&mut self, now: u64, id: RegistrationId, status: i32) {
        let Some(registration) = self.registrations.get_mut(&id) else { return };
        let (client, port) = (registration.client, registration.port);
        // A gap lasts until the subscription stands again; why it lasts is for the log. What passes by itself is one:
        // a program that was promised a 0 waits for it, whatever happened before the first one.
        let passes = matches!(-status, libc::ENETRESET | libc::ETIMEDOUT | libc::EBUSY | libc::ENETDOWN);
        let keep = registration.auto_reregister && (passes || registration.standing == Standing::Gap);
        let before = registration.standing;
        registration.standing = match status {
            0 => Standing::Active,
            _ if keep => Standing::Gap,
            _ => Standing::Lost,
        };
        if let Some(entry) = self.ports.get_mut(&port) {
            match registration.standing {
                Standing::Gap => entry.index.waiting.insert(id),
                _ => entry.index.waiting.remove(&id),
            };
        }
        if registration.standing == before {
            return;
        }
        if let Some(client) = self.clients.get_mut(&client) {
            client.queue.push_status(registration.name, status);
            self.actions.push(Action::Wake { client: registration.client });
        }
        if registration.standing == Standing::Lost {
            self.release(now, id);
        }
    }
}
