//! The machine's form.

use std::collections::BTreeMap;

use ibv_sa_ledger::{
    AckSums, ContextSnapshot, DeviceSnapshot, Kind, Lifetimes, ObjectSnapshot, Taken, Traffic, event_name,
};
use serde::Serialize;

use crate::headroom::reasons;
use crate::json_verdict::Verdict;
use crate::{Report, lines};

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
    ack_mode: &'static str,
    hang_secs: u32,
    cq_mode: &'a str,
    acks: Acks,
    contexts: Vec<Context<'a>>,
    contexts_left_out: u64,
    incidents: Vec<Incident<'a>>,
    incidents_left_out: u32,
    lines_left_out: u64,
}

#[derive(Serialize)]
struct Acks {
    bad: u64,
    held: u64,
    released: u64,
    rescued: u64,
    swallowed: u64,
    foreign: u64,
}

#[derive(Serialize)]
struct Context<'a> {
    id: u32,
    device: Option<&'a str>,
    adopted: bool,
    state: &'static str,
    async_events: BTreeMap<&'a str, u64>,
    objects: Vec<Object<'a>>,
    objects_left_out: u64,
    verdicts: Vec<Verdict>,
    verdicts_left_out: u64,
}

#[derive(Serialize)]
struct Object<'a> {
    kind: &'static str,
    number: Option<u32>,
    handle: Option<u32>,
    foreign: bool,
    state: &'static str,
    async_events: BTreeMap<&'a str, u64>,
    async_acks: u64,
    comp_events: CompEvents,
    completions: Completions<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headroom: Option<Headroom>,
    bad_acks: u64,
    held_acks: u64,
    released_acks: u64,
    rescued_acks: u64,
    open: Vec<Open>,
}

/// Of a CQ, where all completions are counted.
#[derive(Serialize)]
struct Headroom {
    depth: u32,
    mark: u64,
    outstanding: Option<u64>,
    exceeded: bool,
    checked: bool,
    why: Vec<&'static str>,
}

impl From<&ibv_sa_ledger::Headroom> for Headroom {
    fn from(headroom: &ibv_sa_ledger::Headroom) -> Self {
        Self {
            depth: headroom.depth,
            mark: headroom.mark,
            outstanding: headroom.outstanding,
            exceeded: headroom.exceeded,
            checked: headroom.unchecked.is_empty(),
            why: reasons(headroom),
        }
    }
}

#[derive(Serialize)]
struct Open {
    #[serde(rename = "type")]
    event_type: String,
    count: u64,
    tid: u32,
    thread: Option<String>,
    age_ms: u64,
}

#[derive(Serialize)]
struct Incident<'a> {
    at_ms: u64,
    kind: &'static str,
    level: &'static str,
    context: Option<u32>,
    tid: u32,
    count: u32,
    text: &'a str,
}

#[derive(Serialize)]
struct Device<'a> {
    name: Option<&'a str>,
    contexts: Contexts,
    objects: Objects,
    async_events: BTreeMap<&'a str, u64>,
    comp_events: CompEvents,
    completions: Completions<'a>,
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

/// What was not counted is null.
#[derive(Serialize)]
struct Completions<'a> {
    polled: Option<u64>,
    failed: Option<u64>,
    unattributed: Option<u64>,
    poll_errors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_status: Option<BTreeMap<&'a str, u64>>,
    by_opcode: Option<BTreeMap<&'a str, u64>>,
}

impl From<Lifetimes> for Life {
    fn from(life: Lifetimes) -> Self {
        Self { created: life.created, destroyed: life.destroyed }
    }
}

impl<'a> Completions<'a> {
    fn new(
        cq_mode: &str,
        traffic: &Traffic,
        statuses: Option<&'a [(String, u64)]>,
        opcodes: &'a [(String, u64)],
    ) -> Self {
        let (any, all) = (cq_mode != "off", cq_mode == "full");
        Self {
            polled: all.then_some(traffic.polled),
            failed: any.then_some(traffic.failed),
            unattributed: any.then_some(traffic.unattributed),
            poll_errors: any.then_some(traffic.poll_errors),
            by_status: statuses.filter(|_| any).map(by_type),
            by_opcode: all.then(|| by_type(opcodes)),
        }
    }
}

impl<'a> Device<'a> {
    fn new(device: &'a DeviceSnapshot, cq_mode: &str) -> Self {
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
            completions: Completions::new(cq_mode, &device.traffic, Some(&device.statuses), &device.opcodes),
        }
    }
}

impl From<&AckSums> for Acks {
    fn from(acks: &AckSums) -> Self {
        Self {
            bad: acks.bad,
            held: acks.held,
            released: acks.released,
            rescued: acks.rescued,
            swallowed: acks.swallowed,
            foreign: acks.foreign,
        }
    }
}

fn describe<'a>(context: &'a ContextSnapshot, report: &Report) -> Context<'a> {
    Context {
        id: context.id,
        device: context.device.as_deref(),
        adopted: context.adopted,
        state: match (context.gone, context.closed) {
            (true, _) => "gone",
            (false, true) => "closed",
            (false, false) => "open",
        },
        async_events: by_type(&context.async_events),
        objects: context.objects.iter().map(|object| describe_object(object, report)).collect(),
        objects_left_out: context.objects_left_out,
        verdicts: context.verdicts.iter().map(|verdict| Verdict::new(verdict, report.times.1)).collect(),
        verdicts_left_out: context.verdicts_left_out,
    }
}

fn describe_object<'a>(object: &'a ObjectSnapshot, report: &Report) -> Object<'a> {
    let now = report.times.0;
    let has_number = matches!(object.kind, Kind::Qp | Kind::Wq | Kind::CompChannel);
    let has_handle = object.kind != Kind::CompChannel;
    let mut open: Vec<Open> =
        object.open.iter().map(|taken| one_open(event_name(taken.event_type), 1, taken, now)).collect();
    if object.open_completions != 0 {
        open.push(one_open("completion".into(), object.open_completions, &object.first_completion, now));
    }
    Object {
        kind: lines::kind(object.kind),
        number: object.ident.filter(|_| has_number).map(|ident| ident.number),
        handle: object.ident.filter(|_| has_handle).map(|ident| ident.handle),
        foreign: object.foreign,
        state: if object.destroyed { "destroyed" } else { "alive" },
        async_events: by_type(&object.async_events),
        async_acks: object.async_acks,
        comp_events: CompEvents { got: object.traffic.events_got, acked: object.traffic.events_acked },
        completions: Completions::new(report.cq_mode, &object.traffic, None, &object.opcodes),
        headroom: object.headroom.as_ref().map(Headroom::from),
        bad_acks: object.acks.bad,
        held_acks: object.acks.held,
        released_acks: object.acks.released,
        rescued_acks: object.acks.rescued,
        open,
    }
}

fn one_open(event_type: String, count: u64, taken: &Taken, now: u64) -> Open {
    let end = taken.by.name.iter().position(|byte| *byte == 0).unwrap_or(taken.by.name.len());
    let thread = String::from_utf8_lossy(&taken.by.name[..end]).into_owned();
    Open {
        event_type,
        count,
        tid: taken.by.tid,
        thread: (!thread.is_empty()).then_some(thread),
        age_ms: milliseconds(now.saturating_sub(taken.at)),
    }
}

/// The clock is not read more exactly.
pub(crate) fn milliseconds(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000_000
}

fn by_type(counts: &[(String, u64)]) -> BTreeMap<&str, u64> {
    counts.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

// Kept apart, so that it is compiled for size.
#[inline(never)]
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
        devices: report.snapshot.devices.iter().map(|device| Device::new(device, report.cq_mode)).collect(),
        async_acks: by_type(&report.snapshot.async_acks),
        ack_mode: report.ack_mode.name(),
        hang_secs: report.hang_secs,
        cq_mode: report.cq_mode,
        acks: (&report.snapshot.acks).into(),
        contexts: report.snapshot.contexts.iter().map(|context| describe(context, report)).collect(),
        contexts_left_out: report.snapshot.contexts_left_out,
        incidents: report
            .snapshot
            .incidents
            .iter()
            .map(|incident| Incident {
                at_ms: milliseconds(incident.at.saturating_sub(report.times.1)),
                kind: incident.what.name(),
                level: if incident.what.is_info() { "info" } else { "warning" },
                context: (incident.context != 0).then_some(incident.context),
                tid: incident.tid,
                count: incident.count,
                text: &incident.text,
            })
            .collect(),
        incidents_left_out: report.snapshot.incidents_left_out,
        lines_left_out: report.snapshot.lines_left_out,
    };
    let mut line = serde_json::to_string(&root).expect("plain strings and numbers become JSON");
    line.push('\n');
    line
}
