//! A keyspace of an open store: its name, schema and design, its present view, and what is counted of it.

use super::predicted::Predicted;
use super::schema_change::SchemaChange;
use super::view::{SealedBuffer, View};
use crate::activity::{Activity, Count};
use crate::cache::Reader;
use crate::db::considered::Considered;
use crate::db::read::upper_reads::UpperReads;
use crate::db::write_buffer::{Write, WriteBuffer};
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::events::Reason;
use crate::memory::{ExpectedBuffer, MemoryBudget};
use crate::merge_operator::Folder;
use crate::record::LogStart;
use crate::region_filter::FilterLimits;
use crate::stats::{KeyspaceCounters, ProposedDesign};
use crate::sync::Published;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, OnceLock};
use crate::version::Version;
use siltstone_design::{Design, EncodedKey, Encoder, KeyError, Schema, WriteBufferSpec};
use std::sync::Arc;

/// A keyspace of an open store.
pub(crate) struct OpenKeyspace {
    pub id: u64,
    pub name: String,
    pub encoder: Encoder,
    /// Carries out its merges, if it takes any.
    pub folder: Option<Arc<Folder>>,
    pub view: Published<View>,
    pub counters: KeyspaceCounters,
    pub upper_reads: UpperReads,
    /// How exact its region filters may be.
    pub filter_limits: FilterLimits,
    /// What memory keeps free for its memtables.
    expected_buffer: Mutex<ExpectedBuffer>,
    /// Bits of an `f64`: how far compaction has fallen behind; see `design::plan::pressure`.
    pressure: AtomicU64,
    /// Writes before this are in tables.
    flushed: Mutex<LogStart>,
    is_dropped: AtomicBool,
    /// Whether work on what it holds is of no more use, since it is being cleared.
    is_being_cleared: AtomicBool,
    /// Whether it was said that one group holds most of it.
    has_large_group: AtomicBool,
    noted: Mutex<NotedActivity>,
    /// What the model said of it last.
    pub predicted: Mutex<Option<Arc<Predicted>>>,
    /// How it looks for a better design,
    pub considered: Mutex<Considered>,
    /// and what came of it.
    pub proposed: Mutex<Option<ProposedDesign>>,
    /// The keyspace that is being copied into this one, which nobody finds until it takes its place.
    copy_of: Option<u64>,
    /// The schemas that the keyspace has had since the store was opened, before this one.
    pub earlier_schemas: Vec<Schema>,
    /// Held by whoever gives it another design or notes that it is to have another schema, which comes with a
    /// design: neither misses the other.
    pub designing: Mutex<()>,
    /// The change of its schema that is under way, or the last one since the store was opened.
    schema_change: Mutex<Option<Arc<SchemaChange>>>,
    /// Whether that is under way.
    is_changing_schema: AtomicBool,
    /// The same keyspace with another schema, once it has one.
    successor: OnceLock<Arc<OpenKeyspace>>,
}

/// How much shares may differ that are the same.
const STEADY: f64 = 0.1;

/// How what was done with a keyspace is written down.
#[derive(Default)]
struct NotedActivity {
    /// What was written down last,
    activity: Activity,
    /// what the counters said then,
    counted: Activity,
    /// and when that was.
    at_ms: Option<u64>,
    overwrites: Overwrites,
}

/// Which share of the writes overwrite, as merges at the bottom find.
#[derive(Clone, Copy, Default)]
struct Overwrites {
    /// What they had found when this was looked at last.
    arrived: u64,
    replaced: u64,
    /// What they found then, since the time before; and whether that was the same then.
    share: Option<f64>,
    is_steady: bool,
}

impl Overwrites {
    fn note(&mut self, counted: &Activity) {
        let (arrived, replaced) = (counted.of(Count::Arrived), counted.of(Count::Replaced));
        if arrived == self.arrived {
            return;
        }
        let share = ((replaced - self.replaced) as f64 / (arrived - self.arrived) as f64).min(1.0);
        // Merges lag behind writes: while the share changes, nothing is known of the writes.
        let is_steady = self.share.is_some_and(|before| (share - before).abs() <= STEADY);
        *self = Self { arrived, replaced, share: Some(share), is_steady };
    }
}

/// What a keyspace is made of when it is created or found at open.
pub(crate) struct KeyspaceParts {
    pub id: u64,
    pub name: String,
    pub encoder: Encoder,
    pub folder: Option<Arc<Folder>>,
    pub version: Version,
    /// Writes before this are in tables.
    pub flushed: LogStart,
    pub schema_change: Option<Arc<SchemaChange>>,
    /// See [`OpenKeyspace::earlier_schemas`].
    pub earlier_schemas: Vec<Schema>,
}

/// Bytes of keys and values that a memtable of the design takes; a log store keeps them in the log.
fn memtable_bytes(design: &Design) -> u64 {
    match design.write_buffer {
        WriteBufferSpec::MemTable { bytes } => bytes,
        WriteBufferSpec::LogStore { .. } => 0,
    }
}

impl OpenKeyspace {
    /// Makes a keyspace with an empty write buffer for all writes that are newer than `born_at`.
    pub fn new(parts: KeyspaceParts, born_at: Sequence, memory: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self::with_buffer(parts, born_at, memory, None))
    }

    /// Makes a keyspace without items that nobody finds, with the schema and the design that `of` is to have:
    /// what `of` holds is copied into it. Its number is `id`, and its write buffer a memtable.
    pub fn copy_of(of: &Self, change: &SchemaChange, id: u64, memory: &Arc<MemoryBudget>) -> Arc<Self> {
        let parts = KeyspaceParts {
            id,
            name: of.name.clone(),
            encoder: change.encoder,
            folder: of.folder.clone(),
            version: Version::new(Arc::clone(&change.design)),
            flushed: of.flushed(),
            schema_change: None,
            earlier_schemas: Vec::new(),
        };
        let copy = Self::with_buffer(parts, 0, memory, Some(of.id));
        let fresh = copy.new_memtable(0, memory);
        copy.seal_with(fresh, Reason::Requested);
        Arc::new(copy)
    }

    fn with_buffer(
        parts: KeyspaceParts,
        born_at: Sequence,
        memory: &Arc<MemoryBudget>,
        copy_of: Option<u64>,
    ) -> Self {
        let KeyspaceParts { id, name, encoder, folder, version, flushed, .. } = parts;
        let active = WriteBuffer::new(&version.design, born_at, encoder, folder.as_ref(), memory);
        let expected_buffer = Mutex::new(memory.expect_write_buffer(memtable_bytes(&version.design)));
        let noted = NotedActivity { activity: version.activity, ..NotedActivity::default() };
        let view = View { active, sealed: Vec::new(), version: Arc::new(version), builds: 0 };
        let is_changing_schema = parts.schema_change.as_ref().is_some_and(|change| change.is_open());
        Self {
            id,
            name,
            encoder,
            folder,
            view: Published::from_pointee(view),
            counters: KeyspaceCounters::default(),
            upper_reads: UpperReads::default(),
            filter_limits: FilterLimits::default(),
            expected_buffer,
            pressure: AtomicU64::new(0),
            flushed: Mutex::new(flushed),
            is_dropped: AtomicBool::new(false),
            is_being_cleared: AtomicBool::new(false),
            has_large_group: AtomicBool::new(false),
            noted: Mutex::new(noted),
            predicted: Mutex::new(None),
            considered: Mutex::default(),
            proposed: Mutex::default(),
            copy_of,
            earlier_schemas: parts.earlier_schemas,
            designing: Mutex::default(),
            schema_change: Mutex::new(parts.schema_change),
            is_changing_schema: AtomicBool::new(is_changing_schema),
            successor: OnceLock::new(),
        }
    }

    /// Returns the keyspace as it is now: the last that has taken its place, or itself.
    #[inline]
    pub fn current(self: &Arc<Self>) -> &Arc<Self> {
        let mut present = self;
        while let Some(next) = present.successor.get() {
            present = next;
        }
        present
    }

    /// Whether another one has taken its place, so that its view may hold nothing any more.
    #[inline]
    pub fn is_replaced(&self) -> bool {
        self.successor.get().is_some()
    }

    /// Lets `successor` take its place: whoever has pinned a view keeps that, and whoever loads one from now
    /// on finds an empty one and a successor. The caller holds the view lock.
    pub fn give_way_to(&self, successor: &Arc<Self>, memory: &Arc<MemoryBudget>) {
        let _ = self.successor.set(Arc::clone(successor));
        self.mark_dropped();
        let version = Arc::new(Version::new(self.design()));
        let active = self.new_memtable(Sequence::MAX, memory);
        let builds = self.view.load().builds;
        self.view.store(Arc::new(View { active, sealed: Vec::new(), version, builds }));
        self.expected_buffer.lock().change_to(0);
    }

    /// Whether it is a copy that is being made, which no manifest names.
    pub fn is_copy(&self) -> bool {
        self.copy_of.is_some()
    }

    /// Returns the number of the keyspace that its tables are written for.
    pub fn owner(&self) -> u64 {
        self.copy_of.unwrap_or(self.id)
    }

    /// How often the keyspace has got another schema since the store was opened.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.earlier_schemas.len() as u32
    }

    /// Returns the change of its schema that is under way.
    pub fn open_schema_change(&self) -> Option<Arc<SchemaChange>> {
        self.last_schema_change().filter(|change| change.is_open())
    }

    /// Returns the change of its schema that is under way, or the last one since the store was opened.
    pub fn last_schema_change(&self) -> Option<Arc<SchemaChange>> {
        self.schema_change.lock().clone()
    }

    /// Notes that `change` is under way, or is over.
    pub fn note_schema_change(&self, change: &Arc<SchemaChange>) {
        *self.schema_change.lock() = Some(Arc::clone(change));
        self.is_changing_schema.store(change.is_open(), Ordering::Release);
    }

    /// Returns what was done with it, lately and in all.
    pub fn activity(&self) -> Activity {
        let noted = self.noted.lock();
        noted.activity.and(&self.counters.activity().since(&noted.counted))
    }

    /// Takes note, when level 0 is pushed, of which share of what merges found at the bottom overwrote.
    pub fn note_overwrites(&self) {
        self.noted.lock().overwrites.note(&self.counters.activity());
    }

    /// The share of the writes that overwrite, where it is known.
    pub fn overwrites(&self) -> Option<f64> {
        let Overwrites { share, is_steady, .. } = self.noted.lock().overwrites;
        share.filter(|_| is_steady)
    }

    /// Notes that the design is another one than what was read so far was read under.
    pub fn note_redesigned(&self) {
        let activity = self.activity();
        let reads = activity.reads().saturating_sub(activity.of(Count::ReadsBefore));
        self.counters.done.add(Count::ReadsBefore, reads);
        self.counters.reads_before.raise_to(self.counters.activity().reads());
    }

    /// The share of its reads that came before the last redesign was over: of those since it was opened, if
    /// there are any, as for what is measured of them.
    pub fn share_read_before(&self) -> f64 {
        let (since_open, ever) = (self.counters.activity().reads(), self.activity());
        let (before, reads) = match since_open {
            0 => (ever.of(Count::ReadsBefore), ever.reads()),
            reads => (self.counters.reads_before.get(), reads),
        };
        before as f64 / reads.max(1) as f64
    }

    /// Returns what is to be written down of what was done with it, now that it has about so many `items`.
    pub fn note_activity(&self, items: u64, now_ms: u64) -> Activity {
        let mut noted = self.noted.lock();
        let counted = self.counters.activity();
        let mut activity = noted.activity.and(&counted.since(&noted.counted));
        activity.add(Count::Milliseconds, now_ms.saturating_sub(noted.at_ms.unwrap_or(now_ms)));
        let activity = activity.faded(items);
        *noted = NotedActivity { activity, counted, at_ms: Some(now_ms), ..*noted };
        activity
    }

    /// Whether anything was done with it that is not written down.
    pub fn has_activity_to_note(&self) -> bool {
        self.counters.activity() != self.noted.lock().counted
    }

    /// Returns the design, by which what is written from now on is laid out.
    pub fn design(&self) -> Arc<Design> {
        Arc::clone(&self.view.load().version.design)
    }

    /// Returns the tables as they are now.
    pub fn version(&self) -> Arc<Version> {
        Arc::clone(&self.view.load().version)
    }

    /// Keeps room in memory for write buffers as `design` has them, rather than for those of before.
    pub fn expect_buffers_of(&self, design: &Design) {
        self.expected_buffer.lock().change_to(memtable_bytes(design));
    }

    /// Makes an empty write buffer for all writes that are newer than `born_at`.
    pub fn new_buffer(&self, born_at: Sequence, memory: &Arc<MemoryBudget>) -> WriteBuffer {
        WriteBuffer::new(&self.design(), born_at, self.encoder, self.folder.as_ref(), memory)
    }

    /// Makes an empty memtable where the design has a log store, for writes that stand in the log in a form
    /// that a log store can't take: those of before a redesign.
    pub fn new_memtable(&self, born_at: Sequence, memory: &Arc<MemoryBudget>) -> WriteBuffer {
        let bytes = self.design().write_buffer_bytes();
        let design = Design { write_buffer: WriteBufferSpec::MemTable { bytes }, ..Design::default() };
        WriteBuffer::new(&design, born_at, self.encoder, self.folder.as_ref(), memory)
    }

    /// Begins the next write buffer with `write`, which the present one has no room for or can't take. Only
    /// memory changes, so that nothing can fail.
    pub fn seal_before(&self, write: &Write<'_>, visible: Sequence, reader: &Reader) -> WriteBuffer {
        let born_at = write.sequence.saturating_sub(1);
        let mut fresh = self.new_buffer(born_at, reader.memory());
        if !fresh.takes(write.is_checked) {
            fresh = self.new_memtable(born_at, reader.memory());
        }
        let inserted = fresh.insert(write, visible, reader);
        debug_assert!(inserted.is_ok(), "an empty write buffer has room");
        let reason = self.buffer_is_full();
        self.seal_with(fresh.clone(), reason);
        fresh
    }

    /// Returns the reason to seal the write buffer that takes writes where it is full.
    pub fn buffer_is_full(&self) -> Reason {
        let view = self.view.load();
        Reason::BufferFull { bytes: view.active.user_bytes(), entries: view.active.entries() }
    }

    /// Lets `fresh` take writes from now on, and what took them so far wait to be flushed, because of
    /// `reason`. The caller holds the view lock, unless nobody else has the keyspace yet or the store is
    /// still being opened: what is committed or pinned meanwhile would be lost, or seen in part.
    pub fn seal_with(&self, fresh: WriteBuffer, reason: Reason) {
        let mut view = View::clone(&self.view.load());
        let buffer = std::mem::replace(&mut view.active, fresh);
        if !buffer.is_empty() {
            view.sealed.insert(0, SealedBuffer { buffer, reason });
        }
        self.view.store(Arc::new(view));
    }

    /// Returns how far compaction has fallen behind: 0 on time, 1 badly late.
    pub fn pressure(&self) -> f64 {
        f64::from_bits(self.pressure.load(Ordering::Relaxed))
    }

    pub fn set_pressure(&self, pressure: f64) {
        self.pressure.store(pressure.to_bits(), Ordering::Relaxed);
    }

    /// Returns where in the log the writes begin that are not in tables.
    pub fn flushed(&self) -> LogStart {
        *self.flushed.lock()
    }

    pub fn set_flushed(&self, start: LogStart) {
        *self.flushed.lock() = start;
    }

    /// Whether the keyspace is gone from the store; handles to it still read what they pinned.
    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    pub fn mark_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    /// Returns an error if the keyspace has been dropped.
    pub fn check_exists(&self) -> Result<()> {
        if self.is_dropped() && !self.is_replaced() {
            return Err(Error::no_keyspace(format_args!("keyspace {:?} has been dropped", self.name)));
        }
        Ok(())
    }

    /// Whether work on what it holds is of no more use.
    pub fn is_being_cleared(&self) -> bool {
        self.is_being_cleared.load(Ordering::Acquire)
    }

    pub fn set_being_cleared(&self, is_being_cleared: bool) {
        self.is_being_cleared.store(is_being_cleared, Ordering::Release);
    }

    /// Notes that it is said that one group holds most of it; false where it was said before.
    pub fn note_large_group(&self) -> bool {
        !self.has_large_group.swap(true, Ordering::Relaxed)
    }

    /// Returns where `key` stands in the store's order.
    #[inline]
    pub fn encode<'a>(&self, key: &'a [u8]) -> Result<EncodedKey<'a>> {
        self.encoder.encode(key).map_err(|error| self.refuses(error))
    }

    /// Returns the digest half that all keys with `prefix` share.
    pub fn encode_prefix(&self, prefix: &[u8]) -> Result<u64> {
        self.encoder.encode_prefix(prefix).map_err(|error| self.refuses(error))
    }

    /// Returns the error of a key, a prefix or a range that the keyspace has no place for.
    #[cold]
    pub fn refuses(&self, error: KeyError) -> Error {
        let is_prefix = matches!(error, KeyError::NotAPrefix(_) | KeyError::NotSemiSorted);
        let error = Error::from(error).of(format_args!("keyspace {:?}", self.name));
        if is_prefix {
            error.and("a walk over the keys starting with it takes any beginning, and reads more")
        } else {
            error
        }
    }

    /// Passes over an error that is due to the keyspace's being dropped.
    pub fn unless_dropped(&self, error: Error) -> Result<bool> {
        if self.is_dropped() { Ok(true) } else { Err(error) }
    }

    /// Returns where `key` goes, if it can be written.
    pub fn place_for_write<'a>(&self, key: &'a [u8]) -> Result<EncodedKey<'a>> {
        self.check_exists()?;
        self.check_key_to_come(key)?;
        self.encode(key)
    }

    /// Refuses a key that does not fit the schema which the keyspace is about to have.
    #[inline]
    pub fn check_key_to_come(&self, key: &[u8]) -> Result<()> {
        if !self.is_changing_schema.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(change) = self.open_schema_change() else { return Ok(()) };
        change.encoder.encode(key).map(drop).map_err(|error| {
            let error = Error::from(error).of(format_args!("keyspace {:?}", self.name));
            error.and(
                "that is by the schema that it is getting; Keyspace::cancel_schema_change leaves it as it is",
            )
        })
    }
}
