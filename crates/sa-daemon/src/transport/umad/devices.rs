//! Which devices there are, read from sysfs at most once a second: any program may ask, and each look at a device is
//! dozens of files.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ibv_sa_wire::proto::PortSelector;

use super::ffi::{Device, Umad as Library};
use crate::engine::PortName;

/// How long what was read is true.
const FRESH: Duration = Duration::from_secs(1);

/// The devices, as they were a moment ago.
#[derive(Default)]
pub struct Devices {
    read: Option<Instant>,
    all: Vec<(String, Device)>,
    /// Link layers of the ports that somebody has asked for.
    layers: HashMap<PortName, Result<String, i32>>,
}

impl Devices {
    /// A port by what a program calls it. -ENODEV or -EOPNOTSUPP if there is none, or none with an SA.
    pub fn find(&mut self, library: &Library, selector: &PortSelector) -> Result<PortName, i32> {
        if self.read.is_none_or(|read| read.elapsed() >= FRESH) {
            self.read = Some(Instant::now());
            self.layers.clear();
            let names = library.devices().into_iter();
            self.all = names.filter_map(|name| Some((name.clone(), library.device(&name).ok()?))).collect();
        }
        let is_it = |name: &str, device: &Device| {
            (selector.name().is_empty() || selector.name() == name)
                && (selector.node_guid.is_zero() || selector.node_guid == device.node_guid)
                && selector.port <= device.ports
        };
        let (name, _) = self.all.iter().find(|(name, device)| is_it(name, device)).ok_or(-libc::ENODEV)?;
        let port = PortName { device: name.clone(), number: selector.port };
        let layer = self.layers.entry(port.clone()).or_insert_with(|| {
            let found = library.port(name, selector.port);
            found.map(|found| found.link_layer).map_err(|_| -libc::ENODEV)
        });
        match layer.as_deref() {
            Ok("Ethernet") => Err(-libc::EOPNOTSUPP),
            Ok(_) => Ok(port),
            Err(status) => Err(*status),
        }
    }
}
