//! When rounds are brought to a copy whose merges are waited for, and when it waits no longer.

use super::work::{Caught, Work};
use super::{Copier, LOOK, PATIENT_ROUNDS, Stepped};
use crate::io::sim::SimDisk;
use crate::{Db, Keyspace, KeyspaceOptions, Options};
use siltstone_design::{Design, Schema, WriteBufferSpec, presets};
use std::sync::Arc;
use std::time::Duration;

fn store_of_items() -> (Db, Keyspace) {
    let options = Options { background_threads: 1, memory_budget_bytes: 16 << 20, ..Options::default() };
    let db = Db::open_on(Arc::new(SimDisk::new()), "/db", options).unwrap();
    let write_buffer = WriteBufferSpec::MemTable { bytes: 256 << 10 };
    let design = Some(Design { write_buffer, ..presets::siltstone() });
    let made = KeyspaceOptions { schema: Schema::Point, design, ..KeyspaceOptions::default() };
    let items = db.create_keyspace("items", made).unwrap();
    (db, items)
}

/// Writes to a copy that nobody merges meanwhile until its merges are waited for.
fn leave_unmerged(copier: &Copier, work: &mut Work, items: &Keyspace) {
    while copier.scheduler.is_merged(&work.copy) {
        items.put("a/1", "1").unwrap();
        let next = copier.next_moment(&work.old).unwrap();
        assert_eq!(copier.catch_up(work, next, None).unwrap(), Caught::Up);
    }
    work.rounds = 0;
}

/// Else each would make a small run, sooner than the runs before it are merged.
#[test]
fn rounds_come_a_write_buffer_apart_while_merges_are_waited_for() {
    let (db, items) = store_of_items();
    items.put("a/0", "0").unwrap();
    let (copier, scheduler) = (&db.store.copier, &db.store.scheduler);
    // The store's own thread does nothing meanwhile.
    let place = copier.work.lock();
    items.change_schema(Schema::delimited(b'/'), None).unwrap();
    let mut work = copier.begin().unwrap().0.unwrap();
    let copy = Arc::clone(&work.copy);
    let held = scheduler.hold_briefly(&copy).unwrap();
    leave_unmerged(copier, &mut work, &items);
    let runs = copy.version().tables().count();
    let mut waited = 0;
    let mut work = loop {
        items.put("a/2", [2; 20 << 10]).unwrap();
        let (gone_on, stepped) = copier.go_on(work).unwrap();
        work = gone_on.unwrap();
        if stepped == Stepped::Worked {
            break work;
        }
        assert_eq!((stepped, copy.version().tables().count()), (Stepped::Waits, runs));
        waited += 1;
    };
    assert!((11..14).contains(&waited), "a round after {waited} writes of 20 KiB");
    assert_eq!((work.rounds, work.unmerged.is_some()), (0, true));
    drop(held);
    while !scheduler.is_merged(&copy) {
        copier.env.signals.wait_for_progress(LOOK);
    }
    assert!(!copier.waits_for_merges(&mut work) && work.unmerged.is_none(), "the next wait is as long");
    drop(work);
    drop(place);
    items.wait_for_schema().unwrap();
    assert_eq!(items.prefix("a/").unwrap().count(), 3);
}

/// Writers as fast as the copy, which is never merged: rounds come to an end all the same.
#[test]
fn what_is_written_meanwhile_may_be_more_with_each_round_once_merges_have_had_their_time() {
    let (db, items) = store_of_items();
    items.put("a/0", "0").unwrap();
    let copier = &db.store.copier;
    let place = copier.work.lock();
    items.change_schema(Schema::delimited(b'/'), None).unwrap();
    let mut work = copier.begin().unwrap().0.unwrap();
    let copy = Arc::clone(&work.copy);
    let held = copier.scheduler.hold_briefly(&copy).unwrap();
    leave_unmerged(copier, &mut work, &items);
    let (gone_on, stepped) = copier.go_on(work).unwrap();
    let mut work = gone_on.unwrap();
    assert!(stepped == Stepped::Waits && work.unmerged.is_some());
    work.longest_merges = Duration::ZERO;
    let mut rounds = 0;
    let work = loop {
        for number in 0..10 {
            items.put(format!("a/{number}"), [3; 20 << 10]).unwrap();
        }
        if copier.is_nearly_up(&work).unwrap() {
            break work;
        }
        let (gone_on, stepped) = copier.go_on(work).unwrap();
        work = gone_on.unwrap();
        rounds += 1;
        assert_eq!((stepped, work.rounds), (Stepped::Worked, rounds));
    };
    // Writers may wait for 256 KiB two rounds after the patient ones.
    assert_eq!(rounds, PATIENT_ROUNDS + 2);
    drop((held, work, place));
    items.wait_for_schema().unwrap();
    assert_eq!(items.prefix("a/").unwrap().count(), 10);
}
