//! The first RDMA call, and later the first call of each function, at bad moments: while the environment changes,
//! while the loader's lock is held, when there is no memory.

use std::time::Duration;

use ibv_sa_tests::{FLAVOURS, Outcome, Run, cc, harmless, scripted_dir};

/// Runs it without the shim and with it; all must end well and print alike.
#[track_caller]
fn compare(run: impl Fn() -> Run) -> Outcome {
    let plain = run().run().assert_ok();
    for flavour in FLAVOURS {
        run().shim(flavour).run().assert_same(&plain);
    }
    plain
}

/// A program of `ctests/harmless` as a library that needs libibverbs.
fn library(name: &str) -> std::path::PathBuf {
    let dir = format!("-L{}", scripted_dir().display());
    cc(&format!("ctests/harmless/{name}.c"), &["-shared", "-fPIC", &dir, "-libverbs"])
}

#[test]
fn another_thread_changes_the_environment() {
    let program = harmless("environment_race");
    let plain = compare(|| Run::new(&program).arg("200").scripted().timeout(Duration::from_secs(60)));
    assert_eq!(plain.stdout, "good children: 200 of 200\n");
}

/// The loader holds its lock while a destructor runs.
#[test]
fn a_plugins_destructor_waits_for_a_thread_that_calls() {
    let host = cc("ctests/harmless/plugin_host.c", &[]);
    let plugin = library("plugin_joins");
    let plain = compare(|| Run::new(&host).arg("local").arg(&plugin).scripted());
    assert_eq!(plain.stdout, "joined\nclosed: 0\n");
}

#[test]
fn a_child_forked_while_a_library_is_opened() {
    let program = harmless("fork_in_dlopen");
    let plugin = library("plugin");
    let plain = compare(|| Run::new(&program).arg(&plugin).arg("400").scripted());
    assert_eq!(plain.stdout, "good children: 400 of 400\n");
}

/// A call may fail; the program is not ended.
#[test]
fn no_memory() {
    let program = harmless("malloc_fails");
    for when in ["first", "limit"] {
        let run = || Run::new(&program).arg(when).scripted();
        run().run().assert_ok();
        for flavour in FLAVOURS {
            let run = run().shim(flavour).env("IBV_SA_REPORT", "text").run().assert_ok();
            assert!(["a list\n", "no list, errno is set: 1\n"].contains(&&*run.stdout), "{run}");
            assert_eq!(run.stderr, "");
        }
    }
}
