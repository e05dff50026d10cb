//! Bytes as a MAD from the SA: read or refused, and what was read is what was there.

#![no_main]

use ibv_sa_samples::holds;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = holds::mad(bytes);
});
