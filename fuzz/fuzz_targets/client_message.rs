//! Bytes as a packet from a program: refused, or the one packet that says so.

#![no_main]

use ibv_sa_samples::holds;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = holds::client_message(bytes);
});
