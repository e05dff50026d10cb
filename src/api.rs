//! The library's own functions.

use crate::abi::c_char;

/// The version of the library, for example "0.1.0".
///
/// Returns a string that belongs to the library and lives as long as the process. Never fails.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn ibv_sa_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
