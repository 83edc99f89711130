//! Keys chosen to crowd. Where a key goes follows from a hash with a secret of the store's own, so whoever
//! does not know that secret spreads keys whatever they choose; whoever knows it, as those who can read the
//! store's files do, can aim all of theirs at one region, and makes the trie deeper there and nothing worse.

use crate::common::*;
use siltstone::io::sim::SimDisk;
use siltstone::{Db, KeyspaceOptions, KeyspaceStats, Options, Schema};
use siltstone_design::{Encoder, HashSecret};
use std::sync::Arc;

const KNOWN: [u8; 16] = *b"sixteen byte key";
const OTHERS: [&[u8; 16]; 4] =
    [b"another 16 bytes", b"a second secret.", b"and a third one.", b"a fourth, at end"];

/// Keys that begin alike in their first `bits` digest bits under the secret that is known.
fn crowd(count: usize, bits: u32) -> Vec<[u8; 8]> {
    let encoder = Encoder::new(Schema::Point, HashSecret(KNOWN));
    let is_aimed = |key: &[u8; 8]| encoder.encode(key).unwrap().digest.hi >> (64 - bits) == 1;
    (0u64..).map(u64::to_be_bytes).filter(is_aimed).take(count).collect()
}

/// What a store of these keys is like, with a secret and a design.
struct Figures {
    stats: KeyspaceStats,
    depth: u8,
    regions: u64,
    written_per_byte: f64,
    probed_per_get: f64,
    memory: u64,
}

fn figures(design: siltstone::Design, secret: [u8; 16], keys: &[[u8; 8]]) -> Figures {
    let disk = SimDisk::new();
    let options = Options { hash_secret: Some(secret), memory_budget_bytes: 2 << 20, ..options() };
    let db = Db::open_on(Arc::new(disk), DIR, options).unwrap();
    let items =
        db.keyspace("items", KeyspaceOptions { design: Some(design), ..KeyspaceOptions::default() }).unwrap();
    for round in 0..2u8 {
        for key in keys {
            items.put(key, [round; 40]).unwrap();
        }
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    let before = items.stats();
    for key in keys {
        assert_eq!(items.get(key).unwrap().as_deref(), Some(&[1; 40][..]));
    }
    let stats = items.stats();
    let gets = (stats.gets - before.gets) as f64;
    let depth = stats.levels.iter().filter(|level| level.runs > 0).map(|level| level.depth).max().unwrap();
    assert_eq!(items.len().unwrap(), keys.len() as u64);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    Figures {
        depth,
        regions: stats.levels.iter().map(|level| level.regions).sum(),
        written_per_byte: db.stats().write_amplification,
        probed_per_get: (stats.tables_probed - before.tables_probed) as f64 / gets,
        memory: db.stats().memory.total,
        stats,
    }
}

fn uniform(count: usize) -> Vec<[u8; 8]> {
    (0..count as u64).map(|number| (number << 32).to_be_bytes()).collect()
}

#[test]
fn keys_aimed_without_the_secret_are_keys_like_any_others() {
    let count = if is_long() { 20_000 } else { 1_500 };
    let (crowded, uniform) = (crowd(count, 8), uniform(count));
    // How far a small store's regions are from their next merge is chance; over designs and secrets it evens out.
    let (mut written, mut probed, mut regions) = ([0.0; 2], [0.0; 2], [0.0; 2]);
    for secret in OTHERS {
        for (name, design) in tiny_designs() {
            let found = [&crowded, &uniform].map(|keys| figures(design.clone(), *secret, keys));
            let [aimed, any] = &found;
            assert!(aimed.depth.abs_diff(any.depth) <= 2, "{name}: depth {} and {}", aimed.depth, any.depth);
            for (at, one) in found.iter().enumerate() {
                written[at] += one.written_per_byte;
                probed[at] += one.probed_per_get;
                regions[at] += one.regions as f64;
            }
        }
    }
    println!("written {written:?}, tables asked {probed:?}, regions {regions:?}");
    for (what, [aimed, any]) in [("written", written), ("tables asked", probed), ("regions", regions)] {
        assert!(aimed < 1.3 * any, "{what}: {aimed} by keys that were aimed, {any} by others");
    }
}

#[test]
fn keys_aimed_with_the_secret_make_the_trie_deeper_and_nothing_worse() {
    let count = if is_long() { 20_000 } else { 1_500 };
    let bits = if is_long() { 10 } else { 8 };
    let crowded = crowd(count, bits);
    for (name, design) in tiny_designs() {
        let aimed = figures(design.clone(), KNOWN, &crowded);
        let any = figures(design, KNOWN, &uniform(count));
        println!(
            "{name}: depth {} and {}, regions {} and {}, written {:.1} and {:.1} times, tables per get {:.2} and {:.2}",
            aimed.depth,
            any.depth,
            aimed.regions,
            any.regions,
            aimed.written_per_byte,
            any.written_per_byte,
            aimed.probed_per_get,
            any.probed_per_get
        );
        // Each level that the crowd has to sink through is one more that its items are written to.
        let levels = f64::from(bits) + 1.0;
        assert!(aimed.depth <= any.depth + bits as u8 + 2, "{name}: depth {} and {}", aimed.depth, any.depth);
        assert!(aimed.regions <= any.regions + 8 * u64::from(bits) * 4, "{name}: {} regions", aimed.regions);
        let most = any.written_per_byte + levels * 2.5;
        assert!(aimed.written_per_byte < most, "{name}: {} written, {most} at most", aimed.written_per_byte);
        // It is the same levels that a get looks into, but for those between.
        let most = any.probed_per_get + levels;
        assert!(aimed.probed_per_get < most, "{name}: {} tables per get", aimed.probed_per_get);
        assert!(aimed.memory < 2 << 20, "{name}: {} bytes of memory", aimed.memory);
        assert!(aimed.stats.table_bytes < 3 * any.stats.table_bytes + (64 << 10), "{name}: space");
    }
}
