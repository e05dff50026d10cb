//! Ports and SMs that come and go.

use ibv_sa_wire::mad::SaMessage;
use ibv_sa_wire::{Filter, Subscription, Trap};
use proptest::prelude::*;

use super::world::{Told::*, *};
use crate::engine::*;
use crate::transport::embedded::{Mood, Sa};

const IN: Filter = Filter { is_generic: Some(true), trap: Some(64), ..Filter::EVERYTHING };
const RESET: i32 = -libc::ENETRESET;

fn two(world: &mut World) {
    world.connect(1, 0);
    world.register(1, 1, IN, false);
    world.register(1, 2, IN, true);
    world.told(1);
}

#[test]
fn another_sm_is_a_gap() {
    let mut world = World::new();
    two(&mut world);
    world.sa = Sa::default();
    world.port(PortState { sm_lid: 4, ..world.state });
    assert_eq!(world.told(1), [Status(1, RESET), Status(2, RESET)]);
    world.pass(6 * SECOND);
    assert_eq!(world.told(1), [Status(2, 0)]);
    assert_eq!(world.sa.sets, 1);
    world.happen(about(Trap(64), 3), 1);
    assert_eq!(world.told(1), [Notice(2, 64, 3)], "what is lost stays lost until it is registered again");
}

#[test]
fn events_in_a_row_are_one_resubscription() {
    let mut world = World::new();
    two(&mut world);
    let up = world.state;
    world.sa = Sa::default();
    world.port(PortState { active: false, ..up });
    world.port(PortState { sm_lid: 0, ..up });
    let port = world.open[0];
    world.event(Event::PortReregister { port });
    world.port(PortState { sm_lid: 4, ..up });
    world.event(Event::PortReregister { port });
    world.port(PortState { sm_lid: 4, lid: 9, ..up });
    world.event(Event::PortReregister { port });
    world.pass(6 * SECOND);
    assert_eq!(world.sa.sets, 1);
    assert_eq!(world.told(1), [Status(1, RESET), Status(2, RESET), Status(2, 0)]);
    assert_eq!(world.sa.subscribers[0].lid, 9);
}

proptest! {
    /// Whatever comes within the time that such events are waited for, in any order and number: one gap and one
    /// subscription, once the port is active.
    #[test]
    fn any_events_in_a_row_are_one_resubscription(
        events in prop::collection::vec((0usize..6, 0u64..8), 1..12), seed in any::<u64>()
    ) {
        let mut world = World::with(Settings { seed, ..Settings::default() });
        two(&mut world);
        let (port, sets) = (world.open[0], world.sa.sets);
        for (event, pause) in events {
            let before = world.state;
            match event {
                0 => world.port(PortState { active: false, ..before }),
                1 => world.port(PortState { active: true, ..before }),
                2 => world.event(Event::PortReregister { port }),
                3 => world.port(PortState { sm_lid: before.sm_lid % 3 + 1, ..before }),
                4 => world.port(PortState { lid: before.lid % 3 + 7, ..before }),
                _ => world.port(PortState { sm_lid: 0, ..before }),
            }
            world.pass(pause * MILLISECOND);
        }
        let told = world.told(1);
        let changed = told == [Status(1, RESET), Status(2, RESET)];
        prop_assert!(changed || told.is_empty(), "{:?}", told);
        if !world.state.is_ready() {
            world.pass(60 * SECOND);
            prop_assert_eq!(world.sa.sets, sets, "nothing is asked of a port that is down");
            world.port(PortState { active: true, sm_lid: 1, ..world.state });
        }
        world.pass(6 * SECOND);
        prop_assert_eq!(world.sa.sets - sets, u64::from(changed));
        let active: &[_] = if changed { &[Status(2, 0)] } else { &[] };
        prop_assert_eq!(world.told(1), active);
    }
}

#[test]
fn a_port_that_is_down() {
    let mut world = World::new();
    world.state.active = false;
    two(&mut world);
    world.register(1, 3, IN, false);
    assert_eq!(world.told(1), [Registered(3, 0), Status(3, -libc::ENETDOWN)]);
    world.pass(100 * SECOND);
    assert_eq!(world.sa.sets, 0);
    world.port(PortState { active: true, ..world.state });
    world.pass(6 * SECOND);
    assert_eq!(world.told(1), [Status(2, 0)]);
    // An SM that is not there yet is the same.
    world.port(PortState { sm_lid: 0, ..world.state });
    assert_eq!(world.told(1), [Status(2, RESET)]);
}

#[test]
fn a_gap_outlives_a_silent_and_a_refusing_sa() {
    let mut world = World::new();
    two(&mut world);
    world.sa.subscribers.clear();
    world.sa.mood = Mood::Silent;
    world.event(Event::PortReregister { port: world.open[0] });
    world.pass(300 * SECOND);
    world.sa.mood = Mood::Refusing;
    world.pass(300 * SECOND);
    assert_eq!(world.told(1), [Status(1, RESET), Status(2, RESET)]);
    world.sa.mood = Mood::Well;
    world.pass(60 * SECOND);
    assert_eq!(world.told(1), [Status(2, 0)]);
}

#[test]
fn a_restart_of_the_sm_that_nobody_tells_is_found() {
    let mut world = World::new();
    two(&mut world);
    world.pass(SECOND);
    world.sa.subscribers.clear();
    world.pass(200 * SECOND);
    assert_eq!(world.told(1), [Status(1, RESET), Status(2, RESET), Status(2, 0)]);
    assert_eq!(world.subscribed(), [Subscription::trap(Trap(64))]);
}

/// The SM was restarted, and before the audit finds that, others come and go: the subscription that served is ended and
/// the SA does not know it. What was missed meanwhile is a gap.
#[test]
fn a_restart_that_is_found_at_the_end_of_a_subscription_is_a_gap() {
    let mut world = World::new();
    world.connect(2, 0);
    world.register(2, 1, Filter::EVERYTHING, false);
    two(&mut world);
    assert_eq!(world.subscribed().len(), 2);
    world.sa = Sa::default();
    world.happen(about(Trap(64), 3), 1);
    world.gone(2);
    world.pass(10 * SECOND);
    assert_eq!(world.told(1), [Status(1, RESET), Status(2, RESET), Status(2, 0)]);
    assert_eq!(world.subscribed(), [Subscription::trap(Trap(64))]);
}

#[test]
fn what_an_earlier_life_left_behind_goes() {
    let mut world = World::new();
    two(&mut world);
    let old = crate::transport::embedded::Subscriber {
        lid: world.state.lid,
        gid: world.state.gid,
        subscription: Subscription { resp_time: 5, ..Subscription::ALL_GENERIC },
    };
    world.pass(SECOND);
    world.sa.subscribers.push(old);
    world.happen(about(Trap(65), 3), 1);
    assert_eq!(world.responses, 1);
    world.pass(10 * SECOND);
    assert_eq!(world.subscribed(), [Subscription::trap(Trap(64))]);
    assert_eq!(world.told(1), []);
}

#[test]
fn a_late_answer_counts_unless_the_sm_changed() {
    for changes in [false, true] {
        let mut world = World::new();
        world.connect(1, 0);
        world.held = Some(Vec::new());
        world.register(1, 1, IN, true);
        world.pass(2 * SECOND);
        let late = world.held.take().unwrap_or_default().remove(0);
        world.sa.mood = Mood::Silent;
        if changes {
            world.port(PortState { sm_lid: 4, ..world.state });
        }
        world.told(1);
        world.event(late);
        assert_eq!(world.told(1).len(), usize::from(!changes));
    }
}

/// The SA refuses, and its answer is late; the next request it grants. If the refusal were believed, what the SA has would
/// double what comes later.
#[test]
fn a_late_refusal_does_not_count_while_a_later_request_is_out() {
    let mut world = World::new();
    world.connect(1, 0);
    world.held = Some(Vec::new());
    world.sa.mood = Mood::Refusing;
    world.register(1, 1, IN, true);
    world.sa.mood = Mood::Well;
    world.pass(3 * SECOND);
    world.hold(false);
    assert_eq!(world.told(1), [Registered(1, 0), Status(1, 0)]);
    world.register(1, 2, Filter::EVERYTHING, false);
    world.told(1);
    world.happen(about(Trap(64), 3), 1);
    assert_eq!(world.told(1), [Notice(1, 64, 3), Notice(2, 64, 3)]);
}

/// Who wanted everything was refused one half of it and is gone when the other half is refused too.
#[test]
fn what_is_refused_and_not_wanted_is_not_asked_for_again() {
    let mut world = World::new();
    world.sa.mood = Mood::Refusing;
    world.connect(1, 0);
    world.register(1, 1, Filter::EVERYTHING, false);
    assert_eq!(world.told(1), [Registered(1, 0), Status(1, -libc::EINVAL)]);
    world.sa.mood = Mood::Well;
    world.pass(100 * SECOND);
    assert_eq!((world.sa.sets, world.subscribed()), (2, vec![]));
}

/// What an earlier life left is wanted again and refused; it stands all the same.
#[test]
fn a_stray_that_is_wanted_and_refused_doubles_nothing() {
    let mut world = World::new();
    two(&mut world);
    let (lid, gid) = (world.state.lid, world.state.gid);
    let subscription = Subscription::ALL_GENERIC;
    world.sa.subscribers.push(crate::transport::embedded::Subscriber { lid, gid, subscription });
    world.pass(6 * SECOND);
    assert_eq!(world.engine.status().ports[0].subscriptions.len(), 2, "it is known, and not yet ended");
    world.sa.mood = Mood::Refusing;
    world.register(1, 3, Filter { is_generic: Some(true), ..Filter::EVERYTHING }, false);
    world.told(1);
    world.happen(about(Trap(64), 3), 1);
    assert_eq!(world.told(1), [Notice(1, 64, 3), Notice(2, 64, 3)]);
}

/// The SA granted the first request, its answer was lost, and it refuses the next: it has the subscription.
#[test]
fn what_was_granted_in_silence_and_then_refused_doubles_nothing() {
    let mut world = World::with(Settings { audit: 0, ..Settings::default() });
    world.connect(1, 0);
    world.held = Some(Vec::new());
    world.register(1, 1, IN, true);
    world.held = None;
    world.sa.mood = Mood::Silent;
    world.event(Event::PortReregister { port: world.open[0] });
    world.pass(20 * SECOND);
    world.sa.mood = Mood::Refusing;
    world.pass(40 * SECOND);
    world.sa.mood = Mood::Well;
    world.register(1, 2, Filter::EVERYTHING, false);
    world.told(1);
    world.happen(about(Trap(64), 3), 1);
    assert_eq!(world.told(1), [Notice(1, 64, 3), Notice(2, 64, 3)]);
}

#[test]
pub fn the_same_id_from_the_next_sm_is_news() {
    let mut world = World::with(Settings { spread: 0, settle: 0, ..Settings::default() });
    two(&mut world);
    world.happen(about(Trap(64), 3), 1);
    world.told(1);
    world.sa = Sa::default();
    world.port(PortState { sm_lid: 4, ..world.state });
    world.port(PortState { sm_lid: 1, ..world.state });
    world.pass(SECOND);
    world.told(1);
    let mut reports = world.sa.happen(&about(Trap(64), 3));
    let (lid, report) = reports.remove(0);
    assert_eq!(SaMessage::parse(report.as_bytes()).map(|message| message.tid()), Ok(0x02DA_B001));
    world.report(lid, report.as_bytes());
    assert_eq!(world.told(1), [Notice(2, 64, 3)]);
}

#[test]
fn a_device_that_goes_and_comes_back() {
    let mut world = World::new();
    two(&mut world);
    let port = world.open[0];
    world.fails = Some(-libc::ENODEV);
    world.event(Event::PortFailed { port, status: -libc::ENODEV, reason: "gone".into() });
    assert_eq!(world.told(1), [Status(1, RESET), Status(2, RESET)]);
    world.pass(20 * SECOND);
    assert_eq!(world.told(1), []);
    world.fails = None;
    world.pass(60 * SECOND);
    assert_eq!(world.told(1), [Status(2, 0)]);
}

#[test]
fn who_comes_late_to_a_port_that_fails_is_told_soon() {
    let mut world = World::new();
    world.connect(1, 1001);
    world.fails = Some(-libc::EBUSY);
    world.register(1, 1, Filter::trap(Trap(64)), true);
    world.pass(300 * SECOND);
    assert_eq!(world.told(1), [Registered(1, 0), Status(1, -libc::EBUSY)]);
    let tried = world.open.len();
    for id in 2..100 {
        world.register(1, id, Filter::trap(Trap(65)), false);
    }
    world.pass(SECOND);
    let told = world.told(1);
    for id in 2..100 {
        assert!(told.contains(&Status(id, -libc::EBUSY)), "{id}: {told:?}");
    }
    // Not once for each.
    assert!(world.open.len() <= tried + 2, "{} times", world.open.len() - tried);
    world.fails = None;
    world.register(1, 100, Filter::trap(Trap(65)), false);
    world.pass(SECOND);
    assert_eq!(world.told(1), [Registered(100, 0), Status(1, 0), Status(100, 0)]);
}

#[test]
fn a_clean_end_leaves_nothing_at_the_sa() {
    let mut world = World::new();
    two(&mut world);
    world.register(1, 3, Filter::EVERYTHING, false);
    let actions = world.engine.end(world.now);
    world.act(actions);
    world.event(Event::Timer);
    world.pass(SECOND);
    assert_eq!(world.subscribed(), []);
    assert!(world.engine.is_idle());
}

#[test]
fn what_passes_ends_no_registration_that_was_promised_a_0() {
    // The daemon was restarted, so that for it all registrations are new, and the SA was away as well.
    type Cause = fn(&mut World);
    let causes: [(i32, Cause, Cause); 4] = [
        (libc::ETIMEDOUT, |world| world.sa.mood = Mood::Silent, |world| world.sa.mood = Mood::Well),
        (libc::EBUSY, |world| world.sa.mood = Mood::Busy, |world| world.sa.mood = Mood::Well),
        (libc::EBUSY, |world| world.fails = Some(-libc::EBUSY), |world| world.fails = None),
        (
            libc::ENETDOWN,
            |world| world.state.active = false,
            |world| world.port(PortState { active: true, ..world.state }),
        ),
    ];
    for (errno, begins, ends) in causes {
        let mut world = World::new();
        begins(&mut world);
        world.connect(1, 0);
        world.register(1, 1, IN, true);
        world.register(1, 2, IN, false);
        world.pass(1000 * SECOND);
        let statuses: Vec<_> = world.told(1).into_iter().filter(|one| matches!(one, Status(..))).collect();
        assert_eq!(statuses, [Status(1, -errno), Status(2, -errno)], "once");
        ends(&mut world);
        world.pass(100 * SECOND);
        assert_eq!(world.told(1), [Status(1, 0)], "after {errno}");
        world.happen(about(Trap(64), 3), 1);
        assert_eq!(world.told(1), [Notice(1, 64, 3)]);
    }
}

#[test]
fn a_port_fails_with_one_of_few_statuses() {
    for (errno, told) in [
        (libc::EACCES, libc::EACCES),
        (libc::EBUSY, libc::EBUSY),
        (libc::ENODEV, libc::ENODEV),
        (libc::EOPNOTSUPP, libc::EOPNOTSUPP),
        (libc::ENXIO, libc::ENODEV),
        (libc::ENOTTY, libc::ENODEV),
        (libc::ENOENT, libc::ENODEV),
        (libc::EPERM, libc::EACCES),
        (libc::EIO, libc::ENETDOWN),
        (libc::EMFILE, libc::ENETDOWN),
    ] {
        let mut world = World::new();
        world.fails = Some(-errno);
        world.connect(1, 0);
        world.register(1, 1, IN, false);
        assert_eq!(world.told(1), [Registered(1, 0), Status(1, -told)]);
    }
}
