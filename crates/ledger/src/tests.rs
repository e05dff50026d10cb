//! Contexts, objects and sums. Acks: `tests/acks.rs`; all interleavings of a few steps: `tests_loom.rs`.

use super::*;

/// Books of one test. They are large: not on its stack.
macro_rules! books {
    () => {{
        static BOOKS: Ledger = Ledger::new();
        &BOOKS
    }};
}

const ME: Thread = Thread { tid: 7, name: *b"reader\0\0\0\0\0\0\0\0\0\0" };

fn created(books: &Ledger, kind: Kind, address: usize, context: usize) {
    let ident = Ident { number: address as u32, handle: 3 };
    books.created(&Created { kind, address, context, ident, began: 0 });
}

/// A poll returned so many completions, some of them failed, of a QP that nobody can tell.
fn polled(books: &Ledger, (cq, context): (usize, usize), number: u32, failed: u32) {
    let good = Done { opcode: 0, qp_num: 1 };
    books.polled(cq, context, (number, false), std::iter::repeat_n(good, (number - failed) as usize));
    for _ in 0..failed {
        let failure = Failure { status: 12, ..Default::default() };
        books.completion_failed(&Failed { cq, context, qp_num: None, qp_goes_on: false, failure });
    }
}

fn destroyed(books: &Ledger, kind: Kind, address: usize, context: usize) {
    let destroying = books.destroy_begins(kind, address, 7, 1);
    books.destroy_ended(&destroying, kind, context, true, false);
}

#[test]
fn threads_that_poll_their_own_cqs_share_no_line() {
    assert_eq!(align_of::<traffic::TrafficCounts>(), 64);
    assert_eq!(size_of::<traffic::TrafficCounts>(), 64);
    assert_eq!((align_of::<cq_book::CqBook>(), size_of::<cq_book::CqBook>() % 64), (64, 0));
    assert_eq!((align_of::<room::Room>(), size_of::<room::Room>(), size_of::<room::Members>()), (64, 64, 64));
    assert_eq!((align_of::<work::Sends>(), size_of::<work::Sends>()), (64, 128));
    assert_eq!(
        (align_of::<work::Work>(), size_of::<work::Work>()),
        (64, 384),
        "each writer has its own lines"
    );
    assert_eq!((align_of::<Qp>(), size_of::<Qp>() % 64), (64, 0));
    assert_eq!(size_of::<Object>() % 64, 0);
}

#[test]
fn the_block_has_the_size_that_is_promised() {
    assert!(size_of::<Ledger>() < 24 << 20, "{}", size_of::<Ledger>());
}

#[test]
fn counts_stay_with_the_device_after_destroy_and_close() {
    let books = books!();
    books.context_opened(0x1000, b"rxe0", 0);
    created(books, Kind::Cq, 0x2000, 0x1000);
    polled(books, (0x2000, 0x1000), 16, 3);
    books.comp_event_got(0x2000, 0x1000, (7, || ME), 1);
    books.comp_events_acked(0x2000, 1, AckMode::Protect);
    destroyed(books, Kind::Cq, 0x2000, 0x1000);
    polled(books, (0x3000, 0x1000), 4, 0);
    books.event_got((0x1000, 5), 10, None, (7, || ME), 1);
    books.event_acked(10, None, AckMode::Protect);
    let closing = books.context_closing(0x1000);
    books.context_close_ended(closing, true);

    let snapshot = books.snapshot();
    assert_eq!(snapshot.devices.len(), 1);
    let device = &snapshot.devices[0];
    assert_eq!(device.name.as_deref(), Some("rxe0"));
    assert_eq!((device.opened, device.closed, device.adopted), (1, 1, 0));
    assert_eq!(
        device.traffic,
        Traffic {
            polled: 20,
            failed: 3,
            unattributed: 3,
            events_got: 1,
            events_acked: 1,
            ..Default::default()
        }
    );
    assert_eq!(device.objects[Kind::Cq as usize], Lifetimes { created: 1, destroyed: 1 });
    assert_eq!(device.async_events, [("PORT_ERR".to_string(), 1)]);
    assert_eq!(snapshot.async_acks, [("PORT_ERR".to_string(), 1)]);
    assert!(snapshot.contexts[0].closed && !snapshot.contexts[0].gone);
}

#[test]
fn a_close_that_fails_leaves_the_context_open() {
    let books = books!();
    books.context_opened(0x1000, b"rxe0", 0);
    created(books, Kind::Qp, 0x2000, 0x1000);
    let closing = books.context_closing(0x1000);
    books.context_close_ended(closing, false);
    assert!(books.knows_context(0x1000));
    assert!(books.live_object(Kind::Qp, 0x2000).is_some());
    assert_eq!(books.snapshot().devices[0].closed, 0);
}

#[test]
fn a_close_buries_the_objects_of_its_context_only() {
    let books = books!();
    for context in [0x1000, 0x2000] {
        books.context_opened(context, b"rxe0", 0);
        created(books, Kind::Qp, context + 0x100, context);
    }
    let closing = books.context_closing(0x1000);
    books.context_close_ended(closing, true);
    assert!(books.live_object(Kind::Qp, 0x1100).is_none());
    assert!(books.live_object(Kind::Qp, 0x2100).is_some());
}

#[test]
fn adoption_happens_once() {
    let books = books!();
    assert!(books.context_adopted(0x1000, b"mlx5_0", 0));
    assert!(!books.context_adopted(0x1000, b"mlx5_0", 0));
    let snapshot = books.snapshot();
    assert_eq!(snapshot.devices[0].adopted, 1);
    assert!(snapshot.contexts[0].adopted);
}

#[test]
fn a_context_used_inside_its_own_open_is_opened_and_not_adopted() {
    let books = books!();
    books.context_adopted(0x1000, b"bnxt_re0", 6);
    books.context_opened(0x1000, b"bnxt_re0", 5);
    let device = &books.snapshot().devices[0];
    assert_eq!((device.opened, device.adopted), (1, 0));
    // One adopted long before, and closed around us, is another one.
    books.context_adopted(0x2000, b"bnxt_re0", 4);
    books.context_opened(0x2000, b"bnxt_re0", 5);
    let device = &books.snapshot().devices[0];
    assert_eq!((device.opened, device.adopted), (2, 1));
}

#[test]
fn what_belongs_to_no_context_is_counted_apart() {
    let books = books!();
    books.event_got((0x7000, 5), 99, None, (7, || ME), 1);
    let snapshot = books.snapshot();
    assert_eq!(snapshot.devices[0].name, None);
    assert_eq!(snapshot.devices[0].async_events, [("event 63 or above".to_string(), 1)]);
}

#[test]
fn unknown_event_numbers_are_named_by_number_and_have_no_object() {
    assert_eq!(event_name(20), "DEVICE_SPEED_CHANGE");
    assert_eq!(event_name(21), "event 21");
    for event_type in [8, 9, 20, 21, u32::MAX] {
        assert_eq!(Kind::of_event(event_type), None, "{event_type}");
    }
    let of_objects: Vec<u32> = (0..64).filter(|number| Kind::of_event(*number).is_some()).collect();
    assert_eq!(of_objects, [0, 1, 2, 3, 4, 5, 6, 7, 14, 15, 16, 19]);
    for kind in Kind::ALL {
        assert!(kind.event_types().iter().all(|number| Kind::of_event(*number) == Some(kind)));
        assert_eq!(Kind::from_number(kind as u32), kind);
    }
}

#[test]
fn a_full_table_says_so_and_loses_no_count() {
    let books = books!();
    books.context_opened(0x1000, b"rxe0", 0);
    let cqs = OBJECTS as u64 + 500;
    for cq in 0..cqs as usize {
        polled(books, (0x10_0000 + cq * 0x100, 0x1000), 1, 0);
        books.comp_event_got(0x10_0000 + cq * 0x100, 0x1000, (7, || ME), 1);
        assert_eq!(books.comp_events_acked(0x10_0000 + cq * 0x100, 1, AckMode::Protect).forward, 1);
    }
    let snapshot = books.snapshot();
    assert!(snapshot.crowded_out >= 500);
    assert_eq!(snapshot.devices[0].traffic.polled, cqs);
    let sum = |of: fn(&Traffic) -> u64| snapshot.devices.iter().map(|d| of(&d.traffic)).sum::<u64>();
    assert_eq!(sum(|traffic| traffic.events_got), cqs);
    assert_eq!(sum(|traffic| traffic.events_acked), cqs);
}

#[test]
fn what_is_said_to_fit_fits() {
    // Addresses as malloc gives them: one after the other, and scattered.
    static BOOKS: [Ledger; 3] = [const { Ledger::new() }; 3];
    for (books, stride) in BOOKS.iter().zip([0x90, 0x1000, 0x2_0010]) {
        for context in 1..=CONTEXTS {
            books.context_opened(context * stride, b"rxe0", 0);
        }
        for cq in 1..=OBJECTS {
            created(books, Kind::Cq, 0x7f00_0000_0000 + cq * stride, stride);
        }
        assert_eq!(books.snapshot().crowded_out, 0, "stride {stride:#x}");
    }
}

/// Many more objects than places over time, never many at once.
#[test]
fn places_are_used_again() {
    let books = books!();
    books.context_opened(0x1000, b"rxe0", 0);
    let rounds = OBJECTS as u64 * 3;
    for round in 0..rounds as usize {
        let address = 0x10_0000 + round * 0x40;
        created(books, Kind::Qp, address, 0x1000);
        books.event_got((0x1000, 5), 5, Some(address), (7, || ME), 1);
        assert_eq!(books.event_acked(5, Some(address), AckMode::Protect).forward, 1);
        destroyed(books, Kind::Qp, address, 0x1000);
    }
    let snapshot = books.snapshot();
    assert_eq!(snapshot.crowded_out, 0);
    assert_eq!(snapshot.unlisted, 0);
    assert_eq!(snapshot.devices[0].objects[0], Lifetimes { created: rounds, destroyed: rounds });
    assert_eq!(snapshot.devices[0].async_events, [("SQ_DRAINED".to_string(), rounds)]);
    assert_eq!(snapshot.async_acks, [("SQ_DRAINED".to_string(), rounds)]);
    assert_eq!(snapshot.acks, AckSums::default());
    // Those that died last are still told of.
    assert!(snapshot.contexts[0].objects.len() == 256 && snapshot.contexts[0].objects_left_out > 0);
}

#[test]
fn contexts_are_used_again_too() {
    let books = books!();
    for round in 0..CONTEXTS * 3 {
        let context = 0x1000 + round * 0x200;
        books.context_opened(context, b"rxe0", 0);
        books.event_got((context, 5), 9, None, (7, || ME), 1);
        let closing = books.context_closing(context);
        books.context_close_ended(closing, true);
    }
    let snapshot = books.snapshot();
    assert_eq!(snapshot.crowded_out, 0);
    assert_eq!(snapshot.devices[0].async_events, [("PORT_ACTIVE".to_string(), CONTEXTS as u64 * 3)]);
    assert!(snapshot.contexts.is_sorted_by_key(|context| context.id));
}

#[test]
fn threads_that_create_poll_and_destroy_balance() {
    let books = books!();
    let rounds = 2000u64;
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            scope.spawn(move || {
                let context = 0x1000 + thread * 0x1000;
                for round in 0..rounds as usize {
                    books.context_opened(context, b"rxe0", 0);
                    let cq = 0x100_0000 + (thread * 64 + round % 64) * 0x80;
                    created(books, Kind::Cq, cq, context);
                    polled(books, (cq, context), 3, 1);
                    books.comp_event_got(cq, context, (7, || ME), 1);
                    assert_eq!(books.comp_events_acked(cq, 1, AckMode::Protect).forward, 1);
                    destroyed(books, Kind::Cq, cq, context);
                    let closing = books.context_closing(context);
                    books.context_close_ended(closing, true);
                }
            });
        }
    });
    let snapshot = books.snapshot();
    let device = &snapshot.devices[0];
    assert_eq!(snapshot.devices.len(), 1, "{:#?}", snapshot.devices);
    assert_eq!((device.opened, device.closed), (8 * rounds, 8 * rounds));
    let expected = Traffic {
        polled: 24 * rounds,
        failed: 8 * rounds,
        unattributed: 8 * rounds,
        events_got: 8 * rounds,
        events_acked: 8 * rounds,
        poll_errors: 0,
    };
    assert_eq!(device.traffic, expected);
    assert_eq!(snapshot.acks, AckSums::default());
}

#[test]
fn devices_beyond_the_last_place_are_said_to_be_crowded_out() {
    let books = books!();
    for device in 0..65usize {
        books.context_opened(0x1000 * (device + 1), format!("mlx5_{device}").as_bytes(), 0);
    }
    let snapshot = books.snapshot();
    assert_eq!(snapshot.crowded_out, 2);
    assert_eq!(snapshot.devices.len(), 64);
    assert_eq!(snapshot.devices[63].opened, 2);
}

#[test]
fn a_context_without_room_is_not_adopted_over_and_over() {
    let books = books!();
    for context in 1..=CONTEXTS {
        books.context_opened(context * 0x1000, b"rxe0", 0);
    }
    let crowded = (CONTEXTS + 1) * 0x1000;
    assert!(!books.context_adopted(crowded, b"rxe0", 0));
    assert!(!books.context_adopted(crowded, b"rxe0", 0));
    assert_eq!(books.snapshot().devices[0].adopted, 0);
}

#[test]
fn an_address_used_again_is_another_object() {
    let books = books!();
    books.context_opened(0x1000, b"rxe0", 0);
    books.context_opened(0x2000, b"rxe1", 0);
    created(books, Kind::Cq, 0x9000, 0x1000);
    polled(books, (0x9000, 0x1000), 3, 0);
    // While the destroy of the old one returns, another thread has the new one already.
    let destroying = books.destroy_begins(Kind::Cq, 0x9000, 7, 1);
    created(books, Kind::Cq, 0x9000, 0x2000);
    polled(books, (0x9000, 0x2000), 5, 0);
    books.destroy_ended(&destroying, Kind::Cq, 0x1000, true, false);
    assert!(books.live_object(Kind::Cq, 0x9000).is_some());
    let devices = books.snapshot().devices;
    assert_eq!(devices[0].traffic, Traffic { polled: 3, ..Default::default() });
    assert_eq!(devices[1].traffic, Traffic { polled: 5, ..Default::default() });
    assert_eq!(devices[0].objects[1], Lifetimes { created: 1, destroyed: 1 });
}

#[test]
fn an_event_read_before_the_creator_came_back_belongs_to_the_new_object() {
    let books = books!();
    books.context_opened(0x1000, b"rxe0", 0);
    let ident = Ident { number: 17, handle: 3 };
    books.event_got((0x1000, 5), 5, Some(0x9000), (7, || ME), 6);
    books.created(&Created { kind: Kind::Qp, address: 0x9000, context: 0x1000, ident, began: 5 });
    let object = books.live_object(Kind::Qp, 0x9000).expect("it is there");
    assert_eq!(object.events.open.load(Relaxed), 1);
    assert_eq!(books.event_acked(5, Some(0x9000), AckMode::Protect).forward, 1);
    assert!(books.event_acked(5, Some(0x9000), AckMode::Protect).fault.is_some());
}

#[test]
fn incidents_keep_their_order_and_their_number() {
    let books = books!();
    for number in 0..300u32 {
        let what = What::BadAck;
        let text = "x".repeat(number as usize * 4) + "é";
        books.happened(&Incident { what, at: number.into(), context: 1, tid: 7, count: 1, text });
    }
    books.happened_again(3);
    books.amend(4, "; and more");
    let snapshot = books.snapshot();
    assert_eq!((snapshot.incidents.len(), snapshot.incidents_left_out), (256, 44));
    assert!(snapshot.incidents.is_sorted_by_key(|incident| incident.at));
    assert_eq!(snapshot.incidents[3].count, 2);
    assert!(snapshot.incidents[4].text.ends_with("é; and more"));
    assert_eq!(snapshot.incidents[255].text.len(), 768);
}

#[test]
fn ten_lines_at_once_then_one_a_second() {
    let pace = Pace::new();
    let second = 1_000_000_000;
    for start in [3 * second, 5000 * second] {
        let allowed = (0..1000).filter(|_| pace.allow(start).is_some()).count();
        assert_eq!(allowed, 10, "at {start}");
        assert_eq!(pace.allow(start + second - 1), None);
    }
    assert_eq!(pace.allow(5002 * second), Some(991));
}
