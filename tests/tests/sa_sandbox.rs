//! The daemon within the bounds of its service unit, on a simulated fabric, with programs of other users: it needs
//! nothing that the unit refuses, and the unit refuses what it should.
//!
//! `testbed/sa/sandbox.py` reads the unit and does what it says. These things need systemd as process 1 and are not
//! tried: that devices are refused by the control group (here nodes that the unit does not name are missing), that IP
//! packets are, the restart after a failure, and the order with the units that load kernel modules. umad2sim plays the
//! umad device, so that no ioctl(2) of the kernel's is seen; and names of users come from files, not from a service
//! that the host may have for them.

#[path = "../../crates/sa-daemon/tests/common/mod.rs"]
mod common;
#[path = "../../crates/sa-daemon/tests/common/fabric.rs"]
mod fabric;
#[path = "sa_fabric/host.rs"]
mod host;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use host::{Host, LIMIT, equal_ones_may_come};
use ibv_sa_tests::path;
use rustix::process::{Pid, Signal, kill_process};
use wait_timeout::ChildExt;

const ONE: u32 = 1001;
const OTHER: u32 = 1002;

/// The service unit with the command there, and this after it.
fn unit(directory: &Path, command: &Path, more: &str) -> PathBuf {
    let text = std::fs::read_to_string(path("systemd/ibv-sa.service.in")).expect("the unit");
    let text = text.replace("@BINDIR@", command.to_str().expect("a plain path"));
    let begin = text.find("ExecStart=").expect("it starts something");
    let end = begin + text[begin..].find('\n').expect("a line");
    let unit = directory.join("ibv-sa.service");
    std::fs::write(&unit, format!("{}{more}{}", &text[..end], &text[end..])).expect("room");
    unit
}

fn setting(unit: &str, name: &str) -> String {
    let text = std::fs::read_to_string(path(unit)).expect("the unit");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("{unit} has no {name}")).to_owned()
}

/// What `fabric.sh run` gives a program so that it sees the simulated port.
fn simulation(host: &Host) -> Vec<String> {
    let output =
        host.fabric.command("run", &["Hca4", "env", "-0"]).env("GMP", "1").output().expect("bash is there");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("plain text");
    let ours = ["SIM_", "IBSIM_", "FABRIC_DIR=", "LD_PRELOAD="];
    let all = text.split('\0').filter(|one| ours.iter().any(|name| one.starts_with(name)));
    let all: Vec<String> = all.map(String::from).collect();
    assert_eq!(all.len(), 5, "{all:?}");
    all
}

/// Waits for the first program, and then becomes the daemon.
struct Activated {
    child: Child,
    log: PathBuf,
}

impl Activated {
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Activated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("in the sandbox:\n{}", self.log());
        }
    }
}

fn activate(host: &Host, unit: &Path) -> Activated {
    let log = host.public().join("sandboxed.log");
    let run = host.fabric.path().join("run");
    let mut command = Command::new("systemd-socket-activate");
    command.arg("--seqpacket").arg(format!("--listen={}", host.socket().display()));
    // The fabric ends, with the test, who has this.
    command.arg(format!("--setenv=FABRIC_DIR={}", host.fabric.path().display()));
    command.env("FABRIC_DIR", host.fabric.path());
    command.arg(path("testbed/sa/sandbox.py")).arg("--strict");
    command.arg("--keep").arg(host.fabric.path()).arg("--see").arg(host.public()).arg("--directory").arg(run);
    command.args(simulation(host).iter().map(|one| format!("--setenv={one}")));
    let child = command
        .arg(unit)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("systemd-socket-activate (package systemd) is there");
    let end = Instant::now() + LIMIT;
    while !host.socket().exists() {
        assert!(Instant::now() < end, "nobody listens");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mode = u32::from_str_radix(&setting("systemd/ibv-sa.socket", "SocketMode"), 8).expect("a mode");
    std::fs::set_permissions(host.socket(), std::os::unix::fs::PermissionsExt::from_mode(mode))
        .expect("ours");
    Activated { child, log }
}

#[test]
fn the_daemon_needs_nothing_that_its_unit_refuses() {
    let mut host = Host::new();
    host.stop();
    let policy = host.public().join("policy.toml");
    std::fs::write(&policy, "rule = [{ groups = ['root'], traps = ['all'], action = 'allow' }]\n")
        .expect("room");
    let unit = unit(host.public(), host.public(), &format!(" --policy {}", policy.display()));
    let mut daemon = activate(&host, &unit);

    // The first one starts it.
    let mut monitors =
        [(ONE, &["--trap", "65"][..]), (OTHER, &[])].map(|(uid, args)| host.monitor(uid, args));
    let mut watcher = host.c_program(ONE, "ctests/examples/gid_watch.c");
    for _ in 0..2 {
        let line = watcher.line();
        assert!(line.starts_with("registration active ("), "{line}");
    }
    let status = host.status();
    assert_eq!(status["pid"], daemon.child.id(), "{status}");
    assert_eq!(status["policy"], policy.to_str().expect("a plain path"), "{status}");
    host.fabric.unlink_and_see("Hca3");
    monitors[0].hears(&[65]);
    monitors[1].hears_sorted(&[65, 128]);
    watcher.hears_line("GID out of service: fe80::10:7");

    // It is where the unit wants it.
    let about =
        |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", daemon.child.id())).expect("it runs");
    let (rights, limits, mounts) = (about("status"), about("limits"), about("mountinfo"));
    let umask = setting("systemd/ibv-sa.service.in", "UMask");
    for line in ["CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(rights.lines().any(|one| one == line), "{line:?}: {rights}");
    }
    assert!(rights.contains(&format!("Umask:\t{umask}")), "{rights}");
    let most = setting("systemd/ibv-sa.service.in", "LimitNOFILE");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    assert_eq!(files.split_whitespace().skip(3).collect::<Vec<_>>(), [&*most, &most, "files"]);
    let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).expect("a root");
    assert!(root.split(' ').nth(5).expect("options").split(',').any(|option| option == "ro"), "{root}");

    // Another policy, by the unit's own way to say so.
    std::fs::write(&policy, format!("rule = [{{ users = ['root', {OTHER}], action = 'deny' }}]\n"))
        .expect("room");
    let reload = setting("systemd/ibv-sa.service.in", "ExecReload");
    let reload = reload.replace("$MAINPID", &daemon.child.id().to_string());
    assert!(Command::new("sh").args(["-c", &reload]).status().expect("a shell").success());
    let end = Instant::now() + LIMIT;
    while !daemon.log().contains("the policy was read") {
        assert!(Instant::now() < end, "no reload: {}", daemon.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut refused = host.as_user(OTHER, &host.public().join("ibv-sa"));
    let refused = refused.arg("status").output().expect("it runs");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("not allowed by the policy"), "{text}");
    equal_ones_may_come();
    host.fabric.relink("Hca3");
    watcher.hears_line("GID in service: fe80::10:7");
    monitors[1].hears(&[]);

    kill_process(Pid::from_child(&daemon.child), Signal::TERM).expect("it runs");
    let status = daemon.child.wait_timeout(LIMIT).expect("ours").expect("it ends");
    assert_eq!(status.code(), Some(0), "{status}: {}", daemon.log());
    host.fabric.wait_for_subscriptions(&[]);
    assert!(host.socket().exists(), "it is systemd's to remove");
}

/// Tries each thing and prints what became of it.
const PROBE: &str = r#"
import ctypes, errno, json, mmap, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def refused(what):
    try:
        result = what()
        return "" if result is None or not isinstance(result, int) or result >= 0 else errno.errorcode[ctypes.get_errno()]
    except OSError as error:
        return errno.errorcode[error.errno]
print(json.dumps({name: refused(what) for name, what in {
    "a file of its own": lambda: open("/tmp/x", "w").close(),
    "a unix socket": lambda: socket.socket(socket.AF_UNIX).close(),
    "/etc": lambda: open("/etc/x", "w"),
    "/usr": lambda: open("/usr/x", "w"),
    "/run": lambda: open("/run/x", "w"),
    "what is seen": lambda: open(sys.argv[1] + "/x", "w"),
    "/root": lambda: os.listdir("/root"),
    "/home": lambda: os.listdir("/home"),
    "others' files in /tmp": lambda: os.stat(sys.argv[2]),
    "sysctl": lambda: open("/proc/sys/kernel/panic", "r+"),
    "/sys": lambda: open("/sys/kernel/profiling", "r+"),
    "kernel log": lambda: open("/proc/kmsg"),
    "kernel log, call": lambda: libc.syscall(103, 3, 0, 0),
    "memory": lambda: open("/dev/mem"),
    "disk": lambda: open("/dev/vda"),
    "IPv4": lambda: socket.socket(socket.AF_INET),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "memory to write and execute": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC),
    "mount": lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
    "namespace": lambda: libc.unshare(0x20000000),
    "another user": lambda: os.setuid(1),
    "another owner": lambda: os.chown("/tmp/x", 1, 1),
    "set-ID file": lambda: os.chmod("/tmp/x", 0o4755),
    "host name": lambda: libc.sethostname(b"x", 1),
    "clock": lambda: libc.syscall(227, 0, (ctypes.c_long * 2)(0, 0)),
    "realtime": lambda: libc.sched_setscheduler(0, 1, ctypes.byref(ctypes.c_int(1))),
    "personality": lambda: libc.personality(8),
    "module": lambda: libc.syscall(313, -1, b"", 0),
    "ptrace": lambda: libc.ptrace(0, 0, 0, 0),
    "reboot": lambda: libc.reboot(0),
}.items()}))
"#;

#[test]
fn the_unit_refuses_what_the_daemon_does_not_need() {
    ibv_sa_tests::need_root();
    let directory = tempfile::tempdir().expect("a directory");
    let other = tempfile::NamedTempFile::new().expect("a file");
    let unit = unit(directory.path(), directory.path(), "");
    let output = Command::new(path("testbed/sa/sandbox.py"))
        .arg("--see")
        .arg(directory.path())
        .arg(&unit)
        .args(["/usr/bin/python3", "-c", PROBE])
        .arg(directory.path())
        .arg(other.path())
        .output()
        .expect("python3 is there");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found = found.as_object().expect("names");
    assert_eq!(found.len(), 30);
    let free = ["a file of its own", "a unix socket"];
    let wrong: Vec<_> =
        found.iter().filter(|(name, result)| free.contains(&&***name) != (**result == "")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // And for the reason that is meant.
    for (name, reason) in [
        ("/etc", "EROFS"),
        ("what is seen", "EROFS"),
        ("/root", "EACCES"),
        ("IPv4", "EAFNOSUPPORT"),
        ("disk", "ENOENT"),
    ] {
        assert_eq!(found[name], reason, "{name}");
    }
}

/// Where it is not known what a setting means, nothing is said to have been tried.
#[test]
fn a_setting_that_cannot_be_tried_is_told() {
    ibv_sa_tests::need_root();
    let directory = tempfile::tempdir().expect("a directory");
    for setting in ["ReadWritePaths=/etc", "PrivateDevices=yes", "ProtectProc=invisible"] {
        let unit = unit(directory.path(), directory.path(), &format!("\n{setting}"));
        let output = Command::new(path("testbed/sa/sandbox.py"))
            .arg(&unit)
            .arg("true")
            .output()
            .expect("python3 is there");
        let text = String::from_utf8_lossy(&output.stderr);
        let name = setting.split('=').next().expect("a name");
        assert!(!output.status.success() && text.contains(name), "{setting}: {text}");
    }
}
