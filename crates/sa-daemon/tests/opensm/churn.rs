//! Links change while programs come and go: who stays gets all that OpenSM reports, once, whatever the others do to the
//! subscriptions meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ibv_sa_daemon::engine::Settings;
use ibv_sa_daemon::transport::ibsim::DEVICE;
use ibv_sa_wire::{Filter, Subject};

use crate::common::{Client, Heard, LIMIT};
use crate::fabric::Fabric;
use crate::node::trap;
use crate::node::{Host, SECOND, settings};
use crate::oracle::{Reported, difference, heard, tally};

/// OpenSM ignores the 11th of equal traps of one switch unless five seconds lie between two.
const FORGOTTEN: Duration = Duration::from_millis(5500);
/// Links change as long as programs do.
const PACE: Duration = Duration::from_millis(20);
/// HCAs behind a leaf.
const PER_LEAF: usize = 4;
/// Leaves with HCAs that go and come.
const LEAVES: usize = 10;

/// Registers and frees until it is told to stop; so many changes in all.
fn churn(host: &Host, seed: u64, stop: &AtomicBool, least: usize) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let gid = "fe80::10:17".parse().expect("a GID");
    let generic = Filter { is_generic: Some(true), ..Filter::EVERYTHING };
    let filters = [
        Filter::EVERYTHING,
        generic,
        trap(64),
        trap(65),
        trap(65).about(Subject::Gid(gid)),
        trap(128),
        generic.about(Subject::Gid(gid)),
    ];
    let client = Client::new(&host.socket);
    let mut standing = Vec::new();
    let mut changes = 0;
    while changes < least || !stop.load(Ordering::Relaxed) {
        changes += 1;
        let id = changes as u64;
        let ends = standing.len() == 3 || !standing.is_empty() && random.bool();
        let last = if ends {
            let id = standing.swap_remove(random.usize(..standing.len()));
            client.unregister(id);
            Heard::Unregistered(id)
        } else {
            client.register(id, DEVICE, filters[random.usize(..filters.len())], 0);
            standing.push(id);
            // Some are freed before the SA has answered.
            if random.bool() { Heard::Registered(id, 0) } else { Heard::Status(id, 0) }
        };
        loop {
            match client.hear(LIMIT) {
                heard if heard == last => break,
                Heard::Notice(..) | Heard::Registered(_, 0) | Heard::Status(_, 0) => {}
                other => panic!("{other:?} instead of {last:?}; seed {seed}"),
            }
        }
        std::thread::sleep(Duration::from_millis(random.u64(..40)));
    }
    changes
}

#[test]
fn who_stays_misses_nothing_while_others_come_and_go() {
    let (rounds, changes) = if std::env::var_os("SOAK").is_some() { (20, 2000) } else { (1, 100) };
    let seed = std::env::var("CHURN_SEED")
        .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    eprintln!("CHURN_SEED={seed}");
    let fabric = Fabric::tree(PER_LEAF * (LEAVES + 1), PER_LEAF, &[]);
    // Nobody else asks this SA: what goes may go at once.
    let host = Host::at(&fabric, "H001", Settings { linger: SECOND / 20, per_second: 1000, ..settings() });
    let client = Client::new(&host.socket);
    client.registered(64, DEVICE, trap(64));
    client.registered(65, DEVICE, trap(65));
    let reported = Reported::from_now(&fabric, "main");
    let stop = AtomicBool::new(false);
    let done: usize = std::thread::scope(|scope| {
        let (host, stop) = (&host, &stop);
        let churns: Vec<_> = (0..2)
            .map(|n| scope.spawn(move || churn(host, seed.wrapping_add(n), stop, changes / 2)))
            .collect();
        for round in 0..rounds {
            for n in 0..4 {
                for leaf in 1..=LEAVES {
                    // The same one again, or the next: what one did must not hide the other.
                    let node = format!("H{:03}", leaf * PER_LEAF + n / 2);
                    reported.flap(&format!("Unlink \"{node}\""), 65, 1);
                    reported.flap(&format!("ReLink \"{node}\""), 64, 1);
                    std::thread::sleep(PACE);
                }
            }
            if round + 1 < rounds {
                std::thread::sleep(FORGOTTEN);
            }
        }
        stop.store(true, Ordering::Relaxed);
        churns.into_iter().map(|one| one.join().expect("it hears what it should")).sum()
    });
    let due = reported.of(&[64, 65]);
    let came = heard(&client, due.values().sum());
    for (id, names) in &came {
        assert!(names.iter().all(|name| name.starts_with(&format!("{id} "))), "{names:?}");
    }
    let wrong = difference(&tally(came.into_values().flatten()), &due);
    assert!(wrong.is_empty(), "came and due: {wrong:?}; CHURN_SEED={seed}");
    assert!(done >= changes);
    eprintln!("{done} changes, {} notices", due.values().sum::<usize>());
    // What the others wanted is gone, and nothing else.
    fabric.wait_for_subscriptions(&["64", "65"]);
}
