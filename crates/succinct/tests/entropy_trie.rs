//! The entropy-coded trie against a sorted array.

use proptest::prelude::*;
use siltstone_succinct::index::entropy_trie::{Code, EntropyTrie, Place, Spec, TrieBuilder};

const CODES: [Code; 3] = [Code::Paper, Code::Strong, Code::Weak];

/// Well-mixed: the SplitMix64 finalizer.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn sorted(mut keys: Vec<u64>) -> Vec<u64> {
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn uniform(count: u64, seed: u64) -> Vec<u64> {
    sorted((0..count).map(|number| mixed(number ^ seed << 40)).collect())
}

fn encoded(trie: &EntropyTrie) -> Vec<u8> {
    let mut bytes = Vec::new();
    trie.to_bytes(&mut bytes);
    bytes
}

/// Holds a trie to everything that is promised of it, for its keys and some others.
fn check(spec: Spec, keys: &[u64], others: &[u64]) {
    let trie = EntropyTrie::build(spec, keys);
    let bytes = encoded(&trie);
    let again = EntropyTrie::from_bytes(&bytes).expect("what was written is read");
    assert_eq!(again, trie);
    assert_eq!(encoded(&again), bytes);
    assert_eq!(trie.len(), keys.len());
    let block_keys = spec.block_keys as usize;
    assert_eq!(trie.blocks(), keys.len().div_ceil(block_keys));
    let near = keys.iter().flat_map(|key| [key.saturating_sub(1), key.saturating_add(1)]);
    let probes: Vec<u64> = keys.iter().copied().chain(near).chain(others.iter().copied()).collect();
    let mut ranks = Vec::new();
    trie.rank_batch(&probes, &mut ranks);
    assert_eq!(ranks.len(), probes.len());
    for (key, rank) in probes.iter().zip(&ranks) {
        assert_eq!(trie.rank(*key), *rank);
        let place = trie.place(*key);
        match keys.binary_search(key) {
            Ok(expected) => {
                let Place::Near { rank: first, keys: count } = place else {
                    panic!("{spec:?}: key {key} of rank {expected} is at {place:?}")
                };
                assert!((first..first + count).contains(&expected), "{spec:?}: {key} {expected} {place:?}");
                assert_eq!(first / block_keys, (first + count - 1) / block_keys);
                assert_eq!(trie.block(*key), expected / block_keys);
                if block_keys == 1 {
                    assert_eq!(*rank, expected);
                }
            }
            Err(insertion) => match place {
                Place::Gap { rank } => assert_eq!(rank, insertion, "{spec:?}: absent key {key}"),
                Place::Near { rank, keys: count } => {
                    assert!(count >= 1 && rank + count <= keys.len());
                    let told = spec.code == Code::Weak || (rank..=rank + count).contains(&insertion);
                    assert!(told, "{spec:?}: absent key {key}, to insert at {insertion}, is at {place:?}");
                }
            },
        }
        assert!(spec.code != Code::Weak || keys.is_empty() || *rank < keys.len());
    }
}

/// Checks every code, with the other choices turning with `turn`.
fn check_some(turn: usize, keys: &[u64], others: &[u64]) {
    for (number, code) in CODES.into_iter().enumerate() {
        let turn = turn + number;
        let block_keys = [1, 4, 1, 16, 1, 3, 40].into_iter().cycle().nth(turn).unwrap_or(1);
        let bucket_keys = [16, 256, 100].into_iter().cycle().nth(turn).unwrap_or(16);
        check(Spec { code, block_keys, bucket_keys }, keys, others);
    }
}

/// Clusters around arbitrary points: `count` keys each, `1 << step` apart.
fn clusters() -> impl Strategy<Value = Vec<u64>> {
    let cluster = (any::<u64>(), 1u64..200, 0u32..40)
        .prop_map(|(start, count, step)| (0..count).map(move |i| start.saturating_add(i << step)));
    proptest::collection::vec(cluster, 1..12).prop_map(|all| sorted(all.into_iter().flatten().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn uniform_keys_have_exact_ranks(
        count in 0u64..1500, seed in any::<u64>(), turn in 0usize..21, others in any::<[u64; 16]>(),
    ) {
        check_some(turn, &uniform(count, seed), &others);
    }

    #[test]
    fn clusters_have_exact_ranks(keys in clusters(), turn in 0usize..21, others in any::<[u64; 16]>()) {
        check_some(turn, &keys, &others);
    }

    #[test]
    fn streams_may_guess_wrong(count in 1u64..1000, guess in 0usize..100_000, margin in any::<u64>()) {
        let keys = sorted((0..count).map(|number| mixed(number) >> 8 | 1 << 60).collect());
        let (low, high) = (keys[0], keys[keys.len() - 1]);
        let range = low - margin % low..=high + margin % (u64::MAX - high);
        let mut builder = TrieBuilder::new(Spec::dense(Code::Strong), guess, range);
        keys.iter().for_each(|key| builder.push(*key));
        prop_assert_eq!(builder.len(), keys.len());
        let trie = builder.finish();
        prop_assert!(keys.iter().enumerate().all(|(rank, key)| trie.rank(*key) == rank));
    }

    #[test]
    fn damaged_bytes_are_refused_or_answer(
        count in 0u64..400, turn in 0usize..21, skewed in any::<bool>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let spread = |i: u64| if skewed { i * i * i } else { mixed(i) };
        let keys = sorted((0..count).map(spread).chain([u64::MAX]).collect());
        let block_keys = [1, 4, 1, 16][turn % 4];
        let trie = EntropyTrie::build(Spec { code: CODES[turn % 3], block_keys, bucket_keys: 16 }, &keys);
        let mut bytes = encoded(&trie);
        for (index, change) in damage {
            let index = index.index(bytes.len());
            bytes[index] = bytes[index].wrapping_add(change);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let Ok(trie) = EntropyTrie::from_bytes(&bytes) else { return Ok(()) };
        prop_assert_eq!(encoded(&trie), bytes);
        for key in keys.iter().chain(&[0, 1 << 63]) {
            prop_assert!(trie.rank(*key) <= trie.len());
            prop_assert!(trie.is_empty() || trie.block(*key) < trie.blocks());
            match trie.place(*key) {
                Place::Near { rank, keys } => prop_assert!(keys > 0 && rank + keys <= trie.len()),
                Place::Gap { rank } => prop_assert!(rank <= trie.len()),
            }
        }
    }
}

#[test]
fn sizes_around_powers_of_two() {
    for count in (0..20).chain([31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025]) {
        let turn = count as usize;
        check_some(turn, &uniform(count, 7), &[0, 1, u64::MAX]);
        check_some(turn + 1, &(0..count).collect::<Vec<_>>(), &[count + 1, u64::MAX]);
        let keys: Vec<u64> = (0..count).map(|i| u64::MAX - (count - 1 - i) * 3).collect();
        check_some(turn + 2, &keys, &[0]);
    }
}

#[test]
fn skewed_keys_have_exact_ranks_at_a_bounded_price() {
    // Sixty leading bits in common, and one key far away that puts them all into one bucket.
    let alike: Vec<u64> = (0..16).map(|i| 0x1234_5678_9abc_def0 + i).chain([u64::MAX]).collect();
    // All but one in the first bucket.
    let crowded: Vec<u64> = (0..5000).map(|i| i * i).chain([u64::MAX - 1]).collect();
    // Pairs that differ in the last bit only.
    let pairs = sorted((0..1000).flat_map(|i| [mixed(i) & !1, mixed(i) | 1]).collect());
    // Sixteen in a row at each of many points: the worst for codes that expect an even split.
    let rows = sorted((0..100).flat_map(|i| (0..16).map(move |j| mixed(i) & !15 | j)).collect());
    let powers = sorted((0..64).flat_map(|i| [1u64 << i, (1 << i) - 1, (1u64 << i) + 1]).collect());
    let exponential = sorted((0..3000u64).map(|i| mixed(i) >> (mixed(!i) % 60)).collect());
    for (turn, keys) in [alike, crowded, pairs, rows, powers, exponential].into_iter().enumerate() {
        for turn in [turn, turn + 1, turn + 2] {
            check_some(turn, &keys, &[0, 5, 1 << 63, u64::MAX]);
        }
        for code in CODES {
            let bytes = encoded(&EntropyTrie::build(Spec::dense(code), &keys));
            let limit = 70 * keys.len() / 8 + 100;
            assert!(bytes.len() <= limit, "{code:?}: {} bytes for {} keys", bytes.len(), keys.len());
        }
    }
}

#[test]
fn uniform_keys_take_little_more_than_their_entropy() {
    let keys = uniform(200_000, 3);
    let per_key = |spec: Spec| {
        let trie = EntropyTrie::build(spec, &keys);
        let count = keys.len() as f64;
        (trie.code_bits() as f64 / count, trie.bits() as f64 / count)
    };
    // The entropy of the trie of 256 uniform keys is 2.75 bits per key if nodes tell sides, 2.31 if not; the
    // code of a bucket has 0.06 bits per key of lengths of left sides in it.
    let floors = [(Code::Paper, 2.75, 0.25), (Code::Strong, 2.75, 0.16), (Code::Weak, 2.31, 0.14)];
    for (code, floor, above) in floors {
        let (bits, total) = per_key(Spec::dense(code));
        assert!(bits > floor && bits < floor + above, "{code:?}: {bits} bits of code per key");
        assert!(total < bits + 0.09, "{code:?}: {total} bits per key");
    }
    assert!(per_key(Spec::dense(Code::Weak)).1 <= 2.55);
    for (block_keys, limit) in [(4, 1.70), (16, 0.90), (64, 0.45)] {
        let (_, total) = per_key(Spec::sparse(Code::Weak, block_keys));
        assert!(total <= limit, "{total} bits per key at {block_keys} keys per block");
    }
}

#[test]
#[should_panic(expected = "not above the one before")]
fn keys_must_ascend() {
    EntropyTrie::build(Spec::dense(Code::Weak), &[1, 2, 2, 3]);
}

#[test]
#[should_panic(expected = "outside of the range")]
fn keys_must_be_in_range() {
    TrieBuilder::new(Spec::dense(Code::Weak), 10, 5..=9).push(10);
}

#[test]
#[should_panic(expected = "block_keys is 0")]
fn specs_must_be_in_bounds() {
    EntropyTrie::build(Spec::sparse(Code::Weak, 0), &[]);
}
