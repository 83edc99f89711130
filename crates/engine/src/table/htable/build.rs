//! Writes an HTable, segment by segment.
//!
//! Entries gather until they make a segment; then the smallest number of buckets for which a migration is
//! found is taken, and the segment's pages leave. Memory is bounded by a segment, the largest value and about
//! four bytes a key.

use super::segment::{Segment, encode as encode_directory, put_notes};
use super::{NOTE_BYTES, order};
use crate::codec::put_digest;
use crate::entry::{EntryRef, ItemParts, PrefixTombstones};
use crate::error::Result;
use crate::table::block::page::{NewEntry, Overflow, encode};
use crate::table::envelope::{OVERFLOW_MARK, PAYLOAD_BYTES};
use crate::table::writer::{NewTable, Sections, TableWriter};
use siltstone_design::{Digest, TableFilterSpec};
use siltstone_succinct::buckets::hash_marks::HashMarksBuilder;
use siltstone_succinct::buckets::migration::{self, Migration, Page};
use siltstone_succinct::buckets::spread::Spread;
use siltstone_succinct::filter::bucket_blooms::BucketBloomsBuilder;
use std::borrow::Cow;

/// Bytes of entries and notes in a page; their number takes one.
const PAGE: Page = Page { capacity: PAYLOAD_BYTES as u32 - 1, note_bytes: NOTE_BYTES as u32 };
/// Share of the pages that entries are to fill. The fuller, the more moves: 6 % of small items at this, 4.7 %
/// at 93 %.
const FILL: f64 = 0.965;
/// Tries to find buckets for a segment, each with a hundredth more of them.
const TRIES: usize = 64;
/// Largest entry that stands in a page; larger ones leave too much of it empty.
const MOST_ENTRY_BYTES: usize = 3 << 10;
/// Largest key that stands in a page where its value does not.
const MOST_KEY_BYTES: usize = 1 << 10;
/// Share of the items that may take a second read because their bucket's mark is not in memory.
const UNCOVERED_SHARE: f64 = 0.004;
/// Share of the buckets whose marks are kept at most: four bytes each, 0.4 MB a GB with all that goes with
/// them.
const MOST_MARKS_SHARE: f64 = 0.28;

/// An entry that waits for its page.
struct Pending {
    digest: Digest,
    fingerprint: u64,
    /// Where its bytes end in the buffer; they start where the previous one's end.
    end: usize,
}

/// Builds one HTable.
pub(crate) struct HTableBuilder {
    pub writer: TableWriter,
    pending: Vec<Pending>,
    encoded: Vec<u8>,
    /// The segment's first key, where the digest alone would not tell it from the segment before.
    first_key: Vec<u8>,
    segments: Vec<Segment>,
    marks: HashMarksBuilder,
    filters: Option<BucketBloomsBuilder>,
}

impl HTableBuilder {
    /// A builder of the table that `writer` writes.
    pub fn new(mut writer: TableWriter) -> Self {
        let filters = match writer.spec.kept_keys.own_filter() {
            TableFilterSpec::Bloom { bits_per_key } => Some(BucketBloomsBuilder::new(bits_per_key)),
            TableFilterSpec::None | TableFilterSpec::Cuckoo { .. } | TableFilterSpec::Fragments { .. } => {
                None
            }
        };
        if filters.is_some() {
            writer.drop_filter();
        }
        Self {
            pending: Vec::new(),
            encoded: Vec::with_capacity(writer.spec.chunk_bytes + MOST_ENTRY_BYTES),
            writer,
            first_key: Vec::new(),
            segments: Vec::new(),
            marks: HashMarksBuilder::default(),
            filters,
        }
    }

    /// Bytes the table's pages take so far, about.
    pub fn bytes(&self) -> u64 {
        u64::from(self.writer.next_page()) * PAYLOAD_BYTES as u64 + self.encoded.len() as u64
    }

    /// Adds the next entry; entries come in the store's order, each key once.
    /// A value may be compressed, and has `value_bytes` where it is not.
    pub fn add(&mut self, entry: &EntryRef<'_>, value_bytes: usize) -> Result<()> {
        // Enough buckets that what one lacks another has.
        if self.encoded.len() >= self.writer.spec.chunk_bytes {
            self.finish_segment()?;
        }
        if self.pending.is_empty() && self.writer.last().0 == entry.key.digest {
            self.first_key = entry.key.key.to_vec();
        }
        self.encode(entry)?;
        let end = self.encoded.len();
        self.pending.push(Pending { digest: entry.key.digest, fingerprint: entry.key.fingerprint, end });
        self.writer.note(entry, value_bytes);
        Ok(())
    }

    fn encode(&mut self, entry: &EntryRef<'_>) -> Result<()> {
        let key = entry.key.key;
        let ItemParts { value, expires_at_ms, deleted } = entry.item.parts();
        let older_in = if self.writer.spec.keeps_older_in { entry.older_in } else { 0 };
        let value_len = value.len();
        let fits_a_page = key.len() + value_len <= MOST_ENTRY_BYTES;
        let is_big_key = !fits_a_page && key.len() > MOST_KEY_BYTES;
        let mut digest = Vec::new();
        put_digest(&mut digest, entry.key.digest);
        let tail = if is_big_key { Cow::Borrowed(digest.as_slice()) } else { self.writer.encode_key(key) };
        let (shared, tail) = (0, &*tail);
        if fits_a_page {
            let overflow = None;
            let whole =
                NewEntry { shared, tail, deleted, expires_at_ms, older_in, value_len, value, overflow };
            encode(&mut self.encoded, &whole);
            return Ok(());
        }
        let page = self.writer.write_overflow(if is_big_key { key } else { &[] }, value)?;
        let overflow = Some(Overflow { page, key_len: is_big_key.then_some(key.len()) });
        let (older_in, value) = (0, &[][..]);
        let elsewhere =
            NewEntry { shared, tail, deleted, expires_at_ms, older_in, value_len, value, overflow };
        encode(&mut self.encoded, &elsewhere);
        Ok(())
    }

    fn finish_segment(&mut self) -> Result<()> {
        let (Some(first), Some(last)) = (self.pending.first(), self.pending.last()) else { return Ok(()) };
        let (first, last_hi) = (first.digest, last.digest.hi);
        let plan = self.plan(first.hi, last_hi);
        let page = self.writer.next_page();
        let pages = match &plan {
            Some((spread, plan)) => self.write_buckets(*spread, plan)?,
            None => self.write_packed()?,
        };
        let first = (first, std::mem::take(&mut self.first_key));
        self.segments.push(Segment { is_packed: plan.is_none(), page, pages, first, last_hi });
        self.pending.clear();
        self.encoded.clear();
        Ok(())
    }

    /// Buckets and a migration for the segment's entries; `None` where they are too skewed for any.
    fn plan(&self, first_hi: u64, last_hi: u64) -> Option<(Spread, Migration)> {
        let full = (self.encoded.len() as f64 / (f64::from(PAGE.capacity) * FILL)).ceil() as u32;
        // What fits one page needs no room to spare.
        let mut buckets = if self.encoded.len() <= PAGE.capacity as usize { 1 } else { full };
        let mut items = Vec::with_capacity(self.pending.len());
        for _ in 0..TRIES {
            if buckets > u32::from(u16::MAX) {
                return None;
            }
            let spread = Spread::new(first_hi, last_hi, buckets);
            items.clear();
            let mut start = 0;
            for pending in &self.pending {
                items.push(migration::Item {
                    bucket: spread.bucket(pending.digest.hi),
                    order: u32::from(order(pending.fingerprint)),
                    bytes: (pending.end - start) as u32,
                });
                start = pending.end;
            }
            if let Some(plan) = Migration::plan(&items, buckets, PAGE) {
                return Some((spread, plan));
            }
            buckets += (buckets / 100).max(1);
        }
        None
    }

    /// Writes a page per bucket and returns how many.
    #[expect(
        clippy::indexing_slicing,
        reason = "entries end one behind the other; one left out would be lost"
    )]
    fn write_buckets(&mut self, spread: Spread, plan: &Migration) -> Result<u32> {
        let buckets = spread.buckets();
        let mut taken: Vec<Vec<(usize, usize)>> = vec![Vec::new(); buckets as usize];
        let mut start = 0;
        for pending in &self.pending {
            let bucket = spread.bucket(pending.digest.hi);
            if let Some(target) = plan.target(bucket, u32::from(order(pending.fingerprint))) {
                taken[target as usize].push((start, pending.end));
            }
            start = pending.end;
        }
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
        let mut fingerprints = Vec::new();
        let (mut at, mut start) = (0, 0);
        for (bucket, taken) in (0..).zip(&taken) {
            payload.clear();
            fingerprints.clear();
            let mut entries = 0u16;
            while let Some(pending) = self.pending.get(at).filter(|p| spread.bucket(p.digest.hi) == bucket) {
                if plan.target(bucket, u32::from(order(pending.fingerprint))).is_none() {
                    payload.extend_from_slice(&self.encoded[start..pending.end]);
                    entries += 1;
                }
                fingerprints.push(pending.fingerprint);
                start = pending.end;
                at += 1;
            }
            for &(from, to) in taken {
                payload.extend_from_slice(&self.encoded[from..to]);
                entries += 1;
            }
            put_notes(&mut payload, plan.parcels(bucket));
            self.writer.write_page(&payload, entries)?;
            self.marks.add_bucket(fingerprints.len() as u64, plan.parcels(bucket));
            if let Some(filters) = &mut self.filters {
                filters.add_bucket(&fingerprints);
            }
        }
        Ok(buckets)
    }

    /// Writes the segment's entries in order, as many to a page as fit, and returns how many pages.
    #[expect(
        clippy::indexing_slicing,
        reason = "entries end one behind the other; one left out would be lost"
    )]
    fn write_packed(&mut self) -> Result<u32> {
        let first = self.writer.next_page();
        let (mut payload, mut entries, mut start) = (Vec::with_capacity(PAYLOAD_BYTES), 0u16, 0);
        for pending in &self.pending {
            let bytes = &self.encoded[start..pending.end];
            if payload.len() + bytes.len() > PAGE.capacity as usize || entries == OVERFLOW_MARK - 1 {
                put_notes(&mut payload, &[]);
                self.writer.write_page(&payload, entries)?;
                payload.clear();
                entries = 0;
            }
            payload.extend_from_slice(bytes);
            entries += 1;
            start = pending.end;
        }
        put_notes(&mut payload, &[]);
        self.writer.write_page(&payload, entries)?;
        self.marks.add_bucket(self.pending.len() as u64, &[]);
        if let Some(filters) = &mut self.filters {
            let fingerprints: Vec<u64> = self.pending.iter().map(|pending| pending.fingerprint).collect();
            filters.add_bucket(&fingerprints);
        }
        Ok(self.writer.next_page() - first)
    }

    /// Writes what follows the pages, syncs the file and says what it holds.
    pub fn finish(mut self, tombstones: PrefixTombstones) -> Result<NewTable> {
        self.finish_segment()?;
        let filter = self.filters.map(|filters| {
            let mut bytes = Vec::new();
            filters.finish().to_bytes(&mut bytes);
            bytes
        });
        let marks = self.marks.finish(UNCOVERED_SHARE, MOST_MARKS_SHARE);
        let mut page_map = Vec::new();
        if !marks.is_empty() {
            marks.to_bytes(&mut page_map);
        }
        let index = encode_directory(&self.segments);
        self.writer.finish(Sections { index, filter, page_map, slots: None }, tombstones)
    }
}
