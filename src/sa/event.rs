//! Events: queued, handed out (in [`crate::sa::get`]), acknowledged.

use std::sync::atomic::Ordering::SeqCst;

use ibv_sa_ledger::Thread;
use ibv_sa_wire::Notice;
use zerocopy::IntoBytes;

use crate::abi::{c_int, c_void};
use crate::sa::channel;
use crate::sa::process::{self, Kind, Tables};
use crate::sa::table::{Found, NONE};
use crate::sa::types::*;
use crate::sa::{answer, text, wait};

/// Room for the attribute, aligned as MAD attributes are (the attribute offset counts in eights, IBA 13.6.2).
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Attribute([u8; Notice::SIZE]);

#[repr(C)]
pub(crate) struct Event {
    /// What the program sees, and may write to; not read by us.
    c: ibv_sa_event,
    attribute: Attribute,
    /// The same as in `c`.
    attr_id: __be16,
    status: c_int,
    pub(crate) id: u32,
    pub(crate) channel: u32,
    /// Handed out.
    pub(crate) got: bool,
    /// Who got it, and when.
    pub(crate) by: Thread,
    pub(crate) at: u64,
    /// The next in the queue.
    pub(crate) next: u32,
}

impl Event {
    /// What it says, in words.
    pub(crate) fn text(&self) -> &'static str {
        text::of_parts(self.attr_id, self.status, &self.attribute.0)
    }
}

pub(crate) fn find(tables: &Tables, address: usize) -> Found {
    tables.events.find(address)
}

/// Gives an event back, after which neither it nor what attr points at may be used.
///
/// From any thread, in any order, each event once.
///
/// @param event  from ibv_sa_get_event()
///
/// Returns 0, or -1 with errno EINVAL: no event, or acknowledged before (nothing happens); EBADF: the event was
/// got before fork(2), by the parent.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_ack_event(event: *mut ibv_sa_event) -> c_int {
    ack(event.addr())
}

#[inline(never)]
extern "C" fn ack(address: usize) -> c_int {
    answer(|| {
        process::with(Kind::Event, address, find, |_, tables, index| {
            let event = tables.events.get(index);
            if !event.got {
                return Err(libc::EINVAL);
            }
            let (id, of) = (event.id, event.channel);
            tables.events.remove(index);
            let id = tables.ids.get_mut(id);
            id.open -= 1;
            id.changes.fetch_add(1, SeqCst);
            if id.leaving {
                wait::wake(&id.changes);
            }
            channel::acked(tables, of);
            Ok(())
        })
    })
}

/// What became of a registration; not twice the same.
pub(crate) fn told(tables: &mut Tables, id: u32, status: c_int) {
    let of = tables.ids.get_mut(id);
    if of.told.replace(status) == Some(status) {
        return;
    }
    let info = of.subscription().inform_info(true, 0);
    queue(tables, id, ATTR_INFORM_INFO, status, 1, Some(info.as_bytes()));
}

/// A notice for a registration.
pub(crate) fn noticed(tables: &mut Tables, id: u32, notice: &Notice) {
    queue(tables, id, ATTR_NOTICE, 0, 1, Some(notice.as_bytes()));
}

/// The daemon had to drop notices for a registration.
pub(crate) fn overflowed(tables: &mut Tables, id: u32, lost: u64) {
    let lost = c_int::try_from(lost).unwrap_or(c_int::MAX);
    queue(tables, id, ATTR_NOTICE, -libc::EOVERFLOW, lost, None);
}

fn queue(
    tables: &mut Tables,
    id: u32,
    attr_id: __be16,
    status: c_int,
    attr_count: c_int,
    attribute: Option<&[u8]>,
) {
    let of = tables.ids.get(id);
    let (channel, context) = (of.channel, of.context);
    let size = attribute.map_or(0, <[u8]>::len);
    let mut room = Attribute([0; Notice::SIZE]);
    if let (Some(from), Some(to)) = (attribute, room.0.get_mut(..size)) {
        to.copy_from_slice(from);
    }
    let event = Event {
        c: ibv_sa_event {
            context,
            status,
            attr_count,
            attr_size: size as c_int,
            attr_offset: size.next_multiple_of(8) as c_int,
            attr_id,
            attr: std::ptr::null_mut(),
        },
        attribute: room,
        attr_id,
        status,
        id,
        channel,
        got: false,
        by: Thread::default(),
        at: 0,
        next: NONE,
    };
    let Some(index) = tables.events.insert(event) else {
        // Only where many registrations are lost at once; each read has its place reserved.
        return crate::sa::connection::say("no memory for an SA event: it is lost");
    };
    if attribute.is_some() {
        let place: *mut Event = tables.events.address(index);
        // SAFETY: the address of a member of a live cell.
        let attr: *mut c_void = unsafe { (&raw mut (*place).attribute).cast() };
        tables.events.get_mut(index).c.attr = attr;
    }
    let of = tables.channels.get_mut(channel);
    let last = std::mem::replace(&mut of.last_event, index);
    if last == NONE {
        of.first_event = index;
        if !of.getting {
            of.show();
        }
    } else {
        tables.events.get_mut(last).next = index;
    }
}

/// Takes the first event out of a channel's queue, for a get.
pub(crate) fn take(tables: &mut Tables, channel: u32) -> Option<u32> {
    let of = tables.channels.get_mut(channel);
    let index = of.first_event;
    if index == NONE {
        return None;
    }
    of.first_event = tables.events.get(index).next;
    if of.first_event == NONE {
        of.last_event = NONE;
    }
    Some(index)
}

/// Drops the queued events of a channel that `which` names.
#[inline(never)]
pub(crate) fn drop_queued(tables: &mut Tables, channel: u32, which: &dyn Fn(&Event) -> bool) {
    let (mut next, mut last) = (tables.channels.get(channel).first_event, NONE);
    while next != NONE {
        let current = next;
        let event = tables.events.get(current);
        next = event.next;
        if !which(event) {
            last = current;
            continue;
        }
        match last {
            NONE => tables.channels.get_mut(channel).first_event = next,
            last => tables.events.get_mut(last).next = next,
        }
        tables.events.remove(current);
    }
    let of = tables.channels.get_mut(channel);
    of.last_event = last;
    of.show();
}
