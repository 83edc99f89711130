//! THE WRITE PATH.
//!
//! A batch joins the queue. Whoever finds no leader leads: it takes the whole queue, appends it to the log in one write,
//! syncs if anyone asked, puts everything into the heads, makes it visible, and hands the lead to the next in line.
//! While it works, the next group gathers. A failed sync poisons the store: no later write may claim durability.

use super::batch::{Batch, Kind};
use super::head::{Full, Head, Write};
use super::store::{KeyspaceInner, Store};
use crate::cache::TableId;
use crate::entry::{Item, Sequence};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Holder;
use crate::options::Durability;
use crate::record::HEADER_BYTES;
use crate::segment::LogSegment;
use crate::stats::Stopwatch;
use crate::wal::Wal;
use parking_lot::{Condvar, Mutex, MutexGuard};
use siltstone_design::{Digest, EncodedKey, Head as Kinds};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Writers in line.
#[derive(Default)]
pub(crate) struct CommitQueue {
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<Arc<Slot>>,
    has_leader: bool,
}

/// What one writer waits for.
#[derive(Default)]
enum Progress {
    #[default]
    Waiting,
    /// It leads the next group.
    Leads,
    Done(Result<Committed>),
}

/// How a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Committed {
    Yes,
    /// The key was written since its value was read; nothing was done.
    Conflict,
}

/// A precondition: nobody has written `key` since `seen`.
pub(super) struct Condition {
    pub keyspace: Arc<KeyspaceInner>,
    pub key: Vec<u8>,
    pub seen: Sequence,
    /// The table in which the value was found; 0 where it was in a head, or there was none.
    pub found_in: TableId,
}

/// A write in line.
struct Slot {
    batch: Batch,
    payload_crc: u32,
    durability: Durability,
    condition: Option<Condition>,
    progress: Mutex<Progress>,
    /// Whether `progress` is no longer `Waiting`, for whoever looks without the lock.
    has_changed: AtomicBool,
    changed: Condvar,
}

impl Slot {
    fn set(&self, progress: Progress) {
        *self.progress.lock() = progress;
        self.has_changed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Waits until the write is done or leads.
    fn wait(&self) -> MutexGuard<'_, Progress> {
        // Mostly that takes a few microseconds, less than falling asleep and being woken.
        for _ in 0..YIELDS {
            if self.has_changed.load(Ordering::Acquire) {
                break;
            }
            std::thread::yield_now();
        }
        let mut progress = self.progress.lock();
        while matches!(*progress, Progress::Waiting) {
            self.changed.wait(&mut progress);
        }
        progress
    }
}

/// How often a waiting writer lets others run before it falls asleep. More would write faster, and some wait longer.
const YIELDS: usize = 8;
/// Groups that a leader commits at most before another leads, while writers keep coming.
const GROUPS_PER_LEAD: usize = 16;

/// Bytes after which a group takes no more batches.
const MAX_GROUP_BYTES: usize = 4 << 20;

/// The share of the memory budget that a segment of the log may take when it is replayed; smaller ones than the least are not
/// full.
const SEGMENTS_PER_BUDGET: u64 = 8;
const LEAST_FULL_SEGMENT_BYTES: u64 = 1 << 20;

impl Store {
    /// Writes `batch` and returns once it is visible and as durable as asked.
    pub(super) fn write(
        &self,
        batch: Batch,
        durability: Durability,
        condition: Option<Condition>,
    ) -> Result<Committed> {
        self.check_writable()?;
        if batch.is_empty() {
            return Ok(Committed::Yes);
        }
        self.check_batch(&batch)?;
        let payload_crc = crc32c::crc32c(&batch.payload);
        let (progress, has_changed, changed) = Default::default();
        let slot =
            Arc::new(Slot { batch, payload_crc, durability, condition, progress, has_changed, changed });
        {
            let mut queue = self.queue.state.lock();
            queue.waiting.push(Arc::clone(&slot));
            if queue.has_leader {
                drop(queue);
                if let Progress::Done(result) = &*slot.wait() {
                    return result.clone();
                }
            } else {
                queue.has_leader = true;
            }
        }
        self.lead();
        match &*slot.progress.lock() {
            Progress::Done(result) => result.clone(),
            _ => Err(Error::new(ErrorKind::Io, "a write was not carried out")),
        }
    }

    fn check_batch(&self, batch: &Batch) -> Result<()> {
        if batch.stores != [self.id] {
            return Err(Error::invalid(
                "the batch holds keyspaces of another store; write one batch per store",
            ));
        }
        if batch.payload.len() > crate::record::MAX_PAYLOAD_BYTES {
            return Err(Error::invalid(format_args!(
                "the batch has {} bytes; batches have at most {}, write several",
                batch.payload.len(),
                crate::record::MAX_PAYLOAD_BYTES
            )));
        }
        if batch.puts && self.space_is_low.load(Ordering::Relaxed) {
            // What was low may have been freed since.
            self.check_space();
            if self.space_is_low.load(Ordering::Relaxed) {
                return Err(Error::new(
                    ErrorKind::StorageFull,
                    format!(
                        "less than {} bytes are free on the disk of {}; free some space, or delete items: deletes are \
                         still taken, and writing resumes by itself",
                        self.options.reserve_bytes,
                        self.path.display()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Commits the queue group by group and passes the lead on.
    fn lead(&self) {
        for _ in 0..GROUPS_PER_LEAD {
            let group = self.next_group();
            if group.is_empty() {
                return;
            }
            self.commit_group(&group);
            // Others' syncs take long, and its own write is done.
            if group.iter().any(|slot| slot.durability == Durability::Synced) {
                break;
            }
        }
        let mut queue = self.queue.state.lock();
        match queue.waiting.first() {
            Some(next) => next.set(Progress::Leads),
            None => queue.has_leader = false,
        }
    }

    /// Takes the next group off the queue; an empty one ends the lead.
    fn next_group(&self) -> Vec<Arc<Slot>> {
        let most = MAX_GROUP_BYTES.min(self.memory.chunk_bytes() * 4);
        let mut queue = self.queue.state.lock();
        let mut bytes = 0;
        let taken = queue.waiting.iter().take_while(|slot| {
            let takes_it = bytes == 0 || bytes + slot.batch.payload.len() <= most;
            bytes += slot.batch.payload.len();
            takes_it
        });
        let count = taken.count();
        queue.has_leader = count > 0;
        queue.waiting.drain(..count).collect()
    }

    fn commit_group(&self, group: &[Arc<Slot>]) {
        self.make_room(group.iter().map(|slot| slot.batch.user_bytes).sum());
        let _commit = self.commit.lock();
        let mut accepted = Vec::with_capacity(group.len());
        let mut written = HashSet::new();
        let has_conditions = group.iter().any(|slot| slot.condition.is_some());
        for slot in group {
            if slot.condition.as_ref().is_some_and(|condition| condition.is_violated(&written)) {
                slot.set(Progress::Done(Ok(Committed::Conflict)));
                continue;
            }
            if has_conditions {
                written.extend(slot.batch.operations.iter().map(|op| (op.keyspace, op.digest)));
            }
            accepted.push(slot);
        }
        let logged = self.log(&accepted);
        let result = logged.map(|(segment, lsn)| self.apply(&accepted, &segment, lsn));
        for slot in accepted {
            slot.set(Progress::Done(result.clone().map(|()| Committed::Yes)));
        }
    }

    /// Appends the group to the log and syncs it if anyone asked; returns the segment and the LSN at which it begins.
    fn log(&self, group: &[&Arc<Slot>]) -> Result<(Arc<LogSegment>, u64)> {
        self.check_writable()?;
        let (place, work) = {
            let mut guard = self.wal.lock();
            let Some(wal) = guard.as_mut() else {
                return Err(Error::new(ErrorKind::ReadOnly, "the store has no log to write to"));
            };
            let before = wal.bytes_written();
            let place = wal
                .append(group.iter().map(|slot| (slot.batch.payload.as_slice(), slot.payload_crc)))
                .inspect_err(|error| self.note_write_error(error))?;
            self.counters.wal_bytes.add(wal.bytes_written() - before);
            let wants_sync = group.iter().any(|slot| slot.durability == Durability::Synced);
            (place, if wants_sync { wal.sync_work() } else { None })
        };
        self.run_sync(work)?;
        Ok(place)
    }

    /// A full disk passes; any other failure to write the log leaves it in doubt.
    fn note_write_error(&self, error: &Error) {
        if error.kind() == ErrorKind::StorageFull {
            self.space_is_low.store(true, Ordering::Relaxed);
        } else {
            self.poison(error);
        }
    }

    /// Puts the group, which begins at `lsn` of `segment`, into the heads, makes it visible and seals heads that are full.
    fn apply(&self, group: &[&Arc<Slot>], segment: &Arc<LogSegment>, mut lsn: u64) {
        let before = self.visible();
        let (mut sequence, mut is_frozen) = (before, false);
        let mut heads: BTreeMap<u64, (Arc<KeyspaceInner>, Head)> = BTreeMap::new();
        for keyspace in self.all_keyspaces() {
            let head = keyspace.view.load().active.clone();
            heads.insert(keyspace.id, (keyspace, head));
        }
        for slot in group {
            // A conditional write is of one key.
            let older_in = slot.condition.as_ref().map_or(0, |condition| condition.found_in);
            let payload_at = lsn + HEADER_BYTES as u64;
            lsn = payload_at + slot.batch.payload.len() as u64;
            for operation in &slot.batch.operations {
                sequence = payload_at + operation.encoded.at.start as u64;
                // A keyspace dropped meanwhile takes its writes with it.
                let Some((keyspace, head)) = heads.get_mut(&operation.keyspace) else { continue };
                let key = slot.batch.key(operation);
                match (operation.kind, slot.batch.item(operation)) {
                    (Kind::DeletePrefix, _) => {
                        head.delete_prefix(sequence, segment, operation.digest.hi, key)
                    }
                    (_, item) => {
                        let write = Write {
                            sequence,
                            segment,
                            length: operation.encoded.at.len(),
                            place: operation.place(),
                            key,
                            item: item.unwrap_or(Item::Deleted),
                            older_in,
                        };
                        if head.insert(&write, before, &self.reader) == Err(Full) {
                            // The flush waits until the group is visible.
                            let _switch = self.switch.lock();
                            *head = keyspace.freeze_before(&write, before, &self.reader);
                            is_frozen = true;
                        }
                    }
                }
            }
            self.counters.user_bytes.add(slot.batch.user_bytes);
        }
        self.visible.store(sequence, Ordering::Release);
        self.reader.fit_cache();
        if is_frozen {
            // The next head begins with a segment, or nearly so: what is replayed begins with one. A full disk is noticed by the
            // next write.
            let _ = self.rotate_wal();
            self.board.wake();
        }
        self.snapshots.while_still(|is_wanted| heads.values().for_each(|(_, head)| head.settle(is_wanted)));
        for (keyspace, head) in heads.values() {
            let is_large = head.memory_bytes() >= self.memory.most_memtable_bytes() / 2;
            if head.fill(&keyspace.design) >= 1.0 || is_large {
                // A failure (a full disk) leaves the head as it is; the next write tries again.
                let _ = self.seal(keyspace);
            }
        }
        self.bound_memtables();
        self.bound_wal();
    }

    /// Whether memtables take more than their share of the budget and some of them wait to be flushed.
    pub(super) fn has_too_many_memtables(&self) -> bool {
        self.memory.held_bytes(Holder::Memtable) > self.memory.most_memtable_bytes()
            && self.all_keyspaces().iter().any(|keyspace| !keyspace.view.load().sealed.is_empty())
    }

    /// Flushes the largest memtable where all together take more than their share, and none is being flushed.
    fn bound_memtables(&self) {
        if self.memory.held_bytes(Holder::Memtable) <= self.memory.most_memtable_bytes()
            || self.has_too_many_memtables()
        {
            return;
        }
        let largest = self.all_keyspaces().into_iter().max_by_key(|k| k.view.load().active.memory_bytes());
        if let Some(keyspace) = largest {
            let _ = self.seal(&keyspace);
        }
    }

    /// Flushes what holds the oldest part of an overlong log, or of one that would take much memory to replay: the budget bounds
    /// that too. Segments are replayed one at a time, so they are bounded as well.
    fn bound_wal(&self) {
        let budget = self.options.memory_budget_bytes;
        let segment_bytes = self.wal.lock().as_ref().map_or(0, Wal::segment_bytes);
        if segment_bytes > (budget / SEGMENTS_PER_BUDGET).max(LEAST_FULL_SEGMENT_BYTES) {
            // A full disk is noticed by the next write.
            let _ = self.rotate_wal();
        }
        let live = self.wal.lock().as_ref().map_or(0, Wal::live_bytes);
        let keyspaces = self.all_keyspaces();
        let memtables = keyspaces.iter().filter_map(|keyspace| match keyspace.design.head {
            Kinds::MemTable { bytes } => Some(bytes),
            Kinds::LogStore { .. } => None,
        });
        let affordable = (budget / 4).max(2 * memtables.max().unwrap_or(0));
        let replayed = || -> u64 {
            let views = keyspaces.iter().map(|keyspace| keyspace.view.load());
            views.map(|view| view.heads().map(Head::replayed_bytes).sum::<u64>()).sum()
        };
        if live <= self.options.max_wal_bytes && (live <= affordable || replayed() <= affordable) {
            return;
        }
        let oldest = keyspaces.iter().filter_map(|keyspace| {
            let view = keyspace.view.load();
            let start = view.sealed.last().unwrap_or(&view.active).log_start()?;
            Some((start, view.sealed.is_empty(), keyspace))
        });
        // One that is sealed already is being flushed.
        if let Some((_, true, keyspace)) = oldest.min_by_key(|(start, ..)| *start) {
            let _ = self.seal(keyspace);
        }
    }

    /// Begins the log's next segment. The caller holds the commit lock.
    fn rotate_wal(&self) -> Result<()> {
        let mut guard = self.wal.lock();
        let Some(wal) = guard.as_mut() else { return self.check_writable() };
        let before = wal.bytes_written();
        wal.rotate().inspect_err(|error| {
            if error.kind() == ErrorKind::StorageFull {
                self.space_is_low.store(true, Ordering::Relaxed);
            }
        })?;
        self.counters.wal_bytes.add(wal.bytes_written() - before);
        Ok(())
    }

    /// Seals the keyspace's head for flushing and starts a new one. The caller holds the commit lock.
    pub(super) fn seal(&self, keyspace: &KeyspaceInner) -> Result<()> {
        if keyspace.view.load().active.is_empty() {
            return Ok(());
        }
        let _switch = self.switch.lock();
        self.rotate_wal()?;
        keyspace.freeze(keyspace.new_head(self.visible(), &self.memory));
        self.reader.fit_cache();
        // Often enough to keep the reserve, which is many memtables large.
        self.check_space();
        self.board.wake();
        Ok(())
    }

    /// Slows the writer by as much as compaction is behind, and stops it only where memory would run away.
    fn make_room(&self, bytes: u64) {
        if self.options.background_threads == 0 {
            // Errors stay with the work; it is tried again before the next write.
            let _ = self.catch_up();
            return;
        }
        let pressure =
            self.all_keyspaces().iter().map(|keyspace| self.pressure_of(keyspace)).fold(0.0, f64::max);
        self.board.pace(bytes, pressure, &self.counters.paced_us);
        let must_wait = || {
            let is_overfull = || self.all_keyspaces().iter().any(|k| self.is_overfull(k));
            !self.is_poisoned() && (self.has_too_many_memtables() || is_overfull())
        };
        if !must_wait() {
            return;
        }
        let stopwatch = Stopwatch::start();
        while must_wait() {
            self.board.wait_for_progress(Duration::from_millis(20));
            let fails = self.background_error.lock().is_some();
            if fails && self.space_is_low.load(Ordering::Relaxed) {
                break;
            }
        }
        let us = u64::try_from(stopwatch.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counters.stalls.add(1);
        self.counters.stall_us.add(us);
        self.counters.longest_stall_us.raise_to(us);
    }

    /// How far behind the work on a keyspace is: 0 on time, 1 badly late.
    fn pressure_of(&self, keyspace: &KeyspaceInner) -> f64 {
        let sealed = keyspace.view.load().sealed.len();
        let flushing = sealed.saturating_sub(1) as f64 / self.options.max_sealed_memtables as f64;
        f64::from_bits(keyspace.pressure.load(Ordering::Relaxed)).max(flushing)
    }

    /// Whether the keyspace can't take another head's worth.
    fn is_overfull(&self, keyspace: &KeyspaceInner) -> bool {
        let view = keyspace.view.load();
        view.sealed.len() >= self.options.max_sealed_memtables && view.active.fill(&keyspace.design) >= 0.5
    }
}

impl Condition {
    /// Whether the key may have been written since its value was read, or is by an earlier batch of the group.
    fn is_violated(&self, written: &HashSet<(u64, Digest)>) -> bool {
        let Ok(key) = self.keyspace.encoder.encode(&self.key) else { return true };
        let key: EncodedKey<'_> = key;
        let prefix_place = Digest { hi: key.digest.hi, lo: 0 };
        if written.contains(&(self.keyspace.id, key.digest))
            || written.contains(&(self.keyspace.id, prefix_place))
        {
            return true;
        }
        let view = self.keyspace.view.load();
        let oldest = view.sealed.last().unwrap_or(&view.active);
        // What was flushed since can't be asked any more.
        oldest.born_at() > self.seen || view.heads().any(|head| head.changed_since(&key, self.seen))
    }
}
