//! `ibv-sa-symbols WHAT [NODE]`: prints something made from the symbol table.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use ibv_sa_symbols::provider::Until;
use ibv_sa_symbols::{cases, map, provider, signatures, table};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    if what == "signatures" {
        return check_signatures(args.next());
    }
    let Some(until) = Until::parse(&args.next().unwrap_or_else(|| "all".into())) else {
        return usage();
    };
    let table = table();
    let text = match what.as_str() {
        "provider" => provider::source(&table, until),
        "provider-map" => provider::version_script(&table, until),
        "map" => map::version_script(&table),
        "cases" => cases::source(&table),
        _ => return usage(),
    };
    print!("{text}");
    ExitCode::SUCCESS
}

fn check_signatures(header: Option<String>) -> ExitCode {
    let Some(Ok(text)) = header.map(std::fs::read_to_string) else {
        return usage();
    };
    print!("{}", signatures::source(&table(), &text).0);
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: ibv-sa-symbols map|provider|provider-map|cases [all|none|IBVERBS_1.N]");
    eprintln!("       ibv-sa-symbols signatures HEADER");
    ExitCode::from(2)
}
