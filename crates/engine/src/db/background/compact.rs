//! Compactions: the tasks that the planner names, carried out one region at a time.

use super::redesign::next_task;
use super::running::{Compaction, RegionKey, RunningState, RunningTask};
use super::{Scheduler, describe};
use crate::activity::{Count, PUSHED, repeats};
use crate::compaction::{Context, Output, estimate_kills, execute};
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::shape::VersionShape;
use crate::db::catalog::view::Origin;
use crate::db::reporter::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Dropped, Part};
use crate::stats::Stopwatch;
use crate::table::{Table, Writing};
use crate::version::Version;
use crate::version::edit::{OLDEST, Step};
use siltstone_design::{Task, TriePath};
use std::sync::Arc;

impl Scheduler {
    /// Takes the most urgent compaction of `keyspaces`, the first of them before the others, and marks it as
    /// under way.
    pub(super) fn take_compaction(&self, keyspaces: &[Arc<OpenKeyspace>]) -> Option<Compaction> {
        let free_bytes = self.env.free_bytes();
        // Only compactors take this lock: writers and readers never wait for planning.
        let mut running = self.running.state.lock();
        let planning = Stopwatch::start();
        let chosen = self.choose_compaction(&running, keyspaces, free_bytes);
        self.env.counters.planning_ns.add(planning.elapsed_ns());
        chosen.inspect(|compaction| self.begin(&mut running, compaction))
    }

    fn choose_compaction(
        &self,
        running: &RunningState,
        keyspaces: &[Arc<OpenKeyspace>],
        free_bytes: u64,
    ) -> Option<Compaction> {
        let now_ms = self.env.now_ms();
        for keyspace in keyspaces {
            if !self.may_begin(running, keyspace) {
                continue;
            }
            let version = keyspace.version();
            let others = running.of_other_designs(keyspace.id, &version.design);
            let is_busy =
                |path: TriePath, depth: u8| running.is_busy_beside(&others, keyspace.id, path, depth);
            let shape = VersionShape {
                version: &version,
                is_busy: &is_busy,
                now_ms: Some(now_ms),
                free_bytes,
                is_memory_short: keyspace.filter_limits.leave_some_without(),
            };
            let Some((task, reason)) = next_task(&shape) else { continue };
            return Some(Compaction::new(keyspace, version, now_ms, (task, reason)));
        }
        None
    }

    /// Marks a compaction as under way.
    pub(super) fn begin(&self, running: &mut RunningState, compaction: &Compaction) {
        running.busy.extend(compaction.regions.iter().copied());
        let region = RegionKey { keyspace: compaction.keyspace.id, path: compaction.task.region().1 };
        running.tasks.push(RunningTask { region, design: Arc::clone(&compaction.version.design) });
        self.env.counters.most_compactions_at_once.raise_to(running.tasks.len() as u64);
    }

    /// Whether another compaction of the keyspace may begin.
    pub(super) fn may_begin(&self, running: &RunningState, keyspace: &OpenKeyspace) -> bool {
        let at_once = self.env.options.compactions_at_once;
        !running.held.contains_key(&keyspace.id) && (at_once == 0 || running.count(keyspace.id) < at_once)
    }

    /// Carries out a compaction, and frees its regions however that goes.
    pub(super) fn compact(&self, compaction: &Compaction) -> Result<()> {
        let keyspace = &compaction.keyspace;
        let pace = |bytes| self.pace_compaction(keyspace, bytes);
        self.compact_watched(compaction, &pace, &|| self.is_given_up(keyspace))
    }

    /// The same, while `pace` hears how many bytes more were written, and `cancelled` may give it up.
    pub(super) fn compact_watched(
        &self,
        compaction: &Compaction,
        pace: &dyn Fn(u64),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let inputs = describe::compaction_inputs(compaction);
        let region = RegionKey { keyspace: compaction.keyspace.id, path: compaction.task.region().1 };
        let compact = || {
            let outcome = self.run_compaction(compaction, &inputs, pace, cancelled);
            let mut running = self.running.state.lock();
            for region in &compaction.regions {
                running.busy.remove(region);
            }
            running.tasks.retain(|task| task.region != region);
            drop(running);
            self.env.signals.wake();
            outcome
        };
        let job = || describe::compaction(compaction, &inputs);
        match self.reporter.job(job, compact, std::mem::take) {
            Err(error) if self.gave_up(&error) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    fn run_compaction(
        &self,
        compaction: &Compaction,
        read: &[Part],
        pace: &dyn Fn(u64),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Outcome> {
        let Compaction { keyspace, version, task, inputs, .. } = compaction;
        let work = |context: &Context<'_>| execute(&Context { cancelled, ..*context }, version, task, inputs);
        let mut output = self.with_context(keyspace, version, pace, work)?;
        self.count_written(&output.steps);
        self.env.sync_dir()?;
        // Only estimates: a sample that can't be read costs a later rewrite, not this work.
        let _ = self.note_kills(keyspace, &mut output.steps);
        count_merge(compaction, &output);
        let bytes_read = read.iter().map(|part| part.bytes).sum();
        let outcome = describe::outcome(read, bytes_read, &output);
        self.catalog.commit(keyspace, output, Origin::Tables)?;
        Ok(outcome)
    }

    /// Estimates what new runs make dead in their regions.
    pub(in crate::db) fn note_kills(&self, keyspace: &OpenKeyspace, steps: &mut [Step]) -> Result<()> {
        let version = keyspace.version();
        let removed: Vec<u64> = steps
            .iter()
            .filter_map(|step| if let Step::RemoveRun { run, .. } = step { Some(*run) } else { None })
            .collect();
        for step in steps {
            let Step::AddRun { path, run, replaces, .. } = step else { continue };
            let Some(region) = version.region(*path) else { continue };
            let at = replaces.and_then(|old| region.runs.iter().position(|r| r.id == old)).unwrap_or(0);
            let at = if *replaces == Some(OLDEST) { region.runs.len() } else { at };
            let older = region.runs.iter().skip(at).filter(|r| !removed.contains(&r.id)).cloned();
            let older: Vec<_> = older.collect();
            let open = |meta| self.env.open_table(meta, keyspace.encoder);
            let tables: Vec<Arc<Table>> = run.tables.iter().map(open).collect();
            run.kills = estimate_kills(&tables, &older, &self.env.reader)?;
        }
        Ok(())
    }

    /// Counts the bytes of tables that `steps` say were written.
    pub(in crate::db) fn count_written(&self, steps: &[Step]) {
        for step in steps {
            if let Step::Written { bytes, .. } = step {
                self.env.counters.table_bytes.add(*bytes);
            }
        }
    }

    /// Calls `work` with what flushes and compactions of `version` share.
    pub(in crate::db) fn with_context<T>(
        &self,
        keyspace: &OpenKeyspace,
        version: &Version,
        pace: &dyn Fn(u64),
        work: impl FnOnce(&Context<'_>) -> Result<T>,
    ) -> Result<T> {
        work(&Context {
            keyspace: keyspace.owner(),
            design: &version.design,
            filter_limits: &keyspace.filter_limits,
            folder: keyspace.folder.as_ref(),
            disk: self.env.disk.as_ref(),
            dir: &self.env.path,
            reader: &self.env.reader,
            now_ms: self.env.now_ms(),
            next_id: &|| self.catalog.next_id(),
            pace,
            cancelled: &|| self.is_given_up(keyspace),
            writing: Writing::Cached,
            awaits_older: self.is_held(keyspace),
        })
    }

    /// Whether work on `keyspace` is of no more use.
    pub(super) fn is_given_up(&self, keyspace: &OpenKeyspace) -> bool {
        self.env.health.is_closed() || keyspace.is_dropped() || keyspace.is_being_cleared()
    }

    /// Whether work ended with `error` because it was of no more use, in a store that goes on.
    pub(super) fn gave_up(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Closed && !self.env.health.is_closed()
    }

    /// Holds a compaction of `keyspace` back that has written `bytes` more, while writers are not slowed by
    /// how late it is.
    pub(super) fn pace_compaction(&self, keyspace: &OpenKeyspace, bytes: u64) {
        let is_lifted = || keyspace.pressure() > 0.0 || self.is_given_up(keyspace);
        self.compaction_limit.hold_back(bytes, is_lifted, |time| self.env.signals.wait_for_more_work(time));
    }
}

/// Counts what a compaction that came to `output` says of the keyspace's keys.
fn count_merge(compaction: &Compaction, output: &Output) {
    let Compaction { keyspace, task, inputs, .. } = compaction;
    let done = &keyspace.counters.done;
    done.add(Count::BottomEntries, output.made_at_bottom.entries);
    done.add(Count::BottomGroups, output.made_at_bottom.groups);
    done.add(Count::BottomShare, output.made_at_bottom.share);
    let (taken, oldest) = inputs.entries();
    // Tombstones are told from overwrites elsewhere; each that goes takes one entry along.
    let Dropped { tombstones, expired, .. } = output.dropped;
    if oldest > 0 && output.made_at_bottom.entries == output.made.entries {
        let gone = taken.saturating_sub(output.made.entries + expired + 2 * tombstones);
        done.add(Count::Arrived, taken.saturating_sub(oldest + tombstones));
        done.add(Count::Replaced, gone);
    }
    let Task::Push { level: 0, path, runs } = *task else { return };
    keyspace.note_overwrites();
    if inputs.below.iter().all(|age| age.runs.is_empty()) {
        let flushed = keyspace.activity().ratio(Count::FlushedPuts, Count::Flushes).unwrap_or(0.0);
        let distinct = output.made.entries << path.depth().min(16);
        let again = repeats((flushed * runs as f64) as u64, distinct, keyspace.overwrites());
        PUSHED.into_iter().zip(again).for_each(|(count, number)| done.add(count, number));
    }
}
