//! Every captured MAD, one by one: what it says, and that it is made again byte for byte.
//!
//! Bytes that nobody defines are listed in [`Case::undefined`] and nowhere else.

use ibv_sa_samples::captures;
use ibv_sa_wire::mad::*;
use ibv_sa_wire::{Gid, Guid, LID_ANY};
use zerocopy::{FromBytes, IntoBytes};

type Mad = [u8; MAD_SIZE];

fn gid(text: &str) -> Gid {
    text.parse().unwrap()
}

/// The subscriber, Hca4 of the fabric.
fn me() -> Gid {
    gid("fe80::10:a")
}

/// The port with the SM.
fn sm() -> Gid {
    gid("fe80::10:1")
}

/// What a capture is, in terms of this crate.
enum Is {
    /// The MAD that a builder makes.
    Request(SaMad),
    /// A GetResp(InformInfo) that says yes, to the request of that name.
    Granted(&'static str, Subscription, bool),
    /// One that says no.
    Refused(Status),
    /// GetTableResp with these records.
    Table(&'static str, Vec<Subscription>),
    /// A record or pattern and its status.
    Record(Method, Status, Gid),
    /// Report of that notice.
    Report(Notice),
    /// The answer to the report of that name.
    ReportResp(&'static str),
    /// Answer to Get(ClassPortInfo).
    ClassPortInfo,
    /// Creation or deletion of a group.
    Group(Method, u16, u8),
    /// Not the SA's: a directed SMP.
    Smp,
}

struct Case {
    name: &'static str,
    is: Is,
    tid: u32,
}

/// InformInfo with another value in its Subscribe field than the builders have.
fn odd_set(tid: u64, method: Method, subscribe: u8) -> SaMad {
    let mut inform = Subscription::ALL_GENERIC.inform_info(true, 0);
    inform.subscribe = subscribe;
    SaMad::new(Headers::request(method, Attribute::INFORM_INFO, tid), inform.as_bytes())
}

fn sm_notice(trap: Trap, subject: &str) -> Notice {
    Notice::about_gid(trap, gid(subject), 1, sm())
}

fn device_notice(kind: NoticeType, producer: Producer, trap: u16, lid: u16, issuer: &str) -> Notice {
    let mut notice = Notice::generic(kind, producer, Trap(trap));
    notice.issuer_lid = lid.into();
    notice.issuer_gid = gid(issuer);
    if trap == 128 {
        notice.details[0..2].copy_from_slice(&lid.to_be_bytes());
    } else {
        notice.details[2..4].copy_from_slice(&lid.to_be_bytes());
    }
    notice
}

fn capabilities(mask: u32) -> Notice {
    let mut notice = device_notice(NoticeType::INFORMATIONAL, Producer::CA, 144, 4, "fe80::10:4");
    notice.details[6..10].copy_from_slice(&mask.to_be_bytes());
    notice
}

fn cases() -> Vec<Case> {
    let trap64 = Subscription::trap(Trap::GID_IN_SERVICE);
    let all = Subscription::ALL_GENERIC;
    let unknown_gid = Subscription { gid: gid("fe80::dead"), ..all };
    let lids = all.with_lids(100, 200).unwrap();
    let link_down = || device_notice(NoticeType::URGENT, Producer::SWITCH, 128, 2, "fe80::20:0");
    let injected = |kind, producer, trap| device_notice(kind, producer, trap, 6, "fe80::10:a");
    let no = Is::Refused(Status::REQ_INVALID);
    let case = |name, tid, is| Case { name, tid, is };
    #[rustfmt::skip]
    let cases = vec![
        case("01_subscribe_trap64.req", 0x1001, Is::Request(request::subscribe(0x1001, &trap64))),
        case("01_subscribe_trap64.resp", 0x1001, Is::Granted("01_subscribe_trap64.req", trap64, true)),
        case("02_subscribe_all.req", 0x1002, Is::Request(request::subscribe(0x1002, &all))),
        case("02_subscribe_all.resp", 0x1002, Is::Granted("02_subscribe_all.req", all, true)),
        case("03_informinforecord_gettable.req", 0x1003, Is::Request(request::inform_info_table(0x1003, None))),
        case("03_informinforecord_gettable.resp", 0x1003, Is::Table("03_informinforecord_gettable.req", vec![all, trap64])),
        case("04_informinforecord_gettable_by_gid.req", 0x1004, Is::Request(request::inform_info_table(0x1004, Some(me())))),
        case("04_informinforecord_gettable_by_gid.resp", 0x1004, Is::Table("04_informinforecord_gettable_by_gid.req", vec![all, trap64])),
        case("05_informinforecord_gettable_none.req", 0x1005, Is::Request(request::inform_info_table(0x1005, Some(sm())))),
        case("05_informinforecord_gettable_none.resp", 0x1005, Is::Table("05_informinforecord_gettable_none.req", vec![])),
        case("06_informinforecord_get_none_0300.req", 0x1006, Is::Record(Method::GET, Status::OK, sm())),
        case("06_informinforecord_get_none_0300.resp", 0x1006, Is::Record(Method::GET_RESP, Status::NO_RECORDS, sm())),
        case("07_informinforecord_get_many_0400.req", 0x1007, Is::Record(Method::GET, Status::OK, me())),
        case("07_informinforecord_get_many_0400.resp", 0x1007, Is::Record(Method::GET_RESP, Status::TOO_MANY_RECORDS, me())),
        case("08_unsubscribe_qpn0_0200.req", 0x1008, Is::Request(request::unsubscribe(0x1008, &trap64, 0))),
        case("08_unsubscribe_qpn0_0200.resp", 0x1008, no),
        case("09_unsubscribe_trap64_ok.req", 0x1009, Is::Request(request::unsubscribe(0x1009, &trap64, GSI_QPN))),
        case("09_unsubscribe_trap64_ok.resp", 0x1009, Is::Granted("09_unsubscribe_trap64_ok.req", trap64, false)),
        case("10_unsubscribe_again_0200.req", 0x100A, Is::Request(request::unsubscribe(0x100A, &trap64, GSI_QPN))),
        case("10_unsubscribe_again_0200.resp", 0x100A, Is::Refused(Status::REQ_INVALID)),
        case("11_subscribe_is_2_0200.req", 0x100B, Is::Request(odd_set(0x100B, Method::SET, 2))),
        case("11_subscribe_is_2_0200.resp", 0x100B, Is::Refused(Status::REQ_INVALID)),
        case("12_subscribe_unknown_gid_0200.req", 0x100C, Is::Request(request::subscribe(0x100C, &unknown_gid))),
        case("12_subscribe_unknown_gid_0200.resp", 0x100C, Is::Refused(Status::REQ_INVALID)),
        case("13_subscribe_security_trap_0200.req", 0x100D, Is::Request(request::subscribe(0x100D, &Subscription::trap(Trap::BAD_P_KEY)))),
        case("13_subscribe_security_trap_0200.resp", 0x100D, Is::Refused(Status::REQ_INVALID)),
        case("14_get_informinfo_000c.req", 0x100E, Is::Request(odd_set(0x100E, Method::GET, 1))),
        case("14_get_informinfo_000c.resp", 0x100E, Is::Refused(Status::BAD_METHOD_ATTRIBUTE)),
        case("15_subscribe_lid_out_of_range_0200.req", 0x100F, Is::Request(request::subscribe(0x100F, &lids))),
        case("15_subscribe_lid_out_of_range_0200.resp", 0x100F, Is::Refused(Status::REQ_INVALID)),
        case("20_report_trap128", 0x02DA_B001, Is::Report(link_down())),
        case("20_report_trap128_resp", 0x02DA_B001, Is::ReportResp("20_report_trap128")),
        case("20_report_trap65", 0x02DA_B002, Is::Report(sm_notice(Trap::GID_OUT_OF_SERVICE, "fe80::10:7"))),
        case("20_report_trap65_resp", 0x02DA_B002, Is::ReportResp("20_report_trap65")),
        case("21_report_trap128", 0x02DA_B003, Is::Report(link_down())),
        case("21_report_trap128_resp", 0x02DA_B003, Is::ReportResp("21_report_trap128")),
        case("21_report_trap64", 0x02DA_B004, Is::Report(sm_notice(Trap::GID_IN_SERVICE, "fe80::10:7"))),
        case("21_report_trap64_resp", 0x02DA_B004, Is::ReportResp("21_report_trap64")),
        case("22_mcmember_set_create.req", 0x1010, Is::Group(Method::SET, 0, 0)),
        case("22_mcmember_set_create.resp", 0x1010, Is::Group(Method::GET_RESP, 0xC001, 1)),
        case("22_report_trap66", 0x02DA_B005, Is::Report(sm_notice(Trap::MC_GROUP_CREATED, "ff12:401b:ffff::123"))),
        case("22_report_trap66_resp", 0x02DA_B005, Is::ReportResp("22_report_trap66")),
        case("23_mcmember_delete.req", 0x1011, Is::Group(Method::DELETE, 0, 0)),
        case("23_mcmember_delete.resp", 0x1011, Is::Group(Method::DELETE_RESP, 0, 0)),
        case("23_report_trap67", 0x02DA_B006, Is::Report(sm_notice(Trap::MC_GROUP_DELETED, "ff12:401b:ffff::123"))),
        case("23_report_trap67_resp", 0x02DA_B006, Is::ReportResp("23_report_trap67")),
        case("24_report_trap144", 0x02DA_B007, Is::Report(capabilities(0x0050_C04A))),
        case("24_report_trap144_resp", 0x02DA_B007, Is::ReportResp("24_report_trap144")),
        case("24_sm_asks_sminfo_of_IsSM_port", 0x134F, Is::Smp),
        case("25_report_trap144", 0x02DA_B008, Is::Report(capabilities(0x0050_C048))),
        case("25_report_trap144_resp", 0x02DA_B008, Is::ReportResp("25_report_trap144")),
        case("26_injected_report_trap145", 0x02DA_B009, Is::Report(injected(NoticeType::INFORMATIONAL, Producer::CA, 145))),
        case("26_injected_report_trap145_resp", 0x02DA_B009, Is::ReportResp("26_injected_report_trap145")),
        case("26_injected_report_trap256", 0x02DA_B00A, Is::Report(injected(NoticeType::SECURITY, Producer::CA, 256))),
        case("26_injected_report_trap256_resp", 0x02DA_B00A, Is::ReportResp("26_injected_report_trap256")),
        case("26_injected_report_trap259", 0x02DA_B00B, Is::Report(injected(NoticeType::SECURITY, Producer::SWITCH, 259))),
        case("26_injected_report_trap259_resp", 0x02DA_B00B, Is::ReportResp("26_injected_report_trap259")),
        case("30_classportinfo.req", 0x1015, Is::Request(request::class_port_info(0x1015))),
        case("30_classportinfo.resp", 0x1015, Is::ClassPortInfo),
    ];
    cases
}

impl Case {
    /// Bytes of the MAD that nobody defines. Everything else is compared.
    fn undefined(&self) -> Vec<usize> {
        let about_gid =
            |name: &str| ["trap64", "trap65", "trap66", "trap67"].iter().any(|trap| name.contains(trap));
        match self.is {
            // Toggle and count, 6 bytes in front of the GID, 32 behind it: OpenSM's stack.
            Is::Report(_) | Is::ReportResp(_) if about_gid(self.name) => (64..72).chain(88..120).collect(),
            // OpenSM's memory behind the attribute (36 or 60 bytes) of an answer that says no; and where an address
            // or number was refused it has cleared the Subscribe field of the attribute it sends back.
            Is::Refused(_) if ["12_", "13_", "15_"].contains(&&self.name[..3]) => {
                (79..80).chain(92..256).collect()
            }
            Is::Refused(_) => (92..256).collect(),
            Is::Record(Method::GET_RESP, ..) => (116..256).collect(),
            _ => vec![],
        }
    }

    fn assert_same(&self, made: &[u8], captured: &Mad) {
        let undefined = self.undefined();
        for at in (0..MAD_SIZE).filter(|at| !undefined.contains(at)) {
            assert_eq!(made[at], captured[at], "{}: byte {at} is made differently", self.name);
        }
    }

    fn headers(&self, captured: &Mad) -> Headers {
        let (headers, _) = Headers::read_from_prefix(captured).unwrap();
        headers
    }
}

#[test]
fn the_table_names_every_capture() {
    let listed: Vec<String> = cases().iter().map(|case| case.name.into()).collect();
    let mut sorted = listed.clone();
    sorted.sort();
    assert_eq!(sorted, captures().into_keys().collect::<Vec<_>>());
    assert_eq!(listed.len(), 59);
}

#[test]
fn every_capture_says_what_it_should_and_is_made_again() {
    let captures = captures();
    for case in cases() {
        let bytes = &captures[case.name];
        let headers = case.headers(bytes);
        assert_eq!(tid_low(headers.mad.tid.get()), case.tid, "{}", case.name);
        let message = SaMessage::parse(bytes);
        if let Is::Smp = case.is {
            assert_eq!(message.unwrap_err(), MadError::Class(0x81), "{}", case.name);
            assert_eq!(headers.mad.method, Method::GET);
            assert_eq!(headers.as_bytes(), &bytes[..HEADERS_SIZE]);
            continue;
        }
        let message = message.unwrap();
        assert_eq!(message.headers, headers, "{}", case.name);
        let received = message.received().unwrap();
        let status = headers.mad.status();
        match &case.is {
            Is::Smp => unreachable!(),
            Is::Request(mad) => {
                assert_eq!(mad.as_bytes(), bytes, "{}", case.name);
                assert!(matches!(received, Received::Other { .. }), "{}", case.name);
            }
            Is::Granted(request, subscription, subscribe) => {
                let Received::InformInfo { tid, status, inform: Some(inform) } = received else {
                    panic!("{}: {received:?}", case.name)
                };
                assert_eq!((tid, status), (case.tid, Status::OK));
                assert_eq!(Subscription::from_inform_info(&inform), *subscription, "{}", case.name);
                assert_eq!(inform.subscribe == 1, *subscribe);
                let mut request = SaMessage::parse(&captures[*request]).unwrap();
                request.headers.mad.tid = headers.mad.tid;
                let echo = request.inform_info().unwrap();
                assert_eq!(reply::get_resp(&request, Status::OK, &echo).as_bytes(), bytes, "{}", case.name);
            }
            Is::Refused(expected) => {
                let Received::InformInfo { tid, status, inform: None } = received else {
                    panic!("{}: {received:?}", case.name)
                };
                assert_eq!((tid, status), (case.tid, *expected), "{}", case.name);
                let mut request = SaMessage::parse(&captures[&case.name.replace(".resp", ".req")]).unwrap();
                request.headers.mad.tid = headers.mad.tid;
                let echo = request.inform_info().unwrap();
                case.assert_same(reply::get_resp(&request, *expected, &echo).as_bytes(), bytes);
            }
            Is::Table(request, expected) => {
                let Received::InformInfoTable { tid, status, records } = received else {
                    panic!("{}: {received:?}", case.name)
                };
                assert_eq!((tid, status), (case.tid, Status::OK));
                let records: Vec<_> = records.collect();
                let found: Vec<_> =
                    records.iter().map(|r| Subscription::from_inform_info(&r.inform)).collect();
                assert_eq!(found, *expected, "{}", case.name);
                assert!(records.iter().all(|record| record.subscriber == me()));
                let mut request = SaMessage::parse(&captures[*request]).unwrap();
                request.headers.mad.tid = headers.mad.tid;
                let mut made = [0; MAD_SIZE];
                let len = reply::inform_info_table(&request, &records, &mut made);
                assert_eq!(len, HEADERS_SIZE + 64 * expected.len());
                assert_eq!(&made, bytes, "{}", case.name);
            }
            Is::Record(method, expected, subscriber) => {
                assert!(matches!(received, Received::Other { .. }), "{}", case.name);
                assert_eq!((headers.mad.method, status), (*method, *expected), "{}", case.name);
                let record = message.inform_info_record().unwrap();
                let pattern = InformInfoRecord { subscriber: *subscriber, ..InformInfoRecord::default() };
                assert_eq!(record, pattern);
                assert_eq!(headers.sa.component_mask.get(), InformInfoRecord::MASK_SUBSCRIBER);
                case.assert_same(SaMad::new(headers, record.as_bytes()).as_bytes(), bytes);
            }
            Is::Report(expected) => {
                let Received::Report(report) = received else { panic!("{}: {received:?}", case.name) };
                assert_eq!(report.notice(), *expected, "{}", case.name);
                let mut made = reply::report(headers.mad.tid.get(), expected);
                case.assert_same(made.as_bytes(), bytes);
                // As it came, undefined bytes included, it is the same to the last byte.
                made = SaMad::new(headers, message.raw_notice().unwrap().as_bytes());
                assert_eq!(made.as_bytes(), bytes, "{}", case.name);
                assert_eq!(report.response().as_bytes(), captures[&format!("{}_resp", case.name)]);
            }
            Is::ReportResp(report) => {
                assert!(
                    matches!(received, Received::Other { method: Method::REPORT_RESP, .. }),
                    "{}",
                    case.name
                );
                let mut made = captures[*report];
                made[3] = Method::REPORT_RESP.0;
                assert_eq!(&made, bytes, "{}", case.name);
            }
            Is::ClassPortInfo => {
                let Received::ClassPortInfo { tid, status, info: Some(info) } = received else {
                    panic!("{}: {received:?}", case.name)
                };
                assert_eq!((tid, status), (case.tid, Status::OK));
                let expected = ClassPortInfo {
                    base_version: 1,
                    class_version: 2,
                    capabilities: 0x2602.into(),
                    capabilities2_resp_time: 0x0016_BD10.into(),
                    redirect_qpn: GSI_QPN.into(),
                    redirect_qkey: GSI_QKEY.into(),
                    trap_qkey: GSI_QKEY.into(),
                    ..ClassPortInfo::default()
                };
                assert_eq!(info, expected);
                assert_eq!((info.resp_time(), info.resp_time_us()), (16, 268_436));
                let mut request = SaMessage::parse(&captures["30_classportinfo.req"]).unwrap();
                request.headers.mad.tid = headers.mad.tid;
                assert_eq!(reply::get_resp(&request, Status::OK, &expected).as_bytes(), bytes);
            }
            Is::Group(method, mlid, joined) => {
                assert_eq!((headers.mad.method, status), (*method, Status::OK), "{}", case.name);
                let record = message.mc_member_record().unwrap();
                assert_eq!(record.mgid, gid("ff12:401b:ffff::123"));
                assert_eq!(record.port_gid, me());
                assert_eq!(record.qkey.get(), 0x0B1B);
                if *joined == 1 {
                    assert_eq!(record.mlid.get(), *mlid, "{}", case.name);
                }
                assert_eq!(record.pkey.get(), 0xFFFF);
                case.assert_same(SaMad::new(headers, record.as_bytes()).as_bytes(), bytes);
            }
        }
    }
}

#[test]
fn masking_clears_exactly_the_undefined_bytes() {
    let captures = captures();
    let mut seen_garbage = 0;
    for case in cases() {
        let Is::Report(_) = case.is else { continue };
        let bytes = &captures[case.name];
        let message = SaMessage::parse(bytes).unwrap();
        let masked = SaMad::new(message.headers, message.raw_notice().unwrap().masked().as_bytes());
        let undefined = case.undefined();
        for (at, (made, captured)) in masked.as_bytes().iter().zip(bytes).enumerate() {
            if undefined.contains(&at) {
                assert_eq!(*made, 0, "{}: byte {at}", case.name);
                seen_garbage += usize::from(*captured != 0);
            } else {
                assert_eq!(made, captured, "{}: byte {at}", case.name);
            }
        }
    }
    assert!(seen_garbage > 40, "the captures do hold undefined bytes");
}

#[test]
fn every_capture_cut_short_is_an_error_or_says_the_same() {
    for (name, bytes) in captures() {
        for len in 0..MAD_SIZE {
            match Received::decode(&bytes[..len]) {
                Err(MadError::Short { need, have }) => assert!(have == len && need > len, "{name} at {len}"),
                Err(MadError::Class(_)) => assert!(name.contains("sminfo")),
                Err(error) => panic!("{name} at {len}: {error}"),
                Ok(_) => assert!(len >= HEADERS_SIZE),
            }
        }
    }
}

#[test]
fn one_line_for_a_person() {
    let captures = captures();
    let line = |name: &str| match Received::decode(&captures[name]) {
        Ok(Received::Report(report)) => report.notice().to_string(),
        other => panic!("{other:?}"),
    };
    for (name, text) in [
        (
            "21_report_trap64",
            "trap 64 GID in service: fe80::10:7 (subnet management; from class manager LID 1 fe80::10:1)",
        ),
        (
            "23_report_trap67",
            "trap 67 multicast group deleted: ff12:401b:ffff::123 (subnet management; from class manager LID 1 fe80::10:1)",
        ),
        ("20_report_trap128", "trap 128 link state changed: LID 2 (urgent; from switch LID 2 fe80::20:0)"),
        (
            "24_report_trap144",
            "trap 144 port capabilities changed: LID 4 capabilities 0x0050c04a (informational; from CA LID 4 fe80::10:4)",
        ),
        (
            "26_injected_report_trap145",
            "trap 145 system image GUID changed: LID 6 GUID 0x0000000000000000 (informational; from CA LID 6 fe80::10:a)",
        ),
    ] {
        assert_eq!(line(name), text);
    }
}

#[test]
fn details_of_the_captured_notices() {
    let captures = captures();
    let notice = |name: &str| match Received::decode(&captures[name]) {
        Ok(Received::Report(report)) => report.notice(),
        other => panic!("{other:?}"),
    };
    let n = notice("20_report_trap65");
    assert_eq!(
        n.kind(),
        NoticeKind::Generic { trap: Trap::GID_OUT_OF_SERVICE, producer: Producer::CLASS_MANAGER }
    );
    assert_eq!((n.notice_type(), n.issuer_lid.get(), n.issuer_gid), (NoticeType::SUBNET_MANAGEMENT, 1, sm()));
    assert_eq!(n.gid(), Some(gid("fe80::10:7")));
    assert_eq!((n.lid(), n.port(), n.local_change(), n.system_image_guid()), (None, None, None, None));
    assert_eq!(notice("20_report_trap128").lid(), Some(2));
    let change = notice("25_report_trap144").local_change().unwrap();
    assert_eq!(
        (change.lid, change.capabilities, change.flags, change.other_changes),
        (4, 0x0050_C048, 0, false)
    );
    assert_eq!(notice("26_injected_report_trap145").system_image_guid(), Some(Guid::ZERO));
    assert_eq!(notice("26_injected_report_trap256").bad_m_key().unwrap().lid, 6);
    assert_eq!(notice("26_injected_report_trap259").bad_switch_p_key().unwrap().lid1, 6);
    // A repetition has the same key although the undefined bytes differ, and another SM has another.
    let report = |bytes: &Mad| match Received::decode(bytes) {
        Ok(Received::Report(report)) => report,
        other => panic!("{other:?}"),
    };
    let first = captures["21_report_trap64"];
    let mut again = first;
    again[66] ^= 0xFF;
    again[8] ^= 0xFF;
    assert_eq!(report(&first).key(1), report(&again).key(1));
    assert_ne!(report(&first).key(1), report(&again).key(2));
    assert_ne!(report(&first).key(1), report(&captures["20_report_trap65"]).key(1));
    assert_eq!(report(&again).response().as_bytes()[8], again[8]);
    assert_eq!(LID_ANY, 0xFFFF);
}
