//! The reader's form: a few lines, each with the prefix of all our lines.

use std::fmt::Write;

use ibv_sa_ledger::{AckSums, ContextSnapshot, DeviceSnapshot, Kind, ObjectName, ObjectSnapshot, event_name};

use crate::{Report, headroom, lines, printable, verdict};

// Kept apart, so that it is compiled for size.
#[inline(never)]
pub(crate) fn render(report: &Report) -> String {
    let mut lines = vec![format!(
        "report of {} (pid {}), libibv_sa {}, provider {}",
        printable(report.program),
        report.pid,
        report.version,
        printable(report.provider)
    )];
    for device in &report.snapshot.devices {
        describe(report, device, &mut lines);
    }
    if !report.snapshot.async_acks.is_empty() {
        lines.push(format!("async events acknowledged: {}", counts(&report.snapshot.async_acks)));
    }
    for context in &report.snapshot.contexts {
        for object in &context.objects {
            describe_object(context, object, report.times.0, &mut lines);
        }
        lines.extend(context.verdicts.iter().map(|qp| verdict::verdict(qp, report.times.0)));
        if context.verdicts_left_out != 0 {
            lines.push(format!("{} more QP(s) with failed completions", context.verdicts_left_out));
        }
    }
    describe_acks(&report.snapshot.acks, &mut lines);
    for incident in &report.snapshot.incidents {
        let times = if incident.count > 1 { format!(" ({} times)", incident.count) } else { String::new() };
        let at = incident.at.saturating_sub(report.times.1);
        lines.push(format!("incident at {}{times}: {}", lines::Age(at), printable(&incident.text)));
    }
    if report.snapshot.incidents_left_out != 0 {
        lines.push(format!("{} more incident(s) were not kept", report.snapshot.incidents_left_out));
    }
    for gap in report.gaps() {
        lines.push(format!("PARTIAL: {gap}"));
    }
    if report.lines_dropped != 0 {
        lines.push(format!("{} line(s) could not be written to stderr", report.lines_dropped));
    }
    lines.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "ibv_sa[{}]: {line}", report.pid);
        text
    })
}

fn describe(report: &Report, device: &DeviceSnapshot, lines: &mut Vec<String>) {
    let name = device.name.as_deref().map_or("(no known device)".into(), printable);
    let adopted = match device.adopted {
        0 => String::new(),
        n => format!(", {n} first seen after their birth"),
    };
    lines.push(format!("{name}: contexts opened {}, closed {}{adopted}", device.opened, device.closed));
    let lives: Vec<String> = [
        ("QP", Kind::Qp),
        ("CQ", Kind::Cq),
        ("SRQ", Kind::Srq),
        ("WQ", Kind::Wq),
        ("completion channel", Kind::CompChannel),
    ]
    .into_iter()
    .map(|(label, kind)| (label, device.objects[kind as usize]))
    .filter(|(_, life)| life.created != 0 || life.destroyed != 0)
    .map(|(label, life)| format!("{label} {}/{}", life.created, life.destroyed))
    .collect();
    if !lives.is_empty() {
        lines.push(format!("{name}: created/destroyed: {}", lives.join(", ")));
    }
    let traffic = device.traffic;
    describe_completions(report, device, &name, lines);
    if traffic.events_got != 0 || traffic.events_acked != 0 {
        lines.push(format!(
            "{name}: completion events got {}, acknowledged {}",
            traffic.events_got, traffic.events_acked
        ));
    }
    if !device.async_events.is_empty() {
        lines.push(format!("{name}: async events got: {}", counts(&device.async_events)));
    }
}

fn describe_completions(report: &Report, device: &DeviceSnapshot, name: &str, lines: &mut Vec<String>) {
    let traffic = device.traffic;
    let mut parts = Vec::new();
    if report.counts_all() {
        parts.push(format!("polled {}", traffic.polled));
    }
    if report.cq_mode != "off" {
        parts.push(format!("failed {}", traffic.failed));
    }
    for (label, number) in
        [("of no known QP", traffic.unattributed), ("polls that failed", traffic.poll_errors)]
    {
        if number != 0 {
            parts.push(format!("{label} {number}"));
        }
    }
    if !parts.is_empty() {
        lines.push(format!("{name}: completions {}", parts.join(", ")));
    }
    for (label, numbers) in [("by status", &device.statuses), ("by opcode", &device.opcodes)] {
        if !numbers.is_empty() {
            lines.push(format!("{name}: completions {label}: {}", counts(numbers)));
        }
    }
}

/// Only objects of which something is wrong, or still open, are worth a line.
fn describe_object(context: &ContextSnapshot, object: &ObjectSnapshot, now: u64, lines: &mut Vec<String>) {
    let mut parts: Vec<String> = Vec::new();
    if !context.gone && !object.destroyed {
        for event in &object.open {
            let name = event_name(event.event_type);
            let age = lines::Age(now.saturating_sub(event.at));
            parts.push(format!("{name} taken by thread {} {age} ago is not acknowledged", event.by.tid));
        }
        if object.open_unlisted != 0 {
            parts.push(format!("{} more events are not acknowledged", object.open_unlisted));
        }
        if object.open_completions != 0 {
            parts.push(format!("{} completion event(s) are not acknowledged", object.open_completions));
        }
    }
    if object.acks.bad != 0 {
        parts.push(format!("{} bad ack(s)", object.acks.bad));
    }
    if object.acks.rescued != 0 {
        parts.push(format!("{} event(s) acknowledged for the program", object.acks.rescued));
    }
    parts.extend(object.headroom.as_ref().and_then(headroom::described));
    if !parts.is_empty() {
        let name = ObjectName {
            kind: object.kind,
            ident: object.ident,
            context: ibv_sa_ledger::ContextName { id: context.id, device: context.device.clone() },
        };
        lines.push(format!("{}: {}", lines::object(&name), parts.join(", ")));
    }
}

fn describe_acks(acks: &AckSums, lines: &mut Vec<String>) {
    if *acks == AckSums::default() {
        return;
    }
    let parts: Vec<String> = [
        ("bad", acks.bad),
        ("held back", acks.held),
        ("of those passed on later", acks.released),
        ("given for the program", acks.rescued),
        ("of those given again by the program", acks.swallowed),
        ("of objects first seen after their birth", acks.foreign),
    ]
    .into_iter()
    .filter(|(_, number)| *number != 0)
    .map(|(label, number)| format!("{label} {number}"))
    .collect();
    lines.push(format!("acks: {}", parts.join(", ")));
}

fn counts(counts: &[(String, u64)]) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    parts.join(", ")
}
