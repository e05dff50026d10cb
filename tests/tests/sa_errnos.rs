//! Every errno that a manual of `ibv_sa_*` promises, produced; and none that it does not promise.

use std::collections::BTreeSet;
use std::time::Duration;

use ibv_sa_tests::{FLAVOURS, Flavour, ScriptedDaemon, need_root, path};

/// What each function may fail with; `ctests/sa/errnos.c` makes it happen.
const TABLE: &[(&str, &[&str])] = &[
    (
        "ibv_sa_create_event_channel",
        &[
            "ENOENT",
            "ECONNREFUSED",
            "EACCES",
            "ETIMEDOUT",
            "EPROTO",
            "EPROTONOSUPPORT",
            "EBUSY",
            "ECONNRESET",
            "EMFILE",
            "ENFILE",
            "ENOMEM",
            "EIO",
        ],
    ),
    (
        "ibv_sa_register_inform_info",
        &[
            "EINVAL",
            "EBADF",
            "EOPNOTSUPP",
            "ENOENT",
            "ECONNREFUSED",
            "EACCES",
            "ETIMEDOUT",
            "EPROTO",
            "EIO",
            "ENOMEM",
            "EMFILE",
            "ENFILE",
        ],
    ),
    ("ibv_sa_free_id", &["EINVAL", "EBADF", "EIO"]),
    ("ibv_sa_get_event", &["EAGAIN", "EINTR", "EBADF", "EINVAL", "ENOMEM", "EIO"]),
    ("ibv_sa_ack_event", &["EINVAL", "EBADF", "EIO"]),
    ("ibv_sa_notice_trap", &["EINVAL", "EIO"]),
    ("ibv_sa_notice_lid", &["EINVAL", "ENODATA", "EIO"]),
    ("ibv_sa_notice_gid", &["EINVAL", "ENODATA", "EIO"]),
    ("ibv_sa_notice_issuer", &["EINVAL", "EIO"]),
];

/// The functions of a manual with an ERRORS section of their own.
const PAGES: &[(&str, &[&str])] = &[
    ("ibv_sa_create_event_channel", &["ibv_sa_create_event_channel"]),
    ("ibv_sa_register_inform_info", &["ibv_sa_register_inform_info", "ibv_sa_free_id"]),
    ("ibv_sa_get_event", &["ibv_sa_get_event", "ibv_sa_ack_event"]),
    (
        "ibv_sa_notice_trap",
        &["ibv_sa_notice_trap", "ibv_sa_notice_lid", "ibv_sa_notice_gid", "ibv_sa_notice_issuer"],
    ),
];

/// The words in bold that begin with E, of one section.
fn promised(page: &str) -> BTreeSet<String> {
    let manual = std::fs::read_to_string(path(format!("man/{page}.3.md"))).expect("the manual");
    let (_, section) = manual.split_once("\n# ERRORS\n").expect("it has one");
    let section = section.split("\n# ").next().expect("it ends");
    let bold = section.split("**").skip(1).step_by(2);
    bold.filter(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()))
        .map(String::from)
        .collect()
}

#[test]
fn the_manuals_promise_what_is_tried_here() {
    for (page, functions) in PAGES {
        let rows = TABLE.iter().filter(|(function, _)| functions.contains(function));
        let tried: BTreeSet<String> =
            rows.flat_map(|(_, errnos)| *errnos).map(|name| name.to_string()).collect();
        assert_eq!(tried, promised(page), "{page}");
    }
    let of_pages: usize = PAGES.iter().map(|(_, functions)| functions.len()).sum();
    assert_eq!(of_pages, TABLE.len());
}

#[test]
fn each_function_fails_with_each_errno() {
    need_root();
    for flavour in FLAVOURS {
        std::thread::scope(|scope| {
            for (function, errnos) in TABLE {
                scope.spawn(move || {
                    for errno in *errnos {
                        // A fault of the library is the next test's.
                        if *errno != "EIO" || *function == "ibv_sa_register_inform_info" {
                            fails(function, errno, flavour);
                        }
                    }
                });
            }
        });
    }
}

fn fails(function: &str, errno: &str, flavour: Flavour) {
    let daemon = ScriptedDaemon::start();
    let run = daemon.program("errnos", flavour).args([function, errno]).timeout(Duration::from_secs(60));
    let outcome = run.run().assert_ok();
    assert_eq!(outcome.stdout, "good\n", "{outcome}");
}

#[test]
fn a_fault_of_the_library_is_eio() {
    let daemon = ScriptedDaemon::start();
    let outcome = daemon.program("fault", Flavour::Panic).run().assert_ok();
    assert_eq!(outcome.stdout, "good\n", "{outcome}");
    assert!(outcome.stderr.lines().all(|line| line.contains("internal error")), "{outcome}");
}
