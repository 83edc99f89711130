//! `LevelDbIndex`, in all forms: decoded from arbitrary bytes, and built from lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::index::leveldb::{Form, LevelDbBuilder, LevelDbIndex};

fuzz_target!(|data: &[u8]| {
    let mut keys: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    if let Ok(index) = LevelDbIndex::from_bytes(data) {
        let mut bytes = Vec::new();
        index.to_bytes(&mut bytes);
        assert_eq!(bytes, data);
        assert!(keys.iter().all(|key| index.find(key) < index.pages().max(1)));
        let has_locations = index.form() != Form::FixedBlock;
        assert!((0..index.pages()).all(|page| index.location(page).is_some() == has_locations));
    }

    keys.sort_unstable();
    keys.dedup();
    for form in Form::ALL {
        let mut builder = LevelDbBuilder::new(form);
        for (number, page) in keys.chunks(2).enumerate() {
            builder.add_page(page[0], page[page.len() - 1], number as u64 * 4096, 4096);
        }
        let index = builder.finish();
        for (number, page) in keys.chunks(2).enumerate() {
            assert!(page.iter().all(|key| index.find(key) as usize == number));
        }
        let mut bytes = Vec::new();
        index.to_bytes(&mut bytes);
        assert_eq!(LevelDbIndex::from_bytes(&bytes), Ok(index));
    }
});
