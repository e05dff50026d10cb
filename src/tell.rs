//! Incidents: kept in the books, and said on stderr if there are not too many.

use std::io::Read;

use ibv_sa_ledger::{Incident, Ledger, Thread, What};
use ibv_sa_report::lines::Person;

use crate::boundary::uncancelled;
use crate::{clock, stderr};

/// Keeps an incident and says it. Returns its place in the books.
pub(crate) fn incident(ledger: &Ledger, what: What, context: u32, tid: u32, text: &str) -> Option<u32> {
    let now = clock::now();
    let place = ledger.happened(&Incident { what, at: now, context, tid, count: 1, text: text.into() });
    if !what.is_info() {
        line(ledger, text);
    }
    place
}

/// Says a line, unless there were too many of late; the next one that is said tells how many were left out.
pub(crate) fn line(ledger: &Ledger, text: &str) {
    if let Some(left_out) = ledger.may_say(clock::now()) {
        allowed_line(text, left_out);
    }
}

/// Says a line that may be said, and how many could not be before it.
pub(crate) fn allowed_line(text: &str, left_out: u64) {
    match left_out {
        0 => stderr::say(text),
        _ => stderr::say(&format!("{text} ({left_out} lines left out before)")),
    }
}

/// Whether the `number`th of its kind is said: the 1st, 10th, 100th and so on.
pub(crate) fn is_round(number: u32) -> bool {
    number != 0 && 10_u32.checked_pow(number.ilog10()) == Some(number)
}

/// A thread as it is called now, or as it was called when it was noted.
pub(crate) fn person(thread: &Thread) -> Person {
    let end = thread.name.iter().position(|byte| *byte == 0).unwrap_or(thread.name.len());
    let noted = String::from_utf8_lossy(&thread.name[..end]).into_owned();
    let now = uncancelled(|| name_of(thread.tid));
    let ended = now.is_none() && has_ended(thread.tid);
    Person { tid: thread.tid, name: now.or((!noted.is_empty()).then_some(noted)), ended }
}

/// Where it can be read (proc(5)).
fn name_of(tid: u32) -> Option<String> {
    let mut name = Vec::new();
    let path = format!("/proc/self/task/{tid}/comm");
    std::fs::File::open(path).ok()?.take(64).read_to_end(&mut name).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(name.trim_end_matches('\n').to_owned())
}

/// Whether a thread of this process exists no more.
pub(crate) fn has_ended(tid: u32) -> bool {
    // SAFETY: signal 0 is not sent; the call only says whether the thread exists (tgkill(2)).
    let alive = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), tid, 0) } == 0;
    !alive && crate::boundary::errno() == libc::ESRCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_are_powers_of_ten() {
        let round: Vec<u32> = (0..100_000).filter(|number| is_round(*number)).collect();
        assert_eq!(round, [1, 10, 100, 1000, 10_000]);
        assert!(!is_round(u32::MAX));
    }

    #[test]
    fn a_thread_has_its_name_while_it_lives() {
        let (tid, name) = std::thread::Builder::new()
            .name("reader".into())
            .spawn(|| {
                let me = clock::me();
                assert_eq!(person(&me).to_string(), format!("thread {} (reader)", me.tid));
                (me.tid, me.name)
            })
            .unwrap()
            .join()
            .unwrap();
        // join(2) may return a moment before the kernel has forgotten the thread.
        while person(&Thread { tid, name }).to_string() != format!("thread {tid} (reader, ended)") {
            std::thread::yield_now();
        }
        assert_eq!(person(&Thread { tid, name: [0; 16] }).to_string(), format!("thread {tid} (ended)"));
    }
}
