//! Slots of hash stores and sorted stores, and what leads to them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone::fuzzing::slots(data));
