//! The linker's version scripts.

use std::fmt::Write;

use crate::Symbol;
use crate::provider::minor;

/// The version script of `libibv_sa.so.1`. A bare name in one node is the default version of its symbol; the
/// last node hides everything that no node names.
pub fn version_script(table: &[Symbol]) -> String {
    let mut out = String::from("/* Made by `ibv-sa-symbols map` from src/abi/table.rs. */\n");
    out += &chain(table, |_| true);
    out += "IBV_SA_1.0 {\n\tglobal:\n";
    for symbol in table.iter().filter(|symbol| symbol.node == "IBV_SA_1.0") {
        let _ = writeln!(out, "\t\t{};", symbol.name);
    }
    out += "\tlocal:\n\t\t*;\n};\n";
    out
}

/// libibverbs's nodes, each derived from the one before it, as in libibverbs itself.
pub(crate) fn chain(table: &[Symbol], wanted: impl Fn(&str) -> bool) -> String {
    let mut nodes: Vec<&str> = table.iter().map(|symbol| symbol.node.as_str()).collect();
    nodes.retain(|node| node.starts_with("IBVERBS_") && wanted(node));
    nodes.sort_by_key(|node| minor(node));
    nodes.dedup();
    let mut out = String::new();
    let mut previous = String::new();
    for node in nodes {
        let _ = writeln!(out, "{node} {{\n\tglobal:");
        for symbol in table.iter().filter(|symbol| symbol.node == node) {
            let _ = writeln!(out, "\t\t{};", symbol.name);
        }
        let _ = writeln!(out, "}}{previous};\n");
        previous = format!(" {node}");
    }
    out
}
