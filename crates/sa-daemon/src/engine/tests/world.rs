//! A host with one port, its SA, and programs.

use std::collections::{BTreeMap, VecDeque};

use ibv_sa_wire::mad::{GSI_QPN, Method, Notice, SaMessage};
use ibv_sa_wire::{Filter, Gid, Guid, Subscription, Trap};

use crate::engine::*;
use crate::transport::embedded::Sa;

pub const MILLISECOND: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MILLISECOND;

/// What a client was told, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Registered(u64, i32),
    Unregistered(u64),
    Status(u64, i32),
    /// Registration, trap number, last byte of the GID.
    Notice(u64, u16, u8),
    Lost(u64, u64),
}

pub struct World {
    pub now: u64,
    pub engine: Engine,
    pub sa: Sa,
    pub state: PortState,
    pub told: BTreeMap<u64, Vec<Told>>,
    pub logs: Vec<String>,
    /// Clients that do not read.
    pub deaf: Vec<u64>,
    /// Ports that are open.
    pub open: Vec<PortId>,
    /// Lets the transport answer.
    pub fails: Option<i32>,
    /// Answers of the SA that are kept back.
    pub held: Option<Vec<Event>>,
    /// Drops requests to the SA for which it returns true.
    pub lose: Box<dyn FnMut() -> bool>,
    pub sets_at: Vec<u64>,
    /// Questions in a row for the SA's table that had no answer at once.
    pub tables_missed: u32,
    /// Reports that reached the engine, and its answers.
    pub reports: usize,
    pub responses: usize,
    pub closed: Vec<(u64, i32, &'static str)>,
    work: VecDeque<Event>,
}

pub fn port() -> PortName {
    PortName { device: "ibsim0".into(), number: 1, guid: Guid::ZERO }
}

pub fn gid(last: u8) -> Gid {
    let mut gid = [0; 16];
    (gid[0], gid[1], gid[15]) = (0xFE, 0x80, last);
    Gid(gid)
}

pub fn about(trap: Trap, last: u8) -> Notice {
    Notice::about_gid(trap, gid(last), 1, gid(1))
}

impl World {
    pub fn new() -> Self {
        World::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Self {
        World {
            now: SECOND,
            engine: Engine::new(settings, Box::new(DefaultPolicy::default())),
            sa: Sa::default(),
            state: PortState { active: true, lid: 7, sm_lid: 1, sm_sl: 0, gid: gid(7) },
            told: BTreeMap::new(),
            logs: Vec::new(),
            deaf: Vec::new(),
            open: Vec::new(),
            fails: None,
            held: None,
            lose: Box::new(|| false),
            sets_at: Vec::new(),
            tables_missed: 0,
            reports: 0,
            responses: 0,
            closed: Vec::new(),
            work: VecDeque::new(),
        }
    }

    /// Something happens now, and all that follows at once.
    pub fn event(&mut self, event: Event) {
        self.work.push_back(event);
        while let Some(event) = self.work.pop_front() {
            let actions = self.engine.handle(self.now, event);
            self.act(actions);
        }
    }

    pub fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::OpenPort { port, .. } => {
                    self.open.push(port);
                    let info = PortInfo { long_tables: true, ..Default::default() };
                    self.work.push_back(match self.fails {
                        None => Event::PortOpened { port, info, state: self.state },
                        Some(status) => Event::PortFailed { port, status, reason: "test".into() },
                    });
                }
                Action::ClosePort { port } => self.open.retain(|one| *one != port),
                Action::SendMad { port, to, mad, .. } => self.send(port, to, &mad[..]),
                Action::Wake { client } => {
                    if !self.deaf.contains(&client.0) {
                        self.read(client.0);
                    }
                }
                Action::CloseClient { client, status, reason } => {
                    self.closed.push((client.0, status, reason))
                }
                Action::Log(record) => self.logs.push(record.text),
            }
        }
    }

    fn send(&mut self, port: PortId, to: Address, mad: &[u8]) {
        let method = SaMessage::parse(mad).expect("a MAD of the engine is one").headers.mad.method;
        if method == Method::REPORT_RESP {
            self.responses += 1;
            return;
        }
        assert!(self.state.is_ready(), "nothing is sent on a port that is down");
        if method == Method::SET {
            self.sets_at.push(self.now);
        }
        let asks_for_table = method == Method::GET_TABLE;
        self.tables_missed += u32::from(asks_for_table);
        if to.lid != self.state.sm_lid || (self.lose)() {
            return;
        }
        if let Some(mad) = self.sa.receive(self.state.lid, self.state.gid, mad) {
            let event = Event::Mad { port, from: to, mad };
            if asks_for_table && self.held.is_none() {
                self.tables_missed = 0;
            }
            match &mut self.held {
                Some(held) => held.push(event),
                None => self.work.push_back(event),
            }
        }
    }

    pub fn read(&mut self, client: u64) {
        let told = self.told.entry(client).or_default();
        while let Some(item) = self.engine.outgoing(ClientId(client)) {
            told.push(match item.clone() {
                Outgoing::Reply(Reply::Registered { id, status }) => Told::Registered(id, status),
                Outgoing::Reply(Reply::Unregistered { id }) => Told::Unregistered(id),
                Outgoing::Reply(Reply::Status { .. }) | Outgoing::Nothing => unreachable!(),
                Outgoing::Status { id, status } => Told::Status(id, status),
                Outgoing::Notice { id, delivery, .. } => Told::Notice(
                    id,
                    delivery.notice.number.get(),
                    delivery.notice.gid().map_or(0, |gid| gid.0[15]),
                ),
                Outgoing::Overflow { id, lost } => Told::Lost(id, lost),
            });
            self.engine.sent(ClientId(client));
        }
    }

    pub fn connect(&mut self, client: u64, uid: u32) {
        let peer = Peer { uid, gid: uid, groups: Vec::new(), pid: client as u32, comm: "prog".into() };
        self.event(Event::ClientConnected { client: ClientId(client), peer });
    }

    pub fn gone(&mut self, client: u64) {
        self.event(Event::ClientGone { client: ClientId(client) });
    }

    pub fn request(&mut self, client: u64, request: Request) {
        self.event(Event::ClientRequest { client: ClientId(client), request });
    }

    pub fn register(&mut self, client: u64, id: u64, filter: Filter, auto_reregister: bool) {
        self.request(client, Request::Register { id, port: Ok(port()), filter, auto_reregister });
    }

    pub fn unregister(&mut self, client: u64, id: u64) {
        self.request(client, Request::Unregister { id });
    }

    /// What this client was told since the last look.
    pub fn told(&mut self, client: u64) -> Vec<Told> {
        self.told.insert(client, Vec::new()).unwrap_or_default()
    }

    /// Time passes.
    pub fn pass(&mut self, time: u64) {
        let end = self.now + time;
        let mut steps = 0;
        while let Some(deadline) = self.engine.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.event(Event::Timer);
            steps += 1;
            assert!(steps < 1_000_000, "the engine spins");
        }
        self.now = end;
    }

    /// The SA learns of something; its Reports arrive `copies` times each.
    pub fn happen(&mut self, notice: Notice, copies: usize) {
        for (lid, report) in self.sa.happen(&notice) {
            for _ in 0..copies {
                self.report(lid, report.as_bytes());
            }
        }
    }

    pub fn report(&mut self, lid: u16, report: &[u8]) {
        let Some(port) = self.open.first().copied() else { return };
        if lid == self.state.lid && self.state.is_ready() {
            let from = Address { lid: self.state.sm_lid, qpn: GSI_QPN, sl: 0, pkey_index: 0 };
            self.reports += 1;
            self.event(Event::Mad { port, from, mad: report.to_vec() });
        }
    }

    /// The port changes.
    pub fn port(&mut self, state: PortState) {
        self.state = state;
        if let Some(port) = self.open.first().copied() {
            self.event(Event::PortState { port, state });
        }
    }

    /// Answers of the SA come late from now on, or those that were kept back come.
    pub fn hold(&mut self, on: bool) {
        if on {
            self.held.get_or_insert_default();
        } else {
            self.held.take().into_iter().flatten().for_each(|late| self.event(late));
        }
    }

    /// What the SA has of ours.
    pub fn subscribed(&self) -> Vec<Subscription> {
        let mut all: Vec<_> = self.sa.subscribers.iter().map(|one| one.subscription).collect();
        all.sort();
        all
    }
}
