//! Two system calls that have no safe form: the only unsafe code of the server.

#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The first descriptor that systemd hands over.
const FIRST_INHERITED: i32 = 3;

/// The descriptor that systemd opened for this process (sd_listen_fds(3)).
pub fn inherited() -> Option<OwnedFd> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) || number("LISTEN_FDS").is_none_or(|count| count == 0)
    {
        return None;
    }
    // SAFETY: F_GETFD takes no pointer; a bad descriptor is an error.
    if unsafe { libc::fcntl(FIRST_INHERITED, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: the environment says that descriptor 3 was opened for this process, F_GETFD that it is open. Nothing
    // else has it: `run` comes here once, before it opens anything that could have got that number.
    Some(unsafe { OwnedFd::from_raw_fd(FIRST_INHERITED) })
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
