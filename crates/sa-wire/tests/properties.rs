//! What holds for all inputs: no panic, one form on the wire for each message, nothing lost between filter and SA.
//! `PROPTEST_CASES` sets how many inputs each property is tried with.

use ibv_sa_samples::holds;
use ibv_sa_wire::mad::*;
use ibv_sa_wire::proto::*;
use ibv_sa_wire::{Filter, Gid, Guid, LID_ANY, LidRange, Subject};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

/// Few values, so that things meet.
fn small_gid() -> impl Strategy<Value = Gid> {
    (0..4u8).prop_map(|n| match n {
        0 => Gid::ZERO,
        n => {
            let mut gid = Gid::ZERO;
            gid.0[0] = 0xFE;
            gid.0[15] = n;
            gid
        }
    })
}

fn trap_number() -> impl Strategy<Value = u16> {
    prop_oneof![
        4 => prop::sample::select(vec![64, 65, 66, 67, 68, 128, 129, 131, 144, 145, 146, 256, 257, 258, 259, 260]),
        1 => any::<u16>(),
    ]
}

fn notice() -> impl Strategy<Value = Notice> {
    let raw = vec(any::<u8>(), 80);
    let details = vec(prop_oneof![Just(0u8), Just(1), Just(2), any::<u8>()], 54);
    (raw, details, any::<bool>(), 0..6u8, 0..6u32, trap_number(), 0..6u16, small_gid(), small_gid()).prop_map(
        |(raw, details, generic, kind, producer, trap, lid, issuer, subject)| {
            let mut notice = Notice::read_from_bytes(&raw[..]).unwrap();
            notice.generic_type = u8::from(generic) << 7 | kind;
            notice.producer = U24::new(producer);
            notice.number = trap.into();
            notice.issuer_lid = lid.into();
            notice.issuer_gid = issuer;
            notice.details.copy_from_slice(&details);
            notice.details[6..22].copy_from_slice(&subject.0);
            notice
        },
    )
}

/// One that a client may send.
fn filter() -> impl Strategy<Value = Filter> {
    let lids = (0..6u16, 0..7u16).prop_map(|(begin, end)| match begin {
        0 => LidRange { begin: LID_ANY, end },
        begin => LidRange { begin, end: if end == 0 { 0 } else { end.max(begin) } },
    });
    let kind = prop_oneof![0..6u16, Just(0xFFFF)];
    let trap = prop_oneof![4 => trap_number(), 1 => Just(0xFFFF)];
    let producer = prop_oneof![0..6u32, Just(0xFF_FFFF)];
    let subject = prop_oneof![
        small_gid().prop_filter("no GID", |gid| !gid.is_zero()).prop_map(Subject::Gid),
        (1..6u16).prop_map(Subject::Lid),
    ];
    (
        option::weighted(0.3, small_gid()),
        option::weighted(0.3, lids),
        option::of(any::<bool>()),
        option::weighted(0.3, kind),
        option::of(trap),
        option::weighted(0.3, producer),
        option::weighted(0.3, subject),
    )
        .prop_map(|(gid, lids, is_generic, kind, trap, producer, subject)| Filter {
            gid,
            lids,
            is_generic,
            kind,
            trap,
            producer,
            subject,
        })
}

fn subscription() -> impl Strategy<Value = Subscription> {
    let trap = prop_oneof![trap_number(), Just(0xFFFF)];
    let kind = prop_oneof![0..6u16, Just(0xFFFF)];
    let producer = prop_oneof![0..6u32, Just(0xFF_FFFF)];
    (small_gid(), option::of((1..6u16, 0..6u16)), any::<bool>(), kind, trap, producer, 0..32u8).prop_map(
        |(gid, lids, is_generic, kind, trap, producer, resp_time)| {
            let (lid_begin, lid_end) = lids.map_or((LID_ANY, 0), |(begin, more)| (begin, begin + more));
            Subscription { gid, lid_begin, lid_end, is_generic, kind, trap, producer, resp_time }
        },
    )
}

fn port() -> impl Strategy<Value = PortSelector> {
    ("[!-.0-~]{0,64}", 1..u64::MAX, 1..=255u8)
        .prop_map(|(name, guid, port)| PortSelector::new(&name, Guid::from(guid), port).unwrap())
}

fn client_message() -> impl Strategy<Value = ClientMessage> {
    let id = 1..u64::MAX;
    prop_oneof![
        (1..9u16, 0..9u16).prop_map(|(min, more)| {
            ClientMessage::Hello(Hello { min_version: min, max_version: min + more })
        }),
        (id.clone(), 0..=Register::FLAGS, port(), filter()).prop_map(|(id, flags, port, filter)| {
            ClientMessage::Register(Register { id, flags, port, filter })
        }),
        id.prop_map(|id| ClientMessage::Unregister(Unregister { id })),
        any::<u32>().prop_map(|query| ClientMessage::StatusQuery(StatusQuery { query })),
    ]
}

/// The packet of one.
fn server_packet() -> impl Strategy<Value = Vec<u8>> {
    let id = 1..u64::MAX;
    let status = -4095..=0;
    let packet = |message: ServerMessage<'_>| {
        let mut packet = [0; MAX_PACKET];
        let len = message.encode(&mut packet);
        packet[..len].to_vec()
    };
    prop_oneof![
        (1..9u16, any::<[u64; 2]>(), any::<[u32; 2]>()).prop_map(
            move |(version, [features, instance], [a, b])| {
                packet(ServerMessage::Welcome(Welcome {
                    version,
                    features,
                    instance,
                    max_registrations: a,
                    max_queued: b,
                }))
            }
        ),
        (status.clone(), ".{0,200}")
            .prop_map(move |(status, text)| packet(ServerMessage::Refused(Refused::new(status, &text)))),
        (id.clone(), status.clone())
            .prop_map(move |(id, status)| packet(ServerMessage::Registered(Registered { id, status }))),
        id.clone().prop_map(move |id| packet(ServerMessage::Unregistered(Unregistered { id }))),
        (id.clone(), any::<[u64; 2]>(), any::<u16>(), notice()).prop_map(
            move |(id, [sequence, time_ns], source_lid, notice)| {
                packet(ServerMessage::Notice(NoticeEvent { id, sequence, time_ns, source_lid, notice }))
            }
        ),
        (id.clone(), status)
            .prop_map(move |(id, status)| packet(ServerMessage::StatusChange(StatusChange { id, status }))),
        (id, 1..u64::MAX).prop_map(move |(id, lost)| packet(ServerMessage::Overflow(Overflow { id, lost }))),
        (any::<u32>(), 1..5000usize, any::<u8>()).prop_map(move |(query, len, byte)| {
            let answer = vec![byte; len];
            packet(ServerMessage::StatusChunk(status_chunks(query, &answer).last().unwrap()))
        }),
    ]
}

/// If the daemon or a client takes a packet, it is the one packet that says so.
fn one_form(packet: &[u8]) {
    let _ = (holds::client_message(packet), holds::server_message(packet));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_as_a_packet(packet in vec(any::<u8>(), 0..300)) {
        one_form(&packet);
    }

    #[test]
    fn any_bytes_behind_a_good_header(kind in prop_oneof![1..6u16, 128..138u16], body in vec(0..3u8, 0..260)) {
        let len = (HEADER_SIZE + body.len()) as u32;
        let mut packet = kind.to_le_bytes().to_vec();
        packet.extend([0, 0]);
        packet.extend(len.to_le_bytes());
        packet.extend(body);
        one_form(&packet);
    }

    #[test]
    fn client_messages_there_and_back(message in client_message()) {
        let mut packet = [0; MAX_REQUEST];
        let len = message.encode(&mut packet);
        prop_assert_eq!(ClientMessage::decode(&packet[..len]), Ok(message));
        for cut in 0..len {
            prop_assert!(ClientMessage::decode(&packet[..cut]).is_err());
        }
    }

    #[test]
    fn server_packets_there_and_back(packet in server_packet()) {
        prop_assert!(ServerMessage::decode(&packet).is_ok());
        one_form(&packet);
    }

    #[test]
    fn bent_packets(packet in server_packet(), message in client_message(), bends in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut request = [0; MAX_REQUEST];
        let len = message.encode(&mut request);
        for packet in [&mut packet.clone()[..], &mut request[..len]] {
            for (at, byte) in &bends {
                packet[at.index(packet.len())] = *byte;
            }
            one_form(packet);
        }
    }

    #[test]
    fn any_bytes_as_a_mad(bytes in vec(any::<u8>(), 0..600)) {
        let _ = holds::mad(&bytes);
    }

    #[test]
    fn any_bytes_behind_sa_headers(
        method in prop::sample::select(vec![0x01, 0x02, 0x06, 0x12, 0x81, 0x86, 0x92, 0x95]),
        attribute in prop::sample::select(vec![0x01, 0x02, 0x03, 0x38, 0xF3]),
        status in prop_oneof![Just(0u16), any::<u16>()],
        offset in prop_oneof![0..12u16, any::<u16>()],
        data in vec(prop_oneof![Just(0u8), any::<u8>()], 0..1200),
    ) {
        let mut headers = Headers::request(Method(method), Attribute(attribute), 1);
        headers.mad.status = status.into();
        headers.sa.offset = offset.into();
        let mut bytes = headers.as_bytes().to_vec();
        bytes.extend(data);
        let _ = holds::mad(&bytes);
    }

    #[test]
    fn masking(notice in notice()) {
        let masked = notice.masked();
        prop_assert_eq!(masked.masked(), masked);
        prop_assert_eq!(masked.to_string(), notice.to_string());
        prop_assert_eq!(masked.subject_gids(), notice.subject_gids());
        prop_assert_eq!((masked.kind(), masked.gid(), masked.lid()), (notice.kind(), notice.gid(), notice.lid()));
        prop_assert!(notice.trap().is_some_and(Trap::is_about_gid) || masked == notice);
    }

    #[test]
    fn what_a_filter_wants_comes_once_from_disjoint_subscriptions(filters in vec(filter(), 1..8), notice in notice()) {
        let mut wanted: Vec<_> = filters.iter().flat_map(|filter| filter.subscriptions()).collect();
        wanted.sort();
        wanted.dedup();
        // What more than one of them would bring comes from the one that brings all of it.
        let covered = |one: &Subscription| wanted.iter().any(|other| other != one && other.covers(one));
        let held: Vec<_> = wanted.iter().filter(|one| !covered(one)).collect();
        let reports = held.iter().filter(|subscription| subscription.matches(&notice)).count();
        prop_assert!(reports <= 1, "two reports of one notice");
        for filter in filters {
            prop_assert_eq!(filter.check(), Ok(()));
            prop_assert_eq!(filter.matches(&notice), filter.matches(&notice.masked()));
            prop_assert!(!filter.matches(&notice) || reports == 1, "{:?} would miss it", filter);
        }
    }

    #[test]
    fn covering_is_about_notices(a in subscription(), b in subscription(), notice in notice()) {
        prop_assert!(a.covers(&a));
        if a.covers(&b) && b.matches(&notice) {
            prop_assert!(a.matches(&notice));
        }
    }

    #[test]
    fn subscriptions_there_and_back(subscription in subscription(), tid in any::<u64>(), qpn in 0..0x100_0000u32) {
        for (mad, subscribe, qpn) in [
            (request::subscribe(tid, &subscription), 1, 0),
            (request::unsubscribe(tid, &subscription, qpn), 0, qpn),
        ] {
            let message = SaMessage::parse(mad.as_bytes()).unwrap();
            let inform = message.inform_info().unwrap();
            prop_assert_eq!(Subscription::from_inform_info(&inform), subscription);
            prop_assert_eq!((inform.subscribe, inform.qpn.get()), (subscribe, qpn));
            prop_assert_eq!(message.tid(), tid);
            let answer = reply::get_resp(&message, Status::OK, &inform);
            let received = Received::decode(answer.as_bytes()).unwrap();
            let Received::InformInfo { tid: low, inform: Some(echo), .. } = received else { panic!("{received:?}") };
            prop_assert_eq!((low, echo), (tid_low(tid), inform));
        }
    }

    #[test]
    fn tables_of_any_length(subscribers in vec((1..9u8, subscription()), 0..40), room in 56..2700usize) {
        let records: Vec<_> = subscribers
            .iter()
            .map(|(n, subscription)| {
                let mut record = InformInfoRecord { inform: subscription.inform_info(true, 1), ..Default::default() };
                record.subscriber.0[15] = *n;
                record
            })
            .collect();
        let request = request::inform_info_table(1, None);
        let request = SaMessage::parse(request.as_bytes()).unwrap();
        let mut message = vec![0; room];
        let len = reply::inform_info_table(&request, &records, &mut message);
        let fits = records.len().min((room - HEADERS_SIZE) / 64);
        prop_assert_eq!(len, HEADERS_SIZE + 64 * fits);
        let Ok(Received::InformInfoTable { records: found, .. }) = Received::decode(&message[..len]) else { panic!() };
        prop_assert_eq!(found.collect::<Vec<_>>(), &records[..fits]);
        // Without the padding of the last record, which need not be sent.
        if let Ok(Received::InformInfoTable { records: found, .. }) = Received::decode(&message[..len - 4]) {
            prop_assert_eq!(found.count(), fits);
        }
    }
}

#[test]
fn records_that_overlap_are_an_error() {
    let mut headers = Headers::request(Method::GET_TABLE_RESP, Attribute::INFORM_INFO_RECORD, 1);
    for (offset, expected) in [(0, None), (1, Some(8)), (7, Some(56)), (8, None), (0xFFFF, None)] {
        headers.sa.offset = offset.into();
        let mad = SaMad::new(headers, &[]);
        let error = Received::decode(mad.as_bytes()).err();
        assert_eq!(error, expected.map(MadError::RecordDistance));
    }
}

#[test]
fn each_way_not_to_be_an_sa_mad() {
    let good = request::class_port_info(1);
    let bent = |at: usize, byte: u8| {
        let mut bytes = good.as_bytes().to_vec();
        bytes[at] = byte;
        SaMessage::parse(&bytes).map(|_| ()).unwrap_err()
    };
    assert_eq!(bent(0, 2), MadError::BaseVersion(2));
    assert_eq!(bent(1, 4), MadError::Class(4));
    assert_eq!(bent(2, 1), MadError::ClassVersion(1));
    assert_eq!(SaMessage::parse(&[]).map(|_| ()).unwrap_err(), MadError::Short { need: 56, have: 0 });
    let message = SaMessage::parse(good.as_bytes()).unwrap();
    let wrong = MadError::Attribute { want: Attribute::NOTICE, have: Attribute::CLASS_PORT_INFO };
    assert_eq!(message.raw_notice().unwrap_err(), wrong);
    assert_eq!(wrong.to_string(), "MAD has ClassPortInfo instead of Notice");
    assert_eq!(format!("{good:?}"), "Get ClassPortInfo tid 0x1 status 0x0000 (ok)");
}
