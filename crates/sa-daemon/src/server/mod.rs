//! The daemon: one loop around the engine, a transport and the programs' connections.

mod connection;
mod error;
mod peer;
mod refused;
mod reload;
mod signals;
mod socket;
mod status;
mod sys;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ibv_sa_wire::proto::Refused;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, setrlimit};

use crate::driver::{Driver, Log, TransportFactory, now};
use crate::engine::{ClientId, Event, Level, Limiter, Policy, Record, Settings};
use crate::policy::PolicyFile;
use connection::{Connection, Room, Why};
pub use error::Error;
use refused::Waiting;
use reload::Reload;
pub use reload::Reloader;
pub use signals::Signals;
use signals::Wishes;
use socket::Listener;
use status::Answers;

/// What `run` needs to know.
pub struct Config {
    /// Where programs connect, unless systemd has opened the socket.
    pub socket: PathBuf,
    /// Times and limits.
    pub settings: Settings,
    /// Who may have what.
    pub policy: Box<dyn Policy>,
    /// Where the ports are.
    pub transport: TransportFactory,
    /// Where lines for the operator go.
    pub log: Log,
    /// What SIGTERM, SIGINT and SIGHUP wish, if the daemon is to heed it.
    pub signals: Option<Signals>,
}

/// Runs a daemon until a signal comes.
pub fn run(config: Config) -> Result<(), Error> {
    Daemon::new(config)?.run()
}

const LISTENER: u64 = 0;
const SOURCE: u64 = 1;
const STOP: u64 = 2;
const SIGNAL: u64 = 3;
const RELOAD: u64 = 4;
/// Sockets of clients have even numbers from here on, their processes the next odd ones.
const CLIENTS: u64 = 16;

/// What happens is heard of in such portions.
const EVENTS: usize = 256;
/// Connections accepted before those that are there have their turn.
const ACCEPTS: usize = 32;
/// Pause after the process ran out of descriptors: the listener stays readable all the time.
const OUT_OF_FDS: Duration = Duration::from_secs(1);
/// Pause after the kernel had no memory for a packet: the socket says all the time that it has room.
const OUT_OF_MEMORY: Duration = Duration::from_millis(20);
/// How long a clean end may take: a silent SA must not keep the host from its shutdown.
const END: Duration = Duration::from_secs(3);

/// A daemon that listens.
pub struct Daemon {
    driver: Driver,
    listener: Option<Listener>,
    epoll: OwnedFd,
    stop: Arc<OwnedFd>,
    signals: Option<Signals>,
    connections: HashMap<ClientId, Connection>,
    reload: Option<Reload>,
    /// Differs from run to run.
    instance: u64,
    next_client: u64,
    /// Accept again then.
    accept_at: Option<u64>,
    /// Refused, and not yet closed.
    refused: Waiting,
    /// Write to these again then.
    later: BTreeSet<ClientId>,
    write_at: Option<u64>,
    answers: Answers,
    /// Of the server's own lines; the engine has another.
    limiter: Limiter,
    /// It ends, by then at the latest.
    end_by: Option<u64>,
}

/// Ends a daemon from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// The daemon takes back what stands at the SA, then `run` returns.
    pub fn stop(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl Daemon {
    /// Listens; programs that connect from now on wait for `run`.
    pub fn new(config: Config) -> Result<Daemon, Error> {
        let system = |what| move |source: io::Error| Error::System { what, source };
        let listener = match Listener::inherited()? {
            Some(listener) => listener,
            None => Listener::bind(&config.socket)?,
        };
        let instance = now() ^ config.settings.seed;
        let driver = Driver::new(config.settings, config.policy, config.transport, config.log)
            .map_err(system("the transport"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| system("epoll")(e.into()))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| system("eventfd")(e.into()))?;
        let daemon = Daemon {
            driver,
            listener: Some(listener),
            epoll,
            stop: Arc::new(stop),
            signals: config.signals,
            connections: HashMap::new(),
            reload: None,
            instance,
            next_client: 0,
            accept_at: None,
            refused: Waiting::default(),
            later: BTreeSet::new(),
            write_at: None,
            answers: Answers::default(),
            limiter: Limiter::default(),
            end_by: None,
        };
        daemon.watch_all().map_err(|e| system("epoll")(e.into()))?;
        Ok(daemon)
    }

    fn watch_all(&self) -> rustix::io::Result<()> {
        let add = |fd: rustix::fd::BorrowedFd<'_>, token| {
            epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN)
        };
        add(self.driver.source_fd(), SOURCE)?;
        add(self.stop.as_fd(), STOP)?;
        if let Some(listener) = &self.listener {
            add(listener.fd.as_fd(), LISTENER)?;
        }
        match &self.signals {
            Some(signals) => add(signals.end.as_fd(), SIGNAL),
            None => Ok(()),
        }
    }

    /// Reads this policy file again when SIGHUP comes or came, if the daemon heeds signals, or a reloader says so. What
    /// was configured counts until then.
    pub fn reload_from(&mut self, file: PolicyFile) -> Result<Reloader, Error> {
        let system = |source| Error::System { what: "signals", source };
        let wishes = match &self.signals {
            Some(signals) => signals.reload.try_clone(),
            None => Wishes::new(),
        };
        let reload = Reload::new(file, wishes.map_err(system)?);
        epoll::add(&self.epoll, &reload.wishes.read, EventData::new_u64(RELOAD), EventFlags::IN)
            .map_err(|error| system(error.into()))?;
        Ok(self.reload.insert(reload).reloader())
    }

    fn reread(&mut self) {
        let Some(reload) = &mut self.reload else { return };
        let (policy, records) = reload.read();
        if let Some(policy) = policy {
            self.driver.engine.set_policy(policy);
        }
        records.iter().for_each(|record| self.driver.log(record));
    }

    /// For ending it from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Serves until a signal or a stopper ends it.
    pub fn run(mut self) -> Result<(), Error> {
        raise_descriptor_limit();
        while !self.is_over() {
            self.turn(None)?;
        }
        Ok(())
    }

    /// A signal or a stopper has ended it, and nothing of it is left at the SA.
    pub fn is_over(&self) -> bool {
        self.end_by.is_some_and(|by| self.driver.engine.is_idle() || by <= now())
    }

    /// Waits until there is something to do, but no longer than this, and does it; for who has a loop of its own.
    /// Returns whether there was anything.
    pub fn turn(&mut self, longest: Option<Duration>) -> Result<bool, Error> {
        let timeout = [self.timeout(), longest].into_iter().flatten().min();
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        let had_to = !self.driver.awake.is_empty();
        let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let events: &[epoll::Event] = match epoll::wait(&self.epoll, &mut room[..], timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => &[],
            Err(error) => return Err(Error::System { what: "epoll", source: error.into() }),
        };
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            match token {
                LISTENER => self.accept(),
                SOURCE => {}
                RELOAD => self.reread(),
                STOP | SIGNAL if self.end_by.is_none() => {
                    self.end_by = Some(now() + END.as_nanos() as u64);
                    self.end();
                }
                STOP | SIGNAL => self.forget_signals(),
                token => self.serve(token, flags),
            }
        }
        self.driver.turn();
        self.refused.expire(now());
        if self.write_at.take_if(|at| *at <= now()).is_some() {
            self.driver.awake.append(&mut self.later);
        }
        self.deliver();
        if self.accept_at.is_some_and(|at| at <= now()) {
            self.accept_again();
        }
        Ok(had_to || !events.is_empty())
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.driver.awake.is_empty() {
            return Some(Duration::ZERO);
        }
        let until = |at: u64| Duration::from_nanos(at.saturating_sub(now()));
        let at = [self.accept_at, self.refused.deadline(), self.write_at, self.end_by];
        at.map(|at| at.map(until)).into_iter().chain([self.driver.idle_for()]).flatten().min()
    }

    /// No more clients; what stands at the SA goes.
    fn end(&mut self) {
        self.forget_signals();
        self.listener = None;
        self.accept_at = None;
        self.connections.clear();
        self.refused = Waiting::default();
        self.driver.end();
    }

    /// A second signal changes nothing.
    fn forget_signals(&mut self) {
        let _ = rustix::io::read(&self.stop, &mut [0u8; 8]);
        if let Some(signals) = &self.signals {
            let _ = rustix::io::read(&signals.end, &mut [0u8; 64]);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            let Some(listener) = &self.listener else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&listener.fd, flags) {
                Ok(fd) => self.welcome(fd),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    let _ = epoll::delete(&self.epoll, &listener.fd);
                    self.warn("accept", format!("no connection is accepted for a second: {error}"));
                    self.accept_at = Some(now() + OUT_OF_FDS.as_nanos() as u64);
                    return;
                }
            }
        }
    }

    fn accept_again(&mut self) {
        self.accept_at = None;
        if let Some(listener) = &self.listener
            && epoll::add(&self.epoll, &listener.fd, EventData::new_u64(LISTENER), EventFlags::IN).is_err()
        {
            self.accept_at = Some(now() + OUT_OF_FDS.as_nanos() as u64);
        }
    }

    fn welcome(&mut self, fd: OwnedFd) {
        let id = ClientId(self.next_client);
        self.next_client += 1;
        let Ok(credentials) = sys::peer_credentials(fd.as_fd()) else { return };
        let pid = u32::try_from(credentials.pid).unwrap_or(0);
        // A descriptor may live on in a child that knows nothing of it; the process is the client.
        let process =
            Pid::from_raw(credentials.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let peer = peer::describe(fd.as_fd(), &credentials, pid);
        self.driver.event(Event::ClientConnected { client: id, peer: peer.clone() });
        let token = CLIENTS + 2 * id.0;
        if let Some((status, reason)) = self.driver.closing.pop() {
            let refused = Refused::new(status, reason);
            if let Some(fd) = self.refused.refuse(now(), (id, peer.uid), fd, refused) {
                // Without it the deadline is left.
                let _ = epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN);
            }
            return;
        }
        let mut connection = Connection::new(fd, process, peer);
        connection.interest = EventFlags::IN;
        let socket = epoll::add(&self.epoll, &connection.fd, EventData::new_u64(token), EventFlags::IN);
        let process = connection.process.as_ref().map_or(Ok(()), |process| {
            epoll::add(&self.epoll, process, EventData::new_u64(token + 1), EventFlags::IN)
        });
        self.connections.insert(id, connection);
        if socket.and(process).is_err() {
            self.close(id);
        }
    }

    fn serve(&mut self, token: u64, flags: EventFlags) {
        let id = ClientId((token - CLIENTS) / 2);
        if token % 2 == 1 {
            self.close(id);
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else {
            self.refused.heard(id);
            return;
        };
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
            && let Err(why) = connection.read(id, &mut self.driver, self.instance)
        {
            let peer = &connection.peer;
            let who = format!("client {} ({}) of user {}", peer.pid, peer.comm.escape_debug(), peer.uid);
            match why {
                Why::Closed => {}
                Why::Version(text) => self.warn("version", format!("{who} refused: {text}")),
                Why::Protocol(breach) => {
                    self.answers.protocol_errors += 1;
                    self.warn("protocol", format!("{who} was closed for what it sent: {breach}"));
                }
            }
            self.close(id);
            return;
        }
        self.driver.awake.insert(id);
    }

    /// Brings what waits to those who can take it.
    fn deliver(&mut self) {
        for id in std::mem::take(&mut self.driver.awake) {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let Ok(room) = connection.write(id, &mut self.driver, &mut self.answers) else {
                self.close(id);
                continue;
            };
            match room {
                Room::More => _ = self.driver.awake.insert(id),
                Room::Later => {
                    self.later.insert(id);
                    self.write_at.get_or_insert(now() + OUT_OF_MEMORY.as_nanos() as u64);
                }
                Room::Done | Room::Full => {}
            }
            let mut interest = EventFlags::empty();
            interest.set(EventFlags::IN, Connection::may_read(id, &self.driver));
            interest.set(EventFlags::OUT, room == Room::Full);
            if interest != connection.interest {
                connection.interest = interest;
                let data = EventData::new_u64(CLIENTS + 2 * id.0);
                if epoll::modify(&self.epoll, &connection.fd, data, interest).is_err() {
                    self.close(id);
                }
            }
        }
    }

    fn close(&mut self, id: ClientId) {
        // Closing the descriptors takes them out of epoll: nobody else here has them.
        if self.connections.remove(&id).is_some() {
            self.driver.event(Event::ClientGone { client: id });
        }
    }

    fn warn(&mut self, kind: &'static str, text: String) {
        if let Some(suppressed) = self.limiter.admit(now(), kind) {
            self.driver.log(&Record { level: Level::Warning, kind, text, suppressed });
        }
    }
}

/// Each program takes two descriptors, and a shell gives 1024, which a few users could use up. As many as may be.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Without it the daemon pauses earlier, and says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}
