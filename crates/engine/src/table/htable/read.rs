//! Lookups in an HTable: filter, HashMark, one page; two for the few items whose bucket's mark is not in memory.
//!
//! The directory, some fifty bytes a segment, is always kept. Filters and marks are kept while the memory budget has room; without
//! them, or where they are damaged, lookups read more pages and find the same.

use super::order;
use super::segment::{Directory, Located, target_of};
use crate::cache::{PAGE_BYTES, Page, Reader};
use crate::codec::Decoder;
use crate::entry::Lookup;
use crate::error::{ErrorKind, Result};
use crate::stats::ReadTrace;
use crate::table::block::page::{Overflow, decode, page_header};
use crate::table::block::read::{look_up, overflow};
use crate::table::envelope::{PAGE_HEADER_BYTES, TableMeta};
use crate::table::filter::TableFilter;
use crate::table::parts::{Resident, Worth, page_nonsense};
use crate::table::sort_key;
use siltstone_design::{EncodedKey, Encoder, TableFilterSpec};
use siltstone_succinct::buckets::hash_marks::HashMarks;
use siltstone_succinct::filter::bucket_blooms::BucketBlooms;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open HTable.
pub(crate) struct HTable {
    pub meta: TableMeta,
    directory: Resident<Directory>,
    filters: Resident<BucketBlooms>,
    table_filter: Resident<TableFilter>,
    marks: Resident<HashMarks>,
    /// Set where filters or marks can't be read, so that they are not read again and again.
    lost_filter: AtomicBool,
    lost_marks: AtomicBool,
}

/// What only spares reads, if it can be had: damage to it is no reason to fail.
fn spared<T>(loaded: Result<Option<T>>, is_lost: &AtomicBool) -> Result<Option<T>> {
    match loaded {
        Err(error) if error.kind() == ErrorKind::Corruption => {
            is_lost.store(true, Ordering::Relaxed);
            Ok(None)
        }
        other => other,
    }
}

impl HTable {
    pub fn new(meta: TableMeta) -> Self {
        Self {
            meta,
            directory: Resident::default(),
            filters: Resident::default(),
            table_filter: Resident::default(),
            marks: Resident::default(),
            lost_filter: AtomicBool::new(false),
            lost_marks: AtomicBool::new(false),
        }
    }

    pub(super) fn directory(&self, reader: &Reader) -> Result<Option<&Directory>> {
        let decode = |bytes: &[u8]| Directory::from_bytes(bytes, self.meta.pages);
        self.directory.load(&self.meta, &self.meta.index, Worth::Needed, reader, decode)
    }

    fn marks(&self, reader: &Reader) -> Result<Option<&HashMarks>> {
        if self.meta.page_map.length == 0 || self.lost_marks.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let decode = HashMarks::from_bytes;
        let loaded = self.marks.load(&self.meta, &self.meta.page_map, Worth::Index, reader, decode);
        spared(loaded, &self.lost_marks)
    }

    /// Whether the filter lets `key`, at home in `bucket`, pass; `None` where there is no filter to ask.
    fn passes(&self, bucket: u32, key: &EncodedKey<'_>, reader: &Reader) -> Result<Option<bool>> {
        if self.has_bucket_filters() {
            return Ok(self.filters(reader)?.map(|filters| filters.may_contain(bucket, key.fingerprint)));
        }
        Ok(self.table_filter(reader)?.map(|filter| filter.may_contain(key.fingerprint)))
    }

    /// The filters of its buckets, where it has some and they can be had.
    fn filters(&self, reader: &Reader) -> Result<Option<&BucketBlooms>> {
        if !self.has_bucket_filters() || self.has_no_filter() {
            return Ok(None);
        }
        let decode = BucketBlooms::from_bytes;
        spared(
            self.filters.load(&self.meta, &self.meta.filter, Worth::Filter, reader, decode),
            &self.lost_filter,
        )
    }

    /// The filter of the whole table, likewise.
    fn table_filter(&self, reader: &Reader) -> Result<Option<&TableFilter>> {
        if self.has_no_filter() {
            return Ok(None);
        }
        spared(self.table_filter.filter(&self.meta, reader), &self.lost_filter)
    }

    /// Whether each bucket has a filter of its own.
    fn has_bucket_filters(&self) -> bool {
        matches!(self.meta.kept_keys.own_filter(), TableFilterSpec::Bloom { .. })
    }

    fn has_no_filter(&self) -> bool {
        self.meta.filter.length == 0 || self.lost_filter.load(Ordering::Relaxed)
    }

    /// Loads what lookups ask first, as far as it fits the budget.
    pub fn load(&self, reader: &Reader) -> Result<()> {
        self.marks(reader)?;
        self.filters(reader)?;
        if !self.has_bucket_filters() {
            self.table_filter(reader)?;
        }
        Ok(())
    }

    /// Bytes of the budget that are held by what lookups can do without.
    pub fn spare_bytes(&self) -> u64 {
        self.marks.held_bytes() + self.filters.held_bytes() + self.table_filter.held_bytes()
    }

    /// What this table says about `key`.
    pub fn get(
        &self,
        key: &EncodedKey<'_>,
        encoder: &Encoder,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<Lookup> {
        let Some(directory) = self.directory(reader)? else { return Ok(Lookup::Absent) };
        let located = directory.find(key.digest, key.key).and_then(|number| directory.get(number));
        let Some(located) = located else { return Ok(Lookup::Absent) };
        let home = if located.segment.is_packed { 0 } else { located.spread.bucket(key.digest.hi) };
        let bucket = located.buckets_before + home;
        let passes = self.passes(bucket, key, reader)?;
        trace.filter_probes += u64::from(passes.is_some());
        if passes == Some(false) {
            return Ok(Lookup::Absent);
        }
        trace.tables_probed += 1;
        let found = if located.segment.is_packed {
            self.get_packed(located, key, encoder, reader, trace)?
        } else {
            self.get_bucket(located, home, key, reader, trace)?
        };
        trace.false_positives += u64::from(passes.is_some() && found == Lookup::Absent);
        Ok(found)
    }

    fn get_bucket(
        &self,
        located: &Located,
        home: u32,
        key: &EncodedKey<'_>,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<Lookup> {
        let order = order(key.fingerprint);
        let page_of = |bucket: u32| located.segment.page + bucket.min(located.segment.pages - 1);
        let known = self.marks(reader)?.and_then(|marks| marks.target(located.buckets_before + home, order));
        let (mut number, mut page);
        if let Some(target) = known {
            number = page_of(u32::from(target));
            page = reader.page(self.meta.id, number, trace)?;
        } else {
            number = page_of(home);
            page = reader.page(self.meta.id, number, trace)?;
            let target =
                target_of(&page[..], order).map_err(|()| page_nonsense(&self.meta, number, reader))?;
            if let Some(target) = target {
                number = page_of(u32::from(target));
                page = reader.page(self.meta.id, number, trace)?;
            }
        }
        look_up(&self.meta, &page, number, key, reader, trace)
    }

    /// Searches pages that are in order by halves.
    fn get_packed(
        &self,
        located: &Located,
        key: &EncodedKey<'_>,
        encoder: &Encoder,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<Lookup> {
        let place = sort_key(key.digest, key.key);
        let (mut low, mut high) = (located.segment.page, located.segment.page + located.segment.pages);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let page = reader.page(self.meta.id, middle, trace)?;
            if self.first_place(&page, middle, encoder, reader, trace)? <= place {
                low = middle;
            } else {
                high = middle;
            }
        }
        let page = reader.page(self.meta.id, low, trace)?;
        look_up(&self.meta, &page, low, key, reader, trace)
    }

    /// The place of a packed page's first entry.
    fn first_place(
        &self,
        page: &Page,
        number: u32,
        encoder: &Encoder,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<Vec<u8>> {
        let nonsense = || page_nonsense(&self.meta, number, reader);
        let (used, _) = page_header(&page[..]).filter(|(_, entries)| *entries > 0).ok_or_else(nonsense)?;
        let entry = decode(&page[..], PAGE_HEADER_BYTES, used).ok_or_else(nonsense)?;
        let tail = page.get(entry.tail_at..entry.tail_at + entry.tail_len).ok_or_else(nonsense)?;
        if let Some(Overflow { key_len: Some(_), .. }) = entry.overflow {
            let digest = Decoder::new(tail).digest().ok_or_else(nonsense)?;
            let (key, _) = overflow(&self.meta, &entry, reader, trace)?;
            return Ok(sort_key(digest, &key));
        }
        Ok(sort_key(encoder.encode(tail)?.digest, tail))
    }

    /// All pages of a segment, for a walk.
    pub(super) fn read_segment(
        &self,
        located: &Located,
        reader: &Reader,
        is_background: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.resize(located.segment.pages as usize * PAGE_BYTES, 0);
        if is_background {
            reader.pages_for_compaction(self.meta.id, located.segment.page, out)
        } else {
            reader.pages_for_lookup(self.meta.id, located.segment.page, out, &mut ReadTrace::default())
        }
    }
}
