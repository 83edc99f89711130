//! Compactions: the tasks that the planner names, carried out one region at a time.

use super::running::{Compaction, RegionKey};
use super::{Scheduler, describe};
use crate::compaction::{Context, estimate_kills, execute, inputs};
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::shape::VersionShape;
use crate::db::reporter::Outcome;
use crate::error::Result;
use crate::events::Part;
use crate::table::Table;
use crate::version::edit::Step;
use siltstone_design::plan::{children, plan};
use siltstone_design::{Task, TriePath};
use std::sync::Arc;

impl Scheduler {
    /// Takes the most urgent compaction of `keyspaces`, the first of them before the others, and marks it as
    /// under way.
    pub(super) fn take_compaction(&self, keyspaces: &[Arc<OpenKeyspace>]) -> Option<Compaction> {
        // Only compactors take this lock: writers and readers never wait for planning.
        let mut running = self.running.state.lock();
        let now_ms = self.env.now_ms();
        let at_once = self.env.options.compactions_at_once;
        for keyspace in keyspaces {
            let under_way = running.keyspaces.iter().filter(|id| **id == keyspace.id).count();
            let is_held = running.held.contains_key(&keyspace.id);
            if is_held || (at_once > 0 && under_way >= at_once) {
                continue;
            }
            let version = keyspace.version();
            let key = |level, path| RegionKey { keyspace: keyspace.id, level, path };
            let is_busy = |level: usize, path: TriePath| running.busy.contains(&key(level, path));
            let shape = VersionShape { version: &version, is_busy: &is_busy, now_ms };
            let Some(task) = plan(&keyspace.design, &shape) else { continue };
            let (level, path) = task.region();
            let mut regions = vec![key(level, path)];
            let partitions = !matches!(task, Task::Rewrite { .. });
            if partitions && keyspace.design.level(level + 1).runs == 1 {
                let below = children(&keyspace.design, level, path);
                regions.extend(below.map(|child| key(level + 1, child)));
            }
            running.busy.extend(regions.iter().copied());
            running.keyspaces.push(keyspace.id);
            self.env.counters.most_compactions_at_once.raise_to(running.keyspaces.len() as u64);
            let keyspace = Arc::clone(keyspace);
            return Some(Compaction { keyspace, version, now_ms, task, regions });
        }
        None
    }

    /// Carries out a compaction, and frees its regions however that goes.
    pub(super) fn compact(&self, compaction: &Compaction) -> Result<()> {
        let inputs = describe::compaction_inputs(compaction);
        let compact = || {
            let outcome = self.run_compaction(compaction, &inputs);
            let mut running = self.running.state.lock();
            for region in &compaction.regions {
                running.busy.remove(region);
            }
            if let Some(at) = running.keyspaces.iter().position(|id| *id == compaction.keyspace.id) {
                running.keyspaces.swap_remove(at);
            }
            drop(running);
            self.env.signals.wake();
            outcome
        };
        self.reporter.job(|| describe::compaction(compaction, &inputs), compact, std::mem::take)?;
        Ok(())
    }

    fn run_compaction(&self, compaction: &Compaction, read: &[Part]) -> Result<Outcome> {
        let Compaction { keyspace, version, task, .. } = compaction;
        let runs = inputs(version, task);
        let pace = |bytes| self.pace_compaction(keyspace, bytes);
        let mut output =
            self.with_context(keyspace, &pace, |context| execute(context, version, task, &runs))?;
        self.count_written(&output.steps);
        self.env.sync_dir()?;
        // Only estimates: a sample that can't be read costs a later rewrite, not this work.
        let _ = self.note_kills(keyspace, &mut output.steps);
        let bytes_read = read.iter().map(|part| part.bytes).sum();
        let outcome = describe::outcome(read, bytes_read, &output);
        self.catalog.commit(keyspace, output, None)?;
        Ok(outcome)
    }

    /// Estimates what the new runs of leaf regions make dead.
    pub(in crate::db) fn note_kills(&self, keyspace: &OpenKeyspace, steps: &mut [Step]) -> Result<()> {
        let version = keyspace.version();
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

    /// Calls `work` with what flushes and compactions share.
    pub(in crate::db) fn with_context<T>(
        &self,
        keyspace: &OpenKeyspace,
        pace: &dyn Fn(u64),
        work: impl FnOnce(&Context<'_>) -> Result<T>,
    ) -> Result<T> {
        work(&Context {
            design: &keyspace.design,
            folder: keyspace.folder.as_ref(),
            disk: self.env.disk.as_ref(),
            dir: &self.env.path,
            reader: &self.env.reader,
            now_ms: self.env.now_ms(),
            next_id: &|| self.catalog.next_id(),
            pace,
            cancelled: &|| self.is_given_up(keyspace),
            awaits_older: self.is_held(keyspace),
        })
    }

    /// Whether work on `keyspace` is of no more use.
    pub(super) fn is_given_up(&self, keyspace: &OpenKeyspace) -> bool {
        self.env.health.is_closed() || keyspace.is_dropped()
    }

    /// Holds a compaction of `keyspace` back that has written `bytes` more, while writers are not slowed by
    /// how late it is.
    fn pace_compaction(&self, keyspace: &OpenKeyspace, bytes: u64) {
        let is_lifted = || keyspace.pressure() > 0.0 || self.env.health.is_closed();
        self.compaction_limit.hold_back(bytes, is_lifted, |time| self.env.signals.wait_for_work(time));
    }
}
