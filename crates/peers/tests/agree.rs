//! Every engine that is there, beside a `BTreeMap`: the same items in, the same items out, before and after
//! reopening. An engine whose library is missing says so and is passed over.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use siltstone_lab::kit::generate::items::{GROUP_PREFIX_BYTES, Items};
use siltstone_peers::engine::{Engine, Memory, Setting, Store};
use std::collections::BTreeMap;
use std::path::Path;

const COUNT: u64 = 3_000;
const GROUP: u64 = 37;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(engine: &Engine, dir: &Path) -> Box<dyn Store> {
    let setting =
        Setting { dir, memory: Memory { cap_bytes: 128 << 20 }, user_bytes: COUNT * 116, only_reads: false };
    engine.open(setting).unwrap_or_else(|why| panic!("{}: {why}", engine.name))
}

/// Writes random items in batches of random size, some of them again.
fn write(store: &dyn Store, model: &mut Model, items: &Items, rng: &mut SmallRng, calls: usize) {
    for call in 0..calls {
        let size = if call % 5 == 0 { 1 } else { rng.random_range(2..80) };
        let mut batch = BTreeMap::new();
        for _ in 0..size {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            let item = rng.random_range(0..COUNT);
            items.key(item, &mut key);
            items.value(item, rng.random(), &mut value);
            batch.insert(key, value);
        }
        model.extend(batch.clone());
        let batch: Vec<_> = batch.into_iter().collect();
        store.write(&batch).unwrap();
    }
}

fn compare(name: &str, store: &dyn Store, model: &Model, items: &Items) {
    let mut value = Vec::new();
    for item in 0..COUNT {
        let mut key = Vec::new();
        items.key(item, &mut key);
        let found = store.get(&key, &mut value).unwrap();
        assert_eq!(found.then_some(&value), model.get(&key), "{name}: item {item}");
        items.missing_key(item, &mut key);
        assert!(!store.get(&key, &mut value).unwrap(), "{name}: a key that is not there, {item}");
    }
    let mut keys = vec![Vec::new(); 100];
    for item in 0..50 {
        items.key(item * 7, &mut keys[item as usize * 2]);
        items.missing_key(item * 7, &mut keys[item as usize * 2 + 1]);
    }
    let mut found = vec![Some(b"from before".to_vec()); keys.len()];
    store.get_many(&keys, &mut found).unwrap();
    let expected: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
    assert_eq!(found, expected, "{name}: many keys");
    // One group more than there are: nothing is found of it.
    for group in 0..=items.groups(COUNT) {
        let mut prefix = Vec::new();
        items.prefix(group, &mut prefix);
        assert_eq!(prefix.len(), GROUP_PREFIX_BYTES);
        let mut found = Vec::new();
        store.scan(&prefix, &mut |key, value| found.push((key.to_vec(), value.to_vec()))).unwrap();
        let expected: Vec<_> = model
            .range(prefix.clone()..)
            .take_while(|(key, _)| key.starts_with(&prefix))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        assert_eq!(found, expected, "{name}: group {group}");
    }
}

#[test]
fn every_engine_agrees_with_a_map() {
    let items = Items::new(16, 100, GROUP, 7, COUNT).unwrap();
    let mut there = 0;
    for engine in Engine::all() {
        if let Err(why) = engine.version() {
            eprintln!("{}: not tested, library {why}", engine.name);
            continue;
        }
        there += 1;
        let dir = tempfile::tempdir().unwrap();
        let mut model = Model::new();
        let mut rng = SmallRng::seed_from_u64(3);
        let store = open(&engine, dir.path());
        compare(&engine.name, store.as_ref(), &model, &items);
        write(store.as_ref(), &mut model, &items, &mut rng, 60);
        compare(&engine.name, store.as_ref(), &model, &items);
        store.settle().unwrap();
        write(store.as_ref(), &mut model, &items, &mut rng, 20);
        compare(&engine.name, store.as_ref(), &model, &items);
        store.close().unwrap();
        let store = open(&engine, dir.path());
        compare(&engine.name, store.as_ref(), &model, &items);
        store.settle().unwrap();
        compare(&engine.name, store.as_ref(), &model, &items);
        store.close().unwrap();
    }
    // Siltstone's presets, and the three that come as crates.
    assert!(there >= 6, "only {there} engines");
}

#[test]
fn a_store_that_cannot_be_opened_says_why() {
    for engine in Engine::all().into_iter().filter(|engine| engine.version().is_ok()) {
        let dir = tempfile::tempdir().unwrap();
        // A file where a directory should be.
        let path = dir.path().join("store");
        std::fs::write(&path, b"not a directory").unwrap();
        let setting =
            Setting { dir: &path, memory: Memory { cap_bytes: 128 << 20 }, user_bytes: 1, only_reads: false };
        let Err(why) = engine.open(setting) else { panic!("{} opened a file", engine.name) };
        assert!(why.to_string().len() > 10, "{}: {why}", engine.name);
    }
}

#[test]
fn engines_are_read_and_written_from_many_threads() {
    let items = Items::new(16, 100, GROUP, 7, COUNT).unwrap();
    for engine in Engine::all().into_iter().filter(|engine| engine.version().is_ok()) {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&engine, dir.path());
        let (store, name) = (store.as_ref(), engine.name.as_str());
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let items = &items;
                scope.spawn(move || {
                    let (mut key, mut value, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
                    for item in (0..600).map(|at| at * 3 + thread) {
                        items.key(item, &mut key);
                        items.value(item, thread, &mut value);
                        store.write(&[(key.clone(), value.clone())]).unwrap();
                        assert!(store.get(&key, &mut value).unwrap(), "{name}");
                        assert!(items.is_value_of(item, &value, &mut scratch), "{name}");
                    }
                });
            }
        });
    }
}

#[test]
fn reads_that_go_to_the_device_are_counted_where_the_engine_says_it_counts() {
    let items = Items::new(16, 100, GROUP, 7, COUNT).unwrap();
    for engine in Engine::all().into_iter().filter(|engine| engine.version().is_ok()) {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&engine, dir.path());
        write(store.as_ref(), &mut Model::new(), &items, &mut SmallRng::seed_from_u64(1), 80);
        store.settle().unwrap();
        store.close().unwrap();
        let store = open(&engine, dir.path());
        let Some(before) = store.device_reads() else { continue };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for item in 0..COUNT {
            items.key(item, &mut key);
            store.get(&key, &mut value).unwrap();
        }
        let reads = store.device_reads().unwrap() - before;
        // 3,000 items fill about 90 pages of 4 KiB, each read once into a cache that has room for all.
        assert!((20..1_000).contains(&reads), "{}: {reads} reads", engine.name);
    }
}
