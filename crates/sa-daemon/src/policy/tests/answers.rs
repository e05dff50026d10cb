//! Who may what, by the rules.

use ibv_sa_wire::mad::{Notice, NoticeType};
use ibv_sa_wire::{Filter, Gid, Guid, Trap};
use proptest::prelude::*;

use super::parse;
use crate::engine::{DefaultPolicy, Limits, Peer, Policy, PortName, Settings};
use crate::policy::Rules;
use crate::policy::rules::{Decision, Named, Ports, Rule, Who};
use crate::policy::traps::Traps;

fn peer(uid: u32, gid: u32, groups: &[u32]) -> Peer {
    Peer { uid, gid, groups: groups.to_vec(), pid: 1, comm: "prog".into() }
}

fn port(device: &str, number: u8) -> PortName {
    PortName { device: device.into(), number, guid: Guid::ZERO }
}

fn generic(number: u16) -> Filter {
    Filter { is_generic: Some(true), trap: Some(number), ..Filter::EVERYTHING }
}

const VENDOR: Filter = Filter { is_generic: Some(false), ..Filter::EVERYTHING };
const ANY_GENERIC: Filter = Filter { is_generic: Some(true), ..Filter::EVERYTHING };

fn notice(number: u16) -> Notice {
    Notice::about_gid(Trap(number), Gid([1; 16]), 1, Gid([1; 16]))
}

fn vendors() -> Notice {
    Notice::vendor(NoticeType(1), 7, 64)
}

#[test]
fn without_rules_it_is_the_built_in_policy() {
    let (empty, built_in) = (parse(""), DefaultPolicy::default());
    let at = port("a", 1);
    for peer in [peer(0, 0, &[]), peer(1000, 0, &[0])] {
        assert!(empty.may_connect(&peer));
        let both = Filter { trap: Some(256), ..Filter::EVERYTHING };
        let numbers = [0, 64, 255, 256, 259, 260, 0xFFFF].map(generic);
        for filter in numbers.into_iter().chain([Filter::EVERYTHING, VENDOR, ANY_GENERIC, both]) {
            assert_eq!(
                empty.may_register(&peer, &at, &filter),
                built_in.may_register(&peer, &at, &filter),
                "{filter:?}"
            );
        }
        for notice in [notice(64), notice(256), notice(259), vendors()] {
            assert_eq!(empty.may_receive(&peer, &at, &notice), built_in.may_receive(&peer, &at, &notice));
        }
        let limits = Settings::default().limits();
        assert_eq!(empty.limits(&peer, limits), limits);
    }
}

#[test]
fn who_is_denied_everything_cannot_connect() {
    let rules = parse(
        "rule = [
            { users = ['alice'], traps = ['security'], action = 'deny' },
            { users = ['alice'], ports = ['a'], action = 'deny' },
            { groups = ['adm'], ports = ['b/1'], traps = [64], action = 'allow' },
            { users = ['alice', 7], action = 'deny' },
        ]",
    );
    assert!(!rules.may_connect(&peer(1000, 1000, &[])));
    assert!(!rules.may_connect(&peer(7, 7, &[])));
    assert!(rules.may_connect(&peer(7, 7, &[3, 4])), "in group adm");
    assert!(rules.may_connect(&peer(7, 4, &[])), "with group adm");
    assert!(rules.may_connect(&peer(8, 8, &[])), "of no rule");
    let member = peer(1000, 1000, &[4]);
    assert!(rules.may_connect(&member));
    assert!(rules.may_register(&member, &port("b", 1), &generic(64)));
    assert!(!rules.may_register(&member, &port("b", 1), &generic(65)));
    assert!(!rules.may_register(&member, &port("b", 2), &generic(64)));
    assert!(!rules.may_register(&member, &port("a", 1), &generic(64)));
}

#[test]
fn everything_is_what_is_left() {
    let rules = parse(
        "rule = [
            { ports = ['a'], traps = ['vendor', 64], action = 'deny' },
            { ports = ['b'], action = 'deny' },
            { ports = ['c'], traps = [64], action = 'allow' },
            { ports = ['c'], action = 'deny' },
            { ports = ['d'], traps = [64], action = 'deny' },
            { ports = ['d'], traps = [64], action = 'allow' },
            { ports = ['d'], action = 'deny' },
        ]",
    );
    let user = peer(0, 0, &[]);
    for (device, everything, any_generic, vendor, sees_64, sees_65) in [
        ("a", true, true, false, false, true),
        ("b", false, false, false, false, false),
        ("c", true, true, false, true, false),
        ("d", false, false, false, false, false),
        ("e", true, true, true, true, true),
    ] {
        let at = port(device, 1);
        assert_eq!(rules.may_register(&user, &at, &Filter::EVERYTHING), everything, "{device}");
        assert_eq!(rules.may_register(&user, &at, &ANY_GENERIC), any_generic, "{device}");
        assert_eq!(rules.may_register(&user, &at, &VENDOR), vendor, "{device}");
        assert_eq!(rules.may_receive(&user, &at, &vendors()), vendor, "{device}");
        assert_eq!(rules.may_receive(&user, &at, &notice(64)), sees_64, "{device}");
        assert_eq!(rules.may_receive(&user, &at, &notice(65)), sees_65, "{device}");
    }
}

#[test]
fn keys_can_be_given_to_others_and_taken_from_root() {
    let rules = parse(
        "rule = [
            { users = ['alice'], traps = ['security'], action = 'allow' },
            { users = ['root'], traps = [256], action = 'deny' },
        ]",
    );
    let at = port("a", 1);
    for (peer, number, may) in [
        (peer(1000, 1000, &[]), 256, true),
        (peer(1000, 1000, &[]), 259, true),
        (peer(1001, 1001, &[]), 256, false),
        (peer(0, 0, &[]), 256, false),
        (peer(0, 0, &[]), 257, true),
    ] {
        assert_eq!(rules.may_register(&peer, &at, &generic(number)), may);
        assert_eq!(rules.may_receive(&peer, &at, &notice(number)), may);
    }
}

#[test]
fn the_first_override_counts_and_the_rest_is_as_for_all() {
    let rules = parse(
        "limits = { connections = 5, queued = 50 }
         override = [
            { users = ['alice'], connections = 6 },
            { users = ['alice'], groups = ['adm'], connections = 7, registrations = 70, queued_per_connection = 700 },
         ]",
    );
    let defaults = Limits { clients: 1, registrations: 2, queued: 3, queued_per_client: 4 };
    let all = Limits { clients: 5, queued: 50, ..defaults };
    assert_eq!(rules.limits(&peer(1, 1, &[]), defaults), all);
    assert_eq!(rules.limits(&peer(1000, 4, &[]), defaults), Limits { clients: 6, ..all });
    let third = Limits { clients: 7, registrations: 70, queued_per_client: 700, ..all };
    assert_eq!(rules.limits(&peer(1, 1, &[4]), defaults), third);
}

/// One rule of the model: everything is a predicate.
fn rule() -> impl Strategy<Value = Rule> {
    let ids = || prop::collection::vec((0..4u32).prop_map(|id| Named { id, name: None }), 0..2);
    let device = prop::option::of(prop::sample::select(vec!["a".to_string(), "b".to_string()]));
    let ports = (device, prop::option::of(1..3u8)).prop_map(|(device, number)| Ports { device, number });
    let numbers = prop::collection::btree_set(prop::sample::select(vec![64u16, 65, 256, 257, 300]), 0..4);
    let traps = (prop::bool::weighted(0.2), any::<bool>(), numbers);
    let decision = prop_oneof![Just(Decision::Allow), Just(Decision::Deny)];
    (ids(), ids(), prop::collection::vec(ports, 0..3), traps, decision).prop_map(
        |(users, groups, ports, (all, vendor, numbers), decision)| Rule {
            line: 1,
            who: Who { users, groups },
            ports,
            traps: Traps { all, vendor, numbers },
            decision,
        },
    )
}

/// What the manual says, word for word.
fn model(rules: &[Rule], peer: &Peer, port: &PortName, number: Option<u16>) -> bool {
    for rule in rules {
        let user = rule.who.users.iter().any(|user| user.id == peer.uid);
        let group =
            rule.who.groups.iter().any(|group| group.id == peer.gid || peer.groups.contains(&group.id));
        let everybody = rule.who.users.is_empty() && rule.who.groups.is_empty();
        let here = rule.ports.is_empty()
            || rule.ports.iter().any(|one| {
                one.device.clone().unwrap_or(port.device.clone()) == port.device
                    && one.number.unwrap_or(port.number) == port.number
            });
        let about =
            rule.traps.all || number.map_or(rule.traps.vendor, |number| rule.traps.numbers.contains(&number));
        if (user || group || everybody) && here && about {
            return rule.decision == Decision::Allow;
        }
    }
    peer.uid == 0 || !matches!(number, Some(256..=259))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_first_match_wins(
        list in prop::collection::vec(rule(), 0..6),
        uid in 0..4u32, gid in 0..4u32, groups in prop::collection::vec(0..4u32, 0..3),
        device in prop::sample::select(vec!["a", "b", "c"]), number in 1..4u8,
    ) {
        let rules = Rules { rules: list.clone(), ..Rules::default() };
        let (peer, at) = (peer(uid, gid, &groups), port(device, number));
        // One number that no rule has stands for all those.
        let numbers = [64u16, 65, 256, 257, 258, 300, 301];
        for number in numbers {
            let may = model(&list, &peer, &at, Some(number));
            prop_assert_eq!(rules.may_receive(&peer, &at, &notice(number)), may, "{}", number);
            prop_assert_eq!(rules.may_register(&peer, &at, &generic(number)), may, "{}", number);
            let both = Filter { trap: Some(number), ..Filter::EVERYTHING };
            let may = may && model(&list, &peer, &at, None);
            prop_assert_eq!(rules.may_register(&peer, &at, &both), may, "{}", number);
        }
        let vendor = model(&list, &peer, &at, None);
        prop_assert_eq!(rules.may_receive(&peer, &at, &vendors()), vendor);
        prop_assert_eq!(rules.may_register(&peer, &at, &VENDOR), vendor);
        let any = numbers.iter().any(|number| model(&list, &peer, &at, Some(*number)));
        prop_assert_eq!(rules.may_register(&peer, &at, &ANY_GENERIC), any);
        prop_assert_eq!(rules.may_register(&peer, &at, &Filter::EVERYTHING), any || vendor);
        // Who is refused at the door would have got nothing.
        if !rules.may_connect(&peer) {
            prop_assert!(!any && !vendor);
        }
    }
}
