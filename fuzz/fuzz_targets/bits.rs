//! `BitVec` and `RankSelect` against counting bit by bit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::bits::rank_select::RankSelect;
use siltstone_succinct::bits::vector::BitVec;

fuzz_target!(|data: &[u8]| {
    let Ok(bits) = BitVec::from_bytes(data) else {
        assert!(RankSelect::from_bytes(data).is_err());
        return;
    };
    let mut bytes = Vec::new();
    bits.to_bytes(&mut bytes);
    assert_eq!(bytes, data);

    let ranked = RankSelect::from_bytes(data).expect("a bit vector of this size can be counted");
    assert_eq!(ranked.bits(), &bits);
    let (mut ones, mut zeros) = (0, 0);
    for (index, bit) in bits.iter().enumerate() {
        assert_eq!(ranked.rank1(index), ones);
        assert_eq!(ranked.rank0(index), zeros);
        if bit {
            assert_eq!(ranked.select1(ones), Some(index));
            ones += 1;
        } else {
            assert_eq!(ranked.select0(zeros), Some(index));
            zeros += 1;
        }
    }
    assert_eq!(ones + zeros, bits.len());
    assert_eq!(ranked.rank1(usize::MAX), ones);
    assert_eq!(ranked.select1(ones), None);
    assert_eq!(ranked.select0(zeros), None);
    for width in [0, 1, 7, 63, 64, 65, u32::MAX] {
        let start = bits.len().saturating_sub(width as usize / 2);
        let expected = (width <= 64 && start + width as usize <= bits.len())
            .then(|| (0..width as usize).map(|i| u64::from(bits.get(start + i) == Some(true)) << i).sum());
        assert_eq!(bits.get_bits(start, width), expected);
    }
});
