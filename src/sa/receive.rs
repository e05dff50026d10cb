//! What the daemon says.

use ibv_sa_wire::proto::{MAX_PACKET, ServerMessage};

use crate::abi::c_int;
use crate::sa::connection::{flush, is_spoken, later, lost, say, why_refused};
use crate::sa::id::Stage;
use crate::sa::process::Tables;
use crate::sa::table::NONE;
use crate::sa::{event, sys};

/// Reads until there is an event or nothing more to read. What is not asked for stays in the daemon's hands, which
/// bounds it and says how much was lost.
pub(crate) fn until_event(tables: &mut Tables, index: u32) -> Result<(), c_int> {
    let mut packet = [0; MAX_PACKET];
    loop {
        let channel = tables.channels.get(index);
        if channel.first_event != NONE || !channel.link.is_up() {
            return Ok(());
        }
        // Whatever is read must find a place.
        if !tables.events.reserve() {
            return Err(libc::ENOMEM);
        }
        match sys::receive(channel.link.fd, &mut packet) {
            Ok(0) | Err(libc::ECONNRESET | libc::EPIPE) => lost(tables, index, -libc::ENETRESET),
            Ok(length) => one(tables, index, packet.get(..length)),
            Err(libc::EAGAIN | libc::EINTR) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Reads all that a connection has left, which the daemon has ended or may have.
pub(crate) fn rest(tables: &mut Tables, index: u32) {
    let mut packet = [0; MAX_PACKET];
    while tables.channels.get(index).link.is_up() {
        match sys::receive(tables.channels.get(index).link.fd, &mut packet) {
            Ok(0) => lost(tables, index, -libc::ENETRESET),
            Ok(length) => one(tables, index, packet.get(..length)),
            Err(libc::EAGAIN) => return,
            Err(libc::EINTR) => {}
            Err(_) => lost(tables, index, -libc::ENETRESET),
        }
    }
}

fn one(tables: &mut Tables, index: u32, packet: Option<&[u8]>) {
    let welcome = tables.channels.get(index).link.welcome;
    let message = packet.map(ServerMessage::decode);
    match (message, welcome) {
        (Some(Ok(ServerMessage::Welcome(answer))), false) if is_spoken(answer.version) => {
            let channel = tables.channels.get_mut(index);
            channel.link.welcome = true;
            // Nobody is woken for nothing.
            channel.wake_in(0);
            flush(tables, index);
        }
        (Some(Ok(ServerMessage::Refused(refused))), false) => {
            lost(tables, index, why_refused(refused.status))
        }
        (Some(Ok(message)), true) => said(tables, index, &message),
        _ => {
            say("the daemon sent what is no message, or out of turn: the connection is closed");
            lost(tables, index, -libc::ENETRESET);
        }
    }
}

fn said(tables: &mut Tables, index: u32, message: &ServerMessage) {
    let number = match message {
        ServerMessage::Registered(answer) => answer.id,
        ServerMessage::StatusChange(change) => change.id,
        ServerMessage::Notice(notice) => notice.id,
        ServerMessage::Overflow(overflow) => overflow.id,
        // Unregistered: it is forgotten already. Nobody asks for the status here.
        _ => return,
    };
    // What was on its way when the program freed its registration.
    let Some(current) = known(tables, index, number) else { return };
    let id = tables.ids.get_mut(current);
    match message {
        ServerMessage::Registered(answer) if id.stage == Stage::Asked => {
            // The daemon is as it should be: the next attempt to find it is a first one.
            let channel = tables.channels.get_mut(index);
            channel.backoff = 0;
            id.stage = match answer.status {
                0 => Stage::Known,
                status if id.outlives(status) => {
                    later(channel);
                    Stage::Later
                }
                _ => Stage::Lost,
            };
            if answer.status != 0 {
                event::told(tables, current, answer.status);
            }
        }
        ServerMessage::StatusChange(change) if id.stage == Stage::Known => {
            // The daemon waits for an SA, but not for a device.
            let renew = change.status == -libc::ENODEV && id.outlives(change.status);
            if renew {
                id.stage = Stage::ToRenew;
            }
            event::told(tables, current, change.status);
            if renew {
                flush(tables, index);
            }
        }
        // Never before the program knows that the registration is active.
        ServerMessage::Notice(notice) if id.told == Some(0) => {
            event::noticed(tables, current, &notice.notice)
        }
        ServerMessage::Overflow(overflow) if id.told == Some(0) => {
            event::overflowed(tables, current, overflow.lost);
        }
        _ => {}
    }
}

/// The registration with that number, if it is one of this channel's and not being freed.
fn known(tables: &Tables, channel: u32, number: u64) -> Option<u32> {
    let index = (number & 0xFF_FFFF) as u32;
    if !tables.ids.is_used(index) {
        return None;
    }
    let id = tables.ids.get(index);
    (id.register.id == number && id.channel == channel && !id.leaving).then_some(index)
}
