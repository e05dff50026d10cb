//! Programs made by chance: whenever libibverbs alone would let a destroy finish, it finishes under the shim. The
//! program has a model of libibverbs, which a run without the shim proves.

use std::time::Duration;

use ibv_sa_tests::ledger::{all_at_once, run_ledger};
use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run};

/// Many more with SOAK set.
fn scaled(seeds: u64) -> u64 {
    if std::env::var_os("SOAK").is_some() { seeds * 25 } else { seeds }
}

/// Seeds in portions, some processes at one time.
fn seeds(from: u64, count: u64) -> Vec<(u64, u64)> {
    let portion = 30;
    (0..count.div_ceil(portion)).map(|i| (from + i * portion, portion.min(count - i * portion))).collect()
}

fn random(mode: &str, from: u64, count: u64, flavour: Option<Flavour>) -> Run {
    let (from, count) = (from.to_string(), count.to_string());
    run_ledger("random", &[mode, &from, &count], flavour).timeout(Duration::from_secs(120))
}

#[track_caller]
fn judge(outcome: Outcome, count: u64) {
    let outcome = outcome.assert_ok();
    assert_eq!(outcome.value("seeds"), count.to_string(), "{outcome}");
    assert_eq!(outcome.value("slow"), "0", "a destroy waited for IBV_SA_HANG_SECS: {outcome}");
}

/// Portions one after the other in two lanes: processes with many threads on few cores are slow otherwise.
fn in_two_lanes(portions: Vec<(u64, u64)>, work: impl Fn(u64, u64) + Sync) {
    all_at_once([0, 1], |lane| {
        for (from, count) in portions.iter().skip(lane).step_by(2) {
            work(*from, *count);
        }
    });
}

#[test]
fn the_model_is_libibverbs() {
    in_two_lanes(seeds(1, scaled(120)), |from, count| {
        let outcome = random("alone", from, count, None).run();
        // The hangs that only the shim prevents are among them.
        assert!(outcome.number("over") > 0.0 && outcome.number("lent") > 0.0, "{outcome}");
        judge(outcome, count);
    });
}

#[test]
fn what_finishes_alone_finishes_under_the_shim() {
    for flavour in FLAVOURS {
        in_two_lanes(seeds(1, scaled(120)), |from, count| {
            // A destroy that needs the last resort takes so long that it is seen.
            let run = random("protect", from, count, Some(flavour)).env("IBV_SA_HANG_SECS", "5");
            judge(run.run(), count);
        });
    }
}

/// And hangs where libibverbs alone hangs.
#[test]
fn forward_is_libibverbs_alone() {
    for flavour in FLAVOURS {
        in_two_lanes(seeds(1, scaled(60)), |from, count| {
            judge(random("alone", from, count, Some(flavour)).env("IBV_SA_ACK", "forward").run(), count);
        });
    }
}

#[test]
fn everything_finishes_with_rescue() {
    let portions: Vec<(u64, u64)> =
        seeds(1, scaled(24)).iter().flat_map(|(from, _)| [(*from, 4), (*from + 4, 4)]).collect();
    all_at_once(FLAVOURS, |flavour| {
        in_two_lanes(portions.clone(), |from, count| {
            let run = random("rescue", from, count, Some(flavour)).env("IBV_SA_ACK", "rescue");
            judge(run.run(), count);
        });
    });
}
