//! The daemon's own loop, with an SA in the same process.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use ibv_sa_daemon::engine::{DefaultPolicy, Level, Settings};
use ibv_sa_daemon::transport::embedded::Embedded;
use ibv_sa_daemon::{Config, Daemon, Error, Signals, Stopper};
use rustix::thread::gettid;

use crate::Outcome;

/// A daemon in a thread; ends with this.
pub struct Host {
    /// What its port is at.
    pub sa: Embedded,
    directory: tempfile::TempDir,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<(), Error>>>,
    /// Number of the thread.
    tid: i32,
}

fn config(socket: PathBuf, sa: &Embedded, signals: Option<Signals>) -> Config {
    let sa = sa.clone();
    Config {
        socket,
        settings: Settings::default(),
        policy: Box::new(DefaultPolicy::default()),
        transport: Box::new(move |sink| {
            sa.attach(sink);
            Ok(Box::new(sa))
        }),
        log: Box::new(|record| {
            if record.level < Level::Info {
                eprintln!("daemon: {}", record.text);
            }
        }),
        signals,
    }
}

impl Host {
    /// Starts it.
    pub fn new() -> Outcome<Host> {
        let (sa, directory) = (Embedded::default(), tempfile::tempdir()?);
        let daemon = Daemon::new(config(directory.path().join("sa.sock"), &sa, None))?;
        let stopper = daemon.stopper();
        let (tell, told) = channel();
        let thread = std::thread::Builder::new().name("daemon".into()).spawn(move || {
            let _ = tell.send(gettid().as_raw_nonzero().get());
            daemon.run()
        })?;
        Ok(Host { sa, directory, stopper, thread: Some(thread), tid: told.recv()? })
    }

    /// Where programs connect.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("sa.sock")
    }

    /// What its thread has used so far, in nanoseconds.
    pub fn cpu_time(&self) -> Outcome<u64> {
        cpu_time(&format!("/proc/self/task/{}/schedstat", self.tid))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("daemon: {error}");
        }
    }
}

/// The daemon as all there is in this process, until a signal comes. Says when it listens.
pub fn serve(socket: &Path) -> Outcome<()> {
    let daemon = Daemon::new(config(socket.into(), &Embedded::default(), Some(Signals::catch()?)))?;
    std::io::stdout().write_all(b"!")?;
    std::io::stdout().flush()?;
    Ok(daemon.run()?)
}

/// The first number of such a file: nanoseconds on a CPU.
pub fn cpu_time(file: &str) -> Outcome<u64> {
    let text = fs::read_to_string(file)?;
    Ok(text.split_whitespace().next().ok_or("no time")?.parse()?)
}
