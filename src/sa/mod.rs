//! Notices of the subnet administrator (SA): the `ibv_sa_*` functions.
//!
//! A program's channel has a connection to the daemon (`ibv-sa daemon`), which alone talks to the SA. There is no thread
//! of ours: what the daemon sent is read when the program asks for an event. Each of these files has one thing:
//!
//! | file | what |
//! |---|---|
//! | [`types`] | the structures that C sees |
//! | [`table`] | cells with addresses that are checked before use and not used again soon |
//! | [`process`] | the tables of this process, and of no other; their lock |
//! | [`channel`] | a channel: made, destroyed, its descriptors |
//! | [`get`], [`event`] | an event: waited for, acknowledged |
//! | [`register`], [`id`] | a registration: made, freed |
//! | [`connection`], [`receive`] | the daemon: found, greeted, lost, found again; what it says |
//! | [`wait`] | a free or a destroy that waits for acks |
//! | [`notice`], [`text`] | decoding, and words for numbers |
//!
//! The lock is never held across a wait, and while it is held no signal is handled in that thread and no cancellation
//! acts: a handler that jumps away, and a thread that is cancelled, leave nothing behind.

pub(crate) mod channel;
pub(crate) mod connection;
pub(crate) mod event;
pub(crate) mod get;
pub(crate) mod id;
pub(crate) mod notice;
pub(crate) mod process;
pub(crate) mod receive;
pub(crate) mod register;
pub(crate) mod sys;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod types;
pub(crate) mod wait;

use crate::abi::c_int;
use crate::boundary::{contain, set_errno, uncancelled};
use crate::settings;

/// Runs `work` so that no panic and no cancellation leaves it; 0, or -1 with errno.
fn answer(work: impl FnOnce() -> Result<(), c_int>) -> c_int {
    match contained(work) {
        Ok(()) => 0,
        Err(error) => {
            set_errno(error);
            -1
        }
    }
}

/// The same for functions that return something else. After a fault of our own: EIO.
fn contained<R>(work: impl FnOnce() -> Result<R, c_int>) -> Result<R, c_int> {
    // Whatever happens in there, the thread can be cancelled afterwards.
    uncancelled(|| {
        contain(Err(libc::EIO), || {
            if cfg!(feature = "panic-probe") {
                settings::get();
                panic!("panic probe");
            }
            work()
        })
    })
}
