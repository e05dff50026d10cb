//! One program's socket: what comes in, what goes out.

use std::io;

use ibv_sa_wire::proto::{
    ClientMessage, Hello, MAX_PACKET, MAX_REQUEST, NoticeEvent, Overflow, Refused, Register, Registered,
    ServerMessage, StatusChange, Unregistered, VERSION, Welcome, status_chunks,
};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::status;
use crate::driver::Driver;
use crate::engine::{ClientId, Event, Limits, Outgoing, Reply, Request};

/// Messages of one client before the others have their turn.
const TURN: usize = 64;
/// Unread answers after which a client is not read from.
const UNREAD: usize = 256;

/// What is to become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It goes on; whether its socket is full.
    Lives {
        /// Wait until it takes more.
        full: bool,
    },
    /// It ends.
    Ends(Why),
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The other side closed it, or died.
    Closed,
    /// What came in was no message, or not at its time.
    Protocol,
}

/// One program's connection.
pub struct Connection {
    /// The socket.
    pub fd: OwnedFd,
    /// The process, where it can be seen.
    pub process: Option<OwnedFd>,
    /// What epoll waits for.
    pub interest: rustix::event::epoll::EventFlags,
    greeted: bool,
    /// A status answer of which a part is out.
    answer: Option<(Vec<u8>, usize)>,
}

impl Connection {
    /// A new one, whose Hello has not come yet.
    pub fn new(fd: OwnedFd, process: Option<OwnedFd>) -> Self {
        let interest = rustix::event::epoll::EventFlags::empty();
        Connection { fd, process, interest, greeted: false, answer: None }
    }

    /// May more be read from it?
    pub fn may_read(id: ClientId, driver: &Driver) -> bool {
        driver.engine.unread_replies(id) < UNREAD
    }

    /// Takes in what is there. Descriptors that come along are closed by the kernel: nothing asks for them.
    pub fn read(&mut self, id: ClientId, driver: &mut Driver, instance: u64) -> Fate {
        for _ in 0..TURN {
            if !Self::may_read(id, driver) {
                break;
            }
            let mut packet = [0; MAX_REQUEST];
            let (_, length) =
                match rustix::net::recv(&self.fd, &mut packet, RecvFlags::TRUNC | RecvFlags::DONTWAIT) {
                    Ok((_, 0)) => return Fate::Ends(Why::Closed),
                    Ok(received) => received,
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    Err(_) => return Fate::Ends(Why::Closed),
                };
            let Some(Ok(message)) = packet.get(..length).map(ClientMessage::decode) else {
                return Fate::Ends(Why::Protocol);
            };
            if !self.message(id, message, driver, instance) {
                return Fate::Ends(Why::Protocol);
            }
        }
        Fate::Lives { full: false }
    }

    /// Returns whether the message was allowed.
    fn message(
        &mut self,
        client: ClientId,
        message: ClientMessage,
        driver: &mut Driver,
        instance: u64,
    ) -> bool {
        let request = match (message, self.greeted) {
            (ClientMessage::Hello(hello), false) => {
                let Some(limits) = driver.engine.limits(client) else { return false };
                return self.greet(hello, instance, limits);
            }
            (ClientMessage::Register(register), true) => {
                let port = driver.transport.resolve(&register.port);
                let auto_reregister = register.flags & Register::AUTO_REREGISTER != 0;
                Request::Register { id: register.id, port, filter: register.filter, auto_reregister }
            }
            (ClientMessage::Unregister(unregister), true) => Request::Unregister { id: unregister.id },
            (ClientMessage::StatusQuery(query), true) => Request::Status { query: query.query },
            _ => return false,
        };
        driver.event(Event::ClientRequest { client, request });
        true
    }

    fn greet(&mut self, hello: Hello, instance: u64, limits: Limits) -> bool {
        let Some(version) = hello.common_version(VERSION, VERSION) else {
            let text = format!(
                "the daemon speaks version {VERSION}, the program {} to {}",
                hello.min_version, hello.max_version
            );
            self.refuse(-libc::EPROTONOSUPPORT, &text);
            return false;
        };
        self.greeted = true;
        let limit = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
        let (max_registrations, max_queued) = (limit(limits.registrations), limit(limits.queued_per_client));
        let welcome = Welcome { version, features: 0, instance, max_registrations, max_queued };
        // The first packet always has room.
        send(&self.fd, &ServerMessage::Welcome(welcome)).is_ok()
    }

    /// The last words.
    pub fn refuse(&self, status: i32, text: &str) {
        let _ = send(&self.fd, &ServerMessage::Refused(Refused::new(status, text)));
    }

    /// Brings out what waits, as far as the socket takes it.
    pub fn write(&mut self, id: ClientId, driver: &mut Driver) -> Fate {
        loop {
            let sent = match driver.engine.outgoing(id) {
                None => return Fate::Lives { full: false },
                Some(Outgoing::Reply(Reply::Status { query })) => {
                    let query = *query;
                    self.write_status(query, driver)
                }
                Some(item) => send(&self.fd, &message(item)),
            };
            match sent {
                Ok(()) => driver.engine.sent(id),
                Err(Errno::AGAIN) => return Fate::Lives { full: true },
                Err(Errno::INTR) => {}
                // ENOBUFS and ENOMEM pass; the client need not die of them.
                Err(Errno::NOBUFS | Errno::NOMEM) => return Fate::Lives { full: true },
                Err(_) => return Fate::Ends(Why::Closed),
            }
        }
    }

    fn write_status(&mut self, query: u32, driver: &Driver) -> rustix::io::Result<()> {
        let (answer, done) = self.answer.get_or_insert_with(|| (status::render(&driver.engine.status()), 0));
        for chunk in status_chunks(query, answer).skip(*done) {
            send(&self.fd, &ServerMessage::StatusChunk(chunk))?;
            *done += 1;
        }
        self.answer = None;
        Ok(())
    }
}

fn message(item: &Outgoing) -> ServerMessage<'static> {
    match item {
        Outgoing::Reply(Reply::Registered { id, status }) => {
            ServerMessage::Registered(Registered { id: *id, status: *status })
        }
        Outgoing::Reply(Reply::Unregistered { id }) => ServerMessage::Unregistered(Unregistered { id: *id }),
        Outgoing::Status { id, status } => {
            ServerMessage::StatusChange(StatusChange { id: *id, status: *status })
        }
        Outgoing::Notice { id, sequence, delivery } => ServerMessage::Notice(NoticeEvent {
            id: *id,
            sequence: *sequence,
            time_ns: delivery.time,
            source_lid: delivery.source_lid,
            notice: delivery.notice,
        }),
        Outgoing::Overflow { id, lost } => ServerMessage::Overflow(Overflow { id: *id, lost: *lost }),
        Outgoing::Reply(Reply::Status { .. }) | Outgoing::Nothing => {
            unreachable!("a status has its own way out, and nothing is never at the front")
        }
    }
}

fn send(fd: &OwnedFd, message: &ServerMessage<'_>) -> rustix::io::Result<()> {
    let mut packet = [0; MAX_PACKET];
    let length = message.encode(&mut packet);
    rustix::net::send(fd, &packet[..length], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(|_| ())
}

/// The name of a process, as it gives it itself; empty if it cannot be seen.
pub fn comm(pid: u32) -> String {
    let read = || -> io::Result<Vec<u8>> { std::fs::read(format!("/proc/{pid}/comm")) };
    let name = if pid == 0 { Vec::new() } else { read().unwrap_or_default() };
    String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned()
}
