//! SA notices end to end: OpenSM on a simulated fabric, `ibv-sa daemon` as root with a clean environment, and programs of
//! other users without a single capability. What OpenSM wrote into its log is what must have come.

#[path = "../../crates/sa-daemon/tests/common/mod.rs"]
mod common;
#[path = "../../crates/sa-daemon/tests/common/fabric.rs"]
mod fabric;
#[path = "sa_fabric/host.rs"]
mod host;

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::{Client, Heard};
use host::{DEVICE, Host, LIMIT, QUIET, Talk, command, equal_ones_may_come, interruptible};
use ibv_sa_tests::{cc, need_root};
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

    host.fabric.unlink("Hca3");
    some.hears(&[65]);
    all.hears(&[128, 65]);
    let mut late = host.monitor(THIRD, &["--trap", "gid-in-service"]);
    equal_ones_may_come();
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

    // How often a port with a second SM says so, and when the last time, is the SM's.
    root.hears_sorted(&[64, 65, 66, 67, 128, 128]);
    host.fabric.script("sm", &["second", "Hca2"]);
    all.hears_some_of(144);
    root.hears_some_of(144);
    host.fabric.script("smstop", &["second"]);

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
    let mut watchers = [ONE, OTHER].map(|uid| host.c_program(uid, "ctests/examples/gid_watch.c"));
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

/// The SA still has what the dead one had asked for: it is taken over, and nothing comes twice.
#[test]
fn a_daemon_that_is_killed_is_followed_by_another() {
    let mut host = Host::new();
    let mut watcher = host.c_program(ONE, "ctests/examples/gid_watch.c");
    let two = |what: &str, watcher: &mut Talk| {
        for _ in 0..2 {
            let line = watcher.line();
            assert!(line.starts_with(what), "{line}");
        }
    };
    two("registration active (", &mut watcher);
    host.fabric.wait_for_subscriptions(&["64", "65"]);
    host.kill();
    two("registration lost (", &mut watcher);
    assert_eq!(host.fabric.subscriptions(), ["64", "65"]);
    host.start();
    two("registration active (", &mut watcher);
    assert_eq!(host.fabric.subscriptions(), ["64", "65"]);
    host.fabric.unlink("Hca3");
    watcher.hears_line(&format!("GID out of service: {HCA3}"));
    host.fabric.relink("Hca3");
    watcher.hears_line(&format!("GID in service: {HCA3}"));
    watcher.signal(Signal::TERM);
    host.fabric.wait_for_subscriptions(&[]);
}

#[test]
fn the_path_cache_follows_a_real_fabric() {
    let host = Host::new();
    let mut cache = host.c_program(ONE, "ctests/examples/path_cache.c");
    for _ in 0..2 {
        cache.hears_line("cache emptied: registration active");
    }
    for (gid, answer) in [(HCA3, "asked for"), (HCA3, "known"), ("fe80::10:3", "asked for")] {
        cache.says(gid);
        cache.hears_line(&format!("{gid}: {answer}"));
    }
    host.fabric.unlink("Hca3");
    cache.hears_line("entry dropped: GID out of service");
    host.fabric.relink("Hca3");
    cache.hears_line("not cached: GID in service");
    for (gid, answer) in [(HCA3, "asked for"), ("fe80::10:3", "known")] {
        cache.says(gid);
        cache.hears_line(&format!("{gid}: {answer}"));
    }
    cache.says_no_more();
    assert!(cache.wait().success());
    host.fabric.wait_for_subscriptions(&[]);
}

/// Notices of a real OpenSM; the device's own events are the scripted provider's.
#[test]
fn one_loop_serves_notices_device_and_completions() {
    let host = Host::new();
    let mut program = host.c_program(OTHER, "ctests/sa/one_loop.c");
    program.hears_line("SA: registration active: active");
    host.fabric.unlink("Hca3");
    program.hears_line("SA: link state changed: look again");
    program.hears_line("SA: GID out of service: look again");
    for (word, line) in [("async", "device: event_type 9"), ("completion", "completion: wr_id 42")] {
        program.says(word);
        program.hears_line(line);
    }
    equal_ones_may_come();
    host.fabric.relink("Hca3");
    program.hears_line("SA: link state changed: look again");
    program.hears_line("SA: GID in service: look again");
    program.says("fatal");
    program.hears_line("device: event_type 8");
    program.hears_line("end");
    assert!(program.wait().success());
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
        let run = host.fabric.command("run", &all);
        let mut command = interruptible();
        command
            .arg(run.get_program())
            .args(run.get_args())
            .stdin(Stdio::null())
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
    // Allocators take and give in steps: the least of the last third against the most of the first.
    let (mut first, mut last) = ((0, 0), (usize::MAX, u64::MAX));
    for id in 1..=rounds {
        client.registered(id, DEVICE, Filter::trap(Trap(64 + (id % 4) as u16)));
        client.unregister(id);
        assert_eq!(client.hear(LIMIT), Heard::Unregistered(id));
        if id % (rounds / 30) != 0 {
            continue;
        }
        if id < rounds / 3 {
            first = (first.0.max(descriptors()), first.1.max(memory()));
        } else if id > rounds / 3 * 2 {
            last = (last.0.min(descriptors()), last.1.min(memory()));
        }
    }
    assert_eq!(last.0, first.0, "descriptors");
    assert!(last.1 <= first.1 + 512, "{} kB grew to {} kB", first.1, last.1);
    host.fabric.wait_for_subscriptions(&[]);
    let end = Instant::now() + LIMIT;
    while !host.status()["ports"].as_array().expect("a list").is_empty() {
        assert!(Instant::now() < end, "the port stays open: {}", host.status());
        std::thread::sleep(QUIET);
    }
}

/// The same of a program's library: in its own process, and with two users at once.
#[test]
fn programs_register_and_free_and_nothing_is_left() {
    let rounds = if std::env::var_os("SOAK").is_some() { "10000" } else { "1000" };
    let host = Host::new();
    let mut programs =
        [ONE, OTHER].map(|uid| host.c_program_with(uid, "ctests/sa/rounds.c", &[rounds, "100"]));
    for program in &mut programs {
        let end = Instant::now() + 30 * LIMIT;
        while program.child.try_wait().expect("ours").is_none() && Instant::now() < end {
            std::thread::sleep(QUIET);
        }
        program.hears_line("good");
        assert!(program.wait().success());
    }
    let status = host.status();
    // Who asks is one.
    assert_eq!(status["clients"].as_array().map(Vec::len), Some(1), "{status}");
    host.fabric.wait_for_subscriptions(&[]);
}

/// A test that is killed leaves no SM and no daemon behind.
#[test]
fn a_fabric_ends_with_who_started_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = r#"
fabric=$1/testbed/sa/fabric.sh
WATCH_PID=$$ "$fabric" start "$2" "$1/testbed/sa/four.net"
"$fabric" sm "$2" second Hca2
"$fabric" run "$2" Hca3 sleep 1000 &
echo ready
wait
"#;
    let mut command = Command::new("bash");
    command.args(["-ec", script, "bash"]).arg(ibv_sa_tests::root()).arg(directory.path());
    let mut talk = Talk::start(command);
    talk.hears_line("ready");
    let mark = format!("FABRIC_DIR={}", directory.path().display());
    let running = || {
        let all = std::fs::read_dir("/proc").expect("mounted").map_while(Result::ok);
        let environments = all.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
        environments.filter(|all| all.split(|byte| *byte == 0).any(|one| one == mark.as_bytes())).count()
    };
    let until = |what: &str, enough: &dyn Fn(usize) -> bool| {
        let end = Instant::now() + LIMIT;
        while !enough(running()) {
            assert!(Instant::now() < end, "{what}: {} run", running());
            std::thread::sleep(QUIET);
        }
    };
    until("ibsim, two SMs and a program", &|number| number >= 4);
    talk.signal(Signal::KILL);
    until("none", &|number| number == 0);
}

/// The kernel's own refusal, where the daemon would be asked: a device as it looks to libibumad, with the rights that
/// udev gives it.
#[test]
fn without_the_daemon_the_same_users_are_refused() {
    need_root();
    let directory = tempfile::tempdir().expect("a directory");
    let at = |path: &str| directory.path().join(path);
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("ours");
    std::fs::copy(command(), at("ibv-sa")).expect("room");
    let preload = cc("testbed/sa/elsewhere.c", &["-shared", "-fPIC", "-ldl"]);
    std::fs::copy(preload, at("elsewhere.so")).expect("room");
    let port = "sys/class/infiniband/fake0/ports/1";
    for (path, text) in [
        ("sys/class/infiniband_mad/abi_version", "5"),
        ("sys/class/infiniband_mad/umad0/ibdev", "fake0"),
        ("sys/class/infiniband_mad/umad0/port", "1"),
        ("sys/class/infiniband/fake0/node_type", "1: CA"),
        ("sys/class/infiniband/fake0/fw_ver", "1"),
        ("sys/class/infiniband/fake0/hca_type", "1"),
        ("sys/class/infiniband/fake0/hw_rev", "1"),
        ("sys/class/infiniband/fake0/node_guid", "0000:0000:0010:0006"),
        ("sys/class/infiniband/fake0/sys_image_guid", "0000:0000:0010:0006"),
        (&*format!("{port}/lid"), "0x1"),
        (&*format!("{port}/lid_mask_count"), "0"),
        (&*format!("{port}/sm_lid"), "0x1"),
        (&*format!("{port}/sm_sl"), "0"),
        (&*format!("{port}/state"), "4: ACTIVE"),
        (&*format!("{port}/phys_state"), "5: LinkUp"),
        (&*format!("{port}/rate"), "10 Gb/sec (4X)"),
        (&*format!("{port}/cap_mask"), "0x0"),
        (&*format!("{port}/link_layer"), "InfiniBand"),
        (&*format!("{port}/gids/0"), "fe80:0000:0000:0000:0000:0000:0010:0007"),
        (&*format!("{port}/pkeys/0"), "0xffff"),
        ("dev/infiniband/umad0", ""),
    ] {
        let path = at(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("room");
        std::fs::write(path, format!("{text}\n")).expect("room");
    }
    std::fs::set_permissions(at("dev/infiniband/umad0"), PermissionsExt::from_mode(0o600)).expect("ours");
    for uid in [0, ONE, OTHER] {
        let output = Command::new("setpriv")
            .args([format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".into(), "--".into()])
            .arg(at("ibv-sa"))
            .args(["monitor", "--device", "fake0", "--timeout", "20"])
            .env_clear()
            .env("LD_PRELOAD", at("elsewhere.so"))
            .env("ELSEWHERE", directory.path())
            .stdin(Stdio::null())
            .output()
            .expect("setpriv (util-linux) is there");
        let text = String::from_utf8_lossy(&output.stderr);
        // Root gets as far as the file, which is no device.
        let wanted =
            if uid == 0 { "fake0/1: umad: Inappropriate ioctl" } else { "fake0/1: umad: Permission denied" };
        assert!(text.contains(wanted), "user {uid}: {text}");
        assert_eq!(output.status.code(), Some(125), "user {uid}: {text}");
    }
}
