//! Background work: who flushes, who compacts, who syncs, and how writers are slowed when that falls behind.
//!
//! A flusher, `background_threads` compactors and a syncer. With no threads the same steps run inside writes once they would
//! have to wait, and one at a time in [`Db::step`](super::Db::step): every interleaving of work and use can then be tested.

use super::read::HELPERS;
use super::store::{Busy, KeyspaceInner, Store, VersionShape};
use crate::compaction::{estimate_kills, execute, inputs};
use crate::error::{Error, Result};
use crate::options::ParallelSearch;
use crate::stats::Counter;
use crate::table::Table;
use crate::version::edit::Step;
use crate::version::level::Version;
use parking_lot::{Condvar, Mutex};
use siltstone_design::plan::{children, plan};
use siltstone_design::{Task, TriePath};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Where the threads meet.
#[derive(Default)]
pub(crate) struct Board {
    state: Mutex<BoardState>,
    /// Something may need doing.
    work: Condvar,
    /// Something was done.
    progress: Condvar,
}

#[derive(Default)]
struct BoardState {
    busy: Busy,
    /// Jobs under way: their keyspaces.
    running: Vec<u64>,
    /// Nanoseconds that writers owe to pacing.
    owed_ns: f64,
}

/// Nanoseconds that a byte written costs at full pressure: 5 MB/s.
const FULL_PRESSURE_NS_PER_BYTE: f64 = 200.0;
/// Sleeps are gathered up to this, since shorter ones take longer than they say.
const LEAST_SLEEP_NS: f64 = 300_000.0;
/// A single write pays no more than this for others.
const MOST_SLEEP_NS: f64 = 5_000_000.0;
/// A single write is slowed by no more than this, however large it is; what it still owes, later ones pay.
const LONGEST_SLEEP_NS: f64 = 1e9;
/// How long idle threads sleep before they look again, for what comes due by time alone.
const IDLE: Duration = Duration::from_secs(1);
/// How long failed work waits before it is tried again.
const RETRY: Duration = Duration::from_millis(250);

impl BoardState {
    /// Jobs under way on a keyspace.
    fn running_of(&self, keyspace: u64) -> usize {
        self.running.iter().filter(|id| **id == keyspace).count()
    }
}

impl Board {
    /// Wakes whoever waits for work or progress.
    pub fn wake(&self) {
        // Taking the lock keeps a waiter from missing this between its look and its wait.
        drop(self.state.lock());
        self.work.notify_all();
        self.progress.notify_all();
    }

    pub fn wait_for_progress(&self, at_most: Duration) {
        self.progress.wait_for(&mut self.state.lock(), at_most);
    }

    pub fn wait_for_work(&self, at_most: Duration) {
        self.work.wait_for(&mut self.state.lock(), at_most);
    }

    /// Slows the caller, who writes `bytes`, in proportion to the square of the pressure.
    pub fn pace(&self, bytes: u64, pressure: f64, paced_us: &Counter) {
        if pressure <= 0.0 {
            return;
        }
        let mut state = self.state.lock();
        // A large batch pays for itself, or whoever loads in such batches would never be held up enough.
        let own_ns = bytes as f64 * pressure * pressure * FULL_PRESSURE_NS_PER_BYTE;
        state.owed_ns += own_ns;
        if state.owed_ns < LEAST_SLEEP_NS {
            return;
        }
        let sleep_ns = state.owed_ns.min(own_ns.clamp(MOST_SLEEP_NS, LONGEST_SLEEP_NS));
        state.owed_ns -= sleep_ns;
        drop(state);
        std::thread::sleep(Duration::from_nanos(sleep_ns as u64));
        paced_us.add((sleep_ns / 1000.0) as u64);
    }
}

/// A task with everything it needs, taken off the board.
struct Job {
    keyspace: Arc<KeyspaceInner>,
    version: Arc<Version>,
    task: Task,
    regions: Vec<(u64, usize, TriePath)>,
}

impl Store {
    /// The next compaction that is due, marked as under way.
    fn take_job(&self) -> Option<Job> {
        let mut board = self.board.state.lock();
        let now_ms = self.disk.now_ms();
        for keyspace in self.all_keyspaces() {
            let under_way = board.running_of(keyspace.id);
            if self.options.compactions_at_once > 0 && under_way >= self.options.compactions_at_once {
                continue;
            }
            let version = Arc::clone(&keyspace.view.load().version);
            let task = {
                let busy = |level: usize, path: TriePath| board.busy.contains(&(keyspace.id, level, path));
                plan(&keyspace.design, &VersionShape { version: &version, busy: &busy, now_ms })
            };
            let Some(task) = task else { continue };
            let (level, path) = task.region();
            let mut regions = vec![(keyspace.id, level, path)];
            let deals = !matches!(task, Task::Rewrite { .. });
            if deals && keyspace.design.level(level + 1).runs == 1 {
                let below = children(&keyspace.design, level, path);
                regions.extend(below.map(|child| (keyspace.id, level + 1, child)));
            }
            board.busy.extend(regions.iter().copied());
            board.running.push(keyspace.id);
            self.counters.most_compactions_at_once.raise_to(board.running.len() as u64);
            return Some(Job { keyspace, version, task, regions });
        }
        None
    }

    fn finish_job(&self, job: &Job) {
        let mut board = self.board.state.lock();
        for region in &job.regions {
            board.busy.remove(region);
        }
        if let Some(at) = board.running.iter().position(|id| *id == job.keyspace.id) {
            board.running.swap_remove(at);
        }
        drop(board);
        self.board.wake();
    }

    fn run_job(&self, job: &Job) -> Result<()> {
        let keyspace = &job.keyspace;
        let runs = inputs(&job.version, &job.task);
        let pace = |bytes| self.pace_compaction(keyspace, bytes);
        let mut output =
            self.with_context(keyspace, &pace, |context| execute(context, &job.version, &job.task, &runs))?;
        self.count_written(&output.steps);
        self.sync_tables()?;
        // Only estimates: a sample that can't be read costs a later rewrite, not this work.
        let _ = self.note_kills(keyspace, &mut output.steps);
        self.commit_steps(keyspace, output, None)
    }

    /// Estimates what the new runs of leaf regions make dead.
    fn note_kills(&self, keyspace: &KeyspaceInner, steps: &mut [Step]) -> Result<()> {
        let version = Arc::clone(&keyspace.view.load().version);
        let removed: Vec<u64> = steps
            .iter()
            .filter_map(|step| if let Step::RemoveRun { run, .. } = step { Some(*run) } else { None })
            .collect();
        for step in steps {
            let Step::AddRun { level, path, run, replaces } = step else { continue };
            if !keyspace.design.is_leaf(*level, version.has_children(*level, *path)) {
                continue;
            }
            let Some(region) = version.levels.get(*level).and_then(|l| l.region(*path)) else { continue };
            let at = replaces.and_then(|old| region.runs.iter().position(|r| r.id == old)).unwrap_or(0);
            let older = region.runs.iter().skip(at).filter(|r| !removed.contains(&r.id)).cloned();
            let older: Vec<_> = older.collect();
            let tables: Vec<Arc<Table>> =
                run.tables.iter().map(|meta| self.open_table(meta, keyspace.encoder)).collect();
            run.kills = estimate_kills(&tables, &older, &self.reader)?;
        }
        Ok(())
    }

    /// Runs one due flush or compaction; false where nothing is due.
    pub(super) fn step(&self) -> Result<bool> {
        self.shed();
        for keyspace in self.all_keyspaces() {
            if self.flush_one(&keyspace)? {
                self.empty_trash();
                return Ok(true);
            }
        }
        self.compact_once()
    }

    fn compact_once(&self) -> Result<bool> {
        self.shed();
        // What snapshots and iterators have let go since.
        self.empty_trash();
        // What is read most comes first; the other guides wait until the piles are in order.
        if self.load_one() {
            return Ok(true);
        }
        if self.guide_one(0..1) || self.cluster_one(0..1, false) {
            return Ok(true);
        }
        let below = 1..usize::MAX;
        let Some(job) = self.take_job() else {
            return Ok(self.guide_one(below.clone())
                || self.cluster_one(below, false)
                || self.check_one_cluster()
                || self.cluster_one(0..usize::MAX, true));
        };
        let result = self.run_job(&job);
        self.finish_job(&job);
        drop(job);
        self.empty_trash();
        result.map(|()| true)
    }

    /// Without threads: runs what writers would otherwise have to wait for.
    pub(super) fn catch_up(&self) -> Result<()> {
        for keyspace in self.all_keyspaces() {
            while keyspace.view.load().sealed.len() >= self.options.max_sealed_memtables {
                self.flush_one(&keyspace)?;
            }
            while self.has_too_many_memtables() && self.flush_one(&keyspace)? {}
            while f64::from_bits(keyspace.pressure.load(Ordering::Relaxed)) >= 1.0 && self.compact_once()? {}
        }
        self.empty_trash();
        Ok(())
    }

    /// Whether no flush or compaction is due or under way.
    pub(super) fn is_idle(&self) -> bool {
        let board = self.board.state.lock();
        let now_ms = self.disk.now_ms();
        board.running.is_empty()
            && !self.has_unloaded()
            && self.all_keyspaces().iter().all(|keyspace| {
                let view = keyspace.view.load();
                let shape = VersionShape { version: &view.version, busy: &|_, _| false, now_ms };
                let is_in_order = view.sealed.is_empty() && plan(&keyspace.design, &shape).is_none();
                is_in_order
                    && self.unguided(keyspace, &view.version, 0..usize::MAX).is_none()
                    && self.unclustered(keyspace, &view.version, 0..usize::MAX, true).is_none()
                    && !self.has_unchecked_clusters(&view.version)
            })
    }

    /// Notes how background work went and says how long to wait before the next try.
    fn note_outcome(&self, result: &Result<bool>) -> Option<Duration> {
        match result {
            Ok(_) => {
                *self.background_error.lock() = None;
                None
            }
            Err(error) => {
                if error.kind() == crate::error::ErrorKind::StorageFull {
                    self.space_is_low.store(true, Ordering::Relaxed);
                }
                *self.background_error.lock() = Some(error.clone());
                Some(RETRY)
            }
        }
    }

    fn background(&self, mut once: impl FnMut() -> Result<bool>) {
        while !self.closed.load(Ordering::Acquire) && !self.is_poisoned() {
            let result = once();
            let wait = match (self.note_outcome(&result), &result) {
                (Some(retry), _) => retry,
                (None, Ok(true)) => {
                    self.board.wake();
                    continue;
                }
                _ => IDLE,
            };
            self.board.wait_for_work(wait);
        }
    }

    fn flush_any(&self) -> Result<bool> {
        self.shed();
        for keyspace in self.all_keyspaces() {
            if self.flush_one(&keyspace)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Syncs the log every so often, and leaves word of it in the log when nothing else follows.
    fn sync_regularly(&self) {
        let interval = Duration::from_millis(self.options.sync_interval_ms);
        while !self.closed.load(Ordering::Acquire) && !self.is_poisoned() {
            // Waking for other work does no harm: syncing early is no mistake, but don't spin.
            let slept = crate::stats::Stopwatch::start();
            while slept.elapsed() < interval && !self.closed.load(Ordering::Acquire) {
                let left = interval.saturating_sub(slept.elapsed());
                self.board.wait_for_work(left.min(IDLE));
            }
            let is_synced = self.wal.lock().as_ref().is_none_or(|wal| wal.is_synced());
            if is_synced {
                continue;
            }
            let result = self.sync_wal().map(|()| false);
            if let Some(wal) = self.wal.lock().as_mut() {
                // The mark is a courtesy to later damage; failing to write it loses nothing.
                let _ = wal.mark_synced();
            }
            if self.space_is_low.load(Ordering::Relaxed) {
                self.check_space();
            }
            let _ = self.note_outcome(&result);
        }
    }
}

/// Starts a store's threads.
pub(super) fn start(store: &Arc<Store>) -> Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    if store.options.background_threads == 0 {
        return Ok(threads);
    }
    let mut spawn = |name: &str, work: fn(&Store)| {
        let shared = Arc::clone(store);
        let spawned =
            std::thread::Builder::new().name(format!("siltstone-{name}")).spawn(move || work(&shared));
        threads.push(spawned.map_err(|e| Error::io(&e, "starting a thread for", &store.path))?);
        Ok::<(), Error>(())
    };
    spawn("flush", |store| store.background(|| store.flush_any()))?;
    for _ in 0..store.options.background_threads {
        spawn("compact", |store| store.background(|| store.compact_once()))?;
    }
    if store.options.parallel_search == ParallelSearch::TwoThreads {
        for _ in 0..HELPERS {
            spawn("search", Store::help)?;
        }
    }
    if store.options.sync_interval_ms > 0 {
        spawn("sync", Store::sync_regularly)?;
    }
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_any_size_are_slowed_by_their_bytes() {
        // 100 KB at half of the full pressure cost 5 ms, whether in one write or in many.
        for writes in [1, 4, 100] {
            let (board, paced_us) = (Board::default(), Counter::default());
            for _ in 0..writes {
                board.pace(100_000 / writes, 0.5, &paced_us);
            }
            assert!((4_700..=5_000).contains(&paced_us.get()), "{writes}: {} us", paced_us.get());
        }
        let (board, paced_us) = (Board::default(), Counter::default());
        board.pace(200_000, 1.0, &paced_us);
        assert_eq!(paced_us.get(), 40_000);
        board.pace(200_000, 0.0, &paced_us);
        assert_eq!(paced_us.get(), 40_000);
    }
}
