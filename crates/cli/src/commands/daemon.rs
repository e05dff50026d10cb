//! `ibv-sa daemon`: shares the SA's reports between the programs of this host.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::{OsStringValueParser, TypedValueParser};
use ibv_sa_daemon::engine::{Level, Record, Settings};
use ibv_sa_daemon::policy::{self, PolicyFile};
use ibv_sa_daemon::transport::umad::Umad;
use ibv_sa_daemon::{Config, Daemon, Error, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::{self, SOCKET, own_socket};
use crate::message::{FAILED, Failure, print, say};
use crate::terminal;

/// Share the notices of the subnet administrator (SA) between the programs of this host
///
/// A port of this host has one receiver of the SA's reports. The daemon is that receiver: programs
/// connect to its socket, by the ibv_sa_* functions of libibv_sa or by ibv-sa monitor, and say what they want;
/// it subscribes at the SA once for all of them and hands on what comes. A port is opened when the
/// first program wants it. The daemon stays in the foreground and logs to stderr; SIGTERM or SIGINT
/// end it, and nothing of it is left at the SA.
///
/// It needs the right to open /dev/infiniband/umad*, which is root's. A user's own daemon, where
/// that right was given, listens at $XDG_RUNTIME_DIR/ibv_sa/sa.sock.
#[derive(clap::Args)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Where programs connect
    ///
    /// A socket that systemd hands over (LISTEN_FDS) goes before it.
    ///
    /// [default: /run/ibv_sa/sa.sock] [env: IBV_SA_SOCKET]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, verbatim_doc_comment,
          value_parser = OsStringValueParser::new().try_map(|value| connection::socket_path(&value)))]
    socket: Option<PathBuf>,

    /// Who may have what, and how much: ibv-sa-policy(5)
    ///
    /// SIGHUP reads it again. Without this option and without the default file any local user may have
    /// everything but traps 256 to 259.
    ///
    /// [default: /etc/ibv_sa/policy.toml, if it is there]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, verbatim_doc_comment)]
    policy: Option<PathBuf>,

    /// Say what a policy file means, or all that is wrong with it, and start nothing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["socket", "policy"])]
    check: Option<PathBuf>,
}

/// As for wrong arguments.
const WRONG: i32 = 2;

const AFTER_HELP: &str = "\
Exit status:
  0    SIGTERM or SIGINT ended it; with --check: the file is right
  2    the arguments are wrong, or the file that --check names
  125  it cannot listen, its policy file is wrong, or this host has no libibumad or no umad

Examples:
  As a service, started by the first program that connects:
      systemctl enable --now ibv-sa.socket

  By hand, for a test:
      ibv-sa daemon --socket /tmp/sa/sa.sock
      IBV_SA_SOCKET=/tmp/sa/sa.sock ibv-sa monitor

  Before a new policy, and for a daemon to take it:
      ibv-sa daemon --check /etc/ibv_sa/policy.toml && systemctl reload ibv-sa

See also: ibv-sa-daemon(8), ibv-sa-policy(5), ibv-sa-status(1), ibv-sa-monitor(1)";

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    terminal::open_standard_descriptors();
    if let Some(file) = args.check {
        return check(&file);
    }
    // First: names of users in a policy file may take their time, and the manager does not wait for us.
    let signals = Signals::catch().map_err(|error| Failure::new(FAILED, format!("signals: {error}")))?;
    let mut log = Log::new();
    let socket = match args.socket {
        Some(path) => path,
        None => connection::environment()?.map_or_else(default_socket, Ok)?,
    };
    // Who reads stderr may go; the daemon stays.
    let piped = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGPIPE, piped)
        .map_err(|error| Failure::new(FAILED, format!("SIGPIPE: {error}")))?;
    let file = match args.policy {
        // Read again on SIGHUP, wherever the daemon is then.
        Some(path) => PolicyFile::named(std::path::absolute(&path).unwrap_or(path)),
        None => PolicyFile::if_there(policy::DEFAULT),
    };
    let mut daemon = Daemon::new(Config {
        socket,
        settings: Settings::default(),
        policy: file.policy().map_err(|error| wrong(FAILED, &error))?,
        transport: Box::new(|sink| Ok(Box::new(Umad::new(sink)?))),
        log: Box::new(move |record| log.record(record)),
        signals: Some(signals),
    })
    .map_err(explained)?;
    daemon.reload_from(file).map_err(explained)?;
    Log::new().line(Level::Info, &format!("version {} is ready", env!("CARGO_PKG_VERSION")));
    daemon.run().map_err(explained)
}

fn check(file: &Path) -> Result<(), Failure> {
    let rules = PolicyFile::named(file).read().map_err(|error| wrong(WRONG, &error))?;
    print(
        format!("{}: a policy\n{}", file.display(), rules.describe(Settings::default().limits())).as_bytes(),
    )
}

/// Each thing that is wrong on a line of its own.
fn wrong(code: i32, error: &policy::Error) -> Failure {
    let mut lines = error.lines();
    let last = lines.pop().unwrap_or_default();
    lines.iter().for_each(|line| say(&format!("error: {line}")));
    Failure::new(code, last)
}

/// Root's is the system's; its directory is made, as tmpfiles.d does at boot.
fn default_socket() -> Result<PathBuf, Failure> {
    let path = if nix::unistd::geteuid().is_root() { None } else { own_socket() };
    let path = path.unwrap_or_else(|| SOCKET.into());
    if let Some(directory) = path.parent() {
        make(directory).map_err(|error| {
            let directory = directory.display();
            Failure::new(
                FAILED,
                format!("cannot make {directory}: {error}; name another socket with --socket"),
            )
        })?;
    }
    Ok(path)
}

/// A directory that all may search, unless there is one.
fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(directory) {
        // The umask had its say, and programs of other users have to get in.
        Ok(()) => std::fs::set_permissions(directory, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn explained(error: Error) -> Failure {
    let remedy = match &error {
        Error::Running { .. } => "; ibv-sa status shows it",
        Error::System { what: "the transport", source } if source.to_string().contains("libibumad.so") => {
            "; install it (Debian: libibumad3)"
        }
        Error::System { what: "the transport", .. } => "; is the kernel module there? modprobe ib_umad",
        Error::Socket { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => "; make the directory, mode 0755",
            io::ErrorKind::PermissionDenied => {
                "; start it as root, or name a place of this user with --socket"
            }
            io::ErrorKind::ReadOnlyFilesystem => "; name a place that can be written to with --socket",
            io::ErrorKind::StorageFull => "; make room there, or name another place with --socket",
            _ => "",
        },
        _ => "",
    };
    Failure::new(FAILED, format!("{error}{remedy}"))
}

/// stderr, or the journal behind it.
struct Log {
    /// Lines begin with a level that journald reads (sd-daemon(3)).
    is_journal: bool,
    dropped: u64,
    /// The last thing written is the beginning of a line.
    is_torn: bool,
}

impl Log {
    fn new() -> Log {
        // JOURNAL_STREAM names the file that stderr was; it may be another by now.
        let same = || -> Option<bool> {
            let stream = std::env::var("JOURNAL_STREAM").ok()?;
            let about = std::fs::metadata(Path::new("/proc/self/fd/2")).ok()?;
            Some(stream == format!("{}:{}", about.dev(), about.ino()))
        };
        Log { is_journal: same().unwrap_or(false), dropped: 0, is_torn: false }
    }

    fn record(&mut self, record: &Record) {
        let more = match record.suppressed {
            0 => String::new(),
            count => format!(" ({count} lines like this were left out)"),
        };
        self.line(record.level, &format!("{}{more}", record.text));
    }

    /// Never waits: whoever reads stderr must not stop the daemon.
    fn line(&mut self, level: Level, text: &str) {
        let stderr = io::stderr();
        let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
        if !matches!(poll(&mut ready, Some(&Timespec::default())), Ok(1)) {
            self.dropped += 1;
            return;
        }
        let lost = match self.dropped {
            0 => String::new(),
            count => format!(" ({count} lines before it found no room)"),
        };
        let (number, word) = match level {
            Level::Error => ("<3>", "error: "),
            Level::Warning => ("<4>", "warning: "),
            Level::Info => ("<6>", ""),
        };
        let begin = if self.is_torn { "\n" } else { "" };
        let line = if self.is_journal {
            format!("{begin}{number}{text}{lost}\n")
        } else {
            format!("{begin}ibv-sa: {word}{text}{lost}\n")
        };
        match rustix::io::write(&stderr, line.as_bytes()) {
            Ok(written) if written == line.len() => (self.dropped, self.is_torn) = (0, false),
            // A disk that fills up takes a part.
            written => {
                self.dropped += 1;
                self.is_torn |= written.is_ok_and(|bytes| bytes > 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_made_is_open_to_all_whatever_the_umask() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("ibv_sa");
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let made = make(&path);
        rustix::process::umask(before);
        let mode = std::fs::metadata(&path).map(|about| about.mode() & 0o777);
        let again = make(&path);
        assert_eq!((made.is_ok(), mode.ok(), again.is_ok()), (true, Some(0o755), true));
    }
}
