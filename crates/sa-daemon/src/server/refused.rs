//! Connections that are refused, until their programs surely know.
//!
//! A program connects and sends its Hello without waiting. On a unix socket a close with something unread is an error
//! at the other end, which comes before what was sent, and a Hello after the close is an error too. So the refusal
//! goes out at once, and the descriptor stays until the Hello is there, for a second at most.

use std::collections::VecDeque;

use ibv_sa_wire::proto::{MAX_REQUEST, Refused, ServerMessage};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, shutdown};

use super::connection::send;
use crate::engine::ClientId;

/// How long a Hello may take.
const PATIENCE: u64 = 1_000_000_000;
/// Descriptors that are kept, in all and of one user: whoever asks for more gets no more of ours.
const MOST: usize = 64;
const MOST_OF_ONE: usize = 16;

struct One {
    client: ClientId,
    uid: u32,
    fd: OwnedFd,
    until: u64,
}

/// The refused connections, oldest first.
#[derive(Default)]
pub struct Waiting(VecDeque<One>);

impl Waiting {
    /// Says so, and keeps the connection if its Hello is still to come. Returns the descriptor to be watched.
    pub fn refuse(
        &mut self,
        now: u64,
        (client, uid): (ClientId, u32),
        fd: OwnedFd,
        refused: Refused,
    ) -> Option<BorrowedFd<'_>> {
        let heard = is_heard(&fd);
        // The first packet always has room.
        let told = send(&fd, &ServerMessage::Refused(refused));
        if heard || told.is_err() {
            return None;
        }
        // Nothing follows, and the Hello is still welcome.
        let _ = shutdown(&fd, Shutdown::Write);
        if self.0.iter().filter(|one| one.uid == uid).count() >= MOST_OF_ONE
            && let Some(at) = self.0.iter().position(|one| one.uid == uid)
        {
            self.0.remove(at);
        } else if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(One { client, uid, fd, until: now + PATIENCE });
        self.0.back().map(|one| one.fd.as_fd())
    }

    /// Something came from one of them, or it is closed. Closing ours takes it out of epoll.
    pub fn heard(&mut self, client: ClientId) {
        self.0.retain(|one| one.client != client || !is_heard(&one.fd));
    }

    /// Lets go of those that were silent too long.
    pub fn expire(&mut self, now: u64) {
        while self.0.front().is_some_and(|one| one.until <= now) {
            self.0.pop_front();
        }
    }

    /// When that is.
    pub fn deadline(&self) -> Option<u64> {
        self.0.front().map(|one| one.until)
    }
}

/// Takes in what is there; whether anything was, the end included.
fn is_heard(fd: &OwnedFd) -> bool {
    let mut packet = [0; MAX_REQUEST];
    let received = rustix::net::recv(fd, &mut packet, RecvFlags::TRUNC | RecvFlags::DONTWAIT);
    !matches!(received, Err(Errno::AGAIN | Errno::INTR))
}
