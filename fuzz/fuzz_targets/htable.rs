//! A directory of an HTable's segments, and the notes of a bucket page.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone::fuzzing::htable(data));
