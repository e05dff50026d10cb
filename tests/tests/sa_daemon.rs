//! `ibv_sa_*` and `ibv-sa daemon` itself, without any port: what has to do with connections alone.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ibv_sa_tests::{FLAVOURS, Flavour, Run, product, sa_program, scripted_dir, shim_dir};

const LIMIT: Duration = Duration::from_secs(20);

/// `ibv-sa daemon` at a socket of its own; killed with this.
struct Daemon {
    child: Child,
    dir: tempfile::TempDir,
}

impl Daemon {
    fn start() -> Daemon {
        let dir = tempfile::tempdir().expect("a directory");
        let child = Daemon::run(dir.path());
        Daemon { child, dir }
    }

    fn run(dir: &Path) -> Child {
        let ibv_sa = product("build/release/ibv-sa", "make build/release/ibv-sa");
        let socket = dir.join("sa.sock");
        let mut child = Command::new(ibv_sa)
            .args(["daemon", "--socket"])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let end = Instant::now() + LIMIT;
        // Somebody listens, with another type of socket.
        let other = Some(rustix::io::Errno::PROTOTYPE.raw_os_error());
        while UnixStream::connect(&socket).is_err_and(|error| error.raw_os_error() != other) {
            assert!(Instant::now() < end, "the daemon does not listen");
            assert_eq!(child.try_wait().expect("ours"), None, "the daemon has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("sa.sock")
    }

    fn program(&self, name: &str, flavour: Flavour) -> Run {
        Run::new(sa_program(&format!("ctests/sa/{name}.c"), flavour, &[]))
            .library_path(shim_dir(flavour))
            .library_path(scripted_dir())
            .env("IBV_SA_SOCKET", self.socket())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Killed without warning, again and again, while a program does everything at once.
#[test]
fn a_daemon_that_is_killed_during_everything() {
    for flavour in FLAVOURS {
        let mut daemon = Daemon::start();
        let mut program = Command::new("timeout")
            .args(["--signal=ABRT", "120"])
            .arg(sa_program("ctests/sa/storm.c", flavour, &[]))
            .env("LD_LIBRARY_PATH", format!("{}:{}", shim_dir(flavour).display(), scripted_dir().display()))
            .env("IBV_SA_SOCKET", daemon.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = [0; 6];
        let mut stdout = program.stdout.take().expect("a pipe");
        stdout.read_exact(&mut said).expect("the program begins");
        assert_eq!(&said, b"ready\n");
        for round in 0..20 {
            std::thread::sleep(Duration::from_millis(20 * (round % 5)));
            daemon.child.kill().expect("ours");
            daemon.child.wait().expect("ours");
            std::thread::sleep(Duration::from_millis(10 * (round % 3)));
            daemon.child = Daemon::run(daemon.dir.path());
        }
        std::thread::sleep(Duration::from_millis(100));
        drop(program.stdin.take());
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).expect("text");
        let output = program.wait_with_output().expect("ours");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        assert_eq!(rest, "good\n", "{text}");
        assert!(text.lines().all(|line| line.contains("no daemon for SA notices")), "{text}");
    }
}

/// The number is the daemon's limit of one user's connections.
#[test]
fn too_many_channels_of_a_user() {
    for flavour in FLAVOURS {
        let daemon = Daemon::start();
        let run = daemon.program("crowd", flavour).arg("256").timeout(Duration::from_secs(120));
        let outcome = run.run().assert_ok();
        assert_eq!(outcome.stdout, "good\n", "{outcome}");
        let lines = outcome.shim_lines();
        assert!(lines.len() >= 2, "{outcome}");
        assert!(lines.iter().all(|line| line.contains("the daemon refuses this program: ")), "{outcome}");
    }
}
