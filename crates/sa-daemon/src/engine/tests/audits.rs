//! The SA's table, when it is late, lost or refused, and what it says of an SM that was started anew.

use ibv_sa_wire::mad::reply;
use ibv_sa_wire::{Filter, Subscription, Trap};

use super::world::{Told::*, *};
use crate::engine::*;
use crate::transport::embedded::{Mood, Subscriber};

fn trap(number: u16) -> Filter {
    Filter::trap(Trap(number))
}

/// A program with trap 64, and the daemon has seen the table that it asks for at the start.
fn settled(settings: Settings) -> World {
    let mut world = World::with(settings);
    world.connect(1, 0);
    world.register(1, 64, trap(64), true);
    world.pass(10 * SECOND);
    world.told(1);
    world
}

/// Two events that look the same, one after the other, are two notices.
fn tells_equal_ones_apart(world: &mut World) -> bool {
    world.told(1);
    world.happen(about(Trap(64), 3), 1);
    world.happen(about(Trap(64), 3), 1);
    world.told(1) == [Notice(64, 64, 3), Notice(64, 64, 3)]
}

#[test]
fn an_sm_that_was_started_anew_counts_anew() {
    let mut world = settled(Settings { audit: SECOND, ..Settings::default() });
    world.happen(about(Trap(64), 3), 1);
    assert_eq!(world.told(1), [Notice(64, 64, 3)]);
    world.sa = Default::default();
    world.pass(3 * SECOND);
    assert_eq!(world.told(1), [Status(64, -libc::ENETRESET), Status(64, 0)]);
    world.happen(about(Trap(64), 3), 1);
    assert_eq!(world.told(1), [Notice(64, 64, 3)], "the id is that of the SM before");
}

/// Lets the daemon ask for the table; returns the answer.
fn held_table(world: &mut World) -> Event {
    world.held = Some(Vec::new());
    for _ in 0..40 {
        if world.held.as_ref().is_some_and(|held| !held.is_empty()) {
            break;
        }
        world.pass(SECOND / 10);
    }
    world.held.take().unwrap_or_default().remove(0)
}

#[test]
fn a_table_that_is_late_says_nothing_of_what_changed_meanwhile() {
    let mut world = settled(Settings { audit: 2 * SECOND, linger: 0, ..Settings::default() });
    let table = held_table(&mut world);
    world.register(1, 65, trap(65), true);
    world.unregister(1, 64);
    world.pass(SECOND / 10);
    assert_eq!(world.told(1), [Registered(65, 0), Status(65, 0), Unregistered(64)]);
    let sets = world.sa.sets;
    world.event(table);
    world.pass(SECOND / 2);
    assert_eq!(world.told(1), [], "what it lacks was not there yet");
    assert_eq!(world.sa.sets, sets, "what it has is gone since");
    assert_eq!(world.subscribed(), [Subscription::trap(Trap(65))]);
}

#[test]
fn a_table_that_is_lost_is_asked_for_again_soon() {
    let mut world = World::new();
    world.connect(1, 0);
    world.register(1, 64, trap(64), true);
    world.lose = Box::new(|| true);
    world.pass(6 * SECOND);
    assert!(!tells_equal_ones_apart(&mut world), "another subscription may bring everything twice");
    world.lose = Box::new(|| false);
    world.pass(5 * SECOND);
    assert!(tells_equal_ones_apart(&mut world));
}

#[test]
fn a_table_that_never_comes_is_not_waited_for() {
    let mut world = World::new();
    world.connect(1, 0);
    world.register(1, 64, trap(64), true);
    world.lose = Box::new(|| true);
    world.pass(60 * SECOND);
    assert!(tells_equal_ones_apart(&mut world));
}

#[test]
fn an_sa_that_refuses_its_table_has_been_asked() {
    let mut world = World::new();
    world.connect(1, 0);
    world.register(1, 64, trap(64), true);
    world.held = Some(Vec::new());
    world.pass(6 * SECOND);
    let mut table = world.held.take().unwrap_or_default().remove(0);
    // The answer to a question without records.
    if let Event::Mad { mad, .. } = &mut table {
        mad[4..6].copy_from_slice(&[3, 0]);
    }
    world.event(table);
    assert!(tells_equal_ones_apart(&mut world));
}

#[test]
fn an_end_whose_answer_was_lost_leaves_no_doubt() {
    let mut world = settled(Settings { linger: 0, ..Settings::default() });
    world.register(1, 65, trap(65), true);
    world.held = Some(Vec::new());
    world.unregister(1, 65);
    world.held = None;
    world.pass(3 * SECOND / 2);
    world.pass(SECOND / 2);
    assert_eq!(world.subscribed(), [Subscription::trap(Trap(64))]);
    assert!(tells_equal_ones_apart(&mut world));
}

#[test]
fn only_what_two_subscriptions_bring_is_taken_for_one() {
    let mut world = settled(Settings { linger: SECOND, ..Settings::default() });
    world.register(1, 1, Filter { is_generic: Some(true), ..Filter::EVERYTHING }, true);
    world.register(1, 65, trap(65), true);
    world.told(1);
    // Trap 64 stands beside all for a while, and a Report of its may be late.
    world.happen(about(Trap(64), 3), 1);
    world.pass(SECOND / 2);
    world.told(1);
    for _ in 0..2 {
        world.happen(about(Trap(65), 4), 1);
    }
    let both = [Notice(65, 65, 4), Notice(1, 65, 4)];
    assert_eq!(world.told(1), [both, both].concat(), "all brings those alone");
}

/// The SA knows the port under another GID: it confirms, and never lists what it has confirmed. That is found out, and then
/// nobody is troubled any more. What it has really forgotten is made again all the same.
#[test]
fn a_table_that_is_no_help_ends_no_subscription() {
    let mut world = settled(Settings { audit: 10 * SECOND, ..Settings::default() });
    let gap = [Status(64, -libc::ENETRESET), Status(64, 0)];
    let known = world.state;
    world.port(PortState { gid: gid(9), ..known });
    world.state = known;
    world.pass(100 * SECOND);
    // The port's change, and three looks.
    assert_eq!(world.told(1), gap.repeat(4));
    assert!(world.logs.iter().any(|line| line.contains("its table is no help")));
    world.pass(100 * SECOND);
    assert_eq!(world.told(1), []);
    world.sa = Default::default();
    world.pass(20 * SECOND);
    assert_eq!(world.subscribed(), [Subscription::trap(Trap(64))]);
    assert_eq!(world.told(1), [], "nothing is known of it");
    // It knows the port.
    world.port(known);
    world.pass(20 * SECOND);
    assert_eq!(world.told(1), gap);
    for _ in 0..5 {
        world.sa = Default::default();
        world.pass(40 * SECOND);
        assert_eq!(world.told(1), gap, "a restart is a gap");
    }
}

/// The SA's table is no help, so that what may be forgotten is asked for again; the SA refuses.
#[test]
fn a_renewal_that_is_refused_is_a_gap() {
    let mut world = settled(Settings { audit: 10 * SECOND, ..Settings::default() });
    let known = world.state;
    world.port(PortState { gid: gid(9), ..known });
    world.state = known;
    world.pass(100 * SECOND);
    world.told(1);
    world.sa = Default::default();
    world.sa.mood = Mood::Refusing;
    world.pass(100 * SECOND);
    assert_eq!(world.told(1), [Status(64, -libc::ENETRESET)]);
    world.sa.mood = Mood::Well;
    world.pass(100 * SECOND);
    assert_eq!(world.told(1), [Status(64, 0)]);
}

#[test]
fn a_doubt_that_comes_up_while_the_question_is_out_is_looked_into() {
    let mut world = settled(Settings { audit: 1000 * SECOND, ..Settings::default() });
    let stray = reply::report(77, &about(Trap(65), 9));
    world.report(7, stray.as_bytes());
    let table = held_table(&mut world);
    let subscription = Subscription::trap(Trap(66));
    world.sa.subscribers.push(Subscriber { lid: world.state.lid, gid: world.state.gid, subscription });
    world.happen(about(Trap(66), 9), 1);
    world.event(table);
    world.pass(20 * SECOND);
    assert_eq!(world.subscribed(), [Subscription::trap(Trap(64))]);
}

#[test]
fn a_late_report_of_what_was_just_ended_leaves_no_doubt() {
    let mut world = settled(Settings { linger: 0, ..Settings::default() });
    world.register(1, 65, trap(65), true);
    world.pass(10 * SECOND);
    let late = world.sa.happen(&about(Trap(65), 5));
    world.unregister(1, 65);
    world.pass(SECOND / 10);
    late.iter().for_each(|(lid, report)| world.report(*lid, report.as_bytes()));
    world.pass(SECOND / 2);
    assert!(tells_equal_ones_apart(&mut world));
}

/// The SA has lost one of two: it is no other SM, and what it repeats is a repetition.
#[test]
fn a_repeated_report_is_known_beside_a_subscription_that_was_lost() {
    let mut world = settled(Settings { audit: 10 * SECOND, ..Settings::default() });
    world.register(1, 65, trap(65), true);
    world.pass(20 * SECOND);
    world.told(1);
    world.sa.subscribers.retain(|one| one.subscription != Subscription::trap(Trap(64)));
    let before = world.logs.len();
    let mut last = Vec::new();
    for n in 1.. {
        last = world.sa.happen(&about(Trap(65), n));
        last.iter().for_each(|(lid, report)| world.report(*lid, report.as_bytes()));
        world.pass(SECOND / 2);
        if world.logs[before..].iter().any(|line| line.contains("has forgotten")) {
            break;
        }
    }
    world.told(1);
    last.iter().for_each(|(lid, report)| world.report(*lid, report.as_bytes()));
    assert!(world.told(1).iter().all(|one| !matches!(one, Notice(65, ..))));
}
