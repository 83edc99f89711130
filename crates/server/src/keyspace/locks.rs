//! Who may work on which keys.
//!
//! A unit of work locks its keys for its whole length, so that it happens at one moment: shared where it only
//! reads them. Keys share locks by their hash; locks are taken in order of their numbers, so that no two
//! units wait for each other. Commands that concern a whole database take the lock of all.

use foldhash::fast::RandomState;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;
use std::hash::BuildHasher as _;
use std::time::{Duration, Instant};

/// So many that the keys of all pipelines under way seldom share one.
const STRIPES: usize = 1 << 16;
/// Keys of a unit for which nothing is allocated.
const FEW: usize = 4;

/// All locks.
pub struct Locks {
    all: RwLock<()>,
    stripes: Box<[RwLock<()>]>,
    hasher: RandomState,
}

/// Locks that are held until it is dropped.
pub enum Held<'a> {
    /// Those of some keys.
    Keys {
        /// Keeps out those who want all.
        _all: RwLockReadGuard<'a, ()>,
        /// The keys'.
        _stripes: SmallVec<[Stripe<'a>; FEW]>,
    },
    /// That of all keys.
    All(RwLockWriteGuard<'a, ()>),
}

/// A lock that some keys share.
pub enum Stripe<'a> {
    /// Held with others who only read.
    Read(RwLockReadGuard<'a, ()>),
    /// Held alone.
    Write(RwLockWriteGuard<'a, ()>),
}

/// Locks that are wanted, by their numbers, with whether they are only read.
type Wanted = SmallVec<[(usize, bool); FEW]>;

impl Default for Locks {
    fn default() -> Self {
        Self {
            all: RwLock::new(()),
            stripes: (0..STRIPES).map(|_| RwLock::new(())).collect(),
            hasher: RandomState::default(),
        }
    }
}

impl Locks {
    /// The lock of a key.
    fn stripe(&self, database: usize, key: &[u8]) -> usize {
        self.hasher.hash_one((database, key)) as usize % STRIPES
    }

    /// The locks of `keys` in order, each once.
    fn wanted<'k>(&self, keys: impl Iterator<Item = (usize, &'k [u8], bool)>) -> Wanted {
        let wanted = keys.map(|(database, key, writes)| (self.stripe(database, key), !writes));
        let mut wanted: Wanted = wanted.collect();
        // Of two wishes for one lock the one to write comes first, and stays.
        wanted.sort_unstable();
        wanted.dedup_by_key(|(number, _)| *number);
        wanted
    }

    /// Locks `keys`: database, key, and whether it may be changed.
    pub fn keys<'k>(&self, keys: impl Iterator<Item = (usize, &'k [u8], bool)>) -> Held<'_> {
        let all = self.all.read();
        let lock = |(number, reads): &(usize, bool)| {
            let stripe = self.stripes.get(*number)?;
            Some(if *reads { Stripe::Read(stripe.read()) } else { Stripe::Write(stripe.write()) })
        };
        Held::Keys { _all: all, _stripes: self.wanted(keys).iter().filter_map(lock).collect() }
    }

    /// The same, where those who have some of them let go within `patience`, and nobody has all.
    pub fn try_keys<'k>(
        &self,
        keys: impl Iterator<Item = (usize, &'k [u8], bool)>,
        patience: Duration,
    ) -> Option<Held<'_>> {
        let all = self.all.try_read()?;
        let mut until = None;
        let mut lock = |(number, reads): &(usize, bool)| {
            let stripe = self.stripes.get(*number)?;
            let mut until = || *until.get_or_insert_with(|| Instant::now() + patience);
            Some(if *reads {
                Stripe::Read(stripe.try_read().or_else(|| stripe.try_read_until(until()))?)
            } else {
                Stripe::Write(stripe.try_write().or_else(|| stripe.try_write_until(until()))?)
            })
        };
        let wanted = self.wanted(keys);
        let mut stripes = SmallVec::with_capacity(wanted.len());
        for wanted in &wanted {
            stripes.push(lock(wanted)?);
        }
        Some(Held::Keys { _all: all, _stripes: stripes })
    }

    /// Locks everything.
    pub fn all(&self) -> Held<'_> {
        Held::All(self.all.write())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_is_waited_for_with_patience() {
        let locks = Locks::default();
        let key = |writes| [(0, b"a".as_slice(), writes)].into_iter();
        let at_once = |keys| locks.try_keys(keys, Duration::ZERO);
        let read = at_once(key(false));
        assert!(read.is_some() && at_once(key(false)).is_some());
        assert!(at_once(key(true)).is_none());
        assert!(at_once([(1, b"b".as_slice(), true)].into_iter()).is_some());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| locks.try_keys(key(true), Duration::from_secs(60)).is_some());
            drop(read);
            assert!(other.join().unwrap());
        });
        let write = at_once(key(true));
        assert!(write.is_some() && at_once(key(false)).is_none());
        drop(write);
        let _all = locks.all();
        assert!(at_once(key(false)).is_none());
    }
}
