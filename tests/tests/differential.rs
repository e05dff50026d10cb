//! The differential test: a program that calls every function of libibverbs prints the same through
//! the shim as without it, and what the installed library lacks fails as documented.
//!
//! The library behind is the scripted provider, a test double; its trace of the arguments that
//! arrived is part of what is compared.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use ibv_sa_symbols::{cases, signatures, table};
use ibv_sa_tests::{
    Compiler, FLAVOURS, Flavour, Outcome, Run, cc, cc_with, path, product, scripted, scripted_dir, shim,
    shim_dir, tool,
};

const PROGRAM: &str = "build/ctests/differential.c";
const MUTANT: &str = "ctests/differential/mutant/mutant.c";

/// Writes the program that is made from the symbol table.
fn generate() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let text = cases::source(&table());
        let file = path(PROGRAM);
        fs::create_dir_all(path("build/ctests")).expect("build/ctests can be made");
        // Untouched when it is the same, so that nothing is compiled again.
        if fs::read_to_string(&file).ok().as_ref() != Some(&text) {
            fs::write(&file, text).expect("the program can be written");
        }
    });
}

fn program(compiler: Compiler, library: &[&str]) -> PathBuf {
    generate();
    let text = |path: PathBuf| path.to_str().expect("a path in UTF-8").to_string();
    let mut args = vec![format!("-I{}", text(path("ctests/differential")))];
    let sources = ["run", "threads", "objects", "events", "polls", "contexts"];
    args.extend(sources.map(|name| text(path(format!("ctests/differential/{name}.c")))));
    args.extend(library.iter().map(|arg| arg.to_string()));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    cc_with(compiler, PROGRAM, &args)
}

/// Linked as any RDMA program is; the scripted provider lends its name.
fn linked_with_libibverbs() -> PathBuf {
    let dir = format!("-L{}", scripted_dir().display());
    program(Compiler::Gcc, &[&dir, "-libverbs"])
}

/// Linked with `-libv_sa` and nothing of libibverbs.
fn linked_with_shim(flavour: Flavour) -> PathBuf {
    let dir = format!("-L{}", shim_dir(flavour).display());
    program(Compiler::Gcc, &[&dir, "-libv_sa"])
}

fn tracing(program: &Path) -> Run {
    Run::new(program)
        .env("SCRIPTED_LIBRARY", scripted())
        .env("SCRIPTED_TRACE", "fd:1")
        .timeout(Duration::from_secs(60))
}

/// What the program prints without the shim.
fn expected() -> &'static Outcome {
    static EXPECTED: OnceLock<Outcome> = OnceLock::new();
    EXPECTED.get_or_init(|| {
        let run = tracing(&linked_with_libibverbs()).scripted().run().assert_ok();
        assert!(run.stderr.contains(" 0 of IBV_SA_1.0"), "{}", run.stderr);
        let calls = run.stdout.matches(" returns").count();
        assert!(calls > 1500, "only {calls} calls were made");
        run
    })
}

/// Fails with the first line that differs and the function that it belongs to.
#[track_caller]
fn assert_same_trace(found: &Outcome, what: &str) {
    assert_same(found, &without_our_reads(&found.stdout), what);
}

#[track_caller]
fn assert_same(found: &Outcome, trace: &str, what: &str) {
    if let Some(difference) = difference(&expected().stdout, trace) {
        panic!("{what}: {difference}\n{}", found.stderr);
    }
}

/// Before a poll of an extended CQ returns to the program the shim reads what it tells of a completion: these readers, each
/// once at most.
fn without_our_reads(trace: &str) -> String {
    let mut left: Vec<&str> = Vec::new();
    let mut kept = String::new();
    for line in trace.lines() {
        let reader = line.split_once('(').map_or("", |(function, _)| function);
        if ["cq_ex.start_poll", "cq_ex.next_poll"].contains(&reader) {
            left = vec!["cq_ex.read_qp_num", "cq_ex.read_vendor_err", "cq_ex.read_opcode"];
        } else if let Some(at) = left.iter().position(|ours| *ours == reader) {
            left.remove(at);
            continue;
        } else {
            left.clear();
        }
        kept += line;
        kept.push('\n');
    }
    kept
}

fn difference(expected: &str, found: &str) -> Option<String> {
    let (mut function, mut answer) = ("the start", "");
    let (mut one, mut other) = (expected.lines(), found.lines());
    loop {
        let (left, right) = (one.next(), other.next());
        match left {
            None if right.is_none() => return None,
            Some(line) if left == right => {
                if line.starts_with("SCENARIO") || line.contains(" IBV") {
                    function = line;
                } else if line.starts_with(" told") {
                    answer = line;
                }
            }
            _ => {
                return Some(format!(
                    "in {function},{answer}:\n  without: {}\n  with:    {}",
                    left.unwrap_or("(the end)"),
                    right.unwrap_or("(the end)")
                ));
            }
        }
    }
}

/// What the shim is asked for: a report, and what it looks at of completions.
type Mode = (Option<&'static str>, &'static str);

/// All that there is to look at, with and without a report; `off`: nothing is hooked that polls.
const MODES: [Mode; 6] = [
    (None, "errors"),
    (None, "off"),
    (None, "full"),
    (Some("text"), "errors"),
    (Some("json:/dev/null"), "full"),
    (Some("json:/dev/null"), "off"),
];

fn in_mode(run: Run, (report, cq): Mode) -> Run {
    let run = run.env("IBV_SA_CQ", cq);
    match report {
        Some(report) => run.env("IBV_SA_REPORT", report),
        None => run,
    }
}

#[track_caller]
fn assert_same_in(run: &Outcome, mode: Mode, what: &str) {
    let what = format!("{what}, {mode:?}");
    // With `off` nothing is read either.
    if mode.1 == "off" { assert_same(run, &run.stdout, &what) } else { assert_same_trace(run, &what) }
}

fn check_silence(run: &Outcome, (report, cq): Mode) {
    match report {
        // Functions are told to fail in every way, also as on a removed device and with objects in use, and
        // completions fail or are lost: these ways, and nothing else, are spoken of.
        None => {
            let failure = if cq == "off" { "the device has failed or is gone" } else { ": first failure " };
            let overrun = if cq == "full" { ": CQ_ERR: " } else { failure };
            let expected = ["the device has failed or is gone", "refused with EBUSY", failure, overrun];
            let is_expected = |line: &&str| expected.iter().any(|text| line.contains(text));
            assert!(run.shim_lines().iter().all(is_expected), "the shim is not quiet: {}", run.stderr);
        }
        Some("text") => assert!(run.stderr.contains("ibv_sa"), "no report: {}", run.stderr),
        Some(_) => {}
    }
}

fn check_exported(run: &Outcome) {
    assert!(run.stderr.contains(" 0 inline"), "an inline function is not exported: {}", run.stderr);
}

#[test]
fn preloaded_shim_changes_nothing() {
    for flavour in FLAVOURS {
        for mode in MODES {
            let run = in_mode(tracing(&linked_with_libibverbs()).scripted().shim(flavour), mode);
            let run = run.run().assert_ok();
            assert_same_in(&run, mode, &format!("preloaded, {flavour:?}"));
            check_silence(&run, mode);
            check_exported(&run);
        }
    }
}

#[test]
fn linked_shim_changes_nothing() {
    for flavour in FLAVOURS {
        for mode in MODES {
            let run = tracing(&linked_with_shim(flavour))
                .library_path(shim_dir(flavour))
                .env("IBV_SA_PROVIDER", scripted());
            let run = in_mode(run, mode).run().assert_ok();
            assert_same_in(&run, mode, &format!("linked, {flavour:?}"));
            check_silence(&run, mode);
            check_exported(&run);
        }
    }
}

/// Linked with both, the shim first: the loader's order decides, and the real library may drop out.
#[test]
fn linked_before_libibverbs_changes_nothing() {
    let flavour = Flavour::Release;
    let dirs = [shim_dir(flavour), scripted_dir()].map(|dir| format!("-L{}", dir.display()));
    let exe = program(Compiler::Gcc, &[&dirs[0], &dirs[1], "-libv_sa", "-libverbs"]);
    let run = tracing(&exe).library_path(shim_dir(flavour)).scripted().run().assert_ok();
    assert_same_trace(&run, "linked with both");
    check_exported(&run);
}

/// Every function at once from many threads: also the first calls, that look the function up.
#[test]
fn threads_get_their_answers() {
    let exe = linked_with_libibverbs();
    // Events are acknowledged that nobody got.
    let run = |exe: &Path| {
        Run::new(exe).arg("threads").env("SCRIPTED_LIBRARY", scripted()).env("IBV_SA_ACK", "forward")
    };
    let without = run(&exe).scripted().run().assert_ok();
    for flavour in FLAVOURS {
        for mode in MODES {
            let linked = linked_with_shim(flavour);
            let runs = [
                run(&exe).scripted().shim(flavour),
                run(&linked).library_path(shim_dir(flavour)).env("IBV_SA_PROVIDER", scripted()),
            ];
            for run in runs {
                let run = in_mode(run, mode).run().assert_ok();
                assert_eq!(without.stdout, run.stdout, "{flavour:?}, {mode:?}");
            }
        }
    }
}

/// The same under valgrind: the shim reads and writes no memory that is not its own or the caller's.
#[test]
fn valgrind_finds_nothing() {
    let modes = [(Flavour::Release, "full"), (Flavour::Debug, "errors")];
    for shimmed in [None].into_iter().chain(modes.map(Some)) {
        let mut run = Run::new(tool("valgrind"))
            .args(["-q", "--error-exitcode=99", "--leak-check=full"])
            .args(["--errors-for-leak-kinds=definite"])
            .arg(linked_with_libibverbs())
            .env("SCRIPTED_LIBRARY", scripted())
            .env("SCRIPTED_TRACE", "fd:1")
            .timeout(Duration::from_secs(180))
            .scripted();
        if let Some((flavour, cq)) = shimmed {
            run = in_mode(run.shim(flavour), (Some("json:/dev/null"), cq));
        }
        assert_same_trace(&run.run().assert_ok(), &format!("under valgrind, shim {shimmed:?}"));
    }
}

#[test]
fn clang_sees_the_same() {
    let dir = format!("-L{}", scripted_dir().display());
    let exe = program(Compiler::Clang, &[&dir, "-libverbs"]);
    let run = tracing(&exe).scripted().shim(Flavour::Release).run().assert_ok();
    assert_same_trace(&run, "compiled by clang");
}

/// The symbols of a library that are its own, as `name@@NODE`.
fn exports(library: &Path) -> BTreeSet<String> {
    let nm = Run::new(tool("nm"))
        .args(["-D", "--defined-only", "--with-symbol-versions"])
        .arg(library)
        .run()
        .assert_ok();
    let symbols = nm.stdout.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        // A: the version nodes themselves.
        words.next().filter(|kind| *kind != "A")?;
        words.next().map(str::to_string)
    });
    symbols.collect()
}

#[test]
fn every_export_has_its_cases_and_every_line_of_the_table_is_exported() {
    let listed = Run::new(linked_with_libibverbs()).arg("list").scripted().run().assert_ok();
    let cases: BTreeSet<String> = listed.stdout.lines().map(str::to_string).collect();
    for flavour in FLAVOURS {
        let exports = exports(&shim(flavour));
        let untested: Vec<_> = exports.difference(&cases).collect();
        let missing: Vec<_> = cases.difference(&exports).collect();
        assert!(untested.is_empty(), "{flavour:?}: exports without cases: {untested:?}");
        assert!(missing.is_empty(), "{flavour:?}: in the table, but not exported: {missing:?}");
    }
    // And the provider has what libibverbs has, so that no case was answered by somebody else.
    let provided = exports(&scripted());
    let unknown: Vec<_> =
        cases.iter().filter(|name| name.contains("@@IBVERBS_") && !provided.contains(*name)).collect();
    assert!(unknown.is_empty(), "the scripted provider lacks {unknown:?}");
}

/// Functions that have no counterpart in the header: libibverbs says nothing about them.
#[test]
fn functions_of_our_own() {
    let ours = table().into_iter().filter(cases::is_ours_alone);
    // Those of the SA have programs of their own, in ctests/sa.
    let ours: Vec<String> = ours.filter(|symbol| symbol.section != "sa").map(|symbol| symbol.name).collect();
    assert_eq!(ours, ["ibv_wr_opcode_str", "ibv_sa_version"]);
}

/// Caller and provider of the runs above are made from the same table; that it is right is for the
/// header to say.
#[test]
fn the_table_has_the_signatures_of_the_header() {
    let header = fs::read_to_string("/usr/include/infiniband/verbs.h").expect("libibverbs-dev");
    let (text, names) = signatures::source(&table(), &header);
    assert!(names.len() > 100, "found only {names:?}");
    fs::create_dir_all(path("build/ctests")).expect("build/ctests can be made");
    fs::write(path("build/ctests/signatures.c"), text).expect("the file can be written");
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        cc_with(compiler, "build/ctests/signatures.c", &["-c"]);
    }
}

// ---- what the installed library lacks --------------------------------------------------------

fn absent(flavour: Flavour, what: &str) -> Run {
    Run::new(linked_with_shim(flavour)).args(["absent", what]).library_path(shim_dir(flavour))
}

fn older_provider(variant: &str) -> PathBuf {
    let file = format!("build/{variant}/libibverbs.so.1");
    product(&file, &format!("make {file}"))
}

#[test]
fn absent_functions_fail_as_the_table_says() {
    for flavour in FLAVOURS {
        for (variant, newest) in [("scripted-1.9", "IBVERBS_1.9"), ("scripted-none", "none")] {
            for mode in MODES {
                let provider = older_provider(variant);
                let run = absent(flavour, newest).env("IBV_SA_PROVIDER", provider);
                let run = in_mode(run, mode).run().assert_ok();
                assert!(run.stdout.contains(" 0 wrong"), "{run}");
                assert!(!run.stdout.starts_with("0 calls"), "nothing was tried: {run}");
            }
        }
    }
}

/// How often the program tried to open this file, by strace.
fn attempts(run: Run, program: &Path, args: &[&str], file: &str) -> usize {
    let log = tempfile::NamedTempFile::new().expect("a temporary file");
    run.args(["-f", "-e", "trace=open,openat,openat2", "-o"])
        .arg(log.path())
        .arg(program)
        .args(args)
        .run()
        .assert_ok();
    let log = fs::read_to_string(log.path()).expect("strace writes its log");
    log.lines().filter(|line| line.contains(file)).count()
}

#[test]
fn without_any_libibverbs_there_are_no_devices() {
    let nowhere = "/nonexistent/libibverbs.so.1";
    for flavour in FLAVOURS {
        let run = absent(flavour, "missing").env("IBV_SA_PROVIDER", nowhere).run().assert_ok();
        assert!(run.stdout.contains(" 0 wrong"), "{run}");

        let strace = Run::new(tool("strace")).env("IBV_SA_PROVIDER", nowhere).library_path(shim_dir(flavour));
        let program = linked_with_shim(flavour);
        let count = attempts(strace, &program, &["absent", "missing"], nowhere);
        assert_eq!(count, 1, "{flavour:?}: attempts to open {nowhere}");
    }
}

/// The shim as its own provider: by its path, through a link, as a copy, and under the name that it
/// looks for itself.
#[test]
fn the_shim_is_not_its_own_provider() {
    for flavour in FLAVOURS {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let link = dir.path().join("libibverbs.so.1");
        std::os::unix::fs::symlink(shim(flavour), &link).expect("a link");
        let copy = dir.path().join("copy.so");
        fs::copy(shim(flavour), &copy).expect("a copy");

        let by_path = [shim(flavour), link, copy];
        let mut runs: Vec<Run> = by_path
            .iter()
            .map(|provider| absent(flavour, "refused").env("IBV_SA_PROVIDER", provider))
            .collect();
        runs.push(absent(flavour, "refused").library_path(dir.path()));
        for run in runs {
            let run = run.run().assert_ok();
            assert!(run.stdout.contains(" 0 wrong"), "{run}");
        }
    }
}

/// A path that is not absolute is refused with one line; then the default counts.
#[test]
fn a_relative_provider_path_is_refused() {
    for flavour in FLAVOURS {
        let run = tracing(&linked_with_shim(flavour))
            .dir(path("build"))
            .library_path(shim_dir(flavour))
            .scripted()
            .env("IBV_SA_PROVIDER", "scripted-none/libibverbs.so.1")
            .run()
            .assert_ok();
        assert_same_trace(&run, "with a relative path");
        let lines = run.shim_lines();
        assert_eq!(lines.iter().filter(|line| line.contains("IBV_SA_PROVIDER")).count(), 1, "{run}");
    }
}

// ---- the test itself -------------------------------------------------------------------------

/// One mistake of each kind that a forwarder can make, and where it must show.
#[test]
fn the_test_sees_mistakes() {
    let mutants = [
        "ibv_reg_mr_iova2",
        "ibv_reg_dmabuf_mr",
        "ibv_query_gid",
        "_ibv_query_gid_table",
        "ibv_query_pkey",
        "ibv_ack_cq_events",
        "ibv_modify_qp",
        "ibv_open_device",
        "ibv_wr_rdma_write",
    ];
    let map = format!("-Wl,--version-script={}", path("ctests/differential/mutant/mutant.map").display());
    for (number, function) in (1..).zip(mutants) {
        let define = format!("-DMUTANT={number}");
        let mut args = vec!["-shared", "-fPIC", &define];
        if function == "ibv_wr_rdma_write" {
            args.push(&map);
        }
        let mutant = cc(MUTANT, &args);
        let run = tracing(&linked_with_libibverbs()).scripted().preload(mutant).run().assert_ok();
        let found = difference(&expected().stdout, &run.stdout);
        let found = found.unwrap_or_else(|| panic!("mutant {number} of {function} is not seen"));
        assert!(
            found.starts_with(&format!("in {function} ")),
            "mutant {number} of {function} is seen elsewhere: {found}"
        );
    }
}

/// The scripted provider under the sanitizers, with the whole program.
#[test]
fn the_scripted_provider_is_clean() {
    let sanitize = "-fsanitize=address,undefined -fno-sanitize-recover=all";
    let dir = path("build/scripted-asan");
    let build = Run::sh(&format!(
        "mkdir -p {0} && cp {1}/stubs.c {1}/provider.map {0}/",
        dir.display(),
        scripted_dir().display()
    ));
    build.run().assert_ok();
    Run::new(path("testbed/scripted/build.sh"))
        .arg(&dir)
        .env("STUBS", "ready")
        .env("CFLAGS", sanitize)
        .timeout(Duration::from_secs(120))
        .run()
        .assert_ok();
    // The other compiler has its say about the provider's sources as well.
    let clang = path("build/scripted-clang");
    Run::sh(&format!("mkdir -p {0} && cp {1}/stubs.c {1}/provider.map {0}/", clang.display(), dir.display()))
        .run()
        .assert_ok();
    Run::new(path("testbed/scripted/build.sh"))
        .arg(&clang)
        .env("STUBS", "ready")
        .env("CC", "clang")
        .timeout(Duration::from_secs(120))
        .run()
        .assert_ok();

    let search = format!("-L{}", dir.display());
    let exe = program(
        Compiler::Gcc,
        &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", &search, "-libverbs"],
    );
    let run = Run::new(exe)
        .library_path(&dir)
        .env("SCRIPTED_LIBRARY", dir.join("libibverbs.so.1"))
        .env("SCRIPTED_TRACE", "fd:1")
        .run()
        .assert_ok();
    assert_same_trace(&run, "under the sanitizers");
}

// ---- the report -------------------------------------------------------------------------------

/// How often a line of the trace begins like this.
fn lines(trace: &str, beginning: &str) -> u64 {
    trace.lines().filter(|line| line.starts_with(beginning)).count() as u64
}

/// What `get` finds in each device of the report, added up.
fn total(report: &serde_json::Value, get: impl Fn(&serde_json::Value) -> u64) -> u64 {
    let devices = report["devices"].as_array().expect("a list of devices");
    devices.iter().map(get).sum()
}

/// The report counts what the trace shows: objects, contexts, events, acks, completions.
#[test]
fn the_report_counts_what_happened() {
    for flavour in FLAVOURS {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("report.json");
        let run = tracing(&linked_with_libibverbs())
            .arg("scenarios")
            .scripted()
            .shim(flavour)
            .env("IBV_SA_REPORT", format!("json:{}", file.display()))
            .env("IBV_SA_CQ", "full")
            .run()
            .assert_ok();
        let trace = run.stdout.as_str();
        let report = fs::read_to_string(&file).expect("the report is written");
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        let number = |value: &serde_json::Value| value.as_u64().expect("a number");

        // Objects have numbers in the trace, so the highest one is how many there were.
        for (name, kind) in
            [("QP", "qp"), ("CQ", "cq"), ("SRQ", "srq"), ("WQ", "wq"), ("Channel", "comp_channel")]
        {
            let made = (1..).take_while(|n| trace.contains(&format!("({name}#{n})"))).count() as u64;
            let created = total(&report, |device| number(&device["objects"][kind]["created"]));
            let destroyed = total(&report, |device| number(&device["objects"][kind]["destroyed"]));
            assert_eq!((created, destroyed), (made, made), "{flavour:?}: {kind} created and destroyed");
        }
        let opened = lines(trace, "ibv_open_device(") + lines(trace, "import = pointer");
        let contexts = |what| total(&report, |device| number(&device["contexts"][what]));
        assert_eq!(contexts("opened"), opened, "{flavour:?}: opened");
        assert_eq!(contexts("adopted"), 6, "{flavour:?}: opened around ibv_open_device");
        assert_eq!(contexts("closed"), lines(trace, "ibv_close_device("), "{flavour:?}: closed");

        let asyncs = total(&report, |device| {
            let types = device["async_events"].as_object().expect("counts by type");
            types.values().map(number).sum()
        });
        assert_eq!(asyncs, lines(trace, "get_async = 0"), "{flavour:?}: asynchronous events");
        let comps = |what| total(&report, |device| number(&device["comp_events"][what]));
        let got = lines(trace, "get_cq = 0");
        assert_eq!((comps("got"), comps("acked")), (got, got), "{flavour:?}: completion events");

        // Devices 0 to 15 could be watched: there is a hook for each of 16 poll functions.
        let statuses = |device: u64| {
            let first = device % 10;
            (first..first + 10).map(|i| if i % 5 == 4 { 100 + i } else { i % 3 * 5 })
        };
        let failed: usize = (0..16).map(|device| statuses(device).filter(|s| *s != 0).count()).sum();
        // Two rounds of ten; one poll of each context around, which fails; an extended CQ, polled both ways.
        let extended = 1 + lines(trace, "start_poll = 0") + lines(trace, "next_poll = 0");
        assert!(extended > 2, "the scenario polls an extended CQ");
        let completions = |what| total(&report, |device| number(&device["completions"][what]));
        assert_eq!(completions("polled"), 2 * 10 * 16 + 6 + extended, "{flavour:?}: completions");
        // Of the extended CQ's five (statuses as above, from 0) the second, third and fifth fail.
        assert_eq!(completions("failed"), 2 * failed as u64 + 6 + 3, "{flavour:?}: failed completions");
        let gaps = report["gaps"].to_string();
        assert!(gaps.contains("16 context"), "unwatched contexts are told: {gaps}");
        assert_eq!(report["partial"], true);
    }
}
