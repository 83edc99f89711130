//! `MultiLevelCuckooFilter`: decoded from arbitrary bytes, and made by arbitrary steps beside a map.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::filter::multi_level_cuckoo::{
    Candidates, Knowledge, MultiLevelCuckooFilter, Parameters, RunKey,
};

/// What decodes encodes to the same bytes, and goes on working.
fn decode(data: &[u8]) {
    let Ok(mut filter) = MultiLevelCuckooFilter::from_bytes(data) else { return };
    let mut encoded = Vec::new();
    filter.to_bytes(&mut encoded);
    assert_eq!(encoded, data);
    let questions: Vec<(u64, &[u8])> = data
        .chunks(8)
        .map(|key| (key.iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte)), key))
        .collect();
    let mut found = vec![Candidates::NONE; questions.len()];
    filter.lookup_many(&questions, &mut found);
    for ((hash, key), found) in questions.iter().zip(found) {
        assert_eq!(filter.lookup(*hash, key), found);
        if filter.insert(0, RunKey { hash: *hash, key, knowledge: Knowledge::Unknown }).is_ok() {
            assert!(filter.lookup(*hash, key).contains(0));
        }
    }
    let slots = 1u16 << filter.parameters().slot_bits;
    filter.remap(&(0..slots).map(|slot| (slot / 2) as u8).collect::<Vec<u8>>());
    let _ = filter.grown(questions.len() as u64);
}

/// Keys of one byte, and hashes of which `hashes` differ.
fn hash_of(key: u8, hashes: u8) -> u64 {
    u64::from(key % hashes.max(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Two bytes a step: what to do, and with which key.
fn play(parameters: Parameters, hashes: u8, steps: &[u8]) {
    let Ok(mut filter) = MultiLevelCuckooFilter::new(parameters, u64::from(hashes)) else { return };
    let mut newest = BTreeMap::new();
    let most = ((1u16 << parameters.slot_bits) - 1) as u8;
    let mut slot = 0;
    let (steps, _) = steps.as_chunks::<2>();
    for [step, key] in steps {
        match step % 8 {
            0 => slot = (slot + 1).min(most),
            1 => {
                let first = slot.saturating_sub(step / 8 % 4);
                filter.remap(&(0..=slot).map(|slot| slot.min(first)).collect::<Vec<u8>>());
                newest.values_mut().for_each(|slot: &mut u8| *slot = (*slot).min(first));
                slot = first;
            }
            2 => match filter.grown(u64::from(*key)) {
                Ok(grown) => filter = grown,
                Err(_) => return,
            },
            _ => {
                let knowledge = match newest.get(key) {
                    Some(old) if step & 128 == 0 => Knowledge::InSlot(*old),
                    _ => Knowledge::Unknown,
                };
                let run_key = RunKey { hash: hash_of(*key, hashes), key: &[*key], knowledge };
                if filter.insert(slot, run_key).is_err() {
                    return;
                }
                newest.insert(*key, slot);
            }
        }
    }
    for (key, slot) in newest {
        assert!(filter.lookup(hash_of(key, hashes), &[key]).contains(slot), "key {key} in slot {slot}");
    }
    let mut bytes = Vec::new();
    filter.to_bytes(&mut bytes);
    assert_eq!(MultiLevelCuckooFilter::from_bytes(&bytes).as_ref(), Ok(&filter));
}

fuzz_target!(|data: &[u8]| {
    decode(data);
    if let Some((&[widths, bits, permille, hashes], steps)) = data.split_first_chunk() {
        let parameters = Parameters {
            fingerprint_bits: 9 + bits % 12,
            slot_bits: widths % 7,
            growth_bits: widths / 7 % 8,
            floor_bits: 9,
            secondary_permille: u16::from(permille) * 2,
            load_permille: 500 + u16::from(bits),
        };
        play(parameters, hashes, steps);
    }
});
