//! Edits: the steps from one version to the next, as they stand in the manifest.
//!
//! ```text
//! edit    keyspace varint, then steps until the record ends
//! step    1 add run      level varint, path, run varint, replaces varint (0 = newest), tables, kills
//!         2 remove run   level varint, path, run varint
//!         3 pushed       level varint, path, pushes varint (absolute)
//!         4 flushed      segment varint, LSN varint, user bytes varint (absolute)
//!         5 created      name, schema JSON, design JSON
//!         6 dropped
//!         7 written      level varint, bytes varint (absolute)
//!         12 replaced    keyspace varint: that one's contents take the place of this one's, and it is gone
//!         12 merge operator   name, behind 5
//! store   a record of keyspace 0: 8 next ids varint; 9 hash secret, 16 bytes; 10 log start, two varints;
//!         11 log end, LSN varint: the log is synced at least that far
//! ```
//!
//! One edit is one log record: it happens whole or not at all. Applying an edit to the version it was made
//! for can't fail; a manifest that says otherwise is damaged.

use super::level::Level;
use super::region::Region;
use super::run::Run;
use super::version::Version;
use crate::codec::{Decoder, put_bytes, put_path};
use crate::ids::RunId;
use crate::memory::MemoryBudget;
use crate::record::LogStart;
use crate::region_filter::NewRegionFilter;
use crate::table::Table;
use crate::table::envelope::TableMeta;
use siltstone_design::TriePath;
use siltstone_succinct::code::varint;
use std::sync::Arc;

/// A run as the manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunRecord {
    pub id: RunId,
    pub tables: Vec<TableMeta>,
    pub kills: Vec<(RunId, u64)>,
}

/// One step of an edit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Puts a run on a region's runs: in the place of run `replaces`, or as the newest.
    AddRun { level: usize, path: TriePath, run: RunRecord, replaces: Option<RunId> },
    /// Takes a run off a region's runs.
    RemoveRun { level: usize, path: TriePath, run: RunId },
    /// The region's runs was pushed; `pushes` times in all.
    Pushed { level: usize, path: TriePath, pushes: u64 },
    /// Writes before `start` are in tables; `user_bytes` were written to the keyspace in all.
    Flushed { start: LogStart, user_bytes: u64 },
    /// The keyspace exists.
    Created { name: String, schema: String, design: String },
    /// The keyspace takes merges, which the operator of this name carries out.
    MergeOperator(String),
    /// The keyspace is gone.
    Dropped,
    /// `bytes` were written into the level in all.
    Written { level: usize, bytes: u64 },
    /// The keyspace holds what keyspace `by` held, which is gone.
    Replaced { by: u64 },
    /// Smallest unused number of tables, runs and keyspaces.
    NextId(u64),
    /// The store's hash secret.
    Secret([u8; 16]),
    /// Where the log starts when no keyspace says so.
    LogStart(LogStart),
    /// The log is synced up to this LSN at least; one that ends earlier has lost something.
    LogEnd(u64),
}

/// Steps that happen together, on one keyspace (0: the store itself).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Edit {
    pub keyspace: u64,
    pub steps: Vec<Step>,
}

impl Edit {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::put_u64(&mut out, self.keyspace);
        for step in &self.steps {
            step.encode(&mut out);
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Decoder::new(bytes);
        let mut edit = Self { keyspace: from.varint()?, steps: Vec::new() };
        while !from.is_empty() {
            edit.steps.push(Step::decode(&mut from)?);
        }
        Some(edit)
    }
}

impl Step {
    fn encode(&self, out: &mut Vec<u8>) {
        let region = |out: &mut Vec<u8>, kind: u8, level: usize, path: TriePath| {
            out.push(kind);
            varint::put_u64(out, level as u64);
            put_path(out, path);
        };
        match self {
            Self::AddRun { level, path, run, replaces } => {
                region(out, 1, *level, *path);
                varint::put_u64(out, run.id);
                varint::put_u64(out, replaces.unwrap_or(0));
                varint::put_u64(out, run.tables.len() as u64);
                for table in &run.tables {
                    table.encode(out);
                }
                varint::put_u64(out, run.kills.len() as u64);
                for (victim, bytes) in &run.kills {
                    varint::put_u64(out, *victim);
                    varint::put_u64(out, *bytes);
                }
            }
            Self::RemoveRun { level, path, run } => {
                region(out, 2, *level, *path);
                varint::put_u64(out, *run);
            }
            Self::Pushed { level, path, pushes } => {
                region(out, 3, *level, *path);
                varint::put_u64(out, *pushes);
            }
            Self::Flushed { start, user_bytes } => {
                out.push(4);
                [start.segment, start.lsn, *user_bytes].into_iter().for_each(|n| varint::put_u64(out, n));
            }
            Self::Created { name, schema, design } => {
                out.push(5);
                [name, schema, design].into_iter().for_each(|text| put_bytes(out, text.as_bytes()));
            }
            Self::MergeOperator(name) => {
                out.push(13);
                put_bytes(out, name.as_bytes());
            }
            Self::Dropped => out.push(6),
            Self::Written { level, bytes } => {
                out.push(7);
                varint::put_u64(out, *level as u64);
                varint::put_u64(out, *bytes);
            }
            Self::NextId(id) => {
                out.push(8);
                varint::put_u64(out, *id);
            }
            Self::Secret(secret) => {
                out.push(9);
                out.extend_from_slice(secret);
            }
            Self::LogEnd(lsn) => {
                out.push(11);
                varint::put_u64(out, *lsn);
            }
            Self::Replaced { by } => {
                out.push(12);
                varint::put_u64(out, *by);
            }
            Self::LogStart(start) => {
                out.push(10);
                [start.segment, start.lsn].into_iter().for_each(|n| varint::put_u64(out, n));
            }
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let level = |from: &mut Decoder<'_>| from.length().filter(|&level| level < 256);
        Some(match from.u8()? {
            1 => {
                let (level, path, id) = (level(from)?, from.path()?, from.varint()?);
                let replaces = Some(from.varint()?).filter(|&run| run != 0);
                let mut tables = Vec::new();
                for _ in 0..from.varint()? {
                    tables.push(TableMeta::decode(from)?);
                }
                let mut kills = Vec::new();
                for _ in 0..from.varint()? {
                    kills.push((from.varint()?, from.varint()?));
                }
                Self::AddRun { level, path, run: RunRecord { id, tables, kills }, replaces }
            }
            2 => Self::RemoveRun { level: level(from)?, path: from.path()?, run: from.varint()? },
            3 => Self::Pushed { level: level(from)?, path: from.path()?, pushes: from.varint()? },
            4 => {
                let start = LogStart { segment: from.varint()?, lsn: from.varint()? };
                Self::Flushed { start, user_bytes: from.varint()? }
            }
            5 => {
                let mut text = || Some(from.string()?.to_owned());
                Self::Created { name: text()?, schema: text()?, design: text()? }
            }
            6 => Self::Dropped,
            7 => Self::Written { level: level(from)?, bytes: from.varint()? },
            8 => Self::NextId(from.varint()?),
            9 => Self::Secret(*from.take(16)?.first_chunk()?),
            10 => Self::LogStart(LogStart { segment: from.varint()?, lsn: from.varint()? }),
            11 => Self::LogEnd(from.varint()?),
            12 => Self::Replaced { by: from.varint()? },
            13 => Self::MergeOperator(from.string()?.to_owned()),
            _ => return None,
        })
    }
}

impl Version {
    /// The version after `edit`. `open` makes tables of their descriptions. Removed tables are returned
    /// beside it.
    ///
    /// # Errors
    /// What is wrong with an edit that does not fit this version.
    pub fn apply(
        &self,
        edit: &Edit,
        open: &mut dyn FnMut(&TableMeta) -> Arc<Table>,
    ) -> Result<(Self, Vec<Arc<Table>>), String> {
        let mut next = self.clone();
        let mut removed = Vec::new();
        // Runs are added first, so that one can take the place of a run that goes.
        for step in &edit.steps {
            if let Step::AddRun { level, path, run, replaces } = step {
                let tables = run.tables.iter().map(&mut *open).collect();
                next.add_run(*level, *path, Run::new(run.id, tables, run.kills.clone()), *replaces)?;
            }
        }
        for step in &edit.steps {
            match step {
                Step::RemoveRun { level, path, run } => {
                    removed.extend(next.remove_run(*level, *path, *run)?);
                }
                Step::Pushed { level, path, pushes } => {
                    let region = next.region_mut(*level, *path);
                    next.put_region(*level, region.with_runs(region.runs.clone(), *pushes));
                }
                Step::Flushed { user_bytes, .. } => next.user_bytes = *user_bytes,
                Step::Written { level, bytes } => {
                    next.grow_to(*level);
                    if let Some(level) = next.levels.get_mut(*level) {
                        level.bytes_written = *bytes;
                    }
                }
                _ => {}
            }
        }
        next.note_children();
        next.fit_filters(edit);
        // A table that moved from one run to another is still in use.
        let kept: std::collections::HashSet<u64> = next.tables().map(|table| table.id()).collect();
        removed.retain(|table| !kept.contains(&table.id()));
        Ok((next, removed))
    }

    /// Fits the filters of the regions whose runs `edit` has changed. Between one step and the next runs may
    /// be missing that others take the place of.
    fn fit_filters(&mut self, edit: &Edit) {
        for step in &edit.steps {
            let (Step::AddRun { level, path, .. } | Step::RemoveRun { level, path, .. }) = step else {
                continue;
            };
            let region = self.region_mut(*level, *path);
            if region.filter.is_some() {
                let mut region = Region::clone(&region);
                region.fit_filter();
                self.put_region(*level, region);
            }
        }
    }

    /// Returns the filters of regions whose runs `steps` merge in place.
    pub fn filters_after_rewrites(&self, steps: &[Step], memory: &Arc<MemoryBudget>) -> Vec<NewRegionFilter> {
        let rewrites = steps.iter().filter_map(|step| {
            let Step::AddRun { level, path, run, replaces: Some(_) } = step else { return None };
            let filter = self.levels.get(*level)?.region(*path)?.filter.as_ref()?;
            let merged = steps.iter().filter_map(|step| match step {
                Step::RemoveRun { level: l, path: p, run } if (l, p) == (level, path) => Some(*run),
                _ => None,
            });
            let filter = filter.after_rewrite(&merged.collect::<Vec<_>>(), run.id, memory)?;
            Some(NewRegionFilter::new(*level, *path, filter))
        });
        rewrites.collect()
    }

    fn grow_to(&mut self, level: usize) {
        while self.levels.len() <= level {
            self.levels.push(Level::default());
        }
    }

    fn region_mut(&mut self, level: usize, path: TriePath) -> Arc<Region> {
        self.grow_to(level);
        let found = self.levels.get(level).and_then(|l| l.region(path)).cloned();
        found.unwrap_or_else(|| Arc::new(Region::new(path, Vec::new(), 0)))
    }

    fn put_region(&mut self, level: usize, region: Region) {
        if let Some(level) = self.levels.get_mut(level) {
            level.set(region);
        }
    }

    fn add_run(
        &mut self,
        level: usize,
        path: TriePath,
        run: Run,
        replaces: Option<RunId>,
    ) -> Result<(), String> {
        let region = self.region_mut(level, path);
        let mut runs = region.runs.clone();
        let at = match replaces {
            None => 0,
            Some(old) => runs.iter().position(|r| r.id == old).ok_or_else(|| {
                format!("run {} is to replace run {old}, which is not in region {path}", run.id)
            })?,
        };
        runs.insert(at, Arc::new(run));
        self.put_region(level, region.with_runs(runs, region.pushes));
        Ok(())
    }

    fn remove_run(&mut self, level: usize, path: TriePath, run: RunId) -> Result<Vec<Arc<Table>>, String> {
        let region = self.region_mut(level, path);
        let mut runs = region.runs.clone();
        let at = runs
            .iter()
            .position(|r| r.id == run)
            .ok_or_else(|| format!("run {run} is to go, but is not in region {path} of level {level}"))?;
        let gone = runs.remove(at);
        self.put_region(level, region.with_runs(runs, region.pushes));
        Ok(gone.tables.clone())
    }

    /// Tells every region whether any region lies below it.
    fn note_children(&mut self) {
        for number in 0..self.levels.len() {
            let stale: Vec<TriePath> = self.levels.get(number).map_or(Vec::new(), |level| {
                let outdated = |r: &&Arc<Region>| r.shape.has_children != self.has_children(number, r.path);
                level.regions.iter().filter(outdated).map(|r| r.path).collect()
            });
            for path in stale {
                let old = self.region_mut(number, path);
                let mut region = old.with_runs(old.runs.clone(), old.pushes);
                region.shape.has_children = self.has_children(number, path);
                self.put_region(number, region);
            }
        }
    }

    /// Steps that build this version from nothing.
    pub fn to_steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (number, level) in self.levels.iter().enumerate() {
            steps.push(Step::Written { level: number, bytes: level.bytes_written });
            for region in &level.regions {
                // Each run is added as the newest, so the oldest comes first.
                for run in region.runs.iter().rev() {
                    let tables = run.tables.iter().map(|table| table.meta().clone()).collect();
                    let record = RunRecord { id: run.id, tables, kills: run.kills.clone() };
                    steps.push(Step::AddRun {
                        level: number,
                        path: region.path,
                        run: record,
                        replaces: None,
                    });
                }
                let (path, pushes) = (region.path, region.pushes);
                steps.push(Step::Pushed { level: number, path, pushes });
            }
        }
        steps
    }
}
