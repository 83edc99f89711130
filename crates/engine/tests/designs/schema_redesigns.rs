//! Redesigns and changes of schemas that are asked for in the same moment.

use super::used::key_of;
use crate::common::hooked_disk::{Hooked, HookedDisk};
use crate::common::*;
use siltstone::io::sim::SimDisk;
use siltstone::{Db, ErrorKind, Keyspace, Schema};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Does `outer`, and `inner` on another thread when `outer` asks for the time, as far as it comes meanwhile.
/// Returns what both say, the keyspace, and its store.
fn one_within_another(
    outer: impl FnOnce(&Keyspace) -> siltstone::Result<()>,
    inner: impl FnOnce(&Keyspace) -> siltstone::Result<()> + Send,
) -> (siltstone::Result<()>, siltstone::Result<()>, Keyspace, Db) {
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let is_armed = Arc::new(AtomicBool::new(false));
    let (armed, ended) = (Arc::clone(&is_armed), Mutex::new(ended));
    let disk = HookedDisk::new(&SimDisk::new(), move |call| {
        if call == Hooked::Clock && armed.swap(false, Ordering::Relaxed) {
            begin.send(()).unwrap();
            // Where it waits for the other one, it goes on behind it.
            let _ = ended.lock().unwrap().recv_timeout(Duration::from_millis(300));
        }
    });
    let db = Db::open_on(Arc::new(disk), DIR, options()).unwrap();
    let keyspace = db.create_keyspace("items", keyspace_options(Schema::Point, tiny("siltstone"))).unwrap();
    keyspace.put(key_of(1), "1").unwrap();
    let (outer, inner) = std::thread::scope(|scope| {
        let keyspace = &keyspace;
        let inner = scope.spawn(move || {
            begun.recv_timeout(Duration::from_secs(20)).expect("the outer one asks for the time");
            let done = inner(keyspace);
            let _ = end.send(());
            done
        });
        is_armed.store(true, Ordering::Relaxed);
        (outer(keyspace), inner.join().unwrap())
    });
    (outer, inner, keyspace, db)
}

#[test]
fn a_redesign_in_the_midst_of_a_change_is_refused() {
    let (changed, redesigned, keyspace, _db) = one_within_another(
        |keyspace| keyspace.change_schema(HASHED, None),
        |keyspace| keyspace.redesign(tiny("stepped-merge")),
    );
    changed.unwrap();
    let error = redesigned.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("wait_for_schema"), "{error}");
    keyspace.wait_for_schema().unwrap();
    assert_eq!((keyspace.schema(), keyspace.design()), (HASHED, tiny("siltstone")));
    keyspace.redesign(tiny("stepped-merge")).unwrap();
    assert_eq!(keyspace.design(), tiny("stepped-merge"));
}

#[test]
fn a_change_in_the_midst_of_a_redesign_comes_with_the_new_design() {
    let (redesigned, changed, keyspace, _db) = one_within_another(
        |keyspace| keyspace.redesign(tiny("stepped-merge")),
        |keyspace| keyspace.change_schema(HASHED, None),
    );
    redesigned.unwrap();
    changed.unwrap();
    keyspace.wait_for_schema().unwrap();
    assert_eq!((keyspace.schema(), keyspace.design()), (HASHED, tiny("stepped-merge")));
}
