use ibv_sa_ledger::{
    Address, Cause, ContextName, ContextSnapshot, Failure, Ident, Peer, Snapshot, Taken, Thread, Unseen,
    Verdict,
};

use crate::{Report, verdict as lines};

const SECOND: u64 = 1_000_000_000;

fn verdict(cause: Cause) -> Verdict {
    let gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    Verdict {
        context: ContextName { id: 1, device: Some("rxe0".into()) },
        ident: Ident { number: 17, handle: 3 },
        born: true,
        foreign: false,
        connected: true,
        destroyed: false,
        peer: Some(Peer { number: Some(18), address: Some(Address::Gid(gid)) }),
        failures: 1,
        flushes: 127,
        first_flush: 0x2b,
        cause,
    }
}

const FAILURE: Failure = Failure { status: 12, vendor_err: 0x81, wr_id: 0x2a, at: SECOND };

fn by(tid: u32) -> Thread {
    Thread { tid, ..Default::default() }
}

#[test]
fn the_first_failure_names_the_qp_the_peer_and_what_to_look_at() {
    let first = Verdict { flushes: 0, ..verdict(Cause::Failure(FAILURE)) };
    assert_eq!(
        lines::first_failure(&first, &FAILURE),
        "QP qp_num 17 (handle 3, rxe0), peer qp_num 18 at GID fe80::1: first failure RETRY_EXC_ERR (vendor_err 0x81, \
         wr_id 0x2a): no answer from the peer: it is dead or unreachable, its QP is gone or not ready to receive, or the \
         path (GID or LID, P_Key, timeout) is wrong; WR_FLUSH_ERR on this QP only follows from it"
    );
    let after = Verdict { flushes: 2, ..first };
    assert!(
        lines::first_failure(&after, &FAILURE)
            .ends_with("follows from it, of which 2 work requests were flushed that were polled before"),
        "{}",
        lines::first_failure(&after, &FAILURE)
    );
}

#[test]
fn every_status_has_a_meaning_and_unknown_ones_do_no_harm() {
    for status in 0..40 {
        let failure = Failure { status, ..FAILURE };
        let text = lines::first_failure(&verdict(Cause::Failure(failure)), &failure);
        assert!(text.len() < 500 && text.contains(": first failure "), "{text}");
    }
}

#[test]
fn flushes_without_a_failure_say_what_could_not_be_seen() {
    let head = "QP qp_num 17 (handle 3, rxe0), peer qp_num 18 at GID fe80::1: 127 work requests were flushed \
                (WR_FLUSH_ERR, first wr_id 0x2b): ";
    let flushed = |cause| lines::flushed(&verdict(cause), 3 * SECOND);
    let unknown = |unseen| flushed(Cause::Unknown(unseen));
    for (text, end) in [
        (
            unknown(Unseen::default()),
            "no first failure was visible to this process: its driver, or code around this library, moved the QP to ERR",
        ),
        (
            unknown(Unseen { other_cq: Some(4), ..Default::default() }),
            "no first failure was visible to this process: it may lie unpolled in the QP's other CQ (handle 4)",
        ),
        (
            unknown(Unseen { overrun: true, events_unread: true, ..Default::default() }),
            "no first failure was visible to this process: a CQ of the QP was overrun (CQ_ERR), which loses completions; \
             an event that says why (QP_FATAL, QP_REQ_ERR, QP_ACCESS_ERR) may lie unread: call ibv_get_async_event",
        ),
        (
            flushed(Cause::Moved { to: 6, by: by(9), at: SECOND }),
            "thread 9 of this program moved the QP to ERR 2.0 s ago",
        ),
        (
            flushed(Cause::Event(Taken { event_type: 3, by: by(9), at: SECOND })),
            "QP_ACCESS_ERR says why, got by thread 9 2.0 s ago",
        ),
        (flushed(Cause::DeviceGone), "the device has failed or is gone"),
    ] {
        assert_eq!(text, format!("{head}{end}"));
    }
}

#[test]
fn a_qp_without_a_birth_or_a_peer_is_named_by_its_number() {
    let bare = Verdict {
        born: false,
        peer: None,
        flushes: 1,
        context: ContextName::default(),
        ..verdict(Cause::DeviceGone)
    };
    let text = lines::flushed(&bare, 0);
    assert!(text.starts_with("QP qp_num 17 (unknown device): 1 work request was flushed ("), "{text}");
    let peer = Some(Peer { number: None, address: Some(Address::Lid(5)) });
    let text = lines::flushed(&Verdict { peer, ..bare }, 0);
    assert!(text.starts_with("QP qp_num 17 (unknown device), peer at LID 5: "), "{text}");
}

#[test]
fn the_report_has_them_in_both_forms() {
    let causes = [
        Cause::Failure(FAILURE),
        Cause::Moved { to: 0, by: by(9), at: SECOND },
        Cause::Event(Taken { event_type: 1, by: by(9), at: SECOND }),
        Cause::DeviceGone,
        Cause::Unknown(Unseen { other_cq: Some(4), ..Default::default() }),
    ];
    let context = ContextSnapshot {
        id: 1,
        device: Some("rxe0".into()),
        verdicts: causes.map(verdict).to_vec(),
        verdicts_left_out: 2,
        ..Default::default()
    };
    let snapshot = Snapshot { contexts: vec![context], ..Default::default() };
    let report = Report { snapshot: &snapshot, ..crate::tests::report(&snapshot) };
    let text = report.text();
    assert!(
        text.contains(
            ": first failure RETRY_EXC_ERR (vendor_err 0x81, wr_id 0x2a), 127 work requests were flushed\n"
        ) && text.contains("thread 9 of this program moved the QP to RESET 8.0 s ago\n")
            && text.contains(": 2 more QP(s) with failed completions\n"),
        "{text}"
    );
    let value: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let verdicts = value["contexts"][0]["verdicts"].as_array().unwrap();
    let kinds: Vec<&str> = verdicts.iter().map(|v| v["cause"]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["failure", "moved", "event", "device_gone", "unknown"]);
    let first = serde_json::json!({
        "kind": "failure", "status": "RETRY_EXC_ERR", "vendor_err": 0x81, "wr_id": "0x2a", "at_ms": 0
    });
    assert_eq!(verdicts[0]["cause"], first);
    assert_eq!(verdicts[0]["peer"], serde_json::json!({"qp_num": 18, "lid": null, "gid": "fe80::1"}));
    assert_eq!((&verdicts[0]["flushes"], &verdicts[0]["first_flush_wr_id"]), (&127.into(), &"0x2b".into()));
}

/// What was not counted must not look as if it were nothing.
#[test]
fn what_is_not_counted_is_null() {
    let snapshot = crate::tests::snapshot();
    for (mode, polled, failed) in
        [("off", None, None), ("errors", None, Some(1)), ("full", Some(2000), Some(1))]
    {
        let report = Report { cq_mode: mode, ..crate::tests::report(&snapshot) };
        let value: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        let completions = &value["devices"][0]["completions"];
        assert_eq!(
            (completions["polled"].as_u64(), completions["failed"].as_u64()),
            (polled, failed),
            "{mode}"
        );
        assert_eq!(completions["by_opcode"].is_null(), polled.is_none(), "{mode}");
        assert_eq!(report.text().contains("completions polled"), polled.is_some(), "{mode}");
        assert_eq!(report.text().contains("failed 1"), failed.is_some(), "{mode}");
    }
}
