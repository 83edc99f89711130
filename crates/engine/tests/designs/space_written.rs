//! What a fill and an overwrite workload write, in bytes: rules for deletes and expiry cost them nothing.

use crate::common::*;
use siltstone::io::sim::SimDisk;
use siltstone::{Db, KeyspaceOptions, Options, presets};
use std::sync::Arc;

/// Bytes that a fill of new items and then as many overwrites at random write to the device.
fn written(preset: &str) -> (u64, u64) {
    let disk = SimDisk::new();
    let options = Options { memory_budget_bytes: 8 << 20, max_wal_bytes: 1 << 20, ..options() };
    let db = Db::open_on(Arc::new(disk), DIR, options).unwrap();
    let (_, design) = presets::all().into_iter().find(|(name, _)| *name == preset).unwrap();
    let design = Some(design.scaled_to(64 << 10));
    let items =
        db.create_keyspace("items", KeyspaceOptions { design, ..KeyspaceOptions::default() }).unwrap();
    let mut rng = Rng::new(11);
    for n in 0..30_000u32 {
        items.put(numbered_key(n), rng.bytes(96)).unwrap();
    }
    let filled = db.stats().device_bytes_written;
    for _ in 0..30_000u32 {
        items.put(numbered_key(rng.below(30_000) as u32), rng.bytes(96)).unwrap();
    }
    (filled, db.stats().device_bytes_written - filled)
}

#[test]
fn fills_and_overwrites_write_what_they_did() {
    // As counted before the planner knew of deletes and expiry.
    for (preset, filled_before, overwritten_before) in [
        ("siltstone", 7_957_611, 11_889_535),
        ("lean", 10_788_953, 12_155_234),
        ("stepped-merge", 10_255_609, 11_694_201),
        ("leveled", 10_163_097, 15_375_378),
        ("slimdb", 10_205_116, 11_630_098),
        ("lsm-trie", 10_938_924, 12_524_145),
        ("silt", 8_449_043, 8_728_594),
    ] {
        let (filled, overwritten) = written(preset);
        println!("{preset}: {filled} bytes to fill, {overwritten} to overwrite");
        for (now, before) in [(filled, filled_before), (overwritten, overwritten_before)] {
            let change = now as f64 / f64::from(before) - 1.0;
            assert!(change.abs() < 0.01, "{preset}: {now} bytes instead of {before}");
        }
    }
}
