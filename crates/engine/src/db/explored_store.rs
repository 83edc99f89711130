//! A store for explorations: small, without threads of its own, each write durable.

use super::tiny_designs::tiny;
use crate::io::sim::SimDisk;
use crate::{Db, Durability, Keyspace, KeyspaceOptions, Options};
use siltstone_design::Schema;
use std::sync::Arc;

/// Opens it on `disk`, with its one keyspace, which has point keys where it is made.
pub(super) fn open(disk: &SimDisk) -> (Db, Keyspace) {
    let options = Options {
        memory_budget_bytes: 1 << 20,
        durability: Durability::Synced,
        sync_interval_ms: 0,
        background_threads: 0,
        reserve_bytes: 0,
        hash_secret: Some(*b"sixteen byte key"),
        ..Options::default()
    };
    let db = Db::open_on(Arc::new(disk.clone()), "/db", options).unwrap();
    let design = Some(tiny("stepped-merge"));
    let made = KeyspaceOptions { schema: Schema::Point, design, ..KeyspaceOptions::default() };
    let items = db.get_keyspace("items").unwrap_or_else(|| db.create_keyspace("items", made).unwrap());
    (db, items)
}
