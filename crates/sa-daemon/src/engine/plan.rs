//! Which subscriptions a port needs at the SA for what its registrations want.
//!
//! An SA sends one Report for each of its subscriptions that matches, so two that overlap double every
//! notice in their intersection. The plan is therefore a set of pairwise disjoint subscriptions that together
//! cover every wish. Wishes come from `Filter::subscriptions`: they name a number or all of them, nothing else.

use std::collections::{BTreeMap, BTreeSet};

use ibv_sa_wire::Subscription;
use ibv_sa_wire::mad::Notice;

use super::fault::{self, Fault};
use super::work;

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

/// What registrations want of a port, and how many want it.
#[derive(Debug, Default)]
pub struct Wishes {
    generic: BTreeMap<Subscription, usize>,
    vendor: BTreeMap<Subscription, usize>,
}

/// The subscription to all that is of that kind.
pub fn all_of(is_generic: bool) -> Subscription {
    if is_generic { Subscription::ALL_GENERIC } else { Subscription::ALL_VENDOR }
}

impl Wishes {
    /// One registration more wants this. Returns whether that changes the plan.
    pub fn add(&mut self, wish: Subscription) -> bool {
        let before = self.is_for_all(wish.is_generic);
        let count = self.kind(wish.is_generic).entry(wish).or_insert(0);
        *count += 1;
        *count == 1 && !before
    }

    /// One less. Returns whether that changes the plan.
    pub fn remove(&mut self, wish: Subscription) -> bool {
        let wishes = self.kind(wish.is_generic);
        let Some(count) = wishes.get_mut(&wish) else { return false };
        *count -= 1;
        if *count > usize::from(fault::is(Fault::CountOffByOne)) {
            return false;
        }
        wishes.remove(&wish);
        !self.is_for_all(wish.is_generic)
    }

    /// Nobody wants anything.
    pub fn is_empty(&self) -> bool {
        self.generic.is_empty() && self.vendor.is_empty()
    }

    /// Pairwise disjoint subscriptions that together cover all wishes. However many these are, it is few.
    pub fn plan(&self) -> BTreeSet<Subscription> {
        let plan: BTreeSet<_> = [(true, &self.generic), (false, &self.vendor)]
            .into_iter()
            .flat_map(|(is_generic, wishes)| {
                let all = self.is_for_all(is_generic);
                let narrow = wishes.keys().copied().take(if all { 0 } else { MOST });
                all.then(|| all_of(is_generic)).into_iter().chain(narrow)
            })
            .collect();
        work::steps(plan.len());
        plan
    }

    fn kind(&mut self, is_generic: bool) -> &mut BTreeMap<Subscription, usize> {
        if is_generic { &mut self.generic } else { &mut self.vendor }
    }

    /// Is all of that kind subscribed at once?
    fn is_for_all(&self, is_generic: bool) -> bool {
        let wishes = if is_generic { &self.generic } else { &self.vendor };
        wishes.len() > MOST || wishes.contains_key(&all_of(is_generic))
    }
}

/// The plan for these.
#[cfg(test)]
pub fn plan<'a>(wishes: impl IntoIterator<Item = &'a Subscription>) -> BTreeSet<Subscription> {
    let mut all = Wishes::default();
    wishes.into_iter().for_each(|wish| _ = all.add(*wish));
    all.plan()
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
            // What is said not to change the plan does not.
            let (mut all, mut before) = (Wishes::default(), BTreeSet::new());
            for (n, wish) in wishes.iter().chain(&wishes).enumerate() {
                let changes = if n < wishes.len() { all.add(*wish) } else { all.remove(*wish) };
                let after = all.plan();
                prop_assert!(changes || before == after);
                before = after;
            }
            prop_assert!(all.is_empty());
        }
    }
}
