//! Completions that failed: kept in the books, and spoken of once for each QP.

use ibv_sa_ledger::{Cause, Failed, Failure, Incident, Ledger, Moving, QpToken, ToSay, What};
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
    /// See [`Failed`].
    pub(crate) qp_goes_on: bool,
}

/// A completion of this CQ and context has an error status.
pub(crate) fn failed(ledger: &'static Ledger, (cq, context): (usize, usize), known: &Known) {
    let failure =
        Failure { status: known.status, vendor_err: known.vendor_err, wr_id: known.wr_id, at: clock::now() };
    let failed = Failed { cq, context, qp_num: known.qp_num, qp_goes_on: known.qp_goes_on, failure };
    match ledger.completion_failed(&failed) {
        ToSay::Nothing => {}
        ToSay::FirstFailure(qp, failure) => say(ledger, qp, Some(&failure)),
        ToSay::FlushedAlone(qp) => say(ledger, qp, None),
    }
}

/// The QP is about to be moved to RESET, or its context to be closed.
pub(crate) fn qp_ends(ledger: &Ledger, qp: QpToken) {
    if ledger.qp_ends(qp) {
        say(ledger, qp, None);
    }
}

/// The QP is about to be destroyed.
pub(crate) fn qp_is_destroyed(ledger: &Ledger, context: usize, qp_num: u32, now: u64) -> Moving {
    let qp = ledger.qp_numbered(context, qp_num);
    qp_ends(ledger, qp);
    ledger.qp_is_destroyed(qp, clock::tid(), now)
}

/// All QPs of a context, or of the process, are about to end.
pub(crate) fn all_end(ledger: &Ledger, context: Option<usize>) {
    if settings::if_read().is_some_and(|settings| settings.cq != CqMode::Off) {
        for qp in ledger.qps_of(context) {
            qp_ends(ledger, qp);
        }
    }
}

/// Speaks of a QP's first failure, or of its flushes alone. Thousands of QPs may fail at once, and their threads have
/// others to look after: nothing is put into words that nobody will see.
#[cold]
#[inline(never)]
fn say(ledger: &Ledger, qp: QpToken, first: Option<&Failure>) {
    let now = clock::now();
    let line = ledger.may_say(now);
    if line.is_none() && !ledger.keeps_incidents() {
        return ledger.incident_left_out();
    }
    let Some(verdict) = ledger.verdict(qp) else { return };
    let (what, text) = match (first, &verdict.cause) {
        // The QP may have begun again meanwhile: what is told is what was seen.
        (Some(failure), _) => (What::FirstFailure, lines::first_failure(&verdict, failure)),
        (None, Cause::Unknown(_) | Cause::Event(_)) if verdict.flushes != 0 => {
            (What::FlushedAlone, lines::flushed(&verdict, now))
        }
        (None, _) => return,
    };
    let (at, context) = (now, verdict.context.id);
    ledger.happened(&Incident { what, at, context, tid: clock::tid(), count: 1, text: text.clone() });
    if let Some(left_out) = line {
        tell::allowed_line(&text, left_out);
    }
}
