//! The subcommands.

pub(crate) mod completion;
pub(crate) mod daemon;
pub(crate) mod monitor;
pub(crate) mod run;
pub(crate) mod status;
