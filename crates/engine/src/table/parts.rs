//! Reading what tables of all formats have: sections behind the pages, structures kept in memory, overflow
//! pages; and the one way in which a lookup asks a table ([`Asked`]).

use super::envelope::{PAGE_HEADER_BYTES, PAYLOAD_BYTES, Section, TableMeta};
use super::filter::TableFilter;
use crate::cache::{PAGE_BYTES, Pause, Probe, Reader};
use crate::entry::Answer;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{FilterWorth, Holder, Reservation};
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::leaf::atomic::AtomicU32;
use siltstone_design::EncodedKey;
use siltstone_succinct::error::DecodeError;
use std::ops::Range;
use std::sync::Arc;

/// Steps of a search without an index that interpolate; what is left then is halved.
const INTERPOLATIONS: usize = 8;

/// Where to look next for digest half `wanted` among the places of `range`, which is not empty and whose
/// digests lie between `first` and `last`: since digests are spread evenly, where its share of them is. What
/// `step` steps have not found is searched by halves.
pub(crate) fn place_to_look_at(
    step: usize,
    range: &Range<usize>,
    (first, last): (u64, u64),
    wanted: u64,
) -> usize {
    let count = range.len();
    if step >= INTERPOLATIONS {
        return range.start + count / 2;
    }
    let width = u128::from(last.saturating_sub(first)) + 1;
    let share = u128::from(wanted.saturating_sub(first)) * count as u128 / width;
    range.start + (share as usize).min(count.saturating_sub(1))
}

/// How much a structure is worth its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// Spares reads of tables without the key: kept while others do not spare more for as many bytes.
    Filter,
    /// Spares the search for a page: kept while there is room.
    Index,
    /// Small, and nothing can be read without it.
    Needed,
}

/// A structure of a table that is kept in memory, once it is loaded, with its share of the budget.
pub(crate) struct Resident<T> {
    loaded: OnceLock<(T, Reservation)>,
    /// A reader that loads has asked for it, so that any may load it from then on.
    asked: AtomicBool,
    /// Its section can't be read; the table is searched without.
    is_damaged: AtomicBool,
    /// See [`FilterWorth`]; of a filter alone.
    worth: AtomicU32,
}

impl<T> Default for Resident<T> {
    fn default() -> Self {
        let (asked, is_damaged) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            loaded: OnceLock::new(),
            asked,
            is_damaged,
            worth: AtomicU32::new(FilterWorth::UNKNOWN.to_bits()),
        }
    }
}

impl<T> Resident<T> {
    /// Bytes of the budget that it holds.
    pub fn held_bytes(&self) -> u64 {
        self.loaded.get().map_or(0, |(_, held)| held.bytes())
    }

    /// Notes what the filter is worth.
    pub fn set_worth(&self, worth: FilterWorth) {
        self.worth.store(worth.to_bits(), Ordering::Relaxed);
    }

    fn worth(&self) -> FilterWorth {
        FilterWorth::from_bits(self.worth.load(Ordering::Relaxed))
    }

    /// The structure that `section` of `table` holds; `None` where its worth is not the memory it takes, or
    /// where it is left to background work to load.
    pub fn load(
        &self,
        table: &TableMeta,
        section: &Section,
        worth: Worth,
        reader: &Reader,
        decode: impl Fn(&[u8]) -> std::result::Result<T, DecodeError>,
    ) -> Result<Option<&T>> {
        if let Some((loaded, _)) = self.loaded.get() {
            return Ok(Some(loaded));
        }
        if self.is_damaged.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if worth != Worth::Needed && !self.asked.load(Ordering::Relaxed) {
            if !reader.loads() {
                return Ok(None);
            }
            self.asked.store(true, Ordering::Relaxed);
        }
        if worth == Worth::Filter && self.worth() <= reader.filters_refused() {
            return Ok(None);
        }
        let memory = reader.memory();
        // What the structure takes in memory differs little from its encoding.
        let bytes = section.length;
        let held = match worth {
            Worth::Filter => memory.try_hold(Holder::Filter, bytes),
            Worth::Index => memory.try_hold(Holder::Index, bytes),
            Worth::Needed => Some(memory.hold(Holder::Index, bytes)),
        };
        let Some(held) = held else { return Ok(None) };
        let decoded = read_section(table, section, reader)
            .and_then(|bytes| decode(&bytes).map_err(|e| damaged(table, section.offset, &e, reader)));
        let decoded = match decoded {
            Err(error) if worth != Worth::Needed && error.kind() == ErrorKind::Corruption => {
                // Lookups read more, as where there is no room for it; verification says what is wrong.
                self.is_damaged.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            decoded => decoded?,
        };
        reader.fit_cache();
        Ok(Some(&self.loaded.get_or_init(|| (decoded, held)).0))
    }
}

impl Resident<TableFilter> {
    /// The filter of `table`, if it has one and it fits the budget.
    pub fn filter(&self, table: &TableMeta, reader: &Reader) -> Result<Option<&TableFilter>> {
        let Some(decode) = TableFilter::decoder(table.kept_keys.own_filter()) else { return Ok(None) };
        if table.filter.length == 0 {
            return Ok(None);
        }
        self.load(table, &table.filter, Worth::Filter, reader, decode)
    }

    /// Whether that filter lets the key with this fingerprint pass; `None` where there is none to ask.
    #[inline]
    pub fn passes(&self, table: &TableMeta, fingerprint: u64, reader: &Reader) -> Result<Option<bool>> {
        Ok(self.filter(table, reader)?.map(|filter| filter.may_contain(fingerprint)))
    }
}

/// A section's checked bytes.
pub(crate) fn read_section(table: &TableMeta, section: &Section, reader: &Reader) -> Result<Vec<u8>> {
    let bytes = reader.section(table.id, section.offset, section.length as usize)?;
    let found = crc32c::crc32c(&bytes);
    if found == section.crc {
        return Ok(bytes);
    }
    Err(Error::corruption(
        &reader.path(table.id),
        section.offset,
        format_args!("a section with checksum {:08x}", section.crc),
        format_args!("{found:08x}"),
    ))
}

/// What to say of bytes at `offset` that are not what they should be.
pub(crate) fn damaged(table: &TableMeta, offset: u64, error: &DecodeError, reader: &Reader) -> Error {
    Error::corruption(&reader.path(table.id), offset, error.expected(), error.found())
}

/// What to say of a page whose checksum is right and whose entries make no sense.
pub(crate) fn page_malformed(table: &TableMeta, page: u32, reader: &Reader) -> Error {
    let offset = u64::from(page) * PAGE_BYTES as u64;
    Error::corruption(&reader.path(table.id), offset, "a page of entries", "malformed entries")
}

/// Returns the `length` bytes of overflow pages from `page` on, in one read.
pub(crate) fn read_overflow(
    table: &TableMeta,
    page: u32,
    length: usize,
    probe: &mut Probe<'_>,
) -> Result<Vec<u8>, Pause> {
    let pages = length.div_ceil(PAYLOAD_BYTES);
    if u64::from(page) + pages as u64 > u64::from(table.pages) {
        return Err(page_malformed(table, page, probe.reader).into());
    }
    // What the pages hold moves together where it is: there may be a gigabyte of it.
    let mut bytes = Arc::unwrap_or_clone(probe.pages(table.id, page, pages as u32)?);
    for page in 0..bytes.len() / PAGE_BYTES {
        let from = page * PAGE_BYTES + PAGE_HEADER_BYTES;
        bytes.copy_within(from..from + PAYLOAD_BYTES, page * PAYLOAD_BYTES);
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// A table that a lookup asks, and what its filter says of the key.
pub(crate) struct Asked<'a> {
    pub table: &'a TableMeta,
    /// Whether the filter lets the key pass; `None` where there is none to ask.
    pub passes: Option<bool>,
    /// Whether what the table says is kept in the row cache.
    pub keeps_answer: bool,
}

impl Asked<'_> {
    /// Returns what the table says of `key`: nothing where its filter stops the key, what it said before
    /// where that is kept, else what `look_up` finds in its pages. The costs count once all of it is done.
    #[inline]
    pub fn answer(
        self,
        key: &EncodedKey<'_>,
        probe: &mut Probe<'_>,
        look_up: impl FnOnce(&mut Probe<'_>) -> Result<Answer, Pause>,
    ) -> Result<Answer, Pause> {
        let Self { table, passes, keeps_answer } = self;
        if passes == Some(false) {
            probe.trace.filter_probes += 1;
            return Ok(Answer::Absent);
        }
        let known = if keeps_answer { probe.reader.known_answer(table.id, key, probe.wants) } else { None };
        let answer = match known {
            Some(known) => known,
            None => {
                let found = look_up(probe)?;
                if keeps_answer {
                    probe.reader.keep_answer(table.id, key, &found);
                }
                found
            }
        };
        let is_filtered = passes.is_some();
        probe.trace.filter_probes += u64::from(is_filtered);
        probe.trace.tables_probed += 1;
        probe.trace.false_positives += u64::from(is_filtered && answer == Answer::Absent);
        Ok(answer)
    }
}
