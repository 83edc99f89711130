//! A keyspace gets another design while it is in use.
//!
//! One edit of the manifest says so, and from then on flushes and compactions write what the new design asks
//! for. All that is there stays readable, and background work turns it into what the new design would have
//! made of it (`background/redesign.rs`): nobody waits for that, and after a crash or a reopening it goes on
//! from what is there.

use super::keyspace::Keyspace;
use super::store::Store;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::shape::VersionShape;
use crate::error::Result;
use crate::events::Reason;
use crate::stats::{DesignChange, RedesignReason, RedesignStats};
use crate::version::{Version, designs};
use siltstone_design::{Design, redesign};
use std::sync::Arc;

impl Keyspace {
    /// Gives the keyspace another design, in which all that is written from now on is laid out.
    ///
    /// It returns at once. What is there already is read as before, and rewritten in the background as the
    /// new design has it, a region at a time, behind what else there is to do; readers and writers wait for
    /// none of it. [`KeyspaceStats::redesign`](crate::KeyspaceStats::redesign) says how far that is. It goes
    /// on after a crash or a reopening, and another redesign may follow before it is over.
    ///
    /// A keyspace that takes merges gets a memtable where `design` has a log store, as when it was created.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::presets;
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let design = Some(presets::leveled());
    /// let users = db.create_keyspace("users", KeyspaceOptions { design, ..KeyspaceOptions::default() })?;
    /// users.put("ada", "1815")?;
    /// users.redesign(presets::siltstone())?;
    /// assert_eq!(users.design(), presets::siltstone());
    /// assert_eq!(users.get("ada")?.as_deref(), Some(&b"1815"[..]));
    /// db.wait_until_idle()?;
    /// assert_eq!(users.stats().redesign.unwrap().done, 1.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where the design is unsound, does not suit the keyspace's schema, which stays as it is,
    /// or does not fit the memory budget, and where the keyspace is being built or replaced; also while
    /// another schema is on its way, with which a design comes
    /// ([`Keyspace::change_schema`](crate::Keyspace::change_schema)). `NoKeyspace` where it has been dropped;
    /// those of writing the manifest.
    pub fn redesign(&self, design: Design) -> Result<()> {
        let (store, keyspace) = (&*self.store, self.current());
        store.env.check_writable()?;
        keyspace.check_exists()?;
        let options = &store.env.options;
        let usable = options.usable_design(design, keyspace.encoder.schema(), keyspace.folder.is_some());
        let design = usable.map_err(|error| error.of(format_args!("keyspace {:?}", keyspace.name)))?;
        store.redesign(keyspace, &design)
    }

    /// The redesigns that the keyspace has had, oldest first; of very many only the last.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let before = items.design();
    /// items.redesign(before.scaled_to(before.write_buffer_bytes() / 2))?;
    /// assert_eq!(items.design_history()[0].from, before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn design_history(&self) -> Vec<DesignChange> {
        self.current().version().history.changes().iter().map(DesignChange::from).collect()
    }
}

impl Store {
    fn redesign(&self, keyspace: &Arc<OpenKeyspace>, design: &Design) -> Result<()> {
        if self.scheduler.redesign(keyspace, design, None)? {
            // What gathers writes is another one now. Where that fails (a full disk), the next one is.
            self.committer.renew(keyspace, Reason::Redesigned)?;
            self.env.signals.wake();
        }
        Ok(())
    }
}

impl From<&designs::DesignChange> for DesignChange {
    fn from(change: &designs::DesignChange) -> Self {
        Self {
            from: Design::clone(&change.from),
            to: Design::clone(&change.to),
            sequence: change.sequence,
            at_ms: change.at_ms,
            settled_ms: change.settled_ms,
            why: change.chosen.map_or(RedesignReason::Asked, |chosen| RedesignReason::Chosen {
                saved_share: chosen.saved_share(),
            }),
        }
    }
}

/// Returns how far the last redesign of a keyspace is, but for the time that the rest takes; `None` where
/// there was none.
pub(super) fn progress(version: &Version) -> Option<RedesignStats> {
    let change = version.history.changes().last()?;
    let shape = VersionShape::of_sizes(version);
    let is_open = change.settled_ms.is_none();
    let left = if is_open { redesign::leftovers(&version.design, &shape) } else { Vec::new() };
    let remaining_bytes: u64 = left.iter().map(|left| left.bytes).sum();
    let bytes: u64 = version.tables().map(|table| table.meta().bytes).sum();
    let share = remaining_bytes as f64 / bytes.max(remaining_bytes).max(1) as f64;
    Some(RedesignStats {
        from: change.from.preset_name(),
        to: change.to.preset_name(),
        // All is done once that is noted.
        done: if is_open { (1.0 - share).min(0.999) } else { 1.0 },
        remaining_bytes,
        remaining_regions: left.len() as u64,
        remaining_us: 0.0,
    })
}
