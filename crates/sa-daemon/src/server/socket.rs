//! The listening socket: systemd's, or one of our own at a path.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::geteuid;

use super::{Error, sys};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A listening socket.
pub struct Listener {
    /// Non-blocking.
    pub fd: OwnedFd,
    /// Ours to remove.
    bound: Option<Bound>,
}

struct Bound {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Held as long as the socket is ours.
    _lock: File,
}

impl Listener {
    /// What systemd opened for us, if it did.
    pub fn inherited() -> Result<Option<Listener>, Error> {
        let Some(fd) = sys::inherited().map_err(|count| Error::Several { count })? else { return Ok(None) };
        let kind = |fd: &OwnedFd| -> io::Result<bool> {
            Ok(sockopt::socket_domain(fd)? == AddressFamily::UNIX
                && sockopt::socket_type(fd)? == SocketType::SEQPACKET
                && sockopt::socket_acceptconn(fd)?)
        };
        if !kind(&fd).unwrap_or(false) {
            return Err(Error::Inherited);
        }
        let prepare = |fd: &OwnedFd| -> io::Result<()> {
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(fd, true)?;
            Ok(())
        };
        prepare(&fd).map_err(|source| Error::System { what: "the inherited socket", source })?;
        Ok(Some(Listener { fd, bound: None }))
    }

    /// One of our own. What an earlier daemon left at the path goes, if it is surely that.
    pub fn bind(path: &Path) -> Result<Listener, Error> {
        let fail = |what| move |source| Error::Socket { path: path.into(), what, source };
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let about = fs::metadata(directory).map_err(fail("its directory"))?;
        let ours = about.uid() == 0 || about.uid() == geteuid().as_raw();
        if about.mode() & 0o022 != 0 || !ours {
            // Others could have put the path there, or put another one in its place.
            return Err(Error::Directory { path: directory.into() });
        }
        let lock = lock(path)?;
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail("lstat")(error)),
            Ok(found) => {
                if !found.file_type().is_socket() || found.uid() != geteuid().as_raw() {
                    return Err(Error::Taken { path: path.into() });
                }
                if answers(path).map_err(fail("connect"))? {
                    return Err(Error::Running { path: path.into() });
                }
            }
        }
        // Under another name until it listens: whoever finds the path can connect.
        let new = with_suffix(path, ".new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail("unlink")(error)),
            _ => {}
        }
        let open = || -> io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            rustix::net::bind(&fd, &SocketAddrUnix::new(&new)?)?;
            open_to_all(&new)?;
            rustix::net::listen(&fd, BACKLOG)?;
            fs::rename(&new, path)?;
            Ok(fd)
        };
        let fd = open().map_err(fail("bind"))?;
        let about = fs::symlink_metadata(path).map_err(fail("lstat"))?;
        let bound = Bound { path: path.into(), device: about.dev(), inode: about.ino(), _lock: lock };
        Ok(Listener { fd, bound: Some(bound) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some(bound) = &self.bound else { return };
        let same = fs::symlink_metadata(&bound.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (bound.device, bound.inode));
        if same {
            // Nobody is left to be told.
            let _ = fs::remove_file(&bound.path);
        }
    }
}

/// Who may connect is decided by who it is, not by the file. Bind has made it as the umask says. The mode is set by
/// descriptor, so that it is the mode of a socket of ours and not of what a link points at.
fn open_to_all(path: &Path) -> io::Result<()> {
    let socket = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let about = rustix::fs::fstat(&socket)?;
    if FileType::from_raw_mode(about.st_mode) != FileType::Socket || about.st_uid != geteuid().as_raw() {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    let mode = Mode::from_raw_mode(0o666);
    if Mode::from_raw_mode(about.st_mode) == mode {
        return Ok(());
    }
    // Linux has no fchmod(2) for such descriptors before 6.6.
    let itself = format!("/proc/self/fd/{}", socket.as_raw_fd());
    Ok(rustix::fs::chmod(itself, mode)?)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Only one daemon at a time looks at a path. The file stays: removing it would let two have it.
fn lock(path: &Path) -> Result<File, Error> {
    let name = with_suffix(path, ".lock");
    let file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(&name)
        .map_err(|source| Error::Socket { path: name, what: "its lock", source })?;
    match flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Running { path: path.into() }),
        Err(error) => Err(Error::Socket { path: path.into(), what: "its lock", source: error.into() }),
    }
}

/// Does somebody listen there?
fn answers(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    match rustix::net::connect(&fd, &SocketAddrUnix::new(path)?) {
        Err(rustix::io::Errno::CONNREFUSED) => Ok(false),
        // A full backlog is somebody, and a socket of another type is somebody else's.
        _ => Ok(true),
    }
}
