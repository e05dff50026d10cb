//! The `IBV_SA_*` environment variables, read once at the first RDMA call.

use std::ffi::{CStr, CString};

use ibv_sa_ledger::AckMode;
use once_cell::race::OnceBox;

use crate::{boundary, stderr};

/// How the exit report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// `IBV_SA_CQ`: what is looked at of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CqMode {
    /// Nothing: polls go straight to the provider.
    Off,
    /// Those with an error status.
    Errors,
    /// All.
    Full,
}

impl CqMode {
    const ALL: [CqMode; 3] = [CqMode::Off, CqMode::Errors, CqMode::Full];

    pub(crate) fn name(self) -> &'static str {
        match self {
            CqMode::Off => "off",
            CqMode::Errors => "errors",
            CqMode::Full => "full",
        }
    }
}

/// `IBV_SA_REPORT`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReportTo {
    pub(crate) format: Format,
    /// Where to, with `%p` not yet replaced; stderr if absent.
    pub(crate) file: Option<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `IBV_SA_PROVIDER`: absolute path of the library that does the work.
    pub(crate) provider: Option<CString>,
    pub(crate) report: Option<ReportTo>,
    /// `IBV_SA_ACK`: what becomes of an ack for no event.
    pub(crate) ack: AckMode,
    /// `IBV_SA_HANG_SECS`: when a waiting destroy is spoken of.
    pub(crate) hang_secs: u32,
    /// `IBV_SA_SOCKET`: where the daemon listens.
    pub(crate) socket: Option<CString>,
    /// `XDG_RUNTIME_DIR`, where a user's own daemon listens.
    pub(crate) runtime_dir: Option<CString>,
    pub(crate) cq: CqMode,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            provider: None,
            report: None,
            ack: AckMode::Protect,
            hang_secs: 5,
            socket: None,
            runtime_dir: None,
            cq: CqMode::Errors,
        }
    }
}

static SETTINGS: OnceBox<Settings> = OnceBox::new();

/// The settings of this process.
#[inline]
pub(crate) fn get() -> &'static Settings {
    SETTINGS.get().unwrap_or_else(|| first_use())
}

#[cold]
fn first_use() -> &'static Settings {
    let (settings, complaints) = if privileged() { Default::default() } else { parse(environment()) };
    match SETTINGS.set(Box::new(settings)) {
        Ok(()) => {
            stderr::remember_identity();
            boundary::silence_panics();
            for complaint in complaints {
                stderr::say(&complaint);
            }
        }
        Err(_) => { /* another thread was first and says what there is to say */ }
    }
    SETTINGS.get().expect("set above by us or by another thread")
}

/// The settings, if an RDMA call has read them.
pub(crate) fn if_read() -> Option<&'static Settings> {
    SETTINGS.get()
}

/// Whether the program has more rights than its user: then the user's environment must not steer it
/// (getauxval(3), AT_SECURE; set-ID programs and file capabilities).
fn privileged() -> bool {
    // SAFETY: these calls have no preconditions.
    unsafe {
        libc::getauxval(libc::AT_SECURE) != 0
            || libc::getuid() != libc::geteuid()
            || libc::getgid() != libc::getegid()
    }
}

/// The entries of the environment that are meant for us. One walk in place, as a getenv(3) does it: a copy of the
/// whole environment would race for longer with a thread that changes it.
fn environment() -> impl Iterator<Item = &'static [u8]> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: environ(7) is NULL or an array of C strings that ends in NULL.
    let mut next = unsafe { environ };
    std::iter::from_fn(move || {
        while !next.is_null() {
            // SAFETY: as above; the walk ends at the NULL.
            let entry = unsafe {
                if (*next).is_null() {
                    return None;
                }
                let entry = CStr::from_ptr(*next);
                next = next.add(1);
                entry.to_bytes()
            };
            if entry.starts_with(PREFIX) || entry.starts_with(RUNTIME_DIR) {
                return Some(entry);
            }
        }
        None
    })
}

const PREFIX: &[u8] = b"IBV_SA_";
/// The one variable that is not ours (XDG Base Directory Specification).
const RUNTIME_DIR: &[u8] = b"XDG_RUNTIME_DIR=";

/// A value as it is shown in a message: not longer than a line bears.
fn shown(value: &[u8]) -> String {
    const LONGEST: usize = 200;
    let cut = if value.len() > LONGEST { "..." } else { "" };
    format!("{}{cut}", String::from_utf8_lossy(&value[..value.len().min(LONGEST)]))
}

fn parse<'a>(entries: impl Iterator<Item = &'a [u8]>) -> (Settings, Vec<String>) {
    let mut settings = Settings::default();
    let mut complaints = Vec::new();
    // Of two entries with one name the first counts, as for getenv(3).
    let (mut ack, mut hang_secs, mut cq) = (None, None, None);
    for entry in entries {
        let equals = entry.iter().position(|byte| *byte == b'=').unwrap_or(entry.len());
        let (name, value) = (&entry[..equals], entry.get(equals + 1..).unwrap_or_default());
        if value.is_empty() {
            continue;
        }
        match name {
            b"IBV_SA_PROVIDER" if value.starts_with(b"/") => {
                settings.provider = settings.provider.or_else(|| CString::new(value).ok());
            }
            b"IBV_SA_PROVIDER" => complaints.push(format!(
                "IBV_SA_PROVIDER=\"{}\" is not an absolute path; using libibverbs.so.1",
                shown(value)
            )),
            b"IBV_SA_REPORT" => match parse_report(value) {
                Some(report) => {
                    settings.report.get_or_insert(report);
                }
                None => complaints.push(format!(
                    "IBV_SA_REPORT=\"{}\" is not text, json, text:FILE or json:FILE \
                     (in FILE %p is the process id, %% a percent sign); no report will be written",
                    shown(value)
                )),
            },
            b"IBV_SA_ACK" => match parse_ack(value) {
                Some(mode) => {
                    ack.get_or_insert(mode);
                }
                None => complaints.push(format!(
                    "IBV_SA_ACK=\"{}\" is not protect, forward, rescue or abort; using protect",
                    shown(value)
                )),
            },
            b"IBV_SA_CQ" => match CqMode::ALL.into_iter().find(|mode| mode.name().as_bytes() == value) {
                Some(mode) => {
                    cq.get_or_insert(mode);
                }
                None => complaints.push(format!(
                    "IBV_SA_CQ=\"{}\" is not off, errors or full; using {}",
                    shown(value),
                    settings.cq.name()
                )),
            },
            b"IBV_SA_HANG_SECS" => match parse_seconds(value) {
                Some(seconds) => {
                    hang_secs.get_or_insert(seconds);
                }
                None => complaints.push(format!(
                    "IBV_SA_HANG_SECS=\"{}\" is not a number of seconds from 1 to {LONGEST_WAIT}; using {}",
                    shown(value),
                    settings.hang_secs
                )),
            },
            b"IBV_SA_SOCKET" if is_socket_path(value) => {
                settings.socket = settings.socket.or_else(|| CString::new(value).ok());
            }
            b"IBV_SA_SOCKET" => complaints.push(format!(
                "IBV_SA_SOCKET=\"{}\" is not an absolute path of at most {LONGEST_SOCKET} bytes; \
                 using /run/ibv_sa/sa.sock",
                shown(value)
            )),
            b"XDG_RUNTIME_DIR" => {
                settings.runtime_dir = settings.runtime_dir.or_else(|| CString::new(value).ok());
            }
            _ => complaints
                .push(format!("{} is not a setting of libibv_sa (known: {KNOWN}); ignored", shown(name))),
        }
    }
    settings.ack = ack.unwrap_or(settings.ack);
    settings.cq = cq.unwrap_or(settings.cq);
    settings.hang_secs = hang_secs.unwrap_or(settings.hang_secs);
    (settings, complaints)
}

const KNOWN: &str = "IBV_SA_ACK, IBV_SA_CQ, IBV_SA_HANG_SECS, IBV_SA_PROVIDER, IBV_SA_REPORT, IBV_SA_SOCKET";

/// A day.
const LONGEST_WAIT: u32 = 86400;

/// What an address of a unix socket has room for (unix(7)).
const LONGEST_SOCKET: usize = 107;

fn is_socket_path(value: &[u8]) -> bool {
    value.starts_with(b"/") && value.len() <= LONGEST_SOCKET
}

fn parse_ack(value: &[u8]) -> Option<AckMode> {
    let modes = [AckMode::Protect, AckMode::Forward, AckMode::Rescue, AckMode::Abort];
    modes.into_iter().find(|mode| mode.name().as_bytes() == value)
}

fn parse_seconds(value: &[u8]) -> Option<u32> {
    let digits = value.iter().all(u8::is_ascii_digit);
    let seconds = std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()?;
    (1..=LONGEST_WAIT).contains(&seconds).then_some(seconds)
}

fn parse_report(value: &[u8]) -> Option<ReportTo> {
    let (format, file) = match value.iter().position(|byte| *byte == b':') {
        Some(colon) => (&value[..colon], Some(value[colon + 1..].to_vec())),
        None => (value, None),
    };
    let format = match format {
        b"text" => Format::Text,
        b"json" => Format::Json,
        _ => return None,
    };
    if let Some(file) = &file
        && (file.is_empty() || expand(file, 0).is_none())
    {
        return None;
    }
    Some(ReportTo { format, file })
}

/// Replaces `%p` by the process id and `%%` by a percent sign; any other use of `%` is an error.
pub(crate) fn expand(pattern: &[u8], pid: u32) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => match bytes.next() {
                Some(b'p') => name.extend(pid.to_string().bytes()),
                Some(b'%') => name.push(b'%'),
                _ => return None,
            },
            byte => name.push(*byte),
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(variables: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let entries: Vec<Vec<u8>> =
            variables.iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect();
        parse(entries.iter().map(Vec::as_slice))
    }

    #[test]
    fn reports_are_text_or_json_to_stderr_or_a_file() {
        let report = |value| parsed(&[("IBV_SA_REPORT", value)]).0.report;
        assert_eq!(report("text"), Some(ReportTo { format: Format::Text, file: None }));
        assert_eq!(
            report("json:/tmp/a:%p"),
            Some(ReportTo { format: Format::Json, file: Some(b"/tmp/a:%p".to_vec()) })
        );
    }

    #[test]
    fn malformed_values_give_one_line_and_the_default() {
        for bad in ["xml", "json:", "text:/a%", "text:%d", "JSON", " text"] {
            let (settings, complaints) = parsed(&[("IBV_SA_REPORT", bad)]);
            assert_eq!(settings, Settings::default(), "{bad}");
            assert_eq!(complaints.len(), 1, "{bad}");
            assert!(complaints[0].contains(bad), "{complaints:?}");
        }
        let (settings, complaints) = parsed(&[("IBV_SA_PROVIDER", "soft.so")]);
        assert_eq!(settings.provider, None);
        assert!(complaints[0].contains("absolute path"), "{complaints:?}");
    }

    #[test]
    fn words_and_seconds_are_checked() {
        let (settings, complaints) = parsed(&[("IBV_SA_ACK", "rescue"), ("IBV_SA_HANG_SECS", "60")]);
        assert_eq!((settings.ack, settings.hang_secs), (AckMode::Rescue, 60));
        assert_eq!(parsed(&[("IBV_SA_CQ", "full"), ("IBV_SA_CQ", "off")]).0.cq, CqMode::Full);
        assert!(complaints.is_empty());
        for (name, bad) in [
            ("IBV_SA_ACK", "Protect"),
            ("IBV_SA_ACK", "none"),
            ("IBV_SA_CQ", "all"),
            ("IBV_SA_CQ", "Full"),
            ("IBV_SA_HANG_SECS", "0"),
            ("IBV_SA_HANG_SECS", "-1"),
            ("IBV_SA_HANG_SECS", "1.5"),
            ("IBV_SA_HANG_SECS", "86401"),
            ("IBV_SA_HANG_SECS", "99999999999999999999"),
            ("IBV_SA_HANG_SECS", "5s"),
        ] {
            let (settings, complaints) = parsed(&[(name, bad)]);
            assert_eq!(settings, Settings::default(), "{name}={bad}");
            assert!(complaints.len() == 1 && complaints[0].contains(bad), "{complaints:?}");
        }
    }

    #[test]
    fn a_socket_has_an_absolute_path_that_fits() {
        let (settings, complaints) = parsed(&[
            ("IBV_SA_SOCKET", "/run/a"),
            ("XDG_RUNTIME_DIR", "/run/user/7"),
            ("XDG_RUNTIME_DIR", "/x"),
        ]);
        assert_eq!(settings.socket.as_deref(), Some(c"/run/a"));
        assert_eq!(settings.runtime_dir.as_deref(), Some(c"/run/user/7"));
        assert!(complaints.is_empty());
        for bad in ["sa.sock", &"/x".repeat(54)] {
            let (settings, complaints) = parsed(&[("IBV_SA_SOCKET", bad)]);
            assert_eq!(settings.socket, None);
            assert!(complaints.len() == 1 && complaints[0].contains("absolute path"), "{complaints:?}");
        }
        assert!(parsed(&[("IBV_SA_SOCKET", &format!("/{}", "x".repeat(106)))]).0.socket.is_some());
    }

    #[test]
    fn unknown_names_are_named() {
        let (_, complaints) = parsed(&[("IBV_SA_REPROT", "text"), ("IBV_SA_", "1")]);
        assert_eq!(complaints.len(), 2);
        assert!(complaints[0].starts_with("IBV_SA_REPROT "));
    }

    #[test]
    fn a_long_value_is_cut() {
        let (_, complaints) = parsed(&[("IBV_SA_REPORT", &"x".repeat(100_000))]);
        assert!(complaints[0].len() < 500, "{}", complaints[0].len());
    }

    #[test]
    fn an_empty_value_is_no_value() {
        assert_eq!(parsed(&[("IBV_SA_REPORT", ""), ("IBV_SA_WHAT", "")]), Default::default());
    }

    #[test]
    fn percent_signs_expand() {
        assert_eq!(expand(b"a%p-%%", 7).unwrap(), b"a7-%");
        assert_eq!(expand(b"%", 7), None);
    }
}
