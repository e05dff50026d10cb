//! The least that a daemon could do: one loop that sends each notice to each socket as often as it has registrations,
//! with the packet made beforehand. No books, no queues, no filters.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::proto::{MAX_PACKET, NoticeEvent, ServerMessage};
use ibv_sa_wire::{Gid, Trap};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::thread::gettid;

use crate::feed::{Load, TRAP};
use crate::host::cpu_time;
use crate::{Fault, Outcome};

/// Packets for one socket before the others have their turn, as in the daemon.
const TURN: usize = 64;
/// Where the numbers of registration and notice are in the packet.
const ID: usize = 8;
const SEQUENCE: usize = 16;
const REPORTS: u64 = u64::MAX;

struct Socket {
    fd: OwnedFd,
    /// Packets that are out.
    sent: usize,
    /// It takes no more for now.
    full: bool,
}

/// The loop in a thread.
pub struct Bare {
    reports: OwnedFd,
    /// The thread stays, with what it has used, as long as this does.
    stay: Sender<()>,
    thread: JoinHandle<Outcome<()>>,
    tid: i32,
}

impl Bare {
    /// Listens. The receiver hears when all readers have connected.
    pub fn start(path: &Path, load: Load) -> Outcome<(Bare, Receiver<()>)> {
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&listener, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&listener, 128)?;
        let reports = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let source = rustix::io::fcntl_dupfd_cloexec(&reports, 0)?;
        let (tell, told) = channel();
        let (ready, is_ready) = channel();
        let (stay, end) = channel();
        let thread = std::thread::Builder::new().name("bare".into()).spawn(move || {
            tell.send(gettid().as_raw_nonzero().get())?;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let accept = |_| -> Outcome<Socket> {
                Ok(Socket { fd: rustix::net::accept_with(&listener, flags)?, sent: 0, full: false })
            };
            let sockets = (0..load.clients).map(accept).collect::<Outcome<Vec<Socket>>>()?;
            ready.send(())?;
            run(&load, &source, sockets)?;
            let _ = end.recv();
            Ok(())
        })?;
        Ok((Bare { reports, stay, thread, tid: told.recv()? }, is_ready))
    }

    /// One more report.
    pub fn report(&self) -> Outcome<()> {
        rustix::io::write(&self.reports, &1u64.to_ne_bytes())?;
        Ok(())
    }

    /// What its thread has used so far, in nanoseconds.
    pub fn cpu_time(&self) -> Outcome<u64> {
        cpu_time(&format!("/proc/self/task/{}/schedstat", self.tid))
    }

    /// Waits for its end, which comes when all readers have gone.
    pub fn finish(self) -> Outcome<()> {
        drop(self.stay);
        self.thread.join().map_err(|_| Fault::from("the bare loop has panicked"))?
    }
}

fn run(load: &Load, source: &OwnedFd, mut sockets: Vec<Socket>) -> Outcome<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, source, EventData::new_u64(REPORTS), EventFlags::IN)?;
    for (number, socket) in (0..).zip(&sockets) {
        epoll::add(&epoll, &socket.fd, EventData::new_u64(number), EventFlags::IN)?;
    }
    let mut packet = packet();
    let (mut due, mut gone, mut more) = (0, 0, false);
    let mut events = Vec::with_capacity(256);
    while gone < sockets.len() {
        events.clear();
        let timeout = more.then(Default::default);
        epoll::wait(&epoll, spare_capacity(&mut events), timeout.as_ref())?;
        for event in &events {
            let (data, flags) = (event.data, event.flags);
            if data.u64() == REPORTS {
                let mut count = [0; 8];
                rustix::io::read(source, &mut count)?;
                due += usize::try_from(u64::from_ne_bytes(count))? * load.registrations;
                continue;
            }
            let Some(socket) = sockets.get_mut(usize::try_from(data.u64())?) else { continue };
            if flags.contains(EventFlags::HUP) {
                // A reader ends when it has all.
                epoll::delete(&epoll, &socket.fd)?;
                gone += 1;
            } else if flags.contains(EventFlags::OUT) {
                socket.full = false;
                epoll::modify(&epoll, &socket.fd, data, EventFlags::IN)?;
            }
        }
        more = false;
        for (number, socket) in (0..).zip(&mut sockets) {
            let end = due.min(socket.sent + TURN);
            while !socket.full && socket.sent < end {
                let (report, registration) =
                    (socket.sent / load.registrations, socket.sent % load.registrations);
                packet[ID..ID + 8].copy_from_slice(&(registration as u64 + 1).to_le_bytes());
                packet[SEQUENCE..SEQUENCE + 8].copy_from_slice(&(report as u64 + 1).to_le_bytes());
                match rustix::net::send(&socket.fd, &packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                    Ok(_) => socket.sent += 1,
                    Err(Errno::AGAIN) => {
                        socket.full = true;
                        epoll::modify(
                            &epoll,
                            &socket.fd,
                            EventData::new_u64(number),
                            EventFlags::IN | EventFlags::OUT,
                        )?;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            more |= !socket.full && socket.sent < due;
        }
    }
    Ok(())
}

/// As long as the daemon's, and read like them.
fn packet() -> Vec<u8> {
    let notice = Notice::about_gid(Trap(TRAP), Gid([2; 16]), 1, Gid([1; 16]));
    let message =
        ServerMessage::Notice(NoticeEvent { id: 1, sequence: 1, time_ns: 0, source_lid: 1, notice });
    let mut packet = [0; MAX_PACKET];
    let length = message.encode(&mut packet);
    packet[..length].to_vec()
}
