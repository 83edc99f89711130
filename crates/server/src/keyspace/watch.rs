//! WATCH: who wants to know that a key has changed.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

type Key = (usize, Vec<u8>);

/// Watched keys, and the flags of those who watch them.
#[derive(Debug, Default)]
pub struct Watchers {
    /// Entries of the map, so that commits need not lock it where nobody watches.
    count: AtomicUsize,
    keys: Mutex<HashMap<Key, Vec<Weak<AtomicBool>>>>,
}

impl Watchers {
    /// Raises `flag` when the key changes, as long as somebody holds the flag.
    pub fn watch(&self, database: usize, key: &[u8], flag: &Arc<AtomicBool>) {
        let mut keys = self.keys.lock();
        let flags = keys.entry((database, key.to_vec())).or_default();
        flags.retain(|other| other.strong_count() > 0);
        flags.push(Arc::downgrade(flag));
        self.count.store(keys.len(), Ordering::SeqCst);
    }

    /// Forgets the keys of one who no longer watches: after its flag was dropped.
    pub fn forget(&self, watched: impl Iterator<Item = Key>) {
        let mut keys = self.keys.lock();
        for key in watched {
            if let Some(flags) = keys.get_mut(&key) {
                flags.retain(|flag| flag.strong_count() > 0);
                if flags.is_empty() {
                    keys.remove(&key);
                }
            }
        }
        self.count.store(keys.len(), Ordering::SeqCst);
    }

    /// Tells that a key has changed. The caller holds its lock.
    pub fn changed(&self, database: usize, key: &[u8]) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(flags) = self.keys.lock().get(&(database, key.to_vec())) {
            for flag in flags.iter().filter_map(Weak::upgrade) {
                flag.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Tells everyone: any key may be another one now.
    pub fn all_changed(&self) {
        for flag in self.keys.lock().values().flatten().filter_map(Weak::upgrade) {
            flag.store(true, Ordering::SeqCst);
        }
    }

    /// The watched keys of a database.
    pub fn of_database(&self, database: usize) -> Vec<Vec<u8>> {
        let keys = self.keys.lock();
        keys.keys().filter(|(other, _)| *other == database).map(|(_, key)| key.clone()).collect()
    }
}
