//! Engine and transport in one: what the daemon and a monitor have in common.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use rustix::fd::BorrowedFd;
use rustix::time::{ClockId, clock_gettime};

use crate::engine::{Action, ClientId, Engine, Event, Policy, Record, Settings};
use crate::transport::{Sink, Source, Transport, channel};

/// Makes a transport that reports there.
pub type TransportFactory = Box<dyn FnOnce(Sink) -> io::Result<Box<dyn Transport>> + Send>;

/// Where lines for the operator go.
pub type Log = Box<dyn FnMut(&Record) + Send>;

/// Events of the transport that are handled before clients get their turn.
const BATCH: usize = 256;
/// And for how long: one notice may be for thousands of registrations.
const TURN: u64 = 10_000_000;

/// Engine, transport, log and clock.
pub struct Driver {
    pub engine: Engine,
    pub transport: Box<dyn Transport>,
    source: Source,
    log: Log,
    /// Clients with something in their queue.
    pub awake: BTreeSet<ClientId>,
    /// What the clients are told that the engine will not have: negative errno and reason.
    pub closing: Vec<(i32, &'static str)>,
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

impl Driver {
    pub fn new(
        mut settings: Settings,
        policy: Box<dyn Policy>,
        transport: TransportFactory,
        log: Log,
    ) -> io::Result<Driver> {
        // Hosts that boot together must not ask the SA together.
        settings.seed ^= now() ^ u64::from(std::process::id()) << 32;
        let (sink, source) = channel()?;
        let transport = transport(sink)?;
        let engine = Engine::new(settings, policy);
        Ok(Driver { engine, transport, source, log, awake: BTreeSet::new(), closing: Vec::new() })
    }

    /// Readable when the transport has something.
    pub fn source_fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// Something happened.
    pub fn event(&mut self, event: Event) {
        let actions = self.engine.handle(now(), event);
        self.perform(actions);
    }

    /// What the transport has reported, and the timer.
    pub fn turn(&mut self) {
        self.source.clear();
        let end = now() + TURN;
        for _ in 0..BATCH {
            let Some(event) = self.source.take() else {
                self.timer();
                return;
            };
            self.event(event);
            if end <= now() {
                break;
            }
        }
        // There may be more: come back at once after the others had their turn.
        self.source.wake();
        self.timer();
    }

    fn timer(&mut self) {
        if self.engine.next_deadline().is_some_and(|deadline| deadline <= now()) {
            self.event(Event::Timer);
        }
    }

    /// Ends all that stands at the SA; done once the engine is idle.
    pub fn end(&mut self) {
        let actions = self.engine.end(now());
        self.perform(actions);
    }

    /// How long nothing has to be done.
    pub fn idle_for(&self) -> Option<Duration> {
        self.engine.next_deadline().map(|deadline| Duration::from_nanos(deadline.saturating_sub(now())))
    }

    /// A line for the operator.
    pub fn log(&mut self, record: &Record) {
        (self.log)(record);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::OpenPort { port, name } => self.transport.open(port, &name),
                Action::ClosePort { port } => self.transport.close(port),
                Action::SendMad { port, to, mad, answer_within } => {
                    self.transport.send(port, to, &mad, answer_within);
                }
                Action::Wake { client } => {
                    self.awake.insert(client);
                }
                Action::CloseClient { status, reason, .. } => self.closing.push((status, reason)),
                Action::Log(record) => (self.log)(&record),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ibv_sa_wire::mad::Notice;
    use ibv_sa_wire::{Filter, Gid, Guid, Trap};

    use super::*;
    use crate::engine::{DefaultPolicy, Peer, PortName, Request};
    use crate::transport::embedded::{DEVICE, Embedded};

    #[test]
    fn a_burst_for_thousands_of_registrations_lets_clients_have_their_turn() {
        const BURST: u64 = 60;
        let sa = Embedded::default();
        let transport = sa.clone();
        let transport: TransportFactory = Box::new(move |sink| {
            transport.attach(sink);
            Ok(Box::new(transport))
        });
        let mut driver =
            Driver::new(Settings::default(), Box::new(DefaultPolicy::default()), transport, Box::new(|_| {}))
                .expect("an eventfd");
        let client = ClientId(1);
        let peer = Peer { uid: 0, gid: 0, pid: 1, comm: String::new(), groups: Vec::new() };
        driver.event(Event::ClientConnected { client, peer });
        let many = Settings::default().registrations_per_user as u64 / 2;
        for id in 1..=many {
            let port = Ok(PortName { device: DEVICE.into(), number: 1, guid: Guid::ZERO });
            let filter = Filter { is_generic: Some(true), ..Filter::trap(Trap(64)) };
            let request = Request::Register { id, port, filter, auto_reregister: false };
            driver.event(Event::ClientRequest { client, request });
            driver.turn();
        }
        for n in 0..BURST {
            sa.happen(&Notice::about_gid(Trap(64), Gid([n as u8; 16]), 1, Gid([1; 16])));
        }
        let seen = |driver: &Driver| driver.engine.status().counters.reports;
        driver.turn();
        assert!((1..BURST).contains(&seen(&driver)), "{} of {BURST} in one turn", seen(&driver));
        let mut turns = 1;
        while seen(&driver) < BURST {
            let mut fds =
                [rustix::event::PollFd::from_borrowed_fd(driver.source_fd(), rustix::event::PollFlags::IN)];
            let more = rustix::event::poll(&mut fds, Some(&Default::default())).expect("poll works");
            assert_eq!(more, 1, "what is left is forgotten after {turns} turns");
            driver.turn();
            turns += 1;
        }
    }
}
