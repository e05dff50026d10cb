//! The programs of `ctests/ledger` and `ctests/completions`: what they print of themselves, and what the shim says of them.
//!
//! A line of the shim is compared with a pattern, in which `{key}` is what the program printed as `key=...`, `#` a
//! number, and `*` anything.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

use serde_json::Value;

use crate::{Flavour, Outcome, Run, cc, scripted_dir, with_reports};

/// Every form of an object that gets events.
pub const FORMS: [&str; 10] =
    ["qp", "qp_ex", "open_qp", "cq", "cq_ex", "comp", "comp_ex", "srq", "srq_ex", "wq"];

/// One form of each kind of object.
pub const KINDS: [&str; 5] = ["qp", "cq", "comp", "srq", "wq"];

/// What the lines say of an object of one form.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// `QP`, as in "of this QP".
    pub kind: &'static str,
    pub destroy: &'static str,
    pub ack: &'static str,
    /// The first event of its kind that the programs inject, `completion` for a completion event.
    pub event: &'static str,
}

/// The words for a form.
pub fn words(form: &str) -> Words {
    let ack = "ibv_ack_async_event";
    match form {
        "qp" | "qp_ex" | "open_qp" => {
            Words { kind: "QP", destroy: "ibv_destroy_qp", ack, event: "SQ_DRAINED" }
        }
        "cq" | "cq_ex" => Words { kind: "CQ", destroy: "ibv_destroy_cq", ack, event: "CQ_ERR" },
        "comp" | "comp_ex" => {
            Words { kind: "CQ", destroy: "ibv_destroy_cq", ack: "ibv_ack_cq_events", event: "completion" }
        }
        "srq" | "srq_ex" => {
            Words { kind: "SRQ", destroy: "ibv_destroy_srq", ack, event: "SRQ_LIMIT_REACHED" }
        }
        "wq" => Words { kind: "WQ", destroy: "ibv_destroy_wq", ack, event: "WQ_FATAL" },
        other => panic!("there is no form {other}"),
    }
}

impl Words {
    /// The events are completion events.
    pub fn is_comp(&self) -> bool {
        self.event == "completion"
    }
}

/// Fails unless the two times, in seconds, are near to each other.
#[track_caller]
pub fn near(found: f64, wanted: f64, run: &Outcome) {
    assert!((found - wanted).abs() < 0.4, "{found} s instead of {wanted} s: {run}");
}

/// What an open event of the thread itself looks like at once.
pub fn took_itself(words: &Words, thread: &str) -> String {
    let event = if words.is_comp() { "1 completion event" } else { words.event };
    format!(
        "{}: {{object}}: {{{thread}}} took {event} itself # s ago and did not acknowledge it: unless another thread \
         does, this destroy never returns; call {} first",
        words.destroy, words.ack
    )
}

/// What one open event looks like after a time. `taker` may carry a mark: `reader, ended`.
pub fn waits_for(words: &Words, waiter: &str, taker: &str) -> String {
    let start = format!("{}: {{object}}: {{{waiter}}} has waited for # s:", words.destroy);
    if words.is_comp() {
        return format!(
            "{start} 1 completion event, taken by {taker} # s ago, is not acknowledged; call {}*",
            words.ack
        );
    }
    format!(
        "{start} {}, taken by {taker} # s ago, is not acknowledged; call {} for each event that was got",
        words.event, words.ack
    )
}

/// Compiles a program of `ctests/ledger`; the scripted provider lends its name.
pub fn ledger(name: &str) -> PathBuf {
    let dir = format!("-L{}", scripted_dir().display());
    cc(&format!("ctests/ledger/{name}.c"), &[&dir, "-libverbs"])
}

/// The same as a library.
pub fn ledger_library(name: &str) -> PathBuf {
    let dir = format!("-L{}", scripted_dir().display());
    cc(&format!("ctests/ledger/{name}.c"), &["-shared", "-fPIC", &dir, "-libverbs"])
}

/// Compiles a program of `ctests/completions`. Unwinding runs their clean-ups.
pub fn completions(name: &str) -> PathBuf {
    let dir = format!("-L{}", scripted_dir().display());
    cc(&format!("ctests/completions/{name}.c"), &["-fexceptions", &dir, "-libverbs"])
}

/// A run of such a program on the scripted provider.
pub fn run_completions(name: &str, args: &[&str], flavour: Option<Flavour>) -> Run {
    Run::new(completions(name)).args(args).scripted().shim_if(flavour)
}

/// A run of a program of `ctests/ledger` on the scripted provider, with HANG_SECS as low as it goes.
pub fn run_ledger(name: &str, args: &[&str], flavour: Option<Flavour>) -> Run {
    let run = Run::new(ledger(name)).args(args).scripted().shim_if(flavour);
    // Without malloc's cache a new object gets the address of the one that was freed last.
    run.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0").env("IBV_SA_HANG_SECS", "1")
}

/// Runs it with a report; there must be one.
#[track_caller]
pub fn with_report(run: Run) -> (Outcome, Value) {
    let (outcome, mut reports) = with_reports(run);
    assert_eq!(reports.len(), 1, "{outcome}");
    (outcome, reports.remove(0))
}

/// Does it for all cases at one time: most of them sleep most of the time.
pub fn all_at_once<T: Debug + Send>(cases: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) {
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for case in cases {
            let (work, failed) = (&work, &failed);
            scope.spawn(move || {
                let name = format!("{case:?}");
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(case))).is_err() {
                    failed.lock().unwrap_or_else(|e| e.into_inner()).push(name);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(|e| e.into_inner());
    assert!(failed.is_empty(), "these cases failed, see above: {failed:?}");
}

/// All pairs.
pub fn pairs<A: Copy, B: Copy>(first: &[A], second: &[B]) -> Vec<(A, B)> {
    first.iter().flat_map(|a| second.iter().map(|b| (*a, *b))).collect()
}

impl Outcome {
    /// All that the program printed as `key=...`.
    pub fn values(&self, key: &str) -> Vec<&str> {
        let lines = self.stdout.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(name, _)| *name == key).map(|(_, value)| value).collect()
    }

    /// What the program printed as `key=...`.
    #[track_caller]
    pub fn value(&self, key: &str) -> &str {
        let values = self.values(key);
        assert_eq!(values.len(), 1, "{key}= in {self}");
        values[0]
    }

    /// The same, a number.
    #[track_caller]
    pub fn number(&self, key: &str) -> f64 {
        self.value(key).parse().unwrap_or_else(|e| panic!("{key}: {e}: {self}"))
    }

    /// The shim's lines without the prefix.
    #[track_caller]
    pub fn messages(&self) -> Vec<&str> {
        let text = |line: &&str| -> Option<usize> { Some(line.find("]: ")? + 3) };
        let lines = self.shim_lines();
        lines.iter().map(|line| &line[text(line).unwrap_or_else(|| panic!("{line}: {self}"))..]).collect()
    }

    /// The pattern with the program's values filled in.
    #[track_caller]
    fn filled(&self, pattern: &str) -> String {
        let mut filled = String::new();
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once('{') {
            let (key, after) = after.split_once('}').expect("a closing brace");
            filled += before;
            filled += self.value(key);
            rest = after;
        }
        filled + rest
    }

    /// Fails unless the shim said just this, in this order, and nothing else came on stderr; returns the
    /// numbers of all lines.
    #[track_caller]
    pub fn assert_says(&self, patterns: &[&str]) -> Vec<f64> {
        let messages = self.messages();
        let mut numbers = Vec::new();
        for (i, pattern) in patterns.iter().enumerate() {
            let filled = self.filled(pattern);
            let Some(message) = messages.get(i) else { panic!("missing: {filled}\n{self}") };
            let Some(found) = match_line(&filled, message) else {
                panic!("wanted: {filled}\nfound:  {message}\n{self}")
            };
            numbers.extend(found);
        }
        assert_eq!(
            messages.len(),
            patterns.len(),
            "further lines: {:?}\n{self}",
            &messages[patterns.len()..]
        );
        assert_eq!(self.stderr.lines().count(), patterns.len(), "others write to stderr: {self}");
        numbers
    }

    /// Fails unless a line like this is among what the shim said; returns its numbers.
    #[track_caller]
    pub fn assert_mentions(&self, pattern: &str) -> Vec<f64> {
        let filled = self.filled(pattern);
        let messages = self.messages();
        let found = messages.iter().find_map(|message| match_line(&filled, message));
        found.unwrap_or_else(|| panic!("missing: {filled}\n{self}"))
    }
}

/// The numbers that stand where the pattern has `#`, if the text is like the pattern.
pub fn match_line(pattern: &str, text: &str) -> Option<Vec<f64>> {
    let Some(special) = pattern.find(['#', '*']) else {
        return (pattern == text).then(Vec::new);
    };
    let rest = text.strip_prefix(&pattern[..special])?;
    let after = &pattern[special + 1..];
    if pattern[special..].starts_with('*') {
        let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
        return ends.into_iter().find_map(|at| match_line(after, &rest[at..]));
    }
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    // A full stop behind a number is not part of it.
    let number = rest[..digits].trim_end_matches('.');
    let mut numbers = vec![number.parse().ok()?];
    numbers.extend(match_line(after, &rest[number.len()..])?);
    Some(numbers)
}

/// The object in a report that this text of a program means: `QP qp_num 17 (handle 1017, scr0)` and so on.
#[track_caller]
pub fn object_in<'a>(report: &'a Value, text: &str) -> &'a Value {
    let kind = text.split(' ').next().unwrap_or_default();
    let handle =
        text.split_once("handle ").map(|(_, rest)| rest.trim_end_matches(|c: char| !c.is_ascii_digit()));
    let handle: u64 = handle
        .and_then(|rest| rest.split([',', ' ']).next())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("no handle in {text}"));
    let contexts = report["contexts"].as_array().unwrap_or_else(|| panic!("no contexts in {report:#}"));
    let mut objects = contexts.iter().flat_map(|context| context["objects"].as_array().into_iter().flatten());
    objects
        .find(|object| object["kind"] == kind && object["handle"] == handle)
        .unwrap_or_else(|| panic!("no {text} in {report:#}"))
}

/// The incidents of one kind.
#[track_caller]
pub fn incidents<'a>(report: &'a Value, kind: &str) -> Vec<&'a Value> {
    let all = report["incidents"].as_array().unwrap_or_else(|| panic!("no incidents in {report:#}"));
    all.iter().filter(|incident| incident["kind"] == kind).collect()
}

#[cfg(test)]
mod tests {
    use super::match_line;

    #[test]
    fn patterns() {
        assert_eq!(match_line("a # s ago*", "a 1.5 s ago, b"), Some(vec![1.5]));
        assert_eq!(match_line("*x # y", "a x b x 3 y"), Some(vec![3.0]));
        assert_eq!(match_line("a #.", "a 12."), Some(vec![12.0]));
        assert_eq!(match_line("a", "a b"), None);
        assert_eq!(match_line("a #", "a b"), None);
    }
}
