//! `ibv-sa run`: the program is run as if by itself, with the library and its settings in the environment.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ibv_sa_tests::{
    Flavour, Outcome, Run, acks_after, assert_report, cc, device_after, harmless, need_root, path, product,
    scripted, shim, tool,
};

const COMMAND: &str = "build/release/ibv-sa";
const LIBRARY: &str = "libibv_sa.so.1";

fn command() -> PathBuf {
    product(COMMAND, &format!("make {COMMAND}"))
}

fn library() -> PathBuf {
    shim(Flavour::Release)
}

fn ibv_sa() -> Run {
    Run::new(command())
}

/// `ibv-sa run FLAGS -- PROGRAM`
fn run(flags: &[&str], program: impl AsRef<Path>) -> Run {
    library();
    ibv_sa().arg("run").args(flags).arg("--").arg(program.as_ref())
}

/// The environment that a program gets, sorted; only what the command may change.
fn environment(run: Run) -> Vec<String> {
    let run = run.run().assert_ok();
    assert_eq!(run.stderr, "", "{run}");
    let lines =
        run.stdout.lines().filter(|line| line.starts_with("IBV_SA_") || line.starts_with("LD_PRELOAD="));
    let mut lines: Vec<String> = lines.map(String::from).collect();
    lines.sort();
    lines
}

fn preload(entries: &str) -> String {
    format!("LD_PRELOAD={}{entries}", library().display())
}

/// Refused: nothing was run, and stderr says all of this.
#[track_caller]
fn assert_refused(run: Run, code: i32, says: &[&str]) {
    let run = run.run().assert_code(code);
    assert_eq!(run.stdout, "", "{run}");
    assert!(run.stderr.starts_with("ibv-sa: error: "), "{run}");
    for words in says {
        assert!(run.stderr.contains(words), "{words:?} is not said: {run}");
    }
}

#[track_caller]
fn assert_one_warning(run: &Outcome, says: &[&str]) {
    assert_eq!(run.stderr.lines().filter(|line| line.starts_with("ibv-sa: warning: ")).count(), 1, "{run}");
    for words in says {
        assert!(run.stderr.contains(words), "{words:?} is not said: {run}");
    }
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Made by another process: a file that this one writes may be open in a child of another test's while it is to be
/// run, and then cannot be run (ETXTBSY).
fn copy(from: &Path, to: PathBuf, mode: u32) -> PathBuf {
    Run::new(tool("install")).arg("-D").arg(format!("-m{mode:o}")).arg(from).arg(&to).run().assert_ok();
    to
}

fn script(file: PathBuf, text: &str) -> PathBuf {
    let dir = temporary();
    let source = dir.path().join("text");
    fs::write(&source, text).expect("a file");
    copy(&source, file, 0o755)
}

// ---- the program is itself ------------------------------------------------------------------

#[test]
fn exit_codes_and_signals_are_the_programs() {
    for code in [0, 1, 2, 42, 125, 126, 127, 255] {
        let run = run(&[], "sh").args(["-c", &format!("exit {code}")]).run().assert_code(code);
        assert_eq!((&*run.stdout, &*run.stderr), ("", ""), "{run}");
    }
    for (signal, number) in [("SEGV", 11), ("KILL", 9), ("TERM", 15), ("PIPE", 13)] {
        let run = run(&[], "sh").args(["-c", &format!("kill -{signal} $$")]).run();
        assert_eq!((run.code, run.signal, &*run.stderr), (None, Some(number), ""), "{run}");
    }
}

#[test]
fn output_and_input_are_the_programs() {
    let plain = Run::new(cc("ctests/harmless/plain.c", &[])).run().assert_code(42);
    run(&[], cc("ctests/harmless/plain.c", &[])).run().assert_same(&plain);
    let input = "line\n".repeat(100_000);
    assert_eq!(run(&[], "cat").stdin(&*input).run().assert_ok().stdout, input);
}

/// What execve(2) hands on must be what the command was started with.
#[test]
fn process_signals_and_descriptors_are_as_without() {
    let looks = "\
grep -E '^(Sig(Blk|Ign|Cgt)|NSpgid):' /proc/self/status | sed \"s/\t$$\\$/ SELF/\"
umask
pwd
ls /proc/$$/fd
exit 3";
    let dir = temporary();
    let looks = script(dir.path().join("looks"), &format!("#!/bin/sh\n{looks}\n"));
    for start in [
        "exec \"$@\"",
        "trap '' PIPE HUP; exec \"$@\"",
        "exec \"$@\" <&-",
        "exec \"$@\" 2>&-",
        "exec \"$@\" 7</dev/null",
        "umask 077; cd /; exec \"$@\"",
        // A mask with USR1, TERM and PIPE.
        "exec env --block-signal=USR1,TERM,PIPE \"$@\"",
    ] {
        let start = || Run::sh(start).arg("sh");
        let plain = start().arg(&looks).run().assert_code(3);
        assert!(plain.stdout.contains("SigBlk"), "{plain}");
        start().arg(command()).args(["run", "--"]).arg(&looks).run().assert_same(&plain);
    }
    let pid =
        Run::sh("echo $$; exec \"$@\"").arg("sh").arg(command()).args(["run", "sh", "-c", "echo $$"]).run();
    let pids: Vec<&str> = pid.stdout.lines().collect();
    assert!(pids.len() == 2 && pids[0] == pids[1], "{pid}");
}

/// Options end with `--` or with the program; all that follows is the program's.
#[test]
fn arguments_that_look_like_ours_are_the_programs() {
    let theirs = ["--ack", "x", "--help", "--", "-h", "--report=no", "", "--"];
    let expected = theirs.map(|arg| format!("[{arg}]\n")).concat();
    let start = ["printf", "[%s]\n"];
    for before in [&["--"][..], &[], &["--ack", "abort", "--report", "--"], &["--report", "--ack=abort"]] {
        let run = ibv_sa().arg("run").args(before).args(start).args(theirs).run().assert_ok();
        assert_eq!((&*run.stdout, &*run.stderr), (&*expected, ""), "{run}");
    }
}

#[test]
fn names_and_arguments_need_not_be_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let odd = OsStr::from_bytes(b"a\xff\n");
    let dir = temporary();
    let program = script(dir.path().join(odd), "#!/bin/sh\nprintf %s \"$1$ODD\" | od -An -tx1\n");
    let run = run(&[], program).arg(odd).env("ODD", odd).run().assert_ok();
    assert_eq!((run.stdout.trim(), &*run.stderr), ("61 ff 0a 61 ff 0a", ""), "{run}");
}

#[test]
fn a_script_without_an_interpreter_runs_as_in_a_shell() {
    let dir = temporary();
    let program = script(dir.path().join("script"), "echo $0 $1\n");
    let run = run(&[], &program).arg("x").run().assert_ok();
    assert_eq!(run.stdout, format!("{} x\n", program.display()));
}

// ---- settings -------------------------------------------------------------------------------

#[test]
fn flags_become_variables() {
    assert_eq!(environment(run(&[], "env")), [preload("")]);
    for mode in ["protect", "forward", "rescue", "abort"] {
        assert_eq!(environment(run(&["--ack", mode], "env")), [format!("IBV_SA_ACK={mode}"), preload("")]);
    }
    for (given, arrives) in [("1", "1"), ("86400", "86400"), ("0060", "60")] {
        let hang_secs = format!("IBV_SA_HANG_SECS={arrives}");
        assert_eq!(environment(run(&["--hang-secs", given], "env")), [hang_secs, preload("")]);
    }
    for (flag, value) in [
        ("--report", "text"),
        ("--report=text", "text"),
        ("--report=json", "json"),
        ("--report=json:/tmp/a %p:%%", "json:/tmp/a %p:%%"),
        ("--report=text:relative", "text:relative"),
    ] {
        assert_eq!(environment(run(&[flag], "env")), [format!("IBV_SA_REPORT={value}"), preload("")]);
    }
    let provider = scripted();
    let provider = provider.to_str().expect("UTF-8");
    let all =
        ["--provider", provider, "--report", "--hang-secs=9", "--ack=rescue", "--socket=/run/a", "--cq=full"];
    let expected = [
        "IBV_SA_ACK=rescue".into(),
        "IBV_SA_CQ=full".into(),
        "IBV_SA_HANG_SECS=9".into(),
        format!("IBV_SA_PROVIDER={provider}"),
        "IBV_SA_REPORT=text".into(),
        "IBV_SA_SOCKET=/run/a".into(),
        preload(""),
    ];
    assert_eq!(environment(run(&all, "env")), expected);
}

#[test]
fn variables_stay_where_no_flag_is_given() {
    let present = |run: Run| run.env("IBV_SA_REPORT", "json:/tmp/x").env("IBV_SA_HANG_SECS", "many");
    let expected = ["IBV_SA_HANG_SECS=many".into(), "IBV_SA_REPORT=json:/tmp/x".into(), preload("")];
    assert_eq!(environment(present(run(&[], "env"))), expected);
    let expected = ["IBV_SA_HANG_SECS=3".into(), "IBV_SA_REPORT=text".into(), preload("")];
    assert_eq!(environment(present(run(&["--hang-secs", "3", "--report"], "env"))), expected);
}

#[test]
fn the_preload_is_kept_behind_the_library() {
    for present in ["libc.so.6", "libc.so.6:libm.so.6", "libc.so.6 libm.so.6"] {
        let run = run(&[], "env").env("LD_PRELOAD", present);
        assert_eq!(environment(run), [preload(&format!(":{present}"))]);
    }
    assert_eq!(environment(run(&[], "env").env("LD_PRELOAD", "")), [preload("")]);
    // Run by itself it is there once.
    let nested = run(&["--ack", "abort"], command()).args(["run", "--report", "env"]);
    assert_eq!(environment(nested), ["IBV_SA_ACK=abort".into(), "IBV_SA_REPORT=text".into(), preload("")]);
}

#[test]
fn wrong_values_name_flag_value_and_remedy() {
    let dir = temporary();
    let dir_text = dir.path().to_str().expect("UTF-8");
    let text_file = dir.path().join("text.so");
    fs::write(&text_file, "no library\n".repeat(100)).expect("a file");
    let text_file = text_file.to_str().expect("UTF-8");
    let cases: [(&str, &[&str], &str); 6] = [
        ("--ack", &["sometimes", "PROTECT", "0"], "protect, forward, rescue, abort"),
        ("--cq", &["all", "FULL", "1"], "off, errors, full"),
        ("--hang-secs", &["0", "86401", "", "-1", "+1", "5s", "1.5", "99999999999999999999"], "1 to 86400"),
        ("--report", &["xml", "", "TEXT", " text", "json:", "text:%d", "text:/a%"], "FILE"),
        ("--provider", &["libibverbs.so.1", "", "./a.so", "/nonexistent/a.so", dir_text, text_file], ""),
        (
            "--library",
            &["nonexistent.so", "", "/nonexistent/a.so", dir_text, text_file, "/dev/null"],
            LIBRARY,
        ),
    ];
    for (flag, values, remedy) in cases {
        for value in values {
            let run = ibv_sa().arg("run").arg(format!("{flag}={value}")).args(["--", "echo", "ran"]);
            let remedy = match *value {
                "json:" => "after the colon",
                value if flag == "--provider" && value.starts_with('/') => "libibverbs's ABI",
                _ if flag == "--provider" => "whole path, from /",
                _ => remedy,
            };
            assert_refused(run, 2, &[flag, &format!("'{value}'"), remedy]);
        }
    }
    assert_refused(
        ibv_sa().args(["run", "--ack=", "true"]),
        2,
        &["--ack", "protect, forward, rescue, abort"],
    );
    let run = ibv_sa().args(["run", "--ack", "a\x1b[2J\u{9b}1m\r", "true"]).run().assert_code(2);
    assert!(!run.stderr.contains(|c: char| c.is_control() && c != '\n'), "{:?}", run.stderr);
}

#[test]
fn wrong_arguments() {
    assert_refused(ibv_sa().arg("run"), 2, &["PROG", "Usage: ibv-sa run"]);
    assert_refused(ibv_sa().args(["run", "--"]), 2, &["PROG"]);
    assert_refused(ibv_sa().args(["run", "--hang-sec", "1", "true"]), 2, &["'--hang-sec'", "'--hang-secs'"]);
    assert_refused(ibv_sa().args(["run", "--ack"]), 2, &["--ack <MODE>"]);
    assert_refused(ibv_sa().arg("walk"), 2, &["walk", "Usage: ibv-sa"]);
    let bare = ibv_sa().run().assert_code(2);
    assert!(bare.stdout.is_empty() && bare.stderr.contains("Commands:"), "{bare}");
    // The form of a report is easily taken for an argument of its own.
    assert_refused(ibv_sa().args(["run", "--report", "json", "--", "true"]), 127, &["--report=\"json\""]);
}

// ---- the library ----------------------------------------------------------------------------

/// A copy of the command in a folder `bin`, and of the library in another.
fn installed(folder: Option<&str>) -> (tempfile::TempDir, PathBuf) {
    let dir = temporary();
    let command = copy(&command(), dir.path().join("prefix/bin/ibv-sa"), 0o755);
    if let Some(folder) = folder {
        copy(&library(), dir.path().join("prefix").join(folder).join(LIBRARY), 0o644);
    }
    (dir, command)
}

#[test]
fn the_library_is_found_from_where_the_command_lies() {
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    for folder in ["bin", &multiarch, "lib64", "lib"] {
        let (dir, command) = installed(Some(folder));
        let link = dir.path().join("link");
        symlink(&command, &link).expect("a link");
        let expected = fs::canonicalize(dir.path()).expect("it is there");
        let expected = expected.join("prefix").join(folder).join(LIBRARY);
        for name in [command, link] {
            let lines = environment(Run::new(name).args(["run", "env"]));
            assert_eq!(lines, [format!("LD_PRELOAD={}", expected.display())]);
        }
    }
}

/// The folder that the Makefile compiled in comes last; what may lie there is hidden for this.
#[test]
fn a_library_that_is_not_found() {
    need_root();
    let (_dir, command) = installed(None);
    let compiled_in =
        fs::read_to_string(product("build/libdir", &format!("make {COMMAND}"))).expect("readable");
    let compiled_in = Path::new(compiled_in.trim()).join(LIBRARY);
    let hide = "[ ! -e $0 ] || mount --bind /dev/null $0; exec \"$@\"";
    let start = Run::new("unshare").args(["-m", "sh", "-c", hide]).arg(&compiled_in).arg(&command);
    let bin = command.parent().expect("a folder").join(LIBRARY);
    let says = [LIBRARY, "--library", bin.to_str().expect("UTF-8"), compiled_in.to_str().expect("UTF-8")];
    assert_refused(start.args(["run", "--", "echo", "ran"]), 125, &says);
}

#[test]
fn a_library_by_its_name() {
    let dir = temporary();
    copy(&library(), dir.path().join("l/a.so"), 0o644);
    let absolute = dir.path().join("l/a.so");
    for name in ["l/a.so", "./l/a.so", absolute.to_str().expect("UTF-8")] {
        let run = run(&["--library", name], "env").dir(dir.path());
        let [line] = &environment(run)[..] else { panic!("one line") };
        let path = Path::new(line.strip_prefix("LD_PRELOAD=").expect("the variable"));
        assert!(path.is_absolute(), "{line}");
        assert_eq!(
            fs::canonicalize(path).expect("it is there"),
            fs::canonicalize(&absolute).expect("it is there")
        );
    }
}

/// ld.so(8) would split such a path, and run the program without the library.
#[test]
fn a_library_whose_path_the_loader_would_not_take() {
    let dir = temporary();
    for (folder, says) in [("with space", "a space"), ("with:colon", "a colon"), ("$LIB", "a dollar sign")] {
        let path = copy(&library(), dir.path().join(folder).join(LIBRARY), 0o644);
        let text = path.to_str().expect("UTF-8");
        assert_refused(run(&["--library", text], "env"), 2, &["--library", text, says, "symbolic link"]);
        // The way out that is offered.
        let link = dir.path().join("link");
        symlink(&path, &link).expect("a link");
        let lines = environment(run(&["--library", link.to_str().expect("UTF-8")], "env"));
        assert_eq!(lines, [format!("LD_PRELOAD={}", link.display())]);
        fs::remove_file(&link).expect("it can be removed");
        // Found by itself at such a place.
        let command = copy(&command(), dir.path().join(folder).join("ibv-sa"), 0o755);
        assert_refused(Run::new(command).args(["run", "env"]), 125, &[says, "--library"]);
    }
}

// ---- programs that cannot be run, or not with the library -------------------------------------

#[test]
fn programs_that_are_not_there() {
    let dir = temporary();
    let gone = script(dir.path().join("gone"), "#!/nonexistent/interpreter\n");
    assert_refused(run(&[], "no-such-program"), 127, &["no-such-program", "PATH"]);
    assert_refused(run(&[], "./no-such-program"), 127, &["./no-such-program", "not found"]);
    assert_refused(run(&[], ""), 127, &["\"\""]);
    assert_refused(run(&[], gone), 127, &["gone", "interpreter"]);
}

#[test]
fn programs_that_cannot_be_run() {
    let dir = temporary();
    let plain = dir.path().join("plain");
    fs::write(&plain, "echo ran\n").expect("a file");
    assert_refused(run(&[], &plain), 126, &["plain", "executable"]);
    assert_refused(run(&[], dir.path()), 126, &["directory"]);
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    assert_refused(run(&[], "plain").env("PATH", path), 126, &["plain", "executable"]);
}

fn static_program(dir: &Path, flag: &str) -> PathBuf {
    let program = dir.join(format!("static{flag}"));
    Run::new(tool("gcc"))
        .arg(flag)
        .arg("-o")
        .arg(&program)
        .arg(path("ctests/harmless/plain.c"))
        .run()
        .assert_ok();
    program
}

#[test]
fn a_static_program_runs_with_a_warning() {
    let dir = temporary();
    for flag in ["-static", "-static-pie"] {
        let program = static_program(dir.path(), flag);
        let link = script(dir.path().join("script"), &format!("#!{} argument\n", program.display()));
        for start in [&program, &link] {
            let run = run(&["--report"], start).run().assert_code(42);
            assert_one_warning(&run, &[program.to_str().expect("UTF-8"), "statically linked"]);
            assert_eq!(run.stderr.lines().count(), 2, "{run}");
        }
        let name = program.file_name().expect("a name");
        let found = run(&[], name).env("PATH", dir.path()).run().assert_code(42);
        assert_one_warning(&found, &["statically linked"]);
    }
    // A loader is no program that the library would miss.
    let program = cc("ctests/harmless/plain.c", &[]);
    let loader = run(&[], "/lib64/ld-linux-x86-64.so.2").arg(&program).run().assert_code(42);
    assert_eq!(loader.stderr, "to stderr\n", "{loader}");
}

#[test]
fn a_program_for_another_machine_is_warned_about() {
    let dir = temporary();
    let mut bytes = fs::read(cc("ctests/harmless/plain.c", &[])).expect("readable");
    bytes[18] = 183; // e_machine: AArch64
    fs::write(dir.path().join("bytes"), bytes).expect("writable");
    let program = copy(&dir.path().join("bytes"), dir.path().join("other"), 0o755);
    // What the kernel refuses is tried as a script, as execvp(3) does.
    let run = run(&[], &program).run();
    assert_one_warning(&run, &["other", "machine", LIBRARY]);
}

/// A folder that everybody may enter, with the command and the library in it.
fn open_to_all() -> tempfile::TempDir {
    let dir = temporary();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("permissions can be set");
    copy(&command(), dir.path().join("ibv-sa"), 0o755);
    copy(&library(), dir.path().join(LIBRARY), 0o755);
    dir
}

/// Counts the lines of its own memory map that name the library, as an ordinary user.
fn maps_as_nobody(dir: &Path, program: &Path) -> Outcome {
    need_root();
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let run = Run::new(tool("setpriv")).args(user).arg(dir.join("ibv-sa")).args(["run", "--"]).arg(program);
    run.args(["-c", LIBRARY, "/proc/self/maps"]).run()
}

#[test]
fn a_program_with_more_rights_runs_with_a_warning() {
    let dir = open_to_all();
    let capable = copy(&tool("grep"), dir.path().join("capable"), 0o755);
    Run::new("/usr/sbin/setcap").arg("cap_net_raw+ep").arg(&capable).run().assert_ok();
    let programs = [
        (copy(&tool("grep"), dir.path().join("setuid"), 0o4755), "set-user-ID"),
        (copy(&tool("grep"), dir.path().join("setgid"), 0o2755), "set-group-ID"),
        // Not readable, so that nothing but its mode can be looked at.
        (copy(&tool("grep"), dir.path().join("closed"), 0o4711), "set-user-ID"),
        (capable, "file capabilities"),
    ];
    for (program, why) in &programs {
        let run = maps_as_nobody(dir.path(), program);
        assert_eq!(run.stdout, "0\n", "the library is there, so the warning is wrong: {run}");
        assert_one_warning(&run, &[program.to_str().expect("UTF-8"), why]);
        // For their owner and for root they are ordinary programs.
        let owner = Run::new(dir.path().join("ibv-sa")).args(["run", "--"]).arg(program);
        let owner = owner.args(["-c", LIBRARY, "/proc/self/maps"]).run().assert_ok();
        assert_eq!(owner.stderr, "", "{owner}");
        // Where rights were given up for good, set-ID bits do nothing; file capabilities still set AT_SECURE.
        let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
        let run = Run::new(tool("setpriv")).args(user).arg(dir.path().join("ibv-sa")).args(["run", "--"]);
        let run = run.arg(program).args(["-c", LIBRARY, "/proc/self/maps"]).run();
        assert_eq!(run.stdout == "0\n", *why == "file capabilities", "{run}");
        assert_eq!(run.stderr.is_empty(), run.stdout != "0\n", "{run}");
    }
    let plain = copy(&tool("grep"), dir.path().join("plain"), 0o755);
    let run = maps_as_nobody(dir.path(), &plain).assert_ok();
    assert!(run.stdout != "0\n" && run.stderr.is_empty(), "{run}");
    // Of a script such bits mean nothing.
    let shell = script(dir.path().join("script"), "#!/usr/bin/env sh\nexit 7\n");
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o6755)).expect("permissions can be set");
    let run = maps_as_nobody(dir.path(), &shell).assert_code(7);
    assert_eq!(run.stderr, "", "{run}");
}

// ---- help, version, completions ---------------------------------------------------------------

#[test]
fn help_teaches() {
    let help = |args: &[&str]| {
        let run = ibv_sa().args(args).run().assert_ok();
        assert_eq!(run.stderr, "", "{run}");
        assert!(run.stdout.lines().all(|line| line.chars().count() <= 110), "{run}");
        run.stdout
    };
    let own = help(&["--help"]);
    for words in [
        "run",
        "completion",
        "monitor",
        "status",
        "daemon",
        "Examples:",
        "See also: ibv-sa(1), ibv-sa-run(1)",
    ] {
        assert!(own.contains(words), "{words:?}: {own}");
    }
    let run = help(&["run", "--help"]);
    for words in [
        "Examples:",
        "Exit status:",
        "See also: ibv-sa-run(1)",
        "[default: protect] [env: IBV_SA_ACK]",
        "[default: 5] [env: IBV_SA_HANG_SECS]",
        "[default: no report] [env: IBV_SA_REPORT]",
        "[default: libibverbs.so.1] [env: IBV_SA_PROVIDER]",
        "[default: /run/ibv_sa/sa.sock] [env: IBV_SA_SOCKET]",
        "--library <PATH>",
        "rescue:",
    ] {
        assert!(run.contains(words), "{words:?}: {run}");
    }
    assert!(help(&["completion", "--help"]).contains("bash, zsh, fish"));
    assert_eq!(help(&["--version"]), format!("ibv-sa {}\n", env!("CARGO_PKG_VERSION")));
    let full = Run::sh(&format!("{} --help >/dev/full", command().display())).run();
    assert!(full.code == Some(125) && full.stderr.contains("stdout"), "{full}");
}

/// Each flag of the help is in the manual, and the other way round.
#[test]
fn the_manual_has_the_same_flags() {
    let help = ibv_sa().args(["run", "--help"]).run().assert_ok().stdout;
    let manual = fs::read_to_string(path("man/ibv-sa-run.1.md")).expect("the manual");
    let flags = |text: &str| {
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
        let flags = words.filter(|word| word.len() > 3 && word.starts_with("--")).map(String::from);
        flags.collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(flags(&help), flags(&manual.replace('\\', "")));
}

#[test]
fn completions_are_scripts_of_their_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let script = ibv_sa().args(["completion", shell]).run().assert_ok();
        for words in ["ibv-sa", "hang-secs", "rescue"] {
            assert!(script.stdout.contains(words), "{words:?}: {script}");
        }
    }
    let script = ibv_sa().args(["completion", "bash"]).run().assert_ok().stdout;
    let asks = "\
set -- $(complete -p ibv-sa) # ends in: -F FUNCTION ibv-sa
COMP_WORDS=(ibv-sa run --ack re) COMP_CWORD=3
${@:$#-1:1} ibv-sa re --ack
echo ${COMPREPLY[*]}";
    let run = Run::new("bash").stdin(format!("{script}\n{asks}\n")).run().assert_ok();
    assert_eq!(run.stdout, "rescue\n", "{run}");
    assert_refused(ibv_sa().args(["completion", "csh"]), 2, &["csh", "bash, zsh, fish"]);
}

// ---- all together -----------------------------------------------------------------------------

#[test]
fn a_report_of_a_real_program() {
    let provider = scripted();
    let provider = provider.to_str().expect("UTF-8");
    let program = harmless("rounds");
    let by_flag = run(&["--provider", provider, "--report=json"], &program).arg("2").scripted();
    let by_path = run(&["--report=json"], &program).arg("2").scripted();
    for run in [by_flag, by_path] {
        let run = run.run().assert_ok();
        let report = serde_json::from_str(&run.stderr).unwrap_or_else(|error| panic!("{error}: {run}"));
        assert_report(&report, device_after(2, 2, 2), acks_after(2));
    }
}
