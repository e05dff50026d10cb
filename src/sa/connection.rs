//! The connection to the daemon: found, greeted, lost, found again.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::*;

use ibv_sa_wire::proto::{ClientMessage, Hello, MAX_PACKET, MAX_REQUEST, ServerMessage, Unregister};

use crate::abi::c_int;
use crate::sa::channel::Channel;
use crate::sa::id::{self, Stage};
use crate::sa::process::{Process, Tables};
use crate::sa::table::NONE;
use crate::sa::{event, receive, sys};
use crate::{clock, settings, state, stderr, tell};

/// Where the system's daemon listens.
const SOCKET: &[u8] = b"/run/ibv_sa/sa.sock";
/// And a user's own, below `XDG_RUNTIME_DIR`.
const OWN_SOCKET: &[u8] = b"/ibv_sa/sa.sock";

/// How long a new channel waits for the daemon, in milliseconds.
const PATIENCE: u64 = 5000;
/// Milliseconds before the first attempt to reconnect, and at most before another.
const FIRST_BACKOFF: u32 = 50;
const LONGEST_BACKOFF: u32 = 5000;

/// A channel's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The socket; -1 without a connection.
    pub(crate) fd: RawFd,
    /// The daemon has answered our Hello.
    pub(crate) welcome: bool,
    /// Something waits until the socket takes more.
    pub(crate) full: bool,
}

impl Link {
    pub(crate) const DOWN: Link = Link { fd: -1, welcome: false, full: false };

    pub(crate) fn open(fd: RawFd) -> Self {
        Link { fd, welcome: true, full: false }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.fd >= 0
    }
}

/// A connection whose daemon has said Welcome. Waits.
pub(crate) fn greeted(process: &Process) -> Result<OwnedFd, c_int> {
    let socket = connected(process)?;
    let end = clock::now() + PATIENCE * 1_000_000;
    let mut packet = [0; MAX_PACKET];
    loop {
        let left = end.saturating_sub(clock::now()).div_ceil(1_000_000);
        match sys::wait_readable(socket.as_raw_fd(), left as c_int) {
            Ok(true) => break,
            Ok(false) => return Err(libc::ETIMEDOUT),
            Err(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    let length = sys::receive(socket.as_raw_fd(), &mut packet)?;
    if length == 0 {
        return Err(libc::ECONNRESET);
    }
    match packet.get(..length).map(ServerMessage::decode) {
        Some(Ok(ServerMessage::Welcome(welcome))) if is_spoken(welcome.version) => Ok(socket),
        Some(Ok(ServerMessage::Refused(refused))) => {
            say(&format!("the daemon refuses this program: {}", refused.text()));
            Err(-why_refused(refused.status))
        }
        _ => {
            say("what listens at the daemon's socket speaks another protocol");
            Err(libc::EPROTO)
        }
    }
}

/// The status of a refusal, if it is one that a program can be told.
pub(crate) fn why_refused(status: c_int) -> c_int {
    // The kernel's largest errno.
    const LARGEST: c_int = 4095;
    if (-LARGEST..0).contains(&status) { status } else { -libc::EPROTO }
}

pub(crate) fn is_spoken(version: u16) -> bool {
    let hello = Hello::default();
    (hello.min_version..=hello.max_version).contains(&version)
}

/// A connection on which Hello was sent. Does not wait.
fn connected(process: &Process) -> Result<OwnedFd, c_int> {
    let mut result = Err(libc::ENOENT);
    let mut tried = String::new();
    for path in paths() {
        result = at(&path);
        let error = match &result {
            Ok(_) => break,
            Err(error) => *error,
        };
        // No way to it: nobody is there.
        if matches!(error, libc::ENOTDIR | libc::ELOOP | libc::ENAMETOOLONG) {
            result = Err(libc::ENOENT);
        }
        let text = String::from_utf8_lossy(&path).into_owned();
        let why = std::io::Error::from_raw_os_error(error);
        tried = if tried.is_empty() { format!("{text}: {why}") } else { format!("{tried}; {text}: {why}") };
        if !matches!(result, Err(libc::ENOENT | libc::ECONNREFUSED)) {
            break;
        }
    }
    match &result {
        Ok(_) => process.missed_aloud.store(false, Relaxed),
        Err(libc::ENOENT | libc::ECONNREFUSED) => {
            if !process.missed_aloud.swap(true, Relaxed) {
                say(&format!("no daemon for SA notices ({tried}); start one with `ibv-sa daemon`"));
            }
        }
        Err(_) => {}
    }
    result
}

/// Where the daemon may listen, in the order of trial.
fn paths() -> Vec<Vec<u8>> {
    let settings = settings::get();
    if let Some(path) = &settings.socket {
        return vec![path.to_bytes().to_vec()];
    }
    let mut paths = vec![SOCKET.to_vec()];
    if let Some(dir) = &settings.runtime_dir
        && dir.to_bytes().starts_with(b"/")
        && sys::is_private(dir)
    {
        paths.push([dir.to_bytes(), OWN_SOCKET].concat());
    }
    paths
}

fn at(path: &[u8]) -> Result<OwnedFd, c_int> {
    let socket = sys::seqpacket()?;
    match sys::connect(socket.as_raw_fd(), path) {
        Ok(()) => {}
        // The queue of a daemon that does not come to accept is full.
        Err(libc::EAGAIN) => return Err(libc::ETIMEDOUT),
        // Another kind of socket, or no socket.
        Err(libc::EPROTOTYPE | libc::ENOTSOCK) => return Err(libc::EPROTO),
        Err(error) => return Err(error),
    }
    let uid = sys::peer_uid(socket.as_raw_fd())?;
    // SAFETY: no preconditions.
    let me = unsafe { libc::geteuid() };
    if uid != 0 && uid != me {
        let path = String::from_utf8_lossy(path);
        say(&format!(
            "{path} is served by user {uid}, who is neither root nor this program's user: not used"
        ));
        return Err(libc::EACCES);
    }
    match send(socket.as_raw_fd(), &ClientMessage::Hello(Hello::default())) {
        // It has hung up already; why, is what there is to read.
        Ok(()) | Err(libc::EPIPE | libc::ECONNRESET) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn send(socket: RawFd, message: &ClientMessage) -> Result<(), c_int> {
    let mut packet = [0; MAX_REQUEST];
    let length = message.encode(&mut packet);
    sys::send(socket, &packet[..length])
}

/// A line, unless there were too many.
pub(crate) fn say(text: &str) {
    match state::ledger() {
        Some(ledger) => tell::line(ledger, text),
        None => stderr::say(text),
    }
}

/// Connects a channel that has lost its connection. The daemon's answer comes later.
pub(crate) fn connect(process: &Process, channel: &mut Channel) -> Result<(), c_int> {
    let socket = connected(process)?;
    sys::epoll_add(channel.fd, socket.as_raw_fd())?;
    channel.link = Link { fd: socket.into_raw_fd(), welcome: false, full: false };
    // A daemon that does not answer is no daemon.
    channel.wake_in(PATIENCE as u32);
    Ok(())
}

/// Closes the connection, if there is one.
pub(crate) fn close(channel: &mut Channel) {
    if channel.link.is_up() {
        // A child may hold a copy of the socket: closing ours would not take it out of the set.
        sys::epoll_remove(channel.fd, channel.link.fd);
        // SAFETY: the socket is the channel's own.
        unsafe { libc::close(channel.link.fd) };
        channel.link = Link::DOWN;
    }
}

/// Sends what the registrations of a channel have to say, as far as the socket takes it. A connection that has ended
/// is found out when it is read.
pub(crate) fn flush(tables: &mut Tables, index: u32) {
    let link = tables.channels.get(index).link;
    if !link.is_up() || !link.welcome {
        return;
    }
    let mut full = false;
    let mut next = tables.channels.get(index).first_id;
    while next != NONE && !full {
        let current = next;
        let id = tables.ids.get_mut(current);
        next = id.next;
        let message = match id.stage {
            Stage::ToAsk => ClientMessage::Register(id.register),
            Stage::ToEnd | Stage::ToRenew => ClientMessage::Unregister(Unregister { id: id.register.id }),
            Stage::Later | Stage::Asked | Stage::Known | Stage::Lost => continue,
        };
        match send(link.fd, &message) {
            Ok(()) if id.stage == Stage::ToEnd => id::ended(tables, current),
            Ok(()) if id.stage == Stage::ToRenew => {
                id.stage = Stage::Later;
                later(tables.channels.get_mut(index));
            }
            Ok(()) => id.stage = Stage::Asked,
            Err(libc::EAGAIN) => full = true,
            // The kernel is short of memory, not the socket of room: it would be called writable at once.
            Err(libc::ENOBUFS | libc::ENOMEM) => {
                tables.channels.get_mut(index).wake_in(FIRST_BACKOFF);
                break;
            }
            Err(_) => break,
        }
    }
    let channel = tables.channels.get_mut(index);
    if full != channel.link.full {
        channel.link.full = full;
        sys::epoll_writable(channel.fd, channel.link.fd, full);
    }
}

/// The connection is no more: each registration is told so, once, and asked for again if it wants to be.
pub(crate) fn lost(tables: &mut Tables, index: u32, status: c_int) {
    close(tables.channels.get_mut(index));
    let mut again = false;
    let mut next = tables.channels.get(index).first_id;
    while next != NONE {
        let current = next;
        let id = tables.ids.get_mut(current);
        next = id.next;
        if id.leaving {
            // The end of a connection ends its registrations.
            id::ended(tables, current);
            continue;
        }
        if id.stage == Stage::Lost {
            continue;
        }
        id.stage = if id.wants_more() { Stage::ToAsk } else { Stage::Lost };
        again |= id.wants_more();
        event::told(tables, current, status);
    }
    if again {
        set_timer(tables.channels.get_mut(index));
    }
}

fn set_timer(channel: &mut Channel) {
    channel.backoff = (channel.backoff * 2).clamp(FIRST_BACKOFF, LONGEST_BACKOFF);
    channel.wake_in(channel.backoff);
}

/// A registration was refused that is asked for again, after a while.
pub(crate) fn later(channel: &mut Channel) {
    if !channel.timed {
        channel.wake_in(LONGEST_BACKOFF);
    }
}

/// Looks whether it is time to reconnect, or to ask again, and does it.
pub(crate) fn reconnect(process: &Process, tables: &mut Tables, index: u32) {
    let channel = tables.channels.get_mut(index);
    if !channel.timed || !sys::lower(channel.timer) {
        return;
    }
    channel.timed = false;
    if channel.link.is_up() {
        if channel.link.welcome {
            id::ask_again(tables, index);
            flush(tables, index);
        } else if receive::until_event(tables, index).is_ok() {
            // Perhaps it had answered, and nobody had looked.
            let link = tables.channels.get(index).link;
            if link.is_up() && !link.welcome {
                lost(tables, index, -libc::ETIMEDOUT);
            }
        }
        return;
    }
    let mut wanted = false;
    let mut next = channel.first_id;
    while next != NONE {
        let id = tables.ids.get(next);
        wanted |= id.stage == Stage::ToAsk;
        next = id.next;
    }
    let channel = tables.channels.get_mut(index);
    if wanted && connect(process, channel).is_err() {
        set_timer(channel);
    }
}
