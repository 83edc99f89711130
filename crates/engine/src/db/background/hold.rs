//! Keyspaces whose compactions are held back, while a bulk build lays its tables below what is written
//! meanwhile, or while their contents are replaced.
//!
//! A hold begins at a moment: what the keyspace's write buffers hold then is flushed, and counts as older
//! than what the holder brings. What is flushed later lies on level 0 and is remembered as newer, and
//! tombstones stay in it, since older entries are still to come.

use super::Scheduler;
use super::running::IsBrief;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::reporter::Outcome;
use crate::db::write_buffer::WriteBuffer;
use crate::error::{Error, Result};
use crate::events::JobInfo;
use crate::ids::RunId;
use crate::sync::{MutexGuard, RwLockReadGuard};
use crate::version::Version;
use crate::version::edit::{Edit, Step};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// How long a holder waits before it looks again.
const LOOK: Duration = Duration::from_millis(20);

/// Holds back the compactions of a keyspace until it is dropped.
pub(crate) struct Hold<'a> {
    scheduler: &'a Scheduler,
    keyspace: Arc<OpenKeyspace>,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.keyspace.set_being_cleared(false);
        self.scheduler.running.state.lock().held.remove(&self.keyspace.id);
        self.scheduler.env.signals.wake();
    }
}

impl Hold<'_> {
    /// Returns the keyspace as it is now and stays for as long as it is held.
    pub fn keyspace(&self) -> &Arc<OpenKeyspace> {
        &self.keyspace
    }

    /// Returns the version as it was at the beginning of the hold: without what was flushed of later writes.
    /// The caller holds the lock on flushing.
    pub fn version_before(&self) -> Result<Version> {
        let version = self.keyspace.version();
        let newer = self.newer();
        let runs = version.levels.iter().flat_map(|level| &level.regions).flat_map(|region| {
            region.runs.iter().filter(|run| newer.contains(&run.id)).map(|run| (region.path, run.id))
        });
        let steps = runs.map(|(path, run)| Step::RemoveRun { level: 0, path, run }).collect();
        let edit = Edit { keyspace: self.keyspace.id, steps };
        let applied =
            version.apply(&edit, &mut |meta| self.scheduler.env.open_table(meta, self.keyspace.encoder));
        Ok(applied.map_err(Error::invalid)?.0)
    }

    /// The runs of level 0 that hold what was written since.
    pub fn newer(&self) -> HashSet<RunId> {
        let running = self.scheduler.running.state.lock();
        running.held.get(&self.keyspace.id).map(|held| held.newer.clone()).unwrap_or_default()
    }
}

impl Scheduler {
    /// Lets no compaction of `keyspace` begin, and waits for those under way.
    ///
    /// # Errors
    /// `InvalidInput` where somebody holds it already; what has ended the store.
    pub fn hold(&self, keyspace: &Arc<OpenKeyspace>) -> Result<Hold<'_>> {
        self.hold_after(keyspace, |_| {})
    }

    /// The same, and gives up what is under way: what it works on is to go.
    ///
    /// # Errors
    /// As [`Scheduler::hold`].
    pub fn hold_and_give_up(&self, keyspace: &Arc<OpenKeyspace>) -> Result<Hold<'_>> {
        self.hold_after(keyspace, |keyspace| keyspace.set_being_cleared(true))
    }

    fn hold_after(
        &self,
        keyspace: &Arc<OpenKeyspace>,
        begin: impl FnOnce(&OpenKeyspace),
    ) -> Result<Hold<'_>> {
        let hold = self.hold_new(keyspace)?;
        begin(hold.keyspace());
        while self.running.state.lock().count(keyspace.id) > 0 {
            self.env.check_writable()?;
            self.env.signals.wait_for_progress(LOOK);
        }
        Ok(hold)
    }

    /// Lets no compaction of `keyspace` begin; those under way go on.
    ///
    /// # Errors
    /// As [`Scheduler::hold`].
    pub fn hold_new(&self, keyspace: &Arc<OpenKeyspace>) -> Result<Hold<'_>> {
        loop {
            self.env.check_writable()?;
            let begun = self.running.state.lock().begin_hold(keyspace.id, false);
            match begun {
                Ok(()) => break,
                Err(IsBrief(true)) => self.env.signals.wait_for_progress(LOOK),
                Err(IsBrief(false)) => {
                    return Err(Error::invalid(format_args!(
                        "keyspace {:?} is being built or replaced already; wait for that to end",
                        keyspace.name
                    )));
                }
            }
        }
        // Nobody changes its schema from now on.
        Ok(Hold { scheduler: self, keyspace: Arc::clone(keyspace.current()) })
    }

    /// As [`hold_new`](Self::hold_new), for a moment: others wait for it. None where somebody holds it.
    pub fn hold_briefly(&self, keyspace: &Arc<OpenKeyspace>) -> Option<Hold<'_>> {
        self.running.state.lock().begin_hold(keyspace.id, true).ok()?;
        Some(Hold { scheduler: self, keyspace: Arc::clone(keyspace.current()) })
    }

    /// Makes now the moment of a hold: what is written from now on is newer. The caller holds the commit lock
    /// and has sealed the write buffer.
    pub fn mark_moment(&self, keyspace: &OpenKeyspace) {
        let sealed = keyspace.view.load().sealed.iter().map(|sealed| sealed.buffer.clone()).collect();
        if let Some(held) = self.running.state.lock().held.get_mut(&keyspace.id) {
            held.older = sealed;
            held.is_marked = true;
        }
    }

    /// Flushes what was written before the moment of a hold.
    pub fn flush_older(&self, keyspace: &Arc<OpenKeyspace>) -> Result<()> {
        let is_left = || {
            let running = self.running.state.lock();
            running.held.get(&keyspace.id).is_some_and(|held| !held.older.is_empty())
        };
        while is_left() {
            self.env.check_writable()?;
            keyspace.check_exists()?;
            if !self.flush_one(keyspace)? {
                self.env.signals.wait_for_progress(LOOK);
            }
        }
        Ok(())
    }

    /// Whether `buffer` holds what was written after the moment of a hold. To be asked before its flush is
    /// seen: what is no longer in the view at that moment is older.
    pub(super) fn is_newer(&self, keyspace: &OpenKeyspace, buffer: &WriteBuffer) -> bool {
        let running = self.running.state.lock();
        let held = running.held.get(&keyspace.id);
        held.is_some_and(|held| held.is_marked && !held.older.iter().any(|older| older.is(buffer)))
    }

    /// Notes that a flush of `buffer` is seen, and its runs where they are newer than a hold.
    pub(super) fn note_flushed(&self, keyspace: &OpenKeyspace, buffer: &WriteBuffer, newer: Vec<RunId>) {
        let mut running = self.running.state.lock();
        let Some(held) = running.held.get_mut(&keyspace.id) else { return };
        held.older.retain(|older| !older.is(buffer));
        held.newer.extend(newer);
    }

    /// Whether somebody holds the keyspace.
    pub fn is_held(&self, keyspace: &OpenKeyspace) -> bool {
        self.running.state.lock().held.contains_key(&keyspace.id)
    }

    /// Runs `work` as a job; see [`Reporter::job`](crate::db::reporter::Reporter::job).
    pub fn report<T>(
        &self,
        describe: impl FnOnce() -> JobInfo,
        work: impl FnOnce() -> Result<T>,
        explain: impl FnOnce(&mut T) -> Outcome,
    ) -> Result<T> {
        self.reporter.job(describe, work, explain)
    }

    /// Keeps flushes out meanwhile.
    pub fn lock_flushes(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock()
    }

    /// Keeps flushes out, unless one is under way.
    pub fn try_lock_flushes(&self) -> Option<MutexGuard<'_, ()>> {
        self.flushing.try_lock()
    }

    /// Keeps the store from being closed while files of it are written or removed.
    ///
    /// # Errors
    /// Where it takes no writes any more.
    pub fn keep_open(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let open = self.open.read();
        self.env.check_writable()?;
        Ok(open)
    }

    /// Waits for those who keep the store from being closed. It is marked as closed already.
    pub fn wait_for_builds(&self) {
        drop(self.open.write());
    }
}
