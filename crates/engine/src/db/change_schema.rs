//! A keyspace gets another schema while it is in use.
//!
//! The manifest says so, and from then on keys have to fit both schemas. A copy is made in the background
//! (`copy/`), which takes the keyspace's place in the end. Handles go on with it.

use super::catalog::keyspace::OpenKeyspace;
use super::catalog::schema_change::{Ended, SchemaChange};
use super::keyspace::Keyspace;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::stats::SchemaChangeStats;
use siltstone_design::{Design, Encoder, Schema};
use std::sync::Arc;

impl Keyspace {
    /// Gives the keyspace another schema, and a design with it: the one it has where `design` is none. A
    /// [redesign](Keyspace::redesign) is refused until that is over.
    ///
    /// It returns at once. In the background all items are copied into tables by the new schema, beside
    /// those that are there; then the keyspace has the new schema from one moment to the next. Until then it
    /// is read and written by the old one, and keys that are written have to fit both. Readers never wait for
    /// it. Writers wait for the last few milliseconds, or longer where they write faster than is copied: then
    /// for the last of nine rounds or more, each of which brings what was written during the one before. The
    /// copy's level 0 is merged before as its design has it, unless that takes more than half a minute.
    /// Handles stay valid and go on with the new schema; snapshots and iterators go on with the old one.
    /// [`KeyspaceStats::schema_change`](crate::KeyspaceStats::schema_change) says how far it is,
    /// [`Keyspace::wait_for_schema`] waits for it and [`Keyspace::cancel_schema_change`] gives it up. After a
    /// crash or a reopening the copy is begun anew.
    ///
    /// A batch that was made before and is written after is written by the new schema. A transaction that
    /// began before and ends after runs once more.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options, Schema};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let files = db.create_keyspace("files", KeyspaceOptions::default())?;
    /// files.put("etc/hosts", "127.0.0.1 localhost")?;
    /// assert!(files.prefix("etc/").is_err());
    /// files.change_schema(Schema::delimited(b'/'), None)?;
    /// files.wait_for_schema()?;
    /// assert_eq!(files.prefix("etc/")?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where the design is unsound, does not suit the schema or does not fit the memory
    /// budget, and where another change of the schema is under way; `NoKeyspace` where the keyspace has been
    /// dropped; those of writing the manifest. Where an item's key does not fit the schema, the copy finds
    /// that out: the keyspace stays as it is, and [`Keyspace::wait_for_schema`] and the statistics say why.
    pub fn change_schema(&self, schema: Schema, design: Option<Design>) -> Result<()> {
        let store = &*self.store;
        store.env.check_writable()?;
        let commit = store.committer.lock();
        let keyspace = self.current();
        keyspace.check_exists()?;
        // The design that comes with the schema is that of the last redesign.
        let designing = keyspace.designing.lock();
        let of_keyspace = |error: Error| error.of(format_args!("keyspace {:?}", keyspace.name));
        if let Some(open) = keyspace.open_schema_change() {
            return is_same(keyspace, &open, &schema, design.as_ref());
        }
        if schema == *keyspace.encoder.schema() {
            drop((designing, commit));
            return design.map_or(Ok(()), |design| self.redesign(design));
        }
        let encoder = Encoder::new(schema, store.env.secret).with_rules(&store.env.options.prefix_rules);
        let encoder = encoder.map_err(|error| of_keyspace(error.into()))?;
        let design = design.unwrap_or_else(|| self.design());
        let usable = store.env.options.usable_design(design, &schema, keyspace.folder.is_some());
        let design = as_written(&usable.map_err(of_keyspace)?)?;
        let from = *keyspace.encoder.schema();
        let change = Arc::new(SchemaChange::new(from, encoder, Arc::new(design), store.env.now_ms()));
        store.catalog.begin_schema_change(keyspace, &change)?;
        drop((designing, commit));
        store.copier.tell(keyspace, &change, Event::SchemaChangeBegan);
        store.copy_in_background()
    }

    /// Waits until the keyspace has the schema that it was last given.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, ErrorKind, KeyspaceOptions, Options, Schema};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let files = db.create_keyspace("files", KeyspaceOptions::default())?;
    /// files.put("README", "")?;
    /// files.change_schema(Schema::delimited(b'/'), None)?;
    /// let error = files.wait_for_schema().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::BadKey);
    /// assert_eq!(files.schema(), Schema::Point);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `BadKey` where an item's key does not fit that schema, and `MergeFailed` where the merges of one can't
    /// be carried out: the keyspace keeps the one it had. `InvalidInput` where the change was cancelled,
    /// `NoKeyspace` where the keyspace has been dropped, `ReadOnly` where the change is under way and the
    /// store is open for reading; those of background work.
    pub fn wait_for_schema(&self) -> Result<()> {
        let keyspace = self.current();
        let Some(change) = keyspace.last_schema_change() else { return Ok(()) };
        if change.is_open() {
            self.store.env.check_writable()?;
        }
        self.store.wait_until(|| !change.is_open() || keyspace.check_exists().is_err())?;
        match change.ended() {
            Some(Ended::Done) => Ok(()),
            Some(Ended::Impossible(error)) => Err(error.clone()),
            Some(Ended::Cancelled) => Err(Error::invalid(format_args!(
                "keyspace {:?} keeps its schema: the change of it was cancelled",
                keyspace.name
            ))),
            None => {
                keyspace.check_exists()?;
                let what = format!("keyspace {:?} waits for its schema: it is being built", keyspace.name);
                Err(Error::new(ErrorKind::InvalidInput, what))
            }
        }
    }

    /// Lets the keyspace keep its schema, if a change of it is under way; says whether one was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use siltstone::{Db, KeyspaceOptions, Options, Schema};
    /// # let options = Options { background_threads: 0, ..Options::default() };
    /// # let db = Db::open(dir.path().join("db"), options)?;
    /// let files = db.create_keyspace("files", KeyspaceOptions::default())?;
    /// files.change_schema(Schema::delimited(b'/'), None)?;
    /// assert!(files.put("README", "").is_err(), "it fits the old schema alone");
    /// assert!(files.cancel_schema_change()?);
    /// files.put("README", "")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoKeyspace` where the keyspace has been dropped; those of writing the manifest.
    pub fn cancel_schema_change(&self) -> Result<bool> {
        let store = &*self.store;
        store.env.check_writable()?;
        let commit = store.committer.lock();
        let keyspace = self.current();
        keyspace.check_exists()?;
        let Some(change) = keyspace.open_schema_change() else { return Ok(false) };
        store.catalog.end_schema_change(keyspace, &change, Ended::Cancelled)?;
        drop(commit);
        store.copier.tell(keyspace, &change, Event::SchemaChangeEnded);
        store.env.signals.wake();
        Ok(true)
    }
}

/// The design as it comes back from the manifest, where the last bit of a number may get lost.
fn as_written(design: &Design) -> Result<Design> {
    let json = |error: serde_json::Error| Error::because(ErrorKind::InvalidInput, error).of("design");
    serde_json::from_str(&serde_json::to_string(design).map_err(json)?).map_err(json)
}

/// Refuses another change than the one that is under way.
fn is_same(
    keyspace: &OpenKeyspace,
    open: &SchemaChange,
    schema: &Schema,
    design: Option<&Design>,
) -> Result<()> {
    let is_design = |design: &Design| as_written(design).is_ok_and(|design| design == *open.design);
    if open.encoder.schema() == schema && design.is_none_or(is_design) {
        return Ok(());
    }
    Err(Error::invalid(format_args!(
        "keyspace {:?} is getting another schema already ({}); wait for that (Keyspace::wait_for_schema), or cancel it \
         (Keyspace::cancel_schema_change)",
        keyspace.name,
        open.encoder.schema()
    )))
}

/// Returns how far the last change of a keyspace's schema is; none where there was none since the store was
/// opened.
pub(super) fn progress(keyspace: &OpenKeyspace) -> Option<SchemaChangeStats> {
    let change = keyspace.last_schema_change()?;
    let (total, remaining) = change.progress();
    let share = remaining as f64 / total.max(remaining).max(1) as f64;
    let (done, remaining_bytes, failure) = match change.ended() {
        Some(Ended::Done) => (1.0, 0, None),
        Some(Ended::Cancelled) => (0.0, 0, Some("it was cancelled".to_owned())),
        Some(Ended::Impossible(error)) => (0.0, 0, Some(error.to_string())),
        // It is done once that is noted, and begins with the copy.
        None if total == 0 => (0.0, remaining, None),
        None => ((1.0 - share).min(0.999), remaining, None),
    };
    Some(SchemaChangeStats {
        from: change.from,
        to: *change.encoder.schema(),
        design: change.design.preset_name(),
        done,
        remaining_bytes,
        failure,
    })
}
