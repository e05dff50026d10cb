//! Measures notices: how long they take from the SA's Report to a program, how many of them the daemon delivers in a
//! second beside a bare loop that does nothing but send, and what the daemon needs for registrations to which nothing
//! happens. `benches/notices.sh` runs it.
//!
//! Every delivery is checked. One that is lost, doubled or out of its order ends the bench with an error.

#![forbid(unsafe_code)]

mod bare;
mod client;
mod feed;
mod host;
mod latency;
mod programs;
mod reader;
mod results;
mod standing;
mod throughput;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::json;

/// What ends the bench is for a person to read.
type Fault = Box<dyn Error + Send + Sync>;
type Outcome<T> = Result<T, Fault>;

/// What has to come may take this long, on whatever machine.
const LIMIT: Duration = Duration::from_secs(30);

struct Arguments {
    /// The program that gets its notices through libibv_sa: `benches/notices.c`.
    client: PathBuf,
    rounds: usize,
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["reader", ..] | ["daemon", ..] => as_child(&words),
        _ => arguments(&words).and_then(|arguments| measure(&arguments)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("ibv-sa-bench: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// A part of the bench that needs a process of its own. It ends with the bench, however that ends.
fn as_child(words: &[&str]) -> Outcome<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match words {
        ["reader", "daemon", rest @ ..] => reader::read(reader::From::Daemon, rest),
        ["reader", "bare", rest @ ..] => reader::read(reader::From::Bare, rest),
        ["daemon", socket] => host::serve(socket.as_ref()),
        _ => Err(format!("no such part: {words:?}").into()),
    }
}

fn arguments(words: &[&str]) -> Outcome<Arguments> {
    let mut arguments = Arguments { client: PathBuf::new(), rounds: 10, json: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match *word {
            "--client" => arguments.client = value.into(),
            "--rounds" => arguments.rounds = value.parse()?,
            "--json" => arguments.json = Some(value.into()),
            _ => return Err(format!("unknown argument {word}").into()),
        }
    }
    Ok(arguments)
}

fn measure(arguments: &Arguments) -> Outcome<()> {
    let rounds = arguments.rounds;
    let latency = latency::measure(&arguments.client, rounds)?;
    print!("{}", results::latency(&latency));
    let throughput = throughput::measure(rounds)?;
    print!("{}", results::throughput(&throughput));
    let standing = standing::measure(Duration::from_secs(rounds as u64))?;
    print!("{}", results::standing(&standing));
    if let Some(file) = &arguments.json {
        let all = json!({
            "latency": latency.iter().map(results::latency_json).collect::<Vec<_>>(),
            "throughput": throughput.iter().map(results::throughput_json).collect::<Vec<_>>(),
            "standing": standing.iter().map(results::standing_json).collect::<Vec<_>>(),
        });
        std::fs::write(file, all.to_string())?;
    }
    Ok(())
}

/// Progress, for a person who waits.
fn say(what: &str) {
    eprintln!("bench: {what}");
}
