//! System calls, and signals kept away while the lock is held.

use core::ffi::{CStr, c_short};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::abi::c_int;

#[repr(C)]
pub(crate) struct PollFd {
    pub(crate) fd: c_int,
    pub(crate) events: c_short,
    pub(crate) revents: c_short,
}

unsafe extern "C-unwind" {
    /// As poll(2) is, a place where a thread may be cancelled; libc's declaration says that nothing unwinds through it.
    #[link_name = "poll"]
    pub(crate) fn poll_until_cancelled(fds: *mut PollFd, number: libc::nfds_t, timeout: c_int) -> c_int;
}

/// While this lives no signal is handled in this thread: a handler may jump away (siglongjmp(3)), exit, or call us.
pub(crate) struct Quiet(libc::sigset_t);

impl Quiet {
    #[inline(never)]
    pub(crate) fn new() -> Self {
        // SAFETY: both sets are initialised before use (pthread_sigmask(3)).
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            let mut old: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
            Self(old)
        }
    }
}

impl Drop for Quiet {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: restores the mask that `new` has read.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// The errno of a call that has just failed.
pub(crate) fn last() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// A descriptor that a call has just made. Programs that closed 0, 1 or 2 may still read and write there: never those.
fn made(fd: c_int) -> Result<OwnedFd, c_int> {
    if fd < 0 {
        return Err(last());
    }
    // SAFETY: just made, and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    // SAFETY: F_DUPFD_CLOEXEC takes the lowest number (fcntl(2)).
    made(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) })
}

pub(crate) fn epoll() -> Result<OwnedFd, c_int> {
    // SAFETY: no preconditions.
    made(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

pub(crate) fn eventfd() -> Result<OwnedFd, c_int> {
    // SAFETY: no preconditions.
    made(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

pub(crate) fn timer() -> Result<OwnedFd, c_int> {
    // SAFETY: no preconditions.
    made(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })
}

pub(crate) fn seqpacket() -> Result<OwnedFd, c_int> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no preconditions.
    made(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })
}

pub(crate) fn connect(socket: RawFd, path: &[u8]) -> Result<(), c_int> {
    // SAFETY: all zero bytes are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let room = address.sun_path.get_mut(..path.len()).filter(|room| room.len() < 108);
    for (to, from) in room.ok_or(libc::ENAMETOOLONG)?.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let size = std::mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is valid for its size.
    match unsafe { libc::connect(socket, (&raw const address).cast(), size) } {
        0 => Ok(()),
        _ => Err(last()),
    }
}

/// Whether a directory is the effective user's alone: in any other there may be another user's socket.
pub(crate) fn is_private(directory: &CStr) -> bool {
    let mut about = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a C string; lstat fills the structure when it returns 0 (stat(2)). geteuid has no preconditions.
    unsafe {
        if libc::lstat(directory.as_ptr(), about.as_mut_ptr()) != 0 {
            return false;
        }
        let about = about.assume_init();
        about.st_mode == libc::S_IFDIR | 0o700 && about.st_uid == libc::geteuid()
    }
}

/// The user that listens at the other end (unix(7), SO_PEERCRED).
pub(crate) fn peer_uid(socket: RawFd) -> Result<libc::uid_t, c_int> {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut size = std::mem::size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the out pointers are valid for the size given.
    let result = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &mut size)
    };
    if result == 0 { Ok(peer.uid) } else { Err(last()) }
}

pub(crate) fn send(socket: RawFd, packet: &[u8]) -> Result<(), c_int> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the buffer is valid for its length.
    match unsafe { libc::send(socket, packet.as_ptr().cast(), packet.len(), flags) } {
        -1 => Err(last()),
        _ => Ok(()),
    }
}

/// The length of the packet, which may be more than there was room for; 0 at the end.
pub(crate) fn receive(socket: RawFd, packet: &mut [u8]) -> Result<usize, c_int> {
    match receive_once(socket, packet) {
        // Who closes without having read everything makes this error, once, and it comes before what was sent: the
        // daemon's last words are behind it.
        Err(libc::ECONNRESET) => receive_once(socket, packet),
        other => other,
    }
}

fn receive_once(socket: RawFd, packet: &mut [u8]) -> Result<usize, c_int> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the buffer is valid for its length.
    let length = unsafe { libc::recv(socket, packet.as_mut_ptr().cast(), packet.len(), flags) };
    usize::try_from(length).map_err(|_| last())
}

/// Waits until there is something to read, for so many milliseconds; whether there is.
pub(crate) fn wait_readable(fd: RawFd, milliseconds: c_int) -> Result<bool, c_int> {
    let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    match unsafe { libc::poll(&mut ready, 1, milliseconds) } {
        -1 => Err(last()),
        number => Ok(number != 0),
    }
}

pub(crate) fn epoll_add(epoll: RawFd, fd: RawFd) -> Result<(), c_int> {
    epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN)
}

pub(crate) fn epoll_remove(epoll: RawFd, fd: RawFd) {
    let _ = epoll_control(epoll, libc::EPOLL_CTL_DEL, fd, 0);
}

/// Also readable while it can be written to, or not.
pub(crate) fn epoll_writable(epoll: RawFd, fd: RawFd, wanted: bool) {
    let also = if wanted { libc::EPOLLOUT } else { 0 };
    let _ = epoll_control(epoll, libc::EPOLL_CTL_MOD, fd, libc::EPOLLIN | also);
}

fn epoll_control(epoll: RawFd, operation: c_int, fd: RawFd, events: c_int) -> Result<(), c_int> {
    let mut event = libc::epoll_event { events: events as u32, u64: 0 };
    // SAFETY: the event is valid.
    match unsafe { libc::epoll_ctl(epoll, operation, fd, &mut event) } {
        0 => Ok(()),
        _ => Err(last()),
    }
}

/// Makes an eventfd readable.
pub(crate) fn raise(eventfd: RawFd) {
    let one = 1_u64;
    // SAFETY: an eventfd takes 8 bytes; it is non-blocking (eventfd(2)).
    unsafe { libc::write(eventfd, (&raw const one).cast(), 8) };
}

/// Takes back what an eventfd or a timer has to say; whether it said something.
pub(crate) fn lower(fd: RawFd) -> bool {
    let mut count = 0_u64;
    // SAFETY: both give 8 bytes; they are non-blocking (eventfd(2), timerfd_create(2)).
    unsafe { libc::read(fd, (&raw mut count).cast(), 8) == 8 }
}

/// Sets a timer that runs out once.
pub(crate) fn set_timer(timer: RawFd, milliseconds: u32) {
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value = libc::timespec {
        tv_sec: i64::from(milliseconds / 1000),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    };
    let setting = libc::itimerspec { it_interval: zero, it_value: value };
    // SAFETY: the setting is valid; the old one is not asked for.
    unsafe { libc::timerfd_settime(timer, 0, &setting, std::ptr::null_mut()) };
}

/// The descriptor's flags (fcntl(2), F_GETFL).
pub(crate) fn flags(fd: RawFd) -> Result<c_int, c_int> {
    // SAFETY: F_GETFL takes no argument.
    match unsafe { libc::fcntl(fd, libc::F_GETFL) } {
        -1 => Err(last()),
        flags => Ok(flags),
    }
}
