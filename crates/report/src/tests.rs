use ibv_sa_ledger::{
    AckSums, ContextName, ContextSnapshot, DeviceSnapshot, Fault, Ident, Incident, Kind, Lifetimes,
    ObjectName, ObjectSnapshot, Snapshot, Taken, Thread, Traffic, What,
};

use crate::lines::{CompletionsTaken, Person, TakenBy};

use super::*;

pub(crate) fn snapshot() -> Snapshot {
    let mut device = DeviceSnapshot {
        name: Some("rxe0".into()),
        opened: 1,
        closed: 1,
        traffic: Traffic { polled: 2000, failed: 1, events_got: 7, events_acked: 6, ..Default::default() },
        statuses: vec![("RETRY_EXC_ERR".into(), 1)],
        opcodes: vec![("RECV".into(), 1999)],
        async_events: vec![("PORT_ERR".into(), 1), ("PORT_ACTIVE".into(), 2)],
        ..Default::default()
    };
    device.objects[Kind::Qp as usize] = Lifetimes { created: 2, destroyed: 1 };
    let object = ObjectSnapshot {
        kind: Kind::Qp,
        ident: Some(Ident { number: 17, handle: 3 }),
        foreign: false,
        destroyed: false,
        async_events: vec![("SQ_DRAINED".into(), 2)],
        async_acks: 1,
        traffic: Traffic::default(),
        opcodes: Vec::new(),
        headroom: None,
        acks: AckSums { bad: 1, held: 1, ..Default::default() },
        open: vec![Taken { event_type: 5, by: Thread { tid: 8, ..thread(b"reader") }, at: 2_500_000_000 }],
        open_unlisted: 0,
        open_completions: 0,
        first_completion: Taken::default(),
    };
    let context = ContextSnapshot {
        id: 1,
        device: Some("rxe0".into()),
        async_events: vec![("SQ_DRAINED".into(), 2)],
        objects: vec![object],
        ..Default::default()
    };
    let incident = Incident {
        what: What::BadAck,
        at: 3_200_000_000,
        context: 1,
        tid: 8,
        count: 2,
        text: "too many".into(),
    };
    Snapshot {
        devices: vec![device],
        contexts: vec![context],
        async_acks: vec![("PORT_ERR".into(), 1)],
        acks: AckSums { bad: 1, held: 1, ..Default::default() },
        incidents: vec![incident],
        ..Default::default()
    }
}

fn thread(name: &[u8]) -> Thread {
    let mut padded = [0; 16];
    padded[..name.len()].copy_from_slice(name);
    Thread { tid: 0, name: padded }
}

pub(crate) fn report(snapshot: &Snapshot) -> Report<'_> {
    Report {
        version: "9.8.7",
        pid: 42,
        program: "ping\x1b[2Jpong",
        provider: "libibverbs.so.1",
        ack_mode: AckMode::Protect,
        hang_secs: 5,
        cq_mode: "full",
        times: (9_000_000_000, 1_000_000_000),
        faulted: false,
        without_books: false,
        lines_dropped: 0,
        snapshot,
    }
}

#[test]
fn text_names_each_count_and_escapes_names() {
    let text = report(&snapshot()).text();
    for line in [
        "ibv_sa[42]: report of ping?[2Jpong (pid 42), libibv_sa 9.8.7, provider libibverbs.so.1\n",
        "ibv_sa[42]: rxe0: contexts opened 1, closed 1\n",
        "ibv_sa[42]: rxe0: created/destroyed: QP 2/1\n",
        "ibv_sa[42]: rxe0: completions polled 2000, failed 1\n",
        "ibv_sa[42]: rxe0: completion events got 7, acknowledged 6\n",
        "ibv_sa[42]: rxe0: async events got: PORT_ERR 1, PORT_ACTIVE 2\n",
        "ibv_sa[42]: async events acknowledged: PORT_ERR 1\n",
        "ibv_sa[42]: QP qp_num 17 (handle 3, rxe0): SQ_DRAINED taken by thread 8 6.5 s ago is not acknowledged, 1 bad \
         ack(s)\n",
        "ibv_sa[42]: acks: bad 1, held back 1\n",
        "ibv_sa[42]: rxe0: completions polled 2000, failed 1\n",
        "ibv_sa[42]: rxe0: completions by status: RETRY_EXC_ERR 1\n",
        "ibv_sa[42]: rxe0: completions by opcode: RECV 1999\n",
        "ibv_sa[42]: incident at 2.2 s (2 times): too many\n",
    ] {
        assert!(text.contains(line), "{line:?} is missing in:\n{text}");
    }
    assert!(!text.contains("PARTIAL"));
}

#[test]
fn json_is_one_line_with_a_schema() {
    let line = report(&snapshot()).json();
    assert_eq!(line.matches('\n').count(), 1);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["schema"], SCHEMA);
    assert_eq!(value["partial"], false);
    let completions = &value["devices"][0]["completions"];
    assert_eq!((&completions["polled"], &completions["failed"]), (&2000.into(), &1.into()));
    assert_eq!(completions["by_opcode"], serde_json::json!({"RECV": 1999}));
    assert_eq!(completions["by_status"], serde_json::json!({"RETRY_EXC_ERR": 1}));
    assert_eq!(value["devices"][0]["objects"]["qp"]["created"], 2);
    assert_eq!(value["async_acks"]["PORT_ERR"], 1);
    let object = &value["contexts"][0]["objects"][0];
    assert_eq!(
        (&object["kind"], &object["number"], &object["handle"]),
        (&"QP".into(), &17.into(), &3.into())
    );
    let open =
        serde_json::json!({"type": "SQ_DRAINED", "count": 1, "tid": 8, "thread": "reader", "age_ms": 6500});
    assert_eq!(object["open"][0], open);
    assert_eq!(value["incidents"][0]["at_ms"], 2200);
    assert_eq!((&value["ack_mode"], &value["hang_secs"]), (&"protect".into(), &5.into()));
}

fn qp() -> ObjectName {
    let context = ContextName { id: 1, device: Some("rxe0".into()) };
    ObjectName { kind: Kind::Qp, ident: Some(Ident { number: 17, handle: 3 }), context }
}

fn person(tid: u32, name: &str) -> Person {
    Person { tid, name: Some(name.into()), ended: false }
}

#[test]
fn lines_name_the_object_the_thread_and_the_remedy() {
    let event = TakenBy { event_type: 5, by: Some(person(8, "reader")), age: 6_100_000_000 };
    assert_eq!(
        lines::waits(&qp(), &person(7, "main"), 5_000_000_000, std::slice::from_ref(&event), None),
        "ibv_destroy_qp: QP qp_num 17 (handle 3, rxe0): thread 7 (main) has waited for 5.0 s: SQ_DRAINED, taken by \
         thread 8 (reader) 6.1 s ago, is not acknowledged; call ibv_ack_async_event for each event that was got"
    );
    assert_eq!(
        lines::self_deadlock(&qp(), &person(8, "reader"), Some(&event), None),
        "ibv_destroy_qp: QP qp_num 17 (handle 3, rxe0): thread 8 (reader) took SQ_DRAINED itself 6.1 s ago and did \
         not acknowledge it: unless another thread does, this destroy never returns; call ibv_ack_async_event first"
    );
    let fault = Fault::NotOpen { given: 1, good: 0, got: 1, acked: 1 };
    assert_eq!(
        lines::bad_ack(&qp(), &person(8, "reader"), Some(5), fault, 1, AckMode::Protect),
        "ibv_ack_async_event: QP qp_num 17 (handle 3, rxe0): thread 8 (reader) acknowledged SQ_DRAINED, but no event \
         of this QP is open (got 1, acknowledged 1); the ack is held back: ack each event once"
    );
    let cq = ObjectName { kind: Kind::Cq, ..qp() };
    let fault = Fault::NotOpen { given: 3, good: 1, got: 10, acked: 9 };
    assert_eq!(
        lines::bad_ack(&cq, &person(8, "reader"), None, fault, 2, AckMode::Protect),
        "ibv_ack_cq_events: CQ handle 3 (rxe0): thread 8 (reader) acknowledged 3 completion events, but 1 is open \
         (got 10, acknowledged 9); 2 acks are held back: ack each event once, on its own CQ"
    );
    let ended = Person { ended: true, ..person(8, "reader") };
    let taken =
        CompletionsTaken { number: 12, first: (ended.clone(), 9_000_000_000), last: (ended, 6_100_000_000) };
    let text = lines::waits(&cq, &person(7, "main"), 0, &[], Some(&taken));
    assert!(
        text.contains(
            "is going to wait: 12 completion events, the first taken by thread 8 (reader, ended) 9.0 s ago, the last \
             6.1 s ago, are not acknowledged; call ibv_ack_cq_events"
        ),
        "{text}"
    );
}

/// A QP may have thousands of events open: a line stays a line.
#[test]
fn long_lists_are_cut() {
    let events = vec![TakenBy { event_type: 5, by: Some(person(8, "reader")), age: 0 }; 1000];
    let text = lines::waits(&qp(), &person(7, "main"), 1, &events, None);
    assert!(text.contains("and 996 more") && text.len() < 700, "{text}");
    let text = lines::rescued(&qp(), &events, 20, None);
    assert!(text.contains("and 1016 more, are acknowledged for the program") && text.len() < 700, "{text}");
    let text = lines::rescued(&qp(), &[], 20, None);
    assert!(text.contains("20 events of which nothing more is known, are acknowledged"), "{text}");
}

#[test]
fn every_gap_is_said() {
    let gappy = Snapshot { crowded_out: 3, unwatched: 2, unwatched_cqs: 4, ..snapshot() };
    let report = Report { faulted: true, without_books: true, lines_dropped: 5, ..report(&gappy) };
    assert_eq!(report.gaps().len(), 5);
    let text = report.text();
    assert_eq!(text.matches("PARTIAL: ").count(), 5);
    assert!(text.contains("5 line(s) could not be written"));
    let value: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(value["partial"], true);
    assert_eq!(value["stderr_lines_dropped"], 5);
}
