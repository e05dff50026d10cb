//! Incidents in the order in which they happened, each with its text. The first ones are kept; later ones are counted.

use crate::sync::*;

/// Incidents kept.
pub(crate) const INCIDENTS: usize = 256;
/// Bytes of text kept of each.
const TEXT: usize = 768;

const EMPTY: u32 = 0;
const WRITING: u32 = 1;
const WRITTEN: u32 = 2;

/// What kind of incident it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum What {
    /// An ack for no event.
    BadAck,
    /// A destroy waits for an ack.
    DestroyWaits,
    /// Held acks went to libibverbs.
    AcksReleased,
    /// Events were acknowledged for the program.
    Rescued,
    /// A destroy returned EBUSY.
    DestroyRefused,
    /// A device has failed or was removed.
    DeviceGone,
    /// Two threads read one context's events.
    TwoReaders,
    /// A reader leaves events queued.
    Backlog,
    /// The first completion of a QP with an error status.
    FirstFailure,
    /// A QP's work requests were flushed, and no first failure was seen.
    FlushedAlone,
    /// More work is outstanding than a CQ has room for.
    CqHeadroom,
    /// A CQ was overrun.
    CqError,
    /// A CQ was armed and not polled, and the program waits for its event.
    ArmedWithoutPoll,
    /// A CQ was not polled until it was empty, and the program waits for its event.
    FullPoll,
}

impl What {
    const ALL: [What; 14] = [
        What::BadAck,
        What::DestroyWaits,
        What::AcksReleased,
        What::Rescued,
        What::DestroyRefused,
        What::DeviceGone,
        What::TwoReaders,
        What::Backlog,
        What::FirstFailure,
        What::FlushedAlone,
        What::CqHeadroom,
        What::CqError,
        What::ArmedWithoutPoll,
        What::FullPoll,
    ];

    /// As the report spells it.
    pub fn name(self) -> &'static str {
        match self {
            What::BadAck => "bad_ack",
            What::DestroyWaits => "destroy_waits",
            What::AcksReleased => "acks_released",
            What::Rescued => "rescued",
            What::DestroyRefused => "destroy_refused",
            What::DeviceGone => "device_gone",
            What::TwoReaders => "two_readers",
            What::Backlog => "backlog",
            What::FirstFailure => "first_failure",
            What::FlushedAlone => "flushed_alone",
            What::CqHeadroom => "cq_headroom",
            What::CqError => "cq_error",
            What::ArmedWithoutPoll => "armed_without_poll",
            What::FullPoll => "full_poll",
        }
    }

    /// Whether it is only good to know.
    pub fn is_info(self) -> bool {
        self == What::TwoReaders
    }
}

/// One incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Its kind.
    pub what: What,
    /// When it began, in nanoseconds of CLOCK_MONOTONIC.
    pub at: u64,
    /// Number of the context; 0 if it belongs to none.
    pub context: u32,
    /// The thread that it happened in.
    pub tid: u32,
    /// How often it happened.
    pub count: u32,
    /// What was said about it first.
    pub text: String,
}

#[repr(C, align(64))]
struct Place {
    state: AtomicU32,
    what: AtomicU32,
    context: AtomicU32,
    tid: AtomicU32,
    count: AtomicU32,
    length: AtomicU32,
    at: AtomicU64,
    text: [AtomicU64; TEXT / 8],
}

impl Place {
    fn set_text(&self, from: usize, text: &str) {
        let mut end = text.len().min(TEXT - from);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for (offset, byte) in text.as_bytes()[..end].iter().enumerate() {
            let offset = from + offset;
            let shift = offset % 8 * 8;
            let word = &self.text[offset / 8];
            let kept = word.load(Relaxed) & !(0xff << shift);
            word.store(kept | u64::from(*byte) << shift, Relaxed);
        }
        self.length.store((from + end) as u32, Relaxed);
    }

    fn text(&self) -> String {
        let bytes: Vec<u8> = self.text.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        let length = (self.length.load(Relaxed) as usize).min(TEXT);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }
}

/// All zero bytes: nothing happened.
#[repr(C)]
pub(crate) struct Incidents {
    used: AtomicU32,
    left_out: AtomicU32,
    places: [Place; INCIDENTS],
}

impl Incidents {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            used: AtomicU32::new(0),
            left_out: AtomicU32::new(0),
            places: [const {
                Place {
                    state: AtomicU32::new(0),
                    what: AtomicU32::new(0),
                    context: AtomicU32::new(0),
                    tid: AtomicU32::new(0),
                    count: AtomicU32::new(0),
                    length: AtomicU32::new(0),
                    at: AtomicU64::new(0),
                    text: [const { AtomicU64::new(0) }; TEXT / 8],
                }
            }; INCIDENTS],
        }
    }

    /// Keeps an incident; returns its place, or `None` where only its number is kept.
    pub(crate) fn add(&self, incident: &Incident) -> Option<u32> {
        let used =
            self.used.fetch_update(AcqRel, Acquire, |used| (used < INCIDENTS as u32).then_some(used + 1));
        let Ok(used) = used else {
            self.left_out.fetch_add(1, Relaxed);
            return None;
        };
        let place = &self.places[used as usize];
        place.state.store(WRITING, Relaxed);
        place.what.store(incident.what as u32, Relaxed);
        place.context.store(incident.context, Relaxed);
        place.tid.store(incident.tid, Relaxed);
        place.count.store(incident.count, Relaxed);
        place.at.store(incident.at, Relaxed);
        place.set_text(0, &incident.text);
        place.state.store(WRITTEN, Release);
        Some(used)
    }

    /// It happened again.
    pub(crate) fn again(&self, place: u32) {
        self.places[place as usize].count.fetch_add(1, Relaxed);
    }

    /// More is known about it.
    pub(crate) fn amend(&self, place: u32, text: &str) {
        let place = &self.places[place as usize];
        // Another thread that adds to it at this moment wins: all that is lost is a part of a text.
        if place.state.compare_exchange(WRITTEN, WRITING, AcqRel, Relaxed).is_ok() {
            place.set_text(place.length.load(Relaxed) as usize, text);
            place.state.store(WRITTEN, Release);
        }
    }

    pub(crate) fn list(&self) -> Vec<Incident> {
        let used = (self.used.load(Acquire) as usize).min(INCIDENTS);
        self.places[..used]
            .iter()
            .filter(|place| place.state.load(Acquire) != EMPTY)
            .map(|place| Incident {
                what: What::ALL[place.what.load(Relaxed) as usize % What::ALL.len()],
                at: place.at.load(Relaxed),
                context: place.context.load(Relaxed),
                tid: place.tid.load(Relaxed),
                count: place.count.load(Relaxed),
                text: place.text(),
            })
            .collect()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.used.load(Relaxed) < INCIDENTS as u32
    }

    pub(crate) fn leave_out(&self) {
        self.left_out.fetch_add(1, Relaxed);
    }

    pub(crate) fn left_out(&self) -> u32 {
        self.left_out.load(Relaxed)
    }
}
