//! Numbered notices that pass through the SA all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ibv_sa_daemon::transport::ibsim::Client as Sim;
use ibv_sa_wire::Trap;
use ibv_sa_wire::mad::{Notice, NoticeType, Producer};
use zerocopy::IntoBytes;

use crate::fabric::Fabric;

/// Between one number and the next.
const PACE: Duration = Duration::from_millis(5);

/// A node of the fabric that sends them; ended with this value.
pub struct Flow {
    sent: Arc<AtomicU64>,
    pauses: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flow {
    /// Each number is sent once for each of these traps, which no SM makes itself. Numbers begin with 1.
    pub fn start(fabric: &Fabric, traps: &[u16]) -> Flow {
        let sim = Sim::new(&fabric.base, "Hca3", false).expect("ibsim has room");
        let sm_lid = sim.state().expect("ibsim answers").sm_lid;
        let (sent, pauses, ends): (Arc<AtomicU64>, Arc<AtomicBool>, Arc<AtomicBool>) = Default::default();
        let (count, pause, end, traps) = (sent.clone(), pauses.clone(), ends.clone(), traps.to_vec());
        let thread = std::thread::spawn(move || {
            loop {
                if !pause.load(Relaxed) {
                    let number = count.fetch_add(1, Relaxed) + 1;
                    for trap in &traps {
                        sim.send(sm_lid, 0, &trap_mad(*trap, number)).expect("ibsim takes it");
                    }
                }
                let next = Instant::now() + PACE;
                // The SM says to each that it has heard. A client that does not read stops ibsim.
                while Instant::now() < next {
                    let _ = sim.receive(next.saturating_duration_since(Instant::now()));
                }
                if end.load(Relaxed) {
                    return;
                }
            }
        });
        Flow { sent, pauses, ends, thread: Some(thread) }
    }

    /// Nothing is sent, or it goes on. umad2sim crashes on a report that comes before its program wants reports.
    pub fn pause(&self, pauses: bool) {
        self.pauses.store(pauses, Relaxed);
    }

    /// The last number.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|end| end.is_ok()), "the flow has stopped");
    }
}

/// A trap of the subnet management class whose details begin with the number: an SM passes over what it has heard.
fn trap_mad(trap: u16, number: u64) -> [u8; 256] {
    let mut notice = Notice::generic(NoticeType::INFORMATIONAL, Producer::CA, Trap(trap));
    notice.details[..8].copy_from_slice(&number.to_be_bytes());
    let mut mad = [0; 256];
    (mad[0], mad[1], mad[2], mad[3], mad[17]) = (1, 1, 1, 5, 2);
    mad[12..16].copy_from_slice(&(number as u32).to_be_bytes());
    mad[64..144].copy_from_slice(notice.as_bytes());
    mad
}
