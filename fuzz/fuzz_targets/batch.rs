//! A batch of operations as the write-ahead log holds it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone::fuzzing::batch(data));
