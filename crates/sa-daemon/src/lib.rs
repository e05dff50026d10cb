//! Shares the event subscriptions of a host's InfiniBand ports between its programs.
//!
//! * [`engine`]: who wants what, what stands at the SA, who gets what. Pure.
//! * [`transport`]: MADs and the state of ports.
//! * [`policy`]: the policy file.
//! * [`server`]: the daemon, which is the engine, a transport and a socket in one loop.
//! * [`monitor`]: the same for one reader, without a socket.

#![deny(unsafe_code)]

mod driver;
pub mod engine;
pub mod monitor;
pub mod policy;
pub mod server;
pub mod transport;

pub use driver::{Log, TransportFactory};
pub use monitor::{Monitor, MonitorEvent};
pub use server::{Config, Daemon, Error, Reloader, Signals, Stopper, run};
