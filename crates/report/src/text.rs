//! The reader's form: a few lines, each with the prefix of all our lines.

use std::fmt::Write;

use ibv_sa_ledger::{DeviceSnapshot, Kind};

use crate::Report;

pub(crate) fn render(report: &Report) -> String {
    let mut lines = vec![format!(
        "report of {} (pid {}), libibv_sa {}, provider {}",
        printable(report.program),
        report.pid,
        report.version,
        printable(report.provider)
    )];
    for device in &report.snapshot.devices {
        describe(device, &mut lines);
    }
    if !report.snapshot.async_acks.is_empty() {
        lines.push(format!("async events acknowledged: {}", counts(&report.snapshot.async_acks)));
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

fn describe(device: &DeviceSnapshot, lines: &mut Vec<String>) {
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
    lines.push(format!("{name}: completions polled {}, failed {}", traffic.polled, traffic.failed));
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

fn counts(counts: &[(String, u64)]) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    parts.join(", ")
}

/// Names come from other hands: nothing in them may move a terminal's cursor.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
