//! The entry of the command `ibv-sa`; all else is in the library beside it.
//!
//! It is C's `main`, because Rust's start-up would change what the started program inherits: it ignores SIGPIPE and
//! opens `/dev/null` where a standard descriptor is closed. A service under systemd(1) is started with SIGPIPE ignored,
//! a terminal's programs are not, and what it was cannot be told afterwards.

#![no_main]
#![deny(unsafe_code)]

use std::ffi::{c_char, c_int};

#[allow(
    unsafe_code,
    reason = "the name alone; there is no other main in the program, and its signature is C's"
)]
#[unsafe(no_mangle)]
extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    ibv_sa_cli::main()
}
