//! The subcommands.

pub(crate) mod completion;
pub(crate) mod run;
