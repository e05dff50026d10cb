//! From TOML to rules. All that is wrong is found in one go, unless the TOML itself is.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::names::Names;
use super::problem::{Mistake, Problem, place, shown};
use super::rules::{Decision, LimitChanges, Named, Override, Ports, Rule, Rules, Who};
use super::traps::{SECURITY, Traps};

/// More would only hide the first ones.
const MOST_PROBLEMS: usize = 20;

/// The limits: key, most, what to do instead of 0.
pub const LIMITS: [(&str, usize, &str); 4] = [
    ("connections", 65_536, "; to keep a user out, write a rule with action = \"deny\""),
    ("registrations", 1_000_000, "; to forbid all of them, write a rule with action = \"deny\""),
    ("queued", 16_777_216, ""),
    ("queued_per_connection", 1_048_576, ""),
];

type Key<'i> = Spanned<DeString<'i>>;
type Value<'i> = Spanned<DeValue<'i>>;

impl Rules {
    /// Understands the text of a policy file, or says all that is wrong with it.
    pub fn parse(text: &str, names: &dyn Names) -> Result<Rules, Vec<Problem>> {
        let mut reader = Reader { text, names, problems: Vec::new() };
        let (document, errors) = DeTable::parse_recoverable(text);
        let rules = if errors.is_empty() {
            reader.policy(document.get_ref())
        } else {
            for error in errors {
                let offset = error.span().map_or(text.len(), |span| span.start);
                // Some of its messages have a second line with what was expected.
                let message = error.message().lines().collect::<Vec<_>>().join("; ");
                reader.problem(offset, Mistake::Toml, format!("no TOML: {message}"));
            }
            // What comes after the first one of a line is often its consequence.
            reader.problems.sort();
            reader.problems.dedup_by_key(|problem| problem.line);
            Rules::default()
        };
        let mut problems = reader.problems;
        if problems.is_empty() {
            return Ok(rules);
        }
        problems.sort();
        problems.dedup();
        problems.truncate(MOST_PROBLEMS);
        Err(problems)
    }
}

struct Reader<'a> {
    text: &'a str,
    names: &'a dyn Names,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, offset: usize, mistake: Mistake, text: impl Into<String>) {
        self.problems.push(Problem::at(self.text, offset, mistake, text));
    }

    /// As it stands in the file.
    fn shown(&self, span: Range<usize>) -> String {
        let first = self.text.get(span).unwrap_or_default();
        shown(first)
    }

    /// "KEY = VALUE: WHAT".
    fn wrong(&mut self, mistake: Mistake, key: &Key<'_>, value: &Value<'_>, what: &str) {
        let text = format!("{} = {}: {what}", shown(key.get_ref()), self.shown(value.span()));
        self.problem(value.span().start, mistake, text);
    }

    fn unknown(&mut self, key: &Key<'_>, known: &str) {
        let text = format!("unknown key \"{}\"; {known}", shown(key.get_ref()));
        self.problem(key.span().start, Mistake::UnknownKey, text);
    }

    fn line(&self, offset: usize) -> usize {
        place(self.text, offset).0
    }

    fn policy(&mut self, document: &DeTable<'_>) -> Rules {
        let mut rules = Rules::default();
        for (key, value) in document {
            match &**key.get_ref() {
                "limits" => match value.get_ref().as_table() {
                    Some(table) => rules.limits = self.limits(table),
                    None => self.wrong(
                        Mistake::NoTable,
                        key,
                        value,
                        "no table; write [limits] and its lines below",
                    ),
                },
                "rule" => {
                    let tables = self.tables(key, value);
                    rules.rules = tables.into_iter().map(|(at, table)| self.rule(at, table)).collect();
                }
                "override" => {
                    let tables = self.tables(key, value);
                    rules.overrides = tables.into_iter().map(|(at, table)| self.changed(at, table)).collect();
                }
                _ => self.unknown(key, "a policy has [limits], [[rule]] and [[override]]"),
            }
        }
        rules
    }

    /// The tables of an array, each with its place.
    fn tables<'v, 'i>(&mut self, key: &Key<'_>, value: &'v Value<'i>) -> Vec<(usize, &'v DeTable<'i>)> {
        let what = format!("no list of tables; write [[{0}]] before each {0}", key.get_ref());
        let Some(array) = value.get_ref().as_array() else {
            let text = format!("[{}]: {what}", key.get_ref());
            self.problem(key.span().start, Mistake::NoTables, text);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for one in array.iter() {
            match one.get_ref().as_table() {
                Some(table) => tables.push((one.span().start, table)),
                None => self.wrong(Mistake::NoTables, key, one, &what),
            }
        }
        tables
    }

    fn limits(&mut self, table: &DeTable<'_>) -> LimitChanges {
        let mut limits = LimitChanges::default();
        for (key, value) in table {
            if !self.limit(&mut limits, key, value) {
                self.unknown(key, "limits are connections, registrations, queued and queued_per_connection");
            }
        }
        limits
    }

    /// Returns whether the key is one of a limit.
    fn limit(&mut self, limits: &mut LimitChanges, key: &Key<'_>, value: &Value<'_>) -> bool {
        let name: &str = key.get_ref();
        let Some(&(name, most, instead)) = LIMITS.iter().find(|(limit, _, _)| *limit == name) else {
            return false;
        };
        let number = integer(value.get_ref());
        let limit = number.and_then(|number| usize::try_from(number).ok());
        let limit = limit.filter(|limit| (1..=most).contains(limit));
        if limit.is_none() {
            let instead = if number == Some(0) { instead } else { "" };
            self.wrong(Mistake::Limit, key, value, &format!("no number from 1 to {most}{instead}"));
        }
        match name {
            "connections" => limits.clients = limit,
            "registrations" => limits.registrations = limit,
            "queued" => limits.queued = limit,
            _ => limits.queued_per_client = limit,
        }
        true
    }

    fn changed(&mut self, at: usize, table: &DeTable<'_>) -> Override {
        let mut one = Override { line: self.line(at), who: Who::default(), limits: LimitChanges::default() };
        let before = self.problems.len();
        for (key, value) in table {
            if !self.who(&mut one.who, key, value) && !self.limit(&mut one.limits, key, value) {
                let known = "an override has users, groups, connections, registrations, queued and \
                             queued_per_connection";
                self.unknown(key, known);
            }
        }
        if self.problems.len() == before {
            if one.who.is_everybody() {
                self.problem(
                    at,
                    Mistake::OverrideForNobody,
                    "an override for nobody; add users or groups, or write it under [limits]",
                );
            }
            if one.limits == LimitChanges::default() {
                self.problem(
                    at,
                    Mistake::OverrideWithoutLimit,
                    "an override without a limit; add one, such as connections = 16",
                );
            }
        }
        one
    }

    fn rule(&mut self, at: usize, table: &DeTable<'_>) -> Rule {
        let (line, ports, who) = (self.line(at), Vec::new(), Who::default());
        let mut rule = Rule { line, who, ports, traps: Traps::all(), decision: Decision::Deny };
        let mut has_action = false;
        for (key, value) in table {
            match &**key.get_ref() {
                "action" => {
                    has_action = true;
                    match value.get_ref().as_str() {
                        Some("allow") => rule.decision = Decision::Allow,
                        Some("deny") => rule.decision = Decision::Deny,
                        _ => self.wrong(Mistake::Action, key, value, "neither \"allow\" nor \"deny\""),
                    }
                }
                "ports" => {
                    let list = self.list(key, value, "no port at all; leave it out for all of them");
                    rule.ports = list.iter().filter_map(|one| self.port(one)).collect();
                }
                "traps" => {
                    let list = self.list(key, value, "no trap at all; leave it out for all of them");
                    rule.traps = Traps::default();
                    list.iter().for_each(|one| self.trap(&mut rule.traps, one));
                }
                _ if self.who(&mut rule.who, key, value) => {}
                _ => self.unknown(key, "a rule has users, groups, ports, traps and action"),
            }
        }
        if !has_action {
            self.problem(
                at,
                Mistake::RuleWithoutAction,
                "a rule without action; add action = \"allow\" or action = \"deny\"",
            );
        }
        rule
    }

    /// Returns whether the key is one of these.
    fn who(&mut self, who: &mut Who, key: &Key<'_>, value: &Value<'_>) -> bool {
        let (list, word) = match &**key.get_ref() {
            "users" => (&mut who.users, "user"),
            "groups" => (&mut who.groups, "group"),
            _ => return false,
        };
        let found = self.list(key, value, "nobody; leave it out for everybody, or remove the whole entry");
        *list = found.iter().filter_map(|one| self.named(word, one)).collect();
        true
    }

    /// The elements of a list that may not be empty.
    fn list<'v, 'i>(&mut self, key: &Key<'_>, value: &'v Value<'i>, empty: &str) -> &'v [Value<'i>] {
        let array: Option<&[Value<'i>]> = value.get_ref().as_array().map(|array| &**array);
        match array {
            Some([]) => self.wrong(Mistake::EmptyList, key, value, empty),
            Some(array) => return array,
            None => {
                let remedy = format!("no list; write [{}]", self.shown(value.span()));
                self.wrong(Mistake::NoList, key, value, &remedy);
            }
        }
        &[]
    }

    fn named(&mut self, word: &str, value: &Value<'_>) -> Option<Named> {
        let shown = self.shown(value.span());
        let (mistake, text) = match value.get_ref() {
            DeValue::String(name) => {
                let found = if word == "user" { self.names.user(name) } else { self.names.group(name) };
                match found {
                    Ok(Some(id)) => return Some(Named { id, name: Some(name.to_string()) }),
                    Ok(None) => (
                        Mistake::UnknownName,
                        format!(
                            "{word} {shown}: this host knows none; look at the spelling, or write its number"
                        ),
                    ),
                    Err(why) => (
                        Mistake::LookUp,
                        format!("{word} {shown}: the look-up failed ({why}); write its number"),
                    ),
                }
            }
            other => match integer(other).and_then(|number| u32::try_from(number).ok()) {
                // The last one is chown's "leave it": nobody has it.
                Some(id) if id != u32::MAX => return Some(Named { id, name: None }),
                _ => (
                    Mistake::NoName,
                    format!("{word} {shown}: no name in quotes and no number from 0 to {}", u32::MAX - 1),
                ),
            },
        };
        self.problem(value.span().start, mistake, text);
        None
    }

    fn port(&mut self, value: &Value<'_>) -> Option<Ports> {
        let ports = value.get_ref().as_str().and_then(|text| {
            let (device, number) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
            let number = match number {
                None => None,
                Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Some(digits.parse::<u8>().ok().filter(|number| *number != 0)?)
                }
                Some(_) => return None,
            };
            let device = (device != "*").then(|| device.to_string());
            // A pattern would never match: there are none but the star alone.
            let plain =
                |name: &String| !name.is_empty() && name.bytes().all(|c| c.is_ascii_graphic() && c != b'*');
            device.as_ref().is_none_or(plain).then_some(Ports { device, number })
        });
        if ports.is_none() {
            let shown = self.shown(value.span());
            let text = format!(
                "port {shown}: write \"DEVICE\" or \"DEVICE/NUMBER\", with a number from 1 to 255, and \"*\" for any device"
            );
            self.problem(value.span().start, Mistake::Port, text);
        }
        ports
    }

    fn trap(&mut self, traps: &mut Traps, value: &Value<'_>) {
        match value.get_ref() {
            DeValue::String(name) if &**name == "all" => traps.all = true,
            DeValue::String(name) if &**name == "vendor" => traps.vendor = true,
            DeValue::String(name) if &**name == "security" => traps.numbers.extend(SECURITY),
            other => match integer(other).and_then(|number| u16::try_from(number).ok()) {
                // 65535 is what "all" is to an SA.
                Some(number) if number != u16::MAX => {
                    traps.numbers.insert(number);
                }
                _ => {
                    let shown = self.shown(value.span());
                    let text = format!(
                        "trap {shown}: no number from 0 to {}, nor \"security\", \"vendor\" or \"all\"",
                        u16::MAX - 1
                    );
                    self.problem(value.span().start, Mistake::Trap, text);
                }
            },
        }
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}
