//! Readers, writers and redesigns beside a change of a schema, in whatever order their steps come.

use super::Stepped;
use super::work::{Caught, Work};
use crate::db::explored_store::open;
use crate::db::tiny_designs::tiny;
use crate::io::sim::{CrashMode, SimDisk};
use crate::sync::{explore, thread};
use crate::{Batch, ErrorKind, WriteOptions};
use siltstone_design::Schema;
use std::sync::Arc;

/// Who has written reads it, who counts misses nothing, and a batch that was made before is there as a whole:
/// before the change, during it, and behind it, also after a power cut.
#[test]
fn what_is_written_while_the_schema_changes_is_there() {
    explore(1_500, || {
        let disk = SimDisk::new();
        let (db, items) = open(&disk);
        items.put("a/old", "1").unwrap();
        let count = |old: Option<&[u8]>| Some(vec![old.map_or(0, |old| old[0]) + 1]);
        let writer = {
            let (db, items) = (db.clone(), items.clone());
            thread::spawn(move || {
                let mut batch = Batch::new();
                batch.put(&items, "a/batch", "1").unwrap();
                batch.delete(&items, "a/old").unwrap();
                items.put("a/new", "2").unwrap();
                assert_eq!(items.get("a/new").unwrap().as_deref(), Some(&b"2"[..]));
                items.update("a/count", count).unwrap();
                db.write(&batch, &WriteOptions::default()).unwrap();
                assert_eq!(items.get("a/old").unwrap(), None);
                assert!(items.contains("a/batch").unwrap());
            })
        };
        let other = {
            let items = items.clone();
            thread::spawn(move || {
                items.update("a/count", count).unwrap();
                let found: Vec<_> = items.iter().unwrap().map(|item| item.unwrap().0).collect();
                assert!(found.iter().any(|key| key == b"a/count"), "{found:?}");
            })
        };
        items.change_schema(Schema::delimited(b'/'), None).unwrap();
        items.wait_for_schema().unwrap();
        writer.join().unwrap();
        other.join().unwrap();
        for (db, items) in [(db, items), open(&disk.crash(CrashMode::PowerCut, 0))] {
            assert_eq!(items.schema(), Schema::delimited(b'/'));
            let found: Vec<_> = items.prefix("a/").unwrap().map(Result::unwrap).collect();
            let expected = [("a/batch", &b"1"[..]), ("a/count", &[2]), ("a/new", b"2")];
            assert_eq!(found, expected.map(|(key, value)| (key.into(), value.to_vec())));
            drop(db);
        }
    });
}

/// A redesign that was accepted stays, and one that was refused changes nothing.
#[test]
fn a_redesign_beside_a_change_of_the_schema_stays_or_is_refused() {
    explore(1_500, || {
        let (_db, items) = open(&SimDisk::new());
        items.put("a/old", "1").unwrap();
        let (before, after) = (items.design(), tiny("leveled"));
        let other = {
            let (items, after) = (items.clone(), after.clone());
            thread::spawn(move || items.redesign(after))
        };
        items.change_schema(Schema::delimited(b'/'), None).unwrap();
        let expected = match other.join().unwrap() {
            Ok(()) => after,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                before
            }
        };
        items.wait_for_schema().unwrap();
        assert_eq!((items.schema(), items.design()), (Schema::delimited(b'/'), expected));
    });
}

/// A round that is brought to the copy and a merge of the copy are both in it, whichever comes first.
#[test]
fn a_round_beside_a_merge_of_the_copy_loses_neither() {
    explore(500, || {
        let (db, items) = open(&SimDisk::new());
        items.put("a/0", "0").unwrap();
        items.change_schema(Schema::delimited(b'/'), None).unwrap();
        let copier = &db.store.copier;
        assert_eq!(copier.step().unwrap(), Stepped::Worked);
        let mut work = copier.work.lock().take().unwrap();
        let mut written = 1;
        let mut bring_one = |work: &mut Work| {
            items.put(format!("a/{written}"), "1").unwrap();
            written += 1;
            let next = copier.next_moment(&work.old).unwrap();
            assert_eq!(copier.catch_up(work, next, None).unwrap(), Caught::Up);
        };
        while copier.scheduler.is_merged(&work.copy) {
            bring_one(&mut work);
        }
        let merger = {
            let (db, copy) = (db.clone(), Arc::clone(&work.copy));
            thread::spawn(move || assert!(db.store.scheduler.merge_once(&copy).unwrap()))
        };
        bring_one(&mut work);
        merger.join().unwrap();
        let view = work.copy.view.load_full();
        assert!(view.active.is_empty() && view.sealed.is_empty(), "all that was brought is in tables");
        assert!(copier.scheduler.is_merged(&work.copy), "what was merged is in the copy");
        *copier.work.lock() = Some(work);
        items.wait_for_schema().unwrap();
        assert_eq!(items.prefix("a/").unwrap().count(), written);
    });
}
