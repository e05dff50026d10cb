//! What is said about completions that failed, and about QPs whose work requests were flushed.

use std::fmt;
use std::net::Ipv6Addr;

use ibv_sa_ledger::{
    Address, Cause, Failure, Kind, ObjectName, Peer, Unseen, Verdict, event_name, status_name,
};

use crate::lines::{self, Age};

struct Shown<'a>(&'a Peer);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer")?;
        if let Some(number) = self.0.number {
            write!(f, " qp_num {number}")?;
        }
        match self.0.address {
            Some(Address::Lid(lid)) => write!(f, " at LID {lid}"),
            Some(Address::Gid(gid)) => write!(f, " at GID {}", Ipv6Addr::from(gid)),
            None => Ok(()),
        }
    }
}

/// The QP as the program and `rdma resource` name it, and its peer.
pub(crate) fn qp(verdict: &Verdict) -> String {
    let ident = verdict.ident;
    let name = if !verdict.born {
        let device = verdict.context.device.as_deref().map_or("unknown device".into(), crate::printable);
        format!("QP qp_num {} ({device})", ident.number)
    } else {
        lines::object(&ObjectName { kind: Kind::Qp, ident: Some(ident), context: verdict.context.clone() })
    };
    match &verdict.peer {
        Some(peer) => format!("{name}, {}", Shown(peer)),
        None => name,
    }
}

/// What a status means, and what to look at.
fn meaning(status: u32) -> &'static str {
    match status {
        1 => {
            "a message was longer than the buffers of its request, or than the port allows: post larger receives, or send \
             less"
        }
        2 => {
            "the QP cannot do this request as it was posted: check its opcode, its SGEs, inline length and max_rd_atomic \
             against what the QP was created with"
        }
        4 => {
            "a buffer of the request lies outside its MR, or the MR does not allow the access: check lkey, address, length \
             and the MR's access flags"
        }
        6 => "the memory window could not be bound: check the MR's and the window's access flags",
        7 => "the peer's answer made no sense here: the two sides may be connected to different QPs",
        8 => {
            "a receive for a write with immediate data names a buffer outside its MR, or one that the MR does not allow"
        }
        9 => {
            "the peer finds the request invalid: longer than the receive it posted, or an operation that its \
             qp_access_flags do not allow"
        }
        10 => {
            "the peer refuses the access: check rkey, remote address and length, and the access flags of the MR and the \
             QP there"
        }
        11 => "the peer could not complete it: its own completions and events say why",
        12 => {
            "no answer from the peer: it is dead or unreachable, its QP is gone or not ready to receive, or the path \
             (GID or LID, P_Key, timeout) is wrong"
        }
        13 => {
            "the peer had no receive posted for too long: post receives earlier there, or raise rnr_retry here"
        }
        14 | 15 | 17 | 18 => "a fault that the specification knows of reliable datagrams only",
        16 => "the peer aborted the operation",
        19 => {
            "the device could not bring the QP to its error state in order; the device's own log may say why"
        }
        20 => "the answer did not come in time",
        _ => "the device says no more than its vendor_err",
    }
}

fn failure(failure: &Failure) -> String {
    format!(
        "{} (vendor_err {:#x}, wr_id {:#x})",
        status_name(failure.status),
        failure.vendor_err,
        failure.wr_id
    )
}

fn flushes(number: u64) -> String {
    match number {
        1 => "1 work request was flushed".into(),
        n => format!("{n} work requests were flushed"),
    }
}

/// The first completion of a QP that failed.
pub fn first_failure(verdict: &Verdict, first: &Failure) -> String {
    let before = match verdict.flushes {
        0 => String::new(),
        n => format!(", of which {} that {} polled before", flushes(n), if n == 1 { "was" } else { "were" }),
    };
    let flushes = match verdict.connected {
        true => format!("; WR_FLUSH_ERR on this QP only follows from it{before}"),
        false => String::new(),
    };
    format!("{}: first failure {}: {}{flushes}", qp(verdict), failure(first), meaning(first.status))
}

/// Work requests of a QP were flushed, and nothing that failed before them was seen.
pub fn flushed(verdict: &Verdict, now: u64) -> String {
    format!("{}: {}: {}", qp(verdict), flushed_of(verdict), why(verdict, now))
}

fn flushed_of(verdict: &Verdict) -> String {
    format!("{} (WR_FLUSH_ERR, first wr_id {:#x})", flushes(verdict.flushes), verdict.first_flush)
}

/// The whole verdict, for the report.
pub(crate) fn verdict(verdict: &Verdict, now: u64) -> String {
    match &verdict.cause {
        Cause::Failure(first) => {
            let more = match verdict.failures {
                0 | 1 => String::new(),
                n => format!("; {} more failed after it", n - 1),
            };
            format!("{}: first failure {}, {}{more}", qp(verdict), failure(first), flushes(verdict.flushes))
        }
        // Statuses that leave the QP alone, without a flush.
        _ if verdict.flushes == 0 => format!("{}: {} completion(s) failed", qp(verdict), verdict.failures),
        _ => flushed(verdict, now),
    }
}

fn why(verdict: &Verdict, now: u64) -> String {
    match &verdict.cause {
        Cause::Failure(first) => format!("after {}", failure(first)),
        Cause::Moved { to, by, at } => {
            let age = Age(now.saturating_sub(*at));
            let done = match to {
                0 => "moved the QP to RESET",
                6 => "moved the QP to ERR",
                _ => "began to destroy the QP",
            };
            format!("thread {} of this program {done} {age} ago", by.tid)
        }
        Cause::Event(event) => {
            let age = Age(now.saturating_sub(event.at));
            format!("{} says why, got by thread {} {age} ago", event_name(event.event_type), event.by.tid)
        }
        Cause::DeviceGone => "the device has failed or is gone".into(),
        Cause::Unknown(unseen) => {
            format!("no first failure was visible to this process: {}", unseen_of(unseen))
        }
    }
}

fn unseen_of(unseen: &Unseen) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(handle) = unseen.other_cq {
        parts.push(format!("it may lie unpolled in the QP's other CQ (handle {handle})"));
    }
    if unseen.overrun {
        parts.push("a CQ of the QP was overrun (CQ_ERR), which loses completions".into());
    }
    if unseen.unattributed != 0 {
        parts.push(format!(
            "{} failed completion(s) of its CQs do not tell their QP (an extended CQ tells it if it was created with \
             IBV_WC_EX_WITH_QP_NUM)",
            unseen.unattributed
        ));
    }
    if unseen.unwatched {
        parts.push("not all CQs are watched".into());
    }
    if unseen.foreign {
        parts.push("the QP, or its context, was first seen after its birth".into());
    }
    if unseen.connection_ended {
        parts.push("with iWARP the end of a connection, also an orderly one, moves the QP to ERR".into());
    }
    if unseen.events_unread {
        parts.push(
            "an event that says why (QP_FATAL, QP_REQ_ERR, QP_ACCESS_ERR) may lie unread: call ibv_get_async_event"
                .into(),
        );
    }
    if parts.is_empty() {
        parts.push("its driver, or code around this library, moved the QP to ERR".into());
    }
    parts.join("; ")
}
