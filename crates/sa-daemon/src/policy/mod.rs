//! The policy file: who may connect, register and see what, and how much (ibv-sa-policy(5)).
//!
//! * `file`: what may be read at all, and reading it.
//! * `parse`: TOML to [`Rules`]; everything that is wrong, with its place and a remedy.
//! * `rules`: the answers.
//! * `describe`: the same for a person.

mod describe;
mod file;
mod names;
mod parse;
mod problem;
mod rules;
#[cfg(test)]
mod tests;
mod traps;

pub use file::{DEFAULT, Error, PolicyFile};
pub use names::{Names, SystemNames};
pub use problem::{Mistake, Problem};
pub use rules::Rules;
