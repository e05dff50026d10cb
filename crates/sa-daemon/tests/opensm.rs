//! The daemon on a simulated fabric with a real OpenSM.

mod common;
#[path = "common/fabric.rs"]
mod fabric;

#[path = "opensm/churn.rs"]
mod churn;
#[path = "opensm/failover.rs"]
mod failover;
#[path = "common/lossy.rs"]
mod lossy;
#[path = "common/node.rs"]
mod node;
#[path = "opensm/lossy.rs"]
mod on_a_lossy_fabric;
#[path = "common/oracle.rs"]
mod oracle;
#[path = "common/program.rs"]
mod program;

use common::{Client, Heard, LIMIT, QUIET};
use fabric::Fabric;
use ibv_sa_daemon::engine::Settings;
use ibv_sa_daemon::transport::ibsim::DEVICE;
use ibv_sa_wire::mad::{Notice, NoticeType, Producer};
use ibv_sa_wire::proto::Register;
use ibv_sa_wire::{Filter, Gid, Subject, Trap};
use node::{Host, SECOND, hca3, settings, trap};

fn numbers(notices: &[Notice]) -> Vec<u16> {
    notices.iter().map(|notice| notice.number.get()).collect()
}

#[test]
fn two_programs_get_exactly_the_notices_they_want() {
    let fabric = Fabric::new();
    let mut host = Host::at(&fabric, "Hca4", settings());
    let (one, two) = (Client::new(&host.socket), Client::new(&host.socket));
    one.registered(1, DEVICE, trap(65));
    one.registered(2, DEVICE, trap(64));
    two.registered(1, DEVICE, trap(65));
    fabric.wait_for_subscriptions(&["64", "65"]);
    fabric.unlink("Hca3");
    let gone = one.notices(1);
    assert_eq!(numbers(&gone), [65]);
    assert_eq!(gone[0].gid(), Some(hca3()));
    fabric.relink("Hca3");
    assert_eq!(numbers(&one.notices(1)), [64]);
    assert_eq!(numbers(&two.notices(1)), [65]);
    drop(one);
    fabric.wait_for_subscriptions(&["65"]);
    two.unregister(1);
    assert_eq!(two.hear(LIMIT), Heard::Unregistered(1));
    fabric.wait_for_subscriptions(&[]);
    two.registered(1, DEVICE, trap(65));
    host.stop();
    assert_eq!(fabric.subscriptions(), [""; 0]);
}

#[test]
fn everything_beside_one_trap_and_a_subject() {
    let fabric = Fabric::new();
    let host = Host::at(&fabric, "Hca4", settings());
    let all = Client::new(&host.socket);
    let one = Client::new(&host.socket);
    let subject = Client::new(&host.socket);
    one.registered(1, DEVICE, trap(64));
    all.registered(1, DEVICE, Filter::EVERYTHING);
    subject.registered(1, DEVICE, trap(65).about(Subject::Gid(hca3())));
    subject.registered(2, DEVICE, trap(65).about(Subject::Gid(Gid([3; 16]))));
    fabric.wait_for_subscriptions(&["0xFFFF", "65535"]);
    fabric.unlink("Hca3");
    assert_eq!(numbers(&all.notices(2)), [128, 65]);
    fabric.relink("Hca3");
    assert_eq!(numbers(&all.notices(2)), [128, 64]);
    assert_eq!(numbers(&one.notices(1)), [64]);
    assert!(matches!(subject.hear(LIMIT), Heard::Notice(1, 1, _)));
    assert_eq!(subject.hear(QUIET), Heard::Nothing);
    let mut traps: Vec<Notice> = [145, 256, 257, 258, 259]
        .map(|number| Notice::generic(NoticeType::SECURITY, Producer::CA, Trap(number)))
        .into();
    traps.push(Notice::vendor(NoticeType::INFORMATIONAL, 0x00_1234, 77));
    fabric.inject(&traps);
    let mut injected = numbers(&all.notices(traps.len()));
    injected.sort();
    assert_eq!(injected, [77, 145, 256, 257, 258, 259]);
    drop(all);
    fabric.wait_for_subscriptions(&["64", "65"]);
    assert_eq!(one.hear(QUIET), Heard::Nothing);
}

#[test]
fn a_restarted_sm_is_found_by_the_audit() {
    let fabric = Fabric::new();
    let host = Host::at(&fabric, "Hca4", Settings { audit: SECOND, ..settings() });
    let client = Client::new(&host.socket);
    client.registered(1, DEVICE, trap(65));
    client.register(2, DEVICE, trap(65), Register::AUTO_REREGISTER);
    assert_eq!(client.hear(LIMIT), Heard::Registered(2, 0));
    assert_eq!(client.hear(LIMIT), Heard::Status(2, 0));
    fabric.script("smstop", &["main", "KILL"]);
    fabric.script("sm", &["main", "Hca1"]);
    let reset = -libc::ENETRESET;
    let mut heard = [client.hear(LIMIT), client.hear(LIMIT)];
    heard.sort_by_key(|one| format!("{one:?}"));
    assert_eq!(heard, [Heard::Status(1, reset), Heard::Status(2, reset)]);
    assert_eq!(client.hear(LIMIT), Heard::Status(2, 0));
    fabric.wait_for_subscriptions(&["65"]);
    fabric.unlink("Hca3");
    assert!(matches!(client.hear(LIMIT), Heard::Notice(2, 1, _)));
}

#[test]
fn a_standby_takes_over() {
    let fabric = Fabric::new();
    let poll = fabric.path().join("standby.conf");
    std::fs::write(&poll, "sminfo_polling_timeout 500\npolling_retry_number 2\n").expect("a file");
    fabric.script("sm", &["second", "Hca2", "-F", poll.to_str().expect("a plain path")]);
    let host = Host::at(&fabric, "Hca4", settings());
    let client = Client::new(&host.socket);
    client.register(1, DEVICE, trap(65), Register::AUTO_REREGISTER);
    assert_eq!(client.hear(LIMIT), Heard::Registered(1, 0));
    assert_eq!(client.hear(LIMIT), Heard::Status(1, 0));
    fabric.script("smstop", &["main"]);
    assert_eq!(client.hear(LIMIT), Heard::Status(1, -libc::ENETRESET));
    assert_eq!(client.hear(LIMIT), Heard::Status(1, 0));
    fabric.wait_for_subscriptions(&["65"]);
    fabric.unlink("Hca3");
    // Of others as well, as the new SM sees them.
    while !matches!(client.hear(LIMIT), Heard::Notice(1, _, notice) if notice.gid() == Some(hca3())) {}
}

#[test]
fn the_port_goes_down_and_comes_back() {
    let fabric = Fabric::with(&["-F", "/dev/null"]);
    let host = Host::at(&fabric, "Hca4", settings());
    let client = Client::new(&host.socket);
    client.register(1, DEVICE, trap(64), Register::AUTO_REREGISTER);
    assert_eq!(client.hear(LIMIT), Heard::Registered(1, 0));
    assert_eq!(client.hear(LIMIT), Heard::Status(1, 0));
    fabric.unlink("Hca4");
    assert_eq!(client.hear(LIMIT), Heard::Status(1, -libc::ENETRESET));
    client.register(2, DEVICE, trap(65), 0);
    assert_eq!(client.hear(LIMIT), Heard::Registered(2, 0));
    assert_eq!(client.hear(LIMIT), Heard::Status(2, -libc::ENETDOWN));
    fabric.relink("Hca4");
    assert_eq!(client.hear(LIMIT), Heard::Status(1, 0));
    fabric.wait_for_subscriptions(&["64"]);
    fabric.unlink_and_see("Hca3");
    assert_eq!(client.hear(QUIET), Heard::Nothing);
    fabric.relink("Hca3");
    assert!(matches!(client.hear(LIMIT), Heard::Notice(1, _, notice) if notice.gid() == Some(hca3())));
}
