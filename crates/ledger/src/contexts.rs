//! Contexts in the books.

use crate::context::{Context, Sign};
use crate::object::Home;
use crate::sync::*;
use crate::table::{ALIVE, DEAD, Entry, FOREIGN};
use crate::{Ledger, NO_DEVICE};

/// What people know a context by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextName {
    /// Contexts are counted from 1 in the order in which they were met; 0: not in the books.
    pub id: u32,
    /// Its device, if it has a name.
    pub device: Option<String>,
}

/// A close between its two ends.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Closing {
    place: u32,
    generation: u32,
}

impl Ledger {
    /// A context that the program got from an open or import call, which began at that time.
    pub fn context_opened(&self, context: usize, device: &[u8], began: u64) {
        let place = self.contexts.find(context);
        // A provider may call exported functions on a context while it opens it (bnxt_re queries the device).
        if let Some(place) = place
            && self.contexts.at(place).head().state() == FOREIGN
            && self.contexts.at(place).seen_at.load(Relaxed) >= began
        {
            let early = self.contexts.at(place);
            let device = early.device.load(Relaxed);
            if early.head().turn(early.head().generation(), FOREIGN, ALIVE) {
                let device = &self.devices[device as usize];
                device.adopted.fetch_sub(1, Relaxed);
                device.opened.fetch_add(1, Relaxed);
                return;
            }
        }
        let device = self.device_named(device);
        self.remember_context(context, device, ALIVE, began);
        self.devices[device as usize].opened.fetch_add(1, Relaxed);
    }

    /// A context met for the first time in another call. True if it is in the books from now on.
    pub fn context_adopted(&self, context: usize, device: &[u8], at: u64) -> bool {
        if self.knows_context(context) {
            return false;
        }
        let device = self.device_named(device);
        let kept = self.remember_context(context, device, FOREIGN, at);
        // Where there is no room, the same context comes here again and again: only the lack is counted.
        if kept {
            self.devices[device as usize].adopted.fetch_add(1, Relaxed);
        }
        kept
    }

    /// The descriptor of a context's asynchronous events.
    pub fn async_fd_is(&self, context: usize, fd: i32) {
        if let Some(entry) = self.context(context) {
            entry.fd.store(fd as u32, Relaxed);
        }
    }

    /// That descriptor, or -1: for those who cannot know whether the context is open still.
    pub fn async_fd(&self, context: usize) -> i32 {
        self.context(context).map_or(-1, |entry| entry.fd.load(Relaxed) as i32)
    }

    /// Whether a context is in the books.
    pub fn knows_context(&self, context: usize) -> bool {
        self.open_context(context).is_some()
    }

    /// Whether all its objects and events are seen from their birth.
    pub(crate) fn is_foreign(context: &Context) -> bool {
        context.head().state() != ALIVE
    }

    fn open_context(&self, context: usize) -> Option<(u32, &Context)> {
        let place = self.contexts.find(context)?;
        let entry = self.contexts.at(place);
        matches!(entry.head().state(), ALIVE | FOREIGN).then_some((place as u32, entry))
    }

    pub(crate) fn context(&self, context: usize) -> Option<&Context> {
        self.open_context(context).map(|(_, entry)| entry)
    }

    /// Where the objects of a context belong.
    pub(crate) fn home(&self, context: usize) -> Home {
        match self.open_context(context) {
            Some((place, entry)) => Home {
                context: place + 1,
                context_generation: entry.head().generation(),
                device: entry.device.load(Relaxed),
            },
            None => Home { context: 0, context_generation: 0, device: NO_DEVICE },
        }
    }

    /// The context of an object, unless its place serves another one by now.
    pub(crate) fn context_of(&self, home: Home) -> Option<&Context> {
        let entry = self.contexts.at(home.context.checked_sub(1)? as usize);
        (entry.head().generation() == home.context_generation).then_some(entry)
    }

    fn remember_context(&self, context: usize, device: u32, state: u32, at: u64) -> bool {
        let id = self.contexts_met.fetch_add(1, Relaxed) + 1;
        let evict = |old: &Context| {
            old.tally.move_into(&self.devices[old.device.load(Relaxed) as usize].tally);
        };
        let fill = |entry: &Context| entry.reset(device, id, at);
        let kept = match self.contexts.find(context) {
            // Closed before, or closed around us: the new one takes its place.
            Some(place) => {
                let old = self.contexts.at(place);
                self.bury_objects_of(place as u32, old.head().generation());
                self.bury_qps_of(place as u32, old.head().generation());
                self.contexts.succeed((place, context), state, evict, fill)
            }
            None => self.contexts.insert(context, state, evict, fill).is_some(),
        };
        if !kept || device == NO_DEVICE {
            self.crowded_out.fetch_add(1, Relaxed);
        }
        kept
    }

    /// The context is about to be closed.
    pub fn context_closing(&self, context: usize) -> Closing {
        match self.open_context(context) {
            Some((place, entry)) => {
                entry.closing.store(1, Relaxed);
                Closing { place: place + 1, generation: entry.head().generation() }
            }
            None => Closing::default(),
        }
    }

    /// The close returned. If it succeeded, its objects are gone with it; otherwise the context is still there.
    pub fn context_close_ended(&self, closing: Closing, closed: bool) {
        if !closed {
            if let Some(place) = closing.place.checked_sub(1) {
                self.contexts.at(place as usize).closing.store(0, Relaxed);
            }
            return;
        }
        let device = match closing.place.checked_sub(1) {
            Some(place) => {
                let entry = self.contexts.at(place as usize);
                let device = entry.device.load(Relaxed);
                self.bury_objects_of(place, closing.generation);
                self.bury_qps_of(place, closing.generation);
                self.contexts.bury(place as usize, closing.generation);
                device
            }
            None => NO_DEVICE,
        };
        self.devices[device as usize].closed.fetch_add(1, Relaxed);
    }

    fn bury_objects_of(&self, place: u32, generation: u32) {
        for (at, object) in self.objects.entries_with_place() {
            let home = object.home();
            if home.context == place + 1 && home.context_generation == generation {
                self.bury_object(at, object.head().generation());
            }
        }
    }

    pub(crate) fn device_named(&self, name: &[u8]) -> u32 {
        self.devices[..NO_DEVICE as usize]
            .iter()
            .position(|device| device.name.is_or_becomes(name))
            .map_or(NO_DEVICE, |place| place as u32)
    }

    /// What people know it by.
    pub fn context_name(&self, context: usize) -> ContextName {
        match self.open_context(context) {
            Some((_, entry)) => self.name_of(entry),
            None => ContextName::default(),
        }
    }

    pub(crate) fn name_of(&self, entry: &Context) -> ContextName {
        ContextName {
            id: entry.id.load(Relaxed),
            device: self.devices[entry.device.load(Relaxed) as usize].name.get(),
        }
    }

    /// Notes a sign that the device has failed or is gone. True if it is the first of its kind.
    pub fn removal_sign(&self, context: usize, sign: Sign) -> bool {
        self.context(context).is_some_and(|entry| entry.closing.load(Relaxed) == 0 && entry.sign(sign))
    }

    /// The incident of the device's removal, if there is one; otherwise `incident` makes it.
    pub fn removal_told(&self, context: usize, incident: impl FnOnce() -> Option<u32>) -> Option<u32> {
        let entry = self.context(context)?;
        /// One thread is telling it, or there was no room to keep it.
        const TELLING: u32 = u32::MAX;
        match entry.removal_told.compare_exchange(0, TELLING, AcqRel, Acquire) {
            Ok(_) => {
                if let Some(place) = incident() {
                    entry.removal_told.store(place + 1, Release);
                }
                None
            }
            Err(TELLING) => None,
            Err(place) => Some(place - 1),
        }
    }

    /// Somebody asks for an asynchronous event, and may wait for it.
    pub fn event_asked_for(&self, context: usize) {
        if let Some(entry) = self.context(context) {
            entry.asked.store(1, Relaxed);
        }
    }

    /// A read said that no event is queued.
    pub fn events_drained(&self, context: usize) {
        if let Some(entry) = self.context(context) {
            entry.got_until(0);
        }
    }

    /// Whether it is time to look whether events lie unread: the last read got one, and for `age` nanoseconds nothing was
    /// read, or nothing was read since they were found queued. Says the descriptor.
    #[inline]
    pub fn look_for_backlog(&self, context: usize, now: u64, age: u64) -> Option<i32> {
        let entry = self.context(context)?;
        let got = entry.last_got_at.load(Relaxed);
        let since = entry.queued_at.load(Relaxed).max(got);
        (got != 0 && now.saturating_sub(since) >= age).then(|| entry.fd.load(Relaxed) as i32)
    }

    /// That look found events queued or not. The second look in a row that finds some says since when: one alone may
    /// have found events that have just come.
    pub fn backlog_found(&self, context: usize, now: u64, queued: bool) -> Option<u64> {
        let entry = self.context(context)?;
        if !queued {
            entry.got_until(0);
            return None;
        }
        match entry.queued_at.load(Relaxed) {
            0 => {
                entry.queued_at.store(now, Relaxed);
                None
            }
            since => {
                entry.got_until(0);
                Some(since)
            }
        }
    }

    /// Addresses of the contexts that are open.
    pub fn open_contexts(&self) -> impl Iterator<Item = usize> {
        self.contexts
            .entries()
            .filter(|entry| entry.head().state() != DEAD)
            .map(|entry| entry.head().address())
    }
}
