//! Verdicts on QPs whose completions failed.

use super::*;

const CONTEXT: usize = 0x1000;
const SEND_CQ: usize = 0x2000;
const RECV_CQ: usize = 0x3000;
const QP: usize = 0x4000;
const NUMBER: u32 = 17;
const SECOND: u64 = 1_000_000_000;

/// One context with a QP on two CQs.
fn books(ledger: &'static Ledger) -> &'static Ledger {
    ledger.context_opened(CONTEXT, b"rxe0", 0);
    for (kind, address, handle) in [(Kind::Cq, SEND_CQ, 1), (Kind::Cq, RECV_CQ, 2)] {
        let ident = Ident { number: 0, handle };
        ledger.created(&Created { kind, address, context: CONTEXT, ident, began: 0 });
    }
    create_qp(ledger);
    moves(ledger, RTR);
    ledger
}

/// `enum ibv_qp_state`.
const RESET: u32 = 0;
const RTR: u32 = 2;
const RTS: u32 = 3;
const ERR: u32 = 6;

/// The program moves the QP.
fn moves(ledger: &Ledger, to: u32) {
    ledger.qp_moved(&ledger.qp_moves(CONTEXT, NUMBER, to, 7, SECOND), true);
}

/// The program destroys a QP.
fn destroy(ledger: &Ledger, token: QpToken) {
    ledger.qp_destroyed(&ledger.qp_is_destroyed(token, 7, SECOND), true);
}

fn create_qp(ledger: &Ledger) -> QpToken {
    let ident = Ident { number: NUMBER, handle: 3 };
    ledger.created(&Created { kind: Kind::Qp, address: QP, context: CONTEXT, ident, began: 0 });
    ledger.qp_created(&NewQp {
        context: CONTEXT,
        ident,
        send_cq: SEND_CQ,
        recv_cq: RECV_CQ,
        ends_with_connection: false,
        connected: true,
    });
    ledger.qp_numbered(CONTEXT, NUMBER)
}

macro_rules! books {
    () => {{
        static BOOKS: Ledger = Ledger::new();
        books(&BOOKS)
    }};
}

fn fails(ledger: &Ledger, cq: usize, status: u32, wr_id: u64, at: u64) -> ToSay {
    let failure = Failure { status, vendor_err: 0x81, wr_id, at };
    ledger.completion_failed(&Failed {
        cq,
        context: CONTEXT,
        qp_num: Some(NUMBER),
        qp_goes_on: false,
        failure,
    })
}

/// The QP whose first failure is to be said.
fn first(said: ToSay) -> Option<QpToken> {
    match said {
        ToSay::FirstFailure(qp, _) => Some(qp),
        _ => None,
    }
}

fn flushed(ledger: &Ledger, cq: usize, at: u64) -> ToSay {
    fails(ledger, cq, 5, 100, at)
}

fn verdict(ledger: &Ledger) -> Verdict {
    let token = ledger.qp_numbered(CONTEXT, NUMBER);
    ledger.verdict(token).expect("the QP is in the books")
}

#[test]
fn the_first_failure_is_kept_and_the_rest_is_counted() {
    let books = books!();
    let token = books.qp_numbered(CONTEXT, NUMBER);
    assert_eq!(first(fails(books, SEND_CQ, 12, 7, 1)), Some(token));
    assert_eq!(fails(books, SEND_CQ, 10, 8, 2), ToSay::Nothing);
    for at in 3..130 {
        assert_eq!(flushed(books, RECV_CQ, at * SECOND), ToSay::Nothing);
    }
    let verdict = verdict(books);
    assert_eq!((verdict.failures, verdict.flushes, verdict.first_flush), (2, 127, 100));
    assert_eq!(verdict.cause, Cause::Failure(Failure { status: 12, vendor_err: 0x81, wr_id: 7, at: 1 }));
    assert_eq!(verdict.ident, Ident { number: NUMBER, handle: 3 });
    let device = &books.snapshot().devices[0];
    let expected =
        [("WR_FLUSH_ERR".to_string(), 127), ("REM_ACCESS_ERR".into(), 1), ("RETRY_EXC_ERR".into(), 1)];
    assert_eq!(device.statuses, expected);
    assert_eq!((device.traffic.failed, device.traffic.unattributed), (129, 0));
}

#[test]
fn the_failure_may_come_after_its_flushes_on_the_other_cq() {
    let books = books!();
    assert_eq!(flushed(books, RECV_CQ, SECOND), ToSay::Nothing);
    let Cause::Unknown(unseen) = verdict(books).cause else { panic!("a cause was made up") };
    assert_eq!(unseen.other_cq, Some(1));
    assert!(matches!(fails(books, SEND_CQ, 13, 9, 2 * SECOND), ToSay::FirstFailure(..)));
    assert!(!books.qp_ends(books.qp_numbered(CONTEXT, NUMBER)), "all has been said");
    assert!(matches!(verdict(books).cause, Cause::Failure(_)));
}

#[test]
fn flushes_alone_are_spoken_of_once_and_not_too_early() {
    let books = books!();
    let token = books.qp_numbered(CONTEXT, NUMBER);
    assert_eq!(flushed(books, RECV_CQ, SECOND), ToSay::Nothing);
    assert_eq!(flushed(books, RECV_CQ, 3 * SECOND - 1), ToSay::Nothing);
    assert_eq!(flushed(books, RECV_CQ, 3 * SECOND), ToSay::FlushedAlone(token));
    assert_eq!(flushed(books, RECV_CQ, 4 * SECOND), ToSay::Nothing);
    assert!(!books.qp_ends(token));
    // A failure is still worth a line.
    assert_eq!(first(fails(books, SEND_CQ, 12, 1, 5 * SECOND)), Some(token));
}

#[test]
fn a_qp_that_ends_with_flushes_alone_is_spoken_of() {
    let books = books!();
    let token = books.qp_numbered(CONTEXT, NUMBER);
    assert!(!books.qp_ends(token), "nothing happened");
    flushed(books, RECV_CQ, SECOND);
    assert!(books.qp_ends(token));
    assert!(!books.qp_ends(token), "once");
}

#[test]
fn the_programs_own_move_is_the_reason_for_flushes_after_it() {
    let books = books!();
    let token = books.qp_numbered(CONTEXT, NUMBER);
    let moving = books.qp_moves(CONTEXT, NUMBER, 6, 7, SECOND);
    // Polled by another thread before the call returns.
    flushed(books, RECV_CQ, SECOND);
    books.qp_moved(&moving, true);
    assert!(matches!(verdict(books).cause, Cause::Moved { to: 6, .. }));
    assert_eq!(flushed(books, RECV_CQ, 9 * SECOND), ToSay::Nothing);
    assert!(!books.qp_ends(token));
    // What failed before the move and was polled after it is the reason all the same.
    assert_eq!(first(fails(books, SEND_CQ, 12, 1, 9 * SECOND)), Some(token));
}

#[test]
fn a_move_that_failed_or_came_later_is_no_reason() {
    let books = books!();
    let moving = books.qp_moves(CONTEXT, NUMBER, 6, 7, SECOND);
    books.qp_moved(&moving, false);
    flushed(books, RECV_CQ, SECOND);
    assert!(matches!(verdict(books).cause, Cause::Unknown(_)));
    // The program has seen the flush and gives up: in the same tick of the clock.
    let moving = books.qp_moves(CONTEXT, NUMBER, 6, 7, SECOND);
    books.qp_moved(&moving, true);
    assert!(matches!(verdict(books).cause, Cause::Unknown(_)));
    // Other states are none.
    books.qp_moves(CONTEXT, NUMBER, 4, 7, SECOND);
    assert!(matches!(verdict(books).cause, Cause::Unknown(_)));
}

#[test]
fn a_reset_begins_again() {
    let books = books!();
    let token = books.qp_numbered(CONTEXT, NUMBER);
    fails(books, SEND_CQ, 12, 1, SECOND);
    flushed(books, SEND_CQ, SECOND);
    let moving = books.qp_moves(CONTEXT, NUMBER, 0, 7, 2 * SECOND);
    books.qp_moved(&moving, true);
    let after = verdict(books);
    assert_eq!((after.failures, after.flushes), (0, 0));
    // A flush of before lies in the CQ still.
    flushed(books, RECV_CQ, 3 * SECOND);
    assert!(matches!(verdict(books).cause, Cause::Moved { to: 0, .. }));
    assert!(!books.qp_ends(token));
    assert_eq!(first(fails(books, SEND_CQ, 13, 2, 4 * SECOND)), Some(token));
    // The sums of the device know of all.
    assert_eq!(books.snapshot().devices[0].traffic.failed, 4);
}

#[test]
fn an_event_of_the_qp_is_a_reason() {
    let books = books!();
    let token = books.qp_numbered(CONTEXT, NUMBER);
    flushed(books, RECV_CQ, SECOND);
    books.qp_event(CONTEXT, NUMBER, 3, 8, SECOND);
    let Cause::Event(event) = verdict(books).cause else { panic!("the event was not seen") };
    assert_eq!((event.event_type, event.by.tid), (3, 8));
    assert!(books.qp_ends(token), "an event alone says too little");
}

#[test]
fn an_event_before_the_programs_own_move_is_the_reason() {
    let books = books!();
    // The reader gives the QP up at once: in the same tick of the clock.
    books.qp_event(CONTEXT, NUMBER, 2, 8, SECOND);
    let moving = books.qp_moves(CONTEXT, NUMBER, 6, 8, SECOND);
    books.qp_moved(&moving, true);
    flushed(books, RECV_CQ, SECOND);
    assert!(matches!(verdict(books).cause, Cause::Event(_)));
}

#[test]
fn a_qp_that_is_used_again_after_reset_has_no_excuse() {
    let books = books!();
    moves(books, RESET);
    // Of its life before.
    flushed(books, RECV_CQ, SECOND);
    assert!(matches!(verdict(books).cause, Cause::Moved { to: 0, .. }));
    moves(books, RTR);
    flushed(books, RECV_CQ, 2 * SECOND);
    let found = verdict(books);
    assert!(matches!(found.cause, Cause::Unknown(_)) && found.flushes == 1, "{found:?}");
    assert!(books.qp_ends(books.qp_numbered(CONTEXT, NUMBER)));
    // An excuse that holds.
    moves(books, ERR);
    moves(books, RESET);
    moves(books, RTR);
    moves(books, ERR);
    flushed(books, RECV_CQ, 3 * SECOND);
    assert!(matches!(verdict(books).cause, Cause::Moved { to: 6, .. }));
}

#[test]
fn a_device_that_is_gone_needs_no_other_reason() {
    let books = books!();
    books.removal_sign(CONTEXT, Sign::GetFailed);
    flushed(books, RECV_CQ, SECOND);
    assert_eq!(verdict(books).cause, Cause::DeviceGone);
    assert!(!books.qp_ends(books.qp_numbered(CONTEXT, NUMBER)));
}

#[test]
fn nothing_is_concluded_from_a_number_after_destroy() {
    let books = books!();
    let token = books.qp_numbered(CONTEXT, NUMBER);
    let destroying = books.qp_is_destroyed(token, 7, SECOND);
    books.qp_destroyed(&destroying, true);
    assert_eq!(fails(books, SEND_CQ, 12, 1, SECOND), ToSay::Nothing);
    // The number serves another QP, and completions of the first one lie in the CQ still.
    let second = create_qp(books);
    books.qp_destroyed(&destroying, true);
    assert_eq!(fails(books, SEND_CQ, 12, 1, SECOND), ToSay::Nothing);
    assert_eq!(flushed(books, SEND_CQ, SECOND), ToSay::Nothing);
    let device = &books.snapshot().devices[0];
    assert_eq!((device.traffic.failed, device.traffic.unattributed), (3, 3));
    moves(books, RTR);
    assert_eq!(first(fails(books, SEND_CQ, 12, 1, SECOND)), Some(second));
}

#[test]
fn a_qp_of_which_the_birth_was_not_seen_has_a_verdict_but_no_line_for_flushes() {
    let books = books!();
    let failure = Failure { status: 12, vendor_err: 0, wr_id: 1, at: SECOND };
    let other = Failed { cq: SEND_CQ, context: CONTEXT, qp_num: Some(99), qp_goes_on: false, failure };
    let ToSay::FirstFailure(token, _) = books.completion_failed(&other) else { panic!("it was left out") };
    let verdict = books.verdict(token).unwrap();
    assert!(!verdict.born && verdict.ident.number == 99);
    // Nor does anybody know more of it when its context is closed.
    destroy(books, token);
    let verdict = books.verdict(token).unwrap();
    assert!(!verdict.born && verdict.destroyed);
    let Cause::Failure(_) = verdict.cause else { panic!("{verdict:?}") };
    let flush = Failure { status: 5, ..failure };
    let third = Failed { qp_num: Some(98), qp_goes_on: false, failure: flush, ..other };
    assert_eq!(books.completion_failed(&third), ToSay::Nothing);
    assert!(!books.qp_ends(books.qp_numbered(CONTEXT, 98)));
    // Of a context that is not in the books nothing is known.
    let nowhere = Failed { context: 0x9000, ..third };
    assert_eq!(books.completion_failed(&nowhere), ToSay::Nothing);
}

/// With iWARP the end of a connection flushes what is posted: the usual end of things.
#[test]
fn the_end_of_a_connection_is_no_news() {
    let books = books!();
    let ident = Ident { number: 20, handle: 4 };
    let new = NewQp {
        context: CONTEXT,
        ident,
        send_cq: SEND_CQ,
        recv_cq: RECV_CQ,
        ends_with_connection: true,
        connected: true,
    };
    books.qp_created(&new);
    let token = books.qp_numbered(CONTEXT, 20);
    let failure = Failure { status: 5, vendor_err: 0, wr_id: 1, at: SECOND };
    let flush = Failed { cq: RECV_CQ, context: CONTEXT, qp_num: Some(20), qp_goes_on: false, failure };
    assert_eq!(books.completion_failed(&flush), ToSay::Nothing);
    let late = Failed { failure: Failure { at: 9 * SECOND, ..failure }, ..flush };
    assert_eq!(books.completion_failed(&late), ToSay::Nothing);
    assert!(!books.qp_ends(token));
    let Cause::Unknown(unseen) = books.verdict(token).unwrap().cause else { panic!("a cause was made up") };
    assert!(unseen.connection_ended);
}

#[test]
fn statuses_of_tag_matching_leave_the_qp_alone() {
    let books = books!();
    assert_eq!(fails(books, SEND_CQ, 23, 1, SECOND), ToSay::Nothing);
    assert_eq!(fails(books, SEND_CQ, 22, 1, SECOND), ToSay::Nothing);
    assert_eq!((verdict(books).failures, books.snapshot().devices[0].traffic.failed), (0, 2));
}

#[test]
fn the_peer_is_what_the_program_connected_to() {
    let books = books!();
    assert_eq!(verdict(books).peer, None);
    books.qp_peer_is(CONTEXT, NUMBER, Some(18), None);
    assert_eq!(verdict(books).peer, Some(Peer { number: Some(18), address: None }));
    let gid = std::array::from_fn(|i| i as u8);
    books.qp_peer_is(CONTEXT, NUMBER, None, Some(Address::Gid(gid)));
    assert_eq!(verdict(books).peer, Some(Peer { number: Some(18), address: Some(Address::Gid(gid)) }));
    books.qp_peer_is(CONTEXT, NUMBER, Some(0), Some(Address::Lid(5)));
    assert_eq!(verdict(books).peer, Some(Peer { number: Some(0), address: Some(Address::Lid(5)) }));
}

#[test]
fn verdicts_whose_places_were_used_again_are_counted() {
    const QPS: u64 = 5000;
    let books = books!();
    for number in 0..QPS as u32 {
        let ident = Ident { number: 100 + number, handle: number };
        books.qp_created(&NewQp {
            context: CONTEXT,
            ident,
            send_cq: SEND_CQ,
            recv_cq: RECV_CQ,
            ends_with_connection: false,
            connected: true,
        });
        let failure = Failure { status: 12, vendor_err: 0, wr_id: 1, at: SECOND };
        let qp_num = Some(ident.number);
        books.completion_failed(&Failed {
            cq: SEND_CQ,
            context: CONTEXT,
            qp_num,
            qp_goes_on: false,
            failure,
        });
        destroy(books, books.qp_numbered(CONTEXT, ident.number));
    }
    let context = &books.snapshot().contexts[0];
    assert_eq!(context.verdicts.len() as u64 + context.verdicts_left_out, QPS);
}

#[test]
fn all_qps_of_a_context_end_with_it() {
    let books = books!();
    flushed(books, RECV_CQ, SECOND);
    assert_eq!(books.qps_of(Some(CONTEXT)).count(), 1);
    assert_eq!(books.qps_of(Some(0x9000)).count(), 0);
    let closing = books.context_closing(CONTEXT);
    books.context_close_ended(closing, true);
    assert_eq!(books.qps_of(None).count(), 0);
    let context = &books.snapshot().contexts[0];
    assert!(context.verdicts.len() == 1 && context.verdicts[0].destroyed, "{context:?}");
}

/// Many threads find failures of one QP at once: one of them is the first.
#[test]
fn one_failure_is_the_first() {
    let books = books!();
    let said: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                scope.spawn(move || {
                    let said = |n| {
                        matches!(fails(books, SEND_CQ, 12, thread * 1000 + n, 1), ToSay::FirstFailure(..))
                    };
                    (0..1000).filter(|n| said(*n)).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((said, verdict(books).failures), (1, 8000));
}

#[test]
fn a_second_move_does_not_rewrite_the_first() {
    let books = books!();
    books.qp_moved(&books.qp_moves(CONTEXT, NUMBER, ERR, 7, SECOND), true);
    flushed(books, RECV_CQ, 2 * SECOND);
    books.qp_event(CONTEXT, NUMBER, 3, 8, 3 * SECOND);
    books.qp_moved(&books.qp_moves(CONTEXT, NUMBER, ERR, 9, 4 * SECOND), true);
    let Cause::Moved { to: ERR, by, at } = verdict(books).cause else { panic!("{:?}", verdict(books)) };
    assert_eq!((by.tid, at), (7, SECOND));
}

/// What was not made ready through us may have been ended around us.
#[test]
fn a_qp_that_others_made_ready_is_not_spoken_of() {
    let books = books!();
    let ident = Ident { number: 30, handle: 5 };
    books.qp_created(&NewQp {
        context: CONTEXT,
        ident,
        send_cq: SEND_CQ,
        recv_cq: RECV_CQ,
        ends_with_connection: false,
        connected: true,
    });
    let failure = Failure { status: 5, vendor_err: 0, wr_id: 1, at: SECOND };
    let flush = Failed { cq: RECV_CQ, context: CONTEXT, qp_num: Some(30), qp_goes_on: false, failure };
    assert_eq!(books.completion_failed(&flush), ToSay::Nothing);
    assert!(!books.qp_ends(books.qp_numbered(CONTEXT, 30)));
}

/// EFA's flow control.
#[test]
fn a_failure_that_leaves_its_qp_alone_is_only_counted() {
    let books = books!();
    let failure = Failure { status: 13, vendor_err: 0, wr_id: 1, at: SECOND };
    let failed = Failed { cq: SEND_CQ, context: CONTEXT, qp_num: Some(NUMBER), qp_goes_on: true, failure };
    assert_eq!(books.completion_failed(&failed), ToSay::Nothing);
    assert_eq!(verdict(books).failures, 0);
    let device = &books.snapshot().devices[0];
    assert_eq!((device.traffic.failed, device.traffic.unattributed), (1, 0));
}

/// A UD QP waits in SQE until the program moves it on.
#[test]
fn a_qp_that_works_again_begins_again() {
    let books = books!();
    books.qp_peer_is(CONTEXT, NUMBER, Some(18), None);
    assert!(first(fails(books, SEND_CQ, 2, 1, SECOND)).is_some());
    moves(books, RTS);
    assert_eq!((verdict(books).failures, verdict(books).peer.is_some()), (0, true));
    assert!(first(fails(books, SEND_CQ, 2, 2, 2 * SECOND)).is_some());
    moves(books, RTS);
    moves(books, ERR);
    flushed(books, SEND_CQ, 3 * SECOND);
    assert!(matches!(verdict(books).cause, Cause::Moved { to: 6, .. }));
    // What was is not forgotten.
    let context = &books.snapshot().contexts[0];
    assert_eq!((context.verdicts.len(), context.verdicts_left_out), (1, 2));
}

/// mlx5 gives the number of a WQ, or of a raw packet queue, where a QP's is expected.
#[test]
fn a_completion_of_a_cq_that_is_not_the_qps_is_of_another() {
    let books = books!();
    assert_eq!(fails(books, 0x5000, 12, 1, SECOND), ToSay::Nothing);
    assert_eq!(verdict(books).failures, 0);
    assert_eq!(books.snapshot().devices[0].traffic.unattributed, 1);
}

#[test]
fn what_is_flushed_during_a_destroy_is_flushed_because_of_it() {
    let books = books!();
    let token = books.qp_numbered(CONTEXT, NUMBER);
    let destroying = books.qp_is_destroyed(token, 7, SECOND);
    flushed(books, RECV_CQ, SECOND);
    assert_eq!(flushed(books, RECV_CQ, 9 * SECOND), ToSay::Nothing);
    assert!(matches!(verdict(books).cause, Cause::Moved { to: 7, .. }));
    // Refused: it lives on, and what comes later has other reasons.
    books.qp_destroyed(&destroying, false);
    moves(books, RTS);
    flushed(books, RECV_CQ, 10 * SECOND);
    assert!(matches!(verdict(books).cause, Cause::Unknown(_)));
}

/// A plain CQ on which QPs come and go has completions of those that are gone: that says nothing of the others.
#[test]
fn only_completions_without_a_number_could_be_anybodys() {
    let books = books!();
    let failure = Failure { status: 5, vendor_err: 0, wr_id: 1, at: SECOND };
    let nameless = Failed { cq: RECV_CQ, context: CONTEXT, qp_num: None, qp_goes_on: false, failure };
    let gone = books.qp_numbered(CONTEXT, NUMBER);
    destroy(books, gone);
    flushed(books, RECV_CQ, SECOND);
    create_qp(books);
    moves(books, RTR);
    flushed(books, RECV_CQ, SECOND);
    let unseen = || match verdict(books).cause {
        Cause::Unknown(unseen) => unseen.unattributed,
        cause => panic!("{cause:?}"),
    };
    assert_eq!(unseen(), 0);
    books.completion_failed(&nameless);
    assert_eq!(unseen(), 1);
}
