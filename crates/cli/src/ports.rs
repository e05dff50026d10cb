//! The InfiniBand ports of this host, as sysfs lists them.

use std::fs;
use std::path::Path;

/// Devices with their ports.
const DEVICES: &str = "/sys/class/infiniband";

/// Device and port, in order. Those of other link layers have no SA and are left out.
pub(crate) fn infiniband(device: Option<&str>) -> Vec<(String, u8)> {
    below(Path::new(DEVICES), device)
}

fn below(devices: &Path, device: Option<&str>) -> Vec<(String, u8)> {
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let mut found = Vec::new();
    for name in names(devices).into_iter().filter(|name| device.is_none_or(|wanted| wanted == name)) {
        let ports = devices.join(&name).join("ports");
        for port in names(&ports) {
            let link = fs::read_to_string(ports.join(&port).join("link_layer")).unwrap_or_default();
            if let (Ok(number), "InfiniBand") = (port.parse(), link.trim()) {
                found.push((name.clone(), number));
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_infiniband_ports_count() {
        let devices = tempfile::tempdir().expect("a directory");
        for (port, link) in
            [("b/ports/2", "InfiniBand\n"), ("b/ports/1", "InfiniBand\n"), ("a/ports/1", "Ethernet\n")]
        {
            let port = devices.path().join(port);
            fs::create_dir_all(&port).expect("made");
            fs::write(port.join("link_layer"), link).expect("written");
        }
        assert_eq!(below(devices.path(), None), [("b".into(), 1), ("b".into(), 2)]);
        assert_eq!(below(devices.path(), Some("a")), []);
        assert_eq!(below(Path::new("/nonexistent"), None), []);
    }
}
