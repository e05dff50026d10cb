//! stdout and signals of a command that runs until somebody has seen enough.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};

/// A pipe that has room at all takes this many bytes at once (pipe(7)).
const PIPE_BUF: usize = 4096;

/// Why there is no more to write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A signal asks for the end.
    Signal,
    /// Nobody reads stdout any more.
    Closed,
    /// The time is over.
    Time,
    /// stdout does not take it.
    Failed(String),
}

/// Descriptors 0 to 2 are open afterwards: a socket of ours must not become somebody's stdout.
pub(crate) fn open_standard_descriptors() {
    while let Ok(fd) = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()) {
        if fd.as_raw_fd() > 2 {
            return;
        }
        std::mem::forget::<OwnedFd>(fd);
    }
}

/// stdout, and the signals that end us.
pub(crate) struct Terminal {
    signals: UnixStream,
    /// When the time is over.
    pub(crate) deadline: Option<Instant>,
}

impl Terminal {
    pub(crate) fn new(deadline: Option<Instant>) -> io::Result<Terminal> {
        let (signals, write) = UnixStream::pair()?;
        signals.set_nonblocking(true)?;
        let ignored = ignored_signals();
        // A SIGPIPE that nobody catches would end us with a subscription left at the SA. The others stay ignored where
        // they were: in the background, under nohup(1).
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGPIPE] {
            if signal == SIGPIPE || ignored >> (signal - 1) & 1 == 0 {
                signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
            }
        }
        Ok(Terminal { signals, deadline })
    }

    /// What to look at beside one's own descriptors: signals, and whether stdout still has a reader.
    pub(crate) fn watched<'a>(&'a self, stdout: &'a io::Stdout) -> [PollFd<'a>; 2] {
        [PollFd::new(&self.signals, PollFlags::IN), PollFd::new(stdout, PollFlags::empty())]
    }

    /// What those say.
    fn seen(&self, watched: &[PollFd<'_>]) -> Option<End> {
        let mut events = watched.iter().map(PollFd::revents);
        if events.next().is_some_and(|signals| !signals.is_empty()) {
            return Some(End::Signal);
        }
        if events.next().is_some_and(|stdout| stdout.intersects(PollFlags::ERR | PollFlags::HUP)) {
            return Some(End::Closed);
        }
        self.is_over().then_some(End::Time)
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// How long until the deadline, or until `other` if that is sooner.
    pub(crate) fn left(&self, other: Option<Duration>) -> Option<Duration> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        [left, other].into_iter().flatten().min()
    }

    /// Until `other` has something or that time is over; whether it has.
    pub(crate) fn wait(&self, other: Option<PollFd<'_>>, timeout: Option<Duration>) -> Result<bool, End> {
        let stdout = io::stdout();
        let mut all = self.watched(&stdout).to_vec();
        all.extend(other);
        let timeout = self.left(timeout).and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut all, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(End::Failed(format!("poll: {}", io::Error::from(error)))),
        }
        match self.seen(&all) {
            Some(end) => Err(end),
            None => Ok(all.get(2).is_some_and(|other| !other.revents().is_empty())),
        }
    }

    /// Writes a text to stdout, at once. Signals end also a write that nobody reads.
    pub(crate) fn write(&self, text: &str) -> Result<(), End> {
        let stdout = io::stdout();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            while !self.wait(Some(PollFd::new(&stdout, PollFlags::OUT)), None)? {}
            match rustix::io::write(stdout.as_fd(), &rest[..rest.len().min(PIPE_BUF)]) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::PIPE) => return Err(End::Closed),
                Err(error) => {
                    return Err(End::Failed(format!("cannot write to stdout: {}", io::Error::from(error))));
                }
            }
        }
        Ok(())
    }
}

/// One bit for each signal that whoever started us wants ignored.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
