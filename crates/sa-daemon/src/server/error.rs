//! Why there is no daemon.

use std::io;
use std::path::PathBuf;

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A daemon is there already.
    #[error("{path}: a daemon is running there", path = path.display())]
    Running {
        /// The socket.
        path: PathBuf,
    },
    /// Something at the path that no daemon of this user has left.
    #[error("{path}: exists and is no socket of this user; remove it by hand", path = path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// The directory is another user's, or others may write to it.
    #[error(
        "{path}: others may write there, so that a socket in it is not safe; chown it to this user or root, chmod go-w",
        path = path.display()
    )]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The path cannot be had.
    #[error("{path}: {what}: {source}", path = path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Descriptor 3 is something else.
    #[error("the socket that systemd handed over is no listening SOCK_SEQPACKET unix socket")]
    Inherited,
    /// Programs at the others would wait for ever.
    #[error(
        "systemd handed over {count} sockets; the socket unit is to have one ListenSequentialPacket= and no more"
    )]
    Several {
        /// How many.
        count: u32,
    },
    /// Something that always works did not.
    #[error("{what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}
