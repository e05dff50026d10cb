//! Registrations, and their end.

use std::sync::atomic::{AtomicU32, Ordering::*};

use ibv_sa_wire::Trap;
use ibv_sa_wire::mad::Subscription;
use ibv_sa_wire::proto::Register;

use crate::abi::{c_int, c_void};
use crate::sa::process::{self, Kind, Tables};
use crate::sa::table::{Found, NONE};
use crate::sa::types::ibv_sa_id;
use crate::sa::wait::{Open, Step, Waits};
use crate::sa::{channel, connection, contained, event, text};

/// How far a registration is, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The daemon has to be asked.
    ToAsk,
    /// It knows the registration and can do nothing for it: it has to forget it before it can be asked again.
    ToRenew,
    /// It has refused what may be possible later, and is asked again then.
    Later,
    /// It was, and has not answered.
    Asked,
    /// It knows the registration, active or not.
    Known,
    /// It has to be told that the registration is freed.
    ToEnd,
    /// It knows no such registration, and is not asked.
    Lost,
}

#[repr(C)]
pub(crate) struct Id {
    /// What the daemon is asked for. Its number has the cell's index in the low 24 bits.
    pub(crate) register: Register,
    pub(crate) channel: u32,
    pub(crate) context: *mut c_void,
    pub(crate) stage: Stage,
    /// What the program was told last.
    pub(crate) told: Option<c_int>,
    /// It is being freed.
    pub(crate) leaving: bool,
    /// It was freed; the daemon has yet to hear of it.
    pub(crate) gone: bool,
    /// Its events that were got and are not acknowledged.
    pub(crate) open: u32,
    /// Counts what a free waits for.
    pub(crate) changes: AtomicU32,
    /// In the channel's list.
    pub(crate) next: u32,
    pub(crate) previous: u32,
}

impl Id {
    /// Asked for again after a loss.
    pub(crate) fn wants_more(&self) -> bool {
        self.register.flags & Register::AUTO_REREGISTER != 0
    }

    /// Whether it is asked for again although the daemon has refused it: places become free, and a device that was
    /// there comes back when its driver is loaded again.
    pub(crate) fn outlives(&self, refusal: c_int) -> bool {
        self.wants_more() && (refusal == -libc::EBUSY || refusal == -libc::ENODEV && self.told.is_some())
    }

    /// The registration as an SA would see it.
    pub(crate) fn subscription(&self) -> Subscription {
        let filter = &self.register.filter;
        let coarse = filter.subscriptions().into_iter().next().unwrap_or(Subscription::ALL_GENERIC);
        let lids = filter.lids;
        Subscription {
            gid: filter.gid.unwrap_or(coarse.gid),
            lid_begin: lids.map_or(coarse.lid_begin, |lids| lids.begin),
            lid_end: lids.map_or(coarse.lid_end, |lids| lids.end),
            kind: filter.kind.unwrap_or(coarse.kind),
            producer: filter.producer.unwrap_or(coarse.producer),
            ..coarse
        }
    }

    /// As a person would call it.
    fn name(&self) -> String {
        let port = self.register.port;
        match self.register.filter.trap {
            Some(trap) => format!("trap {trap} {} at {port}", text::of_trap(Trap(trap))),
            None => format!("all traps at {port}"),
        }
    }
}

pub(crate) fn find(tables: &Tables, address: usize) -> Found {
    match tables.ids.find(address) {
        Found::Used(index) if tables.ids.get(index).gone => Found::Free,
        other => other,
    }
}

/// Ends a registration.
///
/// Returns when every event of it that was got is acknowledged; after IBV_SA_HANG_SECS a line on stderr says whose
/// event it waits for. Its events that nobody got are dropped. No event of it comes afterwards, and the SA is asked to
/// end the subscription when no other program shares it. Works without the daemon. Not a cancellation point, and not
/// interrupted by signals.
///
/// @param id  from ibv_sa_register_inform_info() or ibv_sa_register_inform_info_ex()
///
/// Returns 0, or -1 with errno EINVAL: no registration, or freed before; EBADF: made before fork(2), by the parent.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_free_id(id: *mut ibv_sa_id) -> c_int {
    let mut waits = Waits::begin();
    loop {
        let step = free_step(id.addr(), &mut waits);
        // SAFETY: the word lies in a cell, which is never unmapped.
        if !unsafe { step.wait() } {
            return step.result();
        }
    }
}

#[inline(never)]
extern "C" fn free_step(address: usize, waits: &mut Waits) -> Step {
    let step = contained(|| {
        process::with(Kind::Id, address, find, |_, tables, index| {
            begin_to_leave(tables, index);
            let id = tables.ids.get(index);
            let seen = id.changes.load(SeqCst);
            if id.open != 0 {
                let open = Open::of(tables, &|event| event.id == index);
                return Ok(waits.on(&id.changes, seen, "ibv_sa_free_id", &id.name(), &open));
            }
            let id = tables.ids.get_mut(index);
            id.gone = true;
            if id.stage == Stage::Lost {
                ended(tables, index);
            }
            Ok(Step::DONE)
        })
    });
    step.unwrap_or_else(Step::failed)
}

/// From now on there are no new events.
fn begin_to_leave(tables: &mut Tables, index: u32) {
    let id = tables.ids.get_mut(index);
    if std::mem::replace(&mut id.leaving, true) {
        return;
    }
    let channel = id.channel;
    id.stage = match id.stage {
        Stage::Asked | Stage::Known | Stage::ToRenew | Stage::ToEnd
            if tables.channels.get(channel).link.is_up() =>
        {
            Stage::ToEnd
        }
        _ => Stage::Lost,
    };
    event::drop_queued(tables, channel, &|event| event.id == index);
    connection::flush(tables, channel);
}

/// Those that were refused are asked for again.
pub(crate) fn ask_again(tables: &mut Tables, channel: u32) {
    let mut next = tables.channels.get(channel).first_id;
    while next != NONE {
        let id = tables.ids.get_mut(next);
        next = id.next;
        if id.stage == Stage::Later {
            id.stage = Stage::ToAsk;
        }
    }
}

/// The daemon knows nothing of it any more.
pub(crate) fn ended(tables: &mut Tables, index: u32) {
    let id = tables.ids.get_mut(index);
    id.stage = Stage::Lost;
    if id.gone {
        channel::unlist(tables, index);
        tables.ids.remove(index);
    }
}

/// All registrations of a channel that is being destroyed.
pub(crate) fn forget_all(tables: &mut Tables, channel: u32) {
    let mut next = tables.channels.get(channel).first_id;
    while next != NONE {
        let id = tables.ids.get(next);
        let current = next;
        next = id.next;
        crate::sa::wait::wake(&id.changes);
        tables.ids.remove(current);
    }
}
