//! Packets between client and daemon: layout, every reason to refuse one, every message there and back.

use ibv_sa_wire::filter::{FilterError, component};
use ibv_sa_wire::mad::NoticeType;
use ibv_sa_wire::proto::*;
use ibv_sa_wire::{Filter, Gid, Guid, LidRange, Notice, Subject, Trap};

fn sent(message: ClientMessage) -> Vec<u8> {
    let mut packet = [0xAA; MAX_REQUEST];
    let len = message.encode(&mut packet);
    assert!(packet[len..].iter().all(|&byte| byte == 0xAA), "nothing is written behind the packet");
    packet[..len].to_vec()
}

fn told(message: ServerMessage<'_>) -> Vec<u8> {
    let mut packet = [0xAA; MAX_PACKET];
    let len = message.encode(&mut packet);
    assert!(packet[len..].iter().all(|&byte| byte == 0xAA), "nothing is written behind the packet");
    packet[..len].to_vec()
}

fn port() -> PortSelector {
    PortSelector::new("mlx5_0", Guid::from(0x0002_c903_0010_0001), 1).unwrap()
}

fn full_filter() -> Filter {
    Filter {
        gid: Some("fe80::10:1".parse().unwrap()),
        lids: Some(LidRange { begin: 1, end: 5 }),
        is_generic: Some(true),
        kind: Some(3),
        trap: Some(64),
        producer: Some(4),
        subject: Some(Subject::Gid("fe80::10:7".parse().unwrap())),
    }
}

fn register(filter: Filter) -> ClientMessage {
    ClientMessage::Register(Register { id: 7, flags: Register::AUTO_REREGISTER, port: port(), filter })
}

fn notice() -> Notice {
    Notice::about_gid(Trap::GID_IN_SERVICE, "fe80::10:7".parse().unwrap(), 1, "fe80::10:1".parse().unwrap())
}

fn notice_event() -> ServerMessage<'static> {
    ServerMessage::Notice(NoticeEvent { id: 7, sequence: 1, time_ns: 5, source_lid: 1, notice: notice() })
}

#[test]
fn hello_has_the_bytes_that_every_version_has() {
    let packet = sent(ClientMessage::Hello(Hello { min_version: 1, max_version: 0x0203 }));
    assert_eq!(packet, [1, 0, 0, 0, 16, 0, 0, 0, b'i', b'b', b'S', b'A', 1, 0, 3, 2]);
    let packet = told(ServerMessage::Welcome(Welcome {
        version: 1,
        features: 2,
        instance: 3,
        max_registrations: 4,
        max_queued: 5,
    }));
    let mut expected = vec![129, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    expected.extend([2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(packet, expected);
    let packet = told(ServerMessage::Refused(Refused::new(-93, "no")));
    assert_eq!(packet.len(), 8 + 4 + Refused::TEXT);
    assert_eq!(packet[..15], [130, 0, 0, 0, 172, 0, 0, 0, 163, 255, 255, 255, b'n', b'o', 0]);
}

#[test]
fn a_version_in_common_is_the_highest() {
    let hello = |min_version, max_version| Hello { min_version, max_version };
    assert_eq!(hello(1, 3).common_version(1, 2), Some(2));
    assert_eq!(hello(1, 3).common_version(2, 9), Some(3));
    assert_eq!(hello(1, 1).common_version(2, 3), None);
    assert_eq!(hello(4, 5).common_version(2, 3), None);
    assert_eq!(Hello::default().common_version(VERSION, VERSION), Some(VERSION));
}

#[test]
fn every_client_message_there_and_back() {
    let one_by_one = [
        Filter::EVERYTHING,
        Filter::trap(Trap::GID_IN_SERVICE),
        Filter { gid: full_filter().gid, ..Filter::EVERYTHING },
        Filter { lids: full_filter().lids, ..Filter::EVERYTHING },
        Filter { is_generic: Some(false), ..Filter::EVERYTHING },
        Filter { kind: Some(0), ..Filter::EVERYTHING },
        Filter { kind: Some(0xFFFF), ..Filter::EVERYTHING },
        Filter { trap: Some(0), ..Filter::EVERYTHING },
        Filter { producer: Some(0xFF_FFFF), ..Filter::EVERYTHING },
        Filter::EVERYTHING.about(Subject::Lid(9)),
        full_filter(),
    ];
    let mut messages: Vec<_> = one_by_one.into_iter().map(register).collect();
    messages.extend([
        ClientMessage::Hello(Hello::default()),
        ClientMessage::Unregister(Unregister { id: u64::MAX }),
        ClientMessage::StatusQuery(StatusQuery { query: 0 }),
    ]);
    for message in messages {
        assert_eq!(ClientMessage::decode(&sent(message)), Ok(message));
    }
}

#[test]
fn every_server_message_there_and_back() {
    for message in [
        ServerMessage::Welcome(Welcome {
            version: 9,
            features: 1,
            instance: 2,
            max_registrations: 3,
            max_queued: 4,
        }),
        ServerMessage::Refused(Refused::new(-93, "versions 1 to 1 here, 2 to 3 there")),
        ServerMessage::Registered(Registered { id: 1, status: 0 }),
        ServerMessage::Registered(Registered { id: 1, status: -13 }),
        ServerMessage::Unregistered(Unregistered { id: 1 }),
        notice_event(),
        ServerMessage::StatusChange(StatusChange { id: 3, status: -102 }),
        ServerMessage::Overflow(Overflow { id: 3, lost: u64::MAX }),
    ] {
        assert_eq!(ServerMessage::decode(&told(message)), Ok(message));
    }
}

#[test]
fn a_notice_is_masked_on_its_way_out() {
    let mut dirty = notice();
    dirty.details[0] = 1;
    dirty.details[53] = 1;
    dirty.toggle_count = 5.into();
    let event = NoticeEvent { id: 7, sequence: 1, time_ns: 5, source_lid: 1, notice: dirty };
    assert_eq!(told(ServerMessage::Notice(event)), told(notice_event()));
}

#[test]
fn the_status_comes_in_chunks() {
    let size = StatusChunk::MAX_DATA;
    for len in [1, size - 1, size, size + 1, 3 * size] {
        let answer: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let packets: Vec<_> =
            status_chunks(5, &answer).map(|chunk| told(ServerMessage::StatusChunk(chunk))).collect();
        assert_eq!(packets.len(), len.div_ceil(size));
        let mut whole = Vec::new();
        for (n, packet) in packets.iter().enumerate() {
            let Ok(ServerMessage::StatusChunk(chunk)) = ServerMessage::decode(packet) else { panic!() };
            assert_eq!(
                (chunk.query(), chunk.total() as usize, chunk.offset() as usize),
                (5, len, whole.len())
            );
            assert_eq!(chunk.is_last(), n + 1 == packets.len());
            whole.extend_from_slice(chunk.data());
        }
        assert_eq!(whole, answer);
    }
    assert_eq!(status_chunks(5, &[]).count(), 0);
}

#[test]
fn texts_of_a_refusal() {
    let long = "é".repeat(100);
    assert_eq!(Refused::new(-1, &long).text(), "é".repeat(80));
    assert_eq!(Refused::new(-1, &("x".to_owned() + &long)).text(), "x".to_owned() + &"é".repeat(79));
    assert_eq!(Refused::new(-1, "a\nb\0c\u{1b}[").text(), "a b c [");
    assert_eq!(Refused::new(5, "").status, -1);
    assert_eq!(Refused::new(i32::MIN, "").status, -4095);
    assert_eq!(format!("{:?}", Refused::new(-1, "x")), "Refused { status: -1, text: \"x\" }");
}

#[test]
fn ports() {
    let new = |name: &str, guid: u64, port| PortSelector::new(name, Guid::from(guid), port);
    let sixty_four = "x".repeat(64);
    for (name, guid, port) in [("mlx5_0", 0, 1), ("", 1, 1), ("ibsim0", 1, 255), (&sixty_four, 0, 1)] {
        assert_eq!(new(name, guid, port).unwrap().name(), name);
    }
    let too_long = "x".repeat(65);
    for (name, guid, port) in [
        ("", 0, 1),
        ("mlx5_0", 1, 0),
        ("a/b", 1, 1),
        ("a b", 1, 1),
        ("a\0b", 1, 1),
        ("a\0", 1, 1),
        ("é", 1, 1),
    ] {
        assert_eq!(new(name, guid, port), Err(SelectorError), "{name:?}");
    }
    assert_eq!(new(&too_long, 1, 1), Err(SelectorError));
    assert_eq!(new("mlx5_0", 1, 2).unwrap().to_string(), "mlx5_0/2");
    assert_eq!(new("", 1, 2).unwrap().to_string(), "0x0000000000000001/2");
}

/// A good packet with `bytes` written at `at`.
fn bent(mut packet: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    packet[at..at + bytes.len()].copy_from_slice(bytes);
    packet
}

// Offsets in a Register packet.
const ID: usize = 8;
const FLAGS: usize = 16;
const PORT: usize = 20;
const GUID: usize = 24;
const NAME: usize = 32;
const MASK: usize = 96;
const PRODUCER: usize = 100;
const LIDS: usize = 104;
const KIND: usize = 108;
const SUBJECT_LID: usize = 112;
const IS_GENERIC: usize = 114;
const RESERVED: usize = 115;
const SUBJECT_GID: usize = 136;

#[test]
fn what_a_daemon_refuses() {
    let hello = || sent(ClientMessage::Hello(Hello::default()));
    let full = || sent(register(full_filter()));
    let bare = || sent(register(Filter::EVERYTHING));
    let about_lid = || sent(register(Filter::EVERYTHING.about(Subject::Lid(9))));
    let mut long = hello();
    long.push(0);
    long[4] += 1;
    let subjects = component::SUBJECT_GID | component::SUBJECT_LID;
    let cases: Vec<(Vec<u8>, ProtoError)> = vec![
        (vec![], ProtoError::Short { need: 8, have: 0 }),
        (vec![1; 7], ProtoError::Short { need: 8, have: 7 }),
        (vec![0; MAX_REQUEST + 1], ProtoError::Long { limit: MAX_REQUEST, have: MAX_REQUEST + 1 }),
        (bent(hello(), 4, &[15]), ProtoError::Length { named: 15, have: 16 }),
        (bent(hello(), 4, &[255; 4]), ProtoError::Length { named: u32::MAX, have: 16 }),
        (bent(hello(), 2, &[1]), ProtoError::Reserved),
        (bent(hello()[..12].to_vec(), 4, &[12]), ProtoError::Short { need: 16, have: 12 }),
        (long, ProtoError::Long { limit: 16, have: 17 }),
        (bent(hello(), 0, &[0]), ProtoError::Kind(Kind(0))),
        (bent(hello(), 0, &[129]), ProtoError::Kind(Kind::WELCOME)),
        (bent(hello(), 1, &[1]), ProtoError::Kind(Kind(0x101))),
        (bent(hello(), 8, b"GET "), ProtoError::Magic(u32::from_le_bytes(*b"GET "))),
        (bent(hello(), 12, &[0, 0]), ProtoError::Versions { min: 0, max: 1 }),
        (bent(hello(), 12, &[2, 0]), ProtoError::Versions { min: 2, max: 1 }),
        (bent(full(), ID, &[0; 8]), ProtoError::Id),
        (bent(full(), FLAGS, &[3]), ProtoError::Flags(3)),
        (bent(full(), PORT, &[0]), ProtoError::Port),
        (bent(full(), PORT + 1, &[1]), ProtoError::Reserved),
        (bent(bent(full(), GUID, &[0; 8]), NAME, &[0; 64]), ProtoError::Port),
        (bent(full(), NAME, b"../"), ProtoError::Text),
        (bent(full(), NAME + 1, &[0]), ProtoError::Text),
        (bent(full(), NAME, &[0x1B]), ProtoError::Text),
        (bent(full(), NAME + 63, b"x"), ProtoError::Text),
        (bent(full(), MASK + 1, &[1]), ProtoError::Mask(full_filter().mask() | 0x100)),
        (bent(full(), MASK, &[subjects as u8]), ProtoError::Mask(subjects)),
        (bent(full(), MASK, &[0]), ProtoError::Unmasked),
        (bent(bare(), PRODUCER, &[1]), ProtoError::Unmasked),
        (bent(bare(), LIDS + 3, &[1]), ProtoError::Unmasked),
        (bent(bare(), IS_GENERIC, &[1]), ProtoError::Unmasked),
        (bent(bare(), SUBJECT_GID, &[1]), ProtoError::Unmasked),
        (bent(about_lid(), SUBJECT_GID, &[1]), ProtoError::Unmasked),
        (bent(full(), IS_GENERIC, &[2]), ProtoError::Bool(2)),
        (bent(full(), RESERVED, &[1]), ProtoError::Reserved),
        (bent(full(), RESERVED + 4, &[1]), ProtoError::Reserved),
        (
            bent(full(), LIDS, &[6, 0]),
            ProtoError::Filter(FilterError::EmptyLids(LidRange { begin: 6, end: 5 })),
        ),
        (bent(full(), KIND, &[0x80]), ProtoError::Filter(FilterError::Type(0x80))),
        (bent(full(), PRODUCER + 3, &[1]), ProtoError::Filter(FilterError::Producer(0x0100_0004))),
        (bent(full(), SUBJECT_GID, &[0; 16]), ProtoError::Filter(FilterError::Subject)),
        (bent(about_lid(), SUBJECT_LID, &[0]), ProtoError::Filter(FilterError::Subject)),
        (bent(sent(ClientMessage::Unregister(Unregister { id: 1 })), 8, &[0]), ProtoError::Id),
    ];
    for (packet, error) in cases {
        assert_eq!(ClientMessage::decode(&packet), Err(error), "{packet:?}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn what_a_client_refuses() {
    let welcome = || {
        told(ServerMessage::Welcome(Welcome {
            version: 1,
            features: 0,
            instance: 0,
            max_registrations: 1,
            max_queued: 1,
        }))
    };
    let refused = || told(ServerMessage::Refused(Refused::new(-93, "no")));
    let registered = || told(ServerMessage::Registered(Registered { id: 1, status: 0 }));
    let change = || told(ServerMessage::StatusChange(StatusChange { id: 1, status: 0 }));
    let overflow = || told(ServerMessage::Overflow(Overflow { id: 1, lost: 1 }));
    let chunk = || told(ServerMessage::StatusChunk(status_chunks(1, b"{}").next().unwrap()));
    let mut empty = chunk();
    empty.truncate(20);
    empty[4] = 20;
    let cases: Vec<(Vec<u8>, ProtoError)> = vec![
        (vec![0; MAX_PACKET + 1], ProtoError::Long { limit: MAX_PACKET, have: MAX_PACKET + 1 }),
        (bent(welcome(), 0, &[1]), ProtoError::Kind(Kind::HELLO)),
        (bent(welcome(), 8, &[0]), ProtoError::Versions { min: 0, max: 0 }),
        (bent(welcome(), 15, &[1]), ProtoError::Reserved),
        (bent(refused(), 8, &[0; 4]), ProtoError::Status(0)),
        (bent(refused(), 8, &[1, 0, 0, 0]), ProtoError::Status(1)),
        (bent(refused(), 8, &i32::MIN.to_le_bytes()), ProtoError::Status(i32::MIN)),
        (bent(refused(), 12, &[0xFF]), ProtoError::Text),
        (bent(refused(), 12, &[0x1B]), ProtoError::Text),
        (bent(refused(), 15, b"x"), ProtoError::Text),
        (bent(registered(), 8, &[0]), ProtoError::Id),
        (bent(registered(), 16, &[1]), ProtoError::Status(1)),
        (bent(registered(), 20, &[1]), ProtoError::Reserved),
        (bent(told(ServerMessage::Unregistered(Unregistered { id: 1 })), 8, &[0]), ProtoError::Id),
        (bent(told(notice_event()), 8, &[0]), ProtoError::Id),
        (bent(told(notice_event()), 34, &[1]), ProtoError::Reserved),
        // Undefined bytes of a notice are for nobody: toggle and count, details in front of and behind the GID.
        (bent(told(notice_event()), 48, &[1]), ProtoError::Reserved),
        (bent(told(notice_event()), 50, &[1]), ProtoError::Reserved),
        (bent(told(notice_event()), 72, &[1]), ProtoError::Reserved),
        (bent(change(), 8, &[0]), ProtoError::Id),
        (bent(change(), 16, &[1]), ProtoError::Status(1)),
        (bent(change(), 16, &(-4096i32).to_le_bytes()), ProtoError::Status(-4096)),
        (bent(change(), 20, &[1]), ProtoError::Reserved),
        (bent(overflow(), 8, &[0]), ProtoError::Id),
        (bent(overflow(), 16, &[0]), ProtoError::NothingLost),
        (bent(chunk()[..19].to_vec(), 4, &[19]), ProtoError::Short { need: 20, have: 19 }),
        (empty, ProtoError::Chunk { offset: 0, len: 0, total: 2 }),
        (bent(chunk(), 12, &[1]), ProtoError::Chunk { offset: 1, len: 2, total: 2 }),
        (bent(chunk(), 12, &[255; 4]), ProtoError::Chunk { offset: u32::MAX, len: 2, total: 2 }),
        (bent(chunk(), 16, &[1]), ProtoError::Chunk { offset: 0, len: 2, total: 1 }),
    ];
    for (packet, error) in cases {
        assert_eq!(ServerMessage::decode(&packet), Err(error), "{packet:?}");
        assert!(!error.to_string().is_empty());
    }
    // A vendor's notice has no bytes that are undefined here.
    let vendor = Notice::vendor(NoticeType::URGENT, 0x1405, 1);
    let event = NoticeEvent { id: 7, sequence: 1, time_ns: 5, source_lid: 1, notice: vendor };
    let packet = bent(told(ServerMessage::Notice(event)), 48, &[1]);
    assert!(ServerMessage::decode(&packet).is_ok());
    assert_eq!(Gid::ZERO.to_string(), "::");
}
