//! Lookups in a hash store: tags, then the slots whose tags agree, mostly one or none.
//!
//! Where the tags don't fit the memory budget, the two buckets of a key are read instead (SILT §4, fail-graceful indexing).

use super::FORM;
use crate::cache::Reader;
use crate::codec::Decoder;
use crate::entry::Lookup;
use crate::error::Result;
use crate::stats::ReadTrace;
use crate::table::envelope::TableMeta;
use crate::table::parts::{Resident, Worth};
use crate::table::slots::SlotLayout;
use crate::table::slots::cursor::Chunked;
use crate::table::slots::read::{Chunk, SlotFile};
use siltstone_design::{Digest, EncodedKey, Encoder};
use siltstone_succinct::error::DecodeError;
use siltstone_succinct::index::partial_key_cuckoo::{HashFilter, LANES, PartialKeyCuckoo};

/// An open hash store.
pub(crate) struct HashStore {
    file: SlotFile,
    directory: Resident<Vec<Place>>,
    tags: Resident<Vec<HashFilter>>,
}

/// One cuckoo table of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    first: Digest,
    buckets: u32,
    data_page: u32,
}

impl Place {
    fn chunk(&self) -> Chunk {
        Chunk { data_page: self.data_page, slots: self.buckets as usize * LANES }
    }
}

/// The cuckoo tables that an index section tells of.
pub(crate) fn decode_directory(
    bytes: &[u8],
    layout: SlotLayout,
) -> std::result::Result<Vec<Place>, DecodeError> {
    let wrong = |found: &str| DecodeError::new("hash store, index", "ascending cuckoo tables", found);
    let mut from = Decoder::new(bytes);
    let (mut places, mut data_page): (Vec<Place>, u32) = (Vec::new(), 0);
    while !from.is_empty() {
        let (Some(hi), Some(lo), Some(buckets)) = (from.u64(), from.u64(), from.varint()) else {
            return Err(wrong("a cut-off table"));
        };
        let first = Digest { hi, lo };
        let lanes =
            (buckets as usize).checked_mul(LANES).filter(|lanes| *lanes > 0 && *lanes <= u32::MAX as usize);
        let Some(lanes) = lanes else { return Err(wrong("a table of no size that could be")) };
        if places.last().is_some_and(|before| before.first > first) {
            return Err(wrong("tables out of order"));
        }
        places.push(Place { first, buckets: buckets as u32, data_page });
        let pages = u32::try_from(layout.pages_for(lanes)).ok();
        let next = pages.and_then(|pages| data_page.checked_add(pages));
        data_page = next.ok_or_else(|| wrong("more than 2^32 pages"))?;
    }
    Ok(places)
}

/// The tags of every cuckoo table.
pub(crate) fn decode_tags(bytes: &[u8]) -> std::result::Result<Vec<HashFilter>, DecodeError> {
    let mut from = Decoder::new(bytes);
    let mut tables = Vec::new();
    while !from.is_empty() {
        let table =
            from.bytes().ok_or_else(|| DecodeError::new("hash store, filter", "tags", "a cut-off table"))?;
        tables.push(HashFilter::from_bytes(table)?);
    }
    Ok(tables)
}

impl HashStore {
    pub fn new(meta: TableMeta) -> Self {
        Self { file: SlotFile::new(meta), directory: Resident::default(), tags: Resident::default() }
    }

    fn directory(&self, reader: &Reader) -> Result<&[Place]> {
        let (meta, layout) = (&self.file.meta, self.file.layout);
        let decode = |bytes: &[u8]| decode_directory(bytes, layout);
        let loaded = self.directory.load(meta, &meta.index, Worth::Needed, reader, decode)?;
        Ok(loaded.map_or(&[], Vec::as_slice))
    }

    fn tags(&self, reader: &Reader) -> Result<Option<&[HashFilter]>> {
        let meta = &self.file.meta;
        let loaded = self.tags.load(meta, &meta.filter, Worth::Filter, reader, decode_tags)?;
        Ok(loaded.map(Vec::as_slice))
    }

    /// Loads the tags, if they fit the budget.
    pub fn load(&self, reader: &Reader) -> Result<()> {
        self.tags(reader).map(|_| ())
    }

    /// Bytes of the budget that are held by what lookups can do without.
    pub fn spare_bytes(&self) -> u64 {
        self.tags.held_bytes()
    }

    /// What this store says about `key`.
    pub fn get(&self, key: &EncodedKey<'_>, reader: &Reader, trace: &mut ReadTrace) -> Result<Lookup> {
        let directory = self.directory(reader)?;
        // Mostly one; keys of equal digests may stand on both sides of where one table ends.
        let end = directory.partition_point(|place| place.first <= key.digest);
        let start = directory.partition_point(|place| place.first < key.digest).saturating_sub(1);
        let tags = self.tags(reader)?;
        trace.filter_probes += u64::from(tags.is_some());
        let mut was_probed = false;
        for number in (start..end).rev() {
            let Some(place) = directory.get(number) else { continue };
            let chunk = place.chunk();
            let mut look = |lane: usize| {
                trace.tables_probed += u64::from(!was_probed);
                was_probed = true;
                let bytes = self.file.slot(chunk, lane, reader, trace)?;
                self.file.lookup(chunk, &bytes, key.key, reader, trace)
            };
            let mut lanes = |lanes: &mut dyn Iterator<Item = usize>| {
                lanes.map(&mut look).find(|found| !matches!(found, Ok(Lookup::Absent)))
            };
            let found = match tags.map(|tags| tags.get(number)) {
                Some(tags) => {
                    let candidates = tags.map(|tags| tags.candidates(key.fingerprint)).unwrap_or_default();
                    lanes(
                        &mut candidates.iter().map(|lane| *lane as usize).filter(|lane| *lane < chunk.slots),
                    )
                }
                None => {
                    let [first, second] = PartialKeyCuckoo::buckets_of(FORM, place.buckets, key.fingerprint);
                    let second = Some(second).filter(|second| *second != first);
                    let buckets = std::iter::once(first).chain(second);
                    lanes(
                        &mut buckets
                            .flat_map(|bucket| bucket as usize * LANES..(bucket as usize + 1) * LANES),
                    )
                }
            };
            if let Some(found) = found {
                return found;
            }
        }
        trace.false_positives += u64::from(was_probed && tags.is_some());
        Ok(Lookup::Absent)
    }
}

impl Chunked for HashStore {
    fn file(&self) -> &SlotFile {
        &self.file
    }

    fn chunk(&self, number: usize, reader: &Reader) -> Result<Option<Chunk>> {
        Ok(self.directory(reader)?.get(number).map(Place::chunk))
    }

    fn seek(&self, digest: Digest, _: &Encoder, reader: &Reader) -> Result<usize> {
        Ok(self.directory(reader)?.partition_point(|place| place.first < digest).saturating_sub(1))
    }
}
