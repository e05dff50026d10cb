//! Bytes as the text of a policy file: rules that can be described and asked, or problems that have places.

#![no_main]

use ibv_sa_daemon::engine::{Peer, Policy, PortName, Settings};
use ibv_sa_daemon::policy::{Names, Rules};
use ibv_sa_samples::holds;
use ibv_sa_wire::{Filter, Guid, Trap};
use libfuzzer_sys::fuzz_target;

/// A host with one user: looking names up is not what is tried here.
struct One;

impl Names for One {
    fn user(&self, name: &str) -> Result<Option<u32>, String> {
        if name == "far" { Err("EIO".into()) } else { Ok((name == "root").then_some(0)) }
    }

    fn group(&self, name: &str) -> Result<Option<u32>, String> {
        Ok((name == "adm").then_some(4))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let defaults = Settings::default().limits();
    match Rules::parse(&text, &One) {
        Ok(rules) => {
            holds::description(&rules.describe(defaults));
            let port = PortName { device: "mlx5_1".into(), number: 1, guid: Guid::ZERO };
            for uid in [0, 1000] {
                let peer = Peer { uid, gid: uid, groups: vec![4], pid: 1, comm: String::new() };
                let limits = rules.limits(&peer, defaults);
                assert!(limits.clients > 0 && limits.registrations > 0 && limits.queued > 0);
                // Who may have anything may connect.
                let may = rules.may_register(&peer, &port, &Filter::trap(Trap::GID_IN_SERVICE));
                assert!(!may || rules.may_connect(&peer));
            }
        }
        Err(problems) => {
            let said = problems.iter().map(|problem| (problem.line, problem.column, &*problem.text));
            holds::problems(&text, said);
        }
    }
});
