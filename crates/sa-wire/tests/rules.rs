//! Which subscription and which registration gets which notice, and the details of each trap.

use ibv_sa_wire::filter::FilterError;
use ibv_sa_wire::mad::*;
use ibv_sa_wire::{Filter, Gid, LID_ANY, LidRange, Subject};

fn gid(text: &str) -> Gid {
    text.parse().unwrap()
}

/// A notice of each maker: the SM (LID 1), a switch (LID 2), an adapter (LID 4), a vendor's adapter (LID 5).
fn gid_in_service() -> Notice {
    Notice::about_gid(Trap::GID_IN_SERVICE, gid("fe80::10:7"), 1, gid("fe80::10:1"))
}

fn link_changed() -> Notice {
    let mut notice = Notice::generic(NoticeType::URGENT, Producer::SWITCH, Trap::PORT_STATE_CHANGED);
    notice.issuer_lid = 2.into();
    notice.issuer_gid = gid("fe80::20:0");
    notice.details[1] = 2;
    notice
}

fn capabilities_changed() -> Notice {
    let mut notice = Notice::generic(NoticeType::INFORMATIONAL, Producer::CA, Trap::CAPABILITY_CHANGED);
    notice.issuer_lid = 4.into();
    notice.issuer_gid = gid("fe80::10:4");
    notice.details[3] = 4;
    notice
}

fn vendors() -> Notice {
    let mut notice = Notice::vendor(NoticeType::URGENT, 0x00_1405, 64);
    notice.issuer_lid = 5.into();
    notice.issuer_gid = gid("fe80::10:5");
    notice
}

fn all() -> [Notice; 4] {
    [gid_in_service(), link_changed(), capabilities_changed(), vendors()]
}

/// What OpenSM 3.3.23 was seen to forward.
#[test]
fn an_sa_looks_at_the_issuer_only() {
    let generic = Subscription::ALL_GENERIC;
    for (subscription, expected) in [
        (generic, [true, true, true, false]),
        (Subscription::ALL_VENDOR, [false, false, false, true]),
        (Subscription::trap(Trap::GID_IN_SERVICE), [true, false, false, false]),
        (Subscription::device(64), [false, false, false, true]),
        (Subscription { kind: 3, ..generic }, [true, false, false, false]),
        (Subscription { kind: 3, trap: 128, ..generic }, [false; 4]),
        (Subscription { producer: 4, ..generic }, [true, false, false, false]),
        (Subscription { producer: 2, ..generic }, [false, true, false, false]),
        (Subscription { producer: 1, ..generic }, [false, false, true, false]),
        (generic.with_lids(1, 1).unwrap(), [true, false, false, false]),
        (generic.with_lids(0, 6).unwrap(), [true, true, true, false]),
        (generic.with_lids(1, 0xFFFE).unwrap(), [true, true, true, false]),
        // The port that came back is not the issuer.
        (Subscription { gid: gid("fe80::10:7"), ..generic }, [false; 4]),
        (Subscription { gid: gid("fe80::10:1"), ..generic }, [true, false, false, false]),
        (
            Subscription { gid: gid("fe80::10:1"), ..generic.with_lids(2, 2).unwrap() },
            [true, false, false, false],
        ),
        // What OpenSM accepts and never matches, and with_lids does not make.
        (Subscription { lid_begin: 1, lid_end: 0, ..generic }, [false; 4]),
        (Subscription { lid_begin: 5, lid_end: 1, ..generic }, [false; 4]),
    ] {
        assert_eq!(all().map(|notice| subscription.matches(&notice)), expected, "{subscription}");
    }
}

#[test]
fn lid_ranges_that_match_nothing_are_not_made() {
    let generic = Subscription::ALL_GENERIC;
    assert_eq!(generic.with_lids(5, 1), Err(LidRangeError { begin: 5, end: 1 }));
    assert_eq!(generic.with_lids(5, 0), Err(LidRangeError { begin: 5, end: 0 }));
    assert_eq!(generic.with_lids(0, 0), Err(LidRangeError { begin: 0, end: 0 }));
    assert_eq!(
        generic.with_lids(LID_ANY, 7),
        Ok(generic),
        "one form of 'all', or the unsubscription would miss"
    );
    assert_eq!(LidRangeError { begin: 5, end: 1 }.to_string(), "LID range 5-1 is empty");
}

#[test]
fn a_registration_looks_at_issuer_and_subject() {
    let every = Filter::EVERYTHING;
    let lids = |begin, end| Filter { lids: Some(LidRange { begin, end }), ..every };
    for (filter, expected) in [
        (every, [true; 4]),
        (Filter::trap(Trap::ALL), [true; 4]),
        (Filter::trap(Trap::GID_IN_SERVICE), [true, false, false, false]),
        (Filter { trap: Some(64), ..every }, [true, false, false, true]),
        (Filter { is_generic: Some(false), ..every }, [false, false, false, true]),
        (Filter { kind: Some(1), ..every }, [false, true, false, true]),
        (Filter { kind: Some(0xFFFF), trap: Some(0xFFFF), producer: Some(0xFF_FFFF), ..every }, [true; 4]),
        (Filter { producer: Some(0x1405), ..every }, [false, false, false, true]),
        (lids(2, 4), [false, true, true, false]),
        (lids(2, 0), [false, true, false, false]),
        (lids(LID_ANY, 0), [true; 4]),
        (Filter { gid: Some(gid("fe80::10:4")), ..lids(1, 1) }, [false, false, true, false]),
        (Filter { gid: Some(Gid::ZERO), ..lids(1, 1) }, [true, false, false, false]),
        (every.about(Subject::Gid(gid("fe80::10:7"))), [true, false, false, false]),
        (every.about(Subject::Gid(gid("fe80::10:1"))), [false; 4]),
        (every.about(Subject::Gid(gid("fe80::10:4"))), [false, false, true, false]),
        (every.about(Subject::Gid(gid("fe80::20:0"))), [false, true, false, false]),
        (every.about(Subject::Lid(2)), [false, true, false, false]),
        (every.about(Subject::Lid(1)), [false; 4]),
        (every.about(Subject::Lid(5)), [false; 4]),
    ] {
        assert_eq!(filter.check(), Ok(()));
        assert_eq!(all().map(|notice| filter.matches(&notice)), expected, "{filter:?}");
    }
}

#[test]
fn filters_that_nothing_matches_are_refused() {
    let every = Filter::EVERYTHING;
    for (filter, error) in [
        (
            Filter { lids: Some(LidRange { begin: 5, end: 4 }), ..every },
            FilterError::EmptyLids(LidRange { begin: 5, end: 4 }),
        ),
        (
            Filter { lids: Some(LidRange { begin: 0, end: 0 }), ..every },
            FilterError::EmptyLids(LidRange { begin: 0, end: 0 }),
        ),
        (Filter { kind: Some(0x80), ..every }, FilterError::Type(0x80)),
        (Filter { producer: Some(0x0100_0000), ..every }, FilterError::Producer(0x0100_0000)),
        (every.about(Subject::Lid(0)), FilterError::Subject),
        (every.about(Subject::Gid(Gid::ZERO)), FilterError::Subject),
    ] {
        assert_eq!(filter.check(), Err(error));
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn subscriptions_are_coarse_and_shared() {
    let of = |filter: Filter| filter.subscriptions().into_iter().collect::<Vec<_>>();
    let (generic, vendor) = (Subscription::ALL_GENERIC, Subscription::ALL_VENDOR);
    let trap64 = Subscription::trap(Trap::GID_IN_SERVICE);
    assert_eq!(of(Filter::EVERYTHING), [generic, vendor]);
    assert_eq!(of(Filter::trap(Trap::GID_IN_SERVICE)), [trap64]);
    assert_eq!(of(Filter::trap(Trap::GID_IN_SERVICE).about(Subject::Gid(gid("fe80::10:7")))), [trap64]);
    assert_eq!(of(Filter { trap: Some(64), ..Filter::EVERYTHING }), [trap64, Subscription::device(64)]);
    assert_eq!(of(Filter { is_generic: Some(true), kind: Some(3), ..Filter::EVERYTHING }), [generic]);
    assert_eq!(of(Filter { is_generic: Some(false), producer: Some(1), ..Filter::EVERYTHING }), [vendor]);
}

#[test]
fn covering() {
    let generic = Subscription::ALL_GENERIC;
    let lids = |begin, end| generic.with_lids(begin, end).unwrap();
    let from = |text| Subscription { gid: gid(text), ..generic };
    for (a, b, expected) in [
        (generic, lids(1, 5), true),
        (generic, from("fe80::1"), true),
        (lids(1, 5), generic, false),
        (lids(1, 5), lids(2, 5), true),
        (lids(2, 5), lids(1, 5), false),
        (lids(1, 5), from("fe80::1"), false),
        // Where a GID is given the range beside it does not count, so it is not within ours.
        (lids(1, 5), Subscription { gid: gid("fe80::1"), ..lids(2, 3) }, false),
        (from("fe80::1"), generic, false),
        (from("fe80::1"), from("fe80::1"), true),
        (from("fe80::1"), from("fe80::2"), false),
        (generic, Subscription::ALL_VENDOR, false),
        (Subscription { kind: 3, ..generic }, Subscription::trap(Trap::GID_IN_SERVICE), false),
    ] {
        assert_eq!(a.covers(&b), expected, "{a} / {b}");
    }
}

#[test]
fn security_traps() {
    for (trap, expected) in [(255, false), (256, true), (257, true), (258, true), (259, true), (260, false)] {
        assert_eq!(Subscription::trap(Trap(trap)).needs_trust(), expected);
        assert_eq!(Filter::trap(Trap(trap)).is_security(), expected);
        assert_eq!(Notice::generic(NoticeType::SECURITY, Producer::CA, Trap(trap)).is_security(), expected);
        assert!(!Notice::vendor(NoticeType::SECURITY, 1, trap).is_security());
    }
    assert!(!Subscription::ALL_GENERIC.needs_trust() && !Subscription::device(257).needs_trust());
    assert!(!Filter::EVERYTHING.is_security());
}

/// Offsets are those of the MAD, as the specification's tables are usually quoted; details begin at 66.
fn with(trap: u16, bytes: &[(usize, &[u8])]) -> Notice {
    let mut notice = Notice::generic(NoticeType::SECURITY, Producer::CA, Trap(trap));
    for (at, bytes) in bytes {
        notice.details[at - 66..at - 66 + bytes.len()].copy_from_slice(bytes);
    }
    notice
}

#[test]
fn details_of_each_trap() {
    for trap in 129..=131 {
        let notice = with(trap, &[(68, &[0, 9]), (70, &[3])]);
        assert_eq!((notice.lid(), notice.port()), (Some(9), Some(3)));
    }

    let notice =
        with(144, &[(68, &[0, 4]), (71, &[1]), (72, &[1, 2, 3, 4]), (76, &[0, 0x29]), (78, &[5, 6])]);
    let change = notice.local_change().unwrap();
    assert_eq!((change.lid, change.other_changes, change.capabilities), (4, true, 0x0102_0304));
    assert_eq!((change.flags, change.capabilities2), (0x29, 0x0506));
    let flags = changes::NODE_DESCRIPTION | changes::SM_PRIORITY | changes::CAPABILITY_MASK2;
    assert_eq!(change.flags, flags);
    assert!(notice.to_string().contains("LID 4 capabilities 0x01020304 changes 0x29"));

    let notice = with(145, &[(68, &[0, 4]), (72, &[1, 2, 3, 4, 5, 6, 7, 8])]);
    assert_eq!(
        (notice.lid(), u64::from(notice.system_image_guid().unwrap())),
        (Some(4), 0x0102_0304_0506_0708)
    );

    let hops: Vec<u8> = (1..=30).collect();
    let notice = with(
        256,
        &[
            (68, &[0, 7]),
            (70, &[0xFF, 0xFF]),
            (72, &[2]),
            (74, &[0, 0x15]),
            (76, &[0, 0, 0, 1]),
            (80, &[9, 8, 7, 6, 5, 4, 3, 2]),
            (89, &[0xFF]),
            (90, &hops),
        ],
    );
    let bad = notice.bad_m_key().unwrap();
    assert_eq!((bad.lid, bad.dr_slid, bad.method, bad.attribute, bad.modifier), (7, 0xFFFF, 2, 0x15, 1));
    assert_eq!((bad.m_key, bad.directed, bad.truncated, bad.hops), (0x0908_0706_0504_0302, true, true, 30));
    assert_eq!(bad.path[..], hops);
    assert_eq!(notice.subject_lids(), Subjects { first: Some(7), second: None });
    assert!(notice.to_string().starts_with("trap 256 bad M_Key: from LID 7, Set of attribute 0x0015 ("));

    let (from, to) = (gid("fe80::1"), gid("fe80::2"));
    for trap in [257, 258] {
        let notice = with(
            trap,
            &[
                (68, &[0, 7]),
                (70, &[0, 8]),
                (72, &[0, 0, 0x80, 1]),
                (76, &[0x50, 0, 1, 2]),
                (80, &[0xFF, 0, 3, 4]),
                (84, &from.0),
                (100, &to.0),
            ],
        );
        let bad = notice.bad_key().unwrap();
        assert_eq!((bad.lid1, bad.lid2, bad.key, bad.sl, bad.qp1, bad.qp2), (7, 8, 0x8001, 5, 0x102, 0x304));
        assert_eq!((bad.gid1, bad.gid2), (from, to));
        assert_eq!(notice.subject_lids(), Subjects { first: Some(7), second: Some(8) });
        assert!(notice.subject_gids().contains(&from) && notice.subject_gids().contains(&to));
        assert!(notice.to_string().contains(": key 0x8001 from LID 7 QP 258 to LID 8 QP 772 ("));
    }

    let notice = with(
        259,
        &[
            (66, &[1, 0xFF]),
            (68, &[0, 7]),
            (70, &[0, 8]),
            (72, &[0x80, 1]),
            (74, &[0x50, 0, 1, 2]),
            (78, &[0, 0, 3, 4]),
            (82, &from.0),
            (98, &to.0),
            (114, &[0, 2]),
            (116, &[17]),
        ],
    );
    let bad = notice.bad_switch_p_key().unwrap();
    assert_eq!((bad.valid, bad.lid1, bad.lid2, bad.p_key, bad.sl), (0x1FF, 7, 8, 0x8001, 5));
    assert_eq!((bad.qp1, bad.qp2, bad.gid1, bad.gid2), (0x102, 0x304, from, to));
    assert_eq!((bad.switch_lid, bad.port, notice.port()), (2, 17, Some(17)));
    assert!(notice.subject_gids().contains(&to));
    assert!(notice.to_string().contains(", seen by switch LID 2 port 17 ("));

    let notice = vendors();
    assert_eq!(notice.kind(), NoticeKind::Vendor { device: 64, vendor: 0x1405 });
    assert_eq!((notice.gid(), notice.lid(), notice.trap()), (None, None, None));
    assert_eq!(notice.to_string(), "notice of vendor 0x001405 device 0x0040 (urgent; from LID 5 fe80::10:5)");
}

#[test]
fn names_and_texts() {
    assert_eq!(Trap(64).to_string(), "trap 64 GID in service");
    assert_eq!(Trap(1234).to_string(), "trap 1234");
    assert_eq!(Status(0x0200).to_string(), "0x0200 (invalid request, or no such subscription)");
    assert_eq!(Status(0x000C).text(), "method not supported for this attribute");
    assert_eq!(Status(0x0300).text(), "no such record");
    assert_eq!(Status(0x0400).text(), "more than one record");
    assert_eq!(Status(0x0001).text(), "busy");
    assert_eq!(Status(0xF000).text(), "unknown SA status");
    assert_eq!(Status(0x0020).text(), "unknown status");
    assert!(Status::BUSY.is_temporary() && Status::NO_RESOURCES.is_temporary());
    assert!(!Status::REQ_INVALID.is_temporary() && !Status::OK.is_temporary());
    assert_eq!(format!("{:?} {:?}", Method(0x86), Method(0x33)), "ReportResp method 0x33");
    assert_eq!(format!("{:?} {:?}", Attribute(0xF3), Attribute(0x99)), "InformInfoRecord attribute 0x0099");
    assert!(Method::REPORT_RESP.is_response() && !Method::REPORT.is_response());
    assert_eq!(Subscription::trap(Trap(65)).to_string(), "trap 65 GID out of service");
    assert_eq!(
        Subscription { kind: 3, producer: 4, ..Subscription::ALL_GENERIC.with_lids(1, 2).unwrap() }
            .to_string(),
        "all generic traps, type 3, made by class manager, issuer LIDs 1-2"
    );
    assert_eq!(
        Subscription { producer: 0x1405, gid: gid("fe80::1"), ..Subscription::device(1) }.to_string(),
        "vendor device 0x0001, vendor 0x001405, issuer fe80::1"
    );
    assert_eq!("fe80::10:7".parse::<Gid>().unwrap().to_string(), "fe80::10:7");
    assert!("fe80".parse::<Gid>().is_err());
    assert!(gid("ff12::1").is_multicast() && !gid("fe80::1").is_multicast());
}
