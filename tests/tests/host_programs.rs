//! Programs of all kinds under the preload: same output, same exit code, and where there is no RDMA, nothing
//! of ours happens at all.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ibv_sa_tests::{
    Compiler, FLAVOURS, Flavour, Outcome, Run, cc, cc_with, harmless, scripted_dir, shim, tool,
};

/// Settings that would be complained about if they were read.
const NOISY: [(&str, &str); 3] =
    [("IBV_SA_REPORT", "nonsense"), ("IBV_SA_PROVIDER", "relative.so"), ("IBV_SA_WHAT", "1")];

fn noisy(run: Run) -> Run {
    NOISY.into_iter().fold(run, |run, (name, value)| run.env(name, value))
}

/// Runs it without the shim and with it, in both flavours and with bad settings.
#[track_caller]
fn compare(run: impl Fn() -> Run) -> Outcome {
    let plain = run().run();
    for flavour in FLAVOURS {
        run().shim(flavour).run().assert_same(&plain);
        noisy(run().shim(flavour)).run().assert_same(&plain);
    }
    plain
}

#[test]
fn shell() {
    let script = "printf 'b\\na\\nc\\n' | sort -r | tr a-z A-Z | head -n 2; \
                  x=$(ls / | wc -l); test \"$x\" -gt 3 && echo many; (exit 5); echo $? >&2; exit 3";
    let plain = compare(|| Run::sh(script));
    assert_eq!((plain.code, &*plain.stdout, &*plain.stderr), (Some(3), "C\nB\nmany\n", "5\n"));
}

#[test]
fn python() {
    let script = "
import ctypes, hashlib, json, multiprocessing, os, socket, sqlite3, ssl, subprocess, sys, threading
if __name__ == '__main__':
    print(subprocess.run(['echo', 'from a child'], capture_output=True, text=True).stdout, end='')
    seen = []
    threads = [threading.Thread(target=seen.append, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    pid = os.fork()
    if pid == 0:
        os._exit(9)
    print(sorted(seen), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    with multiprocessing.get_context('fork').Pool(2) as pool:
        print(pool.map(len, ['a', 'bb', 'ccc']))
    print(ctypes.CDLL(None).getpid() == os.getpid(), json.dumps({'a': hashlib.sha256(b'').hexdigest()}))
    sys.exit(6)
";
    let plain = compare(|| Run::new(tool("python3")).arg("-c").arg(script).timeout(Duration::from_secs(40)));
    assert_eq!(plain.code, Some(6), "{plain}");
    assert!(plain.stdout.contains("from a child\n[0, 1, 2, 3] 9\n[1, 2, 3]\nTrue"), "{plain}");
}

#[test]
fn git() {
    let script = "
        d=$(mktemp -d) && cd $d && export HOME=$d GIT_CONFIG_NOSYSTEM=1 &&
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b &&
        export GIT_AUTHOR_DATE='2024-01-01 00:00:00 +0000' GIT_COMMITTER_DATE='2024-01-01 00:00:00 +0000' &&
        git init -q -b main . && echo hello >file && git add file && git commit -q -m first &&
        git clone -q . copy && cd copy && echo more >>file && git commit -q -a -m second &&
        git push -q origin HEAD:other && git log --format='%H %s' && git diff HEAD~1 | cat; e=$?
        cd / && rm -rf $d; exit $e";
    let plain = compare(|| Run::sh(script).timeout(Duration::from_secs(40)));
    assert_eq!(plain.code, Some(0), "{plain}");
    assert_eq!(plain.stdout.matches("second").count(), 1, "{plain}");
    assert!(plain.stdout.contains("+more\n"), "{plain}");
}

/// Process ids and addresses differ from run to run.
fn without_numbers(text: &str) -> String {
    let mut kept = String::new();
    for c in text.chars() {
        match c.is_ascii_hexdigit() {
            true if kept.ends_with('#') => {}
            true => kept.push('#'),
            false => kept.push(c),
        }
    }
    kept
}

#[test]
fn gdb() {
    let program = cc("ctests/harmless/plain.c", &[]);
    let run = || {
        let commands = ["break main", "run", "backtrace", "next", "next", "info locals", "continue"];
        let run = Run::new(tool("gdb")).args(["-nx", "-q", "-batch"]).timeout(Duration::from_secs(60));
        commands.iter().fold(run, |run, command| run.arg("-ex").arg(command)).arg(&program)
    };
    let plain = run().run().assert_ok();
    assert!(plain.stdout.contains("exited with code 052"), "{plain}");
    for flavour in FLAVOURS {
        let shimmed = noisy(run().shim(flavour)).run().assert_ok();
        assert_eq!(without_numbers(&shimmed.stdout), without_numbers(&plain.stdout));
        assert_eq!(without_numbers(&shimmed.stderr), without_numbers(&plain.stderr));
    }
}

/// A debugger stops in a get that goes through the shim, sees the whole stack and lets it go on.
#[test]
fn gdb_on_an_rdma_program() {
    for flavour in [None, Some(Flavour::Debug), Some(Flavour::Release)] {
        let mut run = Run::new(tool("gdb")).args(["-nx", "-q", "-batch"]).timeout(Duration::from_secs(60));
        if let Some(flavour) = flavour {
            run = run.arg("-ex").arg(format!("set environment LD_PRELOAD {}", shim(flavour).display()));
        }
        let library_path = format!("set environment LD_LIBRARY_PATH {}", scripted_dir().display());
        let commands = [
            &library_path,
            "set breakpoint pending on",
            "break behave_ibv_get_cq_event",
            "run",
            "backtrace",
            "continue",
        ];
        let run = commands.iter().fold(run, |run, command| run.arg("-ex").arg(command));
        let run = run.arg(harmless("rounds")).run().assert_ok();
        let stack = run.stdout.find("#0").map(|at| &run.stdout[at..]).unwrap_or_default();
        assert!(stack.contains("one_round") && stack.contains(" main ("), "{run}");
        assert!(run.stdout.contains("rounds: 1, alive: 0"), "{run}");
        assert!(run.stdout.contains("exited normally"), "{run}");
    }
}

#[test]
fn static_program() {
    let program = cc("ctests/harmless/plain.c", &["-static"]);
    let plain = compare(|| Run::new(&program));
    assert_eq!(plain.code, Some(42));
}

#[test]
fn exec_spawn_and_vfork() {
    let launch = cc("ctests/harmless/launch.c", &[]);
    let program = cc("ctests/harmless/plain.c", &[]);
    for how in ["exec", "posix_spawn", "vfork"] {
        let plain = compare(|| Run::new(&launch).arg(how).arg(&program));
        assert_eq!(plain.code, Some(42), "{plain}");
        // An RDMA program started from one that is none, and the other way round.
        let rounds = harmless("rounds");
        let plain = Run::new(&launch).arg(how).arg(&rounds).arg("2").scripted().run().assert_ok();
        for flavour in FLAVOURS {
            let run = || Run::new(&launch).arg(how).arg(&rounds).arg("2").scripted().shim(flavour);
            let (outcome, reports) = ibv_sa_tests::with_reports(run());
            outcome.assert_same(&plain);
            assert_eq!(reports.len(), 1, "{outcome}");
        }
    }
}

#[test]
fn malloc_interposer() {
    let interposer = cc("ctests/harmless/malloc_interposer.c", &["-shared", "-fPIC"]);
    for program in [cc("ctests/harmless/plain.c", &[]), harmless("rounds")] {
        let plain = Run::new(&program).scripted().preload(&interposer).run();
        assert!(plain.stderr.contains("interposer: allocations, frees\n"), "{plain}");
        for flavour in FLAVOURS {
            let before = Run::new(&program).scripted().preload(&interposer).shim(flavour);
            let after = Run::new(&program).scripted().shim(flavour).preload(&interposer);
            for run in [before, after] {
                let (outcome, _) = ibv_sa_tests::with_reports(run);
                outcome.assert_same(&plain);
            }
        }
    }
}

// ---- sanitizers and valgrind ----------------------------------------------------------------

fn instrumented(compiler: Compiler, name: &str, sanitizer: &str) -> PathBuf {
    let dir = format!("-L{}", scripted_dir().display());
    cc_with(compiler, &format!("ctests/harmless/{name}.c"), &[sanitizer, &dir, "-libverbs"])
}

/// The lines of a sanitizer's report that do not depend on addresses.
fn essence(run: &Outcome) -> Vec<String> {
    let telling = ["ERROR: ", "SUMMARY: ", "runtime error: ", " in main ", " in one_round "];
    let lines = run.stderr.lines().filter(|line| telling.iter().any(|word| line.contains(word)));
    lines.map(without_numbers).collect()
}

#[test]
fn sanitizers() {
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        for (name, sanitizer, finds) in [
            ("rounds", "-fsanitize=address", None),
            ("overflow", "-fsanitize=address", Some("heap-buffer-overflow")),
            ("rounds", "-fsanitize=undefined", None),
            ("undefined", "-fsanitize=undefined", Some("signed integer overflow")),
        ] {
            let program = instrumented(compiler, name, sanitizer);
            // Any preload must come after the sanitizer's own library, or say that it need not.
            let run = || {
                Run::new(&program).scripted().env("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=1")
            };
            let plain = run().run();
            match finds {
                None => assert_eq!((plain.code, &*plain.stderr), (Some(0), ""), "{plain}"),
                Some(word) => assert!(plain.stderr.contains(word), "{plain}"),
            }
            for flavour in FLAVOURS {
                let (outcome, reports) = ibv_sa_tests::with_reports(run().shim(flavour));
                assert_eq!(outcome.code, plain.code, "{outcome}");
                assert_eq!(outcome.stdout, plain.stdout, "{outcome}");
                assert_eq!(essence(&outcome), essence(&plain), "{outcome}");
                assert_eq!(outcome.stderr.is_empty(), plain.stderr.is_empty(), "{outcome}");
                assert_eq!(reports.len(), usize::from(plain.code == Some(0)), "{outcome}");
            }
        }
    }
}

#[test]
fn valgrind() {
    for (name, errors) in [("rounds", 0), ("overflow", 9)] {
        let run = || {
            let run = Run::new(tool("valgrind")).timeout(Duration::from_secs(60));
            run.args(["-q", "--error-exitcode=9", "--leak-check=full"]).arg(harmless(name)).scripted()
        };
        let plain = run().run().assert_code(errors);
        assert_eq!(plain.stderr.is_empty(), errors == 0, "{plain}");
        for flavour in FLAVOURS {
            let (outcome, reports) = ibv_sa_tests::with_reports(run().shim(flavour));
            assert_eq!((outcome.code, &outcome.stdout), (plain.code, &plain.stdout), "{outcome}");
            assert_eq!(outcome.stderr.is_empty(), errors == 0, "{outcome}");
            let errors_of = |run: &Outcome| run.stderr.matches("Invalid read of size 1").count();
            assert_eq!(errors_of(&outcome), errors_of(&plain), "{outcome}");
            assert_eq!(reports.len(), 1, "{outcome}");
        }
    }
}

// ---- nothing happens ------------------------------------------------------------------------

/// The system calls of a run, one line each, without process ids.
fn system_calls(run: Run, program: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let log = dir.path().join("calls");
    // strace itself must not be preloaded: the variable is set for the traced program alone.
    let run = run.args(["-f", "-qq", "-o"]).arg(&log).args(program);
    run.timeout(Duration::from_secs(40)).run();
    let text = std::fs::read_to_string(&log).expect("strace wrote its log");
    text.lines().filter_map(|line| Some(line.split_once(' ')?.1.trim().to_string())).collect()
}

fn under_strace(flavour: Option<Flavour>) -> Run {
    let run = Run::new(tool("strace"));
    match flavour {
        None => run,
        Some(flavour) => {
            let settings = NOISY.iter().map(|(name, value)| format!("{name}={value}"));
            let all = settings.chain([format!("LD_PRELOAD={}", shim(flavour).display())]);
            all.fold(run, |run, setting| run.arg("-E").arg(setting))
        }
    }
}

fn opened(calls: &[String]) -> BTreeSet<String> {
    let opens = calls.iter().filter(|call| call.starts_with("open"));
    opens.filter_map(|call| Some(call.split('"').nth(1)?.to_string())).collect()
}

#[test]
fn without_rdma_only_the_shim_itself_is_opened() {
    let shell = ["/bin/sh", "-c", "ls / | sort | wc -l >/dev/null; /bin/true"];
    let plain_program = cc("ctests/harmless/plain.c", &[]);
    let plain_program = plain_program.to_str().expect("UTF-8");
    for program in [&[plain_program][..], &shell, &["/usr/bin/python3", "-c", "import ssl, ctypes"]] {
        let before = opened(&system_calls(under_strace(None), program));
        assert!(before.iter().any(|path| path.contains("libc.so.6")), "{before:?}");
        for flavour in FLAVOURS {
            let after = opened(&system_calls(under_strace(Some(flavour)), program));
            let ours: Vec<&String> = after.difference(&before).collect();
            let ours: Vec<&Path> = ours.into_iter().map(Path::new).collect();
            assert_eq!(ours, [&*shim(flavour)], "{program:?}");
        }
    }
}

/// From the moment that the loader is done to the end, the system calls are the same ones.
#[test]
fn constructor_and_destructor_make_no_system_call() {
    let program = cc("ctests/harmless/plain.c", &[]);
    let program = program.to_str().expect("UTF-8");
    let names = |flavour| -> Vec<String> {
        let calls = system_calls(under_strace(flavour), &[program]);
        let loaded =
            calls.iter().rposition(|call| call.starts_with("munmap")).expect("the loader's last call");
        calls[loaded..].iter().map(|call| call.split('(').next().unwrap_or_default().to_string()).collect()
    };
    let plain = names(None);
    assert!(plain.contains(&"write".to_string()) && plain.len() < 20, "{plain:?}");
    for flavour in FLAVOURS {
        assert_eq!(names(Some(flavour)), plain);
    }
}
