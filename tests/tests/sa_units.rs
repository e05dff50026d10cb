//! The units for systemd as `make install` puts them, looked at by systemd's own tools.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ibv_sa_tests::{Outcome, Run, path, root, tool};

/// 10 is a service that may do everything. More than this, and something was taken out.
const MOST_EXPOSED: f64 = 1.7;

/// What `make install` has put below a directory.
struct Installed(tempfile::TempDir);

impl Installed {
    fn new() -> Installed {
        let stage = tempfile::tempdir().expect("a directory");
        // With another library directory the command would be built anew.
        let libdir =
            std::fs::read_to_string(path("build/libdir")).expect("make build/release/ibv-sa wrote it");
        let run = Run::new(tool("make")).args(["--no-print-directory", "-s", "install"]).dir(root());
        let run = run.arg(format!("DESTDIR={}", stage.path().display())).arg("PREFIX=/usr");
        let outcome =
            run.arg(format!("LIBDIR={}", libdir.trim())).timeout(std::time::Duration::from_secs(300)).run();
        outcome.assert_ok();
        Installed(stage)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A unit, with its command where it is now.
    fn resolved(&self, directory: &Path, name: &str) -> PathBuf {
        let text = std::fs::read_to_string(self.at("usr/lib/systemd/system").join(name)).expect("installed");
        let text = text.replace("ExecStart=/", &format!("ExecStart={}/", self.0.path().display()));
        let unit = directory.join(name);
        std::fs::write(&unit, text).expect("room");
        unit
    }
}

fn analyze(args: &[&str]) -> Run {
    Run::new("systemd-analyze").args(args)
}

#[track_caller]
fn assert_clean(outcome: Outcome) {
    let outcome = outcome.assert_ok();
    assert_eq!((&*outcome.stdout, &*outcome.stderr), ("", ""), "{outcome}");
}

#[test]
fn installed_units_are_right_and_bounded() {
    let installed = Installed::new();
    let units = tempfile::tempdir().expect("a directory");
    let [service, socket] =
        ["ibv-sa.service", "ibv-sa.socket"].map(|name| installed.resolved(units.path(), name));
    let verify = |man: PathBuf| analyze(&["verify"]).arg(&service).arg(&socket).env("MANPATH", man).run();
    // With the manual pages that they name.
    assert_clean(verify(installed.at("usr/share/man")));
    // It would have been seen.
    let missing = verify(units.path().into());
    assert!(missing.code != Some(0) || missing.stderr.contains("ibv-sa-daemon(8)"), "{missing}");

    let outcome = analyze(&["security", "--offline=true", "--no-pager"]).arg(&service).run().assert_ok();
    let level = outcome.stdout.lines().find_map(|line| line.split("Overall exposure level for ").nth(1));
    let level = level.and_then(|line| line.split_whitespace().nth(1)).expect("a level");
    let level: f64 = level.parse().unwrap_or_else(|error| panic!("{level}: {error}"));
    assert!(level > 0.0 && level <= MOST_EXPOSED, "the unit is exposed at {level}: {outcome}");

    let made = units.path().join("root");
    let run = Run::new("systemd-tmpfiles").arg("--create").arg(format!("--root={}", made.display()));
    assert_clean(run.arg(installed.at("usr/lib/tmpfiles.d/ibv-sa.conf")).run());
    let mode = std::fs::metadata(made.join("run/ibv_sa")).expect("made").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);

    // What the manual names.
    assert!(installed.at("usr/share/doc/libibv_sa/operators.md").is_file());
    // The socket that the unit makes is where programs look for it.
    let text = std::fs::read_to_string(&socket).expect("ours");
    assert!(text.lines().any(|line| line == "ListenSequentialPacket=/run/ibv_sa/sa.sock"), "{text}");
    let daemon = std::fs::read_to_string(path("man/ibv-sa-daemon.8.md")).expect("the manual");
    assert!(daemon.contains("*/run/ibv_sa/sa.sock*"));
}
