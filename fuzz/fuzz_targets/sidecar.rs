//! A sidecar's header, and a record of one.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone::fuzzing::sidecar(data));
