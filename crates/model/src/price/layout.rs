//! Bytes and bits: what an entry takes in tables, filters and indexes of each form.
//!
//! Source: docs/format.md for the bytes; for filters and indexes the formulas of their structures, with the
//! loads that they reach. Where a constant is measured rather than derived, it says so.

use super::sizes::ValueSize;
use super::values::{Stored, StoredKey, Values};
use super::workload::Workload;
use siltstone_design::design::LOG_STORE_FILL;
use siltstone_design::{
    Compression, Design, Format, IndexSpec, LevelSpec, RegionFilterSpec, TableFilterSpec, WriteBufferSpec,
};

/// Bytes of a page.
pub(super) const PAGE_BYTES: f64 = 4096.0;
/// Bytes of a page that entries may take.
pub(super) const PAGE_PAYLOAD_BYTES: f64 = 4088.0;
/// Share of a hash table's pages that is filled (measured).
pub(super) const HTABLE_FILL: f64 = 0.98;
/// Share of a cuckoo table's slots that is filled.
pub(super) const CUCKOO_FILL: f64 = 0.975;
/// What compression has to gain for a table to be compressed.
const LEAST_COMPRESSED_RATIO: f64 = 1.1;
/// What a compressed table is decoded with, twice: a dictionary of 4 KiB and symbols (measured).
const CODECS_BYTES: f64 = 2.0 * 5000.0;
/// Key sample, properties and footer of a table.
const TABLE_FIXED_BYTES: f64 = 2600.0;
/// Bits by which maplets of regions above others are longer.
const UPPER_MAPLET_BITS: f64 = 3.0;
/// Bits by which the fingerprints that a table keeps are longer than those of its region's maplet.
const SPARE_FINGERPRINT_BITS: f64 = 4.0;
/// Bits that a quotient and its place take for an entry of a maplet.
const MAPLET_QUOTIENT_BITS: f64 = 2.45;

/// How entries of a workload lie in the tables of a design.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    design: Design,
    workload: Workload,
    /// The workload's values as they are, and where they are compressed.
    plain: Values,
    compressed: Values,
    tombstone: Values,
}

/// The run whose bytes are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunSize {
    pub level: usize,
    /// Whether the run's region has others below it.
    pub has_children: bool,
    pub entries: f64,
    /// The share of all items that lie in the region's part of the digests and are in the run.
    pub density: f64,
    /// The share of its entries that are tombstones.
    pub tombstones: f64,
}

impl Layout {
    pub fn new(design: &Design, workload: &Workload) -> Self {
        let ratio = workload.compressed_ratio;
        let smaller = |size: ValueSize| ValueSize { value_bytes: size.value_bytes / ratio, ..size };
        let plain = Values::of(workload.key_bytes, workload.value_sizes().collect());
        let compressed =
            Values::of(workload.key_bytes / ratio, workload.value_sizes().map(smaller).collect());
        let tombstone = Values::none();
        Self { design: design.clone(), workload: *workload, plain, compressed, tombstone }
    }

    pub fn design(&self) -> &Design {
        &self.design
    }

    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Whether the regions of a level have filters in memory.
    pub fn has_region_filters_in_memory(&self, level: usize) -> bool {
        match self.design.level(level).region_filter {
            RegionFilterSpec::None | RegionFilterSpec::BloomCluster { .. } => false,
            RegionFilterSpec::MultiLevelCuckoo { .. } | RegionFilterSpec::Maplet { .. } => true,
        }
    }

    /// How many runs the maplet of a full region of a level names wrongly, on the average.
    pub fn named_wrongly(&self, level: usize, has_children: bool) -> f64 {
        let RegionFilterSpec::Maplet { remainder_bits } = self.design.level(level).region_filter else {
            return 0.0;
        };
        let upper_bits = if has_children { UPPER_MAPLET_BITS } else { 0.0 };
        (-f64::from(remainder_bits) - upper_bits).exp2()
    }

    /// The same with remainders of maplets of `most` bits at most; `None` where all are shorter anyhow. What
    /// tables keep on the device is not shortened, and not to be asked of it.
    pub fn shortened(&self, most: u8) -> Option<Self> {
        let (mut shortened, mut is_shorter) = (self.clone(), false);
        for level in &mut shortened.design.levels {
            if let RegionFilterSpec::Maplet { remainder_bits } = &mut level.region_filter
                && *remainder_bits > most
            {
                (*remainder_bits, is_shorter) = (most, true);
            }
        }
        is_shorter.then_some(shortened)
    }

    /// Whether what most of its tables answer to gets is kept in the cache by itself.
    pub fn keeps_answers(&self) -> bool {
        self.design.levels.last().is_none_or(|level| level.format == Format::Block)
    }

    /// Puts that fill the write buffer: it is sealed after the batch that does.
    pub fn write_buffer_puts(&self) -> f64 {
        let puts = match self.design.write_buffer {
            WriteBufferSpec::MemTable { bytes } => bytes as f64 / self.workload.item_bytes(),
            WriteBufferSpec::LogStore { entries } => f64::from(entries) * LOG_STORE_FILL,
        };
        let batch = self.workload.batch_items;
        (puts / batch).ceil().max(1.0) * batch
    }

    /// Whether an item that is put again takes no more room in the write buffer.
    pub fn overwrites_in_write_buffer(&self) -> bool {
        matches!(self.design.write_buffer, WriteBufferSpec::LogStore { .. })
    }

    /// Bytes that a put adds to the log.
    pub fn logged_bytes(&self) -> f64 {
        let Workload { key_bytes, value_bytes, batch_items, .. } = self.workload;
        // Kind, keyspace and the lengths; items of log stores have a checksum of their own.
        let own = match self.design.write_buffer {
            WriteBufferSpec::MemTable { .. } => 0.0,
            WriteBufferSpec::LogStore { .. } => 5.0 + varint(key_bytes + value_bytes + 4.0),
        };
        let operation = 2.0 + own + varint(key_bytes) + key_bytes + varint(value_bytes) + value_bytes;
        operation + LOG_RECORD_BYTES / batch_items
    }

    /// Bytes of a run's tables.
    pub fn run_bytes(&self, run: &RunSize) -> f64 {
        if run.entries < 0.5 {
            return 0.0;
        }
        let together = self.items_together(run.density);
        let Stored { page_bytes, pages_apart, .. } = self.stored_together(run, together);
        let index_bits = self.index_bits_of(run, page_bytes, together);
        let in_pages = page_bytes + pages_apart * PAGE_BYTES;
        let per_entry = in_pages + (self.stored_filter_bits(run) + index_bits) / 8.0;
        let codecs = if self.decoded_bytes(run.level) > 0.0 { CODECS_BYTES } else { 0.0 };
        run.entries * per_entry + TABLE_FIXED_BYTES + codecs
    }

    /// What an entry takes of pages on the average, waste included.
    pub fn stored(&self, run: &RunSize) -> Stored {
        self.stored_together(run, self.items_together(run.density))
    }

    /// The same where so many items of a group stand together.
    fn stored_together(&self, run: &RunSize, together: f64) -> Stored {
        let spec = self.design.level(run.level);
        let (key_ratio, value_ratio) = self.compressed_ratios(spec);
        let values = if value_ratio == 1.0 { &self.plain } else { &self.compressed };
        let shared_bytes = self.shared_bytes(spec.format, together) / key_ratio;
        let key = StoredKey { bytes: self.workload.key_bytes / key_ratio, shared_bytes };
        let whole = values.stored(spec.format, key);
        if run.tombstones == 0.0 {
            return whole;
        }
        // A slot has the same size whatever it holds.
        let is_slotted = matches!(spec.format, Format::Hash | Format::Sorted);
        let tombstone = if is_slotted {
            Stored { page_bytes: whole.page_bytes, ..Stored::default() }
        } else {
            self.tombstone.stored(spec.format, key)
        };
        whole.mixed(run.tombstones, tombstone)
    }

    /// How many times smaller keys and values are in the tables of a level.
    fn compressed_ratios(&self, spec: &LevelSpec) -> (f64, f64) {
        let ratio = self.workload.compressed_ratio;
        match (spec.compression, spec.format) {
            (Compression::None, _) => (1.0, 1.0),
            // Nothing is compressed that gains less.
            (Compression::Dictionary, _) if ratio < LEAST_COMPRESSED_RATIO => (1.0, 1.0),
            (Compression::Dictionary, Format::Block | Format::HTable) => (ratio, ratio),
            // Slots hold keys as they are.
            (Compression::Dictionary, Format::Hash | Format::Sorted) => (1.0, ratio),
        }
    }

    /// Bytes that a get decodes that finds its item in a run of a level.
    pub fn decoded_bytes(&self, level: usize) -> f64 {
        let (_, ratio) = self.compressed_ratios(self.design.level(level));
        if ratio > 1.0 { self.workload.value_bytes } else { 0.0 }
    }

    /// Bytes of a key that it has in common with the one before, where so many of a group stand together.
    fn shared_bytes(&self, format: Format, together: f64) -> f64 {
        let key_bytes = self.workload.key_bytes;
        let item_bytes = key_bytes + self.plain.bytes_in_page(format, key_bytes);
        // The first of a group in a page shares nothing.
        let per_page = PAGE_PAYLOAD_BYTES / (item_bytes + 4.0);
        let firsts = 1.0 / together + 1.0 / per_page.max(1.0);
        self.workload.prefix_bytes * (1.0 - firsts).max(0.0)
    }

    /// How many items of a group that is in a run at all are there, where each item is with this probability.
    pub fn items_together(&self, density: f64) -> f64 {
        if !self.workload.is_grouped() {
            return 1.0;
        }
        let (items, absent) = self.items_of_group(density);
        (items / (1.0 - absent)).max(1.0)
    }

    /// How many items of a group there are beyond its first: what may lie on further pages than the one that
    /// a scan reads of a run in any case.
    pub fn items_after_first(&self, density: f64) -> f64 {
        let (items, absent) = self.items_of_group(density);
        items - 1.0 + absent
    }

    /// How many items of a group are in a run, and the probability that none is.
    fn items_of_group(&self, density: f64) -> (f64, f64) {
        let (group, density) = (self.workload.group_items, density.clamp(1e-12, 1.0));
        let absent = 1.0 - density;
        // A whole power is a few products, and most groups have a whole number of items.
        let is_whole = group.fract() == 0.0 && group <= f64::from(i32::MAX);
        let none = if is_whole { absent.powi(group as i32) } else { absent.powf(group) };
        (group * density, none)
    }

    /// Bits of index that an entry has, in memory or on the device.
    pub fn index_bits(&self, run: &RunSize) -> f64 {
        let together = self.items_together(run.density);
        self.index_bits_of(run, self.stored_together(run, together).page_bytes, together)
    }

    /// The same where an entry takes so many bytes of pages and so many of a group stand together.
    fn index_bits_of(&self, run: &RunSize, page_bytes: f64, together: f64) -> f64 {
        let spec = self.design.level(run.level);
        let per_page = (PAGE_BYTES / page_bytes).max(1.0);
        match spec.index {
            IndexSpec::Separators | IndexSpec::Paged => separator_bits(together, per_page) / per_page,
            IndexSpec::LastKeys => (self.workload.key_bytes + 6.0) * 8.0 / per_page,
            IndexSpec::LocatedSeparators => (separator_bits(together, per_page) + 40.0) / per_page,
            IndexSpec::ThreeLevel { .. } => {
                THREE_LEVEL_PAGE_BITS / per_page + (PREFIX_BITS / together).min(FIRST_PREFIX_BITS / per_page)
            }
            IndexSpec::Cells => {
                let bits = if self.workload.is_grouped() { GROUPED_CELL_BITS } else { CELL_BITS };
                bits / per_page + CELLS_FIXED_BYTES * 8.0 / run.entries.max(1.0)
            }
            IndexSpec::None => match spec.format {
                Format::Sorted => SORTED_TRIE_BITS * per_page.powf(SORTED_TRIE_POWER),
                Format::HTable => HTABLE_PAGE_BITS / per_page,
                Format::Block | Format::Hash => HASH_STORE_BITS,
            },
        }
    }

    /// Bits of an entry in a table's own filter, or in the fingerprints that it keeps for its region's.
    fn stored_filter_bits(&self, run: &RunSize) -> f64 {
        let spec = self.design.level(run.level);
        let own = table_filter_bits(spec.table_filter, spec.format);
        match spec.region_filter {
            RegionFilterSpec::Maplet { remainder_bits } => {
                let region = self.region_entries(run.level).max(run.entries);
                let longer = (region / run.entries).log2();
                own + f64::from(remainder_bits) + SPARE_FINGERPRINT_BITS + longer + MAPLET_QUOTIENT_BITS
            }
            RegionFilterSpec::BloomCluster { bits_per_key } => own + f64::from(bits_per_key),
            RegionFilterSpec::None | RegionFilterSpec::MultiLevelCuckoo { .. } => own,
        }
    }

    /// Entries of a full region.
    pub fn region_entries(&self, level: usize) -> f64 {
        let spec = self.design.level(level);
        let (key_ratio, value_ratio) = self.compressed_ratios(spec);
        let Workload { key_bytes, value_bytes, .. } = self.workload;
        spec.region_bytes() as f64 / (key_bytes / key_ratio + value_bytes / value_ratio)
    }

    /// Bits of a fingerprint in the maplet of a region with so many entries.
    pub fn maplet_bits(&self, level: usize, has_children: bool, remainder_bits: u8, entries: f64) -> f64 {
        let upper = if has_children { UPPER_MAPLET_BITS } else { 0.0 };
        self.region_entries(level).max(entries).log2().round() + f64::from(remainder_bits) + upper
    }

    /// Bits of memory that an entry takes in filters, its table's and its region's.
    pub fn filter_bits(&self, run: &RunSize, region_entries: f64, region_runs: f64) -> f64 {
        let spec = self.design.level(run.level);
        let own = table_filter_bits(spec.table_filter, spec.format);
        let slot_bits = region_runs.max(1.0).log2().ceil().max(0.0);
        match spec.region_filter {
            RegionFilterSpec::None | RegionFilterSpec::BloomCluster { .. } => own,
            RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits } => {
                let slot_bits = (f64::from(spec.runs) * 1.5).max(2.0).log2().ceil();
                own + (f64::from(fingerprint_bits) + slot_bits) / MULTI_LEVEL_CUCKOO_FILL
            }
            RegionFilterSpec::Maplet { remainder_bits } => {
                let fingerprint =
                    self.maplet_bits(run.level, run.has_children, remainder_bits, region_entries);
                own + (fingerprint - region_entries.max(1.0).log2()).max(0.0)
                    + slot_bits
                    + MAPLET_QUOTIENT_BITS
            }
        }
    }
}

/// Bytes of a log record beside its operations.
const LOG_RECORD_BYTES: f64 = 16.0;
/// Load of a multi-level cuckoo filter between its steps of growth (measured).
const MULTI_LEVEL_CUCKOO_FILL: f64 = 0.86;
// Index bits in memory, measured on tables of 2^16 to 2^20 entries.
/// Of a page of a three-level index: where it ends, and what tells it apart within its group.
const THREE_LEVEL_PAGE_BITS: f64 = 15.0;
/// Of a prefix in a three-level index's trie,
const PREFIX_BITS: f64 = 2.7;
/// and of a page's first prefix, which is all that it has to know where groups are small.
const FIRST_PREFIX_BITS: f64 = 9.0;
/// Of a page in a cell index, where keys' digests are evenly spread,
const CELL_BITS: f64 = 9.5;
/// and where those of a group are alike.
const GROUPED_CELL_BITS: f64 = 29.5;
/// Bytes of a cell index beside: two headers, and half of a line of the processor's cache that is not full.
const CELLS_FIXED_BYTES: f64 = 28.0 + 16.0 + 32.0;
/// Of an entry in a sorted store's trie whose blocks are single entries, and how it falls as blocks grow.
const SORTED_TRIE_BITS: f64 = 5.64;
const SORTED_TRIE_POWER: f64 = -0.647;
/// Of a page in a hash table's directory.
const HTABLE_PAGE_BITS: f64 = 9.0;
/// Of an entry of a hash store, beside its tag.
const HASH_STORE_BITS: f64 = 0.03;
/// Of a separator between pages of different groups, of the first one within a group, which repeats the
/// group's digest, and of the others within it.
const SEPARATOR_BITS: [f64; 3] = [24.0, 68.0, 22.0];

/// Bits of a filter of a table.
fn table_filter_bits(filter: TableFilterSpec, format: Format) -> f64 {
    match filter {
        // A hash store's tags are filter and index.
        TableFilterSpec::None if format == Format::Hash => 16.0 / CUCKOO_FILL,
        TableFilterSpec::None => 0.0,
        TableFilterSpec::Bloom { bits_per_key } => {
            f64::from(bits_per_key) + if format == Format::HTable { 0.2 } else { 0.0 }
        }
        TableFilterSpec::Cuckoo { fingerprint_bits } => f64::from(fingerprint_bits) / CUCKOO_FILL,
        TableFilterSpec::Fragments { fragment_bits } => f64::from(fragment_bits),
    }
}

/// Bits of a shortened separator between pages of so many entries, of which so many of one group stand
/// together.
fn separator_bits(together: f64, per_page: f64) -> f64 {
    let [between, first, other] = SEPARATOR_BITS;
    let (within, is_first) = (1.0 - 1.0 / together, (per_page / together).min(1.0));
    (1.0 - within) * between + within * (is_first * first + (1.0 - is_first) * other)
}

/// Bytes of a number as a varint.
pub(super) fn varint(number: f64) -> f64 {
    let more = (1..10).take_while(|bytes| number >= (1u64 << (7 * bytes)) as f64);
    more.count() as f64 + 1.0
}

/// Bytes of pages for an entry of so many bytes where a page, filled so far, lacks so many entries at its
/// end.
pub(super) fn paged(entry_bytes: f64, wasted_entries: f64, fill: f64) -> f64 {
    let per_page = (PAGE_PAYLOAD_BYTES * fill / entry_bytes).max(1.0);
    PAGE_BYTES / (per_page - wasted_entries).max(1.0)
}

/// Bytes of pages for a slot of so many bytes.
pub(super) fn slotted(slot_bytes: f64) -> f64 {
    let per_page = (PAGE_PAYLOAD_BYTES / slot_bytes).floor();
    if per_page >= 1.0 && per_page * slot_bytes >= PAGE_PAYLOAD_BYTES * 15.0 / 16.0 {
        PAGE_BYTES / per_page
    } else {
        slot_bytes * PAGE_BYTES / PAGE_PAYLOAD_BYTES
    }
}
