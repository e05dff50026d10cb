//! Ports that have other names, that fail, and that get another SM after a long silence.

use ibv_sa_wire::{Filter, Guid};

use super::world::{Told::*, *};
use crate::engine::*;
use crate::transport::embedded::Mood;

const IN: Filter = Filter { is_generic: Some(true), trap: Some(64), ..Filter::EVERYTHING };

/// A device came back under another name. Who asks for it by the new one means the same port, whose reports the kernel
/// gives once.
#[test]
fn a_port_is_known_by_its_guid() {
    let mut world = World::new();
    let port = |device: &str, guid| {
        let port = Ok(PortName { device: device.into(), number: 1, guid: Guid::from(guid) });
        move |id| Request::Register { id, port: port.clone(), filter: IN, auto_reregister: true }
    };
    world.connect(1, 0);
    world.request(1, port("mlx5_0", 0x1235)(1));
    world.request(1, port("mlx5_1", 0x1235)(2));
    assert_eq!(world.open.len(), 1);
    world.request(1, port("mlx5_0", 0x9999)(3));
    assert_eq!(world.open.len(), 2, "another device has got its name");
}

#[test]
fn a_port_that_failed_goes_with_its_last_program() {
    let mut world = World::new();
    world.connect(1, 0);
    world.register(1, 1, IN, true);
    world.pass(10 * SECOND);
    world.fails = Some(-libc::ENODEV);
    world.event(Event::PortFailed { port: world.open[0], status: -libc::EIO, reason: "gone".into() });
    world.pass(100 * SECOND);
    world.gone(1);
    world.pass(10 * SECOND);
    assert!(world.engine.is_idle());
}

/// An SM that was silent for long is asked seldom; its successor need not wait for that.
#[test]
fn another_sm_is_asked_soon_however_long_the_last_was_silent() {
    for seed in 0..20 {
        let mut world = World::with(Settings { seed, ..Settings::default() });
        world.connect(1, 0);
        world.register(1, 1, IN, true);
        world.sa.mood = Mood::Silent;
        world.event(Event::PortReregister { port: world.open[0] });
        world.pass(200 * SECOND);
        world.sa.mood = Mood::Well;
        world.told(1);
        world.port(PortState { sm_lid: 4, ..world.state });
        world.pass(6 * SECOND);
        assert_eq!(world.told(1), [Status(1, 0)], "seed {seed}");
    }
}

#[test]
fn several_signs_of_one_loss_are_counted_once() {
    let mut world = World::new();
    world.connect(1, 0);
    world.register(1, 1, IN, true);
    world.pass(10 * SECOND);
    let port = world.open[0];
    world.port(PortState { sm_lid: 4, ..world.state });
    world.event(Event::PortReregister { port });
    world.event(Event::PortFailed { port, status: -libc::EIO, reason: "gone".into() });
    assert_eq!(world.engine.status().counters.leases_lost, 1);
}
