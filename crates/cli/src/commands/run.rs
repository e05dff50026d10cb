//! `ibv-sa run`: the library and its settings into the environment, then the program takes the process over.

use std::convert::Infallible;
use std::ffi::OsString;

use clap::ValueHint;
use clap::builder::{OsStringValueParser, TypedValueParser, ValueParser};

use crate::environment::Environment;
use crate::message::{Failure, say, shown};
use crate::settings::{Ack, Cq, hang_secs, provider, report, socket};
use crate::{library, program};

/// Run a program through libibv_sa
///
/// PROG is started with libibv_sa.so.1 first in LD_PRELOAD and with the settings below in its
/// environment. ibv-sa then is PROG: same process, same descriptors, and PROG's own exit code and
/// signals. Settings that are not given stay as they are in the environment.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    override_usage = "ibv-sa run [OPTIONS] [--] PROG [ARGS]...",
    after_long_help = AFTER_HELP
)]
pub(crate) struct Args {
    /// What happens to an acknowledgement that no open event calls for
    ///
    /// [default: protect] [env: IBV_SA_ACK]
    #[arg(long, value_name = "MODE", verbatim_doc_comment)]
    ack: Option<Ack>,

    /// What is looked at of completions
    ///
    /// [default: errors] [env: IBV_SA_CQ]
    #[arg(long, value_name = "MODE", verbatim_doc_comment)]
    cq: Option<Cq>,

    /// Seconds that a destroy may wait before it is reported, 1 to 86400
    ///
    /// [default: 5] [env: IBV_SA_HANG_SECS]
    #[arg(long, value_name = "N", value_parser = checked(hang_secs), verbatim_doc_comment)]
    hang_secs: Option<OsString>,

    /// Write a report at exit: text, json, text:FILE or json:FILE
    ///
    /// Without FILE it goes to stderr. In FILE, %p is the process id and %% a percent sign.
    /// --report alone is --report=text.
    ///
    /// [default: no report] [env: IBV_SA_REPORT]
    #[arg(long, value_name = "SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "text",
          value_parser = checked(report), verbatim_doc_comment)]
    report: Option<OsString>,

    /// Absolute path of another library with libibverbs's ABI, which then does the work
    ///
    /// [default: libibverbs.so.1] [env: IBV_SA_PROVIDER]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, value_parser = checked(provider),
          verbatim_doc_comment)]
    provider: Option<OsString>,

    /// Absolute path of the socket at which the daemon for SA notices listens
    ///
    /// [default: /run/ibv_sa/sa.sock] [env: IBV_SA_SOCKET]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, value_parser = checked(socket),
          verbatim_doc_comment)]
    socket: Option<OsString>,

    /// The libibv_sa.so.1 to preload
    ///
    /// [default: the one beside ibv-sa, or where it was installed]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, value_parser = checked(library::named),
          verbatim_doc_comment)]
    library: Option<OsString>,

    /// The program, by path or by name in PATH, and its arguments
    #[arg(value_name = "PROG", required = true, num_args = 1.., trailing_var_arg = true,
          value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Exit status:
  that of PROG; 2 if the arguments are wrong, 125 if libibv_sa.so.1 is not found, 126 if PROG
  cannot be run, 127 if it is not found

Examples:
  Count what a program does; the report comes on stderr:
      ibv-sa run --cq full --report -- ibv_rc_pingpong -d rxe0 -g 1 -e

  One report file for each process of a job:
      ibv-sa run --report=json:/tmp/report.%p -- ./job.sh

  Find a destroy that never returns, and let the program go on:
      ibv-sa run --ack rescue --hang-secs 2 -- ./server

  Stop in a debugger at the first wrong acknowledgement:
      ibv-sa run --ack abort -- gdb -ex run --args ./server

See also: ibv-sa-run(1), ibv_sa(7), ld.so(8)";

/// Values stay as bytes: a file's name need not be UTF-8.
fn checked(check: fn(OsString) -> Result<OsString, String>) -> ValueParser {
    OsStringValueParser::new().try_map(check).into()
}

pub(crate) fn run(args: Args) -> Result<Infallible, Failure> {
    let library = args.library.map_or_else(library::find, |named| Ok(named.into()))?;
    let mut environment = Environment::inherited();
    let preload = library::first_in_preload(&library, environment.get("LD_PRELOAD"));
    environment.set("LD_PRELOAD", &preload);
    for (name, value) in [
        ("IBV_SA_ACK", args.ack.map(|mode| mode.name().into())),
        ("IBV_SA_CQ", args.cq.map(|mode| mode.name().into())),
        ("IBV_SA_HANG_SECS", args.hang_secs),
        ("IBV_SA_REPORT", args.report.clone()),
        ("IBV_SA_PROVIDER", args.provider),
        ("IBV_SA_SOCKET", args.socket),
    ] {
        if let Some(value) = value {
            environment.set(name, &value);
        }
    }

    let name = &args.program[0];
    if let Some(why) = program::out_of_reach(name, &library) {
        say(&format!("warning: {why}; it runs without libibv_sa"));
    }
    let mut failure = program::exec(&args.program, &environment);
    if args.report.as_deref().is_some_and(|given| given == "text") && report(name.clone()).is_ok() {
        failure.text += &format!(" (the form of a report follows an equals sign: --report={})", shown(name));
    }
    Err(failure)
}
