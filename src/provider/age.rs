//! How old the provider is, where a fault of old ones matters.

use core::ffi::CStr;
use std::io::Write;

use crate::boundary::uncancelled;
use crate::provider::handle;

/// Whether the device with this path in sysfs is Soft-RoCE: only rxe has a file of this name.
pub(crate) fn is_rxe(ibdev_path: &[u8]) -> bool {
    let mut path = [0_u8; 300];
    let mut rest = &mut path[..];
    let fits = rest.write_all(ibdev_path).is_ok() && rest.write_all(b"/parent\0").is_ok();
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
    // SAFETY: a C string (access(2)).
    fits && !ibdev_path.is_empty() && uncancelled(|| unsafe { libc::access(path.as_ptr(), libc::F_OK) }) == 0
}

/// Whether it is a libibverbs from before rdma-core 59: the function with which providers come in has a number in its
/// name, which was 34 for years and then that of the release.
pub(crate) fn is_before_59() -> bool {
    /// The first such number, and the first of those that are new enough.
    const NUMBERS: std::ops::Range<u32> = 13..59;
    uncancelled(|| {
        let Some(handle) = handle() else { return false };
        NUMBERS.into_iter().any(|number| {
            let name = format!("verbs_register_driver_{number}\0");
            // SAFETY: the handle is open and never closed; the name is a C string (dlsym(3)).
            unsafe { !libc::dlsym(handle, name.as_ptr().cast()).is_null() }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_that_file_is_not_rxe() {
        assert!(!is_rxe(b""));
        assert!(!is_rxe(b"/nowhere"));
        assert!(!is_rxe(&[b'/'; 299]));
        let dir = std::env::temp_dir().join(format!("ibv_sa_age_{}", std::process::id()));
        std::fs::create_dir_all(dir.join("parent")).unwrap();
        assert!(is_rxe(dir.to_str().unwrap().as_bytes()));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
