//! Three system calls that have no safe form: the only unsafe code of the server.

#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The first descriptor that systemd hands over.
const FIRST_INHERITED: i32 = 3;

/// The descriptor that systemd opened for this process (sd_listen_fds(3)), or how many there are if they are more.
pub fn inherited() -> Result<Option<OwnedFd>, u32> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(None);
    }
    match number("LISTEN_FDS") {
        None | Some(0) => return Ok(None),
        Some(1) => {}
        Some(count) => return Err(count),
    }
    // SAFETY: F_GETFD takes no pointer; a bad descriptor is an error.
    let flags = unsafe { libc::fcntl(FIRST_INHERITED, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return Ok(None);
    }
    // SAFETY: the environment says that descriptor 3 was opened for this process, F_GETFD that it is open and came
    // through the exec: whatever this process has opened so far has FD_CLOEXEC. Nothing else has it: `run` comes here
    // once.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(FIRST_INHERITED) }))
}

/// Who is at the other end (SO_PEERCRED). The pid is 0 for a process that cannot be seen from here.
pub fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed, hence open; `credentials` has room for `length` bytes, any of which are
    // valid for its integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(credentials) } else { Err(io::Error::last_os_error()) }
}

/// The supplementary groups of the process at the other end, when it connected (SO_PEERGROUPS, Linux 4.13).
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    /// The most that a process may be in (NGROUPS_MAX).
    const MOST: usize = 65_536;
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut length = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the descriptor is borrowed, hence open; `groups` has room for `length` bytes, any of which are
        // valid for its integers.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let error = io::Error::last_os_error();
        if result == 0 {
            groups.truncate(length as usize / size_of::<libc::gid_t>());
            return Ok(groups);
        }
        // The kernel says how much room it needs; no more than that is believed.
        let needed = (length as usize).div_ceil(size_of::<libc::gid_t>());
        if error.raw_os_error() != Some(libc::ERANGE) || needed <= groups.len() || needed > MOST {
            return Err(error);
        }
        groups.resize(needed, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_groups_of_a_peer_are_those_of_its_process() {
        let (one, _other) = UnixStream::pair().expect("sockets");
        let mut groups = peer_groups(one.as_fd()).expect("the kernel says so");
        let own = nix::unistd::getgroups().expect("ours");
        let mut own: Vec<u32> = own.into_iter().map(|group| group.as_raw()).collect();
        groups.sort_unstable();
        own.sort_unstable();
        assert_eq!(groups, own);
    }
}
