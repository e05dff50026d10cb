//! The daemon under a policy file, with an SA in the same process.

mod common;

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::{Client, Heard, LIMIT};
use ibv_sa_daemon::engine::{Level, Settings};
use ibv_sa_daemon::policy::PolicyFile;
use ibv_sa_daemon::transport::embedded::{DEVICE, Embedded};
use ibv_sa_daemon::{Config, Daemon, Error, Reloader, Stopper};
use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::proto::{ClientMessage, Hello};
use ibv_sa_wire::{Filter, Gid, Trap};

const MEMBER: &str = "IBV_SA_TEST_MEMBER";
const SHORT: Duration = Duration::from_millis(100);

type Lines = Arc<Mutex<VecDeque<(Level, String)>>>;

struct Host {
    directory: tempfile::TempDir,
    sa: Embedded,
    lines: Lines,
    stopper: Stopper,
    reloader: Reloader,
    daemon: Option<JoinHandle<Result<(), Error>>>,
}

fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

fn write(path: &Path, policy: &str) {
    // In one step, as an editor does: the daemon may read at any moment.
    let new = path.with_extension("new");
    fs::write(&new, policy).expect("a file");
    fs::set_permissions(&new, PermissionsExt::from_mode(0o644)).expect("ours");
    fs::rename(&new, path).expect("a file");
}

impl Host {
    fn new(policy: &str) -> Host {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("policy.toml");
        write(&path, policy);
        let file = PolicyFile::named(&path);
        let (sa, lines) = (Embedded::default(), Lines::default());
        let (transport, log) = (sa.clone(), lines.clone());
        let mut daemon = Daemon::new(Config {
            socket: directory.path().join("sa.sock"),
            settings: Settings { linger: 50_000_000, ..Settings::default() },
            policy: file.policy().expect("a policy"),
            transport: Box::new(move |sink| {
                transport.attach(sink);
                Ok(Box::new(transport))
            }),
            log: Box::new(move |record| {
                log.lock().expect("no panic").push_back((record.level, record.text.clone()));
            }),
            signals: None,
        })
        .expect("it listens");
        let (stopper, reloader) = (daemon.stopper(), daemon.reload_from(file).expect("it watches"));
        let daemon = Some(std::thread::spawn(move || daemon.run()));
        Host { directory, sa, lines, stopper, reloader, daemon }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("sa.sock")
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("policy.toml")
    }

    /// Waits for that line.
    fn logs(&self, level: Level, words: &str) {
        let end = Instant::now() + LIMIT;
        loop {
            while let Some((is, text)) = self.lines.lock().expect("no panic").pop_front() {
                if is == level && text.contains(words) {
                    return;
                }
            }
            assert!(Instant::now() < end, "no line has {words:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn take(&self, policy: &str) {
        write(&self.path(), policy);
        self.reloader.reload();
        self.logs(Level::Info, "the policy was read from");
    }

    /// What a new connection hears first.
    fn greeting(&self) -> Heard {
        greeting(&self.socket())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.stopper.stop();
        if let Some(daemon) = self.daemon.take() {
            daemon.join().expect("no panic").expect("a clean end");
        }
    }
}

fn greeting(socket: &Path) -> Heard {
    let client = Client::connect(socket);
    client.send(&ClientMessage::Hello(Hello::default()));
    client.hear(LIMIT)
}

fn about(trap: u16, last: u8) -> Notice {
    let gid = Gid([0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    Notice::about_gid(Trap(trap), gid, 1, gid)
}

fn trap(number: u16) -> Filter {
    Filter { is_generic: Some(true), trap: Some(number), ..Filter::EVERYTHING }
}

#[test]
fn a_user_that_is_denied_everything_is_refused() {
    let own = own_uid();
    let host = Host::new(&format!("rule = [{{ users = [{own}], action = 'deny' }}]"));
    assert_eq!(host.greeting(), Heard::Refused(-libc::EACCES));
    host.logs(Level::Warning, "not allowed by the policy");
    host.take(&format!("rule = [{{ users = [{}], action = 'deny' }}]", own + 1));
    assert_eq!(host.greeting(), Heard::Welcome);
}

/// Not a test but a program of the next one.
#[test]
fn member_process() {
    let Some(socket) = std::env::var_os(MEMBER) else { return };
    assert_eq!(greeting(Path::new(&socket)), Heard::Refused(-libc::EACCES));
}

#[test]
fn a_member_of_a_group_is_known_by_its_process() {
    let own = rustix::process::getgid().as_raw();
    let host = Host::new(&format!("rule = [{{ groups = [{own}], action = 'deny' }}]"));
    assert_eq!(host.greeting(), Heard::Refused(-libc::EACCES), "the process's own group");
    // 77001 is none of ours, and among many of another process's.
    host.take("rule = [{ groups = [77001], action = 'deny' }]");
    assert_eq!(host.greeting(), Heard::Welcome);
    assert!(rustix::process::geteuid().is_root(), "only root may give a process groups: run this as root");
    let groups: Vec<String> = (76_900..=77_001).map(|group| group.to_string()).collect();
    let member = Command::new("setpriv")
        .arg(format!("--groups={}", groups.join(",")))
        .arg(std::env::current_exe().expect("it runs"))
        .args(["--exact", "member_process"])
        .env(MEMBER, host.socket())
        .output()
        .expect("setpriv (package util-linux) is there");
    assert!(member.status.success(), "{}", String::from_utf8_lossy(&member.stdout));
}

/// Who sends its Hello at once, or late, hears why all the same; and nobody who says nothing uses up the daemon.
#[test]
fn a_refusal_is_heard_whenever_hello_is_sent() {
    let host = Host::new(&format!("rule = [{{ users = [{}], action = 'deny' }}]", own_uid()));
    for _ in 0..200 {
        assert_eq!(host.greeting(), Heard::Refused(-libc::EACCES));
    }
    let descriptors = || fs::read_dir("/proc/self/fd").expect("ours").count();
    let late = Client::connect(&host.socket());
    std::thread::sleep(SHORT);
    late.send(&ClientMessage::Hello(Hello::default()));
    assert_eq!(late.hear(LIMIT), Heard::Refused(-libc::EACCES));
    assert_eq!(late.hear(LIMIT), Heard::Closed);
    let before = descriptors();
    let silent: Vec<Client> = (0..200).map(|_| Client::connect(&host.socket())).collect();
    for client in &silent {
        assert_eq!(client.hear(LIMIT), Heard::Refused(-libc::EACCES));
        assert_eq!(client.hear(LIMIT), Heard::Closed);
    }
    // Ours, and the few of them that the daemon keeps; other tests of this process have some, too.
    assert!(
        descriptors().saturating_sub(before) < 200 + 32 + 100,
        "{} descriptors",
        descriptors().saturating_sub(before)
    );
}

#[test]
fn traps_and_ports_that_are_denied_are_refused_and_not_delivered() {
    let host = Host::new(&format!(
        "rule = [
            {{ ports = ['{DEVICE}/1'], traps = [65], action = 'deny' }},
            {{ ports = ['other0'], action = 'deny' }},
        ]"
    ));
    let client = Client::new(&host.socket());
    client.register(1, DEVICE, trap(65), 0);
    assert_eq!(client.hear(LIMIT), Heard::Registered(1, -libc::EACCES));
    client.registered(2, DEVICE, trap(64));
    // All of what is left.
    let all = Client::new(&host.socket());
    all.registered(1, DEVICE, Filter::EVERYTHING);
    host.sa.happen(&about(65, 1));
    host.sa.happen(&about(64, 2));
    assert_eq!(all.hear(LIMIT), Heard::Notice(1, 1, about(64, 2)));
    assert_eq!(client.hear(LIMIT), Heard::Notice(2, 1, about(64, 2)));
}

#[test]
fn limits_are_those_of_the_file() {
    let own = own_uid();
    let host = Host::new(&format!(
        "limits = {{ registrations = 1 }}\noverride = [{{ users = [{own}], connections = 2, queued_per_connection = 77 }}]"
    ));
    let one = Client::new(&host.socket());
    let two = Client::connect(&host.socket());
    two.send(&ClientMessage::Hello(Hello::default()));
    assert_eq!(two.hear(LIMIT), Heard::Welcome);
    assert_eq!(host.greeting(), Heard::Refused(-libc::EBUSY));
    one.registered(1, DEVICE, trap(64));
    two.register(1, DEVICE, trap(64), 0);
    assert_eq!(two.hear(LIMIT), Heard::Registered(1, -libc::EBUSY));
}

#[test]
fn another_file_counts_at_once_and_a_broken_one_does_not() {
    let host = Host::new("");
    let client = Client::new(&host.socket());
    client.registered(1, DEVICE, trap(64));
    host.sa.happen(&about(64, 1));
    assert_eq!(client.hear(LIMIT), Heard::Notice(1, 1, about(64, 1)));
    let deny = "rule = [{ traps = [64], action = 'deny' }]";
    host.take(deny);
    host.sa.happen(&about(64, 2));
    assert_eq!(client.hear(SHORT), Heard::Nothing);
    client.register(2, DEVICE, trap(64), 0);
    assert_eq!(client.hear(LIMIT), Heard::Registered(2, -libc::EACCES));
    // Wrong in two ways, missing, writable by others: the rule above stays.
    let name = host.path().display().to_string();
    write(&host.path(), "rule = [\n{ traps = [64] },\n { action = 'maybe' }]");
    host.reloader.reload();
    host.logs(Level::Error, &format!("{name}:2:1: a rule without action"));
    host.logs(Level::Error, &format!("{name}:3:13: action = 'maybe'"));
    host.logs(Level::Error, "the policy stays what it was");
    fs::remove_file(host.path()).expect("ours");
    host.reloader.reload();
    host.logs(Level::Error, &format!("{name}: No such file"));
    write(&host.path(), "");
    fs::set_permissions(host.path(), PermissionsExt::from_mode(0o666)).expect("ours");
    host.reloader.reload();
    host.logs(Level::Error, "chmod go-w");
    client.register(3, DEVICE, trap(64), 0);
    assert_eq!(client.hear(LIMIT), Heard::Registered(3, -libc::EACCES));
    assert_eq!(host.greeting(), Heard::Welcome);
    // And what was registered all the time gets notices again.
    host.take("");
    host.sa.happen(&about(64, 3));
    assert!(matches!(client.hear(LIMIT), Heard::Notice(1, _, notice) if notice == about(64, 3)));
}

#[test]
fn the_status_names_the_file() {
    let host = Host::new("");
    let client = Client::new(&host.socket());
    let path = format!("\"policy\":\"{}\"", host.path().display());
    assert!(client.status().contains(&path));
}
