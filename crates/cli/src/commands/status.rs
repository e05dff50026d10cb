//! `ibv-sa status`: what the daemon says of itself.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueHint;
use clap::builder::{OsStringValueParser, TypedValueParser};
use ibv_sa_wire::proto::{ClientMessage, ServerMessage, StatusQuery};
use rustix::event::{PollFd, PollFlags};
use serde_json::Value;

use crate::connection::{self, Connection, NoDaemon};
use crate::message::{FAILED, Failure, print};
use crate::terminal::{self, End, Terminal};

/// Show what the daemon does: ports, subscriptions, programs, counters
///
/// For each port in use: its state, LID and GID, the LID of the subnet manager (SM), and the
/// subscriptions at the SA with the programs that need them. Then the programs that are connected, what
/// waits for each and what it lost because it read too slowly; and counters since the daemon's start.
/// Any user may ask.
#[derive(clap::Args)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Write one JSON object
    #[arg(long)]
    json: bool,

    /// The daemon's socket; only this one is tried
    ///
    /// [default: /run/ibv_sa/sa.sock, then $XDG_RUNTIME_DIR/ibv_sa/sa.sock] [env: IBV_SA_SOCKET]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, verbatim_doc_comment,
          value_parser = OsStringValueParser::new().try_map(|value| connection::socket_path(&value)))]
    socket: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Exit status:
  0 done, 2 the arguments are wrong, 125 there is no daemon or it does not answer

Examples:
  Who wants notices at this host:
      ibv-sa status

  Did any program lose notices?
      ibv-sa status --json | jq '.clients[] | select(.lost > 0)'

See also: ibv-sa-status(1), ibv-sa-daemon(8), ibv-sa-monitor(1)";

/// How long the daemon may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of our only question.
const QUERY: u32 = 1;

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    terminal::open_standard_descriptors();
    let socket = args.socket.map_or_else(connection::environment, |path| Ok(Some(path)))?;
    let connection = Connection::open(socket.as_deref()).map_err(NoDaemon::fatal)?;
    let text = ask(connection)?;
    if args.json {
        return print(format!("{}\n", ascii(&text)).as_bytes());
    }
    let status = serde_json::from_str(&text)
        .map_err(|error| Failure::new(FAILED, format!("the daemon's answer is no JSON: {error}")))?;
    print(render(&status).as_bytes())
}

fn ask(mut connection: Connection) -> Result<String, Failure> {
    let fail = |why: String| Failure::new(FAILED, format!("the daemon does not answer: {why}"));
    let broken = |error: io::Error| fail(error.to_string());
    connection.send(&ClientMessage::StatusQuery(StatusQuery { query: QUERY })).map_err(broken)?;
    let terminal = Terminal::new(Instant::now().checked_add(PATIENCE)).map_err(broken)?;
    let mut answer = Vec::new();
    loop {
        match terminal.wait(Some(PollFd::new(&connection, PollFlags::IN)), None) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(End::Failed(why)) => return Err(fail(why)),
            Err(End::Time) => return Err(fail("10 seconds are over".into())),
            Err(End::Signal | End::Closed) => return Err(Failure::new(FAILED, "interrupted")),
        }
        match connection.receive().map_err(broken)? {
            Some(ServerMessage::StatusChunk(chunk)) if chunk.query() == QUERY => {
                answer.extend_from_slice(chunk.data());
                if chunk.is_last() {
                    return String::from_utf8(answer).map_err(|_| fail("its answer is no text".into()));
                }
            }
            Some(_) => {}
            None => return Err(fail("it closed the connection".into())),
        }
    }
}

/// The same JSON without a character that could steer a terminal: what is not ASCII stands in strings only.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() && c != '\x7f' {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text += &format!("\\u{unit:04x}");
            }
        }
    }
    text
}

/// A value as a person reads it; what a program chose is escaped.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.escape_default().to_string(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn render(status: &Value) -> String {
    let mut text = format!("daemon {}, pid {}\n", plain(&status["daemon"]), plain(&status["pid"]));
    text += &match &status["policy"] {
        Value::Null => "policy: built in\n".into(),
        file => format!("policy: {}\n", plain(file)),
    };
    let ports = list(status, "ports");
    if ports.is_empty() {
        text += "\nno port is in use: no program wants notices\n";
    }
    for port in ports {
        let state = match (port["open"].as_bool(), port["active"].as_bool()) {
            (Some(true), Some(true)) => "active",
            (Some(true), _) => "down",
            _ => "not open",
        };
        let [device, number, lid, gid, sm, registrations] =
            ["device", "port", "lid", "gid", "sm_lid", "registrations"].map(|name| plain(&port[name]));
        text += &format!(
            "\nport {device}/{number}: {state}, LID {lid}, GID {gid}, SM at LID {sm}; registrations: {registrations}\n"
        );
        for one in list(port, "subscriptions") {
            text += &format!("  {}: {}\n", plain(&one["text"]), plain(&one["state"]));
            for owner in list(one, "owners") {
                let [pid, uid, comm, count] =
                    ["pid", "uid", "comm", "registrations"].map(|name| plain(&owner[name]));
                text += &format!("    {comm} (pid {pid}, user {uid}): {count}\n");
            }
        }
    }
    text += "\n";
    text += &table(
        &["PID", "USER", "REGISTRATIONS", "QUEUED", "LOST", "PROGRAM"],
        list(status, "clients")
            .iter()
            .map(|client| {
                ["pid", "uid", "registrations", "queued", "lost", "comm"].map(|name| plain(&client[name]))
            })
            .collect(),
    );
    text += "\nsince the start:\n";
    for (name, value) in status["counters"].as_object().into_iter().flatten() {
        text += &format!("  {:<24}{}\n", name.replace('_', " "), plain(value));
    }
    text
}

/// Columns as wide as their widest cell.
fn table<const N: usize>(head: &[&str; N], rows: Vec<[String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(head.map(String::from)).chain(rows).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
            line += &format!("{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_cannot_steer_a_terminal() {
        let status = json!({ "clients": [{ "comm": "a\u{9b}\u{202e}\x1b[2J\n\x7f\u{1f600}" }] });
        let text = render(&status);
        assert!(text.contains("a\\u{9b}\\u{202e}\\u{1b}[2J\\n\\u{7f}\\u{1f600}"), "{text}");
        let json = ascii(&status.to_string());
        assert!(json.bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{json}");
        assert_eq!(serde_json::from_str::<Value>(&json).expect("still JSON"), status);
    }

    #[test]
    fn what_is_missing_is_shown_as_missing() {
        assert!(render(&json!({})).starts_with("daemon -, pid -\npolicy: built in\n\nno port is in use"));
    }

    #[test]
    fn columns_line_up() {
        let text = table(&["A", "B"], vec![["long".into(), "x".into()]]);
        assert_eq!(text, "A     B\nlong  x\n");
    }
}
