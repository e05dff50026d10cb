//! What programs are told.

use ibv_sa_wire::{Filter, Subject, Subscription, Trap};

use super::world::{Told::*, *};
use crate::engine::*;
use crate::transport::embedded::Mood;

const IN: Filter = Filter { is_generic: Some(true), trap: Some(64), ..Filter::EVERYTHING };
const OUT: Filter = Filter { is_generic: Some(true), trap: Some(65), ..Filter::EVERYTHING };

#[test]
fn two_programs_share_one_subscription() {
    let mut world = World::new();
    world.connect(1, 1000);
    world.connect(2, 1001);
    world.register(1, 1, IN, false);
    world.register(2, 9, IN, false);
    assert_eq!(world.told(1), [Registered(1, 0), Status(1, 0)]);
    assert_eq!(world.told(2), [Registered(9, 0), Status(9, 0)]);
    assert_eq!(world.sa.sets, 1);
    world.happen(about(Trap::GID_IN_SERVICE, 3), 1);
    assert_eq!(world.told(1), [Notice(1, 64, 3)]);
    assert_eq!(world.told(2), [Notice(9, 64, 3)]);
    world.gone(1);
    world.pass(10 * SECOND);
    assert_eq!(world.subscribed(), [Subscription::trap(Trap(64))]);
    world.unregister(2, 9);
    assert_eq!(world.told(2), [Unregistered(9)]);
    world.pass(1900 * MILLISECOND);
    assert_eq!(world.subscribed().len(), 1, "lingers");
    world.pass(200 * MILLISECOND);
    assert_eq!(world.subscribed(), []);
    world.pass(2 * SECOND);
    assert!(world.open.is_empty() && world.engine.is_idle());
    assert_eq!(world.engine.next_deadline(), None);
}

#[test]
fn who_comes_back_within_the_linger_needs_no_request() {
    let mut world = World::new();
    world.connect(1, 1000);
    for id in 1..1000 {
        world.register(1, id, IN, false);
        assert_eq!(world.told(1), [Registered(id, 0), Status(id, 0)]);
        world.unregister(1, id);
        assert_eq!(world.told(1), [Unregistered(id)]);
        world.pass(SECOND);
    }
    assert_eq!(world.sa.sets, 1);
}

#[test]
fn all_beside_64_is_one_event_each() {
    let mut world = World::new();
    world.connect(1, 0);
    world.register(1, 1, IN, false);
    world.register(1, 2, Filter::EVERYTHING, false);
    // Both stand for a moment: the notice comes twice.
    assert_eq!(world.subscribed().len(), 3);
    world.told(1);
    world.happen(about(Trap::GID_IN_SERVICE, 3), 1);
    assert_eq!(world.told(1), [Notice(1, 64, 3), Notice(2, 64, 3)]);
    world.pass(5 * SECOND);
    assert_eq!(world.subscribed(), [Subscription::ALL_VENDOR, Subscription::ALL_GENERIC]);
    world.happen(about(Trap::GID_OUT_OF_SERVICE, 3), 1);
    assert_eq!(world.told(1), [Notice(2, 65, 3)]);
    // Back to the narrow one, which has to stand before the wildcard goes.
    world.unregister(1, 2);
    assert_eq!(world.subscribed().len(), 3);
    world.happen(about(Trap::GID_IN_SERVICE, 4), 1);
    world.pass(5 * SECOND);
    world.happen(about(Trap::GID_IN_SERVICE, 5), 1);
    assert_eq!(world.told(1), [Unregistered(2), Notice(1, 64, 4), Notice(1, 64, 5)]);
    assert_eq!(world.subscribed(), [Subscription::trap(Trap(64))]);
}

#[test]
pub fn the_wildcard_stays_until_what_replaces_it_stands() {
    for mood in [Mood::Silent, Mood::Full] {
        let mut world = World::new();
        world.connect(1, 0);
        world.register(1, 1, IN, false);
        world.register(1, 2, Filter::EVERYTHING, false);
        world.pass(5 * SECOND);
        world.sa.mood = mood;
        world.unregister(1, 2);
        world.pass(60 * SECOND);
        assert!(world.subscribed().contains(&Subscription::ALL_GENERIC));
        world.told(1);
        world.happen(about(Trap::GID_IN_SERVICE, 4), 1);
        assert_eq!(world.told(1), [Notice(1, 64, 4)]);
        world.sa.mood = Mood::Well;
        world.pass(60 * SECOND);
        assert_eq!(world.subscribed(), [Subscription::trap(Trap(64))]);
        assert_eq!(world.told(1), []);
    }
}

#[test]
fn a_report_of_a_subscription_that_just_ended_is_known() {
    let mut world = World::new();
    world.connect(1, 0);
    world.register(1, 1, IN, false);
    world.pass(10 * SECOND);
    world.register(1, 2, Filter::EVERYTHING, false);
    world.pass(1990 * MILLISECOND);
    world.told(1);
    let reports = world.sa.happen(&about(Trap::GID_IN_SERVICE, 3));
    assert_eq!(reports.len(), 2);
    world.report(reports[0].0, reports[0].1.as_bytes());
    world.pass(20 * MILLISECOND);
    assert_eq!(world.subscribed().len(), 2, "the narrow one is gone");
    world.report(reports[1].0, reports[1].1.as_bytes());
    assert_eq!(world.told(1), [Notice(1, 64, 3), Notice(2, 64, 3)]);
}

#[test]
fn every_report_is_answered_and_counts_once() {
    let mut world = World::new();
    world.connect(1, 0);
    world.register(1, 1, OUT, false);
    world.told(1);
    // Until the SA's table was seen, something of an earlier life could double it.
    world.pass(10 * SECOND);
    world.happen(about(Trap::GID_OUT_OF_SERVICE, 3), 4);
    assert_eq!(world.told(1), [Notice(1, 65, 3)]);
    assert_eq!(world.responses, 4);
    world.happen(about(Trap::GID_OUT_OF_SERVICE, 3), 1);
    assert_eq!(world.told(1), [Notice(1, 65, 3)], "the same again with another id is another event");
}

#[test]
fn subject_filters_and_security_traps() {
    let mut world = World::new();
    world.connect(1, 0);
    world.connect(2, 1000);
    world.register(1, 1, IN.about(Subject::Gid(gid(3))), false);
    world.register(1, 2, Filter::EVERYTHING, false);
    world.register(2, 1, Filter::EVERYTHING, false);
    let keys = Filter { trap: Some(257), ..IN };
    world.register(2, 2, keys, false);
    assert_eq!(world.told(2), [Registered(1, 0), Status(1, 0), Registered(2, -libc::EACCES)]);
    world.pass(5 * SECOND);
    world.told(1);
    world.happen(about(Trap::GID_IN_SERVICE, 3), 1);
    world.happen(about(Trap::GID_IN_SERVICE, 4), 1);
    let mut bad_key = about(Trap::GID_IN_SERVICE, 0);
    bad_key.number = 257.into();
    world.happen(bad_key, 1);
    assert_eq!(world.told(1), [Notice(1, 64, 3), Notice(2, 64, 3), Notice(2, 64, 4), Notice(2, 257, 0)]);
    assert_eq!(world.told(2), [Notice(1, 64, 3), Notice(1, 64, 4)]);
    // The SA itself refuses even an administrator without its key.
    world.register(1, 3, keys, false);
    world.unregister(1, 2);
    world.unregister(2, 1);
    world.pass(30 * SECOND);
    assert!(world.told(1).contains(&Status(3, -libc::ENETRESET)));
    world.register(1, 4, keys, false);
    assert_eq!(world.told(1), [Registered(4, 0), Status(4, -libc::EACCES)]);
    world.pass(30 * SECOND);
    assert_eq!(world.subscribed(), [Subscription::trap(Trap(64))]);
}

#[test]
fn failures_have_their_errno() {
    for (mood, status) in
        [(Mood::Silent, -libc::ETIMEDOUT), (Mood::Busy, -libc::EBUSY), (Mood::Refusing, -libc::EINVAL)]
    {
        let mut world = World::new();
        world.sa.mood = mood;
        world.connect(1, 0);
        world.register(1, 1, IN, false);
        world.pass(60 * SECOND);
        assert_eq!(world.told(1), [Registered(1, 0), Status(1, status)], "{mood:?}");
        world.sa.mood = Mood::Well;
        world.register(1, 2, IN, false);
        world.pass(60 * SECOND);
        assert_eq!(world.told(1), [Registered(2, 0), Status(2, 0)], "{mood:?}");
        world.unregister(1, 1);
        world.unregister(1, 2);
        world.pass(60 * SECOND);
        assert_eq!(world.subscribed(), []);
        assert!(world.engine.is_idle());
    }
    let mut world = World::new();
    world.fails = Some(-libc::ENODEV);
    world.connect(1, 0);
    world.register(1, 1, IN, false);
    assert_eq!(world.told(1), [Registered(1, 0), Status(1, -libc::ENODEV)]);
    world.pass(5 * SECOND);
    assert!(world.engine.is_idle());
}

#[test]
fn requests_that_are_refused() {
    let settings = Settings { clients_per_user: 2, registrations_per_user: 3, ..Settings::default() };
    let mut world = World::with(settings);
    world.connect(1, 1000);
    world.connect(2, 1000);
    world.connect(3, 1000);
    assert_eq!(world.closed, [(3, -libc::EBUSY, "too many connections of this user")]);
    let mut ending = World::new();
    ending.engine.end(ending.now);
    ending.connect(1, 1000);
    assert_eq!(ending.closed, [(1, -libc::EBUSY, "the daemon ends")]);
    world.connect(4, 1001);
    for id in 1..=4 {
        world.register(1, id, IN, false);
    }
    world.register(1, 1, IN, false);
    let told = world.told(1);
    assert_eq!(told[6..], [Registered(4, -libc::EBUSY), Registered(1, -libc::EEXIST)]);
    world.register(4, 1, IN, false);
    assert_eq!(world.told(4)[0], Registered(1, 0), "another user has limits of his own");
    world.unregister(1, 77);
    assert_eq!(world.told(1), [Unregistered(77)]);
    world.gone(1);
    world.register(2, 1, IN, false);
    assert_eq!(world.told(2)[0], Registered(1, 0));
}

#[test]
pub fn a_slow_client_learns_what_it_lost_and_slows_nobody() {
    let mut world = World::with(Settings { queued_per_client: 10, ..Settings::default() });
    world.connect(1, 0);
    world.connect(2, 0);
    world.register(1, 1, IN, false);
    world.register(2, 1, IN, false);
    world.told(1);
    world.told(2);
    world.deaf.push(1);
    for n in 0..30 {
        world.happen(about(Trap::GID_IN_SERVICE, n), 1);
    }
    world.read(1);
    let told = world.told(1);
    assert_eq!(told.len(), 11);
    assert_eq!(told[9..], [Notice(1, 64, 9), Lost(1, 20)]);
    assert_eq!(world.told(2).len(), 30);
    assert_eq!(world.engine.status().counters.lost, 20);
}

#[test]
fn requests_are_paced() {
    let mut world = World::new();
    world.connect(1, 0);
    for id in 1..=60 {
        world.register(1, id, Filter { trap: Some(1000 + id as u16), ..IN }, false);
    }
    world.pass(10 * SECOND);
    assert_eq!(world.sets_at.len(), 60);
    assert!(world.sets_at.windows(25).all(|window| window[24] - window[0] >= SECOND));
}
