//! Random runs, remaps and growth against a map from each key to the slot of its newest insertion.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use siltstone_succinct::filter::multi_level_cuckoo::{
    Candidates, Full, Knowledge, MultiLevelCuckooFilter, Parameters, RunKey,
};

use crate::mix;

/// One step: a run of keys (each with whether its writer read it before), or the merge of the newest runs.
#[derive(Debug, Clone)]
enum Step {
    Run { keys: Vec<(u16, bool)>, grow_first: bool, one_by_one: bool },
    Merge { newest: u8 },
    Reload,
}

/// How keys are hashed: as a hash does, or so that many keys share all of it.
#[derive(Debug, Clone, Copy)]
enum Hashing {
    Sound,
    /// Only so many different hashes.
    Colliding(u64),
}

impl Hashing {
    fn of(self, key: u16) -> u64 {
        match self {
            Hashing::Sound => mix(u64::from(key)),
            Hashing::Colliding(hashes) => mix(u64::from(key) % hashes),
        }
    }
}

struct Twin {
    filter: MultiLevelCuckooFilter,
    newest: BTreeMap<u16, u8>,
    hashing: Hashing,
    next_slot: u8,
}

impl Twin {
    fn new(parameters: Parameters, first: u64, hashing: Hashing) -> Self {
        let filter = MultiLevelCuckooFilter::new(parameters, first).unwrap();
        Twin { filter, newest: BTreeMap::new(), hashing, next_slot: 0 }
    }

    fn slots(&self) -> u8 {
        ((1u16 << self.filter.parameters().slot_bits) - 1).min(63) as u8
    }

    /// Adds a run; false if the filter is full.
    fn run(&mut self, keys: &[(u16, bool)], grow_first: bool, one_by_one: bool) -> bool {
        if self.next_slot > self.slots() {
            self.merge(3);
        }
        let slot = self.next_slot.min(self.slots());
        let known: Vec<([u8; 2], RunKey<'static>)> = keys
            .iter()
            .map(|(key, was_read)| {
                let knowledge = match self.newest.get(key) {
                    Some(old) if *was_read => Knowledge::InSlot(*old),
                    _ => Knowledge::Unknown,
                };
                (key.to_be_bytes(), RunKey { hash: self.hashing.of(*key), key: &[], knowledge })
            })
            .collect();
        let run = known.iter().map(|(bytes, key)| RunKey { key: bytes, ..*key });
        let mut filter = match grow_first {
            true => match self.filter.grown(keys.len() as u64) {
                Ok(filter) => filter,
                Err(Full { .. }) => return false,
            },
            false => self.filter.clone(),
        };
        let outcome = match one_by_one {
            true => run.into_iter().try_for_each(|key| filter.insert(slot, key)),
            false => filter.insert_run(slot, run),
        };
        if outcome.is_err() {
            return false;
        }
        self.filter = filter;
        self.newest.extend(keys.iter().map(|(key, _)| (*key, slot)));
        self.next_slot = (slot + 1).max(self.next_slot);
        true
    }

    fn merge(&mut self, newest: u8) {
        let first = self.next_slot.saturating_sub(newest.max(1));
        let slots: Vec<u8> = (0..self.next_slot).map(|slot| slot.min(first)).collect();
        self.filter.remap(&slots);
        self.newest.values_mut().for_each(|slot| *slot = (*slot).min(first));
        self.next_slot = self.next_slot.min(first + 1);
    }

    /// Every key's newest slot is among its candidates, and batches answer alike.
    fn check(&self, single: bool) {
        let questions: Vec<(u64, [u8; 2])> =
            (0..600u16).map(|key| (self.hashing.of(key), key.to_be_bytes())).collect();
        let mut found = vec![Candidates::NONE; questions.len()];
        self.filter.lookup_many(&questions, &mut found);
        for (key, ((hash, bytes), found)) in (0u16..).zip(questions.iter().zip(found)) {
            assert_eq!(self.filter.lookup(*hash, bytes), found);
            assert!(!single || found.len() <= 1, "key {key}: {:?}", found.collect::<Vec<_>>());
            let order: Vec<u8> = found.collect();
            assert!(order.is_sorted_by(|a, b| a > b));
            if let Some(slot) = self.newest.get(&key) {
                assert!(found.contains(*slot), "key {key} is in {slot}, not in {order:?}");
                assert!(!single || found.newest() == Some(*slot));
            }
        }
    }

    fn reload(&mut self) {
        let mut bytes = Vec::new();
        self.filter.to_bytes(&mut bytes);
        let again = MultiLevelCuckooFilter::from_bytes(&bytes).unwrap();
        assert_eq!(again, self.filter);
        self.filter = again;
    }
}

fn steps(most: usize, reading: impl Strategy<Value = bool> + Clone) -> impl Strategy<Value = Vec<Step>> {
    let keys = vec((0u16..500, reading), 0..200).prop_map(|mut keys| {
        // A run holds a key once.
        keys.sort_unstable();
        keys.dedup_by_key(|(key, _)| *key);
        keys
    });
    let run = (keys, any::<bool>(), any::<bool>()).prop_map(|(keys, grow_first, one_by_one)| Step::Run {
        keys,
        grow_first,
        one_by_one,
    });
    let step = prop_oneof![
        8 => run,
        1 => (1u8..5).prop_map(|newest| Step::Merge { newest }),
        1 => Just(Step::Reload),
    ];
    vec(step, 1..most)
}

fn parameters() -> impl Strategy<Value = Parameters> {
    (8u8..=14, 1u8..=6, 0u8..=6, prop_oneof![Just(0u16), Just(50), Just(1000)]).prop_map(
        |(fingerprint_bits, slot_bits, growth_bits, secondary_permille)| Parameters {
            fingerprint_bits,
            slot_bits,
            growth_bits,
            floor_bits: 8,
            secondary_permille,
            load_permille: 500 + u16::from(slot_bits) * 77,
        },
    )
}

fn play(mut twin: Twin, steps: &[Step], single: bool) -> Twin {
    for step in steps {
        match step {
            Step::Run { keys, grow_first, one_by_one } => {
                if !twin.run(keys, *grow_first, *one_by_one) {
                    break;
                }
            }
            Step::Merge { newest } => twin.merge(*newest),
            Step::Reload => twin.reload(),
        }
        twin.check(single);
    }
    twin
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_key_is_ever_lost(
        parameters in parameters(),
        first in 0u64..300,
        steps in steps(16, any::<bool>()),
        hashing in prop_oneof![Just(Hashing::Sound), (1u64..40).prop_map(Hashing::Colliding)],
    ) {
        play(Twin::new(parameters, first, hashing), &steps, false);
    }

    /// Where the writers have read what they overwrite and the secondary has room, a key has one candidate.
    #[test]
    fn who_reads_before_writing_reads_one_run(
        first in 0u64..300,
        steps in steps(16, Just(true)),
        hashing in prop_oneof![Just(Hashing::Sound), (30u64..500).prop_map(Hashing::Colliding)],
        fingerprint_bits in 8u8..=14,
    ) {
        // With sound hashes a handful of keys meet, and half a kilobyte holds them; else 500 keys take some
        // 12 KB.
        let (first, bits) = match hashing {
            Hashing::Sound => (first, fingerprint_bits.max(12)),
            Hashing::Colliding(_) => (8000, fingerprint_bits),
        };
        let parameters = Parameters {
            fingerprint_bits: bits, floor_bits: 8, growth_bits: 6, secondary_permille: 1000, ..Parameters::default()
        };
        play(Twin::new(parameters, first, hashing), &steps, true);
    }
}

/// Nothing but copies: no secondary, a handful of fingerprints, every run writes every key.
#[test]
fn copies_beyond_eight_are_stashed() {
    for slot_bits in [3, 6] {
        let parameters =
            Parameters { slot_bits, secondary_permille: 0, growth_bits: 6, ..Parameters::default() };
        let mut twin = Twin::new(parameters, 100, Hashing::Colliding(5));
        for run in 0..1 << slot_bits {
            let keys: Vec<(u16, bool)> = (0..40).map(|key| (key, (key + run) % 3 == 0)).collect();
            assert!(twin.run(&keys, false, run % 2 == 0));
            twin.check(false);
        }
        assert!(twin.filter.stashed() > 0);
        twin.reload();
        twin.merge(2);
        twin.check(false);
    }
}

/// Knowledge that is true but meets copies of several keys under one fingerprint: each must keep a copy of
/// its own.
#[test]
fn copies_of_different_keys_are_not_mixed_up() {
    let parameters = Parameters { secondary_permille: 0, ..Parameters::default() };
    let mut twin = Twin::new(parameters, 100, Hashing::Colliding(1));
    // Two keys in slot 0, under one fingerprint; then one after the other is written again.
    assert!(twin.run(&[(1, false), (2, false)], false, false));
    assert!(twin.run(&[(1, true)], false, false));
    twin.check(false);
    assert!(twin.run(&[(2, true)], false, false));
    twin.check(false);
    // Merged, both are in one slot again.
    twin.merge(2);
    assert!(twin.run(&[(2, true)], false, false));
    twin.check(false);
    assert!(twin.run(&[(1, true)], false, false));
    twin.check(false);
}

#[test]
fn a_failed_insertion_changes_nothing() {
    let parameters =
        Parameters { fingerprint_bits: 12, growth_bits: 0, floor_bits: 12, ..Parameters::default() };
    let mut filter = MultiLevelCuckooFilter::new(parameters, 1000).unwrap();
    let mut inserted = 0u64;
    loop {
        let before = filter.clone();
        let key = inserted.to_be_bytes();
        let outcome =
            filter.insert(1, RunKey { hash: mix(inserted), key: &key, knowledge: Knowledge::Unknown });
        if let Err(full) = outcome {
            assert_eq!(filter, before);
            assert!(full.to_string().contains("build a larger one"), "{full}");
            break;
        }
        inserted += 1;
    }
    assert!(inserted >= 1000, "{inserted}");
    assert!(filter.load() > 0.965, "{}", filter.load());
    for number in 0..inserted {
        assert!(filter.lookup(mix(number), &number.to_be_bytes()).contains(1));
    }
    assert!(filter.grown(1).is_err());
}

#[test]
#[should_panic(expected = "slot 8 needs more")]
fn slots_that_do_not_fit_are_refused() {
    let mut filter = MultiLevelCuckooFilter::new(Parameters::default(), 10).unwrap();
    let _ = filter.insert(8, RunKey::default());
}

#[test]
#[should_panic(expected = "make older runs newer")]
fn a_remap_keeps_the_order() {
    let mut filter = MultiLevelCuckooFilter::new(Parameters::default(), 10).unwrap();
    filter.remap(&[1, 0]);
}
