//! The answer to a status query, as JSON.

use serde_json::{Value, json};

use crate::engine::{ClientStatus, Counters, OwnerStatus, PortStatus, Status};

/// What `ibv-sa status` reads.
pub fn render(status: &Status) -> Vec<u8> {
    let document = json!({
        "version": 1,
        "daemon": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "policy": status.policy.as_ref().map(|path| path.to_string_lossy()),
        "ports": status.ports.iter().map(port).collect::<Vec<_>>(),
        "clients": status.clients.iter().map(client).collect::<Vec<_>>(),
        "counters": counters(&status.counters),
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
