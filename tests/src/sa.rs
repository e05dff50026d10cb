//! A daemon for SA notices that does what it is told: the other end of `ibv_sa_*`.
//!
//! It speaks the daemon's protocol on one socket, and takes commands on another: one packet a command, one packet the
//! answer. A C program of `ctests/sa` gives the commands itself (`server()` in `ctests/sa/sa.h`), so that each test
//! is one text in one order. Registrations are numbered from 1 as they come, over all connections; 0 means all.
//!
//! | command | what happens |
//! |---|---|
//! | `notice N TRAP GID` | a notice of that generic trap, if its filter lets it through |
//! | `notices N COUNT TRAP` | so many, about GIDs that end in 1, 2, 3 ... |
//! | `status N STATUS` | StatusChange |
//! | `overflow N LOST` | Overflow |
//! | `register STATUS` or `register silent` | how Registers are answered from now on (0) |
//! | `activate STATUS` or `activate silent` | what StatusChange follows (0) |
//! | `greet welcome`, `silent`, `garbage`, `hang-up`, `refuse ERRNO TEXT`, `version V` | how Hello is answered from now on |
//! | `turn-away early` or `late`, `ERRNO TEXT` | from now on refused and closed, with Hello unread, or before it comes |
//! | `turn-away nobody` | not any more |
//! | `garbage` | a packet that is no message, to all |
//! | `greet spoilt new` or `again` | Hello is answered by a spoilt packet, or by none that is an answer; see `spoiler.rs` |
//! | `spoil` | such a packet to the last registration's connection; answered with 1 if it has to end that |
//! | `spoilt errno`, `made`, `wrong`, `forget` | of these packets, see `Spoiler` |
//! | `close` | all connections end |
//! | `stop`, `start` | nobody listens; somebody does |
//! | `stall`, `go` | it reads nothing; it does |
//! | `live`, `made`, `ended`, `connections` | answered with a number |
//! | `last` | the last Register, in words |
//!
//! Everything else is answered with `ok` once it is done.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::Duration;

use ibv_sa_wire::proto::{
    ClientMessage, MAX_PACKET, MAX_REQUEST, NoticeEvent, Overflow, Refused, Register, Registered,
    ServerMessage, StatusChange, Unregistered, Welcome,
};
use ibv_sa_wire::{Filter, Gid, Notice, Trap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, recv,
    send, socket_with,
};

use crate::spoiler::{Phase, Spoiler};
use crate::{Flavour, Run, cc, scripted_dir, shim_dir};

/// The daemon; it ends with this.
pub struct ScriptedDaemon {
    state: Arc<Mutex<State>>,
    dir: tempfile::TempDir,
}

/// A connection's way out. Nothing waits for a program that does not read.
#[derive(Clone)]
struct Out {
    socket: Arc<OwnedFd>,
    packets: mpsc::Sender<Packet>,
}

enum Packet {
    Bytes(Vec<u8>),
    /// To be answered when all before it is out.
    Done(mpsc::Sender<()>),
}

struct Registration {
    id: u64,
    filter: Filter,
    connection: u64,
    /// As long as that is open: a way out is a thread.
    out: Option<Out>,
    notices: u64,
    live: bool,
}

#[derive(Clone)]
enum Greeting {
    Welcome(u16),
    Silent,
    Garbage,
    HangUp,
    Refuse(i32, String),
    Spoilt(Phase),
}

/// Who is refused without having been heard.
#[derive(Clone)]
struct TurnAway {
    /// It waits until Hello lies there.
    early: bool,
    refused: (i32, String),
}

struct State {
    socket: PathBuf,
    ended: bool,
    listener: Option<Arc<OwnedFd>>,
    stalled: bool,
    greeting: Greeting,
    turn_away: Option<TurnAway>,
    register: Option<i32>,
    activate: Option<i32>,
    connections: Vec<(u64, Out)>,
    connected: u64,
    registrations: Vec<Registration>,
    last: String,
    spoiler: Spoiler,
}

/// A program of `ctests/sa`, linked with the library alone.
pub fn sa_program(source: &str, flavour: Flavour, more: &[&str]) -> PathBuf {
    let dir = format!("-L{}", shim_dir(flavour).display());
    let mut args = vec![&*dir, "-libv_sa"];
    args.extend(more);
    cc(source, &args)
}

impl ScriptedDaemon {
    /// Starts it on sockets in a new folder.
    pub fn start() -> ScriptedDaemon {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let socket = dir.path().join("sa.sock");
        let state = State {
            listener: Some(Arc::new(listener(&socket))),
            socket,
            ended: false,
            stalled: false,
            greeting: Greeting::Welcome(1),
            turn_away: None,
            register: Some(0),
            activate: Some(0),
            connections: Vec::new(),
            connected: 0,
            registrations: Vec::new(),
            last: String::new(),
            spoiler: Spoiler::new(),
        };
        let daemon = ScriptedDaemon { state: Arc::new(Mutex::new(state)), dir };
        let state = daemon.state.clone();
        thread::spawn(move || accept_all(&state));
        let (state, control) = (daemon.state.clone(), Arc::new(listener(&daemon.control())));
        thread::spawn(move || control_all(&state, &control));
        daemon
    }

    /// Where programs connect.
    pub fn socket(&self) -> PathBuf {
        lock(&self.state).socket.clone()
    }

    fn control(&self) -> PathBuf {
        self.dir.path().join("control.sock")
    }

    /// Gives a command and returns its answer.
    pub fn command(&self, text: &str) -> String {
        lock(&self.state).command(text)
    }

    /// Kinds of spoilt packets that no program has got yet, each with where its connection was.
    pub fn unseen(&self) -> Vec<(Phase, &'static str)> {
        lock(&self.state).spoiler.unseen()
    }

    /// A program of `ctests/sa`, ready to be run: linked with this flavour, with the scripted provider's devices
    /// (scr0 is Ethernet, ibsim0 InfiniBand) and this daemon.
    pub fn program(&self, name: &str, flavour: Flavour) -> Run {
        self.run(sa_program(&format!("ctests/sa/{name}.c"), flavour, &[]), flavour)
    }

    /// Any program that is linked with the library.
    pub fn run(&self, program: PathBuf, flavour: Flavour) -> Run {
        self.with_daemon(Run::new(program)).library_path(shim_dir(flavour))
    }

    /// Gives a program the devices and the daemon.
    pub fn with_daemon(&self, run: Run) -> Run {
        run.library_path(scripted_dir()).env("IBV_SA_SOCKET", self.socket()).env("SA_CONTROL", self.control())
    }
}

impl Drop for ScriptedDaemon {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.ended = true;
        state.listener = None;
        state.close();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|e| e.into_inner())
}

fn listener(path: &Path) -> OwnedFd {
    let _ = fs::remove_file(path);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
    bind(&socket, &SocketAddrUnix::new(path).expect("a short path")).expect("the socket's path");
    listen(&socket, 128).expect("listen");
    socket
}

/// Waits a moment for something to read.
fn readable(socket: &OwnedFd) -> bool {
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let mut ready = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut ready, Some(&moment)).is_ok_and(|number| number != 0)
}

fn accept_all(state: &Arc<Mutex<State>>) {
    loop {
        let listener = {
            let state = lock(state);
            if state.ended {
                return;
            }
            state.listener.clone()
        };
        let accepted = listener.filter(|listener| readable(listener)).and_then(|one| accept(&*one).ok());
        let Some(socket) = accepted else {
            thread::sleep(Duration::from_millis(2));
            continue;
        };
        let away = lock(state).turn_away.clone();
        if let Some(TurnAway { early, refused: (errno, text) }) = away {
            while early && !readable(&socket) && !lock(state).ended {}
            let mut packet = [0; MAX_PACKET];
            let length = ServerMessage::Refused(Refused::new(-errno, &text)).encode(&mut packet);
            let _ = send(&socket, &packet[..length], SendFlags::NOSIGNAL);
            continue;
        }
        let out = Out::new(Arc::new(socket));
        let number = {
            let mut state = lock(state);
            state.connected += 1;
            let number = state.connected;
            state.connections.push((number, out.clone()));
            number
        };
        let state = state.clone();
        thread::spawn(move || serve(&state, number, &out));
    }
}

fn serve(state: &Mutex<State>, number: u64, out: &Out) {
    loop {
        {
            let state = lock(state);
            if !state.connections.iter().any(|(one, _)| *one == number) {
                return;
            }
            if state.stalled {
                drop(state);
                thread::sleep(Duration::from_millis(5));
                continue;
            }
        }
        if !readable(&out.socket) {
            continue;
        }
        // Read and done in one: an answer to a command is true of all that was sent before it.
        let mut state = lock(state);
        if state.stalled {
            continue;
        }
        let mut packet = [0; MAX_REQUEST];
        let length = match recv(&out.socket, &mut packet, RecvFlags::DONTWAIT) {
            Ok((_, 0)) | Err(_) => {
                state.spoiler.closed(number);
                return state.end(number);
            }
            Ok((_, length)) => length,
        };
        match ClientMessage::decode(&packet[..length]) {
            Ok(message) => state.message(number, out, message),
            Err(error) => {
                eprintln!("the program sent what is no message: {error}");
                return state.end(number);
            }
        }
    }
}

fn control_all(state: &Arc<Mutex<State>>, control: &Arc<OwnedFd>) {
    while !lock(state).ended {
        let Some(socket) = readable(control).then(|| accept(&**control).ok()).flatten() else { continue };
        let state = state.clone();
        thread::spawn(move || {
            let mut packet = [0; 1024];
            while !lock(&state).ended {
                if !readable(&socket) {
                    continue;
                }
                match recv(&socket, &mut packet, RecvFlags::empty()) {
                    Ok((_, 0)) | Err(_) => return,
                    Ok((_, length)) => {
                        let text = String::from_utf8_lossy(&packet[..length]).into_owned();
                        let answer = lock(&state).command(&text);
                        let _ = send(&socket, answer.as_bytes(), SendFlags::NOSIGNAL);
                    }
                }
            }
        });
    }
}

impl Out {
    fn new(socket: Arc<OwnedFd>) -> Out {
        let (packets, queue) = mpsc::channel();
        let to = socket.clone();
        thread::spawn(move || {
            for packet in queue {
                match packet {
                    Packet::Bytes(bytes) => drop(send(&to, &bytes, SendFlags::NOSIGNAL)),
                    Packet::Done(done) => drop(done.send(())),
                }
            }
        });
        Out { socket, packets }
    }

    fn bytes(&self, bytes: &[u8]) {
        let _ = self.packets.send(Packet::Bytes(bytes.into()));
    }

    fn say(&self, message: &ServerMessage) {
        let mut packet = [0; MAX_PACKET];
        let length = message.encode(&mut packet);
        self.bytes(&packet[..length]);
    }

    /// What was said before is out, unless nobody reads it for so long.
    fn flush(&self, limit: Duration) {
        let (done, ended) = mpsc::channel();
        let _ = self.packets.send(Packet::Done(done));
        let _ = ended.recv_timeout(limit);
    }

    /// What was said before is not lost with it.
    fn end(&self) {
        self.flush(Duration::from_secs(1));
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

impl Registration {
    fn say(&self, message: &ServerMessage) {
        if let Some(out) = &self.out {
            out.say(message);
        }
    }
}

impl State {
    fn message(&mut self, number: u64, out: &Out, message: ClientMessage) {
        match message {
            ClientMessage::Hello(_) => self.greet(number, out),
            ClientMessage::Register(register) => self.register(number, out, register),
            ClientMessage::Unregister(unregister) => {
                let own = |one: &&mut Registration| one.live && one.connection == number;
                let mut own = self.registrations.iter_mut().rev().filter(own);
                match own.find(|one| one.id == unregister.id) {
                    Some(one) => one.live = false,
                    None => eprintln!("an Unregister of nothing: {}", unregister.id),
                }
                out.say(&ServerMessage::Unregistered(Unregistered { id: unregister.id }));
            }
            ClientMessage::StatusQuery(_) => {}
        }
    }

    fn greet(&mut self, number: u64, out: &Out) {
        match self.greeting.clone() {
            Greeting::Welcome(version) => out.say(&ServerMessage::Welcome(Welcome {
                version,
                features: 0,
                instance: 1,
                max_registrations: 1000,
                max_queued: 1000,
            })),
            Greeting::Silent => {}
            Greeting::Garbage => {
                out.bytes(b"HTTP/1.1 400 Bad Request\r\n");
            }
            Greeting::Spoilt(phase) => out.bytes(&self.spoiler.packet(number, 1, phase)),
            Greeting::HangUp => out.end(),
            Greeting::Refuse(errno, text) => {
                out.say(&ServerMessage::Refused(Refused::new(-errno, &text)));
            }
        }
    }

    fn register(&mut self, connection: u64, out: &Out, register: Register) {
        let Register { id, flags, port, filter } = register;
        self.last = format!("port {port:?} flags {flags} {filter:?}");
        let live = matches!(self.register, Some(0) | None);
        self.registrations.push(Registration {
            id,
            filter,
            connection,
            out: Some(out.clone()),
            notices: 0,
            live,
        });
        if let Some(status) = self.register {
            out.say(&ServerMessage::Registered(Registered { id, status }));
        }
        if let Some(status) = self.activate.filter(|_| self.register == Some(0)) {
            out.say(&ServerMessage::StatusChange(StatusChange { id, status }));
        }
    }

    fn end(&mut self, number: u64) {
        self.connections.retain(|(one, _)| *one != number);
        for one in self.registrations.iter_mut().filter(|one| one.connection == number) {
            (one.live, one.out) = (false, None);
        }
    }

    fn close(&mut self) {
        for (number, out) in std::mem::take(&mut self.connections) {
            out.end();
            self.end(number);
        }
    }

    /// The registrations that a number means.
    fn meant(&mut self, number: usize) -> impl Iterator<Item = &mut Registration> {
        let all = self.registrations.iter_mut().enumerate();
        all.filter(move |(index, _)| number == 0 || index + 1 == number)
            .map(|(_, one)| one)
            .filter(move |one| one.live || number != 0)
    }

    fn command(&mut self, text: &str) -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |word: &str| word.parse::<i64>().unwrap_or_else(|_| panic!("{text}: no number"));
        match words[..] {
            ["notice", which, trap, gid] => {
                let gid: Gid = gid.parse().expect("a GID");
                let notice = about(number(trap) as u16, gid);
                self.notice(number(which) as usize, &notice);
            }
            ["notices", which, count, trap] => {
                for n in 1..=number(count) {
                    let mut gid = Gid([0; 16]);
                    gid.0[0] = 0xFE;
                    gid.0[8..].copy_from_slice(&n.to_be_bytes());
                    self.notice(number(which) as usize, &about(number(trap) as u16, gid));
                }
            }
            ["status", which, status] => {
                for one in self.meant(number(which) as usize) {
                    let change = StatusChange { id: one.id, status: number(status) as i32 };
                    one.say(&ServerMessage::StatusChange(change));
                }
            }
            ["overflow", which, lost] => {
                for one in self.meant(number(which) as usize) {
                    let overflow = Overflow { id: one.id, lost: number(lost) as u64 };
                    one.say(&ServerMessage::Overflow(overflow));
                }
            }
            ["register", "silent"] => self.register = None,
            ["register", status] => self.register = Some(number(status) as i32),
            ["activate", "silent"] => self.activate = None,
            ["activate", status] => self.activate = Some(number(status) as i32),
            ["greet", "welcome"] => self.greeting = Greeting::Welcome(1),
            ["greet", "version", version] => self.greeting = Greeting::Welcome(number(version) as u16),
            ["greet", "silent"] => self.greeting = Greeting::Silent,
            ["greet", "hang-up"] => self.greeting = Greeting::HangUp,
            ["greet", "spoilt", phase] => {
                self.greeting = Greeting::Spoilt(if phase == "again" { Phase::Again } else { Phase::New });
            }
            ["spoil"] => {
                let last = self.registrations.iter().rfind(|one| one.live).expect("a registration");
                let out = last.out.as_ref().expect("its connection");
                out.bytes(&self.spoiler.packet(last.connection, last.id, Phase::Open));
                out.flush(Duration::from_secs(20));
                return i32::from(self.spoiler.errno() != 0).to_string();
            }
            ["spoilt", "errno"] => return self.spoiler.errno().to_string(),
            ["spoilt", "made"] => return self.spoiler.made().to_string(),
            ["spoilt", "wrong"] => return self.spoiler.wrong().to_string(),
            ["spoilt", "forget"] => self.spoiler.forget(),
            ["greet", "garbage"] => self.greeting = Greeting::Garbage,
            ["greet", "refuse", errno, ..] => {
                self.greeting = Greeting::Refuse(number(errno) as i32, words[3..].join(" "));
            }
            ["turn-away", "nobody"] => self.turn_away = None,
            ["turn-away", when, errno, ..] => {
                let refused = (number(errno) as i32, words[3..].join(" "));
                self.turn_away = Some(TurnAway { early: when == "early", refused });
            }
            ["garbage"] => {
                for (_, out) in &self.connections {
                    out.bytes(b"garbage");
                }
            }
            ["close"] => self.close(),
            ["stop"] => {
                self.listener = None;
                self.close();
                let _ = fs::remove_file(&self.socket);
            }
            ["start"] => self.listener = Some(Arc::new(listener(&self.socket))),
            ["stall"] => self.stalled = true,
            ["go"] => self.stalled = false,
            ["live"] => return self.registrations.iter().filter(|one| one.live).count().to_string(),
            ["made"] => return self.registrations.len().to_string(),
            ["connections"] => return self.connections.len().to_string(),
            ["connected"] => return self.connected.to_string(),
            ["last"] => return self.last.clone(),
            _ => panic!("no such command: {text}"),
        }
        "ok".into()
    }

    fn notice(&mut self, which: usize, notice: &Notice) {
        for one in self.meant(which).filter(|one| one.filter.matches(notice)) {
            one.notices += 1;
            let event =
                NoticeEvent { id: one.id, sequence: one.notices, time_ns: 0, source_lid: 1, notice: *notice };
            one.say(&ServerMessage::Notice(event));
        }
    }
}

/// A notice as an SM with LID 1 sends it.
fn about(trap: u16, gid: Gid) -> Notice {
    let sm: Gid = "fe80::1".parse().expect("a GID");
    Notice::about_gid(Trap(trap), gid, 1, sm)
}
