//! A walk over a keyspace at a moment, stretch by stretch: as long as no level changes its region, one merge
//! over the write buffers and the regions on the path serves; at the end of the finest region the next merge
//! begins.

use super::catalog::keyspace::OpenKeyspace;
use super::catalog::view::View;
use super::write_buffer::BufferScan;
use crate::cache::{Reader, fetch};
use crate::compaction::merge::{Merge, Source};
use crate::compaction::source;
use crate::entry::{Sequence, Span};
use crate::error::Result;
use crate::table::{ReadMode, Reading, Values};
use siltstone_design::Digest;
use std::sync::Arc;

/// The stretches of a walk.
pub(super) struct Stretches {
    /// The view's write buffers, ready to be walked; none before the first stretch.
    buffers: Option<Vec<BufferScan>>,
    mode: ReadMode,
    /// What is still to be walked after the current stretch.
    pub rest: Option<Span>,
    /// Reads that were done for whole stretches.
    pub reads: u64,
}

impl Stretches {
    /// Those of a walk that somebody waits for.
    pub fn new(span: Span) -> Self {
        let mode = if span.is_within_a_group() {
            ReadMode::Short(Arc::default())
        } else {
            ReadMode::Long { begins: true }
        };
        Self { buffers: None, mode, rest: Some(span), reads: 0 }
    }

    /// Those of a walk in the background.
    pub fn in_background(span: Span) -> Self {
        Self { buffers: None, mode: ReadMode::Compaction, rest: Some(span), reads: 0 }
    }

    /// Begins the merge over the next stretch of what `sequence` sees of `view`, or says that there is none.
    pub fn next(
        &mut self,
        keyspace: &OpenKeyspace,
        view: &View,
        sequence: Sequence,
        values: Values,
        reader: &Arc<Reader>,
    ) -> Result<Option<Merge>> {
        let Some(rest) = self.rest.take() else { return Ok(None) };
        let levels = &view.version.levels;
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
                let (encoder, is_background) = (keyspace.encoder, matches!(self.mode, ReadMode::Compaction));
                let scans =
                    view.buffers().map(|buffer| buffer.scan(sequence, encoder, reader, is_background));
                scans.collect::<Result<_>>()?
            }
        };
        for buffer in self.buffers.insert(buffers) {
            sources.push(Source { cursor: buffer.stream(&span)?, tombstones: buffer.tombstones.clone() });
        }
        let regions = || levels.iter().filter_map(|level| level.region_of(hi));
        if let ReadMode::Short(arrived) = &mut self.mode {
            // A group has a few pages in each run: they are all fetched at the same time.
            let mut wanted = Vec::new();
            for table in regions().flat_map(|region| &region.runs).flat_map(|run| run.tables_in(&span)) {
                table.want(&span, reader, &mut wanted)?;
            }
            *arrived = Arc::new(fetch(reader, wanted)?);
            self.reads += arrived.reads();
        }
        let reading = Reading { mode: self.mode.clone(), values };
        for region in regions() {
            for run in &region.runs {
                sources.push(source(run, &span, reading.clone(), reader)?);
            }
        }
        if let ReadMode::Long { begins } = &mut self.mode {
            *begins = false;
        }
        Merge::new(sources, keyspace.folder.clone()).map(Some)
    }
}
