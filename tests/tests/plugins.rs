//! Plug-ins that bring RDMA into a program without it, and the shim itself loaded and unloaded.

use std::path::PathBuf;

use ibv_sa_tests::{
    FLAVOURS, Flavour, Run, acks_after, assert_report, cc, device_after, harmless, scripted_dir, shim,
    shim_dir, with_reports,
};
use serde_json::json;

fn plugin(libraries: &[String]) -> PathBuf {
    let mut args = vec!["-shared", "-fPIC"];
    args.extend(libraries.iter().map(String::as_str));
    cc("ctests/harmless/plugin.c", &args)
}

fn with_libibverbs() -> PathBuf {
    plugin(&[format!("-L{}", scripted_dir().display()), "-libverbs".into()])
}

fn with_shim(flavour: Flavour) -> PathBuf {
    plugin(&[
        format!("-L{}", shim_dir(flavour).display()),
        format!("-L{}", scripted_dir().display()),
        "-libv_sa".into(),
        "-libverbs".into(),
    ])
}

fn host(flag: &str, plugin: &PathBuf, unload: bool) -> Run {
    let host = cc("ctests/harmless/plugin_host.c", &[]);
    Run::new(host).arg(flag).arg(plugin).args(unload.then_some("unload")).scripted()
}

#[test]
fn a_plugin_that_needs_libibverbs_is_counted() {
    for flag in ["local", "global"] {
        for unload in [false, true] {
            let plain = host(flag, &with_libibverbs(), unload).run().assert_ok();
            assert_eq!(plain.stderr, "");
            for flavour in FLAVOURS {
                let run = || host(flag, &with_libibverbs(), unload).shim(flavour);
                run().run().assert_same(&plain);
                let (outcome, reports) = with_reports(run());
                outcome.assert_same(&plain);
                assert_eq!(reports.len(), 1, "{outcome}");
                assert_report(&reports[0], device_after(2, 1, 1), acks_after(2));
            }
        }
    }
}

/// RTLD_DEEPBIND keeps the plug-in's symbols to its own libraries: the shim is not in the way, and is silent.
#[test]
fn a_plugin_with_deepbind_passes_by() {
    let plain = host("deepbind", &with_libibverbs(), true).run().assert_ok();
    for flavour in FLAVOURS {
        let (outcome, reports) = with_reports(host("deepbind", &with_libibverbs(), true).shim(flavour));
        outcome.assert_same(&plain);
        assert_eq!(reports.len(), 0, "{outcome}");
    }
}

#[test]
fn a_plugin_linked_with_the_shim_comes_and_goes() {
    for flag in ["local", "global", "deepbind"] {
        for unload in [false, true] {
            let plain = host(flag, &with_libibverbs(), unload).run().assert_ok();
            for flavour in FLAVOURS {
                let run = host(flag, &with_shim(flavour), unload).library_path(shim_dir(flavour));
                let (outcome, reports) = with_reports(run);
                outcome.assert_same(&plain);
                assert_eq!(reports.len(), 1, "{outcome}");
                assert_report(&reports[0], device_after(2, 1, 1), acks_after(2));
            }
        }
    }
}

#[test]
fn the_shim_is_loaded_and_unloaded() {
    let run = |library: PathBuf| Run::new(harmless("unload")).arg(library).scripted();
    // libibverbs itself in its place: the program is right.
    let plain = run(ibv_sa_tests::scripted()).run().assert_ok();
    for flavour in FLAVOURS {
        run(shim(flavour)).run().assert_same(&plain);
        let (outcome, reports) = with_reports(run(shim(flavour)));
        outcome.assert_same(&plain);
        assert_eq!(reports.len(), 1, "{outcome}");
        // Only what went through it: the open, the close, and the poll by the context's table.
        let device = &reports[0]["devices"][0];
        assert_eq!(device["contexts"], json!({ "opened": 1, "adopted": 0, "closed": 1 }));
        assert_eq!(device["completions"], device_after(1, 1, 1)["completions"]);
        assert_eq!(device["async_events"], json!({}));
    }
}
