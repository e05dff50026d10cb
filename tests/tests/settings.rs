//! The IBV_SA_* variables, and the places that a report may and may not go to.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use ibv_sa_tests::{
    FLAVOURS, Flavour, Outcome, Run, acks_after, assert_report, cc, device_after, harmless, need_root,
    scripted, scripted_dir, shim, tool,
};
use serde_json::Value;

fn rounds(flavour: Flavour) -> Run {
    Run::new(harmless("rounds")).scripted().shim(flavour)
}

/// What the program prints, whatever the settings are.
#[track_caller]
fn assert_unharmed(run: &Outcome) {
    assert_eq!((run.code, &*run.stdout), (Some(0), "rounds: 1, alive: 0\n"), "{run}");
}

#[track_caller]
fn assert_one_line(run: &Outcome, says: &[&str]) {
    assert_unharmed(run);
    assert_eq!(run.stderr.lines().count(), 1, "{run}");
    let lines = run.shim_lines();
    assert_eq!(lines.len(), 1, "{run}");
    for word in says {
        assert!(lines[0].contains(word), "{word:?} is not said: {run}");
    }
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn target(format: &str, path: &Path) -> String {
    format!("{format}:{}", path.display())
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

#[test]
fn quiet_unless_asked() {
    for flavour in FLAVOURS {
        for empty in ["IBV_SA_REPORT", "IBV_SA_PROVIDER", "IBV_SA_CQ", "IBV_SA_WHAT", "HOME"] {
            let run = rounds(flavour).env(empty, "").run();
            assert_unharmed(&run);
            assert_eq!(run.stderr, "");
        }
    }
}

#[test]
fn an_unknown_setting_is_named_once() {
    for flavour in FLAVOURS {
        let run = rounds(flavour).env("IBV_SA_REPROT", "text").arg("1").run();
        assert_one_line(&run, &["IBV_SA_REPROT", "IBV_SA_REPORT", "IBV_SA_PROVIDER"]);
    }
}

#[test]
fn a_malformed_setting_is_shown_once_and_the_default_holds() {
    let wrong =
        ["xml", "TEXT", "text,", "json:", "text:/tmp/%d", "text:/tmp/%", " json", "1", ":", "text\x1b[2J"];
    for flavour in FLAVOURS {
        for value in wrong {
            let run = rounds(flavour).env("IBV_SA_REPORT", value).run();
            assert_one_line(&run, &["IBV_SA_REPORT"]);
            assert!(!run.stderr.contains('\x1b'), "an escape sequence reaches the terminal: {run}");
        }
        let run = rounds(flavour).env("IBV_SA_PROVIDER", "libibverbs.so.1").run();
        assert_one_line(&run, &["IBV_SA_PROVIDER", "libibverbs.so.1", "absolute"]);
        for value in ["bogus", "FULL", "on", "0", "errors "] {
            let dir = temporary();
            let report = dir.path().join("report");
            let run = rounds(flavour).env("IBV_SA_CQ", value).env("IBV_SA_REPORT", target("json", &report));
            assert_one_line(&run.run(), &["IBV_SA_CQ", value, "off, errors or full", "using errors"]);
            let report = parse(&fs::read_to_string(&report).expect("a report"));
            assert_report(&report, device_after(1, 1, 1), acks_after(1));
        }
    }
}

/// Nothing that comes from elsewhere moves a terminal's cursor or looks like a line of ours.
#[test]
fn control_characters_are_not_printed() {
    const NASTY: &str = "\x1b[2J\r\nibv_sa[1]: forged\x07\u{9b}1m";
    for flavour in FLAVOURS {
        let dir = temporary();
        let missing = dir.path().join(NASTY);
        let folder = dir.path().join("no").join(NASTY);
        for run in [
            rounds(flavour).env(format!("IBV_SA_{NASTY}"), "1"),
            rounds(flavour).env("IBV_SA_REPORT", NASTY),
            rounds(flavour).env("IBV_SA_PROVIDER", NASTY),
            rounds(flavour).env("IBV_SA_REPORT", target("text", &folder)),
            // The loader's own error holds the path; the program then has no device.
            Run::new(harmless("devices")).scripted().shim(flavour).env("IBV_SA_PROVIDER", &missing),
        ] {
            let run = run.run().assert_ok();
            assert_eq!(run.stderr.lines().count(), 1, "{run}");
            assert_eq!(run.shim_lines().len(), 1, "{run}");
            let line = run.stderr.strip_suffix('\n').expect("a whole line");
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }
}

#[test]
fn a_very_long_value_makes_a_short_line() {
    for flavour in FLAVOURS {
        for name in [
            "IBV_SA_REPORT".to_string(),
            "IBV_SA_PROVIDER".into(),
            format!("IBV_SA_{LONG}", LONG = "x".repeat(30_000)),
        ] {
            let run = rounds(flavour).env(&name, "x".repeat(100_000)).run();
            assert_one_line(&run, &["IBV_SA_"]);
            assert!(run.stderr.ends_with('\n') && run.stderr.len() < 1000, "{} bytes", run.stderr.len());
        }
    }
}

#[test]
fn each_fault_has_a_line_of_its_own() {
    for flavour in FLAVOURS {
        let run = rounds(flavour);
        let run = run.env("IBV_SA_A", "1").env("IBV_SA_B", "1").env("IBV_SA_REPORT", "no").run();
        assert_unharmed(&run);
        assert_eq!(run.shim_lines().len(), 3, "{run}");
        assert_eq!(run.stderr.lines().count(), 3, "{run}");
    }
}

#[test]
fn reports_to_stderr() {
    for flavour in FLAVOURS {
        let run = rounds(flavour).env("IBV_SA_REPORT", "text").run();
        assert_unharmed(&run);
        assert_eq!(run.shim_lines().len(), run.stderr.lines().count(), "{run}");
        for words in ["completions failed 1", "completion events got 1, acknowledged 1", "COMM_EST 1"] {
            assert!(run.stderr.contains(words), "{run}");
        }
        let run = rounds(flavour).env("IBV_SA_REPORT", "json").run();
        assert_unharmed(&run);
        assert_report(&parse(&run.stderr), device_after(1, 1, 1), acks_after(1));
    }
}

#[test]
fn a_report_file_is_private_and_appended_to() {
    for flavour in FLAVOURS {
        let dir = temporary();
        let file = dir.path().join("report");
        for times in 1..=2 {
            let command = format!("umask 0; exec {}", harmless("rounds").display());
            let run = Run::sh(&command).scripted().shim(flavour).env("IBV_SA_REPORT", target("json", &file));
            let run = run.run();
            assert_unharmed(&run);
            assert_eq!(run.stderr, "");
            assert_eq!(fs::metadata(&file).expect("it was made").permissions().mode() & 0o7777, 0o600);
            let text = fs::read_to_string(&file).expect("readable");
            assert_eq!(text.lines().count(), times);
            for line in text.lines() {
                assert_report(&parse(line), device_after(1, 1, 1), acks_after(1));
            }
        }
        let text = rounds(flavour).env("IBV_SA_REPORT", target("text", &file)).run();
        assert_unharmed(&text);
        let text = fs::read_to_string(&file).expect("readable");
        assert!(text.contains("completions failed 1"), "{text}");
    }
}

#[test]
fn percent_p_is_the_process_id() {
    for flavour in FLAVOURS {
        let dir = temporary();
        let run = rounds(flavour).env("IBV_SA_REPORT", target("json", &dir.path().join("a%p-%%p"))).run();
        assert_unharmed(&run);
        let mut entries = fs::read_dir(dir.path()).expect("readable");
        let entry = entries.next().expect("one file").expect("an entry");
        let pid = parse(&fs::read_to_string(entry.path()).expect("readable"))["pid"].to_string();
        assert_eq!(entry.file_name().to_string_lossy(), format!("a{pid}-%p"));
        assert!(entries.next().is_none(), "one process, two reports");
    }
}

/// Where a report cannot go the program is told so in one line, and nothing else happens.
#[test]
fn places_that_are_refused() {
    for flavour in FLAVOURS {
        let dir = temporary();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("victim"), "before").expect("a file");
        symlink(path("victim"), path("link")).expect("a link");
        symlink(path("nowhere"), path("dangling")).expect("a link");
        fs::create_dir(path("folder")).expect("a folder");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), rustix::fs::FileType::Fifo, mode, 0)
            .expect("a FIFO");
        // A reader makes the open of a FIFO succeed; it must be refused all the same.
        rustix::fs::mknodat(rustix::fs::CWD, path("read"), rustix::fs::FileType::Fifo, mode, 0)
            .expect("a FIFO");
        let reader =
            fs::OpenOptions::new().read(true).write(true).open(path("read")).expect("a FIFO opens for both");

        for (name, says) in [
            ("no/such/folder", "No such file or directory"),
            ("folder", "Is a directory"),
            ("link", "symbolic link"),
            ("dangling", "symbolic link"),
            ("fifo", ""),
            ("read", "not a regular file"),
            ("/dev/full", "not a regular file"),
            ("/dev/null", "not a regular file"),
            ("/proc/self/comm", ""),
        ] {
            let place = path(name);
            let run = rounds(flavour).env("IBV_SA_REPORT", target("text", &place)).run();
            if name == "/proc/self/comm" {
                // A regular file to look at, and the kernel takes what is written: no line then.
                assert_unharmed(&run);
                continue;
            }
            assert_one_line(&run, &["IBV_SA_REPORT", &place.display().to_string(), says]);
        }
        assert_eq!(fs::read_to_string(path("victim")).expect("readable"), "before");
        assert!(!path("nowhere").exists(), "made through a link");
        assert!(rustix::fs::fcntl_getfl(&reader).is_ok());
    }
}

#[test]
fn a_full_disk() {
    need_root();
    for flavour in FLAVOURS {
        let dir = temporary();
        let script =
            "mount -t tmpfs -o size=8k none $0 && (cat /dev/zero >$0/big 2>/dev/null; true) && exec $1";
        let run = Run::new("unshare").args(["-m", "sh", "-c", script]).arg(dir.path());
        let run = run.arg(harmless("rounds")).scripted().shim(flavour);
        let run = run.env("IBV_SA_REPORT", target("text", &dir.path().join("report"))).run();
        assert_one_line(&run, &["IBV_SA_REPORT", "No space left"]);
    }
}

/// A file size limit raises SIGXFSZ, which would end the program.
#[test]
fn a_file_size_limit() {
    for flavour in FLAVOURS {
        let dir = temporary();
        let script = format!("ulimit -f 0; exec {}", harmless("rounds").display());
        let run = Run::sh(&script).scripted().shim(flavour);
        let run = run.env("IBV_SA_REPORT", target("text", &dir.path().join("report"))).run();
        assert_one_line(&run, &["IBV_SA_REPORT", "File too large"]);
    }
}

/// What does not fit is taken back: half a line would spoil the lines of other processes.
#[test]
fn a_report_that_does_not_fit_leaves_no_half_line() {
    for flavour in FLAVOURS {
        let dir = temporary();
        let file = dir.path().join("report");
        let report = target("json", &file);
        assert_unharmed(&rounds(flavour).env("IBV_SA_REPORT", &report).run());
        let before = fs::read_to_string(&file).expect("a report");
        // Room for 100 bytes more.
        let run = Run::new(tool("prlimit")).arg(format!("--fsize={}", before.len() + 100));
        let run = run.arg(harmless("rounds")).scripted().shim(flavour).env("IBV_SA_REPORT", &report).run();
        assert_one_line(&run, &["IBV_SA_REPORT", "lost"]);
        assert_eq!(fs::read_to_string(&file).expect("readable"), before, "half a report was added");
        assert_unharmed(&rounds(flavour).env("IBV_SA_REPORT", &report).run());
        let after = fs::read_to_string(&file).expect("readable");
        assert_eq!(after.lines().map(parse).count(), 2);
    }
}

/// A program that closed its stderr may still write there.
#[test]
fn the_report_file_never_becomes_stderr() {
    let program = harmless("writes_to_closed_stderr");
    let plain = Run::new(&program).scripted().run().assert_ok();
    for flavour in FLAVOURS {
        for _ in 0..20 {
            let dir = temporary();
            let file = dir.path().join("report");
            let run = Run::new(&program).scripted().shim(flavour);
            run.env("IBV_SA_REPORT", target("json", &file)).run().assert_same(&plain);
            let text = fs::read_to_string(&file).expect("a report");
            assert!(!text.contains("JUNK"), "the program wrote into the report: {text:?}");
            assert_report(&parse(&text), device_after(1, 1, 1), acks_after(1));
        }
    }
}

// ---- stderr is the program's ----------------------------------------------------------------

fn stderr_is(what: &str, file: &Path, shimmed: Option<Flavour>, report: &str) -> Outcome {
    let run = Run::new(harmless("stderr_is")).arg(what).arg(file).scripted().shim_if(shimmed);
    run.env("IBV_SA_REPORT", report).env("IBV_SA_NO_SUCH_SETTING", "1").run()
}

#[test]
fn stderr_closed_replaced_broken_or_full() {
    for what in ["closed", "replaced", "broken", "full"] {
        let dir = temporary();
        let file = dir.path().join("file");
        let plain = stderr_is(what, &file, None, "text").assert_ok();
        assert_eq!(plain.stdout, format!("{what}: alive 0, signals 0\n"));
        for flavour in FLAVOURS {
            for format in ["text", "json"] {
                let run = stderr_is(what, &file, Some(flavour), format);
                assert_eq!((run.code, &run.stdout), (plain.code, &plain.stdout), "{run}");
                // The first call's complaint goes where stderr was then; nothing comes later.
                let lines = usize::from(what == "replaced");
                assert_eq!(run.stderr.lines().count(), lines, "{run}");
                let written = fs::read_to_string(&file).unwrap_or_default();
                assert_eq!(written, "", "the report went into the program's own file");
            }
        }
    }
}

/// What could not be said is counted.
#[test]
fn lost_lines_are_counted_in_the_report_file() {
    for flavour in FLAVOURS {
        let dir = temporary();
        for (what, lost) in [("closed", 1), ("replaced", 0), ("broken", 1), ("full", 1)] {
            let report = dir.path().join(what);
            stderr_is(what, &dir.path().join("file"), Some(flavour), &target("json", &report)).assert_ok();
            let value = parse(&fs::read_to_string(&report).expect("a report"));
            assert_eq!(value["stderr_lines_dropped"], lost, "{what}: {value:#}");
        }
    }
}

/// Nothing of the shim's may take the place of a descriptor that the program closed, or stay open.
#[test]
fn no_descriptor_is_left_open() {
    for flavour in FLAVOURS {
        let dir = temporary();
        let report = target("json", &dir.path().join("report"));
        let run = Run::new(harmless("descriptors")).scripted();
        let plain = run.run().assert_ok();
        let run = Run::new(harmless("descriptors")).scripted().shim(flavour).env("IBV_SA_REPORT", report);
        run.run().assert_same(&plain);
    }
}

// ---- the provider ---------------------------------------------------------------------------

#[test]
fn another_provider_by_its_path() {
    let program = cc("ctests/harmless/devices.c", &["-libverbs"]);
    for flavour in FLAVOURS {
        let run = Run::new(&program).shim(flavour).env("IBV_SA_PROVIDER", scripted()).run().assert_ok();
        assert_eq!((&*run.stdout, &*run.stderr), ("devices: 3\nfirst: scr0\n", ""), "{run}");
    }
}

#[test]
fn a_provider_that_is_not_there_is_missed_aloud_once() {
    let program = cc("ctests/harmless/devices.c", &["-libverbs"]);
    for flavour in FLAVOURS {
        let dir = temporary();
        let garbage = dir.path().join("garbage.so");
        fs::write(&garbage, "not a library\n".repeat(100)).expect("a file");
        for provider in [dir.path().join("none.so"), garbage, dir.path().to_path_buf()] {
            let run = Run::new(&program).shim(flavour).env("IBV_SA_PROVIDER", &provider).run().assert_ok();
            assert_eq!(run.stdout, "devices: 0\nnone: errno 38\n", "{run}");
            assert_eq!(run.shim_lines().len(), 1, "{run}");
            assert!(run.stderr.contains(&*provider.to_string_lossy()), "{run}");
        }
        // The shim itself as its own provider would call itself for ever.
        let run = Run::new(&program).shim(flavour).env("IBV_SA_PROVIDER", shim(flavour)).run().assert_ok();
        assert!(run.stdout.contains("none: errno "), "{run}");
    }
}

/// No libibverbs at all: a program linked with the shim alone sees that there is no RDMA, and goes on.
#[test]
fn no_libibverbs() {
    for flavour in FLAVOURS {
        let dir = temporary();
        // It stands before the installed one and is no library.
        fs::write(dir.path().join("libibverbs.so.1"), "nothing\n".repeat(200)).expect("a file");
        let ours = format!("-L{}", ibv_sa_tests::shim_dir(flavour).display());
        let program = cc("ctests/harmless/devices.c", &[&ours, "-libv_sa"]);
        let run = Run::new(&program).library_path(dir.path());
        let run = run.library_path(ibv_sa_tests::shim_dir(flavour)).run().assert_ok();
        assert_eq!((&*run.stdout, &*run.stderr), ("devices: 0\nnone: errno 38\n", ""), "{run}");
    }
}

/// Linked with the shim alone: it finds libibverbs by itself.
#[test]
fn linked_with_the_shim_alone() {
    for flavour in FLAVOURS {
        let ours = format!("-L{}", ibv_sa_tests::shim_dir(flavour).display());
        let program = cc("ctests/harmless/devices.c", &[&ours, "-libv_sa"]);
        let run = Run::new(&program).library_path(scripted_dir());
        let run = run.library_path(ibv_sa_tests::shim_dir(flavour)).run().assert_ok();
        assert_eq!((&*run.stdout, &*run.stderr), ("devices: 3\nfirst: scr0\n", ""), "{run}");
    }
}
