//! What LSM-trie's structures promise within the engine, counted: reads per get with filters in memory and
//! with clusters on the device, sidecars that survive closing, crashes and damage without changing an answer,
//! and parallel search in all its forms.

use crate::common::{DIR, Rng, options};
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{
    Db, Design, Format, IndexSpec, Keyspace, KeyspaceOptions, KeyspaceStats, Options, ParallelSearch, Schema,
    presets,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const ITEMS: u32 = 24_000;

fn key(number: u32) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&u64::from(number).to_be_bytes());
    key
}

/// LSM-trie with tables of 16 KiB, fan-out 4 and regions of 4: five levels of 24 K items.
fn small() -> Design {
    let mut design = presets::lsm_trie_with(16 << 10);
    for (number, level) in design.levels.iter_mut().enumerate() {
        level.fanout_bits = if number == 0 { 0 } else { 1 };
        level.runs = if number == 4 { 16 } else { 4 };
    }
    design.check().unwrap();
    design
}

fn roomy() -> Options {
    Options { memory_budget_bytes: 8 << 20, default_design: small(), ..options() }
}

fn open_with(disk: &SimDisk, options: Options) -> (Db, Keyspace) {
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap();
    let items =
        KeyspaceOptions { schema: Schema::Point, design: Some(small()), ..KeyspaceOptions::default() };
    let items = db.keyspace("items", items).unwrap();
    (db, items)
}

fn settle(db: &Db) {
    db.flush().unwrap();
    while db.step().unwrap() {}
}

fn fill(items: &Keyspace) {
    for number in 0..ITEMS {
        items.put(key(number), [number as u8; 100]).unwrap();
    }
}

/// Stats of reading some items, and then as many that are not there.
fn read(items: &Keyspace) -> KeyspaceStats {
    let before = items.stats();
    for number in (0..ITEMS).step_by(5) {
        assert_eq!(items.get(key(number)).unwrap().as_deref(), Some(&[number as u8; 100][..]));
    }
    for number in (ITEMS..2 * ITEMS).step_by(5) {
        assert_eq!(items.get(key(number)).unwrap(), None);
    }
    let mut after = items.stats();
    after.gets -= before.gets;
    after.device_reads_by_hits -= before.device_reads_by_hits;
    after.device_reads_by_misses -= before.device_reads_by_misses;
    after
}

/// The sidecars in `dir`.
fn sidecars(disk: &SimDisk, dir: &str) -> Vec<String> {
    use siltstone::io::Disk;
    let names = disk.list(Path::new(dir)).unwrap_or_default();
    names.into_iter().filter(|name| name.ends_with(".sidecar")).collect()
}

/// Those of them that have pages: each holds the cluster of a region.
fn clusters(disk: &SimDisk, dir: &str) -> Vec<String> {
    let has_pages = |name: &String| {
        let bytes = disk.read_file(Path::new(dir).join(name)).unwrap_or_default();
        bytes.get(12..16).is_some_and(|pages| pages != [0; 4])
    };
    sidecars(disk, dir).into_iter().filter(has_pages).collect()
}

#[test]
fn items_take_a_read_above_and_two_in_the_last_level() {
    let disk = SimDisk::new();
    let (db, items) = open_with(&disk, roomy());
    fill(&items);
    settle(&db);
    let levels = items.stats().levels;
    assert!(levels.len() >= 5);
    let below = levels[4..].iter().map(|level| level.entries).sum::<u64>() as f64 / f64::from(ITEMS);
    assert!(below > 0.5, "{below} of the items are in the last level");
    assert!(!clusters(&disk, DIR).is_empty());
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    drop((items, db));
    // A cache of hardly a page: what is read counts.
    let (db, items) = open_with(&disk, Options { memory_budget_bytes: 1 << 20, ..roomy() });
    settle(&db);
    let stats = read(&items);
    let hits = f64::from(ITEMS / 5);
    let (per_hit, per_miss) =
        (stats.device_reads_by_hits as f64 / hits, stats.device_reads_by_misses as f64 / hits);
    assert!(per_hit <= 2.02, "{per_hit} reads a hit");
    assert!(per_miss <= 1.05, "{per_miss} reads a miss");
}

#[test]
fn clusters_are_found_again_and_made_again_where_they_are_damaged() {
    let disk = SimDisk::new();
    let (db, items) = open_with(&disk, roomy());
    fill(&items);
    settle(&db);
    let expected = read(&items);
    drop(items);
    db.close().unwrap();
    let files = clusters(&disk, DIR);
    let mut rng = Rng::new(5);
    for damage in 0..12u64 {
        let disk = disk.crash(CrashMode::Kill, damage);
        for name in &files {
            let path = Path::new(DIR).join(name);
            let mut bytes = disk.read_file(&path).unwrap();
            match damage {
                0 => {}
                1 => bytes.clear(),
                2 => bytes.truncate(bytes.len() - 100),
                3 => bytes = rng.bytes(bytes.len()),
                // In the middle of the boxes.
                4 => bytes[5000..].fill(0xff),
                _ => {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << rng.below(8);
                }
            }
            disk.write_file(&path, &bytes).unwrap();
        }
        let (db, items) = open_with(&disk, roomy());
        let _ = read(&items);
        settle(&db);
        let stats = read(&items);
        assert!(
            stats.tables_probed < expected.tables_probed * 2 + u64::from(ITEMS) * 40,
            "damage {damage}: {} tables",
            stats.tables_probed
        );
        settle(&db);
        let report = db.verify(&mut |_| {}).unwrap();
        assert_eq!((report.problems, report.notes), (Vec::new(), Vec::new()), "damage {damage}");
        assert!(!clusters(&disk, DIR).is_empty());
        // Whatever was damaged and used has been written anew; nothing is left behind.
        drop(items);
        db.close().unwrap();
        let (db, items) = open_with(&disk, roomy());
        settle(&db);
        let _ = read(&items);
        assert!(clusters(&disk, DIR).len() <= files.len() + 1, "damage {damage}");
    }
}

#[test]
fn damaged_clusters_are_noted_and_mended_before_any_get() {
    let disk = SimDisk::new();
    let (db, items) = open_with(&disk, roomy());
    fill(&items);
    settle(&db);
    let sound = db.verify(&mut |_| {}).unwrap();
    let expected = read(&items);
    drop(items);
    db.close().unwrap();
    let files = clusters(&disk, DIR);
    let bytes = |name: &String| disk.read_file(Path::new(DIR).join(name)).unwrap().len() as u64;
    assert_eq!(
        (sound.sidecars, sound.sidecar_bytes),
        (files.len() as u64, files.iter().map(bytes).sum::<u64>())
    );
    for damage in ["zeros", "cut short", "removed", "a page", "the header", "empty"] {
        let disk = disk.crash(CrashMode::Kill, 1);
        let (first, others) = files.split_first().unwrap();
        let path = Path::new(DIR).join(first);
        let mut bytes = disk.read_file(&path).unwrap();
        let length = bytes.len();
        match damage {
            "zeros" => bytes.fill(0),
            "cut short" => bytes.truncate(length - 5000),
            "a page" => bytes[4096 + 2000] ^= 4,
            "the header" => bytes[60] ^= 1,
            "empty" => bytes.clear(),
            _ => {}
        }
        if damage == "removed" {
            siltstone::io::Disk::remove(&disk, &path).unwrap();
        } else {
            disk.write_file(&path, &bytes).unwrap();
        }
        let reader = Db::open_read_only_on(Arc::new(disk.clone()), DIR, roomy()).unwrap();
        for _ in 0..2 {
            let report = reader.verify(&mut |_| {}).unwrap();
            assert_eq!(report.problems, Vec::<String>::new(), "{damage}");
            let notes = report.notes.join("\n");
            assert!(notes.contains("answers are unaffected"), "{damage}: {notes}");
            assert!(damage == "removed" || notes.contains(first.as_str()), "{damage}: {notes}");
            assert!(others.iter().all(|name| !notes.contains(name.as_str())), "{damage}: {notes}");
        }
        assert_eq!(read(&reader.get_keyspace("items").unwrap()).gets, expected.gets);
        // Without a single get, work in the background mends it.
        let (db, items) = open_with(&disk, roomy());
        while db.step().unwrap() {}
        let report = db.verify(&mut |_| {}).unwrap();
        assert_eq!((report.problems, report.notes), (Vec::new(), Vec::new()), "{damage}");
        assert_eq!(
            (report.sidecars, report.sidecar_bytes),
            (sound.sidecars, sound.sidecar_bytes),
            "{damage}"
        );
        let stats = read(&items);
        assert!(stats.tables_probed <= expected.tables_probed * 101 / 100, "{damage}: {stats:?}");
        drop(items);
        db.close().unwrap();
        let reader = Db::open_read_only_on(Arc::new(disk.clone()), DIR, roomy()).unwrap();
        assert_eq!(reader.verify(&mut |_| {}).unwrap().notes, Vec::<String>::new(), "{damage}");
    }
}

#[test]
fn rows_in_memory_are_kept_when_the_store_is_closed() {
    let disk = SimDisk::new();
    let (db, items) = open_with(&disk, roomy());
    fill(&items);
    db.flush().unwrap();
    // Compaction is done, and the last rows are in memory: only with time to spare they would be written.
    let misses = |items: &Keyspace| {
        let before = items.stats().tables_probed;
        for number in ITEMS..2 * ITEMS {
            assert_eq!(items.get(key(number)).unwrap(), None);
        }
        items.stats().tables_probed - before
    };
    let probed = misses(&items);
    drop(items);
    db.close().unwrap();
    let without = disk.crash(CrashMode::Kill, 2);
    for name in sidecars(&without, DIR).iter().filter(|name| !clusters(&without, DIR).contains(name)) {
        siltstone::io::Disk::remove(&without, &Path::new(DIR).join(name)).unwrap();
    }

    let (db, items) = open_with(&disk, roomy());
    assert_eq!(misses(&items), probed);
    assert_eq!(db.verify(&mut |_| {}).unwrap().notes, Vec::<String>::new());
    drop((db, items));
    // That they had to be kept: without them more tables are asked.
    let (_db, items) = open_with(&without, roomy());
    assert!(misses(&items) > probed + u64::from(ITEMS) / 10);
}

/// The cluster files of each store that has a directory below `/metadata`.
fn elsewhere(disk: &SimDisk) -> BTreeMap<String, Vec<String>> {
    use siltstone::io::Disk;
    let dirs = disk.list(Path::new("/metadata")).unwrap_or_default();
    dirs.into_iter().map(|dir| (dir.clone(), clusters(disk, &format!("/metadata/{dir}")))).collect()
}

fn with_metadata() -> Options {
    Options { metadata_dir: Some("/metadata".into()), ..roomy() }
}

/// Opens the store in `dir`, writes items of `numbers` with `value`, settles and closes it.
fn write_at(disk: &SimDisk, dir: &str, options: &Options, numbers: Range<u32>, value: u8) {
    let db = Db::open_on(Arc::new(disk.clone()), dir, options.clone()).unwrap();
    let items =
        KeyspaceOptions { schema: Schema::Point, design: Some(small()), ..KeyspaceOptions::default() };
    let items = db.keyspace("items", items).unwrap();
    for number in numbers {
        items.put(key(number), [value; 100]).unwrap();
    }
    settle(&db);
    drop(items);
    db.close().unwrap();
}

/// Checks that the store in `dir` is sound and holds `[value; 100]` for each of `numbers`, and nothing of
/// `absent`.
fn check_at(
    disk: &SimDisk,
    dir: &str,
    options: &Options,
    (numbers, value): (Range<u32>, u8),
    absent: Range<u32>,
) {
    let db = Db::open_on(Arc::new(disk.clone()), dir, options.clone()).unwrap();
    let items = db.get_keyspace("items").unwrap();
    for number in numbers {
        assert_eq!(items.get(key(number)).unwrap(), Some(vec![value; 100]), "{dir}: item {number}");
    }
    for number in absent {
        assert_eq!(items.get(key(number)).unwrap(), None, "{dir}: item {number}");
    }
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    drop(items);
    db.close().unwrap();
}

/// Puts the files of `from` into `to`, and no others.
fn copy(disk: &SimDisk, from: &SimDisk, to: &str) {
    use siltstone::io::Disk;
    disk.create_dir_all(Path::new(to)).unwrap();
    for name in disk.list(Path::new(to)).unwrap() {
        disk.remove(&Path::new(to).join(name)).unwrap();
    }
    for name in from.list(Path::new(DIR)).unwrap() {
        let bytes = from.read_file(format!("{DIR}/{name}")).unwrap();
        disk.write_file(format!("{to}/{name}"), &bytes).unwrap();
    }
}

#[test]
fn clusters_may_lie_in_a_directory_of_their_own() {
    let disk = SimDisk::new();
    let (db, items) = open_with(&disk, with_metadata());
    fill(&items);
    settle(&db);
    assert!(sidecars(&disk, DIR).is_empty());
    let files = elsewhere(&disk);
    assert_eq!(files.len(), 1);
    let (dir, files) = files.into_iter().next().unwrap();
    assert!(!files.is_empty());
    // What lies beside the store's directory is none of its business.
    disk.write_file(Path::new("/metadata/99999999.sidecar"), b"not a sidecar").unwrap();
    db.checkpoint("/copy").unwrap();
    drop(items);
    db.close().unwrap();
    let (db, items) = open_with(&disk, with_metadata());
    let _ = read(&items);
    assert!(clusters(&disk, &format!("/metadata/{dir}")).len() > files.len() / 2);
    assert_eq!(sidecars(&disk, "/metadata"), ["99999999.sidecar"]);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    let read_only = Db::open_read_only_on(Arc::new(disk.clone()), DIR, with_metadata()).unwrap();
    assert!(read_only.verify(&mut |_| {}).unwrap().sidecars > 0);
    let copy = Db::open_on(Arc::new(disk.clone()), "/copy", roomy()).unwrap();
    let _ = read(&copy.get_keyspace("items").unwrap());
}

#[test]
fn a_copy_takes_a_directory_of_clusters_of_its_own() {
    let disk = SimDisk::new();
    let options = with_metadata();
    write_at(&disk, DIR, &options, 0..ITEMS, 1);
    copy(&disk, &disk, "/copy");
    let before = elsewhere(&disk);
    assert!(before.len() == 1 && before.values().all(|files| !files.is_empty()));
    // Both give the same numbers to other runs.
    write_at(&disk, "/copy", &options, ITEMS..2 * ITEMS, 2);
    let between = elsewhere(&disk);
    assert_eq!(between.len(), 2);
    assert!(before.iter().all(|(dir, files)| between[dir] == *files), "the original's files are gone");
    write_at(&disk, DIR, &options, 2 * ITEMS..3 * ITEMS, 3);
    assert_eq!(elsewhere(&disk).len(), 2);
    for _ in 0..2 {
        check_at(&disk, "/copy", &options, (ITEMS..2 * ITEMS, 2), 2 * ITEMS..3 * ITEMS);
        check_at(&disk, DIR, &options, (2 * ITEMS..3 * ITEMS, 3), ITEMS..2 * ITEMS);
    }
}

#[test]
fn clusters_of_a_later_time_do_not_mislead_an_older_copy_put_back() {
    let disk = SimDisk::new();
    let options = with_metadata();
    write_at(&disk, DIR, &options, 0..ITEMS / 2, 1);
    let older = disk.crash(CrashMode::Kill, 0);
    write_at(&disk, DIR, &options, ITEMS / 2..2 * ITEMS, 1);
    copy(&disk, &older, DIR);
    // Runs get numbers that files below /metadata have for others, which nobody sees now.
    write_at(&disk, DIR, &roomy(), 2 * ITEMS..3 * ITEMS, 2);
    check_at(&disk, DIR, &options, (2 * ITEMS..3 * ITEMS, 2), ITEMS / 2..2 * ITEMS);
    // The same where the directory is known all the time: numbers begin beyond those of its files.
    copy(&disk, &older, DIR);
    write_at(&disk, DIR, &options, 2 * ITEMS..3 * ITEMS, 3);
    check_at(&disk, DIR, &options, (2 * ITEMS..3 * ITEMS, 3), ITEMS / 2..2 * ITEMS);
}

#[test]
fn a_directory_named_like_a_sidecar_is_passed_over() {
    use siltstone::io::Disk;
    let disk = SimDisk::new();
    write_at(&disk, DIR, &roomy(), 0..ITEMS, 1);
    let before = clusters(&disk, DIR).len();
    for name in ["00000007.sidecar", "7.sidecar", "9223372036854775807.sidecar"] {
        disk.create_dir_all(&Path::new(DIR).join(name)).unwrap();
    }
    let (db, items) = open_with(&disk, roomy());
    let report = db.verify(&mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(report.sidecars as usize + 2 >= before, "{} of {before} files", report.sidecars);
    drop(items);
    db.close().unwrap();
    let read_only = Db::open_read_only_on(Arc::new(disk.clone()), DIR, roomy()).unwrap();
    let notes = read_only.verify(&mut |_| {}).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("00000007.sidecar is a directory")), "{notes:?}");
    drop(read_only);
    // New files get numbers as before.
    write_at(&disk, DIR, &roomy(), 0..ITEMS, 2);
    check_at(&disk, DIR, &roomy(), (0..ITEMS, 2), ITEMS..2 * ITEMS);
    assert!(sidecars(&disk, DIR).iter().all(|name| name.len() < 20 || name.starts_with("92233")));
}

#[test]
fn every_form_of_parallel_search_answers_alike() {
    let disk = SimDisk::new();
    let (db, items) = open_with(&disk, roomy());
    fill(&items);
    settle(&db);
    // Some items deleted, some written again: what is above hides what is below.
    for number in (0..ITEMS).step_by(7) {
        items.delete(key(number)).unwrap();
    }
    for number in (0..ITEMS).step_by(11) {
        items.put(key(number), b"new").unwrap();
    }
    settle(&db);
    drop(items);
    db.close().unwrap();
    let modes =
        [ParallelSearch::Serial, ParallelSearch::Learned, ParallelSearch::Always, ParallelSearch::TwoThreads];
    for (parallel_search, filters) in modes.into_iter().flat_map(|mode| [(mode, true), (mode, false)]) {
        let disk = disk.crash(CrashMode::Kill, 3);
        // Without filters of the upper levels in memory: 1 MiB holds little.
        let memory_budget_bytes = if filters { 8 << 20 } else { 1 << 20 };
        let background_threads = usize::from(parallel_search == ParallelSearch::TwoThreads);
        let options = Options { parallel_search, memory_budget_bytes, background_threads, ..roomy() };
        let (db, items) = open_with(&disk, options);
        if background_threads == 0 {
            settle(&db);
        }
        for number in 0..ITEMS + 500 {
            let expected = match number {
                ITEMS.. => None,
                _ if number % 11 == 0 => Some(b"new".to_vec()),
                _ if number % 7 == 0 => None,
                _ => Some(vec![number as u8; 100]),
            };
            assert_eq!(items.get(key(number)).unwrap(), expected, "{parallel_search:?}, item {number}");
        }
        let stats = items.stats();
        assert!(stats.asked_wasted <= stats.asked_ahead);
        match parallel_search {
            ParallelSearch::Serial => assert_eq!(stats.asked_ahead, 0),
            ParallelSearch::Always if !filters => assert!(stats.asked_ahead > 0),
            // Where upper filters are in memory, what is read above is mostly there.
            ParallelSearch::Learned if filters => assert!(stats.asked_ahead < 200, "{}", stats.asked_ahead),
            _ => {}
        }
        drop(items);
        db.close().unwrap();
    }
}

#[test]
fn hash_tables_may_lie_above_block_tables() {
    let disk = SimDisk::new();
    let mut design = small();
    for level in &mut design.levels[2..] {
        (level.format, level.index) = (Format::Block, IndexSpec::Separators);
    }
    let db = Db::open_on(Arc::new(disk.clone()), DIR, roomy()).unwrap();
    let mixed = KeyspaceOptions { schema: Schema::Point, design: Some(design), ..KeyspaceOptions::default() };
    let items = db.keyspace("items", mixed).unwrap();
    fill(&items);
    settle(&db);
    let _ = read(&items);
    assert_eq!(items.iter().unwrap().count(), ITEMS as usize);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

/// Most bytes that the budget's accounts ever showed while a store of `design` was filled and read, with work
/// in threads or not.
fn most_memory(design: &Design, memory_budget_bytes: u64, value_bytes: usize, threads: usize) -> u64 {
    let disk = SimDisk::new();
    let options = Options { memory_budget_bytes, background_threads: threads, ..options() };
    let db = Db::open_on(Arc::new(disk), DIR, options).unwrap();
    let create = |name: &str| {
        let keyspace = KeyspaceOptions {
            schema: Schema::Point,
            design: Some(design.clone()),
            ..KeyspaceOptions::default()
        };
        db.keyspace(name, keyspace).unwrap()
    };
    let keyspaces = [create("one"), create("two")];
    let mut most = 0;
    for number in 0..ITEMS {
        let items = &keyspaces[usize::from(number % 3 == 0)];
        items.put(key(number), vec![number as u8; value_bytes]).unwrap();
        let _ = items.get(key(number / 2)).unwrap();
        if number % 16 == 0 {
            most = most.max(db.stats().memory.total);
        }
        while threads == 0 && number % 64 == 0 && db.step().unwrap() {
            most = most.max(db.stats().memory.total);
        }
    }
    most
}

#[test]
fn memory_stays_within_tiny_budgets() {
    // Sixteen pages are always cached, and a memtable grows by as much as its writes.
    let slack = 160 << 10;
    for (name, design) in presets::all() {
        // Memtables of 512 KiB in a budget that two of them fill by their keys and values alone.
        let design = design.scaled_to(if name == "silt" { 128 << 10 } else { 512 << 10 });
        for (value_bytes, threads) in [(100, 0), (10, 0), (100, 1)] {
            let budget = 2 << 20;
            let most = most_memory(&design, budget, value_bytes, threads);
            println!("{name}, values of {value_bytes} bytes, {threads} threads: {most} bytes");
            assert!(most <= budget + slack, "{name}, {value_bytes}, {threads}: {most} of {budget}");
            assert!(most > budget / 4, "{name}: {most}");
        }
    }
}

#[test]
fn a_budget_too_small_is_refused_before_anything_is_made() {
    let disk = SimDisk::new();
    let options = Options { memory_budget_bytes: 3 << 20, ..options() };
    let design = |bytes| {
        let design = Some(presets::lsm_trie().scaled_to(bytes));
        KeyspaceOptions { schema: Schema::Point, design, ..KeyspaceOptions::default() }
    };
    let refused = options.check_keyspace(&design(2 << 20)).unwrap_err();
    assert!(refused.to_string().contains("memory_budget_bytes"), "{refused}");
    options.check_keyspace(&design(1 << 20)).unwrap();
    let db = Db::open_on(Arc::new(disk), DIR, options).unwrap();
    let before = db.keyspaces();
    let error = db.keyspace("items", design(2 << 20)).unwrap_err().to_string();
    assert_eq!(error, format!("keyspace \"items\": {refused}"));
    assert_eq!(db.keyspaces(), before);
    db.keyspace("items", design(1 << 20)).unwrap();
}
