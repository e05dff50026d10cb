//! The way between a port and its SA as it is on a real fabric: MADs are lost, late, doubled and in another order, and
//! the kernel of the SM's host sends a Report that has no answer again. The simulator sends each once and loses none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ibv_sa_daemon::TransportFactory;
use ibv_sa_daemon::engine::{Address, Event, PortId, PortName};
use ibv_sa_daemon::transport::ibsim::Ibsim;
use ibv_sa_daemon::transport::{Sink, Source, Transport, channel};
use ibv_sa_wire::mad::{Method, Received, Report, SaMessage, tid_low};
use ibv_sa_wire::proto::PortSelector;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::oracle::{Tally, named, tally};

/// OpenSM has the kernel send a Report so many times, so far apart.
const TRIES: u32 = 4;
const APART: Duration = Duration::from_millis(200);
/// How late a MAD may be.
const LATE: u64 = 50;
/// One of so many Reports is lost each time.
const DOOMED: usize = 16;
/// The Reports of one notice for several subscriptions are made in one pass.
const SIBLINGS: Duration = Duration::from_millis(100);
/// How often the clock is looked at.
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// A way that loses. A clone is the same one.
#[derive(Clone)]
pub struct Wire {
    /// Everything that is left to chance follows from it and from the times of arrival.
    pub seed: u64,
    way: Arc<Mutex<Way>>,
}

/// What a test may ask about it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Reports that the SA made.
    pub made: usize,
    /// Those that came to the daemon more than once.
    pub doubled: usize,
    /// Requests, and answers to requests, that did not arrive.
    pub requests: usize,
    /// When the daemon asked for the SA's table the last time.
    pub asked: Option<Instant>,
}

struct Way {
    random: fastrand::Rng,
    /// Of a hundred.
    loss: u64,
    /// What is under way, by what was made first.
    later: VecDeque<(Instant, Event)>,
    /// Reports without an answer, by the low half of their ids.
    pending: BTreeMap<u32, Pending>,
    made: Vec<Made>,
    requests: usize,
    asked: Option<Instant>,
}

struct Pending {
    port: PortId,
    from: Address,
    mad: Vec<u8>,
    report: Report,
    tries: u32,
    again: Instant,
    doomed: bool,
    /// Its place in the list of all.
    number: usize,
}

/// A Report.
struct Made {
    name: String,
    tid: u32,
    at: Instant,
    came: usize,
}

impl Wire {
    /// Loses `loss` of a hundred.
    pub fn new(loss: u64) -> Wire {
        let given = std::env::var("WIRE_SEED").ok().map(|seed| seed.parse().expect("WIRE_SEED is a number"));
        let seed = given.unwrap_or_else(|| fastrand::u64(..));
        eprintln!("WIRE_SEED={seed}");
        let way = Way {
            random: fastrand::Rng::with_seed(seed),
            loss,
            later: VecDeque::new(),
            pending: BTreeMap::new(),
            made: Vec::new(),
            requests: 0,
            asked: None,
        };
        Wire { seed, way: Arc::new(Mutex::new(way)) }
    }

    /// The way from that node of that ibsim.
    pub fn transport(&self, base: &str, node: &str) -> TransportFactory {
        let (way, base, node) = (self.way.clone(), base.to_owned(), node.to_owned());
        Box::new(move |sink: Sink| {
            let (inner, source) = channel()?;
            let ibsim = Arc::new(Mutex::new(Ibsim::new(inner, &base, &node)));
            let ends = Arc::new(AtomicBool::new(false));
            let thread = {
                let (way, ibsim, ends) = (way.clone(), ibsim.clone(), ends.clone());
                std::thread::spawn(move || carry(&way, &ibsim, &ends, &source, &sink))
            };
            Ok(Box::new(Lossy { way, ibsim, ends, thread: Some(thread) }))
        })
    }

    /// Nothing is under way any more.
    pub fn is_idle(&self) -> bool {
        let way = lock(&self.way);
        way.pending.is_empty() && way.later.is_empty()
    }

    /// Notices of which no Report has come and none will. Two of a switch may be equal; about a GID, they are one for
    /// several subscriptions.
    pub fn lost(&self) -> Tally {
        let way = lock(&self.way);
        let mut notices: Vec<(&Made, usize)> = Vec::new();
        for made in &way.made {
            let sibling = notices.iter_mut().rev().take(8).find(|(one, _)| {
                let near = made.tid.wrapping_sub(one.tid) <= 3 && made.at - one.at <= SIBLINGS;
                near && one.name == made.name && !made.name.starts_with("128 ")
            });
            match sibling {
                Some((_, came)) => *came += made.came,
                None => notices.push((made, made.came)),
            }
        }
        tally(notices.into_iter().filter(|(_, came)| *came == 0).map(|(made, _)| made.name.clone()))
    }

    /// The Reports of one notice, for a message: ids, when they were made, and how many came.
    pub fn history(&self, name: &str) -> Vec<(u32, Duration, usize)> {
        let way = lock(&self.way);
        let start = way.made.first().map(|first| first.at);
        let one = |made: &Made| {
            (made.tid, start.map_or_else(Duration::default, |start| made.at - start), made.came)
        };
        way.made.iter().filter(|made| made.name == name).map(one).collect()
    }

    pub fn counts(&self) -> Counts {
        let way = lock(&self.way);
        let doubled = way.made.iter().filter(|made| made.came > 1).count();
        Counts { made: way.made.len(), doubled, requests: way.requests, asked: way.asked }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with it")
}

fn bytes(mad: &[u8]) -> [u8; 256] {
    let mut whole = [0; 256];
    whole[..mad.len().min(256)].copy_from_slice(&mad[..mad.len().min(256)]);
    whole
}

/// Carries what the SA sends to the daemon until that ends.
fn carry(way: &Mutex<Way>, ibsim: &Mutex<Ibsim>, ends: &AtomicBool, source: &Source, sink: &Sink) {
    while !ends.load(Ordering::Relaxed) {
        let mut fds = [PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN)];
        let _ = poll(&mut fds, Some(&STEP));
        source.clear();
        while let Some(event) = source.take() {
            lock(way).came(event, sink);
        }
        // One that nobody answered is answered here: OpenSM does not survive a thousand of them.
        let given_up = lock(way).pass(sink);
        for one in given_up {
            let answer = bytes(one.report.response().as_bytes());
            lock(ibsim).send(one.port, one.from, &answer, 0);
        }
    }
}

impl Way {
    fn loses(&mut self) -> bool {
        self.random.u64(..100) < self.loss
    }

    /// Half of what comes is late.
    fn arrival(&mut self) -> Instant {
        let late = if self.random.bool() { self.random.u64(..LATE) } else { 0 };
        Instant::now() + Duration::from_millis(late)
    }

    fn came(&mut self, event: Event, sink: &Sink) {
        let Event::Mad { port, from, mad } = event else {
            sink.report(event);
            return;
        };
        match Received::decode(&mad) {
            Ok(Received::Report(report)) => {
                let number = self.made.len();
                let doomed = number % DOOMED == DOOMED - 1;
                let (name, tid) = (named(&report.notice()), report.tid());
                self.made.push(Made { name, tid, at: Instant::now(), came: 0 });
                let again = Instant::now();
                let one = Pending { port, from, mad, report, tries: 0, again, doomed, number };
                assert!(self.pending.insert(tid, one).is_none(), "ids are used once");
            }
            _ if self.loses() => self.requests += 1,
            _ => {
                let at = self.arrival();
                self.later.push_back((at, Event::Mad { port, from, mad }));
            }
        }
    }

    /// What is due now; returns the Reports that are given up.
    fn pass(&mut self, sink: &Sink) -> Vec<Pending> {
        let now = Instant::now();
        let due: Vec<u32> =
            self.pending.iter().filter(|(_, one)| one.again <= now).map(|(tid, _)| *tid).collect();
        let mut given_up = Vec::new();
        for tid in due {
            let Some(mut one) = self.pending.remove(&tid) else { continue };
            if one.tries == TRIES {
                given_up.push(one);
                continue;
            }
            one.tries += 1;
            one.again = now + APART;
            if !one.doomed && !self.loses() {
                for _ in 0..1 + usize::from(self.random.u8(..8) == 0) {
                    let event = Event::Mad { port: one.port, from: one.from, mad: one.mad.clone() };
                    self.made[one.number].came += 1;
                    let at = self.arrival();
                    self.later.push_back((at, event));
                }
            }
            self.pending.insert(tid, one);
        }
        let (due, later) = std::mem::take(&mut self.later).into_iter().partition(|(at, _)| *at <= now);
        self.later = later;
        let mut due: Vec<(Instant, Event)> = Vec::from(due);
        due.sort_by_key(|(at, _)| *at);
        due.into_iter().for_each(|(_, event)| _ = sink.report(event));
        given_up
    }
}

/// The daemon's end.
struct Lossy {
    way: Arc<Mutex<Way>>,
    ibsim: Arc<Mutex<Ibsim>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Transport for Lossy {
    fn resolve(&mut self, selector: &PortSelector) -> Result<PortName, i32> {
        lock(&self.ibsim).resolve(selector)
    }

    fn open(&mut self, port: PortId, name: &PortName) {
        lock(&self.ibsim).open(port, name);
    }

    fn close(&mut self, port: PortId) {
        let given_up = std::mem::take(&mut lock(&self.way).pending);
        let mut ibsim = lock(&self.ibsim);
        for one in given_up.into_values() {
            ibsim.send(one.port, one.from, &bytes(one.report.response().as_bytes()), 0);
        }
        ibsim.close(port);
    }

    fn send(&mut self, port: PortId, to: Address, mad: &[u8; 256], answer_within: u32) {
        let message = SaMessage::parse(mad).expect("the daemon sends MADs");
        let tid = tid_low(message.tid());
        let mut way = lock(&self.way);
        let lost = way.loses();
        if message.headers.mad.method == Method::GET_TABLE {
            way.asked = Some(Instant::now());
        }
        if message.headers.mad.method == Method::REPORT_RESP {
            // The kernel hands on the first answer, and none to what was given up.
            if lost || way.pending.remove(&tid).is_none() {
                return;
            }
        } else if lost {
            way.requests += 1;
            if way.random.bool() {
                let at = Instant::now() + Duration::from_millis(answer_within.into());
                way.later.push_back((at, Event::SendFailed { port, tid }));
            }
            return;
        }
        drop(way);
        lock(&self.ibsim).send(port, to, mad, answer_within);
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
