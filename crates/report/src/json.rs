//! The machine's form.

use std::collections::BTreeMap;

use ibv_sa_ledger::{DeviceSnapshot, Kind, Lifetimes};
use serde::Serialize;

use crate::Report;

/// Name and version of the JSON schema. A new field keeps it, a changed meaning raises it.
pub const SCHEMA: &str = "ibv_sa.report/1";

#[derive(Serialize)]
struct Root<'a> {
    schema: &'static str,
    library_version: &'a str,
    pid: u32,
    program: &'a str,
    provider: &'a str,
    partial: bool,
    gaps: Vec<String>,
    stderr_lines_dropped: u64,
    devices: Vec<Device<'a>>,
    async_acks: BTreeMap<&'a str, u64>,
}

#[derive(Serialize)]
struct Device<'a> {
    name: Option<&'a str>,
    contexts: Contexts,
    objects: Objects,
    async_events: BTreeMap<&'a str, u64>,
    comp_events: CompEvents,
    completions: Completions,
}

#[derive(Serialize)]
struct Contexts {
    opened: u64,
    adopted: u64,
    closed: u64,
}

#[derive(Serialize)]
struct Objects {
    qp: Life,
    cq: Life,
    srq: Life,
    wq: Life,
    comp_channel: Life,
}

#[derive(Serialize)]
struct Life {
    created: u64,
    destroyed: u64,
}

#[derive(Serialize)]
struct CompEvents {
    got: u64,
    acked: u64,
}

#[derive(Serialize)]
struct Completions {
    polled: u64,
    failed: u64,
}

impl From<Lifetimes> for Life {
    fn from(life: Lifetimes) -> Self {
        Self { created: life.created, destroyed: life.destroyed }
    }
}

impl<'a> From<&'a DeviceSnapshot> for Device<'a> {
    fn from(device: &'a DeviceSnapshot) -> Self {
        let life = |kind: Kind| device.objects[kind as usize].into();
        Self {
            name: device.name.as_deref(),
            contexts: Contexts { opened: device.opened, adopted: device.adopted, closed: device.closed },
            objects: Objects {
                qp: life(Kind::Qp),
                cq: life(Kind::Cq),
                srq: life(Kind::Srq),
                wq: life(Kind::Wq),
                comp_channel: life(Kind::CompChannel),
            },
            async_events: by_type(&device.async_events),
            comp_events: CompEvents { got: device.traffic.events_got, acked: device.traffic.events_acked },
            completions: Completions { polled: device.traffic.polled, failed: device.traffic.failed },
        }
    }
}

fn by_type(counts: &[(String, u64)]) -> BTreeMap<&str, u64> {
    counts.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

pub(crate) fn render(report: &Report) -> String {
    let gaps = report.gaps();
    let root = Root {
        schema: SCHEMA,
        library_version: report.version,
        pid: report.pid,
        program: report.program,
        provider: report.provider,
        partial: !gaps.is_empty(),
        gaps,
        stderr_lines_dropped: report.lines_dropped,
        devices: report.snapshot.devices.iter().map(Device::from).collect(),
        async_acks: by_type(&report.snapshot.async_acks),
    };
    let mut line = serde_json::to_string(&root).expect("plain strings and numbers become JSON");
    line.push('\n');
    line
}
