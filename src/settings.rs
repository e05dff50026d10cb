//! The `IBV_SA_*` environment variables, read once at the first RDMA call.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;

use once_cell::race::OnceBox;

use crate::{boundary, stderr};

/// How the exit report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// `IBV_SA_REPORT`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReportTo {
    pub(crate) format: Format,
    /// Where to, with `%p` not yet replaced; stderr if absent.
    pub(crate) file: Option<Vec<u8>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `IBV_SA_PROVIDER`: absolute path of the library that does the work.
    pub(crate) provider: Option<CString>,
    pub(crate) report: Option<ReportTo>,
}

static SETTINGS: OnceBox<Settings> = OnceBox::new();

/// The settings of this process.
#[inline]
pub(crate) fn get() -> &'static Settings {
    SETTINGS.get().unwrap_or_else(|| first_use())
}

#[cold]
fn first_use() -> &'static Settings {
    let (settings, complaints) = if privileged() { Default::default() } else { parse(std::env::vars_os()) };
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

fn parse(variables: impl Iterator<Item = (OsString, OsString)>) -> (Settings, Vec<String>) {
    let mut settings = Settings::default();
    let mut complaints = Vec::new();
    for (name, value) in variables {
        let name = name.to_string_lossy().into_owned();
        if !name.starts_with("IBV_SA_") || value.is_empty() {
            continue;
        }
        let shown = value.to_string_lossy().into_owned();
        let shown = shown.escape_debug();
        let value = value.into_vec();
        match name.as_str() {
            "IBV_SA_PROVIDER" if value.starts_with(b"/") => {
                settings.provider = CString::new(value).ok();
            }
            "IBV_SA_PROVIDER" => complaints
                .push(format!("IBV_SA_PROVIDER=\"{shown}\" is not an absolute path; using libibverbs.so.1")),
            "IBV_SA_REPORT" => match parse_report(&value) {
                Some(report) => settings.report = Some(report),
                None => complaints.push(format!(
                    "IBV_SA_REPORT=\"{shown}\" is not text, json, text:FILE or json:FILE \
                     (in FILE %p is the process id, %% a percent sign); no report will be written"
                )),
            },
            _ => complaints.push(format!(
                "{name} is not a setting of libibv_sa (known: IBV_SA_PROVIDER, IBV_SA_REPORT); ignored"
            )),
        }
    }
    (settings, complaints)
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
        parse(variables.iter().map(|(name, value)| (name.into(), value.into())))
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
    fn unknown_names_are_named() {
        let (_, complaints) = parsed(&[("IBV_SA_REPROT", "text"), ("HOME", "/"), ("IBV_SAX", "1")]);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("IBV_SA_REPROT "));
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
