//! Flush: sealed write buffers become runs of level 0, oldest first.

use super::{Scheduler, describe};
use crate::activity::{ALL_FLUSHED, Activity, Count, FLUSHED, repeats};
use crate::compaction::merge::Source;
use crate::compaction::{Amount, Made, flush};
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::view::{Origin, View};
use crate::db::reporter::Outcome;
use crate::db::write_buffer::WriteBuffer;
use crate::entry::{Sequence, Span};
use crate::error::Result;
use crate::record::LogStart;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;
use crate::version::edit::Step;
use std::sync::Arc;

impl Scheduler {
    /// Flushes the oldest sealed write buffer of `keyspace`; false where there is none.
    pub fn flush_one(&self, keyspace: &Arc<OpenKeyspace>) -> Result<bool> {
        // Two flushes of one buffer would make two runs of it.
        let flushing = self.flushing.lock();
        let view = keyspace.view.load_full();
        let Some(sealed) = view.sealed.last() else { return Ok(false) };
        // Tables hold what everybody may see.
        let newest = sealed.buffer.newest_within_group();
        if newest.is_some_and(|newest| newest > self.catalog.visible()) {
            return Ok(false);
        }
        let flush = || {
            let flushed = self.flush_buffer(keyspace, &view, &sealed.buffer);
            drop(flushing);
            flushed
        };
        match self.reporter.job(|| describe::flush(keyspace, sealed), flush, std::mem::take) {
            Err(error) if self.gave_up(&error) => Ok(true),
            outcome => {
                outcome?;
                self.filter_work.note_flush(self.env.now_ms());
                self.look_for_large_group(keyspace);
                self.looks_for_designs.store(true, Ordering::Relaxed);
                Ok(true)
            }
        }
    }

    /// Flushes all sealed write buffers of a copy, which nobody else does, and tells nobody: the caller may
    /// hold the lock on commits, and holds that on flushes.
    pub fn flush_copy(&self, copy: &Arc<OpenKeyspace>, _flushing: &MutexGuard<'_, ()>) -> Result<()> {
        loop {
            let view = copy.view.load_full();
            let Some(sealed) = view.sealed.last() else { return Ok(()) };
            self.flush_buffer(copy, &view, &sealed.buffer)?;
        }
    }

    /// Makes a run of the oldest sealed write buffer in `view`. The caller holds the lock on flushing.
    fn flush_buffer(
        &self,
        keyspace: &Arc<OpenKeyspace>,
        view: &View,
        buffer: &WriteBuffer,
    ) -> Result<Outcome> {
        let newest = buffer.newest_within_group();
        // The next buffer says from where on the log is still needed. While it is empty, so does the present
        // segment: what is being appended now, and will be inserted, stands there or later.
        let next = view.sealed.iter().rev().nth(1).map_or(&view.active, |sealed| &sealed.buffer);
        let log = &self.catalog.log;
        let start = still_needed_from(|| log.segment(), || next.log_start());
        // Other keyspaces' earlier writes must not be lost where this one's later ones are kept, nor the rest
        // of a batch that the next buffer holds.
        if newest.is_some_and(|newest| newest >= start.lsn) {
            log.sync()?;
        } else if self.catalog.len() > 1 {
            log.sync_before(start.segment)?;
        }
        let scan = buffer.scan(Sequence::MAX, keyspace.encoder, &self.env.reader, true)?;
        let source = Source { cursor: scan.stream(&Span::ALL)?, tombstones: scan.tombstones };
        let pace = |bytes| self.pace_flush(keyspace, bytes);
        let mut output = self.with_context(keyspace, &view.version, &pace, |context| {
            let amount = Amount { entries: buffer.entries(), bytes: buffer.user_bytes() };
            flush(context, &view.version, vec![source], amount)
        })?;
        self.count_written(&output.steps);
        self.env.sync_dir()?;
        // Only estimates.
        let _ = self.note_kills(keyspace, &mut output.steps);
        let input = describe::buffer_part(buffer);
        let bytes_read = if WriteBuffer::reads_from_log(&view.version.design) { input.bytes } else { 0 };
        let outcome = describe::outcome(&[input], bytes_read, &output);
        let user_bytes = view.version.user_bytes + buffer.user_bytes();
        output.steps.push(Step::Flushed { start, user_bytes });
        let activity = self.count_flush(keyspace, buffer, output.made);
        output.steps.push(Step::Activity(Box::new(activity)));
        let newer = if self.is_newer(keyspace, buffer) { output.runs() } else { Vec::new() };
        self.catalog.commit(keyspace, output, Origin::Buffer(buffer))?;
        self.note_flushed(keyspace, buffer, newer);
        Ok(outcome)
    }

    /// Counts a flush that has `made` this of `buffer`, and returns what was done with the keyspace.
    fn count_flush(&self, keyspace: &OpenKeyspace, buffer: &WriteBuffer, made: Made) -> Activity {
        let (now_ms, puts) = (self.env.now_ms(), buffer.entries());
        let again = repeats(puts, made.entries, keyspace.overwrites());
        let took = [
            (Count::Flushes, 1),
            (Count::AllFlushes, 1),
            (Count::FlushedPuts, puts),
            (Count::FlushedEntries, made.entries),
            (Count::FlushedGroups, made.groups),
        ];
        let again = [FLUSHED, ALL_FLUSHED].into_iter().flat_map(|counts| counts.into_iter().zip(again));
        let mut done = Activity::default();
        took.into_iter().chain(again).for_each(|(count, number)| done.add(count, number));
        done.add_values(&made.values);
        keyspace.counters.done.add_all(&done);
        keyspace.note_activity(keyspace.items_estimate(now_ms), now_ms)
    }

    /// Holds a flush of `keyspace` back that has written `bytes` more, while no other write buffer waits for
    /// its flush.
    fn pace_flush(&self, keyspace: &OpenKeyspace, bytes: u64) {
        if keyspace.is_copy() {
            // Writers may be waiting.
            return;
        }
        let is_lifted = || keyspace.view.load().sealed.len() > 1 || self.is_given_up(keyspace);
        self.flush_limit.hold_back(bytes, is_lifted, |time| self.env.signals.wait_for_more_work(time));
    }
}

/// From where on the log is needed once a write buffer is in tables: where the next one's entries begin,
/// or, while that is empty, at the present segment.
///
/// The present segment is asked for first. Between the two questions the next buffer may be filled, and
/// the log go on to another segment; asked for last, that one would be taken for the buffer's first.
fn still_needed_from(
    present: impl FnOnce() -> LogStart,
    next: impl FnOnce() -> Option<LogStart>,
) -> LogStart {
    let present = present();
    next().unwrap_or(present)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_buffer_that_is_filled_while_it_is_asked_keeps_its_log() {
        let at = |segment| LogStart { segment, lsn: segment * 100 };
        let (segment, filled_from) = (Cell::new(7), Cell::new(None));
        // A writer that fills the buffer after whatever is asked first.
        let asked = || {
            if filled_from.get().is_none() {
                filled_from.set(Some(at(segment.get())));
                segment.set(8);
            }
        };
        let present = || {
            let present = at(segment.get());
            asked();
            present
        };
        let next = || {
            let next = filled_from.get();
            asked();
            next
        };
        assert_eq!(still_needed_from(present, next), at(7));
        assert_eq!(still_needed_from(|| at(9), || None), at(9));
    }
}

#[cfg(all(test, siltstone_shuttle))]
mod interleavings {
    use crate::db::explored_store::open;
    use crate::io::sim::{CrashMode, SimDisk};
    use crate::sync::{explore, thread};

    /// A write buffer is flushed, and no other, while the next one, empty so far, is written to and sealed in
    /// its turn: what was acknowledged is there after a power cut, whichever came first.
    #[test]
    fn a_flush_leaves_the_log_what_is_written_meanwhile() {
        explore(1_500, || {
            let disk = SimDisk::new();
            let (db, items) = open(&disk);
            items.put("a", "1").unwrap();
            db.store.committer.seal_all().unwrap();
            let flusher = {
                let db = db.clone();
                thread::spawn(move || assert!(db.store.scheduler.flush_any().unwrap()))
            };
            items.put("b", "2").unwrap();
            db.store.committer.seal_all().unwrap();
            items.put("c", "3").unwrap();
            flusher.join().unwrap();
            let found = disk.crash(CrashMode::PowerCut, 0);
            let (_db, items) = open(&found);
            for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
                assert_eq!(items.get(key).unwrap().as_deref(), Some(value.as_bytes()), "{key}");
            }
        });
    }
}
