//! Lookups in an HTable: filter, HashMark, one page; two for the few items whose bucket's mark is not in
//! memory.
//!
//! The directory, some fifty bytes a segment, is always kept. Filters and marks are kept while the memory
//! budget has room; without them, or where they are damaged, lookups read more pages and find the same.

use super::order;
use super::segment::{Directory, Located, target_of};
use crate::cache::{Pause, Probe, Reader};
use crate::codec::Decoder;
use crate::codec::sort_key;
use crate::entry::Answer;
use crate::error::{ErrorKind, Result};
use crate::memory::FilterWorth;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::table::block::page::{Overflow, decode, page_header};
use crate::table::block::read::{NumberedPage, look_up, overflowed_key};
use crate::table::coded::{Coded, TableCodec};
use crate::table::envelope::{PAGE_HEADER_BYTES, TableMeta};
use crate::table::filter::TableFilter;
use crate::table::parts::{Asked, Resident, Worth, page_malformed};
use crate::table::walk::Described;
use siltstone_design::{EncodedKey, TableFilterSpec};
use siltstone_succinct::buckets::hash_marks::HashMarks;
use siltstone_succinct::filter::bucket_blooms::BucketBlooms;

/// An open HTable.
pub(crate) struct HTable {
    pub meta: TableMeta,
    directory: Resident<Directory>,
    filters: Resident<BucketBlooms>,
    table_filter: Resident<TableFilter>,
    marks: Resident<HashMarks>,
    codec: TableCodec,
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

impl Described for HTable {
    #[inline]
    fn meta(&self) -> &TableMeta {
        &self.meta
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
            codec: TableCodec::default(),
            lost_filter: AtomicBool::new(false),
            lost_marks: AtomicBool::new(false),
        }
    }

    /// The table with what its entries are decoded with.
    pub(super) fn coded(&self, reader: &Reader) -> Result<Coded<'_>> {
        self.codec.coded(&self.meta, reader)
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
        self.coded(reader)?;
        self.marks(reader)?;
        self.filters(reader)?;
        if !self.has_bucket_filters() {
            self.table_filter(reader)?;
        }
        Ok(())
    }

    /// Notes what the filter is worth.
    pub fn set_filter_worth(&self, worth: FilterWorth) {
        self.filters.set_worth(worth);
        self.table_filter.set_worth(worth);
    }

    /// Bytes of the budget that the filter holds.
    pub fn filter_bytes(&self) -> u64 {
        self.filters.held_bytes() + self.table_filter.held_bytes()
    }

    /// Bytes of the budget that are held by what lookups can do without.
    pub fn spare_bytes(&self) -> u64 {
        self.marks.held_bytes() + self.filter_bytes()
    }

    /// Returns what this table says about `key`.
    pub fn get(&self, key: &EncodedKey<'_>, probe: &mut Probe<'_>) -> Result<Answer, Pause> {
        let Some(directory) = self.directory(probe.reader)? else { return Ok(Answer::Absent) };
        let located = directory.find(key.digest, key.key).and_then(|number| directory.get(number));
        let Some(located) = located else { return Ok(Answer::Absent) };
        let home = if located.segment.is_packed { 0 } else { located.spread.bucket(key.digest.hi) };
        let passes = self.passes(located.buckets_before + home, key, probe.reader)?;
        let asked = Asked { table: &self.meta, passes, keeps_answer: false };
        asked.answer(key, probe, |probe| {
            if located.segment.is_packed {
                self.get_packed(located, key, probe)
            } else {
                self.get_bucket(located, home, key, probe)
            }
        })
    }

    fn get_bucket(
        &self,
        located: &Located,
        home: u32,
        key: &EncodedKey<'_>,
        probe: &mut Probe<'_>,
    ) -> Result<Answer, Pause> {
        let order = order(key.fingerprint);
        let page_of = |bucket: u32| located.segment.page + bucket.min(located.segment.pages - 1);
        let marks = self.marks(probe.reader)?;
        let known = marks.and_then(|marks| marks.target(located.buckets_before + home, order));
        let mut number = page_of(known.map_or(home, u32::from));
        let mut page = probe.page(self.meta.id, number)?;
        if known.is_none() {
            let moved = target_of(&page[..], order);
            if let Some(target) = moved.map_err(|()| page_malformed(&self.meta, number, probe.reader))? {
                number = page_of(u32::from(target));
                page = probe.page(self.meta.id, number)?;
            }
        }
        look_up(self.coded(probe.reader)?, NumberedPage { number, bytes: &page }, key, probe)
    }

    /// Searches pages that are in order by halves.
    fn get_packed(
        &self,
        located: &Located,
        key: &EncodedKey<'_>,
        probe: &mut Probe<'_>,
    ) -> Result<Answer, Pause> {
        let place = sort_key(key.digest, key.key);
        let (mut low, mut high) = (located.segment.page, located.segment.page + located.segment.pages);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let page = probe.page(self.meta.id, middle)?;
            if self.first_place(NumberedPage { number: middle, bytes: &page }, probe)? <= place {
                low = middle;
            } else {
                high = middle;
            }
        }
        let page = probe.page(self.meta.id, low)?;
        look_up(self.coded(probe.reader)?, NumberedPage { number: low, bytes: &page }, key, probe)
    }

    /// The place of a packed page's first entry.
    fn first_place(&self, page: NumberedPage<'_>, probe: &mut Probe<'_>) -> Result<Vec<u8>, Pause> {
        let (bytes, reader) = (&page.bytes[..], probe.reader);
        let malformed = || page_malformed(&self.meta, page.number, reader);
        let (used, _) = page_header(bytes).filter(|(_, entries)| *entries > 0).ok_or_else(malformed)?;
        let entry = decode(bytes, PAGE_HEADER_BYTES, used).ok_or_else(malformed)?;
        let tail = bytes.get(entry.tail_at..entry.tail_at + entry.tail_len).ok_or_else(malformed)?;
        if let Some(Overflow { key_len: Some(_), .. }) = entry.overflow {
            let digest = Decoder::new(tail).digest().ok_or_else(malformed)?;
            return Ok(sort_key(digest, &overflowed_key(&self.meta, &entry, probe)?));
        }
        let key = self.coded(reader)?.key(bytes, &entry).ok_or_else(malformed)?;
        Ok(sort_key(probe.encoder.encode(&key)?.digest, &key))
    }
}
