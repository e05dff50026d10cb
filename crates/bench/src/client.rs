//! The daemon's protocol from the program's side, without the library.

use std::path::Path;

use ibv_sa_daemon::transport::embedded::DEVICE;
use ibv_sa_wire::proto::{
    ClientMessage, Hello, MAX_PACKET, MAX_REQUEST, PortSelector, Register, ServerMessage, Unregister,
};
use ibv_sa_wire::{Filter, Guid};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::Outcome;

/// A connection.
pub struct Client {
    fd: OwnedFd,
    packet: [u8; MAX_PACKET],
}

impl Client {
    /// Connects, and says nothing yet.
    pub fn connect(path: &Path) -> Outcome<Client> {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let fd = rustix::net::socket_with(kind.0, kind.1, kind.2, None)?;
        rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Client { fd, packet: [0; MAX_PACKET] })
    }

    /// Connects and is welcome.
    pub fn greeted(path: &Path) -> Outcome<Client> {
        let mut client = Client::connect(path)?;
        client.send(&ClientMessage::Hello(Hello::default()))?;
        match client.next()? {
            ServerMessage::Welcome(_) => Ok(client),
            other => Err(format!("{other:?} instead of a welcome").into()),
        }
    }

    /// Registers, and waits until the SA has the subscription.
    pub fn register(&mut self, id: u64, filter: Filter) -> Outcome<()> {
        let port = PortSelector::new(DEVICE, Guid::ZERO, 1).map_err(|error| format!("{error:?}"))?;
        self.send(&ClientMessage::Register(Register { id, flags: 0, port, filter }))?;
        match self.next()? {
            ServerMessage::Registered(answer) if (answer.id, answer.status) == (id, 0) => {}
            other => return Err(format!("{other:?} instead of a registration").into()),
        }
        match self.next()? {
            ServerMessage::StatusChange(change) if (change.id, change.status) == (id, 0) => Ok(()),
            other => Err(format!("{other:?} instead of a status").into()),
        }
    }

    /// Ends a registration. What comes before the answer was too much.
    pub fn unregister(&mut self, id: u64) -> Outcome<()> {
        self.send(&ClientMessage::Unregister(Unregister { id }))?;
        match self.next()? {
            ServerMessage::Unregistered(answer) if answer.id == id => Ok(()),
            other => Err(format!("{other:?} after the last notice").into()),
        }
    }

    /// The next packet.
    pub fn next(&mut self) -> Outcome<ServerMessage<'_>> {
        let (_, length) = rustix::net::recv(&self.fd, &mut self.packet, RecvFlags::empty())?;
        let packet = self.packet.get(..length).filter(|packet| !packet.is_empty());
        let packet = packet.ok_or("the connection has ended")?;
        Ok(ServerMessage::decode(packet).map_err(|error| error.to_string())?)
    }

    fn send(&self, message: &ClientMessage) -> Outcome<()> {
        let mut packet = [0; MAX_REQUEST];
        let length = message.encode(&mut packet);
        rustix::net::send(&self.fd, &packet[..length], SendFlags::NOSIGNAL)?;
        Ok(())
    }
}
