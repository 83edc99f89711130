//! Reads of keys that are not plain gets: many at once, without a copy, or without the value.
//!
//! All of them run the one lookup ([`read`](super::read)) and differ in what they want of the value; those of
//! a snapshot differ from those of a keyspace in the moment that they read.

use super::keyspace::Keyspace;
use super::read::{Found, Moment};
use crate::error::Result;
use crate::value::{Value, Wants};
use siltstone_design::EncodedKey;

/// Encodes `keys`; fails for the first that does not fit the keyspace.
fn encode_all<'k, K: AsRef<[u8]>>(at: Moment<'_>, keys: &'k [K]) -> Result<Vec<EncodedKey<'k>>> {
    keys.iter().map(|key| at.keyspace.encode(key.as_ref())).collect()
}

/// Looks `keys` up at a moment, and returns what `of` makes of each value, in their order.
pub(super) fn of_many<K: AsRef<[u8]>, T: Clone + Default>(
    keyspace: &Keyspace,
    at: Moment<'_>,
    keys: &[K],
    wants: Wants,
    of: impl Fn(Option<Value>) -> T,
) -> Result<Vec<T>> {
    let encoded = encode_all(at, keys)?;
    let mut results = vec![T::default(); keys.len()];
    keyspace.store.searcher.find_many(at, &encoded, wants, |number, found| {
        if let Some(result) = results.get_mut(number) {
            *result = of(found.value);
        }
    })?;
    Ok(results)
}

/// Looks `keys` up at a moment, and lets `look` see each value that is there, with its key's number.
pub(super) fn look_at_many<K: AsRef<[u8]>>(
    keyspace: &Keyspace,
    at: Moment<'_>,
    keys: &[K],
    mut look: impl FnMut(usize, &[u8]),
) -> Result<()> {
    keyspace.store.searcher.find_many(at, &encode_all(at, keys)?, Wants::Look, |number, found| {
        if let Some(value) = found.value {
            value.look(|bytes| look(number, bytes));
        }
    })
}

impl Keyspace {
    /// Lets `look` see the newest value of `key`, and returns what it makes of it; `None` where there is no
    /// value.
    ///
    /// The value is not copied where it lies in a cached page, and no memory is allocated for it where it is
    /// short. No lock is held meanwhile: `look` may use the store.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let vectors = db.create_keyspace("vectors", siltstone::KeyspaceOptions::default())?;
    /// vectors.put(b"v1", [1.5f32, 2.5].map(f32::to_le_bytes).concat())?;
    /// let sum = vectors.get_with(b"v1", |bytes| {
    ///     bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).sum::<f32>()
    /// })?;
    /// assert_eq!(sum, Some(4.0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, look: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        Ok(self.newest(key.as_ref(), Wants::Look)?.map(|value| value.look(look)))
    }

    /// Whether `key` has a value. A value that is stored apart from its key is not read.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let films = db.create_keyspace("films", siltstone::KeyspaceOptions::default())?;
    /// films.put("f1", vec![0; 1 << 20])?;
    /// assert!(films.contains("f1")? && !films.contains("f2")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.newest(key.as_ref(), Wants::Presence)?.is_some())
    }

    /// The values of `keys`, in their order, all of one moment. What has to come from the device is read at
    /// the same time, a page that several keys need once.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let users = db.create_keyspace("users", siltstone::KeyspaceOptions::default())?;
    /// users.put("u1", "Ada")?;
    /// assert_eq!(users.multi_get(&["u1", "u2"])?, [Some(b"Ada".to_vec()), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`], for the first key that fails.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let pinned = self.pin()?;
        let at = Moment::of(&pinned);
        of_many(self, at, keys, Wants::Copy, |value| value.map(Value::into_vec))
    }

    /// As [`Keyspace::multi_get`], where memory holds all that it takes: write buffers, filters, indexes,
    /// cached pages, and, on Linux and without [direct reads](crate::Options::direct_reads), the system's
    /// page cache. `None` where a thread would have to wait for the device.
    ///
    /// For threads that must not wait, such as those of an event loop: what is not in memory is then asked
    /// for by another one.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let users = db.create_keyspace("users", siltstone::KeyspaceOptions::default())?;
    /// users.put("u1", "Ada")?;
    /// let values = match users.multi_get_cached(&["u1", "u2"])? {
    ///     Some(values) => values,
    ///     None => users.multi_get(&["u1", "u2"])?, // This reads from the device.
    /// };
    /// assert_eq!(values, [Some(b"Ada".to_vec()), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`], for the first key that fails.
    pub fn multi_get_cached<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Option<Vec<Option<Vec<u8>>>>> {
        let pinned = self.pin()?;
        let at = Moment::of(&pinned);
        let found = self.store.searcher.find_cached(at, &encode_all(at, keys)?, Wants::Copy)?;
        let value = |found: Found| found.value.map(Value::into_vec);
        Ok(found.map(|found| found.into_iter().map(value).collect()))
    }

    /// Lets `look` see the values that `keys` have, all of one moment: each with its key's number in `keys`,
    /// in any order; keys without a value are passed over. As [`Keyspace::multi_get`], what comes from the
    /// device is read at the same time, and as [`Keyspace::get_with`] values are not copied where they lie in
    /// cached pages.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let rows = db.create_keyspace("rows", siltstone::KeyspaceOptions::default())?;
    /// rows.put("r1", [1, 2])?;
    /// rows.put("r3", [5, 6])?;
    /// let mut matrix = [[0; 2]; 3];
    /// rows.multi_get_with(&["r1", "r2", "r3"], |number, value| matrix[number].copy_from_slice(value))?;
    /// assert_eq!(matrix, [[1, 2], [0, 0], [5, 6]]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`], for the first key that fails; `look` may have seen others by then.
    pub fn multi_get_with<K: AsRef<[u8]>>(&self, keys: &[K], look: impl FnMut(usize, &[u8])) -> Result<()> {
        let pinned = self.pin()?;
        look_at_many(self, Moment::of(&pinned), keys, look)
    }

    /// Whether each of `keys` has a value, in their order, all of one moment. As [`Keyspace::multi_get`],
    /// what has to come from the device is read at the same time, and as [`Keyspace::contains`] no more than
    /// it takes.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let users = db.create_keyspace("users", siltstone::KeyspaceOptions::default())?;
    /// users.put("u1", "Ada")?;
    /// assert_eq!(users.contains_many(&["u1", "u2"])?, [true, false]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`], for the first key that fails.
    pub fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let pinned = self.pin()?;
        let at = Moment::of(&pinned);
        of_many(self, at, keys, Wants::Presence, |value| value.is_some())
    }
}
