//! What goes into the engine and what comes out.

use std::fmt;

use ibv_sa_wire::{Gid, Guid};

use super::Request;

/// A connection of a program. Never used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// A port as engine and transport call it between themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

/// A port as the host calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName {
    /// Name of the device, `mlx5_0`.
    pub device: String,
    /// Number of the port, from 1.
    pub number: u8,
    /// GUID of the port: a device that comes back may have another name, and its name another device. Zero where the
    /// transport has no other ports.
    pub guid: Guid,
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.device.escape_debug(), self.number)
    }
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// User of the process.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its other groups, when it connected.
    pub groups: Vec<u32>,
    /// The process, 0 if it cannot be seen from here.
    pub pid: u32,
    /// Its name. Chosen by the program: escape it before it is shown.
    pub comm: String,
}

/// Where a MAD came from or goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// LID of the other port.
    pub lid: u16,
    /// Queue pair at the other port.
    pub qpn: u32,
    /// Service level.
    pub sl: u8,
    /// Index of the P_Key at our port.
    pub pkey_index: u16,
}

/// What changes about a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortState {
    /// The port is in state Active: MADs can go out.
    pub active: bool,
    /// Its LID.
    pub lid: u16,
    /// LID of the master SM, 0 if there is none.
    pub sm_lid: u16,
    /// Service level towards it.
    pub sm_sl: u8,
    /// GID 0.
    pub gid: Gid,
}

impl PortState {
    /// Can the SA be asked?
    pub fn is_ready(&self) -> bool {
        self.active && self.lid != 0 && self.sm_lid != 0
    }
}

/// What an open port is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// GUID of the device.
    pub node_guid: Guid,
    /// GUID of the port.
    pub port_guid: Guid,
    /// Whether a table comes whole, however long; if not, it ends with the first MAD.
    pub long_tables: bool,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A program connected.
    ClientConnected {
        /// Its connection.
        client: ClientId,
        /// Who it is.
        peer: Peer,
    },
    /// A connection ended, or its process did.
    ClientGone {
        /// The connection.
        client: ClientId,
    },
    /// A program asked for something.
    ClientRequest {
        /// Its connection.
        client: ClientId,
        /// What.
        request: Request,
    },
    /// The transport has the port.
    PortOpened {
        /// Which.
        port: PortId,
        /// What it is.
        info: PortInfo,
        /// How it is.
        state: PortState,
    },
    /// The transport could not open the port, or lost it.
    PortFailed {
        /// Which.
        port: PortId,
        /// Negative errno for those who want it.
        status: i32,
        /// Why, for the log.
        reason: String,
    },
    /// The port is looked at, and may have changed.
    PortState {
        /// Which.
        port: PortId,
        /// How it is now.
        state: PortState,
    },
    /// The SM asked all subscribers to subscribe again, or is another one.
    PortReregister {
        /// Which.
        port: PortId,
    },
    /// The transport has something to say for the log.
    Note {
        /// About this port.
        port: PortId,
        /// What.
        text: String,
    },
    /// A MAD came.
    Mad {
        /// At this port.
        port: PortId,
        /// From there.
        from: Address,
        /// 256 bytes, or more for a table that the transport has put together.
        mad: Vec<u8>,
    },
    /// A MAD that asked for an answer did not get one, or could not be sent.
    SendFailed {
        /// From this port.
        port: PortId,
        /// Low half of its transaction id.
        tid: u32,
    },
    /// `next_deadline` has come.
    Timer,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open the port and report with `PortOpened` or `PortFailed`.
    OpenPort {
        /// Its name from now on.
        port: PortId,
        /// Which one it is.
        name: PortName,
    },
    /// Close it. Nothing about it is wanted any more.
    ClosePort {
        /// Which.
        port: PortId,
    },
    /// Send a MAD.
    SendMad {
        /// From this port.
        port: PortId,
        /// To there.
        to: Address,
        /// The whole of it.
        mad: Box<[u8; 256]>,
        /// How long an answer may take, in milliseconds; 0 if none will come.
        answer_within: u32,
    },
    /// The client's queue is not empty any more: see `Engine::outgoing`. Not said again until it was empty.
    Wake {
        /// Whose.
        client: ClientId,
    },
    /// Tell the client that it is refused, and end the connection.
    CloseClient {
        /// Which.
        client: ClientId,
        /// Negative errno for its program.
        status: i32,
        /// Why, for a person.
        reason: &'static str,
    },
    /// Tell the operator.
    Log(Record),
}

/// How much an operator should care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something was lost or refused.
    Warning,
    /// Something changed.
    Info,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// How much to care.
    pub level: Level,
    /// What kind of line it is; at most one of a kind a second is written.
    pub kind: &'static str,
    /// The line. Whatever a stranger chose in it is escaped.
    pub text: String,
    /// Lines of this kind that were left out before it.
    pub suppressed: u64,
}
