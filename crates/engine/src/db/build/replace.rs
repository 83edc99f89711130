//! A keyspace's contents replaced as a whole by those of another one.

use crate::db::Db;
use crate::db::background::hold::Hold;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::keyspace::Keyspace;
use crate::db::store::Store;
use crate::error::{Error, Result};
use crate::events::Reason;
use std::sync::Arc;

/// How often the write buffer of a keyspace is flushed that is being written to.
const TRIES: usize = 16;

impl Db {
    /// Replaces what `keyspace` holds by what `built` holds, which is gone then: at once for readers, and in
    /// a crash wholly or not at all. Takes no longer than a flush of `built`.
    ///
    /// Handles to `keyspace` stay valid, and read the new contents from then on; snapshots and iterators keep
    /// the old ones as long as they live. A write to `keyspace` comes either before and is replaced, or after
    /// and stays. Do not write to `built` meanwhile.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// use siltstone::KeyspaceOptions;
    ///
    /// let prices = db.create_keyspace("prices", KeyspaceOptions::default())?;
    /// prices.put("apple", "3")?;
    /// let today = db.create_keyspace("prices of today", KeyspaceOptions::default())?;
    /// today.ingest([("apple", "4"), ("plum", "1")])?;
    /// let yesterday = db.snapshot();
    /// db.replace(&prices, today)?;
    /// assert_eq!(prices.get("apple")?.as_deref(), Some(&b"4"[..]));
    /// assert_eq!(yesterday.get(&prices, "apple")?.as_deref(), Some(&b"3"[..]));
    /// assert_eq!(db.keyspaces(), ["prices"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where both are the same, are of different stores, or differ in schema, design or merge
    /// operator, and where one of them is being built; `NoKeyspace` where one has been dropped; those of a
    /// flush.
    pub fn replace(&self, keyspace: &Keyspace, built: Keyspace) -> Result<()> {
        let store = &*self.store;
        let of_this_store = |keyspace: &Keyspace| keyspace.store_id() == store.env.store;
        if !of_this_store(keyspace) || !of_this_store(&built) {
            return Err(Error::invalid("both keyspaces have to be of this store"));
        }
        if keyspace.current().id == built.current().id {
            return Err(Error::invalid(format_args!(
                "keyspace {:?} can't be replaced by itself",
                keyspace.name()
            )));
        }
        let holds = [store.scheduler.hold(keyspace.current())?, store.scheduler.hold(built.current())?];
        let [old, new] = holds.each_ref().map(Hold::keyspace);
        let operator = |keyspace: &OpenKeyspace| keyspace.folder.as_ref().map(|folder| folder.name.clone());
        if old.encoder.schema() != new.encoder.schema()
            || old.design() != new.design()
            || operator(old) != operator(new)
        {
            return Err(Error::invalid(format_args!(
                "keyspaces {:?} and {:?} differ in schema, design or merge operator; create the new one with those of \
                 the old one",
                old.name, new.name
            )));
        }
        if new.open_schema_change().is_some() {
            return Err(Error::invalid(format_args!(
                "keyspace {:?} is getting another schema; wait for that or cancel it before it replaces another",
                new.name
            )));
        }
        old.check_exists()?;
        new.check_exists()?;
        let _open = store.scheduler.keep_open()?;
        replace(store, old, new, &holds)
    }
}

/// Replaces `old` by `new`, whose compactions are held back.
fn replace(store: &Store, old: &Arc<OpenKeyspace>, new: &Arc<OpenKeyspace>, _: &[Hold<'_>; 2]) -> Result<()> {
    for _ in 0..TRIES {
        let Store { scheduler, committer, catalog, .. } = store;
        committer.seal_then(new, Reason::Requested, || scheduler.mark_moment(new))?;
        scheduler.flush_older(new)?;
        let _commit = committer.lock();
        let _flushing = scheduler.lock_flushes();
        old.check_exists()?;
        new.check_exists()?;
        let view = new.view.load();
        if view.sealed.is_empty() && view.active.is_empty() {
            drop(view);
            return catalog.replace(old, new);
        }
    }
    Err(Error::invalid(format_args!(
        "keyspace {:?} is being written to; end that before it replaces another",
        new.name
    )))
}
