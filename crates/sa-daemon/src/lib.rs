//! Shares the event subscriptions of a host's InfiniBand ports between its programs.
//!
//! * [`engine`]: who wants what, what stands at the SA, who gets what. Pure.
//! * [`transport`]: MADs and the state of ports.
//! * [`server`]: the daemon, which is the engine, a transport and a socket in one loop.

#![deny(unsafe_code)]

pub mod engine;
pub mod transport;
