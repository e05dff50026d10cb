//! Why a QP's work requests were flushed.

use crate::open::Taken;
use crate::{ContextName, Ident, Thread};

/// `IBV_WC_WR_FLUSH_ERR`.
pub(crate) const WR_FLUSH_ERR: u32 = 5;

/// `enum ibv_wc_status` without the prefix, by number (rdma-core 65, `<infiniband/verbs.h>`).
const STATUSES: [&str; 24] = [
    "SUCCESS",
    "LOC_LEN_ERR",
    "LOC_QP_OP_ERR",
    "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",
    "WR_FLUSH_ERR",
    "MW_BIND_ERR",
    "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",
    "REM_INV_REQ_ERR",
    "REM_ACCESS_ERR",
    "REM_OP_ERR",
    "RETRY_EXC_ERR",
    "RNR_RETRY_EXC_ERR",
    "LOC_RDD_VIOL_ERR",
    "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",
    "INV_EECN_ERR",
    "INV_EEC_STATE_ERR",
    "FATAL_ERR",
    "RESP_TIMEOUT_ERR",
    "GENERAL_ERR",
    "TM_ERR",
    "TM_RNDV_INCOMPLETE",
];

/// The name of a completion's status; a number that no libibverbs knows is printed as a number.
pub fn status_name(status: u32) -> String {
    match STATUSES.get(status as usize) {
        Some(name) => (*name).into(),
        None => format!("status {status}"),
    }
}

/// Statuses of tag matching say that a list operation or a rendezvous did not succeed: the QP goes on.
pub(crate) fn leaves_qp_alone(status: u32) -> bool {
    matches!(status, 22 | 23)
}

/// Where a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Its LID.
    Lid(u16),
    /// Its GID, in network order.
    Gid([u8; 16]),
}

/// What a QP is connected to, as far as `ibv_modify_qp` was seen to say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// QP number.
    pub number: Option<u32>,
    /// Port.
    pub address: Option<Address>,
}

/// A completion with an error status. More than this is not defined in one (ibv_poll_cq(3)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// `enum ibv_wc_status`.
    pub status: u32,
    /// The provider's own code.
    pub vendor_err: u32,
    /// The program's own mark.
    pub wr_id: u64,
    /// When it was polled.
    pub at: u64,
}

/// Why completions of a QP failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A work request failed first.
    Failure(Failure),
    /// The program itself moved the QP to this state (`enum ibv_qp_state`).
    Moved {
        /// 0 is RESET, 6 is ERR; 7, which is not one of them: it was destroyed.
        to: u32,
        /// Who did.
        by: Thread,
        /// When.
        at: u64,
    },
    /// An event of the QP says so.
    Event(Taken),
    /// The device has failed or is gone.
    DeviceGone,
    /// No first failure was visible to this process.
    Unknown(Unseen),
}

/// What could not be seen of a QP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Handle of the QP's other CQ, from which nothing of it was polled that failed.
    pub other_cq: Option<u32>,
    /// A CQ of it was overrun: that loses completions.
    pub overrun: bool,
    /// Failures that were polled from a CQ of it without a qp_num.
    pub unattributed: u64,
    /// The QP was first seen after its birth, or on a context that was.
    pub foreign: bool,
    /// The device moves the QP to ERR when its connection ends, and says no more.
    pub connection_ended: bool,
    /// Completions or polls of this process are not watched for want of a trampoline.
    pub unwatched: bool,
    /// Nobody has asked for an asynchronous event of its context.
    pub events_unread: bool,
}

/// What is known about the failures of one QP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its context.
    pub context: ContextName,
    /// Number and handle; the handle is known if it was seen when it was created.
    pub ident: Ident,
    /// It was seen when it was created.
    pub born: bool,
    /// It was not, or its context was first seen after its birth.
    pub foreign: bool,
    /// A failure moves it to ERR.
    pub connected: bool,
    /// It is there no more.
    pub destroyed: bool,
    /// Its peer.
    pub peer: Option<Peer>,
    /// Completions with an error status other than WR_FLUSH_ERR.
    pub failures: u64,
    /// Completions that were flushed.
    pub flushes: u64,
    /// The first of those: its wr_id.
    pub first_flush: u64,
    /// Why.
    pub cause: Cause,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_the_names_of_verbs_h() {
        assert_eq!(status_name(WR_FLUSH_ERR), "WR_FLUSH_ERR");
        assert_eq!(status_name(12), "RETRY_EXC_ERR");
        assert_eq!(status_name(23), "TM_RNDV_INCOMPLETE");
        assert_eq!(status_name(24), "status 24");
        assert_eq!(status_name(u32::MAX), "status 4294967295");
    }
}
