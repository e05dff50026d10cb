//! The daemon's loop and socket, with an SA in the same process.

mod common;
#[path = "common/host.rs"]
mod host;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Client, Heard, LIMIT, QUIET};
use host::{Host, config};
use ibv_sa_daemon::engine::Settings;
use ibv_sa_daemon::transport::embedded::{DEVICE, Embedded};
use ibv_sa_daemon::{Daemon, Error, Monitor, MonitorEvent};
use ibv_sa_wire::mad::Notice;
use ibv_sa_wire::proto::{ClientMessage, Hello, PortSelector};
use ibv_sa_wire::{Filter, Gid, Guid, Trap};

fn about(trap: Trap, last: u8) -> Notice {
    let mut gid = [0; 16];
    (gid[0], gid[1], gid[15]) = (0xFE, 0x80, last);
    Notice::about_gid(trap, Gid(gid), 1, Gid(gid))
}

const IN: Filter = Filter { is_generic: Some(true), trap: Some(64), ..Filter::EVERYTHING };

#[test]
fn notices_reach_each_program_once_and_the_last_one_out_unsubscribes() {
    let host = Host::new();
    let (one, two) = (Client::new(&host.socket()), Client::new(&host.socket()));
    one.registered(1, DEVICE, IN);
    two.registered(7, DEVICE, IN);
    assert_eq!(host.subscriptions(), 1);
    let notice = about(Trap(64), 9);
    host.sa.happen(&notice);
    assert_eq!(one.hear(LIMIT), Heard::Notice(1, 1, notice));
    assert_eq!(two.hear(LIMIT), Heard::Notice(7, 1, notice));
    one.unregister(1);
    assert_eq!(one.hear(LIMIT), Heard::Unregistered(1));
    drop(two);
    host.wait_for("the end of the subscription", |host| host.subscriptions() == 0);
    assert_eq!(one.hear(QUIET), Heard::Nothing);
}

#[test]
fn a_clean_end_leaves_nothing_at_the_sa_and_no_socket() {
    let mut host = Host::new();
    let client = Client::new(&host.socket());
    client.registered(1, DEVICE, Filter::EVERYTHING);
    assert_eq!(host.subscriptions(), 2);
    host.stop();
    assert_eq!(host.subscriptions(), 0);
    assert!(!host.socket().exists());
    assert_eq!(client.hear(LIMIT), Heard::Closed);
}

#[test]
fn what_is_no_message_ends_only_that_connection() {
    let host = Host::new();
    let good = Client::new(&host.socket());
    good.registered(1, DEVICE, IN);
    let silent = Client::connect(&host.socket());
    for bytes in [&[0u8; 3][..], &[0xFF; 300], &[1; 256], &[2, 0, 0, 0, 8, 0, 0, 0]] {
        let bad = Client::new(&host.socket());
        bad.send_bytes(bytes);
        assert_eq!(bad.hear(LIMIT), Heard::Closed);
        let bad = Client::connect(&host.socket());
        bad.send_bytes(bytes);
        assert_eq!(bad.hear(LIMIT), Heard::Closed);
    }
    let twice = Client::new(&host.socket());
    twice.send(&ClientMessage::Hello(Hello::default()));
    assert_eq!(twice.hear(LIMIT), Heard::Closed);
    let future = Client::connect(&host.socket());
    future.send(&ClientMessage::Hello(Hello { min_version: 8, max_version: 9 }));
    assert_eq!(future.hear(LIMIT), Heard::Refused(-libc::EPROTONOSUPPORT));
    assert_eq!(future.hear(LIMIT), Heard::Closed);
    good.register(2, "nothing0", IN, 0);
    assert_eq!(good.hear(LIMIT), Heard::Registered(2, -libc::ENODEV));
    host.sa.happen(&about(Trap(64), 9));
    assert!(matches!(good.hear(LIMIT), Heard::Notice(1, 1, _)));
    drop(silent);
}

#[test]
fn a_program_that_does_not_read_loses_and_delays_nobody() {
    let host = Host::with(Settings { queued_per_client: 100, ..Settings::default() });
    let (slow, quick) = (Client::new(&host.socket()), Client::new(&host.socket()));
    slow.registered(1, DEVICE, IN);
    quick.registered(1, DEVICE, IN);
    const MANY: usize = 5000;
    for n in 0..MANY {
        host.sa.happen(&about(Trap(64), n as u8));
        assert!(matches!(quick.hear(LIMIT), Heard::Notice(1, sequence, _) if sequence == n as u64 + 1));
    }
    let (mut got, mut lost, mut next) = (0, 0, 1);
    while got + lost < MANY as u64 {
        match slow.hear(LIMIT) {
            Heard::Notice(1, sequence, _) => {
                assert_eq!(sequence, next);
                (got, next) = (got + 1, next + 1);
            }
            Heard::Lost(1, count) => (lost, next) = (lost + count, next + count),
            other => panic!("{other:?}"),
        }
    }
    assert!(lost > 0 && got >= 100);
    assert_eq!(slow.hear(QUIET), Heard::Nothing);
}

#[test]
fn whoever_asks_without_reading_is_not_read_from() {
    let host = Host::new();
    let deaf = Client::new(&host.socket());
    rustix::io::ioctl_fionbio(&deaf.fd, true).expect("non-blocking");
    let mut packet = [0; 256];
    let message = ClientMessage::Unregister(ibv_sa_wire::proto::Unregister { id: 3 });
    let length = message.encode(&mut packet);
    let mut sent = 0;
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        match rustix::net::send(&deaf.fd, &packet[..length], rustix::net::SendFlags::NOSIGNAL) {
            Ok(_) => sent += 1,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    assert!(sent < 5000, "the daemon keeps {sent} answers");
    // Once it reads, it gets them all.
    for _ in 0..sent {
        assert_eq!(deaf.hear(LIMIT), Heard::Unregistered(3));
    }
}

#[test]
fn status_shows_ports_clients_and_counters() {
    let host = Host::new();
    let client = Client::new(&host.socket());
    for id in 1..200 {
        client.registered(id, DEVICE, IN);
    }
    let others: Vec<Client> = (0..100).map(|_| Client::new(&host.socket())).collect();
    let other = others.last().expect("one of them");
    let status: serde_json::Value = serde_json::from_str(&other.status()).expect("JSON");
    assert_eq!(status["ports"][0]["device"], DEVICE);
    assert_eq!(status["ports"][0]["subscriptions"][0]["registrations"], 199);
    assert_eq!(status["clients"].as_array().map(Vec::len), Some(101));
    assert_eq!(status["clients"][0]["registrations"], 199);
    assert_eq!(status["clients"][0]["pid"], std::process::id());
}

fn refused(path: &Path) -> Error {
    Daemon::new(config(path.into(), &Embedded::default(), Settings::default())).err().expect("no daemon")
}

#[test]
fn a_path_is_taken_only_from_a_dead_daemon_of_ours() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("sa.sock");
    // A file, a link, a socket of another type that is listened to.
    fs::write(&path, "precious").expect("a file");
    assert!(matches!(refused(&path), Error::Taken { .. }));
    assert_eq!(fs::read_to_string(&path).expect("still there"), "precious");
    fs::remove_file(&path).expect("removed");
    let elsewhere = directory.path().join("elsewhere");
    drop(UnixListener::bind(&elsewhere).expect("a socket"));
    std::os::unix::fs::symlink(&elsewhere, &path).expect("a link");
    assert!(matches!(refused(&path), Error::Taken { .. }));
    fs::remove_file(&path).expect("removed");
    let stream = UnixListener::bind(&path).expect("a socket");
    assert!(matches!(refused(&path), Error::Running { .. }));
    // Left behind.
    drop(stream);
    let sa = Embedded::default();
    let daemon = Daemon::new(config(path.clone(), &sa, Settings::default())).expect("the stale socket goes");
    assert_eq!(fs::metadata(&path).expect("a socket").mode() & 0o777, 0o666);
    assert!(matches!(refused(&path), Error::Running { .. }));
    drop(daemon);
    assert!(!path.exists());
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    assert!(matches!(refused(&path), Error::Directory { .. }));
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    assert!(rustix::process::geteuid().is_root(), "only root can give a file away: run this as root");
    // Only root can give a directory away, and for root it matters most.
    std::os::unix::fs::chown(directory.path(), Some(12345), None).expect("chown");
    assert!(matches!(refused(&path), Error::Directory { .. }));
    std::os::unix::fs::chown(directory.path(), Some(0), None).expect("chown");
    assert!(matches!(refused(&directory.path().join("missing/sa.sock")), Error::Socket { .. }));
}

#[test]
fn a_monitor_is_its_own_daemon() {
    let sa = Embedded::default();
    let transport = sa.clone();
    let mut monitor = Monitor::new(
        Settings { linger: 0, close: 0, ..Settings::default() },
        Box::new(move |sink| {
            transport.attach(sink);
            Ok(Box::new(transport))
        }),
        Box::new(|_| {}),
    )
    .expect("a monitor");
    let port = PortSelector::new(DEVICE, Guid::ZERO, 1).expect("a port");
    assert_eq!(monitor.register(&port, IN), Ok(1));
    assert_eq!(monitor.next(LIMIT).expect("poll works"), Some(MonitorEvent::Status { id: 1, status: 0 }));
    let notice = about(Trap(64), 9);
    sa.happen(&notice);
    let Ok(Some(MonitorEvent::Notice { id: 1, delivery })) = monitor.next(LIMIT) else { panic!("no notice") };
    assert_eq!(delivery.notice, notice);
    assert_eq!(monitor.next(QUIET).expect("poll works"), None);
    drop(monitor);
    sa.with_sa(|sa| assert!(sa.subscribers.is_empty()));
}
