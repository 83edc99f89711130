//! Log stores on real files, around the system's page cache: what they answer, and what the kernel reads for
//! it.

use super::log_store::{create, with_entries};
use crate::common::{contents, numbered_key as key, numbered_value as value};
use siltstone::io::Disk;
use siltstone::io::direct::DirectDisk;
use siltstone::{Db, Keyspace, Options};

#[test]
fn a_log_is_read_around_the_page_cache_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let open =
        || Db::open(dir.path().join("db"), Options { direct_reads: true, ..Options::default() }).unwrap();
    let len = |number: u32| number as usize * 37 % 9000;
    let db = open();
    let items = create(&db, "items", with_entries(4096));
    for number in 0..500 {
        items.put(key(number), value(number, len(number))).unwrap();
    }
    let check = |items: &Keyspace| {
        let keys: Vec<_> = (0..500).map(key).collect();
        for (number, found) in (0..).zip(items.multi_get(&keys).unwrap()) {
            assert!(found == Some(value(number, len(number))), "{number}");
            assert_eq!(items.get(key(number)).unwrap(), found);
        }
        assert_eq!(contents(items).len(), 500);
        assert_eq!(items.stats().write_buffer_entries, 500);
    };
    check(&items);
    drop(items);
    db.close().unwrap();
    let db = open();
    check(&db.get_keyspace("items").unwrap());
}

/// A counter that the kernel keeps for this thread; `None` where it keeps none.
fn kernel_counts(name: &str) -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok())
}

#[test]
fn an_item_is_read_from_the_device_in_one_read_before_and_after_a_reopening() {
    const ITEMS: u32 = 3000;
    const MORE: u32 = 8;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    // Synced when it is asked for, and at no other time.
    let options = Options { direct_reads: true, sync_interval_ms: 0, ..Options::default() };
    let is_direct = {
        let file = DirectDisk::default().create(&dir.path().join("probe")).unwrap();
        file.write_all_at(&[0; 4096], 0).unwrap();
        file.sync().unwrap();
        file.as_direct_fd(0, 4096).is_some()
    };
    let reads = |items: &Keyspace, when: &str| {
        let (before, calls, bytes) = (items.stats(), kernel_counts("syscr"), kernel_counts("read_bytes"));
        for number in 0..ITEMS {
            assert_eq!(items.get(key(number)).unwrap(), Some(value(number, 1000)));
        }
        let per_get = |count: u64| count as f64 / f64::from(ITEMS);
        let counted = per_get(items.stats().device_reads_by_hits - before.device_reads_by_hits);
        assert!((1.0..=1.001).contains(&counted), "{when}: {counted} reads per get");
        if let (Some(was), Some(is)) = (calls, kernel_counts("syscr")) {
            let calls = per_get(is - was);
            println!("{when}: {counted:.4} reads per get, {calls:.4} calls");
            assert!((1.0..=1.01).contains(&calls), "{when}: {calls} calls per get");
        }
        // However often it is asked for: an item of 1,020 bytes and its write buffer cross a page's end one
        // time in four.
        if let (Some(was), Some(is), true) = (bytes, kernel_counts("read_bytes"), is_direct) {
            let pages = per_get(is - was) / 4096.0;
            println!("{when}: {pages:.3} pages from the device per get");
            assert!((1.2..=1.3).contains(&pages), "{when}: {pages} pages per get");
        }
        let keys: Vec<_> = (0..ITEMS).map(key).collect();
        let bytes = kernel_counts("read_bytes");
        for (number, keys) in (0..).step_by(100).zip(keys.chunks(100)) {
            for (number, found) in (number..).zip(items.multi_get(keys).unwrap()) {
                assert_eq!(found, Some(value(number, 1000)));
            }
        }
        if let (Some(was), Some(is), true) = (bytes, kernel_counts("read_bytes"), is_direct) {
            let pages = per_get(is - was) / 4096.0;
            println!("{when}: {pages:.3} pages per get of a hundred");
            assert!((1.2..=1.3).contains(&pages), "{when}: {pages} pages per get of a hundred");
        }
    };
    let db = Db::open(&path, options.clone()).unwrap();
    let items = create(&db, "items", with_entries(1 << 13));
    // The page that the log ends in stays in memory, so a few more are written than are asked for.
    for number in 0..ITEMS + MORE {
        items.put(key(number), value(number, 1000)).unwrap();
    }
    db.sync().unwrap();
    reads(&items, "as written");
    drop(items);
    db.close().unwrap();
    let db = Db::open(&path, options).unwrap();
    let items = db.get_keyspace("items").unwrap();
    assert_eq!(items.stats().write_buffer_entries, u64::from(ITEMS + MORE));
    reads(&items, "replayed");
}
