//! Names of users and groups.

use nix::errno::Errno;
use nix::unistd::{Group, User};

/// Where the numbers of users and groups are looked up. `None` if there is no such name; an error if nobody can say.
pub trait Names {
    /// A user's number.
    fn user(&self, name: &str) -> Result<Option<u32>, String>;
    /// A group's number.
    fn group(&self, name: &str) -> Result<Option<u32>, String>;
}

/// What this host knows (nsswitch.conf(5)).
pub struct SystemNames;

impl Names for SystemNames {
    fn user(&self, name: &str) -> Result<Option<u32>, String> {
        look_up(name, |name| Ok(User::from_name(name)?.map(|user| user.uid.as_raw())))
    }

    fn group(&self, name: &str) -> Result<Option<u32>, String> {
        look_up(name, |name| Ok(Group::from_name(name)?.map(|group| group.gid.as_raw())))
    }
}

fn look_up(name: &str, ask: impl Fn(&str) -> Result<Option<u32>, Errno>) -> Result<Option<u32>, String> {
    match ask(name) {
        // What getpwnam_r(3) lists as ways to say that there is none.
        Err(Errno::ENOENT | Errno::ESRCH | Errno::EBADF | Errno::EPERM) => Ok(None),
        other => other.map_err(|error| error.desc().to_string()),
    }
}
