//! Messages of programs and of the daemon, as packets: at least one of each kind.

use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::proto::*;
use ibv_sa_wire::{Filter, Gid, Guid, LidRange, Subject, Trap};

/// The device that an SA in the process of a test has.
pub const DEVICE: &str = "embedded0";

/// A GID that ends in this byte.
pub fn gid(last: u8) -> Gid {
    let mut gid = [0; 16];
    (gid[0], gid[1], gid[15]) = (0xFE, 0x80, last);
    Gid(gid)
}

/// The packet of a message.
pub fn of_client(message: &ClientMessage) -> Vec<u8> {
    let mut packet = [0; MAX_REQUEST];
    let length = message.encode(&mut packet);
    packet[..length].to_vec()
}

/// The packet of a message.
pub fn of_server(message: &ServerMessage<'_>) -> Vec<u8> {
    let mut packet = [0; MAX_PACKET];
    let length = message.encode(&mut packet);
    packet[..length].to_vec()
}

fn register(id: u64, flags: u32, filter: Filter) -> ClientMessage {
    let port = PortSelector::new(DEVICE, Guid::ZERO, 1).expect("a port");
    ClientMessage::Register(Register { id, flags, port, filter })
}

/// What programs send.
pub fn client() -> Vec<Vec<u8>> {
    let in_service = Filter { is_generic: Some(true), ..Filter::trap(Trap::GID_IN_SERVICE) };
    let all_fields = Filter {
        gid: Some(gid(1)),
        lids: Some(LidRange { begin: 1, end: 9 }),
        is_generic: Some(false),
        kind: Some(4),
        trap: Some(144),
        producer: Some(0x1234),
        subject: Some(Subject::Lid(3)),
    };
    let named = PortSelector::new("mlx5_0", Guid::from(0x0002_c903_0001), 2).expect("a port");
    let messages = [
        ClientMessage::Hello(Hello::default()),
        ClientMessage::Hello(Hello { min_version: 1, max_version: 3 }),
        ClientMessage::Hello(Hello { min_version: 7, max_version: 9 }),
        register(1, 0, in_service),
        register(2, Register::AUTO_REREGISTER, Filter::EVERYTHING),
        register(3, 0, in_service.about(Subject::Gid(gid(9)))),
        register(4, 0, all_fields),
        ClientMessage::Register(Register { id: 5, flags: 0, port: named, filter: Filter::EVERYTHING }),
        ClientMessage::Unregister(Unregister { id: 1 }),
        ClientMessage::StatusQuery(StatusQuery { query: 7 }),
    ];
    messages.iter().map(of_client).collect()
}

/// What a daemon sends about a registration of this number, and else.
pub fn server(id: u64) -> Vec<Vec<u8>> {
    let welcome =
        |version| Welcome { version, features: 0, instance: 1, max_registrations: 10, max_queued: 99 };
    let about = |trap, last| Notice::about_gid(trap, gid(last), 1, gid(1));
    let notice =
        |notice| ServerMessage::Notice(NoticeEvent { id, sequence: 1, time_ns: 9, source_lid: 1, notice });
    let of_switch = Notice::generic(
        ibv_sa_wire::mad::NoticeType::URGENT,
        ibv_sa_wire::mad::Producer::SWITCH,
        Trap::PORT_STATE_CHANGED,
    );
    let mut messages = vec![
        ServerMessage::Welcome(welcome(VERSION)),
        ServerMessage::Welcome(welcome(2)),
        ServerMessage::Refused(Refused::new(-16, "too many connections of this user")),
        ServerMessage::Registered(Registered { id, status: 0 }),
        ServerMessage::Registered(Registered { id, status: -13 }),
        ServerMessage::Unregistered(Unregistered { id }),
        ServerMessage::StatusChange(StatusChange { id, status: 0 }),
        ServerMessage::StatusChange(StatusChange { id, status: -102 }),
        ServerMessage::Overflow(Overflow { id, lost: 3 }),
        notice(about(Trap::GID_IN_SERVICE, 4)),
        notice(about(Trap::GID_OUT_OF_SERVICE, 5)),
        notice(of_switch),
    ];
    messages.extend(status_chunks(7, &[b'x'; 5000]).map(ServerMessage::StatusChunk));
    messages.iter().map(of_server).collect()
}
