//! `ibv-sa-symbols WHAT [NODE]`: prints something made from the symbol table.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use ibv_sa_symbols::provider::Until;
use ibv_sa_symbols::{cases, provider, table};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let Some(until) = Until::parse(&args.next().unwrap_or_else(|| "all".into())) else {
        return usage();
    };
    let table = table();
    let text = match what.as_str() {
        "provider" => provider::source(&table, until),
        "provider-map" => provider::version_script(&table, until),
        "cases" => cases::source(&table),
        _ => return usage(),
    };
    print!("{text}");
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: ibv-sa-symbols provider|provider-map|cases [all|none|IBVERBS_1.N]");
    ExitCode::from(2)
}
