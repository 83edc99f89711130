//! Room for writes: write buffers and the log are kept within their bounds, and writers wait where memory
//! would run away.

use super::Committer;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::health::Chore;
use crate::db::write_buffer::WriteBuffer;
use crate::error::Result;
use crate::events::{Reason, StallCause};
use crate::memory::Holder;
use crate::stats::Stopwatch;
use crate::sync::atomic::Ordering;
use siltstone_design::WriteBufferSpec;
use std::time::Duration;

/// The log is looked at again when it has grown by such a part of the budget.
const LOOKS_PER_BUDGET: u64 = 512;
/// The share of the memory budget that a segment of the log may take when it is replayed; smaller ones than
/// the least are not full.
const SEGMENTS_PER_BUDGET: u64 = 8;
const LEAST_FULL_SEGMENT_BYTES: u64 = 1 << 20;
const MOST_FULL_SEGMENT_BYTES: u64 = 4 << 30;
/// The share of the disk's reserve that a segment of the log may take where the disk is nearly full.
const SEGMENTS_PER_RESERVE: u64 = 16;
/// The disk is looked at whenever the log has grown by such a part of the disk's reserve, and by so many
/// bytes at least.
const LOOKS_PER_RESERVE: u64 = 16;
const LEAST_BETWEEN_LOOKS_BYTES: u64 = 1 << 20;
/// How full a write buffer gets before writers stop, where as many as may be wait for their flush.
const STOPPING_FILL: f64 = 0.5;
/// How long a writer waits before it looks again whether it can go on.
const LOOK: Duration = Duration::from_millis(20);
/// For how long flushes fail before writers that wait for them are told so.
const PATIENCE: Duration = Duration::from_secs(5);

impl Committer {
    /// Slows the writer by as much as compaction is behind, and stops it only where memory would run away:
    /// then it returns for how many microseconds that was, and why. Where flushes have failed for long, it
    /// returns why instead.
    pub(super) fn make_room(&self, bytes: u64) -> Result<Option<(u64, StallCause)>> {
        if self.env.options.background_threads == 0 {
            // There is nobody to wait for.
            return Ok(None);
        }
        self.pacer.pace(bytes, self.pressure(), &self.env.counters.paced_us);
        if !self.must_wait() {
            return Ok(None);
        }
        let cause = self.stall_cause();
        let stopwatch = Stopwatch::start();
        let waited = self.wait_while(|| self.must_wait());
        let us = stopwatch.elapsed_us();
        let counters = &self.env.counters;
        counters.stalls.add(1);
        counters.stall_us.add(us);
        counters.longest_stall_us.raise_to(us);
        waited.map(|()| Some((us, cause)))
    }

    /// Whether a write that began now would be slowed or stopped.
    pub fn is_slowed(&self) -> bool {
        self.env.options.background_threads > 0 && (self.pressure() > 0.0 || self.must_wait())
    }

    /// How far behind the work is on the keyspace where it is furthest, or how short of memory writers are.
    fn pressure(&self) -> f64 {
        self.catalog.behind_most(|keyspace| self.pressure_of(keyspace)).max(self.memory_pressure())
    }

    /// Of the memory that writers could have before they are stopped, the share that waits behind a flush.
    fn memory_pressure(&self) -> f64 {
        if self.env.signals.pool().is_some() {
            // Others hold it as well.
            return 0.0;
        }
        let (mut sealed_bytes, mut flushing) = (0, 0);
        self.catalog.each_behind(|keyspace| {
            for sealed in &keyspace.view.load().sealed {
                let bytes = sealed.buffer.memory_bytes();
                sealed_bytes += bytes;
                flushing = bytes.max(flushing);
            }
        });
        let waiting = sealed_bytes - flushing;
        if waiting == 0 {
            return 0.0;
        }
        let memory = self.env.memory();
        let left = memory.most_memtable_bytes().saturating_sub(memory.held_bytes(Holder::Memtable));
        waiting as f64 / (waiting + left) as f64
    }

    /// Whether memory would run away if more were written.
    fn must_wait(&self) -> bool {
        let is_overfull = || self.catalog.any_behind(|keyspace| self.is_overfull(keyspace));
        let is_short = || self.catalog.has_too_many_memtables() || self.is_stuck_with_memory();
        !self.env.health.is_over() && (is_short() || is_overfull())
    }

    /// Waits for room; an error where flushes have failed for long.
    fn wait_while(&self, must_wait: impl Fn() -> bool) -> Result<()> {
        let health = &self.env.health;
        while must_wait() {
            self.env.signals.wait_for_progress(LOOK);
            let Some((failing_for, error)) = health.stuck() else { continue };
            if health.space_is_low() {
                break;
            }
            if failing_for >= PATIENCE {
                let what =
                    format!("writing has stopped, since flushes have failed for {} s", failing_for.as_secs());
                let advice = "writing goes on by itself once they succeed, and what was written can be read";
                return Err(error.of(what).and(advice));
            }
            if health.fails_to_seal() {
                self.flush_largest();
            }
        }
        Ok(())
    }

    /// Whether write buffers take more than their share, and the store can't flush its own.
    fn is_stuck_with_memory(&self) -> bool {
        let memory = self.env.memory();
        memory.held_bytes(Holder::Memtable) > memory.most_memtable_bytes()
            && self.env.health.stuck().is_some()
    }

    /// Returns what a writer that has to stop waits for.
    fn stall_cause(&self) -> StallCause {
        let overfull = self.catalog.behind().into_iter().find(|keyspace| self.is_overfull(keyspace));
        if let Some(keyspace) = overfull {
            let sealed = keyspace.view.load().sealed.len() as u64;
            return StallCause::SealedBuffers { keyspace: keyspace.name.clone(), sealed };
        }
        let memory = self.env.memory();
        let (bytes, at_most) = (memory.held_bytes(Holder::Memtable), memory.most_memtable_bytes());
        StallCause::Memory { bytes, at_most }
    }

    /// Returns how far behind the work on a keyspace is: 0 on time, 1 badly late.
    fn pressure_of(&self, keyspace: &OpenKeyspace) -> f64 {
        let view = keyspace.view.load();
        let (sealed, most) = (view.sealed.len(), self.env.options.max_sealed_memtables as f64);
        if sealed == 0 {
            return keyspace.pressure();
        }
        let flushing = (sealed - 1) as f64 / most;
        // How far the last write buffers are filled that there is room for: where they are, writers stop. One
        // may always be under way.
        let filled = sealed as f64 + view.active.fill(&view.version.design);
        let free = (most - 1.0).max(1.0);
        let stopping = (filled - free) / (most + STOPPING_FILL - free);
        keyspace.pressure().max(flushing).max(stopping.min(1.0))
    }

    /// Why a write buffer is flushed early where the disk is nearly full: a log of deletes is not to take the
    /// room that is kept for clearing away what they delete.
    pub(super) fn log_takes_the_reserve(&self) -> Option<Reason> {
        if !self.env.health.space_is_low() {
            return None;
        }
        let (bytes, at_most) =
            (self.catalog.log.segment_bytes(), self.env.reserve_bytes() / SEGMENTS_PER_RESERVE);
        (bytes > at_most).then_some(Reason::LogTooLong { bytes, at_most })
    }

    /// Whether the keyspace can't take another write buffer's worth.
    fn is_overfull(&self, keyspace: &OpenKeyspace) -> bool {
        let view = keyspace.view.load();
        if self.env.health.space_is_low() && !view.sealed.is_empty() {
            return true;
        }
        view.sealed.len() >= self.env.options.max_sealed_memtables
            && view.active.fill(&view.version.design) >= STOPPING_FILL
    }

    /// Flushes the largest memtable where all together take more than their share, and none is being flushed.
    pub(super) fn bound_memtables(&self) {
        if let Some(pool) = self.env.signals.pool() {
            return pool.bound_memtables();
        }
        let memory = self.env.memory();
        if memory.held_bytes(Holder::Memtable) <= memory.most_memtable_bytes()
            || self.catalog.has_too_many_memtables()
            || self.holds_its_share_at_most()
        {
            return;
        }
        self.seal_largest();
    }

    /// Whether other stores hold the memory that memtables have too much: those that are stepped by hand and
    /// share it flush what they hold beyond an equal share.
    fn holds_its_share_at_most(&self) -> bool {
        let Some(shared) = &self.env.options.resources else { return false };
        let mut bytes = 0;
        self.catalog.each_written(|keyspace| bytes += keyspace.view.load().active.memory_bytes());
        bytes <= self.env.memory().most_memtable_bytes() / shared.caches().users().max(1) as u64
    }

    /// Has the largest memtable of the store flushed. The caller holds the commit lock.
    fn seal_largest(&self) {
        let memory = self.env.memory();
        let largest = self
            .catalog
            .written()
            .into_iter()
            .max_by_key(|keyspace| keyspace.view.load().active.memory_bytes());
        if let Some(keyspace) = largest {
            // A failure (a full disk) leaves the memtable as it is; the next write tries again.
            let bytes = keyspace.view.load().active.memory_bytes();
            let reason = Reason::MemoryBound { bytes, at_most: memory.most_memtable_bytes() };
            let _ = self.seal(&keyspace, reason);
        }
    }

    /// Has the largest memtable of the store flushed, as others that share its memory ask.
    pub fn flush_largest(&self) {
        let _commit = self.lock();
        self.seal_largest();
    }

    /// Looks how much of the disk is free where the log, which now ends at `end`, has grown by much since
    /// this was done last. Sealed buffers are one occasion for it, but where flushes are behind there may be
    /// none for long.
    pub(super) fn look_at_the_disk(&self, end: u64) {
        let step = (self.env.reserve_bytes() / LOOKS_PER_RESERVE).max(LEAST_BETWEEN_LOOKS_BYTES);
        if end.saturating_sub(self.looked_at.load(Ordering::Relaxed)) >= step {
            self.looked_at.store(end, Ordering::Relaxed);
            self.catalog.check_space();
        }
    }

    /// Flushes what holds the oldest part of an overlong log, or of one that would take much memory to
    /// replay: the budget bounds that too. Segments are replayed one at a time, so they are bounded as well.
    pub(super) fn bound_log(&self) {
        let options = &self.env.options;
        let budget = options.memory_budget_bytes;
        let log = &self.catalog.log;
        let full = budget / SEGMENTS_PER_BUDGET;
        if log.segment_bytes() > full.clamp(LEAST_FULL_SEGMENT_BYTES, MOST_FULL_SEGMENT_BYTES) {
            // A full disk is noticed by the next write.
            let _ = log.rotate();
        }
        let live = log.live_bytes();
        if live <= options.max_wal_bytes && live <= budget / 4 {
            return;
        }
        // Reckoning walks over all write buffers: not for every group, where there are many.
        let step = budget / LOOKS_PER_BUDGET + 1;
        if live <= options.max_wal_bytes
            && self.reckoned_at.swap(live / step, Ordering::Relaxed) == live / step
        {
            return;
        }
        let keyspaces = self.catalog.written();
        let memtables = keyspaces.iter().filter_map(|keyspace| match keyspace.design().write_buffer {
            WriteBufferSpec::MemTable { bytes } => Some(bytes),
            WriteBufferSpec::LogStore { .. } => None,
        });
        let affordable = (budget / 4).max(2 * memtables.max().unwrap_or(0));
        let replayed = || -> u64 {
            let views = keyspaces.iter().map(|keyspace| keyspace.view.load());
            views.map(|view| view.buffers().map(WriteBuffer::replayed_bytes).sum::<u64>()).sum()
        };
        if live <= options.max_wal_bytes && (live <= affordable || replayed() <= affordable) {
            return;
        }
        let oldest = keyspaces.iter().filter_map(|keyspace| {
            let view = keyspace.view.load();
            let start = view.oldest_buffer().log_start()?;
            Some((start, view.sealed.is_empty(), keyspace))
        });
        // One that is sealed already is being flushed.
        if let Some((_, true, keyspace)) = oldest.min_by_key(|(start, ..)| *start) {
            let at_most = if live > options.max_wal_bytes { options.max_wal_bytes } else { affordable };
            let _ = self.seal(keyspace, Reason::LogTooLong { bytes: live, at_most });
        }
    }

    /// Seals the keyspace's write buffer for flushing, because of `reason`, and starts a new one. The caller
    /// holds the commit lock.
    pub(super) fn seal(&self, keyspace: &OpenKeyspace, reason: Reason) -> Result<()> {
        if keyspace.view.load().active.is_empty() {
            return Ok(());
        }
        let _views = self.catalog.lock_views();
        let rotated = self.catalog.log.rotate();
        self.env.health.note_background(Chore::Seal, rotated.as_ref().err());
        rotated?;
        keyspace.seal_with(keyspace.new_buffer(self.catalog.visible(), self.env.memory()), reason);
        self.catalog.note_changed(keyspace);
        self.env.reader.fit_cache();
        // Often enough to keep the reserve, which is many memtables large.
        self.catalog.check_space();
        self.env.signals.wake();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::db::tiny_designs::tiny;
    use crate::io::sim::SimDisk;
    use crate::{Db, Keyspace, KeyspaceOptions, Options, Schema};
    use siltstone_design::{Design, WriteBufferSpec};
    use std::sync::Arc;

    /// A store without threads whose write buffers are full with a mebibyte, and a keyspace.
    fn open(max_sealed_memtables: usize, memory_budget_bytes: u64) -> (Db, Keyspace) {
        let options = Options {
            memory_budget_bytes,
            background_threads: 0,
            max_sealed_memtables,
            reserve_bytes: 0,
            ..Options::default()
        };
        let db = Db::open_on(Arc::new(SimDisk::new()), "/db", options).unwrap();
        let write_buffer = WriteBufferSpec::MemTable { bytes: 1 << 20 };
        let design = Some(Design { write_buffer, ..tiny("stepped-merge") });
        let keyspace = KeyspaceOptions { schema: Schema::Point, design, ..KeyspaceOptions::default() };
        let items = db.keyspace("items", keyspace).unwrap();
        (db, items)
    }

    /// Puts a fifth of a write buffer.
    fn put_a_fifth(items: &Keyspace, part: usize) {
        for number in 0..100 {
            items.put(format!("{part:04} {number:03}"), [7; 2_090]).unwrap();
        }
    }

    #[test]
    fn memory_that_waits_behind_a_flush_slows_writers_before_it_stops_them() {
        let (db, items) = open(100, 4 << 20);
        let committer = &db.store.committer;
        // Each write buffer takes about a tenth of what all may take.
        let mut pressures = Vec::new();
        for buffer in 0..9 {
            pressures.push(committer.memory_pressure());
            put_a_fifth(&items, buffer);
            committer.seal_all().unwrap();
        }
        // The first that is sealed is the one whose flush is under way.
        assert_eq!(pressures[..2], [0.0, 0.0]);
        let slowed = &pressures[2..];
        let are_slowed = slowed.iter().all(|pressure| (0.05..=1.0).contains(pressure));
        assert!(slowed.is_sorted() && are_slowed, "{slowed:?}");
        assert!(slowed.last().is_some_and(|last| *last > 0.7), "{slowed:?}");
        db.drain().unwrap();
        assert_eq!(committer.memory_pressure(), 0.0);
    }

    #[test]
    fn writers_are_slowed_the_more_the_fuller_the_last_write_buffers_are() {
        let (db, items) = open(3, 64 << 20);
        let committer = &db.store.committer;
        let mut pressures = Vec::new();
        for part in 0..15 {
            put_a_fifth(&items, part);
            pressures.push((committer.pressure() * 100.0).round() / 100.0);
        }
        // A write buffer is full with every fifth part. One may wait for its flush; the second costs a third
        // of the full pressure, which is reached with half a write buffer beside three.
        assert_eq!(pressures[..9], [0.0; 9]);
        assert_eq!(pressures[9..], [0.33, 0.33, 0.33, 0.4, 0.53, 0.67]);
    }
}
