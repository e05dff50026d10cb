//! What is said to the user: plain lines, in which nothing that comes from elsewhere steers the terminal.

use std::ffi::OsStr;
use std::io::{self, Write};

/// Why there is nothing to be done, and the exit code for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) text: String,
}

/// ibv-sa itself fails; 125 to 127 mean what they mean for env(1) and nohup(1).
pub(crate) const FAILED: i32 = 125;
/// The program is there but cannot be run.
pub(crate) const CANNOT_RUN: i32 = 126;
/// The program is not there.
pub(crate) const NOT_FOUND: i32 = 127;

impl Failure {
    pub(crate) fn new(code: i32, text: impl Into<String>) -> Failure {
        Failure { code, text: text.into() }
    }

    /// Says it; the exit code.
    pub(crate) fn tell(self) -> i32 {
        say(&format!("error: {}", self.text));
        self.code
    }
}

/// One line on stderr. There is no place to complain if that fails.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().write_all(format!("ibv-sa: {text}\n").as_bytes());
}

/// Writes to stdout and flushes it: nobody else does when C's main returns.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::new(FAILED, format!("cannot write to stdout: {error}")))
}

/// Help and version go to stdout, complaints about the arguments to stderr; the exit code.
pub(crate) fn tell_of_arguments(told: &clap::Error) -> i32 {
    use clap::error::ErrorKind;

    let text = told.render().to_string();
    if !told.use_stderr() {
        return print(text.as_bytes()).map_or_else(Failure::tell, |()| 0);
    }
    let text: String = text.chars().map(|c| if c == '\n' { c } else { harmless(c) }).collect();
    if told.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = io::stderr().write_all(text.as_bytes());
    } else {
        say(text.trim_end());
    }
    told.exit_code()
}

/// A value or a path as it is shown in a message: in quotes, and not longer than a line bears.
pub(crate) fn shown(value: impl AsRef<OsStr>) -> String {
    const LONGEST: usize = 200;
    let text = value.as_ref().to_string_lossy();
    let cut = if text.chars().nth(LONGEST).is_some() { "..." } else { "" };
    let text: String = text.chars().take(LONGEST).map(harmless).collect();
    format!("\"{text}{cut}\"")
}

fn harmless(c: char) -> char {
    if c.is_control() { '?' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_and_cannot_steer_a_terminal() {
        assert_eq!(shown("a\x1b[2J\nb\u{9b}"), "\"a?[2J?b?\"");
        assert_eq!(shown("x".repeat(200)), format!("\"{}\"", "x".repeat(200)));
        assert_eq!(shown("x".repeat(201)), format!("\"{}...\"", "x".repeat(200)));
    }
}
