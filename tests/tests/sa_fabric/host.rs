//! A host on a simulated fabric: `ibv-sa daemon` as root, and programs of other users.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ibv_sa_tests::{Flavour, product, sa_program, scripted_dir, shim};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fabric::Fabric;

pub const LIMIT: Duration = Duration::from_secs(20);
/// Long enough for a notice that should not come.
pub const QUIET: Duration = Duration::from_millis(400);
/// The only device of a node.
pub const DEVICE: &str = "ibsim0";
/// Node GUID of Hca4.
const HCA4_NODE: &str = "0x100009";
/// Two equal notices that come within a second could be one that two subscriptions have brought: so long between them.
const APART: Duration = Duration::from_millis(1200);

/// `ibv-sa` as it is installed.
pub fn command() -> PathBuf {
    product("build/release/ibv-sa", "make build/release/ibv-sa")
}

/// The daemon at a node, and what others may read: the command, the library, the socket.
pub struct Host {
    pub fabric: Fabric,
    node: &'static str,
    public: tempfile::TempDir,
    daemon: Option<Child>,
}

impl Host {
    /// Hca4 of the four.
    pub fn new() -> Host {
        Host::at(Fabric::new(), "Hca4")
    }

    pub fn at(fabric: Fabric, node: &'static str) -> Host {
        assert!(
            rustix::process::geteuid().is_root(),
            "these tests start programs as several users: run them as root"
        );
        let public = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(public.path(), PermissionsExt::from_mode(0o755)).expect("ours");
        for file in [command(), shim(Flavour::Release)] {
            let name = file.file_name().expect("a file");
            std::fs::copy(&file, public.path().join(name)).expect("room");
        }
        // Where no RDMA is installed, or another one, programs have libibverbs all the same.
        let verbs = "libibverbs.so.1";
        std::fs::copy(scripted_dir().join(verbs), public.path().join(verbs)).expect("make scripted made it");
        // However this test ends, fabric and daemon end with it.
        fabric.script("watch", &[&std::process::id().to_string()]);
        let mut host = Host { fabric, node, public, daemon: None };
        host.start();
        host
    }

    /// Starts the daemon anew with this policy.
    pub fn govern(&mut self, policy: &str) {
        self.stop();
        std::fs::write(self.policy(), policy).expect("room");
        self.start();
    }

    fn policy(&self) -> PathBuf {
        self.public().join("policy.toml")
    }

    pub fn public(&self) -> &Path {
        self.public.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.public().join("sa.sock")
    }

    /// With nothing of our environment but the way to the simulated port.
    pub fn start(&mut self) {
        let ibv_sa = command();
        let args = [self.node, ibv_sa.to_str().expect("a plain path"), "daemon", "--socket"];
        let log = std::fs::File::options().create(true).append(true).open(self.log_file()).expect("a file");
        let run = self.fabric.command("run", &args);
        let policy = Some(self.policy()).filter(|policy| policy.exists());
        // Root, but without a capability, as its unit starts it.
        let daemon = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"])
            .arg(run.get_program())
            .args(run.get_args())
            .arg(self.socket())
            .args(policy.iter().flat_map(|policy| [Path::new("--policy"), policy]))
            .env_clear()
            .envs([("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("GMP", "1")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("setpriv (util-linux) is there");
        self.daemon = Some(daemon);
        let end = Instant::now() + LIMIT;
        // A socket of one that was killed may be there.
        while !is_listened_at(&self.socket()) {
            let ended = self.daemon.as_mut().expect("it was started").try_wait().expect("ours");
            assert_eq!(ended, None, "the daemon has ended: {}", self.log());
            assert!(Instant::now() < end, "the daemon does not listen: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the daemon, cleanly.
    pub fn stop(&mut self) {
        let mut daemon = self.daemon.take().expect("it runs");
        kill_process(Pid::from_child(&daemon), Signal::TERM).expect("it runs");
        let status = daemon.wait().expect("ours");
        assert!(status.success(), "{status}: {}", self.log());
        assert!(!self.socket().exists());
    }

    /// Ends it without warning.
    pub fn kill(&mut self) {
        let mut daemon = self.daemon.take().expect("it runs");
        daemon.kill().expect("it runs");
        daemon.wait().expect("ours");
        assert!(self.socket().exists(), "it has had no time for that");
        self.forget_client();
    }

    /// Makes room at the port for another one.
    pub fn forget_client(&self) {
        // ibsim sees that a client is gone when it writes to it; until then nobody else may be there.
        let clients = self.fabric.script("cmd", &["Attached"]);
        let node = format!("\"{}\"", self.node);
        for line in clients.lines().filter(|line| line.contains(&node)) {
            let number = line.trim_start_matches("Client ").split(':').next().expect("a number");
            self.fabric.console(&format!("X {number}"));
        }
    }

    pub fn daemon_pid(&self) -> u32 {
        self.daemon.as_ref().expect("it runs").id()
    }

    fn log_file(&self) -> PathBuf {
        self.public().join("daemon.log")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// A program as another user, without any capability and without a way to get one. It ends with the test, however
    /// that ends.
    pub fn as_user(&self, uid: u32, program: &Path) -> Command {
        let mut command = interruptible();
        command
            .arg("setpriv")
            .args([format!("--reuid={uid}"), format!("--regid={uid}")])
            .args(["--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"])
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .env_clear()
            .env("IBV_SA_SOCKET", self.socket())
            .env("LD_LIBRARY_PATH", self.public())
            .current_dir("/")
            .stdin(Stdio::null());
        command
    }

    /// A program in C, of `ctests`, as another user, for the port; with the verbs device that belongs to it.
    pub fn c_program(&self, uid: u32, source: &str) -> Talk {
        self.c_program_with(uid, source, &[])
    }

    /// The same with arguments before device and port.
    pub fn c_program_with(&self, uid: u32, source: &str, args: &[&str]) -> Talk {
        let name = Path::new(source).file_stem().expect("a file");
        let public = self.public().join(name);
        if !public.exists() {
            std::fs::copy(sa_program(source, Flavour::Release, &[]), &public).expect("room");
        }
        let mut command = self.as_user(uid, &public);
        command.args(args).args([DEVICE, "1"]).env("SCRIPTED_IBSIM_GUID", HCA4_NODE).stdin(Stdio::piped());
        Talk::start(command)
    }

    /// `ibv-sa monitor --json` of that user; it listens.
    pub fn monitor(&self, uid: u32, args: &[&str]) -> Talk {
        let mut command = self.as_user(uid, &self.public().join("ibv-sa"));
        command.args(["monitor", "--json", "--device", DEVICE]).args(args);
        let mut talk = Talk::start(command);
        let first = talk.object();
        assert_eq!((&first["event"], &first["status"]), (&"status".into(), &0.into()), "{first}");
        talk
    }

    /// What `ibv-sa status --json` of some user says.
    pub fn status(&self) -> Value {
        let mut command = self.as_user(65534, &self.public().join("ibv-sa"));
        let output = command.args(["status", "--json"]).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = kill_process(Pid::from_child(&daemon), Signal::TERM);
            let _ = daemon.wait();
        }
        if std::thread::panicking() {
            eprintln!("the daemon's log:\n{}", self.log());
        }
    }
}

/// Whether somebody takes connections there: of another type than this one.
fn is_listened_at(socket: &Path) -> bool {
    let connected = std::os::unix::net::UnixStream::connect(socket);
    connected.is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::PROTOTYPE.raw_os_error()))
}

/// A program that writes lines.
pub struct Talk {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Of this number any may come at any time.
    ignored: Option<u64>,
}

impl Talk {
    pub fn start(mut command: Command) -> Talk {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("setpriv (util-linux) is there");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Talk { child, stdin, lines, ignored: None }
    }

    pub fn line(&mut self) -> String {
        self.lines.recv_timeout(LIMIT).expect("a line within the time")
    }

    #[track_caller]
    pub fn hears_line(&mut self, wanted: &str) {
        assert_eq!(self.line(), wanted);
    }

    pub fn says(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("it has an input"), "{line}").expect("it reads");
    }

    /// It sees the end of its input.
    pub fn says_no_more(&mut self) {
        self.stdin = None;
    }

    pub fn object(&mut self) -> Value {
        loop {
            let object = parsed(&self.line());
            if !self.is_ignored(&object) {
                return object;
            }
        }
    }

    fn is_ignored(&self, object: &Value) -> bool {
        self.ignored.is_some() && object["trap"].as_u64() == self.ignored
    }

    /// From now on notices of this number are passed over, of which there is at least one.
    pub fn hears_some_of(&mut self, trap: u64) {
        assert_eq!(number(&self.object()), trap);
        self.ignored = Some(trap);
    }

    /// So many objects, and then nothing.
    pub fn objects(&mut self, count: usize) -> Vec<Value> {
        let objects = (0..count).map(|_| self.object()).collect();
        let more = std::iter::from_fn(|| self.lines.recv_timeout(QUIET).ok());
        let more: Vec<Value> =
            more.map(|line| parsed(&line)).filter(|object| !self.is_ignored(object)).collect();
        assert!(more.is_empty(), "{objects:?} are followed by {more:?}");
        objects
    }

    /// Notices with these numbers, and then nothing.
    #[track_caller]
    pub fn hears(&mut self, traps: &[u64]) {
        let heard: Vec<u64> = self.objects(traps.len()).iter().map(number).collect();
        assert_eq!(heard, traps);
    }

    /// The same in any order.
    #[track_caller]
    pub fn hears_sorted(&mut self, traps: &[u64]) {
        let mut heard: Vec<u64> = self.objects(traps.len()).iter().map(number).collect();
        heard.sort();
        assert_eq!(heard, traps);
    }

    pub fn signal(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
        self.wait()
    }

    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().expect("ours") {
                return status;
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that ends on SIGINT, also where the tests do not: a shell starts what runs in the background so.
pub fn interruptible() -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT");
    command
}

/// Lets the time pass after which an equal notice is another one for sure.
pub fn equal_ones_may_come() {
    std::thread::sleep(APART);
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Trap number or device id.
fn number(object: &Value) -> u64 {
    assert_eq!(object["event"], "notice", "{object}");
    object["trap"].as_u64().or(object["device_id"].as_u64()).expect("it has a number")
}
