//! What a keyspace is once a copy has taken its place: how many runs its level 0 has, and what time it is.

use super::used::*;
use crate::common::*;
use siltstone::events::{Event, Listeners};
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{Db, Design, Keyspace, KeyspaceOptions, Options, Schema};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// How long the engine waits for merges of a copy.
const LONGEST_MERGES: Duration = Duration::from_secs(30);

/// The most runs that level 0 has in a region where nothing is due, and one that is flushed at last.
fn most_runs(design: &Design) -> u64 {
    u64::from(design.levels[0].runs) * 3 / 2 + 1
}

fn runs_of_level_0(keyspace: &Keyspace) -> u64 {
    keyspace.stats().levels.first().map_or(0, |level| level.max_runs_in_a_region)
}

#[test]
fn a_copy_is_merged_as_its_design_has_it_before_it_takes_the_place() {
    for (number, preset) in ["stepped-merge", "siltstone", "leveled", "slimdb"].into_iter().enumerate() {
        let design = fitting(tiny(preset), HASHED);
        let mut used = Used::new(Schema::Point, design.clone(), false, number as u64);
        let keyspace = used.keyspace();
        used.use_it(&keyspace, 300, 3);
        keyspace.change_schema(HASHED, None).unwrap();
        while keyspace.stats().schema_change.unwrap().remaining_bytes == 0 {
            used.db().step().unwrap();
        }
        used.use_it(&keyspace, 2_000, 0);
        while keyspace.schema() == Schema::Point {
            used.db().step().unwrap();
        }
        let runs = runs_of_level_0(&keyspace);
        assert!(runs <= most_runs(&design), "{preset}: {runs} runs of level 0 after the change");
        used.check(&keyspace);
        used.check_reopened(keyspace);
    }
}

#[test]
fn what_had_expired_before_the_change_stays_so_whatever_the_system_says() {
    let disk = SimDisk::new();
    let db = durable(&disk);
    let items = db.create_keyspace("items", keyspace_options(Schema::Point, tiny("siltstone"))).unwrap();
    items.put_with_ttl(key_of(1), "1", Duration::from_secs(10)).unwrap();
    let before_ms = siltstone::io::Disk::now_ms(&disk);
    disk.advance_ms(60_000);
    items.change_schema(HASHED, None).unwrap();
    items.wait_for_schema().unwrap();
    let disk = disk.crash(CrashMode::PowerCut, 0);
    disk.set_now_ms(before_ms);
    let db = durable(&disk);
    assert_eq!(db.get_keyspace("items").unwrap().len().unwrap(), 0);
    assert!(db.clock_ms() >= before_ms + 60_000, "the item is gone, so its time has passed");
}

/// A store with threads merges the copy as well, beside a writer, and comes to an end.
#[test]
fn threads_merge_a_copy_before_it_takes_the_place() {
    const ITEMS: u64 = 30_000;
    let changing = Arc::new(Mutex::new(None::<Keyspace>));
    let (tell, told) = mpsc::channel();
    let looks_at = Arc::clone(&changing);
    let listeners = Listeners::default().with(Arc::new(move |event: &Event| {
        if let (Event::SchemaChanged(_), Some(keyspace)) = (event, &*looks_at.lock().unwrap()) {
            tell.send(runs_of_level_0(keyspace)).unwrap();
        }
    }));
    let options = Options { background_threads: 2, memory_budget_bytes: 16 << 20, listeners, ..options() };
    let db = Db::open_on(Arc::new(SimDisk::new()), DIR, options).unwrap();
    let design = siltstone::presets::siltstone().scaled_to(16 << 10);
    let made = KeyspaceOptions { schema: Schema::Point, design: Some(design.clone()), merge_operator: None };
    let keyspace = db.create_keyspace("items", made).unwrap();
    *changing.lock().unwrap() = Some(keyspace.clone());
    let put = |number: u64| keyspace.put(format!("g{}/{number:06}", number % 7), [1; 200]).unwrap();
    (0..ITEMS).for_each(put);
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let (put, is_over) = (&put, &is_over);
        let goes_on = move |_: &u64| !is_over.load(Ordering::Relaxed);
        scope.spawn(move || {
            for number in (0..).take_while(goes_on) {
                put(number % ITEMS);
                // Hundreds of write buffers at first, and then no more than the copy can follow.
                if number > ITEMS / 3 && number.is_multiple_of(10) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        keyspace.change_schema(Schema::delimited(b'/'), None).unwrap();
        keyspace.wait_for_schema().unwrap();
        is_over.store(true, Ordering::Relaxed);
    });
    let took = began.elapsed();
    let runs = told.recv_timeout(Duration::from_secs(20)).unwrap();
    *changing.lock().unwrap() = None;
    println!("{runs} of {} runs after {took:?}", most_runs(&design));
    if took < LONGEST_MERGES {
        assert!(runs <= most_runs(&design), "{runs} runs of level 0 at the change");
    } else {
        println!("the runs are not compared: merges may have been waited for in vain");
    }
    assert_eq!(keyspace.len().unwrap(), ITEMS);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

/// Whatever is merged when a change is cancelled, nothing of the copy is left.
#[test]
fn a_copy_that_is_cancelled_while_threads_merge_it_leaves_no_file() {
    const ITEMS: u64 = 8_000;
    let (disk, mut rng) = (SimDisk::new(), Rng::new(7));
    let options = Options { background_threads: 2, memory_budget_bytes: 16 << 20, ..options() };
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap();
    let design = siltstone::presets::siltstone().scaled_to(8 << 10);
    let made = KeyspaceOptions { schema: Schema::Point, design: Some(design), merge_operator: None };
    let keyspace = db.create_keyspace("items", made).unwrap();
    let put = |number: u64| keyspace.put(format!("g{}/{number:06}", number % 7), [1; 100]).unwrap();
    (0..ITEMS).for_each(put);
    let mut cancelled = 0;
    for _ in 0..if is_long() { 300 } else { 30 } {
        let next = if keyspace.schema() == Schema::Point { HASHED } else { Schema::Point };
        keyspace.change_schema(next, None).unwrap();
        (0..rng.range(1_000, ITEMS)).for_each(put);
        std::thread::sleep(Duration::from_micros(rng.below(3_000)));
        cancelled += u32::from(keyspace.cancel_schema_change().unwrap());
    }
    assert!(cancelled > 0);
    db.wait_until_idle().unwrap();
    assert_eq!(keyspace.len().unwrap(), ITEMS);
    let tables = || {
        let names = siltstone::io::Disk::list(&disk, DIR.as_ref()).unwrap();
        names.iter().filter(|name| name.ends_with(".table")).count() as u64
    };
    // The last files go once whoever read them has let go.
    for _ in 0..200 {
        if tables() == keyspace.stats().table_count {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        db.flush().unwrap();
    }
    assert_eq!(tables(), keyspace.stats().table_count, "{cancelled} changes were cancelled");
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}
