//! `ibv-sa daemon --policy` and `--check`: policy files that are right, and those that are not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ibv_sa_samples::{Random, mutate, scaled};
use ibv_sa_tests::{Outcome, Run, path, product};

fn ibv_sa(args: &[&str]) -> Run {
    Run::new(product("build/release/ibv-sa", "make build/release/ibv-sa")).args(args)
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, PermissionsExt::from_mode(0o644)).expect("ours");
}

fn check(path: &Path) -> Outcome {
    ibv_sa(&["daemon", "--check"]).arg(path).run()
}

#[test]
fn check_says_what_a_file_means() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("policy.toml");
    // As a checkout has it: its mode and owner are whatever they are.
    write(&file, &fs::read_to_string(path("docs/policy.toml")).expect("the example"));
    let outcome = check(&file).assert_ok();
    assert_eq!(outcome.stderr, "");
    for line in [
        &format!("{}: a policy\n", file.display()),
        "\n  line 22: deny user 65534: everything at all ports\n",
        "\n  line 38: deny everybody: vendors' notices at all ports\n",
        "\n  otherwise: user 0 may have everything, everybody else everything but traps 256 to 259\n",
        "\nEach user may have 256 connections, 16384 registrations,",
        ": 64 registrations, 65536 notices that wait\n",
    ] {
        assert!(outcome.stdout.contains(line), "{line:?}: {outcome}");
    }
}

#[test]
fn each_mistake_is_a_line_with_its_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("policy.toml");
    let name = file.display();
    write(&file, "[limits]\nqueued = 0\n[[rule]]\nusers = [\"no such user\"]\naction = \"dney\"\n");
    let lines = format!(
        "ibv-sa: error: {name}:2:10: queued = 0: no number from 1 to 16777216\n\
         ibv-sa: error: {name}:4:10: user \"no such user\": this host knows none; look at the spelling, or write \
         its number\n\
         ibv-sa: error: {name}:5:10: action = \"dney\": neither \"allow\" nor \"deny\"\n"
    );
    let outcome = check(&file);
    assert_eq!((outcome.code, &*outcome.stdout, &*outcome.stderr), (Some(2), "", &*lines), "{outcome}");
    // No daemon starts with it, and it leaves no socket.
    let socket = dir.path().join("sa.sock");
    let outcome = ibv_sa(&["daemon", "--socket"]).arg(&socket).arg("--policy").arg(&file).run();
    assert_eq!((outcome.code, &*outcome.stdout, &*outcome.stderr), (Some(125), "", &*lines), "{outcome}");
    assert!(!socket.exists());
}

/// A file that somebody has spoilt is a policy still, or each mistake is a line with a place that the file has.
#[test]
fn no_spoilt_file_does_more_than_be_refused() {
    const WORDS: &[&str] = &["users", "limits", "0", "-1", "[", "\"", "\n[[rule]]\n", "\nlimits = 3\n"];
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("policy.toml");
    let name = file.display();
    let example = fs::read_to_string(path("docs/policy.toml")).expect("the example");
    let mut random = Random::new(3);
    let (mut good, mut lines) = (0, 0);
    for round in 0..scaled(120) {
        let bytes = match round % 3 {
            0 => mutate::bytes(&mut random, example.as_bytes(), &[]),
            _ => mutate::text(&mut random, &example, WORDS).into_bytes(),
        };
        fs::write(&file, &bytes).expect("a file");
        fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("ours");
        let outcome = check(&file);
        if outcome.code == Some(0) {
            assert!(outcome.stderr.is_empty() && outcome.stdout.contains(": a policy\n"), "{outcome}");
            good += 1;
            continue;
        }
        assert_eq!((outcome.code, &*outcome.stdout), (Some(2), ""), "{outcome}");
        let of_file = String::from_utf8_lossy(&bytes).split('\n').count();
        for line in outcome.stderr.lines() {
            let rest = line.strip_prefix(&format!("ibv-sa: error: {name}:"));
            let place: Vec<&str> = rest.unwrap_or_default().splitn(3, ':').collect();
            let numbers: Vec<usize> = place.iter().take(2).filter_map(|one| one.parse().ok()).collect();
            assert!(numbers.len() == 2 && (1..=of_file).contains(&numbers[0]) && numbers[1] > 0, "{outcome}");
            lines += 1;
        }
        assert!(!outcome.stderr.is_empty(), "{outcome}");
    }
    assert!(good > 0 && lines > 60, "{good} policies, {lines} lines");
}

#[test]
fn a_file_that_others_may_write_or_that_is_missing_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("policy.toml");
    let name = file.display();
    let socket = dir.path().join("sa.sock");
    let refused = |words: &str| {
        let line = format!("ibv-sa: error: {name}: {words}\n");
        let checked = check(&file);
        assert_eq!((checked.code, &*checked.stderr), (Some(2), &*line), "{checked}");
        let started = ibv_sa(&["daemon", "--socket"]).arg(&socket).arg("--policy").arg(&file).run();
        assert_eq!((started.code, &*started.stderr), (Some(125), &*line), "{started}");
    };
    refused("No such file or directory (os error 2)");
    write(&file, "");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o664)).expect("ours");
    refused("others than its owner may write to it (mode 0664); chmod go-w");
}

#[test]
fn check_stands_alone() {
    for more in [["--policy", "/a"], ["--socket", "/a"]] {
        let outcome = ibv_sa(&["daemon", "--check", "/b"]).args(more).run();
        assert_eq!((outcome.code, &*outcome.stdout), (Some(2), ""), "{outcome}");
        assert!(outcome.stderr.contains("cannot be used with"), "{outcome}");
    }
}

/// As a service: it starts with the file, reads it again on SIGHUP, and keeps what it has when that is wrong.
#[test]
fn sighup_reads_the_file_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (socket, file, log) =
        (dir.path().join("sa.sock"), dir.path().join("policy.toml"), dir.path().join("log"));
    write(&file, "");
    let mut daemon = std::process::Command::new("systemd-socket-activate")
        .arg("--seqpacket")
        .arg(format!("--listen={}", socket.display()))
        .arg(product("build/release/ibv-sa", "make build/release/ibv-sa"))
        .args(["daemon", "--policy", "policy.toml"])
        .current_dir(dir.path())
        .stderr(fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("systemd-socket-activate (package systemd) is there");
    let pid = rustix::process::Pid::from_child(&daemon);
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !done() {
            assert!(std::time::Instant::now() < end, "{what} did not happen");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    let logged = |words: &str| fs::read_to_string(&log).expect("a file").matches(words).count();
    let reload = |words: &str| {
        let before = logged(words);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it runs");
        wait(words, &|| logged(words) > before);
    };
    wait("listening", &|| socket.exists());
    let status = || ibv_sa(&["status"]).env("IBV_SA_SOCKET", &socket).run();
    let first = status().assert_ok();
    assert!(first.stdout.contains(&format!("\npolicy: {}\n", file.display())), "{first}");
    let own = rustix::process::getuid().as_raw();
    write(&file, &format!("rule = [{{ users = [{own}], action = 'deny' }}]"));
    reload("the policy was read from");
    let refused = status();
    assert_eq!(refused.code, Some(125), "{refused}");
    assert!(refused.stderr.contains("refused: not allowed by the policy"), "{refused}");
    write(&file, "rule = 1");
    reload(":1:1: [rule]: no list of tables");
    assert_eq!(status().code, Some(125));
    write(&file, "");
    reload("the policy was read from");
    status().assert_ok();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert!(daemon.wait().expect("ours").success());
}
