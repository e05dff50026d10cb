//! Channels.
//!
//! `channel->fd` is an epoll descriptor that lives as long as the channel. In it are the connection to the daemon, which
//! may be replaced; an eventfd that is readable while events wait in the queue (a free takes one registration's out of
//! the middle, so that the connection alone cannot say it); and the timer of the next attempt to reconnect, or to ask
//! again for what was refused.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering::*};

use crate::abi::c_int;
use crate::boundary::set_errno;
use crate::sa::connection::{self, Link};
use crate::sa::process::{self, Kind, Tables};
use crate::sa::table::{Found, NONE};
use crate::sa::types::ibv_sa_event_channel;
use crate::sa::wait::{self, Open, Step};
use crate::sa::{contained, event, id, sys};
use crate::{clock, settings, tell};

#[repr(C)]
pub(crate) struct Channel {
    /// What the program sees, and may write to; not read by us.
    c: ibv_sa_event_channel,
    pub(crate) fd: RawFd,
    pub(crate) wake: RawFd,
    pub(crate) timer: RawFd,
    pub(crate) link: Link,
    /// The timer is set.
    pub(crate) timed: bool,
    /// Milliseconds between two attempts to reconnect, doubled with each; 0 before the first.
    pub(crate) backoff: u32,
    /// It is being destroyed.
    pub(crate) closing: bool,
    /// Its registrations, newest first.
    pub(crate) first_id: u32,
    /// Events that nobody has got.
    pub(crate) first_event: u32,
    pub(crate) last_event: u32,
    /// The eventfd says that there are some.
    pub(crate) shown: bool,
    /// A get is looking for one, and shows what it leaves.
    pub(crate) getting: bool,
    /// Events that were got and are not acknowledged.
    pub(crate) open: u32,
    pub(crate) readers: Readers,
    /// Counts what a destroy waits for.
    pub(crate) changes: AtomicU32,
}

impl Channel {
    /// Brings the eventfd in line with the queue.
    pub(crate) fn show(&mut self) {
        let any = self.first_event != NONE;
        if self.closing || std::mem::replace(&mut self.shown, any) == any {
            return;
        }
        if any { sys::raise(self.wake) } else { _ = sys::lower(self.wake) }
    }

    /// Makes the descriptor readable after so many milliseconds; 0: not any more.
    pub(crate) fn wake_in(&mut self, milliseconds: u32) {
        self.timed = milliseconds != 0;
        sys::set_timer(self.timer, milliseconds);
    }
}

/// Threads that wait in a get, or were cancelled there or jumped out.
pub(crate) struct Readers {
    tids: [u32; 32],
    /// How many more there are.
    nameless: u32,
}

/// How a thread that waits is kept, as its own frame remembers it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// It does not wait.
    Not,
    /// By its number.
    Named,
    /// There was no room for its number.
    Nameless,
}

impl Readers {
    const fn new() -> Self {
        Self { tids: [0; 32], nameless: 0 }
    }

    pub(crate) fn add(&mut self, tid: u32) -> Reader {
        match self.tids.iter_mut().find(|place| **place == 0) {
            Some(place) => {
                *place = tid;
                Reader::Named
            }
            None => {
                self.nameless += 1;
                Reader::Nameless
            }
        }
    }

    /// It waits no more. A thread that has jumped out of an earlier wait may be here by its number too.
    pub(crate) fn remove(&mut self, tid: u32, reader: Reader) {
        if reader == Reader::Nameless {
            self.nameless -= 1;
        }
        if let Some(place) = self.tids.iter_mut().find(|place| **place == tid) {
            *place = 0;
        }
    }

    fn any(&mut self) -> bool {
        for place in self.tids.iter_mut().filter(|place| **place != 0) {
            if tell::has_ended(*place) {
                *place = 0;
            }
        }
        self.nameless != 0 || self.tids.iter().any(|place| *place != 0)
    }
}

pub(crate) fn find(tables: &Tables, address: usize) -> Found {
    tables.channels.find(address)
}

/// Makes a channel and connects it with the daemon, for which it waits up to 5 s.
///
/// Needs a running daemon (`ibv-sa daemon`) at the socket: see `IBV_SA_SOCKET` in ibv_sa(7).
///
/// Returns the channel, to be given back with ibv_sa_destroy_event_channel(), or NULL with errno:
/// ENOENT, ECONNREFUSED: no daemon (one line on stderr says how to start it);
/// EACCES: the socket may not be used, or belongs to another user who is not root;
/// or the daemon's policy has nothing for this user, see ibv-sa-policy(5);
/// ETIMEDOUT: the daemon does not answer; EPROTO, EPROTONOSUPPORT: it is none, or of another version;
/// EBUSY: it has too many clients of this user, or is ending; ECONNRESET: it has ended without a word;
/// EMFILE, ENFILE: no descriptors; ENOMEM: no memory.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn ibv_sa_create_event_channel() -> *mut ibv_sa_event_channel {
    create()
}

#[inline(never)]
extern "C" fn create() -> *mut ibv_sa_event_channel {
    contained(made).unwrap_or_else(|error| {
        set_errno(error);
        std::ptr::null_mut()
    })
}

fn made() -> Result<*mut ibv_sa_event_channel, c_int> {
    settings::get();
    let process = process::get()?;
    let connection = connection::greeted(process)?;
    let (fd, wake, timer) = (sys::epoll()?, sys::eventfd()?, sys::timer()?);
    for member in [&connection, &wake, &timer] {
        sys::epoll_add(fd.as_raw_fd(), member.as_raw_fd())?;
    }
    process.locked(|tables| {
        if !tables.channels.reserve() {
            return Err(libc::ENOMEM);
        }
        let raw = OwnedFd::into_raw_fd;
        let fd = raw(fd);
        let channel = Channel {
            c: ibv_sa_event_channel { fd },
            fd,
            wake: raw(wake),
            timer: raw(timer),
            link: Link::open(raw(connection)),
            timed: false,
            backoff: 0,
            closing: false,
            first_id: NONE,
            first_event: NONE,
            last_event: NONE,
            shown: false,
            getting: false,
            open: 0,
            readers: Readers::new(),
            changes: AtomicU32::new(0),
        };
        let index = tables.channels.insert(channel).ok_or(libc::ENOMEM)?;
        Ok(tables.channels.address(index))
    })
}

/// Destroys a channel and all its registrations. NULL and what is no channel is left alone.
///
/// Waits until every event that was got from it is acknowledged; after IBV_SA_HANG_SECS a line on stderr says whose
/// event it waits for. A thread that waits in ibv_sa_get_event() comes back with EBADF. Events that nobody got are
/// dropped. Needs no daemon. Not a cancellation point.
///
/// @param channel  from ibv_sa_create_event_channel()
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_destroy_event_channel(channel: *mut ibv_sa_event_channel) {
    let mut waits = wait::Waits::begin();
    loop {
        let step = destroy_step(channel.addr(), &mut waits);
        // SAFETY: the word lies in a cell, which is never unmapped.
        if !unsafe { step.wait() } {
            return;
        }
    }
}

#[inline(never)]
extern "C" fn destroy_step(channel: usize, waits: &mut wait::Waits) -> Step {
    contained(|| {
        process::with(Kind::Channel, channel, find, |_, tables, index| {
            begin_to_close(tables, index);
            let me = clock::tid();
            let channel = tables.channels.get_mut(index);
            channel.readers.remove(me, Reader::Not);
            let readers = channel.readers.any();
            let seen = channel.changes.load(SeqCst);
            if channel.open != 0 {
                let open = Open::of(tables, &|event| event.channel == index);
                let what = format!("channel fd {}", tables.channels.get(index).fd);
                let word = &tables.channels.get(index).changes;
                return Ok(waits.on(word, seen, "ibv_sa_destroy_event_channel", &what, &open));
            }
            if readers && waits.for_readers() {
                return Ok(Step::on(&channel.changes, seen, clock::now() + 20_000_000));
            }
            close(tables, index, readers);
            Ok(Step::DONE)
        })
    })
    .unwrap_or(Step::DONE)
}

/// From now on there are no new events and no new registrations.
fn begin_to_close(tables: &mut Tables, index: u32) {
    let channel = tables.channels.get_mut(index);
    if std::mem::replace(&mut channel.closing, true) {
        return;
    }
    // Readable for good: all who wait come back.
    sys::raise(channel.wake);
    connection::close(channel);
    event::drop_queued(tables, index, &|_| true);
}

/// Nothing is open any more. `readers`: somebody may be about to wait for the descriptor.
fn close(tables: &mut Tables, index: u32, readers: bool) {
    id::forget_all(tables, index);
    let channel = tables.channels.get_mut(index);
    // SAFETY: the descriptors are the channel's own.
    unsafe {
        if readers {
            // Whoever had read the number and was not yet in the wait must find something readable there, not
            // whatever gets the number next: it stays taken.
            libc::dup3(channel.wake, channel.fd, libc::O_CLOEXEC);
        } else {
            libc::close(channel.fd);
        }
        libc::close(channel.wake);
        libc::close(channel.timer);
    }
    tables.channels.remove(index);
}

/// Takes one of a channel's registrations out of its list.
pub(crate) fn unlist(tables: &mut Tables, id: u32) {
    let (channel, next, previous) = {
        let id = tables.ids.get(id);
        (id.channel, id.next, id.previous)
    };
    match previous {
        NONE => tables.channels.get_mut(channel).first_id = next,
        previous => tables.ids.get_mut(previous).next = next,
    }
    if next != NONE {
        tables.ids.get_mut(next).previous = previous;
    }
}

/// What an ack changes.
pub(crate) fn acked(tables: &mut Tables, index: u32) {
    let channel = tables.channels.get_mut(index);
    channel.open -= 1;
    channel.changes.fetch_add(1, SeqCst);
    if channel.closing {
        wait::wake(&channel.changes);
    }
}
