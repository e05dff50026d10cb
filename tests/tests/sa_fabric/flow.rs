//! Numbered notices that pass through the SA all the time, and the programs that follow them (`ctests/sa/flow.c`).

#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ibv_sa_daemon::transport::ibsim::Client as Sim;
use ibv_sa_wire::Trap;
use ibv_sa_wire::mad::{Notice, NoticeType, Producer};
use zerocopy::IntoBytes;

use crate::fabric::Fabric;
use crate::host::{Host, Talk};

/// Between one number and the next.
const PACE: Duration = Duration::from_millis(5);
/// Notices that have to come after whatever was done.
const MORE: u64 = 20;

/// A node of the fabric that sends them; ended with this value.
pub struct Flow {
    sent: Arc<AtomicU64>,
    pauses: Arc<Mutex<bool>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flow {
    /// Each number is sent once for each of these traps, which no SM makes itself. Numbers begin with 1.
    pub fn start(fabric: &Fabric, traps: &[u16]) -> Flow {
        let sim = Sim::new(&fabric.base, "Hca3", false).expect("ibsim has room");
        let sm_lid = sim.state().expect("ibsim answers").sm_lid;
        let (sent, pauses, ends): (Arc<AtomicU64>, Arc<Mutex<bool>>, Arc<AtomicBool>) = Default::default();
        let (count, pause, end, traps) = (sent.clone(), pauses.clone(), ends.clone(), traps.to_vec());
        let thread = std::thread::spawn(move || {
            loop {
                let paused = pause.lock().expect("no panic");
                if !*paused {
                    let number = count.fetch_add(1, Relaxed) + 1;
                    for trap in &traps {
                        sim.send(sm_lid, 0, &trap_mad(*trap, number)).expect("ibsim takes it");
                    }
                }
                drop(paused);
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
        *self.pauses.lock().expect("no panic") = pauses;
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

/// A program that has what it wants. See there.
pub fn program(host: &Host, uid: u32, trap: u16, is_busy: bool) -> Talk {
    let busy = if is_busy { "1" } else { "0" };
    let mut talk = host.c_program_with(uid, "ctests/sa/flow.c", &[&trap.to_string(), busy]);
    talk.hears_line("ready");
    talk
}

/// All of them do it.
pub fn obey(programs: &mut [Talk], command: &str) {
    programs.iter_mut().for_each(|one| one.says(command));
    programs.iter_mut().for_each(|one| one.hears_line(command));
}

/// Nothing is left out from where they are.
pub fn go_on(programs: &mut [Talk], flow: &Flow) {
    obey(programs, &format!("until {}", flow.sent() + MORE));
}

/// They end as they should, and nothing is left of them.
pub fn end(programs: Vec<Talk>, host: &Host) {
    for mut program in programs {
        program.says_no_more();
        program.hears_line("good");
        assert!(program.wait().success());
    }
    host.fabric.wait_for_subscriptions(&[]);
}
