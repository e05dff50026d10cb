//! A policy in plain sentences.

use std::fmt::Write;

use super::problem::shown;
use super::rules::{Decision, LimitChanges, Named, Ports, Rule, Rules, Who};
use crate::engine::Limits;

impl Rules {
    /// What it means, in lines for a person; `defaults` are the limits of the settings.
    pub fn describe(&self, defaults: Limits) -> String {
        let mut text = String::from("The first rule that is about a program, a port and a trap decides:\n");
        let mut decided = None;
        for rule in &self.rules {
            let verb = match rule.decision {
                Decision::Allow => "allow",
                Decision::Deny => "deny",
            };
            let (who, traps, ports) = (who(&rule.who), &rule.traps, ports(rule));
            let _ = write!(text, "  line {}: {verb} {who}: {traps} at {ports}", rule.line);
            if let Some(line) = decided {
                let _ = write!(text, " (never reached: line {line} decides everything)");
            } else if rule.who.is_everybody() && rule.traps.all && rule.is_everywhere() {
                decided = Some(rule.line);
            }
            text.push('\n');
        }
        text += "  otherwise: user 0 may have everything, everybody else everything but traps 256 to 259\n";
        let limits = self.limits.over(defaults);
        let _ = writeln!(
            text,
            "Each user may have {} connections, {} registrations, {} notices that wait, of them {} for one connection.",
            limits.clients, limits.registrations, limits.queued, limits.queued_per_client
        );
        if !self.overrides.is_empty() {
            text += "But, by the first that is about the user:\n";
        }
        for one in &self.overrides {
            let _ = writeln!(text, "  line {}: {}: {}", one.line, who(&one.who), changes(&one.limits));
        }
        text
    }
}

fn who(who: &Who) -> String {
    let list = |word: &str, named: &[Named]| {
        let each: Vec<String> = named.iter().map(named_text).collect();
        match each.len() {
            0 => None,
            1 => Some(format!("{word} {}", each[0])),
            _ => Some(format!("{word}s {}", each.join(", "))),
        }
    };
    match (list("user", &who.users), list("group", &who.groups)) {
        (None, None) => "everybody".into(),
        (Some(users), Some(groups)) => format!("{users} and {groups}"),
        (one, other) => one.or(other).unwrap_or_default(),
    }
}

fn named_text(named: &Named) -> String {
    match &named.name {
        Some(name) => format!("{} ({})", shown(name), named.id),
        None => named.id.to_string(),
    }
}

fn ports(rule: &Rule) -> String {
    if rule.is_everywhere() {
        return "all ports".into();
    }
    let one = |ports: &Ports| match (&ports.device, ports.number) {
        (Some(device), Some(number)) => format!("{device}/{number}"),
        (Some(device), None) => format!("all ports of {device}"),
        (None, Some(number)) => format!("port {number} of all devices"),
        (None, None) => "all ports".into(),
    };
    rule.ports.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn changes(limits: &LimitChanges) -> String {
    let parts = [
        (limits.clients, "connections"),
        (limits.registrations, "registrations"),
        (limits.queued, "notices that wait"),
        (limits.queued_per_client, "notices that wait for one connection"),
    ];
    let given = parts.iter().filter_map(|(limit, word)| limit.map(|limit| format!("{limit} {word}")));
    given.collect::<Vec<_>>().join(", ")
}
