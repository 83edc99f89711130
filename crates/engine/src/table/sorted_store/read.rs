//! Lookups in a sorted store: filter if there is one, trie, one read.
//!
//! Where the trie does not fit the memory budget, the slots themselves are searched (SILT §4, fail-graceful
//! indexing).

use super::fragments::{Fragments, fragment_bits};
use super::{chunk_slots, trie_keys, trie_spec};
use crate::cache::{Pause, Probe, Reader};
use crate::codec::Decoder;
use crate::entry::Answer;
use crate::error::Result;
use crate::memory::FilterWorth;
use crate::table::envelope::TableMeta;
use crate::table::filter::TableFilter;
use crate::table::parts::{Asked, Resident, Worth, place_to_look_at};
use crate::table::slots::SlotLayout;
use crate::table::slots::build::CHUNK_PAGES;
use crate::table::slots::cursor::Chunked;
use crate::table::slots::read::{Chunk, SlotFile};
use crate::table::walk::Described;
use siltstone_design::{Digest, EncodedKey, Encoder, TableFilterSpec};
use siltstone_succinct::error::DecodeError;
use siltstone_succinct::index::entropy_trie::EntropyTrie;
use std::ops::Range;

/// An open sorted store.
pub(crate) struct SortedStore {
    file: SlotFile,
    tries: Resident<Tries>,
    filter: Resident<TableFilter>,
    fragments: Resident<Fragments>,
}

/// The tries of a store, with their first keys.
#[derive(Debug)]
pub(crate) struct Tries {
    tries: Vec<(u64, EntropyTrie)>,
    keys_each: usize,
    per_page: usize,
}

impl Tries {
    /// The tries of a store of `entries` slots cut as `layout` says, which leads to slots or to pages as
    /// `filter` has it.
    pub fn from_bytes(
        bytes: &[u8],
        (layout, filter): (SlotLayout, TableFilterSpec),
        entries: u64,
    ) -> std::result::Result<Self, DecodeError> {
        let wrong =
            |found: &str| DecodeError::new("sorted store, index", "tries of all keys in order", found);
        let mut from = Decoder::new(bytes);
        let mut tries: Vec<(u64, EntropyTrie)> = Vec::new();
        let (spec, keys_each, mut keys) = (trie_spec(layout, filter), trie_keys(layout), 0u64);
        while !from.is_empty() {
            let (Some(first), Some(trie)) = (from.u64(), from.bytes()) else {
                return Err(wrong("a cut-off trie"));
            };
            let trie = EntropyTrie::from_bytes(trie)?;
            if tries.last().is_some_and(|(before, trie)| *before >= first || trie.len() != keys_each) {
                return Err(wrong("tries out of order"));
            }
            if trie.spec() != spec || trie.is_empty() {
                return Err(wrong("a trie of other blocks"));
            }
            keys += trie.len() as u64;
            tries.push((first, trie));
        }
        if keys != entries {
            return Err(wrong("a trie of another number of keys"));
        }
        Ok(Self { tries, keys_each, per_page: spec.block_keys as usize })
    }

    /// The slots, all of one page, of which one is that of the entry with this digest half, if there is one.
    #[inline]
    pub fn slots(&self, hi: u64) -> Range<usize> {
        let past = self.tries.partition_point(|(first, _)| *first <= hi);
        let Some((number, (_, trie))) = past.checked_sub(1).and_then(|n| Some((n, self.tries.get(n)?)))
        else {
            return 0..0;
        };
        let block = trie.block(hi);
        let start = block * self.per_page;
        let base = number * self.keys_each;
        base + start..base + (start + self.per_page).min(trie.len())
    }
}

impl Described for SortedStore {
    #[inline]
    fn meta(&self) -> &TableMeta {
        &self.file().meta
    }
}

impl SortedStore {
    pub fn new(meta: TableMeta) -> Self {
        Self {
            file: SlotFile::new(meta),
            tries: Resident::default(),
            filter: Resident::default(),
            fragments: Resident::default(),
        }
    }

    fn tries(&self, reader: &Reader) -> Result<Option<&Tries>> {
        let SlotFile { meta, layout, .. } = &self.file;
        let decode =
            |bytes: &[u8]| Tries::from_bytes(bytes, (*layout, meta.kept_keys.own_filter()), meta.entries);
        self.tries.load(meta, &meta.index, Worth::Index, reader, decode)
    }

    /// The fragments, where the store has some and they fit the budget.
    fn fragments(&self, reader: &Reader) -> Result<Option<&Fragments>> {
        let meta = &self.file.meta;
        let Some(width) = fragment_bits(meta.kept_keys.own_filter()) else { return Ok(None) };
        let decode = |bytes: &[u8]| Fragments::from_bytes(bytes, width, meta.entries);
        self.fragments.load(meta, &meta.filter, Worth::Filter, reader, decode)
    }

    /// Loads trie and filter, as far as they fit the budget.
    pub fn load(&self, reader: &Reader) -> Result<()> {
        self.tries(reader)?;
        self.filter.filter(&self.file.meta, reader)?;
        self.fragments(reader)?;
        Ok(())
    }

    /// Notes what the filter is worth.
    pub fn set_filter_worth(&self, worth: FilterWorth) {
        self.filter.set_worth(worth);
        self.fragments.set_worth(worth);
    }

    /// Bytes of the budget that the filter holds.
    pub fn filter_bytes(&self) -> u64 {
        self.filter.held_bytes() + self.fragments.held_bytes()
    }

    /// Bytes of the budget that are held by what lookups can do without.
    pub fn spare_bytes(&self) -> u64 {
        self.tries.held_bytes() + self.filter_bytes()
    }

    /// The chunk of a slot of the store, and the slot's number in it.
    fn chunk_of(&self, slot: usize) -> (Chunk, usize) {
        let per_chunk = chunk_slots(self.file.layout);
        let number = slot / per_chunk;
        let slots = per_chunk.min(self.file.meta.entries as usize - number * per_chunk);
        (Chunk { data_page: (number * CHUNK_PAGES) as u32, slots }, slot % per_chunk)
    }

    /// Returns what this store says about `key`.
    pub fn get(&self, key: &EncodedKey<'_>, probe: &mut Probe<'_>) -> Result<Answer, Pause> {
        let (meta, reader) = (&self.file.meta, probe.reader);
        let mut passes = self.filter.passes(meta, key.fingerprint, reader)?;
        let mut slots = None;
        if passes != Some(false)
            && let Some(tries) = self.tries(reader)?
        {
            let led_to = tries.slots(key.digest.hi);
            if let Some(fragments) = self.fragments(reader)? {
                passes = Some(led_to.clone().any(|slot| fragments.may_hold(slot, key.fingerprint)));
            }
            slots = Some(led_to);
        }
        Asked { table: meta, passes, keeps_answer: false }.answer(key, probe, |probe| {
            let slots = match slots {
                Some(slots) => slots,
                None => {
                    let slot = self.search(key.digest, probe)?;
                    slot..(slot + 1).min(meta.entries as usize)
                }
            };
            for slot in slots {
                let (chunk, slot) = self.chunk_of(slot);
                let bytes = self.file.slot(chunk, slot, probe)?;
                let found = self.file.lookup(chunk, &bytes, key.key, probe)?;
                if found != Answer::Absent {
                    return Ok(found);
                }
            }
            Ok(Answer::Absent)
        })
    }

    /// The digest of the entry in a slot.
    fn digest(&self, slot: usize, probe: &mut Probe<'_>) -> Result<Digest, Pause> {
        let (chunk, slot) = self.chunk_of(slot);
        let bytes = self.file.slot(chunk, slot, probe)?;
        let record = self.file.record(chunk, &bytes, probe)?;
        let key = record.as_ref().and_then(|(record, parts)| parts.key(record));
        Ok(probe.encoder.encode(key.ok_or_else(|| self.file.malformed(chunk, probe.reader))?)?.digest)
    }

    /// The first slot whose entry is at or after `digest`, without the trie: there is none such before `low`,
    /// and at `high` there is one.
    fn search(&self, digest: Digest, probe: &mut Probe<'_>) -> Result<usize, Pause> {
        let meta = &self.file.meta;
        let (mut low, mut high) = (0, meta.entries as usize);
        let (mut first, mut last) = (meta.first.0.hi, meta.last.0.hi);
        for step in 0.. {
            if low == high {
                break;
            }
            let middle = place_to_look_at(step, &(low..high), (first, last), digest.hi);
            let found = self.digest(middle, probe)?;
            if found < digest {
                (low, first) = (middle + 1, found.hi.min(last));
            } else {
                (high, last) = (middle, found.hi.max(first));
            }
        }
        Ok(low)
    }
}

impl Chunked for SortedStore {
    fn file(&self) -> &SlotFile {
        &self.file
    }

    fn chunk(&self, number: usize, _: &Reader) -> Result<Option<Chunk>> {
        let slot = number.checked_mul(chunk_slots(self.file.layout));
        let slot = slot.filter(|slot| (*slot as u64) < self.file.meta.entries);
        Ok(slot.map(|slot| self.chunk_of(slot).0))
    }

    fn seek(&self, digest: Digest, encoder: &Encoder, reader: &Reader) -> Result<usize> {
        let slot = Probe::waiting(reader, encoder).complete(|probe| self.search(digest, probe))?;
        Ok(slot / chunk_slots(self.file.layout))
    }
}
