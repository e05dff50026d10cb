//! A private fabric, and what can be done to it.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ibv_sa_daemon::transport::ibsim::Client as Sim;
use rustix::process::{Pid, Signal, kill_process};
use zerocopy::IntoBytes;

use crate::common::LIMIT;
use ibv_sa_wire::Gid;
use ibv_sa_wire::mad::{Attribute, Headers, McMemberRecord, Method, Notice, SaMad};

/// ibsim and OpenSM, ended with this value.
pub struct Fabric {
    directory: tempfile::TempDir,
    /// Name of ibsim's sockets.
    pub base: String,
    /// Where nothing runs: questions are asked from there.
    spare: &'static str,
}

/// Seen from wherever the test is built.
fn testbed() -> PathBuf {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above
        .map(|top| top.join("testbed/sa"))
        .find(|path| path.is_dir())
        .expect("testbed/sa is in the repository")
}

impl Fabric {
    /// Four HCAs, the SM on Hca1.
    pub fn new() -> Fabric {
        Fabric::with(&[])
    }

    /// The same with more arguments for OpenSM.
    pub fn with(opensm: &[&str]) -> Fabric {
        let directory = tempfile::tempdir().expect("a directory");
        Fabric::of(directory, &testbed().join("four.net"), "Hca2", opensm)
    }

    /// The four with an SM that reports in the order in which it hears: otherwise its threads overtake each other.
    pub fn in_order() -> Fabric {
        let directory = tempfile::tempdir().expect("a directory");
        let config = directory.path().join("opensm.conf");
        std::fs::write(&config, "single_thread TRUE\n").expect("a file");
        let opensm = ["-F", config.to_str().expect("a plain path")];
        Fabric::of(directory, &testbed().join("four.net"), "Hca2", &opensm)
    }

    /// A tree of two levels, see mknet.py. The SM is on H000; H001 is for a daemon, H002 must stay too.
    pub fn tree(hcas: usize, per_leaf: usize, opensm: &[&str]) -> Fabric {
        let directory = tempfile::tempdir().expect("a directory");
        let net = directory.path().join("tree.net");
        let status = Command::new(testbed().join("mknet.py"))
            .args([hcas.to_string(), per_leaf.to_string()])
            .stdout(std::fs::File::create(&net).expect("a file"))
            .status();
        assert!(status.expect("python3 is there").success(), "mknet.py");
        Fabric::of(directory, &net, "H002", opensm)
    }

    fn of(directory: tempfile::TempDir, net: &Path, spare: &'static str, opensm: &[&str]) -> Fabric {
        let mut fabric = Fabric { directory, base: String::new(), spare };
        let mut start = vec![net.to_str().expect("a plain path")];
        start.extend(opensm);
        fabric.script("start", &start);
        let env = std::fs::read_to_string(fabric.directory.path().join("env")).expect("written by fabric.sh");
        fabric.base = env
            .lines()
            .find_map(|line| line.strip_prefix("IBSIM_SOCKNAME="))
            .expect("fabric.sh writes it")
            .into();
        fabric
    }

    /// Where logs are, and where there is room.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A command that runs something of fabric.sh.
    pub fn command(&self, action: &str, args: &[&str]) -> Command {
        let mut command = Command::new(testbed().join("fabric.sh"));
        command.arg(action).arg(self.directory.path()).args(args).stdin(Stdio::null());
        // What it starts ends with the test, however that ends.
        command.env("WATCH_PID", std::process::id().to_string());
        command
    }

    /// Runs it; what it prints.
    pub fn script(&self, action: &str, args: &[&str]) -> String {
        // OpenSM stays and would keep a pipe open: files.
        let (out, err) = (self.path().join("stdout"), self.path().join("stderr"));
        let file = |path: &PathBuf| std::fs::File::create(path).expect("a file");
        let status =
            self.command(action, args).stdout(file(&out)).stderr(file(&err)).status().expect("bash is there");
        let text =
            |path: &PathBuf| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        assert!(status.success(), "fabric.sh {action} {args:?}: {}", text(&err));
        text(&out)
    }

    /// Sends a signal to an SM. HUP makes it sweep.
    pub fn signal(&self, name: &str, signal: Signal) {
        let pid = std::fs::read_to_string(self.path().join(format!("sm-{name}.pid"))).expect("it runs");
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("it runs");
    }

    /// LID of the SM as a port without a daemon sees it.
    pub fn sm_lid(&self) -> u16 {
        let sim = Sim::new(&self.base, self.spare, false).expect("ibsim has room");
        sim.state().expect("ibsim answers").sm_lid
    }

    /// Another SM at that host beside the one that runs. OpenSM says that it is there some milliseconds before it answers,
    /// on ibsim no request is sent twice, and a master that waits for an answer never sweeps again: so the master sleeps
    /// until the other one is ready.
    pub fn another_sm(&self, master: &str, name: &str, host: &str, args: &[&str]) {
        let log = self.path().join(format!("sm-{name}/osm.log"));
        let _ = std::fs::remove_file(&log);
        self.signal(master, Signal::STOP);
        let args = [&[name, host, "-D", "0x07"], args].concat();
        let mut start = self.command("sm", &args);
        let mut start = start.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash is there");
        let end = Instant::now() + LIMIT;
        while !std::fs::read(&log)
            .is_ok_and(|log| String::from_utf8_lossy(&log).contains("Requesting SMInfo"))
        {
            assert!(Instant::now() < end, "OpenSM {name} does not find the other one");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.signal(master, Signal::CONT);
        assert!(start.wait().expect("it ends").success(), "OpenSM {name} is not ready");
    }

    /// A command of ibsim's console.
    pub fn console(&self, command: &str) {
        self.script("cmd", &[command]);
    }

    /// Many commands at once.
    pub fn batch(&self, commands: &[String]) {
        let file = self.path().join("batch");
        std::fs::write(&file, commands.join("\n") + "\n").expect("a file");
        self.console(&format!("!{}", file.display()));
    }

    /// A command without a wait for its end. ibsim drops what follows too closely: wait for what comes of it.
    pub fn tell(&self, command: &str) {
        let mut fifo =
            std::fs::File::options().write(true).open(self.path().join("ctl")).expect("ibsim runs");
        fifo.write_all(format!("{command}\n").as_bytes()).expect("ibsim reads");
    }

    /// A link goes down.
    pub fn unlink(&self, node: &str) {
        self.console(&format!("Unlink \"{node}\""));
    }

    /// A link goes down and stays so until OpenSM has seen it: what comes back before, it does not report.
    pub fn unlink_and_see(&self, node: &str) {
        let seen = || self.logged("Notice \"GID out of service\"");
        let before = seen();
        self.unlink(node);
        let end = Instant::now() + LIMIT;
        while seen() == before {
            assert!(Instant::now() < end, "OpenSM does not see that {node} is gone");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn relink(&self, node: &str) {
        self.console(&format!("ReLink \"{node}\""));
    }

    /// The SA's own list of subscriptions: one line of numbers, sorted, for each.
    pub fn subscriptions(&self) -> Vec<String> {
        let Output { stdout, status, .. } =
            self.command("run", &[self.spare, "saquery", "-I"]).output().expect("saquery is there");
        assert!(status.success());
        let text = String::from_utf8_lossy(&stdout).into_owned();
        let mut traps: Vec<String> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("trap_num").or(line.trim().strip_prefix("dev_id")))
            .map(|number| number.trim_matches(['.', ' ', '\t']).to_owned())
            .collect();
        traps.sort();
        traps
    }

    /// Until the SA's list is this.
    pub fn wait_for_subscriptions(&self, traps: &[&str]) {
        let end = Instant::now() + LIMIT;
        loop {
            let have = self.subscriptions();
            if have == traps {
                return;
            }
            assert!(Instant::now() < end, "the SA has {have:?} instead of {traps:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Hca2 asks the SA to make a multicast group with itself as its only member, or to end it.
    pub fn group(&self, mgid: Gid, method: Method) {
        // MGID, port, Q_Key, traffic class, P_Key, service level, flow label, join state.
        const COMPONENTS: u64 = 0x130C7;
        let sim = Sim::new(&self.base, self.spare, false).expect("ibsim has room");
        let state = sim.state().expect("ibsim answers");
        let mut headers = Headers::request(method, Attribute::MC_MEMBER_RECORD, 77);
        headers.sa.component_mask = COMPONENTS.into();
        let record = McMemberRecord {
            mgid,
            port_gid: state.gid,
            qkey: 0xB1B.into(), // that of all IPoIB groups here
            pkey: 0xFFFF.into(),
            scope_join: 0x21, // link-local, full member
            ..McMemberRecord::default()
        };
        let mut mad = [0; 256];
        mad.copy_from_slice(SaMad::new(headers, record.as_bytes()).as_bytes());
        sim.send(state.sm_lid, 1, &mad).expect("ibsim takes it");
        let answer = sim.receive(Duration::from_secs(5)).expect("ibsim answers").expect("the SA answers");
        let log = std::fs::read_to_string(self.path().join("sm-main/osm.log")).unwrap_or_default();
        assert_eq!(answer.mad[4..6], [0, 0], "status of the group: {log}");
    }

    /// Lines of OpenSM's log with this in them.
    pub fn logged(&self, text: &str) -> usize {
        let log = std::fs::read(self.path().join("sm-main/osm.log")).expect("OpenSM's log");
        String::from_utf8_lossy(&log).lines().filter(|line| line.contains(text)).count()
    }

    /// Hca2 tells the SM of something, in traps of the subnet management class.
    pub fn inject(&self, notices: &[Notice]) {
        let sim = Sim::new(&self.base, self.spare, false).expect("ibsim has room");
        let sm_lid = sim.state().expect("ibsim answers").sm_lid;
        for (notice, tid) in notices.iter().zip(1..) {
            let mut mad = [0; 256];
            (mad[0], mad[1], mad[2], mad[3], mad[15], mad[17]) = (1, 1, 1, 5, tid, 2);
            mad[64..144].copy_from_slice(notice.as_bytes());
            sim.send(sm_lid, 0, &mad).expect("ibsim takes it");
        }
        // ibsim drops what it has not read when a client leaves.
        while let Ok(Some(_)) = sim.receive(Duration::from_millis(200)) {}
    }
}

/// What OpenSM says when an answer finds no request, or a request no room: it crashes soon after the latter. At its own
/// end it drops requests of its own, which are of another class.
fn is_fault(line: &str) -> bool {
    let evicted = ["ERR 5401", "ERR 5402"].iter().any(|one| line.contains(one));
    evicted && line.contains("mgmt class 0x3)")
        || ["ERR 5412", "ERR 5413", "ERR 541A"].iter().any(|one| line.contains(one))
}

impl Fabric {
    /// Every SM that nobody stopped runs, and none has had a MAD too many or too few of us; or what is wrong.
    fn fault(&self) -> Option<String> {
        let entries = std::fs::read_dir(self.path()).ok()?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("sm-")).find_map(|name| {
            if let Some(home) = name.strip_suffix(".pid") {
                let pid = std::fs::read_to_string(self.path().join(&name)).unwrap_or_default();
                let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
                let ended = stat.is_empty() || stat.contains(") Z ");
                return ended.then(|| format!("OpenSM {home} has ended: {stat}"));
            }
            ["osm.log", "osm.log.old"].iter().find_map(|log| {
                let log = std::fs::read(self.path().join(&name).join(log)).unwrap_or_default();
                String::from_utf8_lossy(&log).lines().find(|line| is_fault(line)).map(str::to_owned)
            })
        })
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let fault = self.fault();
        let _ = self.command("stop", &[]).stdout(Stdio::null()).status();
        // Not before all has ended: nobody else would.
        assert!(std::thread::panicking() || fault.is_none(), "{fault:?}");
    }
}
