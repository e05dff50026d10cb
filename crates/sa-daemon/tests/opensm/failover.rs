//! SMs and ports that go and come: who was promised it hears of each gap once, and then of all that happens, once.

use ibv_sa_daemon::engine::Settings;
use ibv_sa_daemon::transport::ibsim::DEVICE;
use ibv_sa_wire::Filter;

use crate::common::Client;
use crate::fabric::Fabric;
use crate::node::{Host, SECOND};
use crate::oracle::Reported;
use crate::program::{BOTH, Program, WATCHFUL, conf, settings};

#[test]
fn a_standby_takes_over_from_one_that_is_killed() {
    let fabric = Fabric::new();
    let watchful = conf(WATCHFUL);
    let watchful = watchful.to_str().expect("a plain path");
    fabric.another_sm("main", "second", "Hca2", &["-F", watchful]);
    let host = Host::at(&fabric, "Hca4", settings());
    let mut program = Program::new(&host, BOTH);
    program.hears_once(&fabric, "main");
    fabric.script("smstop", &["main", "KILL"]);
    program.has_a_gap();
    fabric.wait_for_subscriptions(&["64", "65"]);
    program.hears_once(&fabric, "second");
}

#[test]
fn an_sm_that_is_killed_is_followed_by_one_elsewhere() {
    let fabric = Fabric::new();
    let host = Host::at(&fabric, "Hca4", settings());
    let mut program = Program::new(&host, BOTH);
    fabric.script("smstop", &["main", "KILL"]);
    fabric.script("sm", &["other", "Hca2"]);
    program.has_a_gap();
    fabric.wait_for_subscriptions(&["64", "65"]);
    program.hears_once(&fabric, "other");
}

/// On ibsim a live master that hands over to another waits for ever, for a MAD that was lost between the two. So it ends,
/// and comes back with all that it knew.
#[test]
fn what_a_former_master_remembers_brings_nothing_twice_and_goes() {
    let (watchful, remembers) = (conf(WATCHFUL), conf("sa_db_dump TRUE\n"));
    let remembers = remembers.to_str().expect("a plain path");
    let fabric = Fabric::with(&["-F", remembers]);
    fabric.another_sm("main", "second", "Hca2", &["-F", watchful.to_str().expect("a plain path")]);
    // What is found at the SA and nobody wants stays so long that links can change meanwhile.
    let host = Host::at(&fabric, "Hca4", Settings { linger: 3 * SECOND, ..settings() });
    // ibsim has room for two records in a table.
    let mut program = Program::new(&host, &[65]);
    let all = Client::new(&host.socket);
    all.registered(1, DEVICE, Filter { is_generic: Some(true), ..Filter::EVERYTHING });
    fabric.wait_for_subscriptions(&["65535"]);

    fabric.script("smstop", &["main"]);
    let known = std::fs::read_to_string(fabric.path().join("sm-main/opensm-sa.dump")).expect("it remembers");
    let known = conf(&known);
    program.has_a_gap();
    drop(all);
    fabric.wait_for_subscriptions(&["65"]);
    program.hears_once(&fabric, "second");

    // The former master is the master again, and has not forgotten that all was wanted.
    fabric.script("smstop", &["second", "KILL"]);
    fabric.script("sm", &["main", "Hca1", "-F", remembers, "-S", known.to_str().expect("a plain path")]);
    program.has_a_gap();
    fabric.wait_for_subscriptions(&["65", "65535"]);
    program.hears_once(&fabric, "main");
    assert_eq!(fabric.subscriptions(), ["65", "65535"], "all was wanted while links changed");
    fabric.wait_for_subscriptions(&["65"]);
    program.hears_once(&fabric, "main");
}

#[test]
fn an_sm_that_is_started_anew_counts_anew() {
    let fabric = Fabric::new();
    let host = Host::at(&fabric, "Hca4", Settings { audit: SECOND, ..settings() });
    let mut program = Program::new(&host, BOTH);
    for _ in 0..2 {
        // The same Reports with the same ids as those of the SM before.
        program.hears_once(&fabric, "main");
        fabric.script("smstop", &["main", "KILL"]);
        fabric.script("sm", &["main", "Hca1"]);
        program.has_a_gap();
    }
    program.hears_once(&fabric, "main");
    fabric.wait_for_subscriptions(&["64", "65"]);
}

#[test]
fn a_subscriber_that_goes_and_comes_back() {
    for keeps in [true, false] {
        let text = if keeps { "" } else { "drop_event_subscriptions TRUE\n" };
        let conf = conf(text);
        let fabric = Fabric::with(&["-F", conf.to_str().expect("a plain path")]);
        let host = Host::at(&fabric, "Hca4", settings());
        let mut program = Program::new(&host, BOTH);
        for _ in 0..2 {
            let reported = Reported::from_now(&fabric, "main");
            reported.flap("Unlink \"Hca4\"", 65, 1);
            program.is_reset();
            reported.flap("ReLink \"Hca4\"", 64, 1);
            program.comes_back();
            fabric.wait_for_subscriptions(&["64", "65"]);
            program.hears_once(&fabric, "main");
        }
    }
}
