//! Regenerates committed sources, only when a feature asks for it:
//! `bindings` makes `verbs.rs` from `<infiniband/verbs.h>`, `header` makes `ibv_sa.h`.
//! Both go to the directory in `IBV_SA_GENERATE_DIR`. A plain build does nothing here.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=IBV_SA_GENERATE_DIR");
    #[cfg(feature = "bindings")]
    bindings();
    #[cfg(feature = "header")]
    header();
}

#[cfg(any(feature = "bindings", feature = "header"))]
fn output(name: &str) -> std::path::PathBuf {
    let dir = std::env::var_os("IBV_SA_GENERATE_DIR")
        .expect("set IBV_SA_GENERATE_DIR to the directory that receives the generated file");
    std::path::Path::new(&dir).join(name)
}

#[cfg(feature = "bindings")]
fn bindings() {
    bindgen::Builder::default()
        .header_contents("wrapper.h", "#include <infiniband/verbs.h>\n")
        .allowlist_type("ibv_.*")
        .allowlist_type("verbs_context")
        .allowlist_type("_compat_ibv_port_attr")
        .allowlist_var("IBV_.*")
        // An unknown value from a newer kernel must pass through: enumerations stay integers.
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_debug(false)
        .generate_comments(false)
        .layout_tests(false)
        .use_core()
        .override_abi(bindgen::Abi::CUnwind, ".*")
        .raw_line(
            "// Made by bindgen from <infiniband/verbs.h> of rdma-core 44 (Debian 12) by `make bindings`;",
        )
        .raw_line(
            "// the header is Copyright its authors, licensed GPL-2.0 OR Linux-OpenIB (BSD). Do not edit.",
        )
        .generate()
        .expect("bindgen reads <infiniband/verbs.h>; install libibverbs-dev and libclang-dev")
        .write_to_file(output("verbs.rs"))
        .expect("the generated bindings can be written");
}

#[cfg(feature = "header")]
fn header() {
    let config = cbindgen::Config::from_file("cbindgen.toml").expect("cbindgen.toml is well-formed");
    // Only our own API: everything else is declared in <infiniband/verbs.h>.
    let sources = ["api", "sa/channel", "sa/register", "sa/get", "sa/event", "sa/id", "sa/notice", "sa/text"];
    let mut builder = cbindgen::Builder::new().with_config(config);
    println!("cargo::rerun-if-changed=cbindgen.toml");
    for source in sources.map(|name| format!("src/{name}.rs")) {
        println!("cargo::rerun-if-changed={source}");
        builder = builder.with_src(source);
    }
    builder.generate().expect("cbindgen reads src/api.rs and src/sa").write_to_file(output("ibv_sa.h"));
}
