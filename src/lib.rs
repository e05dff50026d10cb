//! libibv_sa: a shim with libibverbs's C ABI between an RDMA program and libibverbs.
//!
//! Linked into `libibv_sa.so.1` by the Makefile with a version script; nothing else may link this crate,
//! for it would interpose itself.
//!
//! | what is exported | where it lives |
//! |---|---|
//! | functions that only forward | [`forward`] |
//! | contexts, objects, events and acks, polls | [`interpose`] |
//! | inline functions of `<infiniband/verbs.h>` as real symbols | [`interpose::jump`], [`interpose::inline`] |
//! | the library's own API | [`api`], [`sa`] |
//!
//! Every exported function is `extern "C-unwind"` and holds nothing that needs dropping across the call into
//! the provider, because that call may be the place where a thread is cancelled. What we do before and after it
//! happens in functions that catch their own panics ([`boundary`]).

// In a test build nothing is exported, so that the test does not interpose itself: exports look unused there.
#![cfg_attr(test, allow(dead_code))]

mod abi;
mod api;
mod boundary;
mod clock;
mod exit_report;
mod forward;
mod interpose;
mod memory;
mod provider;
mod sa;
mod settings;
mod state;
mod stderr;
mod tell;
mod watch;
