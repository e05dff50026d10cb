//! Programs with more rights than their user: the user's environment steers nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ibv_sa_tests::{FLAVOURS, Flavour, Outcome, Run, cc, need_root, path, scripted, shim, tool};

const NOBODY: &str = "65534";

/// A folder that everybody may enter, with a folder `out` where everybody may write.
fn open_to_all() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions can be set");
    };
    set(dir.path(), 0o755);
    fs::create_dir(dir.path().join("out")).expect("a folder");
    set(&dir.path().join("out"), 0o1777);
    dir
}

/// A copy that belongs to root, with this mode.
fn copy(from: &Path, to: PathBuf, mode: u32) -> PathBuf {
    fs::copy(from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    fs::set_permissions(&to, fs::Permissions::from_mode(mode)).expect("permissions can be set");
    to
}

/// As an ordinary user.
fn as_nobody(program: &Path) -> Run {
    need_root();
    let run = Run::new(tool("setpriv"));
    let nobody = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into()];
    run.args(nobody).arg(program)
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("readable");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// The loader does not preload into such a program.
#[test]
fn a_setuid_program_is_left_alone() {
    let dir = open_to_all();
    let plain = copy(&cc("ctests/harmless/plain.c", &[]), dir.path().join("plain"), 0o4755);
    let maps = copy(&tool("grep"), dir.path().join("grep"), 0o4755);
    let without = as_nobody(&plain).run().assert_code(42);
    assert_eq!(
        without.stdout,
        "uid 65534, euid 0\n",
        "set-ID programs do not work in {}",
        dir.path().display()
    );
    for flavour in FLAVOURS {
        let library = copy(&shim(flavour), dir.path().join("libibv_sa.so.1"), 0o755);
        as_nobody(&plain).preload(&library).run().assert_same(&without);
        let run = as_nobody(&maps).args(["-c", "libibv_sa", "/proc/self/maps"]).preload(&library).run();
        assert_eq!(run.stdout, "0\n", "{run}");
    }
    // The counter is right: without the set-ID bit the library is there.
    let library = dir.path().join("libibv_sa.so.1");
    let maps = copy(&maps, dir.path().join("grep-plain"), 0o755);
    let run = as_nobody(&maps).args(["-c", "libibv_sa", "/proc/self/maps"]).preload(&library).run();
    assert_ne!(run.stdout, "0\n", "{run}");
}

/// A program linked with the shim, in a folder that a run path leads to: so it is loaded with rights too.
struct Linked {
    dir: tempfile::TempDir,
    program: PathBuf,
    provider: PathBuf,
}

impl Linked {
    fn new(flavour: Flavour) -> Linked {
        let dir = open_to_all();
        copy(&shim(flavour), dir.path().join("libibv_sa.so.1"), 0o755);
        std::os::unix::fs::symlink("libibv_sa.so.1", dir.path().join("libibv_sa.so")).expect("a link");
        let provider = copy(&scripted(), dir.path().join("provider.so"), 0o755);
        let program = dir.path().join("program");
        let run_path = format!("-Wl,-rpath,{}", dir.path().display());
        let run = Run::new(tool("gcc")).arg("-o").arg(&program).arg(path("ctests/harmless/devices.c"));
        run.arg("-L").arg(dir.path()).args(["-libv_sa", &run_path]).run().assert_ok();
        Linked { dir, program, provider }
    }

    /// With settings that, if they counted, would give other devices, a report and a complaint.
    fn with_settings(&self, run: Run) -> Outcome {
        let report = format!("json:{}/out/%p", self.dir.path().display());
        run.env("IBV_SA_PROVIDER", &self.provider)
            .env("IBV_SA_REPORT", report)
            .env("IBV_SA_NO_SUCH_SETTING", "1")
            .run()
    }

    fn reports(&self) -> usize {
        files_in(&self.dir.path().join("out")).len()
    }

    /// What an ordinary program makes of the settings: all of them count.
    fn assert_counts(&self, run: Run) {
        let run = self.with_settings(run);
        assert_eq!((run.code, &*run.stdout), (Some(0), "devices: 3\nfirst: scr0\n"), "{run}");
        assert_eq!(run.shim_lines().len(), 1, "{run}");
        assert_eq!(self.reports(), 1);
        for report in files_in(&self.dir.path().join("out")) {
            fs::remove_file(report).expect("it can be removed");
        }
    }

    fn assert_counts_nothing(&self, run: impl Fn() -> Run) {
        let plain = run().run().assert_ok();
        assert!(!plain.stdout.contains("scr0"), "{plain}");
        assert_eq!(plain.stderr, "");
        self.with_settings(run()).assert_same(&plain);
        assert_eq!(self.reports(), 0, "a report was written");
    }
}

#[test]
fn no_setting_counts_in_a_set_id_program() {
    for flavour in FLAVOURS {
        let linked = Linked::new(flavour);
        linked.assert_counts(as_nobody(&linked.program));
        for mode in [0o4755, 0o2755, 0o6755] {
            copy(&linked.program, linked.dir.path().join("set-id"), mode);
            linked.assert_counts_nothing(|| as_nobody(&linked.dir.path().join("set-id")));
        }
    }
}

#[test]
fn no_setting_counts_in_a_program_with_capabilities() {
    for flavour in FLAVOURS {
        let linked = Linked::new(flavour);
        let program = copy(&linked.program, linked.dir.path().join("capable"), 0o755);
        Run::new("/usr/sbin/setcap").arg("cap_net_raw+ep").arg(&program).run().assert_ok();
        linked.assert_counts_nothing(|| as_nobody(&program));
        // It is the capability: an ordinary copy reads its settings.
        linked.assert_counts(as_nobody(&copy(&program, linked.dir.path().join("plain"), 0o755)));
    }
}

/// Started by root, and another effective user before the first RDMA call: AT_SECURE is not set then.
#[test]
fn no_setting_counts_when_the_effective_user_is_another() {
    for flavour in FLAVOURS {
        let linked = Linked::new(flavour);
        need_root();
        linked.assert_counts(Run::new(&linked.program));
        linked.assert_counts_nothing(|| Run::new(&linked.program).arg("drop"));
    }
}
