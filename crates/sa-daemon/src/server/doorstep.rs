//! Connections that were refused, until the other side knows.
//!
//! A program sends its Hello without waiting for anything. If the connection were gone by then, or closed with the
//! Hello unread, the program would get EPIPE or ECONNRESET and not the refusal, which lies in its queue.

use std::collections::VecDeque;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, Shutdown};

use crate::engine::ClientId;

/// At once. They cost a descriptor each, and nobody may keep the daemon from having more for others.
const MOST: usize = 32;

/// Refused connections, the oldest in front.
#[derive(Default)]
pub struct Doorstep(VecDeque<(ClientId, OwnedFd)>);

impl Doorstep {
    /// The refusal is in the socket. The connection lives until its Hello has come, or others want the place.
    pub fn put(&mut self, id: ClientId, fd: OwnedFd, epoll: &OwnedFd, token: u64) {
        // Whoever says nothing first reads the end after the refusal.
        let said = rustix::net::shutdown(&fd, Shutdown::Write);
        let watched = epoll::add(epoll, &fd, EventData::new_u64(token), EventFlags::IN);
        if said.and(watched).is_ok() {
            self.0.push_back((id, fd));
        }
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    /// Something came, or the other side has closed.
    pub fn leave(&mut self, id: ClientId) {
        let Some(at) = self.0.iter().position(|(one, _)| *one == id) else { return };
        if let Some((_, fd)) = self.0.remove(at) {
            // Who goes on sending has had its refusal all the same.
            for _ in 0..MOST {
                match rustix::net::recv(&fd, &mut [0u8; 1], RecvFlags::DONTWAIT) {
                    Ok((_, 1..)) => {}
                    _ => return,
                }
            }
        }
    }
}
