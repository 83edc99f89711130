//! LMDB through heed, which brings its C source: a copy-on-write B-tree in a memory map.
//!
//! | setting | value | why |
//! |---|---|---|
//! | memory | none to set | the kernel's page cache is its cache, so it has the whole cap |
//! | `MDB_NOSYNC`, a sync each second from a thread | | nobody waits for the device here; a killed process loses nothing |
//! | `MDB_NORDAHEAD` | | its documentation advises it where the data is larger than memory and read at random |
//! | no `MDB_WRITEMAP` | | it would let the kernel write pages that a commit has not finished |
//! | map | eight times the data | address space only; random inserts leave pages two thirds full, and old pages wait for readers |

use super::{Items, Memory, Setting, Store};
use crate::failure::Result;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use siltstone_lab::kit::sizes;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The version of the C source.
pub fn version() -> String {
    let version = heed::lmdb_version();
    format!("LMDB {}.{}.{}", version.major, version.minor, version.patch)
}

/// The settings for the record.
pub fn settings(memory: Memory) -> String {
    format!("page cache within {}, no read-ahead, synced each second", sizes::bytes(memory.cap_bytes))
}

/// Opens or creates a store.
///
/// # Errors
/// The engine's own.
pub fn open(setting: Setting<'_>) -> Result<Box<dyn Store>> {
    let map = (setting.user_bytes * 8).max(1 << 30).next_multiple_of(1 << 20);
    let mut options = EnvOpenOptions::new();
    options.map_size(usize::try_from(map).unwrap_or(usize::MAX)).max_readers(1024);
    // SAFETY: only this process opens the directory, once; nothing else touches its file while the map is
    // there. Without syncs a power cut may lose the file, which is a benchmark's.
    let env = unsafe {
        options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_READ_AHEAD);
        options.open(setting.dir)?
    };
    let mut transaction = env.write_txn()?;
    let items = env.create_database(&mut transaction, None)?;
    transaction.commit()?;
    let (ended, ending) = channel::<()>();
    let synced = env.clone();
    let syncer = std::thread::spawn(move || {
        while ending.recv_timeout(SYNC_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            // A sync that fails is found again by the one that closes the store.
            let _ = synced.force_sync();
        }
    });
    Ok(Box::new(Lmdb { env, items, ended, syncer }))
}

struct Lmdb {
    env: Env,
    items: Database<Bytes, Bytes>,
    ended: Sender<()>,
    syncer: JoinHandle<()>,
}

impl Store for Lmdb {
    fn write(&self, items: &Items) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in items {
            self.items.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let transaction = self.env.read_txn()?;
        let Some(found) = self.items.get(&transaction, key)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(found);
        Ok(true)
    }

    fn scan(&self, prefix: &[u8], found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let transaction = self.env.read_txn()?;
        for item in self.items.prefix_iter(&transaction, prefix)? {
            let (key, value) = item?;
            found(key, value);
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { env, ended, syncer, .. } = *self;
        drop(ended);
        let _ = syncer.join();
        env.force_sync()?;
        env.prepare_for_closing().wait();
        Ok(())
    }
}
