//! The write buffer of a keyspace: where writes gather before they become a run of level 0. The one place
//! that tells kinds of write buffers apart.

use crate::cache::{Pause, Probe, Reader};
use crate::entry::{Answer, Cursor, Item, PrefixTombstones, Sequence, Span};
use crate::error::Result;
use crate::log_store::{Appended, LogScan, LogStore};
use crate::memory::MemoryBudget;
use crate::memtable::{MemTable, Version};
use crate::merge_operator::Folder;
use crate::record::LogStart;
use crate::segment::LogSegment;
use crate::value::Shared;
use siltstone_design::{Design, Digest, EncodedKey, Encoder, WriteBufferSpec as Kind};
use std::sync::Arc;

/// What the log holds of an operation beside its bytes, on the average: what a replay into memory is reckoned
/// with.
const LOGGED_OVERHEAD_BYTES: u64 = 32;

/// A write buffer; clones are the same one.
#[derive(Clone)]
pub(crate) enum WriteBuffer {
    Table(Arc<MemTable>),
    Log(Arc<LogStore>),
}

/// A write to one key, which stands in the log.
pub(crate) struct Write<'a> {
    pub sequence: Sequence,
    pub segment: &'a Arc<LogSegment>,
    /// Bytes of the operation.
    pub length: usize,
    /// Digest and fingerprint of the key.
    pub place: (Digest, u64),
    pub key: &'a [u8],
    pub item: Item<'a>,
    /// The item's value, where it is large and need not be copied.
    pub shared: Option<Shared>,
    pub older_in: u64,
    /// Whether it can be read from the log by itself.
    pub is_checked: bool,
}

/// There is no place for a write; it belongs to the next write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl WriteBuffer {
    /// An empty write buffer as `design` has it, for all writes that are newer than `born_at`; a memtable
    /// folds operands with `folder`.
    pub fn new(
        design: &Design,
        born_at: Sequence,
        encoder: Encoder,
        folder: Option<&Arc<Folder>>,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        match design.write_buffer {
            Kind::MemTable { bytes } => {
                Self::Table(Arc::new(MemTable::new(born_at, bytes, folder.cloned(), budget)))
            }
            Kind::LogStore { entries } => {
                Self::Log(Arc::new(LogStore::new(born_at, entries, encoder, budget)))
            }
        }
    }

    /// Whether operations have to stand in the log so that one can be read by itself.
    pub fn reads_from_log(design: &Design) -> bool {
        matches!(design.write_buffer, Kind::LogStore { .. })
    }

    /// Whether an operation can be taken, whose log record can be read by itself or can't.
    pub fn takes(&self, is_checked: bool) -> bool {
        matches!(self, Self::Table(_)) || is_checked
    }

    /// Whether both are the same one.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Table(a), Self::Table(b)) => Arc::ptr_eq(a, b),
            (Self::Log(a), Self::Log(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Adds a write, the newest of all, which readers see once `visible` is at its sequence number.
    ///
    /// # Errors
    /// [`Full`] where there is no room for it, or a log store could not read it; nothing has changed then. An
    /// empty write buffer has room.
    pub fn insert(
        &self,
        write: &Write<'_>,
        visible: Sequence,
        reader: &Reader,
    ) -> std::result::Result<(), Full> {
        match self {
            Self::Table(table) => {
                table.note_log_start(write.segment.start());
                table.insert(&Version {
                    digest: write.place.0,
                    fingerprint: write.place.1,
                    sequence: write.sequence,
                    key: write.key,
                    item: write.item,
                    shared: write.shared.as_ref(),
                    older_in: write.older_in,
                });
                Ok(())
            }
            Self::Log(_) if !write.is_checked => Err(Full),
            Self::Log(log) => {
                let appended = Appended {
                    sequence: write.sequence,
                    segment: write.segment,
                    length: write.length,
                    fingerprint: write.place.1,
                    key: write.key,
                    user_bytes: (write.key.len() + write.item.bytes().len()) as u64,
                };
                log.insert(&appended, visible, reader).map_err(|_| Full)
            }
        }
    }

    /// Deletes a prefix: hides older entries here and in everything below.
    pub fn delete_prefix(&self, sequence: Sequence, segment: &LogSegment, hi: u64, prefix: &[u8]) {
        match self {
            Self::Table(table) => {
                table.note_log_start(segment.start());
                table.delete_prefix(sequence, hi, prefix);
            }
            // Its keys are point keys, which have no prefixes to delete.
            Self::Log(_) => {}
        }
    }

    /// Lets go of what was only kept until now, when everything added is visible. `is_wanted` says whether a
    /// snapshot sees the first but not the second of two sequence numbers.
    pub fn settle(&self, is_wanted: impl Fn(Sequence, Sequence) -> bool) {
        match self {
            Self::Table(table) => table.settle(is_wanted),
            Self::Log(log) => log.settle(is_wanted),
        }
    }

    /// Where in the log its writes begin; `None` while there are none.
    pub fn log_start(&self) -> Option<LogStart> {
        match self {
            Self::Table(table) => table.log_start(),
            Self::Log(log) => log.log_start(),
        }
    }

    /// What is newer than this is in it or in a newer one.
    pub fn born_at(&self) -> Sequence {
        match self {
            Self::Table(table) => table.born_at,
            Self::Log(log) => log.born_at,
        }
    }

    /// Sequence number of the newest write, where that may be one within a group. Memtables are sealed
    /// between groups, with a new segment of the log, and log stores wherever they are full.
    pub fn newest_within_group(&self) -> Option<Sequence> {
        match self {
            Self::Table(_) => None,
            Self::Log(log) => Some(log.newest()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.log_start().is_none()
    }

    /// Entries it holds; in a memtable replaced ones count too.
    pub fn entries(&self) -> u64 {
        match self {
            Self::Table(table) => table.entries(),
            Self::Log(log) => log.entries(),
        }
    }

    /// Tombstones among them; a log store does not know its own.
    pub fn deleted(&self) -> u64 {
        match self {
            Self::Table(table) => table.deleted(),
            Self::Log(_) => 0,
        }
    }

    /// Bytes of keys and values added.
    pub fn user_bytes(&self) -> u64 {
        match self {
            Self::Table(table) => table.user_bytes(),
            Self::Log(log) => log.user_bytes(),
        }
    }

    /// Bytes of memory that what it holds takes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Table(table) => table.memory_bytes(),
            Self::Log(log) => log.memory_bytes(),
        }
    }

    /// About how many bytes of the log a replay would copy into memory for it.
    pub fn replayed_bytes(&self) -> u64 {
        match self {
            Self::Table(table) => table.user_bytes() + table.entries() * LOGGED_OVERHEAD_BYTES,
            Self::Log(_) => 0,
        }
    }

    /// How full it is: at 1 it is due to be sealed.
    pub fn fill(&self, design: &Design) -> f64 {
        match self {
            Self::Table(table) => table.user_bytes() as f64 / design.write_buffer_bytes() as f64,
            Self::Log(log) => log.fill(),
        }
    }

    /// Returns the newest version of `key` that `sequence` can see, and lowers `newer` to the oldest that it
    /// can't see (see [`LogStore::get`]).
    #[inline]
    pub fn get(
        &self,
        key: &EncodedKey<'_>,
        sequence: Sequence,
        probe: &mut Probe<'_>,
        newer: &mut Option<Sequence>,
    ) -> Result<Answer, Pause> {
        match self {
            Self::Table(table) => Ok(table.get(key, sequence, probe.wants, newer)),
            Self::Log(log) => log.get(key, sequence, probe, newer),
        }
    }

    /// Whether the key, or its prefix, may have been written after `sequence`.
    pub fn changed_since(&self, key: &EncodedKey<'_>, sequence: Sequence) -> bool {
        match self {
            Self::Table(table) => table.changed_since(key, sequence),
            Self::Log(log) => log.changed_since(key.fingerprint, sequence),
        }
    }

    /// The prefixes deleted as far as `sequence` can see; they hide what is older than this.
    pub fn tombstones(&self, sequence: Sequence) -> PrefixTombstones {
        match self {
            Self::Table(table) => table.tombstones(sequence),
            Self::Log(_) => PrefixTombstones::default(),
        }
    }

    /// What `sequence` sees of it, ready to be walked.
    pub fn scan(
        &self,
        sequence: Sequence,
        encoder: Encoder,
        reader: &Arc<Reader>,
        is_background: bool,
    ) -> Result<BufferScan> {
        let tombstones = self.tombstones(sequence);
        let walk = match self {
            Self::Table(table) => WalkOf::Table(Arc::clone(table), sequence, encoder),
            Self::Log(log) => WalkOf::Log(Arc::new(log.scan(sequence, reader, is_background)?)),
        };
        Ok(BufferScan { walk, tombstones })
    }
}

enum WalkOf {
    Table(Arc<MemTable>, Sequence, Encoder),
    Log(Arc<LogScan>),
}

/// A write buffer as one sequence number sees it.
pub(crate) struct BufferScan {
    walk: WalkOf,
    /// Prefixes that it deletes from what is older.
    pub tombstones: PrefixTombstones,
}

impl BufferScan {
    /// A walk over the newest version of each key within `span`.
    pub fn stream(&self, span: &Span) -> Result<Box<dyn Cursor>> {
        Ok(match &self.walk {
            WalkOf::Table(table, sequence, encoder) => {
                Box::new(table.stream(span.clone(), *sequence, *encoder)?)
            }
            WalkOf::Log(scan) => Box::new(scan.stream(span)?),
        })
    }
}
