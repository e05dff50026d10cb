use super::*;

/// The block is large; tests keep it off their stack.
fn ledger() -> Box<Ledger> {
    std::thread::Builder::new()
        .stack_size(16 << 20)
        .spawn(|| Box::new(Ledger::new()))
        .unwrap()
        .join()
        .unwrap()
}

#[test]
fn a_cq_line_is_a_cache_line() {
    assert_eq!(std::mem::size_of::<Cq>(), 64);
}

#[test]
fn counts_stay_with_the_device_after_destroy_and_close() {
    let books = ledger();
    books.context_opened(0x1000, b"rxe0");
    books.created(Kind::Cq, 0x1000);
    books.polled(0x2000, 0x1000, 16, 3);
    books.comp_event_got(0x2000, 0x1000);
    books.comp_events_acked(0x2000, 0x1000, 1);
    books.cq_gone(0x2000);
    books.destroyed(Kind::Cq, 0x1000);
    books.polled(0x3000, 0x1000, 4, 0);
    books.async_event_got(0x1000, 10);
    books.async_event_acked(10);
    let closing = books.context_closing(0x1000);
    books.context_close_ended(closing, 0x1000, true);

    let snapshot = books.snapshot();
    assert_eq!(snapshot.devices.len(), 1);
    let device = &snapshot.devices[0];
    assert_eq!(device.name.as_deref(), Some("rxe0"));
    assert_eq!((device.opened, device.closed, device.adopted), (1, 1, 0));
    assert_eq!(device.traffic, Traffic { polled: 20, failed: 3, events_got: 1, events_acked: 1 });
    assert_eq!(device.objects[Kind::Cq as usize], Lifetimes { created: 1, destroyed: 1 });
    assert_eq!(device.async_events, [("PORT_ERR".to_string(), 1)]);
    assert_eq!(snapshot.async_acks, [("PORT_ERR".to_string(), 1)]);
}

#[test]
fn a_close_that_fails_leaves_the_context_open() {
    let books = ledger();
    books.context_opened(0x1000, b"rxe0");
    let closing = books.context_closing(0x1000);
    books.context_close_ended(closing, 0x1000, false);
    assert!(books.knows_context(0x1000));
    assert_eq!(books.snapshot().devices[0].closed, 0);
}

#[test]
fn adoption_happens_once() {
    let books = ledger();
    assert!(books.context_adopted(0x1000, b"mlx5_0"));
    assert!(!books.context_adopted(0x1000, b"mlx5_0"));
    assert_eq!(books.snapshot().devices[0].adopted, 1);
}

#[test]
fn what_belongs_to_no_context_is_counted_apart() {
    let books = ledger();
    books.async_event_got(0x7000, 99);
    let snapshot = books.snapshot();
    assert_eq!(snapshot.devices[0].name, None);
    assert_eq!(snapshot.devices[0].async_events, [("event 63 or above".to_string(), 1)]);
}

#[test]
fn unknown_event_numbers_are_named_by_number() {
    assert_eq!(event_name(20), "DEVICE_SPEED_CHANGE");
    assert_eq!(event_name(21), "event 21");
}

#[test]
fn a_full_table_says_so_and_loses_no_count() {
    let books = ledger();
    books.context_opened(0x1000, b"rxe0");
    let cqs = (CQS * SPARE) as u64 + 500;
    for cq in 0..cqs {
        books.polled(0x10_0000 + cq as usize * 0x100, 0x1000, 1, 0);
    }
    let snapshot = books.snapshot();
    assert!(snapshot.crowded_out >= 500);
    assert_eq!(snapshot.devices[0].traffic.polled, cqs);
}

#[test]
fn threads_that_create_poll_and_destroy_balance() {
    let books = ledger();
    let rounds = 2000u64;
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let books = &books;
            scope.spawn(move || {
                let context = 0x1000 + thread * 0x1000;
                for round in 0..rounds as usize {
                    books.context_opened(context, b"rxe0");
                    let cq = 0x100_0000 + (thread * 64 + round % 64) * 0x80;
                    books.polled(cq, context, 3, 1);
                    books.comp_event_got(cq, context);
                    books.cq_gone(cq);
                    let closing = books.context_closing(context);
                    books.context_close_ended(closing, context, true);
                }
            });
        }
    });
    let snapshot = books.snapshot();
    let device = &snapshot.devices[0];
    assert_eq!(snapshot.devices.len(), 1);
    assert_eq!((device.opened, device.closed), (8 * rounds, 8 * rounds));
    assert_eq!(device.traffic.polled, 8 * rounds * 3);
    assert_eq!(device.traffic.failed, 8 * rounds);
    assert_eq!(device.traffic.events_got, 8 * rounds);
    assert_eq!(books.contexts.iter().count() + books.cqs.iter().count(), 0);
}

#[test]
fn devices_beyond_the_last_place_are_said_to_be_crowded_out() {
    let books = ledger();
    for device in 0..65usize {
        books.context_opened(0x1000 * (device + 1), format!("mlx5_{device}").as_bytes());
    }
    let snapshot = books.snapshot();
    assert_eq!(snapshot.crowded_out, 2);
    assert_eq!(snapshot.devices.len(), 64);
    assert_eq!(snapshot.devices[63].opened, 2);
}

#[test]
fn a_context_without_room_is_not_adopted_over_and_over() {
    let books = ledger();
    for context in 1..=CONTEXTS * SPARE * 2 {
        books.context_opened(context * 0x1000, b"rxe0");
    }
    let crowded =
        (1..=CONTEXTS * SPARE * 2).find(|context| !books.knows_context(context * 0x1000)).unwrap() * 0x1000;
    assert!(!books.context_adopted(crowded, b"rxe0"));
    assert!(!books.context_adopted(crowded, b"rxe0"));
    assert_eq!(books.snapshot().devices[0].adopted, 0);
}

#[test]
fn what_is_said_to_fit_fits() {
    // Addresses as malloc gives them: one after the other, and scattered.
    for stride in [0x90, 0x1000, 0x2_0010] {
        let books = ledger();
        for context in 1..=CONTEXTS {
            books.context_opened(context * stride, b"rxe0");
        }
        for cq in 1..=CQS {
            books.polled(0x7f00_0000_0000 + cq * stride, stride, 1, 0);
        }
        assert_eq!(books.snapshot().crowded_out, 0, "stride {stride:#x}");
    }
}

#[test]
fn an_address_used_again_counts_for_its_new_device() {
    let books = ledger();
    books.context_opened(0x1000, b"rxe0");
    books.context_opened(0x2000, b"rxe1");
    books.cq_created(0x9000, 0x1000);
    books.polled(0x9000, 0x1000, 3, 0);
    // Destroyed; while the destroy waits, an ack brings the entry back.
    books.cq_gone(0x9000);
    books.comp_events_acked(0x9000, 0x1000, 2);
    books.destroyed(Kind::Cq, 0x1000);
    books.cq_created(0x9000, 0x2000);
    books.polled(0x9000, 0x2000, 5, 0);
    let devices = books.snapshot().devices;
    assert_eq!(devices[0].traffic, Traffic { polled: 3, events_acked: 2, ..Default::default() });
    assert_eq!(devices[1].traffic, Traffic { polled: 5, ..Default::default() });
}

#[test]
fn a_count_that_comes_late_is_not_lost() {
    let books = ledger();
    books.context_opened(0x1000, b"rxe0");
    let late = books.traffic(0x9000, 0x1000);
    books.cq_gone(0x9000);
    late.polled.fetch_add(7, Relaxed);
    assert_eq!(books.snapshot().devices[0].traffic.polled, 7);
    books.context_opened(0x2000, b"rxe1");
    books.polled(0x9000, 0x2000, 1, 0);
    let devices = books.snapshot().devices;
    assert_eq!((devices[0].traffic.polled, devices[1].traffic.polled), (7, 1));
}

#[test]
fn a_context_used_inside_its_own_open_is_opened_and_not_adopted() {
    let books = ledger();
    books.context_adopted(0x1000, b"bnxt_re0");
    books.context_opened(0x1000, b"bnxt_re0");
    let device = &books.snapshot().devices[0];
    assert_eq!((device.opened, device.adopted), (1, 0));
}

#[test]
fn a_close_that_failed_leaves_no_trace_of_an_adoption() {
    let books = ledger();
    books.context_adopted(0x1000, b"rxe0");
    let closing = books.context_closing(0x1000);
    books.context_close_ended(closing, 0x1000, false);
    books.context_opened(0x1000, b"rxe0");
    let device = &books.snapshot().devices[0];
    assert_eq!((device.opened, device.adopted), (1, 1));
}
