//! Bloom clusters of an open store: rows made where they are missing, files written when enough rows are in memory.
//!
//! All of it runs in the background and none of it is needed for an answer; see `version/cluster.rs`. How files are found again is
//! in `advice.rs`.

use super::background::{FilterJob, Scheduler};
use super::catalog::keyspace::OpenKeyspace;
use crate::cache::{CLUSTER, PAGE_BYTES, TableId, seal_page};
use crate::compaction::source;
use crate::entry::Span;
use crate::error::{Error, Result};
use crate::events::{Reason, Work};
use crate::io::File;
use crate::table::Walk;
use crate::table::envelope::{PAGE_HEADER_BYTES, PAYLOAD_BYTES};
use crate::version::cluster::{ClusterFile, ClusterPlace, ClusterRowBuilder, Source, cluster_bits};
use crate::version::level::{Region, RunId, Version};
use siltstone_design::HashSecret;
use siltstone_succinct::filter::bloom_cluster::ClusterShape;
use std::ops::Range;
use std::sync::Arc;

/// Bytes gathered before a write, and pages read at once.
const WRITE_BYTES: usize = 1 << 20;
const READ_PAGES: u32 = 64;

/// What a region's cluster lacks.
enum Lack {
    /// The row of the run at this place of the pile.
    Row(usize),
    /// A file with the rows that are in memory.
    File,
}

/// A region whose cluster lacks something.
pub(super) struct Unclustered {
    level: usize,
    region: Arc<Region>,
    bits_per_key: u8,
    lack: Lack,
}

impl Unclustered {
    /// Describes the work on it to listeners.
    fn job<'a>(&'a self, keyspace: &'a OpenKeyspace) -> FilterJob<'a> {
        let Self { level, region, .. } = self;
        let (work, reason) = match (&self.lack, &region.cluster) {
            (Lack::File, cluster) => {
                let bytes = cluster.as_ref().map_or(0, |cluster| cluster.row_bytes().0);
                (Work::WriteFilterFile, Reason::FileDue { bytes })
            }
            (Lack::Row(_), Some(_)) => (Work::ExtendFilter, Reason::FilterMissing { runs: 1 }),
            (Lack::Row(_), None) => (Work::BuildFilter, Reason::FilterMissing { runs: 1 }),
        };
        let runs = match self.lack {
            Lack::Row(at) => region.runs.get(at..=at).unwrap_or(&[]),
            Lack::File => &[],
        };
        FilterJob { work, keyspace, level: *level, region, runs, reason }
    }
}

impl Scheduler {
    /// A region at `levels` of `keyspace` whose cluster lacks something that can be had. Where there is time, rows in memory are
    /// written even where they are few: closing would lose them.
    pub(super) fn unclustered(
        &self,
        keyspace: &OpenKeyspace,
        version: &Version,
        levels: Range<usize>,
        has_time: bool,
    ) -> Option<Unclustered> {
        let failed = self.filters.guiding.try_lock();
        let has_failed = |run: RunId| failed.as_ref().is_some_and(|failed| failed.contains(&run));
        for (level, regions) in version.levels.iter().enumerate().take(levels.end).skip(levels.start) {
            let Some(bits_per_key) = cluster_bits(keyspace.design.level(level)) else { continue };
            for region in &regions.regions {
                let unknown = match &region.cluster {
                    Some(cluster) => cluster.unknown().find(|at| self.can_row(region, *at, &has_failed)),
                    None => (0..region.runs.len()).find(|at| self.can_row(region, *at, &has_failed)),
                };
                let lack = match (unknown, &region.cluster) {
                    (Some(at), _) => Lack::Row(at),
                    (None, Some(cluster)) => {
                        let (held, filed) = cluster.row_bytes();
                        // Whoever failed to write tries again when the pile has another run.
                        let newest = region.runs.first().map_or(0, |run| run.id);
                        let is_due = held * 3 >= filed || has_time;
                        if held == 0 || !is_due || has_failed(newest) {
                            continue;
                        }
                        Lack::File
                    }
                    (None, None) => continue,
                };
                return Some(Unclustered { level, region: Arc::clone(region), bits_per_key, lack });
            }
        }
        None
    }

    /// Whether the row of a region's run can be made: its keys can be read, and there is memory.
    fn can_row(&self, region: &Region, at: usize, has_failed: &dyn Fn(RunId) -> bool) -> bool {
        let Some(run) = region.runs.get(at) else { return false };
        let keep = self.env.memory().total_bytes() / 4;
        run.entries() > 0 && !has_failed(run.id) && self.env.memory().free_bytes() > run.entries() * 12 + keep
    }

    /// Makes what one cluster at `levels` lacks; false where none lacks anything, or another thread is at it.
    pub(super) fn cluster_one(&self, levels: Range<usize>, has_time: bool) -> bool {
        for keyspace in self.catalog.all() {
            let version = Arc::clone(&keyspace.view.load().version);
            let Some(unclustered) = self.unclustered(&keyspace, &version, levels.clone(), has_time) else {
                continue;
            };
            let Some(mut failed) = self.filters.guiding.try_lock() else { return false };
            let region = &unclustered.region;
            let run = region.runs.get(if let Lack::Row(at) = unclustered.lack { at } else { 0 });
            let make = || match unclustered.lack {
                Lack::Row(at) => self.make_row(&keyspace, &unclustered, at),
                Lack::File => self.make_file(&keyspace, &unclustered),
            };
            let made = self.report_filter(&unclustered.job(&keyspace), make, |made| *made);
            if !matches!(made, Ok(true)) {
                // Without it every run is asked; whoever reads a damaged page is told.
                failed.extend(run.map(|run| run.id));
            }
            return true;
        }
        false
    }

    /// Makes the row of a run from its keys; false where it can't be had.
    fn make_row(&self, keyspace: &OpenKeyspace, unclustered: &Unclustered, at: usize) -> Result<bool> {
        let Unclustered { level, region, bits_per_key, .. } = unclustered;
        let Some(run) = region.runs.get(at) else { return Ok(false) };
        let cluster = region.cluster.as_deref();
        let keys = (run.entries(), self.env.memory());
        let Some(mut builder) = ClusterRowBuilder::new(region.path, *bits_per_key, cluster, keys) else {
            return Ok(false);
        };
        let mut cursor = source(run, &Span::ALL, Walk::Compaction, &self.env.reader)?.cursor;
        let mut since_check = 0u32;
        while let Some(entry) = cursor.peek() {
            builder.add(&entry.key);
            since_check += 1;
            let given_up = || self.env.health.is_closed() || keyspace.is_dropped();
            if since_check.is_multiple_of(4096) && given_up() {
                return Ok(false);
            }
            cursor.advance()?;
        }
        let Some(row) = builder.finish((*level, region.path), run.id, self.env.memory()) else {
            return Ok(false);
        };
        self.catalog.publish(keyspace, |version| version.cluster_by(&[row]));
        Ok(true)
    }

    /// Writes a file of all rows of a region's cluster and lets readers see it; false where it can't be had.
    fn make_file(&self, keyspace: &OpenKeyspace, unclustered: &Unclustered) -> Result<bool> {
        let Unclustered { level, region, .. } = unclustered;
        let Some(cluster) = &region.cluster else { return Ok(false) };
        let parts = cluster.parts();
        let old = cluster.file().cloned();
        let rows = parts.iter().filter_map(|(_, part)| match part {
            Source::Row(row) => Some(row.row.shape()),
            Source::Nothing => None,
            Source::File(number) => old.as_ref()?.shape.rows().get(*number).copied(),
        });
        let Some(shape) = ClusterShape::new(cluster.columns(), rows.collect(), PAYLOAD_BYTES) else {
            return Ok(false);
        };
        let id = self.catalog.next_id() | CLUSTER;
        let runs = parts.iter().map(|(run, _)| *run).collect();
        let new = ClusterFile::new(id, runs, shape, Arc::clone(&self.env.trash));
        let place = ClusterPlace {
            stamp: stamp(&self.env.secret),
            keyspace: keyspace.id,
            level: *level,
            path: region.path,
        };
        let path = self.env.reader.path(id);
        let written = self.write_cluster(&new, &place, &parts, old.as_deref());
        if !matches!(written, Ok(true)) {
            let _ = self.env.disk.remove(&path);
            return written;
        }
        self.env.counters.table_bytes.add(u64::from(new.pages()) * PAGE_BYTES as u64);
        new.mark_checked();
        let new = Arc::new(new);
        self.catalog.publish(keyspace, |version| version.cluster_with(*level, region.path, &new));
        Ok(true)
    }

    /// Writes boxes first and the header last, so that a file with a header is whole.
    fn write_cluster(
        &self,
        new: &ClusterFile,
        place: &ClusterPlace,
        parts: &[(RunId, Source)],
        old: Option<&ClusterFile>,
    ) -> Result<bool> {
        let path = self.env.reader.path(new.id);
        let fail = |error: std::io::Error| Error::io(&error, "writing a cluster", &path);
        let file = self.env.disk.create_streamed(&path).map_err(fail)?;
        let mut pages = PageWriter { file: file.as_ref(), id: new.id, next: 1, out: Vec::new(), out_at: 1 };
        let mut boxes = old.map(|old| BoxReader { store: self, file: old, first: 0, bytes: Vec::new() });
        let mut payload: Vec<u8> = Vec::with_capacity(PAYLOAD_BYTES);
        let mut page = 0;
        for column in 0..new.shape.columns() {
            let box_place = new.shape.place(column);
            if box_place.page != page {
                pages.write(&payload).map_err(fail)?;
                payload.clear();
                page = box_place.page;
            }
            payload.resize(box_place.offset, 0);
            let old_box = match &mut boxes {
                Some(boxes) => boxes.file.spared(boxes.read(column))?,
                None => Some(Vec::new()),
            };
            // The file turned out to be damaged: its rows are made anew first.
            let Some(old_box) = old_box else { return Ok(false) };
            let old_parts: Vec<&[u8]> = old.map_or_else(Vec::new, |old| old.shape.split(&old_box).collect());
            for (_, part) in parts {
                payload.extend_from_slice(match part {
                    Source::Row(row) => row.row.filter(column),
                    Source::Nothing => &[],
                    Source::File(number) => old_parts.get(*number).copied().unwrap_or(&[]),
                });
            }
            if box_place.pages > 1 {
                for part in payload.chunks(PAYLOAD_BYTES) {
                    pages.write(part).map_err(fail)?;
                }
                payload.clear();
                page = box_place.page + box_place.pages;
            }
            if column % 4096 == 0 && self.env.health.is_closed() {
                return Ok(false);
            }
        }
        if !payload.is_empty() {
            pages.write(&payload).map_err(fail)?;
        }
        pages.flush().map_err(fail)?;
        file.sync().map_err(fail)?;
        let mut header = PageWriter { file: file.as_ref(), id: new.id, next: 0, out: Vec::new(), out_at: 0 };
        header.write(&new.header(place)).and_then(|()| header.flush()).map_err(fail)?;
        file.sync().map_err(fail)?;
        self.env.disk.sync_dir(self.env.reader.metadata_dir()).map_err(fail)?;
        Ok(true)
    }
}

/// Tells a store's clusters from those of others in one directory.
pub(super) fn stamp(secret: &HashSecret) -> u64 {
    secret.hash64(b"clusters of filters")
}

/// Writes pages one after the other.
struct PageWriter<'a> {
    file: &'a dyn File,
    id: TableId,
    next: u32,
    /// Bytes gathered, and the page they start with.
    out: Vec<u8>,
    out_at: u32,
}

impl PageWriter<'_> {
    fn write(&mut self, payload: &[u8]) -> std::io::Result<()> {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        self.out.extend_from_slice(&[0; 2]);
        self.out.extend_from_slice(payload);
        self.out.resize(start + PAGE_BYTES, 0);
        if let Some(bytes) = self.out.last_chunk_mut::<PAGE_BYTES>() {
            seal_page(self.id, self.next, bytes);
        }
        self.next += 1;
        if self.out.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.write_all_at(&self.out, u64::from(self.out_at) * PAGE_BYTES as u64)?;
        self.out.clear();
        self.out_at = self.next;
        Ok(())
    }
}

/// Reads the boxes of a file column by column.
struct BoxReader<'a> {
    store: &'a Scheduler,
    file: &'a ClusterFile,
    /// The pages held: the first one's number among the boxes', and their bytes.
    first: u32,
    bytes: Vec<u8>,
}

impl BoxReader<'_> {
    fn read(&mut self, column: u32) -> Result<Vec<u8>> {
        let place = self.file.shape.place(column);
        let mut filters = Vec::with_capacity(self.file.shape.box_bytes());
        let mut offset = place.offset;
        for number in place.page..place.page + place.pages {
            let held = self.first..self.first + (self.bytes.len() / PAGE_BYTES) as u32;
            if !held.contains(&number) {
                let count = READ_PAGES.min(self.file.shape.pages() - number);
                self.bytes.resize(count as usize * PAGE_BYTES, 0);
                self.first = number;
                let read =
                    self.store.env.reader.pages_for_compaction(self.file.id, number + 1, &mut self.bytes);
                if read.is_err() {
                    self.bytes.clear();
                }
                read?;
            }
            let at = (number - self.first) as usize * PAGE_BYTES;
            let page = self.bytes.get(at + PAGE_HEADER_BYTES..at + PAGE_BYTES).unwrap_or(&[]);
            let missing = self.file.shape.box_bytes() - filters.len();
            filters.extend(page.iter().skip(offset).take(missing));
            offset = 0;
        }
        Ok(filters)
    }
}
