//! What Java holds: numbers of a place in a table and of who had the place before.
//!
//! A number is found as long as nobody took its entry out. Whoever found it holds what it stands for until the call
//! ends, so closing in one thread takes nothing from a call in another.

use crate::error::Failure;
use crate::jobs::Ledger;
use jni::sys::jlong;
use parking_lot::{Mutex, RwLock};
use slotmap::{DefaultKey, Key, KeyData, SlotMap};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

/// A table of open things of one kind.
pub struct Table<T> {
    what: &'static str,
    entries: LazyLock<RwLock<SlotMap<DefaultKey, Arc<T>>>>,
}

impl<T> Table<T> {
    const fn new(what: &'static str) -> Self {
        Self { what, entries: LazyLock::new(RwLock::default) }
    }

    /// Puts it into the table and returns its number, which is never 0.
    pub fn put(&self, entry: T) -> jlong {
        self.entries.write().insert(Arc::new(entry)).data().as_ffi().cast_signed()
    }

    /// Returns what the number stands for.
    ///
    /// # Errors
    /// That it is closed.
    #[inline]
    pub fn get(&self, number: jlong) -> Result<Arc<T>, Failure> {
        let key = DefaultKey::from(KeyData::from_ffi(number.cast_unsigned()));
        self.entries.read().get(key).cloned().ok_or(Failure::Closed(self.what))
    }

    /// As [`Table::get`], for what may not be named at all.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get_if_named(&self, number: jlong) -> Result<Option<Arc<T>>, Failure> {
        if number == 0 { Ok(None) } else { self.get(number).map(Some) }
    }

    /// Takes it out, once; it is dropped when the last call that uses it ends.
    pub fn take(&self, number: jlong) -> Option<Arc<T>> {
        let key = DefaultKey::from(KeyData::from_ffi(number.cast_unsigned()));
        self.entries.write().remove(key)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.read().len()
    }
}

/// An open store, with what is counted of its background work.
pub struct OpenStore {
    pub db: siltstone::Db,
    pub ledger: Arc<Ledger>,
}

impl Deref for OpenStore {
    type Target = siltstone::Db;

    #[inline]
    fn deref(&self) -> &siltstone::Db {
        &self.db
    }
}

/// Something of an open store.
pub struct Of<T> {
    /// The store's number.
    pub store: jlong,
    inner: T,
}

impl<T> Of<T> {
    pub fn new(store: jlong, inner: T) -> Self {
        Self { store, inner }
    }
}

impl<T> Deref for Of<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> Table<Of<T>> {
    /// Takes out all that is of a store: what is left of it would keep the store's memory.
    pub fn take_of(&self, store: jlong) {
        let mut taken = Vec::new();
        self.entries.write().retain(|_, entry| {
            let stays = entry.store != store;
            if !stays {
                taken.push(Arc::clone(entry));
            }
            stays
        });
        // Dropped here, where the table is not locked.
        drop(taken);
    }
}

pub static RESOURCES: Table<siltstone::Resources> = Table::new("resources value");
pub static STORES: Table<OpenStore> = Table::new("store");
pub static KEYSPACES: Table<Of<siltstone::Keyspace>> = Table::new("keyspace");
pub static SNAPSHOTS: Table<Of<siltstone::Snapshot>> = Table::new("snapshot");
pub static ITERATORS: Table<Of<Mutex<crate::iter::Walk>>> = Table::new("iterator");
