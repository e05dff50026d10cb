//! Arming, polling and waiting.

use super::*;

const CONTEXT: usize = 0x1000;
const CQ: usize = 0x2000;
const CHANNEL: usize = 0x3000;
const QP: usize = 0x4000;

/// A CQ with a channel and a QP with four receives posted, of which one came.
fn books(books: &'static Ledger) -> &'static Ledger {
    books.context_opened(CONTEXT, b"rxe0", 0);
    let ident = Ident { number: 17, handle: 1 };
    books.created(&Created { kind: Kind::Cq, address: CQ, context: CONTEXT, ident, began: 0 });
    books.cq_depth(CQ, 16, None);
    books.cq_has_channel(CQ, CHANNEL);
    books.created(&Created { kind: Kind::Qp, address: QP, context: CONTEXT, ident, began: 0 });
    books.qp_created(&NewQp {
        context: CONTEXT,
        ident,
        send_cq: CQ,
        recv_cq: CQ,
        ends_with_connection: false,
        connected: true,
    });
    let new =
        NewWork { context: CONTEXT, qp: QP, number: 17, send_cq: CQ, recv_cq: CQ, ..Default::default() };
    books.work_begins(&new);
    books.posted_receives(Kind::Qp, QP, 4);
    polled(books, 1, false);
    books
}

macro_rules! books {
    () => {{
        static BOOKS: Ledger = Ledger::new();
        books(&BOOKS)
    }};
}

fn polled(books: &Ledger, number: u32, is_full: bool) {
    let done = Done { opcode: 128, qp_num: 17 };
    books.polled(CQ, CONTEXT, (number, is_full), std::iter::repeat_n(done, number as usize));
}

fn lint(books: &Ledger) -> Option<Lint> {
    books.waits_badly(CHANNEL).map(|(lint, cq)| {
        assert_eq!(books.address_of(cq), Some((Kind::Cq, CQ)));
        lint
    })
}

#[test]
fn an_armed_cq_has_to_be_polled_before_the_wait() {
    let books = books!();
    assert_eq!(lint(books), None, "not armed");
    books.cq_armed(CQ, false);
    assert_eq!(lint(books), Some(Lint::ArmedWithoutPoll));
    assert_eq!(books.waits_badly(CHANNEL + 8), None, "another channel");
    books.polled_empty(CQ);
    assert_eq!(lint(books), None);
    // It is armed still: completions since then make an event.
    books.cq_armed(CQ, false);
    assert_eq!(lint(books), None);
    books.comp_event_got(CQ, CONTEXT, (7, Thread::default), 1);
    books.cq_armed(CQ, false);
    assert_eq!(lint(books), Some(Lint::ArmedWithoutPoll), "after the event it was armed anew");
}

#[test]
fn what_is_posted_after_arming_may_be_what_is_waited_for() {
    let books = books!();
    books.cq_armed(CQ, false);
    books.posted_receives(Kind::Qp, QP, 1);
    assert_eq!(lint(books), None);
}

#[test]
fn a_full_array_may_have_left_some() {
    let books = books!();
    books.cq_armed(CQ, false);
    polled(books, 2, true);
    assert_eq!(lint(books), Some(Lint::FullPoll));
    // The last one: nothing is left that could come.
    polled(books, 1, true);
    assert_eq!(lint(books), None);
}

#[test]
fn nothing_is_said_of_what_nobody_can_foresee() {
    let books = books!();
    books.cq_armed(CQ, true);
    assert_eq!(lint(books), None, "solicited completions only");
    books.cq_armed(CQ, false);
    assert_eq!(lint(books), Some(Lint::ArmedWithoutPoll));
    books.uncheck_cq(CQ, Unchecked::WrApi);
    assert_eq!(lint(books), None, "what is outstanding is not known");
}

#[test]
fn each_place_is_spoken_of_once_as_long_as_there_is_room() {
    let books = books!();
    for site in 1..=32 {
        assert!(books.is_first_at(site * 0x10, Lint::FullPoll));
        assert!(books.is_first_at(site * 0x10, Lint::ArmedWithoutPoll));
        assert!(!books.is_first_at(site * 0x10, Lint::FullPoll));
    }
    assert!(!books.is_first_at(0x9000, Lint::FullPoll), "no room");
}
