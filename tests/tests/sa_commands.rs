//! What `ibv-sa daemon`, `monitor` and `status` say of themselves and of wrong arguments, where there is no fabric.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ibv_sa_tests::{Outcome, Run, path, product};

fn ibv_sa(args: &[&str]) -> Run {
    Run::new(product("build/release/ibv-sa", "make build/release/ibv-sa")).args(args)
}

#[track_caller]
fn assert_fails(run: Run, code: i32, words: &[&str]) -> Outcome {
    let run = run.run();
    assert_eq!((run.code, &*run.stdout), (Some(code), ""), "{run}");
    for word in words {
        assert!(run.stderr.contains(word), "{word:?}: {run}");
    }
    assert!(run.stderr.lines().all(|line| line.chars().count() < 400), "{run}");
    run
}

#[test]
fn help_teaches_and_the_manual_has_the_same_flags() {
    for (command, page) in
        [("daemon", "ibv-sa-daemon.8"), ("monitor", "ibv-sa-monitor.1"), ("status", "ibv-sa-status.1")]
    {
        let help = ibv_sa(&[command, "--help"]).run().assert_ok().stdout;
        assert!(help.lines().all(|line| line.chars().count() <= 110), "{help}");
        for words in ["Exit status:", "125", "Examples:", "See also: ibv-sa-", "[env: IBV_SA_SOCKET]"] {
            assert!(help.contains(words), "{words:?}: {help}");
        }
        let manual =
            fs::read_to_string(path(format!("man/{page}.md"))).expect("the manual").replace('\\', "");
        let flags = |text: &str| {
            let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
            let flags = words.filter(|word| word.len() > 3 && word.starts_with("--") && *word != "--now");
            flags.map(String::from).collect::<std::collections::BTreeSet<String>>()
        };
        assert_eq!(flags(&help), flags(&manual), "{command}");
    }
    // Each trap that has a name is in the manual's list.
    let manual = fs::read_to_string(path("man/ibv-sa-monitor.1.md")).expect("the manual");
    for number in ["64", "69", "128", "131", "144", "145", "256", "259"] {
        assert!(manual.lines().any(|line| line.trim_start().starts_with(&format!("{number}  "))), "{number}");
    }
}

#[test]
fn wrong_arguments_are_named_with_a_remedy() {
    for (args, words) in [
        (&["--trap", "gid"][..], ["gid", "gid-out-of-service"]),
        (&["--trap", "65536"], ["65536", "0 to 65535"]),
        (&["--gid", "7"], ["7", "fe80::10:7"]),
        (&["--gid", "::", "--device", "a"], ["--gid", "GID 0"]),
        (&["--port", "1"], ["--port", "--device"]),
        (&["--device", "a", "--port", "0"], ["0", "1..=255"]),
        (&["--device", "a/b"], ["a/b", "device name"]),
        (&["--count", "0"], ["0", "1.."]),
        (&["--timeout=-1"], ["-1", "seconds"]),
        (&["--timeout", "0"], ["0", "seconds"]),
        (&["--socket", "sa.sock"], ["sa.sock", "absolute path"]),
    ] {
        assert_fails(ibv_sa(&[&["monitor"], args].concat()), 2, &words);
    }
    assert_fails(ibv_sa(&["daemon", "--socket", "x"]), 2, &["absolute path"]);
    assert_fails(ibv_sa(&["status", "--socket", "x"]), 2, &["absolute path"]);
    for command in ["daemon", "status"] {
        assert_fails(
            ibv_sa(&[command]).env("IBV_SA_SOCKET", "x"),
            125,
            &["IBV_SA_SOCKET=\"x\"", "absolute path"],
        );
    }
}

#[test]
fn without_a_daemon() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("sa.sock");
    let name = socket.to_str().expect("a plain path");
    for args in [&["status"][..], &["monitor", "--device", "none0"]] {
        let words = [name, "No such file", "ibv-sa daemon"];
        assert_fails(ibv_sa(args).args(["--socket", name]), 125, &words);
        assert_fails(ibv_sa(args).env("IBV_SA_SOCKET", name), 125, &words);
    }
    // Left behind by a daemon that died; something that is no socket of this kind.
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    assert_fails(ibv_sa(&["status", "--socket", name]), 125, &["refused", "ibv-sa daemon"]);
    fs::remove_file(&socket).expect("ours");
    let other = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    assert_fails(ibv_sa(&["status", "--socket", name]), 125, &[name, "wrong type"]);
    drop(other);
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("missing/sa.sock");
    let daemon = |socket: &std::path::Path| ibv_sa(&["daemon", "--socket"]).arg(socket);
    assert_fails(daemon(&missing), 125, &["missing", "No such file", "make the directory"]);
    let taken = dir.path().join("taken");
    fs::write(&taken, "precious").expect("a file");
    assert_fails(daemon(&taken), 125, &["taken", "remove it by hand"]);
    assert_eq!(fs::read_to_string(&taken).expect("still there"), "precious");
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).expect("ours");
    assert_fails(daemon(&dir.path().join("sa.sock")), 125, &["others may write there", "chmod go-w"]);
}

#[test]
fn a_daemon_that_hangs_hangs_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("sa.sock");
    let name = socket.to_str().expect("a plain path");
    let fd = rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET, None)
        .expect("a socket");
    rustix::net::bind(&fd, &rustix::net::SocketAddrUnix::new(&socket).expect("a path")).expect("bound");
    rustix::net::listen(&fd, 0).expect("it listens");
    let words = [name, "does not answer within 5 seconds"];
    assert_fails(ibv_sa(&["status", "--socket", name]), 125, &words);
    // Its queue is full now.
    assert_fails(ibv_sa(&["monitor", "--device", "a0", "--socket", name]), 125, &words);
}

/// As systemd starts it: it listens, the first program starts the daemon, and SIGTERM ends it.
#[test]
fn the_socket_may_come_from_systemd() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("sa.sock");
    let command = product("build/release/ibv-sa", "make build/release/ibv-sa");
    let mut daemon = std::process::Command::new("systemd-socket-activate")
        .arg("--seqpacket")
        .arg(format!("--listen={}", socket.display()))
        .arg(command)
        .arg("daemon")
        .stderr(fs::File::create(dir.path().join("log")).expect("a file"))
        .spawn()
        .expect("systemd-socket-activate (package systemd) is there");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !socket.exists() {
        assert!(std::time::Instant::now() < end, "nobody listens");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let status = ibv_sa(&["status", "--json"]).env("IBV_SA_SOCKET", &socket).run().assert_ok();
    let status: serde_json::Value = serde_json::from_str(&status.stdout).expect("JSON");
    assert_eq!(status["pid"], daemon.id());
    let pid = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert!(daemon.wait().expect("ours").success());
    let log = fs::read_to_string(dir.path().join("log")).expect("a file");
    assert!(log.contains("ibv-sa: version"), "{log}");
}
