//! One program's socket: what comes in, what goes out.

use std::io;
use std::sync::Arc;

use ibv_sa_wire::proto::{
    ClientMessage, Hello, MAX_PACKET, MAX_REQUEST, NoticeEvent, Overflow, ProtoError, Refused, Register,
    Registered, ServerMessage, StatusChange, Unregistered, VERSION, Welcome, status_chunks,
};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::status::Answers;
use crate::driver::{Driver, now};
use crate::engine::{ClientId, Event, Limits, Outgoing, Peer, Reply, Request};

/// Messages of one client before the others have their turn.
const TURN: usize = 64;
/// Unread answers after which a client is not read from.
const UNREAD: usize = 256;

/// What a write has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Nothing.
    Done,
    /// Something, for the next turn.
    More,
    /// Something, for when the socket takes more.
    Full,
    /// Something, and only time will tell when.
    Later,
}

/// Why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The other side closed it, or died.
    Closed,
    /// The other side speaks other versions: which.
    Version(String),
    /// What came in was no message, or not at its time.
    Protocol(Breach),
}

/// What no program may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// A packet longer than any message.
    #[error("a packet of {0} bytes")]
    Long(usize),
    /// No message.
    #[error(transparent)]
    NoMessage(ProtoError),
    /// A Hello after the first.
    #[error("a second Hello")]
    SecondHello,
    /// A request in its place.
    #[error("a request before its Hello")]
    BeforeHello,
    /// A query whose answer would stand behind another's.
    #[error("a StatusQuery before the answer to the last")]
    QueryTooSoon,
}

/// One program's connection.
pub struct Connection {
    /// The socket.
    pub fd: OwnedFd,
    /// The process, where it can be seen.
    pub process: Option<OwnedFd>,
    /// What epoll waits for.
    pub interest: rustix::event::epoll::EventFlags,
    /// Who is at the other end.
    pub peer: Peer,
    greeted: bool,
    /// A status was asked for and is not out yet.
    asked: bool,
    /// It, and how many of its packets are out.
    answer: Option<(Arc<Vec<u8>>, usize)>,
}

impl Connection {
    /// A new one, whose Hello has not come yet.
    pub fn new(fd: OwnedFd, process: Option<OwnedFd>, peer: Peer) -> Self {
        let interest = rustix::event::epoll::EventFlags::empty();
        Connection { fd, process, interest, peer, greeted: false, asked: false, answer: None }
    }

    /// May more be read from it?
    pub fn may_read(id: ClientId, driver: &Driver) -> bool {
        driver.engine.unread_replies(id) < UNREAD
    }

    /// Takes in what is there. Descriptors that come along are closed by the kernel: nothing asks for them.
    pub fn read(&mut self, id: ClientId, driver: &mut Driver, instance: u64) -> Result<(), Why> {
        for _ in 0..TURN {
            if !Self::may_read(id, driver) {
                break;
            }
            let mut packet = [0; MAX_REQUEST];
            let (_, length) =
                match rustix::net::recv(&self.fd, &mut packet, RecvFlags::TRUNC | RecvFlags::DONTWAIT) {
                    Ok((_, 0)) => return Err(Why::Closed),
                    Ok(received) => received,
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    Err(_) => return Err(Why::Closed),
                };
            let Some(packet) = packet.get(..length) else {
                return Err(Why::Protocol(Breach::Long(length)));
            };
            let message =
                ClientMessage::decode(packet).map_err(|error| Why::Protocol(Breach::NoMessage(error)))?;
            self.message(id, message, driver, instance)?;
        }
        Ok(())
    }

    fn message(
        &mut self,
        client: ClientId,
        message: ClientMessage,
        driver: &mut Driver,
        instance: u64,
    ) -> Result<(), Why> {
        let untimely = |breach| Err(Why::Protocol(breach));
        let request = match (message, self.greeted) {
            (ClientMessage::Hello(hello), false) => {
                let Some(limits) = driver.engine.limits(client) else { return Err(Why::Closed) };
                return self.greet(hello, instance, limits);
            }
            (ClientMessage::Hello(_), true) => return untimely(Breach::SecondHello),
            (_, false) => return untimely(Breach::BeforeHello),
            (ClientMessage::Register(register), true) => {
                // Looking for a port is work, and not done for what is refused anyway.
                let port = match driver.engine.refusal(client, register.id) {
                    Some(status) => Err(status),
                    None => driver.transport.resolve(&register.port),
                };
                let auto_reregister = register.flags & Register::AUTO_REREGISTER != 0;
                Request::Register { id: register.id, port, filter: register.filter, auto_reregister }
            }
            (ClientMessage::Unregister(unregister), true) => Request::Unregister { id: unregister.id },
            (ClientMessage::StatusQuery(_), true) if self.asked => {
                return untimely(Breach::QueryTooSoon);
            }
            (ClientMessage::StatusQuery(query), true) => {
                self.asked = true;
                Request::Status { query: query.query }
            }
        };
        driver.event(Event::ClientRequest { client, request });
        Ok(())
    }

    fn greet(&mut self, hello: Hello, instance: u64, limits: Limits) -> Result<(), Why> {
        let Some(version) = hello.common_version(VERSION, VERSION) else {
            let text = format!(
                "the daemon speaks version {VERSION}, the program {} to {}",
                hello.min_version, hello.max_version
            );
            // Its Hello is read and nothing else came: it will see this.
            let refused = Refused::new(-libc::EPROTONOSUPPORT, &text);
            let _ = send(&self.fd, &ServerMessage::Refused(refused));
            return Err(Why::Version(text));
        };
        self.greeted = true;
        let limit = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
        let (max_registrations, max_queued) = (limit(limits.registrations), limit(limits.queued_per_client));
        let welcome = Welcome { version, features: 0, instance, max_registrations, max_queued };
        // The first packet always has room.
        send(&self.fd, &ServerMessage::Welcome(welcome)).map_err(|_| Why::Closed)
    }

    /// Brings out what waits, as far as the socket takes it and others do not wait too long.
    pub fn write(&mut self, id: ClientId, driver: &mut Driver, answers: &mut Answers) -> Result<Room, Why> {
        let mut packet = [0; MAX_PACKET];
        for _ in 0..TURN {
            let sent = match driver.engine.outgoing(id) {
                None => return Ok(Room::Done),
                Some(Outgoing::Reply(Reply::Status { query })) => {
                    let query = *query;
                    self.write_status(query, &mut packet, driver, answers)
                }
                Some(item) => send_in(&mut packet, &self.fd, &message(item)).map(|()| true),
            };
            match sent {
                Ok(true) => driver.engine.sent(id),
                Ok(false) | Err(Errno::INTR) => {}
                Err(error) => return room(error),
            }
        }
        Ok(Room::More)
    }

    /// The next packet of a status. Returns whether it was the last.
    fn write_status(
        &mut self,
        query: u32,
        packet: &mut [u8; MAX_PACKET],
        driver: &Driver,
        answers: &mut Answers,
    ) -> rustix::io::Result<bool> {
        let (answer, done) =
            self.answer.get_or_insert_with(|| (answers.answer(now(), || driver.engine.status()), 0));
        let mut is_last = true;
        if let Some(chunk) = status_chunks(query, answer).nth(*done) {
            send_in(packet, &self.fd, &ServerMessage::StatusChunk(chunk))?;
            *done += 1;
            is_last = chunk.is_last();
        }
        if is_last {
            (self.answer, self.asked) = (None, false);
        }
        Ok(is_last)
    }
}

/// What it means that a packet was not taken.
fn room(error: Errno) -> Result<Room, Why> {
    match error {
        Errno::AGAIN => Ok(Room::Full),
        // They pass; the client need not die of them. The socket has room all the same and would say so at once.
        Errno::NOBUFS | Errno::NOMEM => Ok(Room::Later),
        _ => Err(Why::Closed),
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

/// One packet.
pub fn send(fd: &OwnedFd, message: &ServerMessage<'_>) -> rustix::io::Result<()> {
    send_in(&mut [0; MAX_PACKET], fd, message)
}

/// One packet, made in this room: many that follow one another need it only once.
fn send_in(
    packet: &mut [u8; MAX_PACKET],
    fd: &OwnedFd,
    message: &ServerMessage<'_>,
) -> rustix::io::Result<()> {
    let length = message.encode(packet);
    rustix::net::send(fd, &packet[..length], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(|_| ())
}

/// The name of a process, as it gives it itself; empty if it cannot be seen.
pub fn comm(pid: u32) -> String {
    let read = || -> io::Result<Vec<u8>> { std::fs::read(format!("/proc/{pid}/comm")) };
    let name = if pid == 0 { Vec::new() } else { read().unwrap_or_default() };
    String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned()
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::engine::{DefaultPolicy, Settings};
    use crate::transport::embedded::Embedded;

    #[test]
    fn whoever_has_much_to_read_lets_others_have_their_turn() {
        let transport = |sink| -> io::Result<Box<dyn crate::transport::Transport>> {
            let sa = Embedded::default();
            sa.attach(sink);
            Ok(Box::new(sa))
        };
        let policy = Box::new(DefaultPolicy::default());
        let mut driver = Driver::new(Settings::default(), policy, Box::new(transport), Box::new(|_| {}))
            .expect("an eventfd");
        let (client, peer) =
            (ClientId(1), Peer { uid: 0, gid: 0, pid: 1, comm: String::new(), groups: Vec::new() });
        driver.event(Event::ClientConnected { client, peer: peer.clone() });
        for id in 1..=2 * TURN as u64 + 1 {
            driver.event(Event::ClientRequest { client, request: Request::Unregister { id } });
        }
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None)
                .expect("sockets");
        let mut connection = Connection::new(ours, None, peer);
        let heard = || {
            std::iter::from_fn(|| rustix::net::recv(&theirs, &mut [0; 64], RecvFlags::empty()).ok()).count()
        };
        let mut rooms = Vec::new();
        for _ in 0..3 {
            rooms.push((connection.write(client, &mut driver, &mut Answers::default()), heard()));
        }
        assert_eq!(rooms, [(Ok(Room::More), TURN), (Ok(Room::More), TURN), (Ok(Room::Done), 1)]);
    }

    #[test]
    fn a_kernel_without_memory_is_asked_again_later_and_not_at_once() {
        assert_eq!(room(Errno::AGAIN), Ok(Room::Full));
        assert_eq!([room(Errno::NOBUFS), room(Errno::NOMEM)], [Ok(Room::Later), Ok(Room::Later)]);
        assert_eq!(room(Errno::PIPE), Err(Why::Closed));
    }
}
