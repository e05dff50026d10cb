//! Every program of `ctests/harmless` compiles without a warning with clang too, and then behaves as the one
//! that gcc made: the frames around a call into the shim differ.

use std::fs;
use std::path::PathBuf;

use ibv_sa_tests::{Compiler, FLAVOURS, Run, cc_with, path, scripted_dir};

fn with_clang(name: &str) -> PathBuf {
    let dir = format!("-L{}", scripted_dir().display());
    let shared = ["plugin", "plugin_joins", "library_destroys", "malloc_interposer", "mmap_refuses"];
    let shared = shared.contains(&name);
    let mut args = vec![&*dir, "-libverbs"];
    if shared {
        args.extend(["-shared", "-fPIC"]);
    }
    cc_with(Compiler::Clang, &format!("ctests/harmless/{name}.c"), &args)
}

#[test]
fn clang_takes_every_program() {
    let mut seen = 0;
    for entry in fs::read_dir(path("ctests/harmless")).expect("readable") {
        let file = entry.expect("an entry").path();
        if file.extension().is_some_and(|extension| extension == "c") {
            with_clang(&file.file_stem().expect("a name").to_string_lossy());
            seen += 1;
        }
    }
    assert!(seen > 15, "only {seen} programs");
}

#[test]
fn cancellation_and_signals_with_clang() {
    for (program, args) in [
        ("cancel", &["async", "deferred"]),
        ("cancel", &["comp", "asynchronous"]),
        ("cancel", &["qp", "pending"]),
        ("signals", &["comp", "longjmp"]),
        ("forks", &["fork", "busy"]),
    ] {
        let plain = Run::new(with_clang(program)).args(args).scripted().run().assert_ok();
        for flavour in FLAVOURS {
            Run::new(with_clang(program)).args(args).scripted().shim(flavour).run().assert_same(&plain);
        }
    }
}
