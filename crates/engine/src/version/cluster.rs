//! Bloom clusters: one filter per run and column of digests, those of a region's runs side by side in a file, so that one
//! read says which run of the pile may hold a key.
//!
//! Source: LSM-trie (Wu et al., ATC'15), "Clustering Bloom filters"; the structure is `bloom_cluster` in `siltstone-succinct`.
//! Where we differ, and why:
//!
//! * The published system rewrites a cluster whenever a run is added. Here a new run's filters are first held in memory, and the
//!   file is written again once they are a quarter of all, or once there is nothing else to do: under load a filter is written
//!   about three times in the life of a pile of thirty runs, and at most a quarter of the last level's filters are in memory.
//! * A file is never changed. It names the runs it covers; runs never change and their numbers are not used twice, so a
//!   file is right for as long as one of its runs lies in its region, whatever lies there beside it.
//! * Files are only advice, and no edit of the manifest names them: one that is missing or damaged makes lookups ask every run,
//!   until it has been made anew from the tables in the background.
//!
//! ```text
//! file      page 0: header · page 1, ...: boxes, 4088 bytes of each page, as the shape says; pages as in tables, no entries
//! header    "SILTCLUS" · version u32 · stamp u64 (of the hash secret) · keyspace varint · level varint · path
//!           · runs varint · each run's number varint · shape
//! ```
//!
//! Invariants: `runs` are those of the pile, newest first; what a source says of a run, its keys bear out.

use super::level::{Run, RunId};
use crate::cache::{PAGE_BYTES, Page, PageRef, Pause, Probe, TableId};
use crate::codec::{Decoder, put_path};
use crate::error::{ErrorKind, Result};
use crate::memory::{Holder, MemoryBudget, Reservation};
use crate::table::Trash;
use crate::table::envelope::{PAGE_HEADER_BYTES, PAYLOAD_BYTES};
use siltstone_design::{EncodedKey, FilterSpec, LevelSpec, TriePath};
use siltstone_succinct::buckets::spread::Spread;
use siltstone_succinct::code::varint;
use siltstone_succinct::filter::bloom_cluster::{ClusterShape, KEYS_PER_COLUMN, MOST_ROWS, Row, RowBuilder};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const MAGIC: &[u8; 8] = b"SILTCLUS";
const VERSION: u32 = 1;
/// Part of the budget that rows leave to others.
const KEPT_FROM_ROWS: u64 = 4;
/// Bytes that a row's builder takes for a key: its fingerprint, and a part of its column's end.
const BUILDER_KEY_BYTES: u64 = 9;

/// Filter bits per key of a level's clusters; `None` where it has none.
pub(crate) fn cluster_bits(level: &LevelSpec) -> Option<u8> {
    match level.filter {
        FilterSpec::BloomCluster { bits_per_key } => Some(bits_per_key),
        _ => None,
    }
}

/// A row in memory with its share of the budget.
#[derive(Debug)]
pub(crate) struct HeldRow {
    pub row: Row,
    _held: Reservation,
}

/// Makes the row of a run whose keys come in the store's order.
pub(crate) struct ClusterRowBuilder {
    spread: Spread,
    builder: RowBuilder,
    _held: Reservation,
}

impl ClusterRowBuilder {
    /// A builder for a run of about `keys` keys in region `path`, which `cluster` has the columns of if there is one; `None` where
    /// memory is short.
    pub fn new(
        path: TriePath,
        bits_per_key: u8,
        cluster: Option<&Cluster>,
        (keys, memory): (u64, &Arc<MemoryBudget>),
    ) -> Option<Self> {
        let keep_free = memory.total_bytes() / KEPT_FROM_ROWS;
        let held = memory.try_hold(Holder::Compaction, keys.saturating_mul(BUILDER_KEY_BYTES), keep_free)?;
        let columns = cluster.map_or_else(
            || (keys / KEYS_PER_COLUMN).clamp(1, u64::from(u32::MAX >> 8)) as u32,
            |cluster| cluster.spread.buckets(),
        );
        let spread = Spread::new(path.first(), path.last(), columns);
        Some(Self { spread, builder: RowBuilder::new(columns, bits_per_key), _held: held })
    }

    #[inline]
    pub fn add(&mut self, key: &EncodedKey<'_>) {
        self.builder.insert(self.spread.bucket(key.digest.hi), key.fingerprint);
    }

    /// The row of run `run` of the region; `None` where memory is short.
    pub fn finish(
        self,
        (level, path): (usize, TriePath),
        run: RunId,
        memory: &Arc<MemoryBudget>,
    ) -> Option<NewRow> {
        let Self { spread, builder, .. } = self;
        let row = hold(builder.finish(), memory)?;
        Some(NewRow { level, path, run, spread, row })
    }
}

/// A run's row, to be seen once the run is.
#[derive(Clone, Debug)]
pub(crate) struct NewRow {
    pub level: usize,
    pub path: TriePath,
    run: RunId,
    spread: Spread,
    row: Arc<HeldRow>,
}

impl NewRow {
    /// The row of run `run` of a region from its bytes; `Ok(None)` where memory is short, `Err` where they make no sense.
    pub fn decode(
        bytes: &[u8],
        (level, path): (usize, TriePath),
        run: RunId,
        memory: &Arc<MemoryBudget>,
    ) -> std::result::Result<Option<Self>, ()> {
        let row = Row::from_bytes(bytes).map_err(|_| ())?;
        let spread = Spread::new(path.first(), path.last(), row.columns());
        Ok(hold(row, memory).map(|row| Self { level, path, run, spread, row }))
    }
}

/// A row with its share of the budget, if that goes.
fn hold(row: Row, memory: &Arc<MemoryBudget>) -> Option<Arc<HeldRow>> {
    let keep_free = memory.total_bytes() / KEPT_FROM_ROWS;
    let held = memory.try_hold(Holder::Filter, row.memory_bytes() as u64, keep_free)?;
    Some(Arc::new(HeldRow { row, _held: held }))
}

/// What tells whether a run may hold a key.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Nothing,
    Row(Arc<HeldRow>),
    /// The row with this number in the file.
    File(usize),
}

/// What is known of a pile's runs.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    spread: Spread,
    runs: Vec<(RunId, Source)>,
    file: Option<Arc<ClusterFile>>,
}

/// Where a cluster file belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClusterPlace {
    pub stamp: u64,
    pub keyspace: u64,
    pub level: usize,
    pub path: TriePath,
}

/// A file of boxes. Once marked obsolete, it is removed when the last holder lets go.
pub(crate) struct ClusterFile {
    pub id: TableId,
    pub runs: Vec<RunId>,
    pub shape: ClusterShape,
    /// Whether every page is known to have been as it should be.
    is_checked: AtomicBool,
    is_damaged: AtomicBool,
    obsolete: AtomicBool,
    trash: Arc<Trash>,
}

impl std::fmt::Debug for ClusterFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cluster {} of {} runs", self.id, self.runs.len())
    }
}

impl Drop for ClusterFile {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.trash.put(self.id, self.pages());
        }
    }
}

impl ClusterFile {
    pub fn new(id: TableId, runs: Vec<RunId>, shape: ClusterShape, trash: Arc<Trash>) -> Self {
        let (is_checked, is_damaged, obsolete) = Default::default();
        Self { id, runs, shape, is_checked, is_damaged, obsolete, trash }
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages()) * PAGE_BYTES as u64
    }

    pub fn is_checked(&self) -> bool {
        self.is_checked.load(Ordering::Relaxed)
    }

    /// Its pages have been written, or read, all of them.
    pub fn mark_checked(&self) {
        self.is_checked.store(true, Ordering::Relaxed);
    }

    /// Pages of the file, the header's included.
    pub fn pages(&self) -> u32 {
        self.shape.pages() + 1
    }

    pub fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// The file is to go once nobody reads it.
    pub fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Passes over damage, which costs this file and no answer.
    pub fn spared<T>(&self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Err(error) if error.kind() == ErrorKind::Corruption => {
                self.is_damaged.store(true, Ordering::Relaxed);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Returns a page; `None` where it is damaged.
    fn page(&self, number: u32, probe: &mut Probe<'_>) -> Result<Option<Page>, Pause> {
        match probe.page(self.id, number) {
            Ok(page) => Ok(Some(page)),
            Err(Pause::Failed(error)) => Ok(self.spared(Err(error))?),
            Err(needs) => Err(needs),
        }
    }

    /// The rows that may hold the key, as bits; `None` where the file is damaged.
    fn candidates(
        &self,
        column: u32,
        fingerprint: u64,
        probe: &mut Probe<'_>,
    ) -> Result<Option<u128>, Pause> {
        if self.is_damaged() {
            return Ok(None);
        }
        let place = self.shape.place(column);
        let first = place.page + 1;
        let Some(page) = self.page(first, probe)? else { return Ok(None) };
        let from = PAGE_HEADER_BYTES + place.offset;
        if place.pages == 1 {
            let filters = page.get(from..from + self.shape.box_bytes()).unwrap_or(&[]);
            return Ok(Some(self.shape.candidates(filters, fingerprint)));
        }
        let mut filters = page.get(from..).unwrap_or(&[]).to_vec();
        for number in first + 1..first + place.pages {
            let Some(page) = self.page(number, probe)? else { return Ok(None) };
            filters.extend_from_slice(page.get(PAGE_HEADER_BYTES..).unwrap_or(&[]));
        }
        Ok(Some(self.shape.candidates(&filters, fingerprint)))
    }

    /// The payload of page 0.
    pub fn header(&self, place: &ClusterPlace) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&place.stamp.to_le_bytes());
        varint::put_u64(&mut out, place.keyspace);
        varint::put_u64(&mut out, place.level as u64);
        put_path(&mut out, place.path);
        varint::put_u64(&mut out, self.runs.len() as u64);
        self.runs.iter().for_each(|run| varint::put_u64(&mut out, *run));
        self.shape.to_bytes(&mut out);
        out
    }

    /// The file whose page 0 holds `payload`, and where it belongs.
    pub fn from_header(id: TableId, payload: &[u8], trash: Arc<Trash>) -> Option<(Self, ClusterPlace)> {
        let mut from = Decoder::new(payload);
        if from.take(8)? != MAGIC || from.u32()? != VERSION {
            return None;
        }
        let (stamp, keyspace, level, path) = (from.u64()?, from.varint()?, from.length()?, from.path()?);
        let count = from.length().filter(|count| *count <= MOST_ROWS)?;
        let mut runs = Vec::with_capacity(count);
        for _ in 0..count {
            runs.push(from.varint()?);
        }
        let shape = ClusterShape::from_bytes(from.take(from.remaining())?, PAYLOAD_BYTES).ok()?;
        let place = ClusterPlace { stamp, keyspace, level, path };
        (shape.rows().len() == runs.len()).then(|| (Self::new(id, runs, shape, trash), place))
    }
}

impl Cluster {
    /// What `file`, of region `path`, says of `pile`; `None` where it says nothing.
    pub fn of_file(path: TriePath, file: Arc<ClusterFile>, pile: &[Arc<Run>]) -> Option<Self> {
        let spread = Spread::new(path.first(), path.last(), file.shape.columns());
        Self { spread, runs: Vec::new(), file: Some(file) }.fitted(pile)
    }

    /// What is known of `pile` (newest first), of which some runs may be new and others gone; `None` where that is nothing.
    pub fn fitted(&self, pile: &[Arc<Run>]) -> Option<Self> {
        let source = |run: RunId| {
            let known = self.runs.iter().find(|(known, _)| *known == run).map(|(_, source)| source.clone());
            let in_file = || self.file.as_ref()?.runs.iter().position(|of_file| *of_file == run);
            match known {
                Some(Source::Row(row)) => Source::Row(row),
                _ => in_file().map_or(Source::Nothing, Source::File),
            }
        };
        let runs: Vec<_> = pile.iter().map(|run| (run.id, source(run.id))).collect();
        let uses_file = runs.iter().any(|(_, source)| matches!(source, Source::File(_)));
        let uses_rows = runs.iter().any(|(_, source)| matches!(source, Source::Row(_)));
        (uses_file || uses_rows).then(|| Self {
            spread: self.spread,
            runs,
            file: self.file.clone().filter(|_| uses_file),
        })
    }

    /// The same with one more row; rows of other columns than the cluster's are of no use.
    pub fn with_row(cluster: Option<&Self>, new: &NewRow, pile: &[Arc<Run>]) -> Option<Self> {
        let mut cluster = match cluster {
            Some(cluster) if cluster.spread == new.spread => cluster.clone(),
            Some(_) => return None,
            None => Self { spread: new.spread, runs: Vec::new(), file: None },
        };
        cluster.runs.retain(|(run, _)| *run != new.run);
        cluster.runs.push((new.run, Source::Row(Arc::clone(&new.row))));
        cluster.fitted(pile)
    }

    /// The same with `file`, which holds all rows that were in memory when it was written.
    pub fn with_file(&self, file: Arc<ClusterFile>, pile: &[Arc<Run>]) -> Option<Self> {
        let mut cluster = Self { file: Some(Arc::clone(&file)), ..self.clone() };
        cluster.runs.retain(|(run, _)| !file.runs.contains(run));
        cluster.fitted(pile)
    }

    pub fn file(&self) -> Option<&Arc<ClusterFile>> {
        self.file.as_ref()
    }

    pub fn columns(&self) -> u32 {
        self.spread.buckets()
    }

    /// Places in the pile, newest first, of which nothing is known.
    pub fn unknown(&self) -> impl Iterator<Item = usize> {
        let is_lost = self.file.as_ref().is_some_and(|file| file.is_damaged());
        let is_unknown = move |source: &Source| match source {
            Source::Nothing => true,
            Source::File(_) => is_lost,
            Source::Row(_) => false,
        };
        self.runs.iter().enumerate().filter(move |(_, (_, source))| is_unknown(source)).map(|(at, _)| at)
    }

    /// The rows that are in memory, with their runs.
    pub fn held_rows(&self) -> impl Iterator<Item = (RunId, &Row)> {
        self.runs.iter().filter_map(|(run, source)| match source {
            Source::Row(held) => Some((*run, &held.row)),
            _ => None,
        })
    }

    /// Places in the pile, newest first, of runs that neither a file nor memory has a row of.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        let runs = self.runs.iter().enumerate();
        runs.filter(|(_, (_, source))| matches!(source, Source::Nothing)).map(|(at, _)| at)
    }

    /// What a file of all that is known would hold, newest run first: rows in memory, or their numbers in the present file.
    pub fn parts(&self) -> Vec<(RunId, Source)> {
        let known = self.runs.iter().filter(|(_, source)| !matches!(source, Source::Nothing));
        known.take(MOST_ROWS).cloned().collect()
    }

    /// Bytes of rows in memory, and of those that the file has.
    pub fn row_bytes(&self) -> (u64, u64) {
        let (mut held, mut filed) = (0, 0);
        for (_, source) in &self.runs {
            match source {
                Source::Nothing => {}
                Source::Row(row) => held += row.row.memory_bytes() as u64,
                Source::File(number) => {
                    let width = self.file.as_ref().and_then(|file| file.shape.rows().get(*number));
                    filed += width.map_or(0, |row| u64::from(row.width)) * u64::from(self.columns());
                }
            }
        }
        (held, filed)
    }

    /// The page that [`Cluster::absent`] reads for `key`, unless rows in memory leave it nothing to ask.
    pub fn first_page(&self, key: &EncodedKey<'_>) -> Option<PageRef> {
        let filed = self.runs.iter().filter(|(_, source)| matches!(source, Source::File(_))).take(2).count();
        let file = self.file.as_ref().filter(|file| filed > 1 && !file.is_damaged())?;
        let page = file.shape.place(self.spread.bucket(key.digest.hi)).page + 1;
        Some(PageRef::Page { file: file.id, page })
    }

    /// The runs that certainly do not hold `key`, as bits by their places in the pile, newest first.
    pub fn absent(&self, key: &EncodedKey<'_>, probe: &mut Probe<'_>) -> Result<u128, Pause> {
        let column = self.spread.bucket(key.digest.hi);
        let (mut absent, mut filed, mut possible) = (0u128, 0, 0);
        for (at, (_, source)) in self.runs.iter().enumerate().take(MOST_ROWS) {
            match source {
                Source::Row(row) if !row.row.may_contain(column, key.fingerprint) => absent |= 1 << at,
                Source::File(_) => {
                    filed += 1;
                    possible += 1;
                }
                _ => possible += 1,
            }
        }
        // Where only one run is left to ask, asking it is as cheap as asking for its filter.
        if filed > 0
            && possible > 1
            && let Some(file) = &self.file
            && let Some(found) = file.candidates(column, key.fingerprint, probe)?
        {
            for (at, (_, source)) in self.runs.iter().enumerate().take(MOST_ROWS) {
                if let Source::File(number) = source {
                    absent |= u128::from(found >> number & 1 == 0) << at;
                }
            }
        }
        Ok(absent)
    }
}
