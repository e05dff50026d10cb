//! The values of the settings. What counts here is what the library understands (ibv_sa(7)); it reads the environment
//! by its own code, which cannot be linked into a command without interposing it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::ValueEnum;

use crate::library;

/// `IBV_SA_ACK`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Ack {
    /// It is reported and held back from libibverbs
    Protect,
    /// It is reported and passed on
    Forward,
    /// As protect; a destroy that waits gets the acknowledgements that it misses
    Rescue,
    /// It is reported and the program aborts
    Abort,
}

impl Ack {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("no mode is hidden").get_name().to_string()
    }
}

/// `IBV_SA_CQ`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Cq {
    /// Polls go straight to the provider
    Off,
    /// Completions with an error status are looked at: the first failure of each QP is said
    Errors,
    /// All are counted too
    Full,
}

impl Cq {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("no mode is hidden").get_name().to_string()
    }
}

/// `IBV_SA_HANG_SECS`.
pub(crate) fn hang_secs(value: OsString) -> Result<OsString, String> {
    let digits = value.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|text| text.parse::<u32>().ok()) {
        Some(seconds @ 1..=86400) => Ok(seconds.to_string().into()),
        _ => Err("give a whole number of seconds, 1 to 86400".into()),
    }
}

/// `IBV_SA_REPORT`.
pub(crate) fn report(value: OsString) -> Result<OsString, String> {
    let bytes = value.as_bytes();
    let (form, file) = match bytes.iter().position(|byte| *byte == b':') {
        Some(colon) => (&bytes[..colon], Some(&bytes[colon + 1..])),
        None => (bytes, None),
    };
    if !matches!(form, b"text" | b"json") {
        return Err("give text, json, text:FILE or json:FILE".into());
    }
    match file {
        Some(b"") => Err("give a file's name after the colon, or leave the colon out for stderr".into()),
        Some(file) if !percent_signs_are_good(file) => {
            Err("in FILE %p is the process id, and a percent sign is written %%".into())
        }
        _ => Ok(value),
    }
}

fn percent_signs_are_good(file: &[u8]) -> bool {
    let mut bytes = file.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'%' && !matches!(bytes.next(), Some(b'p' | b'%')) {
            return false;
        }
    }
    true
}

/// `IBV_SA_PROVIDER`. The library finds a missing file out by itself, but at the first RDMA call.
pub(crate) fn provider(value: OsString) -> Result<OsString, String> {
    if !value.as_bytes().starts_with(b"/") {
        return Err("give the whole path, from /".into());
    }
    match library::check(Path::new(&value)) {
        Ok(_) => Ok(value),
        Err(why) => Err(format!("{why}; name a library with libibverbs's ABI")),
    }
}

/// `IBV_SA_SOCKET`. Nobody need listen there yet.
pub(crate) fn socket(value: OsString) -> Result<OsString, String> {
    match value.as_bytes() {
        [b'/', ..] if value.len() <= 107 => Ok(value),
        [b'/', ..] => Err("a socket's path has at most 107 bytes".into()),
        _ => Err("give the whole path, from /".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds() {
        for (good, passed_on) in [("1", "1"), ("86400", "86400"), ("007", "7")] {
            assert_eq!(hang_secs(good.into()).unwrap(), passed_on);
        }
        for bad in ["", "0", "86401", "-1", "+1", "1.5", "5s", " 5", "99999999999999999999"] {
            assert!(hang_secs(bad.into()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn reports() {
        for good in ["text", "json", "text:a", "json:/tmp/%p-%%", "text:a:b"] {
            assert_eq!(report(good.into()).unwrap(), good);
        }
        for bad in ["", "xml", "TEXT", "text ", "json:", "text:%", "text:%d", ":"] {
            assert!(report(bad.into()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sockets() {
        assert!(socket("/run/ibv_sa/sa.sock".into()).is_ok());
        assert!(socket("sa.sock".into()).unwrap_err().contains("whole path"));
        assert!(socket(format!("/{}", "x".repeat(107)).into()).unwrap_err().contains("107"));
    }

    #[test]
    fn providers() {
        assert!(provider("libibverbs.so.1".into()).unwrap_err().contains("whole path"));
        assert!(provider("/nonexistent.so".into()).unwrap_err().contains("No such file"));
    }
}
