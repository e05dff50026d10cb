//! All interleavings of a few steps of a few threads (loom). Run with `RUSTFLAGS="--cfg loom" cargo test -p
//! ibv-sa-ledger --release --lib`.

use loom::sync::Arc;
use loom::thread;

use crate::account::{Account, after_write};
use crate::qp::Qp;
use crate::slots::Slots;
use crate::sync::*;
use crate::table::{ALIVE, DEAD, Entry, Head, Table};
use crate::verdict::Failure;
use crate::work::{Posted, Work};

/// An ack that comes too early is held; a destroy begins; the event is read. Whoever is last must see both.
#[test]
fn a_held_ack_and_its_event_always_meet() {
    // Three switches of threads at any place: without a bound the number of interleavings is beyond all patience.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let account = Arc::new(Account::default());
        let destroying = Arc::new(AtomicU32::new(0));
        let passed = Arc::new(AtomicU32::new(0));
        let pair_if_destroying = |account: &Account, destroying: &AtomicU32, passed: &AtomicU32| {
            if destroying.load(SeqCst) != 0 {
                passed.fetch_add(account.pair(), Relaxed);
            }
        };

        let threads = [
            {
                let (account, destroying, passed) = (account.clone(), destroying.clone(), passed.clone());
                thread::spawn(move || {
                    let split = account.ack(1);
                    passed.fetch_add(split.good, Relaxed);
                    if split.surplus != 0 {
                        account.hold(split.surplus);
                        pair_if_destroying(&account, &destroying, &passed);
                    }
                })
            },
            {
                let (account, destroying, passed) = (account.clone(), destroying.clone(), passed.clone());
                thread::spawn(move || {
                    account.got_one();
                    pair_if_destroying(&account, &destroying, &passed);
                })
            },
        ];
        destroying.store(1, SeqCst);
        after_write();
        passed.fetch_add(account.pair(), Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(passed.load(Relaxed), 1, "the destroy waits for ever");
        assert_eq!((account.open.load(Relaxed), account.held()), (0, 0));
    });
}

/// Two acks race for one open event: one is good, one is not.
#[test]
fn one_event_takes_one_ack() {
    loom::model(|| {
        let account = Arc::new(Account::default());
        account.got_one();
        let other = {
            let account = account.clone();
            thread::spawn(move || account.ack(1))
        };
        let mine = account.ack(1);
        let other = other.join().unwrap();
        assert_eq!((mine.good + other.good, mine.surplus + other.surplus), (1, 1));
    });
}

/// The program's ack and the rescue of the same event: the event is passed on once, the other is swallowed or bad.
#[test]
fn a_rescue_and_the_programs_own_ack() {
    loom::model(|| {
        let account = Arc::new(Account::default());
        account.got_one();
        let other = {
            let account = account.clone();
            thread::spawn(move || account.rescue(1))
        };
        let mine = account.ack(1);
        let rescued = other.join().unwrap();
        assert_eq!(mine.good + rescued, 1);
        assert_eq!(mine.good + mine.swallowed + mine.surplus, 1);
    });
}

#[derive(Default)]
struct Slot {
    head: Head,
    value: AtomicUsize,
}

impl Entry for Slot {
    fn head(&self) -> &Head {
        &self.head
    }
}

type Small = Table<Slot, 2, 4>;

fn small() -> Arc<Small> {
    Arc::new(Table::new(std::array::from_fn(|_| Slot::default())))
}

/// What is found under an address was filled for it.
#[test]
fn an_entry_is_whole_when_it_is_found() {
    loom::model(|| {
        let table = small();
        let other = {
            let table = table.clone();
            thread::spawn(move || table.insert(0x100, ALIVE, |_| {}, |slot| slot.value.store(0x100, Relaxed)))
        };
        if let Some(place) = table.find(0x100) {
            let slot = table.at(place);
            assert_eq!(slot.value.load(Relaxed), 0x100);
            assert_eq!(slot.head().state(), ALIVE);
        }
        table.insert(0x200, ALIVE, |_| {}, |slot| slot.value.store(0x200, Relaxed)).unwrap();
        other.join().unwrap().unwrap();
        for address in [0x100, 0x200] {
            let place = table.find(address).expect("both fit");
            assert_eq!(table.at(place).value.load(Relaxed), address);
        }
    });
}

/// A dead entry's place goes to one of two threads that need one.
#[test]
fn a_place_has_one_owner() {
    loom::model(|| {
        let table = small();
        let fill = |slot: &Slot| slot.value.store(1, Relaxed);
        for address in [0x100, 0x200] {
            let place = table.insert(address, ALIVE, |_| {}, fill).unwrap();
            if address == 0x100 {
                assert!(table.bury(place, table.at(place).head().generation()));
            }
        }
        let other = {
            let table = table.clone();
            thread::spawn(move || table.insert(0x300, ALIVE, |_| {}, |_| {}))
        };
        let mine = table.insert(0x400, ALIVE, |_| {}, |_| {});
        let other = other.join().unwrap();
        assert_eq!(u8::from(mine.is_some()) + u8::from(other.is_some()), 1);
        assert_eq!(table.find(0x100), None);
        assert!(table.find(0x200).is_some());
    });
}

/// The end of a destroy and the birth of the next object at the same address: the new one is not buried.
#[test]
fn a_new_life_is_not_ended_by_the_end_of_the_old_one() {
    loom::model(|| {
        let table = small();
        let place = table.insert(0x100, ALIVE, |_| {}, |_| {}).unwrap();
        let old = table.at(place).head().generation();
        let other = {
            let table = table.clone();
            thread::spawn(move || table.bury(place, old))
        };
        assert!(table.succeed((place, 0x100), ALIVE, |_| {}, |_| {}));
        other.join().unwrap();
        let new = table.find(0x100).expect("the address is known at all times");
        assert_eq!(table.at(new).head().state(), ALIVE);
        assert!(new == place || table.at(place).head().state() == DEAD);
    });
}

/// A dead entry is found, and its place goes to another address before the finder comes to use it.
#[test]
fn a_place_that_changed_hands_is_left_alone() {
    loom::model(|| {
        let table = small();
        for address in [0x100, 0x200] {
            table.insert(address, ALIVE, |_| {}, |slot| slot.value.store(address, Relaxed)).unwrap();
        }
        let found = table.find(0x100).unwrap();
        assert!(table.bury(found, table.at(found).head().generation()));
        let other = {
            let table = table.clone();
            thread::spawn(move || {
                table.insert(0x300, ALIVE, |_| {}, |slot| slot.value.store(0x300, Relaxed)).is_some()
            })
        };
        let mine = table.succeed((found, 0x100), ALIVE, |_| {}, |slot| slot.value.store(0x100, Relaxed));
        let other = other.join().unwrap();
        for (address, kept) in [(0x100, mine), (0x200, true), (0x300, other)] {
            if kept {
                let place = table.find(address).expect("it was kept");
                assert_eq!(table.at(place).value.load(Relaxed), address);
                assert_eq!(table.at(place).head().state(), ALIVE);
            }
        }
    });
}

/// Two contexts are opened at once, of one provider or of two: a function has one trampoline, and a trampoline one
/// function, whoever reads its place.
#[test]
fn a_function_has_one_place() {
    for (mine, theirs) in [(0x100, 0x100), (0x100, 0x200)] {
        loom::model(move || {
            let slots = Arc::new(Slots::<2>::new());
            let other = {
                let slots = slots.clone();
                thread::spawn(move || slots.of(theirs).map(|slot| (slot, slots.address(slot))))
            };
            let slot = slots.of(mine).expect("there is room for both");
            assert_eq!(slots.address(slot), mine);
            let other = other.join().unwrap().expect("there is room for both");
            assert_eq!(other.1, theirs);
            assert_eq!(other.0 == slot, mine == theirs);
            assert_eq!(slots.of(mine), Some(slot));
        });
    }
}

/// Two CQs of a QP are polled at once, and both have a failure: one is the first, and whoever reads it reads all of it.
#[test]
fn a_first_failure_is_whole_when_it_is_found() {
    loom::model(|| {
        let qp = Arc::new(Qp::default());
        let failure = |n: u32| Failure { status: n, vendor_err: n, wr_id: n.into(), at: n.into() };
        let other = {
            let qp = qp.clone();
            thread::spawn(move || qp.failed(&failure(10)))
        };
        let mine = qp.failed(&failure(12));
        if let Some(found) = qp.first_failure() {
            assert!(found == failure(10) || found == failure(12));
        }
        let other = other.join().unwrap();
        assert_ne!(mine, other);
        assert_eq!(qp.first_failure(), Some(failure(if mine { 12 } else { 10 })));
        assert_eq!(qp.failures.load(Relaxed), 2);
    });
}

/// The program moves a QP to ERR and ends it; another thread polls the first flush meanwhile. What the end sees of the
/// flush is all of it, or nothing.
#[test]
fn a_flush_after_the_programs_own_move_is_never_without_it() {
    loom::model(|| {
        let qp = Arc::new(Qp::default());
        qp.moves(6, 7, 1);
        let other = {
            let qp = qp.clone();
            thread::spawn(move || qp.flushed(100, 2))
        };
        if qp.flushes.load(Relaxed) != 0 && qp.knows_flush() {
            assert_eq!(qp.moved_before_flush(), Some((6, 7, 1)));
        }
        other.join().unwrap();
        assert_eq!(qp.moved_before_flush(), Some((6, 7, 1)));
    });
}

/// One thread posts groups, a second one polls, the third adds up: it never finds more than there was.
#[test]
fn a_sum_is_never_too_much() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let work = Arc::new(Work::default());
        let group = |others: u32| {
            let mut posted = Posted::default();
            (0..others).for_each(|_| posted.push(false));
            posted.push(true);
            posted
        };
        work.post_sends(group(1));
        let poster = {
            let work = work.clone();
            // The program waits for the first group before it posts the next: two requests are out at any time.
            thread::spawn(move || {
                work.complete_sends(1);
                work.post_sends(group(0));
                work.post_sends(group(0));
            })
        };
        let posted = work.sends_posted();
        if let Some(gone) = work.sends_gone() {
            assert!(posted.wrapping_sub(gone).cast_signed() <= 2, "{posted} {gone}");
        }
        poster.join().unwrap();
        assert_eq!(work.sends_posted() - work.sends_gone().unwrap(), 2);
        assert!(!work.is_blurred());
    });
}

/// Two threads post to one QP that mixes signalled sends with others: the count is right, or said to be unknown.
#[test]
fn two_posters_are_counted_or_noticed() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let work = Arc::new(Work::default());
        let other = {
            let work = work.clone();
            thread::spawn(move || work.post_sends(Posted { number: 1, signalled: 1, which: 1 }))
        };
        work.post_sends(Posted { number: 2, signalled: 1, which: 2 });
        other.join().unwrap();
        work.complete_sends(2);
        if !work.is_blurred() {
            assert_eq!(work.sends_posted(), work.sends_gone().unwrap());
        }
    });
}
