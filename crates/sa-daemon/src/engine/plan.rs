//! Which subscriptions a port needs at the SA for what its registrations want.
//!
//! An SA sends one Report for each of its subscriptions that matches, so two that overlap double every
//! notice in their intersection. The plan is therefore a set of pairwise disjoint subscriptions that together
//! cover every wish. Wishes come from `Filter::subscriptions`: they name a number or all of them, nothing else.

use std::collections::BTreeSet;

use ibv_sa_wire::Subscription;
use ibv_sa_wire::mad::Notice;

/// More numbers than this, and one subscription to all is cheaper for the SA and for us.
pub const MOST: usize = 64;

/// Can one notice match both?
pub fn overlap(one: &Subscription, other: &Subscription) -> bool {
    one.covers(other) || other.covers(one)
}

/// Does the SA send this notice for this subscription?
pub fn matches(subscription: &Subscription, notice: &Notice) -> bool {
    subscription.covers(&Subscription {
        is_generic: notice.is_generic(),
        trap: notice.number.get(),
        kind: u16::from(notice.notice_type().0),
        producer: notice.producer.get(),
        ..Subscription::ALL_GENERIC
    })
}

/// Pairwise disjoint subscriptions that together cover all `wishes`.
pub fn plan<'a>(wishes: impl IntoIterator<Item = &'a Subscription>) -> BTreeSet<Subscription> {
    let (generic, vendor): (BTreeSet<_>, BTreeSet<_>) = wishes.into_iter().partition(|wish| wish.is_generic);
    [(generic, Subscription::ALL_GENERIC), (vendor, Subscription::ALL_VENDOR)]
        .into_iter()
        .flat_map(
            |(wishes, all)| {
                if wishes.len() > MOST || wishes.contains(&all) { BTreeSet::from([all]) } else { wishes }
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ibv_sa_wire::Trap;
    use proptest::prelude::*;

    fn trap(number: u16) -> Subscription {
        Subscription::trap(Trap(number))
    }

    const ALL: [Subscription; 2] = [Subscription::ALL_GENERIC, Subscription::ALL_VENDOR];

    #[test]
    fn all_makes_narrower_ones_unnecessary() {
        assert_eq!(plan(&[trap(64), trap(65), ALL[0], ALL[1]]), BTreeSet::from(ALL));
        assert_eq!(plan(&[trap(64), trap(64), trap(65)]), BTreeSet::from([trap(64), trap(65)]));
        let device = Subscription::device(64);
        assert_eq!(plan(&[device, ALL[0]]), BTreeSet::from([device, ALL[0]]));
    }

    #[test]
    fn too_many_become_one() {
        let wishes = |count| (0..count).map(trap).collect::<Vec<_>>();
        assert_eq!(plan(&wishes(200)), BTreeSet::from([ALL[0]]));
        assert_eq!(plan(&wishes(64)).len(), MOST);
    }

    proptest! {
        #[test]
        fn a_plan_covers_all_and_overlaps_nowhere(
            wishes in prop::collection::vec((any::<bool>(), prop_oneof![Just(0xFFFF), 60u16..70]), 0..90)
        ) {
            let wishes: Vec<_> = wishes
                .into_iter()
                .map(|(generic, number)| if generic { trap(number) } else { Subscription::device(number) })
                .collect();
            let planned = plan(&wishes);
            for wish in &wishes {
                prop_assert_eq!(planned.iter().filter(|one| one.covers(wish)).count(), 1);
            }
            for one in &planned {
                prop_assert!(planned.iter().all(|other| one == other || !overlap(one, other)));
                prop_assert!(wishes.iter().any(|wish| one.covers(wish)));
            }
        }
    }
}
