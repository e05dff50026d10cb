//! Another policy for a daemon that runs: on SIGHUP, or when somebody in the process asks.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::signals::Wishes;
use crate::engine::{Level, Policy, Record};
use crate::policy::PolicyFile;

/// The file, and what wakes the loop.
pub struct Reload {
    file: PolicyFile,
    /// To read the file again.
    pub wishes: Wishes,
}

/// Lets a daemon read its policy file again, from another thread.
#[derive(Clone)]
pub struct Reloader(Arc<UnixStream>);

impl Reloader {
    /// As SIGHUP does.
    pub fn reload(&self) {
        // A full pipe has a wish in it already.
        let _ = rustix::io::write(&*self.0, &[0]);
    }
}

impl Reload {
    /// Nothing is read before the first wish.
    pub fn new(file: PolicyFile, wishes: Wishes) -> Reload {
        Reload { file, wishes }
    }

    /// For wishes from elsewhere.
    pub fn reloader(&self) -> Reloader {
        Reloader(self.wishes.write.clone())
    }

    /// The new policy, if the file is good; and what to tell the operator.
    pub fn read(&mut self) -> (Option<Box<dyn Policy>>, Vec<Record>) {
        // Of several wishes one is enough; one that comes now is for the next turn.
        while matches!(rustix::io::read(&self.wishes.read, &mut [0u8; 64]), Ok(64)) {}
        let record = |level, text| Record { level, kind: "policy", text, suppressed: 0 };
        match self.file.policy() {
            Ok(policy) => {
                let text = match policy.file() {
                    Some(file) => format!("the policy was read from {}", file.display()),
                    None => "there is no policy file: the built-in policy counts".into(),
                };
                (Some(policy), vec![record(Level::Info, text)])
            }
            Err(error) => {
                let mut records: Vec<_> =
                    error.lines().into_iter().map(|line| record(Level::Error, line)).collect();
                records.push(record(Level::Error, "the policy stays what it was".into()));
                (None, records)
            }
        }
    }
}
