//! Lookups in a hash store: tags, then the slots whose tags agree, mostly one or none.
//!
//! Where the tags don't fit the memory budget, the two buckets of a key are read instead (SILT §4,
//! fail-graceful indexing).

use super::FORM;
use crate::cache::{Pause, Probe, Reader};
use crate::codec::Decoder;
use crate::entry::Answer;
use crate::error::Result;
use crate::memory::FilterWorth;
use crate::table::envelope::TableMeta;
use crate::table::parts::{Asked, Resident, Worth};
use crate::table::slots::SlotLayout;
use crate::table::slots::cursor::Chunked;
use crate::table::slots::read::{Chunk, SlotFile};
use crate::table::walk::Described;
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

impl Described for HashStore {
    #[inline]
    fn meta(&self) -> &TableMeta {
        &self.file().meta
    }
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

    /// Notes what the filter is worth.
    pub fn set_filter_worth(&self, worth: FilterWorth) {
        self.tags.set_worth(worth);
    }

    /// Bytes of the budget that the filter holds.
    pub fn filter_bytes(&self) -> u64 {
        self.tags.held_bytes()
    }

    /// Bytes of the budget that are held by what lookups can do without.
    pub fn spare_bytes(&self) -> u64 {
        self.filter_bytes()
    }

    /// Returns what this store says about `key`.
    pub fn get(&self, key: &EncodedKey<'_>, probe: &mut Probe<'_>) -> Result<Answer, Pause> {
        let directory = self.directory(probe.reader)?;
        // Mostly one; keys of equal digests may stand on both sides of where one table ends.
        let end = directory.partition_point(|place| place.first <= key.digest);
        let start = directory.partition_point(|place| place.first < key.digest).saturating_sub(1);
        let places = directory.get(start..end).unwrap_or_default();
        let Some(tags) = self.tags(probe.reader)? else {
            let asked = Asked { table: &self.file.meta, passes: None, keeps_answer: false };
            return asked.answer(key, probe, |probe| self.look_in_buckets(places, key, probe));
        };
        // The tables that have the key's tag, newest first, with the lanes of the first.
        let mut tagged = places.iter().zip(tags.get(start..end).unwrap_or_default()).rev();
        let first = tagged.find_map(|(place, tags)| {
            let lanes = tags.candidates(key.fingerprint);
            (!lanes.is_empty()).then_some((place, lanes))
        });
        let asked = Asked { table: &self.file.meta, passes: Some(first.is_some()), keeps_answer: false };
        asked.answer(key, probe, |probe| {
            if let Some((place, lanes)) = first {
                let found = self.look_in_lanes(place, lanes.iter().map(|lane| *lane as usize), key, probe)?;
                if found != Answer::Absent {
                    return Ok(found);
                }
            }
            for (place, tags) in tagged {
                let lanes = tags.candidates(key.fingerprint);
                let found = self.look_in_lanes(place, lanes.iter().map(|lane| *lane as usize), key, probe)?;
                if found != Answer::Absent {
                    return Ok(found);
                }
            }
            Ok(Answer::Absent)
        })
    }

    /// Returns what both buckets of `key` say, in each of `places`, where there are no tags to ask.
    fn look_in_buckets(
        &self,
        places: &[Place],
        key: &EncodedKey<'_>,
        probe: &mut Probe<'_>,
    ) -> Result<Answer, Pause> {
        for place in places.iter().rev() {
            let [first, second] = PartialKeyCuckoo::buckets_of(FORM, place.buckets, key.fingerprint);
            let second = Some(second).filter(|second| *second != first);
            let buckets = std::iter::once(first).chain(second);
            let lanes = buckets.flat_map(|bucket| bucket as usize * LANES..(bucket as usize + 1) * LANES);
            let found = self.look_in_lanes(place, lanes, key, probe)?;
            if found != Answer::Absent {
                return Ok(found);
            }
        }
        Ok(Answer::Absent)
    }

    /// Returns what the slots of `lanes` say about `key`.
    #[inline]
    fn look_in_lanes(
        &self,
        place: &Place,
        lanes: impl Iterator<Item = usize>,
        key: &EncodedKey<'_>,
        probe: &mut Probe<'_>,
    ) -> Result<Answer, Pause> {
        let chunk = place.chunk();
        for lane in lanes.filter(|lane| *lane < chunk.slots) {
            let bytes = self.file.slot(chunk, lane, probe)?;
            let found = self.file.lookup(chunk, &bytes, key.key, probe)?;
            if found != Answer::Absent {
                return Ok(found);
            }
        }
        Ok(Answer::Absent)
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
