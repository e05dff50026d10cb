//! SA notices end to end: OpenSM on a simulated fabric, `ibv-sa daemon` as root with a clean environment, and programs of
//! other users without a single capability. What OpenSM wrote into its log is what must have come.

#[path = "../../crates/sa-daemon/tests/common/mod.rs"]
mod common;
#[path = "../../crates/sa-daemon/tests/common/fabric.rs"]
mod fabric;
#[path = "sa_fabric/host.rs"]
mod host;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Client, Heard};
use host::{DEVICE, Host, LIMIT, QUIET, Talk, command};
use ibv_sa_tests::{Flavour, sa_program};
use ibv_sa_wire::mad::{Method, Notice, NoticeType, Producer};
use ibv_sa_wire::{Filter, Gid, Trap};
use rustix::process::Signal;

/// Of Hca3, which leaves and comes back.
const HCA3: &str = "fe80::10:7";
const ONE: u32 = 1001;
const OTHER: u32 = 1002;
const THIRD: u32 = 1003;

#[test]
fn users_without_rights_get_what_they_want_of_one_opensm() {
    let host = Host::new();
    let mut some = host.monitor(ONE, &["--trap", "64", "--trap", "65"]);
    let mut all = host.monitor(OTHER, &[]);
    let mut root = host.monitor(0, &["--trap", "all"]);
    let mut hca3 = host.monitor(THIRD, &["--gid", HCA3]);
    let mut nobody = host.monitor(THIRD, &["--gid", "fe80::10:77"]);
    // ALL beside others stands alone.
    host.fabric.wait_for_subscriptions(&["0xFFFF", "65535"]);
    // Until the SA's table was looked at, a notice that follows an equal one could be the same.
    std::thread::sleep(Duration::from_secs(6));

    host.fabric.unlink("Hca3");
    some.hears(&[65]);
    all.hears(&[128, 65]);
    let mut late = host.monitor(THIRD, &["--trap", "gid-in-service"]);
    host.fabric.relink("Hca3");
    some.hears(&[64]);
    all.hears(&[128, 64]);
    // Nothing is replayed for who comes late.
    late.hears(&[64]);
    hca3.hears(&[65, 64]);

    let group: Gid = "ff12:401b:ffff::99".parse().expect("a GID");
    host.fabric.group(group, Method::SET);
    host.fabric.group(group, Method::DELETE);
    let groups = all.objects(2);
    let told: Vec<_> = groups.iter().map(|one| (one["trap"].as_u64(), one["gid"].as_str())).collect();
    let group = group.to_string();
    assert_eq!(told, [(Some(66), Some(&*group)), (Some(67), Some(&*group))]);

    host.fabric.script("sm", &["second", "Hca2"]);
    let capabilities = all.traps();
    assert!(capabilities.iter().all(|trap| *trap == 144), "{capabilities:?}");
    host.fabric.script("smstop", &["second"]);
    all.traps();

    root.traps();
    let mut injected: Vec<Notice> = [145, 256, 257, 258, 259]
        .map(|number| Notice::generic(NoticeType::SECURITY, Producer::CA, Trap(number)))
        .into();
    injected.push(Notice::vendor(NoticeType::INFORMATIONAL, 0x00_1234, 77));
    host.fabric.inject(&injected);
    root.hears_sorted(&[77, 145, 256, 257, 258, 259]);
    // Keys are for administrators.
    all.hears_sorted(&[77, 145]);
    for other in [&mut some, &mut hca3, &mut nobody] {
        other.hears(&[]);
    }

    // OpenSM itself says that this is all there was.
    let log = |text: &str| host.fabric.logged(text);
    assert_eq!(log("Reporting Informational Notice \"GID out of service\", GID:fe80::10:7"), 1);
    assert_eq!(log("Reporting Informational Notice \"GID in service\", GID:fe80::10:7"), 1);

    let status = host.status();
    let owners = &status["ports"][0]["subscriptions"][1]["owners"];
    let users: Vec<_> =
        owners.as_array().expect("a list").iter().map(|owner| owner["uid"].as_u64()).collect();
    assert_eq!(users, [ONE, OTHER, 0, THIRD, THIRD, THIRD].map(|uid| Some(u64::from(uid))), "{status}");

    // However a program ends, nothing of it stays.
    assert_eq!(all.signal(Signal::KILL).code(), None);
    drop((root, hca3, nobody, late));
    host.fabric.wait_for_subscriptions(&["64", "65"]);
    assert_eq!(some.signal(Signal::INT).code(), Some(0));
    host.fabric.wait_for_subscriptions(&[]);
}

#[test]
fn the_examples_in_c_share_one_opensm() {
    let mut host = Host::new();
    let example = |uid, name: &str| {
        let public = host.public().join(name);
        if !public.exists() {
            let program = sa_program(&format!("ctests/examples/{name}.c"), Flavour::Release, &[]);
            std::fs::copy(program, &public).expect("room");
        }
        let mut command = host.as_user(uid, &public);
        command.args([DEVICE, "1"]);
        Talk::start(command)
    };
    let mut watchers = [example(ONE, "gid_watch"), example(OTHER, "gid_watch")];
    let two = |talk: &mut Talk| {
        let mut lines = [talk.line(), talk.line()];
        lines.sort();
        lines
    };
    for watcher in &mut watchers {
        let active = ["registration active (in): active", "registration active (out): active"];
        assert_eq!(two(watcher), active);
    }
    host.fabric.wait_for_subscriptions(&["64", "65"]);
    host.fabric.unlink("Hca3");
    watchers.iter_mut().for_each(|one| assert_eq!(one.line(), format!("GID out of service: {HCA3}")));
    host.fabric.relink("Hca3");
    watchers.iter_mut().for_each(|one| assert_eq!(one.line(), format!("GID in service: {HCA3}")));

    // The daemon is started anew; programs see that they may have missed something, and go on.
    host.stop();
    assert_eq!(host.fabric.subscriptions(), [""; 0]);
    host.start();
    for watcher in &mut watchers {
        assert!(two(watcher).iter().all(|line| line.starts_with("registration lost (")));
        assert!(two(watcher).iter().all(|line| line.starts_with("registration active (")));
    }
    host.fabric.unlink("Hca3");
    watchers.iter_mut().for_each(|one| assert_eq!(one.line(), format!("GID out of service: {HCA3}")));
    drop(watchers);
    host.fabric.wait_for_subscriptions(&[]);
}

#[test]
fn a_monitor_waits_for_its_daemon() {
    let mut host = Host::new();
    let mut monitor = host.monitor(ONE, &["--trap", "65", "--count", "1", "--timeout", "60"]);
    host.stop();
    let lost = monitor.object();
    assert_eq!((&lost["event"], lost["status"].as_i64()), (&"status".into(), Some(-102)), "{lost}");
    host.start();
    assert_eq!(monitor.object()["status"], 0);
    host.fabric.unlink("Hca3");
    assert_eq!(monitor.object()["gid"], HCA3);
    assert_eq!(monitor.wait().code(), Some(0), "--count is reached");
    let run = |args: &[&str]| {
        let mut command = host.as_user(ONE, &host.public().join("ibv-sa"));
        command.args(["monitor", "--device", DEVICE]).args(args).output().expect("it runs")
    };
    assert_eq!(run(&["--trap", "66", "--timeout", "0.5", "--count", "1"]).status.code(), Some(1));
    assert_eq!(run(&["--trap", "66", "--timeout", "0.5"]).status.code(), Some(0));
    let keys = run(&["--trap", "257"]);
    assert_eq!(keys.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&keys.stderr).contains("are for root"), "{keys:?}");
    let wrong = run(&["--port", "7"]);
    assert_eq!(wrong.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("no such device or port"), "{wrong:?}");
}

#[test]
fn a_monitor_without_a_daemon_leaves_nothing_behind() {
    let mut host = Host::new();
    host.stop();
    let monitor = |args: &[&str]| {
        let ibv_sa = command();
        let mut all = vec!["Hca4", ibv_sa.to_str().expect("a plain path"), "monitor", "--device", DEVICE];
        all.extend(args);
        let mut command = host.fabric.command("run", &all);
        command
            .env_clear()
            .envs([("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("GMP", "1")])
            .stderr(Stdio::null());
        command
    };
    let mut talk = Talk::start(monitor(&["--json", "--trap", "65"]));
    assert_eq!(talk.object()["status"], 0);
    host.fabric.wait_for_subscriptions(&["65"]);
    host.fabric.unlink("Hca3");
    assert_eq!(talk.object()["gid"], HCA3);
    assert_eq!(talk.signal(Signal::INT).code(), Some(0));
    assert_eq!(host.fabric.subscriptions(), [""; 0]);
    // Nobody reads any more.
    host.fabric.relink("Hca3");
    let mut child = monitor(&["--json", "--trap", "64"]).stdout(Stdio::piped()).spawn().expect("it runs");
    host.fabric.wait_for_subscriptions(&["64"]);
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("ours").code(), Some(0));
    assert_eq!(host.fabric.subscriptions(), [""; 0]);
}

#[test]
fn registrations_come_and_go_and_nothing_is_left() {
    let rounds: u64 = if std::env::var_os("SOAK").is_some() { 10_000 } else { 1000 };
    let host = Host::new();
    let client = Client::new(&host.socket());
    let proc = |name: &str| format!("/proc/{}/{name}", host.daemon_pid());
    let descriptors = || std::fs::read_dir(proc("fd")).expect("it runs").count();
    let memory = || -> u64 {
        let status = std::fs::read_to_string(proc("status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    let mut before = None;
    for id in 1..=rounds {
        client.registered(id, DEVICE, Filter::trap(Trap(64 + (id % 4) as u16)));
        client.unregister(id);
        assert_eq!(client.hear(LIMIT), Heard::Unregistered(id));
        if id == rounds / 10 {
            before = Some((descriptors(), memory()));
        }
    }
    let (fds, kilobytes) = before.expect("more than ten rounds");
    assert_eq!(descriptors(), fds);
    assert!(memory() < kilobytes + 512, "{kilobytes} kB grew to {} kB", memory());
    host.fabric.wait_for_subscriptions(&[]);
    let end = Instant::now() + LIMIT;
    while !host.status()["ports"].as_array().expect("a list").is_empty() {
        assert!(Instant::now() < end, "the port stays open: {}", host.status());
        std::thread::sleep(QUIET);
    }
}

/// The kernel's own refusal, where the daemon would be asked: a device as it looks, with the rights that udev gives it.
#[test]
fn without_the_daemon_the_same_users_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("ours");
    let ibv_sa = directory.path().join("ibv-sa");
    std::fs::copy(command(), &ibv_sa).expect("room");
    let script = r#"set -e
mount -t tmpfs none /sys/class
mount -t tmpfs -o mode=755 none /dev/infiniband 2>/dev/null || { mkdir -p /dev/infiniband; made=1; }
port=/sys/class/infiniband/fake0/ports/1
mkdir -p $port/pkeys $port/gids /sys/class/infiniband_mad/umad0
echo 5 >/sys/class/infiniband_mad/abi_version
cd /sys/class/infiniband_mad/umad0; echo fake0 >ibdev; echo 1 >port
cd /sys/class/infiniband/fake0
echo '1: CA' >node_type; echo 1 >fw_ver; echo 1 >hca_type; echo 1 >hw_rev
echo 0000:0000:0010:0006 >node_guid; echo 0000:0000:0010:0006 >sys_image_guid
cd $port
echo 0x1 >lid; echo 0 >lid_mask_count; echo 0x1 >sm_lid; echo 0 >sm_sl; echo '4: ACTIVE' >state
echo '5: LinkUp' >phys_state; echo '10 Gb/sec (4X)' >rate; echo 0x0 >cap_mask; echo InfiniBand >link_layer
echo fe80:0000:0000:0000:0000:0000:0010:0007 >gids/0; echo 0xffff >pkeys/0
node=$1/umad0; mknod -m 600 $node c 231 0
if [ "$made" ]; then mount -t tmpfs -o mode=755 none /dev/infiniband; fi
ln -s $node /dev/infiniband/umad0
cd /
for uid in 0 1001 1002; do
  code=0
  setpriv --reuid=$uid --regid=$uid --clear-groups -- \
    env -i "$1/ibv-sa" monitor --device fake0 --timeout 5 2>&1 >/dev/null || code=$?
  echo "user $uid: $code"
done
"#;
    let output = Command::new("unshare")
        .args(["--mount", "bash", "-c", script, "bash"])
        .arg(directory.path())
        .stdin(Stdio::null())
        .output()
        .expect("unshare (util-linux) is there");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let refused = lines.iter().filter(|line| line.contains("fake0/1: umad: Permission denied")).count();
    assert_eq!(refused, 2, "{text}");
    for user in ["user 1001: 125", "user 1002: 125"] {
        assert!(lines.contains(&user), "{text}");
    }
    // Root gets as far as the kernel, which has no such device.
    assert!(text.contains("fake0/1: umad: No such device or address"), "{text}");
}
