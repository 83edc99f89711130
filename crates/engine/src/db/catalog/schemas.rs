//! Changes of a keyspace's schema, as the manifest and readers see them: asked for, given up, and done.
//!
//! Until it is done, all that there is of a change is a note in the manifest, and a copy that no manifest
//! names. One edit then lets the copy's tables be the keyspace's.

use super::Catalog;
use super::keyspace::{KeyspaceParts, OpenKeyspace};
use super::schema_change::{Ended, SchemaChange};
use crate::error::Result;
use crate::record::LogStart;
use crate::sync::atomic::Ordering;
use crate::version::Version;
use crate::version::edit::{Edit, Step};
use std::sync::Arc;

impl Catalog {
    /// Says that `keyspace` is to have another schema: on disk first. The caller holds the commit lock.
    pub fn begin_schema_change(
        &self,
        keyspace: &Arc<OpenKeyspace>,
        change: &Arc<SchemaChange>,
    ) -> Result<()> {
        let edit = Edit { keyspace: keyspace.id, steps: vec![change.to_come().to_step()?] };
        self.commit_keyspaces(&[edit], || keyspace.note_schema_change(change))
    }

    /// Says that `keyspace` keeps its schema: on disk first. The caller holds the commit lock, and `change`
    /// is under way.
    pub fn end_schema_change(
        &self,
        keyspace: &Arc<OpenKeyspace>,
        change: &Arc<SchemaChange>,
        ended: Ended,
    ) -> Result<()> {
        let edit = Edit { keyspace: keyspace.id, steps: vec![Step::SchemaKept] };
        self.commit_keyspaces(&[edit], || {
            change.end(ended);
            keyspace.note_schema_change(change);
        })
    }

    /// Lets `copy`, which holds what `old` does by the schema of `change`, take the place of `old`: on disk
    /// first, then for readers. The caller holds the locks on commits and flushes, nobody builds or replaces
    /// `old`, and all that is in `copy` is in tables.
    pub fn finish_schema_change(
        &self,
        old: &Arc<OpenKeyspace>,
        copy: &OpenKeyspace,
        change: &Arc<SchemaChange>,
    ) -> Result<()> {
        // What is written later stands in later segments than what `old` held, and by the new schema.
        self.log.rotate()?;
        let (flushed, visible, memory) = (self.log.segment(), self.visible(), self.env.memory());
        let before = old.version();
        let moment = (visible, self.env.now_ms());
        let version = Version::clone(&copy.version()).following(&before, moment);
        let mut activity = old.activity();
        activity.note_copied();
        let version = Version { activity, ..version };
        let edit = Edit { keyspace: old.id, steps: steps_of(&version, change, moment, flushed)? };
        // What has expired was not copied.
        let (edits, clock_ms) = self.with_clock(edit);
        let mut earlier_schemas = old.earlier_schemas.clone();
        earlier_schemas.push(*old.encoder.schema());
        let parts = KeyspaceParts {
            id: old.id,
            name: old.name.clone(),
            encoder: change.encoder,
            folder: old.folder.clone(),
            version,
            flushed,
            schema_change: None,
            earlier_schemas,
        };
        let new = OpenKeyspace::new(parts, visible, memory);
        self.commit_keyspaces(&edits, || {
            let _views = self.view_lock.lock();
            let mut registry = self.keyspaces.write();
            registry.by_number.insert(new.id, Arc::clone(&new));
            registry.by_name.insert(new.name.clone(), Arc::clone(&new));
            drop(registry);
            self.schema_changes.fetch_add(1, Ordering::Release);
            // As it is now: what compactions have made of it meanwhile is to go as well.
            let last = old.version();
            old.give_way_to(&new, memory);
            last.tables().for_each(|table| table.mark_obsolete());
            last.sidecars().for_each(|pages| pages.mark_obsolete());
            // Whoever waits for it finds the schema.
            change.end(Ended::Done);
            new.note_schema_change(change);
        })?;
        self.env.clock.noted(clock_ms.unwrap_or(0));
        self.env.keep_room_for(&new.design());
        self.refresh_pressure(&new);
        self.env.reader.fit_cache();
        self.env.signals.wake();
        Ok(())
    }

    /// Lets a copy be gone that no manifest names, and its files with it: work on it that is under way
    /// changes nothing any more.
    pub fn discard_copy(&self, copy: &OpenKeyspace) {
        // What is being committed comes before, and its files go as well.
        let _manifest = self.manifest.lock();
        copy.mark_dropped();
        let version = copy.version();
        version.tables().for_each(|table| table.mark_obsolete());
        version.sidecars().for_each(|pages| pages.mark_obsolete());
    }

    /// How often keyspaces have got another schema since the store was opened.
    #[inline]
    pub fn schema_changes(&self) -> u64 {
        self.schema_changes.load(Ordering::Acquire)
    }
}

/// The steps that make a keyspace of what `version` holds.
fn steps_of(
    version: &Version,
    change: &SchemaChange,
    (sequence, at_ms): (u64, u64),
    start: LogStart,
) -> Result<Vec<Step>> {
    let (schema, design) = change.to_come().written()?;
    let mut steps = vec![
        Step::SchemaChanged { schema, design, sequence, at_ms },
        Step::Flushed { start, user_bytes: version.user_bytes },
        Step::Activity(Box::new(version.activity)),
    ];
    steps.extend(version.to_steps());
    Ok(steps)
}
