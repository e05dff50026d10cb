//! `ibv-sa completion`: completions for shells, made from the arguments themselves.

use clap::ValueEnum;
use clap_complete::{Shell as Complete, generate};

use crate::message::{self, Failure};

/// Print completions for a shell.
///
/// `make install` installs them; this is for other places.
#[derive(clap::Args)]
#[command(after_help = "\
Example, for the shell that is running:
  source <(ibv-sa completion bash)")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: Args, mut command: clap::Command) -> Result<(), Failure> {
    let shell = match args.shell {
        Shell::Bash => Complete::Bash,
        Shell::Zsh => Complete::Zsh,
        Shell::Fish => Complete::Fish,
    };
    let name = command.get_name().to_string();
    let mut script = Vec::new();
    generate(shell, &mut command, name, &mut script);
    message::print(&script)
}
