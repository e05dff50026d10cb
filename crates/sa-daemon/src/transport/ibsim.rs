//! For tests: ports of the fabric simulator ibsim, in its own datagram protocol.
//!
//! libibumad on ibsim (umad2sim) reads LID, SM LID and state once and never again; this asks ibsim itself, so that
//! ports that go down and SMs that move are seen.

use std::collections::HashMap;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ibv_sa_wire::mad::tid_low;
use ibv_sa_wire::proto::PortSelector;
use ibv_sa_wire::{Gid, Guid};

use super::{Sink, Transport};
use crate::engine::{Address, Event, PortId, PortInfo, PortName, PortState};

/// The only device of a node, as libibumad on ibsim calls it.
pub const DEVICE: &str = "ibsim0";

const MAGIC: u32 = 0xDEAD_BEEF;
const CONNECT: u32 = 1;
const DISCONNECT: u32 = 2;
const NODE_INFO: u32 = 7;
const PORT_INFO: u32 = 8;
/// How often a port is looked at.
const LOOK: Duration = Duration::from_millis(20);
const REPLY: Duration = Duration::from_secs(5);

/// A MAD and where it came from.
pub struct Datagram {
    /// LID and queue pair of the sender.
    pub from: Address,
    /// Not 0 for a MAD of ours that could not be delivered.
    pub status: u32,
    /// As long as ibsim says that it is.
    pub mad: Vec<u8>,
}

/// One client of ibsim, at one node.
pub struct Client {
    control: UnixDatagram,
    data: UnixDatagram,
    id: u32,
}

fn address(name: &str) -> io::Result<SocketAddr> {
    // ibsim's names end with a zero byte.
    SocketAddr::from_abstract_name(format!("{name}\0"))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

impl Client {
    /// Attaches to `node` of the ibsim with that name for its sockets. Only one client of a node can be the one that
    /// gets `unsolicited` MADs.
    pub fn new(base: &str, node: &str, unsolicited: bool) -> io::Result<Client> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let own = (std::process::id() << 8 | NEXT.fetch_add(1, Ordering::Relaxed) & 0xFF) & 0x7FFF_FFFF;
        let control = UnixDatagram::bind_addr(&address(&format!("{base}:ctl{own}"))?)?;
        control.connect_addr(&address(&format!("{base}:ctl"))?)?;
        control.set_read_timeout(Some(REPLY))?;
        let data = UnixDatagram::bind_addr(&address(&format!("{base}:in{own}"))?)?;
        let mut client = Client { control, data, id: 0 };
        let mut body = [0; 64];
        body[0..4].copy_from_slice(&own.to_ne_bytes());
        body[8..12].copy_from_slice(&u32::from(unsolicited).to_ne_bytes());
        body[12..12 + node.len()].copy_from_slice(node.as_bytes());
        client.id = word(&client.control(CONNECT, &body)?, 0);
        client.data.connect_addr(&address(&format!("{base}:out{}", client.id))?)?;
        Ok(client)
    }

    fn control(&self, kind: u32, body: &[u8; 64]) -> io::Result<[u8; 64]> {
        let mut packet = [0; 80];
        for (at, value) in [MAGIC, self.id, kind, 64].into_iter().enumerate() {
            packet[at * 4..at * 4 + 4].copy_from_slice(&value.to_ne_bytes());
        }
        packet[16..].copy_from_slice(body);
        self.control.send(&packet)?;
        let length = self.control.recv(&mut packet)?;
        if length != packet.len() || word(&packet, 8) == 0 {
            return Err(io::Error::other("ibsim refused"));
        }
        let mut reply = [0; 64];
        reply.copy_from_slice(&packet[16..]);
        Ok(reply)
    }

    /// How port 1 is now.
    pub fn state(&self) -> io::Result<PortState> {
        let info = self.control(PORT_INFO, &[0; 64])?;
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&info[8..16]);
        if gid[0] == 0 {
            (gid[0], gid[1]) = (0xFE, 0x80);
        }
        gid[8..].copy_from_slice(&self.guids()?.1.0);
        Ok(PortState {
            active: info[32] & 0xF == 4,
            lid: u16::from_be_bytes([info[16], info[17]]),
            sm_lid: u16::from_be_bytes([info[18], info[19]]),
            sm_sl: info[34] & 0xF,
            gid: Gid(gid),
        })
    }

    /// Of node and port.
    pub fn guids(&self) -> io::Result<(Guid, Guid)> {
        let info = self.control(NODE_INFO, &[0; 64])?;
        let mut node = [0; 8];
        node.copy_from_slice(&info[12..20]);
        // ibsim tells the node's for both; it numbers ports from there.
        let node = Guid(node);
        Ok((node, Guid::from(u64::from(node) + 1)))
    }

    /// Sends to QP 1 or another one of the port with that LID.
    pub fn send(&self, lid: u16, qpn: u32, mad: &[u8; 256]) -> io::Result<()> {
        let mut packet = [0; 288];
        packet[0..2].copy_from_slice(&lid.to_be_bytes());
        packet[8..12].copy_from_slice(&qpn.to_be_bytes());
        packet[12..16].copy_from_slice(&1u32.to_be_bytes());
        packet[24..32].copy_from_slice(&256u64.to_be_bytes());
        packet[32..].copy_from_slice(mad);
        self.data.send(&packet).map(|_| ())
    }

    /// The next MAD, if one comes within that time.
    pub fn receive(&self, timeout: Duration) -> io::Result<Option<Datagram>> {
        self.data.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        let mut packet = [0; 2048];
        let length = match self.data.recv(&mut packet) {
            Ok(length) if length >= 32 => length,
            Ok(_) => return Ok(None),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let big = |at| u32::from_be(word(&packet, at));
        let told = usize::try_from(u64::from(big(24)) << 32 | u64::from(big(28))).unwrap_or(256);
        Ok(Some(Datagram {
            from: Address {
                lid: u16::from_be_bytes([packet[4], packet[5]]),
                qpn: big(12),
                sl: 0,
                pkey_index: 0,
            },
            status: big(16),
            mad: packet[32..length.min(32 + told.max(24))].to_vec(),
        }))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Otherwise ibsim keeps one of its few places.
        let _ = self.control(DISCONNECT, &[0; 64]);
    }
}

struct Open {
    client: Arc<Client>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Port 1 of one node.
pub struct Ibsim {
    sink: Sink,
    base: String,
    node: String,
    open: HashMap<PortId, Open>,
}

impl Ibsim {
    /// The node of the ibsim whose sockets have that name.
    pub fn new(sink: Sink, base: &str, node: &str) -> Self {
        Ibsim { sink, base: base.into(), node: node.into(), open: HashMap::new() }
    }

    fn try_open(&mut self, port: PortId) -> io::Result<()> {
        let client = Arc::new(Client::new(&self.base, &self.node, true)?);
        let (node_guid, port_guid) = client.guids()?;
        let info = PortInfo { node_guid, port_guid, long_tables: false };
        let state = client.state()?;
        self.sink.report(Event::PortOpened { port, info, state });
        let ends = Arc::new(AtomicBool::new(false));
        let thread = {
            let (client, ends, sink) = (client.clone(), ends.clone(), self.sink.clone());
            std::thread::spawn(move || {
                if let Err(error) = watch(port, &client, &ends, &sink, state) {
                    let reason = error.to_string();
                    sink.report(Event::PortFailed { port, status: -libc::ENODEV, reason });
                }
            })
        };
        self.open.insert(port, Open { client, ends, thread });
        Ok(())
    }
}

/// Reports MADs and changes of the port until it is closed.
fn watch(
    port: PortId,
    client: &Client,
    ends: &AtomicBool,
    sink: &Sink,
    mut state: PortState,
) -> io::Result<()> {
    let mut look = Instant::now() + LOOK;
    while !ends.load(Ordering::Relaxed) {
        if look <= Instant::now() {
            let new = client.state()?;
            if new != state {
                state = new;
                sink.report(Event::PortState { port, state });
            }
            look = Instant::now() + LOOK;
        }
        if sink.is_full() {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        if let Some(datagram) = client.receive(look.saturating_duration_since(Instant::now()))? {
            let Datagram { from, status, mad } = datagram;
            sink.report(if status == 0 {
                Event::Mad { port, from, mad }
            } else {
                let mut tid = [0; 8];
                tid.copy_from_slice(&mad[8..16]);
                Event::SendFailed { port, tid: tid_low(u64::from_be_bytes(tid)) }
            });
        }
    }
    Ok(())
}

impl Transport for Ibsim {
    fn resolve(&mut self, selector: &PortSelector) -> Result<PortName, i32> {
        if selector.name() != DEVICE || selector.port != 1 {
            return Err(-libc::ENODEV);
        }
        Ok(PortName { device: DEVICE.into(), number: 1, guid: Guid::ZERO })
    }

    fn open(&mut self, port: PortId, _name: &PortName) {
        if let Err(error) = self.try_open(port) {
            let reason = format!("ibsim at {}: {error}", self.node);
            self.sink.report(Event::PortFailed { port, status: -libc::ENODEV, reason });
        }
    }

    fn close(&mut self, port: PortId) {
        if let Some(open) = self.open.remove(&port) {
            open.ends.store(true, Ordering::Relaxed);
            // It looks at the flag every few milliseconds; a node has room for one such client.
            let _ = open.thread.join();
        }
    }

    fn send(&mut self, port: PortId, to: Address, mad: &[u8; 256], _answer_within: u32) {
        if let Some(open) = self.open.get(&port) {
            // What is lost here is lost as on a wire: the engine asks again.
            let _ = open.client.send(to.lid, to.qpn, mad);
        }
    }
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        for port in self.open.keys().copied().collect::<Vec<_>>() {
            self.close(port);
        }
    }
}
