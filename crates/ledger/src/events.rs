//! Asynchronous event types: their names, and the objects that they are about.

/// `enum ibv_event_type` without the prefix, by number (rdma-core 65, `<infiniband/verbs.h>`).
const EVENTS: [&str; 21] = [
    "CQ_ERR",
    "QP_FATAL",
    "QP_REQ_ERR",
    "QP_ACCESS_ERR",
    "COMM_EST",
    "SQ_DRAINED",
    "PATH_MIG",
    "PATH_MIG_ERR",
    "DEVICE_FATAL",
    "PORT_ACTIVE",
    "PORT_ERR",
    "LID_CHANGE",
    "PKEY_CHANGE",
    "SM_CHANGE",
    "SRQ_ERR",
    "SRQ_LIMIT_REACHED",
    "QP_LAST_WQE_REACHED",
    "CLIENT_REREGISTER",
    "GID_CHANGE",
    "WQ_FATAL",
    "DEVICE_SPEED_CHANGE",
];

/// `IBV_EVENT_DEVICE_FATAL`.
pub(crate) const DEVICE_FATAL: u32 = 8;

/// The name of an asynchronous event type; a number that no libibverbs knows is printed as a number.
pub fn event_name(event_type: u32) -> String {
    match EVENTS.get(event_type as usize) {
        Some(name) => (*name).into(),
        None => format!("event {event_type}"),
    }
}

/// Whether an event of this type is about a port: its element is the port number (ibv_get_async_event(3)).
pub fn is_of_port(event_type: u32) -> bool {
    matches!(event_type, 9..=13 | 17 | 18)
}

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// Queue pair.
    Qp,
    /// Completion queue, also an extended one.
    Cq,
    /// Shared receive queue.
    Srq,
    /// Work queue.
    Wq,
    /// Completion event channel.
    CompChannel,
}

pub(crate) const KINDS: usize = 5;

/// Event types of one kind of object at most.
pub(crate) const TYPES: usize = 8;

impl Kind {
    pub(crate) const ALL: [Kind; KINDS] = [Kind::Qp, Kind::Cq, Kind::Srq, Kind::Wq, Kind::CompChannel];

    pub(crate) fn from_number(number: u32) -> Kind {
        Self::ALL[(number as usize).min(KINDS - 1)]
    }

    /// The kind of object that events of this type are about and that waits for their acks; `None` for events of
    /// ports, of devices, and of types that no libibverbs knows: their acks do nothing there.
    pub fn of_event(event_type: u32) -> Option<Kind> {
        match event_type {
            0 => Some(Kind::Cq),
            1..=7 | 16 => Some(Kind::Qp),
            14 | 15 => Some(Kind::Srq),
            19 => Some(Kind::Wq),
            _ => None,
        }
    }

    /// The types of events about objects of this kind.
    pub(crate) fn event_types(self) -> &'static [u32] {
        match self {
            Kind::Qp => &[1, 2, 3, 4, 5, 6, 7, 16],
            Kind::Cq => &[0],
            Kind::Srq => &[14, 15],
            Kind::Wq => &[19],
            Kind::CompChannel => &[],
        }
    }

    /// A type of event about objects of this kind. An ack names a type, but libibverbs counts all acks of an object
    /// together: one type stands for all.
    pub fn any_event(self) -> u32 {
        match self {
            // COMM_EST: one that frightens nobody who sees it counted.
            Kind::Qp => 4,
            _ => self.event_types().first().copied().unwrap_or_default(),
        }
    }
}

/// Which of an object's counters a type has.
pub(crate) fn place(kind: Kind, event_type: u32) -> usize {
    kind.event_types().iter().position(|known| *known == event_type).unwrap_or(0)
}
