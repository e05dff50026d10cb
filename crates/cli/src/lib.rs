//! The command `ibv-sa`. It must not be linked with the shim: it would interpose itself.
//!
//! One file for each subcommand in `commands/`; a new one is a file there and a variant of `Command`.

#![forbid(unsafe_code)]

mod commands;
mod elf;
mod environment;
mod library;
mod message;
mod program;
mod settings;

use clap::{CommandFactory, Parser, Subcommand};

use commands::{completion, run};

/// Run RDMA programs through libibv_sa.
///
/// libibv_sa stands between a program and libibverbs, counts what the program does, and tells about it.
#[derive(Parser)]
#[command(name = "ibv-sa", version, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = "\
Examples:
  ibv-sa run --report -- ibv_rc_pingpong -d rxe0 -g 1 -e
  ibv-sa run --help
  ibv-sa completion bash

See also: ibv-sa(1), ibv-sa-run(1), ibv_sa(7)")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Completion(completion::Args),
}

/// Does what the arguments ask for; the exit code. It does not return where a program takes the process over.
pub fn main() -> i32 {
    let done = match Cli::try_parse() {
        Ok(Cli { command: Command::Run(args) }) => run::run(args).map(|never| match never {}),
        Ok(Cli { command: Command::Completion(args) }) => completion::run(args, Cli::command()),
        Err(told) => return message::tell_of_arguments(&told),
    };
    match done {
        Ok(()) => 0,
        Err(failure) => failure.tell(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
