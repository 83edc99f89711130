//! Building a table of any format, compressed or not.
//!
//! Where a design compresses, the first entries are held back until they show what pays
//! (`compression/trial.rs`); then the table is begun, and values are encoded on their way to the format's
//! builder. Parts of keys are encoded by the builder, which knows what the page holds of them. Memory is
//! bounded by the sample and the largest value, beside what the format's builder takes.

use super::block::build::BlockBuilder;
use super::hash_store::build::HashPlacement;
use super::held::Held;
use super::htable::build::HTableBuilder;
use super::slots::build::SlotBuilder;
use super::sorted_store::build::SortedPlacement;
use super::spec::{TableSpec, Writing};
use super::temporary::TemporaryFile;
use super::writer::{Compressing, NewTable, TableWriter};
use crate::compression::dictionary::DictionaryEncoder;
use crate::compression::trial::{Chosen, Sample, choose};
use crate::entry::{EntryRef, ItemParts, PrefixTombstones};
use crate::error::{Error, Result};
use crate::filename::table_path;
use crate::io::{Disk, File};
use siltstone_design::{Compression, Digest, Format};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of keys and values at which the sample ends.
const SAMPLE_BYTES: usize = 128 << 10;

/// Copies of its codec that a table holds.
const CODEC_COPIES: usize = 2;

/// Builds a table of any format.
pub(crate) struct TableBuilder {
    stage: Stage,
}

enum Stage {
    /// The writer, and entries that are held back.
    Sampling(Box<TableWriter>, Sampled),
    Building(Building),
    /// Its writing failed.
    Failed,
}

/// Entries that are held back.
#[derive(Default)]
struct Sampled {
    entries: Vec<Held>,
    bytes: usize,
}

/// A table whose entries go to its pages.
struct Building {
    pages: PageBuilder,
    values: Option<ValueCoder>,
}

/// Values on their way to pages.
struct ValueCoder {
    encoder: DictionaryEncoder,
    encoded: Vec<u8>,
}

impl TableBuilder {
    /// Creates the file of a new table.
    pub fn create(disk: &dyn Disk, dir: &Path, spec: TableSpec) -> Result<Self> {
        let (path, file) = Self::create_file(disk, dir, &spec)?;
        Ok(Self::begin(file, path, spec))
    }

    /// Begins a table that is read and removed before anything relies on it: its file is not synced.
    pub fn create_temporary(disk: &dyn Disk, dir: &Path, spec: TableSpec) -> Result<Self> {
        let (path, file) = Self::create_file(disk, dir, &spec)?;
        Ok(Self::begin(Arc::new(TemporaryFile(file)), path, spec))
    }

    fn create_file(disk: &dyn Disk, dir: &Path, spec: &TableSpec) -> Result<(PathBuf, Arc<dyn File>)> {
        let path = table_path(dir, spec.id);
        let file = match spec.writing {
            Writing::Cached => disk.create_streamed(&path),
            Writing::Uncached | Writing::Behind => disk.create_uncached(&path),
        };
        let file = file.map_err(|e| Error::io(&e, "creating", &path))?;
        Ok((path, file))
    }

    fn begin(file: Arc<dyn File>, path: PathBuf, spec: TableSpec) -> Self {
        let writer = TableWriter::new(file, path, spec);
        let stage = match spec.compression {
            Compression::None => Stage::Building(Building { pages: PageBuilder::new(writer), values: None }),
            Compression::Dictionary => Stage::Sampling(Box::new(writer), Sampled::default()),
        };
        Self { stage }
    }

    /// Whether the table can take an entry of this digest behind those it has; else the run goes on in
    /// another table.
    pub fn takes(&self, digest: Digest) -> bool {
        match &self.stage {
            Stage::Sampling(writer, sampled) => {
                let is_same = sampled.entries.last().is_some_and(|last| last.digest().hi == digest.hi);
                !is_same || PageBuilder::takes_equal(writer.spec.format)
            }
            Stage::Building(building) => building.pages.takes(digest),
            Stage::Failed => true,
        }
    }

    /// Adds the next entry in the store's order.
    #[inline]
    pub fn add(&mut self, entry: &EntryRef<'_>) -> Result<()> {
        match &mut self.stage {
            Stage::Building(building) => building.add(entry),
            Stage::Sampling(_, sampled) => {
                sampled.entries.push(Held::of(entry));
                sampled.bytes += sampled.entries.last().map_or(0, Held::bytes);
                if sampled.bytes < SAMPLE_BYTES {
                    return Ok(());
                }
                self.end_sample(false).map(|_| ())
            }
            Stage::Failed => Err(Error::invalid("writing the table failed before")),
        }
    }

    /// Chooses what entries are encoded with, and adds those that were held back, which `is_all` says are all
    /// there are.
    fn end_sample(&mut self, is_all: bool) -> Result<&mut Building> {
        match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Sampling(writer, sampled) => {
                let mut building = Building::begin(*writer, &sampled.entries, is_all);
                sampled.entries.iter().try_for_each(|held| building.add(&held.entry()))?;
                self.stage = Stage::Building(building);
            }
            stage => self.stage = stage,
        }
        match &mut self.stage {
            Stage::Building(building) => Ok(building),
            Stage::Sampling(..) | Stage::Failed => Err(Error::invalid("writing the table failed before")),
        }
    }

    /// Bytes its pages take so far.
    pub fn bytes(&self) -> u64 {
        match &self.stage {
            Stage::Sampling(_, sampled) => sampled.bytes as u64,
            Stage::Building(building) => building.pages.bytes(),
            Stage::Failed => 0,
        }
    }

    /// Finishes and syncs the file; the prefixes deleted by the table's run go in too.
    pub fn finish(mut self, tombstones: PrefixTombstones) -> Result<NewTable> {
        self.end_sample(true)?;
        match self.stage {
            Stage::Building(building) => building.pages.finish(tombstones),
            Stage::Sampling(..) | Stage::Failed => Err(Error::invalid("writing the table failed before")),
        }
    }
}

impl Building {
    /// Begins the pages of a table whose entries are like `sampled`.
    fn begin(mut writer: TableWriter, sampled: &[Held], is_all: bool) -> Self {
        // What pages hold of a key lacks what it shares with the one before.
        let mut before: &[u8] = &[];
        let mut keys = Vec::new();
        for key in sampled.iter().map(Held::key) {
            match writer.spec.format {
                Format::Block => {
                    let shared = key.iter().zip(before).take_while(|(a, b)| a == b).count();
                    keys.push(key.get(shared..).unwrap_or(&[]));
                    before = key;
                }
                Format::HTable => keys.push(key),
                // Their slots have keys of one length, which need no length of their own.
                Format::Hash | Format::Sorted => {}
            }
        }
        let values = sampled.iter().map(Held::value).collect();
        let chosen = choose(&Sample { keys, values, is_all, copies: CODEC_COPIES });
        let Some(Chosen { codec, keys, values, ratio }) = chosen else {
            return Self { pages: PageBuilder::new(writer), values: None };
        };
        // Fewer pages mean that they begin further apart.
        writer.spec.digests_per_page = (writer.spec.digests_per_page as f64 * ratio) as u64;
        writer.compressing = Some(Compressing { codec, keys, raw_bytes: 0, stored_bytes: 0 });
        let values = values.map(|encoder| ValueCoder { encoder, encoded: Vec::new() });
        Self { pages: PageBuilder::new(writer), values }
    }

    #[inline]
    fn add(&mut self, entry: &EntryRef<'_>) -> Result<()> {
        let ItemParts { value, expires_at_ms, deleted } = entry.item.parts();
        let Some(ValueCoder { encoder, encoded }) = &mut self.values else {
            return self.pages.add(entry, value.len());
        };
        encoder.encode(value, encoded);
        let writer = self.pages.writer();
        if let Some(compressing) = &mut writer.compressing {
            compressing.raw_bytes += value.len() as u64;
            compressing.stored_bytes += encoded.len() as u64;
        }
        let item = ItemParts { value: encoded, expires_at_ms, deleted }.item();
        self.pages.add(&EntryRef { item, ..*entry }, value.len())
    }
}

/// Builds the pages of a table of any format.
enum PageBuilder {
    Block(Box<BlockBuilder>),
    HTable(Box<HTableBuilder>),
    Hash(Box<SlotBuilder<HashPlacement>>),
    Sorted(Box<SlotBuilder<SortedPlacement>>),
}

impl PageBuilder {
    fn new(writer: TableWriter) -> Self {
        match writer.spec.format {
            Format::Block => Self::Block(Box::new(BlockBuilder::new(writer))),
            Format::HTable => Self::HTable(Box::new(HTableBuilder::new(writer))),
            Format::Hash => Self::Hash(Box::new(SlotBuilder::new(writer, HashPlacement::new))),
            Format::Sorted => Self::Sorted(Box::new(SlotBuilder::new(writer, SortedPlacement::new))),
        }
    }

    fn writer(&mut self) -> &mut TableWriter {
        match self {
            Self::Block(builder) => &mut builder.writer,
            Self::HTable(builder) => &mut builder.writer,
            Self::Hash(builder) => builder.writer(),
            Self::Sorted(builder) => builder.writer(),
        }
    }

    /// Whether tables of this format take several entries of one upper digest half.
    fn takes_equal(format: Format) -> bool {
        match format {
            Format::Block | Format::HTable | Format::Hash => true,
            Format::Sorted => false,
        }
    }

    fn takes(&self, digest: Digest) -> bool {
        match self {
            Self::Block(_) | Self::HTable(_) => true,
            Self::Hash(builder) => builder.takes(digest),
            Self::Sorted(builder) => builder.takes(digest),
        }
    }

    #[inline]
    fn add(&mut self, entry: &EntryRef<'_>, value_bytes: usize) -> Result<()> {
        match self {
            Self::Block(builder) => builder.add(entry, value_bytes),
            Self::HTable(builder) => builder.add(entry, value_bytes),
            Self::Hash(builder) => builder.add(entry, value_bytes),
            Self::Sorted(builder) => builder.add(entry, value_bytes),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Block(builder) => builder.bytes(),
            Self::HTable(builder) => builder.bytes(),
            Self::Hash(builder) => builder.bytes(),
            Self::Sorted(builder) => builder.bytes(),
        }
    }

    fn finish(self, tombstones: PrefixTombstones) -> Result<NewTable> {
        match self {
            Self::Block(builder) => builder.finish(tombstones),
            Self::HTable(builder) => builder.finish(tombstones),
            Self::Hash(builder) => builder.finish(tombstones),
            Self::Sorted(builder) => builder.finish(tombstones),
        }
    }
}
