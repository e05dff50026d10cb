//! Headroom of CQs.

use super::*;

const CONTEXT: usize = 0x1000;
const CQ: usize = 0x2000;
const SRQ: usize = 0x3000;
const DEPTH: u32 = 8;
const SEND: u32 = 0;
const RECV: u32 = 128;

fn qp_address(number: u32) -> usize {
    0x10_0000 + number as usize * 0x100
}

fn create_cq(books: &Ledger, cq: usize) {
    let ident = Ident { number: 0, handle: 1 };
    books.created(&Created { kind: Kind::Cq, address: cq, context: CONTEXT, ident, began: 0 });
    books.cq_depth(cq, DEPTH, None);
}

fn create_srq(books: &Ledger) {
    let ident = Ident { number: 0, handle: 2 };
    books.created(&Created { kind: Kind::Srq, address: SRQ, context: CONTEXT, ident, began: 0 });
    books.srq_begins(SRQ, 0);
}

fn new_work(number: u32) -> NewWork {
    let (qp, all_signalled) = (qp_address(number), false);
    NewWork { context: CONTEXT, qp, number, send_cq: CQ, recv_cq: CQ, all_signalled, ..Default::default() }
}

fn create_qp(books: &Ledger, new: &NewWork) {
    let (context, ident) = (new.context, Ident { number: new.number, handle: 3 });
    books.created(&Created { kind: Kind::Qp, address: new.qp, context, ident, began: 0 });
    books.qp_created(&NewQp {
        context,
        ident,
        send_cq: new.send_cq,
        recv_cq: new.recv_cq,
        ends_with_connection: false,
        connected: true,
    });
    books.work_begins(new);
}

fn destroy_qp(books: &Ledger, number: u32) {
    destroy_qp_of(books, CONTEXT, number);
}

fn destroy_qp_of(books: &Ledger, context: usize, number: u32) {
    let mut destroying = books.destroy_begins(Kind::Qp, qp_address(number), 7, 1);
    destroying.moving = books.qp_is_destroyed(books.qp_numbered(context, number), 7, 1);
    books.qp_destroyed(&destroying.moving, true);
    books.destroy_ended(&destroying, Kind::Qp, context, true, false);
}

macro_rules! books {
    () => {{
        static BOOKS: Ledger = Ledger::new();
        BOOKS.context_opened(CONTEXT, b"rxe0", 0);
        create_cq(&BOOKS, CQ);
        &BOOKS
    }};
}

fn sends(books: &Ledger, number: u32, signalled: bool, times: u32) -> Option<Token> {
    let mut posted = Posted::default();
    (0..times).for_each(|_| posted.push(signalled));
    books.posted_sends(qp_address(number), posted)
}

fn receives(books: &Ledger, number: u32, times: u32) -> Option<Token> {
    books.posted_receives(Kind::Qp, qp_address(number), times)
}

fn done(books: &Ledger, cq: usize, qp_num: u32, opcode: u32, times: u32) {
    books.polled(cq, CONTEXT, (times, false), std::iter::repeat_n(Done { opcode, qp_num }, times as usize));
}

fn headroom(books: &Ledger) -> Headroom {
    headroom_of(books, CQ)
}

fn headroom_of(books: &Ledger, cq: usize) -> Headroom {
    books.cq_line(cq).expect("the CQ is in the books").headroom.expect("it has a book")
}

fn why(books: &Ledger) -> Vec<Unchecked> {
    headroom(books).unchecked
}

#[test]
fn a_line_is_due_when_more_is_outstanding_than_fits_and_only_once() {
    let books = books!();
    create_qp(books, &new_work(17));
    assert_eq!(receives(books, 17, 6), None);
    assert_eq!(sends(books, 17, true, 2), None, "a full CQ is no overrun");
    let token = sends(books, 17, false, 1).expect("it may be overrun");
    assert_eq!(books.address_of(token), Some((Kind::Cq, CQ)));
    assert_eq!(sends(books, 17, true, 1), None);
    let expected =
        Headroom { depth: DEPTH, mark: 10, outstanding: Some(10), exceeded: true, unchecked: vec![] };
    assert_eq!(headroom(books), expected);
    done(books, CQ, 17, RECV, 6);
    done(books, CQ, 17, SEND, 2);
    assert_eq!(headroom(books).outstanding, Some(2));
    done(books, CQ, 17, SEND, 1);
    assert_eq!(headroom(books).outstanding, Some(0));
}

#[test]
fn a_correct_program_is_never_spoken_of() {
    let books = books!();
    create_qp(books, &new_work(17));
    create_qp(books, &new_work(18));
    for round in 0..10_000 {
        for number in [17, 18] {
            assert_eq!(receives(books, number, 2), None, "{round}");
            assert_eq!(sends(books, number, round % 3 == 0, 1), None, "{round}");
            assert_eq!(sends(books, number, true, 1), None, "{round}");
        }
        for number in [18, 17] {
            done(books, CQ, number, SEND, 1 + u32::from(round % 3 == 0));
            done(books, CQ, number, RECV, 2);
        }
        assert_eq!(headroom(books).outstanding, Some(0), "{round}");
    }
    assert_eq!((headroom(books).mark, why(books)), (8, vec![]));
}

#[test]
fn reset_and_destroy_take_completions_away() {
    let books = books!();
    create_qp(books, &new_work(17));
    create_qp(books, &new_work(18));
    receives(books, 17, 4);
    sends(books, 17, false, 4);
    let moving = books.qp_moves(CONTEXT, 17, 0, 7, 1);
    books.qp_moved(&moving, true);
    assert_eq!(headroom(books).outstanding, Some(0));
    receives(books, 17, 4);
    receives(books, 18, 4);
    destroy_qp(books, 17);
    assert_eq!(headroom(books).outstanding, Some(4));
    done(books, CQ, 17, RECV, 4);
    assert_eq!(headroom(books).outstanding, Some(4), "the completions of a QP that is gone retire nothing");
    create_qp(books, &new_work(17));
    assert_eq!(receives(books, 17, 4), None);
    assert_eq!((headroom(books).outstanding, why(books)), (Some(8), vec![]));
}

#[test]
fn a_qp_that_failed_is_not_followed() {
    let books = books!();
    create_qp(books, &new_work(17));
    receives(books, 17, 8);
    let failure = Failure { status: 5, ..Default::default() };
    books.completion_failed(&Failed {
        cq: CQ,
        context: CONTEXT,
        qp_num: Some(17),
        qp_goes_on: false,
        failure,
    });
    assert_eq!(why(books), [], "nothing was posted since");
    assert_eq!(receives(books, 17, 8), None);
    assert_eq!((headroom(books).mark, why(books)), (8, vec![Unchecked::QpFailed]));
    destroy_qp(books, 17);
    create_qp(books, &new_work(18));
    assert!(receives(books, 18, 9).is_some(), "others are");
}

#[test]
fn a_qp_that_is_moved_to_err_is_not_followed() {
    let books = books!();
    create_qp(books, &new_work(17));
    let moving = books.qp_moves(CONTEXT, 17, 6, 7, 1);
    books.qp_moved(&moving, true);
    assert_eq!(receives(books, 17, 9), None);
    assert_eq!(why(books), [Unchecked::QpFailed]);
}

#[test]
fn receives_of_an_srq_complete_on_any_of_its_qps() {
    let books = books!();
    create_srq(books);
    let on_srq = |number| NewWork { srq: SRQ, ..new_work(number) };
    create_qp(books, &on_srq(17));
    create_qp(books, &on_srq(18));
    assert_eq!(books.posted_receives(Kind::Srq, SRQ, 6), None);
    done(books, CQ, 17, RECV, 1);
    done(books, CQ, 18, RECV, 3);
    assert_eq!(headroom(books).outstanding, Some(2));
    assert_eq!(sends(books, 17, true, 6), None);
    assert!(books.posted_receives(Kind::Srq, SRQ, 1).is_some());
    destroy_qp(books, 18);
    assert_eq!(why(books), [], "it may have been the end of all");
    books.posted_receives(Kind::Srq, SRQ, 1);
    assert_eq!(why(books), [Unchecked::SrqUserEnded]);
}

#[test]
fn an_srq_whose_qps_complete_to_two_cqs_is_not_checked() {
    let books = books!();
    create_srq(books);
    create_cq(books, 0x2800);
    create_qp(books, &NewWork { srq: SRQ, ..new_work(17) });
    create_qp(books, &NewWork { srq: SRQ, recv_cq: 0x2800, ..new_work(18) });
    assert_eq!(books.posted_receives(Kind::Srq, SRQ, 100), None);
    assert_eq!(why(books), [Unchecked::SharedSrq]);
    assert_eq!(headroom_of(books, 0x2800).unchecked, [Unchecked::SharedSrq]);
}

#[test]
fn what_was_not_seen_is_not_checked() {
    let books = books!();
    create_qp(books, &new_work(17));
    done(books, CQ, 99, SEND, 1);
    assert_eq!(receives(books, 17, 100), None);
    assert_eq!(why(books), [Unchecked::OtherQp]);
    done(books, 0x9000, 17, SEND, 1);
    assert_eq!(headroom_of(books, 0x9000).unchecked, [Unchecked::Unseen]);
    books.uncheck_qp(qp_address(17), Unchecked::BindMw);
    assert_eq!(why(books), [Unchecked::OtherQp, Unchecked::BindMw]);
}

#[test]
fn a_cq_that_is_polled_elsewhere_is_left_alone() {
    let books = books!();
    create_qp(books, &new_work(17));
    books.comp_event_got(CQ, CONTEXT, (7, Thread::default), 1);
    assert_eq!(receives(books, 17, 100), None);
    assert_eq!(why(books), [Unchecked::PolledElsewhere]);
}

#[test]
fn a_resized_cq_has_another_depth() {
    let books = books!();
    create_qp(books, &new_work(17));
    books.cq_depth(CQ, 16, None);
    assert_eq!(receives(books, 17, 16), None);
    books.cq_depth(CQ, 15, None);
    assert!(receives(books, 17, 1).is_some());
}

/// More queues than a CQ lists.
#[test]
fn many_queues_share_what_is_left() {
    let books = books!();
    books.cq_depth(CQ, 1000, None);
    for number in 0..100 {
        create_qp(books, &new_work(number));
    }
    for round in 0..10 {
        for number in 0..100 {
            assert_eq!(receives(books, number, 1), None, "{round}");
        }
    }
    assert_eq!(headroom(books).outstanding, Some(1000));
    for number in 0..50 {
        done(books, CQ, number, RECV, 10);
    }
    for number in 50..100 {
        for _ in 0..10 {
            assert_eq!(receives(books, number, 1), None);
        }
    }
    assert!(receives(books, 0, 1).is_some(), "the first too many is seen");
    for number in 0..90 {
        destroy_qp(books, number);
    }
    assert_eq!(headroom(books).outstanding, Some(200));
}

#[test]
fn the_line_names_the_qps() {
    let books = books!();
    for number in 1..=11 {
        create_qp(books, &new_work(number));
    }
    let line = books.cq_line(CQ).expect("it is in the books");
    assert_eq!((line.qps.len(), line.more), (8, 3));
    assert_eq!(line.name.ident, Some(Ident { number: 0, handle: 1 }));
}

/// A context was closed with its QPs: the CQ that gets the book of theirs must not inherit them.
#[test]
fn qps_that_were_left_behind_are_nobodys() {
    let books = books!();
    for number in 0..9 {
        create_qp(books, &new_work(number));
        receives(books, number, 1);
    }
    assert_eq!(headroom(books).outstanding, Some(9), "so many queues are looked for");
    books.cq_ends(books.live_object(Kind::Cq, CQ).expect("it is there"));
    assert_eq!(headroom(books).outstanding, Some(0));
}
