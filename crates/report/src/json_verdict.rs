//! Verdicts on QPs in the machine's form.

use std::net::Ipv6Addr;

use ibv_sa_ledger::{self as ledger, Address, Cause, event_name, status_name};
use serde::Serialize;

use crate::json::milliseconds;

#[derive(Serialize)]
pub(crate) struct Verdict {
    qp_num: u32,
    handle: Option<u32>,
    foreign: bool,
    state: &'static str,
    peer: Option<Peer>,
    failures: u64,
    flushes: u64,
    first_flush_wr_id: Option<String>,
    cause: CauseOf,
}

#[derive(Serialize)]
struct Peer {
    qp_num: Option<u32>,
    lid: Option<u16>,
    gid: Option<String>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum CauseOf {
    Failure {
        status: String,
        vendor_err: u32,
        wr_id: String,
        at_ms: u64,
    },
    Moved {
        to: &'static str,
        tid: u32,
        at_ms: u64,
    },
    Event {
        event: String,
        tid: u32,
        at_ms: u64,
    },
    DeviceGone,
    Unknown {
        other_cq: Option<u32>,
        overrun: bool,
        unattributed: u64,
        foreign: bool,
        connection_ended: bool,
        unwatched: bool,
        events_unread: bool,
    },
}

impl Verdict {
    /// Times are told from `began` on.
    pub(crate) fn new(verdict: &ledger::Verdict, began: u64) -> Self {
        let at_ms = |at: u64| milliseconds(at.saturating_sub(began));
        Self {
            qp_num: verdict.ident.number,
            handle: verdict.born.then_some(verdict.ident.handle),
            foreign: verdict.foreign,
            state: if verdict.destroyed { "destroyed" } else { "alive" },
            peer: verdict.peer.map(|peer| Peer {
                qp_num: peer.number,
                lid: match peer.address {
                    Some(Address::Lid(lid)) => Some(lid),
                    _ => None,
                },
                gid: match peer.address {
                    Some(Address::Gid(gid)) => Some(Ipv6Addr::from(gid).to_string()),
                    _ => None,
                },
            }),
            failures: verdict.failures,
            flushes: verdict.flushes,
            first_flush_wr_id: (verdict.flushes != 0).then(|| wr_id(verdict.first_flush)),
            cause: match &verdict.cause {
                Cause::Failure(failure) => CauseOf::Failure {
                    status: status_name(failure.status),
                    vendor_err: failure.vendor_err,
                    wr_id: wr_id(failure.wr_id),
                    at_ms: at_ms(failure.at),
                },
                Cause::Moved { to, by, at } => CauseOf::Moved {
                    to: match to {
                        0 => "RESET",
                        6 => "ERR",
                        _ => "destroyed",
                    },
                    tid: by.tid,
                    at_ms: at_ms(*at),
                },
                Cause::Event(event) => CauseOf::Event {
                    event: event_name(event.event_type),
                    tid: event.by.tid,
                    at_ms: at_ms(event.at),
                },
                Cause::DeviceGone => CauseOf::DeviceGone,
                Cause::Unknown(unseen) => CauseOf::Unknown {
                    other_cq: unseen.other_cq,
                    overrun: unseen.overrun,
                    unattributed: unseen.unattributed,
                    foreign: unseen.foreign,
                    connection_ended: unseen.connection_ended,
                    unwatched: unseen.unwatched,
                    events_unread: unseen.events_unread,
                },
            },
        }
    }
}

/// Programs keep pointers in it, which a number of JSON cannot hold.
fn wr_id(wr_id: u64) -> String {
    format!("{wr_id:#x}")
}
