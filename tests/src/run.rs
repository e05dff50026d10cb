//! Running a program under a time limit.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use wait_timeout::ChildExt;

use crate::{Flavour, scripted_dir, shim};

/// What is kept of the caller's environment; everything else (settings of the shim, of cargo, of
/// the loader) would make a test depend on who runs it.
const KEPT: [&str; 4] = ["PATH", "HOME", "TMPDIR", "USER"];

/// One program to be run: a builder that ends in [`Run::run`].
pub struct Run {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    preload: Vec<PathBuf>,
    library_path: Vec<PathBuf>,
    dir: Option<PathBuf>,
    stdin: Vec<u8>,
    limit: Duration,
}

/// How a program ended and what it wrote.
pub struct Outcome {
    /// Exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// The time limit ran out, or the program left a child behind that kept its output open; the
    /// whole process group was killed.
    pub hung: bool,
    command: String,
}

impl Run {
    /// A program by path or by name on `PATH`, with 20 seconds to finish.
    pub fn new(program: impl AsRef<OsStr>) -> Run {
        Run {
            program: program.as_ref().into(),
            args: Vec::new(),
            env: Vec::new(),
            preload: Vec::new(),
            library_path: Vec::new(),
            dir: None,
            stdin: Vec::new(),
            limit: Duration::from_secs(20),
        }
    }

    /// `sh -c SCRIPT`.
    pub fn sh(script: &str) -> Run {
        Run::new("/bin/sh").arg("-c").arg(script)
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Run {
        self.args.push(arg.as_ref().into());
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Run {
        self.args.extend(args.into_iter().map(|a| a.as_ref().into()));
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Run {
        self.env.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Working directory.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Run {
        self.dir = Some(dir.into());
        self
    }

    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Run {
        self.stdin = text.into();
        self
    }

    pub fn timeout(mut self, limit: Duration) -> Run {
        self.limit = limit;
        self
    }

    /// Adds a library to `LD_PRELOAD`, after those added before.
    pub fn preload(mut self, library: impl Into<PathBuf>) -> Run {
        self.preload.push(library.into());
        self
    }

    /// Adds a folder to `LD_LIBRARY_PATH`.
    pub fn library_path(mut self, dir: impl Into<PathBuf>) -> Run {
        self.library_path.push(dir.into());
        self
    }

    /// Preloads the shim.
    pub fn shim(self, flavour: Flavour) -> Run {
        self.preload(shim(flavour))
    }

    /// Preloads the shim, or does not: `None` is the run to compare with.
    pub fn shim_if(self, flavour: Option<Flavour>) -> Run {
        match flavour {
            Some(flavour) => self.shim(flavour),
            None => self,
        }
    }

    /// Puts the scripted provider in the place of libibverbs.so.1.
    pub fn scripted(self) -> Run {
        self.library_path(scripted_dir())
    }

    /// Runs it; a hang fails the test.
    pub fn run(self) -> Outcome {
        let outcome = self.run_or_hang();
        assert!(!outcome.hung, "it hangs: {outcome}");
        outcome
    }

    /// Runs it; a hang ends in [`Outcome::hung`].
    pub fn run_or_hang(self) -> Outcome {
        let mut command = self.command();
        let text = describe(&command);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{text}: {error}"));
        let group = Pid::from_child(&child);
        let end = Instant::now() + self.limit;

        let mut stdin = child.stdin.take().expect("piped");
        let input = self.stdin;
        // A program that does not read its input breaks the pipe; that is its right.
        thread::spawn(move || drop(stdin.write_all(&input)));
        let stdout = collect(child.stdout.take().expect("piped"));
        let stderr = collect(child.stderr.take().expect("piped"));

        let ended = child.wait_timeout(self.limit).expect("wait for the child");
        let mut hung = ended.is_none();
        // Output that is still open now belongs to a child left behind.
        let first_out = stdout.recv_timeout(rest(end)).ok();
        let first_err = stderr.recv_timeout(rest(end)).ok();
        hung |= first_out.is_none() || first_err.is_none();
        // Nothing of the group may live on, also when all went well.
        let _ = kill_process_group(group, Signal::KILL);
        let status = ended.unwrap_or_else(|| child.wait().expect("wait for the killed child"));
        let last = Duration::from_secs(5);
        let stdout = first_out.or_else(|| stdout.recv_timeout(last).ok());
        let stderr = first_err.or_else(|| stderr.recv_timeout(last).ok());
        Outcome::new(text, status, stdout, stderr, hung)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear();
        for name in KEPT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("LC_ALL", "C");
        if !self.preload.is_empty() {
            command.env("LD_PRELOAD", join(&self.preload));
        }
        if !self.library_path.is_empty() {
            command.env("LD_LIBRARY_PATH", join(&self.library_path));
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command
    }
}

impl Outcome {
    fn new(
        command: String,
        status: ExitStatus,
        stdout: Option<Vec<u8>>,
        stderr: Option<Vec<u8>>,
        hung: bool,
    ) -> Outcome {
        let text = |bytes: Option<Vec<u8>>| String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        Outcome {
            code: status.code(),
            signal: status.signal(),
            stdout: text(stdout),
            stderr: text(stderr),
            hung,
            command,
        }
    }

    /// Fails the test unless the program exited with 0.
    #[track_caller]
    pub fn assert_ok(self) -> Outcome {
        self.assert_code(0)
    }

    /// Fails the test unless the program exited with this code.
    #[track_caller]
    pub fn assert_code(self, code: i32) -> Outcome {
        assert!(!self.hung, "it hangs: {self}");
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Fails the test unless both runs ended alike and wrote the same.
    #[track_caller]
    pub fn assert_same(&self, other: &Outcome) {
        assert!(
            (self.code, self.signal) == (other.code, other.signal)
                && self.stdout == other.stdout
                && self.stderr == other.stderr,
            "the runs differ\n--- one: {self}\n--- other: {other}"
        );
    }

    /// The lines on stderr that the shim wrote (`ibv_sa[PID]: ...`).
    pub fn shim_lines(&self) -> Vec<&str> {
        let lines = self.stderr.lines();
        lines.filter(|line| line.starts_with("ibv_sa[")).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.command)?;
        match (self.code, self.signal) {
            (Some(code), _) => writeln!(f, "exit code {code}")?,
            (None, signal) => writeln!(f, "ended by signal {signal:?}")?,
        }
        writeln!(f, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr)
    }
}

fn join(paths: &[PathBuf]) -> OsString {
    std::env::join_paths(paths).expect("no colon in a path")
}

fn rest(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now()).max(Duration::from_millis(200))
}

fn collect(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

fn describe(command: &Command) -> String {
    let mut text = String::new();
    for (name, value) in command.get_envs() {
        let (name, value) = (name.to_string_lossy(), value.unwrap_or_default());
        if !KEPT.contains(&&*name) {
            text += &format!("{name}={} ", value.to_string_lossy());
        }
    }
    text += &command.get_program().to_string_lossy();
    for arg in command.get_args() {
        text += &format!(" {}", arg.to_string_lossy());
    }
    text
}
