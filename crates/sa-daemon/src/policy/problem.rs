//! Something wrong in a policy file, and where.

use std::fmt;

/// Ways to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mistake {
    /// The file is no UTF-8 text.
    Encoding,
    /// The text is no TOML.
    Toml,
    /// A key that means nothing there.
    UnknownKey,
    /// Something else than a table.
    NoTable,
    /// Something else than a list of tables.
    NoTables,
    /// Something else than a list.
    NoList,
    /// A list without an element.
    EmptyList,
    /// A limit that is no number in its range.
    Limit,
    /// A rule that does not say what it does.
    RuleWithoutAction,
    /// An action that is none.
    Action,
    /// Neither a name nor the number of a user or group.
    NoName,
    /// A name that the host does not know.
    UnknownName,
    /// A name of which the host cannot say whether it knows it.
    LookUp,
    /// No port.
    Port,
    /// No trap.
    Trap,
    /// Other limits for nobody.
    OverrideForNobody,
    /// No other limits for somebody.
    OverrideWithoutLimit,
}

/// What is wrong, at which place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The value and the remedy.
    pub text: String,
    /// In which way.
    pub mistake: Mistake,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

impl Problem {
    /// At a byte of a file.
    pub fn at(file: &str, offset: usize, mistake: Mistake, text: impl Into<String>) -> Problem {
        let (line, column) = place(file, offset);
        Problem { line, column, text: text.into(), mistake }
    }
}

/// Line and column of a byte of a file, from 1.
pub fn place(file: &str, offset: usize) -> (usize, usize) {
    let before = file.get(..offset).unwrap_or(file);
    let (lines, line) = match before.rsplit_once('\n') {
        Some((lines, line)) => (lines.matches('\n').count() + 1, line),
        None => (0, before),
    };
    (lines + 1, line.chars().count() + 1)
}

/// What stands in the file, on one line and not longer than a message bears.
pub fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let cut = if text.chars().nth(LONGEST).is_some() { "..." } else { "" };
    let plain =
        |c: char| if c.is_control() || !c.is_ascii() { c.escape_default().to_string() } else { c.into() };
    text.chars().take(LONGEST).map(plain).collect::<String>() + cut
}
