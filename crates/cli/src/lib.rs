//! The command `ibv-sa`. It must not be linked with the shim: it would interpose itself.
//!
//! One file for each subcommand in `commands/`; a new one is a file there and a variant of `Command`.

#![forbid(unsafe_code)]

mod commands;
mod connection;
mod elf;
mod environment;
mod library;
mod message;
mod notice;
mod ports;
mod program;
mod settings;
mod source;
mod terminal;

use clap::{CommandFactory, Parser, Subcommand};

use commands::{completion, daemon, monitor, run, status};

/// Run RDMA programs through libibv_sa, and see notices of the subnet administrator (SA)
///
/// libibv_sa stands between a program and libibverbs, counts what the program does, and tells
/// about it. Its daemon shares the SA's notices between the programs of a host.
#[derive(Parser)]
#[command(
    verbatim_doc_comment,
    name = "ibv-sa",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
#[command(after_help = "\
Examples:
  ibv-sa run --report -- ibv_rc_pingpong -d rxe0 -g 1 -e
  ibv-sa monitor --trap gid-in-service --trap gid-out-of-service
  ibv-sa status
  ibv-sa run --help

See also: ibv-sa(1), ibv-sa-run(1), ibv-sa-monitor(1), ibv-sa-status(1), ibv-sa-daemon(8),
ibv_sa(7)")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Monitor(monitor::Args),
    Status(status::Args),
    Daemon(daemon::Args),
    Completion(completion::Args),
}

/// Does what the arguments ask for; the exit code. It does not return where a program takes the process over.
pub fn main() -> i32 {
    let done = match Cli::try_parse() {
        Ok(Cli { command: Command::Run(args) }) => run::run(args).map(|never| match never {}),
        Ok(Cli { command: Command::Monitor(args) }) => match monitor::run(args) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Ok(Cli { command: Command::Status(args) }) => status::run(args),
        Ok(Cli { command: Command::Daemon(args) }) => daemon::run(args),
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
