//! A way to the SA that loses a third of everything: what programs get is what OpenSM reported, less what it gave up.

use std::time::{Duration, Instant};

use ibv_sa_daemon::engine::Settings;
use ibv_sa_daemon::transport::ibsim::DEVICE;
use ibv_sa_wire::Filter;

use crate::common::{Client, LIMIT};
use crate::fabric::Fabric;
use crate::lossy::Wire;
use crate::node::trap;
use crate::node::{Host, SECOND, settings};
use crate::oracle::{Reported, Tally, difference, heard, tally};

/// OpenSM ignores the 11th of equal traps of one switch unless five seconds lie between two.
const FORGOTTEN: Duration = Duration::from_millis(5500);
/// Equal notices are different ones from then on, whatever the subscriptions.
const EQUAL: Duration = Duration::from_millis(1100);

/// A program, what it wants, and the moment from which it has to come.
struct Program<'a> {
    client: Client,
    traps: &'static [u16],
    reported: Reported<'a>,
    lost_before: Tally,
}

impl<'a> Program<'a> {
    fn new(
        host: &Host,
        fabric: &'a Fabric,
        wire: &Wire,
        filters: &[Filter],
        traps: &'static [u16],
    ) -> Program<'a> {
        let client = Client::new(&host.socket);
        filters.iter().zip(1..).for_each(|(filter, id)| client.registered(id, DEVICE, *filter));
        Program { client, traps, reported: Reported::from_now(fabric, "main"), lost_before: wire.lost() }
    }

    /// All that came since the last look is all that was reported, but for what nobody could have got.
    fn check(&mut self, wire: &Wire) {
        let mut due = self.reported.of(self.traps);
        for (name, count) in wire.lost() {
            let count = count - self.lost_before.get(&name).unwrap_or(&0);
            if let Some(due) = due.get_mut(&name) {
                *due -= count;
            }
        }
        due.retain(|_, count| *count > 0);
        let got = heard(&self.client, due.values().sum());
        let got = tally(got.into_values().flatten());
        let wrong = difference(&got, &due);
        let history: Vec<_> = wrong.keys().map(|name| wire.history(name)).collect();
        let (traps, seed) = (self.traps, wire.seed);
        assert!(wrong.is_empty(), "{traps:?}: came and due: {wrong:?}; {history:?}; WIRE_SEED={seed}");
        self.reported.again();
        self.lost_before = wire.lost();
    }
}

/// Nothing happens any more: what is under way has come or is given up.
fn calm(wire: &Wire) {
    let end = Instant::now() + LIMIT;
    while !wire.is_idle() {
        assert!(Instant::now() < end, "MADs are under way for ever; WIRE_SEED={}", wire.seed);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// And nothing is left of what makes the daemon take two equal notices of a switch for one: it has seen the SA's table.
fn sure(wire: &Wire) {
    calm(wire);
    let (from, end) = (Instant::now(), Instant::now() + LIMIT);
    while wire.counts().asked.unwrap_or(from).max(from).elapsed() < EQUAL {
        assert!(Instant::now() < end, "the SA's table never comes; WIRE_SEED={}", wire.seed);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// HCAs of these two leaves go and come, four times each.
fn hcas(reported: &Reported<'_>, leaves: [usize; 2]) {
    for hca in 0..4 {
        for leaf in leaves {
            let node = format!("H{:03}", leaf * PER_LEAF + hca);
            reported.flap(&format!("Unlink \"{node}\""), 65, 1);
            reported.flap(&format!("ReLink \"{node}\""), 64, 1);
        }
    }
}

/// These leaves go, with all that is behind them, and come.
fn leaves(reported: &Reported<'_>, leaves: [usize; 2]) {
    for leaf in leaves {
        reported.flap(&format!("Unlink \"L{leaf}\""), 65, PER_LEAF);
        reported.flap(&format!("ReLink \"L{leaf}\""), 64, PER_LEAF);
    }
}

const PER_LEAF: usize = 6;

#[test]
fn a_lossy_fabric_takes_only_what_the_sm_gives_up() {
    let fabric = Fabric::tree(5 * PER_LEAF, PER_LEAF, &[]);
    let wire = Wire::new(30);
    // An answer comes at once or never here, and no registration may fail by chance.
    let settings = Settings {
        answer: SECOND / 5,
        pause: SECOND / 20,
        longest_pause: SECOND / 5,
        attempts: 100,
        ..settings()
    };
    let host = Host::over(&fabric, "H001", settings, wire.transport(&fabric.base, "H001"));
    let rounds = if std::env::var_os("SOAK").is_some() { 10 } else { 1 };
    let program = |filters: &[Filter], traps| Program::new(&host, &fabric, &wire, filters, traps);
    let log = Reported::from_now(&fabric, "main");
    for round in 0..rounds {
        let mut steady = [
            program(&[trap(64)], &[64]),
            program(&[trap(65)], &[65]),
            program(&[trap(64), trap(65)], &[64, 65]),
        ];
        fabric.wait_for_subscriptions(&["64", "65"]);
        hcas(&log, [1, 2]);
        std::thread::sleep(EQUAL);
        // Two subscriptions in the place of one, and back, while links change.
        let passing = program(&[Filter::EVERYTHING], &[]);
        leaves(&log, [1, 2]);
        std::thread::sleep(EQUAL);
        drop(passing.client);
        hcas(&log, [3, 4]);
        fabric.wait_for_subscriptions(&["64", "65"]);
        calm(&wire);
        steady.iter_mut().for_each(|one| one.check(&wire));

        let all = program(&[Filter::EVERYTHING], &[64, 65, 128]);
        fabric.wait_for_subscriptions(&["0xFFFF", "65535"]);
        sure(&wire);
        let mut all = all;
        all.reported.again();
        leaves(&log, [3, 4]);
        calm(&wire);
        all.check(&wire);
        steady.iter_mut().for_each(|one| one.check(&wire));
        drop((all, steady));
        fabric.wait_for_subscriptions(&[]);
        if round + 1 < rounds {
            std::thread::sleep(FORGOTTEN);
        }
    }
    let counts = wire.counts();
    eprintln!("{counts:?}, lost for good: {:?}", wire.lost());
    assert!(counts.doubled > counts.made / 10 && counts.requests > 0, "{counts:?}");
    assert!(!wire.lost().is_empty(), "{counts:?}");
}
