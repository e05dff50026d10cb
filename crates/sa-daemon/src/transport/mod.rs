//! MADs and the state of ports, from wherever they come.
//!
//! A transport is driven by the daemon's loop and reports through a [`Sink`], from threads of its own if need be.

pub mod embedded;
#[cfg(feature = "ibsim")]
pub mod ibsim;
pub mod umad;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

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

/// Events that wait for the daemon's loop. When it is full the transport waits, and the MADs wait in the kernel.
const WAITING: usize = 1024;

/// Where a transport reports.
#[derive(Clone)]
pub struct Sink {
    sender: SyncSender<Event>,
    wake: Arc<OwnedFd>,
}

/// The other end of a sink.
pub struct Source {
    receiver: Receiver<Event>,
    wake: Arc<OwnedFd>,
}

/// A sink and its source.
pub fn channel() -> io::Result<(Sink, Source)> {
    let (sender, receiver) = sync_channel(WAITING);
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    Ok((Sink { sender, wake: wake.clone() }, Source { receiver, wake }))
}

impl Sink {
    /// Reports. False if nobody listens any more.
    pub fn report(&self, event: Event) -> bool {
        let heard = self.sender.send(event).is_ok();
        // Fails only when the counter is full, and then the other side is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        heard
    }
}

impl Source {
    /// Readable when something was reported.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes the sign down. Call it before taking the events.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    /// The next event, if there is one.
    pub fn take(&self) -> Option<Event> {
        self.receiver.try_recv().ok()
    }
}
