//! The environment that the program gets. Built aside: changing one's own is not safe in Rust.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

pub(crate) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    pub(crate) fn inherited() -> Environment {
        Environment(std::env::vars_os().collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// A variable keeps its place; one that is there twice is there once afterwards.
    pub(crate) fn set(&mut self, name: &str, value: &OsStr) {
        let place = self.0.iter().position(|(known, _)| known == name).unwrap_or(self.0.len());
        self.0.retain(|(known, _)| known != name);
        self.0.insert(place, (name.into(), value.into()));
    }

    /// As execve(2) takes it.
    pub(crate) fn entries(&self) -> Vec<CString> {
        let entry = |(name, value): &(OsString, OsString)| {
            let mut entry = name.clone();
            entry.push("=");
            entry.push(value);
            c_string(&entry)
        };
        self.0.iter().map(entry).collect()
    }
}

/// Arguments and variables came as C strings, so there is no zero byte in them.
pub(crate) fn c_string(text: &OsStr) -> CString {
    let bytes: Vec<u8> = text.as_bytes().iter().copied().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_replaced_in_its_place() {
        let pairs = [("A", "1"), ("B", "2"), ("C", "3"), ("B", "4")];
        let mut environment = Environment(pairs.map(|(name, value)| (name.into(), value.into())).into());
        environment.set("B", OsStr::from_bytes(b"\xff"));
        environment.set("D", OsStr::new(""));
        let entries: Vec<Vec<u8>> = environment.entries().into_iter().map(CString::into_bytes).collect();
        assert_eq!(entries, [&b"A=1"[..], b"B=\xff", b"C=3", b"D="]);
        assert_eq!(environment.get("D"), Some(OsStr::new("")));
        assert_eq!(environment.get("B"), Some(OsStr::from_bytes(b"\xff")));
    }
}
