//! Tables: immutable sorted files, and the only place where a format is matched on.
//!
//! A table says of each key at most one thing. Which level or region it serves is not its business.

pub(crate) mod block;
pub(crate) mod envelope;
pub(crate) mod filter;
pub(crate) mod hash_store;
pub(crate) mod htable;
mod parts;
pub(crate) mod sample;
pub(crate) mod slots;
pub(crate) mod sorted_store;
mod writer;

use crate::cache::{Reader, TableId, table_path};
use crate::entry::{Cursor, EntryRef, Lookup, PrefixTombstones, Span};
use crate::error::{Error, Result};
use crate::io::Disk;
use crate::memory::MemoryBudget;
use crate::stats::ReadTrace;
use block::build::BlockBuilder;
use block::cursor::BlockCursor;
use block::read::BlockTable;
use envelope::TableMeta;
use hash_store::build::HashPlacement;
use hash_store::read::HashStore;
use htable::build::HTableBuilder;
use htable::cursor::HTableCursor;
use htable::read::HTable;
use parking_lot::Mutex;
use parts::read_section;
use sample::KeySample;
use siltstone_design::{Design, Digest, EncodedKey, Encoder, FilterSpec, Format, IndexSpec, LevelSpec};
use siltstone_succinct::filter::maplet::Maplet;
use slots::build::SlotBuilder;
use slots::cursor::{Chunked, SlotCursor};
use sorted_store::build::SortedPlacement;
use sorted_store::read::SortedStore;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use writer::NewTable;
use writer::TableWriter;

/// What a new table is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSpec {
    pub id: TableId,
    pub format: Format,
    pub index: IndexSpec,
    pub filter: FilterSpec,
    /// Whether entries keep what their writer learnt of older versions.
    pub keeps_older_in: bool,
    /// How far apart in the upper digest half two pages are expected to begin. Only a hint: it costs bits of the index where
    /// it is wrong.
    pub digests_per_page: u64,
    /// Bytes of a full pile of runs like the table's, which its keys are told apart in by a maplet.
    pub pile_bytes: u64,
    /// Bytes written at once, and entries' bytes in a segment where the format has segments.
    pub chunk_bytes: usize,
}

impl TableSpec {
    /// A table of level `level` of `design`, written in chunks of `chunk_bytes`.
    pub fn new(
        id: TableId,
        (design, level): (&Design, usize),
        digests_per_page: u64,
        chunk_bytes: usize,
    ) -> Self {
        let LevelSpec { format, index, filter, .. } = *design.level(level);
        let (keeps_older_in, pile_bytes) = (design.is_guided_from(level), design.level(level).pile_bytes());
        Self { id, format, index, filter, keeps_older_in, digests_per_page, pile_bytes, chunk_bytes }
    }
}

/// How a walk reads: gets and short scans through the page cache, the others around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    Short,
    Long,
    Compaction,
}

/// A place in the store's order as bytes that compare like it.
pub(crate) fn sort_key(digest: Digest, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + key.len());
    crate::codec::put_digest(&mut out, digest);
    out.extend_from_slice(key);
    out
}

enum Layout {
    Block(Arc<BlockTable>),
    HTable(Arc<HTable>),
    Hash(Arc<HashStore>),
    Sorted(Arc<SortedStore>),
}

/// An open table. Once marked obsolete, its file is removed when the last holder lets go.
pub(crate) struct Table {
    layout: Layout,
    encoder: Encoder,
    file: Arc<TableFile>,
    /// Background work has loaded of it what there was room for.
    was_loaded: AtomicBool,
}

/// The file of a table, which several values may stand for.
struct TableFile {
    id: TableId,
    pages: u32,
    /// Bytes of the index, for which there should be room.
    index_bytes: u64,
    obsolete: AtomicBool,
    trash: Arc<Trash>,
}

/// Files of tables that nobody holds any more, waiting to be removed by background work.
#[derive(Debug)]
pub(crate) struct Trash {
    files: Mutex<Vec<(TableId, u32)>>,
    memory: Arc<MemoryBudget>,
}

impl Default for Trash {
    /// For tables that nobody reads.
    fn default() -> Self {
        Self::new(MemoryBudget::new(0))
    }
}

impl Trash {
    /// For tables whose indexes are kept within `memory`.
    pub fn new(memory: Arc<MemoryBudget>) -> Self {
        Self { files: Mutex::default(), memory }
    }

    /// Adds a file that nobody holds any more.
    pub fn put(&self, file: TableId, pages: u32) {
        self.files.lock().push((file, pages));
    }

    /// Takes what has gathered: table numbers with their page counts.
    pub fn take(&self) -> Vec<(TableId, u32)> {
        std::mem::take(&mut self.files.lock())
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        self.trash.memory.expect_index_no_more(self.index_bytes);
        if self.obsolete.load(Ordering::Acquire) {
            self.trash.put(self.id, self.pages);
        }
    }
}

impl Table {
    /// A table known from its properties; nothing is read yet.
    pub fn new(meta: TableMeta, encoder: Encoder, trash: Arc<Trash>) -> Self {
        let index_bytes = meta.index.length + meta.page_map.length;
        trash.memory.expect_index(index_bytes);
        let obsolete = AtomicBool::new(false);
        let file = TableFile { id: meta.id, pages: meta.pages, index_bytes, obsolete, trash };
        Self::of_file(meta, encoder, Arc::new(file))
    }

    fn of_file(meta: TableMeta, encoder: Encoder, file: Arc<TableFile>) -> Self {
        let layout = match meta.format {
            Format::Block => Layout::Block(Arc::new(BlockTable::new(meta))),
            Format::HTable => Layout::HTable(Arc::new(HTable::new(meta))),
            Format::Hash => Layout::Hash(Arc::new(HashStore::new(meta))),
            Format::Sorted => Layout::Sorted(Arc::new(SortedStore::new(meta))),
        };
        Self { layout, encoder, file, was_loaded: AtomicBool::new(false) }
    }

    /// The same table with nothing of it in memory.
    pub fn unloaded(&self) -> Self {
        Self::of_file(self.meta().clone(), self.encoder, Arc::clone(&self.file))
    }

    /// Loads filter and index, as far as they fit the budget. A reader that does not load leaves them out until this was called.
    pub fn load(&self, reader: &Reader) -> Result<()> {
        self.was_loaded.store(true, Ordering::Relaxed);
        match &self.layout {
            Layout::Block(block) => block.load(reader),
            Layout::HTable(htable) => htable.load(reader),
            Layout::Hash(store) => store.load(reader),
            Layout::Sorted(store) => store.load(reader),
        }
    }

    /// Whether [`Table::load`] was called.
    pub fn was_loaded(&self) -> bool {
        self.was_loaded.load(Ordering::Relaxed)
    }

    /// Bytes of the budget that its filter and index hold, without which lookups read more.
    pub fn spare_bytes(&self) -> u64 {
        match &self.layout {
            Layout::Block(block) => block.spare_bytes(),
            Layout::HTable(htable) => htable.spare_bytes(),
            Layout::Hash(store) => store.spare_bytes(),
            Layout::Sorted(store) => store.spare_bytes(),
        }
    }

    pub fn meta(&self) -> &TableMeta {
        match &self.layout {
            Layout::Block(block) => &block.meta,
            Layout::HTable(htable) => &htable.meta,
            Layout::Hash(store) => &store.file().meta,
            Layout::Sorted(store) => &store.file().meta,
        }
    }

    pub fn id(&self) -> TableId {
        self.meta().id
    }

    /// The file is to go once nobody reads it.
    pub fn mark_obsolete(&self) {
        self.file.obsolete.store(true, Ordering::Release);
    }

    /// What the table says about `key`.
    #[inline]
    pub fn get(&self, key: &EncodedKey<'_>, reader: &Reader, trace: &mut ReadTrace) -> Result<Lookup> {
        match &self.layout {
            Layout::Block(block) => block.get(key, &self.encoder, reader, trace),
            Layout::HTable(htable) => htable.get(key, &self.encoder, reader, trace),
            Layout::Hash(store) => store.get(key, reader, trace),
            Layout::Sorted(store) => store.get(key, &self.encoder, reader, trace),
        }
    }

    /// Its entries within `span`, in the store's order.
    pub fn stream(self: &Arc<Self>, span: Span, walk: Walk, reader: &Arc<Reader>) -> Result<Box<dyn Cursor>> {
        let encoder = self.encoder;
        Ok(match &self.layout {
            Layout::Block(block) => Box::new(BlockCursor::new((self, block), reader, encoder, span, walk)?),
            Layout::HTable(htable) => {
                Box::new(HTableCursor::new((self, htable), reader, encoder, &span, walk)?)
            }
            Layout::Hash(store) => Box::new(SlotCursor::new((self, store), reader, encoder, span, walk)?),
            Layout::Sorted(store) => Box::new(SlotCursor::new((self, store), reader, encoder, span, walk)?),
        })
    }

    /// Asks for the pages of `span` to be fetched ahead of a walk over it.
    pub fn want(&self, span: &Span, reader: &Reader) -> Result<()> {
        match &self.layout {
            Layout::Block(block) => block.want(span, reader),
            // Their walks read whole segments, or chunks, at once.
            Layout::HTable(_) | Layout::Hash(_) | Layout::Sorted(_) => Ok(()),
        }
    }

    /// Reads what stands behind the pages and checks it against the table's description; `Some` says what is wrong.
    pub fn verify_sections(&self, reader: &Reader) -> Result<Option<String>> {
        let meta = self.meta();
        for section in [&meta.index, &meta.filter, &meta.page_map, &meta.sample] {
            read_section(meta, section, reader)?;
        }
        let tail_at = meta.sample.offset + meta.sample.length;
        let tail = reader.section(meta.id, tail_at, (meta.bytes - tail_at) as usize)?;
        let same = tail == envelope::encode_tail(meta, tail_at);
        Ok((!same).then(|| "its properties or its footer differ from what the manifest says".to_owned()))
    }

    /// The fingerprints of its keys, as a maplet of one run; `None` if it keeps none.
    pub fn fingerprints(&self, reader: &Reader) -> Result<Option<Maplet>> {
        let meta = self.meta();
        if meta.filter.length == 0 || !matches!(meta.filter_spec, FilterSpec::Maplet { .. }) {
            return Ok(None);
        }
        let bytes = read_section(meta, &meta.filter, reader)?;
        let maplet = Maplet::from_trusted_bytes(&bytes);
        maplet.map(Some).map_err(|error| parts::damaged(meta, meta.filter.offset, &error, reader))
    }

    /// The sample of its keys.
    pub fn sample(&self, reader: &Reader) -> Result<KeySample> {
        let section = self.meta().sample;
        KeySample::from_bytes(&read_section(self.meta(), &section, reader)?).ok_or_else(|| {
            let path = reader.path(self.id());
            Error::corruption(&path, section.offset, "a key sample", "malformed bytes")
        })
    }
}

/// Builds a table of any format.
pub(crate) enum TableBuilder {
    Block(Box<BlockBuilder>),
    HTable(Box<HTableBuilder>),
    Hash(Box<SlotBuilder<HashPlacement>>),
    Sorted(Box<SlotBuilder<SortedPlacement>>),
}

impl TableBuilder {
    /// Creates the file of a new table.
    pub fn create(disk: &dyn Disk, dir: &Path, spec: TableSpec) -> Result<Self> {
        let path = table_path(dir, spec.id);
        let file = disk.create_streamed(&path).map_err(|e| Error::io(&e, "creating", &path))?;
        let writer = TableWriter::new(file, path, spec);
        Ok(match spec.format {
            Format::Block => Self::Block(Box::new(BlockBuilder::new(writer))),
            Format::HTable => Self::HTable(Box::new(HTableBuilder::new(writer))),
            Format::Hash => Self::Hash(Box::new(SlotBuilder::new(writer, HashPlacement::new))),
            Format::Sorted => Self::Sorted(Box::new(SlotBuilder::new(writer, SortedPlacement::new))),
        })
    }

    /// Whether the table can take an entry of this digest behind those it has; else the run goes on in another table.
    pub fn takes(&self, digest: Digest) -> bool {
        match self {
            Self::Block(_) | Self::HTable(_) => true,
            Self::Hash(builder) => builder.takes(digest),
            Self::Sorted(builder) => builder.takes(digest),
        }
    }

    /// Adds the next entry in the store's order.
    #[inline]
    pub fn add(&mut self, entry: &EntryRef<'_>) -> Result<()> {
        match self {
            Self::Block(builder) => builder.add(entry),
            Self::HTable(builder) => builder.add(entry),
            Self::Hash(builder) => builder.add(entry),
            Self::Sorted(builder) => builder.add(entry),
        }
    }

    /// Bytes its pages take so far.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Block(builder) => builder.bytes(),
            Self::HTable(builder) => builder.bytes(),
            Self::Hash(builder) => builder.bytes(),
            Self::Sorted(builder) => builder.bytes(),
        }
    }

    /// Finishes and syncs the file; the prefixes deleted by the table's run go in too.
    pub fn finish(self, tombstones: PrefixTombstones) -> Result<NewTable> {
        match self {
            Self::Block(builder) => builder.finish(tombstones),
            Self::HTable(builder) => builder.finish(tombstones),
            Self::Hash(builder) => builder.finish(tombstones),
            Self::Sorted(builder) => builder.finish(tombstones),
        }
    }
}
