//! A store with one keyspace that is used in every way, beside what it should hold, whatever its schema.

use crate::common::*;
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{Db, Design, Durability, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub type Items = BTreeMap<Vec<u8>, Vec<u8>>;

pub const KEYS: u64 = 700;

/// Schemas that all keys of [`key_of`] fit.
pub fn schemas() -> Vec<Schema> {
    vec![
        Schema::Point,
        Schema::delimited(b'/'),
        Schema::delimited(b'/').hashed(),
        Schema::fixed(3),
        Schema::fixed(6).hashed(),
        Schema::ordered(PrefixRule::AllButLast { bytes: 4 }),
    ]
}

pub fn pairs() -> Vec<(Schema, Schema)> {
    let all = schemas();
    let pairs = all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to)));
    pairs.filter(|(from, to)| from != to).collect()
}

pub fn key_of(number: u64) -> Vec<u8> {
    format!("g{}/s{}/{number:04}", number % 7, number % 3).into_bytes()
}

/// The prefix of a key by a schema.
pub fn prefix_of(schema: Schema, key: &[u8]) -> &[u8] {
    &key[..schema.prefix_len(key).unwrap()]
}

pub fn durable(disk: &SimDisk) -> Db {
    let options = Options { durability: Durability::Synced, ..options() };
    Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap()
}

/// A store with one keyspace, beside what it should hold.
pub struct Used {
    pub disk: SimDisk,
    pub db: Option<Db>,
    pub items: Items,
    pub merges: bool,
    pub rng: Rng,
}

impl Used {
    pub fn new(schema: Schema, design: Design, merges: bool, seed: u64) -> Self {
        let disk = SimDisk::new();
        let db = durable(&disk);
        let merge_operator = merges.then(|| "append:2c".to_owned());
        let options = KeyspaceOptions { schema, design: Some(design), merge_operator };
        db.create_keyspace("items", options).unwrap();
        Self { disk, db: Some(db), items: Items::new(), merges, rng: Rng::new(seed) }
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    pub fn keyspace(&self) -> Keyspace {
        self.db().get_keyspace("items").unwrap()
    }

    /// Does one operation of any kind through `keyspace`.
    pub fn operate(&mut self, keyspace: &Keyspace) {
        let key = key_of(self.rng.below(KEYS));
        let length = if self.rng.one_in(40) { 5_000 } else { self.rng.range(10, 90) };
        let value = self.rng.bytes(length as usize);
        match self.rng.below(12) {
            0 | 1 => {
                keyspace.delete(&key).unwrap();
                self.items.remove(&key);
            }
            2 if keyspace.schema() != Schema::Point && self.rng.one_in(12) => {
                let schema = keyspace.schema();
                let prefix = prefix_of(schema, &key).to_vec();
                keyspace.delete_prefix(&prefix).unwrap();
                self.items.retain(|key, _| prefix_of(schema, key) != prefix);
            }
            3 | 4 if self.merges => {
                keyspace.merge(&key, b"more").unwrap();
                let merged =
                    self.items.get(&key).map_or(b"more".to_vec(), |old| [old, &b",more"[..]].concat());
                self.items.insert(key, merged);
            }
            5 => {
                let new = keyspace.update(&key, |old| {
                    Some([old.unwrap_or_default(), b"!"].concat().into_iter().take(6_000).collect())
                });
                self.items.insert(key, new.unwrap().unwrap());
            }
            6 if !self.merges => {
                // Long enough to outlive the test, and to be kept with its time.
                keyspace.put_with_ttl(&key, &value, Duration::from_secs(3600)).unwrap();
                self.items.insert(key, value);
            }
            _ => {
                keyspace.put(&key, &value).unwrap();
                self.items.insert(key, value);
            }
        }
    }

    /// Operates and works in between, as much as `steps` in ten operations.
    pub fn use_it(&mut self, keyspace: &Keyspace, count: u64, steps: u64) {
        for _ in 0..count {
            self.operate(keyspace);
            if self.rng.below(10) < steps {
                self.db().step().unwrap();
            }
        }
    }

    pub fn check(&mut self, keyspace: &Keyspace) {
        assert_eq!(contents(keyspace), self.items);
        let keys: Vec<_> = (0..KEYS).map(key_of).collect();
        for (key, found) in keys.iter().zip(keyspace.multi_get(&keys).unwrap()) {
            assert_eq!(found.as_ref(), self.items.get(key));
            assert_eq!(keyspace.get(key).unwrap(), found);
        }
        let schema = keyspace.schema();
        if schema == Schema::Point {
            return;
        }
        let key = key_of(self.rng.below(KEYS));
        let prefix = prefix_of(schema, &key);
        let mut found: Vec<_> = keyspace.prefix(prefix).unwrap().map(|item| item.unwrap().0).collect();
        let of_group = self.items.keys().filter(|key| prefix_of(schema, key) == prefix);
        let expected: Vec<_> = of_group.cloned().collect();
        assert!(!schema.is_ordered() || found.is_sorted());
        found.sort();
        assert_eq!(found, expected);
    }

    pub fn verify(&self) {
        assert_eq!(self.db().verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    }

    pub fn reopen(&mut self, crash: bool) {
        let db = self.db.take().unwrap();
        if crash {
            self.disk = self.disk.crash(CrashMode::PowerCut, 1);
        } else {
            db.close().unwrap();
        }
        self.db = Some(durable(&self.disk));
    }

    /// Closes the store, opens it again, and checks it: also that there are no tables but those of the
    /// keyspace.
    pub fn check_reopened(&mut self, keyspace: Keyspace) {
        drop(keyspace);
        self.reopen(false);
        let keyspace = self.keyspace();
        self.check(&keyspace);
        self.check_files();
    }

    /// Checks that there are no tables but those of the keyspace.
    pub fn check_files(&self) {
        let names = siltstone::io::Disk::list(&self.disk, DIR.as_ref()).unwrap();
        let tables = names.iter().filter(|name| name.ends_with(".table")).count();
        assert_eq!(tables as u64, self.keyspace().stats().table_count, "{names:?}");
    }
}
