//! Where a monitor has its notices from: the daemon, or the engine in this process.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ibv_sa_daemon::engine::{Level, Record, Settings};
use ibv_sa_daemon::transport::umad::Umad;
use ibv_sa_daemon::{Monitor, MonitorEvent, TransportFactory};
use ibv_sa_wire::Filter;
use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::proto::{ClientMessage, PortSelector, Register, ServerMessage};
use nix::errno::Errno;
use rustix::event::{PollFd, PollFlags};

use crate::connection::{Connection, NoDaemon};
use crate::message::{FAILED, Failure, say, shown};
use crate::terminal::{End, Terminal};

/// How often a daemon that is gone is looked for.
const RETRY: Duration = Duration::from_secs(1);

/// Something to tell.
pub(crate) enum Happened {
    /// Of a registration: 0 or a negative errno.
    State(u64, i32),
    /// For a registration: what, when by CLOCK_MONOTONIC, from which SA.
    Notice(u64, Box<Notice>, u64, u16),
    /// For a registration: how many.
    Lost(u64, u64),
    /// The daemon closed the connection.
    Gone,
}

/// Where notices come from.
pub(crate) enum Source {
    Daemon {
        connection: Option<Connection>,
        socket: Option<PathBuf>,
    },
    /// The engine in this process, and the last of its complaints.
    Own {
        monitor: Box<Monitor>,
        complaint: Arc<Mutex<String>>,
    },
}

/// What is registered: its port's place in the list of ports, and the rest. The number of a registration is its place
/// here, from 1.
pub(crate) type Wanted = [(usize, PortSelector, Filter)];

impl Source {
    pub(crate) fn open(socket: Option<PathBuf>, only_this: bool, wanted: &Wanted) -> Result<Source, Failure> {
        match Connection::open(socket.as_deref()) {
            Ok(connection) => {
                register(&connection, wanted)
                    .map_err(|error| Failure::new(FAILED, format!("the daemon's socket: {error}")))?;
                Ok(Source::Daemon { connection: Some(connection), socket })
            }
            Err(NoDaemon::Nobody(tried)) if !only_this => Source::own(&tried, wanted),
            Err(other) => Err(other.fatal()),
        }
    }

    /// Without a daemon.
    fn own(tried: &str, wanted: &Wanted) -> Result<Source, Failure> {
        let fatal = |why: String| {
            let daemon = NoDaemon::Nobody(tried.into()).fatal();
            Failure::new(FAILED, format!("{}. Without it: {why}", daemon.text))
        };
        let complaint = Arc::new(Mutex::new(String::new()));
        let last = complaint.clone();
        let log = move |record: &Record| {
            if record.level != Level::Info {
                *locked(&last) = record.text.clone();
            }
        };
        let transport: TransportFactory = Box::new(|sink| Ok(Box::new(Umad::new(sink)?)));
        let mut monitor = Monitor::new(Settings::default(), transport, Box::new(log))
            .map_err(|error| fatal(error.to_string()))?;
        for (_, port, filter) in wanted {
            monitor.register(port, *filter).map_err(|status| {
                let text = format!("{}: {}", shown(port.to_string()), refusal(status));
                fatal(text)
            })?;
        }
        say(&format!("no daemon ({tried}): receiving the SA's reports without it"));
        Ok(Source::Own { monitor: Box::new(monitor), complaint })
    }

    /// What happens next; nothing if that time is over first.
    pub(crate) fn next(
        &mut self,
        terminal: &Terminal,
        timeout: Option<Duration>,
        wanted: &Wanted,
    ) -> Result<Option<Happened>, End> {
        match self {
            Source::Daemon { connection: Some(connection), socket } => {
                if !terminal.wait(Some(PollFd::new(&*connection, PollFlags::IN)), timeout)? {
                    return Ok(None);
                }
                match connection.receive() {
                    Ok(Some(message)) => Ok(heard(message)),
                    Ok(None) => {
                        *self = Source::Daemon { connection: None, socket: socket.take() };
                        Ok(Some(Happened::Gone))
                    }
                    Err(error) => Err(End::Failed(format!("the daemon's socket: {error}"))),
                }
            }
            Source::Daemon { connection, socket } => {
                terminal.wait(None, Some(timeout.map_or(RETRY, |timeout| timeout.min(RETRY))))?;
                match Connection::open(socket.as_deref()) {
                    Ok(new) => {
                        if register(&new, wanted).is_ok() {
                            *connection = Some(new);
                        }
                    }
                    Err(NoDaemon::Nobody(_)) => {}
                    Err(other) => return Err(End::Failed(other.fatal().text)),
                }
                Ok(None)
            }
            Source::Own { monitor, .. } => {
                let stdout = io::stdout();
                let event = match monitor.next_or(terminal.left(timeout), &terminal.watched(&stdout)) {
                    Ok(event) => event,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
                    Err(error) => return Err(End::Failed(error.to_string())),
                };
                if event.is_none() {
                    terminal.wait(None, Some(Duration::ZERO))?;
                }
                Ok(event.map(own))
            }
        }
    }

    /// What is known of a failure beyond its number.
    pub(crate) fn complaint(&self, status: i32) -> Option<String> {
        let Source::Own { complaint, .. } = self else { return None };
        let remedy = match Errno::from_raw(-status) {
            Errno::EACCES | Errno::EPERM => "; start `ibv-sa daemon` as root, which serves all users",
            _ => "",
        };
        let text = locked(complaint).clone();
        (!text.is_empty()).then(|| text + remedy)
    }
}

fn locked(complaint: &Mutex<String>) -> MutexGuard<'_, String> {
    complaint.lock().unwrap_or_else(PoisonError::into_inner)
}

fn register(connection: &Connection, wanted: &Wanted) -> io::Result<()> {
    for ((_, port, filter), id) in wanted.iter().zip(1..) {
        let flags = Register::AUTO_REREGISTER;
        connection.send(&ClientMessage::Register(Register { id, flags, port: *port, filter: *filter }))?;
    }
    Ok(())
}

fn heard(message: ServerMessage<'_>) -> Option<Happened> {
    Some(match message {
        ServerMessage::Registered(one) if one.status != 0 => Happened::State(one.id, one.status),
        ServerMessage::StatusChange(one) => Happened::State(one.id, one.status),
        ServerMessage::Notice(one) => {
            Happened::Notice(one.id, Box::new(one.notice), one.time_ns, one.source_lid)
        }
        ServerMessage::Overflow(one) => Happened::Lost(one.id, one.lost),
        _ => return None,
    })
}

fn own(event: MonitorEvent) -> Happened {
    match event {
        MonitorEvent::Status { id, status } => Happened::State(id, status),
        MonitorEvent::Notice { id, delivery } => {
            Happened::Notice(id, Box::new(delivery.notice), delivery.time, delivery.source_lid)
        }
        MonitorEvent::Lost { id, lost } => Happened::Lost(id, lost),
    }
}

/// What a negative status of a registration means, and what to do.
pub(crate) fn refusal(status: i32) -> String {
    match Errno::from_raw(-status) {
        Errno::EACCES => "not allowed: traps 256 to 259, which tell keys, are for root".into(),
        Errno::ENODEV => "no such device or port; ls /sys/class/infiniband shows those of this host".into(),
        Errno::EOPNOTSUPP => "no InfiniBand port, so that there is no SA".into(),
        Errno::EBUSY => "busy: too many registrations of this user, or another program receives the SA's \
                         reports at this port"
            .into(),
        Errno::ETIMEDOUT => "the SA does not answer".into(),
        Errno::EINVAL => "the SA refuses the subscription".into(),
        other => other.desc().into(),
    }
}
