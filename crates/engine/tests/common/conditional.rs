//! Writes that depend on what is there, as values: run on a store beside its model, which says what they have
//! to return and what they change.

use super::*;
use siltstone::{CompareAndSet, Durability, Update, WriteOptions};
use std::time::Duration;

/// What is done with the first of some keys, or with all of them.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Update,
    UpdateKeeping,
    UpdateWithTtl,
    UpdateForever,
    InsertIfAbsent,
    GetOrInsert,
    /// With the right expectation, or a wrong one.
    CompareAndSet {
        is_right: bool,
        deletes: bool,
    },
    AddMany,
    DeleteMany,
    /// Reads all keys, writes the first and deletes the last.
    Transaction,
}

/// One such write.
#[derive(Clone, Debug)]
pub struct Conditional {
    pub kind: Kind,
    pub keys: Vec<Vec<u8>>,
    pub value: Vec<u8>,
    pub ttl_ms: u64,
}

impl Conditional {
    /// A random one, of keys that `key` makes.
    pub fn any(rng: &mut Rng, mut key: impl FnMut(&mut Rng) -> Vec<u8>) -> Self {
        let (is_right, deletes) = (!rng.one_in(4), rng.one_in(3));
        let kind = match rng.below(14) {
            0..2 => Kind::Update,
            2 => Kind::UpdateKeeping,
            3 => Kind::UpdateWithTtl,
            4 => Kind::UpdateForever,
            5 => Kind::InsertIfAbsent,
            6 => Kind::GetOrInsert,
            7..9 => Kind::CompareAndSet { is_right, deletes },
            9..11 => Kind::AddMany,
            11 => Kind::DeleteMany,
            _ => Kind::Transaction,
        };
        let count = rng.range(1, 6);
        let mut keys: Vec<_> = (0..count).map(|_| key(rng)).collect();
        if rng.one_in(3) {
            keys.push(keys[0].clone());
        }
        let length = rng.range(0, 300);
        Self { kind, keys, value: rng.value(length as usize), ttl_ms: rng.range(1, 4000) }
    }

    /// What it changes, where the keyspace `name` holds what `model` says; `merges` says whether that takes
    /// merges, and so has items that can't expire.
    pub fn effects(&self, name: &str, merges: bool, model: &ModelKeyspace, now_ms: u64) -> Vec<Effect> {
        let Self { kind, keys, value, ttl_ms } = self;
        let expires_at_ms = if merges { 0 } else { now_ms + ttl_ms };
        let key = &keys[0];
        let is_there = |key: &[u8]| model.get(key, now_ms).is_some();
        let kept = if is_there(key) { model.items[key].1 } else { 0 };
        let put = |key: &[u8], value: &[u8], expires_at_ms| {
            let (keyspace, key, value) = (name.to_owned(), key.to_vec(), value.to_vec());
            Effect::Put { keyspace, key, value, expires_at_ms }
        };
        let delete = |key: &[u8]| Effect::Delete { keyspace: name.to_owned(), key: key.to_vec() };
        match *kind {
            Kind::Update => vec![put(key, value, kept)],
            Kind::UpdateWithTtl => vec![put(key, value, expires_at_ms)],
            Kind::UpdateForever => vec![put(key, value, 0)],
            Kind::InsertIfAbsent | Kind::GetOrInsert if !is_there(key) => vec![put(key, value, 0)],
            Kind::CompareAndSet { is_right: true, deletes: false } => vec![put(key, value, kept)],
            Kind::CompareAndSet { is_right: true, deletes: true } if is_there(key) => vec![delete(key)],
            Kind::AddMany => {
                let new = (0..keys.len()).filter(|at| self.is_new(*at, model, now_ms));
                new.map(|at| put(&keys[at], value, 0)).collect()
            }
            Kind::DeleteMany => keys.iter().map(|key| delete(key)).collect(),
            Kind::Transaction => vec![put(key, value, expires_at_ms), delete(keys.last().unwrap())],
            Kind::UpdateKeeping | Kind::InsertIfAbsent | Kind::GetOrInsert | Kind::CompareAndSet { .. } => {
                Vec::new()
            }
        }
    }

    /// Whether the key at `at` is neither in the model nor among the keys before it.
    fn is_new(&self, at: usize, model: &ModelKeyspace, now_ms: u64) -> bool {
        model.get(&self.keys[at], now_ms).is_none() && !self.keys[..at].contains(&self.keys[at])
    }

    /// Runs it, checks what it returns, and says what it changed.
    pub fn run(
        &self,
        db: &Db,
        keyspace: &Keyspace,
        model: &ModelKeyspace,
        now_ms: u64,
    ) -> siltstone::Result<Vec<Effect>> {
        let merges = keyspace.merge_operator().is_some();
        if merges && matches!(self.kind, Kind::UpdateWithTtl) {
            // Its items can't expire.
            let forever = Self { kind: Kind::UpdateForever, ..self.clone() };
            return forever.run(db, keyspace, model, now_ms);
        }
        let Self { kind, keys, value, ttl_ms } = self;
        let key = &keys[0];
        let old = model.get(key, now_ms);
        let kept = if old.is_some() { model.items[key].1 } else { 0 };
        match *kind {
            Kind::Update => {
                let new = keyspace.update(key, |seen| {
                    assert_eq!(seen, old.as_deref(), "update sees another value");
                    Some(value.clone())
                });
                assert_eq!(new?.as_ref(), Some(value));
            }
            Kind::UpdateKeeping | Kind::UpdateWithTtl | Kind::UpdateForever => {
                let after = self.update_with(keyspace, old.as_deref(), kept.saturating_sub(now_ms))?;
                let expected = if matches!(kind, Kind::UpdateKeeping) { old } else { Some(value.clone()) };
                assert_eq!(after, expected);
            }
            Kind::InsertIfAbsent => assert_eq!(keyspace.insert_if_absent(key, value)?, old.is_none()),
            Kind::GetOrInsert => {
                let found = keyspace.get_or_insert_with(key, || value.clone())?;
                assert_eq!(&found, old.as_ref().unwrap_or(value));
            }
            Kind::CompareAndSet { is_right, deletes } => {
                let wrong = Some(b"no value is this".to_vec());
                let expected = if is_right { old.clone() } else { wrong };
                let new = (!deletes).then_some(value.as_slice());
                let outcome = keyspace.compare_and_set(key, expected.as_deref(), new)?;
                match is_right {
                    true => assert!(outcome.is_set()),
                    false => assert_eq!(outcome, CompareAndSet::Differs { present: old }),
                }
            }
            Kind::AddMany => {
                let expected: Vec<_> = (0..keys.len()).map(|at| self.is_new(at, model, now_ms)).collect();
                assert_eq!(keyspace.add_many(keys.iter().map(|key| (key, value)))?, expected);
            }
            Kind::DeleteMany => keyspace.delete_many(keys)?,
            Kind::Transaction => {
                let changed = db.transaction(&WriteOptions::default(), |tx| {
                    for key in keys {
                        assert_eq!(tx.get(keyspace, key)?, model.get(key, now_ms));
                        assert_eq!(tx.contains(keyspace, key)?, model.get(key, now_ms).is_some());
                    }
                    match merges {
                        true => tx.put(keyspace, key, value)?,
                        false => tx.put_with_ttl(keyspace, key, value, Duration::from_millis(*ttl_ms))?,
                    }
                    assert_eq!(tx.get(keyspace, key)?.as_ref(), Some(value), "its own write");
                    let last = keys.last().unwrap();
                    tx.delete(keyspace, last)?;
                    assert!(!tx.contains(keyspace, last)?, "its own deletion");
                    Ok::<_, siltstone::Error>(keys.len())
                });
                assert_eq!(changed?, keys.len());
            }
        }
        Ok(self.effects(keyspace.name(), merges, model, now_ms))
    }

    fn update_with(
        &self,
        keyspace: &Keyspace,
        old: Option<&[u8]>,
        remaining_ms: u64,
    ) -> siltstone::Result<Option<Vec<u8>>> {
        let Self { kind, keys, value, ttl_ms } = self;
        let options = WriteOptions { durability: Some(Durability::Buffered) };
        keyspace.update_with(&keys[0], &options, |seen| {
            assert_eq!(seen.map(|seen| seen.value), old, "update_with sees another value");
            let remaining = (remaining_ms > 0).then(|| Duration::from_millis(remaining_ms));
            assert_eq!(seen.and_then(|seen| seen.remaining), remaining, "another time to live");
            Ok::<_, siltstone::Error>(match kind {
                Kind::UpdateKeeping => Update::Keep,
                Kind::UpdateWithTtl => Update::PutWithTtl(value.clone(), Duration::from_millis(*ttl_ms)),
                _ => Update::PutForever(value.clone()),
            })
        })
    }
}
