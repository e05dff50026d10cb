//! What a program and the daemon say to each other: packets of a SOCK_SEQPACKET unix socket.
//!
//! One packet is one message: an 8-byte header ([`Kind`], zero, length of the packet), then a body of fixed layout;
//! only [`StatusChunk`] varies. Numbers are little-endian whatever the host: client and daemon may be built for
//! different ones. GIDs, GUIDs and notices are kept in their own big-endian wire form. No descriptor is ever sent.
//!
//! Nothing here allocates. A message owns its fields, except [`StatusChunk`], which borrows the packet it was read
//! from. Encoding goes into the caller's array, [`MAX_REQUEST`] or [`MAX_PACKET`] bytes, and cannot fail. Decoding
//! checks everything: length, zeros where there have to be zeros, ranges, text. What does not pass is a
//! [`ProtoError`]; the daemon counts it and closes that connection, a client treats it as the loss of the daemon.
//!
//! # Who says what
//!
//! | client | daemon | when |
//! |---|---|---|
//! | [`Hello`] | | first packet, once |
//! | | [`Welcome`] or [`Refused`] | answer; after Refused the daemon closes |
//! | [`Register`] | | any time after Welcome |
//! | | [`Registered`] | one for each Register; a status below 0: there is no such registration |
//! | [`Unregister`] | | any time after Register |
//! | | [`Unregistered`] | one for each Unregister; the last packet with that id |
//! | | [`StatusChange`] | the SA's side of a registration changed |
//! | | [`NoticeEvent`] | a notice for a registration |
//! | | [`Overflow`] | notices for a registration were lost, here: its client read too slowly |
//! | [`StatusQuery`] | | any time after Welcome, but not before the last one is answered |
//! | | [`StatusChunk`] | one or more for each StatusQuery, in order |
//! | closes | | ends all its registrations |
//!
//! The client chooses the ids of its registrations; an id may be used again after its [`Unregistered`] only.
//!
//! # Version
//!
//! Hello names the lowest and the highest version the client speaks, Welcome the one that counts from then on: the
//! highest both have. None in common: Refused with -EPROTONOSUPPORT and a text that names both ranges. Hello,
//! Welcome and Refused have the same layout in all versions. A new kind of message or field is a new version;
//! [`Welcome::features`] is for what does not change the packets.
//!
//! # A connection
//!
//! ```text
//!                 Hello               Welcome
//!   connected ------------> waiting ----------> open ------> closed (by either side)
//!                              |                 |
//!                              | Refused         | packet that does not decode, or not allowed in this state
//!                              v                 v
//!                            closed            closed
//! ```
//!
//! # A registration
//!
//! ```text
//!            Register          Registered 0          StatusChange 0
//!    (none) ----------> asked --------------> pending --------------> active <--+   Notice, Overflow: active only
//!      ^                  |                      |                      |       |
//!      |  Registered < 0  |                      | StatusChange < 0     | < 0   | StatusChange 0, only with
//!      +------------------+                      v                      v       | AUTO_REREGISTER
//!      |                                        lost <------------------+       |
//!      |                                         | |                            |
//!      |                                         | +----------------------------+
//!      |   Unregistered                          v
//!      +---------------------- leaving <----- Unregister, from any state (Registered still comes first)
//! ```
//!
//! Each StatusChange differs from the one before: 0 means that the SA has the subscription, -ENETRESET that it may
//! have lost it and notices were missed, -ENETDOWN that the port is down, -ETIMEDOUT that the SA does not answer,
//! -EACCES, -EINVAL or -EBUSY that it refused. A lost registration without AUTO_REREGISTER stays lost until the
//! client unregisters it.
//!
//! # Order
//!
//! Packets of one port arrive in the order in which the SA's reports did, and a StatusChange or Overflow stands
//! where it happened among them. Nothing is said between ports.
//!
//! # Example
//!
//! ```
//! use ibv_sa_wire::proto::{ClientMessage, MAX_REQUEST, PortSelector, Register};
//! use ibv_sa_wire::{Filter, Guid, Trap};
//!
//! let port = PortSelector::new("mlx5_0", Guid::ZERO, 1).unwrap();
//! let filter = Filter::trap(Trap::GID_OUT_OF_SERVICE);
//! let message = ClientMessage::Register(Register { id: 1, flags: Register::AUTO_REREGISTER, port, filter });
//! let mut packet = [0; MAX_REQUEST];
//! let len = message.encode(&mut packet);
//! assert_eq!(ClientMessage::decode(&packet[..len]), Ok(message));
//! ```

mod error;
mod hello;
mod notices;
mod register;
mod status;
mod wire;

pub use error::ProtoError;
pub use hello::{Hello, Refused, Welcome};
pub use notices::{NoticeEvent, Overflow, StatusChange};
pub use register::{PortSelector, Register, Registered, SelectorError, Unregister, Unregistered};
pub use status::{StatusChunk, StatusQuery, status_chunks};
pub use wire::Kind;

/// No packet is longer.
pub const MAX_PACKET: usize = 4096;
/// No packet from a client is longer.
pub const MAX_REQUEST: usize = 256;
/// Bytes in front of every body.
pub const HEADER_SIZE: usize = 8;
/// The only version there is.
pub const VERSION: u16 = 1;

/// What a client says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// First packet.
    Hello(Hello),
    /// Wants notices.
    Register(Register),
    /// Wants no more of them.
    Unregister(Unregister),
    /// Wants to know how the daemon is.
    StatusQuery(StatusQuery),
}

/// What the daemon says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerMessage<'a> {
    /// The connection is open.
    Welcome(Welcome),
    /// The connection will be closed.
    Refused(Refused),
    /// Answer to Register.
    Registered(Registered),
    /// Answer to Unregister.
    Unregistered(Unregistered),
    /// Something happened in the subnet.
    Notice(NoticeEvent),
    /// Something happened to a registration.
    StatusChange(StatusChange),
    /// The client was too slow.
    Overflow(Overflow),
    /// Part of the answer to StatusQuery.
    StatusChunk(StatusChunk<'a>),
}

impl ClientMessage {
    /// Reads a packet that a client sent.
    pub fn decode(packet: &[u8]) -> Result<ClientMessage, ProtoError> {
        let (kind, body) = wire::open(packet, MAX_REQUEST)?;
        match kind {
            Kind::HELLO => Hello::read(body).map(ClientMessage::Hello),
            Kind::REGISTER => Register::read(body).map(ClientMessage::Register),
            Kind::UNREGISTER => Unregister::read(body).map(ClientMessage::Unregister),
            Kind::STATUS_QUERY => StatusQuery::read(body).map(ClientMessage::StatusQuery),
            kind => Err(ProtoError::Kind(kind)),
        }
    }

    /// Writes it to the front of `packet`; returns its length.
    pub fn encode(&self, packet: &mut [u8; MAX_REQUEST]) -> usize {
        match self {
            ClientMessage::Hello(message) => message.write(packet),
            ClientMessage::Register(message) => message.write(packet),
            ClientMessage::Unregister(message) => message.write(packet),
            ClientMessage::StatusQuery(message) => message.write(packet),
        }
    }
}

impl<'a> ServerMessage<'a> {
    /// Reads a packet that the daemon sent.
    pub fn decode(packet: &'a [u8]) -> Result<ServerMessage<'a>, ProtoError> {
        let (kind, body) = wire::open(packet, MAX_PACKET)?;
        match kind {
            Kind::WELCOME => Welcome::read(body).map(ServerMessage::Welcome),
            Kind::REFUSED => Refused::read(body).map(ServerMessage::Refused),
            Kind::REGISTERED => Registered::read(body).map(ServerMessage::Registered),
            Kind::UNREGISTERED => Unregistered::read(body).map(ServerMessage::Unregistered),
            Kind::NOTICE => NoticeEvent::read(body).map(ServerMessage::Notice),
            Kind::STATUS_CHANGE => StatusChange::read(body).map(ServerMessage::StatusChange),
            Kind::OVERFLOW => Overflow::read(body).map(ServerMessage::Overflow),
            Kind::STATUS_CHUNK => StatusChunk::read(body).map(ServerMessage::StatusChunk),
            kind => Err(ProtoError::Kind(kind)),
        }
    }

    /// Writes it to the front of `packet`; returns its length.
    pub fn encode(&self, packet: &mut [u8; MAX_PACKET]) -> usize {
        match self {
            ServerMessage::Welcome(message) => message.write(packet),
            ServerMessage::Refused(message) => message.write(packet),
            ServerMessage::Registered(message) => message.write(packet),
            ServerMessage::Unregistered(message) => message.write(packet),
            ServerMessage::Notice(message) => message.write(packet),
            ServerMessage::StatusChange(message) => message.write(packet),
            ServerMessage::Overflow(message) => message.write(packet),
            ServerMessage::StatusChunk(message) => message.write(packet),
        }
    }
}
