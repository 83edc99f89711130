//! `varint`: what decodes, encodes to the very same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::code::varint;

fuzz_target!(|data: &[u8]| {
    if let Some((value, taken)) = varint::get_u64(data) {
        let mut bytes = Vec::new();
        varint::put_u64(&mut bytes, value);
        assert_eq!(Some(&*bytes), data.get(..taken));
    }
});
