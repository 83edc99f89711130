//! What builders of all formats share: pages and sections leave in large sequential writes, entries are
//! counted, and the table's description is put together.
//!
//! A builder decides what stands in which page and what its index says; the rest is here. Memory is bounded
//! by the write buffer and about ten bytes per key of a filter.
//!
//! Invariants: entries are noted in the store's order, each key once; nothing is written twice.

use super::envelope::{Compressed, OVERFLOW_MARK, PAYLOAD_BYTES, Section, TableMeta, encode_tail};
use super::filter::TableFilterBuilder;
use super::sample::SampleBuilder;
use super::slots::SlotLayout;
use super::spec::{TableSpec, Writing};
use crate::cache::{PAGE_BYTES, seal_page};
use crate::compression::Codec;
use crate::compression::symbols::SymbolEncoder;
use crate::entry::{EntryRef, Item, PrefixTombstone, PrefixTombstones};
use crate::error::{Error, Result};
use crate::io::File;
use crate::io::behind::WriteBehind;
use siltstone_design::Digest;
use siltstone_succinct::bits::{rank_select::RankSelect, vector::BitVecBuilder};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

/// What a builder has to say of its table when all pages are written.
#[derive(Default)]
pub(crate) struct Sections {
    pub index: Vec<u8>,
    /// The format's own filter; `None` for the one that the table's specification names.
    pub filter: Option<Vec<u8>>,
    /// Which pages hold entries, as [`TableWriter::page_map`] said before the index was written.
    pub page_map: Vec<u8>,
    /// How slots are cut, in tables of slots.
    pub slots: Option<SlotLayout>,
}

/// A table that was written.
pub(crate) struct NewTable {
    pub meta: TableMeta,
    /// The fingerprints of its keys in order, where its filter is made of them; else none.
    pub fingerprints: Vec<u64>,
}

/// How the entries of a new table are compressed.
pub(crate) struct Compressing {
    pub codec: Codec,
    /// For what pages hold of keys; values come encoded.
    pub keys: Option<SymbolEncoder>,
    /// Bytes before and after.
    pub raw_bytes: u64,
    pub stored_bytes: u64,
}

/// Writes the file of one new table and counts what goes into it.
pub(crate) struct TableWriter {
    file: Arc<dyn File>,
    behind: WriteBehind,
    path: PathBuf,
    pub spec: TableSpec,
    /// Bytes gathered, and where in the file they go.
    out: Vec<u8>,
    out_at: u64,
    next_page: u32,
    page_map: BitVecBuilder,
    data_pages: u32,
    first: Option<(Digest, Vec<u8>)>,
    last: (Digest, Vec<u8>),
    entries: u64,
    deleted: u64,
    user_bytes: u64,
    /// Digest half and bytes of the group being added, and of the largest so far.
    group: (u64, u64),
    largest_group: (u64, u64),
    expiring: u64,
    expires_ms: (u64, u64),
    filter: TableFilterBuilder,
    sample: SampleBuilder,
    /// Present from the first entry on, where they are compressed.
    pub compressing: Option<Compressing>,
}

impl TableWriter {
    /// A writer of table `spec.id` into `file`.
    pub fn new(file: Arc<dyn File>, path: PathBuf, spec: TableSpec) -> Self {
        let behind = WriteBehind::new(Arc::clone(&file), spec.writing == Writing::Behind);
        Self {
            file,
            behind,
            path,
            out: Vec::with_capacity(spec.chunk_bytes + PAGE_BYTES),
            out_at: 0,
            next_page: 0,
            page_map: BitVecBuilder::new(),
            data_pages: 0,
            first: None,
            last: Default::default(),
            entries: 0,
            deleted: 0,
            user_bytes: 0,
            group: (0, 0),
            largest_group: (0, 0),
            expiring: 0,
            expires_ms: (u64::MAX, 0),
            filter: TableFilterBuilder::new(spec.kept_keys),
            spec,
            sample: SampleBuilder::default(),
            compressing: None,
        }
    }

    /// Gathers no keys for the filter that the specification names: the format has its own.
    pub fn drop_filter(&mut self) {
        self.filter = TableFilterBuilder::None;
    }

    /// Number of the page that is written next.
    pub fn next_page(&self) -> u32 {
        self.next_page
    }

    /// Place of the entry noted last.
    pub fn last(&self) -> (Digest, &[u8]) {
        (self.last.0, &self.last.1)
    }

    /// Returns what a page is to hold of a key, of which it would else hold `part`.
    pub fn encode_key<'a>(&mut self, part: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(Compressing { keys: Some(keys), raw_bytes, stored_bytes, .. }) = &mut self.compressing
        else {
            return Cow::Borrowed(part);
        };
        let encoded = keys.encode(part);
        *raw_bytes += part.len() as u64;
        *stored_bytes += encoded.len() as u64;
        Cow::Owned(encoded)
    }

    /// Counts the next entry, whose value has `value_bytes` where it is not compressed; entries come in the
    /// store's order, each key once.
    pub fn note(&mut self, entry: &EntryRef<'_>, value_bytes: usize) {
        let key = entry.key.key;
        debug_assert!(
            self.first.is_none() || (self.last.0, self.last.1.as_slice()) < (entry.key.digest, key),
            "entries must ascend"
        );
        let (deleted, expires_at_ms) = match entry.item {
            Item::Put { expires_at_ms, .. } => (false, expires_at_ms),
            Item::Deleted => (true, 0),
            Item::Operands(_) => (false, 0),
        };
        if self.first.is_none() {
            self.first = Some((entry.key.digest, key.to_vec()));
        }
        self.last.0 = entry.key.digest;
        self.last.1.clear();
        self.last.1.extend_from_slice(key);
        self.entries += 1;
        self.deleted += u64::from(deleted);
        let user_bytes = (key.len() + value_bytes) as u64;
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
    }

    /// Writes one page with `payload` and returns its number.
    pub fn write_page(&mut self, payload: &[u8], entries: u16) -> Result<u32> {
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
        let has_entries = entries != OVERFLOW_MARK;
        self.page_map.push(has_entries);
        self.data_pages += u32::from(has_entries);
        self.next_page =
            number.checked_add(1).ok_or_else(|| Error::invalid("a table may have 2^32 pages"))?;
        if self.out.len() >= self.spec.chunk_bytes {
            self.write_out()?;
        }
        Ok(number)
    }

    /// Writes `first` and then `second` to overflow pages and returns the first page's number.
    pub fn write_overflow<'a>(&mut self, mut first: &'a [u8], mut second: &'a [u8]) -> Result<u32> {
        let page = self.next_page;
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
        while !(first.is_empty() && second.is_empty()) {
            payload.clear();
            for part in [&mut first, &mut second] {
                let (taken, rest) = part.split_at(part.len().min(PAYLOAD_BYTES - payload.len()));
                payload.extend_from_slice(taken);
                *part = rest;
            }
            self.write_page(&payload, OVERFLOW_MARK)?;
        }
        Ok(page)
    }

    fn write_out(&mut self) -> Result<()> {
        let bytes = self.out.len() as u64;
        let written = self.behind.write(&mut self.out, self.out_at);
        written.map_err(|e| Error::io(&e, "writing table", &self.path))?;
        self.out_at += bytes;
        Ok(())
    }

    /// Which of the pages so far hold entries, encoded; empty where all do.
    pub fn page_map(&mut self) -> Vec<u8> {
        let map = std::mem::take(&mut self.page_map);
        let mut bytes = Vec::new();
        if self.data_pages < self.next_page {
            RankSelect::new(map.finish()).to_bytes(&mut bytes);
        }
        bytes
    }

    fn write_section(&mut self, bytes: &[u8]) -> Section {
        if bytes.is_empty() {
            return Section::default();
        }
        let section = Section {
            offset: self.out_at + self.out.len() as u64,
            length: bytes.len() as u64,
            crc: crc32c::crc32c(bytes),
        };
        self.out.extend_from_slice(bytes);
        section
    }

    /// Writes what follows the pages, syncs the file and says what it holds.
    pub fn finish(mut self, sections: Sections, tombstones: PrefixTombstones) -> Result<NewTable> {
        let codec = self.compressing.as_ref().map(|compressing| compressing.codec.to_bytes());
        let codec_section = self.write_section(codec.as_deref().unwrap_or_default());
        let index = self.write_section(&sections.index);
        let filter = std::mem::replace(&mut self.filter, TableFilterBuilder::None);
        let mut fingerprints = Vec::new();
        let filter = sections.filter.unwrap_or_else(|| {
            let mut bytes = Vec::new();
            fingerprints = filter.finish(self.user_bytes, self.spec.region_bytes, &mut bytes);
            bytes
        });
        let filter = self.write_section(&filter);
        let page_map = self.write_section(&sections.page_map);
        let sample = std::mem::take(&mut self.sample).finish().to_bytes();
        let sample = self.write_section(&sample);
        let copy = self.write_section(codec.as_deref().unwrap_or_default());
        let compressed = self.compressing.take().map(|compressing| Compressed {
            codec: codec_section,
            copy,
            raw_bytes: compressing.raw_bytes,
            stored_bytes: compressing.stored_bytes,
        });
        let edge = |tombstone: Option<&PrefixTombstone>| {
            tombstone
                .map_or((Digest::default(), Vec::new()), |t| (Digest { hi: t.hi, lo: 0 }, t.prefix.to_vec()))
        };
        let has_entries = self.first.is_some();
        let first = self.first.take().unwrap_or_else(|| edge(tombstones.iter().next()));
        let last = if has_entries { std::mem::take(&mut self.last) } else { edge(tombstones.iter().last()) };
        let mut meta = TableMeta {
            id: self.spec.id,
            format: self.spec.format,
            index_spec: self.spec.index,
            kept_keys: self.spec.kept_keys,
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
            slots: sections.slots,
            compressed,
        };
        let at = self.out_at + self.out.len() as u64;
        // The properties hold the file's length, and its own length varies with it: settle by trying again.
        let mut tail = encode_tail(&meta, at, self.spec.keyspace);
        loop {
            let bytes = at + tail.len() as u64;
            if meta.bytes == bytes {
                break;
            }
            meta.bytes = bytes;
            tail = encode_tail(&meta, at, self.spec.keyspace);
        }
        self.out.extend_from_slice(&tail);
        self.write_out()?;
        self.behind.settle().map_err(|e| Error::io(&e, "writing table", &self.path))?;
        self.file.sync().map_err(|e| Error::io(&e, "syncing table", &self.path))?;
        Ok(NewTable { meta, fingerprints })
    }
}
