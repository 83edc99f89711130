//! THE WRITE PATH.
//!
//! A batch joins the queue. Whoever finds no leader leads: it takes the whole queue, appends it to the log in
//! one write, syncs if anyone asked, puts everything into the write buffers, makes it visible, and hands the
//! lead to the next in line. While it works, the next group gathers. A failed sync poisons the store: no
//! later write may claim durability.

mod condition;
pub(super) mod operations;
mod pace;
mod queue;
mod room;

pub(super) use condition::Condition;
pub(super) use queue::Committed;

use super::catalog::Catalog;
use super::catalog::keyspace::OpenKeyspace;
use super::catalog::log::LogPlace;
use super::env::Env;
use super::reporter::Reporter;
use super::write_buffer::{Full, Write, WriteBuffer};
use crate::activity::{Activity, Count};
use crate::cache::TableId;
use crate::entry::{Item, Sequence};
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Reason, StallCause};
use crate::options::Durability;
use crate::record::{HEADER_BYTES, MAX_PAYLOAD_BYTES};
use crate::segment::LogSegment;
use crate::sync::atomic::AtomicU64;
use crate::sync::{Mutex, MutexGuard};
use condition::Written;
use operations::{Kind, Operation, Operations};
use pace::Pacer;
use queue::{CommitQueue, Slot, Turn};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Groups that a leader commits at most before another leads, while writers keep coming.
const GROUPS_PER_LEAD: usize = 16;
/// Bytes after which a group takes no more batches.
const MAX_GROUP_BYTES: usize = 4 << 20;

/// Takes writes into the log and the write buffers.
pub(crate) struct Committer {
    env: Arc<Env>,
    catalog: Arc<Catalog>,
    queue: CommitQueue,
    /// Held by whoever writes to log and write buffers, seals one, or changes which keyspaces there are.
    commit: Mutex<()>,
    pacer: Pacer,
    /// How long the log was when what a replay of it would take was last reckoned.
    reckoned_at: AtomicU64,
    /// Where the log ended when the disk was looked at.
    looked_at: AtomicU64,
    reporter: Arc<Reporter>,
}

impl Committer {
    pub fn new(env: &Arc<Env>, catalog: &Arc<Catalog>, reporter: &Arc<Reporter>) -> Self {
        let (queue, commit, pacer, reckoned_at, looked_at) = Default::default();
        let (env, catalog, reporter) = (Arc::clone(env), Arc::clone(catalog), Arc::clone(reporter));
        Self { env, catalog, queue, commit, pacer, reckoned_at, looked_at, reporter }
    }

    /// Keeps writers, and creators of keyspaces, out meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.commit.lock()
    }

    /// Refuses what can't be written, before anything else is done about it.
    pub fn check(&self, operations: &Operations) -> Result<()> {
        self.env.check_writable()?;
        if operations.list.is_empty() {
            return Ok(());
        }
        if operations.stores != [self.env.store] {
            return Err(Error::invalid(
                "the batch holds keyspaces of another store; write one batch per store",
            ));
        }
        if operations.payload.len() > MAX_PAYLOAD_BYTES {
            return Err(Error::invalid(format_args!(
                "the batch has {} bytes; batches have at most {MAX_PAYLOAD_BYTES}, write several",
                operations.payload.len(),
            )));
        }
        if operations.has_puts && self.env.health.space_is_low() {
            // What was low may have been freed since.
            self.catalog.check_space();
            if self.env.health.space_is_low() {
                return Err(self.disk_is_full());
            }
        }
        Ok(())
    }

    pub fn disk_is_full(&self) -> Error {
        let what = format!(
            "less than {} bytes are free on the disk of {}; free some space, or delete items: deletes are still taken, and \
             writing resumes by itself",
            self.env.reserve_bytes(),
            self.env.path.display()
        );
        Error::new(ErrorKind::StorageFull, what)
    }

    /// Writes what was [checked](Self::check) and returns once it is visible and as durable as asked.
    pub fn write(
        &self,
        operations: Arc<Operations>,
        durability: Durability,
        conditions: Vec<Condition>,
    ) -> Result<Committed> {
        if operations.list.is_empty() {
            return Ok(Committed::Yes);
        }
        let slot = Arc::new(Slot::new(operations, durability, conditions));
        match self.queue.join(&slot) {
            Turn::Done(outcome) => return outcome,
            Turn::Lead => self.lead(),
        }
        let lost = || Err(Error::new(ErrorKind::Io, "a write was not carried out"));
        slot.outcome().unwrap_or_else(lost)
    }

    /// Commits the queue group by group and passes the lead on.
    fn lead(&self) {
        let mut stalls = Vec::new();
        self.commit_groups(&mut stalls);
        // Nobody waits for this thread any more.
        for (duration_us, cause) in stalls {
            self.reporter.stalled(duration_us, cause);
        }
    }

    /// Commits group by group until the queue is empty or another writer leads, and gathers for how many
    /// microseconds writers were stopped.
    fn commit_groups(&self, stalls: &mut Vec<(u64, StallCause)>) {
        for _ in 0..GROUPS_PER_LEAD {
            let most_bytes = MAX_GROUP_BYTES.min(self.env.memory().chunk_bytes() * 4);
            let group = self.queue.next_group(most_bytes);
            if group.is_empty() {
                return;
            }
            match self.make_room(group.iter().map(|slot| slot.operations.user_bytes).sum()) {
                Ok(stall) => {
                    stalls.extend(stall);
                    self.commit_group(&group);
                }
                Err(error) => group.iter().for_each(|slot| slot.finish(Err(error.clone()))),
            }
            // Others' syncs take long, and its own write is done.
            if group.iter().any(|slot| slot.durability == Durability::Synced) {
                break;
            }
        }
        self.queue.pass_lead();
    }

    fn commit_group(&self, group: &[Arc<Slot>]) {
        let _commit = self.commit.lock();
        self.env.now_ms();
        let mut accepted = Vec::with_capacity(group.len());
        let mut written = Written::new();
        let has_conditions = group.iter().any(|slot| !slot.conditions.is_empty());
        for slot in group {
            if slot.conditions.iter().any(|condition| condition.is_violated(&written)) {
                slot.finish(Ok(Committed::Conflict));
                continue;
            }
            let taken = match self.take(slot) {
                Ok(taken) => taken,
                Err(error) => {
                    slot.finish(Err(error));
                    continue;
                }
            };
            if has_conditions {
                written.extend(taken.operations.list.iter().map(|op| (op.keyspace, op.place.digest)));
            }
            accepted.push(taken);
        }
        let payloads = accepted.iter().map(|taken| (taken.operations.payload.as_slice(), taken.payload_crc));
        let wants_sync = accepted.iter().any(|taken| taken.slot.durability == Durability::Synced);
        let logged = self.catalog.log.append(payloads, wants_sync);
        let result = logged.map(|place| self.apply(&accepted, &place));
        for taken in accepted {
            taken.slot.finish(result.clone().map(|()| Committed::Yes));
        }
        if wants_sync && result.is_ok() {
            self.catalog.note_synced_segment();
        }
    }

    /// Returns a batch as it is to be written: by the schemas that its keyspaces have now.
    fn take<'a>(&self, slot: &'a Slot) -> Result<Taken<'a>> {
        let find = |number| self.catalog.by_number(number);
        let anew = match self.catalog.schema_changes() {
            0 => None,
            _ => slot.operations.for_present_schemas(self.env.store, find)?,
        };
        Ok(match anew {
            None => Taken { slot, operations: Arc::clone(&slot.operations), payload_crc: slot.payload_crc },
            Some(anew) => {
                let payload_crc = crc32c::crc32c(&anew.payload);
                Taken { slot, operations: Arc::new(anew), payload_crc }
            }
        })
    }

    /// Puts the group, which stands at `place` of the log, into the write buffers, makes it visible and seals
    /// buffers that are full.
    fn apply(&self, group: &[Taken<'_>], place: &LogPlace) {
        let mut applying = Applying::new(self, &place.segment);
        let mut lsn = place.lsn;
        for (number, taken) in group.iter().enumerate() {
            let operations = &taken.operations;
            applying.slot = number;
            applying.older_in = taken.older_in();
            let payload_at = lsn + HEADER_BYTES as u64;
            lsn = payload_at + operations.payload.len() as u64;
            for operation in &operations.list {
                applying.sequence = payload_at + operation.encoded.at.start as u64;
                applying.apply(operations, operation);
            }
            self.env.counters.user_bytes.add(operations.user_bytes);
        }
        let Applying { sequence, has_sealed, buffers, .. } = applying;
        self.catalog.show(sequence);
        self.env.reader.fit_cache();
        if has_sealed {
            // The next buffer begins with a segment, or nearly so: what is replayed begins with one. A full
            // disk is noticed by the next write.
            let _ = self.catalog.log.rotate();
            self.env.signals.wake();
        }
        let snapshots = &self.catalog.snapshots;
        snapshots.while_still(|is_wanted| buffers.values().for_each(|t| t.buffer.settle(is_wanted)));
        for Touched { keyspace, buffer, done, .. } in buffers.values() {
            keyspace.counters.done.add_all(done);
            let (bytes, at_most) = (buffer.memory_bytes(), self.env.memory().most_memtable_bytes());
            // A failure (a full disk) leaves the buffer as it is; the next write tries again.
            if buffer.fill(&keyspace.design()) >= 1.0 {
                let _ = self.seal(keyspace, keyspace.buffer_is_full());
            } else if bytes >= at_most / 2 {
                let _ = self.seal(keyspace, Reason::MemoryBound { bytes, at_most });
            } else if let Some(reason) = self.log_takes_the_reserve() {
                let _ = self.seal(keyspace, reason);
            }
        }
        self.bound_memtables();
        self.bound_log();
        self.look_at_the_disk(sequence);
    }

    /// Seals the write buffers of all keyspaces, as the user asks.
    pub fn seal_all(&self) -> Result<()> {
        let _commit = self.commit.lock();
        self.catalog.written().iter().try_for_each(|keyspace| self.seal(keyspace, Reason::Requested))
    }

    /// Seals the write buffer of one keyspace, because of `reason`, and does `then` before anything more is
    /// written.
    pub fn seal_then(&self, keyspace: &OpenKeyspace, reason: Reason, then: impl FnOnce()) -> Result<()> {
        let _commit = self.commit.lock();
        self.seal(keyspace, reason)?;
        then();
        Ok(())
    }

    /// Has a new write buffer take the writes of one keyspace, because of `reason`, even if the present one
    /// is empty.
    pub fn renew(&self, keyspace: &OpenKeyspace, reason: Reason) -> Result<()> {
        let _commit = self.commit.lock();
        if !keyspace.view.load().active.is_empty() {
            return self.seal(keyspace, reason);
        }
        let _views = self.catalog.lock_views();
        keyspace.seal_with(keyspace.new_buffer(self.catalog.visible(), self.env.memory()), reason);
        Ok(())
    }

    /// Seals the write buffer of one keyspace, because of `reason`.
    pub fn seal_one(&self, keyspace: &OpenKeyspace, reason: Reason) -> Result<()> {
        let _commit = self.commit.lock();
        self.seal(keyspace, reason)
    }
}

/// A batch of a group as it is written.
struct Taken<'a> {
    slot: &'a Slot,
    operations: Arc<Operations>,
    payload_crc: u32,
}

impl Taken<'_> {
    /// Returns the table that held the key's older version; 0, which says nothing, unless the write is of one
    /// key that was read before.
    fn older_in(&self) -> TableId {
        match (self.slot.conditions.as_slice(), self.operations.list.as_slice()) {
            ([condition], [_]) => condition.found_in,
            _ => 0,
        }
    }
}

/// A keyspace that a group touches.
struct Touched {
    keyspace: Arc<OpenKeyspace>,
    buffer: WriteBuffer,
    /// What the group does with it, and the last batch that does.
    done: Activity,
    slot: Option<usize>,
}

impl Touched {
    /// Counts an operation of the group's batch `slot`.
    fn count(&mut self, operation: &Operation, slot: usize, now_ms: impl Fn() -> u64) {
        let done = &mut self.done;
        if self.slot.replace(slot) != Some(slot) {
            done.add(Count::Batches, 1);
        }
        let expires_at_ms = match operation.kind {
            Kind::Delete | Kind::DeletePrefix => {
                done.add(Count::Deletes, 1);
                return done.add(Count::AllDeletes, 1);
            }
            Kind::Put { expires_at_ms } => expires_at_ms,
            Kind::Merge => 0,
        };
        done.add(Count::Puts, 1);
        done.add(Count::AllPuts, 1);
        done.add(Count::AllBytes, (operation.encoded.key.len() + operation.encoded.value.len()) as u64);
        done.add(Count::KeyBytes, operation.encoded.key.len() as u64);
        done.add(Count::ValueBytes, operation.encoded.value.len() as u64);
        if expires_at_ms > 0 {
            done.add(Count::ExpiringPuts, 1);
            done.add(Count::SecondsToLive, expires_at_ms.saturating_sub(now_ms()) / 1000);
        }
    }
}

/// Keyspaces by their numbers.
type Buffers = BTreeMap<u64, Touched>;

/// A group on its way into the write buffers.
struct Applying<'a> {
    committer: &'a Committer,
    segment: &'a Arc<LogSegment>,
    /// Those that the group has touched.
    buffers: Buffers,
    /// What readers saw before the group.
    before: Sequence,
    /// Sequence number of the operation that is being applied, and the number of its batch in the group.
    sequence: Sequence,
    slot: usize,
    /// The table that held the key's older version, as far as the writer learnt.
    older_in: u64,
    has_sealed: bool,
}

impl<'a> Applying<'a> {
    fn new(committer: &'a Committer, segment: &'a Arc<LogSegment>) -> Self {
        let before = committer.catalog.visible();
        let (buffers, sequence) = (BTreeMap::new(), before);
        Self { committer, segment, buffers, before, sequence, slot: 0, older_in: 0, has_sealed: false }
    }

    /// The keyspace of this number and its write buffer; none where it is gone. What the group does not touch
    /// is not looked at.
    fn buffer_of<'b>(buffers: &'b mut Buffers, catalog: &Catalog, number: u64) -> Option<&'b mut Touched> {
        match buffers.entry(number) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(place) => {
                let keyspace = catalog.by_number(number)?;
                let buffer = keyspace.view.load().active.clone();
                Some(place.insert(Touched { keyspace, buffer, done: Activity::default(), slot: None }))
            }
        }
    }

    fn apply(&mut self, operations: &Arc<Operations>, operation: &Operation) {
        let Self { segment, before, sequence, older_in, .. } = *self;
        let Committer { env, catalog, .. } = self.committer;
        // A keyspace dropped meanwhile takes its writes with it.
        let slot = self.slot;
        let Some(touched) = Self::buffer_of(&mut self.buffers, catalog, operation.keyspace) else {
            return;
        };
        touched.count(operation, slot, || env.clock.now_ms());
        let Touched { keyspace, buffer, .. } = touched;
        let was_empty = buffer.is_empty();
        let key = operations.key(operation);
        if operation.kind == Kind::DeletePrefix {
            buffer.delete_prefix(sequence, segment, operation.place.digest.hi, key);
            if was_empty {
                catalog.note_written(keyspace);
            }
            return;
        }
        let item = operations.item(operation).unwrap_or(Item::Deleted);
        let place = (operation.place.digest, operation.place.fingerprint);
        let (length, is_checked) = (operation.encoded.at.len(), operation.is_checked);
        let shared = operations.shared_value(operation);
        let write = Write { sequence, segment, length, place, key, item, shared, older_in, is_checked };
        if buffer.insert(&write, before, &env.reader) == Err(Full) {
            // The flush waits until the group is visible.
            let _views = catalog.lock_views();
            *buffer = keyspace.seal_before(&write, before, &env.reader);
            catalog.note_changed(keyspace);
            self.has_sealed = true;
        } else if was_empty {
            catalog.note_written(keyspace);
        }
    }
}
