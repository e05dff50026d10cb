//! What a person reads: lines about incidents, and the exit report of what the ledger counted, for people and for
//! machines.
//!
//! The JSON form of the report is described by `docs/report-schema.json`; its `schema` field names the version.

#![forbid(unsafe_code)]

pub mod headroom;
mod json;
mod json_verdict;
pub mod lines;
pub mod lint;
mod text;
pub mod verdict;

use ibv_sa_ledger::{AckMode, Snapshot};

pub use json::SCHEMA;

/// A snapshot and whose it is.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// Version of the library.
    pub version: &'a str,
    /// Process id.
    pub pid: u32,
    /// Name of the program: the last part of what it was called by (program_invocation_short_name(3)).
    pub program: &'a str,
    /// The library that does the work (a file name or path).
    pub provider: &'a str,
    /// What becomes of an ack for no event.
    pub ack_mode: AckMode,
    /// Seconds after which a waiting destroy is spoken of.
    pub hang_secs: u32,
    /// What is looked at of completions: off, errors or full.
    pub cq_mode: &'a str,
    /// Now, and the time of the first call, in nanoseconds of CLOCK_MONOTONIC.
    pub times: (u64, u64),
    /// Counting was switched off by a fault of our own before the program ended.
    pub faulted: bool,
    /// There was no memory to count in.
    pub without_books: bool,
    /// Lines that could not be written to stderr.
    pub lines_dropped: u64,
    /// The counts.
    pub snapshot: &'a Snapshot,
}

impl Report<'_> {
    /// Why the counts may differ from the truth; empty when they are complete.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if self.faulted {
            gaps.push("counting stopped at an internal error (see stderr)".into());
        }
        if self.without_books {
            gaps.push(
                "there was no memory to count in (the kernel refused a mapping of less than 24 MiB)".into(),
            );
        }
        if self.snapshot.unwatched != 0 {
            gaps.push(format!(
                "completions of {} context(s) were not watched: no trampoline was free",
                self.snapshot.unwatched
            ));
        }
        if self.snapshot.unwatched_cqs != 0 {
            gaps.push(format!(
                "completions that {} extended CQ(s) gave through ibv_start_poll and ibv_next_poll are not counted: \
                 no trampoline was free",
                self.snapshot.unwatched_cqs
            ));
        }
        if self.snapshot.repeating_cqs != 0 {
            gaps.push(format!(
                "completions of {} extended CQ(s) of Soft-RoCE (rxe) may be counted too often: before rdma-core 59 it \
                 gives completions again when a batch has ended",
                self.snapshot.repeating_cqs
            ));
        }
        if self.snapshot.crowded_out != 0 {
            let (contexts, objects, devices) = Snapshot::CAPACITY;
            gaps.push(format!(
                "{} time(s) a context, object or device found no room (capacity {contexts} contexts, {objects} \
                 objects, {devices} devices): some counts may stand under the wrong device, and acks of objects that \
                 are not in the books are passed on unchecked",
                self.snapshot.crowded_out
            ));
        }
        if self.snapshot.unlisted != 0 {
            gaps.push(format!(
                "{} event(s) were open without room for who took them and when",
                self.snapshot.unlisted
            ));
        }
        gaps
    }

    /// Whether all completions were counted.
    pub(crate) fn counts_all(&self) -> bool {
        self.cq_mode == "full"
    }

    /// The text form; every line ends in a newline.
    pub fn text(&self) -> String {
        text::render(self)
    }

    /// The JSON form, one line.
    pub fn json(&self) -> String {
        json::render(self)
    }
}

/// Names come from other hands: nothing in them may move a terminal's cursor.
pub(crate) fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_verdicts;
