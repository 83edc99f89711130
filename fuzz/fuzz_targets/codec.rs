//! What a compressed table is decoded with, and what is decoded with it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone::fuzzing::codec(data));
