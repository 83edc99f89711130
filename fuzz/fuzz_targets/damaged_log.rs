//! A log written record by record and then damaged in one byte.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone::fuzzing::damaged_log(data));
