//! Signals as something to wait for.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// SIGTERM, SIGINT and SIGHUP of this process, caught from here on: whoever starts a daemon need not wait before it
/// sends one. What comes before the daemon runs is heeded when it does.
pub struct Signals {
    /// Readable when the daemon is to end.
    pub(super) end: UnixStream,
    /// When its policy file is to be read again.
    pub(super) reload: Wishes,
}

impl Signals {
    /// To be called before anything that takes time.
    pub fn catch() -> io::Result<Signals> {
        let (end, write) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        let reload = Wishes::new()?;
        // Whoever sees that the last one is caught may rely on all of them.
        for (signal, pipe) in [(SIGHUP, &*reload.write), (SIGINT, &write), (SIGTERM, &write)] {
            pipe::register(signal, pipe.try_clone()?)?;
        }
        Ok(Signals { end, reload })
    }
}

/// Wishes that are to be heard in the loop. Of several one is enough.
pub(super) struct Wishes {
    /// Readable when there is one.
    pub read: UnixStream,
    pub write: Arc<UnixStream>,
}

impl Wishes {
    pub fn new() -> io::Result<Wishes> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Wishes { read, write: Arc::new(write) })
    }

    /// The same wishes.
    pub fn try_clone(&self) -> io::Result<Wishes> {
        Ok(Wishes { read: self.read.try_clone()?, write: self.write.clone() })
    }
}
