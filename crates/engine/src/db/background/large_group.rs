//! Keyspaces whose schema divides nothing, as absolute paths that end their prefix with the first slash: who
//! listens is told once.

use super::Scheduler;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::entry::Span;
use crate::events::LargeGroup;
use crate::table::ReadMode;
use siltstone_design::Schema;
use std::sync::Arc;

/// Bytes of tables from which on a group is worth a word.
const LEAST_BYTES: u64 = 1 << 20;

impl Scheduler {
    /// Says so where one group holds most of `keyspace`, unless that was said before.
    pub(in crate::db) fn look_for_large_group(&self, keyspace: &OpenKeyspace) {
        self.reporter.group_holds_most(|| {
            let group = self.large_group(keyspace)?;
            keyspace.note_large_group().then_some(group)
        });
    }

    fn large_group(&self, keyspace: &OpenKeyspace) -> Option<LargeGroup> {
        let schema = *keyspace.encoder.schema();
        if schema == Schema::Point {
            return None;
        }
        let version = keyspace.version();
        let of_bytes: u64 = version.tables().map(|table| table.meta().bytes).sum();
        let (hi, bytes) = version.largest_group().filter(|_| of_bytes >= LEAST_BYTES)?;
        if bytes <= of_bytes / 2 {
            return None;
        }
        // The prefix itself stands in the group's keys. One that can't be read is not worth an error.
        let table = version.tables().find(|table| table.meta().largest_group.0 == hi)?;
        let mode = ReadMode::Short(Arc::default());
        let cursor = table.stream(Span::of_hi(hi, hi), mode, &self.env.reader).ok()?;
        let prefix = String::from_utf8_lossy(cursor.peek()?.key.prefix()).into_owned();
        Some(LargeGroup { keyspace: keyspace.name.clone(), schema: schema.name(), prefix, bytes, of_bytes })
    }
}
