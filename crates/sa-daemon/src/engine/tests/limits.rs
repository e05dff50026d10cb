//! What each user may have, where the policy gives limits of its own.

use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::{Filter, Trap};

use super::world::{Told::*, *};
use crate::engine::*;

const IN: Filter = Filter { is_generic: Some(true), trap: Some(64), ..Filter::EVERYTHING };

/// The same limits for everybody but user 0, and nothing for the user that is out.
struct Few {
    limits: Limits,
    out: Option<u32>,
}

impl Policy for Few {
    fn may_connect(&self, peer: &Peer) -> bool {
        self.out != Some(peer.uid)
    }

    fn may_register(&self, peer: &Peer, _port: &PortName, _filter: &Filter) -> bool {
        self.may_connect(peer)
    }

    fn may_receive(&self, peer: &Peer, port: &PortName, _notice: &Notice) -> bool {
        assert_eq!(*port, super::world::port());
        self.may_connect(peer)
    }

    fn limits(&self, peer: &Peer, defaults: Limits) -> Limits {
        if peer.uid == 0 { defaults } else { self.limits }
    }
}

fn few() -> Few {
    Few { limits: Limits { clients: 2, registrations: 2, queued: 3, queued_per_client: 2 }, out: None }
}

fn world(policy: Few) -> World {
    let mut world = World::new();
    world.engine.set_policy(Box::new(policy));
    world
}

#[test]
fn connections_and_registrations_are_counted_for_each_user() {
    let mut world = world(few());
    for client in 1..=3 {
        world.connect(client, 1000);
        world.connect(10 + client, 0);
    }
    assert_eq!(world.closed, [(3, -libc::EBUSY, "too many connections of this user")]);
    world.connect(4, 1001);
    assert_eq!(world.engine.limits(ClientId(1)), Some(few().limits));
    assert_eq!(world.engine.limits(ClientId(11)), Some(Settings::default().limits()));
    assert_eq!(world.engine.limits(ClientId(3)), None);
    // Both connections of the user together.
    world.register(1, 1, IN, false);
    world.register(2, 1, IN, false);
    world.register(1, 2, IN, false);
    assert_eq!(world.told(1), [Registered(1, 0), Status(1, 0), Registered(2, -libc::EBUSY)]);
    world.register(4, 1, IN, false);
    assert_eq!(world.told(4), [Registered(1, 0), Status(1, 0)], "another user");
    for id in 1..=3 {
        world.register(11, id, IN, false);
    }
    let told = world.told(11);
    assert!((1..=3).all(|id| told.contains(&Registered(id, 0))), "{told:?}");
    // What was given back can be had again.
    world.unregister(2, 1);
    world.register(1, 2, IN, false);
    assert_eq!(world.told(1), [Registered(2, 0), Status(2, 0)]);
}

#[test]
fn notices_wait_up_to_the_limits_of_connection_and_user() {
    let mut world = world(few());
    for client in [1, 2] {
        world.connect(client, 1000);
        world.register(client, 1, IN, false);
        world.told(client);
    }
    world.connect(3, 0);
    world.register(3, 1, IN, false);
    world.told(3);
    world.deaf = vec![1, 2, 3];
    for last in 1..=4 {
        world.happen(about(Trap::GID_IN_SERVICE, last), 1);
    }
    for client in [1, 2, 3] {
        world.read(client);
    }
    assert_eq!(world.told(1), [Notice(1, 64, 1), Notice(1, 64, 2), Lost(1, 2)], "two for a connection");
    assert_eq!(world.told(2), [Notice(1, 64, 1), Lost(1, 3)], "three for the user");
    assert_eq!(world.told(3).len(), 4, "other limits");
}

#[test]
fn another_policy_counts_for_what_comes_and_for_notices_at_once() {
    let mut world = World::new();
    for client in 1..=3 {
        world.connect(client, 1000);
        world.register(client, 1, IN, false);
        world.told(client);
    }
    world.engine.set_policy(Box::new(few()));
    // More than two are there: they stay, but no more come.
    world.connect(4, 1000);
    assert_eq!(world.closed, [(4, -libc::EBUSY, "too many connections of this user")]);
    world.register(1, 2, IN, false);
    assert_eq!(world.told(1), [Registered(2, -libc::EBUSY)]);
    world.happen(about(Trap::GID_IN_SERVICE, 1), 1);
    assert_eq!(world.told(3), [Notice(1, 64, 1)]);
    world.engine.set_policy(Box::new(Few { out: Some(1000), ..few() }));
    world.happen(about(Trap::GID_IN_SERVICE, 2), 1);
    for client in [1, 2] {
        world.unregister(client, 1);
    }
    world.register(3, 2, IN, false);
    assert_eq!(world.told(3), [Registered(2, -libc::EACCES)], "and no notice");
    world.connect(5, 1001);
    assert_eq!(world.closed.len(), 1, "another user may");
    // And back.
    world.engine.set_policy(Box::new(DefaultPolicy::default()));
    world.happen(about(Trap::GID_IN_SERVICE, 3), 1);
    assert_eq!(world.told(3), [Notice(1, 64, 3)]);
}
