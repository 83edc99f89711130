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
//!         13 merge operator   name, behind 5
//!         15 redesigned  kind u8: 0 begun: design JSON, LSN varint, ms varint, first run varint
//!                                 1 settled: ms varint
//!                                 2 gathered: level varint, path; all regions below it are gone
//!                                 3 begun by the store itself: as 0, then millionths of time saved varint
//!                                 4 as 3, and older runs above others are pushed down
//!         16 activity    count varint, then so many varints: what was done with the keyspace (`activity.rs`)
//!         17 cleared     the keyspace holds nothing
//!         19 schema      kind u8: 0 is to change: schema JSON, design JSON, ms varint
//!                                 1 stays as it is after all
//!                                 2 changed: schema JSON, design JSON, LSN varint, ms varint; the keyspace
//!                                   holds what the other steps of the edit say
//! store   a record of keyspace 0: 8 next ids varint; 9 hash secret, 16 bytes; 10 log start, two varints;
//!         11 log end, LSN varint: the log is synced at least that far; 14 clock, milliseconds varint;
//!         18 memory budget, bytes varint
//! ```
//!
//! A region is told by its path, which says how many digest bits it fixes; its level's number is for whoever
//! reads the manifest. One edit is one log record: it happens whole or not at all. Applying an edit to the
//! version it was made for can't fail; a manifest that says otherwise is damaged.

use super::designs::{Chosen, DesignChange};
use super::level::Level;
use super::region::Region;
use super::run::Run;
use super::version::Version;
use crate::activity::Activity;
use crate::codec::{Decoder, put_bytes, put_path};
use crate::ids::RunId;
use crate::memory::MemoryBudget;
use crate::record::LogStart;
use crate::region_filter::NewRegionFilter;
use crate::table::Table;
use crate::table::envelope::TableMeta;
use siltstone_design::{Design, TriePath};
use siltstone_succinct::code::varint;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// A run as the manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunRecord {
    pub id: RunId,
    pub tables: Vec<TableMeta>,
    pub kills: Vec<(RunId, u64)>,
}

impl RunRecord {
    /// Encodes it, behind its region, with the run that it replaces.
    fn encode(&self, replaces: Option<RunId>, out: &mut Vec<u8>) {
        varint::put_u64(out, self.id);
        varint::put_u64(out, replaces.unwrap_or(0));
        varint::put_u64(out, self.tables.len() as u64);
        self.tables.iter().for_each(|table| table.encode(out));
        varint::put_u64(out, self.kills.len() as u64);
        for (victim, bytes) in &self.kills {
            varint::put_u64(out, *victim);
            varint::put_u64(out, *bytes);
        }
    }
}

/// One step of an edit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Puts a run on a region's runs: in the place of run `replaces`, as the oldest ([`OLDEST`]), or as the
    /// newest.
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
    /// The keyspace has another design, which the store may have chosen. Runs of before have numbers below
    /// `first_run`.
    Redesigned { design: String, sequence: u64, at_ms: u64, first_run: RunId, chosen: Option<Chosen> },
    /// Nothing is left of the designs before.
    Settled { at_ms: u64 },
    /// Nothing is left below the region, not even regions.
    Gathered { level: usize, path: TriePath },
    /// `bytes` were written into the level in all.
    Written { level: usize, bytes: u64 },
    /// The keyspace holds what keyspace `by` held, which is gone.
    Replaced { by: u64 },
    /// The keyspace holds nothing.
    Cleared,
    /// The keyspace is to have another schema and another design.
    SchemaChange { schema: String, design: String, at_ms: u64 },
    /// The keyspace keeps its schema, other than was said.
    SchemaKept,
    /// The keyspace has another schema and another design, and holds what the other steps of the edit say.
    SchemaChanged { schema: String, design: String, sequence: u64, at_ms: u64 },
    /// What was done with the keyspace.
    Activity(Box<Activity>),
    /// Smallest unused number of tables, runs and keyspaces.
    NextId(u64),
    /// The store's hash secret.
    Secret([u8; 16]),
    /// Where the log starts when no keyspace says so.
    LogStart(LogStart),
    /// The log is synced up to this LSN at least; one that ends earlier has lost something.
    LogEnd(u64),
    /// The store's clock has come so far, in milliseconds since 1970.
    Clock(u64),
    /// Whoever has the store open for writing gives it so many bytes of memory.
    MemoryBudget(u64),
}

/// The run that a run replaces which is put below all others.
pub(crate) const OLDEST: RunId = RunId::MAX;

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

/// Encodes a step's kind and the region that it is about.
pub(super) fn put_region(out: &mut Vec<u8>, kind: u8, level: usize, path: TriePath) {
    out.push(kind);
    varint::put_u64(out, level as u64);
    put_path(out, path);
}

/// Decodes the number of a level.
pub(super) fn level_number(from: &mut Decoder<'_>) -> Option<usize> {
    from.length().filter(|&level| level < 256)
}

impl Step {
    fn encode(&self, out: &mut Vec<u8>) {
        let number = |out: &mut Vec<u8>, kind: u8, number: u64| {
            out.push(kind);
            varint::put_u64(out, number);
        };
        match self {
            Self::AddRun { level, path, run, replaces } => {
                put_region(out, 1, *level, *path);
                run.encode(*replaces, out);
            }
            Self::RemoveRun { level, path, run } => {
                put_region(out, 2, *level, *path);
                varint::put_u64(out, *run);
            }
            Self::Pushed { level, path, pushes } => {
                put_region(out, 3, *level, *path);
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
            Self::Redesigned { .. } | Self::Settled { .. } | Self::Gathered { .. } => {
                self.encode_redesign(out)
            }
            Self::Dropped => out.push(6),
            Self::Written { level, bytes } => {
                out.push(7);
                varint::put_u64(out, *level as u64);
                varint::put_u64(out, *bytes);
            }
            Self::NextId(id) => number(out, 8, *id),
            Self::Secret(secret) => {
                out.push(9);
                out.extend_from_slice(secret);
            }
            Self::LogEnd(lsn) => number(out, 11, *lsn),
            Self::Clock(ms) => number(out, 14, *ms),
            Self::MemoryBudget(bytes) => number(out, 18, *bytes),
            Self::Replaced { by } => number(out, 12, *by),
            Self::Cleared => out.push(17),
            Self::SchemaChange { .. } | Self::SchemaChanged { .. } | Self::SchemaKept => {
                self.encode_schema(out)
            }
            Self::Activity(activity) => {
                out.push(16);
                varint::put_u64(out, activity.numbers().len() as u64);
                activity.numbers().iter().for_each(|number| varint::put_u64(out, *number));
            }
            Self::LogStart(start) => {
                out.push(10);
                [start.segment, start.lsn].into_iter().for_each(|n| varint::put_u64(out, n));
            }
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(match from.u8()? {
            1 => {
                let (level, path, id) = (level_number(from)?, from.path()?, from.varint()?);
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
            2 => Self::RemoveRun { level: level_number(from)?, path: from.path()?, run: from.varint()? },
            3 => Self::Pushed { level: level_number(from)?, path: from.path()?, pushes: from.varint()? },
            4 => {
                let start = LogStart { segment: from.varint()?, lsn: from.varint()? };
                Self::Flushed { start, user_bytes: from.varint()? }
            }
            5 => {
                let mut text = || Some(from.string()?.to_owned());
                Self::Created { name: text()?, schema: text()?, design: text()? }
            }
            6 => Self::Dropped,
            7 => Self::Written { level: level_number(from)?, bytes: from.varint()? },
            8 => Self::NextId(from.varint()?),
            9 => Self::Secret(*from.take(16)?.first_chunk()?),
            10 => Self::LogStart(LogStart { segment: from.varint()?, lsn: from.varint()? }),
            11 => Self::LogEnd(from.varint()?),
            12 => Self::Replaced { by: from.varint()? },
            13 => Self::MergeOperator(from.string()?.to_owned()),
            14 => Self::Clock(from.varint()?),
            15 => Self::decode_redesign(from)?,
            16 => {
                let mut numbers = Vec::new();
                for _ in 0..from.varint()? {
                    numbers.push(from.varint()?);
                }
                Self::Activity(Box::new(Activity::of_numbers(&numbers)))
            }
            17 => Self::Cleared,
            18 => Self::MemoryBudget(from.varint()?),
            19 => Self::decode_schema(from)?,
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
        let removed = next.change(edit, open)?;
        Ok((next, removed))
    }

    /// Becomes the version after `edit`, as [`apply`](Self::apply) says; after an error it is of no use.
    pub fn change(
        &mut self,
        edit: &Edit,
        open: &mut dyn FnMut(&TableMeta) -> Arc<Table>,
    ) -> Result<Vec<Arc<Table>>, String> {
        let was_changing = self.is_changing();
        let mut removed = Vec::new();
        for step in &edit.steps {
            self.change_design(step)?;
        }
        // Runs are added first, so that one can take the place of a run that goes.
        for step in &edit.steps {
            if let Step::AddRun { path, run, replaces, .. } = step {
                let tables = run.tables.iter().map(&mut *open).collect();
                self.add_run(*path, Run::new(run.id, tables, run.kills.clone()), *replaces)?;
            }
        }
        for step in &edit.steps {
            match step {
                Step::RemoveRun { path, run, .. } => {
                    removed.extend(self.remove_run(*path, *run)?);
                }
                Step::Pushed { path, pushes, .. } => {
                    let region = self.region_mut(*path);
                    self.put_region(region.with_runs(region.runs.clone(), *pushes));
                }
                Step::Flushed { user_bytes, .. } => self.user_bytes = *user_bytes,
                Step::Activity(activity) => self.activity = **activity,
                Step::Written { level, bytes } => {
                    self.level_mut(self.design.depth(*level)).bytes_written = *bytes;
                }
                _ => {}
            }
        }
        for step in &edit.steps {
            if let Step::Gathered { path, .. } = step {
                self.cut_off_below(*path)?;
            }
        }
        self.dissolve_outgoing();
        self.note_children(edit, was_changing);
        self.fit_filters(edit);
        // A table that moved from one run to another is still in use.
        let added = edit.steps.iter().filter_map(|step| match step {
            Step::AddRun { path, run, .. } => self.runs(*path).iter().find(|added| added.id == run.id),
            _ => None,
        });
        let kept: HashSet<u64> = added.flat_map(|run| &run.tables).map(|table| table.id()).collect();
        removed.retain(|table| !kept.contains(&table.id()));
        Ok(removed)
    }

    /// Fits the filters of the regions whose runs `edit` has changed. Between one step and the next runs may
    /// be missing that others take the place of.
    fn fit_filters(&mut self, edit: &Edit) {
        for step in &edit.steps {
            let (Step::AddRun { path, .. } | Step::RemoveRun { path, .. }) = step else {
                continue;
            };
            let filtered = self.region(*path).filter(|region| region.filter.is_some());
            if let Some(mut region) = filtered.map(|region| Region::clone(region)) {
                region.fit_filter();
                self.put_region(region);
            }
        }
    }

    /// Returns the filters of regions whose runs `steps` merge in place. What comes from elsewhere is not in
    /// their filters.
    pub fn filters_after_rewrites(&self, steps: &[Step], memory: &Arc<MemoryBudget>) -> Vec<NewRegionFilter> {
        let rewrites = steps.iter().filter_map(|step| {
            let Step::AddRun { path, run, replaces: Some(_), .. } = step else { return None };
            let filter = self.region(*path)?.filter.as_ref()?;
            let is_elsewhere =
                |step: &Step| matches!(step, Step::RemoveRun { path: other, .. } if other != path);
            if steps.iter().any(is_elsewhere) {
                return None;
            }
            let merged = steps.iter().filter_map(|step| match step {
                Step::RemoveRun { run, .. } => Some(*run),
                _ => None,
            });
            let filter = filter.after_rewrite(&merged.collect::<Vec<_>>(), run.id, memory)?;
            Some(NewRegionFilter::new(*path, filter))
        });
        rewrites.collect()
    }

    /// Takes another design, or lays the ones before to rest.
    fn change_design(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Redesigned { design, sequence, at_ms, first_run, chosen } => {
                let to: Design = serde_json::from_str(design).map_err(|e| format!("a design: {e}"))?;
                to.check().map_err(|e| e.to_string())?;
                let (from, to) = (Arc::clone(&self.design), Arc::new(to));
                self.design = Arc::clone(&to);
                self.history = self.history.with(DesignChange {
                    from,
                    to,
                    sequence: *sequence,
                    at_ms: *at_ms,
                    first_run: *first_run,
                    settled_ms: None,
                    chosen: *chosen,
                });
                self.add_levels_above(self.levels.last().map_or(0, |level| level.depth));
            }
            Step::Settled { at_ms } => self.history = self.history.settled(*at_ms),
            _ => {}
        }
        Ok(())
    }

    /// Returns the level of so many bits; it is made, with all of the design's above it, where it is not
    /// there.
    fn level_mut(&mut self, depth: u8) -> &mut Level {
        if let Some(at) = self.levels.iter().position(|level| level.depth == depth) {
            #[expect(clippy::indexing_slicing, reason = "it was found there")]
            return &mut self.levels[at];
        }
        self.add_levels_above(depth);
        let at = self.levels.partition_point(|level| level.depth < depth);
        self.levels.insert(at, Level::new(depth));
        #[expect(clippy::indexing_slicing, reason = "the level was just put there")]
        &mut self.levels[at]
    }

    /// Makes the levels of the design above so many bits that are not there.
    fn add_levels_above(&mut self, depth: u8) {
        let of_design = (0..).map(|number| self.design.depth(number)).take_while(|above| *above < depth);
        let mut missing: Vec<u8> = of_design.filter(|above| self.level_at(*above).is_none()).collect();
        // Only the foot of the trie has several levels of one depth.
        missing.dedup();
        self.levels.extend(missing.into_iter().map(Level::new));
        self.levels.sort_by_key(|level| level.depth);
    }

    fn region_mut(&mut self, path: TriePath) -> Arc<Region> {
        let found = self.level_mut(path.depth()).region(path).cloned();
        found.unwrap_or_else(|| Arc::new(Region::new(path, Vec::new(), 0)))
    }

    fn put_region(&mut self, region: Region) {
        region.note_filter_worths();
        self.level_mut(region.path.depth()).set(region);
    }

    /// Removes all regions below `path`.
    fn cut_off_below(&mut self, path: TriePath) -> Result<(), String> {
        if self.has_data_below(path) {
            return Err(format!("all below region {path} is to be gone, but has runs"));
        }
        for level in self.levels.iter_mut().filter(|level| level.depth > path.depth()) {
            level.regions.retain(|region| !path.covers(region.path));
        }
        while self.levels.last().is_some_and(|level| level.regions.is_empty()) {
            let gone = self.levels.pop();
            if let (Some(gone), Some(last)) = (gone, self.levels.last_mut()) {
                last.bytes_written += gone.bytes_written;
            }
        }
        Ok(())
    }

    /// Lets go of what is empty of outgoing levels. What was written into a level that goes counts for the
    /// one below it.
    fn dissolve_outgoing(&mut self) {
        let design = Arc::clone(&self.design);
        let outgoing = |level: &&mut Level| design.level_at(level.depth).is_none();
        for level in self.levels.iter_mut().filter(outgoing) {
            level.regions.retain(|region| !region.runs.is_empty());
        }
        let mut written = 0;
        for at in (0..self.levels.len()).rev() {
            let goes = |level: &Level| design.level_at(level.depth).is_none() && level.regions.is_empty();
            if self.levels.get(at).is_some_and(goes) {
                let gone = self.levels.remove(at);
                written = gone.bytes_written;
                if let Some(level) = self.levels.get_mut(at) {
                    level.bytes_written += std::mem::take(&mut written);
                }
            }
        }
        if let Some(last) = self.levels.last_mut() {
            last.bytes_written += written;
        }
    }

    fn add_run(&mut self, path: TriePath, run: Run, replaces: Option<RunId>) -> Result<(), String> {
        let region = self.region_mut(path);
        let mut runs = region.runs.clone();
        let at = match replaces {
            None => 0,
            Some(OLDEST) => runs.len(),
            Some(old) => runs.iter().position(|r| r.id == old).ok_or_else(|| {
                format!("run {} is to replace run {old}, which is not in region {path}", run.id)
            })?,
        };
        runs.insert(at, Arc::new(run));
        self.put_region(region.with_runs(runs, region.pushes));
        Ok(())
    }

    fn remove_run(&mut self, path: TriePath, run: RunId) -> Result<Vec<Arc<Table>>, String> {
        let region = self.region_mut(path);
        let mut runs = region.runs.clone();
        let at = runs
            .iter()
            .position(|r| r.id == run)
            .ok_or_else(|| format!("run {run} is to go, but is not in region {path}"))?;
        let gone = runs.remove(at);
        self.put_region(region.with_runs(runs, region.pushes));
        Ok(gone.tables.clone())
    }

    /// Tells every region whether any region lies below it, after `edit` of a version that `was_changing`.
    fn note_children(&mut self, edit: &Edit, was_changing: bool) {
        let is_gathered = edit.steps.iter().any(|step| matches!(step, Step::Gathered { .. }));
        let may_shrink = is_gathered || was_changing || self.is_changing();
        let looked_at: Vec<TriePath> = if may_shrink {
            self.levels.iter().flat_map(|level| &level.regions).map(|region| region.path).collect()
        } else {
            // Regions come only where steps name them, and none goes.
            let changed = edit.steps.iter().filter_map(|step| match step {
                Step::AddRun { path, .. } | Step::RemoveRun { path, .. } | Step::Pushed { path, .. } => {
                    Some(*path)
                }
                _ => None,
            });
            changed.flat_map(|path| self.down_to(path)).collect()
        };
        for path in looked_at {
            let has_children = self.has_children(path);
            let stale = self.region(path).filter(|region| region.shape.has_children != has_children);
            if let Some(mut region) = stale.map(|region| Region::clone(region)) {
                region.shape.has_children = has_children;
                self.put_region(region);
            }
        }
    }

    /// Returns the paths of the region of `path` and of those that it lies in.
    fn down_to(&self, path: TriePath) -> Vec<TriePath> {
        let levels = self.levels.iter().filter(|level| level.depth <= path.depth());
        let regions = levels.filter_map(|level| level.region_of(path.first()));
        regions.map(|region| region.path).collect()
    }

    /// Steps that build this version from nothing.
    pub fn to_steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut written: BTreeMap<usize, u64> = BTreeMap::new();
        for level in &self.levels {
            let number = self.shown_number(level.depth);
            *written.entry(number).or_default() += level.bytes_written;
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
        steps.extend(written.into_iter().map(|(level, bytes)| Step::Written { level, bytes }));
        steps
    }
}
