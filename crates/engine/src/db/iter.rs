//! Scans: one merge over everything that may hold a group, a range of it, or the whole keyspace.
//!
//! A walk over the whole keyspace goes stretch by stretch: as long as no level changes its region, one merge
//! over the write buffers and the regions on the path serves; at the end of the finest region the next merge
//! begins.

use super::catalog::keyspace::OpenKeyspace;
use super::catalog::snapshots::ReadPoint;
use super::catalog::view::View;
use super::store::Store;
use super::suffix_range::SuffixBounds;
use super::write_buffer::BufferScan;
use crate::cache::fetch;
use crate::compaction::merge::{Merge, Source};
use crate::compaction::source;
use crate::entry::{Cursor, Item, Span};
use crate::error::{ErrorKind, Result};
use crate::table::ReadMode;
use siltstone_design::Digest;
use std::sync::Arc;

/// Which keys of the walked digests are wanted.
pub(super) enum Wanted {
    Everything,
    /// Keys with this prefix whose suffix lies between the bounds.
    Group {
        prefix: Vec<u8>,
        suffixes: SuffixBounds,
    },
}

/// An iterator over a consistent snapshot, in the store's order: by digest, and for semi-sorted keys by
/// prefix hash and then suffix.
///
/// What had not expired when it was made, or when the snapshot was taken that it walks, is in it.
///
/// Items are `(key, value)`. It pins the tables it reads until it is dropped. After an error it ends, but for
/// `MergeFailed`, which is said of a single item; and so it does, with `Closed`, when the store is
/// [closed](crate::Db::close).
pub struct Iter {
    store: Arc<Store>,
    keyspace: Arc<OpenKeyspace>,
    view: Arc<View>,
    point: ReadPoint,
    /// The view's write buffers, ready to be walked; none before the first stretch.
    buffers: Option<Vec<BufferScan>>,
    wanted: Wanted,
    mode: ReadMode,
    /// What is still to be walked after the current merge.
    rest: Option<Span>,
    merge: Option<Merge>,
}

impl Iter {
    pub(super) fn new(
        store: Arc<Store>,
        keyspace: Arc<OpenKeyspace>,
        (view, point): (Arc<View>, ReadPoint),
        span: Span,
        wanted: Wanted,
    ) -> Self {
        let mode = match wanted {
            Wanted::Everything => ReadMode::Long,
            Wanted::Group { .. } => ReadMode::Short(Arc::default()),
        };
        Self { store, keyspace, view, point, buffers: None, wanted, mode, rest: Some(span), merge: None }
    }

    /// Begins the merge over the next stretch; false at the end.
    fn next_stretch(&mut self) -> Result<bool> {
        self.merge = None;
        let Some(rest) = self.rest.take() else { return Ok(false) };
        let levels = &self.view.version.levels;
        let hi = rest.first.hi;
        let end = levels.iter().map(|level| level.end_of_stretch(hi)).min().unwrap_or(u64::MAX);
        let mut span = rest.clone();
        if end < rest.last.hi {
            span.last = Digest { hi: end, lo: u64::MAX };
            self.rest = Some(Span { first: Digest { hi: end + 1, lo: 0 }, last: rest.last });
        }
        let mut sources = Vec::new();
        let buffers = match self.buffers.take() {
            Some(buffers) => buffers,
            None => {
                let (sequence, encoder) = (self.point.sequence, self.keyspace.encoder);
                let reader = &self.store.env.reader;
                let scans = self.view.buffers().map(|buffer| buffer.scan(sequence, encoder, reader, false));
                scans.collect::<Result<_>>()?
            }
        };
        for buffer in self.buffers.insert(buffers) {
            sources.push(Source { cursor: buffer.stream(&span)?, tombstones: buffer.tombstones.clone() });
        }
        let regions = || levels.iter().filter_map(|level| level.region_of(hi));
        let reader = &self.store.env.reader;
        if let ReadMode::Short(arrived) = &mut self.mode {
            // A group has a few pages in each run: they are all fetched at the same time.
            let mut wanted = Vec::new();
            for table in regions().flat_map(|region| &region.runs).flat_map(|run| run.tables_in(&span)) {
                table.want(&span, reader, &mut wanted)?;
            }
            *arrived = Arc::new(fetch(reader, wanted)?);
        }
        for region in regions() {
            for run in &region.runs {
                sources.push(source(run, &span, self.mode.clone(), reader)?);
            }
        }
        self.merge = Some(Merge::new(sources, self.keyspace.folder.clone())?);
        Ok(true)
    }

    fn next_item(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.store.env.health.check_open()?;
        loop {
            let Some(merge) = &mut self.merge else {
                if self.next_stretch()? {
                    continue;
                }
                return Ok(None);
            };
            let Some(entry) = merge.peek() else {
                self.merge = None;
                continue;
            };
            let folded = match (entry.item, &self.keyspace.folder) {
                // Nothing older is left: all that may hold the key takes part.
                (Item::Operands(operands), Some(folder)) if self.wanted.takes(entry.key.key) => {
                    match folder.value(entry.key.key, operands) {
                        Ok(value) => Some(value),
                        Err(error) => {
                            merge.advance()?;
                            return Err(error);
                        }
                    }
                }
                _ => None,
            };
            let value = folded.as_deref().or_else(|| entry.item.live_value(self.point.now_ms));
            let item = match value {
                Some(value) if self.wanted.takes(entry.key.key) => {
                    Some((entry.key.key.to_vec(), value.to_vec()))
                }
                _ => None,
            };
            merge.advance()?;
            if item.is_some() {
                return Ok(item);
            }
        }
    }
}

impl Wanted {
    fn takes(&self, key: &[u8]) -> bool {
        let Self::Group { prefix, suffixes } = self else { return true };
        key.strip_prefix(prefix.as_slice()).is_some_and(|suffix| suffixes.contain(suffix))
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.merge.is_none() && self.rest.is_none() {
            return None;
        }
        let next = self.next_item();
        // Where an operator fails, the other items are as they were.
        if next.as_ref().is_err_and(|error| error.kind() != ErrorKind::MergeFailed) {
            (self.merge, self.rest) = (None, None);
        }
        next.transpose()
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("keyspace", &self.keyspace.name).finish_non_exhaustive()
    }
}
