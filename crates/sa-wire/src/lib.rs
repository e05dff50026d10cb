//! What goes over the wire, to the subnet administrator (SA) and to the programs of one host.
//!
//! * [`mad`]: management datagrams (MADs) of the SA class as far as event subscription needs them, big-endian.
//! * [`proto`]: the packets between a program and the daemon on their unix socket, little-endian.
//! * [`filter`]: which notices a registration gets, and what has to be subscribed at the SA for it.
//!
//! Codecs and rules only: no allocation, no system call, no clock. The crate is `no_std` so that this stays
//! true: one of its users lives inside other people's programs. Everything that comes from outside is checked
//! on decoding and refused with a typed error; nothing here panics on any input.
//!
//! Sources: "IBA" is the InfiniBand Architecture Specification, volume 1: 13.4 (MAD format, notices and event
//! forwarding), 13.6 (RMPP), 14.2.5.1 and 14.3 (notices of the subnet manager and their data details),
//! 15.2 (SA MADs and records). What OpenSM 3.3.23 does beyond or against the text was measured and says so.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod filter;
mod ids;
pub mod mad;
pub mod proto;

pub use filter::{Filter, LidRange, Subject};
pub use ids::{Gid, Guid, LID_ANY, ParseGidError};
pub use mad::{Notice, Report, SaMad, Subscription, Trap};
