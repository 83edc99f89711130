//! What is promised in numbers: bits per key, false positives, load, at every stage of growth.

use siltstone_succinct::filter::multi_level_cuckoo::{Knowledge, MultiLevelCuckooFilter, Parameters, RunKey};

use crate::{SplitMix, mix};

fn add(filter: &mut MultiLevelCuckooFilter, slot: u8, keys: std::ops::Range<u64>, knowledge: Knowledge) {
    let numbers: Vec<[u8; 16]> = keys.clone().map(key).collect();
    let run = keys.zip(&numbers).map(|(number, key)| RunKey { hash: mix(number), key, knowledge });
    filter.insert_run(slot, run).unwrap();
}

/// Key number `number`, as in the paper: 16 bytes.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn false_positives(filter: &MultiLevelCuckooFilter, asked: u64) -> f64 {
    let strangers = SplitMix(0xabc).take(asked as usize);
    let found = strangers.filter(|hash| !filter.lookup(*hash, b"stranger").is_empty()).count();
    found as f64 / asked as f64
}

/// The paper's Table 5: eight runs of distinct keys, 14 + 3 bits, full.
#[test]
fn bits_and_rate_when_full() {
    let keys = 1_000_000;
    let parameters =
        Parameters { growth_bits: 0, floor_bits: 14, load_permille: 965, ..Parameters::default() };
    let mut filter = MultiLevelCuckooFilter::new(parameters, keys).unwrap();
    for slot in 0..8u8 {
        let range = keys / 8 * u64::from(slot)..keys / 8 * (u64::from(slot) + 1);
        add(&mut filter, slot, range, Knowledge::Unknown);
    }
    let bits = filter.memory_bytes() as f64 * 8.0 / keys as f64;
    assert!(bits <= 16.7, "{bits} bits per key");
    let rate = false_positives(&filter, 4_000_000);
    let expected = filter.expected_false_positive_rate();
    assert!(expected < 0.0005 && (0.9..1.1).contains(&(rate / expected)), "{rate}, expected {expected}");
    for number in 0..keys {
        let slot = (number / (keys / 8)) as u8;
        assert_eq!(filter.lookup(mix(number), &key(number)).collect::<Vec<_>>(), [slot], "key {number}");
    }
}

/// Eight runs of about one size, the filter sized for the first: it stays full, and as exact as promised.
#[test]
fn growth_run_by_run() {
    let parameters = Parameters::default();
    let runs = [20_000u64, 21_300, 18_000, 20_500, 19_999, 22_000, 17_000, 20_100];
    let mut filter = MultiLevelCuckooFilter::new(parameters, runs[0]).unwrap();
    let (mut next, mut found, mut expected) = (0, 0.0, 0.0);
    for (slot, keys) in (0u8..).zip(runs) {
        let mut newer = filter.grown(keys).unwrap();
        assert_eq!(newer.clone().grown(keys).unwrap(), newer, "room once made is enough");
        add(&mut newer, slot, next..next + keys, Knowledge::Unknown);
        next += keys;
        filter = newer;
        let bits = filter.memory_bytes() as f64 * 8.0 / next as f64;
        let stored = filter.effective_fingerprint_bits().ceil() + 3.0 - 1.0;
        assert!(bits < stored / 0.9, "{bits} bits per key in run {slot}, of {stored}");
        assert!(filter.effective_fingerprint_bits() > 13.97);
        found += false_positives(&filter, 500_000);
        expected += filter.expected_false_positive_rate();
        assert!(filter.expected_false_positive_rate() <= 8.0 / 16384.0);
        assert!(filter.load() > 0.9, "{}", filter.load());
    }
    assert!((0.8..1.2).contains(&(found / expected)), "{found}, expected {expected}, over all sizes");
    assert_eq!(filter.stashed(), 0);
    for number in 0..next {
        assert_eq!(filter.lookup(mix(number), &key(number)).len(), 1, "key {number}");
    }
}

/// Without room made beforehand, from one key to where the floor ends it.
#[test]
fn growth_to_the_floor() {
    let parameters = Parameters { growth_bits: 2, floor_bits: 8, ..Parameters::default() };
    let mut filter = MultiLevelCuckooFilter::new(parameters, 500).unwrap();
    let first_bits = filter.effective_fingerprint_bits();
    assert!((15.9..=16.0).contains(&first_bits), "{first_bits}");
    let mut keys = 0u64;
    while filter.insert(2, RunKey { hash: mix(keys), key: &key(keys), knowledge: Knowledge::Unknown }).is_ok()
    {
        keys += 1;
    }
    assert!((7.9..8.01).contains(&filter.effective_fingerprint_bits()));
    // 2^(2 + 6) times the first size.
    assert!(keys >= 500 << 8, "{keys}");
    assert!(filter.load() > 0.965, "{}", filter.load());
    for number in 0..keys {
        assert!(filter.lookup(mix(number), &key(number)).contains(2), "key {number}");
    }
    let rate = false_positives(&filter, 200_000) / filter.expected_false_positive_rate();
    assert!((0.9..1.1).contains(&rate), "{rate}");
}

/// Every fractional size, which hashes do not fill evenly, must still fill to the promised load.
#[test]
fn loads_between_doublings() {
    let parameters = Parameters {
        growth_bits: 2,
        fingerprint_bits: 12,
        floor_bits: 10,
        load_permille: 965,
        ..Parameters::default()
    };
    let mut filter = MultiLevelCuckooFilter::new(parameters, 5_000).unwrap();
    add(&mut filter, 0, 0..5_000, Knowledge::Unknown);
    let mut keys = 5_000;
    while let Ok(mut larger) = filter.grown(700) {
        let bits = larger.effective_fingerprint_bits();
        add(&mut larger, 1, keys..keys + 700, Knowledge::Unknown);
        assert_eq!(larger.effective_fingerprint_bits(), bits, "grew again at {keys} keys");
        keys += 700;
        filter = larger;
        assert!(filter.stashed() == 0);
    }
    assert!(keys > 5_000 * 15, "{keys}");
}

/// Known keys take no room, unknown ones a record each until the secondary is full, and copies from then on.
#[test]
fn overwrites_with_and_without_knowledge() {
    let keys = 50_000;
    let parameters = Parameters { secondary_permille: 100, ..Parameters::default() };
    let mut filter = MultiLevelCuckooFilter::new(parameters, keys).unwrap();
    add(&mut filter, 0, 0..keys, Knowledge::Unknown);
    let first = filter.clone();
    add(&mut filter, 1, 0..keys, Knowledge::InSlot(0));
    assert_eq!(filter.memory_bytes(), first.memory_bytes());
    assert_eq!(filter.entries(), first.entries());
    let newest = |filter: &MultiLevelCuckooFilter, number| filter.lookup(mix(number), &key(number));
    assert!((0..keys).all(|number| newest(&filter, number).collect::<Vec<_>>() == [1]));

    add(&mut filter, 2, 0..keys, Knowledge::Unknown);
    assert!((0..keys).all(|number| newest(&filter, number).newest() == Some(2)));
    let several = (0..keys).filter(|number| newest(&filter, *number).len() == 2).count() as u64;
    assert!(filter.secondary_keys() > 100 && several > keys / 2, "{}, {several}", filter.secondary_keys());
    // A run that nobody wrote: nothing points to it.
    assert!((0..keys).all(|number| !newest(&filter, number).contains(3)));
}

/// Runs that overwrite a seventh of the keys each, chosen anew and blindly: some have several copies, which
/// crowd two buckets while others are empty. The filter grows for them, rather than search for each in vain
/// and keep it aside, which takes more room and a hundred times as long.
#[test]
fn keys_overwritten_again_and_again_find_room() {
    let (keys, per_run) = (50_000, 7_000);
    let parameters = Parameters { slot_bits: 4, ..Parameters::default() };
    let mut filter = MultiLevelCuckooFilter::new(parameters, keys).unwrap();
    add(&mut filter, 0, 0..keys, Knowledge::Unknown);
    let mut chosen = SplitMix(9);
    let mut newest = vec![0; keys as usize];
    for slot in 1..8 {
        filter = filter.grown(per_run + (filter.entries() + per_run) / 16).unwrap_or(filter);
        for number in chosen.by_ref().take(per_run as usize).map(|number| number % keys) {
            add(&mut filter, slot, number..number + 1, Knowledge::Unknown);
            newest[number as usize] = slot;
        }
    }
    assert!(filter.stashed() < 100, "{} of {}", filter.stashed(), filter.entries());
    let bits = filter.memory_bytes() as f64 * 8.0 / filter.entries() as f64;
    assert!(bits < 30.0, "{bits} bits an entry at a load of {}", filter.load());
    for (number, slot) in (0..keys).zip(newest) {
        assert_eq!(filter.lookup(mix(number), &key(number)).newest(), Some(slot), "{number}");
    }
}

/// Keys of one region share digest bits, whichever.
#[test]
fn keys_that_share_digest_bits_still_spread() {
    type Shape = fn(u64) -> u64;
    let shapes: [(&str, Shape); 3] = [
        ("top bits shared", |hash| hash >> 28 | 0xabc << 52),
        ("low bits shared", |hash| hash << 28 | 0xabc),
        ("middle shared", |hash| hash & 0xffff_0000_000f_ffff),
    ];
    for (name, shape) in shapes {
        let mut filter = MultiLevelCuckooFilter::new(Parameters::default(), 50_000).unwrap();
        let memory = filter.memory_bytes();
        for (number, hash) in (0u64..50_000).zip(SplitMix(4).map(shape)) {
            filter.insert(0, RunKey { hash, key: &key(number), knowledge: Knowledge::Unknown }).unwrap();
        }
        assert!(filter.memory_bytes() < memory + memory / 20, "{name}: {}", filter.load());
        let strangers = SplitMix(5).map(shape).take(1_000_000);
        let found = strangers.filter(|hash| !filter.lookup(*hash, b"").is_empty()).count() as f64 / 1e6;
        let ratio = found / filter.expected_false_positive_rate();
        assert!((0.5..1.5).contains(&ratio), "{name}: {ratio}");
    }
}

#[test]
fn unsound_parameters_are_named() {
    let refused = |change: fn(&mut Parameters)| {
        let mut parameters = Parameters::default();
        change(&mut parameters);
        MultiLevelCuckooFilter::new(parameters, 10).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|parameters| parameters.slot_bits = 7),
        "multi-level cuckoo filter: slot_bits is 7; choose from 0 to 6"
    );
    assert!(refused(|parameters| parameters.fingerprint_bits = 7).contains("fingerprint_bits is 7"));
    assert!(refused(|parameters| parameters.fingerprint_bits = 21).contains("fingerprint_bits is 21"));
    assert!(
        refused(|parameters| parameters.growth_bits = 7).contains("growth_bits is 7; choose from 0 to 6")
    );
    assert!(
        refused(|parameters| parameters.floor_bits = 15).contains("floor_bits is 15; choose from 8 to 14")
    );
    assert!(refused(|parameters| parameters.load_permille = 966).contains("load_permille is 966"));
    assert!(refused(|parameters| parameters.secondary_permille = 1001).contains("secondary_permille"));
}
