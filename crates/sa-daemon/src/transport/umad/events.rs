//! What the kernel tells of a device, in a thread of its own: the port has another state, its SM asks for new
//! subscriptions.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::look::Looked;
use super::verbs::{Context, DeviceEvent};

/// Listens until `end` is readable. An error if there will be no more events; the device is closed then.
pub fn listen(mut context: Context, port: u8, looked: &Looked, end: &OwnedFd) -> Result<(), String> {
    loop {
        let mut ready =
            [PollFd::from_borrowed_fd(context.fd(), PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(format!("poll: {error}")),
        }
        let ends = !ready[1].revents().is_empty();
        // Such a descriptor stays ready, and perhaps has nothing to read for ever.
        let is_broken = ready[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        if ends {
            return Ok(());
        }
        while let Some(event) = context.event().map_err(|error| format!("libibverbs: {error}"))? {
            match event {
                DeviceEvent::Port(number) if number == port => looked.again(),
                DeviceEvent::Subscribe(number) if number == port => looked.subscribe_again(),
                // Whoever keeps it open keeps its driver from going.
                DeviceEvent::Fatal => return Err("DEVICE_FATAL".into()),
                DeviceEvent::Port(_) | DeviceEvent::Subscribe(_) | DeviceEvent::Other => {}
            }
        }
        if is_broken {
            return Err("the device has gone".into());
        }
    }
}
