//! What the daemon needs for registrations to which nothing happens: memory, and time on a CPU. Here it has a process
//! of its own.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ibv_sa_wire::{Filter, Trap};

use crate::client::Client;
use crate::feed::TRAP;
use crate::host::cpu_time;
use crate::{Outcome, say};

const CLIENTS: usize = 20;
const REGISTRATIONS: usize = 10_000;
/// All of one trap, as programs do, or each of another one, which is the most that the daemon has to remember.
const CASES: [&str; 2] = ["one trap", "a trap each"];

/// One case.
pub struct Standing {
    /// Which traps.
    pub what: &'static str,
    /// Programs.
    pub clients: usize,
    /// Of all.
    pub registrations: usize,
    /// VmRSS without any, and with all of them, in KiB.
    pub memory: [u64; 2],
    /// While nothing happened.
    pub idle: Option<Idle>,
}

/// What the daemon did while nothing happened.
pub struct Idle {
    /// How long, in seconds.
    pub time: u64,
    /// On a CPU, in nanoseconds.
    pub cpu: u64,
    /// Times that it woke up.
    pub wakes: u64,
}

/// Each case, and the first idle for so long. After the second there is something to do for seconds: subscriptions to
/// single traps are withdrawn, 20 in a second, once there are so many that one to all takes their place.
pub fn measure(idle: Duration) -> Outcome<Vec<Standing>> {
    Ok(vec![one(CASES[0], Some(idle))?, one(CASES[1], None)?])
}

fn one(what: &'static str, idle: Option<Duration>) -> Outcome<Standing> {
    let and_idle = idle.map_or(String::new(), |time| format!("; idle for {} s", time.as_secs()));
    say(&format!("{REGISTRATIONS} registrations, {what}{and_idle}"));
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("sa.sock");
    let daemon = Process::start(&socket)?;
    let empty = daemon.memory()?;
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let mut one = Client::greeted(&socket)?;
        let share = REGISTRATIONS / CLIENTS;
        for id in 1..=share {
            let trap = if what == CASES[0] { TRAP } else { u16::try_from(client * share + id)? };
            one.register(id as u64, Filter { is_generic: Some(true), ..Filter::trap(Trap(trap)) })?;
        }
        clients.push(one);
    }
    let full = daemon.memory()?;
    let idle = idle.map(|time| daemon.idle(time)).transpose()?;
    // What stands is heard of still.
    clients.iter_mut().try_for_each(|client| client.unregister(1))?;
    Ok(Standing { what, clients: CLIENTS, registrations: REGISTRATIONS, memory: [empty, full], idle })
}

/// A daemon's process.
struct Process(Child);

impl Process {
    fn start(socket: &std::path::Path) -> Outcome<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = Process(command.arg("daemon").arg(socket).stdout(Stdio::piped()).spawn()?);
        child.0.stdout.take().ok_or("no pipe")?.read_exact(&mut [0])?;
        Ok(child)
    }

    fn idle(&self, time: Duration) -> Outcome<Idle> {
        let before = (self.cpu_time()?, self.wakes()?);
        std::thread::sleep(time);
        let (cpu, wakes) = (self.cpu_time()? - before.0, self.wakes()? - before.1);
        Ok(Idle { time: time.as_secs(), cpu, wakes })
    }

    /// A number of /proc/PID/status.
    fn status(&self, name: &str) -> Outcome<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line of status")?;
        Ok(value.trim_start_matches([':', '\t', ' ']).split(' ').next().unwrap_or_default().parse()?)
    }

    fn memory(&self) -> Outcome<u64> {
        self.status("VmRSS")
    }

    /// It has one thread, so that this is the whole of it.
    fn wakes(&self) -> Outcome<u64> {
        self.status("voluntary_ctxt_switches")
    }

    fn cpu_time(&self) -> Outcome<u64> {
        cpu_time(&format!("/proc/{}/schedstat", self.0.id()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
