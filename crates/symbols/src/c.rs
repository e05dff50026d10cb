//! The table's Rust types as C writes them.

use std::collections::BTreeSet;

use crate::Symbol;

/// A type in C, ready for a name to follow: `struct ibv_qp *`, `unsigned int `.
pub fn c_type(rust: &str) -> String {
    if let Some(to) = rust.strip_prefix("*mut ") {
        return format!("{}*", c_type(to));
    }
    if let Some(to) = rust.strip_prefix("*const ") {
        return format!("const {}*", c_type(to));
    }
    let plain = match rust {
        "()" | "c_void" => "void",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_char" => "char",
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        "isize" => "ssize_t",
        "ibv_gid" => return "union ibv_gid ".into(),
        other => return format!("struct {other} "),
    };
    format!("{plain} ")
}

/// Whether the type is a pointer.
pub fn is_pointer(rust: &str) -> bool {
    rust.starts_with('*')
}

/// The C structures named in the table, to be declared before use: a header may not know the newest.
pub fn structures(symbols: &[Symbol]) -> BTreeSet<String> {
    let types = symbols.iter().flat_map(|symbol| {
        let args = symbol.args.iter().map(|(_, ty)| ty);
        args.chain([&symbol.ret])
    });
    types
        .filter_map(|ty| ty.rsplit(' ').next())
        .filter(|ty| ty.contains("ibv_") && *ty != "ibv_gid")
        .map(str::to_string)
        .collect()
}

/// `int a, struct ibv_qp *b`, or `void`.
pub fn parameters(symbol: &Symbol) -> String {
    if symbol.args.is_empty() {
        return "void".into();
    }
    let args = symbol.args.iter();
    let args: Vec<String> = args.map(|(name, ty)| c_type(ty) + name).collect();
    args.join(", ")
}

/// `a, b`
pub fn arguments(symbol: &Symbol) -> String {
    let args: Vec<&str> = symbol.args.iter().map(|(name, _)| name.as_str()).collect();
    args.join(", ")
}
