//! The differential test's program.

use crate::Symbol;

pub fn source(_table: &[Symbol]) -> String {
    String::new()
}
