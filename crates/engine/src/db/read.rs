//! THE READ PATH.
//!
//! Pin a view → memtables, newest first → per level the one region on the key's path → its runs, newest first, each with at
//! most one table that may hold the key → filter, index, one page. The first answer ends it.

use super::store::{KeyspaceInner, Store, View};
use crate::entry::Lookup;
use crate::error::Result;
use crate::memtable::Sequence;
use crate::stats::ReadTrace;
use siltstone_design::EncodedKey;

impl Store {
    /// The value of `key` as `sequence` sees it in `view`.
    pub(super) fn get(
        &self,
        keyspace: &KeyspaceInner,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let mut trace = ReadTrace::default();
        let found = self.search(view, sequence, key, &mut trace)?;
        keyspace.counters.note_get(found.is_some(), &trace);
        Ok(found)
    }

    fn search(
        &self,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
        trace: &mut ReadTrace,
    ) -> Result<Option<Vec<u8>>> {
        for memtable in view.memtables() {
            if let Some(answer) = self.answer(memtable.get(key, sequence)) {
                return Ok(answer);
            }
        }
        for level in &view.version.levels {
            let Some(region) = level.region_of(key.digest.hi) else { continue };
            for run in &region.runs {
                if let Some(table) = run.table_for(key.digest, key.key)
                    && let Some(answer) = self.answer(table.get(key, &self.reader, trace)?)
                {
                    return Ok(answer);
                }
                if run.tombstones.hides(key) {
                    return Ok(None);
                }
            }
        }
        Ok(None)
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
