//! What waits for one client until its socket takes it: in order, bounded, and never lost in silence.
//!
//! Only notices count against the bound. Answers are one per request; overflow records and statuses are
//! merged with what already waits, so that a client that never reads costs no more as time goes by.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::deliver::Delivery;
use super::fault::{self, Fault};

/// One thing to tell a client. `R` is an answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<R> {
    /// Answer to a request.
    Reply(R),
    /// A notice for a registration.
    Notice {
        /// The client's name for the registration.
        id: u64,
        /// Counts the notices that matched the registration, lost ones included.
        sequence: u64,
        /// Shared between all that get it.
        delivery: Arc<Delivery>,
    },
    /// A registration's new status.
    Status {
        /// The client's name for the registration.
        id: u64,
        /// 0 or a negative errno.
        status: i32,
    },
    /// Notices of a registration that did not fit.
    Overflow {
        /// The client's name for the registration.
        id: u64,
        /// How many.
        lost: u64,
    },
    /// Taken back while it waited.
    Nothing,
}

/// The newest thing that waits for a registration, where later ones can be merged into it.
enum Tail {
    Overflow(u64),
    Status { first: u64, second: Option<u64> },
}

/// The queue of one client.
pub struct Queue<R> {
    items: VecDeque<Item<R>>,
    /// Sequence number of the front item.
    base: u64,
    tails: HashMap<u64, Tail>,
    notices: usize,
    replies: usize,
    capacity: usize,
    lost: u64,
}

impl<R> Queue<R> {
    /// For at most `capacity` notices.
    pub fn new(capacity: usize) -> Self {
        let (items, tails) = (VecDeque::new(), HashMap::new());
        Queue { items, base: 0, tails, notices: 0, replies: 0, capacity, lost: 0 }
    }

    /// Nothing waits, so that nobody may be about to bring it out.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Answers that wait; the server stops reading from a client that lets them pile up.
    pub fn replies(&self) -> usize {
        self.replies
    }

    /// Notices that wait.
    pub fn notices(&self) -> usize {
        self.notices
    }

    /// Notices lost in all.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// An answer.
    pub fn push_reply(&mut self, reply: R) {
        self.replies += 1;
        self.items.push_back(Item::Reply(reply));
    }

    /// A notice, or one more lost when there is no room or `room` is false. Returns whether it fitted.
    pub fn push_notice(&mut self, id: u64, sequence: u64, delivery: &Arc<Delivery>, room: bool) -> bool {
        if room && self.notices < self.capacity {
            self.notices += 1;
            if !self.tails.is_empty() {
                self.tails.remove(&id);
            }
            self.items.push_back(Item::Notice { id, sequence, delivery: delivery.clone() });
            return true;
        }
        self.lost += 1;
        if fault::is(Fault::SilentOverflow) {
            return false;
        }
        if let Some(Tail::Overflow(at)) = self.tails.get(&id)
            && let Some(Item::Overflow { lost, .. }) = slot(&mut self.items, self.base, *at)
        {
            *lost += 1;
            return false;
        }
        let at = self.append(Item::Overflow { id, lost: 1 });
        self.tails.insert(id, Tail::Overflow(at));
        false
    }

    /// A status. Of several in a row that nobody has read, the first and the last are kept.
    pub fn push_status(&mut self, id: u64, status: i32) {
        let item = Item::Status { id, status };
        let Some(Tail::Status { first, second }) = self.tails.get_mut(&id) else {
            let first = self.append(item);
            self.tails.insert(id, Tail::Status { first, second: None });
            return;
        };
        let (first, second) = (*first, *second);
        let repeats_first = matches!(slot(&mut self.items, self.base, first), Some(Item::Status { status: s, .. }) if *s == status);
        if let Some(waiting) = second.and_then(|at| slot(&mut self.items, self.base, at)) {
            *waiting = if repeats_first { Item::Nothing } else { item };
        } else if !repeats_first {
            let at = self.append(item);
            let waits = slot(&mut self.items, self.base, first).is_some();
            let tail = if waits {
                Tail::Status { first, second: Some(at) }
            } else {
                Tail::Status { first: at, second: None }
            };
            self.tails.insert(id, tail);
        }
    }

    /// The registration is gone: nothing is merged any more.
    pub fn forget(&mut self, id: u64) {
        self.tails.remove(&id);
    }

    /// The next item, which stays until `pop`.
    pub fn front(&mut self) -> Option<&Item<R>> {
        while matches!(self.items.front(), Some(Item::Nothing)) {
            self.items.pop_front();
            self.base += 1;
        }
        self.items.front()
    }

    /// Removes the next item. Returns whether it was a notice.
    pub fn pop(&mut self) -> bool {
        let Some(item) = self.items.pop_front() else { return false };
        self.base += 1;
        match item {
            Item::Reply(_) => self.replies -= 1,
            Item::Notice { .. } => {
                self.notices -= 1;
                return true;
            }
            _ => {}
        }
        false
    }

    fn append(&mut self, item: Item<R>) -> u64 {
        self.items.push_back(item);
        self.base + self.items.len() as u64 - 1
    }
}

fn slot<R>(items: &mut VecDeque<Item<R>>, base: u64, at: u64) -> Option<&mut Item<R>> {
    items.get_mut(usize::try_from(at.checked_sub(base)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ibv_sa_wire::Trap;
    use ibv_sa_wire::mad::{Notice, NoticeType, Producer};

    fn drain(queue: &mut Queue<()>) -> Vec<Item<()>> {
        let mut all = Vec::new();
        while let Some(item) = queue.front().cloned() {
            all.push(item);
            queue.pop();
        }
        all
    }

    fn delivery() -> Arc<Delivery> {
        let notice = Notice::generic(NoticeType::SUBNET_MANAGEMENT, Producer(4), Trap(64));
        Arc::new(Delivery { time: 0, source_lid: 1, notice })
    }

    fn notice(id: u64, sequence: u64) -> Item<()> {
        Item::Notice { id, sequence, delivery: delivery() }
    }

    #[test]
    fn what_does_not_fit_is_counted_in_its_place() {
        let mut queue = Queue::<()>::new(2);
        let one = delivery();
        for sequence in 1..6 {
            queue.push_notice(1, sequence, &one, true);
        }
        queue.push_notice(2, 1, &one, true);
        queue.pop();
        queue.push_notice(1, 6, &one, true);
        queue.push_notice(1, 7, &one, true);
        let lost = |id, lost| Item::Overflow { id, lost };
        assert_eq!(drain(&mut queue), [notice(1, 2), lost(1, 3), lost(2, 1), notice(1, 6), lost(1, 1)]);
        assert_eq!(queue.lost(), 5);
    }

    #[test]
    fn a_year_of_failovers_costs_a_silent_client_two_items() {
        let mut queue = Queue::<()>::new(2);
        let status = |status| Item::Status { id: 1, status };
        for _ in 0..1000 {
            queue.push_status(1, -102);
            queue.push_status(1, 0);
        }
        assert_eq!(queue.items.len(), 2);
        assert_eq!(drain(&mut queue), [status(-102), status(0)]);
        queue.push_status(1, -102);
        queue.push_status(1, 0);
        queue.push_status(1, -102);
        assert_eq!(drain(&mut queue), [status(-102)]);
        queue.push_status(1, 0);
        assert_eq!(drain(&mut queue), [status(0)]);
    }

    #[test]
    fn a_status_keeps_its_place_among_notices() {
        let mut queue = Queue::<()>::new(9);
        let one = delivery();
        let status = |status| Item::Status { id: 1, status };
        queue.push_status(1, 0);
        queue.push_notice(1, 1, &one, true);
        queue.push_status(1, -102);
        assert_eq!(drain(&mut queue), [status(0), notice(1, 1), status(-102)]);
    }
}
