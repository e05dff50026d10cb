//! InfiniBand ports of this host, by the kernel's umad.
//!
//! One thread for each open port ([`worker`]): it opens it, receives, and looks at the port's state in between, because
//! umad tells of MADs only. A second one listens to the device's events, where there is libibverbs, and a third looks where
//! the SM is before it sends a request. The kernel gives the Reports of the SA at a port to one program of the host:
//! another one is told so.

mod devices;
mod events;
mod ffi;
mod look;
mod verbs;
mod worker;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ibv_sa_wire::mad::{GSI_QKEY, tid_low};
use ibv_sa_wire::proto::PortSelector;
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, native_endian};

use super::{Sink, Transport};
use crate::engine::{Address, Event, PortId, PortName};
use devices::Devices;
use ffi::{Agent, Handle, Umad as Library};
use verbs::Verbs;
use worker::Worker;

/// Bytes in front of a MAD; kernels before 2.6.24, and umad2sim, have no P_Key index and end before it.
const PREFIX: usize = size_of::<Prefix>();

/// `struct ib_user_mad` without its data: what umad puts in front of every MAD.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Prefix {
    agent: native_endian::U32,
    status: native_endian::U32,
    timeout_ms: native_endian::U32,
    retries: native_endian::U32,
    length: native_endian::U32,
    qpn: U32,
    qkey: U32,
    lid: U16,
    sl: u8,
    path_bits: u8,
    grh_present: u8,
    gid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    gid: [u8; 16],
    flow_label: U32,
    pkey_index: native_endian::U16,
    reserved: [u8; 6],
}

const _: () = assert!(PREFIX == 64);

/// Prefix and MAD, where libibumad may write its numbers.
#[repr(C, align(8))]
struct Packet([u8; PREFIX + 256]);

/// An open port.
struct Open {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// What the daemon's thread and the port's have in common.
#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// There while the port is open. Who sends holds it, and who closes takes it away first: a handle is a
    /// descriptor, and its number may be a program's connection as soon as it is closed.
    way: Mutex<Option<Way>>,
}

/// What wants an answer, and within so many milliseconds.
type Request = (Address, Box<[u8; 256]>, u32);

/// The way out of an open port.
struct Way {
    handle: Handle,
    agent: Agent,
    /// To the thread that looks where the SM is before it sends.
    requests: Sender<Request>,
}

impl Way {
    /// Whether the kernel has taken it.
    fn send(&self, library: &Library, to: Address, mad: &[u8; 256], answer_within: u32) -> bool {
        let prefix = Prefix {
            qpn: to.qpn.into(),
            qkey: GSI_QKEY.into(),
            lid: to.lid.into(),
            sl: to.sl,
            pkey_index: to.pkey_index.into(),
            ..Prefix::default()
        };
        let mut packet = Packet([0; PREFIX + 256]);
        let length = library.prefix();
        packet.0[..PREFIX].copy_from_slice(prefix.as_bytes());
        packet.0[length..length + 256].copy_from_slice(mad);
        library.send(self.handle, self.agent, &mut packet, answer_within).is_ok()
    }
}

impl Shared {
    fn way(&self) -> MutexGuard<'_, Option<Way>> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host's ports.
pub struct Umad {
    library: Arc<Library>,
    verbs: Result<Arc<Verbs>, String>,
    sink: Sink,
    devices: Devices,
    open: HashMap<PortId, Open>,
    /// Threads that are about to end. A port is opened again only after its old thread has let go of it.
    ending: HashMap<PortName, JoinHandle<()>>,
    names: HashMap<PortId, PortName>,
}

impl Umad {
    /// Opens libibumad, and libibverbs if it is there.
    pub fn new(sink: Sink) -> io::Result<Self> {
        let library = Arc::new(Library::load()?);
        let verbs = Verbs::load().map(Arc::new).map_err(|error| error.to_string());
        let (open, ending, names) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Umad { library, verbs, sink, devices: Devices::default(), open, ending, names })
    }
}

impl Transport for Umad {
    fn resolve(&mut self, selector: &PortSelector) -> Result<PortName, i32> {
        self.devices.find(&self.library, selector)
    }

    fn open(&mut self, port: PortId, name: &PortName) {
        let shared = Arc::new(Shared::default());
        let before = match self.open.remove(&port) {
            Some(failed) => Some(failed.thread),
            None => self.ending.remove(name),
        };
        self.names.insert(port, name.clone());
        let worker = Worker {
            library: self.library.clone(),
            verbs: self.verbs.clone(),
            sink: self.sink.clone(),
            shared: shared.clone(),
            port,
            name: name.clone(),
        };
        let start =
            std::thread::Builder::new().name(format!("umad {name}")).spawn(move || worker.run(before));
        match start {
            Ok(thread) => {
                self.open.insert(port, Open { shared, thread });
            }
            Err(error) => {
                let reason = format!("no thread: {error}");
                self.sink.report(Event::PortFailed { port, status: -libc::EAGAIN, reason });
            }
        }
    }

    fn close(&mut self, port: PortId) {
        if let (Some(open), Some(name)) = (self.open.remove(&port), self.names.remove(&port)) {
            open.shared.ends.store(true, Ordering::Relaxed);
            self.ending.insert(name, open.thread);
        }
    }

    fn send(&mut self, port: PortId, to: Address, mad: &[u8; 256], answer_within: u32) {
        let Some(open) = self.open.get(&port) else { return };
        let way = open.shared.way();
        let Some(way) = &*way else { return };
        if answer_within == 0 {
            // What is lost here is lost as on a wire: the SA asks again.
            way.send(&self.library, to, mad, 0);
        } else {
            // Its receiver ends after the way.
            let _ = way.requests.send((to, Box::new(*mad), answer_within));
        }
    }
}

impl Drop for Umad {
    fn drop(&mut self) {
        for open in self.open.values() {
            open.shared.ends.store(true, Ordering::Relaxed);
        }
        let open = self.open.drain().map(|(_, open)| open.thread);
        for thread in open.chain(self.ending.drain().map(|(_, thread)| thread)) {
            let _ = thread.join();
        }
    }
}

/// The low half of a MAD's transaction id: the high one is the kernel's.
fn tid(mad: &[u8]) -> u32 {
    mad.get(8..16)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, |bytes| tid_low(u64::from_be_bytes(bytes)))
}
