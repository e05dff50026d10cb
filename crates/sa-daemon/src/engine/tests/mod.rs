//! The engine against an SA in the same test, with time that jumps from one deadline to the next.

mod audits;
mod clients;
mod costs;
mod faults;
mod leases;
mod limits;
mod ports;
mod properties;
mod strangers;
mod world;
