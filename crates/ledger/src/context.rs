//! An open context: its device, its reader, and whether the device is still there.

use crate::counts::Tally;
use crate::open::Named;
use crate::sync::*;
use crate::table::{Entry, Head};

/// A sign that a device has failed or was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Sign {
    /// `IBV_EVENT_DEVICE_FATAL` was read. The kernel may still know the device: destroys may still wait for acks.
    DeviceFatal,
    /// EIO from `ibv_get_async_event` or `ibv_get_cq_event`: nothing will come any more.
    GetFailed,
    /// EIO from a destroy: the kernel has cut the device off (it does not wait for acks then).
    DestroyFailed,
    /// EIO from another command.
    CommandFailed,
    /// POLLERR on the descriptor of its events.
    PollError,
}

#[repr(C, align(64))]
pub(crate) struct Context {
    head: Head,
    pub(crate) device: AtomicU32,
    /// Number for people: contexts are counted in the order in which they were met.
    pub(crate) id: AtomicU32,
    /// Signs seen, one bit each.
    signs: AtomicU32,
    /// 1 while it is being closed: what fails now fails because of that.
    pub(crate) closing: AtomicU32,
    /// Place of the incident of its removal plus 1.
    pub(crate) removal_told: AtomicU32,
    /// The thread that read the last asynchronous event, and its name if it was asked for.
    pub(crate) reader: AtomicU32,
    /// 1 once anybody has asked for an asynchronous event, got one or not.
    pub(crate) asked: AtomicU32,
    pub(crate) named: Named,
    pub(crate) two_readers_told: AtomicU32,
    /// Descriptor of its asynchronous events, or -1.
    pub(crate) fd: AtomicU32,
    /// When the last asynchronous event was read; 0 once a read said that there is no more.
    pub(crate) last_got_at: AtomicU64,
    /// When events were first found queued since then, or 0.
    pub(crate) queued_at: AtomicU64,
    /// When it was met.
    pub(crate) seen_at: AtomicU64,
    /// Objects of which there was something to say and whose places were used again.
    pub(crate) forgotten: AtomicU64,
    /// The same of QPs of which completions had failed.
    pub(crate) forgotten_verdicts: AtomicU64,
    pub(crate) tally: Tally,
}

impl Entry for Context {
    fn head(&self) -> &Head {
        &self.head
    }
}

impl Context {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            head: Head::new(),
            device: AtomicU32::new(0),
            id: AtomicU32::new(0),
            signs: AtomicU32::new(0),
            closing: AtomicU32::new(0),
            removal_told: AtomicU32::new(0),
            reader: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            named: Named::new(),
            two_readers_told: AtomicU32::new(0),
            fd: AtomicU32::new(0),
            last_got_at: AtomicU64::new(0),
            queued_at: AtomicU64::new(0),
            seen_at: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            forgotten_verdicts: AtomicU64::new(0),
            tally: Tally::new(),
        }
    }

    /// Another context at this place; its tally was moved out before.
    pub(crate) fn reset(&self, device: u32, id: u32, at: u64) {
        self.seen_at.store(at, Relaxed);
        self.device.store(device, Relaxed);
        self.id.store(id, Relaxed);
        self.signs.store(0, Relaxed);
        self.forgotten.store(0, Relaxed);
        self.forgotten_verdicts.store(0, Relaxed);
        self.fd.store(u32::MAX, Relaxed);
        self.closing.store(0, Relaxed);
        self.removal_told.store(0, Relaxed);
        self.reader.store(0, Relaxed);
        self.asked.store(0, Relaxed);
        self.named.forget();
        self.two_readers_told.store(0, Relaxed);
        self.got_until(0);
    }

    /// An event was read at this time, or, with 0, all were.
    pub(crate) fn got_until(&self, at: u64) {
        self.last_got_at.store(at, Relaxed);
        self.queued_at.store(0, Relaxed);
    }

    /// Notes a sign; true if it is new.
    pub(crate) fn sign(&self, sign: Sign) -> bool {
        let bit = 1 << sign as u32;
        self.signs.fetch_or(bit, AcqRel) & bit == 0
    }

    /// Whether the device is known to have failed, if only by its own word.
    pub(crate) fn has_failed(&self) -> bool {
        self.signs.load(Acquire) & !(1 << Sign::CommandFailed as u32) != 0
    }

    /// Whether the device is known to be cut off: destroys wait for nothing, acks do no harm. A device that has failed
    /// may still be there, and so may one that answered a single command with EIO.
    pub(crate) fn is_gone(&self) -> bool {
        const WEAK: u32 = 1 << Sign::DeviceFatal as u32 | 1 << Sign::CommandFailed as u32;
        self.signs.load(Acquire) & !WEAK != 0
    }
}
