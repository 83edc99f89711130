//! What a store answers, compared with its model: every way of reading a key, a prefix, a keyspace and a
//! snapshot.

use super::operations::KEYSPACES;
use super::session::Session;
use super::walks::{Items, check_walk, check_walks};
use super::*;
use siltstone::{ErrorKind, Snapshot};
use std::ops::Bound;

impl Session {
    /// Compares every way of reading with the model.
    pub fn check(&mut self, seed: u64) {
        let mut rng = Rng::new(seed);
        if let Some(what) = difference(self.db(), &self.model, self.now_ms()) {
            panic!("{what}");
        }
        let mut order = Vec::new();
        for (name, schema) in KEYSPACES {
            let keyspace = self.keyspace(name);
            let live = self.model.keyspaces[name].live(self.now_ms());
            order.extend(keyspace.iter().unwrap().map(|item| hash(&item.unwrap())));
            let keys = probes(&mut rng, schema, &live);
            let found = keyspace.multi_get(&keys).unwrap();
            let there = keyspace.contains_many(&keys).unwrap();
            if let Some(cached) = keyspace.multi_get_cached(&keys).unwrap() {
                assert_eq!(cached, found, "multi_get_cached in {name}");
            }
            let mut seen = vec![None; keys.len()];
            keyspace.multi_get_with(&keys, |number, value| seen[number] = Some(value.to_vec())).unwrap();
            assert_eq!(seen, found, "multi_get_with in {name}");
            for ((key, found), is_there) in keys.iter().zip(found).zip(there) {
                assert_eq!(is_there, found.is_some(), "contains_many in {name}");
                assert_eq!(keyspace.get_with(key, <[u8]>::to_vec).unwrap(), found, "get_with in {name}");
                assert_eq!(found.as_ref(), live.get(key), "multi_get in {name}");
                assert_eq!(keyspace.get(key).unwrap(), found, "get in {name}");
                assert_eq!(keyspace.contains(key).unwrap(), found.is_some());
            }
            if rng.one_in(6) {
                check_walks(&mut rng, &keyspace, &live);
            }
            if keyspace.schema() != Schema::Point {
                check_prefixes(&mut rng, &keyspace, schema, &live);
            }
        }
        self.orders.push(hash(&order));
        for (snapshot, model, taken_ms) in &self.snapshots {
            self.check_snapshot(&mut rng, snapshot, model, *taken_ms);
        }
    }

    fn check_snapshot(&self, rng: &mut Rng, snapshot: &Snapshot, model: &Model, taken_ms: u64) {
        for (name, schema) in KEYSPACES {
            let keyspace = self.keyspace(name);
            // What had not expired then is still there.
            let live = model.keyspaces[name].live(taken_ms);
            let all: BTreeMap<_, _> = snapshot.iter(&keyspace).unwrap().map(Result::unwrap).collect();
            assert!(all == live, "a snapshot of {name} has changed");
            assert_eq!(snapshot.len(&keyspace).unwrap(), live.len() as u64);
            assert_eq!(snapshot.is_empty(&keyspace).unwrap(), live.is_empty());
            let back: Items = snapshot.iter(&keyspace).unwrap().rev().map(Result::unwrap).collect();
            let forth: Items = snapshot.iter(&keyspace).unwrap().map(Result::unwrap).collect();
            assert!(back.iter().eq(forth.iter().rev()), "a snapshot of {name} from behind");
            let keys = probes(rng, schema, &live);
            let many = snapshot.multi_get(&keyspace, &keys).unwrap();
            let there = snapshot.contains_many(&keyspace, &keys).unwrap();
            let mut seen = vec![None; keys.len()];
            let look = |number: usize, value: &[u8]| seen[number] = Some(value.to_vec());
            snapshot.multi_get_with(&keyspace, &keys, look).unwrap();
            assert_eq!(seen, many, "multi_get_with of a snapshot of {name}");
            for ((key, found), is_there) in keys.iter().zip(many).zip(there) {
                assert_eq!(found.as_ref(), live.get(key), "multi_get of a snapshot of {name}");
                assert_eq!(snapshot.get(&keyspace, key).unwrap(), found);
                assert_eq!(snapshot.get_with(&keyspace, key, <[u8]>::to_vec).unwrap(), found);
                assert_eq!(snapshot.contains(&keyspace, key).unwrap(), found.is_some());
                assert_eq!(is_there, found.is_some());
            }
            // A snapshot goes on with the schema of then.
            let then = model.keyspaces[name].schema;
            if then != Schema::Point {
                let prefix = prefix_by(rng, then, (schema, 40));
                let found: BTreeMap<_, _> =
                    snapshot.prefix(&keyspace, &prefix).unwrap().map(Result::unwrap).collect();
                assert!(found == with_prefix(then, &live, &prefix).into_iter().collect());
            }
        }
    }
}

/// Keys that are there and keys that are not.
fn probes(rng: &mut Rng, schema: Schema, live: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = live.keys().filter(|_| rng.one_in(4)).cloned().collect();
    for _ in 0..10 {
        let mut key = key(rng, schema, 120);
        if rng.one_in(2) {
            key.push(b'?');
        }
        keys.push(key);
    }
    keys
}

fn with_prefix(schema: Schema, live: &BTreeMap<Vec<u8>, Vec<u8>>, prefix: &[u8]) -> Items {
    let group = live.iter().filter(|(key, _)| key[..schema.prefix_len(key).unwrap()] == *prefix);
    group.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Compares scans of groups; keys are made for `schema`, whichever the keyspace has by now.
fn check_prefixes(rng: &mut Rng, keyspace: &Keyspace, schema: Schema, live: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for _ in 0..4 {
        let prefix = prefix_by(rng, keyspace.schema(), (schema, 80));
        let expected = with_prefix(keyspace.schema(), live, &prefix);
        let mut found: Items = keyspace.prefix(&prefix).unwrap().map(Result::unwrap).collect();
        let bounds = (bound(rng, &expected, prefix.len()), bound(rng, &expected, prefix.len()));
        let range = keyspace.prefix_range(&prefix, bounds.clone());
        if keyspace.schema().is_ordered() {
            let in_range: Items = range.unwrap().map(Result::unwrap).collect();
            let expected: Items = expected
                .iter()
                .filter(|(key, _)| {
                    let suffix = &key[prefix.len()..];
                    let after = match &bounds.0 {
                        Bound::Included(from) => suffix >= from.as_slice(),
                        Bound::Excluded(from) => suffix > from.as_slice(),
                        Bound::Unbounded => true,
                    };
                    after
                        && match &bounds.1 {
                            Bound::Included(to) => suffix <= to.as_slice(),
                            Bound::Excluded(to) => suffix < to.as_slice(),
                            Bound::Unbounded => true,
                        }
                })
                .cloned()
                .collect();
            assert!(in_range == expected, "prefix_range {bounds:?} in {}", keyspace.name());
        } else {
            assert_eq!(range.unwrap_err().kind(), ErrorKind::InvalidInput);
            found.sort();
        }
        assert!(found == expected, "prefix scan in {}", keyspace.name());
        assert_eq!(keyspace.len_of(&prefix).unwrap(), expected.len() as u64);
        assert_eq!(keyspace.approximate_len_of(&prefix).unwrap(), expected.len() as u64);
        if rng.one_in(4) {
            let in_order: Items = keyspace.prefix(&prefix).unwrap().map(Result::unwrap).collect();
            check_walk(rng, || keyspace.prefix(&prefix).unwrap(), &in_order);
        }
    }
}

/// A bound at, just before or just after a suffix that is there, or anywhere.
fn bound(rng: &mut Rng, group: &[(Vec<u8>, Vec<u8>)], prefix_len: usize) -> Bound<Vec<u8>> {
    let mut suffix = match group.len() {
        0 => b"suffix__3".to_vec(),
        _ => rng.pick(group).0[prefix_len..].to_vec(),
    };
    suffix.truncate(4100);
    match rng.below(6) {
        0 => suffix.push(0),
        1 => {
            suffix.pop();
        }
        2 => suffix = b"suffix__".to_vec(),
        _ => {}
    }
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(suffix),
        _ => Bound::Included(suffix),
    }
}
