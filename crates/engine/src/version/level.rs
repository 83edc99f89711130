//! Level › Region › Run › Table: the four nouns as values.

use super::cluster::{Cluster, ClusterFile, NewRow};
use super::edit::Step;
use super::guide::{Guide, NewGuide, Touch};
use crate::cache::{Pause, Probe, Reader};
use crate::entry::{PrefixTombstones, Span};
use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::table::Table;
use siltstone_design::{Digest, EncodedKey, RegionShape, RunShape, TriePath};
use siltstone_succinct::filter::maplet::Maplet;
use std::borrow::Cow;
use std::sync::Arc;

/// Number of a run, unique within a store; larger is not always newer.
pub(crate) type RunId = u64;

/// A sorted list of tables that are disjoint in the store's order.
pub(crate) struct Run {
    pub id: RunId,
    pub tables: Vec<Arc<Table>>,
    /// Prefixes deleted by this run, for everything older.
    pub tombstones: PrefixTombstones,
    /// Estimated bytes of older runs of the same leaf region that this run makes dead.
    pub kills: Vec<(RunId, u64)>,
}

impl Run {
    pub fn new(id: RunId, tables: Vec<Arc<Table>>, kills: Vec<(RunId, u64)>) -> Self {
        let tombstones = tables.iter().flat_map(|t| t.meta().tombstones.iter().cloned()).collect();
        Self { id, tables, tombstones: PrefixTombstones::new(tombstones), kills }
    }

    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|t| t.meta().bytes).sum()
    }

    pub fn entries(&self) -> u64 {
        self.tables.iter().map(|t| t.meta().entries).sum()
    }

    /// The fingerprints that its tables keep; `None` where one has none, or they can't be read: then its keys say the same.
    pub fn fingerprints(&self, reader: &Reader) -> Option<Vec<Maplet>> {
        let tables = self.tables.iter().filter(|table| table.meta().entries > 0);
        tables.map(|table| table.fingerprints(reader).ok().flatten()).collect()
    }

    /// The one table that may hold the place `(digest, key)`.
    #[inline]
    pub fn table_for(&self, digest: Digest, key: &[u8]) -> Option<&Arc<Table>> {
        let past = self.tables.partition_point(|table| {
            let (last, last_key) = &table.meta().last;
            (*last, last_key.as_slice()) < (digest, key)
        });
        self.tables.get(past).filter(|table| {
            let meta = table.meta();
            meta.entries > 0 && (meta.first.0, meta.first.1.as_slice()) <= (digest, key)
        })
    }

    /// The tables with entries in `span`, in order.
    pub fn tables_in(&self, span: &Span) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.iter().filter(|table| {
            let meta = table.meta();
            meta.entries > 0 && span.overlaps(meta.first.0, meta.last.0)
        })
    }
}

/// What a guide says of a run and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// The run does not hold the key's newest version.
    No,
    /// It may.
    Yes,
    /// The guide does not cover the run.
    Unknown,
}

/// What guide and cluster of a region say of its runs, newest first.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    /// Runs that do not hold the key, as bits by place.
    absent: u128,
    /// How many of the oldest runs the guide covers, and those of them that may hold the key, as bits from the oldest on.
    covered: usize,
    slots: u64,
    /// Place of the next run, and how many runs there are.
    next: usize,
    runs: usize,
}

impl Candidates {
    /// Place of the next run.
    #[inline]
    pub fn place(&self) -> usize {
        self.next
    }

    /// What is said of the run at `place` and those after it.
    pub fn from(&self, place: usize) -> Self {
        Self { next: place, ..*self }
    }
}

impl Iterator for Candidates {
    type Item = Candidate;

    #[inline]
    fn next(&mut self) -> Option<Candidate> {
        if self.next == self.runs {
            return None;
        }
        let (place, slot) = (self.next as u32, self.runs - 1 - self.next);
        self.next += 1;
        Some(match slot {
            _ if self.absent.checked_shr(place).unwrap_or(0) & 1 == 1 => Candidate::No,
            _ if slot >= self.covered => Candidate::Unknown,
            _ if self.slots >> slot & 1 == 1 => Candidate::Yes,
            _ => Candidate::No,
        })
    }
}

/// A node of the trie with its pile of runs, newest first.
#[derive(Clone)]
pub(crate) struct Region {
    pub path: TriePath,
    pub runs: Vec<Arc<Run>>,
    /// How often the pile has been handed down.
    pub pushes: u64,
    /// What the planner sees, but for what expires with time.
    pub shape: RegionShape,
    /// Says which of the oldest runs may hold a key.
    pub guide: Option<Arc<Guide>>,
    /// The same in another way: which runs do not.
    pub cluster: Option<Arc<Cluster>>,
}

impl Region {
    pub fn new(path: TriePath, runs: Vec<Arc<Run>>, pushes: u64) -> Self {
        let shape = RegionShape {
            path,
            runs: runs.iter().map(|r| RunShape { bytes: r.bytes(), entries: r.entries() }).collect(),
            pushes,
            has_children: false,
            largest_group_bytes: largest_group_bytes(&runs),
            dead_bytes: dead_bytes(&runs),
        };
        Self { path, runs, pushes, shape, guide: None, cluster: None }
    }

    /// The region with another pile, and its guide if that still fits.
    pub fn with_runs(&self, runs: Vec<Arc<Run>>, pushes: u64) -> Self {
        let guide = self.guide.clone();
        let cluster = self.cluster.as_ref().and_then(|cluster| cluster.fitted(&runs)).map(Arc::new);
        Self { cluster, ..Self::new(self.path, runs, pushes) }.guided_by(guide)
    }

    /// The region with `guide`, if it fits the pile.
    pub fn guided_by(mut self, guide: Option<Arc<Guide>>) -> Self {
        self.guide = guide.and_then(|guide| guide.fitted(&self.runs));
        self
    }

    /// Returns what guide and cluster say of each run, newest first, as to the newest version of `key`. A guide that is asked counts
    /// as one filter.
    #[inline]
    pub fn candidates(&self, key: &EncodedKey<'_>, probe: &mut Probe<'_>) -> Result<Candidates, Pause> {
        let absent = match &self.cluster {
            Some(cluster) => cluster.absent(key, probe)?,
            None => 0,
        };
        let (covered, slots) = match &self.guide {
            Some(guide) => (guide.covered(), guide.candidates(key)),
            None => (0, 0),
        };
        probe.trace.filter_probes += u64::from(self.guide.is_some());
        Ok(Candidates { absent, covered, slots, next: 0, runs: self.runs.len() })
    }

    /// The shape at wall-clock time `now_ms`: what has expired is dead too.
    pub fn shape_at(&self, now_ms: u64) -> Cow<'_, RegionShape> {
        let tables = || self.runs.iter().flat_map(|run| &run.tables);
        if tables().all(|table| table.meta().expired_share(now_ms) == 0.0) {
            return Cow::Borrowed(&self.shape);
        }
        let mut shape = self.shape.clone();
        let (mut expired, mut bytes) = (0u64, 0u64);
        for (run, dead) in self.runs.iter().zip(&mut shape.dead_bytes) {
            for table in &run.tables {
                let meta = table.meta();
                expired += (meta.bytes as f64 * meta.expired_share(now_ms)) as u64;
            }
            bytes += run.bytes();
            *dead = (*dead + expired).min(bytes);
        }
        Cow::Owned(shape)
    }
}

/// Bytes, as they stand in tables, of the largest group that any table has: the sum of that group's over all tables.
fn largest_group_bytes(runs: &[Arc<Run>]) -> u64 {
    let metas = || runs.iter().flat_map(|run| &run.tables).map(|table| table.meta());
    let Some((hi, _)) = metas().map(|meta| meta.largest_group).max_by_key(|(_, bytes)| *bytes) else {
        return 0;
    };
    let same = metas().filter(|meta| meta.largest_group.0 == hi);
    let bytes =
        same.map(|meta| meta.bytes as f64 * meta.largest_group.1 as f64 / meta.user_bytes.max(1) as f64);
    bytes.sum::<f64>() as u64
}

/// `dead[k]`: estimated bytes freed by merging the `k + 1` newest runs.
fn dead_bytes(runs: &[Arc<Run>]) -> Vec<u64> {
    let mut dead = Vec::with_capacity(runs.len());
    let mut sum = 0u64;
    for (k, run) in runs.iter().enumerate() {
        let newer = runs.get(..k).unwrap_or(&[]);
        sum += newer
            .iter()
            .flat_map(|newer| &newer.kills)
            .filter(|(victim, _)| *victim == run.id)
            .map(|(_, bytes)| bytes)
            .sum::<u64>();
        dead.push(sum);
    }
    // Tombstones go only with the oldest run.
    if let Some(last) = dead.last_mut() {
        for run in runs {
            let (deleted, entries): (u64, u64) =
                run.tables.iter().fold((0, 0), |(d, e), t| (d + t.meta().deleted, e + t.meta().entries));
            *last += (run.bytes() as f64 * deleted as f64 / entries.max(1) as f64) as u64;
        }
    }
    dead
}

/// The regions at one depth, in digest order; regions that never held data are not there.
#[derive(Clone, Default)]
pub(crate) struct Level {
    pub regions: Vec<Arc<Region>>,
    /// Bytes written into the level since the keyspace was created.
    pub bytes_written: u64,
}

impl Level {
    fn position(&self, path: TriePath) -> std::result::Result<usize, usize> {
        self.regions.binary_search_by_key(&path.first(), |region| region.path.first())
    }

    /// The region of `path`.
    pub fn region(&self, path: TriePath) -> Option<&Arc<Region>> {
        self.position(path).ok().and_then(|at| self.regions.get(at))
    }

    /// The one region that digest half `hi` lies in.
    #[inline]
    pub fn region_of(&self, hi: u64) -> Option<&Arc<Region>> {
        // Where a level is complete, and all of its regions are of one size, as is usual, this is the one.
        let likely = ((u128::from(hi) * self.regions.len() as u128) >> 64) as usize;
        if let Some(region) = self.regions.get(likely).filter(|region| region.path.contains(hi)) {
            return Some(region);
        }
        let past = self.regions.partition_point(|region| region.path.first() <= hi);
        self.regions.get(past.checked_sub(1)?).filter(|region| region.path.contains(hi))
    }

    /// The last digest half up to which nothing changes at this level as one walks on from `hi`: the end of its region, or
    /// the end of the gap it lies in.
    pub fn end_of_stretch(&self, hi: u64) -> u64 {
        if let Some(region) = self.region_of(hi) {
            return region.path.last();
        }
        let past = self.regions.partition_point(|region| region.path.first() <= hi);
        self.regions.get(past).map_or(u64::MAX, |next| next.path.first() - 1)
    }

    /// The regions at or below `path`.
    pub fn below(&self, path: TriePath) -> &[Arc<Region>] {
        let from = self.regions.partition_point(|region| region.path.first() < path.first());
        let to = self.regions.partition_point(|region| region.path.first() <= path.last());
        self.regions.get(from..to).unwrap_or(&[])
    }

    /// Puts a region in its place, over the one that is there.
    pub fn set(&mut self, region: Region) {
        match self.position(region.path) {
            Ok(at) => {
                if let Some(slot) = self.regions.get_mut(at) {
                    *slot = Arc::new(region);
                }
            }
            Err(at) => self.regions.insert(at, Arc::new(region)),
        }
    }
}

impl Version {
    /// Puts guides in their regions, where they fit what lies there.
    pub fn guide_by(&mut self, guides: impl IntoIterator<Item = NewGuide>) {
        for NewGuide { level, path, guide } in guides {
            let Some(level) = self.levels.get_mut(level) else { continue };
            let Some(region) = level.region(path) else { continue };
            let Some(guide) = guide.fitted(&region.runs) else { continue };
            level.set(Region { guide: Some(guide), ..Region::clone(region) });
        }
    }

    /// Puts rows in their regions' clusters, where their runs lie there.
    pub fn cluster_by(&mut self, rows: &[NewRow]) {
        for row in rows {
            let Some(level) = self.levels.get_mut(row.level) else { continue };
            let Some(region) = level.region(row.path) else { continue };
            if let Some(cluster) = Cluster::with_row(region.cluster.as_deref(), row, &region.runs) {
                level.set(Region { cluster: Some(Arc::new(cluster)), ..Region::clone(region) });
            }
        }
    }

    /// Lets a region's cluster use `file`.
    pub fn cluster_with(&mut self, level: usize, path: TriePath, file: &Arc<ClusterFile>) {
        let Some(level) = self.levels.get_mut(level) else { return };
        let Some(region) = level.region(path) else { return };
        let cluster = match &region.cluster {
            Some(cluster) if cluster.columns() == file.shape.columns() => {
                cluster.with_file(Arc::clone(file), &region.runs)
            }
            _ => Cluster::of_file(path, Arc::clone(file), &region.runs),
        };
        if let Some(cluster) = cluster {
            level.set(Region { cluster: Some(Arc::new(cluster)), ..Region::clone(region) });
        }
    }

    /// The files of all clusters.
    pub fn cluster_files(&self) -> impl Iterator<Item = &Arc<ClusterFile>> {
        let regions = self.levels.iter().flat_map(|level| &level.regions);
        regions.filter_map(|region| region.cluster.as_ref()?.file())
    }

    /// Prefetches the guides' memory that lookups of `keys` will read: for all of them side by side, which takes little longer than
    /// for one.
    pub fn prefetch(&self, keys: &[EncodedKey<'_>]) {
        for step in [Touch::First, Touch::Second] {
            for key in keys {
                let regions = self.levels.iter().filter_map(|level| level.region_of(key.digest.hi));
                regions.filter_map(|region| region.guide.as_ref()).for_each(|guide| guide.touch(key, step));
            }
        }
    }

    /// The guides of regions whose runs `steps` merge in place.
    pub fn guides_after_rewrites(&self, steps: &[Step], memory: &Arc<MemoryBudget>) -> Vec<NewGuide> {
        let rewrites = steps.iter().filter_map(|step| {
            let Step::AddRun { level, path, run, replaces: Some(_) } = step else { return None };
            let guide = self.levels.get(*level)?.region(*path)?.guide.as_ref()?;
            let merged = steps.iter().filter_map(|step| match step {
                Step::RemoveRun { level: l, path: p, run } if (l, p) == (level, path) => Some(*run),
                _ => None,
            });
            let guide = guide.after_rewrite(&merged.collect::<Vec<_>>(), run.id, memory)?;
            Some(NewGuide::new(*level, *path, guide))
        });
        rewrites.collect()
    }
}

/// The tables of one keyspace at one moment.
#[derive(Clone, Default)]
pub(crate) struct Version {
    pub levels: Vec<Level>,
    /// Bytes of keys and values written to the keyspace since it was created, as far as they are flushed.
    pub user_bytes: u64,
}

impl Version {
    /// Whether any region below `path` of `level` has runs.
    pub fn has_data_below(&self, level: usize, path: TriePath) -> bool {
        let deeper = self.levels.iter().skip(level + 1);
        deeper.flat_map(|l| l.below(path)).any(|region| !region.runs.is_empty())
    }

    /// Whether any region below `path` of `level` exists.
    pub fn has_children(&self, level: usize, path: TriePath) -> bool {
        self.levels.get(level + 1).is_some_and(|l| !l.below(path).is_empty())
    }

    /// Lets go of what is in memory of the tables that `is_meant` names.
    pub fn unload(&mut self, is_meant: impl Fn(&Table) -> bool) {
        let regions = self.levels.iter_mut().flat_map(|level| &mut level.regions);
        for region in regions {
            let tables = || region.runs.iter().flat_map(|run| &run.tables);
            if !tables().any(|table| is_meant(table)) {
                continue;
            }
            let runs = region.runs.iter().map(|run| {
                let tables = run.tables.iter().map(|table| {
                    if is_meant(table) { Arc::new(table.unloaded()) } else { Arc::clone(table) }
                });
                Arc::new(Run::new(run.id, tables.collect(), run.kills.clone()))
            });
            *region = Arc::new(Region { runs: runs.collect(), ..Region::clone(region) });
        }
    }

    /// Every table, level by level.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let regions = self.levels.iter().flat_map(|level| &level.regions);
        regions.flat_map(|region| &region.runs).flat_map(|run| &run.tables)
    }
}
