//! Guides of an open store: built where they are missing, kept in a file while the store is closed, together with those rows of
//! clusters that are in no cluster file yet.
//!
//! ```text
//! file     "SILTGUID" · version u32 · record, record, ...
//! record   length u32 · crc32c u32 · keyspace varint · level varint · path · runs varint · each run's number varint
//!          · kind u8 · length varint · guide (version/guide.rs), or a row (bloom_cluster in siltstone-succinct)
//! ```
//!
//! The file is only advice. Runs never change and their numbers are not used twice, so a record that fits the oldest runs
//! of its region, or a row whose run lies there, is right however old it is; any other is passed over, and the guide is built from
//! the tables.

use super::background::{FilterJob, Scheduler};
use super::catalog::keyspace::OpenKeyspace;
use crate::codec::{Decoder, put_bytes, put_path};
use crate::compaction::source;
use crate::entry::Span;
use crate::error::{Error, Result};
use crate::events::{Reason, Work};
use crate::io::{Access, File};
use crate::table::Walk;
use crate::version::cluster::{NewRow, cluster_bits};
use crate::version::guide::{Guide, GuideBuilder, GuideSpec, NewGuide};
use crate::version::level::{Region, RunId, Version};
use siltstone_design::digest::TriePath;
use siltstone_succinct::code::varint;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The file with guides.
pub(crate) const GUIDES: &str = "GUIDES";
pub(crate) const MAGIC: &[u8; 8] = b"SILTGUID";
const VERSION: u32 = 3;
/// The kind of a row; the others are those of guides.
pub(crate) const ROW: u8 = 3;
/// Larger records are not believed.
const MAX_RECORD_BYTES: u32 = 1 << 30;

/// A region with runs that a guide could cover and none does.
pub(super) struct Unguided {
    level: usize,
    region: Arc<Region>,
    spec: GuideSpec,
}

impl Unguided {
    /// Describes the work on it to listeners.
    fn job<'a>(&'a self, keyspace: &'a OpenKeyspace) -> FilterJob<'a> {
        let Self { level, region, .. } = self;
        let covered = region.guide.as_ref().map_or(0, |guide| guide.covered());
        let work = if covered > 0 { Work::ExtendFilter } else { Work::BuildFilter };
        let runs = region.runs.get(..region.runs.len() - covered).unwrap_or(&[]);
        let reason = Reason::FilterMissing { runs: runs.len() as u64 };
        FilterJob { work, keyspace, level: *level, region, runs, reason }
    }
}

impl Scheduler {
    /// A region at `levels` of `keyspace` whose guide is missing or covers less than it could, and fits the budget.
    pub(super) fn unguided(
        &self,
        keyspace: &OpenKeyspace,
        version: &Version,
        levels: Range<usize>,
    ) -> Option<Unguided> {
        let failed = self.filters.guiding.try_lock();
        let levels = version.levels.iter().enumerate().take(levels.end).skip(levels.start);
        for (level, regions) in levels {
            for region in &regions.regions {
                let has_children = version.has_children(level, region.path);
                let Some(spec) = GuideSpec::of(keyspace.design.level(level), has_children) else { break };
                let covered = region.guide.as_ref().map_or(0, |guide| guide.covered());
                let can_read = || match &failed {
                    Some(failed) => !region.runs.iter().any(|run| failed.contains(&run.id)),
                    None => true,
                };
                if covered < region.runs.len().min(spec.max_runs()) && can_read() {
                    let keys = region.runs.iter().map(|run| run.entries()).sum();
                    // Building takes as much again.
                    let wanted = spec.estimated_bytes(keys) * 2;
                    if keys > 0 && wanted < Guide::room(self.env.memory()) {
                        return Some(Unguided { level, region: Arc::clone(region), spec });
                    }
                }
            }
        }
        None
    }

    /// Builds one missing guide at `levels`; false where none is missing, or another thread is at it.
    pub(super) fn guide_one(&self, levels: Range<usize>) -> bool {
        for keyspace in self.catalog.all() {
            let version = Arc::clone(&keyspace.view.load().version);
            let Some(unguided) = self.unguided(&keyspace, &version, levels.clone()) else { continue };
            let Some(mut failed) = self.filters.guiding.try_lock() else { return false };
            let build = || self.build_guide(&keyspace, &unguided);
            match self.report_filter(&unguided.job(&keyspace), build, Option::is_some) {
                Ok(Some(guide)) => self.catalog.publish(&keyspace, |version| version.guide_by(vec![guide])),
                // Without a guide every run is asked; whoever reads a damaged page is told.
                Ok(None) | Err(_) => failed.extend(unguided.region.runs.iter().map(|run| run.id)),
            }
            return true;
        }
        false
    }

    /// A guide over as many runs of the region as it can cover: on top of the present one, or else from the keys of all.
    fn build_guide(&self, keyspace: &OpenKeyspace, unguided: &Unguided) -> Result<Option<NewGuide>> {
        let Unguided { level, region, spec } = unguided;
        let mut guide = None;
        if let Some(present) = &region.guide {
            let builder = GuideBuilder::new(*spec, Some(present), &region.runs);
            guide = self.cover_runs(keyspace, (*spec, builder), region, present.covered())?;
        }
        if guide.is_none() {
            let builder = GuideBuilder::new(*spec, None, &region.runs);
            guide = self.cover_runs(keyspace, (*spec, builder), region, 0)?;
        }
        Ok(guide.map(|guide| NewGuide::new(*level, region.path, guide)))
    }

    /// Adds the runs of `region` but for the `covered` oldest.
    fn cover_runs(
        &self,
        keyspace: &OpenKeyspace,
        (spec, mut builder): (GuideSpec, GuideBuilder),
        region: &Region,
        covered: usize,
    ) -> Result<Option<Guide>> {
        let runs = || region.runs.iter().rev().skip(covered);
        if covered == 0 {
            // Sized for the oldest run, which may be a small one, the filter might not grow far enough.
            builder.make_room(runs().map(|run| run.entries()).sum());
        }
        let mut since_check = 0u32;
        for run in runs() {
            if !builder.has_room() {
                break;
            }
            let bytes = run.tables.iter().map(|table| table.meta().user_bytes).sum();
            let tables = run.tables.iter().map(|table| table.id());
            if spec.wants_fingerprints()
                && let Some(fingerprints) = run.fingerprints(&self.env.reader)
            {
                fingerprints.iter().for_each(|table| builder.add_fingerprints(table));
                builder.end_run(run.id, tables, bytes);
                continue;
            }
            let mut cursor = source(run, &Span::ALL, Walk::Compaction, &self.env.reader)?.cursor;
            while let Some(entry) = cursor.peek() {
                builder.add(&entry.key, entry.older_in, run.entries());
                since_check += 1;
                let given_up = || self.env.health.is_closed() || keyspace.is_dropped();
                if since_check.is_multiple_of(4096) && given_up() {
                    return Ok(None);
                }
                cursor.advance()?;
            }
            builder.end_run(run.id, tables, bytes);
        }
        Ok(builder.finish(self.env.memory()))
    }

    /// Keeps the guides, and rows of clusters, for the next open. A failure costs time then, and nothing else.
    pub(super) fn save_guides(&self) {
        let has_some = |keyspace: &Arc<OpenKeyspace>| {
            let design = &keyspace.design;
            design.has_guides() || design.levels.iter().any(|level| cluster_bits(level).is_some())
        };
        if self.catalog.manifest_bytes_written().is_none() || !self.catalog.all().iter().any(has_some) {
            return;
        }
        let path = self.env.path.join(GUIDES);
        let written = self.env.disk.create(&path).and_then(|file| self.write_guides(file.as_ref()));
        if written.is_err() {
            let _ = self.env.disk.remove(&path);
        }
    }

    fn write_guides(&self, file: &dyn File) -> std::io::Result<()> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        file.write_all_at(&header, 0)?;
        let mut at = header.len() as u64;
        for keyspace in self.catalog.all() {
            let version = Arc::clone(&keyspace.view.load().version);
            for (level, regions) in version.levels.iter().enumerate() {
                for region in &regions.regions {
                    let mut put = |encode: &dyn Fn(&mut Vec<u8>)| {
                        let mut payload = Vec::new();
                        varint::put_u64(&mut payload, keyspace.id);
                        varint::put_u64(&mut payload, level as u64);
                        put_path(&mut payload, region.path);
                        encode(&mut payload);
                        let mut record = (payload.len() as u32).to_le_bytes().to_vec();
                        record.extend_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
                        record.append(&mut payload);
                        let place = at;
                        at += record.len() as u64;
                        file.write_all_at(&record, place)
                    };
                    if let Some(bytes) = region.guide.as_ref().and_then(|guide| guide.encoded()) {
                        put(&|out| out.extend_from_slice(&bytes))?;
                    }
                    for (run, row) in region.cluster.iter().flat_map(|cluster| cluster.held_rows()) {
                        put(&|out| {
                            varint::put_u64(out, 1);
                            varint::put_u64(out, run);
                            out.push(ROW);
                            let mut bytes = Vec::new();
                            row.to_bytes(&mut bytes);
                            put_bytes(out, &bytes);
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes over the guides and rows that were kept when the store was closed, as far as they fit and memory goes; false where
    /// none were.
    ///
    /// # Errors
    /// Where the file can't be read; what could not is built anew.
    pub(super) fn load_guides(&self) -> Result<bool> {
        let path = self.env.path.join(GUIDES);
        let file = match self.env.disk.open(&path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(Error::io(&error, "opening", &path)),
        };
        let mut guides: BTreeMap<u64, Vec<NewGuide>> = BTreeMap::new();
        let mut rows: BTreeMap<u64, Vec<NewRow>> = BTreeMap::new();
        let read = read_records(&path, file.as_ref(), &mut |record| {
            let (level, path) = (record.level, record.path);
            if record.kind == ROW {
                let [run] = record.runs[..] else { return Err(()) };
                let row = NewRow::decode(record.filter, (level, path), run, self.env.memory())?;
                rows.entry(record.keyspace).or_default().extend(row);
                return Ok(());
            }
            let guide = Guide::decode(record.runs, (record.kind, record.filter), self.env.memory())?;
            let guide = guide.map(|guide| NewGuide::new(level, path, guide));
            guides.entry(record.keyspace).or_default().extend(guide);
            Ok(())
        });
        for keyspace in self.catalog.all() {
            if let Some(guides) = guides.remove(&keyspace.id) {
                self.catalog.publish(&keyspace, |version| version.guide_by(guides));
            }
            if let Some(rows) = rows.remove(&keyspace.id) {
                self.catalog.publish(&keyspace, |version| version.cluster_by(&rows));
            }
        }
        read.map(|()| true)
    }
}

/// A record of the file.
pub(crate) struct GuideRecord<'a> {
    pub keyspace: u64,
    pub level: usize,
    pub path: TriePath,
    pub runs: Vec<RunId>,
    pub kind: u8,
    pub filter: &'a [u8],
    /// Bytes of the whole of it.
    pub bytes: u64,
}

impl<'a> GuideRecord<'a> {
    fn decode(payload: &'a [u8]) -> Option<Self> {
        let mut from = Decoder::new(payload);
        let (keyspace, level, path) = (from.varint()?, from.length()?, from.path()?);
        let count = from.length().filter(|count| *count <= payload.len())?;
        let runs = (0..count).map(|_| from.varint()).collect::<Option<_>>()?;
        let (kind, filter) = (from.u8()?, from.bytes()?);
        Some(Self { keyspace, level, path, runs, kind, filter, bytes: 8 + payload.len() as u64 })
    }
}

/// Hands every record of the file of guides at `path` to `each`, which refuses those that make no sense.
///
/// # Errors
/// `Corruption` at the first record that is damaged; those before it have been handed over.
pub(crate) fn read_records(
    path: &Path,
    file: &dyn File,
    each: &mut dyn FnMut(GuideRecord<'_>) -> std::result::Result<(), ()>,
) -> Result<()> {
    let fail = |error: std::io::Error| Error::io(&error, "reading", path);
    let damaged =
        |at: u64, expected: &str, found: &str| Error::corruption(path.display(), at, expected, found);
    let end = file.len().map_err(fail)?;
    let mut header = [0; 12];
    if end < header.len() as u64 {
        return Err(damaged(end, "a header", "the end of the file"));
    }
    file.read_exact_at(&mut header, 0).map_err(fail)?;
    if header.get(..8) != Some(MAGIC) || header.get(8..) != Some(&VERSION.to_le_bytes()) {
        return Err(damaged(0, "the header of this version's guides", "something else"));
    }
    let mut at = header.len() as u64;
    while at < end {
        let mut frame = [0; 8];
        if end - at < frame.len() as u64 {
            return Err(damaged(at, "a record", "the end of the file"));
        }
        file.read_exact_at(&mut frame, at).map_err(fail)?;
        let mut from = Decoder::new(&frame);
        let (length, crc) = from.u32().zip(from.u32()).unwrap_or_default();
        if length > MAX_RECORD_BYTES || u64::from(length) > end - at - 8 {
            return Err(damaged(at, "a record that ends within the file", "a longer one"));
        }
        let mut payload = vec![0; length as usize];
        file.read_exact_at(&mut payload, at + 8).map_err(fail)?;
        if crc32c::crc32c(&payload) != crc {
            return Err(damaged(at, "a record with its checksum", "another checksum"));
        }
        let record = GuideRecord::decode(&payload).ok_or(());
        record.and_then(&mut *each).map_err(|()| damaged(at, "a guide", "bytes that make no sense"))?;
        at += 8 + u64::from(length);
    }
    Ok(())
}
