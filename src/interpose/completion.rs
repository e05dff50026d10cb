//! Completions that failed: kept in the books, and spoken of once for each QP.

use ibv_sa_ledger::{Cause, Failed, Failure, Ledger, QpToken, ToSay, What};
use ibv_sa_report::verdict as lines;

use crate::settings::{self, CqMode};
use crate::{clock, tell};

/// What is defined of a failed completion.
pub(crate) struct Known {
    pub(crate) status: u32,
    pub(crate) wr_id: u64,
    /// `None` where the CQ cannot tell.
    pub(crate) qp_num: Option<u32>,
    pub(crate) vendor_err: u32,
}

/// A completion of this CQ and context has an error status.
pub(crate) fn failed(ledger: &'static Ledger, (cq, context): (usize, usize), known: &Known) {
    let failure =
        Failure { status: known.status, vendor_err: known.vendor_err, wr_id: known.wr_id, at: clock::now() };
    match ledger.completion_failed(&Failed { cq, context, qp_num: known.qp_num, failure }) {
        ToSay::Nothing => {}
        ToSay::FirstFailure(qp) | ToSay::FlushedAlone(qp) => say(ledger, qp),
    }
}

/// The QP is about to be destroyed, or moved to RESET.
pub(crate) fn qp_ends(ledger: &Ledger, qp: QpToken) {
    if ledger.qp_ends(qp) {
        say(ledger, qp);
    }
}

/// All QPs of a context, or of the process, are about to end.
pub(crate) fn all_end(ledger: &Ledger, context: Option<usize>) {
    if settings::if_read().is_some_and(|settings| settings.cq != CqMode::Off) {
        for qp in ledger.qps_of(context) {
            qp_ends(ledger, qp);
        }
    }
}

#[cold]
#[inline(never)]
fn say(ledger: &Ledger, qp: QpToken) {
    let Some(verdict) = ledger.verdict(qp) else { return };
    let (what, text) = match &verdict.cause {
        Cause::Failure(failure) => (What::FirstFailure, lines::first_failure(&verdict, failure)),
        _ => (What::FlushedAlone, lines::flushed(&verdict, clock::now())),
    };
    tell::incident(ledger, what, verdict.context.id, clock::tid(), &text);
}
