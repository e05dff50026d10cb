//! What one program may cost all the others: steps, not seconds.

use ibv_sa_wire::mad::GSI_QPN;
use ibv_sa_wire::{Filter, Trap};

use super::world::{Told::*, *};
use crate::engine::{Action, Address, Event, Settings, work};
use crate::transport::embedded::Mood;

/// All that one user may have.
const MANY: u64 = 16_000;

/// A trap number of its own for each.
fn filter(id: u64) -> Filter {
    Filter { is_generic: Some(id.is_multiple_of(2)), ..Filter::trap(Trap(300 + id as u16)) }
}

fn costs_little(world: &mut World) {
    world.connect(1, 1000);
    work::taken();
    for id in 1..=MANY {
        world.register(1, id, filter(id), id % 3 == 0);
    }
    let registered = work::taken();
    world.gone(1);
    let gone = work::taken();
    // A few plans of 64 numbers of each kind, and one look at each registration.
    assert!(registered < 10 * MANY as usize, "{registered} steps for {MANY} registrations");
    assert!(gone < 10 * MANY as usize, "{gone} steps for their end");
    world.pass(1000 * SECOND);
    assert!(world.engine.is_idle());
}

#[test]
fn as_many_traps_as_there_may_be_and_the_exit_of_their_program() {
    costs_little(&mut World::new());
}

#[test]
fn the_same_where_all_of_them_wait() {
    let mut world = World::new();
    world.sa.mood = Mood::Silent;
    costs_little(&mut world);
    let mut world = World::new();
    world.fails = Some(-libc::EBUSY);
    costs_little(&mut world);
    let mut world = World::new();
    world.state.active = false;
    costs_little(&mut world);
}

#[test]
fn what_is_over_the_limit_is_known_before_anything_is_looked_for() {
    let mut world = World::with(Settings { registrations_per_user: 2, ..Settings::default() });
    world.connect(1, 1000);
    let refusal = |world: &World, name| world.engine.refusal(crate::engine::ClientId(1), name);
    assert_eq!(refusal(&world, 1), None);
    world.register(1, 1, filter(1), false);
    assert_eq!([refusal(&world, 1), refusal(&world, 2)], [Some(-libc::EEXIST), None]);
    world.register(1, 2, filter(2), false);
    assert_eq!(refusal(&world, 3), Some(-libc::EBUSY));
    world.register(1, 3, filter(3), false);
    assert_eq!(world.told(1).last(), Some(&Registered(3, -libc::EBUSY)));
}

#[test]
fn who_has_something_to_read_is_woken_once() {
    let mut world = World::new();
    world.connect(1, 1000);
    (1..=100).for_each(|id| world.register(1, id, Filter::trap(Trap(64)), false));
    let wakes = |world: &mut World, last| {
        let reports = world.sa.happen(&about(Trap(64), last));
        let from = Address { lid: world.state.sm_lid, qpn: GSI_QPN, sl: 0, pkey_index: 0 };
        let mad = reports.first().expect("one").1.as_bytes().to_vec();
        let actions = world.engine.handle(world.now, Event::Mad { port: world.open[0], from, mad });
        actions.iter().filter(|action| matches!(action, Action::Wake { .. })).count()
    };
    // The socket of one that does not read is full: there is no use in trying it again with each notice.
    assert_eq!((wakes(&mut world, 1), wakes(&mut world, 2)), (1, 0));
    world.read(1);
    assert_eq!(world.told(1).iter().filter(|told| matches!(told, Notice(..))).count(), 200);
    assert_eq!(wakes(&mut world, 3), 1);
}
