//! What SlimDB's structures promise within the engine, counted: tables looked at per get, bits per item, and
//! region filters that survive closing, crashes and damage without changing an answer.

use crate::common::{DIR, Rng, open, options, tiny};
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{
    Db, Design, Keyspace, KeyspaceOptions, KeyspaceStats, PrefixRule, Schema, SuffixOrder, WriteBufferSpec,
};
use std::sync::Arc;

const ITEMS: u32 = 6_000;
/// Eight bytes of prefix and eight of suffix, groups of 32.
const SCHEMA: Schema =
    Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Hashed };

fn key(number: u32) -> Vec<u8> {
    let scattered = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [u64::from(number / 32).to_be_bytes(), scattered.to_be_bytes()].concat()
}

/// A row of Table 1 with real fan-outs and regions, and tables of 16 KiB.
fn small(name: &str) -> Design {
    let mut design = Design::preset(name).unwrap();
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 16 << 10 };
    for level in &mut design.levels {
        level.table_bytes = if level.runs == 1 { 128 << 10 } else { 16 << 10 };
    }
    design
}

fn create(db: &Db, design: Design) -> Keyspace {
    db.keyspace(
        "items",
        KeyspaceOptions { schema: SCHEMA, design: Some(design), ..KeyspaceOptions::default() },
    )
    .unwrap()
}

fn scattered(seed: u64) -> impl Iterator<Item = u32> {
    let mut numbers: Vec<u32> = (0..ITEMS).collect();
    let mut rng = Rng::new(seed);
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, rng.below(last as u64 + 1) as usize);
    }
    numbers.into_iter()
}

fn fill(items: &Keyspace) {
    for number in scattered(1) {
        items.put(key(number), [number as u8; 100]).unwrap();
    }
}

fn settle(db: &Db) {
    db.flush().unwrap();
    while db.step().unwrap() {}
}

/// Gets every item and as many that do not exist; what the gets cost, hits first.
fn read_all(items: &Keyspace) -> (KeyspaceStats, KeyspaceStats) {
    let before = items.stats();
    for number in 0..ITEMS {
        assert!(items.get(key(number)).unwrap().is_some(), "item {number}");
    }
    let hits = since(&before, items.stats());
    let before = items.stats();
    for number in 0..ITEMS {
        let mut absent = key(number);
        absent[15] ^= 1;
        assert_eq!(items.get(&absent).unwrap(), None);
    }
    (hits, since(&before, items.stats()))
}

fn since(before: &KeyspaceStats, mut after: KeyspaceStats) -> KeyspaceStats {
    after.gets -= before.gets;
    after.tables_probed -= before.tables_probed;
    after
}

#[test]
fn blind_writes_without_duplicates_probe_one_table_of_a_region() {
    for design in [small("sm+mlcf+tl"), small("sm+mlcf"), small("slimdb")] {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let items = create(&db, design);
        fill(&items);
        settle(&db);
        let (hits, misses) = read_all(&items);
        assert_eq!(hits.most_tables_probed_in_a_region, 1, "{hits:?}");
        let guided: u64 = hits.levels.iter().map(|level| level.filtered_runs).sum();
        let highest = hits.levels.iter().map(|level| level.max_runs_in_a_region).max();
        assert!(guided > 10 && highest > Some(1), "the piles are piles: {:?}", hits.levels);
        // One table each, and now and then one more in another level.
        assert!(hits.tables_probed as f64 <= f64::from(ITEMS) * 1.005, "{}", hits.tables_probed);
        assert_eq!(misses.most_tables_probed_in_a_region, 1);
        assert!(misses.tables_probed as f64 <= f64::from(ITEMS) * 0.01, "{}", misses.tables_probed);
    }
}

#[test]
fn updates_that_read_first_probe_one_table_of_a_region() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, small("sm+mlcf+tl"));
    fill(&items);
    let mut rng = Rng::new(9);
    for round in 0..3 * ITEMS {
        let number = rng.below(u64::from(ITEMS)) as u32;
        items.update(key(number), |old| Some([old.unwrap(), &[round as u8]].concat())).unwrap();
        if round % 500 == 0 {
            while db.step().unwrap() {}
        }
    }
    settle(&db);
    // The updates' own reads met runs whose guides were still to be built; opened again, only these gets
    // count.
    drop(items);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    let items = create(&db, small("sm+mlcf+tl"));
    let (hits, misses) = read_all(&items);
    assert!(hits.levels.iter().any(|level| level.max_runs_in_a_region > 4), "{:?}", hits.levels);
    assert_eq!(hits.most_tables_probed_in_a_region, 1, "{hits:?}");
    assert!(hits.tables_probed as f64 <= f64::from(ITEMS) * 1.01, "{}", hits.tables_probed);
    assert!(misses.tables_probed as f64 <= f64::from(ITEMS) * 0.01, "{}", misses.tables_probed);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn blind_updates_cost_probes_and_not_answers_or_memory() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, small("sm+mlcf+tl"));
    fill(&items);
    let mut rng = Rng::new(10);
    let mut newest = vec![None; ITEMS as usize];
    for round in 0..3 * ITEMS {
        let number = rng.below(u64::from(ITEMS)) as u32;
        items.put(key(number), round.to_le_bytes()).unwrap();
        newest[number as usize] = Some(round);
        if round % 500 == 0 {
            while db.step().unwrap() {}
        }
    }
    settle(&db);
    for (number, round) in newest.iter().enumerate() {
        if let Some(round) = round {
            let found = items.get(key(number as u32)).unwrap();
            assert_eq!(found.as_deref(), Some(&round.to_le_bytes()[..]), "item {number}");
        }
    }
    let (hits, misses) = read_all(&items);
    // The newest candidate is asked first, so even an item in many runs costs one look in nearly all cases.
    assert!(hits.tables_probed as f64 <= f64::from(ITEMS) * 1.02, "{}", hits.tables_probed);
    assert!(misses.tables_probed as f64 <= f64::from(ITEMS) * 0.02, "{}", misses.tables_probed);
    // Filters of a hundred keys have half a kilobyte each for conflicts, which they fill.
    assert!(hits.filter_bits_per_item < 80.0, "{}", hits.filter_bits_per_item);
}

#[test]
fn every_row_of_table_1_costs_what_it_says() {
    // Tables looked at per get that hits and per get that misses, in a store of three levels: bounds from
    // Table 1's columns, each level taken by itself.
    for (name, filtered, stepped) in [
        ("lsm", false, false),
        ("lsm+cf", true, false),
        ("lsm+cf+tl", true, false),
        ("lsm+tl", false, false),
        ("sm", false, true),
        ("sm+mlcf", true, true),
        ("sm+mlcf+tl", true, true),
        ("sm+tl", false, true),
    ] {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let items = create(&db, small(name));
        fill(&items);
        settle(&db);
        let (hits, misses) = read_all(&items);
        let (hit, miss) =
            (hits.tables_probed as f64 / f64::from(ITEMS), misses.tables_probed as f64 / f64::from(ITEMS));
        assert!(hit >= 1.0);
        let runs: f64 =
            hits.levels.iter().map(|level| level.runs as f64 / 8f64.powi(level.level as i32)).sum();
        if filtered {
            assert!(hit < 1.01 && miss < 0.02, "{name}: {hit} per hit, {miss} per miss");
        } else {
            // Every run on the path is asked on a miss, about half of them on a hit.
            assert!((miss - runs).abs() < 0.15 * runs + 0.5, "{name}: {miss} per miss of {runs} runs");
            assert!(hit <= runs + 0.01, "{name}: {hit} per hit of {runs} runs");
        }
        let most = hits.levels.iter().skip(1).map(|level| level.max_runs_in_a_region).max().unwrap_or(0);
        assert_eq!(most > 1, stepped, "{name}");
        let bits = hits.index_bits_per_item + hits.filter_bits_per_item;
        match (filtered, name.ends_with("tl")) {
            // Small tables: their constants weigh more than their keys.
            (true, _) => assert!((10.0..80.0).contains(&bits), "{name}: {bits}"),
            (false, _) => assert!(bits < 20.0, "{name}: {bits}"),
        }
    }
}

#[test]
fn region_filters_are_kept_while_a_store_is_closed() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, small("sm+mlcf+tl"));
    fill(&items);
    settle(&db);
    let guided = |items: &Keyspace| items.stats().levels.iter().map(|level| level.filtered_runs).sum::<u64>();
    let before = guided(&items);
    assert!(before > 0);
    drop(items);
    db.close().unwrap();

    let db = open(&disk).unwrap();
    let items = create(&db, small("sm+mlcf+tl"));
    assert_eq!(guided(&items), before, "all filters are back");
    assert_eq!(db.stats().compaction_bytes_read, 0, "and no table was read for them");
    assert_eq!(read_all(&items).0.most_tables_probed_in_a_region, 1);
    drop(items);
    // A read-only store has them too.
    db.close().unwrap();
    let db = Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).unwrap();
    assert_eq!(guided(&db.get_keyspace("items").unwrap()), before);
}

#[test]
fn lost_or_damaged_region_filters_are_built_again() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, small("sm+mlcf+tl"));
    fill(&items);
    settle(&db);
    drop(items);
    db.close().unwrap();
    let names = siltstone::io::Disk::list(&disk, std::path::Path::new(DIR)).unwrap();
    let sidecars: Vec<_> = names.iter().filter(|name| name.ends_with(".sidecar")).collect();
    let [name] = sidecars[..] else { panic!("{names:?}") };
    let path = std::path::Path::new(DIR).join(name);
    let sound = disk.read_file(&path).unwrap();
    let mut rng = Rng::new(13);
    for damage in 0..40 {
        let disk = disk.crash(CrashMode::Kill, damage);
        let mut bytes = sound.clone();
        match damage {
            0 => bytes.clear(),
            1 => bytes.truncate(20),
            2 => bytes = rng.bytes(bytes.len()),
            _ => {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << rng.below(8);
            }
        }
        disk.write_file(&path, &bytes).unwrap();
        let reader = Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).unwrap();
        let report = reader.verify(&mut |_| {}).unwrap();
        assert_eq!(report.problems, Vec::<String>::new(), "damage {damage}");
        let [note] = &report.notes[..] else { panic!("damage {damage}: {:?}", report.notes) };
        assert!(
            note.contains(&format!("{name} is damaged at byte")) && note.contains("unaffected"),
            "{note}"
        );
        let db = open(&disk).unwrap();
        let items = create(&db, small("sm+mlcf+tl"));
        for number in (0..ITEMS).step_by(7) {
            assert!(items.get(key(number)).unwrap().is_some(), "damage {damage}, item {number}");
        }
        settle(&db);
        let stats = items.stats();
        let (runs, guided) = stats
            .levels
            .iter()
            .fold((0, 0), |(runs, guided), level| (runs + level.runs, guided + level.filtered_runs));
        assert_eq!(runs, guided, "damage {damage}");
        let report = db.verify(&mut |_| {}).unwrap();
        assert_eq!((report.problems, report.notes), (Vec::new(), Vec::new()));
        drop(items);
        db.close().unwrap();
        let reader = Db::open_read_only_on(Arc::new(disk), DIR, options()).unwrap();
        assert_eq!(reader.verify(&mut |_| {}).unwrap().notes, Vec::<String>::new());
    }
}

#[test]
fn snapshots_read_by_the_filters_of_their_time() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, tiny("slimdb"));
    let mut snapshots = Vec::new();
    for round in 0..12u8 {
        for number in 0..300 {
            items.put(key(number), [round]).unwrap();
        }
        snapshots.push((round, db.snapshot()));
        while round % 3 == 0 && db.step().unwrap() {}
    }
    settle(&db);
    for (round, snapshot) in snapshots {
        for number in 0..300 {
            let found = snapshot.get(&items, key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(&[round][..]), "item {number} in round {round}");
        }
    }
}

#[test]
fn a_store_without_memory_for_region_filters_answers_without_them() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, small("sm+mlcf+tl"));
    fill(&items);
    settle(&db);
    // Killed, the store has to make its region filters again; before it can, snapshots pin memtables that
    // take most of the budget of 1 MiB.
    let disk = disk.crash(CrashMode::Kill, 0);
    let db = open(&disk).unwrap();
    let design =
        Design { write_buffer: WriteBufferSpec::MemTable { bytes: 500 << 10 }, ..small("sm+mlcf+tl") };
    let big = KeyspaceOptions { schema: Schema::Point, design: Some(design), ..KeyspaceOptions::default() };
    let big = db.keyspace("big", big).unwrap();
    let mut snapshots = Vec::new();
    for number in 0..12u8 {
        big.put([number], [number; 80_000]).unwrap();
        snapshots.push(db.snapshot());
    }
    while db.step().unwrap() {}
    let items = create(&db, small("sm+mlcf+tl"));
    let (hits, _) = read_all(&items);
    let runs: u64 = hits.levels.iter().map(|level| level.runs).sum();
    let guided: u64 = hits.levels.iter().map(|level| level.filtered_runs).sum();
    assert!(guided < runs, "{guided} of {runs} runs are known to filters");
}
