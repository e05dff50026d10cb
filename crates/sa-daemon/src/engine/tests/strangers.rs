//! Any bytes as MADs, from anybody, and an SA whose answers arrive spoilt. Whatever they did, once it is quiet a
//! program that registers gets what happens once, and the SA has what is wanted and no more.

use ibv_sa_samples::{Random, captures, mutate, scaled};
use ibv_sa_wire::mad::Received;
use ibv_sa_wire::{Filter, Subject, Trap};

use super::world::*;
use crate::engine::*;

const BATCHES: u64 = 300;
const STORM: usize = 300;
const IN: Filter = Filter { is_generic: Some(true), trap: Some(64), ..Filter::EVERYTHING };

/// What the engine has to count, one of them for each MAD.
#[derive(Default)]
struct Expected {
    malformed: u64,
    reports: u64,
}

impl Expected {
    fn count(&mut self, mad: &[u8]) {
        match Received::decode(mad) {
            Err(_) => self.malformed += 1,
            Ok(Received::Report(_)) => self.reports += 1,
            Ok(_) => {}
        }
    }
}

fn storm(world: &mut World, random: &mut Random, valid: &[Vec<u8>], expected: &mut Expected) {
    for _ in 0..STORM {
        // An SA that seems to refuse everybody has a port that nobody needs.
        let Some(port) = world.open.first().copied() else { return };
        let valid_one = random.pick(valid).clone();
        let mad = mutate::bytes(random, &valid_one, valid);
        let (lid, qpn) = (*random.pick(&[0, 1, 1, 2, 7, 0xFFFF]), random.number() as u32);
        expected.count(&mad);
        world.event(Event::Mad { port, from: Address { lid, qpn, sl: 0, pkey_index: 0 }, mad });
        // What the SA has to say to the engine's requests comes later, and spoilt.
        for event in world.held.as_mut().map(std::mem::take).unwrap_or_default() {
            let Event::Mad { port, from, mad } = event else { unreachable!("an answer is a MAD") };
            if !world.open.contains(&port) {
                return;
            }
            let mad = if random.one_in(3) { mad } else { mutate::bytes(random, &mad, valid) };
            expected.count(&mad);
            world.event(Event::Mad { port, from, mad });
        }
        if random.one_in(20) {
            let time = random.below(5000) as u64;
            world.pass(time * MILLISECOND);
        }
    }
}

#[test]
fn nothing_that_arrives_keeps_a_program_from_its_notice() {
    let valid: Vec<Vec<u8>> = captures().into_values().map(Vec::from).collect();
    let (mut world, mut expected) = (World::new(), Expected::default());
    let (mut random, mut own) = (Random::new(64), 0);
    world.connect(1, 0);
    world.connect(2, 0);
    for batch in 0..scaled(BATCHES) {
        // Someone wants everything, someone else one trap: the SA is asked, and asked for its table.
        let (all, one, last) = (3 * batch + 1, 3 * batch + 2, 3 * batch + 3);
        world.held = (batch % 2 == 0).then(Vec::new);
        world.register(1, all, Filter::EVERYTHING, true);
        world.register(1, one, Filter::trap(Trap(65)), false);
        storm(&mut world, &mut random, &valid, &mut expected);
        world.held = None;
        world.unregister(1, all);
        world.unregister(1, one);
        world.told(1);
        world.pass(500 * SECOND);

        let about_this = gid((batch % 200) as u8 + 20);
        world.register(2, last, IN.about(Subject::Gid(about_this)), true);
        world.pass(500 * SECOND);
        let told = world.told(2);
        assert_eq!(told.first(), Some(&Told::Registered(last, 0)), "batch {batch}");
        assert_eq!(told.last(), Some(&Told::Status(last, 0)), "batch {batch}: {told:?}");
        assert_eq!(world.subscribed(), IN.subscriptions().into_iter().collect::<Vec<_>>(), "batch {batch}");
        world.happen(about(Trap(64), about_this.0[15]), 2);
        own += 2;
        let notice = Told::Notice(last, 64, about_this.0[15]);
        assert_eq!(world.told(2), [notice], "batch {batch}: once");
        world.unregister(2, last);
        world.told(2);

        let counters = world.engine.status().counters;
        assert_eq!(counters.mads_malformed, expected.malformed, "batch {batch}");
        assert_eq!(counters.reports, expected.reports + own, "batch {batch}");
        assert_eq!(world.responses as u64, counters.reports, "each report is answered, also a forged one");
    }
    assert!(expected.malformed > 1000 && expected.reports > 1000, "the storm has some of each");
}

/// A line of a kind a second, however many come, and the next says how many were left out.
#[test]
fn what_is_malformed_is_counted_and_not_logged_each_time() {
    let mut world = World::new();
    world.connect(1, 0);
    world.register(1, 1, IN, false);
    let port = world.open[0];
    let from = Address { lid: 1, qpn: 1, sl: 0, pkey_index: 0 };
    let mut lines = Vec::new();
    for n in 0..10_000 {
        world.logs.clear();
        world.event(Event::Mad { port, from, mad: vec![n as u8; n % 56] });
        lines.append(&mut world.logs);
        world.pass(MILLISECOND);
    }
    assert_eq!(world.engine.status().counters.mads_malformed, 10_000);
    assert_eq!(lines.len(), 10, "{lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("ibsim0/1: from LID 1: MAD of ")), "{lines:?}");
    world.happen(about(Trap(64), 9), 1);
    assert_eq!(world.told(1).last(), Some(&Told::Notice(1, 64, 9)));
}
