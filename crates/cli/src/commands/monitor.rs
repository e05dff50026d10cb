//! `ibv-sa monitor`: notices as they come, through the daemon or, where there is none, without it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgAction, ValueHint};
use ibv_sa_wire::mad::Trap;
use ibv_sa_wire::proto::PortSelector;
use ibv_sa_wire::{Filter, Gid, Guid, Subject};
use nix::errno::Errno;
use serde_json::{Map, Value};

use crate::connection;
use crate::message::{FAILED, Failure, say, shown};
use crate::notice::{fields, timestamp, trap, wall_time};
use crate::ports;
use crate::source::{Happened, Source, refusal};
use crate::terminal::{self, End, Terminal};

/// Show notices of the subnet administrator (SA) as they come
///
/// One line a notice on stdout: ports that come and go, multicast groups, links, and what else the SA
/// reports. It asks the daemon (ibv-sa daemon), which any user may do. Where no daemon runs, it
/// receives the reports itself if it may open the port. How the subscription stands is said on
/// stderr. After a restart of SA or daemon it subscribes again.
#[derive(clap::Args)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The device whose ports receive the notices
    ///
    /// [default: all devices with InfiniBand ports]
    #[arg(long, value_name = "NAME", verbatim_doc_comment)]
    device: Option<String>,

    /// The port of the device, from 1
    ///
    /// [default: all its InfiniBand ports]
    #[arg(long, value_name = "N", requires = "device", verbatim_doc_comment,
          value_parser = clap::value_parser!(u8).range(1..))]
    port: Option<u8>,

    /// Only this trap: a number, a name such as gid-out-of-service, or all. May be repeated
    ///
    /// 64 gid-in-service, 65 gid-out-of-service, 66 multicast-group-created,
    /// 67 multicast-group-deleted, 128 link-state-changed, 144 port-capabilities-changed;
    /// more in ibv-sa-monitor(1). Traps 256 to 259, which tell keys, are for root only.
    ///
    /// [default: all, and notices of vendors]
    #[arg(long, value_name = "TRAP", value_parser = trap, action = ArgAction::Append, verbatim_doc_comment)]
    trap: Vec<Trap>,

    /// Only notices about this port or multicast group, as fe80::10:7
    #[arg(long, value_name = "GID")]
    gid: Option<Gid>,

    /// Write one JSON object a line
    #[arg(long)]
    json: bool,

    /// End after so many notices
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// The daemon's socket; only this one is tried
    ///
    /// [default: /run/ibv_sa/sa.sock, then $XDG_RUNTIME_DIR/ibv_sa/sa.sock] [env: IBV_SA_SOCKET]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, verbatim_doc_comment,
          value_parser = OsStringValueParser::new().try_map(|value| connection::socket_path(&value)))]
    socket: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Exit status:
  0    --count notices came; or the time was over and --count was not given; or SIGINT, SIGTERM or
       SIGHUP came; or nobody reads stdout any more
  1    the time was over before --count notices came
  2    the arguments are wrong
  125  there is no daemon and no right to do without, no such port, or the SA refuses

Examples:
  Ports that go and come, on all InfiniBand ports of this host:
      ibv-sa monitor --trap 65 --trap 64

  Wait at most a minute for one port to come back:
      ibv-sa monitor --trap gid-in-service --gid fe80::10:7 --count 1 --timeout 60

  For another program:
      ibv-sa monitor --device mlx5_0 --json | jq -r 'select(.trap == 65) .gid'

See also: ibv-sa-monitor(1), ibv-sa-daemon(8), ibv-sa-status(1)";

/// Time over, and not enough came.
const TOO_FEW: i32 = 1;
/// How soon it is said that the SA has not answered yet.
const QUIET: Duration = Duration::from_secs(3);
/// Notices may have been missed; another status follows.
const RESET: i32 = -(Errno::ENETRESET as i32);
/// The port is down; another status follows. Of all ports of a host one often is.
const DOWN: i32 = -(Errno::ENETDOWN as i32);
/// The SA does not answer; another status follows, but perhaps never.
const SILENT: i32 = -(Errno::ETIMEDOUT as i32);

/// Is there nothing to wait for after this status? An SA that has answered before will do so again.
fn is_final(status: i32, has_listened: bool) -> bool {
    match status {
        0 | RESET | DOWN => false,
        SILENT => !has_listened,
        _ => true,
    }
}

fn seconds(value: &str) -> Result<Duration, String> {
    let parsed = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    parsed
        .filter(|time| !time.is_zero() && time.as_secs() < 1_000_000_000)
        .ok_or_else(|| "give a number of seconds above 0, such as 10 or 0.5".into())
}

pub(crate) fn run(args: Args) -> Result<i32, Failure> {
    terminal::open_standard_descriptors();
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let terminal = Terminal::new(deadline)
        .map_err(|error| Failure::new(FAILED, format!("cannot wait for signals: {error}")))?;
    let ports = selected_ports(args.device.as_deref(), args.port)?;
    let wanted = wanted(&ports, &filters(&args.trap, args.gid)?);
    let environment = if args.socket.is_some() { None } else { connection::environment()? };
    let named = args.socket.clone().or(environment);
    let source = Source::open(named, args.socket.is_some(), &wanted)?;
    let mut watch = Watch {
        terminal,
        source,
        shown: vec![None; ports.len()],
        states: vec![None; wanted.len()],
        ports,
        wanted,
        json: args.json,
        left: args.count,
    };
    match watch.watch()? {
        Some(End::Time) if args.count.is_some() => Ok(TOO_FEW),
        Some(End::Failed(why)) => Err(Failure::new(FAILED, why)),
        None | Some(End::Time | End::Signal | End::Closed) => Ok(0),
    }
}

fn selected_ports(device: Option<&str>, port: Option<u8>) -> Result<Vec<PortSelector>, Failure> {
    let mut found = match (device, port) {
        (Some(device), Some(port)) => vec![(device.to_owned(), port)],
        _ => ports::infiniband(device),
    };
    // A device that sysfs does not show here may yet be one for the daemon.
    if let (true, Some(device)) = (found.is_empty(), device) {
        found.push((device.to_owned(), 1));
    }
    if found.is_empty() {
        let text = "this host has no InfiniBand port (/sys/class/infiniband); if the daemon has one, name it with --device";
        return Err(Failure::new(FAILED, text));
    }
    let selector = |(device, port): &(String, u8)| {
        PortSelector::new(device, Guid::ZERO, *port)
            .map_err(|why| Failure::new(2, format!("--device {}: {why}", shown(device))))
    };
    found.iter().map(selector).collect()
}

/// One filter for each trap, none of which overlap: a notice is shown once.
fn filters(traps: &[Trap], gid: Option<Gid>) -> Result<Vec<Filter>, Failure> {
    let mut traps = traps.to_vec();
    traps.sort();
    traps.dedup();
    if traps.is_empty() || traps.contains(&Trap::ALL) {
        traps = vec![Trap::ALL];
    }
    let filter = |trap| {
        let filter = Filter { subject: gid.map(Subject::Gid), ..Filter::trap(trap) };
        filter.check().map(|()| filter).map_err(|why| Failure::new(2, format!("--gid: {why}")))
    };
    traps.into_iter().map(filter).collect()
}

/// Each filter at each port.
fn wanted(ports: &[PortSelector], filters: &[Filter]) -> Vec<(usize, PortSelector, Filter)> {
    let all = |(port, selector): (usize, &PortSelector)| {
        let selector = *selector;
        filters.iter().map(move |filter| (port, selector, *filter)).collect::<Vec<_>>()
    };
    ports.iter().enumerate().flat_map(all).collect()
}

/// The whole of it.
struct Watch {
    terminal: Terminal,
    source: Source,
    ports: Vec<PortSelector>,
    wanted: Vec<(usize, PortSelector, Filter)>,
    /// Of each registration: 0, a negative errno, or not known yet.
    states: Vec<Option<i32>>,
    /// What was last told of each port: whether it listens.
    shown: Vec<Option<bool>>,
    json: bool,
    left: Option<u64>,
}

impl Watch {
    /// Why it ends; nothing when there were enough notices.
    fn watch(&mut self) -> Result<Option<End>, Failure> {
        let mut remind = Some(Instant::now() + QUIET);
        loop {
            let until = remind.map(|at| at.saturating_duration_since(Instant::now()));
            let happened = match self.source.next(&self.terminal, until, &self.wanted) {
                Ok(happened) => happened,
                Err(end) => return Ok(Some(end)),
            };
            if remind.is_some_and(|at| at <= Instant::now()) {
                remind = None;
                self.remind();
            }
            match happened.map_or(Ok(None), |happened| self.tell(happened)) {
                Ok(None) => {}
                Ok(Some(failure)) => return Err(failure),
                Err(end) => return Ok(Some(end)),
            }
            if self.left == Some(0) {
                return Ok(None);
            }
        }
    }

    fn remind(&self) {
        for (port, shown) in self.ports.iter().zip(&self.shown) {
            if shown.is_none() {
                say(&format!("{port}: not listening yet; waiting for the port and its SA"));
            }
        }
    }

    fn tell(&mut self, happened: Happened) -> Result<Option<Failure>, End> {
        match happened {
            Happened::State(id, status) => {
                let Some(index) = self.index(id) else { return Ok(None) };
                self.states[index] = Some(status);
                if is_final(status, self.shown[self.wanted[index].0].is_some()) {
                    let port = self.wanted[index].1;
                    let why = self.source.complaint(status);
                    let why = why.unwrap_or_else(|| format!("{port}: {}", refusal(status)));
                    return Ok(Some(Failure::new(FAILED, why)));
                }
                self.tell_state(self.wanted[index].0)?;
            }
            Happened::Notice(id, notice, time, source_lid) => {
                let Some(index) = self.index(id) else { return Ok(None) };
                let port = self.wanted[index].1;
                let time = timestamp(wall_time(time));
                let line = if self.json {
                    let mut fields = fields(&notice);
                    fields.insert("time".into(), time.into());
                    fields.insert("source_lid".into(), source_lid.into());
                    self.object("notice", &port, fields)
                } else {
                    format!("{time} {port} {notice}\n")
                };
                self.terminal.write(&line)?;
                self.left = self.left.map(|left| left - 1);
            }
            Happened::Lost(id, lost) => {
                let Some(index) = self.index(id) else { return Ok(None) };
                let port = self.wanted[index].1;
                if self.json {
                    let fields = Map::from_iter([("lost".into(), lost.into())]);
                    self.terminal.write(&self.object("lost", &port, fields))?;
                } else {
                    say(&format!("{port}: {lost} notices were lost: what reads stdout is too slow"));
                }
            }
            Happened::Gone => {
                say("the daemon is gone; waiting for it to come back");
                self.states.fill(Some(RESET));
                for port in 0..self.ports.len() {
                    self.tell_state(port)?;
                }
            }
        }
        Ok(None)
    }

    fn index(&self, id: u64) -> Option<usize> {
        usize::try_from(id).ok()?.checked_sub(1).filter(|index| *index < self.wanted.len())
    }

    /// Says how a port is, if that is news.
    fn tell_state(&mut self, port: usize) -> Result<(), End> {
        let mut states =
            self.wanted.iter().zip(&self.states).filter(|(one, _)| one.0 == port).map(|one| one.1);
        let listens = states.clone().all(|state| *state == Some(0));
        let is_news = if listens {
            self.shown[port] != Some(true)
        } else {
            self.shown[port] == Some(true) && states.any(|state| state.is_some_and(|status| status < 0))
        };
        if !is_news {
            return Ok(());
        }
        self.shown[port] = Some(listens);
        let (status, text) = if listens {
            (0, "listening")
        } else {
            (RESET, "notices may have been missed; subscribing again")
        };
        let selector = self.ports[port];
        if self.json {
            let fields = Map::from_iter([("status".into(), status.into()), ("text".into(), text.into())]);
            return self.terminal.write(&self.object("status", &selector, fields));
        }
        say(&format!("{selector}: {text}"));
        Ok(())
    }

    fn object(&self, event: &str, port: &PortSelector, mut fields: Map<String, Value>) -> String {
        fields.insert("event".into(), event.into());
        fields.insert("device".into(), port.name().into());
        fields.insert("port".into(), port.port.into());
        format!("{}\n", Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_waited_for() {
        for status in [0, RESET, DOWN] {
            assert!(!is_final(status, false) && !is_final(status, true));
        }
        assert!(is_final(SILENT, false) && !is_final(SILENT, true));
        for errno in [Errno::EBUSY, Errno::EACCES, Errno::ENODEV] {
            let status = -(errno as i32);
            assert!(is_final(status, false) && is_final(status, true));
        }
    }

    #[test]
    fn times_are_positive_and_end() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("10"), Ok(Duration::from_secs(10)));
        for bad in ["", "0", "-1", "inf", "nan", "1e300", "5s"] {
            assert!(seconds(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_notice_has_one_filter() {
        let numbers = |traps: &[u16]| -> Vec<Option<u16>> {
            let traps: Vec<Trap> = traps.iter().copied().map(Trap).collect();
            filters(&traps, None).expect("good").iter().map(|filter| filter.trap).collect()
        };
        assert_eq!(numbers(&[]), [None]);
        assert_eq!(numbers(&[65, 64, 65]), [Some(64), Some(65)]);
        assert_eq!(numbers(&[65, 0xFFFF]), [None]);
        assert!(filters(&[], Some(Gid::ZERO)).is_err());
    }
}
