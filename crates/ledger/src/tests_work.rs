//! Work of one QP.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn posted(pattern: &[bool]) -> Posted {
    let mut posted = Posted::default();
    pattern.iter().for_each(|signalled| posted.push(*signalled));
    posted
}

fn outstanding(work: &Work) -> u64 {
    let posted = work.sends_posted();
    posted - work.sends_gone().expect("nobody posts")
}

fn fresh() -> Work {
    let work = Work::new();
    assert!(work.take());
    work
}

#[test]
fn a_signalled_completion_retires_those_before_it() {
    let work = fresh();
    work.post_sends(posted(&[false, false, true, true]));
    work.post_sends(posted(&[false]));
    assert_eq!(outstanding(&work), 5);
    work.complete_sends(1);
    assert_eq!(outstanding(&work), 2);
    work.complete_sends(1);
    assert_eq!(outstanding(&work), 1, "nothing retires what is behind the last signalled one");
    work.post_sends(posted(&[true]));
    work.complete_sends(1);
    assert_eq!(outstanding(&work), 0);
}

#[test]
fn with_sq_sig_all_each_one_completes() {
    let work = fresh();
    work.all_signalled.store(1, Relaxed);
    work.post_sends(posted(&[false; 70]));
    work.complete_sends(69);
    assert_eq!(outstanding(&work), 1);
}

#[test]
fn a_regular_program_may_have_any_number_of_groups() {
    let work = fresh();
    for _ in 0..1000 {
        work.post_sends(posted(&[false, true]));
    }
    assert_eq!((outstanding(&work), work.blurred.load(Relaxed)), (2000, 0));
    work.complete_sends(999);
    assert_eq!(outstanding(&work), 2);
}

#[test]
fn too_many_runs_are_no_count() {
    let work = fresh();
    for others in 1..=RUNS + 1 {
        let mut pattern = vec![false; others];
        pattern.push(true);
        work.post_sends(posted(&pattern));
        assert_eq!(work.blurred.load(Relaxed), (others > RUNS).into(), "{others}");
    }
}

#[test]
fn two_posters_at_one_time_are_no_count() {
    let work = fresh();
    work.post_sends(posted(&[false, true]));
    work.sends.version.fetch_add(1, Relaxed);
    assert_eq!(work.sends_gone(), None);
    work.post_sends(posted(&[true]));
    assert_eq!(work.blurred.load(Relaxed), 1);
}

#[test]
fn a_part_of_a_call() {
    let all = posted(&[true, false, true]);
    assert_eq!(all.first(3), Some(all));
    assert_eq!(all.first(2), Some(posted(&[true, false])));
    assert_eq!(all.first(0), Some(Posted::default()));
    let long = posted(&[true; 100]);
    assert_eq!(long.first(80).map(|some| (some.number, some.signalled)), Some((80, 80)));
    assert_eq!(long.first(64).map(|some| (some.number, some.signalled)), Some((64, 64)));
    let mixed = posted(&std::array::from_fn::<_, 100, _>(|i| i % 2 == 0));
    assert_eq!((mixed.first(80), mixed.first(63).map(|some| some.signalled)), (None, Some(32)));
}

#[derive(Clone, Debug)]
enum Step {
    Post(Vec<bool>),
    Complete(usize),
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => proptest::collection::vec(any::<bool>(), 0..6).prop_map(Step::Post),
        4 => proptest::collection::vec(Just(true), 1..6).prop_map(Step::Post),
        9 => (0..8_usize).prop_map(Step::Complete),
        1 => Just(Step::Reset),
    ]
}

proptest! {
    /// A queue of requests, each signalled or not; a completion takes out all up to the next signalled one.
    #[test]
    fn counts_are_those_of_a_queue(steps in proptest::collection::vec(step(), 1..200)) {
        let work = fresh();
        let mut queue: VecDeque<bool> = VecDeque::new();
        for step in steps {
            match step {
                Step::Post(pattern) => {
                    queue.extend(&pattern);
                    work.post_sends(posted(&pattern));
                }
                Step::Complete(number) => {
                    for _ in 0..number {
                        let Some(at) = queue.iter().position(|signalled| *signalled) else { break };
                        queue.drain(..=at);
                        work.complete_sends(1);
                    }
                }
                Step::Reset => {
                    queue.clear();
                    work.begin_again();
                }
            }
            if work.is_blurred() {
                break;
            }
            prop_assert_eq!(outstanding(&work), queue.len() as u64);
        }
    }
}
