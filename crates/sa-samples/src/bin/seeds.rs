//! Writes the first inputs of each fuzz target, a folder each: `seeds DIRECTORY`. They are the captured MADs, one message
//! of each kind, the example of a policy and its parts, and sessions made of them.

use std::fs;
use std::io;
use std::path::Path;

use ibv_sa_samples::steps::Step;
use ibv_sa_samples::{Random, captures, messages, sessions};

const EXAMPLE: &str = include_str!("../../../../docs/policy.toml");
const SESSIONS: u64 = 60;

fn write(directory: &Path, target: &str, inputs: impl IntoIterator<Item = Vec<u8>>) -> io::Result<()> {
    let directory = directory.join(target);
    fs::create_dir_all(&directory)?;
    for (n, input) in inputs.into_iter().enumerate() {
        fs::write(directory.join(format!("seed-{n:03}")), input)?;
    }
    Ok(())
}

/// A few programs, one of them spoilt, and MADs and notices in between.
fn session(seed: u64, mads: &[Vec<u8>]) -> Vec<u8> {
    let mut random = Random::new(seed);
    let spoilt = sessions::mutated(&mut random);
    let valid = messages::client();
    let mut bytes = Vec::new();
    for program in 0..2 {
        bytes.extend(Step::Hello(program).bytes());
        for _ in 0..random.below(4) {
            bytes.extend(Step::Packet(program, random.pick::<Vec<u8>>(&valid[3..])).bytes());
        }
        bytes.extend(Step::Mad(1, random.pick::<Vec<u8>>(mads)).bytes());
        bytes.extend(Step::Notice(random.below(4) as u8).bytes());
    }
    for packet in &spoilt {
        bytes.extend(Step::Packet(2, packet).bytes());
    }
    bytes.extend(Step::Close(random.below(2)).bytes());
    bytes
}

fn main() -> io::Result<()> {
    let Some(directory) = std::env::args_os().nth(1) else {
        return Err(io::Error::other("usage: seeds DIRECTORY"));
    };
    let directory = Path::new(&directory);
    let mads: Vec<Vec<u8>> = captures().into_values().map(Vec::from).collect();
    write(directory, "mad", mads.clone())?;
    write(directory, "client_message", messages::client())?;
    write(directory, "server_message", messages::server(1))?;
    let parts = EXAMPLE.split("\n\n").map(|part| part.as_bytes().to_vec());
    write(directory, "policy", parts.chain([EXAMPLE.as_bytes().to_vec()]))?;
    write(directory, "session", (0..SESSIONS).map(|seed| session(seed, &mads)))
}
