//! The partition pass: items that do not fit memory go to the part of the digests that they belong to, in one
//! temporary file, and come back a part at a time, to be sorted in memory.
//!
//! ```text
//! part 0   ┌───────┬───────┬────      whole pieces lie anywhere in the file, in the order in which they filled,
//! part 1   ┌───────┬───────┬──        and what is left of each part stays in memory
//! part 2   ┌───────┬───────┬──────
//! ```
//!
//! A part holds its items one after the other, as they came, each as it stands in the arena (`gather.rs`). So
//! nothing is sorted, and no page is made, before an item comes to where it is to stay. Parts that turn out
//! to be too large are sorted a batch at a time, by way of temporary tables (`spill.rs`).
//!
//! No manifest names the file, so whatever a crash leaves of it is removed at the next open.

use super::gather::Gathered;
use super::sizes::Histogram;
use super::spill::{Spill, SpillPlace, join_spills, sources};
use crate::compaction::Context;
use crate::compaction::merge::{Chain, Merge, Part, Source};
use crate::db::env::Env;
use crate::entry::{Cursor, PrefixTombstones, Span};
use crate::error::{Error, Result};
use crate::ids::{FileId, TableId};
use crate::io::File;
use crate::io::behind::WriteBehind;
use crate::table::{Trash, Writing};
use siltstone_design::Encoder;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Parts that there are rather than larger pieces; and at most.
const WANTED_PARTS: usize = 256;
const MOST_PART_BITS: u32 = 12;
/// Bytes of a piece: the more, the faster the device reads them.
const LEAST_PIECE_BYTES: usize = 4 << 10;
const MOST_PIECE_BYTES: usize = 128 << 10;
/// Items of a part are counted together, as many as have so many bytes of a piece each: what is kept of them
/// takes a quarter of a piece.
const BYTES_PER_COUNTED: usize = 64;
/// Pieces are written together in stretches of so many bytes, if they are smaller.
const WRITTEN_TOGETHER: usize = 1 << 20;

/// The file, which goes when nobody reads it any more.
struct ScatterFile {
    file: Arc<dyn File>,
    id: TableId,
    path: PathBuf,
    trash: Arc<Trash>,
}

impl Drop for ScatterFile {
    fn drop(&mut self) {
        self.trash.put(FileId::Table(self.id), 0);
    }
}

/// A whole piece in the file.
#[derive(Clone, Copy)]
struct Piece {
    number: u32,
    crc: u32,
}

/// Items of neighbouring digests.
#[derive(Default)]
struct Bin {
    pieces: Vec<Piece>,
    /// What is not in the file.
    open: Vec<u8>,
    items: usize,
    /// Upper digest halves and bytes of items that are to be counted: one by one each would be a cache miss.
    uncounted: Vec<(u64, u32)>,
    /// Sorted parts of it, the oldest first, where it is too large.
    spills: Vec<Spill>,
}

/// Items that are in the file.
pub(super) struct Scattered {
    file: ScatterFile,
    bins: Vec<Bin>,
    bits: u32,
    piece_bytes: usize,
    encoder: Encoder,
}

/// Takes items, in any order.
pub(super) struct Scatter<'a> {
    env: &'a Env,
    scattered: Scattered,
    /// Pieces that wait to be written, and how many were written.
    out: Vec<u8>,
    written: u32,
    behind: WriteBehind,
}

impl<'a> Scatter<'a> {
    /// Begins the file; what is not in it may take about so many bytes of memory.
    pub fn new(place: SpillPlace<'a>, memory_bytes: usize, writing: Writing) -> Result<Self> {
        let SpillPlace { env, encoder, next_id } = place;
        let each = memory_bytes / WANTED_PARTS / LEAST_PIECE_BYTES * LEAST_PIECE_BYTES;
        let piece_bytes = each.clamp(LEAST_PIECE_BYTES, MOST_PIECE_BYTES);
        let bits = (memory_bytes / piece_bytes).max(2).ilog2().min(MOST_PART_BITS);
        let id = next_id();
        let path = env.reader.path(FileId::Table(id));
        let file = env.disk.create_uncached(&path).map_err(|e| Error::io(&e, "creating", &path))?;
        let behind = WriteBehind::new(Arc::clone(&file), writing == Writing::Behind);
        let file = ScatterFile { file, id, path, trash: Arc::clone(&env.trash) };
        let bins = (0..1 << bits).map(|_| Bin::default()).collect();
        let scattered = Scattered { file, bins, bits, piece_bytes, encoder };
        Ok(Self { env, scattered, out: Vec::new(), written: 0, behind })
    }

    /// Adds items; returns the bytes that were written of them and of those before.
    pub fn add(&mut self, items: &Gathered, sizes: &mut Histogram) -> Result<u64> {
        let before = self.written;
        let Scattered { bits, piece_bytes, .. } = self.scattered;
        let counted_together = piece_bytes / BYTES_PER_COUNTED;
        for (key, record) in items.records() {
            let number = (key.digest.hi >> (64 - bits)) as usize;
            let Some(bin) = self.scattered.bins.get_mut(number) else { continue };
            sizes.note(&key);
            bin.uncounted.push((key.digest.hi, u32::try_from(record.len()).unwrap_or(u32::MAX)));
            if bin.uncounted.len() >= counted_together {
                sizes.add_unsorted(&mut bin.uncounted);
            }
            if bin.open.capacity() == 0 {
                bin.open.reserve_exact(piece_bytes);
                bin.uncounted.reserve_exact(counted_together);
            }
            bin.open.extend_from_slice(record);
            bin.items += 1;
            if bin.open.len() >= piece_bytes {
                Self::end_pieces(bin, piece_bytes, &mut self.out, &mut self.written);
                if self.out.len() >= WRITTEN_TOGETHER.max(piece_bytes) {
                    self.write_out()?;
                }
            }
        }
        self.env.check_writable()?;
        Ok(u64::from(self.written - before) * piece_bytes as u64)
    }

    /// Moves the whole pieces of a part to where they wait to be written.
    fn end_pieces(bin: &mut Bin, piece_bytes: usize, out: &mut Vec<u8>, written: &mut u32) {
        let whole = bin.open.len() - bin.open.len() % piece_bytes;
        for piece in bin.open.get(..whole).unwrap_or(&[]).chunks(piece_bytes) {
            bin.pieces.push(Piece { number: *written, crc: crc32c::crc32c(piece) });
            *written += 1;
            out.extend_from_slice(piece);
        }
        bin.open.drain(..whole);
        // A large item is not to leave memory to it.
        bin.open.shrink_to(piece_bytes);
    }

    fn write_out(&mut self) -> Result<()> {
        let end = u64::from(self.written) * self.scattered.piece_bytes as u64;
        let bytes = self.out.len() as u64;
        let written = self.behind.write(&mut self.out, end - bytes);
        written.map_err(|e| self.not_written(&e))?;
        self.env.counters.table_bytes.add(bytes);
        Ok(())
    }

    fn not_written(&self, error: &std::io::Error) -> Error {
        Error::io(error, "writing items to sort", &self.scattered.file.path)
    }

    /// Ends the file. Parts that take more than `most_bytes` of memory are sorted by way of temporary tables,
    /// each a batch of which `sorted` hears.
    pub fn finish(
        mut self,
        (place, context): (SpillPlace<'_>, &Context<'_>),
        sizes: &mut Histogram,
        most_bytes: usize,
        sorted: &mut dyn FnMut(&Spill),
    ) -> Result<Arc<Scattered>> {
        self.write_out()?;
        self.behind.settle().map_err(|e| self.not_written(&e))?;
        let mut scattered = self.scattered;
        for bin in &mut scattered.bins {
            sizes.add_unsorted(&mut bin.uncounted);
            bin.uncounted = Vec::new();
        }
        for number in 0..scattered.bins.len() {
            let Some(bin) =
                scattered.bins.get(number).filter(|bin| bin.memory_bytes(&scattered) > most_bytes)
            else {
                continue;
            };
            let mut spills = scattered.sort_in_batches(bin, place, most_bytes, sorted)?;
            join_spills(&mut spills, place, context, sorted)?;
            if let Some(bin) = scattered.bins.get_mut(number) {
                *bin = Bin { spills, ..Bin::default() };
            }
        }
        Ok(Arc::new(scattered))
    }
}

impl Bin {
    fn bytes(&self, piece_bytes: usize) -> usize {
        self.pieces.len() * piece_bytes + self.open.len()
    }

    /// Bytes of memory that its items take once they are there.
    fn memory_bytes(&self, of: &Scattered) -> usize {
        Gathered::bytes_for(self.bytes(of.piece_bytes), self.items)
    }
}

impl Scattered {
    /// Appends bytes of a part to `to`: of the pieces in `range`, and the rest behind the last of them.
    fn read(&self, bin: &Bin, range: Range<usize>, to: &mut Vec<u8>) -> Result<()> {
        let ScatterFile { file, path, .. } = &self.file;
        let is_last = range.end == bin.pieces.len();
        for piece in bin.pieces.get(range).unwrap_or(&[]) {
            let start = to.len();
            to.resize(start + self.piece_bytes, 0);
            let bytes = to.get_mut(start..).unwrap_or(&mut []);
            file.read_exact_at(bytes, u64::from(piece.number) * self.piece_bytes as u64)
                .map_err(|e| Error::io(&e, "reading items to sort", path))?;
            if crc32c::crc32c(bytes) != piece.crc {
                let offset = u64::from(piece.number) * self.piece_bytes as u64;
                return Err(Error::corruption(path, offset, "the items that were written", "others"));
            }
        }
        if is_last {
            to.extend_from_slice(&bin.open);
        }
        Ok(())
    }

    /// All items of a part, sorted.
    fn load(&self, bin: &Bin) -> Result<Gathered> {
        let mut items = Gathered::with_room(self.encoder, bin.bytes(self.piece_bytes), bin.items);
        self.read(bin, 0..bin.pieces.len(), items.arena())?;
        items.find_records();
        items.sort();
        Ok(items)
    }

    /// Writes the items of a part as temporary tables, each a sorted batch of them.
    fn sort_in_batches(
        &self,
        bin: &Bin,
        place: SpillPlace<'_>,
        most_bytes: usize,
        sorted: &mut dyn FnMut(&Spill),
    ) -> Result<Vec<Spill>> {
        let mut spills = Vec::new();
        let per_batch = bin.pieces.len() * most_bytes / bin.memory_bytes(self).max(1);
        let per_batch = per_batch.max(1);
        let mut items = Gathered::with_room(self.encoder, (per_batch + 1) * self.piece_bytes, 0);
        for first in (0..bin.pieces.len().max(1)).step_by(per_batch) {
            let range = first..(first + per_batch).min(bin.pieces.len());
            self.read(bin, range, items.arena())?;
            // What a piece has of an item only in part waits for the next batch.
            let rest = items.find_records();
            items.sort();
            if items.len() > 0 {
                let spill = place.write_all(&mut items.walk())?;
                sorted(&spill);
                spills.push(spill);
            }
            items.keep_only(rest);
        }
        Ok(spills)
    }

    /// The items within `span` as one source of a merge.
    pub fn source(self: &Arc<Self>, span: &Span, env: &Env) -> Result<Source> {
        let place = |hi: u64| (hi >> (64 - self.bits)) as usize;
        let parts = (place(span.first.hi)..=place(span.last.hi)).map(|number| {
            let (scattered, span, reader) = (Arc::clone(self), span.clone(), Arc::clone(&env.reader));
            Box::new(move || -> Result<Box<dyn Cursor>> {
                let Some(bin) = scattered.bins.get(number) else {
                    return Ok(Box::new(Chain::new(Vec::new())?));
                };
                if bin.spills.is_empty() {
                    return Ok(Box::new(Arc::new(scattered.load(bin)?).walk_within(&span)));
                }
                // A build puts no operands.
                Ok(Box::new(Merge::new(sources(&bin.spills, &span, &reader)?, None)?))
            }) as Part
        });
        let cursor = Box::new(Chain::new(parts.collect())?);
        Ok(Source { cursor, tombstones: PrefixTombstones::default() })
    }
}
