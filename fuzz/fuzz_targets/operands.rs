//! Operands of merges, folded in any grouping beside the operator applied to one after the other.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone::fuzzing::operands(data));
