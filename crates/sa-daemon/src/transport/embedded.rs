//! An SA inside the process, for tests.
//!
//! It does what OpenSM does as far as subscriptions go: a repeated one stands once, each one that matches sends its
//! own Report, an end that matches nothing is refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibv_sa_wire::mad::{
    Attribute, GSI_QPN, InformInfoRecord, Method, Notice, SaMad, SaMessage, Status, Subscription, reply,
};
use ibv_sa_wire::proto::PortSelector;
use ibv_sa_wire::{Gid, Guid};

use super::{Sink, Transport};
use crate::engine::{Address, Event, PortId, PortInfo, PortName, PortState};

/// OpenSM's first.
const FIRST_TID: u64 = 0x02DA_B001;

/// Somebody's subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscriber {
    /// LID of its port.
    pub lid: u16,
    /// GID of its port.
    pub gid: Gid,
    /// What it wants.
    pub subscription: Subscription,
}

/// How it answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mood {
    /// As it should.
    #[default]
    Well,
    /// "Busy" to everything.
    Busy,
    /// No room for a new subscription.
    Full,
    /// Not at all.
    Silent,
    /// No to every new subscription.
    Refusing,
}

/// The SA.
pub struct Sa {
    /// Its subscriptions, the newest first.
    pub subscribers: Vec<Subscriber>,
    /// How it answers.
    pub mood: Mood,
    /// Set requests that it has seen.
    pub sets: u64,
    next_tid: u64,
}

impl Default for Sa {
    fn default() -> Self {
        Sa { subscribers: Vec::new(), mood: Mood::Well, sets: 0, next_tid: FIRST_TID }
    }
}

impl Sa {
    /// A MAD from a port; returns the answer, if there is one.
    pub fn receive(&mut self, lid: u16, gid: Gid, mad: &[u8]) -> Option<Vec<u8>> {
        let message = SaMessage::parse(mad).ok()?;
        let header = &message.headers.mad;
        if self.mood == Mood::Silent {
            return None;
        }
        match (header.method, header.attribute()) {
            (Method::SET, Attribute::INFORM_INFO) => {
                self.sets += 1;
                let inform = message.inform_info().ok()?;
                let status = match self.mood {
                    Mood::Busy => Status::BUSY,
                    Mood::Full if inform.subscribe == 1 => Status::NO_RESOURCES,
                    Mood::Refusing if inform.subscribe == 1 => Status::REQ_INVALID,
                    _ => {
                        let subscription = Subscription::from_inform_info(&inform);
                        self.set(Subscriber { lid, gid, subscription }, inform.subscribe, inform.qpn.get())
                    }
                };
                Some(reply::get_resp(&message, status, &inform).as_bytes().to_vec())
            }
            (Method::GET_TABLE, Attribute::INFORM_INFO_RECORD) => {
                let pattern = message.inform_info_record().ok()?;
                let mask = message.headers.sa.component_mask.get() & InformInfoRecord::MASK_SUBSCRIBER;
                let records: Vec<InformInfoRecord> = self
                    .subscribers
                    .iter()
                    .filter(|one| mask == 0 || one.gid == pattern.subscriber)
                    .map(|one| InformInfoRecord {
                        subscriber: one.gid,
                        inform: one.subscription.inform_info(true, 0),
                        ..Default::default()
                    })
                    .collect();
                let mut table = vec![0; 256.max(56 + records.len() * size_of::<InformInfoRecord>())];
                let length = reply::inform_info_table(&message, &records, &mut table);
                table.truncate(length);
                Some(table)
            }
            _ => None,
        }
    }

    fn set(&mut self, subscriber: Subscriber, subscribe: u8, qpn: u32) -> Status {
        let stands = self.subscribers.iter().position(|one| *one == subscriber);
        match (subscribe, stands) {
            (1, _) if subscriber.subscription.needs_trust() => return Status::REQ_INVALID,
            (1, None) => self.subscribers.insert(0, subscriber),
            (1, Some(_)) => {}
            (0, Some(at)) if qpn == GSI_QPN => {
                self.subscribers.remove(at);
            }
            _ => return Status::REQ_INVALID,
        }
        Status::OK
    }

    /// Something happened: the Reports to send, with the LIDs they go to.
    pub fn happen(&mut self, notice: &Notice) -> Vec<(u16, SaMad)> {
        let mut reports = Vec::new();
        for one in &self.subscribers {
            let about = Subscription {
                is_generic: notice.is_generic(),
                trap: notice.number.get(),
                kind: u16::from(notice.notice_type().0),
                producer: notice.producer.get(),
                ..Subscription::ALL_GENERIC
            };
            if one.subscription.covers(&about) {
                reports.push((one.lid, reply::report(self.next_tid, notice)));
                self.next_tid += 1;
            }
        }
        reports
    }
}

/// Device name of the only device there is.
pub const DEVICE: &str = "embedded0";
/// LID of the SA.
pub const SM_LID: u16 = 1;

/// State of the ports of an embedded SA.
#[derive(Default)]
struct Shared {
    sa: Sa,
    /// Ports that are open, with where they report.
    open: HashMap<PortId, PortState>,
    sink: Option<Sink>,
}

/// A transport whose ports are all at one embedded SA. A clone has the same SA.
#[derive(Clone, Default)]
pub struct Embedded {
    shared: Arc<Mutex<Shared>>,
}

impl Embedded {
    /// Reports there from now on.
    pub fn attach(&self, sink: Sink) {
        self.lock().sink = Some(sink);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened.
    pub fn happen(&self, notice: &Notice) {
        let mut shared = self.lock();
        let reports = shared.sa.happen(notice);
        let from = Address { lid: SM_LID, qpn: GSI_QPN, sl: 0, pkey_index: 0 };
        for (lid, report) in reports {
            let at = shared.open.iter().find(|(_, state)| state.lid == lid).map(|(port, _)| *port);
            let (Some(port), Some(sink)) = (at, shared.sink.clone()) else { continue };
            sink.report(Event::Mad { port, from, mad: report.as_bytes().to_vec() });
        }
    }

    /// A MAD of anybody's arrives at each open port. Returns how many these are.
    pub fn arrive(&self, from: Address, mad: &[u8]) -> usize {
        let shared = self.lock();
        let Some(sink) = &shared.sink else { return 0 };
        for port in shared.open.keys() {
            sink.report(Event::Mad { port: *port, from, mad: mad.to_vec() });
        }
        shared.open.len()
    }

    /// Looks at the SA, or changes its mood.
    pub fn with_sa<T>(&self, look: impl FnOnce(&mut Sa) -> T) -> T {
        look(&mut self.lock().sa)
    }
}

/// How port `number` is.
fn state(number: u8) -> PortState {
    let mut gid = [0; 16];
    (gid[0], gid[1], gid[15]) = (0xFE, 0x80, number);
    PortState { active: true, lid: SM_LID + u16::from(number), sm_lid: SM_LID, sm_sl: 0, gid: Gid(gid) }
}

impl Transport for Embedded {
    fn resolve(&mut self, selector: &PortSelector) -> Result<PortName, i32> {
        if selector.name() != DEVICE {
            return Err(-libc::ENODEV);
        }
        Ok(PortName { device: DEVICE.into(), number: selector.port, guid: Guid::ZERO })
    }

    fn open(&mut self, port: PortId, name: &PortName) {
        let mut shared = self.lock();
        let state = state(name.number);
        shared.open.insert(port, state);
        let guid = Guid::from(u64::from(name.number));
        let info = PortInfo { node_guid: guid, port_guid: guid, long_tables: true };
        if let Some(sink) = shared.sink.clone() {
            sink.report(Event::PortOpened { port, info, state });
        }
    }

    fn close(&mut self, port: PortId) {
        self.lock().open.remove(&port);
    }

    fn send(&mut self, port: PortId, to: Address, mad: &[u8; 256], _answer_within: u32) {
        let mut shared = self.lock();
        let Some(state) = shared.open.get(&port).copied() else { return };
        let answer = shared.sa.receive(state.lid, state.gid, mad);
        if let (Some(mad), Some(sink)) = (answer, shared.sink.clone()) {
            sink.report(Event::Mad { port, from: to, mad });
        }
    }
}
