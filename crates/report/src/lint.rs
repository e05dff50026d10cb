//! What is said about programs that arm a CQ and wait in a way that misses completions.

use ibv_sa_ledger::Lint;

use crate::lines::Person;

/// A thread waits at `place` for an event of this CQ.
pub fn waits(cq: &str, by: &Person, place: &str, lint: Lint) -> String {
    let why = match lint {
        Lint::ArmedWithoutPoll => {
            "which was armed after its last poll: a completion that came in between makes no event, and this wait may \
             never end; after ibv_req_notify_cq poll once more, until it is empty, and then wait"
        }
        Lint::FullPoll => {
            "whose last poll filled the array: more completions may be there, which make no event, and this wait may \
             never end; poll until fewer come than were asked for, and then wait"
        }
    };
    format!("ibv_get_cq_event at {place}: {by} waits for {cq}, {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_place_the_cq_and_the_remedy() {
        let by = Person { tid: 7, name: Some("server".into()), ended: false };
        assert_eq!(
            waits("CQ handle 3 (rxe0)", &by, "server+0x1234", Lint::ArmedWithoutPoll),
            "ibv_get_cq_event at server+0x1234: thread 7 (server) waits for CQ handle 3 (rxe0), which was armed after its \
             last poll: a completion that came in between makes no event, and this wait may never end; after \
             ibv_req_notify_cq poll once more, until it is empty, and then wait"
        );
        let text = waits("CQ handle 3 (rxe0)", &by, "0x1234", Lint::FullPoll);
        assert!(text.contains("whose last poll filled the array"), "{text}");
    }
}
