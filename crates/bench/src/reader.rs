//! A program that reads notices as fast as it can, the same way from the daemon and from the bare loop.

use std::io::Write;
use std::path::Path;

use ibv_sa_wire::proto::ServerMessage;
use ibv_sa_wire::{Filter, Trap};

use crate::Outcome;
use crate::client::Client;
use crate::feed::{Load, TRAP};

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The daemon, after registrations.
    Daemon,
    /// The bare loop, without a word.
    Bare,
}

/// Reads what the load says, and writes its number at the start and after each part of it.
pub fn read(from: From, words: &[&str]) -> Outcome<()> {
    let [socket, number, load @ ..] = words else {
        return Err("a reader needs a socket and a number".into());
    };
    let (number, load) = (number.parse::<u8>()?, Load::parse(load)?);
    let mut out = std::io::stdout();
    let mut credit = || -> Outcome<()> { Ok(out.write_all(&[number]).and_then(|()| out.flush())?) };
    let mut client = match from {
        From::Bare => Client::connect(Path::new(socket))?,
        From::Daemon => {
            let mut client = Client::greeted(Path::new(socket))?;
            for id in 1..=load.registrations as u64 {
                client.register(id, Filter::trap(Trap(TRAP)))?;
            }
            client
        }
    };
    credit()?;
    let mut sequences = vec![0; load.registrations];
    for part in 1..=load.parts() {
        let until = load.registrations * load.chunk.min(load.reports - (part - 1) * load.chunk);
        for _ in 0..until {
            let ServerMessage::Notice(notice) = client.next()? else { return Err("no notice".into()) };
            let of = usize::try_from(notice.id - 1).ok().and_then(|at| sequences.get_mut(at));
            let last: &mut u64 = of.ok_or("a notice for nobody")?;
            *last += 1;
            if *last != notice.sequence {
                let (id, sequence) = (notice.id, notice.sequence);
                return Err(format!("notice {sequence} of registration {id} instead of {last}").into());
            }
        }
        credit()?;
    }
    if sequences.iter().any(|sequence| *sequence != load.reports as u64) {
        return Err("some registrations have too many notices and some too few".into());
    }
    if from == From::Daemon {
        (1..=load.registrations as u64).try_for_each(|id| client.unregister(id))?;
    }
    Ok(())
}
