//! The maplet against a sorted set of fingerprints and slots.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use proptest::collection::vec;
use proptest::prelude::*;
use siltstone_succinct::filter::maplet::Maplet;
use std::collections::BTreeSet;

fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hashes as they should be, a few repeated ones, and some that no hash would give.
fn run() -> impl Strategy<Value = Vec<u64>> {
    let hash = prop_oneof![
        6 => any::<u64>(),
        2 => (0u64..40).prop_map(mixed),
        1 => (0u64..300).prop_map(|low| low | 5 << 60),
        1 => Just(u64::MAX),
    ];
    vec(hash, 0..300).prop_map(|mut run| {
        run.sort_unstable();
        run
    })
}

type Twin = BTreeSet<(u64, u8)>;

fn check(maplet: &Maplet, twin: &Twin, strangers: &[u64]) {
    assert!(maplet.entries().eq(twin.iter().copied()));
    assert_eq!(maplet.len() as usize, twin.len());
    let shift = 64 - u32::from(maplet.fingerprint_bits());
    let hashes: Vec<u64> =
        twin.iter().map(|(print, _)| print << shift).chain(strangers.iter().copied()).collect();
    let slots_of = |hash: &u64| {
        let print = hash >> shift;
        twin.range((print, 0)..=(print, u8::MAX)).fold(0u64, |slots, (_, slot)| slots | 1 << slot)
    };
    let wanted: Vec<u64> = hashes.iter().map(slots_of).collect();
    let found: Vec<u64> = hashes.iter().map(|hash| maplet.lookup(*hash)).collect();
    assert_eq!(found, wanted);
    let mut many = vec![7; hashes.len()];
    maplet.lookup_many(&hashes, &mut many);
    assert_eq!(many, wanted);
    let mut bytes = Vec::new();
    maplet.to_bytes(&mut bytes);
    assert_eq!(Maplet::from_bytes(&bytes).as_ref(), Ok(maplet));
    assert_eq!(Maplet::from_trusted_bytes(&bytes).as_ref(), Ok(maplet));
    assert!(Maplet::from_bytes(&bytes[..bytes.len() - 1]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn it_holds_what_was_merged(
        runs in vec((run(), 1u8..=64), 0..6), bits in 1u8..=58, slot_bits in 3u8..=6, strangers in run(),
    ) {
        let (mut maplet, mut twin) = (Maplet::new(bits, slot_bits), Twin::new());
        for (slot, (run, run_bits)) in runs.iter().enumerate() {
            let cut = maplet.fingerprint_bits().saturating_sub(*run_bits);
            maplet = maplet.with_run(slot as u8, *run_bits, run);
            let shift = 64 - u32::from(maplet.fingerprint_bits());
            twin = twin.into_iter().map(|(print, slot)| (print >> cut, slot)).collect();
            twin.extend(run.iter().map(|hash| (hash >> shift, slot as u8)));
            check(&maplet, &twin, &strangers);
        }
        // Runs 1 and 2 become one, and what was behind them moves up.
        let slots = [0, 1, 1, 2, 3, 4];
        let moved: Twin = twin.iter().map(|(print, slot)| (*print, slots[usize::from(*slot)])).collect();
        check(&maplet.remapped(&slots), &moved, &strangers);
        let kept: Twin = twin.iter().copied().filter(|(_, slot)| *slot < 2).collect();
        check(&maplet.remapped(&[0, 1]), &kept, &strangers);
    }

    #[test]
    fn slots_grow_with_the_pile(runs in vec((run(), 1u8..=64), 1..9), bits in 1u8..=58) {
        let (mut maplet, mut twin) = (Maplet::new(bits, 0), Twin::new());
        for (slot, (run, run_bits)) in runs.iter().enumerate() {
            let slot_bits = (slot as u32 + 1).next_power_of_two().ilog2() as u8;
            let before = maplet.fingerprint_bits();
            maplet = maplet.with_run_in(slot_bits, slot as u8, *run_bits, run);
            prop_assert_eq!((maplet.fingerprint_bits(), maplet.slot_bits()), (before.min(*run_bits), slot_bits));
            let (cut, shift) = (before - maplet.fingerprint_bits(), 64 - u32::from(maplet.fingerprint_bits()));
            twin = twin.into_iter().map(|(print, slot)| (print >> cut, slot)).collect();
            twin.extend(run.iter().map(|hash| (hash >> shift, slot as u8)));
            check(&maplet, &twin, run);
        }
    }

    #[test]
    fn two_made_apart_hold_what_one_does(
        old in vec(run(), 0..5), young in vec(run(), 1..5), bits in 1u8..=58, young_bits in 1u8..=58,
    ) {
        let made = |runs: &[Vec<u64>], bits: u8| {
            runs.iter().enumerate().fold(Maplet::new(bits, 0), |maplet, (slot, run)| {
                let slot_bits = (slot as u32 + 1).next_power_of_two().ilog2() as u8;
                maplet.with_run_in(slot_bits, slot as u8, bits, run)
            })
        };
        let slot_bits = ((old.len() + young.len()) as u32).next_power_of_two().ilog2() as u8;
        let both = made(&old, bits).with_maplet(slot_bits, old.len() as u8, &made(&young, young_bits));
        let all: Vec<Vec<u64>> = old.into_iter().chain(young).collect();
        let wanted = all.iter().enumerate().fold(Maplet::new(bits.min(young_bits), slot_bits), |maplet, (slot, run)| {
            maplet.with_run(slot as u8, 64, run)
        });
        prop_assert!(both.entries().eq(wanted.entries()));
        prop_assert_eq!((both.fingerprint_bits(), both.slot_bits()), (bits.min(young_bits), slot_bits));
    }

    #[test]
    fn changed_bytes_are_refused_or_answer(
        runs in vec(run(), 0..4), bits in 1u8..=58, changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut maplet = Maplet::new(bits, 3);
        for (slot, run) in runs.iter().enumerate() {
            maplet = maplet.with_run(slot as u8, 64, run);
        }
        let mut bytes = Vec::new();
        maplet.to_bytes(&mut bytes);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(maplet) = Maplet::from_trusted_bytes(&bytes) {
            // Whatever it says, it says something.
            for hash in runs.iter().flatten() {
                let _ = (maplet.lookup(*hash), maplet.prefetch(*hash), maplet.prefetch_entries(*hash));
            }
        }
        if let Ok(maplet) = Maplet::from_bytes(&bytes) {
            let twin: Twin = maplet.entries().collect();
            check(&maplet, &twin, &[]);
            let mut again = Vec::new();
            maplet.to_bytes(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}

/// Bits per entry and measured rate of false probes, for eight runs of `keys` keys each.
fn figures(keys: u64, fingerprint_bits: u8) -> (f64, f64) {
    let mut maplet = Maplet::new(fingerprint_bits, 3);
    for slot in 0..8 {
        let mut run: Vec<u64> = (slot * keys..(slot + 1) * keys).map(mixed).collect();
        run.sort_unstable();
        maplet = maplet.with_run(slot as u8, 64, &run);
    }
    for number in 0..8 * keys {
        assert!(maplet.lookup(mixed(number)) >> (number / keys) & 1 == 1, "key {number}");
    }
    let absent = 400_000;
    let wrong: u32 = (0..absent).map(|n| maplet.lookup(mixed(!n)).count_ones()).sum();
    let rate = f64::from(wrong) / absent as f64;
    assert!((rate / maplet.false_probe_rate() - 1.0).abs() < 0.15, "{rate}, {}", maplet.false_probe_rate());
    (maplet.memory_bytes() as f64 * 8.0 / (8 * keys) as f64, rate)
}

#[test]
fn it_keeps_to_its_bits_and_its_rate() {
    // A quarter of a million keys: 2^18 and 5 % less, so that quotients are nearly full.
    let (bits, rate) = figures(31_130, 26);
    assert!(bits <= 13.5 && rate <= 0.004, "{bits:.2} bits, {:.3} %", rate * 100.0);
    let (bits, rate) = figures(31_130, 28);
    assert!(bits <= 15.5 && rate <= 0.00105, "{bits:.2} bits, {:.3} %", rate * 100.0);
    // At half of that a fingerprint is as long, but fewer bits of it are coded by position.
    let (bits, rate) = figures(17_000, 26);
    assert!(bits <= 14.5 && rate <= 0.0023, "{bits:.2} bits, {:.3} %", rate * 100.0);
}

#[test]
fn entries_may_be_as_wide_as_a_word() {
    let one = Maplet::new(58, 6).with_run(63, 64, &[u64::MAX]);
    check(&one, &[(u64::MAX >> 6, 63)].into(), &[0, 5 << 60]);
    let two = one.with_run(62, 64, &[u64::MAX, u64::MAX]);
    check(&two, &[(u64::MAX >> 6, 62), (u64::MAX >> 6, 63)].into(), &[0, 5 << 60]);
}

#[test]
fn runs_of_any_size_are_merged() {
    let (mut maplet, mut twin) = (Maplet::new(24, 4), Twin::new());
    let mut number = 0;
    for (slot, size) in (0..).zip([1024, 40_000, 0, 513, 1, 5000, 511, 1025, 512]) {
        let mut run: Vec<u64> = (number..number + size).map(mixed).collect();
        // Behind most others, more than are gathered at once; or one fingerprint many times.
        run.extend(
            (0..size / 3).map(|n| if slot % 2 == 0 { u64::MAX - ((size - n) << 40) } else { u64::MAX }),
        );
        run.sort_unstable();
        maplet = maplet.with_run(slot, 64, &run);
        twin.extend(run.iter().map(|hash| (hash >> 40, slot)));
        check(&maplet, &twin, &[1 << 63]);
        number += size;
    }
}
