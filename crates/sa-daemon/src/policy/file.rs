//! Reading a policy file, if it is one that only an administrator can have written.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::names::{Names, SystemNames};
use super::problem::{Mistake, Problem};
use super::rules::Rules;
use crate::engine::{DefaultPolicy, Policy};

/// Where the file is, unless another is named.
pub const DEFAULT: &str = "/etc/ibv_sa/policy.toml";

/// The longest file, in bytes.
const LONGEST: u64 = 64 * 1024;

/// Why a policy file is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others could have written it, or it is no such file at all.
    #[error("{path}: {why}", path = path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why, with the remedy.
        why: String,
    },
    /// What is in it is wrong.
    #[error("{}", self.lines().join("; "))]
    Broken {
        /// The file.
        path: PathBuf,
        /// At least one, in the order of the file.
        problems: Vec<Problem>,
    },
}

impl Error {
    /// One line for each thing that is wrong.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Error::Broken { path, problems } => {
                problems.iter().map(|problem| format!("{}:{problem}", path.display())).collect()
            }
            other => vec![other.to_string()],
        }
    }
}

/// Which file is the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    path: PathBuf,
    /// Without the file there is the built-in policy.
    may_be_missing: bool,
}

impl PolicyFile {
    /// This one, which has to be there.
    pub fn named(path: impl Into<PathBuf>) -> PolicyFile {
        PolicyFile { path: path.into(), may_be_missing: false }
    }

    /// This one, if it is there.
    pub fn if_there(path: impl Into<PathBuf>) -> PolicyFile {
        PolicyFile { path: path.into(), may_be_missing: true }
    }

    /// Reads it.
    pub fn read(&self) -> Result<Rules, Error> {
        let text = contents(&self.path)?;
        let broken = |problems| Error::Broken { path: self.path.clone(), problems };
        let text = String::from_utf8(text).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes());
            broken(vec![Problem::at(&text, good, Mistake::Encoding, "no UTF-8 text; save the file as UTF-8")])
        })?;
        let names: &dyn Names = &SystemNames;
        let rules = Rules::parse(&text, names).map_err(broken)?;
        Ok(Rules { file: Some(self.path.clone()), ..rules })
    }

    /// What is in force because of it.
    pub fn policy(&self) -> Result<Box<dyn Policy>, Error> {
        match self.read() {
            Ok(rules) => Ok(Box::new(rules)),
            Err(Error::Read { source, .. })
                if self.may_be_missing && source.kind() == io::ErrorKind::NotFound =>
            {
                Ok(Box::new(DefaultPolicy::default()))
            }
            Err(error) => Err(error),
        }
    }
}

fn contents(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Read { path: path.into(), source };
    let refuse = |why: String| Err(Error::Refused { path: path.into(), why });
    // A FIFO would wait for a writer.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(fail)?;
    let about = file.metadata().map_err(fail)?;
    if !about.is_file() {
        return refuse("is no regular file; name a file".into());
    }
    let own = geteuid().as_raw();
    if about.uid() != 0 && about.uid() != own {
        let owner = about.uid();
        return refuse(format!("belongs to user {owner}, who could give rights to anybody; chown root"));
    }
    if about.mode() & 0o022 != 0 {
        let mode = about.mode() & 0o7777;
        return refuse(format!("others than its owner may write to it (mode {mode:04o}); chmod go-w"));
    }
    let mut text = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut text).map_err(fail)?;
    if text.len() as u64 > LONGEST {
        return refuse(format!("is longer than {LONGEST} bytes; use groups instead of many users"));
    }
    Ok(text)
}
