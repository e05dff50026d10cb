//! The channels, registrations and events of this process, and of no other.
//!
//! The pointer to them lies where fork wipes it ([`state`]): a child begins with none, and no lock is inherited held.
//! Its parent's are left behind in it; their addresses are still known, so that a child that uses one is told EBADF.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sa::channel::Channel;
use crate::sa::event::Event;
use crate::sa::id::Id;
use crate::sa::sys;
use crate::sa::table::{Found, Pool, Slabs};
use crate::state;

pub(crate) struct Process {
    channel_slabs: Slabs,
    id_slabs: Slabs,
    event_slabs: Slabs,
    /// The lock that is held for a moment only, see [`Process::locked`].
    tables: Mutex<Tables>,
    /// What this process has inherited from its parent by fork, and that from its own.
    inherited: *const Process,
    /// A missing daemon is spoken of once, until there was one.
    pub(crate) missed_aloud: AtomicBool,
}

// SAFETY: `inherited` points at a mapping that is never unmapped and of which only atomics are read.
unsafe impl Sync for Process {}

/// The lock is given back before signals are handled again.
struct Held {
    tables: MutexGuard<'static, Tables>,
    _quiet: sys::Quiet,
}

pub(crate) struct Tables {
    pub(crate) channels: Pool<Channel>,
    pub(crate) ids: Pool<Id>,
    pub(crate) events: Pool<Event>,
    /// Registrations made so far.
    pub(crate) made: u64,
}

/// What this memory was last used for, wiped or not.
static LAST: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

/// The tables of this process; made at first use. ENOMEM if there is no memory for them.
pub(crate) fn get() -> Result<&'static Process, libc::c_int> {
    let place = state::sa().ok_or(libc::ENOMEM)?;
    if let Some(process) = existing(place) {
        return Ok(process);
    }
    let fresh: *mut Process = state::map().ok_or(libc::ENOMEM)?;
    let inherited = LAST.load(Acquire).cast_const();
    // SAFETY: a fresh mapping of this size, seen by nobody yet.
    unsafe {
        fresh.write(Process {
            channel_slabs: Slabs::of::<Channel>(),
            id_slabs: Slabs::of::<Id>(),
            event_slabs: Slabs::of::<Event>(),
            tables: Mutex::new(Tables {
                channels: Pool::new(&raw const (*fresh).channel_slabs),
                ids: Pool::new(&raw const (*fresh).id_slabs),
                events: Pool::new(&raw const (*fresh).event_slabs),
                made: 0,
            }),
            inherited,
            missed_aloud: AtomicBool::new(false),
        })
    };
    state::publish(place, fresh);
    let process = existing(place).ok_or(libc::ENOMEM)?;
    LAST.store(std::ptr::from_ref(process).cast_mut(), Release);
    Ok(process)
}

fn existing(place: &AtomicPtr<Process>) -> Option<&'static Process> {
    // SAFETY: what `get` published is initialised and never unmapped.
    unsafe { place.load(Acquire).as_ref() }
}

/// The tables, if this process has any.
pub(crate) fn if_any() -> Option<&'static Process> {
    existing(state::sa()?)
}

/// Which of the tables an address is looked up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    Id,
    Event,
}

impl Process {
    /// Runs `work` on the tables. Short, without a wait: no signal is handled in this thread meanwhile.
    pub(crate) fn locked<R>(&'static self, work: impl FnOnce(&mut Tables) -> R) -> R {
        let mut held = self.hold();
        work(&mut held.tables)
    }

    #[inline(never)]
    fn hold(&'static self) -> Held {
        let quiet = sys::Quiet::new();
        Held { tables: self.tables.lock().unwrap_or_else(PoisonError::into_inner), _quiet: quiet }
    }

    fn slabs(&self, kind: Kind) -> &Slabs {
        match kind {
            Kind::Channel => &self.channel_slabs,
            Kind::Id => &self.id_slabs,
            Kind::Event => &self.event_slabs,
        }
    }
}

/// The errno for an address that is none of this process's in use: EBADF for the parent's, and for a channel that was
/// destroyed; else EINVAL.
pub(crate) fn errno_of(kind: Kind, address: usize, found: Found) -> libc::c_int {
    match found {
        Found::Free if kind == Kind::Channel => libc::EBADF,
        Found::Free => libc::EINVAL,
        _ if is_inherited(kind, address) => libc::EBADF,
        _ => libc::EINVAL,
    }
}

fn is_inherited(kind: Kind, address: usize) -> bool {
    let own = if_any().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut next = LAST.load(Acquire).cast_const();
    // SAFETY: each is a mapping that was initialised before it was published, and is never unmapped.
    while let Some(process) = unsafe { next.as_ref() } {
        if next != own && process.slabs(kind).index_of(address).is_some() {
            return true;
        }
        next = process.inherited;
    }
    false
}

/// Runs `work` on the tables and the cell that `address` must be.
pub(crate) fn with<R>(
    kind: Kind,
    address: usize,
    find: impl FnOnce(&Tables, usize) -> Found,
    work: impl FnOnce(&'static Process, &mut Tables, u32) -> Result<R, libc::c_int>,
) -> Result<R, libc::c_int> {
    let Some(process) = if_any() else { return Err(errno_of(kind, address, Found::Foreign)) };
    process.locked(|tables| match find(tables, address) {
        Found::Used(index) => work(process, tables, index),
        other => Err(errno_of(kind, address, other)),
    })
}
