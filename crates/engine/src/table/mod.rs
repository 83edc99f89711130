//! Tables: immutable sorted files, and the only place where a format is matched on.
//!
//! A table says of each key at most one thing. Which level or region it serves is not its business.

pub(crate) mod block;
mod build;
pub(crate) mod coded;
pub(crate) mod envelope;
mod file;
pub(crate) mod filter;
pub(crate) mod hash_store;
mod held;
pub(crate) mod htable;
mod page;
mod parts;
pub(crate) mod salvage;
pub(crate) mod sample;
pub(crate) mod slots;
pub(crate) mod sorted_store;
mod spec;
mod temporary;
mod walk;
mod writer;

use crate::cache::{PageRef, Pause, Probe, Reader, TableId};
use crate::entry::{Answer, Cursor, Span};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::FilterWorth;
use crate::sync::atomic::{AtomicBool, Ordering};
use block::cursor::BlockCursor;
use block::read::BlockTable;
pub(crate) use build::TableBuilder;
use envelope::TableMeta;
use file::TableFile;
pub(crate) use file::Trash;
use hash_store::read::HashStore;
use htable::cursor::HTableCursor;
use htable::read::HTable;
use parts::read_section;
use sample::KeySample;
use siltstone_design::{EncodedKey, Encoder, Format};
use siltstone_succinct::filter::maplet::Maplet;
use slots::cursor::{Chunked, SlotCursor};
use sorted_store::read::SortedStore;
pub(crate) use spec::{TableSpec, Writing};
use std::sync::Arc;
use walk::{PageWalk, WalkStart};
pub(crate) use walk::{ReadMode, Reading, Values};
pub(crate) use writer::NewTable;

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

impl Table {
    /// A table known from its properties; nothing is read yet.
    pub fn new(meta: TableMeta, encoder: Encoder, trash: Arc<Trash>) -> Self {
        let file = TableFile::new(&meta, trash);
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

    /// The same table with nothing of it in memory, in a region where its filter is worth so much.
    pub fn unloaded(&self, filter_worth: FilterWorth) -> Arc<Self> {
        let unloaded = Self::of_file(self.meta().clone(), self.encoder, Arc::clone(&self.file));
        unloaded.set_filter_worth(filter_worth);
        Arc::new(unloaded)
    }

    /// Notes what the filter is worth, which decides whether it is kept where memory is short.
    pub fn set_filter_worth(&self, worth: FilterWorth) {
        match &self.layout {
            Layout::Block(block) => block.set_filter_worth(worth),
            Layout::HTable(htable) => htable.set_filter_worth(worth),
            Layout::Hash(store) => store.set_filter_worth(worth),
            Layout::Sorted(store) => store.set_filter_worth(worth),
        }
    }

    /// Bytes of the budget that its filter holds.
    pub fn filter_bytes(&self) -> u64 {
        match &self.layout {
            Layout::Block(block) => block.filter_bytes(),
            Layout::HTable(htable) => htable.filter_bytes(),
            Layout::Hash(store) => store.filter_bytes(),
            Layout::Sorted(store) => store.filter_bytes(),
        }
    }

    /// Loads filter and index, as far as they fit the budget. A reader that does not load leaves them out
    /// until this was called.
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
        self.file.mark_obsolete();
    }

    /// Returns what the table says about `key`.
    #[inline]
    pub fn get(&self, key: &EncodedKey<'_>, probe: &mut Probe<'_>) -> Result<Answer, Pause> {
        match &self.layout {
            Layout::Block(block) => block.get(key, probe),
            Layout::HTable(htable) => htable.get(key, probe),
            Layout::Hash(store) => store.get(key, probe),
            Layout::Sorted(store) => store.get(key, probe),
        }
    }

    /// Returns a cursor over its entries within `span`, in the store's order.
    pub fn stream(
        self: &Arc<Self>,
        span: Span,
        reading: impl Into<Reading>,
        reader: &Arc<Reader>,
    ) -> Result<Box<dyn Cursor>> {
        let (file, reader) = (Arc::clone(&self.file), Arc::clone(reader));
        let start = WalkStart { file, reader, encoder: self.encoder, span, reading: reading.into() };
        Ok(match &self.layout {
            Layout::Block(block) => Box::new(BlockCursor::new(PageWalk::new(block, start))?),
            Layout::HTable(htable) => Box::new(HTableCursor::new(PageWalk::new(htable, start))?),
            Layout::Hash(store) => Box::new(SlotCursor::new(PageWalk::new(store, start))?),
            Layout::Sorted(store) => Box::new(SlotCursor::new(PageWalk::new(store, start))?),
        })
    }

    /// Adds the pages of `span` that are worth fetching ahead of a scan to `wanted`.
    pub fn want(&self, span: &Span, reader: &Reader, wanted: &mut Vec<PageRef>) -> Result<()> {
        match &self.layout {
            Layout::Block(block) => block.want(span, reader, wanted),
            // Their cursors read whole segments, or chunks, at once.
            Layout::HTable(_) | Layout::Hash(_) | Layout::Sorted(_) => Ok(()),
        }
    }

    /// About how many of its entries lie within `span`, as far as its index tells pages apart.
    pub fn entries_within(&self, span: &Span, reader: &Reader) -> Result<u64> {
        match &self.layout {
            Layout::Block(block) => block.entries_within(span, reader),
            Layout::HTable(_) | Layout::Hash(_) | Layout::Sorted(_) => Ok(self.meta().entries),
        }
    }

    /// Reads what stands behind the pages and checks it against the table's description; returns all that is
    /// wrong, a sentence each.
    pub fn verify_sections(&self, reader: &Reader) -> Result<Vec<String>> {
        let meta = self.meta();
        let mut problems = Vec::new();
        for (_, section) in meta.sections() {
            match read_section(meta, &section, reader) {
                Err(error) if error.kind() == ErrorKind::Corruption => problems.push(error.to_string()),
                read => drop(read?),
            }
        }
        let tail_at = meta.sections().map(|(_, section)| section.offset + section.length).max().unwrap_or(0);
        let tail = reader.section(meta.id, tail_at, (meta.bytes - tail_at) as usize)?;
        // Whose table it is stands in its footer alone.
        let footer = tail.last_chunk().and_then(|footer| envelope::decode_footer(footer).ok());
        let same = footer.is_some_and(|footer| tail == envelope::encode_tail(meta, tail_at, footer.keyspace));
        if !same {
            let path = reader.path(meta.id);
            problems.push(format!(
                "{}: its properties or its footer differ from what the manifest says",
                path.display()
            ));
        }
        Ok(problems)
    }

    /// The fingerprints of its keys, as a maplet of one run; `None` if it keeps none.
    pub fn fingerprints(&self, reader: &Reader) -> Result<Option<Maplet>> {
        let meta = self.meta();
        if meta.filter.length == 0 || !meta.kept_keys.are_fingerprints() {
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
