//! Readers, writers and redesigns beside a change of a schema, in whatever order their steps come.

use crate::db::explored_store::open;
use crate::db::tiny_designs::tiny;
use crate::io::sim::{CrashMode, SimDisk};
use crate::sync::{explore, thread};
use crate::{Batch, ErrorKind, WriteOptions};
use siltstone_design::Schema;

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
