//! Who is at the other end of a connection.

use rustix::fd::BorrowedFd;

use super::{connection, sys};
use crate::engine::Peer;

/// What the kernel says of it, and its name.
pub fn describe(socket: BorrowedFd<'_>, credentials: &libc::ucred, pid: u32) -> Peer {
    let libc::ucred { uid, gid, .. } = *credentials;
    let groups = sys::peer_groups(socket).unwrap_or_else(|_| groups_of(uid, gid));
    Peer { uid, gid, groups, pid, comm: connection::comm(pid) }
}

/// The groups that a user has by the host's books, where the kernel does not say which the process has.
fn groups_of(uid: u32, gid: u32) -> Vec<u32> {
    let Ok(Some(user)) = nix::unistd::User::from_uid(uid.into()) else { return Vec::new() };
    let name = std::ffi::CString::new(user.name).unwrap_or_default();
    let groups = nix::unistd::getgrouplist(&name, gid.into()).unwrap_or_default();
    groups.into_iter().map(|group| group.as_raw()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_a_user_are_in_the_books_and_a_stranger_has_none() {
        assert!(groups_of(0, 0).contains(&0));
        assert!(groups_of(4_000_000_000, 7).is_empty());
    }
}
