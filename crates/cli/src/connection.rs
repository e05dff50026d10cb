//! The connection to the daemon, in its own protocol.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ibv_sa_wire::proto::{ClientMessage, Hello, MAX_PACKET, MAX_REQUEST, ServerMessage, VERSION};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::geteuid;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::message::{FAILED, Failure, shown};

/// Where the system's daemon listens.
pub(crate) const SOCKET: &str = "/run/ibv_sa/sa.sock";
/// And a user's own, below `XDG_RUNTIME_DIR`.
const OWN_SOCKET: &str = "ibv_sa/sa.sock";
/// How long a daemon may take to say Welcome.
const PATIENCE: Duration = Duration::from_secs(5);
const SILENT: &str = "the daemon does not answer within 5 seconds";
/// What an address of a unix socket has room for (unix(7)).
const LONGEST: usize = 107;

/// The value of `--socket` or `IBV_SA_SOCKET`.
pub(crate) fn socket_path(value: &OsStr) -> Result<PathBuf, String> {
    if !Path::new(value).is_absolute() || value.len() > LONGEST {
        return Err(format!("give an absolute path of at most {LONGEST} bytes, such as {SOCKET}"));
    }
    Ok(value.into())
}

/// The path that the environment names.
pub(crate) fn environment() -> Result<Option<PathBuf>, Failure> {
    match std::env::var_os("IBV_SA_SOCKET").filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => socket_path(&value).map(Some).map_err(|why| {
            Failure::new(FAILED, format!("IBV_SA_SOCKET={} is no socket's path: {why}", shown(&value)))
        }),
    }
}

/// A user's own socket, if the user has a directory for it into which nobody else can put one.
pub(crate) fn own_socket() -> Option<PathBuf> {
    let directory = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    let about = std::fs::symlink_metadata(&directory).ok()?;
    let mine = about.is_dir() && about.uid() == geteuid().as_raw() && about.mode() & 0o7777 == 0o700;
    (directory.is_absolute() && mine).then(|| directory.join(OWN_SOCKET))
}

/// Why there is no connection.
pub(crate) enum NoDaemon {
    /// Nobody listens: where it was tried.
    Nobody(String),
    /// Somebody does, but not for us.
    Other(Failure),
}

impl NoDaemon {
    /// Nothing goes on without it.
    pub(crate) fn fatal(self) -> Failure {
        match self {
            NoDaemon::Nobody(tried) => Failure::new(
                FAILED,
                format!(
                    "no daemon ({tried}); start one as root: ibv-sa daemon, or systemctl start ibv-sa.socket"
                ),
            ),
            NoDaemon::Other(failure) => failure,
        }
    }
}

/// A connection on which the daemon has said Welcome.
pub(crate) struct Connection {
    fd: OwnedFd,
    packet: Box<[u8; MAX_PACKET]>,
}

impl Connection {
    /// To the daemon at that path, or else at one of those where it is expected.
    pub(crate) fn open(named: Option<&Path>) -> Result<Connection, NoDaemon> {
        let paths = match named {
            Some(path) => vec![path.to_path_buf()],
            None => [Some(PathBuf::from(SOCKET)), own_socket()].into_iter().flatten().collect(),
        };
        let mut tried = Vec::new();
        for path in &paths {
            match Connection::at(path) {
                Ok(connection) => return connection.map_err(NoDaemon::Other),
                Err(error @ (Errno::NOENT | Errno::CONNREFUSED)) => {
                    tried.push(format!("{}: {}", shown(path), io::Error::from(error)));
                }
                Err(Errno::AGAIN) => {
                    return Err(NoDaemon::Other(Failure::new(FAILED, format!("{}: {SILENT}", shown(path)))));
                }
                Err(error) => {
                    let text = format!("{}: cannot connect: {}", shown(path), io::Error::from(error));
                    return Err(NoDaemon::Other(Failure::new(FAILED, text)));
                }
            }
        }
        Err(NoDaemon::Nobody(tried.join("; ")))
    }

    fn at(path: &Path) -> Result<Result<Connection, Failure>, Errno> {
        let address = SocketAddrUnix::new(path)?;
        let fd =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // One that hangs must not hang us: not with its queue full, nor without its Welcome.
        for which in [Timeout::Send, Timeout::Recv] {
            set_socket_timeout(&fd, which, Some(PATIENCE))?;
        }
        rustix::net::connect(&fd, &address)?;
        Ok(Connection { fd, packet: Box::new([0; MAX_PACKET]) }.greet(path))
    }

    fn greet(mut self, path: &Path) -> Result<Connection, Failure> {
        let fail = |text: String| Failure::new(FAILED, format!("{}: {text}", shown(path)));
        let peer = getsockopt(&self.fd, sockopt::PeerCredentials)
            .map_err(|error| fail(format!("who listens is not known: {error}")))?;
        // Whoever else may bind there could tell us anything.
        if peer.uid() != 0 && peer.uid() != geteuid().as_raw() {
            let uid = peer.uid();
            return Err(fail(format!("is served by user {uid}, who is neither root nor you: not used")));
        }
        self.send(&ClientMessage::Hello(Hello::default())).map_err(|error| fail(error.to_string()))?;
        let answer = match self.receive() {
            Ok(Some(ServerMessage::Welcome(welcome))) if welcome.version == VERSION => None,
            Ok(Some(ServerMessage::Refused(refused))) => Some(format!("refused: {}", refused.text())),
            Ok(Some(_)) => Some("speaks another protocol".into()),
            Ok(None) => Some("the daemon closed the connection".into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(SILENT.into()),
            Err(error) => Some(error.to_string()),
        };
        match answer {
            None => Ok(self),
            Some(text) => Err(fail(text)),
        }
    }

    pub(crate) fn send(&self, message: &ClientMessage) -> io::Result<()> {
        let mut packet = [0; MAX_REQUEST];
        let length = message.encode(&mut packet);
        loop {
            match rustix::net::send(&self.fd, &packet[..length], SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                other => return Ok(other.map(|_| ())?),
            }
        }
    }

    /// The next packet; nothing once the daemon has closed. Waits.
    pub(crate) fn receive(&mut self) -> io::Result<Option<ServerMessage<'_>>> {
        let length = loop {
            match rustix::net::recv(&self.fd, &mut self.packet[..], RecvFlags::TRUNC) {
                Ok((_, length)) => break length,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET | Errno::PIPE) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        };
        if length == 0 {
            return Ok(None);
        }
        let packet = self.packet.get(..length);
        let packet = packet.ok_or_else(|| io::Error::other(format!("a packet of {length} bytes")))?;
        ServerMessage::decode(packet).map(Some).map_err(|error| io::Error::other(error.to_string()))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_whole_paths_that_fit() {
        let check = |text: &str| socket_path(OsStr::new(text));
        assert_eq!(check("/run/a.sock"), Ok("/run/a.sock".into()));
        assert!(check(&format!("/{}", "x".repeat(106))).is_ok());
        for bad in ["", "sa.sock", &format!("/{}", "x".repeat(107))] {
            assert!(check(bad).unwrap_err().contains("absolute path"), "{bad:?}");
        }
    }
}
