//! How a keyspace goes from one version to the next: on disk first, then for readers.

use super::Catalog;
use super::keyspace::OpenKeyspace;
use super::view::{Origin, View};
use crate::compaction::Output;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::MutexGuard;
use crate::table::envelope::TableMeta;
use crate::version::Version;
use crate::version::edit::{Edit, Step};
use crate::version::manifest::Manifest;
use siltstone_design::Design;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// How many bytes of tables there are for each byte of obsolete log that is kept to be written over.
const TABLES_PER_SPARE_LOG: u64 = 8;
/// How far the manifest may be behind the clock before it is told, in milliseconds.
const CLOCK_NOTE_MS: u64 = 60_000;

/// Whether an edit that could not be written, because of `error`, will not be found after a crash. A full
/// disk took a part of it at most, and needs the room. After any other failure the whole of it may be there,
/// unless it is withdrawn: then a crash finds it, with its tables. Of a flush or a compaction that makes no
/// difference.
fn withdrew(manifest: &mut Manifest, error: &Error) -> bool {
    error.kind() == ErrorKind::StorageFull || manifest.withdraw().is_ok()
}

impl Catalog {
    /// Makes `output` happen to `keyspace`: on disk first, then for readers. `origin` says what it was made
    /// of.
    pub fn commit(&self, keyspace: &Arc<OpenKeyspace>, output: Output, origin: Origin<'_>) -> Result<()> {
        self.commit_under(self.manifest.lock(), keyspace, output, origin)
    }

    /// Notes that the redesign of `keyspace` to `design` is over, unless another one has begun.
    pub fn settle(&self, keyspace: &Arc<OpenKeyspace>, design: &Arc<Design>) -> Result<()> {
        let guard = self.manifest.lock();
        if !Arc::ptr_eq(&keyspace.design(), design) {
            return Ok(());
        }
        let steps = vec![Step::Settled { at_ms: self.env.now_ms() }];
        self.commit_under(guard, keyspace, Output { steps, ..Output::default() }, Origin::Tables)
    }

    /// As [`Catalog::commit`], with the manifest locked.
    fn commit_under(
        &self,
        mut guard: MutexGuard<'_, Option<Manifest>>,
        keyspace: &Arc<OpenKeyspace>,
        output: Output,
        origin: Origin<'_>,
    ) -> Result<()> {
        let Output { steps, filters, .. } = output;
        let Some(manifest) = guard.as_mut() else { return self.env.check_writable() };
        if keyspace.is_dropped() {
            self.remove_new_tables(&steps, &keyspace.version());
            return Ok(());
        }
        let base = keyspace.version();
        let edit = Edit { keyspace: keyspace.id, steps: absolute(&base, steps) };
        let mut open = |meta: &TableMeta| self.env.open_table(meta, keyspace.encoder);
        let (mut next, removed) = base.apply(&edit, &mut open).map_err(|what| {
            Error::new(ErrorKind::Corruption, format!("an edit does not fit the store as it is: {what}"))
        })?;
        next.filter_by(&filters);
        next.filter_by(&base.filters_after_rewrites(&edit.steps, self.env.memory()));
        debug_check(&next);
        if !keyspace.is_copy() {
            self.write_edit(manifest, &edit, &base, origin)?;
        }
        let next = Arc::new(next);
        self.show_version(keyspace, &next, origin);
        base.retire_sidecars(&next);
        removed.iter().for_each(|table| table.mark_obsolete());
        for step in &edit.steps {
            if let Step::Flushed { start, .. } = step {
                keyspace.set_flushed(*start);
            }
        }
        self.refresh_pressure(keyspace);
        self.env.reader.fit_cache();
        if keyspace.is_copy() {
            return Ok(());
        }
        if let Origin::Buffer(_) = origin {
            self.advance_log_start(manifest)?;
        } else if !removed.is_empty() {
            self.remove_segments(self.log.trim_spares(|| self.spare_bytes()));
        }
        self.rewrite_manifest_if_long(manifest)
    }

    /// Appends an edit to the manifest and syncs it.
    fn write_edit(
        &self,
        manifest: &mut Manifest,
        edit: &Edit,
        base: &Version,
        origin: Origin<'_>,
    ) -> Result<()> {
        let added = edit.steps.iter().filter_map(|step| match step {
            Step::AddRun { run, .. } => Some(run),
            _ => None,
        });
        if added.flat_map(|run| &run.tables).any(|table| table.expiring > 0) {
            self.env.clock.note_use();
        }
        let (edits, clock_ms) = self.with_clock(edit.clone());
        manifest.append_all(&edits).inspect_err(|error| {
            if withdrew(manifest, error) {
                self.remove_new_tables(&edit.steps, base);
            } else if let Origin::Build = origin {
                self.env.health.doubt(error);
            }
        })?;
        self.sync_manifest(manifest)?;
        self.env.clock.noted(clock_ms.unwrap_or(0));
        Ok(())
    }

    /// Returns an edit by which what has expired may be gone, behind one that says how far the clock has
    /// come, and what that says: what has expired is never to be looked for again.
    pub(super) fn with_clock(&self, edit: Edit) -> (Vec<Edit>, Option<u64>) {
        let clock_ms = self.env.clock.to_note();
        let clock = clock_ms.map(|ms| Edit { keyspace: 0, steps: vec![Step::Clock(ms)] });
        (clock.into_iter().chain([edit]).collect(), clock_ms)
    }

    /// Writes down how far the clock has come, where something expires and that was long ago. A failure loses
    /// nothing but that.
    pub fn note_clock(&self) {
        if !self.env.clock.is_late(CLOCK_NOTE_MS) {
            return;
        }
        let Some(clock_ms) = self.env.clock.to_note() else { return };
        let edit = Edit { keyspace: 0, steps: vec![Step::Clock(clock_ms)] };
        if let Some(manifest) = self.manifest.lock().as_mut()
            && manifest.append(&edit).is_ok()
            && self.sync_manifest(manifest).is_ok()
        {
            self.env.clock.noted(clock_ms);
        }
    }

    /// Syncs the manifest and notes in the log that it is.
    fn sync_manifest(&self, manifest: &mut Manifest) -> Result<()> {
        manifest.sync()?;
        self.log.note_manifest_end(manifest.synced_end());
        Ok(())
    }

    /// Shows readers `next`, and no longer the write buffer that is in it.
    fn show_version(&self, keyspace: &OpenKeyspace, next: &Arc<Version>, origin: Origin<'_>) {
        let _views = self.view_lock.lock();
        let mut view = View::clone(&keyspace.view.load());
        view.version = Arc::clone(next);
        match origin {
            Origin::Buffer(flushed) => view.sealed.retain(|sealed| !sealed.buffer.is(flushed)),
            Origin::Build => view.builds += 1,
            Origin::Tables => {}
        }
        keyspace.view.store(Arc::new(view));
    }

    /// Shows readers a version that differs from the present one in what no manifest speaks of: region
    /// filters, and what is in memory. Files of region filters that it no longer has go.
    pub fn publish(&self, keyspace: &OpenKeyspace, change: impl FnOnce(&mut Version)) {
        // Versions change under the manifest's lock.
        let _manifest = self.manifest.lock();
        let before = keyspace.version();
        let mut version = Version::clone(&before);
        change(&mut version);
        before.retire_sidecars(&version);
        self.show_version(keyspace, &Arc::new(version), Origin::Tables);
        self.note_changed(keyspace);
        self.env.reader.fit_cache();
    }

    /// Removes the files of tables that `steps` would have added to `base`. Those that it has stay: a step
    /// may move them from one run to another.
    pub(in crate::db) fn remove_new_tables(&self, steps: &[Step], base: &Version) {
        let kept: HashSet<u64> = base.tables().map(|table| table.id()).collect();
        for step in steps {
            let Step::AddRun { run, .. } = step else { continue };
            for table in run.tables.iter().filter(|table| !kept.contains(&table.id)) {
                self.env.reader.forget(table.id, 0);
                // Left behind, it would be removed as an orphan at the next open.
                let _ = self.env.disk.remove(&self.env.reader.path(table.id));
            }
        }
    }

    /// Writes keyspaces' creation or end to the manifest, then lets `publish` show it. The manifest stays
    /// locked meanwhile: one that is written afresh must not miss what it replaces.
    pub(super) fn commit_keyspaces(&self, edits: &[Edit], publish: impl FnOnce()) -> Result<()> {
        self.env.check_writable()?;
        // What was written before must not be lost where this is kept.
        self.log.sync()?;
        let mut guard = self.manifest.lock();
        let Some(manifest) = guard.as_mut() else { return self.env.check_writable() };
        manifest.append_all(edits).inspect_err(|error| {
            if !withdrew(manifest, error) {
                self.env.health.doubt(error);
            }
        })?;
        self.sync_manifest(manifest)?;
        publish();
        Ok(())
    }

    /// Lets `old` hold what `new` holds, and `new` be gone: on disk first, then for readers. The caller holds
    /// the locks on commits and flushes, compactions of both are held back, and `new` has nothing in write
    /// buffers.
    pub fn replace(&self, old: &Arc<OpenKeyspace>, new: &Arc<OpenKeyspace>) -> Result<()> {
        self.put_in_place(old, new.version(), Step::Replaced { by: new.id }, || self.forget(new))
    }

    /// Lets `keyspace` hold nothing: on disk first, then for readers. The caller holds the locks on commits
    /// and flushes, and its compactions are held back.
    pub fn clear(&self, keyspace: &Arc<OpenKeyspace>) -> Result<()> {
        let empty = Version::new(Arc::clone(&keyspace.version().design));
        self.put_in_place(keyspace, Arc::new(empty), Step::Cleared, || {})
    }

    /// Lets `keyspace` hold `version` and nothing else, as `step` says in the manifest, and does `then`
    /// before anything else changes.
    fn put_in_place(
        &self,
        keyspace: &Arc<OpenKeyspace>,
        version: Arc<Version>,
        step: Step,
        then: impl FnOnce(),
    ) -> Result<()> {
        // What is written to it later stands in later segments than what it held.
        self.log.rotate()?;
        let announced = self.log.announce(keyspace.id)?;
        let version = Arc::new(Version::clone(&version).in_place_of(&keyspace.version()));
        let start = self.log.segment();
        let flushed = Step::Flushed { start, user_bytes: version.user_bytes };
        let edit = Edit { keyspace: keyspace.id, steps: vec![step, flushed] };
        let before = keyspace.version();
        self.commit_keyspaces(std::slice::from_ref(&edit), || {
            {
                let _views = self.view_lock.lock();
                // A condition on what was read before fails.
                let now = announced.sequence;
                let active = keyspace.new_buffer(now, self.env.memory());
                let builds = keyspace.view.load().builds;
                keyspace.view.store(Arc::new(View { active, sealed: Vec::new(), version, builds }));
                self.show(now);
            }
            keyspace.set_flushed(start);
            then();
            before.tables().for_each(|table| table.mark_obsolete());
            before.sidecars().for_each(|pages| pages.mark_obsolete());
        })?;
        self.refresh_pressure(keyspace);
        self.env.reader.fit_cache();
        self.env.signals.wake();
        Ok(())
    }

    /// Records how much of the log is no longer needed, then gives that part up.
    fn advance_log_start(&self, manifest: &mut Manifest) -> Result<()> {
        let start = self.log_start();
        if !self.log.has_segments_before(start.segment) {
            return Ok(());
        }
        manifest.append(&Edit { keyspace: 0, steps: vec![Step::LogStart(start)] })?;
        // What is given up may hold the last note of the manifest's end.
        self.sync_manifest(manifest)?;
        self.remove_segments(self.log.retire_before(start.segment, self.spare_bytes()));
        Ok(())
    }

    /// Bytes of obsolete segments of the log that are kept to be written over: a small part of what the
    /// tables take, so that a store that has become small takes little space.
    fn spare_bytes(&self) -> u64 {
        let keyspaces = self.all();
        let bytes = |keyspace: &Arc<OpenKeyspace>| -> u64 {
            let version = keyspace.version();
            let regions = version.levels.iter().flat_map(|level| &level.regions);
            regions.map(|region| region.shape.bytes()).sum()
        };
        keyspaces.iter().map(bytes).sum::<u64>() / TABLES_PER_SPARE_LOG
    }

    fn remove_segments(&self, paths: Vec<PathBuf>) {
        for path in paths {
            // Left behind, it would be removed at the next open.
            let _ = self.env.disk.remove(&path);
        }
    }

    fn rewrite_manifest_if_long(&self, manifest: &mut Manifest) -> Result<()> {
        if !manifest.wants_rewrite() {
            return Ok(());
        }
        match manifest.rewrite(&self.state()) {
            // The old manifest is as good, unless it is in doubt which one is current; the next edit tries
            // again.
            Err(_) if !self.env.health.is_poisoned() => Ok(()),
            rewritten => {
                rewritten?;
                self.log.note_manifest_end(manifest.synced_end());
                Ok(())
            }
        }
    }

    /// Writes down, in the log and in the manifest, that the log is synced to its end: the next open can then
    /// tell damage from a torn tail, and miss what is missing. A failure loses nothing.
    pub fn note_log_end(&self) {
        self.note_activities();
        let Some(synced) = self.log.mark_synced() else { return };
        let steps = [Step::LogEnd(synced)].into_iter().chain(self.env.clock.to_note().map(Step::Clock));
        if let Some(manifest) = self.manifest.lock().as_mut()
            && manifest.append(&Edit { keyspace: 0, steps: steps.collect() }).is_ok()
        {
            let _ = self.sync_manifest(manifest);
        }
    }

    /// Writes down, in the manifest, that there is a last segment of the log with records that are synced,
    /// once for each: one that is removed as a whole would not be missed else. Like a mark in the log it
    /// needs no sync, and a failure loses nothing but that. Where the manifest is being written to, it is
    /// left to the next sync of the log.
    pub fn note_synced_segment(&self) {
        if !self.log.has_unnoted_segment() {
            return;
        }
        if let Some(mut guard) = self.manifest.try_lock()
            && let Some(manifest) = guard.as_mut()
            && let Some(synced) = self.log.note_segment()
        {
            let _ = manifest.append(&Edit { keyspace: 0, steps: vec![Step::LogEnd(synced)] });
        }
    }

    /// Writes down what was done with the keyspaces since that was last done. A failure loses nothing but
    /// that.
    fn note_activities(&self) {
        let now_ms = self.env.now_ms();
        let all = self.all();
        let edits = all.iter().filter(|keyspace| keyspace.has_activity_to_note()).map(|keyspace| {
            let activity = keyspace.note_activity(keyspace.items_estimate(now_ms), now_ms);
            Edit { keyspace: keyspace.id, steps: vec![Step::Activity(Box::new(activity))] }
        });
        let edits: Vec<Edit> = edits.collect();
        if let Some(manifest) = self.manifest.lock().as_mut().filter(|_| !edits.is_empty()) {
            let _ = manifest.append_all(&edits);
        }
    }
}

/// Turns the bytes written of `steps`, which count what they add, into totals, as edits hold them.
fn absolute(base: &Version, steps: Vec<Step>) -> Vec<Step> {
    let mut added: BTreeMap<usize, u64> = BTreeMap::new();
    let mut out = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Step::Written { level, bytes } => *added.entry(level).or_default() += bytes,
            other => out.push(other),
        }
    }
    for (level, bytes) in added {
        let before = base.numbered(level).map_or(0, |level| level.bytes_written);
        out.push(Step::Written { level, bytes: before + bytes });
    }
    out
}

/// Checks every new version in tests and debug builds.
fn debug_check(version: &Version) {
    if cfg!(debug_assertions) {
        let problems = crate::version::check::problems(version);
        assert!(problems.is_empty(), "an edit broke the version: {problems:?}");
    }
}
