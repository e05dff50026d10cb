//! What an operator may do to `ibv-sa daemon`: it says what is wrong and what to do, and works once that is done.

#[path = "../../crates/sa-daemon/tests/common/mod.rs"]
mod common;
#[path = "../../crates/sa-daemon/tests/common/fabric.rs"]
mod fabric;
#[path = "sa_fabric/host.rs"]
mod host;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Client, Heard};
use host::{LIMIT, Talk, command};
use ibv_sa_tests::{Flavour, cc, need_root, sa_program, shim_dir};
use ibv_sa_wire::{Filter, Trap};
use rustix::process::{Pid, Signal, kill_process};

/// The port of the test double for libibumad.
const DEVICE: &str = "fake0";
const LOST: &str = " lines before it found no room)";
/// Of any line of the daemon's.
const BEGINNING: &str = "ibv-sa";
const PAGE: usize = 4096;

/// A directory of the daemon's, and the double.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { directory: tempfile::tempdir().expect("a directory") };
        let double = cc("crates/sa-daemon/tests/common/libibumad.c", &["-shared", "-fPIC"]);
        fs::copy(double, place.at("libibumad.so.3")).expect("room");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.at(name)).unwrap_or_default()).into_owned()
    }

    /// The command, after `before`.
    fn run(&self, before: &[String], socket: &Path, stderr: Stdio) -> Daemon {
        let child = mortal()
            .args(before)
            .arg(command())
            .args(["daemon", "--socket"])
            .arg(socket)
            .env("LD_LIBRARY_PATH", self.directory.path())
            .env("DOUBLE_DIR", self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .expect("setpriv (util-linux) is there");
        Daemon(child)
    }

    /// One that listens, and logs to `log`.
    fn daemon(&self, socket: &Path) -> Daemon {
        let daemon = self.run(&[], socket, File::create(self.at("log")).expect("a file").into());
        wait_for("the socket", || socket.exists());
        daemon
    }

    /// One that does not start, and why.
    fn refused(&self, before: &[String], socket: &Path) -> String {
        let file = File::create(self.at("refused")).expect("a file");
        let mut daemon = self.run(before, socket, file.into());
        assert_eq!(daemon.0.wait().expect("ours").code(), Some(125), "{}", self.text("refused"));
        self.text("refused")
    }
}

struct Daemon(Child);

impl Daemon {
    /// Ends it as systemd does.
    fn end(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it runs");
        assert_eq!(self.0.wait().expect("ours").code(), Some(0));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A mount namespace with a small file system of its own.
struct Small {
    holder: Talk,
}

impl Small {
    fn at(directory: &Path, options: &str) -> Small {
        need_root();
        let script = r#"mount -t tmpfs -o "$1" tmpfs "$0"; echo mounted; exec sleep 1000"#;
        let mut command = mortal();
        command.args(["unshare", "--mount", "--propagation", "private"]);
        command.args(["bash", "-ec", script]).arg(directory).arg(options);
        let mut holder = Talk::start(command);
        holder.hears_line("mounted");
        Small { holder }
    }

    /// What comes before a command that is to be in it.
    fn inside(&self) -> Vec<String> {
        ["nsenter".into(), format!("--mount=/proc/{}/ns/mnt", self.holder.child.id()), "--".into()].into()
    }

    fn remount(&self, directory: &Path, how: &str) {
        let inside = self.inside();
        let mut command = Command::new(&inside[0]);
        command.args(&inside[1..]).args(["mount", "-o", &format!("remount,{how}")]).arg(directory);
        assert!(command.status().expect("nsenter (util-linux) is there").success());
    }

    /// The same path, seen from outside.
    fn path(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.child.id()));
        root.join(path.strip_prefix("/").expect("an absolute path"))
    }
}

/// Runs what follows, which ends with the test, however that ends.
fn mortal() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    command
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Registers, which takes all of the daemon; and sends what is no message, which makes it log.
fn serves(socket: &Path) {
    Client::new(socket).registered(1, DEVICE, Filter::trap(Trap(64)));
    let bad = Client::connect(socket);
    bad.send_bytes(&[1, 2, 3]);
    assert_eq!(bad.hear(LIMIT), Heard::Closed);
}

#[test]
fn a_second_daemon_names_the_first_and_takes_its_place_later() {
    let place = Place::new();
    let socket = place.at("sa.sock");
    let said =
        format!("ibv-sa: error: {}: a daemon is running there; ibv-sa status shows it\n", socket.display());
    let first = place.daemon(&socket);
    let client = Client::new(&socket);
    assert_eq!(place.refused(&[], &socket), said);
    client.registered(1, DEVICE, Filter::trap(Trap(64)));
    first.end();
    let second = place.daemon(&socket);
    serves(&socket);
    second.end();
}

#[test]
fn a_directory_that_is_missing_is_made_and_all_is_well() {
    let place = Place::new();
    let socket = place.at("missing/sa.sock");
    let said = place.refused(&[], &socket);
    assert_eq!(
        said,
        format!(
            "ibv-sa: error: {}: its directory: No such file or directory (os error 2); make the directory, \
             mode 0755\n",
            socket.display()
        )
    );
    fs::create_dir(place.at("missing")).expect("ours");
    let daemon = place.daemon(&socket);
    serves(&socket);
    daemon.end();
}

#[test]
fn a_user_without_the_right_is_told_where_to_turn() {
    let place = Place::new();
    let (socket, inside) = (place.at("sa.sock"), ["setpriv", "--reuid=1001", "--clear-groups", "--"]);
    need_root();
    std::fs::set_permissions(place.directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("ours");
    assert_eq!(
        place.refused(&inside.map(String::from), &socket),
        format!(
            "ibv-sa: error: {}.lock: its lock: Permission denied (os error 13); start it as root, or name a \
             place of this user with --socket\n",
            socket.display()
        )
    );
}

#[test]
fn another_program_has_the_port() {
    let place = Place::new();
    let socket = place.at("sa.sock");
    fs::write(place.at("taken"), "").expect("a file");
    let daemon = place.daemon(&socket);
    let mut program = mortal();
    program
        .arg(sa_program("ctests/sa/told.c", Flavour::Release, &[]))
        .args([DEVICE, "1"])
        .env("IBV_SA_SOCKET", &socket);
    program.env("LD_LIBRARY_PATH", shim_dir(Flavour::Release));
    let mut program = Talk::start(program);
    program.hears_line(
        "-16: refused: too many registrations, no room at the SA, or another program has the port",
    );
    let monitor = || {
        let mut monitor = mortal();
        monitor
            .arg(command())
            .args(["monitor", "--json", "--device", DEVICE, "--trap", "64", "--socket"])
            .arg(&socket);
        monitor
    };
    // One that comes later is told at once, and not when the daemon tries again.
    let told = monitor().output().expect("it runs");
    assert_eq!(told.status.code(), Some(125), "{told:?}");
    let busy =
        "too many registrations of this user, or another program receives the SA's reports at this port";
    assert_eq!(String::from_utf8_lossy(&told.stderr), format!("ibv-sa: error: {DEVICE}/1: busy: {busy}\n"));
    let remedy = "fake0/1: another program receives the reports of the SA at this port: end it, such as another daemon \
                  or srp_daemon; the port is tried again\n";
    assert!(place.text("log").contains(&format!("ibv-sa: error: {remedy}")), "{}", place.text("log"));
    // It is ended.
    fs::remove_file(place.at("taken")).expect("it is there");
    program.hears_line("0: active");
    assert!(program.wait().success());
    assert_eq!(Talk::start(monitor()).object()["status"], 0);
    daemon.end();
}

#[test]
fn a_directory_without_room_or_that_is_read_only() {
    let place = Place::new();
    let directory = place.at("small");
    fs::create_dir(&directory).expect("ours");
    // The directory, and nothing more.
    let small = Small::at(&directory, "size=16k,nr_inodes=1,mode=755");
    let socket = directory.join("sa.sock");
    let (inside, seen) = (small.inside(), small.path(&socket));
    let said = |why: &str, remedy: &str| {
        format!("ibv-sa: error: {}.lock: its lock: {why}; {remedy}\n", socket.display())
    };
    assert_eq!(
        place.refused(&inside, &socket),
        said("No space left on device (os error 28)", "make room there, or name another place with --socket")
    );
    // Not even room for the socket beside its lock.
    small.remount(&directory, "nr_inodes=2");
    let beside = place.refused(&inside, &socket);
    assert!(
        beside.contains("sa.sock: bind: No space left on device (os error 28); make room there"),
        "{beside}"
    );
    small.remount(&directory, "nr_inodes=8");
    let log = || File::create(place.at("log")).expect("a file").into();
    let daemon = place.run(&inside, &socket, log());
    wait_for("the socket", || seen.exists());
    serves(&seen);
    // The directory, the lock and the socket: the daemon needs no more.
    small.remount(&directory, "nr_inodes=3");
    serves(&seen);
    small.remount(&directory, "nr_inodes=8");
    // It is killed, and the next one finds what it has left where nothing can be written.
    drop(daemon);
    small.remount(&directory, "ro");
    assert_eq!(
        place.refused(&inside, &socket),
        said("Read-only file system (os error 30)", "name a place that can be written to with --socket")
    );
    small.remount(&directory, "rw");
    let daemon = place.run(&inside, &socket, log());
    wait_for("somebody who listens", || {
        std::os::unix::net::UnixStream::connect(&seen)
            .is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::PROTOTYPE.raw_os_error()))
    });
    serves(&seen);
    daemon.end();
    assert!(!seen.exists());
}

#[test]
fn a_log_without_room_stops_nobody() {
    let place = Place::new();
    let socket = place.at("sa.sock");
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    let daemon = place.run(&[], &socket, full.into());
    wait_for("the socket", || socket.exists());
    for _ in 0..20 {
        serves(&socket);
    }
    daemon.end();

    let directory = place.at("small");
    fs::create_dir(&directory).expect("ours");
    let small = Small::at(&directory, "size=4k,mode=755");
    let (log, filler) = (small.path(&directory.join("log")), small.path(&directory.join("filler")));
    let file = File::options().create(true).append(true).open(&log).expect("a file");
    fs::write(&filler, "all of it").expect("the only page");
    let daemon = place.run(&[], &socket, file.into());
    wait_for("the socket", || socket.exists());
    serves(&socket);
    assert_eq!(fs::read_to_string(&log).expect("a file"), "");
    fs::remove_file(&filler).expect("it is there");
    let text = || fs::read_to_string(&log).expect("a file");
    // A line of a kind comes once a second.
    let comes = |what: &str, done: &dyn Fn(&str) -> bool| {
        wait_for(what, || {
            serves(&socket);
            done(&text())
        });
    };
    comes("a line", &|text| text.contains(LOST));
    // The page ends in the middle of a line.
    let padding = "x".repeat(PAGE - BEGINNING.len() - 1 - text().len());
    let mut file = File::options().append(true).open(&log).expect("a file");
    writeln!(file, "{padding}").expect("there is room");
    comes("half a line", &|text| text.len() == PAGE);
    assert!(text().ends_with(BEGINNING));
    small.remount(&directory, "size=16k");
    comes("a line", &|text| text.matches(LOST).count() == 2);
    let after = text().split_off(PAGE);
    assert!(after.starts_with("\nibv-sa: "), "{after}");
    daemon.end();
}
