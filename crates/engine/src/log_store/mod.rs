//! The log store: the write-ahead log serves as the store, and memory holds where in it each item stands.
//!
//! ```text
//!  memory   partial-key cuckoo index, four lanes a bucket: tag, 16 bits · position, u32
//!            │          │               │
//!  log      ─┴──┬───────┴────────┬──────┴──┬─────────────────┬──
//!            put│put of another  │delete   │put              │ ...
//!               │keyspace        │         │                 │
//!           ────┴────────────────┴─────────┴─────────────────┴──
//!           └ segment 7 ───────────────┘└ segment 8 ───────────
//! ```
//!
//! A get reads the operation that a tag leads to, in one read, checks it by its own checksum and compares the
//! key; one in some thousands is another key's. A sealed store goes on serving where it lies, and is flushed
//! like a memtable.
//!
//! Source: Lim, Fan, Andersen and Kaminsky, "SILT" (SOSP 2011), §3.1 and §4. Where we differ, and why:
//!
//! * The log is the one that all keyspaces share, so there is no second write; sequence numbers are positions
//!   in it.
//! * There may be more than 2^15 buckets, with tags as short: they are of the key alone (see
//!   [`PartialKeyCuckoo`]). The paper makes tags longer.
//! * Snapshots and batches. An overwritten version stays in the index beside the new one until that is
//!   visible and no snapshot can want the old one. So nobody sees a part of a batch, and a get that comes
//!   between is told to look again. A key has room for eight versions: more that snapshots want seal the
//!   store.
//! * An insertion that finds no room changes nothing; its operation is the first of the next store, wherever
//!   in a segment it stands.
//!
//! Invariants: a position is that of a whole checked operation in one of `pieces`; of a key's versions in the
//! index the newest is the newest there is here; a version is taken out only once a newer one is visible.

mod read;
mod scan;

pub(crate) use scan::LogScan;

use crate::cache::{Probe, Reader};
use crate::entry::Sequence;
use crate::memory::{Holder, MemoryBudget, Reservation};
use crate::record::LogStart;
use crate::segment::LogSegment;
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use siltstone_design::{Encoder, design::LOG_STORE_FILL};
use siltstone_succinct::index::partial_key_cuckoo::{Form, Full, LANES, PartialKeyCuckoo};
use std::sync::Arc;

/// A log store.
pub(crate) struct LogStore {
    buckets: u32,
    state: RwLock<State>,
    /// Versions that newer ones replace once these are visible.
    superseded: Mutex<Vec<Superseded>>,
    user_bytes: AtomicU64,
    newest: AtomicU64,
    /// First log segment that holds an entry; unset while there is none.
    log_start: OnceLock<LogStart>,
    encoder: Encoder,
    budget: Arc<MemoryBudget>,
    /// What is newer than this is in it or in a newer write buffer.
    pub born_at: Sequence,
}

#[derive(Default)]
struct State {
    /// Made with the first entry, so that a keyspace that is not written to takes no memory.
    index: Option<(PartialKeyCuckoo, Reservation)>,
    /// Sequence number of position 0.
    base: Sequence,
    pieces: Vec<Piece>,
    /// Bytes of the longest operation.
    longest: usize,
}

/// The part of a segment that the store's entries are in.
#[derive(Clone)]
struct Piece {
    segment: Arc<LogSegment>,
    /// LSN after the last entry.
    end: u64,
}

/// A version of a key and the next newer one.
struct Superseded {
    fingerprint: u64,
    old: Sequence,
    new: Sequence,
}

/// An operation that was appended to the log.
pub(crate) struct Appended<'a> {
    /// Where it begins.
    pub sequence: Sequence,
    pub segment: &'a Arc<LogSegment>,
    /// Bytes of the whole operation.
    pub length: usize,
    pub fingerprint: u64,
    pub key: &'a [u8],
    /// Bytes of key and value.
    pub user_bytes: u64,
}

impl LogStore {
    /// An empty store with room for about `entries`, for all that is newer than `born_at`.
    pub fn new(born_at: Sequence, entries: u32, encoder: Encoder, budget: &Arc<MemoryBudget>) -> Self {
        Self {
            buckets: entries.div_ceil(LANES as u32).max(1),
            state: RwLock::default(),
            superseded: Mutex::default(),
            user_bytes: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            log_start: OnceLock::new(),
            encoder,
            budget: Arc::clone(budget),
            born_at,
        }
    }

    /// Where in the log its entries begin; `None` while there are none.
    pub fn log_start(&self) -> Option<LogStart> {
        self.log_start.get().copied()
    }

    /// Entries in the index: versions that are overwritten and no longer wanted are not among them.
    pub fn entries(&self) -> u64 {
        self.state.read().index.as_ref().map_or(0, |(index, _)| index.len() as u64)
    }

    /// Bytes of keys and values added.
    pub fn user_bytes(&self) -> u64 {
        self.user_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of memory that the index takes.
    pub fn memory_bytes(&self) -> u64 {
        self.state.read().index.as_ref().map_or(0, |(index, _)| index.memory_bytes() as u64)
    }

    /// Sequence number of the newest entry.
    pub fn newest(&self) -> Sequence {
        self.newest.load(Ordering::Acquire)
    }

    /// The share of the entries that it takes that it has.
    pub fn fill(&self) -> f64 {
        let state = self.state.read();
        let fill =
            state.index.as_ref().map_or(0.0, |(index, _)| index.len() as f64 / index.capacity() as f64);
        fill / LOG_STORE_FILL
    }

    /// Adds an operation, the newest of all. Others see it once `visible` is at its sequence number.
    ///
    /// # Errors
    /// [`Full`] where there is no room for it; nothing has changed then. An empty store has room.
    pub fn insert(&self, entry: &Appended<'_>, visible: Sequence, reader: &Reader) -> Result<(), Full> {
        // Only the writer changes the index, so what is found here is so until it is done.
        let versions = self.versions(entry, reader);
        let mut state = self.state.write();
        let is_empty = state.pieces.is_empty();
        if is_empty {
            state.base = entry.sequence;
            let index = PartialKeyCuckoo::new(Form::Mixed, self.buckets);
            let memory = self.budget.hold(Holder::Memtable, index.memory_bytes() as u64);
            state.index = Some((index, memory));
        }
        let base = state.base;
        let number = position(base, entry.sequence).ok_or(Full)?;
        let Some((index, _)) = &mut state.index else { return Err(Full) };
        // One that nobody has seen yet need not stay.
        match versions.last().filter(|last| **last > visible) {
            Some(&unseen) => {
                let old = position(base, unseen).unwrap_or(0);
                if !index.replace(entry.fingerprint, old, number) {
                    index.insert(entry.fingerprint, number)?;
                }
                let mut superseded = self.superseded.lock();
                superseded.iter_mut().filter(|s| s.new == unseen).for_each(|s| s.new = entry.sequence);
            }
            None => {
                index.insert(entry.fingerprint, number)?;
                let newer = versions.iter().skip(1).copied().chain([entry.sequence]);
                let fingerprint = entry.fingerprint;
                let pairs =
                    versions.iter().zip(newer).map(|(&old, new)| Superseded { fingerprint, old, new });
                self.superseded.lock().extend(pairs);
            }
        }
        let end = entry.sequence + entry.length as u64;
        match state.pieces.last_mut().filter(|piece| piece.segment.number == entry.segment.number) {
            Some(piece) => piece.end = end,
            None => {
                entry.segment.keep();
                state.pieces.push(Piece { segment: Arc::clone(entry.segment), end });
            }
        }
        state.longest = state.longest.max(entry.length);
        self.newest.store(entry.sequence, Ordering::Release);
        self.log_start.get_or_init(|| entry.segment.start());
        self.user_bytes.fetch_add(entry.user_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// The sequence numbers of the key's versions that are in the index, ascending. One that can't be read is
    /// not among them, and stays.
    fn versions(&self, entry: &Appended<'_>, reader: &Reader) -> Vec<Sequence> {
        let candidates = self.candidates(entry.fingerprint, Sequence::MAX);
        let is_version = |place: &&read::Place| {
            let bytes =
                Probe::waiting(reader, &self.encoder).complete(|probe| place.read(candidates.guess, probe));
            bytes.is_ok_and(|bytes| place.decode(&bytes).is_ok_and(|found| found.key == entry.key))
        };
        let mut versions: Vec<_> =
            candidates.places.iter().filter(is_version).map(|place| place.sequence).collect();
        versions.sort_unstable();
        versions
    }

    /// Takes out overwritten versions now that the newer ones are visible, unless `is_wanted`: some snapshot
    /// sees at least the first, but not the second of two sequence numbers.
    pub fn settle(&self, is_wanted: impl Fn(Sequence, Sequence) -> bool) {
        let superseded = std::mem::take(&mut *self.superseded.lock());
        if superseded.is_empty() {
            return;
        }
        let mut state = self.state.write();
        let base = state.base;
        let Some((index, _)) = &mut state.index else { return };
        for Superseded { fingerprint, old, new } in superseded {
            if let Some(old) = position(base, old).filter(|_| !is_wanted(old, new)) {
                index.remove(fingerprint, old);
            }
        }
    }

    /// Whether the key may have been written after `sequence`: no where it was not, yes where it was, and
    /// seldom else.
    pub fn changed_since(&self, fingerprint: u64, sequence: Sequence) -> bool {
        self.candidates(fingerprint, sequence).newer.is_some()
    }
}

/// The position of `sequence`; `None` where it is too far from the first.
fn position(base: Sequence, sequence: Sequence) -> Option<u32> {
    u32::try_from(sequence.checked_sub(base)?).ok()
}
