//! The subscription engine: shares a port's subscriptions at the SA between the programs of a host.
//!
//! A state machine and nothing else. Everything that happens is an [`Event`] with its time, everything to do is
//! an [`Action`]; time passes only when [`Engine::next_deadline`] is brought back as [`Event::Timer`].

mod answers;
mod audit;
mod client;
mod context;
mod deliver;
mod fault;
mod lease;
mod plan;
mod policy;
mod port;
mod queue;
mod recent;
mod registration;
mod status;
mod subscription;
#[cfg(test)]
mod tests;
mod types;
mod work;

use std::collections::{BTreeMap, HashMap};

pub use client::{Reply, Request, Usage};
pub use deliver::{Delivery, Outgoing};
pub use policy::{DefaultPolicy, Limits, Policy, Settings};
pub use status::{ClientStatus, Counters, OwnerStatus, PortStatus, Status, SubscriptionStatus};
pub use types::{
    Action, Address, ClientId, Event, Level, Peer, PortId, PortInfo, PortName, PortState, Record,
};

use ibv_sa_wire::Filter;

use client::{Client, Users};
pub(crate) use context::Limiter;
use context::{Context, Random};
use fault::Fault;
use port::Port;
use queue::Queue;
use registration::{Index, Registration, RegistrationId, Standing};

/// A port and who wants something of it.
struct Entry {
    port: Port,
    index: Index,
}

/// The engine.
pub struct Engine {
    settings: Settings,
    policy: Box<dyn Policy>,
    random: Random,
    limiter: Limiter,
    actions: Vec<Action>,
    clients: BTreeMap<ClientId, Client>,
    users: Users,
    registrations: HashMap<RegistrationId, Registration>,
    ports: BTreeMap<PortId, Entry>,
    next_registration: u64,
    next_port: u32,
    counters: Counters,
    ending: bool,
}

/// The parts of the engine that a context borrows, so that the others stay free.
macro_rules! ctx {
    ($engine:expr, $now:expr) => {
        Context {
            now: $now,
            settings: &$engine.settings,
            random: &mut $engine.random,
            actions: &mut $engine.actions,
            limiter: &mut $engine.limiter,
        }
    };
}
use ctx;

impl Engine {
    /// An engine with nothing to do.
    pub fn new(settings: Settings, policy: Box<dyn Policy>) -> Self {
        Engine {
            random: Random::new(settings.seed),
            settings,
            policy,
            limiter: Limiter::default(),
            actions: Vec::new(),
            clients: BTreeMap::new(),
            users: Users::default(),
            registrations: HashMap::new(),
            ports: BTreeMap::new(),
            next_registration: 0,
            next_port: 0,
            counters: Counters::default(),
            ending: false,
        }
    }

    /// Something happened at `now`, in nanoseconds of a clock that never goes back. Returns what is to be done, in
    /// this order.
    pub fn handle(&mut self, now: u64, event: Event) -> Vec<Action> {
        match event {
            Event::ClientConnected { client, peer } => self.connected(now, client, peer),
            Event::ClientGone { client } => self.gone(now, client),
            Event::ClientRequest { client, request } => self.request(now, client, request),
            Event::PortOpened { port, info, state } => self.port_opened(now, port, info, state),
            Event::PortFailed { port, status, reason } => self.port_failed(now, port, status, &reason),
            Event::PortState { port, state } => self.port_state(now, port, state),
            Event::PortReregister { port } => self.port_reregister(now, port),
            Event::Note { port, text } => {
                let Some(entry) = self.ports.get(&port) else { return Vec::new() };
                let name = &entry.port.name;
                ctx!(self, now).log(Level::Info, "transport", || format!("{name}: {}", text.escape_debug()));
            }
            Event::Mad { port, from, mad } => self.mad(now, port, from, &mad),
            Event::SendFailed { port, tid } => {
                let Some(entry) = self.ports.get_mut(&port) else { return Vec::new() };
                let outcome = entry.port.send_failed(tid, &mut ctx!(self, now));
                self.outcomes(now, port, outcome);
            }
            Event::Timer => self.tick(now),
        }
        std::mem::take(&mut self.actions)
    }

    /// When to come back with [`Event::Timer`], if nothing else happens.
    pub fn next_deadline(&self) -> Option<u64> {
        self.ports.values().filter_map(|entry| entry.port.deadline()).min()
    }

    /// Ends all registrations. Once [`Engine::is_idle`], nothing of ours is left at the SA.
    pub fn end(&mut self, now: u64) -> Vec<Action> {
        self.ending = true;
        for client in self.clients.keys().copied().collect::<Vec<_>>() {
            self.gone(now, client);
        }
        for entry in self.ports.values_mut() {
            entry.port.end(&mut ctx!(self, now));
        }
        self.tick(now);
        std::mem::take(&mut self.actions)
    }

    /// No port is in use.
    pub fn is_idle(&self) -> bool {
        self.ports.is_empty()
    }

    /// Another policy from now on. What is there stays, but brings only what the new one allows; what waits already,
    /// and how much may wait for a connection, stay too.
    pub fn set_policy(&mut self, policy: Box<dyn Policy>) {
        for client in self.clients.values_mut() {
            client.limits = policy.limits(&client.peer, self.settings.limits());
        }
        self.policy = policy;
    }

    /// What a client's user may have.
    pub fn limits(&self, client: ClientId) -> Option<Limits> {
        self.clients.get(&client).map(|client| client.limits)
    }

    fn tick(&mut self, now: u64) {
        let due = |entry: &Entry| entry.port.deadline().is_some_and(|deadline| deadline <= now);
        let ports: Vec<PortId> =
            self.ports.iter().filter(|(_, entry)| due(entry)).map(|(port, _)| *port).collect();
        for port in ports {
            let Some(entry) = self.ports.get_mut(&port) else { continue };
            let (outcomes, close) = entry.port.tick(&mut ctx!(self, now));
            self.outcomes(now, port, outcomes);
            if close {
                self.ports.remove(&port);
                self.actions.push(Action::ClosePort { port });
            }
        }
    }

    fn connected(&mut self, now: u64, client: ClientId, peer: Peer) {
        let limits = self.policy.limits(&peer, self.settings.limits());
        let full = self.users.get(peer.uid).clients >= limits.clients;
        let refused = if self.ending {
            Some((-libc::EBUSY, "the daemon ends"))
        } else if full {
            Some((-libc::EBUSY, "too many connections of this user"))
        } else if !self.policy.may_connect(&peer) {
            Some((-libc::EACCES, "not allowed by the policy"))
        } else {
            None
        };
        if let Some((status, reason)) = refused {
            self.counters.clients_refused += 1;
            ctx!(self, now).log(Level::Warning, "client refused", || {
                format!("client {} ({}) of user {}: {reason}", peer.pid, peer.comm.escape_debug(), peer.uid)
            });
            self.actions.push(Action::CloseClient { client, status, reason });
            return;
        }
        self.users.change(peer.uid, |usage| usage.clients += 1);
        let queue = Queue::new(limits.queued_per_client);
        self.clients.insert(client, Client { peer, limits, registrations: HashMap::new(), queue });
    }

    fn gone(&mut self, now: u64, id: ClientId) {
        let Some(client) = self.clients.remove(&id) else { return };
        let queued = client.queue.notices();
        self.users.change(client.peer.uid, |usage| {
            usage.clients -= 1;
            usage.queued -= queued;
        });
        let mut registrations: Vec<_> = client.registrations.into_values().collect();
        registrations.sort_unstable();
        for registration in registrations {
            self.drop_registration(now, registration, client.peer.uid);
        }
        self.tick(now);
    }

    /// Why a registration of that name would be refused whatever it is for.
    pub fn refusal(&self, client: ClientId, name: u64) -> Option<i32> {
        let client = self.clients.get(&client)?;
        let usage = self.users.get(client.peer.uid);
        if client.registrations.contains_key(&name) {
            Some(-libc::EEXIST)
        } else if usage.registrations >= client.limits.registrations || self.ending {
            Some(-libc::EBUSY)
        } else {
            None
        }
    }

    fn request(&mut self, now: u64, id: ClientId, request: Request) {
        let refusal = match &request {
            Request::Register { id: name, .. } => self.refusal(id, *name),
            _ => None,
        };
        let Some(client) = self.clients.get_mut(&id) else { return };
        match request {
            Request::Register { id: name, port, filter, auto_reregister } => {
                let port = match (refusal, port) {
                    (Some(status), _) => Err(status),
                    (None, Ok(port)) if filter.check().is_err() || port.number == 0 => Err(-libc::EINVAL),
                    (None, Ok(port)) if !self.policy.may_register(&client.peer, &port, &filter) => {
                        Err(-libc::EACCES)
                    }
                    (None, other) => other,
                };
                let status = port.as_ref().err().copied().unwrap_or(0);
                client.queue.push_reply(Reply::Registered { id: name, status });
                self.actions.push(Action::Wake { client: id });
                match port {
                    Ok(port) => self.register(now, id, name, port, filter, auto_reregister),
                    Err(_) => self.counters.registrations_refused += 1,
                }
            }
            Request::Unregister { id: name } => {
                let uid = client.peer.uid;
                client.queue.forget(name);
                client.queue.push_reply(Reply::Unregistered { id: name });
                self.actions.push(Action::Wake { client: id });
                if let Some(registration) = client.registrations.remove(&name) {
                    self.drop_registration(now, registration, uid);
                    self.tick(now);
                }
            }
            Request::Status { query } => {
                client.queue.push_reply(Reply::Status { query });
                self.actions.push(Action::Wake { client: id });
            }
        }
    }

    fn register(
        &mut self,
        now: u64,
        client: ClientId,
        name: u64,
        port_name: PortName,
        filter: Filter,
        auto_reregister: bool,
    ) {
        let port = self.port(now, port_name);
        let id = RegistrationId(self.next_registration);
        self.next_registration += 1;
        let registration = Registration {
            client,
            name,
            port,
            filter,
            auto_reregister,
            standing: Standing::Pending,
            sequence: 0,
        };
        let Some(entry) = self.ports.get_mut(&port) else { return };
        entry.index.insert(id, registration.wishes());
        for wish in registration.wishes() {
            entry.port.want(wish, &mut ctx!(self, now));
        }
        entry.port.hurry();
        if let Some(client) = self.clients.get_mut(&client) {
            client.registrations.insert(name, id);
            self.users.change(client.peer.uid, |usage| usage.registrations += 1);
        }
        self.registrations.insert(id, registration);
        self.check(now, id);
        self.tick(now);
    }

    /// The port of that name, opened if need be.
    fn port(&mut self, now: u64, name: PortName) -> PortId {
        // A device that came back under another name is the same one, and the kernel gives its reports once.
        let is_it = |known: &PortName| {
            let same = !name.guid.is_zero() && (known.guid, known.number) == (name.guid, name.number);
            *known == name || same
        };
        if let Some((port, _)) = self.ports.iter().find(|(_, entry)| is_it(&entry.port.name)) {
            return *port;
        }
        let id = PortId(self.next_port);
        self.next_port += 1;
        let port = Port::open(id, name, &mut ctx!(self, now));
        self.ports.insert(id, Entry { port, index: Index::default() });
        id
    }

    /// The registration is out of its client's books already.
    fn drop_registration(&mut self, now: u64, id: RegistrationId, uid: u32) {
        self.release(now, id);
        if self.registrations.remove(&id).is_some() {
            self.users.change(uid, |usage| usage.registrations -= 1);
        }
    }

    /// The registration wants nothing of the port any more.
    fn release(&mut self, now: u64, id: RegistrationId) {
        let Some(registration) = self.registrations.get(&id) else { return };
        let Some(entry) = self.ports.get_mut(&registration.port) else { return };
        if entry.index.remove(id, registration.wishes()) {
            for wish in registration.wishes().filter(|_| !fault::is(Fault::LeakedWish)) {
                entry.port.unwant(wish, &mut ctx!(self, now));
            }
        }
    }
}
