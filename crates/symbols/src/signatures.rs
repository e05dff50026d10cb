//! A C file that compiles only if the table's signatures are those of a header of libibverbs.

use std::fmt::Write;

use crate::Symbol;
use crate::c::{c_type, parameters};

/// The C file, and the names that the header declares.
pub fn source(table: &[Symbol], header: &str) -> (String, Vec<String>) {
    let mut out = String::from("#include <sys/types.h>\n\n#include <infiniband/verbs.h>\n\n");
    let mut names = Vec::new();
    for symbol in table.iter().filter(|symbol| declares(header, &symbol.name)) {
        let name = &symbol.name;
        // The same width, but another type of C: `unsigned long long`.
        let ret = if name == "ibv_get_device_guid" { "__be64 ".into() } else { c_type(&symbol.ret) };
        let _ = writeln!(out, "{ret}(*const check_{name})({}) = {name};", parameters(symbol));
        names.push(name.clone());
    }
    (out, names)
}

/// A declaration or an inline function: at the start of a line or after a type, before `(`.
fn declares(header: &str, name: &str) -> bool {
    header.match_indices(&format!("{name}(")).any(|(at, _)| {
        let line = header[..at].rsplit('\n').next().unwrap_or("");
        let before = line.trim_end_matches('*');
        let is_code = before.is_empty() || before.ends_with(' ') || before.ends_with('\t');
        // Not a call, a comment, a macro or another function's name.
        let words: Vec<&str> = before.split_whitespace().collect();
        let calls = words.iter().any(|word| matches!(*word, "return" | "=" | "*" | "#define" | "#"));
        is_code && !calls && !(words.is_empty() && line.contains('\t'))
    })
}
