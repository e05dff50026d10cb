//! A program that speaks the protocol itself.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::proto::{
    ClientMessage, Hello, MAX_PACKET, MAX_REQUEST, PortSelector, Register, ServerMessage, StatusQuery,
    Unregister,
};
use ibv_sa_wire::{Filter, Guid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// What has to come may take this long.
pub const LIMIT: Duration = Duration::from_secs(20);
/// Nothing comes that has not come by then. Never for what has to come.
pub const QUIET: Duration = Duration::from_millis(300);

/// What the daemon said.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    Welcome,
    Refused(i32),
    Registered(u64, i32),
    Unregistered(u64),
    Status(u64, i32),
    /// Registration, sequence, notice.
    Notice(u64, u64, Notice),
    Lost(u64, u64),
    /// Offset, total, text.
    Chunk(u32, u32, String),
    Closed,
    Nothing,
}

pub struct Client {
    pub fd: OwnedFd,
}

impl Client {
    /// Connects without a word.
    pub fn connect(path: &Path) -> Client {
        let fd =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("a socket");
        rustix::net::connect(&fd, &SocketAddrUnix::new(path).expect("a path")).expect("the daemon listens");
        Client { fd }
    }

    /// Connects and is welcome.
    pub fn new(path: &Path) -> Client {
        let client = Client::connect(path);
        client.send(&ClientMessage::Hello(Hello::default()));
        assert_eq!(client.hear(LIMIT), Heard::Welcome);
        client
    }

    pub fn send(&self, message: &ClientMessage) {
        let mut packet = [0; MAX_REQUEST];
        let length = message.encode(&mut packet);
        self.send_bytes(&packet[..length]);
    }

    pub fn send_bytes(&self, bytes: &[u8]) {
        rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL).expect("the daemon takes it");
    }

    pub fn register(&self, id: u64, device: &str, filter: Filter, flags: u32) {
        let port = PortSelector::new(device, Guid::ZERO, 1).expect("a port");
        self.send(&ClientMessage::Register(Register { id, flags, port, filter }));
    }

    /// Registers and waits until it is active.
    pub fn registered(&self, id: u64, device: &str, filter: Filter) {
        self.register(id, device, filter, 0);
        assert_eq!(self.hear(LIMIT), Heard::Registered(id, 0));
        assert_eq!(self.hear(LIMIT), Heard::Status(id, 0));
    }

    pub fn unregister(&self, id: u64) {
        self.send(&ClientMessage::Unregister(Unregister { id }));
    }

    /// The whole answer to a status query.
    pub fn status(&self) -> String {
        self.send(&ClientMessage::StatusQuery(StatusQuery { query: 5 }));
        let mut text = String::new();
        loop {
            match self.hear(LIMIT) {
                Heard::Chunk(offset, total, part) => {
                    assert_eq!(offset as usize, text.len());
                    text.push_str(&part);
                    if text.len() == total as usize {
                        return text;
                    }
                }
                other => panic!("{other:?} instead of a status"),
            }
        }
    }

    pub fn hear(&self, within: Duration) -> Heard {
        let timeout = Timespec::try_from(within).expect("a short time");
        let ready = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)).expect("poll works");
        if ready == 0 {
            return Heard::Nothing;
        }
        let mut packet = [0; MAX_PACKET];
        let length = match rustix::net::recv(&self.fd, &mut packet, RecvFlags::empty()) {
            Ok((_, 0)) | Err(_) => return Heard::Closed,
            Ok((_, length)) => length,
        };
        match ServerMessage::decode(&packet[..length]).expect("the daemon speaks the protocol") {
            ServerMessage::Welcome(_) => Heard::Welcome,
            ServerMessage::Refused(refused) => Heard::Refused(refused.status),
            ServerMessage::Registered(one) => Heard::Registered(one.id, one.status),
            ServerMessage::Unregistered(one) => Heard::Unregistered(one.id),
            ServerMessage::StatusChange(one) => Heard::Status(one.id, one.status),
            ServerMessage::Notice(one) => Heard::Notice(one.id, one.sequence, one.notice),
            ServerMessage::Overflow(one) => Heard::Lost(one.id, one.lost),
            ServerMessage::StatusChunk(one) => {
                let text = String::from_utf8(one.data().to_vec()).expect("a status is text");
                Heard::Chunk(one.offset(), one.total(), text)
            }
        }
    }

    /// So many notices, however long each takes, and no more for a moment after the last.
    pub fn notices(&self, count: usize) -> Vec<Notice> {
        let one = |_| match self.hear(LIMIT) {
            Heard::Notice(_, _, notice) => notice,
            other => panic!("{other:?} instead of a notice"),
        };
        let notices = (0..count).map(one).collect();
        assert_eq!(self.hear(QUIET), Heard::Nothing, "beside {notices:?}");
        notices
    }
}

/// A daemon that a test starts ends with it, however that ends. For the thread that was started with the process.
pub fn end_with_parent() {
    let signal = rustix::process::Signal::KILL;
    rustix::process::set_parent_process_death_signal(Some(signal)).expect("a signal");
}
