//! How a port is, from sysfs, and whoever has to know.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::{Event, PortId, PortState};
use crate::transport::Sink;

/// A port's state as it was seen last. Several threads look: what they report comes in the order in which they looked.
pub struct Looked {
    directory: PathBuf,
    /// The kernel has the port, and not somebody who plays one.
    is_kernels: bool,
    sink: Sink,
    port: PortId,
    state: Mutex<PortState>,
}

impl Looked {
    /// A port of which libibumad said `state`, looked at once more.
    pub fn new(device: &str, number: u8, sink: Sink, port: PortId, state: PortState) -> Self {
        let named = PathBuf::from(format!("/sys/class/infiniband/{device}/ports/{number}"));
        // Where the device itself is: its name may be another's later.
        let directory = named.canonicalize().unwrap_or(named);
        let is_kernels = directory.is_dir();
        let looked = Looked { directory, is_kernels, sink, port, state: Mutex::new(state) };
        if let Some(now) = looked.read(state) {
            *looked.lock() = now;
        }
        looked
    }

    /// What was seen last.
    pub fn state(&self) -> PortState {
        *self.lock()
    }

    /// Whether the kernel has the port, and not somebody who plays one.
    pub fn is_kernels(&self) -> bool {
        self.is_kernels
    }

    /// Whether there is nothing to look at any more: the device is gone or has another name, of which descriptors that
    /// are open tell nothing.
    pub fn is_gone(&self) -> bool {
        self.is_kernels && !self.directory.is_dir()
    }

    /// Looks, and reports what is new.
    pub fn again(&self) {
        let mut state = self.lock();
        if let Some(new) = self.read(*state).filter(|new| new != &*state) {
            *state = new;
            self.sink.report(Event::PortState { port: self.port, state: new });
        }
    }

    /// Looks where the SM is: what is sent to an SM that has moved is lost. True, and reported, if it is no longer there.
    pub fn has_left(&self, sm_lid: u16, sm_sl: u8) -> bool {
        let place = (self.number("sm_lid"), self.number("sm_sl"));
        if !matches!(place, (Some(lid), Some(sl)) if (lid, sl) != (sm_lid, u16::from(sm_sl))) {
            return false;
        }
        self.again();
        true
    }

    /// The port's program is asked by its SM to subscribe again.
    pub fn subscribe_again(&self) {
        self.again();
        self.sink.report(Event::PortReregister { port: self.port });
    }

    fn lock(&self) -> MutexGuard<'_, PortState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Directly: libibumad would read all P_Keys each time.
    fn read(&self, before: PortState) -> Option<PortState> {
        Some(PortState {
            active: self.text("state")?.starts_with("4:"),
            lid: self.number("lid")?,
            sm_lid: self.number("sm_lid")?,
            sm_sl: self.number("sm_sl")? as u8,
            gid: self.text("gids/0").and_then(|text| text.trim().parse().ok()).unwrap_or(before.gid),
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.join(name)).ok()
    }

    fn number(&self, name: &str) -> Option<u16> {
        let text = self.text(name)?;
        let text = text.trim();
        match text.strip_prefix("0x") {
            Some(hex) => u16::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ibv_sa_wire::Gid;

    use super::*;
    use crate::transport::channel;

    #[test]
    fn what_changes_is_reported_once_and_a_new_name_is_an_end() {
        let root = tempfile::tempdir().expect("a directory");
        let directory = root.path().join("old");
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("room");
            std::fs::write(path, format!("{text}\n")).expect("room");
        };
        for (name, text) in [("state", "4: ACTIVE"), ("lid", "0x7"), ("sm_lid", "0x1"), ("sm_sl", "3")] {
            write(name, text);
        }
        write("gids/0", "fe80:0000:0000:0000:0000:0000:0010:0007");
        let (sink, source) = channel().expect("an eventfd");
        let mut gid = [0; 16];
        (gid[0], gid[1], gid[13], gid[15]) = (0xFE, 0x80, 0x10, 7);
        let state = PortState { active: true, lid: 7, sm_lid: 1, sm_sl: 3, gid: Gid(gid) };
        let (port, is_kernels) = (PortId(5), true);
        let looked =
            Looked { directory: directory.clone(), is_kernels, sink, port, state: Mutex::new(state) };

        looked.again();
        assert_eq!(source.take(), None, "nothing is new");
        assert!(!looked.has_left(1, 3) && !looked.is_gone());
        write("sm_lid", "0x2");
        assert!(looked.has_left(1, 3));
        let state = PortState { sm_lid: 2, ..state };
        assert_eq!(source.take(), Some(Event::PortState { port, state }));
        assert!(!looked.has_left(2, 3) && looked.has_left(2, 0));
        write("state", "1: DOWN");
        looked.subscribe_again();
        let state = PortState { active: false, ..state };
        assert_eq!(source.take(), Some(Event::PortState { port, state }));
        assert_eq!(source.take(), Some(Event::PortReregister { port }));

        std::fs::rename(&directory, root.path().join("new")).expect("ours");
        looked.again();
        assert_eq!(source.take(), None, "what cannot be read says nothing");
        assert!(looked.is_gone());
    }
}
