//! Something wrong in a policy file, and where.

use std::fmt;

/// What is wrong, at which place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The value and the remedy.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

impl Problem {
    /// At a byte of a file.
    pub fn at(file: &str, offset: usize, text: impl Into<String>) -> Problem {
        let before = file.get(..offset).unwrap_or(file);
        let (lines, line) = match before.rsplit_once('\n') {
            Some((lines, line)) => (lines.matches('\n').count() + 1, line),
            None => (0, before),
        };
        Problem { line: lines + 1, column: line.chars().count() + 1, text: text.into() }
    }
}

/// What stands in the file, on one line and not longer than a message bears.
pub fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let cut = if text.chars().nth(LONGEST).is_some() { "..." } else { "" };
    let plain =
        |c: char| if c.is_control() || !c.is_ascii() { c.escape_default().to_string() } else { c.into() };
    text.chars().take(LONGEST).map(plain).collect::<String>() + cut
}
