//! Statistics: counters and the present version, put into numbers for people.

use super::catalog::keyspace::OpenKeyspace;
use super::catalog::view::View;
use super::change_schema;
use super::redesign;
use super::store::Store;
use super::write_buffer::WriteBuffer;
use crate::activity::Count;
use crate::filename;
use crate::memory::Holder;
use crate::stats::{Figures, KeyspaceStats, LevelStats, MemoryStats, StallStats, Stats};
use crate::version::level::Level;
use crate::version::{Run, Version};
use siltstone_design::Schema;

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

impl Store {
    pub(super) fn stats(&self) -> Stats {
        let counters = &self.env.counters;
        let manifest = self.catalog.manifest_bytes_written().unwrap_or(0);
        let (user, wal) = (counters.user_bytes.get(), counters.wal_bytes.get());
        let device = wal + manifest + counters.table_bytes.get();
        let ms = |us: u64| us as f64 / 1000.0;
        let (space_bytes, wal_bytes) = self.space();
        let mut keyspaces = self.all_keyspace_stats();
        keyspaces.sort_by(|a, b| a.name.cmp(&b.name));
        Stats {
            keyspaces,
            user_bytes_written: user,
            device_bytes_written: device,
            wal_bytes_written: wal,
            manifest_bytes_written: manifest,
            write_amplification: ratio(device, user),
            device_reads: counters.io.reads.get(),
            device_bytes_read: counters.io.bytes_read.get(),
            compaction_bytes_read: counters.io.compaction_bytes_read.get(),
            most_compactions_at_once: counters.most_compactions_at_once.get(),
            planning_ms: counters.planning_ns.get() as f64 / 1e6,
            memory: self.memory_stats(),
            stalls: StallStats {
                count: counters.stalls.get(),
                total_ms: ms(counters.stall_us.get()),
                max_ms: ms(counters.longest_stall_us.get()),
                paced_ms: ms(counters.paced_us.get()),
            },
            space_bytes,
            wal_bytes,
            background_error: self.env.health.background_error().map(|error| error.to_string()),
            oldest_snapshot_age_ms: self.catalog.snapshots.oldest_age().map(|age| age.as_millis() as u64),
        }
    }

    fn memory_stats(&self) -> MemoryStats {
        let held = |holder| self.env.memory().held_bytes(holder);
        let (memtable, filter, index) = (held(Holder::Memtable), held(Holder::Filter), held(Holder::Index));
        let (cache, compaction) = (self.env.reader.cached_bytes(), held(Holder::Compaction));
        let total = memtable + filter + index + cache + compaction;
        MemoryStats {
            memtable,
            filter,
            index,
            cache,
            compaction,
            total,
            budget: self.env.memory().total_bytes(),
        }
    }

    /// Bytes of all files, and of those of the log.
    fn space(&self) -> (u64, u64) {
        let (mut all, mut wal) = (0, 0);
        let elsewhere = Some(self.env.reader.metadata_dir()).filter(|dir| *dir != self.env.path);
        for dir in std::iter::once(self.env.path.as_path()).chain(elsewhere) {
            for name in self.env.disk.list(dir).unwrap_or_default() {
                // A file may go while we look.
                let opened = self.env.disk.open(&dir.join(&name), crate::io::Access::Read);
                let bytes = opened.and_then(|file| file.len()).unwrap_or(0);
                all += bytes;
                if filename::is_wal(&name) {
                    wal += bytes;
                }
            }
        }
        (all, wal)
    }
}

/// What the tables of a keyspace hold in all.
#[derive(Default)]
struct Totals {
    entries: u64,
    /// Entries that are known or estimated to be dead.
    dead: u64,
    tombstones: u64,
    /// Entries that have expired, as estimated.
    expired: u64,
    tables: u64,
    bytes: u64,
}

impl Totals {
    fn of(version: &Version, now_ms: u64) -> Self {
        let mut totals = Self { dead: version.dead_entries(now_ms), ..Self::default() };
        for table in version.tables() {
            let meta = table.meta();
            totals.entries += meta.entries;
            totals.tombstones += meta.deletes();
            totals.expired += (meta.entries as f64 * meta.expired_share(now_ms)) as u64;
            totals.bytes += meta.bytes;
            totals.tables += 1;
        }
        totals
    }

    /// Items that there are about, with those in write buffers.
    fn items(&self, view: &View) -> u64 {
        let in_memory: u64 = view.buffers().map(WriteBuffer::entries).sum();
        let deleted_in_memory: u64 = view.buffers().map(|buffer| 2 * buffer.deleted()).sum();
        (self.entries + in_memory).saturating_sub(self.dead + deleted_in_memory)
    }
}

/// Describes a level of `version`.
pub(crate) fn level_stats(version: &Version, level: &Level) -> LevelStats {
    let mut stats = LevelStats {
        level: version.shown_number(level.depth),
        depth: level.depth,
        is_outgoing: version.is_outgoing(level),
        bytes_written: level.bytes_written,
        write_amplification: ratio(level.bytes_written, version.user_bytes),
        ..LevelStats::default()
    };
    for region in level.regions.iter().filter(|region| !region.runs.is_empty()) {
        stats.regions += 1;
        stats.runs += region.runs.len() as u64;
        stats.max_runs_in_a_region = stats.max_runs_in_a_region.max(region.runs.len() as u64);
        if let Some(filter) = &region.filter {
            stats.filtered_runs += filter.covered() as u64;
            stats.filter_bytes += filter.memory_bytes();
        }
        region.runs.iter().for_each(|run| add_run(&mut stats, run));
    }
    stats
}

/// Adds a run to what is said of its level.
fn add_run(stats: &mut LevelStats, run: &Run) {
    for table in &run.tables {
        let meta = table.meta();
        // Fingerprints are what region filters are made of; no lookup asks them.
        let is_asked = !meta.kept_keys.are_fingerprints();
        stats.filter_bytes += if is_asked { meta.filter.length } else { 0 };
        stats.index_bytes += meta.index.length + meta.page_map.length;
        if let Some(compressed) = &meta.compressed {
            stats.index_bytes += compressed.codec.length;
            stats.uncompressed_bytes += compressed.raw_bytes;
            stats.compressed_bytes += compressed.stored_bytes;
        }
    }
    stats.tables += run.tables.len() as u64;
    stats.bytes += run.bytes();
    stats.entries += run.entries();
}

impl OpenKeyspace {
    /// Items that it has about, at the clock's time `now_ms`.
    pub(super) fn items_estimate(&self, now_ms: u64) -> u64 {
        let view = self.view.load();
        Totals::of(&view.version, now_ms).items(&view)
    }

    /// Its statistics at the clock's time `now_ms`, without what is predicted.
    pub(super) fn stats(&self, now_ms: u64) -> KeyspaceStats {
        let view = self.view.load();
        let version = &view.version;
        let totals = Totals::of(version, now_ms);
        let items_estimate = totals.items(&view);
        let levels: Vec<_> = version.levels.iter().map(|level| level_stats(version, level)).collect();
        let filter: u64 = levels.iter().map(|level| level.filter_bytes).sum();
        let index: u64 = levels.iter().map(|level| level.index_bytes).sum();
        let counters = &self.counters;
        let done = counters.done.get();
        let sealed = || view.sealed.iter().map(|sealed| &sealed.buffer);
        KeyspaceStats {
            name: self.name.clone(),
            preset: version.design.preset_name(),
            schema: *self.encoder.schema(),
            items_estimate,
            write_buffer_entries: view.buffers().map(WriteBuffer::entries).sum(),
            write_buffer_bytes: view.buffers().map(WriteBuffer::memory_bytes).sum(),
            write_buffer_tombstones: view.buffers().map(WriteBuffer::deleted).sum(),
            sealed_write_buffers: view.sealed.len() as u64,
            sealed_entries: sealed().map(WriteBuffer::entries).sum(),
            sealed_bytes: sealed().map(WriteBuffer::memory_bytes).sum(),
            sealed_tombstones: sealed().map(WriteBuffer::deleted).sum(),
            table_entries: totals.entries,
            tombstones: totals.tombstones,
            expired_estimate: totals.expired,
            table_count: totals.tables,
            table_bytes: totals.bytes,
            largest_group_bytes: match self.encoder.schema() {
                Schema::Point => 0,
                Schema::SemiSorted { .. } => version.largest_group().map_or(0, |(_, bytes)| bytes),
            },
            gets: counters.gets.get(),
            get_hits: counters.hits.get(),
            device_reads_by_hits: counters.reads_by_hits.get(),
            device_reads_by_misses: counters.reads_by_misses.get(),
            scans: done.of(Count::Scans),
            device_reads_by_scans: done.of(Count::ReadsByScans),
            filter_probes: counters.filter_probes.get(),
            filter_false_positives: counters.false_positives.get(),
            tables_probed: counters.tables_probed.get(),
            most_tables_probed_in_a_region: counters.most_probed_in_region.get(),
            asked_ahead: counters.asked_ahead.get(),
            asked_wasted: counters.asked_wasted.get(),
            filter_bytes: filter,
            index_bytes: index,
            filter_bits_per_item: ratio(8 * filter, totals.entries),
            index_bits_per_item: ratio(8 * index, totals.entries),
            levels,
            redesign: redesign::progress(version),
            schema_change: change_schema::progress(self),
            proposed: self.proposed.lock().clone(),
            measured: Figures::default(),
            predicted: Figures::default(),
            drift: Vec::new(),
        }
    }
}
