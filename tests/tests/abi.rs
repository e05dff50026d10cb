//! The binary interface as seen from outside: layouts, symbols, an installed copy.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use ibv_sa_symbols::{signatures, table};
use ibv_sa_tests::{Compiler, Flavour, Run, cc, cc_with, path, root, scripted, shim, tool};

#[test]
fn the_installed_header_has_the_layouts() {
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        Run::new(cc_with(compiler, "ctests/abi/layout.c", &[])).run().assert_ok();
    }
}

#[test]
fn our_own_header_has_the_layouts_and_big_endian_constants() {
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        Run::new(cc_with(compiler, "ctests/abi/sa_layout.c", &["-std=c11"])).run().assert_ok();
        Run::new(cc_with(compiler, "ctests/abi/sa_layout.cpp", &["-std=c++17"])).run().assert_ok();
    }
}

#[test]
fn our_own_header_has_the_signatures_of_the_table() {
    let header = std::fs::read_to_string(path("include/infiniband/ibv_sa.h")).expect("the header");
    let (text, names) = signatures::source(&table(), &header);
    let missing: Vec<String> = table()
        .into_iter()
        .filter(|symbol| symbol.section == "sa" && !names.contains(&symbol.name))
        .map(|symbol| symbol.name)
        .collect();
    assert!(missing.is_empty(), "not declared: {missing:?}");
    std::fs::create_dir_all(path("build/ctests")).expect("build/ctests can be made");
    std::fs::write(path("build/ctests/sa_signatures.c"), format!("#include <infiniband/ibv_sa.h>\n{text}"))
        .expect("the file can be written");
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        cc_with(compiler, "build/ctests/sa_signatures.c", &["-c"]);
    }
}

/// Public symbols with their default version nodes, as `name@@NODE`; libibverbs keeps one historical public symbol
/// without a default (`ibv_register_driver`).
fn public_symbols(library: &Path) -> BTreeSet<String> {
    let output = Command::new(tool("nm"))
        .args(["-D", "--defined-only", "--with-symbol-versions"])
        .arg(library)
        .output()
        .expect("nm runs");
    assert!(output.status.success(), "nm cannot read {}", library.display());
    String::from_utf8(output.stdout)
        .expect("names are ASCII")
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|symbol| symbol.contains("@@IBVERBS_1.") || *symbol == "ibv_register_driver@IBVERBS_1.1")
        .map(|symbol| symbol.replace("@@", "@"))
        .collect()
}

fn is_covered(library: &Path) {
    let theirs = public_symbols(library);
    assert!(theirs.len() > 70, "{}: {theirs:?}", library.display());
    let ours = public_symbols(&shim(Flavour::Release));
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "{} has, and the shim lacks: {missing:?}", library.display());
}

#[test]
fn every_public_symbol_of_the_installed_libibverbs_is_exported() {
    let found = ["/usr/lib/x86_64-linux-gnu/libibverbs.so.1", "/usr/lib64/libibverbs.so.1"];
    let library = found.iter().map(Path::new).find(|library| library.exists());
    is_covered(library.expect("libibverbs1 is missing: run `make setup`"));
}

#[test]
fn an_installed_copy_links_with_pkg_config_alone() {
    let stage = tempfile::tempdir().expect("a temporary folder");
    let prefix = stage.path().join("usr");
    let make = |target: &str| {
        let status = Command::new(tool("make"))
            .current_dir(root())
            .args(["--no-print-directory", "-s", target])
            .arg(format!("PREFIX={}", prefix.display()))
            .status();
        assert!(status.expect("make runs").success(), "make {target} failed");
    };
    make("install");

    let flags = Command::new(tool("pkg-config"))
        .args(["--cflags", "--libs", "ibv_sa"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output()
        .expect("pkg-config runs");
    assert!(flags.status.success(), "{}", String::from_utf8_lossy(&flags.stderr));
    let flags = String::from_utf8(flags.stdout).expect("flags are text");
    let flags: Vec<&str> = flags.split_whitespace().collect();

    let program = cc("ctests/abi/devices.c", &flags);
    let needed = Command::new(tool("readelf")).arg("-d").arg(&program).output().expect("readelf runs");
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    assert!(needed.contains("[libibv_sa.so.1]"), "{needed}");
    assert!(!needed.contains("libibverbs"), "{needed}");

    let run = Run::new(&program)
        .env("LD_LIBRARY_PATH", prefix.join("lib").to_str().expect("a plain path"))
        .env("IBV_SA_PROVIDER", scripted().to_str().expect("a plain path"))
        .run()
        .assert_ok();
    let version = std::fs::read_to_string(path("Cargo.toml")).expect("Cargo.toml");
    let version = version.lines().find_map(|line| line.strip_prefix("version = ")).expect("a version");
    assert_eq!(run.stdout, format!("version {}\nscr0\nscr1\nibsim0\n", version.trim_matches('"')));

    // Each function has a manual page, whose NAME has it.
    for symbol in table().iter().filter(|symbol| symbol.section == "sa") {
        let page = prefix.join(format!("share/man/man3/{}.3", symbol.name));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        let name = text.split(".SH ").find(|section| section.starts_with("NAME")).expect("a NAME section");
        assert!(name.contains(&symbol.name), "{}: {name}", symbol.name);
    }

    make("uninstall");
    let left =
        Command::new(tool("find")).arg(&prefix).args(["-not", "-type", "d"]).output().expect("find runs");
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}
