//! Flush: sealed heads become runs of level 0, oldest first.

use super::store::{KeyspaceInner, Store};
use crate::compaction::merge::Source;
use crate::compaction::{Amount, Context, flush};
use crate::entry::{Sequence, Span};
use crate::error::Result;
use crate::version::edit::Step;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Store {
    /// Flushes the oldest sealed head of `keyspace`; false where there is none.
    pub(super) fn flush_one(&self, keyspace: &Arc<KeyspaceInner>) -> Result<bool> {
        // Two flushes of one head would make two runs of it.
        let _flushing = self.flushing.lock();
        let view = keyspace.view.load_full();
        let Some(head) = view.sealed.last() else { return Ok(false) };
        // Tables hold what everybody may see.
        let newest = head.newest_within_group();
        if newest.is_some_and(|newest| newest > self.visible()) {
            return Ok(false);
        }
        // The next head says from where on the log is still needed. While it is empty, so does the present segment: what
        // is being appended now, and will be inserted, stands there or later.
        let next = view.sealed.iter().rev().nth(1).unwrap_or(&view.active);
        let current = self.wal.lock().as_ref().map(|wal| wal.segment()).unwrap_or_default();
        let start = next.log_start().unwrap_or(current);
        // Other keyspaces' earlier writes must not be lost where this one's later ones are kept, nor the rest of a batch that the
        // next head holds.
        let splits_segment = newest.is_some_and(|newest| newest >= start.lsn);
        let is_alone = self.keyspaces.read().len() == 1;
        let work = self.wal.lock().as_ref().and_then(|wal| match (splits_segment, is_alone) {
            (true, _) => wal.sync_work(),
            (false, true) => None,
            (false, false) => wal.sync_work_before(start.segment),
        });
        self.run_sync(work)?;
        let scan = head.scan(Sequence::MAX, keyspace.encoder, &self.reader, true)?;
        let source = Source { cursor: scan.stream(&Span::ALL)?, tombstones: scan.tombstones };
        let pace = |bytes| self.pace_flush(keyspace, bytes);
        let mut output = self.with_context(keyspace, &pace, |context| {
            let amount = Amount { entries: head.entries(), bytes: head.user_bytes() };
            flush(context, &view.version, vec![source], amount)
        })?;
        self.count_written(&output.steps);
        self.sync_tables()?;
        let user_bytes = view.version.user_bytes + head.user_bytes();
        output.steps.push(Step::Flushed { start, user_bytes });
        self.commit_steps(keyspace, output, Some(head))?;
        Ok(true)
    }

    /// Makes new tables' names durable; their bytes are already.
    pub(super) fn sync_tables(&self) -> Result<()> {
        self.disk
            .sync_dir(&self.path)
            .map_err(|e| crate::error::Error::io(&e, "syncing directory", &self.path))
            .inspect_err(|error| self.poison(error))
    }

    pub(super) fn count_written(&self, steps: &[Step]) {
        for step in steps {
            if let Step::Written { bytes, .. } = step {
                self.counters.table_bytes.add(*bytes);
            }
        }
    }

    /// Calls `work` with what compactions share.
    pub(super) fn with_context<T>(
        &self,
        keyspace: &KeyspaceInner,
        pace: &dyn Fn(u64),
        work: impl FnOnce(&Context<'_>) -> Result<T>,
    ) -> Result<T> {
        work(&Context {
            design: &keyspace.design,
            disk: self.disk.as_ref(),
            dir: &self.path,
            reader: &self.reader,
            now_ms: self.disk.now_ms(),
            next_id: &|| self.next_id(),
            pace,
            cancelled: &|| self.closed.load(Ordering::Relaxed) || keyspace.dropped.load(Ordering::Relaxed),
        })
    }
}
