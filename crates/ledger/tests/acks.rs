//! What becomes of acks, against a model of libibverbs: an object's destroy waits while the number of events that the
//! kernel handed out differs from the number of acks.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ibv_sa_ledger::*;
use proptest::prelude::*;

const CONTEXT: usize = 0x1000;
const QP: usize = 0x9000;
const CQ: usize = 0xa000;
const SQ_DRAINED: u32 = 5;
const COMM_EST: u32 = 4;
const OTHER: Thread = Thread { tid: 8, name: [0; 16] };
const ME: u32 = 7;

/// Empty books, with a context in them.
fn books() -> Box<Ledger> {
    // They are large: not on the stack of a test.
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    let books = thread.spawn(|| Box::new(Ledger::new())).unwrap().join().unwrap();
    books.context_opened(CONTEXT, b"rxe0", 0);
    books
}

fn create(books: &Ledger, kind: Kind, address: usize) {
    let ident = Ident { number: 17, handle: 3 };
    books.created(&Created { kind, address, context: CONTEXT, ident, began: 0 });
}

fn get(books: &Ledger, event_type: u32) -> u32 {
    books.event_got((CONTEXT, 5), event_type, Some(QP), (8, || OTHER), 1).handed.events
}

fn ack(books: &Ledger, event_type: u32) -> Ack {
    books.event_acked(event_type, Some(QP), AckMode::Protect)
}

fn with_qp() -> Box<Ledger> {
    let books = books();
    create(&books, Kind::Qp, QP);
    books
}

#[test]
fn a_second_ack_is_held_and_named() {
    let books = with_qp();
    get(&books, SQ_DRAINED);
    assert_eq!(ack(&books, SQ_DRAINED).forward, 1);
    let second = ack(&books, SQ_DRAINED);
    assert_eq!(second.forward, 0);
    assert_eq!(second.fault, Some(Fault::NotOpen { given: 1, good: 0, got: 1, acked: 1 }));
    let destroying = books.destroy_begins(Kind::Qp, QP, ME, 2);
    assert_eq!(destroying.handed, Handed::default());
    assert!(destroying.may_wait, "the held ack may be needed");
}

#[test]
fn the_type_of_an_ack_does_not_matter_as_it_does_not_to_libibverbs() {
    let books = with_qp();
    get(&books, SQ_DRAINED);
    get(&books, COMM_EST);
    assert_eq!(ack(&books, COMM_EST).forward, 1);
    let token = books.destroy_begins(Kind::Qp, QP, ME, 2).token;
    let open = books.open_now(token).unwrap();
    assert_eq!((open.listed.len(), open.listed[0].event_type), (1, SQ_DRAINED));
    assert_eq!(ack(&books, COMM_EST).forward, 1);
    assert!(books.open_now(token).unwrap().listed.is_empty());
}

#[test]
fn an_ack_that_names_the_wrong_kind_of_object_goes_nowhere() {
    let books = with_qp();
    let ack = books.event_acked(15, Some(QP), AckMode::Protect);
    assert_eq!((ack.forward, ack.fault), (0, Some(Fault::OtherKind { given: 1 })));
    assert_eq!(books.event_acked(15, Some(QP), AckMode::Forward).forward, 1);
}

#[test]
fn acks_in_batches_are_cut_to_what_is_open() {
    let books = books();
    create(&books, Kind::Cq, CQ);
    for _ in 0..10 {
        books.comp_event_got(CQ, CONTEXT, (ME, || OTHER), 1);
    }
    assert_eq!(books.comp_events_acked(CQ, 9, AckMode::Protect).forward, 9);
    let ack = books.comp_events_acked(CQ, 3, AckMode::Protect);
    assert_eq!((ack.forward, ack.fault), (1, Some(Fault::NotOpen { given: 3, good: 1, got: 10, acked: 9 })));
    assert_eq!(books.comp_events_acked(CQ, 0, AckMode::Protect).fault, None);
    assert_eq!(books.comp_events_acked(CQ, u32::MAX, AckMode::Forward).forward, u32::MAX);
}

#[test]
fn a_cq_has_two_accounts() {
    let books = books();
    create(&books, Kind::Cq, CQ);
    books.comp_event_got(CQ, CONTEXT, (ME, || OTHER), 1);
    assert!(books.event_acked(0, Some(CQ), AckMode::Protect).fault.is_some());
    assert_eq!(books.comp_events_acked(CQ, 1, AckMode::Protect).forward, 1);
}

#[test]
fn objects_first_seen_after_their_birth_are_left_alone() {
    let books = books();
    for _ in 0..2 {
        assert_eq!(ack(&books, SQ_DRAINED).forward, 1);
    }
    get(&books, SQ_DRAINED);
    for _ in 0..3 {
        let ack = ack(&books, SQ_DRAINED);
        assert_eq!((ack.forward, ack.fault), (1, None));
    }
    // So are those born on a context that was.
    books.context_adopted(0x2000, b"rxe1", 0);
    let ident = Ident::default();
    books.created(&Created { kind: Kind::Cq, address: CQ, context: 0x2000, ident, began: 0 });
    assert_eq!(books.comp_events_acked(CQ, 5, AckMode::Protect).forward, 5);
    assert_eq!(books.snapshot().acks.foreign, 2 + 3 + 5);
}

#[test]
fn after_a_destroy_acks_are_held_until_something_new_lives_there() {
    let books = with_qp();
    get(&books, SQ_DRAINED);
    assert_eq!(ack(&books, SQ_DRAINED).forward, 1);
    let destroying = books.destroy_begins(Kind::Qp, QP, ME, 2);
    books.destroy_ended(&destroying, Kind::Qp, CONTEXT, true, false);
    let late = ack(&books, SQ_DRAINED);
    assert_eq!((late.forward, late.fault), (0, Some(Fault::Destroyed { given: 1 })));
    create(&books, Kind::Qp, QP);
    get(&books, SQ_DRAINED);
    let own = ack(&books, SQ_DRAINED);
    assert_eq!((own.forward, own.fault), (1, None));
    assert!(!books.destroy_begins(Kind::Qp, QP, ME, 2).may_wait);
}

#[test]
fn a_refused_destroy_leaves_the_object_in_the_books() {
    let books = with_qp();
    for first in [true, false] {
        let destroying = books.destroy_begins(Kind::Qp, QP, ME, 2);
        let ended = books.destroy_ended(&destroying, Kind::Qp, CONTEXT, false, true);
        assert_eq!(ended.refused, first);
    }
    get(&books, SQ_DRAINED);
    assert_eq!(ack(&books, SQ_DRAINED).forward, 1);
    assert!(ack(&books, SQ_DRAINED).fault.is_some());
}

#[test]
fn acks_that_went_around_us_are_seen_at_the_destroy() {
    let books = with_qp();
    get(&books, SQ_DRAINED);
    // libibverbs has counted one although none went to it from here.
    let token = books.destroy_begins(Kind::Qp, QP, ME, 2).token;
    assert_eq!(books.drift(token, (1, 0)), (1, 0));
    books.acked_around(token, (1, 0));
    assert_eq!(books.rescue_event(token, None), None, "it may be acknowledged already");
    // It may have been another event: an ack that does come is passed on.
    assert_eq!(ack(&books, SQ_DRAINED).forward, 1);
    assert!(!books.destroy_begins(Kind::Qp, QP, ME, 2).may_wait);
}

#[test]
fn books_of_another_object_are_given_up() {
    let books = with_qp();
    for _ in 0..2 {
        get(&books, SQ_DRAINED);
        ack(&books, SQ_DRAINED);
    }
    get(&books, SQ_DRAINED);
    ack(&books, SQ_DRAINED);
    assert!(ack(&books, SQ_DRAINED).fault.is_some());
    // Three acks went to libibverbs from here, and it knows of one: it is not the same object.
    let token = books.destroy_begins(Kind::Qp, QP, ME, 2).token;
    assert_eq!(books.drift(token, (1, 0)), (-2, 0));
    books.disown(token, Kind::Qp);
    let open = books.open_now(token).unwrap();
    assert_eq!((open.events, open.held), (0, 1), "what is held may be needed");
    assert_eq!(ack(&books, SQ_DRAINED).forward, 1, "the rest passes");
}

/// Destroyed around us; an object of another kind was made around us at its address.
#[test]
fn an_event_is_about_an_object_of_its_kind() {
    let books = with_qp();
    books.event_got((CONTEXT, 5), 15, Some(QP), (8, || OTHER), 1);
    let srq = books.event_acked(15, Some(QP), AckMode::Protect);
    assert_eq!((srq.forward, srq.fault), (1, None));
}

#[test]
fn on_a_device_that_is_gone_everything_passes() {
    let books = with_qp();
    get(&books, SQ_DRAINED);
    assert!(books.removal_sign(CONTEXT, Sign::DeviceFatal));
    assert!(ack(&books, SQ_DRAINED).fault.is_none());
    assert!(ack(&books, SQ_DRAINED).fault.is_some(), "a device that failed may still wait for acks");
    assert!(books.removal_sign(CONTEXT, Sign::DestroyFailed));
    assert!(!books.removal_sign(CONTEXT, Sign::DestroyFailed), "each sign counts once");
    assert_eq!(ack(&books, SQ_DRAINED).forward, 1);
    let destroying = books.destroy_begins(Kind::Qp, QP, ME, 2);
    assert!(destroying.silent);
    // RDMAV_ALLOW_DISASSOC_DESTROY: destroyed without a wait; the memory is gone.
    books.destroy_ended(&destroying, Kind::Qp, CONTEXT, true, false);
    let late = ack(&books, SQ_DRAINED);
    assert_eq!((late.forward, late.fault), (0, None));
}

#[test]
fn a_rescued_event_swallows_one_late_ack() {
    let books = with_qp();
    get(&books, SQ_DRAINED);
    let destroying = books.destroy_begins(Kind::Qp, QP, ME, 2);
    assert_eq!(books.rescue_event(destroying.token, Some(ME)), None, "another thread took it");
    assert_eq!(books.rescue_event(destroying.token, None).unwrap().by, OTHER);
    assert_eq!(books.rescue_event(destroying.token, None), None);
    books.destroy_ended(&destroying, Kind::Qp, CONTEXT, true, false);
    let late = books.event_acked(SQ_DRAINED, Some(QP), AckMode::Rescue);
    assert_eq!((late.forward, late.fault), (0, None));
    assert!(books.event_acked(SQ_DRAINED, Some(QP), AckMode::Rescue).fault.is_some());
}

/// A device that is taken for gone and is not: what libibverbs alone would let finish finishes.
#[test]
fn an_early_ack_finds_its_event_on_a_device_that_seems_gone() {
    let books = with_qp();
    assert!(ack(&books, SQ_DRAINED).fault.is_some());
    books.removal_sign(CONTEXT, Sign::DestroyFailed);
    get(&books, SQ_DRAINED);
    let destroying = books.destroy_begins(Kind::Qp, QP, ME, 2);
    assert_eq!(destroying.handed.events, 1);
}

#[test]
fn one_command_that_failed_does_not_make_a_device_gone() {
    let books = with_qp();
    books.removal_sign(CONTEXT, Sign::CommandFailed);
    assert!(ack(&books, SQ_DRAINED).fault.is_some());
    books.removal_sign(CONTEXT, Sign::PollError);
    assert!(ack(&books, SQ_DRAINED).fault.is_none());
}

#[test]
fn what_fails_during_a_close_is_no_sign() {
    let books = with_qp();
    let closing = books.context_closing(CONTEXT);
    assert!(!books.removal_sign(CONTEXT, Sign::GetFailed));
    books.context_close_ended(closing, false);
    assert!(books.removal_sign(CONTEXT, Sign::GetFailed));
}

/// The event is read between the begin of a destroy and the moment when the kernel takes unread events back.
#[test]
fn an_event_read_during_the_destroy_is_looked_after() {
    let books = with_qp();
    let destroying = books.destroy_begins(Kind::Qp, QP, ME, 2);
    assert!(!destroying.may_wait);
    let got = books.event_got((CONTEXT, 5), SQ_DRAINED, Some(QP), (8, || OTHER), 3);
    assert!(got.look_after && got.token == destroying.token);
    assert_eq!(books.destroyer(got.token), Some((ME, 2)));
    assert!(books.look_after(got.token, Thread { tid: ME, ..Default::default() }, 9));
    let ended = books.destroy_ended(&destroying, Kind::Qp, CONTEXT, true, false);
    assert!(ended.was_watched && books.waits().next().is_none());
}

/// One step of a program, or of what goes on around it.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// An event is read through us, if the kernel still hands any out.
    Get,
    Ack,
    /// Read and acknowledged by a plug-in that the loader did not lead past us.
    GetAround,
    AckAround,
    /// The destroy begins. In the kernel the object goes at once; no event is handed out any more.
    Destroy,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Get),
        4 => Just(Step::Ack),
        1 => Just(Step::GetAround),
        1 => Just(Step::AckAround),
        1 => Just(Step::Destroy),
    ];
    prop::collection::vec(step, 0..24)
}

/// libibverbs's side of an object.
#[derive(Debug, Default)]
struct Real {
    reported: u32,
    completed: u32,
    /// Never more acks than events at the moment of a destroy's wait may be needed: it would hang for ever.
    destroying: Option<Token>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..Default::default() })]

    /// Whatever the order of reads, acks and the destroy: where libibverbs alone lets the program finish, so do we.
    #[test]
    fn the_program_finishes_whenever_libibverbs_alone_would_let_it(steps in steps(), completions: bool) {
        // One book for all cases, each with an object of its own: the block is large.
        static BOOKS: Ledger = Ledger::new();
        static CASES: AtomicUsize = AtomicUsize::new(0);
        let books = &BOOKS;
        let case = CASES.fetch_add(1, Relaxed);
        if case == 0 {
            books.context_opened(CONTEXT, b"rxe0", 0);
        }
        let address = 0x10_0000 + case * 0x100;
        let kind = if completions { Kind::Cq } else { Kind::Qp };
        create(books, kind, address);
        let mut real = Real::default();
        // What would have happened without us.
        let (mut reported, mut completed) = (0, 0);
        let number = |handed: Handed| handed.events + handed.completions;
        for step in steps.into_iter().chain([Step::Destroy]) {
            match step {
                Step::Get if real.destroying.is_none() => {
                    reported += 1;
                    real.reported += 1;
                    let got = match kind {
                        Kind::Cq => books.comp_event_got(address, CONTEXT, (ME, || OTHER), 1),
                        _ => books.event_got((CONTEXT, 5), SQ_DRAINED, Some(address), (8, || OTHER), 1),
                    };
                    real.completed += number(got.handed);
                }
                Step::Ack => {
                    completed += 1;
                    let ack = match kind {
                        Kind::Cq => books.comp_events_acked(address, 1, AckMode::Protect),
                        _ => books.event_acked(SQ_DRAINED, Some(address), AckMode::Protect),
                    };
                    real.completed += ack.forward + number(ack.handed);
                    if let Some(token) = real.destroying
                        && books.open_now(token).unwrap().held != 0
                    {
                        prop_assert!(ack.look_after || ack.forward != 0, "nobody looks after a held ack");
                    }
                }
                Step::GetAround if real.destroying.is_none() => {
                    reported += 1;
                    real.reported += 1;
                }
                Step::AckAround => {
                    completed += 1;
                    real.completed += 1;
                }
                Step::Destroy if real.destroying.is_none() => {
                    let destroying = books.destroy_begins(kind, address, ME, 2);
                    real.completed += number(destroying.handed);
                    real.destroying = Some(destroying.token);
                }
                Step::Get | Step::GetAround | Step::Destroy => {}
            }
        }
        let token = real.destroying.unwrap();
        // The watching thread, as long as the destroy waits.
        while real.completed != real.reported {
            let open = books.open_now(token).unwrap();
            let handed = match books.pair(token) {
                paired if number(paired) != 0 => paired,
                _ if open.events == 0 && open.completions == 0 => books.release_one(token),
                _ => Handed::default(),
            };
            if number(handed) == 0 {
                break;
            }
            real.completed += number(handed);
        }
        if completed == reported {
            prop_assert_eq!(real.completed, real.reported, "we make it hang");
        }
        let destroying = books.destroy_begins(kind, address, ME, 3);
        books.destroy_ended(&destroying, kind, CONTEXT, true, false);
        // And a program whose only fault is an ack too many finishes although it would not alone.
        let around = real.completed > real.reported;
        prop_assert!(!around || completed > reported, "we gave an ack too many: {:?}", real);
    }
}
