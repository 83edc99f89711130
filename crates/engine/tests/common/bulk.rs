//! Bulk builds as operations of sessions and traces.

use super::operations::{self, Mix};
use super::session::Session;
use super::*;
use siltstone::{Ingest, IngestOptions, IngestReport};
use std::path::Path;
use std::time::Duration;

/// Items to ingest into a keyspace.
#[derive(Clone, Debug)]
pub struct BulkLoad {
    pub keyspace: &'static str,
    /// Keys, values and times to live in milliseconds, or 0.
    items: Vec<(Vec<u8>, Vec<u8>, u64)>,
    /// Puts in the middle of it.
    pub besides: Vec<Effect>,
    /// What is done after those.
    pub meanwhile: u64,
    sort_bytes: usize,
}

impl BulkLoad {
    /// A load of a session's keyspaces: none, few or many items, some of them of one key.
    pub fn any(rng: &mut Rng, mix: &Mix) -> Self {
        let &(keyspace, schema) = rng.pick(&operations::KEYSPACES);
        let largest = if rng.one_in(4) { mix.largest_value } else { 300 };
        let count = *rng.pick(&[0, 1, 10, 100, 400]);
        let mut load = Self::of(rng, keyspace, (schema, mix.variety * 2), count, largest);
        for _ in 0..rng.below(6) {
            let key = key(rng, schema, mix.variety);
            let value = rng.bytes(20);
            load.besides.push(Effect::Put { keyspace: keyspace.into(), key, value, expires_at_ms: 0 });
        }
        load.meanwhile = rng.below(3);
        load.without_ttls_if(merge_operator_of(keyspace).is_some())
    }

    /// The same load, whose items stay where `they_can_not_expire`.
    pub fn without_ttls_if(mut self, they_can_not_expire: bool) -> Self {
        if they_can_not_expire {
            self.items.iter_mut().for_each(|(_, _, ttl_ms)| *ttl_ms = 0);
        }
        self
    }

    /// A load of `count` items with keys of a schema, of about so many.
    pub fn of(
        rng: &mut Rng,
        keyspace: &'static str,
        (schema, variety): (Schema, u64),
        count: u64,
        largest_value: u64,
    ) -> Self {
        let mut items = Vec::new();
        for _ in 0..count {
            let length = if rng.one_in(30) { largest_value } else { 200 };
            let value = rng.range(0, length);
            let ttl_ms = if rng.one_in(8) { rng.range(1, 5000) } else { 0 };
            items.push((key(rng, schema, variety), rng.value(value as usize), ttl_ms));
        }
        let sort_bytes = *rng.pick(&[0, 32 << 10, 1 << 20]);
        Self { keyspace, items, besides: Vec::new(), meanwhile: 2, sort_bytes }
    }

    /// Ingests the items, calls `besides` in the middle, and returns all effects in their order.
    pub fn run(
        &self,
        keyspace: &Keyspace,
        now_ms: u64,
        besides: impl FnOnce() -> siltstone::Result<()>,
    ) -> siltstone::Result<Vec<Effect>> {
        let options = IngestOptions { sort_bytes: Some(self.sort_bytes), ..IngestOptions::default() };
        let mut besides = Some(besides);
        let report = keyspace.ingest_with(&options, |ingest| {
            for (number, (key, value, ttl_ms)) in self.items.iter().enumerate() {
                if number == self.items.len() / 2 {
                    besides.take().unwrap()()?;
                }
                match ttl_ms {
                    0 => ingest.put(key, value)?,
                    ms => ingest.put_with_ttl(key, value, Duration::from_millis(*ms))?,
                }
            }
            Ok::<_, siltstone::Error>(())
        })?;
        if let Some(besides) = besides {
            besides()?;
        }
        assert_eq!(report.items, self.items.len() as u64);
        assert_eq!(report.items == 0, report.user_bytes == 0);
        let named = Self { keyspace: "", ..self.clone() }.effects(now_ms).into_iter().map(|mut effect| {
            if let Effect::Put { keyspace: name, .. } = &mut effect
                && name.is_empty()
            {
                keyspace.name().clone_into(name);
            }
            effect
        });
        Ok(named.collect())
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The same load with nothing beside it.
    pub fn alone(&self) -> Self {
        Self { besides: Vec::new(), ..self.clone() }
    }

    /// What the load does, and the puts beside it, which are newer.
    pub fn effects(&self, now_ms: u64) -> Vec<Effect> {
        let items = self.items.iter().map(|(key, value, ttl_ms)| Effect::Put {
            keyspace: self.keyspace.to_owned(),
            key: key.clone(),
            value: value.clone(),
            expires_at_ms: if *ttl_ms == 0 { 0 } else { now_ms + ttl_ms },
        });
        items.chain(self.besides.iter().cloned()).collect()
    }
}

/// Builds a keyspace anew of what it holds, in its own order, and replaces it by that.
pub fn rebuild(session: &Session, name: &str) -> siltstone::Result<()> {
    let old = session.keyspace(name);
    let items: Vec<_> = old.iter()?.collect::<Result<_, _>>()?;
    let options = KeyspaceOptions {
        schema: old.schema(),
        design: Some(old.design()),
        merge_operator: old.merge_operator().map(str::to_owned),
    };
    let new = session.db().keyspace("next", options)?;
    let sorting = IngestOptions { sort_bytes: Some(0), ..IngestOptions::default() };
    new.ingest_with(&sorting, |ingest| items.iter().try_for_each(|(key, value)| ingest.put(key, value)))?;
    session.db().replace(&old, new)?;
    Ok(())
}

pub type Items = Vec<(Vec<u8>, Vec<u8>)>;

/// `count` items with values of `value_bytes`, in no order.
pub fn items(count: u32, value_bytes: usize) -> Items {
    (0..count).map(|n| (numbered_key(n).to_vec(), numbered_value(n, value_bytes))).collect()
}

/// A store whose memory allows for what tests want to see, with designs scaled to it.
pub fn open_with(disk: &SimDisk, options: Options) -> Db {
    Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap()
}

pub fn create(db: &Db, name: &str, design: Design) -> Keyspace {
    db.keyspace(name, keyspace_options(Schema::Point, design)).unwrap()
}

/// Ingests so that items are sorted in `sort_bytes`.
pub fn ingest(keyspace: &Keyspace, items: &Items, sort_bytes: usize) -> IngestReport {
    let options = IngestOptions { sort_bytes: Some(sort_bytes), ..IngestOptions::default() };
    let give = |ingest: &mut Ingest<'_>| items.iter().try_for_each(|(key, value)| ingest.put(key, value));
    keyspace.ingest_with(&options, give).unwrap()
}

pub fn assert_sound(db: &Db) {
    let report = db.verify(&mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Files of tables that lie in the store's directory.
pub fn table_files(disk: &SimDisk) -> usize {
    let names = siltstone::io::Disk::list(disk, Path::new(DIR)).unwrap();
    names.iter().filter(|name| name.ends_with(".table")).count()
}

/// Tables that the store knows.
pub fn tables(db: &Db) -> usize {
    let stats = db.stats();
    let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    levels.map(|level| level.tables as usize).sum()
}
