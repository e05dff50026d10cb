//! Reads `src/abi/table.rs`, the one table of exported symbols, as text.

#![forbid(unsafe_code)]

pub mod c;
pub mod cases;
pub mod map;
pub mod provider;
pub mod signatures;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The group of the table that it stands in (`forwarded`, `jumps_ops`, ...).
    pub section: String,
    /// The version node that it is exported at.
    pub node: String,
    /// Its name in C.
    pub name: String,
    /// Names and Rust types.
    pub args: Vec<(String, String)>,
    /// The Rust type that it returns, `()` for none.
    pub ret: String,
    /// What a caller sees when the installed library lacks the function.
    pub fails: String,
    /// The member of the ops table or object that an inline function jumps through.
    pub through: Option<String>,
}

/// The table as it was when this crate was compiled.
pub fn table() -> Vec<Symbol> {
    parse(include_str!("../../../src/abi/table.rs")).expect("src/abi/table.rs is well-formed")
}

/// Reads a table. Lines that hold no symbol only tell the group.
pub fn parse(text: &str) -> Result<Vec<Symbol>, String> {
    let mut symbols = Vec::new();
    let mut section = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_suffix(" {")
            && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        {
            section = name.into();
        }
        if line.starts_with('"') {
            let symbol = parse_line(line, &section);
            symbols.push(symbol.ok_or_else(|| format!("line {}: {line}", number + 1))?);
        }
    }
    Ok(symbols)
}

fn parse_line(line: &str, section: &str) -> Option<Symbol> {
    let (node, rest) = line.strip_prefix('"')?.split_once("\" fn ")?;
    let (name, rest) = rest.split_once('(')?;
    let (args, rest) = rest.split_once(") -> ")?;
    let (ret, rest) = rest.strip_suffix(';')?.split_once(", fails ")?;
    let (fails, through) = match rest.split_once(", through ") {
        Some((fails, member)) => (fails, Some(member.to_string())),
        None => (rest, None),
    };
    let args = args.split(", ").filter(|arg| !arg.is_empty());
    let args: Option<Vec<_>> = args
        .map(|arg| arg.split_once(": "))
        .map(|pair| pair.map(|(name, ty)| (name.to_string(), ty.to_string())))
        .collect();
    Some(Symbol {
        section: section.into(),
        node: node.into(),
        name: name.into(),
        args: args?,
        ret: ret.into(),
        fails: fails.into(),
        through,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let text = r#"
jumps_ops {
    "IBV_SA_1.0" fn ibv_x(cq: *mut ibv_cq, n: c_int) -> c_int, fails negated, through x;
}
own {
    "IBVERBS_1.1" fn ibv_y() -> (), fails void;
"#;
        let symbols = parse(text).expect("well-formed");
        assert_eq!(symbols.len(), 2);
        assert_eq!(symbols[0].section, "jumps_ops");
        assert_eq!(symbols[0].node, "IBV_SA_1.0");
        assert_eq!(symbols[0].args[0], ("cq".to_string(), "*mut ibv_cq".to_string()));
        assert_eq!(symbols[0].args[1].1, "c_int");
        assert_eq!(symbols[0].fails, "negated");
        assert_eq!(symbols[0].through.as_deref(), Some("x"));
        assert_eq!((symbols[1].section.as_str(), symbols[1].args.len()), ("own", 0));
    }

    #[test]
    fn a_broken_line_is_told() {
        let error = parse("\"IBVERBS_1.1\" fn ibv_x(a) -> c_int, fails null;").unwrap_err();
        assert!(error.starts_with("line 1: "), "{error}");
    }

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<String> = table().into_iter().map(|symbol| symbol.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
