//! THE READ PATH.
//!
//! Pin a view → memtables, newest first → per level the one region on the key's path → its runs, newest first, each with at
//! most one table that may hold the key → filter, index, one page. The first answer ends it.

use super::store::{KeyspaceInner, Store, View};
use crate::cache::TableId;
use crate::entry::Lookup;
use crate::error::Result;
use crate::memtable::Sequence;
use crate::stats::ReadTrace;
use crate::version::level::Candidate;
use siltstone_design::EncodedKey;

/// What a search ends with.
#[derive(Default)]
pub(super) struct Found {
    pub value: Option<Vec<u8>>,
    /// The table whose entry ended it; 0 where a memtable's did, or none was found.
    pub table: TableId,
}

impl Store {
    /// The value of `key` as `sequence` sees it in `view`.
    pub(super) fn get(
        &self,
        keyspace: &KeyspaceInner,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.find(keyspace, view, sequence, key)?.value)
    }

    /// The same, with where it was found.
    pub(super) fn find(
        &self,
        keyspace: &KeyspaceInner,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
    ) -> Result<Found> {
        let mut trace = ReadTrace::default();
        let found = self.search(view, sequence, key, &mut trace)?;
        keyspace.counters.note_get(found.value.is_some(), &trace);
        Ok(found)
    }

    fn search(
        &self,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
        trace: &mut ReadTrace,
    ) -> Result<Found> {
        for memtable in view.memtables() {
            if let Some(value) = self.answer(memtable.get(key, sequence)) {
                return Ok(Found { value, table: 0 });
            }
        }
        for level in &view.version.levels {
            let Some(region) = level.region_of(key.digest.hi) else { continue };
            let probed_before = trace.tables_probed;
            trace.filter_probes += u64::from(region.guide.is_some());
            for (run, is_candidate) in region.runs.iter().zip(region.candidates(key)) {
                if is_candidate != Candidate::No
                    && let Some(table) = run.table_for(key.digest, key.key)
                {
                    let found = self.answer(table.get(key, &self.reader, trace)?);
                    trace.note_region(probed_before);
                    if let Some(value) = found {
                        return Ok(Found { value, table: table.id() });
                    }
                    trace.false_positives += u64::from(is_candidate == Candidate::Yes);
                }
                if run.tombstones.hides(key) {
                    return Ok(Found::default());
                }
            }
        }
        Ok(Found::default())
    }

    /// What a lookup means for a get; the clock is read only for values that expire.
    fn answer(&self, lookup: Lookup) -> Option<Option<Vec<u8>>> {
        match lookup {
            Lookup::Absent => None,
            Lookup::Deleted => Some(None),
            Lookup::Put { value, expires_at_ms } => {
                let is_live = expires_at_ms == 0 || self.disk.now_ms() < expires_at_ms;
                Some(is_live.then_some(value))
            }
        }
    }
}
