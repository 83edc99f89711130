//! The bit vector against `Vec<bool>`, rank and select against counting.

use proptest::collection::vec;
use proptest::prelude::*;
use siltstone_succinct::bits::rank_select::RankSelect;
use siltstone_succinct::bits::vector::{BitVec, BitVecBuilder};

/// Runs of equal bits of very different lengths: sparse, dense, and both in one vector.
fn shapes() -> impl Strategy<Value = Vec<bool>> {
    let run = prop_oneof![
        (any::<bool>(), 0usize..6000).prop_map(|(bit, length)| vec![bit; length]),
        vec(any::<bool>(), 0..600),
        (any::<bool>(), 1usize..300, 1usize..40).prop_map(|(bit, period, turns)| {
            (0..period * turns).map(|index| (index % period == 0) == bit).collect()
        }),
    ];
    vec(run, 0..6).prop_map(|runs| runs.concat())
}

fn check_rank_select(bools: &[bool]) {
    let ranked = RankSelect::new(bools.iter().copied().collect());
    let (mut ones, mut zeros) = (0, 0);
    for (index, bit) in bools.iter().enumerate() {
        assert_eq!(ranked.rank1(index), ones);
        assert_eq!(ranked.rank0(index), zeros);
        if *bit {
            assert_eq!(ranked.select1(ones), Some(index));
            ones += 1;
        } else {
            assert_eq!(ranked.select0(zeros), Some(index));
            zeros += 1;
        }
    }
    assert_eq!((ranked.count_ones(), ranked.count_zeros()), (ones, zeros));
    for past in [bools.len(), bools.len() + 1, usize::MAX] {
        assert_eq!((ranked.rank1(past), ranked.rank0(past)), (ones, zeros));
    }
    for past in [0, 1, usize::MAX / 2] {
        assert_eq!(ranked.select1(ones + past), None);
        assert_eq!(ranked.select0(zeros + past), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_bit_vector_is_a_vec_of_bool(bools in shapes()) {
        let bits: BitVec = bools.iter().copied().collect();
        prop_assert_eq!(bits.len(), bools.len());
        prop_assert!(bits.iter().eq(bools.iter().copied()));
        prop_assert_eq!(bits.get(bools.len()), None);
        prop_assert_eq!(bits.get(usize::MAX), None);
    }

    #[test]
    fn fields_come_back(fields in vec((any::<u64>(), 0u32..=64), 0..200)) {
        let mut builder = BitVecBuilder::new();
        for (value, width) in &fields {
            builder.push_bits(*value, *width);
        }
        let bits = builder.finish();
        let mut start = 0;
        for (value, width) in &fields {
            let low = if *width == 0 { 0 } else { value & (u64::MAX >> (64 - width)) };
            prop_assert_eq!(bits.get_bits(start, *width), Some(low));
            start += *width as usize;
        }
        prop_assert_eq!(bits.len(), start);
        prop_assert_eq!(bits.get_bits(start, 1), None);
        prop_assert_eq!(bits.get_bits(usize::MAX, 2), None);
        prop_assert_eq!(bits.get_bits(0, 65), None);
    }

    #[test]
    fn fields_of_one_width_come_back(
        front in vec(any::<bool>(), 0..70), pieces in vec(vec(any::<u64>(), 0..40), 0..5), width in 0u32..=64,
    ) {
        let mut builders = [BitVecBuilder::new(), BitVecBuilder::with_capacity(100)];
        let [each, all] = &mut builders;
        each.extend(front.iter().copied());
        all.extend(front.iter().copied());
        for piece in &pieces {
            piece.iter().for_each(|value| each.push_bits(*value, width));
            all.push_fields(piece, width);
        }
        let [each, all] = builders.map(BitVecBuilder::finish);
        prop_assert_eq!(&all, &each);
        let count: usize = pieces.iter().map(Vec::len).sum();
        let fields = (0..count).map(|number| all.get_bits(front.len() + number * width as usize, width));
        prop_assert!(all.fields(front.len(), width).take(count).map(Some).eq(fields));
        prop_assert!(all.fields(all.len(), width).take(100).all(|field| field == 0));
        prop_assert_eq!(all.fields(usize::MAX, width).next(), Some(0));
    }

    #[test]
    fn rank_and_select_agree_with_counting(bools in shapes()) {
        check_rank_select(&bools);
    }

    #[test]
    fn encodings_round_trip_and_have_one_length(bools in shapes()) {
        let bits: BitVec = bools.iter().copied().collect();
        let mut bytes = Vec::new();
        bits.to_bytes(&mut bytes);
        prop_assert_eq!(BitVec::from_bytes(&bytes), Ok(bits.clone()));
        prop_assert_eq!(RankSelect::from_bytes(&bytes), Ok(RankSelect::new(bits)));
        bytes.push(0);
        prop_assert!(BitVec::from_bytes(&bytes).is_err());
        bytes.truncate(bytes.len().saturating_sub(2));
        prop_assert!(BitVec::from_bytes(&bytes).is_err());
    }

    #[test]
    fn damaged_bytes_never_panic(bools in vec(any::<bool>(), 0..300), at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut bytes = Vec::new();
        bools.iter().copied().collect::<BitVec>().to_bytes(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(ranked) = RankSelect::from_bytes(&bytes) {
            for index in 0..ranked.len() + 2 {
                ranked.rank1(index);
                ranked.select1(index);
                ranked.select0(index);
            }
        }
        prop_assert!(BitVec::from_bytes(&bytes[..at]).is_err());
    }
}

#[test]
fn the_sizes_around_every_boundary() {
    for boundary in [0usize, 1, 64, 256, 1024, 8192, 16384] {
        for length in boundary.saturating_sub(1)..=boundary + 1 {
            check_rank_select(&vec![true; length]);
            check_rank_select(&vec![false; length]);
        }
    }
}

#[test]
fn a_lone_bit_far_from_its_neighbours_is_found() {
    // One superblock full of ones, a desert, and a last one: the hints span the desert.
    let mut bools = vec![true; 9000];
    bools.resize(300_000, false);
    bools.push(true);
    check_rank_select(&bools);
    bools.iter_mut().for_each(|bit| *bit = !*bit);
    check_rank_select(&bools);
}

#[test]
fn nothing_is_in_an_empty_vector() {
    let ranked = RankSelect::new(BitVec::default());
    assert!(ranked.is_empty() && ranked.bits().is_empty());
    assert_eq!((ranked.rank1(0), ranked.rank0(7), ranked.select1(0), ranked.select0(0)), (0, 0, None, None));
    let mut bytes = Vec::new();
    ranked.to_bytes(&mut bytes);
    assert_eq!(bytes, [0; 8]);
    assert_eq!(RankSelect::from_bytes(&bytes), Ok(ranked));
}

#[test]
fn a_length_that_lies_is_an_error_and_no_allocation() {
    let error = BitVec::from_bytes(&[0xff; 16]).unwrap_err();
    assert_eq!(error.what(), "bit vector, words");
    assert_eq!(error.found(), "8 bytes");
    // A bit past the end.
    let mut bytes = Vec::from(3u64.to_le_bytes());
    bytes.extend_from_slice(&0b1111u64.to_le_bytes());
    let error = BitVec::from_bytes(&bytes).unwrap_err();
    assert_eq!(error.expected(), "only zeros past bit 3");
}

#[test]
#[should_panic(expected = "width is 65")]
fn a_field_wider_than_a_word_is_refused() {
    BitVecBuilder::new().push_bits(0, 65);
}
