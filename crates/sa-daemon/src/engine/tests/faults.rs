//! Faults put into the engine, each of which the other tests catch. A test that catches none would prove nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{clients, leases, properties};
use crate::engine::fault::{self, Fault};

fn any_order() {
    properties::any_order(500);
}

/// Each fault with what catches it.
const FAULTS: [(Fault, fn()); 14] = [
    (Fault::LostResubscription, any_order),
    (Fault::StaleTid, any_order),
    (Fault::CountOffByOne, any_order),
    (Fault::LeakedWish, any_order),
    (Fault::RepeatedReport, any_order),
    (Fault::RememberedSm, leases::the_same_id_from_the_next_sm_is_news),
    (Fault::DoubledOverlap, any_order),
    (Fault::BreakBeforeMake, clients::the_wildcard_stays_until_what_replaces_it_stands),
    (Fault::UntoldGap, any_order),
    (Fault::SilentOverflow, clients::a_slow_client_learns_what_it_lost_and_slows_nobody),
    (Fault::UnansweredReport, any_order),
    (Fault::BlindAudit, any_order),
    (Fault::KeptStray, any_order),
    (Fault::FormerSm, any_order),
];

#[test]
fn each_fault_is_caught() {
    any_order();
    let missed: Vec<Fault> = FAULTS
        .iter()
        .filter(|(fault, test)| catch_unwind(AssertUnwindSafe(|| fault::with(*fault, test))).is_ok())
        .map(|(fault, _)| *fault)
        .collect();
    assert_eq!(missed, [], "not caught");
}
