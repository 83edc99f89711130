//! A client of a stage's store: it draws operations, does them, and fails where an answer is wrong.

use super::stage::Kind;
use crate::kit::generate::items::Items;
use crate::kit::generate::permutation::Permutation;
use crate::kit::generate::zipf::Zipf;
use crate::program::failure::{Result, fail};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use siltstone::{Batch, Keyspace};

/// One client. Others like it ask for other items.
pub struct Client {
    keyspace: Keyspace,
    items: Items,
    count: u64,
    group: u64,
    order: Permutation,
    popularity: Zipf,
    rng: SmallRng,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Client {
    /// A client of a keyspace with so many items, in groups of `group`. It asks for all of them alike.
    pub fn new(keyspace: Keyspace, items: Items, count: u64, group: u64) -> Self {
        Self {
            keyspace,
            items,
            count,
            group,
            order: Permutation::new(count, 1),
            popularity: Zipf::new(count, 0.0),
            rng: SmallRng::seed_from_u64(7),
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Another client of the same kind, its operations drawn by themselves.
    pub fn another(&mut self) -> Self {
        Self {
            keyspace: self.keyspace.clone(),
            rng: SmallRng::seed_from_u64(self.rng.random()),
            key: Vec::new(),
            value: Vec::new(),
            ..*self
        }
    }

    /// Asks for popular items as often as a Zipf distribution of this exponent says from now on.
    pub fn set_skew(&mut self, skew: f64) {
        self.popularity = Zipf::new(self.count, skew);
    }

    /// Puts the item at a place of the random order into a batch.
    pub fn put_at(&mut self, position: u64, batch: &mut Batch) -> Result<()> {
        let item = self.order.at(position);
        self.items.key(item, &mut self.key);
        self.items.value(item, self.rng.random(), &mut self.value);
        Ok(batch.put(&self.keyspace, &self.key, &self.value)?)
    }

    /// Draws a kind of operation by these shares.
    pub fn drawn(&mut self, shares: [f64; 4]) -> Kind {
        let mut at = self.rng.random::<f64>() * shares.iter().sum::<f64>();
        let drawn = Kind::ALL.into_iter().zip(shares).find(|(_, share)| {
            at -= share;
            at < 0.0
        });
        drawn.map_or(Kind::Put, |(kind, _)| kind)
    }

    /// Does `count` operations of a mix.
    pub fn work_mixed(&mut self, shares: [f64; 4], count: u64) -> Result<()> {
        (0..count).try_for_each(|_| {
            let kind = self.drawn(shares);
            self.operate(kind)
        })
    }

    /// Does one operation.
    pub fn operate(&mut self, kind: Kind) -> Result<()> {
        let item = self.order.at(self.popularity.sample(&mut self.rng));
        match kind {
            Kind::Hit => self.get(item),
            Kind::Miss => {
                self.items.missing_key(item, &mut self.key);
                match self.keyspace.get(&self.key)? {
                    None => Ok(()),
                    Some(_) => fail!("a key was found that was never put"),
                }
            }
            Kind::Scan => self.scan(item / self.group),
            Kind::Put => {
                self.items.key(item, &mut self.key);
                self.items.value(item, self.rng.random(), &mut self.value);
                Ok(self.keyspace.put(&self.key, &self.value)?)
            }
        }
    }

    /// Gets an item, and fails where it is not as it was put.
    pub fn get(&mut self, item: u64) -> Result<()> {
        self.items.key(item, &mut self.key);
        match self.keyspace.get(&self.key)? {
            Some(value) if self.items.is_value_of(item, &value, &mut self.value) => Ok(()),
            found => fail!("item {item} is {found:?}, which was never put"),
        }
    }

    fn scan(&mut self, group: u64) -> Result<()> {
        self.key.clear();
        self.items.prefix(group, &mut self.key);
        let mut found = 0;
        for entry in self.keyspace.prefix(&self.key)? {
            found += u64::from(entry?.0.starts_with(&self.key));
        }
        let last = self.count - group * self.group;
        if found != self.group.min(last) {
            fail!("{found} items found in group {group}");
        }
        Ok(())
    }
}
