//! The stubs of the scripted provider (`testbed/scripted`): one for each symbol of libibverbs, and
//! one for each entry of the tables that its inline functions jump through.

use std::fmt::Write;

use crate::c::{arguments, c_type, is_pointer, parameters, structures};
use crate::map::chain;
use crate::{Symbol, parse};

/// Entries of the ops tables that the symbol table does not name, because their inline functions do
/// more than jump.
const MORE: &str = r#"
ops {
    "" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int, fails errno;
vctx {
    "" fn create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp, fails null;
    "" fn create_srq_ex(context: *mut ibv_context, attr: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq, fails null;
    "" fn create_wq(context: *mut ibv_context, attr: *mut ibv_wq_init_attr) -> *mut ibv_wq, fails null;
    "" fn post_srq_ops(srq: *mut ibv_srq, op: *mut ibv_ops_wr, bad_op: *mut *mut ibv_ops_wr) -> c_int, fails errno;
    "" fn query_device_ex(context: *mut ibv_context, input: *const ibv_query_device_ex_input, attr: *mut ibv_device_attr_ex, size: usize) -> c_int, fails errno;
    "" fn query_port(context: *mut ibv_context, port_num: u8, attr: *mut ibv_port_attr, size: usize) -> c_int, fails errno;
dm {
    "" fn memcpy_from_dm(host_addr: *mut c_void, dm: *mut ibv_dm, dm_offset: u64, length: usize) -> c_int, fails errno;
"#;

/// A stub: a function of the library, or the member of a table.
pub struct Stub {
    /// Empty for a function of the library.
    pub table: &'static str,
    /// The member's name; empty for a function.
    pub member: String,
    /// Its signature.
    pub symbol: Symbol,
}

impl Stub {
    /// The name that the scripted provider's control functions know it by.
    pub fn name(&self) -> String {
        match self.table {
            "" => self.symbol.name.clone(),
            table => format!("{table}.{}", self.member),
        }
    }

    fn c_name(&self) -> String {
        match self.table {
            "" => format!("stub_{}", self.symbol.name),
            table => format!("scripted_{table}_{}", self.member),
        }
    }

    fn behave(&self) -> String {
        match self.table {
            "" => format!("behave_{}", self.symbol.name),
            table => format!("behave_{table}_{}", self.member),
        }
    }
}

const TABLES: [(&str, &str); 6] = [
    ("ops", "ibv_context_ops"),
    ("vctx", "verbs_context"),
    ("cq_ex", "ibv_cq_ex"),
    ("qp_ex", "ibv_qp_ex"),
    ("wq", "ibv_wq"),
    ("dm", "ibv_dm"),
];

fn table_of(symbol: &Symbol) -> &'static str {
    let object = symbol.args.first().map_or("", |(_, ty)| ty.as_str());
    match (symbol.section.as_str(), object) {
        ("jumps_ops", _) => "ops",
        ("jumps_extended", _) => "vctx",
        (_, "*mut ibv_cq_ex") => "cq_ex",
        (_, "*mut ibv_qp_ex") => "qp_ex",
        (_, "*mut ibv_wq") => "wq",
        (_, "*mut ibv_dm") => "dm",
        _ => panic!("{}: which table does it jump through?", symbol.name),
    }
}

/// What the provider calls the function behind a symbol; `None`: no provider is asked.
pub fn scripted_name(symbol: &Symbol) -> Option<String> {
    if symbol.node.starts_with("IBVERBS_") {
        return Some(symbol.name.clone());
    }
    if let Some(member) = &symbol.through {
        return Some(format!("{}.{member}", table_of(symbol)));
    }
    let member = symbol.name.strip_prefix("ibv_")?;
    let more = parse(MORE).expect("the list above is well-formed");
    let found = more.iter().find(|entry| entry.name == member)?;
    Some(format!("{}.{member}", found.section))
}

/// The newest version node of a library: all, none, or up to `IBVERBS_1.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Everything of the table.
    All,
    /// No function at all.
    Nothing,
    /// Up to and with `IBVERBS_1.N`.
    Minor(u32),
}

impl Until {
    /// `all`, `none` or a node's name.
    pub fn parse(text: &str) -> Option<Until> {
        match text {
            "all" => Some(Until::All),
            "none" => Some(Until::Nothing),
            node => minor(node).map(Until::Minor),
        }
    }

    /// Whether the library has this node.
    pub fn has(self, node: &str) -> bool {
        match self {
            Until::All => true,
            Until::Nothing => false,
            Until::Minor(newest) => minor(node).is_some_and(|minor| minor <= newest),
        }
    }
}

pub(crate) fn minor(node: &str) -> Option<u32> {
    node.strip_prefix("IBVERBS_1.")?.parse().ok()
}

/// All stubs, in the order of the provider's function table.
pub fn stubs(table: &[Symbol], until: Until) -> Vec<Stub> {
    let mut stubs = Vec::new();
    for symbol in table {
        if symbol.node.starts_with("IBVERBS_") && until.has(&symbol.node) {
            let (table, member) = ("", String::new());
            let symbol = symbol.clone();
            stubs.push(Stub { table, member, symbol });
        } else if let Some(member) = &symbol.through {
            let table = table_of(symbol);
            let (member, symbol) = (member.clone(), symbol.clone());
            stubs.push(Stub { table, member, symbol });
        }
    }
    for symbol in parse(MORE).expect("the list above is well-formed") {
        let known = TABLES.iter().find(|(name, _)| *name == symbol.section);
        let table = known.expect("a table of the list").0;
        let member = symbol.name.clone();
        stubs.push(Stub { table, member, symbol });
    }
    stubs
}

/// The C file with the stubs.
pub fn source(table: &[Symbol], until: Until) -> String {
    let stubs = stubs(table, until);
    let mut out = String::from(
        "// Made by `ibv-sa-symbols provider` from src/abi/table.rs. The scripted provider, a test double\n\
         // for libibverbs: a stub for each function.\n\n\
         #include <sys/types.h>\n\n#include \"internal.h\"\n\n",
    );
    for name in structures(table) {
        let _ = writeln!(out, "struct {name};");
    }
    out += "\nstruct scripted_function scripted_functions[] = {\n";
    for stub in &stubs {
        let _ = writeln!(out, "\t{{ .name = \"{}\" }},", stub.name());
    }
    out += "};\n\nconst unsigned int scripted_function_count =\n\
            \tsizeof(scripted_functions) / sizeof(scripted_functions[0]);\n";
    for (index, stub) in stubs.iter().enumerate() {
        out += &function(stub, index);
    }
    for (table, structure) in TABLES {
        let _ = writeln!(out, "\nvoid scripted_fill_{table}(struct {structure} *table)\n{{");
        for stub in stubs.iter().filter(|stub| stub.table == table) {
            let _ = writeln!(out, "\ttable->{} = (void *){};", stub.member, stub.c_name());
        }
        out += "}\n";
    }
    out
}

fn function(stub: &Stub, index: usize) -> String {
    let symbol = &stub.symbol;
    let ret = c_type(&symbol.ret);
    let parameters = parameters(symbol);
    let (name, behave) = (stub.c_name(), stub.behave());
    let count = symbol.args.len();

    // Weak: the version written by hand, where there is one, takes its place.
    let unused: String = symbol.args.iter().map(|(name, _)| format!("\t(void){name};\n")).collect();
    let default = match symbol.ret.as_str() {
        "()" => "",
        "*const c_char" => "\treturn \"scripted\";\n",
        ty if is_pointer(ty) => "\terrno = EOPNOTSUPP;\n\treturn NULL;\n",
        _ => "\treturn 0;\n",
    };
    let mut out =
        format!("\nHIDDEN __attribute__((weak)) {ret}{behave}({parameters})\n{{\n{unused}{default}}}\n\n");

    if stub.table.is_empty() {
        // By another name in C: the header's macros and inline functions do not get in the way.
        let _ = writeln!(out, "{ret}{name}({parameters}) __asm__(\"{}\");", symbol.name);
    } else {
        let _ = writeln!(out, "HIDDEN {ret}{name}({parameters});");
    }
    let _ = writeln!(out, "\n{ret}{name}({parameters})\n{{\n\tlong told;");
    let args = if count == 0 {
        "NULL".to_string()
    } else {
        out += "\tconst struct scripted_arg args[] = {\n";
        for (arg, ty) in &symbol.args {
            let (cast, pointer) = match is_pointer(ty) {
                true => ("(uintptr_t)", "true"),
                false => ("(uint64_t)", "false"),
            };
            let _ = writeln!(out, "\t\t{{ {cast}{arg}, sizeof({arg}), {pointer} }},");
        }
        out += "\t};\n";
        "args".to_string()
    };
    let call = format!("scripted_called(&scripted_functions[{index}], {args}, {count}, &told)");
    let behaves = format!("{behave}({})", arguments(symbol));
    match symbol.ret.as_str() {
        "()" => {
            let _ = writeln!(out, "\n\tif (!{call})\n\t\t{behaves};\n}}");
        }
        ty => {
            let cast = if is_pointer(ty) { "(void *)" } else { "" };
            let told =
                if cast.is_empty() { format!("({})told", ret.trim_end()) } else { format!("{cast}told") };
            let _ = writeln!(out, "\n\tif ({call})\n\t\treturn {told};\n\treturn {behaves};\n}}");
        }
    }
    out
}

/// The version script of the provider.
pub fn version_script(table: &[Symbol], until: Until) -> String {
    let mut out = String::from("/* Made by `ibv-sa-symbols provider-map`. */\n");
    out += &chain(table, |node| until.has(node));
    out += "SCRIPTED_1.0 {\n\tglobal:\n\t\tscripted_*;\n\tlocal:\n\t\t*;\n};\n";
    out
}
