//! A daemon in a thread of the test, with an SA in the same process.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ibv_sa_daemon::engine::{DefaultPolicy, Settings};
use ibv_sa_daemon::transport::embedded::Embedded;
use ibv_sa_daemon::{Config, Daemon, Error, Stopper};

use crate::common::LIMIT;

/// The daemon, ended with this value.
pub struct Host {
    pub directory: tempfile::TempDir,
    pub sa: Embedded,
    stopper: Stopper,
    daemon: Option<JoinHandle<Result<(), Error>>>,
}

/// A daemon of everybody's with that SA.
pub fn config(socket: PathBuf, sa: &Embedded, settings: Settings) -> Config {
    let sa = sa.clone();
    Config {
        socket,
        settings,
        policy: Box::new(DefaultPolicy::default()),
        transport: Box::new(move |sink| {
            sa.attach(sink);
            Ok(Box::new(sa))
        }),
        log: Box::new(|record| eprintln!("{}", record.text)),
        signals: None,
    }
}

impl Host {
    pub fn new() -> Host {
        Host::with(Settings { linger: 50_000_000, ..Settings::default() })
    }

    pub fn with(settings: Settings) -> Host {
        let directory = tempfile::tempdir().expect("a directory");
        let sa = Embedded::default();
        let config = config(directory.path().join("sa.sock"), &sa, settings);
        Host::of(directory, sa, config)
    }

    pub fn of(directory: tempfile::TempDir, sa: Embedded, config: Config) -> Host {
        let daemon = Daemon::new(config).expect("it listens");
        let stopper = daemon.stopper();
        let daemon = Some(std::thread::spawn(move || daemon.run()));
        Host { directory, sa, stopper, daemon }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("sa.sock")
    }

    pub fn subscriptions(&self) -> usize {
        self.sa.with_sa(|sa| sa.subscribers.len())
    }

    pub fn wait_for(&self, what: &str, done: impl Fn(&Host) -> bool) {
        let end = Instant::now() + LIMIT;
        while !done(self) {
            assert!(Instant::now() < end, "{what} did not happen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn stop(&mut self) {
        self.stopper.stop();
        if let Some(daemon) = self.daemon.take() {
            daemon.join().expect("no panic").expect("a clean end");
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}
