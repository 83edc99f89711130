//! Counters, and the public statistics made of them.
//!
//! Counters count what can be counted: bytes handed in, bytes written per level, device reads per get. They
//! start at zero at each open, but for what the manifest keeps: bytes written per level since the keyspace
//! was created.

mod redesign;

pub use redesign::{DesignChange, ProposedDesign, RedesignReason, RedesignStats, SchemaChangeStats};

use crate::activity::{Activity, COUNTS, Count};
use crate::sync::Moment;
use crate::sync::leaf::atomic::{AtomicU64, Ordering};
use serde::Serialize;
use siltstone_design::Schema;
use std::time::Duration;

/// A relaxed counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    #[inline]
    pub fn raise_to(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of an [`Activity`] that threads add to.
#[derive(Debug)]
pub(crate) struct Counts([Counter; COUNTS]);

impl Default for Counts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Counts {
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "there are as many counts")]
    pub fn add(&self, count: Count, number: u64) {
        self.0[count as usize].add(number);
    }

    /// Adds all of `done`.
    pub fn add_all(&self, done: &Activity) {
        let counted = self.0.iter().zip(done.numbers()).filter(|(_, number)| **number > 0);
        counted.for_each(|(counter, number)| counter.add(*number));
    }

    pub fn get(&self) -> Activity {
        Activity::of_numbers(&self.0.each_ref().map(Counter::get))
    }
}

/// The monotonic clock: the only one the engine measures durations with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Moment);

impl Stopwatch {
    pub fn start() -> Self {
        Self(Moment::now())
    }

    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    pub fn elapsed_ns(self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn elapsed_us(self) -> u64 {
        u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Counters of one store.
#[derive(Debug, Default)]
pub(crate) struct StoreCounters {
    pub user_bytes: Counter,
    pub wal_bytes: Counter,
    pub table_bytes: Counter,
    pub stalls: Counter,
    pub stall_us: Counter,
    pub longest_stall_us: Counter,
    pub paced_us: Counter,
    pub most_compactions_at_once: Counter,
    pub planning_ns: Counter,
    pub io: IoCounters,
}

/// Counters of reads.
#[derive(Debug, Default)]
pub(crate) struct IoCounters {
    pub reads: Counter,
    pub bytes_read: Counter,
    pub compaction_bytes_read: Counter,
}

/// Counters of one keyspace.
#[derive(Debug, Default)]
pub(crate) struct KeyspaceCounters {
    pub gets: Counter,
    pub hits: Counter,
    pub reads_by_hits: Counter,
    pub reads_by_misses: Counter,
    pub filter_probes: Counter,
    pub false_positives: Counter,
    pub tables_probed: Counter,
    pub most_probed_in_region: Counter,
    pub asked_ahead: Counter,
    pub asked_wasted: Counter,
    /// Gets and scans before the last redesign was over.
    pub reads_before: Counter,
    /// What is done with it, but for gets.
    pub done: Counts,
}

/// What one lookup cost; added to the counters once its outcome is known. Stages of the lookup add to it when
/// they are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadTrace {
    pub device_reads: u64,
    pub filter_probes: u64,
    pub false_positives: u64,
    /// Tables of which a page was looked at, or a kept answer.
    pub tables_probed: u64,
    /// Most of them that belong to one region.
    pub most_probed_in_region: u64,
}

impl ReadTrace {
    /// Adds what another thread's part of the lookup cost.
    pub fn add(&mut self, other: &Self) {
        self.device_reads += other.device_reads;
        self.filter_probes += other.filter_probes;
        self.false_positives += other.false_positives;
        self.tables_probed += other.tables_probed;
        self.most_probed_in_region = self.most_probed_in_region.max(other.most_probed_in_region);
    }

    /// Notes how many tables were looked at in a region, of which there were `before` in others.
    pub fn note_region(&mut self, before: u64) {
        self.most_probed_in_region = self.most_probed_in_region.max(self.tables_probed - before);
    }
}

impl KeyspaceCounters {
    /// What was done with the keyspace since it was opened.
    pub fn activity(&self) -> Activity {
        let mut activity = self.done.get();
        let (gets, hits) = (self.gets.get(), self.hits.get());
        activity.add(Count::Hits, hits);
        activity.add(Count::Misses, gets.saturating_sub(hits));
        activity.add(Count::ReadsByHits, self.reads_by_hits.get());
        activity.add(Count::ReadsByMisses, self.reads_by_misses.get());
        activity
    }

    pub fn note_get(&self, hit: bool, trace: &ReadTrace) {
        self.gets.add(1);
        if hit {
            self.hits.add(1);
        }
        if trace.device_reads > 0 {
            let reads = if hit { &self.reads_by_hits } else { &self.reads_by_misses };
            reads.add(trace.device_reads);
        }
        if trace.filter_probes > 0 {
            self.filter_probes.add(trace.filter_probes);
            self.false_positives.add(trace.false_positives);
        }
        if trace.tables_probed > 0 {
            self.tables_probed.add(trace.tables_probed);
            self.most_probed_in_region.raise_to(trace.most_probed_in_region);
        }
    }
}

/// Statistics of a store, counted since this open unless said otherwise.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// One entry per keyspace, by name.
    pub keyspaces: Vec<KeyspaceStats>,
    /// Bytes of keys and values handed in by writers.
    pub user_bytes_written: u64,
    /// Bytes written to the device: write-ahead log, tables and manifest.
    pub device_bytes_written: u64,
    /// Bytes written to the write-ahead log.
    pub wal_bytes_written: u64,
    /// Bytes written to the manifest.
    pub manifest_bytes_written: u64,
    /// `device_bytes_written / user_bytes_written`; 0 before the first write.
    pub write_amplification: f64,
    /// Reads issued for gets and scans, each of one page, of one run of pages or of an item in the log, and
    /// by writes that look for an overwritten item in a log store.
    pub device_reads: u64,
    /// Bytes those reads brought in.
    pub device_bytes_read: u64,
    /// Bytes read by flushes, compactions and verification.
    pub compaction_bytes_read: u64,
    /// Most compactions that were under way at the same time.
    pub most_compactions_at_once: u64,
    /// Milliseconds that background threads have spent on choosing compactions.
    pub planning_ms: f64,
    /// Who holds how much of the memory budget.
    pub memory: MemoryStats,
    /// How writers were held up.
    pub stalls: StallStats,
    /// Bytes of all files of the store.
    pub space_bytes: u64,
    /// Bytes of the write-ahead log's files, recyclable ones included.
    pub wal_bytes: u64,
    /// Why background work is failing, if it is; it is retried.
    pub background_error: Option<String>,
    /// Age of the oldest snapshot or iterator still held; it pins files.
    pub oldest_snapshot_age_ms: Option<u64>,
}

/// Memory in bytes by holder.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Memtables and indexes of log stores, sealed ones included.
    pub memtable: u64,
    /// Filters kept in memory.
    pub filter: u64,
    /// Indexes kept in memory.
    pub index: u64,
    /// Cached pages, and answers kept for hot keys.
    pub cache: u64,
    /// Buffers of flushes and compactions.
    pub compaction: u64,
    /// Sum of the above.
    pub total: u64,
    /// The budget they share.
    pub budget: u64,
}

/// How writers were held up by background work.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct StallStats {
    /// Times writers were stopped altogether.
    pub count: u64,
    /// Milliseconds they were stopped in all.
    pub total_ms: f64,
    /// The longest stop in milliseconds.
    pub max_ms: f64,
    /// Milliseconds writers were slowed by pacing, a little at a time.
    pub paced_ms: f64,
}

/// Statistics of one keyspace.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// The keyspace's name.
    pub name: String,
    /// Name of its design's preset, or `custom`.
    pub preset: String,
    /// Its schema.
    pub schema: Schema,
    /// Estimated number of items: entries in tables and write buffers, less tombstones and what they delete,
    /// what has expired, and what was overwritten.
    ///
    /// Exact where each key was written once and nothing deleted. Overwrites within a region are found from
    /// samples of keys, to some 3 % of the region's entries; those of what lies on lower levels are taken to
    /// be as frequent as among leaves, so that the error is at most the entries above the leaves. A delete is
    /// taken to delete something. Overwrites within a write buffer are not seen.
    pub items_estimate: u64,
    /// Entries in write buffers, tombstones and older versions included: what is not in tables yet.
    pub write_buffer_entries: u64,
    /// Memory that the write buffers take: memtables with their items, log stores with their indexes.
    pub write_buffer_bytes: u64,
    /// Tombstones among these entries; those of log stores are not known.
    pub write_buffer_tombstones: u64,
    /// Write buffers that take no more writes and wait to be flushed.
    pub sealed_write_buffers: u64,
    /// Their part of `write_buffer_entries`.
    pub sealed_entries: u64,
    /// Their part of `write_buffer_bytes`.
    pub sealed_bytes: u64,
    /// Their part of `write_buffer_tombstones`.
    pub sealed_tombstones: u64,
    /// Entries in tables, tombstones and older versions included.
    pub table_entries: u64,
    /// Tombstones in tables, and deleted prefixes.
    pub tombstones: u64,
    /// Entries in tables that have expired, as estimated.
    pub expired_estimate: u64,
    /// Number of tables.
    pub table_count: u64,
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// About how many bytes of tables the largest group has; 0 under the point schema. Where it is most of
    /// `table_bytes`, the schema hardly divides the keys.
    pub largest_group_bytes: u64,
    /// Gets answered.
    pub gets: u64,
    /// Gets that found a value.
    pub get_hits: u64,
    /// Device reads by gets that found a value.
    pub device_reads_by_hits: u64,
    /// Device reads by gets that found none.
    pub device_reads_by_misses: u64,
    /// Scans of one group.
    pub scans: u64,
    /// Device reads by scans of one group.
    pub device_reads_by_scans: u64,
    /// Filters asked by gets.
    pub filter_probes: u64,
    /// Filters that said yes where the table had no such key.
    pub filter_false_positives: u64,
    /// Tables of which gets looked at a page, or a kept answer.
    pub tables_probed: u64,
    /// Most tables of one region that one get looked at; 1 where multi-level cuckoo filters know every key's
    /// run.
    pub most_tables_probed_in_a_region: u64,
    /// Gets that asked the last level while an upper level was still being searched.
    pub asked_ahead: u64,
    /// Those that found their answer above after all.
    pub asked_wasted: u64,
    /// Bytes of the filters of all tables and regions, in memory or not.
    pub filter_bytes: u64,
    /// Bytes of the indexes of all tables, in memory or not.
    pub index_bytes: u64,
    /// `filter_bytes` in bits per table entry.
    pub filter_bits_per_item: f64,
    /// `index_bytes` in bits per table entry.
    pub index_bits_per_item: f64,
    /// One entry per level, top first.
    pub levels: Vec<LevelStats>,
    /// How far the last redesign is; none where there was none.
    pub redesign: Option<RedesignStats>,
    /// How far the last change of its schema is; none where there was none since the store was opened.
    pub schema_change: Option<SchemaChangeStats>,
    /// A design that would suit the workload better, as far as the store looks for one
    /// ([`Options::auto_design`](crate::Options::auto_design)).
    pub proposed: Option<ProposedDesign>,
    /// What was measured of what the model predicts.
    pub measured: Figures,
    /// What the model predicts for the design and for the workload that the keyspace has had; nothing as long
    /// as little was written, or where the store is too large for its write buffer to be followed.
    pub predicted: Figures,
    /// Where the two are far from each other, with the likely cause.
    pub drift: Vec<Drift>,
}

/// Figures of a keyspace that are predicted as well as measured; those that nobody knows are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// Bytes written into tables per byte put, since the keyspace was created. The log, which takes each byte
    /// once, is left out.
    pub write_amplification: Option<f64>,
    /// Device reads per get that found an item: since the store was opened if there were any, else of late.
    pub reads_per_hit: Option<f64>,
    /// Device reads per get that found none.
    pub reads_per_miss: Option<f64>,
    /// Device reads per scan of one group.
    pub reads_per_scan: Option<f64>,
    /// Bytes of filters and indexes, whether or not they are in memory.
    pub memory_bytes: Option<f64>,
    /// Bytes of tables per byte of items that are there.
    pub space_amplification: Option<f64>,
}

/// A figure that is far from what was predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Drift {
    /// Its name in [`Figures`].
    pub field: String,
    /// What was measured.
    pub measured: f64,
    /// What was predicted.
    pub predicted: f64,
    /// What is likely to be the cause.
    pub cause: DriftCause,
}

/// Why a figure is likely to be far from what was predicted. As JSON it is what its
/// [`Display`](std::fmt::Display) says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "String")]
#[non_exhaustive]
pub enum DriftCause {
    /// A redesign is under way: tables of two designs are there.
    Redesign,
    /// A part of what is counted was written, or read, under an earlier design.
    EarlierDesign {
        /// The part, as a share of the log, or of the reads.
        share: f64,
    },
    /// A part of what there is was copied when the keyspace got another schema, which writes less than puts
    /// do.
    Copied {
        /// The part, as a share of the puts.
        share: f64,
    },
    /// Merges are behind: regions hold more than they are to.
    WorkBehind,
    /// Filters or indexes are not in memory yet, or have no room there.
    FiltersNotLoaded,
    /// The cache has not filled since the store was opened.
    ColdCache {
        /// Bytes in it.
        bytes: u64,
        /// Bytes that are predicted to be in it.
        of_bytes: u64,
    },
    /// Items are larger or smaller of late than they were.
    ItemSize {
        /// Their mean bytes, key and value, over all time.
        before: f64,
        /// And of late.
        now: f64,
    },
    /// Writes are more or less skewed of late than they were.
    Skew {
        /// Their Zipf exponent over all time.
        before: f64,
        /// And of late.
        now: f64,
    },
    /// Reads are for other items than writes.
    ReadSkew {
        /// The Zipf exponent of reads that would explain them.
        reads: f64,
        /// That of writes.
        writes: f64,
    },
    /// None of the above: the model may be wrong.
    Unknown,
}

impl std::fmt::Display for DriftCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Redesign => write!(f, "a redesign is under way"),
            Self::EarlierDesign { share } => {
                write!(f, "{:.0} % of it came under an earlier design", share * 100.0)
            }
            Self::Copied { share } => {
                write!(f, "{:.0} % of it was copied when the schema changed", share * 100.0)
            }
            Self::WorkBehind => write!(f, "merges are behind"),
            Self::FiltersNotLoaded => write!(f, "filters or indexes are not in memory"),
            Self::ColdCache { bytes, of_bytes } => {
                let percent = 100 * bytes / of_bytes.max(&1);
                write!(f, "the cache is cold: {percent} % of what it will hold")
            }
            Self::ItemSize { before, now } => {
                write!(f, "items have {now:.0} bytes of late, and had {before:.0} on the average")
            }
            Self::Skew { before, now } => {
                write!(f, "writes have a skew of {now:.2} of late, and had {before:.2} on the average")
            }
            Self::ReadSkew { reads, writes } => {
                write!(f, "reads are as with a skew of {reads:.2}, where writes have {writes:.2}")
            }
            Self::Unknown => write!(f, "unknown; the model may be wrong"),
        }
    }
}

impl DriftCause {
    /// Names it in one word without its numbers, as metrics label it: `redesign`, `earlier_design`, `copied`,
    /// `work_behind`, `filters_not_loaded`, `cold_cache`, `item_size`, `skew`, `read_skew` or `unknown`.
    ///
    /// ```
    /// use siltstone::DriftCause;
    ///
    /// assert_eq!(DriftCause::ColdCache { bytes: 1, of_bytes: 2 }.name(), "cold_cache");
    /// ```
    pub fn name(&self) -> &'static str {
        match self {
            Self::Redesign => "redesign",
            Self::EarlierDesign { .. } => "earlier_design",
            Self::Copied { .. } => "copied",
            Self::WorkBehind => "work_behind",
            Self::FiltersNotLoaded => "filters_not_loaded",
            Self::ColdCache { .. } => "cold_cache",
            Self::ItemSize { .. } => "item_size",
            Self::Skew { .. } => "skew",
            Self::ReadSkew { .. } => "read_skew",
            Self::Unknown => "unknown",
        }
    }
}

impl From<DriftCause> for String {
    fn from(cause: DriftCause) -> Self {
        cause.to_string()
    }
}

/// Statistics of one level.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct LevelStats {
    /// Its number, 0 at the top.
    pub level: usize,
    /// Digest bits that its regions fix.
    pub depth: u8,
    /// Whether only a design before the present one has it: while a redesign is under way. It has the number
    /// of the level above it.
    pub is_outgoing: bool,
    /// Regions with data.
    pub regions: u64,
    /// Runs in all its regions.
    pub runs: u64,
    /// The most runs of a region.
    pub max_runs_in_a_region: u64,
    /// Tables in all its runs.
    pub tables: u64,
    /// Bytes of its tables.
    pub bytes: u64,
    /// Entries in its tables.
    pub entries: u64,
    /// Bytes of the filters of its tables and regions, in memory or not.
    pub filter_bytes: u64,
    /// Bytes of the indexes of its tables and of what compressed ones are decoded with, in memory or not.
    pub index_bytes: u64,
    /// Bytes of what compressed tables of it hold, values and parts of keys, before they were compressed.
    pub uncompressed_bytes: u64,
    /// Bytes of the same as it is stored; 0 where no table is compressed.
    pub compressed_bytes: u64,
    /// Runs that filters of regions know.
    pub filtered_runs: u64,
    /// Bytes written into it by flushes and compactions since the keyspace was created.
    pub bytes_written: u64,
    /// `bytes_written` per byte of keys and values written to the keyspace since it was created.
    pub write_amplification: f64,
}
