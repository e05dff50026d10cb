//! Waiting for an event: the one place where a thread may be cancelled.

use crate::abi::c_int;
use crate::boundary::set_errno;
use crate::clock;
use crate::sa::channel::{Reader, find};
use crate::sa::process::{self, Kind, Process, Tables};
use crate::sa::table::NONE;
use crate::sa::types::{ibv_sa_event, ibv_sa_event_channel};
use crate::sa::{connection, contained, event, receive, sys};

/// What a look at the queue has found.
#[repr(C)]
struct Look {
    event: *mut ibv_sa_event,
    /// To wait at; -1: it failed with this errno.
    fd: c_int,
    errno: c_int,
}

/// Gets the next event of a channel.
///
/// Waits until there is one, unless channel->fd has O_NONBLOCK (fcntl(2), F_SETFL), which is looked at in each call.
/// channel->fd becomes readable (poll(2), select(2), epoll(7) in both modes) when there may be an event; it may turn out
/// that there is none. Several threads may get events of one channel; each event goes to one of them. A cancellation
/// point; a signal whose handler ran interrupts the wait, with SA_RESTART too.
///
/// @param channel  from ibv_sa_create_event_channel()
/// @param event    where its address goes; it is valid, and what attr points at, until ibv_sa_ack_event()
///
/// Returns 0, or -1 with errno:
/// EAGAIN: none there, and the descriptor has O_NONBLOCK; EINTR: a signal was handled;
/// EBADF: the channel was destroyed, or is the parent's; EINVAL: NULL or no channel; ENOMEM: no memory.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_get_event(
    channel: *mut ibv_sa_event_channel,
    event: *mut *mut ibv_sa_event,
) -> c_int {
    if event.is_null() {
        set_errno(libc::EINVAL);
        return -1;
    }
    let mut reader = Reader::Not;
    loop {
        let look = look(channel.addr(), &mut reader);
        if !look.event.is_null() {
            // SAFETY: the caller passes a place for the address.
            unsafe { *event = look.event };
            return 0;
        }
        if look.fd < 0 {
            set_errno(look.errno);
            return -1;
        }
        let mut ready = sys::PollFd { fd: look.fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid structure. The thread may be cancelled in here; nothing of ours is held.
        if unsafe { sys::poll_until_cancelled(&mut ready, 1, -1) } < 0 {
            return interrupted(channel.addr(), reader);
        }
    }
}

#[inline(never)]
extern "C" fn look(address: usize, reader: &mut Reader) -> Look {
    let found = contained(|| {
        process::with(Kind::Channel, address, find, |process, tables, index| {
            let me = clock::tid();
            let channel = tables.channels.get_mut(index);
            channel.readers.remove(me, std::mem::replace(reader, Reader::Not));
            if channel.closing {
                return Err(libc::EBADF);
            }
            // Most often one is read and taken in one: then no other thread need be woken, nor the eventfd touched.
            channel.getting = true;
            let taken = next(process, tables, index);
            let channel = tables.channels.get_mut(index);
            channel.getting = false;
            channel.show();
            let Some(taken) = taken? else {
                if sys::flags(channel.fd)? & libc::O_NONBLOCK != 0 {
                    return Err(libc::EAGAIN);
                }
                *reader = channel.readers.add(me);
                return Ok(Look { event: std::ptr::null_mut(), fd: channel.fd, errno: 0 });
            };
            channel.open += 1;
            let event = tables.events.get_mut(taken);
            event.got = true;
            event.by = clock::me();
            event.at = clock::now();
            let id = event.id;
            tables.ids.get_mut(id).open += 1;
            Ok(Look { event: tables.events.address(taken), fd: -1, errno: 0 })
        })
    });
    found.unwrap_or_else(|errno| Look { event: std::ptr::null_mut(), fd: -1, errno })
}

/// The next event, from the queue or else from the daemon.
fn next(process: &'static Process, tables: &mut Tables, index: u32) -> Result<Option<u32>, c_int> {
    if tables.channels.get(index).first_event == NONE {
        connection::reconnect(process, tables, index);
        if tables.channels.get(index).link.full {
            connection::flush(tables, index);
        }
        receive::until_event(tables, index)?;
    }
    Ok(event::take(tables, index))
}

/// The wait has failed: this thread waits no more. -1 with errno as it is.
#[inline(never)]
extern "C" fn interrupted(address: usize, reader: Reader) -> c_int {
    let _ = contained(|| {
        process::with(Kind::Channel, address, find, |_, tables, index| {
            tables.channels.get_mut(index).readers.remove(clock::tid(), reader);
            Ok(())
        })
    });
    -1
}
