//! The engine in a process of its own, for one reader: where there is no daemon.

use std::io;
use std::time::{Duration, Instant};

use ibv_sa_wire::Filter;
use ibv_sa_wire::proto::PortSelector;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::driver::{Driver, Log, TransportFactory};
use crate::engine::{ClientId, DefaultPolicy, Delivery, Event, Outgoing, Peer, Reply, Request, Settings};

/// Its only client.
const SELF: ClientId = ClientId(0);
/// How long a clean end may take.
const END: Duration = Duration::from_secs(3);

/// What a monitor tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MonitorEvent {
    /// 0: the SA has the subscription; otherwise a negative errno. Numbers count the calls of `register`.
    Status {
        /// Which registration.
        id: u64,
        /// How it is.
        status: i32,
    },
    /// Something happened in the subnet.
    Notice {
        /// For which registration.
        id: u64,
        /// What.
        delivery: Delivery,
    },
    /// Notices were lost here, because nobody called `next`.
    Lost {
        /// For which registration.
        id: u64,
        /// How many.
        lost: u64,
    },
}

/// A subscriber without a daemon.
pub struct Monitor {
    driver: Driver,
    registrations: u64,
}

impl Monitor {
    /// Nothing is registered yet.
    pub fn new(settings: Settings, transport: TransportFactory, log: Log) -> io::Result<Monitor> {
        let mut driver = Driver::new(settings, Box::new(DefaultPolicy::default()), transport, log)?;
        // Whoever may open the port may see what comes in at it.
        let (pid, comm) = (std::process::id(), "monitor".into());
        let peer = Peer { uid: 0, gid: 0, groups: Vec::new(), pid, comm };
        driver.event(Event::ClientConnected { client: SELF, peer });
        Ok(Monitor { driver, registrations: 0 })
    }

    /// Subscribes, and again after every loss. A negative errno if there is no such port.
    pub fn register(&mut self, port: &PortSelector, filter: Filter) -> Result<u64, i32> {
        filter.check().map_err(|_| -libc::EINVAL)?;
        let port = self.driver.transport.resolve(port)?;
        self.registrations += 1;
        let id = self.registrations;
        let request = Request::Register { id, port: Ok(port), filter, auto_reregister: true };
        self.driver.event(Event::ClientRequest { client: SELF, request });
        Ok(id)
    }

    /// What comes next, or nothing within that time.
    pub fn next(&mut self, timeout: Duration) -> io::Result<Option<MonitorEvent>> {
        self.next_or(Some(timeout), &[])
    }

    /// What comes next; nothing once the time is over or one of `others` has something.
    pub fn next_or(
        &mut self,
        timeout: Option<Duration>,
        others: &[PollFd<'_>],
    ) -> io::Result<Option<MonitorEvent>> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(event) = self.take() {
                return Ok(Some(event));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) || self.wait(left, others)? {
                return Ok(None);
            }
        }
    }

    fn take(&mut self) -> Option<MonitorEvent> {
        loop {
            let event = match self.driver.engine.outgoing(SELF)? {
                Outgoing::Status { id, status } => Some(MonitorEvent::Status { id: *id, status: *status }),
                Outgoing::Notice { id, delivery, .. } => {
                    Some(MonitorEvent::Notice { id: *id, delivery: **delivery })
                }
                Outgoing::Overflow { id, lost } => Some(MonitorEvent::Lost { id: *id, lost: *lost }),
                Outgoing::Reply(Reply::Registered { id, status }) if *status != 0 => {
                    Some(MonitorEvent::Status { id: *id, status: *status })
                }
                Outgoing::Reply(_) | Outgoing::Nothing => None,
            };
            self.driver.engine.sent(SELF);
            if event.is_some() {
                return event;
            }
        }
    }

    /// Until something happens; whether it did at one of the others. A signal that is caught ends the wait with
    /// `Interrupted`.
    fn wait(&mut self, timeout: Option<Duration>, others: &[PollFd<'_>]) -> io::Result<bool> {
        let timeout = [self.driver.idle_for(), timeout].into_iter().flatten().min();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut all = vec![PollFd::from_borrowed_fd(self.driver.source_fd(), PollFlags::IN)];
        all.extend_from_slice(others);
        poll(&mut all, timeout.as_ref())?;
        let elsewhere = all[1..].iter().any(|other| !other.revents().is_empty());
        drop(all);
        self.driver.turn();
        Ok(elsewhere)
    }
}

impl Drop for Monitor {
    /// Takes back what stands at the SA.
    fn drop(&mut self) {
        self.driver.end();
        let end = Instant::now() + END;
        while !self.driver.engine.is_idle() {
            let left = end.saturating_duration_since(Instant::now());
            match self.wait(Some(left), &[]) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
                _ if left.is_zero() => return,
                _ => {}
            }
        }
    }
}
