//! What `ibv_sa_*` says on stderr: a daemon that is missing or wrong, and calls that wait for acks.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ibv_sa_tests::{
    FLAVOURS, Outcome, Run, ScriptedDaemon, need_root, sa_program, scripted, scripted_dir, shim, shim_dir,
};

/// No channel can be made: the errno, and the lines for the two attempts.
#[track_caller]
fn refused(errno: i32, prepare: impl Fn(&ScriptedDaemon, Run) -> Run, check: impl Fn(&Outcome)) {
    for flavour in FLAVOURS {
        let daemon = ScriptedDaemon::start();
        let run = daemon.program("create", flavour).arg(errno.to_string());
        let outcome = prepare(&daemon, run).run().assert_ok();
        assert_eq!(outcome.stdout, "good\n", "{outcome}");
        check(&outcome);
    }
}

#[track_caller]
fn one_line(outcome: &Outcome, parts: &[&str]) {
    assert_eq!((outcome.shim_lines().len(), outcome.stderr.lines().count()), (1, 1), "{outcome}");
    for part in parts {
        assert!(outcome.stderr.contains(part), "{part:?}: {outcome}");
    }
}

#[test]
fn no_socket_and_nobody_behind_it() {
    let command = ["no daemon for SA notices", "sa.sock", "`ibv-sa daemon`"];
    refused(
        2,
        |daemon, run| {
            daemon.command("stop");
            run
        },
        |outcome| one_line(outcome, &command),
    );
    let nobody = |daemon: &ScriptedDaemon, run: Run| {
        // A socket that was left behind.
        let path = daemon.socket();
        daemon.command("stop");
        drop(std::os::unix::net::UnixDatagram::bind(&path).expect("a socket"));
        run
    };
    // Of another kind.
    let kept = |daemon: &ScriptedDaemon, run: Run| {
        let path = daemon.socket();
        daemon.command("stop");
        std::mem::forget(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
        run
    };
    refused(111, nobody, |outcome| one_line(outcome, &["Connection refused", "`ibv-sa daemon`"]));
    refused(71, kept, |_| {});
}

/// Paths at which no daemon can be.
#[test]
fn what_is_no_socket() {
    for (path, errno, why) in [
        ("/etc/passwd", 111, "/etc/passwd: Connection refused"),
        ("/etc", 111, "/etc: Connection refused"),
        ("/etc/passwd/sa.sock", 2, "/etc/passwd/sa.sock: Not a directory"),
        ("/dev/null", 111, "/dev/null: Connection refused"),
    ] {
        refused(errno, |_, run| run.env("IBV_SA_SOCKET", path), |outcome| one_line(outcome, &[why]));
    }
    // Where the library was started from is nobody's to say: the default counts.
    for path in ["sa.sock", "./sa.sock", "../../etc/passwd"] {
        let check = |outcome: &Outcome| {
            assert_eq!(outcome.shim_lines().len(), 2, "{outcome}");
            assert!(outcome.stderr.contains("is not an absolute path"), "{outcome}");
            assert!(outcome.stderr.contains("(/run/ibv_sa/sa.sock: No such file"), "{outcome}");
        };
        refused(2, |_, run| run.env("IBV_SA_SOCKET", path), check);
    }
}

#[test]
fn a_daemon_that_refuses() {
    let prepare = |daemon: &ScriptedDaemon, run| {
        daemon.command("greet refuse 16 too many channels");
        run
    };
    refused(16, prepare, |outcome| {
        assert_eq!(outcome.shim_lines().len(), 2, "{outcome}");
        assert!(outcome.stderr.contains("the daemon refuses this program: too many channels"), "{outcome}");
    });
    let version = |daemon: &ScriptedDaemon, run| {
        daemon.command("greet refuse 93 version 7 only");
        run
    };
    refused(93, version, |outcome| assert!(outcome.stderr.contains("version 7 only"), "{outcome}"));
}

#[test]
fn a_daemon_that_is_none() {
    for how in ["greet garbage", "greet version 2"] {
        let prepare = |daemon: &ScriptedDaemon, run| {
            daemon.command(how);
            run
        };
        refused(71, prepare, |outcome| assert!(outcome.stderr.contains("another protocol"), "{outcome}"));
    }
}

#[test]
fn a_daemon_that_is_silent() {
    let prepare = |daemon: &ScriptedDaemon, run: Run| {
        daemon.command("greet silent");
        run
    };
    refused(110, prepare, |outcome| assert_eq!(outcome.stderr, "", "{outcome}"));
}

#[test]
fn a_daemon_of_another_user_is_not_used() {
    need_root();
    // The daemon is root's: another user may use it. To make it foreign the program's own user is changed and so is
    // who listens; a socket that nobody's user listens at is not for root.
    for flavour in FLAVOURS {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("chmod");
        let socket = dir.path().join("sa.sock");
        // It has its name when it listens.
        let listen = "socket(S, AF_UNIX, SOCK_SEQPACKET, 0); bind(S, sockaddr_un(\"$ARGV[0].new\")); \
                      listen(S, 9); rename(\"$ARGV[0].new\", $ARGV[0]); sleep 60";
        let mut listener = std::process::Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "perl", "-MSocket", "-e", listen])
            .arg(&socket)
            .spawn()
            .expect("setpriv");
        let end = Instant::now() + Duration::from_secs(20);
        while !socket.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let outcome = Run::new(sa_program("ctests/sa/create.c", flavour, &[]))
            .arg("13")
            .library_path(shim_dir(flavour))
            .library_path(scripted_dir())
            .env("IBV_SA_SOCKET", &socket)
            .run();
        let _ = listener.kill();
        let _ = listener.wait();
        let outcome = outcome.assert_ok();
        assert!(outcome.stderr.contains("served by user 65534"), "{outcome}");
    }
}

#[test]
fn a_call_that_waits_says_for_whom() {
    for (call, what) in [
        ("free", "ibv_sa_free_id: trap 65 GID out of service at ibsim0/1"),
        ("destroy", "ibv_sa_destroy_event_channel: channel fd "),
    ] {
        for flavour in FLAVOURS {
            let run = |who: &str, time: &str| {
                let daemon = ScriptedDaemon::start();
                let run =
                    daemon.program("waits", flavour).args([call, who, time]).env("IBV_SA_HANG_SECS", "1");
                let outcome = run.run().assert_ok();
                assert_eq!(outcome.stdout, "good\n", "{outcome}");
                outcome
            };
            assert_eq!(run("other", "100").stderr, "");
            let told = run("other", "1500");
            one_line(
                &told,
                &[
                    what,
                    "(caller) has waited for 1.",
                    "GID out of service, taken by thread ",
                    "(waits-",
                    "is not acknowledged; call ibv_sa_ack_event",
                ],
            );
            let own = run("self", "100");
            one_line(
                &own,
                &[
                    what,
                    "(caller) took GID out of service itself 0.0 s ago",
                    "never returns; call ibv_sa_ack_event first",
                ],
            );
        }
    }
}

/// A user's own daemon, below XDG_RUNTIME_DIR: only if that directory is the user's alone.
#[test]
fn a_daemon_of_ones_own() {
    assert!(!Path::new("/run/ibv_sa/sa.sock").exists(), "a daemon of the system would be found first");
    for flavour in FLAVOURS {
        let daemon = ScriptedDaemon::start();
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("ibv_sa")).expect("a folder");
        let socket = dir.path().join("ibv_sa/sa.sock");
        std::os::unix::fs::symlink(daemon.socket(), &socket).expect("a link");
        let run = |program: &str, args: &[&str]| {
            let run = daemon.program(program, flavour).args(args);
            run.env("IBV_SA_SOCKET", "").env("XDG_RUNTIME_DIR", dir.path()).run().assert_ok()
        };
        let mode = |mode| {
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).expect("chmod");
        };
        mode(0o700);
        assert_eq!(run("basic", &[]).stderr, "");
        for wrong in [0o755, 0o770, 0o1700] {
            mode(wrong);
            one_line(&run("create", &["2"]), &["(/run/ibv_sa/sa.sock: No such file", "`ibv-sa daemon`"]);
        }
        mode(0o700);
        std::fs::remove_file(&socket).expect("the link");
        // Too long for a socket's address.
        let long = dir.path().join("x".repeat(100));
        std::fs::create_dir(&long).expect("a folder");
        std::fs::set_permissions(&long, std::fs::Permissions::from_mode(0o700)).expect("chmod");
        let create = daemon.program("create", flavour).arg("2").env("IBV_SA_SOCKET", "");
        one_line(&create.env("XDG_RUNTIME_DIR", long).run().assert_ok(), &["sa.sock: File name too long"]);
        let both = run("create", &["2"]);
        one_line(&both, &["(/run/ibv_sa/sa.sock: No such file", "ibv_sa/sa.sock: No such file"]);
    }
}

/// A program of another user needs the right to connect, and no other.
#[test]
fn a_program_without_privilege() {
    need_root();
    for flavour in FLAVOURS {
        let daemon = ScriptedDaemon::start();
        let dir = daemon.socket().parent().expect("a folder").to_path_buf();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
        };
        set(&dir, 0o755);
        for (name, socket) in [("libibv_sa.so.1", shim(flavour)), ("libibverbs.so.1", scripted())] {
            std::fs::copy(socket, dir.join(name)).expect("a copy");
        }
        let run = |program: &str, args: &[&str]| {
            let from = sa_program(&format!("ctests/sa/{program}.c"), flavour, &[]);
            std::fs::copy(from, dir.join(program)).expect("a copy");
            let run = Run::new("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            let run = daemon.with_daemon(run.arg(dir.join(program)).args(args).library_path(&dir));
            let outcome = run.run().assert_ok();
            assert_eq!((&*outcome.stdout, &*outcome.stderr), ("good\n", ""), "{outcome}");
        };
        set(&daemon.socket(), 0o600);
        run("create", &["13"]);
        set(&daemon.socket(), 0o666);
        set(&dir.join("control.sock"), 0o666);
        run("basic", &[]);
    }
}

/// In a program with more rights than its user the environment names no socket.
#[test]
fn a_privileged_program() {
    need_root();
    for flavour in FLAVOURS {
        let daemon = ScriptedDaemon::start();
        let dir = daemon.socket().parent().expect("a folder").to_path_buf();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
        };
        set(&dir, 0o755);
        std::fs::copy(shim(flavour), dir.join("libibv_sa.so.1")).expect("a copy");
        let path = format!("-Wl,-rpath,{}", dir.display());
        let program = dir.join("create");
        std::fs::copy(sa_program("ctests/sa/create.c", flavour, &[&path]), &program).expect("a copy");
        set(&program, 0o4755);
        let run = Run::new("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        let outcome = daemon.with_daemon(run.arg(&program).arg("2")).run().assert_ok();
        one_line(&outcome, &["(/run/ibv_sa/sa.sock: No such file", "`ibv-sa daemon`"]);
    }
}
