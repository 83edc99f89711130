//! The text of CURRENT.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone::fuzzing::current(data));
