//! MADs and the state of ports, from wherever they come.
//!
//! A transport is driven by the daemon's loop and reports through a [`Sink`], from threads of its own if need be.

pub mod embedded;
#[cfg(feature = "ibsim")]
pub mod ibsim;
pub mod umad;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use ibv_sa_wire::proto::PortSelector;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::engine::{Address, Event, PortId, PortName};

/// Where ports are.
pub trait Transport: Send {
    /// Finds a port by what a program calls it. A negative errno if there is none, or none with an SA.
    fn resolve(&mut self, selector: &PortSelector) -> Result<PortName, i32>;

    /// Opens a port; answers with `Event::PortOpened` or `Event::PortFailed`, and from then on reports its MADs and
    /// its state.
    fn open(&mut self, port: PortId, name: &PortName);

    /// Closes it. Nothing is reported about it any more.
    fn close(&mut self, port: PortId);

    /// Sends a MAD. If an answer is to come within so many milliseconds and does not, `Event::SendFailed` may be
    /// reported.
    fn send(&mut self, port: PortId, to: Address, mad: &[u8; 256], answer_within: u32);
}

/// More events than this, and whoever receives MADs should leave them in the kernel for now.
const MANY: usize = 1024;

/// Where a transport reports, from any thread. Never waits.
#[derive(Clone)]
pub struct Sink {
    sender: Sender<Event>,
    shared: Arc<Shared>,
}

/// The other end of a sink.
pub struct Source {
    receiver: Receiver<Event>,
    shared: Arc<Shared>,
}

struct Shared {
    wake: OwnedFd,
    waiting: AtomicUsize,
}

/// A sink and its source.
pub fn channel() -> io::Result<(Sink, Source)> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let shared = Arc::new(Shared { wake, waiting: AtomicUsize::new(0) });
    Ok((Sink { sender, shared: shared.clone() }, Source { receiver, shared }))
}

impl Sink {
    /// Reports. False if nobody listens any more.
    pub fn report(&self, event: Event) -> bool {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let heard = self.sender.send(event).is_ok();
        self.shared.wake();
        heard
    }

    /// The daemon has enough to do.
    pub fn is_full(&self) -> bool {
        self.shared.waiting.load(Ordering::Relaxed) > MANY
    }
}

impl Shared {
    fn wake(&self) {
        // Fails only when the counter is full, and then the other side is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl Source {
    /// Readable when something was reported.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }

    /// Takes the sign down. Call it before taking the events.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
    }

    /// Puts the sign up again.
    pub fn wake(&self) {
        self.shared.wake();
    }

    /// The next event, if there is one.
    pub fn take(&self) -> Option<Event> {
        let event = self.receiver.try_recv().ok()?;
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(event)
    }
}
