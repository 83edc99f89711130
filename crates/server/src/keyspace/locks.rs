//! Who may work on which keys.
//!
//! A unit of work locks its keys for its whole length, so that it happens at one moment: shared where it only
//! reads them. Keys share locks by their hash; locks are taken in order of their numbers, so that no two
//! units wait for each other. Commands that concern a whole database take the lock of all.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;
use std::hash::Hasher as _;

/// So many that the keys of all pipelines under way seldom share one.
const STRIPES: usize = 1 << 14;

/// All locks.
pub struct Locks {
    all: RwLock<()>,
    stripes: Box<[RwLock<()>]>,
}

/// Locks that are held until it is dropped.
pub enum Held<'a> {
    /// Those of some keys.
    Keys {
        /// Keeps out those who want all.
        _all: RwLockReadGuard<'a, ()>,
        /// The keys'.
        _stripes: SmallVec<[Stripe<'a>; 4]>,
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

/// The lock of a key.
fn stripe(database: usize, key: &[u8]) -> usize {
    let mut hasher = SipHasher13::new_with_keys(0x5349_4c54, database as u64);
    hasher.write(key);
    usize::try_from(hasher.finish()).unwrap_or(0) % STRIPES
}

/// The locks of `keys` in order, each once, with whether it is only read.
fn wanted<'k>(keys: impl Iterator<Item = (usize, &'k [u8], bool)>) -> SmallVec<[(usize, bool); 4]> {
    let mut wanted: SmallVec<_> =
        keys.map(|(database, key, writes)| (stripe(database, key), !writes)).collect();
    // Of two wishes for one lock the one to write comes first, and stays.
    wanted.sort_unstable();
    wanted.dedup_by_key(|(number, _)| *number);
    wanted
}

impl Default for Locks {
    fn default() -> Self {
        Self { all: RwLock::new(()), stripes: (0..STRIPES).map(|_| RwLock::new(())).collect() }
    }
}

impl Locks {
    /// Locks `keys`: database, key, and whether it may be changed.
    pub fn keys<'k>(&self, keys: impl Iterator<Item = (usize, &'k [u8], bool)>) -> Held<'_> {
        let all = self.all.read();
        let lock = |(number, reads): &(usize, bool)| {
            let stripe = self.stripes.get(*number)?;
            Some(if *reads { Stripe::Read(stripe.read()) } else { Stripe::Write(stripe.write()) })
        };
        Held::Keys { _all: all, _stripes: wanted(keys).iter().filter_map(lock).collect() }
    }

    /// The same, where nobody else has any of them; it does not wait.
    pub fn try_keys<'k>(&self, keys: impl Iterator<Item = (usize, &'k [u8], bool)>) -> Option<Held<'_>> {
        let all = self.all.try_read()?;
        let lock = |(number, reads): &(usize, bool)| {
            let stripe = self.stripes.get(*number)?;
            if *reads { stripe.try_read().map(Stripe::Read) } else { stripe.try_write().map(Stripe::Write) }
        };
        let stripes: Option<_> = wanted(keys).iter().map(lock).collect();
        Some(Held::Keys { _all: all, _stripes: stripes? })
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
    fn a_lock_that_is_held_is_not_waited_for() {
        let locks = Locks::default();
        let key = |writes| [(0, b"a".as_slice(), writes)].into_iter();
        let read = locks.try_keys(key(false));
        assert!(read.is_some() && locks.try_keys(key(false)).is_some());
        assert!(locks.try_keys(key(true)).is_none());
        assert!(locks.try_keys([(1, b"b".as_slice(), true)].into_iter()).is_some());
        drop(read);
        let write = locks.try_keys(key(true));
        assert!(write.is_some() && locks.try_keys(key(false)).is_none());
        drop(write);
        let _all = locks.all();
        assert!(locks.try_keys(key(false)).is_none());
    }
}
