//! What users ask of background work: flushing, draining, compacting, waiting.

use super::Db;
use super::background::{CompactProgress, CompactReport, Told};
use super::catalog::keyspace::OpenKeyspace;
use super::health::Chore;
use super::keyspace::Keyspace;
use super::store::Store;
use super::write_buffer::WriteBuffer;
use crate::error::Result;
use crate::events::Reason;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for others before looking again.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes in write buffers that a backup takes as they are.
const MOST_UNFLUSHED_BYTES: u64 = 64 << 10;

/// How far a drain has come; see [`Db::drain_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainProgress {
    /// Write buffers that wait for their flush.
    pub write_buffers: u64,
    /// Runs on the uppermost levels of all keyspaces.
    pub level_0_runs: u64,
}

impl Db {
    /// Writes what the write buffers of all keyspaces hold now to tables, and returns when that is done. What
    /// is written meanwhile is not waited for.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// db.flush()?;
    /// assert_eq!((items.stats().write_buffer_entries, items.stats().table_entries), (0, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the write; what is not flushed stays in the log.
    pub fn flush(&self) -> Result<()> {
        self.store.env.check_writable()?;
        self.store.committer.seal_all()?;
        self.store.flush_sealed(self.store.catalog.behind())
    }

    /// Flushes write buffers that hold more than a little: a backup brings a table once, and what is in write
    /// buffers again each time.
    pub(super) fn flush_before_backup(&self) {
        let held = |keyspace: &Arc<OpenKeyspace>| -> u64 {
            keyspace.view.load().buffers().map(WriteBuffer::user_bytes).sum()
        };
        let bytes: u64 = self.store.catalog.all().iter().map(held).sum();
        if bytes > MOST_UNFLUSHED_BYTES {
            // A store that can't be flushed, as one that is full or only read, is backed up all the same.
            let _ = self.flush();
        }
    }

    /// Waits until no flush or compaction is due. Where writers go on that may never be: see [`Db::drain`].
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.add_many((0..100u8).map(|n| ([n], [n])))?;
    /// db.flush()?;
    /// db.wait_until_idle()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error that background work keeps meeting.
    pub fn wait_until_idle(&self) -> Result<()> {
        self.store.env.health.check_open()?;
        self.store.wait_until(|| self.store.scheduler.is_idle() && !self.store.copier.is_due())
    }

    /// Flushes, and waits until the compactions that are due by then are done: level 0 and those below hold
    /// no more than their designs let them, and what was deleted or has expired has come down as far as it is
    /// due to. Writers may go on meanwhile; what they make due later is not waited for.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// for n in 0..1000u32 {
    ///     items.put(n.to_le_bytes(), [7; 100])?;
    /// }
    /// db.flush()?;
    /// for n in 0..1000u32 {
    ///     items.delete(n.to_le_bytes())?;
    /// }
    /// db.drain()?;
    /// assert_eq!(items.stats().table_bytes, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Db::flush`]; the error that background work keeps meeting.
    pub fn drain(&self) -> Result<()> {
        self.drain_with(&mut |_| ControlFlow::Continue(())).map(|_| ())
    }

    /// As [`Db::drain`]; `progress` hears of it now and then, and ends the waiting where it breaks. Returns
    /// whether all was done.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// use std::ops::ControlFlow;
    ///
    /// let is_done = db.drain_with(&mut |progress| {
    ///     println!("{} write buffers, {} runs", progress.write_buffers, progress.level_0_runs);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert!(is_done);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::drain`].
    pub fn drain_with(&self, progress: &mut dyn FnMut(DrainProgress) -> ControlFlow<()>) -> Result<bool> {
        self.flush()?;
        let Store { env, scheduler, .. } = &*self.store;
        let mut drain = scheduler.begin_drain();
        while !scheduler.is_drained(&mut drain) {
            if progress(self.drain_progress()).is_break() {
                return Ok(false);
            }
            if !self.store.wait_a_moment()? {
                break;
            }
        }
        env.empty_trash();
        Ok(true)
    }

    fn drain_progress(&self) -> DrainProgress {
        let mut progress = DrainProgress::default();
        for keyspace in self.store.catalog.all() {
            let view = keyspace.view.load();
            progress.write_buffers += view.sealed.len() as u64;
            let top = view.version.levels.iter().take(1).flat_map(|level| &level.regions);
            progress.level_0_runs += top.map(|region| region.runs.len() as u64).sum::<u64>();
        }
        progress
    }

    /// Compacts all keyspaces; see [`Keyspace::compact`].
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// assert!(db.compact()?.is_complete);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::compact`].
    pub fn compact(&self) -> Result<CompactReport> {
        self.compact_with(&mut |_| ControlFlow::Continue(()))
    }

    /// As [`Db::compact`]; `progress` hears of it now and then, and cancels it where it breaks.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// use std::ops::ControlFlow;
    ///
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let report = db.compact_with(&mut |progress| {
    ///     println!("{}: {} bytes written", progress.keyspace, progress.bytes_written);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert!(report.is_complete);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::compact`].
    pub fn compact_with(
        &self,
        progress: &mut dyn FnMut(CompactProgress) -> ControlFlow<()>,
    ) -> Result<CompactReport> {
        self.flush()?;
        let told = Told::new(progress);
        for keyspace in self.store.catalog.all() {
            // What is dropped meanwhile needs nothing.
            if !self.store.compact(&keyspace, &told).or_else(|error| keyspace.unless_dropped(error))? {
                break;
            }
        }
        Ok(told.report())
    }
}

impl Keyspace {
    /// Merges all that the keyspace holds, so that no garbage is left: every key is in one run, tombstones,
    /// deleted prefixes, overwritten values and what has expired are gone, and so is the space that they
    /// took, but for files that snapshots and iterators still read. Files that other threads are done with
    /// are removed a moment later.
    ///
    /// It works on the calling thread, region by region from the top level down, beside background work and
    /// beside readers and writers, which it never blocks. What is written meanwhile need not be part of it.
    /// It writes each byte once for every level that it comes down, and leaves alone what is in order; so it
    /// is quick the second time, and one that was cancelled or cut short goes on where it was.
    ///
    /// Stores do not need it: garbage is cleared away by itself as far as the design's `max_garbage` asks. It
    /// is for what is to be small or quick to read from now on, as before a copy is shipped.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// for round in 0..3u8 {
    ///     for n in 0..100u32 {
    ///         items.put(n.to_le_bytes(), [round; 10])?;
    ///     }
    ///     db.flush()?;
    /// }
    /// let report = items.compact()?;
    /// assert_eq!((items.stats().table_entries, report.is_complete), (100, true));
    /// assert_eq!(items.compact()?.bytes_written, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Db::flush`] and of reading and writing tables: `StorageFull`, `Corruption`; `NoKeyspace`
    /// where the keyspace has been dropped. What was done so far stays.
    pub fn compact(&self) -> Result<CompactReport> {
        self.compact_with(&mut |_| ControlFlow::Continue(()))
    }

    /// As [`Keyspace::compact`]; `progress` hears of it now and then, and cancels it where it breaks.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// use std::ops::ControlFlow;
    ///
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let report = items.compact_with(&mut |_| ControlFlow::Continue(()))?;
    /// assert!(report.is_complete);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::compact`].
    pub fn compact_with(
        &self,
        progress: &mut dyn FnMut(CompactProgress) -> ControlFlow<()>,
    ) -> Result<CompactReport> {
        let Store { env, committer, .. } = &*self.store;
        env.check_writable()?;
        let told = Told::new(progress);
        loop {
            let keyspace = self.current();
            keyspace.check_exists()?;
            committer.seal_one(keyspace, Reason::Requested)?;
            self.store.flush_sealed(vec![Arc::clone(keyspace)])?;
            self.store.compact(keyspace, &told)?;
            // Where it has got another schema meanwhile, there is nothing left of what was compacted.
            if !keyspace.is_replaced() {
                return Ok(told.report());
            }
        }
    }
}

impl Store {
    /// Flushes the write buffers of `keyspaces` that are sealed now, on this thread and on those whose work
    /// it is. The oldest come first, so that it ends however much is written meanwhile.
    fn flush_sealed(&self, keyspaces: Vec<Arc<OpenKeyspace>>) -> Result<()> {
        for keyspace in keyspaces {
            let view = keyspace.view.load_full();
            let is_left = |sealed: &WriteBuffer| {
                let present = keyspace.view.load();
                present.sealed.iter().any(|left| left.buffer.is(sealed)) && !keyspace.is_dropped()
            };
            let Some(newest) = view.sealed.first().map(|sealed| &sealed.buffer) else { continue };
            while is_left(newest) {
                let _open = self.scheduler.keep_open()?;
                let flushed = self.scheduler.flush_one(&keyspace);
                if flushed.inspect_err(|error| self.env.note_full_disk(error))? {
                    // What background work met before is over.
                    self.env.health.note_background(Chore::Flush, None);
                } else {
                    // It holds a part of what is being written.
                    self.env.signals.wait_for_progress(LOOK);
                }
            }
        }
        self.env.empty_trash();
        self.env.signals.wake();
        Ok(())
    }

    /// Waits for background work for a moment, or does a piece of it where the store has no threads: false
    /// where there is none.
    fn wait_a_moment(&self) -> Result<bool> {
        let mut has_waited = false;
        let mut is_over = false;
        self.wait_until(|| {
            let was_here = std::mem::replace(&mut is_over, true);
            has_waited |= was_here;
            was_here
        })?;
        Ok(has_waited)
    }

    fn compact(&self, keyspace: &Arc<OpenKeyspace>, told: &Told<'_>) -> Result<bool> {
        let goes_on = self.scheduler.compact_by_hand(keyspace, told)?;
        self.env.empty_trash();
        self.env.signals.wake();
        Ok(goes_on)
    }
}
