//! Reports that this port got lately, so that a notice is delivered once.
//!
//! A Report comes twice for two reasons: the SA missed our answer and sends it again with the same TID, or
//! two of our subscriptions overlap for the moment of a change, and the SA sends one Report for each, with
//! TIDs close to one another.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A notice with its undefined bytes zeroed.
pub type MaskedNotice = [u8; 80];

/// How long an SA may go on repeating a Report.
const REPEAT: u64 = 5_000_000_000;
/// How far apart the Reports of one notice can arrive. They are made in one pass over the SA's list, but each may be
/// lost and sent again, three times, after 200 ms.
const OVERLAP: u64 = 1_000_000_000;
/// That list may have other hosts' subscriptions between two of ours, but nothing of another notice.
const OVERLAP_TIDS: u32 = 16;
/// A whole fabric that vanishes is some tens of thousands of notices within seconds.
const MOST: usize = 65_536;

/// What makes a notice the same: who sent it and what it says.
type Key = (u16, Arc<MaskedNotice>);

struct Seen {
    at: u64,
    tid: u32,
    /// Reports of other subscriptions that this one already stands for.
    absorbed: usize,
}

/// What came within the last seconds.
#[derive(Default)]
pub struct Recent {
    seen: HashMap<Key, VecDeque<Seen>>,
    /// The same by source and TID.
    by_tid: HashMap<(u16, u32), Arc<MaskedNotice>>,
    /// The same in order of arrival, for forgetting.
    order: VecDeque<(u64, Key)>,
}

impl Recent {
    /// Is this the first Report of its notice? `standing` is how many of our subscriptions match it.
    pub fn is_first(
        &mut self,
        now: u64,
        lid: u16,
        tid: u32,
        notice: &Arc<MaskedNotice>,
        standing: usize,
    ) -> bool {
        while self.order.front().is_some_and(|(at, _)| now.saturating_sub(*at) > REPEAT) {
            self.forget_oldest();
        }
        let key = (lid, notice.clone());
        let same = self.seen.entry(key.clone()).or_default();
        if same.iter().any(|seen| seen.tid == tid) {
            return false;
        }
        let by_tid = &self.by_tid;
        let is_other = |tid| by_tid.get(&(lid, tid)).is_some_and(|other| other != notice);
        let sibling = same.iter_mut().rev().find(|seen| {
            let apart = tid.wrapping_sub(seen.tid).min(seen.tid.wrapping_sub(tid));
            let low = if seen.tid.wrapping_add(apart) == tid { seen.tid } else { tid };
            apart <= OVERLAP_TIDS
                && now.saturating_sub(seen.at) <= OVERLAP
                && seen.absorbed + 1 < standing
                && !(1..apart).any(|n| is_other(low.wrapping_add(n)))
        });
        let first = sibling.is_none();
        let absorbed = match sibling {
            Some(seen) => {
                seen.absorbed += 1;
                // Known for its own repetitions, but stands for no others.
                usize::MAX - 1
            }
            None => 0,
        };
        same.push_back(Seen { at: now, tid, absorbed });
        self.by_tid.insert((lid, tid), notice.clone());
        self.order.push_back((now, key));
        if self.order.len() > MOST {
            self.forget_oldest();
        }
        first
    }

    /// The SM may be another one from here on, and every SM counts its TIDs from the same start.
    pub fn forget(&mut self) {
        self.seen.clear();
        self.by_tid.clear();
        self.order.clear();
    }

    fn forget_oldest(&mut self) {
        let Some((_, key)) = self.order.pop_front() else { return };
        if let Some(same) = self.seen.get_mut(&key) {
            if let Some(oldest) = same.pop_front() {
                self.by_tid.remove(&(key.0, oldest.tid));
            }
            if same.is_empty() {
                self.seen.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_repeated_report_counts_once() {
        let mut recent = Recent::default();
        let notice = Arc::new([1; 80]);
        assert!(recent.is_first(0, 1, 100, &notice, 1));
        assert!(!recent.is_first(SECOND, 1, 100, &notice, 1));
        assert!(!recent.is_first(5 * SECOND, 1, 100, &notice, 1));
        assert!(recent.is_first(6 * SECOND, 1, 100, &notice, 1));
    }

    #[test]
    fn another_tid_source_or_content_is_another_notice() {
        let mut recent = Recent::default();
        let (one, two) = (Arc::new([1; 80]), Arc::new([2; 80]));
        assert!(recent.is_first(0, 1, 100, &one, 1));
        assert!(recent.is_first(0, 1, 101, &one, 1));
        assert!(recent.is_first(0, 2, 100, &one, 1));
        assert!(recent.is_first(0, 1, 100, &two, 1));
        recent.forget();
        assert!(recent.is_first(1, 1, 100, &one, 1));
    }

    #[test]
    fn while_two_subscriptions_stand_a_pair_counts_once() {
        let mut recent = Recent::default();
        let notice = Arc::new([1; 80]);
        assert!(recent.is_first(0, 1, 100, &notice, 2));
        assert!(!recent.is_first(1, 1, 102, &notice, 2));
        assert!(!recent.is_first(2, 1, 102, &notice, 2), "a repetition of the second");
        assert!(recent.is_first(3, 1, 103, &notice, 2), "the next event");
        assert!(!recent.is_first(3, 1, 104, &notice, 2));
        assert!(recent.is_first(4, 1, 200, &notice, 2), "too far away");
    }

    #[test]
    fn the_reports_of_one_notice_are_made_in_one_go() {
        let (down, up) = (Arc::new([1; 80]), Arc::new([2; 80]));
        for [first, between, last] in [[100, 101, 102], [u32::MAX, 0, 1], [102, 101, 100]] {
            let mut recent = Recent::default();
            assert!(recent.is_first(0, 1, first, &down, 2));
            assert!(recent.is_first(1, 1, between, &up, 2));
            assert!(recent.is_first(2, 1, last, &down, 2), "another event lies between");
            assert!(recent.is_first(2, 2, first, &down, 2));
            assert!(!recent.is_first(3, 2, last, &down, 2), "but not at this SM");
        }
    }
}
