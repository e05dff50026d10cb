//! The programs of `ctests/ledger` under sanitizers, under valgrind, and made by clang.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ibv_sa_tests::ledger::{all_at_once, ledger, ledger_library, pairs, run_ledger};
use ibv_sa_tests::{Compiler, FLAVOURS, Flavour, Outcome, Run, cc_with, path, product, scripted_dir, tool};

/// Programs that finish under the shim, whatever they do wrong.
const FINISH: [(&str, &[&str]); 12] = [
    ("acks", &["qp_ex", "2", "4"]),
    ("batch", &["100", "99", "7"]),
    ("copies", &[]),
    ("unaffiliated", &[]),
    ("after_destroy", &["qp"]),
    ("after_destroy", &["comp"]),
    ("after_destroy", &["wq"]),
    ("early", &["srq", "3", "3", "1"]),
    ("reuse", &["cq"]),
    ("refused", &["wq", "16"]),
    ("late", &["comp", "3", "1300"]),
    ("eight", &["100"]),
];

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
fn clang_takes_every_program() {
    let mut seen = 0;
    for entry in fs::read_dir(path("ctests/ledger")).expect("readable") {
        let file = entry.expect("an entry").path();
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        if file.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let dir = format!("-L{}", scripted_dir().display());
        let mut args = vec![&*dir, "-libverbs"];
        if ["around_plugin", "no_threads"].contains(&&*name) {
            args.extend(["-shared", "-fPIC"]);
            ledger_library(&name);
        } else {
            ledger(&name);
        }
        cc_with(Compiler::Clang, &format!("ctests/ledger/{name}.c"), &args);
        seen += 1;
    }
    assert!(seen > 20, "only {seen} programs");
}

/// Cancellation, a helper thread and a wait around frames that clang made.
#[test]
fn clangs_programs_do_the_same() {
    let with_clang = |name: &str| -> PathBuf {
        let dir = format!("-L{}", scripted_dir().display());
        cc_with(Compiler::Clang, &format!("ctests/ledger/{name}.c"), &[&dir, "-libverbs"])
    };
    let cases = [
        ("cancel_waiting", &["qp"][..], 1),
        ("late", &["srq", "1", "1300"], 1),
        ("acks", &["wq", "1", "2"], 1),
    ];
    all_at_once(pairs(&cases, &FLAVOURS), |((name, args, lines), flavour)| {
        let run = Run::new(with_clang(name)).args(args).scripted().shim(flavour);
        let outcome = run.env("IBV_SA_HANG_SECS", "1").run().assert_ok();
        assert_eq!(outcome.messages().len(), lines, "{outcome}");
    });
}

fn under_valgrind(program: PathBuf, args: &[&str], flavour: Option<Flavour>) -> Run {
    // The helper thread may be on its way out when the program ends: what belongs to it is "possibly lost".
    let leaks = ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
    let run = Run::new(tool("valgrind")).args(["-q", "--error-exitcode=9"]).args(leaks);
    let run = run.arg(program).args(args).scripted().shim_if(flavour).env("IBV_SA_HANG_SECS", "1");
    run.timeout(Duration::from_secs(100))
}

#[test]
fn valgrind() {
    // It can see what must not happen.
    let plain = under_valgrind(ledger("after_destroy"), &["qp"], None).run();
    assert!(plain.code == Some(9) && plain.stderr.contains("Invalid"), "{plain}");
    // One of two: each takes a second.
    all_at_once([0, 2], |lane| {
        for (program, args) in FINISH.iter().skip(lane).step_by(4) {
            clean(under_valgrind(ledger(program), args, Some(Flavour::Release)).run());
        }
    });
}

#[test]
fn valgrind_on_a_rescue_and_on_chance() {
    all_at_once([0, 1], |lane| {
        if lane == 0 {
            for (form, reused) in [("qp", "no"), ("comp", "open"), ("wq", "no")] {
                let run = under_valgrind(ledger("rescue_late"), &[form, reused], Some(Flavour::Debug));
                clean(run.env("IBV_SA_ACK", "rescue").run());
            }
        } else {
            clean(under_valgrind(ledger("random"), &["protect", "1", "3"], Some(Flavour::Release)).run());
        }
    });
}

/// The provider is instrumented as well: an ack that goes to a freed object is found there.
#[test]
fn address_sanitizer() {
    product("build/scripted-asan/libibverbs.so.1", "make scripted");
    let asan = |name: &str| -> PathBuf {
        let args = ["-fsanitize=address", &*dir("build/scripted-asan"), "-libverbs"];
        cc_with(Compiler::Gcc, &format!("ctests/ledger/{name}.c"), &args)
    };
    let run = |name: &str, args: &[&str], flavour: Option<Flavour>| {
        let run = Run::new(asan(name)).args(args).shim_if(flavour).library_path(path("build/scripted-asan"));
        let run = run.env("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0");
        run.env("IBV_SA_HANG_SECS", "1").timeout(Duration::from_secs(60)).run()
    };
    let plain = run("after_destroy", &["comp"], None);
    assert!(plain.stderr.contains("heap-use-after-free"), "{plain}");
    all_at_once(FLAVOURS, |flavour| {
        for (program, args) in FINISH {
            clean(run(program, args, Some(flavour)));
        }
        clean(run("random", &["protect", "1", "20"], Some(flavour)));
    });
}

#[test]
fn undefined_behaviour_sanitizer() {
    let ubsan = |name: &str| -> PathBuf {
        let args = ["-fsanitize=undefined", &*dir("build/scripted"), "-libverbs"];
        cc_with(Compiler::Gcc, &format!("ctests/ledger/{name}.c"), &args)
    };
    all_at_once(FLAVOURS, |flavour| {
        for (program, args) in FINISH {
            let run = Run::new(ubsan(program)).args(args).scripted().shim(flavour);
            clean(run.env("IBV_SA_HANG_SECS", "1").run());
        }
    });
}

/// A panic in the books: the program goes on as without them.
#[test]
fn the_books_panic() {
    for (program, args) in
        [("acks", &["qp", "2", "2"][..]), ("early", &["comp", "2", "2", "0"]), ("copies", &[])]
    {
        let plain = run_ledger(program, args, None).run().assert_ok();
        let outcome = run_ledger(program, args, Some(Flavour::Panic)).run().assert_ok();
        assert_eq!(outcome.values("destroyed"), plain.values("destroyed"), "{outcome}");
        assert_eq!(outcome.messages().len(), 1, "{outcome}");
        outcome.assert_mentions("internal error at *");
    }
}
