//! The programs of `ctests/completions` under sanitizers, valgrind and a debugger, made by clang, and beside a fault of
//! ours.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ibv_sa_tests::ledger::{all_at_once, completions, pairs, run_completions};
use ibv_sa_tests::{
    Compiler, FLAVOURS, Flavour, Outcome, Run, cc_with, path, product, scripted_dir, shim, tool,
};

const CASES: [(&str, &[&str]); 9] = [
    ("batch", &["24"]),
    ("batch", &["one", "1", "4", "15", "16", "17", "64"]),
    ("polls", &[]),
    (
        "scene",
        &[
            "+ex",
            "poll:recv:5x3,0",
            "poll:send:12,5",
            "destroy",
            "poll:recv:5",
            "another",
            "poll:send:13",
            "close",
        ],
    ),
    (
        "scene",
        &["connect:gid", "modify:err", "poll:recv:5x3", "modify:reset", "poll:recv:0,5", "event:3", "close"],
    ),
    ("scene", &["+ex", "+no_qp_num", "+no_vendor_err", "+no_opcode", "poll:recv:5x3,0", "close"]),
    ("random", &["7", "200"]),
    ("storm", &["qps", "40"]),
    ("together", &["threads", "2000"]),
];

const LOOKING: [&str; 2] = ["errors", "full"];

fn dir(folder: &str) -> String {
    format!("-L{}", path(folder).display())
}

#[track_caller]
fn clean(outcome: Outcome) {
    let outcome = outcome.assert_ok();
    // Only the shim speaks.
    assert_eq!(outcome.shim_lines().len(), outcome.stderr.lines().count(), "{outcome}");
}

#[test]
fn clang_takes_every_program_and_they_do_the_same() {
    let with_clang = |name: &str| -> PathBuf {
        let args = ["-fexceptions", &*dir("build/scripted"), "-libverbs"];
        cc_with(Compiler::Clang, &format!("ctests/completions/{name}.c"), &args)
    };
    let mut seen = 0;
    for entry in fs::read_dir(path("ctests/completions")).expect("readable") {
        let file = entry.expect("an entry").path();
        if file.extension().is_some_and(|extension| extension == "c") {
            with_clang(&file.file_stem().expect("a name").to_string_lossy());
            seen += 1;
        }
    }
    assert!(seen >= 9, "only {seen} programs");
    for (way, poll) in pairs(&["cancelled", "forced", "signal"], &["plain", "start"]) {
        let run = |flavour| Run::new(with_clang("unwind")).args([way, poll]).scripted().shim_if(flavour);
        let plain = run(None).run().assert_ok();
        for flavour in FLAVOURS {
            assert_eq!(run(Some(flavour)).run().assert_ok().stdout, plain.stdout);
        }
    }
}

#[test]
fn valgrind() {
    all_at_once(LOOKING, |cq| {
        for (program, args) in CASES {
            let run = Run::new(tool("valgrind")).args(["-q", "--error-exitcode=9", "--leak-check=full"]);
            let run = run.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
            let run = run.arg(completions(program)).args(args).scripted().shim(Flavour::Release);
            clean(run.env("IBV_SA_CQ", cq).env("POISON", "255").timeout(Duration::from_secs(100)).run());
        }
    });
}

/// The provider is instrumented as well: what is read behind the completions that it gave is found.
#[test]
fn address_sanitizer() {
    product("build/scripted-asan/libibverbs.so.1", "make scripted");
    let asan = |name: &str| -> PathBuf {
        let args = ["-fsanitize=address", &*dir("build/scripted-asan"), "-libverbs"];
        cc_with(Compiler::Gcc, &format!("ctests/completions/{name}.c"), &args)
    };
    all_at_once(pairs(&FLAVOURS, &LOOKING), |(flavour, cq)| {
        for (program, args) in CASES {
            let run =
                Run::new(asan(program)).args(args).shim(flavour).library_path(path("build/scripted-asan"));
            let run = run.env("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0").env("IBV_SA_CQ", cq);
            clean(run.timeout(Duration::from_secs(60)).run());
        }
    });
}

#[test]
fn undefined_behaviour_sanitizer() {
    let ubsan = |name: &str| -> PathBuf {
        let args = ["-fsanitize=undefined", &*dir("build/scripted"), "-libverbs"];
        cc_with(Compiler::Gcc, &format!("ctests/completions/{name}.c"), &args)
    };
    all_at_once(pairs(&FLAVOURS, &LOOKING), |(flavour, cq)| {
        for (program, args) in CASES {
            clean(Run::new(ubsan(program)).args(args).scripted().shim(flavour).env("IBV_SA_CQ", cq).run());
        }
    });
}

/// A breakpoint in the provider: the debugger finds the way back through the trampoline.
#[test]
fn a_debugger_sees_the_caller() {
    for flavour in FLAVOURS {
        let preload = format!("set exec-wrapper env LD_PRELOAD={}", shim(flavour).display());
        let library = format!("set env LD_LIBRARY_PATH {}", scripted_dir().display());
        let gdb = Run::new(tool("gdb")).args(["-nx", "-batch", "-ex", "set breakpoint pending on"]);
        let gdb = gdb.args(["-ex", &*preload, "-ex", &*library, "-ex", "set debuginfod enabled off"]);
        let gdb = gdb.args([
            "-ex",
            "break poll_any",
            "-ex",
            "run",
            "-ex",
            "backtrace",
            "-ex",
            "finish",
            "-ex",
            "continue",
            "--args",
        ]);
        let outcome = gdb
            .arg(completions("scene"))
            .args(["poll:send:12", "close"])
            .timeout(Duration::from_secs(60))
            .run();
        let at = |text: &str| outcome.stdout.find(text).unwrap_or_else(|| panic!("no {text} in {outcome}"));
        assert!(at(" take_all (") < at(" main ("), "{outcome}");
        assert!(!outcome.stdout.contains("corrupt stack"), "{outcome}");
        at("exited normally");
    }
}

/// A fault of ours at the first thing there is to look at: the program goes on as without us.
#[test]
fn the_books_panic() {
    all_at_once(pairs(&CASES, &["off", "errors", "full"]), |((program, args), cq)| {
        let plain = run_completions(program, args, None).run().assert_ok();
        let outcome =
            run_completions(program, args, Some(Flavour::Panic)).env("IBV_SA_CQ", cq).run().assert_ok();
        let without_tid =
            |text: &str| text.lines().filter(|line| !line.starts_with("t")).collect::<Vec<_>>().join("\n");
        assert_eq!(without_tid(&outcome.stdout), without_tid(&plain.stdout), "{outcome}");
        outcome.assert_says(&["internal error at *"]);
    });
    for way in ["cancelled", "forced", "signal"] {
        let outcome = run_completions("unwind", &[way, "plain"], Some(Flavour::Panic)).run().assert_ok();
        assert!(outcome.stdout.contains("cleanup 1"), "{outcome}");
    }
}
