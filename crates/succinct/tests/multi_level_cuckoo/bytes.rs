//! Encoding: there and back, golden, and damaged.

use proptest::collection::vec;
use proptest::prelude::*;
use siltstone_succinct::filter::multi_level_cuckoo::{Knowledge, MultiLevelCuckooFilter, Parameters, RunKey};

use crate::mix;

/// A filter with entries in all three parts.
fn filled(parameters: Parameters, keys: u64) -> MultiLevelCuckooFilter {
    let mut filter = MultiLevelCuckooFilter::new(parameters, keys).unwrap();
    for number in 0..keys {
        // Every tenth key shares its hash with 14 others; without a secondary all but eight of those are
        // stashed.
        let hash = if number % 10 == 0 { mix(number / 150) } else { mix(number) };
        let key = RunKey { hash, key: &number.to_be_bytes(), knowledge: Knowledge::Unknown };
        filter.insert((number % (1 << parameters.slot_bits)) as u8, key).unwrap();
    }
    filter
}

fn samples() -> [MultiLevelCuckooFilter; 4] {
    let paper = Parameters { growth_bits: 0, ..Parameters::default() };
    [
        filled(paper, 200),
        filled(Parameters { secondary_permille: 0, ..paper }, 200),
        filled(Parameters { slot_bits: 6, growth_bits: 6, ..paper }, 150),
        filled(Parameters { slot_bits: 1, fingerprint_bits: 9, floor_bits: 9, growth_bits: 2, ..paper }, 70),
    ]
}

#[test]
fn samples_fill_all_parts() {
    let [both, stash, ..] = samples();
    assert!(both.secondary_keys() > 0);
    assert!(stash.secondary_keys() == 0 && stash.stashed() > 0);
}

#[test]
fn damaged_bytes_are_refused_or_answer() {
    for filter in samples() {
        let mut bytes = Vec::new();
        filter.to_bytes(&mut bytes);
        assert_eq!(MultiLevelCuckooFilter::from_bytes(&bytes).as_ref(), Ok(&filter));
        for at in 0..bytes.len() {
            assert!(MultiLevelCuckooFilter::from_bytes(&bytes[..at]).is_err());
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                check(&bytes);
                bytes[at] ^= 1 << bit;
            }
        }
        bytes.push(0);
        assert!(MultiLevelCuckooFilter::from_bytes(&bytes).is_err());
    }
}

/// What decodes must encode to the same bytes, and work.
fn check(bytes: &[u8]) {
    if let Ok(mut filter) = MultiLevelCuckooFilter::from_bytes(bytes) {
        let mut again = Vec::new();
        filter.to_bytes(&mut again);
        assert_eq!(again, bytes);
        for number in 0..50u64 {
            filter.lookup(mix(number), &number.to_be_bytes());
        }
        let key = RunKey { hash: mix(7), key: b"new", knowledge: Knowledge::InSlot(1) };
        if filter.insert(1, key).is_ok() {
            assert!(filter.lookup(mix(7), b"new").contains(1));
        }
        let most = (1u8 << filter.parameters().slot_bits) - 1;
        filter.remap(&(0..=most).map(|slot| slot / 2).collect::<Vec<u8>>());
        let _ = filter.grown(100);
    }
}

#[test]
fn the_format_is_on_disks() {
    // Computed apart from this code. Such bytes are on users' disks: if this test fails, a new format is
    // needed.
    let parameters = Parameters { growth_bits: 1, ..Parameters::default() };
    let mut filter = MultiLevelCuckooFilter::new(parameters, 1).unwrap();
    for (slot, hash) in [(0, 0x0123_4567_89ab_cdefu64), (5, 1), (6, 1)] {
        filter.insert(slot, RunKey { hash, key: b"ab", knowledge: Knowledge::Unknown }).unwrap();
    }
    let mut bytes = Vec::new();
    filter.to_bytes(&mut bytes);
    let buckets_at = 28;
    let secondary_at = buckets_at + 16 * 17 / 2;
    assert_eq!(
        bytes[..buckets_at],
        *b"\x0e\x03\x01\x0c\x32\0\xb6\x03\x01\0\0\0\x10\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0"
    );
    let nonzero: Vec<(usize, u8)> = (buckets_at..)
        .zip(bytes[buckets_at..secondary_at].iter().copied())
        .filter(|(_, byte)| *byte != 0)
        .collect();
    let expected =
        [(45, 85), (46, 5), (50, 64), (51, 237), (96, 244), (97, 11), (101, 64), (102, 8), (104, 10)];
    assert_eq!(nonzero, expected);
    assert_eq!(bytes[secondary_at..], [6, 124, 160, 82, 113, 2, b'a', b'b']);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }

    #[test]
    fn arbitrary_bodies_never_panic(
        blocks in 1u32..3,
        per_block in 16u32..40,
        body in vec(any::<u8>(), 0..400),
        secondary in 0u64..60,
        stashed in 0u32..3,
        sparse in any::<u8>(),
    ) {
        let mut bytes = vec![10, 3, 1, 9];
        bytes.extend_from_slice(&50u16.to_le_bytes());
        bytes.extend_from_slice(&900u16.to_le_bytes());
        bytes.extend_from_slice(&blocks.to_le_bytes());
        bytes.extend_from_slice(&per_block.to_le_bytes());
        bytes.extend_from_slice(&secondary.to_le_bytes());
        bytes.extend_from_slice(&stashed.to_le_bytes());
        bytes.extend(body.iter().map(|byte| if byte % 16 < sparse % 16 { 0 } else { *byte }));
        check(&bytes);
        // Cut or filled to the length that the header asks for.
        let half_bytes = 10 + 1 + 3 - 1 - u32::from(per_block > 32);
        let length = (blocks * per_block * half_bytes).div_ceil(2) as usize + secondary as usize;
        bytes.resize(28 + length + stashed as usize * 13, 0);
        check(&bytes);
    }
}
