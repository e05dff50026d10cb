//! Which devices there are, read from sysfs at most once a second: any program may ask, and each look at a device is
//! dozens of files.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ibv_sa_wire::Guid;
use ibv_sa_wire::proto::PortSelector;

use super::ffi::{Device, Port, Umad as Library};
use crate::engine::PortName;

/// How long what was read is true.
const FRESH: Duration = Duration::from_secs(1);

/// The devices, as they were a moment ago.
#[derive(Default)]
pub struct Devices {
    read: Option<Instant>,
    all: Vec<(String, Device)>,
    /// Ports that somebody has asked for: GUID, or why a program does not get it.
    ports: HashMap<(String, u8), Result<Guid, i32>>,
}

impl Devices {
    /// A port by what a program calls it. -ENODEV or -EOPNOTSUPP if there is none, or none with an SA.
    pub fn find(&mut self, library: &Library, selector: &PortSelector) -> Result<PortName, i32> {
        if self.read.is_none_or(|read| read.elapsed() >= FRESH) {
            self.read = Some(Instant::now());
            self.ports.clear();
            let names = library.devices().into_iter();
            self.all = names.filter_map(|name| Some((name.clone(), library.device(&name).ok()?))).collect();
        }
        let is_it = |name: &str, device: &Device| {
            (selector.name().is_empty() || selector.name() == name)
                && (selector.node_guid.is_zero() || selector.node_guid == device.node_guid)
                && selector.port <= device.ports
        };
        // A device that came back under another name is the program's all the same: it has opened it by the old one.
        let mut renamed = self.all.iter().filter(|(_, device)| {
            !selector.node_guid.is_zero()
                && selector.node_guid == device.node_guid
                && selector.port <= device.ports
        });
        let only = || renamed.next().filter(|_| renamed.next().is_none());
        let (name, _) =
            self.all.iter().find(|(name, device)| is_it(name, device)).or_else(only).ok_or(-libc::ENODEV)?;
        let port = self.ports.entry((name.clone(), selector.port)).or_insert_with(|| {
            match library.port(name, selector.port) {
                Ok(port) if port.link_layer == "Ethernet" => Err(-libc::EOPNOTSUPP),
                Ok(port) => Ok(port.port_guid),
                Err(_) => Err(-libc::ENODEV),
            }
        });
        port.map(|guid| PortName { device: name.clone(), number: selector.port, guid })
    }
}

/// Where a port is now: a device that comes back may have got another name, and its name another device. Returns the
/// device's name; an error is for the log.
pub fn locate(library: &Library, name: &PortName) -> Result<(String, Port), (i32, String)> {
    let is_it = |port: &Port| name.guid.is_zero() || port.port_guid == name.guid;
    let here = library.port(&name.device, name.number);
    if let Ok(port) = &here
        && is_it(port)
    {
        return Ok((name.device.clone(), port.clone()));
    }
    let elsewhere = library.devices().into_iter().filter(|device| *device != name.device);
    let mut ports =
        elsewhere.filter_map(|device| Some((device.clone(), library.port(&device, name.number).ok()?)));
    match (ports.find(|(_, port)| !name.guid.is_zero() && is_it(port)), here) {
        (Some(found), _) => Ok(found),
        (None, Ok(other)) => Err((
            -libc::ENODEV,
            format!(
                "the port with GUID {} is gone; the device of that name is another one now, with GUID {}",
                name.guid, other.port_guid
            ),
        )),
        (None, Err(error)) => Err((-error.raw_os_error().unwrap_or(libc::EIO), format!("sysfs: {error}"))),
    }
}
