//! The answer to a status query, as JSON.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::{ClientStatus, Counters, OwnerStatus, PortStatus, Status};

/// An answer is as good for this long: any user may ask, and a large one takes its time to make.
const FRESH: u64 = 250_000_000;

/// The answers to status queries.
#[derive(Default)]
pub struct Answers {
    /// Times that a client sent what is no message.
    pub protocol_errors: u64,
    last: Option<(u64, Arc<Vec<u8>>)>,
}

impl Answers {
    /// How everything is, or was just now.
    pub fn answer(&mut self, now: u64, status: impl FnOnce() -> Status) -> Arc<Vec<u8>> {
        match &self.last {
            Some((made, answer)) if now < made + FRESH => answer.clone(),
            _ => {
                let answer = Arc::new(render(&status(), self.protocol_errors));
                self.last = Some((now, answer.clone()));
                answer
            }
        }
    }
}

/// What `ibv-sa status` reads.
fn render(status: &Status, protocol_errors: u64) -> Vec<u8> {
    let mut counters = counters(&status.counters);
    counters["protocol_errors"] = protocol_errors.into();
    let document = json!({
        "version": 1,
        "daemon": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "policy": status.policy.as_ref().map(|path| path.to_string_lossy()),
        "ports": status.ports.iter().map(port).collect::<Vec<_>>(),
        "clients": status.clients.iter().map(client).collect::<Vec<_>>(),
        "counters": counters,
    });
    document.to_string().into_bytes()
}

fn port(port: &PortStatus) -> Value {
    let subscriptions: Vec<Value> = port
        .subscriptions
        .iter()
        .map(|one| {
            json!({
                "generic": one.subscription.is_generic,
                "trap": one.subscription.trap,
                "text": one.subscription.to_string(),
                "state": one.phase,
                "registrations": one.owners.iter().map(|owner| owner.registrations).sum::<usize>(),
                "owners": one.owners.iter().map(owner).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "device": port.name.device,
        "port": port.name.number,
        "open": port.open,
        "active": port.state.active,
        "lid": port.state.lid,
        "gid": port.state.gid.to_string(),
        "sm_lid": port.state.sm_lid,
        "registrations": port.registrations,
        "subscriptions": subscriptions,
    })
}

fn owner(owner: &OwnerStatus) -> Value {
    json!({
        "pid": owner.peer.pid,
        "uid": owner.peer.uid,
        "comm": owner.peer.comm,
        "registrations": owner.registrations,
    })
}

fn client(client: &ClientStatus) -> Value {
    json!({
        "pid": client.peer.pid,
        "uid": client.peer.uid,
        "comm": client.peer.comm,
        "registrations": client.registrations,
        "queued": client.queued,
        "lost": client.lost,
    })
}

fn counters(counters: &Counters) -> Value {
    json!({
        "reports": counters.reports,
        "reports_dropped": counters.reports_dropped,
        "notices_unwanted": counters.notices_unwanted,
        "delivered": counters.delivered,
        "lost": counters.lost,
        "mads_malformed": counters.mads_malformed,
        "mads_ignored": counters.mads_ignored,
        "leases_lost": counters.leases_lost,
        "clients_refused": counters.clients_refused,
        "registrations_refused": counters.registrations_refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_queries_at_once_are_one_answer() {
        let (mut answers, mut made) = (Answers::default(), 0);
        for now in (0..1000).map(|millisecond| millisecond * 1_000_000) {
            let status = || Status {
                ports: Vec::new(),
                clients: Vec::new(),
                counters: Counters::default(),
                policy: None,
            };
            answers.answer(now, || {
                made += 1;
                status()
            });
        }
        assert_eq!(made, 4);
    }
}
