//! What is said about the headroom of CQs.

use ibv_sa_ledger::{CqLine, Headroom, Unchecked};

use crate::lines;

/// What to do about a CQ that is too small for its work.
const REMEDY: &str = "create it with a larger cqe, have fewer work requests outstanding, or poll it sooner";

/// More is outstanding than a CQ has room for.
pub fn exceeded(cq: &CqLine) -> String {
    let headroom = cq.headroom.clone().unwrap_or_default();
    format!(
        "{}: {} work requests are outstanding that may complete to it, and it has room for {} completions (those that \
         are not signalled complete if they fail): it can be overrun, which loses completions{}; {REMEDY}",
        lines::object(&cq.name),
        headroom.mark,
        headroom.depth,
        qps(cq),
    )
}

/// CQ_ERR was read.
pub fn failed(cq: &CqLine, depth: u32) -> String {
    let outstanding = match &cq.headroom {
        Some(headroom) if headroom.unchecked.is_empty() => {
            format!("; at most {} work requests were seen outstanding at one time", headroom.mark)
        }
        Some(headroom) => format!(
            "; at least {} work requests were outstanding at one time (not all could be counted: {})",
            headroom.mark,
            reasons(headroom).join("; ")
        ),
        None => String::new(),
    };
    format!(
        "{}: CQ_ERR: it was most likely overrun, and completions are lost: it has room for {depth}{outstanding}{}; \
         {REMEDY}",
        lines::object(&cq.name),
        qps(cq),
    )
}

fn qps(cq: &CqLine) -> String {
    let numbers: Vec<String> = cq.qps.iter().map(u32::to_string).collect();
    match (numbers.len(), cq.more) {
        (0, _) => String::new(),
        (1, 0) => format!("; QP {} completes to it", numbers[0]),
        (_, 0) => format!("; QPs {} complete to it", numbers.join(", ")),
        (_, more) => format!("; QPs {} and {more} more complete to it", numbers.join(", ")),
    }
}

/// Of the CQs of a report, those that came near to their depth or beyond are worth a line.
pub(crate) fn described(headroom: &Headroom) -> Option<String> {
    let why = reasons(headroom);
    let counts = format!("at most {} of {} outstanding", headroom.mark, headroom.depth);
    match (headroom.exceeded, why.is_empty()) {
        (true, true) => Some(counts),
        (true, false) => Some(format!("{counts}, not all counted: {}", why.join("; "))),
        (false, true) => None,
        (false, false) => Some(format!("headroom not checked: {}", why.join("; "))),
    }
}

pub(crate) fn reasons(headroom: &Headroom) -> Vec<&'static str> {
    headroom.unchecked.iter().copied().map(reason).collect()
}

fn reason(unchecked: Unchecked) -> &'static str {
    match unchecked {
        Unchecked::Unseen => "it was first seen after its birth",
        Unchecked::IgnoresOverrun => "it was created with IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN",
        Unchecked::WrApi => "a QP of it can post through ibv_wr_*, which is not counted",
        Unchecked::OtherQp => "a QP completes to it that could not be followed",
        Unchecked::OtherQueue => "a WQ, or an SRQ of XRC or tag matching, completes to it",
        Unchecked::SharedSrq => "the QPs of one SRQ complete to several CQs",
        Unchecked::SrqUserEnded => "a QP with an SRQ ended or failed, and what it had received is not known",
        Unchecked::QpFailed => "work was posted while a QP of it was in error",
        Unchecked::Blurred => "the order or number of a QP's posts is not known",
        Unchecked::BindMw => "memory windows were bound by ibv_bind_mw, which is not counted",
        Unchecked::NoQpNum => "its completions do not tell their QP and opcode (IBV_WC_EX_WITH_QP_NUM)",
        Unchecked::Repeats => "its provider gives completions twice",
        Unchecked::Crowded => "it has too many queues for its depth",
        Unchecked::PolledElsewhere => {
            "it had completion events and no poll of it was seen: it is polled around this library"
        }
    }
}

#[cfg(test)]
mod tests {
    use ibv_sa_ledger::{ContextName, Ident, Kind, ObjectName};

    use super::*;

    fn cq(qps: &[u32], more: usize, headroom: Option<Headroom>) -> CqLine {
        let context = ContextName { id: 1, device: Some("rxe0".into()) };
        let ident = Some(Ident { number: 0, handle: 5 });
        CqLine { name: ObjectName { kind: Kind::Cq, ident, context }, qps: qps.into(), more, headroom }
    }

    fn headroom(unchecked: &[Unchecked]) -> Headroom {
        Headroom { depth: 16, mark: 17, outstanding: Some(17), exceeded: true, unchecked: unchecked.into() }
    }

    #[test]
    fn a_warning_says_what_may_happen_and_what_to_do() {
        assert_eq!(
            exceeded(&cq(&[17], 0, Some(headroom(&[])))),
            "CQ handle 5 (rxe0): 17 work requests are outstanding that may complete to it, and it has room for 16 \
             completions (those that are not signalled complete if they fail): it can be overrun, which loses \
             completions; QP 17 completes to it; create it with a larger cqe, have fewer work requests outstanding, or \
             poll it sooner"
        );
    }

    #[test]
    fn an_overrun_is_explained() {
        let line = failed(&cq(&[17, 18], 0, Some(headroom(&[]))), 16);
        assert!(line.contains("has room for 16; at most 17 work requests were seen outstanding"), "{line}");
        assert!(line.contains("; QPs 17, 18 complete to it; create"), "{line}");
        let line = failed(&cq(&[17, 18], 3, None), 16);
        assert!(line.contains("it has room for 16"), "{line}");
        assert!(line.contains("; QPs 17, 18 and 3 more complete to it; create"), "{line}");
        let line = failed(&cq(&[], 0, Some(headroom(&[Unchecked::WrApi]))), 16);
        assert!(line.contains("at least 17 work requests") && line.contains("ibv_wr_*"), "{line}");
    }

    #[test]
    fn the_report_has_what_is_worth_a_line() {
        let quiet = Headroom { exceeded: false, ..headroom(&[]) };
        assert_eq!(described(&quiet), None);
        assert_eq!(described(&headroom(&[])).as_deref(), Some("at most 17 of 16 outstanding"));
        let unchecked = Headroom { exceeded: false, ..headroom(&[Unchecked::PolledElsewhere]) };
        assert!(described(&unchecked).is_some_and(|line| line.starts_with("headroom not checked: it had")));
    }
}
