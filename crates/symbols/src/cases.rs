//! The differential test's program: a call of every function of the table with arguments that are
//! all different and as wide as their types, in a form that `ctests/differential/run.c` can repeat
//! with every answer a provider may give.

use std::fmt::Write;

use crate::Symbol;
use crate::c::{arguments, c_type, is_pointer, parameters, structures};
use crate::provider::scripted_name;

/// Objects that the program has, as members of its `struct objects`.
const OBJECTS: [(&str, &str); 21] = [
    ("*mut ibv_ah", "ah"),
    ("*mut ibv_comp_channel", "channel"),
    ("*mut ibv_context", "context"),
    ("*mut ibv_counters", "counters"),
    ("*mut ibv_cq", "cq"),
    ("*mut ibv_cq_ex", "cq_ex"),
    ("*mut ibv_device", "device"),
    ("*mut ibv_dm", "dm"),
    ("*mut ibv_flow", "flow"),
    ("*mut ibv_flow_action", "flow_action"),
    ("*mut ibv_mr", "mr"),
    ("*mut ibv_mw", "mw"),
    ("*mut ibv_pd", "pd"),
    ("*mut ibv_qp", "qp"),
    ("*mut ibv_qp_ex", "qp_ex"),
    ("*mut ibv_rwq_ind_table", "table"),
    ("*mut ibv_srq", "srq"),
    ("*mut ibv_td", "td"),
    ("*mut ibv_wq", "wq"),
    ("*mut ibv_xrcd", "xrcd"),
    ("*mut *mut ibv_device", "list"),
];

/// Arguments of these names are written to by the function.
const OUTPUTS: [&str; 23] = [
    "ah_attr",
    "bad_op",
    "bad_wr",
    "buf",
    "caps",
    "cq",
    "cq_context",
    "dst",
    "ece",
    "entries",
    "entry",
    "eth_mac",
    "event",
    "gid",
    "init_attr",
    "num_devices",
    "pkey",
    "port_attr",
    "port_speed",
    "srq_num",
    "tm_info",
    "value",
    "wc",
];

/// Pointers that nobody but the provider looks behind: any value will do.
const FAKE: [&str; 6] = ["addr", "base", "cq_context", "hdr", "host_addr", "init_func"];

/// Not in the header of libibverbs at all: there is nothing to compare with.
pub fn is_ours_alone(symbol: &Symbol) -> bool {
    symbol.name.starts_with("ibv_sa_") || symbol.name == "ibv_wr_opcode_str"
}

fn is_exported_by_libibverbs(symbol: &Symbol) -> bool {
    symbol.node.starts_with("IBVERBS_")
}

fn object(ty: &str) -> Option<&'static str> {
    let found = OBJECTS.iter().find(|(object, _)| *object == ty);
    found.map(|(_, member)| *member)
}

enum Argument {
    Object(&'static str),
    /// Memory of the program, numbered as the argument.
    Buffer,
    Value(u64),
}

fn argument(index: usize, name: &str, ty: &str) -> Argument {
    // Every byte of every argument differs, and the top bit is set.
    let at = index as u64 + 1;
    let value = (0..8).fold(0, |value, byte| value << 8 | (0x80 + 0x10 * (byte % 8) + at));
    if let Some(member) = object(ty) {
        return Argument::Object(member);
    }
    let plain = matches!(ty, "*mut ibv_dmah" | "*mut ibv_buf" | "*mut ibv_comp_cntr");
    let fake = plain || (FAKE.contains(&name) && ty.ends_with("c_void") && !ty.starts_with("*mut *"));
    match is_pointer(ty) && !fake {
        true => Argument::Buffer,
        // The low bytes differ from the high ones, so that no truncation goes unseen.
        false => Argument::Value(value.rotate_left(8 * index as u32)),
    }
}

fn is_output(symbol: &Symbol, name: &str, ty: &str) -> bool {
    let queried = name == "attr" && symbol.name.contains("_query_");
    let writable = ty.starts_with("*mut ");
    writable && (OUTPUTS.contains(&name) || queried || (name == "values" && ty == "*mut u64"))
}

/// The C file.
pub fn source(table: &[Symbol]) -> String {
    let mut out = String::from(
        "// Made by `ibv-sa-symbols cases` from src/abi/table.rs.\n\n#include \"differential.h\"\n\n",
    );
    for name in structures(table) {
        let _ = writeln!(out, "struct {name};");
    }
    for symbol in table {
        out += &call(symbol);
    }
    out += "\nconst struct function functions[] = {\n";
    for symbol in table {
        out += &entry(symbol);
    }
    out += "};\n\nconst unsigned int function_count = sizeof(functions) / sizeof(functions[0]);\n";
    out
}

fn call(symbol: &Symbol) -> String {
    let name = &symbol.name;
    let ret = c_type(&symbol.ret);
    let parameters = parameters(symbol);
    let mut out = String::new();
    let function = if is_exported_by_libibverbs(symbol) {
        // By another name in C: the header's macros and inline functions do not get in the way.
        let _ = writeln!(out, "\n{ret}real_{name}({parameters}) __asm__(\"{name}\");");
        format!("real_{name}")
    } else {
        let inline = if is_ours_alone(symbol) {
            "NULL".to_string()
        } else {
            let back = if symbol.ret == "()" { "" } else { "return " };
            let _ = writeln!(
                out,
                "\nstatic {ret}inline_{name}({parameters})\n{{\n\t{back}{name}({});\n}}",
                arguments(symbol)
            );
            format!("inline_{name}")
        };
        let _ = writeln!(out, "\nstatic {ret}(*pointer_{name})({parameters}) = {inline};");
        format!("pointer_{name}")
    };

    let _ = writeln!(out, "\nstatic void call_{name}(struct result *result)\n{{");
    let passed = symbol.args.iter().enumerate().map(|(index, (arg, ty))| {
        let c = c_type(ty);
        let c = c.trim_end();
        match argument(index, arg, ty) {
            Argument::Object(member) => format!("objects.{member}"),
            Argument::Buffer => format!("({c})buffers[{index}]"),
            Argument::Value(value) if is_pointer(ty) => format!("({c}){value:#x}"),
            Argument::Value(value) => format!("({c}){value:#x}ULL"),
        }
    });
    let passed: Vec<String> = passed.collect();
    let passed = passed.join(",\n\t\t");
    let _ = writeln!(out, "\terrno = UNTOUCHED;");
    if symbol.ret == "()" {
        let _ = writeln!(out, "\t{function}({passed});\n\tresult->err = errno;\n}}");
    } else {
        let cast = if is_pointer(&symbol.ret) { "(long)(intptr_t)" } else { "(long)" };
        let _ = writeln!(
            out,
            "\t{ret}value = {function}({passed});\n\tresult->err = errno;\n\tresult->value = {cast}value;\n}}"
        );
    }
    out
}

fn entry(symbol: &Symbol) -> String {
    let name = &symbol.name;
    let kind = match symbol.ret.as_str() {
        "()" => "RET_VOID",
        "c_int" => "RET_INT",
        "isize" => "RET_LONG",
        "*const c_char" => "RET_STRING",
        ty if is_pointer(ty) => "RET_POINTER",
        _ => "RET_UNSIGNED",
    };
    let mut out = format!(
        "\t{{\n\t\t.name = \"{name}\", .node = \"{}\", .call = call_{name}, .ret = {kind},\n",
        symbol.node
    );
    if kind == "RET_UNSIGNED" {
        let _ = writeln!(out, "\t\t.ret_size = sizeof({}),", c_type(&symbol.ret).trim_end());
    }
    if let Some(scripted) = scripted_name(symbol) {
        let _ = writeln!(out, "\t\t.scripted = \"{scripted}\",");
        if let Some(member) = scripted.strip_prefix("vctx.").filter(|_| may_be_missing(symbol)) {
            let _ = writeln!(out, "\t\t.member = offsetof(struct verbs_context, {member}),");
        }
        if scripted == "ops.alloc_mw" {
            let member = "offsetof(struct verbs_context, context.ops.alloc_mw)";
            let _ = writeln!(out, "\t\t.member = {member}, .in_ops = true,");
        }
    }
    if let Some(member) = object(&symbol.ret) {
        let _ = writeln!(out, "\t\t.success = &objects.{member},");
    }
    if !is_exported_by_libibverbs(symbol) {
        let _ = writeln!(out, "\t\t.pointer = (void **)&pointer_{name},");
    }
    if is_ours_alone(symbol) {
        out += "\t\t.ours_alone = true,\n";
    }
    let (mut buffers, mut outputs) = (0u32, 0u32);
    for (index, (arg, ty)) in symbol.args.iter().enumerate() {
        if matches!(argument(index, arg, ty), Argument::Buffer) {
            buffers |= 1 << index;
            if is_output(symbol, arg, ty) {
                outputs |= 1 << index;
            }
        }
    }
    let cq = symbol.args.iter().position(|(_, ty)| ty == "*mut *mut ibv_cq");
    let _ = writeln!(out, "\t\t.buffers = {buffers:#x}, .outputs = {outputs:#x},");
    if let Some(index) = cq {
        let _ = writeln!(out, "\t\t.cq_output = {index},");
    }
    let _ = writeln!(out, "\t\t.absent = ABSENT_{},\n\t}},", symbol.fails.to_uppercase());
    out
}

/// The inline function copes with a context whose provider lacks the entry. (The header's
/// ibv_close_xrcd does not look.)
fn may_be_missing(symbol: &Symbol) -> bool {
    symbol.name != "ibv_close_xrcd"
}
