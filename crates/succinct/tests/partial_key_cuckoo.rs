//! Partial-key cuckoo tables against a map, and the figures of SILT §3.1: occupancy, false positives, nothing
//! lost.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use siltstone_succinct::index::partial_key_cuckoo::{
    Candidates, Form, Full, HashFilter, LANES, MOST_BUCKETS_BY_TAG, PartialKeyCuckoo,
};

const FORMS: [Form; 2] = [Form::OtherBucket, Form::Mixed];

/// Well-mixed: the SplitMix64 finalizer.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn encoded(filter: &HashFilter) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.to_bytes(&mut bytes);
    bytes
}

/// Inserts keys until the first one finds no room; returns how many did.
fn fill(table: &mut PartialKeyCuckoo, seed: u64) -> u32 {
    (0..).find(|number| table.insert(mixed(u64::from(*number) ^ seed << 40), *number).is_err()).unwrap()
}

/// Holds a table, and the filter with its tags, to a map of everything that went in.
fn check(table: &PartialKeyCuckoo, twin: &BTreeMap<u64, Vec<u32>>, buckets: u32, form: Form) {
    assert_eq!(table.len(), twin.values().map(Vec::len).sum::<usize>());
    let lanes: Vec<Option<u32>> = table.lanes().collect();
    assert_eq!(lanes.len(), table.capacity());
    assert_eq!(lanes.iter().flatten().count(), table.len());
    let filter = table.filter();
    assert_eq!((filter.len(), filter.buckets()), (table.len(), buckets));
    let again = HashFilter::from_bytes(&encoded(&filter)).unwrap();
    assert_eq!(again, filter);
    let hashes: Vec<u64> =
        twin.iter().filter(|(_, numbers)| !numbers.is_empty()).map(|(hash, _)| *hash).collect();
    let (mut many, mut found) = (vec![Candidates::default(); hashes.len()], vec![false; hashes.len()]);
    table.candidates_many(&hashes, &mut many);
    filter.may_contain_many(&hashes, &mut found);
    for ((hash, numbers), (many, found)) in
        hashes.iter().map(|hash| (hash, &twin[hash])).zip(many.iter().zip(found))
    {
        let candidates = table.candidates(*hash);
        assert_eq!(&candidates, many);
        assert!(found && filter.may_contain(*hash));
        let by_lane: Vec<u32> =
            filter.candidates(*hash).iter().map(|lane| lanes[*lane as usize].unwrap()).collect();
        assert_eq!(by_lane, candidates.to_vec());
        let may_be_in = PartialKeyCuckoo::buckets_of(form, buckets, *hash);
        for lane in filter.candidates(*hash).iter() {
            assert!(may_be_in.contains(&(lane / LANES as u32)));
        }
        for number in numbers {
            assert!(candidates.contains(number), "{form:?}: {number} of {hash:x} is lost");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_table_is_a_map_that_may_say_more(
        buckets in 1u32..40, by_tag in any::<bool>(), kinds in 1u64..200, count in 0u32..200, seed in any::<u64>(),
    ) {
        let form = FORMS[usize::from(by_tag)];
        let (mut table, mut twin) = (PartialKeyCuckoo::new(form, buckets), BTreeMap::<u64, Vec<u32>>::new());
        for number in 0..count {
            // Keys come again, and small tables overflow: failures have to leave everything as it was.
            let hash = mixed(mixed(u64::from(number) ^ seed) % kinds);
            let known = twin.get(&hash).and_then(|numbers| numbers.first().copied());
            if let Some(old) = known.filter(|_| number % 3 == 0) {
                prop_assert!(table.replace(hash, old, number));
                *twin.get_mut(&hash).unwrap().first_mut().unwrap() = number;
                continue;
            }
            if let Some(old) = known.filter(|_| number % 5 == 0) {
                prop_assert!(table.remove(hash, old));
                twin.get_mut(&hash).unwrap().remove(0);
                continue;
            }
            let before = table.clone();
            match table.insert(hash, number) {
                Ok(()) => twin.entry(hash).or_default().push(number),
                Err(Full) => prop_assert_eq!(&table, &before),
            }
        }
        prop_assert!(!table.replace(mixed(kinds + 1), u32::MAX, 0));
        prop_assert!(!table.remove(mixed(kinds + 1), u32::MAX));
        check(&table, &twin, buckets, form);
    }

    #[test]
    fn damaged_bytes_are_refused_or_answer(
        buckets in 1u32..20, by_tag in any::<bool>(), cut in any::<prop::sample::Index>(), change in any::<u8>(),
        at in any::<prop::sample::Index>(),
    ) {
        let mut table = PartialKeyCuckoo::new(FORMS[usize::from(by_tag)], buckets);
        fill(&mut table, 5);
        let bytes = encoded(&table.filter());
        let cut = &bytes[..cut.index(bytes.len())];
        prop_assert!(cut.len() % 8 == 1 && cut.len() > 1 || HashFilter::from_bytes(cut).is_err());
        let mut bytes = bytes.clone();
        let at = at.index(bytes.len());
        bytes[at] = bytes[at].wrapping_add(change);
        if let Ok(filter) = HashFilter::from_bytes(&bytes) {
            prop_assert_eq!(encoded(&filter), bytes);
            for number in 0..100 {
                let lanes = filter.candidates(mixed(number));
                prop_assert!(lanes.iter().all(|lane| *lane < buckets * LANES as u32));
                prop_assert_eq!(filter.may_contain(mixed(number)), !lanes.is_empty());
            }
        }
    }
}

#[test]
fn tables_fill_to_more_than_95_percent_before_the_first_key_finds_no_room() {
    // The paper's table, and others; small ones vary more.
    for (form, buckets, least) in [
        (Form::OtherBucket, MOST_BUCKETS_BY_TAG, 0.965),
        (Form::Mixed, MOST_BUCKETS_BY_TAG, 0.965),
        (Form::Mixed, 100_003, 0.965),
        (Form::Mixed, 1000, 0.96),
        (Form::Mixed, 100, 0.95),
    ] {
        let mut loads: Vec<f64> = (0..9)
            .map(|seed| {
                let mut table = PartialKeyCuckoo::new(form, buckets);
                f64::from(fill(&mut table, seed)) / table.capacity() as f64
            })
            .collect();
        loads.sort_by(f64::total_cmp);
        println!("{form:?}, {buckets} buckets: {:.4} to {:.4}, median {:.4}", loads[0], loads[8], loads[4]);
        assert!(loads[4] >= least, "{form:?}, {buckets} buckets: {loads:?}");
    }
}

#[test]
fn strangers_pass_at_the_rate_of_the_formula() {
    for (form, buckets) in
        FORMS.into_iter().map(|form| (form, MOST_BUCKETS_BY_TAG)).chain([(Form::Mixed, 2000)])
    {
        let mut table = PartialKeyCuckoo::new(form, buckets);
        let count = fill(&mut table, 1);
        let filter = table.filter();
        let passed: usize = (0..4_000_000).map(|n| filter.candidates(mixed(n | 1 << 62)).len()).sum();
        let rate = passed as f64 / 4e6;
        let expected = 8.0 / 32768.0 * f64::from(count) / table.capacity() as f64;
        assert!((0.85..1.15).contains(&(rate / expected)), "{form:?}, {buckets}: {rate} for {expected}");
        assert!(rate <= 0.0003, "{rate}");
    }
}

#[test]
fn a_lane_takes_six_bytes_in_the_index_and_two_in_the_filter() {
    let table = PartialKeyCuckoo::new(Form::Mixed, 10_000);
    assert!(table.memory_bytes() <= 6 * table.capacity() + 100);
    assert!(table.filter().memory_bytes() <= 2 * table.capacity() + 100);
}

#[test]
fn equal_keys_fill_their_buckets_and_no_more() {
    let mut table = PartialKeyCuckoo::new(Form::Mixed, 64);
    let count = (0..).find(|number| table.insert(mixed(9), *number).is_err()).unwrap();
    assert!(count == 8 || count == 4, "{count}");
    assert_eq!(table.candidates(mixed(9)).len(), count as usize);
}

#[test]
#[should_panic(expected = "tags that name buckets")]
fn tags_that_name_buckets_have_to_suffice() {
    PartialKeyCuckoo::new(Form::OtherBucket, MOST_BUCKETS_BY_TAG + 1);
}
