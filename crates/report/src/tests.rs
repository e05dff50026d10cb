use ibv_sa_ledger::{DeviceSnapshot, Kind, Lifetimes, Snapshot, Traffic};

use super::*;

fn snapshot() -> Snapshot {
    let mut device = DeviceSnapshot {
        name: Some("rxe0".into()),
        opened: 1,
        closed: 1,
        traffic: Traffic { polled: 2000, failed: 1, events_got: 7, events_acked: 6 },
        async_events: vec![("PORT_ERR".into(), 1), ("PORT_ACTIVE".into(), 2)],
        ..Default::default()
    };
    device.objects[Kind::Qp as usize] = Lifetimes { created: 2, destroyed: 1 };
    Snapshot { devices: vec![device], async_acks: vec![("PORT_ERR".into(), 1)], ..Default::default() }
}

fn report(snapshot: &Snapshot) -> Report<'_> {
    Report {
        version: "9.8.7",
        pid: 42,
        program: "ping\x1b[2Jpong",
        provider: "libibverbs.so.1",
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
    assert_eq!(value["devices"][0]["completions"]["polled"], 2000);
    assert_eq!(value["devices"][0]["objects"]["qp"]["created"], 2);
    assert_eq!(value["async_acks"]["PORT_ERR"], 1);
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
