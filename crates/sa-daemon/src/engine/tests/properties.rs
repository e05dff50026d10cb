//! Any order of events, losses and times. After it has become quiet, the SA has exactly what somebody wants, and
//! everybody was told exactly what happened.

use std::collections::{BTreeMap, BTreeSet};

use ibv_sa_wire::{Filter, Trap};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::world::*;
use crate::engine::plan::plan;
use crate::engine::*;
use crate::transport::embedded::{Mood, Sa};

#[derive(Debug, Clone)]
enum Step {
    Connect(u64),
    Gone(u64),
    Register(u64, u64, u16, bool),
    Unregister(u64, u64),
    Pass(u64),
    Happen(u16, u8, usize),
    Port(bool, u16, u16),
    Reregister,
    /// A new SM at the same LID: nobody says so.
    Restart,
    /// Another SM takes over, or hands back; each keeps its list of subscriptions meanwhile.
    HandOver,
    /// Answers of the SA are on their way from now on, or arrive.
    Hold(bool),
    Mood(Mood),
    Lossy(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let trap = || prop_oneof![3 => Just(64u16), 3 => Just(65), 2 => Just(0xFFFF), 1 => Just(128)];
    let step = prop_oneof![
        2 => (0u64..4).prop_map(Step::Connect),
        1 => (0u64..4).prop_map(Step::Gone),
        6 => (0u64..4, 1u64..5, trap(), any::<bool>()).prop_map(|(a, b, c, d)| Step::Register(a, b, c, d)),
        3 => (0u64..4, 1u64..5).prop_map(|(client, id)| Step::Unregister(client, id)),
        4 => (1u64..5000).prop_map(Step::Pass),
        8 => (64u16..67, 0u8..9, 1usize..4).prop_map(|(trap, gid, copies)| Step::Happen(trap, gid, copies)),
        2 => (prop::bool::weighted(0.7), 7u16..9, 1u16..3).prop_map(|(up, lid, sm)| Step::Port(up, lid, sm)),
        1 => Just(Step::Reregister),
        1 => Just(Step::Restart),
        2 => Just(Step::HandOver),
        1 => any::<bool>().prop_map(Step::Hold),
        1 => prop::sample::select(vec![Mood::Well, Mood::Busy, Mood::Full, Mood::Silent, Mood::Refusing])
            .prop_map(Step::Mood),
        1 => any::<bool>().prop_map(Step::Lossy),
    ];
    prop::collection::vec(step, 1..80)
}

/// What the programs should believe.
#[derive(Default)]
struct Model {
    connected: BTreeSet<u64>,
    /// Registrations that have not ended, with trap, and whether the last status was 0.
    live: BTreeMap<(u64, u64), Belief>,
}

struct Belief {
    trap: u16,
    auto_reregister: bool,
    status: Option<i32>,
    notices: usize,
    /// It missed something while it believed to be active, and has not heard so.
    owed: bool,
}

impl Belief {
    fn is_lost(&self) -> bool {
        let passes = [libc::ENETRESET, libc::ETIMEDOUT, libc::EBUSY, libc::ENETDOWN];
        let stays = self.auto_reregister && passes.iter().any(|errno| self.status == Some(-errno));
        self.status.is_some_and(|status| status != 0) && !stays
    }
}

impl Model {
    /// Takes in what was told and checks that it may be told.
    fn listen(&mut self, world: &mut World) {
        for client in 0..4 {
            for told in world.told(client) {
                match told {
                    Told::Registered(id, 0) => assert!(self.live.contains_key(&(client, id))),
                    Told::Registered(..) | Told::Unregistered(_) => {}
                    Told::Status(id, status) => {
                        let belief = self.live.get_mut(&(client, id)).expect("a status of something live");
                        assert_ne!(belief.status, Some(status), "each status differs from the one before");
                        assert!(!belief.is_lost(), "nothing follows what is lost");
                        belief.status = Some(status);
                        belief.owed &= status == 0;
                    }
                    Told::Notice(id, trap, _) => {
                        let belief = self.live.get_mut(&(client, id)).expect("a notice for something live");
                        assert_eq!(belief.status, Some(0), "notices come while it is active only");
                        assert!(belief.trap == trap || belief.trap == 0xFFFF);
                        belief.notices += 1;
                    }
                    Told::Lost(..) => unreachable!("the queues are large"),
                }
            }
        }
    }
}

fn filter(trap: u16) -> Filter {
    Filter::trap(Trap(trap))
}

fn run(steps: Vec<Step>, seed: u64) {
    let mut world = World::with(Settings { seed, ..Settings::default() });
    let mut model = Model::default();
    let mut other = Sa::default();
    let mut answers_were_lost = false;
    let lossy = std::rc::Rc::new(std::cell::Cell::new(false));
    let (flag, mut turn) = (lossy.clone(), seed);
    world.lose = Box::new(move || {
        turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        flag.get() && turn >> 62 == 0
    });
    for step in steps {
        match step {
            Step::Connect(client) => {
                if model.connected.insert(client) {
                    world.connect(client, 0);
                }
            }
            Step::Gone(client) => {
                model.connected.remove(&client);
                model.live.retain(|(owner, _), _| *owner != client);
                world.gone(client);
                world.told(client);
            }
            Step::Register(client, id, trap, auto_reregister) => {
                if model.connected.contains(&client) && !model.live.contains_key(&(client, id)) {
                    let belief = Belief { trap, auto_reregister, status: None, notices: 0, owed: false };
                    model.live.insert((client, id), belief);
                    world.register(client, id, filter(trap), auto_reregister);
                }
            }
            Step::Unregister(client, id) => {
                if model.live.remove(&(client, id)).is_some() {
                    world.unregister(client, id);
                }
            }
            Step::Pass(time) => world.pass(time * MILLISECOND),
            Step::Happen(trap, gid, copies) => {
                let before: Vec<(usize, bool)> =
                    model.live.values().map(|one| (one.notices, one.status == Some(0))).collect();
                let reached = world.state.is_ready()
                    && !world.open.is_empty()
                    && world.sa.subscribers.iter().any(|one| {
                        one.lid == world.state.lid
                            && filter(trap)
                                .subscriptions()
                                .into_iter()
                                .any(|wish| one.subscription.covers(&wish))
                    });
                world.happen(about(Trap(trap), gid), copies);
                model.listen(&mut world);
                // Nobody knows what an SA has left from earlier, if it gives no table however often it is asked.
                let is_blind = world.tables_missed >= Settings::default().attempts;
                for (one, (before, active)) in model.live.values_mut().zip(before) {
                    let wants = active && (one.trap == trap || one.trap == 0xFFFF);
                    let (times, due) = (one.notices - before, usize::from(wants && reached));
                    assert!(
                        times == due || is_blind && due == 1 && times > 1,
                        "exactly once: {times}, {due}"
                    );
                    one.owed |= wants && !reached;
                }
                assert_eq!(world.responses, world.reports, "every Report is answered");
                // The next one is not mistaken for a second report of this one.
                world.pass(2 * SECOND);
            }
            Step::Port(active, lid, sm_lid) => world.port(PortState { active, lid, sm_lid, ..world.state }),
            Step::Reregister => {
                if let Some(port) = world.open.first().copied() {
                    world.event(Event::PortReregister { port });
                }
            }
            Step::Restart => {
                let mood = world.sa.mood;
                world.sa = Sa::default();
                world.sa.mood = mood;
                // The same event with the same id within 5 s of a restart that nobody noticed is a repetition to us.
                world.pass(6 * SECOND);
            }
            Step::HandOver => {
                std::mem::swap(&mut world.sa, &mut other);
                world.sa.mood = other.mood;
                world.port(PortState { sm_lid: 3 - world.state.sm_lid, ..world.state });
            }
            Step::Hold(on) => {
                answers_were_lost |= on;
                world.hold(on);
            }
            Step::Mood(mood) => {
                answers_were_lost |= mood == Mood::Silent;
                world.sa.mood = mood;
            }
            Step::Lossy(on) => {
                answers_were_lost |= on;
                lossy.set(on);
            }
        }
        model.listen(&mut world);
    }
    // Quiet: everything works again.
    world.hold(false);
    world.sa.mood = Mood::Well;
    lossy.set(false);
    world.port(PortState { active: true, ..world.state });
    world.pass(500 * SECOND);
    model.listen(&mut world);
    let wanted: Vec<_> = model
        .live
        .values()
        .filter(|one| !one.is_lost())
        .flat_map(|one| filter(one.trap).subscriptions())
        .collect();
    let ours: BTreeSet<_> = world
        .sa
        .subscribers
        .iter()
        .filter(|one| one.lid == world.state.lid)
        .map(|one| one.subscription)
        .collect();
    if !world.open.is_empty() {
        assert_eq!(ours, plan(&wanted), "subscribed exactly when somebody wants it");
    }
    for one in model.live.values().filter(|one| !one.is_lost()) {
        assert_eq!(one.status, Some(0), "what is not lost is active");
        // The SA may have heeded a request whose answer was lost: that it refuses the next one proves nothing.
        assert!(!one.owed || answers_were_lost, "each gap is made known");
    }
    for client in 0..4 {
        world.gone(client);
    }
    world.pass(500 * SECOND);
    assert!(world.engine.is_idle() && world.engine.next_deadline().is_none());
    let status = world.engine.status();
    assert!(status.clients.is_empty() && status.ports.is_empty());
}

fn cases() -> u32 {
    if std::env::var_os("SOAK").is_some() { 20_000 } else { 500 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn subscribed_exactly_when_wanted(steps in steps(), seed in any::<u64>()) {
        run(steps, seed);
    }
}

/// The same of so many, always the same ones, without looking for the shortest that fails.
pub fn any_order(cases: u32) {
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let result = runner.run(&(steps(), any::<u64>()), |(steps, seed)| {
        run(steps, seed);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn a_year_of_failovers() {
    let mut world = World::new();
    world.connect(1, 0);
    world.register(1, 1, filter(64), true);
    world.told(1);
    for day in 0..365 {
        for hour in 0..24u16 {
            world.sa = Sa::default();
            world.port(PortState { sm_lid: 1 + (day + hour) % 2, ..world.state });
            world.pass(3600 * SECOND);
            let gap = [Told::Status(1, -libc::ENETRESET), Told::Status(1, 0)];
            let told = world.told(1);
            assert!(told.is_empty() || told == gap, "{told:?}");
            world.happen(about(Trap(64), 3), 2);
            assert_eq!(world.told(1).len(), 1);
        }
    }
}
