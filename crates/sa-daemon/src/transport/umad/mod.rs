//! InfiniBand ports of this host, by the kernel's umad.
//!
//! One thread for each open port: it opens it, receives, and looks at the port's state in between, because umad tells
//! of MADs only. The kernel gives the Reports of the SA at a port to one program of the host: a second one is told so.

mod devices;
mod ffi;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ibv_sa_wire::Gid;
use ibv_sa_wire::mad::{GSI_QKEY, Method, SA_CLASS, SA_CLASS_VERSION, tid_low};
use ibv_sa_wire::proto::PortSelector;
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, native_endian};

use super::{Sink, Transport};
use crate::engine::{Address, Event, PortId, PortInfo, PortName, PortState};
use devices::Devices;
use ffi::{Agent, Handle, Umad as Library};

/// Bytes in front of a MAD; kernels before 2.6.24, and umad2sim, have no P_Key index and end before it.
const PREFIX: usize = size_of::<Prefix>();
/// How often a port is looked at, and how long closing it takes.
const LOOK: Duration = Duration::from_millis(500);
/// Room for an SA's table of some thousand subscriptions; more is made when needed.
const ROOM: usize = 128 * 1024;
const MOST_ROOM: usize = 16 * 1024 * 1024;
/// The kernel puts tables together and takes them apart.
const RMPP_VERSION: u8 = 1;

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
    handle: Mutex<Option<(Handle, Agent)>>,
}

impl Shared {
    fn handle(&self) -> MutexGuard<'_, Option<(Handle, Agent)>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host's ports.
pub struct Umad {
    library: Arc<Library>,
    sink: Sink,
    devices: Devices,
    open: HashMap<PortId, Open>,
    /// Threads that are about to end. A port is opened again only after its old thread has let go of it.
    ending: HashMap<PortName, JoinHandle<()>>,
    names: HashMap<PortId, PortName>,
}

impl Umad {
    /// Opens libibumad.
    pub fn new(sink: Sink) -> io::Result<Self> {
        let library = Arc::new(Library::load()?);
        let (open, ending, names) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Umad { library, sink, devices: Devices::default(), open, ending, names })
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
        let held = open.shared.handle();
        let Some((handle, agent)) = *held else { return };
        let prefix = Prefix {
            qpn: to.qpn.into(),
            qkey: GSI_QKEY.into(),
            lid: to.lid.into(),
            sl: to.sl,
            pkey_index: to.pkey_index.into(),
            ..Prefix::default()
        };
        let mut packet = Packet([0; PREFIX + 256]);
        let length = self.library.prefix();
        packet.0[..PREFIX].copy_from_slice(prefix.as_bytes());
        packet.0[length..length + 256].copy_from_slice(mad);
        if self.library.send(handle, agent, &mut packet, answer_within).is_err() && answer_within != 0 {
            self.sink.report(Event::SendFailed { port, tid: tid(mad) });
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

/// One port's thread.
struct Worker {
    library: Arc<Library>,
    sink: Sink,
    shared: Arc<Shared>,
    port: PortId,
    name: PortName,
}

impl Worker {
    fn run(self, before: Option<JoinHandle<()>>) {
        if let Some(before) = before {
            let _ = before.join();
        }
        if let Err((status, reason)) = self.serve() {
            self.sink.report(Event::PortFailed { port: self.port, status, reason });
        }
    }

    fn serve(&self) -> Result<(), (i32, String)> {
        let PortName { device, number } = &self.name;
        let fail = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| (-error.raw_os_error().unwrap_or(libc::EIO), format!("{what}: {error}"))
        };
        let port = self.library.port(device, *number).map_err(fail("sysfs"))?;
        let found = self.library.device(device).map_err(fail("sysfs"))?;
        let handle = self.library.open(device, *number).map_err(fail("umad"))?;
        let methods = [Method::REPORT.0];
        let agent = self.library.register(handle, SA_CLASS, SA_CLASS_VERSION, RMPP_VERSION, &methods);
        let agent = match agent {
            Ok(agent) => agent,
            Err(error) => {
                self.library.close(handle, None);
                return Err(match error.raw_os_error() {
                    // What the kernel says when a method of a class is taken.
                    Some(libc::EINVAL | libc::EPERM) => (
                        -libc::EBUSY,
                        "another program receives the reports of the SA at this port: end it, such as another \
                         daemon or srp_daemon; the port is tried again"
                            .into(),
                    ),
                    _ => fail("umad")(error),
                });
            }
        };
        *self.shared.handle() = Some((handle, agent));
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&port.gid_prefix);
        gid[8..].copy_from_slice(&port.port_guid.0);
        let state = PortState {
            active: port.state == 4,
            lid: port.base_lid,
            sm_lid: port.sm_lid,
            sm_sl: port.sm_sl,
            gid: Gid(gid),
        };
        let info =
            PortInfo { node_guid: found.node_guid, port_guid: port.port_guid, long_tables: self.is_kernel() };
        self.sink.report(Event::PortOpened { port: self.port, info, state });
        let result = self.receive(handle, state).map_err(fail("umad"));
        // Nobody sends any more, nor will.
        self.shared.handle().take();
        self.library.close(handle, Some(agent));
        result
    }

    /// umad2sim plays a kernel without its reassembly, and without sysfs for those who do not ask libibumad.
    fn is_kernel(&self) -> bool {
        self.directory().is_dir()
    }

    fn directory(&self) -> std::path::PathBuf {
        format!("/sys/class/infiniband/{}/ports/{}", self.name.device, self.name.number).into()
    }

    fn receive(&self, handle: Handle, mut state: PortState) -> io::Result<()> {
        let mut packet = vec![0u64; (PREFIX + ROOM) / 8];
        let mut look = Instant::now() + LOOK;
        while !self.shared.ends.load(Ordering::Relaxed) {
            if look <= Instant::now() {
                if let Some(new) = self.look(state).filter(|new| *new != state) {
                    state = new;
                    self.sink.report(Event::PortState { port: self.port, state });
                }
                look = Instant::now() + LOOK;
            }
            if self.sink.is_full() {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let wait = look.saturating_duration_since(Instant::now()).as_millis().max(1) as u32;
            match self.library.receive(handle, packet.as_mut_bytes(), wait) {
                Ok(None) => {}
                Ok(Some(length)) => self.received(packet.as_bytes(), length),
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && packet.len() < MOST_ROOM / 8 => {
                    packet.resize(packet.len() * 2, 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn received(&self, packet: &[u8], length: usize) {
        let (front, data) = packet.split_at(self.library.prefix());
        let Some(mad) = data.get(..length) else { return };
        let mut prefix = Prefix::default();
        prefix.as_mut_bytes()[..front.len()].copy_from_slice(front);
        let port = self.port;
        if prefix.status.get() != 0 {
            self.sink.report(Event::SendFailed { port, tid: tid(mad) });
            return;
        }
        let from = Address {
            lid: prefix.lid.get(),
            qpn: prefix.qpn.get(),
            sl: prefix.sl,
            pkey_index: prefix.pkey_index.get(),
        };
        self.sink.report(Event::Mad { port, from, mad: mad.to_vec() });
    }

    /// How the port is. Directly from sysfs: libibumad would read all P_Keys each time.
    fn look(&self, before: PortState) -> Option<PortState> {
        let directory = self.directory();
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
        let number = |name: &str| {
            let text = read(name)?;
            let text = text.trim();
            match text.strip_prefix("0x") {
                Some(hex) => u16::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            }
        };
        Some(PortState {
            active: read("state")?.starts_with("4:"),
            lid: number("lid")?,
            sm_lid: number("sm_lid")?,
            sm_sl: number("sm_sl")? as u8,
            gid: read("gids/0").and_then(|text| text.trim().parse().ok()).unwrap_or(before.gid),
        })
    }
}
