//! `docs/operators.md` against the daemon: each thing that an operator can see has an entry, and no entry is about
//! something that is not there.

mod common;
#[path = "common/host.rs"]
mod host;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use common::Client;
use host::Host;
use ibv_sa_daemon::transport::embedded::DEVICE;
use ibv_sa_wire::{Filter, Trap};
use serde_json::Value;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = top().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of one section that stand above a definition.
fn entries(section: &str) -> Vec<String> {
    let page = read("docs/operators.md");
    let begin =
        page.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no section {section}")).1;
    let section = begin.split("\n## ").next().unwrap_or(begin);
    let lines: Vec<&str> = section.lines().collect();
    let defined = lines.windows(2).filter(|pair| pair[1].starts_with(":   "));
    let entries: Vec<String> = defined.map(|pair| pair[0].to_owned()).collect();
    assert_eq!(entries.len(), lines.iter().filter(|line| line.starts_with(":   ")).count());
    entries
}

/// What stands between backquotes.
fn quoted(entry: &str) -> Vec<&str> {
    entry.split('`').skip(1).step_by(2).collect()
}

fn names(section: &str) -> BTreeSet<String> {
    let entries = entries(section);
    let names: BTreeSet<String> = entries.iter().flat_map(|entry| quoted(entry)).map(String::from).collect();
    assert_eq!(names.len(), entries.len(), "two entries of one name");
    names
}

fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                keys(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => {
            assert!(!items.is_empty(), "{path} is empty, so that its keys are not seen");
            items.iter().for_each(|item| keys(item, &format!("{path}[]"), found));
        }
        _ => {}
    }
}

#[test]
fn every_key_of_the_status_has_an_entry() {
    let host = Host::new();
    let client = Client::new(&host.socket());
    client.registered(1, DEVICE, Filter { is_generic: Some(true), ..Filter::trap(Trap(64)) });
    let status: Value = serde_json::from_str(&client.status()).expect("JSON");
    let mut found = BTreeSet::new();
    keys(&status, "", &mut found);
    assert!(found.contains("ports[].subscriptions[].owners[].pid"), "{found:?}");
    assert_eq!(names("The status"), found);
}

#[test]
fn every_status_of_a_registration_has_an_entry() {
    let manual = read("man/ibv_sa_get_event.3.md");
    let words = manual
        .split("**")
        .filter(|word| word.starts_with("-E") && word[1..].bytes().all(|b| b.is_ascii_uppercase()));
    let mut told: BTreeSet<String> = words.map(String::from).collect();
    // It stands there with what comes with it.
    told.insert("-EOVERFLOW".into());
    assert_eq!(names("What programs are told"), told);
}

/// The Rust files below a directory, without tests.
fn sources(directory: &str) -> Vec<String> {
    fn walk(directory: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("a file")) {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
                walk(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).expect("text");
                found.push(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text).to_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(&top().join(directory), &mut found);
    found
}

/// What follows `begin` up to the next quote, and all that comes then.
fn literal(text: &str) -> Option<(&str, &str)> {
    text.split_once('"')?.1.split_once('"')
}

/// The fixed words of a text with values in it.
fn fixed(text: &str) -> Vec<String> {
    let parts = text
        .split('{')
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { part.split_once('}').map_or("", |two| two.1) });
    let words = parts.map(|part| part.trim_matches([' ', ':', '(', ')', ',']).to_owned());
    words.filter(|word| word.len() > 3).collect()
}

/// Kind and level of each line that the sources can log, with the words of its text that are always the same.
fn logged() -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut lines: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut add = |kind: &str, level: &str, rest: &str| {
        let text = literal(rest).map_or("", |(text, _)| text);
        lines.entry((kind.into(), level.to_lowercase())).or_default().extend(fixed(text));
    };
    for source in sources("crates/sa-daemon/src") {
        for call in source.split(".log(Level::").skip(1) {
            let level = call.split(',').next().expect("an argument");
            let (kind, rest) = literal(call).expect("a kind");
            // "silent" says two things of the SA, which stand before its text.
            let rest = rest.find("format!").map_or(rest, |at| &rest[at..]);
            add(kind, level, rest);
        }
        for call in source.split("self.warn(").skip(1) {
            let (kind, rest) = literal(call).expect("a kind");
            add(kind, "warning", rest);
        }
        // Records that are made by hand: a kind here, levels and texts of the function around it.
        for (at, _) in source.match_indices("kind: \"") {
            let (kind, _) = literal(&source[at..]).expect("a kind");
            for call in source.split("record(Level::").skip(1) {
                add(
                    kind,
                    call.split(',').next().expect("an argument"),
                    call.split(';').next().expect("a statement"),
                );
            }
        }
    }
    lines
}

#[test]
fn every_line_of_the_log_has_an_entry() {
    let entries = entries("The log");
    let mut described: BTreeMap<(String, String), String> = BTreeMap::new();
    for entry in &entries {
        let tag = entry.rsplit_once('[').and_then(|(_, tag)| tag.strip_suffix(']')).expect("kind and level");
        let (kind, level) = tag.split_once(", ").expect("kind and level");
        let before = described.insert((kind.into(), level.into()), entry.clone());
        assert_eq!(before, None, "two entries of one kind");
    }
    let logged = logged();
    assert!(logged.len() >= 17, "{logged:?}");
    let kinds = |all: Vec<&(String, String)>| all.into_iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(kinds(described.keys().collect()), kinds(logged.keys().collect()));
    for (kind, words) in &logged {
        for word in words {
            assert!(described[kind].contains(word.as_str()), "{word:?} of {kind:?}: {}", described[kind]);
        }
    }
}

#[test]
fn every_reason_for_no_daemon_has_an_entry() {
    let source = read("crates/sa-daemon/src/server/error.rs");
    let errors = source.split("#[error(").skip(1).map(|error| literal(error).expect("a text").0);
    let mut reasons: Vec<Vec<String>> = errors.map(fixed).collect();
    // What the command itself says before there is a daemon; of the connection only what both ends do.
    let connection = read("crates/cli/src/connection.rs");
    let environment = connection.split("fn environment").nth(1).and_then(|rest| rest.split("\n}").next());
    for text in [&read("crates/cli/src/commands/daemon.rs"), environment.expect("a function")] {
        let failures = text.split("Failure::new(").skip(1).filter_map(|call| {
            // Not one of a later call.
            let at = call.find("format!").filter(|at| *at < 100)?;
            Some(fixed(literal(&call[at..])?.0))
        });
        reasons.extend(failures);
    }
    let entries = entries("Why there is no daemon");
    let mut used = BTreeSet::new();
    for words in reasons.iter().filter(|words| !words.is_empty()) {
        let entry = entries.iter().position(|entry| words.iter().all(|word| entry.contains(word.as_str())));
        used.insert(entry.unwrap_or_else(|| panic!("no entry has {words:?}")));
    }
    // Those of which all is a value.
    let general = ["`PATH: WHAT: WHY`", "`the transport: WHY`"];
    let unused: Vec<_> =
        (0..entries.len()).filter(|at| !used.contains(at) && !general.contains(&&*entries[*at])).collect();
    assert!(
        unused.is_empty(),
        "nothing says {:?}",
        unused.iter().map(|at| &entries[*at]).collect::<Vec<_>>()
    );
}
