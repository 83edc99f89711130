//! Writes a block table in one pass.
//!
//! Pages leave in large sequential writes as they fill; the index, the filter and the sample grow in memory and follow
//! the pages. Memory is bounded by the largest value, the write buffer and about ten bytes per key.

use super::index::PageIndexBuilder;
use super::page::{NewEntry, Overflow, PAYLOAD_BYTES, encode};
use crate::cache::{PAGE_BYTES, seal_page};
use crate::codec::put_digest;
use crate::entry::{EntryRef, Item, PrefixTombstones};
use crate::error::{Error, Result};
use crate::io::File;
use crate::table::envelope::{OVERFLOW_MARK, PAGE_HEADER_BYTES, Section, TableMeta, encode_tail};
use crate::table::filter::TableFilterBuilder;
use crate::table::sample::SampleBuilder;
use crate::table::{TableSpec, sort_key};
use siltstone_design::{Digest, Format};
use siltstone_succinct::bits::{rank_select::RankSelect, vector::BitVecBuilder};
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes gathered before a write.
const WRITE_BYTES: usize = 1 << 20;
/// Room for the header of an entry that stands in a page.
const MAX_HEADER_BYTES: usize = 32;
/// Largest key that is kept inside a page.
const MAX_PAGE_KEY_BYTES: usize = PAYLOAD_BYTES - 64;

/// Builds one block table.
pub(crate) struct BlockBuilder {
    file: Arc<dyn File>,
    path: PathBuf,
    spec: TableSpec,
    /// Bytes gathered, and where in the file they go.
    out: Vec<u8>,
    out_at: u64,
    next_page: u32,
    /// Which pages hold entries; filled in once the first overflow page is written.
    page_map: BitVecBuilder,
    data_pages: u32,
    /// The page being filled: its entries, their number, and the first and last key's places.
    page: Vec<u8>,
    page_entries: u16,
    page_first: Vec<u8>,
    previous_key: Vec<u8>,
    previous_digest: Digest,
    /// What the next entry may share with the previous; nothing after a big key or a page start.
    can_share: bool,
    first: Option<(Digest, Vec<u8>)>,
    entries: u64,
    deleted: u64,
    user_bytes: u64,
    /// Digest half and bytes of the group being added, and of the largest so far.
    group: (u64, u64),
    largest_group: (u64, u64),
    expiring: u64,
    expires_ms: (u64, u64),
    index: PageIndexBuilder,
    filter: TableFilterBuilder,
    sample: SampleBuilder,
}

impl BlockBuilder {
    /// A builder of table `spec.id` into `file`.
    pub fn new(file: Arc<dyn File>, path: PathBuf, spec: TableSpec) -> Self {
        Self {
            file,
            path,
            spec,
            out: Vec::with_capacity(WRITE_BYTES + PAGE_BYTES),
            out_at: 0,
            next_page: 0,
            page_map: BitVecBuilder::new(),
            data_pages: 0,
            page: Vec::with_capacity(PAGE_BYTES),
            page_entries: 0,
            page_first: Vec::new(),
            previous_key: Vec::new(),
            previous_digest: Digest::default(),
            can_share: false,
            first: None,
            entries: 0,
            deleted: 0,
            user_bytes: 0,
            group: (0, 0),
            largest_group: (0, 0),
            expiring: 0,
            expires_ms: (u64::MAX, 0),
            index: PageIndexBuilder::new(spec.index),
            filter: TableFilterBuilder::new(spec.filter),
            sample: SampleBuilder::default(),
        }
    }

    /// Bytes the table's pages take so far.
    pub fn bytes(&self) -> u64 {
        u64::from(self.next_page) * PAGE_BYTES as u64 + self.page.len() as u64
    }

    /// Adds the next entry; entries come in the store's order, each key once.
    pub fn add(&mut self, entry: &EntryRef<'_>) -> Result<()> {
        let key = entry.key.key;
        debug_assert!(
            self.first.is_none()
                || (self.previous_digest, self.previous_key.as_slice()) < (entry.key.digest, key),
            "entries must ascend"
        );
        let (value, expires_at_ms, deleted) = match entry.item {
            Item::Put { value, expires_at_ms } => (value, expires_at_ms, false),
            Item::Deleted => (&[][..], 0, true),
        };
        self.place(entry, value, expires_at_ms, deleted)?;
        if self.first.is_none() {
            self.first = Some((entry.key.digest, key.to_vec()));
        }
        self.index.add_entry(entry.key.digest);
        self.previous_digest = entry.key.digest;
        self.previous_key.clear();
        self.previous_key.extend_from_slice(key);
        self.entries += 1;
        self.deleted += u64::from(deleted);
        let user_bytes = (key.len() + value.len()) as u64;
        self.user_bytes += user_bytes;
        if self.group.0 != entry.key.digest.hi {
            self.group = (entry.key.digest.hi, 0);
        }
        self.group.1 += user_bytes;
        if self.group.1 > self.largest_group.1 {
            self.largest_group = self.group;
        }
        if expires_at_ms > 0 {
            self.expiring += 1;
            self.expires_ms = (self.expires_ms.0.min(expires_at_ms), self.expires_ms.1.max(expires_at_ms));
        }
        self.filter.insert(entry.key.fingerprint);
        self.sample.insert(entry.key.fingerprint);
        Ok(())
    }

    /// Encodes an entry into the current page, the next one, or overflow pages.
    fn place(&mut self, entry: &EntryRef<'_>, value: &[u8], expires_at_ms: u64, deleted: bool) -> Result<()> {
        let key = entry.key.key;
        let older_in = if self.spec.keeps_older_in { entry.older_in } else { 0 };
        let plain = |shared: usize| NewEntry {
            shared,
            tail: key.get(shared..).unwrap_or(&[]),
            deleted,
            expires_at_ms,
            older_in,
            value_len: value.len(),
            value,
            overflow: None,
        };
        let fits_a_page = key.len() + value.len() + MAX_HEADER_BYTES <= PAYLOAD_BYTES;
        if fits_a_page {
            if self.page_entries == 0 {
                self.start_page(entry);
            }
            let shared = if self.can_share { common_prefix(key, &self.previous_key) } else { 0 };
            let before = self.page.len();
            encode(&mut self.page, &plain(shared));
            if self.page.len() > PAGE_BYTES {
                self.page.truncate(before);
                self.finish_page()?;
                self.start_page(entry);
                encode(&mut self.page, &plain(0));
            }
            self.page_entries += 1;
            self.can_share = true;
            return Ok(());
        }
        let is_big_key = key.len() > MAX_PAGE_KEY_BYTES;
        let page = self.write_overflow(if is_big_key { key } else { &[] }, value)?;
        let overflow = Some(Overflow { page, key_len: is_big_key.then_some(key.len()) });
        let mut digest = Vec::new();
        put_digest(&mut digest, entry.key.digest);
        let tail = if is_big_key { digest.as_slice() } else { key };
        let mut encoded = Vec::new();
        let shared = 0;
        let (older_in, value_len) = (0, value.len());
        let header =
            NewEntry { shared, tail, deleted, expires_at_ms, older_in, value_len, value: &[], overflow };
        encode(&mut encoded, &header);
        if self.page.len() + encoded.len() > PAGE_BYTES {
            self.finish_page()?;
        }
        if self.page_entries == 0 {
            self.start_page(entry);
        }
        self.page.extend_from_slice(&encoded);
        self.page_entries += 1;
        self.can_share = !is_big_key;
        Ok(())
    }

    fn start_page(&mut self, entry: &EntryRef<'_>) {
        self.page.clear();
        self.page.resize(PAGE_HEADER_BYTES, 0);
        self.page_entries = 0;
        self.page_first = sort_key(entry.key.digest, entry.key.key);
    }

    fn finish_page(&mut self) -> Result<()> {
        if self.page_entries == 0 {
            return Ok(());
        }
        let last = sort_key(self.previous_digest, &self.previous_key);
        self.index.add_page(&self.page_first, &last, self.next_page);
        let (page, entries) = (std::mem::take(&mut self.page), self.page_entries);
        self.write_page(page.get(PAGE_HEADER_BYTES..).unwrap_or(&[]), entries)?;
        self.data_pages += 1;
        self.page = page;
        self.page.clear();
        self.page_entries = 0;
        self.can_share = false;
        Ok(())
    }

    /// Writes one page with `payload` and returns its number.
    fn write_page(&mut self, payload: &[u8], entries: u16) -> Result<u32> {
        let number = self.next_page;
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        self.out.extend_from_slice(&entries.to_le_bytes());
        self.out.extend_from_slice(payload);
        self.out.resize(start + PAGE_BYTES, 0);
        if let Some(bytes) = self.out.last_chunk_mut::<PAGE_BYTES>() {
            seal_page(self.spec.id, number, bytes);
        }
        self.page_map.push(entries != OVERFLOW_MARK);
        self.next_page =
            number.checked_add(1).ok_or_else(|| Error::invalid("a table may have 2^32 pages"))?;
        if self.out.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(number)
    }

    fn write_overflow(&mut self, key: &[u8], value: &[u8]) -> Result<u32> {
        let first = self.next_page;
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
        let (mut key, mut value) = (key, value);
        while !(key.is_empty() && value.is_empty()) {
            payload.clear();
            for part in [&mut key, &mut value] {
                let (taken, rest) = part.split_at(part.len().min(PAYLOAD_BYTES - payload.len()));
                payload.extend_from_slice(taken);
                *part = rest;
            }
            self.write_page(&payload, OVERFLOW_MARK)?;
        }
        Ok(first)
    }

    fn write_out(&mut self) -> Result<()> {
        self.file
            .write_all_at(&self.out, self.out_at)
            .map_err(|e| Error::io(&e, "writing table", &self.path))?;
        self.out_at += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    fn write_section(&mut self, bytes: &[u8]) -> Section {
        let section = Section {
            offset: self.out_at + self.out.len() as u64,
            length: bytes.len() as u64,
            crc: crc32c::crc32c(bytes),
        };
        self.out.extend_from_slice(bytes);
        section
    }

    /// Writes what follows the pages, syncs the file and says what it holds.
    pub fn finish(mut self, tombstones: PrefixTombstones) -> Result<TableMeta> {
        self.finish_page()?;
        let has_overflow = self.data_pages < self.next_page;
        let page_map = std::mem::take(&mut self.page_map);
        let mut bytes = Vec::new();
        let index = std::mem::replace(&mut self.index, PageIndexBuilder::new(self.spec.index));
        index.finish(&mut bytes, |part| self.write_overflow(&[], part))?;
        let index = self.write_section(&bytes);
        bytes.clear();
        std::mem::replace(&mut self.filter, TableFilterBuilder::None).finish(&mut bytes);
        let filter = if bytes.is_empty() { Section::default() } else { self.write_section(&bytes) };
        let page_map = if has_overflow {
            bytes.clear();
            RankSelect::new(page_map.finish()).to_bytes(&mut bytes);
            self.write_section(&bytes)
        } else {
            Section::default()
        };
        let sample = std::mem::take(&mut self.sample).finish().to_bytes();
        let sample = self.write_section(&sample);
        let edge = |tombstone: Option<&crate::entry::PrefixTombstone>| {
            tombstone
                .map_or((Digest::default(), Vec::new()), |t| (Digest { hi: t.hi, lo: 0 }, t.prefix.to_vec()))
        };
        let has_entries = self.first.is_some();
        let first = self.first.take().unwrap_or_else(|| edge(tombstones.iter().next()));
        let last = if has_entries {
            (self.previous_digest, std::mem::take(&mut self.previous_key))
        } else {
            edge(tombstones.iter().last())
        };
        let mut meta = TableMeta {
            id: self.spec.id,
            format: Format::Block,
            index_spec: self.spec.index,
            filter_spec: self.spec.filter,
            bytes: 0,
            entries: self.entries,
            deleted: self.deleted,
            user_bytes: self.user_bytes,
            pages: self.next_page,
            data_pages: self.data_pages,
            first,
            last,
            largest_group: self.largest_group,
            expiring: self.expiring,
            expires_ms: if self.expiring == 0 { (0, 0) } else { self.expires_ms },
            index,
            filter,
            page_map,
            sample,
            tombstones,
        };
        let at = self.out_at + self.out.len() as u64;
        // The properties hold the file's length, and its own length varies with it: settle by trying again.
        let mut tail = encode_tail(&meta, at);
        loop {
            let bytes = at + tail.len() as u64;
            if meta.bytes == bytes {
                break;
            }
            meta.bytes = bytes;
            tail = encode_tail(&meta, at);
        }
        self.out.extend_from_slice(&tail);
        self.write_out()?;
        self.file.sync().map_err(|e| Error::io(&e, "syncing table", &self.path))?;
        Ok(meta)
    }
}

#[inline]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}
