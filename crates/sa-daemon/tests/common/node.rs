//! A daemon at a node of a simulated fabric, in a thread of the test.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::PathBuf;
use std::thread::JoinHandle;

use ibv_sa_daemon::engine::{DefaultPolicy, Settings};
use ibv_sa_daemon::transport::ibsim::Ibsim;
use ibv_sa_daemon::{Config, Daemon, Error, Stopper, TransportFactory};
use ibv_sa_wire::{Filter, Gid, Trap};

use crate::fabric::Fabric;

pub const SECOND: u64 = 1_000_000_000;

/// The daemon, ended with this value.
pub struct Host {
    pub socket: PathBuf,
    stopper: Stopper,
    daemon: Option<JoinHandle<Result<(), Error>>>,
}

/// Nobody else makes its subscriptions again when this host does.
pub fn settings() -> Settings {
    Settings { linger: SECOND / 5, spread: SECOND / 10, settle: SECOND / 20, ..Settings::default() }
}

impl Host {
    pub fn at(fabric: &Fabric, node: &str, settings: Settings) -> Host {
        let (base, at) = (fabric.base.clone(), node.to_owned());
        let transport: TransportFactory = Box::new(move |sink| Ok(Box::new(Ibsim::new(sink, &base, &at))));
        Host::over(fabric, node, settings, transport)
    }

    /// With another transport that leads to that node.
    pub fn over(fabric: &Fabric, node: &str, settings: Settings, transport: TransportFactory) -> Host {
        let socket = fabric.path().join(format!("{node}.sock"));
        let daemon = Daemon::new(Config {
            socket: socket.clone(),
            settings,
            policy: Box::new(DefaultPolicy::default()),
            transport,
            log: Box::new(|record| eprintln!("{}", record.text)),
            signals: None,
        })
        .expect("it listens");
        let stopper = daemon.stopper();
        Host { socket, stopper, daemon: Some(std::thread::spawn(move || daemon.run())) }
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
        self.stopper.stop();
        if let Some(daemon) = self.daemon.take() {
            let _ = daemon.join();
        }
    }
}

pub fn trap(number: u16) -> Filter {
    Filter::trap(Trap(number))
}

/// GID of Hca3's port on the test bed.
pub fn hca3() -> Gid {
    let mut gid = [0; 16];
    (gid[0], gid[1]) = (0xFE, 0x80);
    gid[8..].copy_from_slice(&HCA3.to_be_bytes());
    Gid(gid)
}
const HCA3: u64 = 0x0010_0007;
