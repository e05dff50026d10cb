//! One port's thread: opens the port, receives, and looks at the port's state.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ibv_sa_wire::Gid;
use ibv_sa_wire::mad::{Method, SA_CLASS, SA_CLASS_VERSION};
use nix::sys::signal::SigSet;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use zerocopy::IntoBytes;

use super::devices::locate;
use super::events;
use super::ffi::{Handle, Port, Umad as Library};
use super::look::Looked;
use super::verbs::{Context, Verbs};
use super::{PREFIX, Prefix, Request, Shared, Way, tid};
use crate::engine::{Address, Event, PortId, PortInfo, PortName, PortState};
use crate::transport::Sink;

/// How often a port is looked at whose changes nobody tells of.
const LOOK: Duration = Duration::from_millis(500);
/// How often one is looked at all the same.
const SELDOM: Duration = Duration::from_secs(10);
/// How long closing a port may take.
const WAIT: Duration = Duration::from_millis(500);
/// Room for an SA's table of some thousand subscriptions; more is made when needed.
const ROOM: usize = 128 * 1024;
const MOST_ROOM: usize = 16 * 1024 * 1024;
/// The kernel puts tables together and takes them apart.
const RMPP_VERSION: u8 = 1;

/// What a port's thread has.
pub struct Worker {
    pub library: Arc<Library>,
    /// For the device's events, or why there are none.
    pub verbs: Result<Arc<Verbs>, String>,
    pub sink: Sink,
    pub shared: Arc<Shared>,
    pub port: PortId,
    pub name: PortName,
}

fn fail(what: &str) -> impl Fn(io::Error) -> (i32, String) {
    move |error| (-error.raw_os_error().unwrap_or(libc::EIO), format!("{what}: {error}"))
}

impl Worker {
    /// The thread, after that of the same port that came before.
    pub fn run(self, before: Option<JoinHandle<()>>) {
        // A signal would end a wait here with what looks like a failure of the port. Signals are the daemon's thread's.
        let _ = SigSet::all().thread_block();
        if let Some(before) = before {
            let _ = before.join();
        }
        if let Err((status, reason)) = self.serve() {
            self.sink.report(Event::PortFailed { port: self.port, status, reason });
        }
    }

    fn serve(&self) -> Result<(), (i32, String)> {
        let number = self.name.number;
        let (device, port) = locate(&self.library, &self.name)?;
        let found = self.library.device(&device).map_err(fail("sysfs"))?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let end = end.map_err(|error| fail("eventfd")(error.into()))?;
        let handle = self.library.open(&device, number).map_err(fail("umad"))?;
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
        // First the events, then the state: what changes in between is told twice and not never.
        let context = match &self.verbs {
            Ok(verbs) => verbs.open(&device).map_err(|error| format!("libibverbs: {error}")),
            Err(reason) => Err(reason.clone()),
        };
        let looked = Looked::new(&device, number, self.sink.clone(), self.port, state(&port));
        let (requests, asked) = mpsc::channel();
        *self.shared.way() = Some(Way { handle, agent, requests });
        // umad2sim plays a kernel without its reassembly, and without sysfs for those who do not ask libibumad.
        let info = PortInfo {
            node_guid: found.node_guid,
            port_guid: port.port_guid,
            long_tables: looked.is_kernels(),
        };
        self.sink.report(Event::PortOpened { port: self.port, info, state: looked.state() });
        if device != self.name.device {
            let text = format!("the port with GUID {} is at {device} now", self.name.guid);
            self.sink.report(Event::Note { port: self.port, text });
        }
        let result = self.receive_and_listen(handle, context, &looked, asked, &end).map_err(fail("umad"));
        self.library.close(handle, Some(agent));
        result
    }

    /// MADs in this thread, events of the device and requests in others. Nobody sends any more when it returns, nor will.
    fn receive_and_listen(
        &self,
        handle: Handle,
        context: Result<Context, String>,
        looked: &Looked,
        asked: Receiver<Request>,
        end: &OwnedFd,
    ) -> io::Result<()> {
        let told = AtomicBool::new(false);
        let alone = |reason: String| {
            told.store(false, Ordering::Relaxed);
            let text = format!("no events of the device, so that it is looked at twice a second: {reason}");
            self.sink.report(Event::Note { port: self.port, text });
        };
        std::thread::scope(|scope| {
            match context {
                Ok(context) => {
                    told.store(true, Ordering::Relaxed);
                    let listener = std::thread::Builder::new().name(format!("events {}", self.name));
                    let alone = &alone;
                    let listen = move || {
                        if let Err(error) = events::listen(context, self.name.number, looked, end) {
                            alone(error);
                        }
                    };
                    if let Err(error) = listener.spawn_scoped(scope, listen) {
                        alone(format!("no thread: {error}"));
                    }
                }
                Err(reason) => alone(reason),
            }
            let ask = move || asked.iter().for_each(|request| self.ask(&request, looked));
            let asker = std::thread::Builder::new().name(format!("requests {}", self.name));
            let result = match asker.spawn_scoped(scope, ask) {
                Ok(_) => self.receive(handle, looked, &told),
                Err(error) => Err(error),
            };
            // The way's end is the end of its requests.
            self.shared.way().take();
            let _ = rustix::io::write(end, &1u64.to_ne_bytes());
            result
        })
    }

    fn receive(&self, handle: Handle, looked: &Looked, told: &AtomicBool) -> io::Result<()> {
        let mut packet = vec![0u64; (PREFIX + ROOM) / 8];
        let mut last = Instant::now();
        while !self.shared.ends.load(Ordering::Relaxed) {
            let interval = if told.load(Ordering::Relaxed) { SELDOM } else { LOOK };
            if last.elapsed() >= interval {
                looked.again();
                last = Instant::now();
                if looked.is_gone() {
                    return Err(io::Error::from_raw_os_error(libc::ENODEV));
                }
            }
            if self.sink.is_full() {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let wait = interval.saturating_sub(last.elapsed()).min(WAIT).as_millis() as u32 + 1;
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

    /// Sends a request, unless the SM has moved: what goes to where it was is lost. To look takes a command of the device,
    /// which may take its time, so that it is not the daemon's loop that looks.
    fn ask(&self, (to, mad, answer_within): &Request, looked: &Looked) {
        let sent = !looked.has_left(to.lid, to.sl)
            && self
                .shared
                .way()
                .as_ref()
                .is_some_and(|way| way.send(&self.library, *to, mad, *answer_within));
        if !sent {
            self.sink.report(Event::SendFailed { port: self.port, tid: tid(&mad[..]) });
        }
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
}

fn state(port: &Port) -> PortState {
    let mut gid = [0; 16];
    gid[..8].copy_from_slice(&port.gid_prefix);
    gid[8..].copy_from_slice(&port.port_guid.0);
    PortState {
        active: port.state == 4,
        lid: port.base_lid,
        sm_lid: port.sm_lid,
        sm_sl: port.sm_sl,
        gid: Gid(gid),
    }
}
