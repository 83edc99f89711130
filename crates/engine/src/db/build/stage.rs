//! What a bulk build has done with the items so far.

use super::gather::Gathered;
use super::sizes::Histogram;
use super::spill::{Spill, SpillPlace};
use crate::compaction::build::Build;
use crate::compaction::merge::{Merge, Source};
use crate::compaction::{Context, Layout, Output, Placed};
use crate::entry::{Cursor, Span};
use crate::error::Result;
use crate::version::edit::Step;
use siltstone_design::Digest;
use std::collections::VecDeque;

/// Temporary tables that are merged at once, at least.
const LEAST_AT_ONCE: usize = 4;
/// What a merge reads of a table at once, at most.
const MOST_READ_BYTES: usize = 256 << 10;

/// What has become of the items that are no longer gathered.
pub(super) enum Stage<'a> {
    /// None are.
    Gathering,
    /// They came in the store's order, and are in tables where they are to stay.
    Streaming(Box<Streaming<'a>>),
    /// They are in temporary tables, sorted batches of them, the oldest first.
    Spilled(Vec<Spill>),
}

/// Items that come in the store's order on their way into tables.
pub(super) struct Streaming<'a> {
    build: Build<'a>,
    layout: Layout<'a>,
    /// The regions that were found and have not begun.
    found: VecDeque<Placed>,
    /// The place of the last item.
    last: (Digest, Vec<u8>),
}

impl<'a> Streaming<'a> {
    pub fn new(build: Build<'a>, layout: Layout<'a>) -> Self {
        Self { build, layout, found: VecDeque::new(), last: (Digest::default(), Vec::new()) }
    }

    /// Whether the items, once sorted, all come behind those that were added.
    pub fn goes_on_with(&self, items: &Gathered) -> bool {
        items.first().is_none_or(|first| (self.last.0, self.last.1.as_slice()) < first)
    }

    /// Adds the items, as if those to come were like all that `sizes` has counted.
    pub fn add(&mut self, items: &Gathered, sizes: &Histogram) -> Result<()> {
        let expected = sizes.expected();
        let seen = sizes.seen();
        let Self { build, layout, found, last } = self;
        let mut next = || match &expected {
            _ if !found.is_empty() => found.pop_front(),
            Some(expected) => layout.next(expected),
            None => layout.next(&seen),
        };
        let mut walk = items.walk();
        while let Some(mut entry) = walk.peek() {
            build.add(&mut entry, &mut next)?;
            last.0 = entry.key.digest;
            last.1.clear();
            last.1.extend_from_slice(entry.key.key);
            walk.advance()?;
        }
        Ok(())
    }

    /// Ends the tables; no more items will come.
    pub fn finish(self, sizes: &Histogram) -> Result<Output> {
        let Self { build, mut layout, mut found, .. } = self;
        let seen = sizes.seen();
        let mut output = build.finish(&mut || found.pop_front().or_else(|| layout.next(&seen)))?;
        output.steps.append(&mut layout.steps);
        Ok(output)
    }

    /// Makes a spill of the tables: other items are to come between.
    pub fn into_spill(self, place: SpillPlace<'_>) -> Result<Spill> {
        let output = self.build.finish(&mut || None)?;
        let metas = output.steps.iter().filter_map(|step| match step {
            Step::AddRun { run, .. } => Some(&run.tables),
            _ => None,
        });
        Ok(place.of_tables(metas.flatten()))
    }

    /// Leaves the files as they are: the store has been closed.
    pub fn leave_files(self) {
        self.build.leave_files();
    }
}

/// Merges the oldest spills until there are few enough to be merged with what else there is within the memory
/// of a merge.
pub(super) fn join_spills(
    spills: &mut Vec<Spill>,
    place: SpillPlace<'_>,
    context: &Context<'_>,
) -> Result<u64> {
    let memory = context.reader.memory();
    let of_each = memory.chunk_bytes().min(MOST_READ_BYTES) * 3 / 2;
    let at_once = (memory.total_bytes() / 4) as usize / of_each;
    let at_once = at_once.max(LEAST_AT_ONCE);
    let mut bytes = 0;
    while spills.len() > at_once {
        // As many as leave as few as possible for the end, which are read once more in any case.
        let count = (spills.len() - at_once + 1).min(at_once);
        // Neighbours in age only, so that of two items with one key the later one still counts.
        let from = smallest_stretch(spills, count);
        let joined = {
            let sources = sources(spills.get(from..from + count).unwrap_or(&[]), place, &Span::ALL)?;
            place.write_all(&mut Merge::new(sources, context.folder.cloned())?)?
        };
        bytes += joined.bytes;
        spills.splice(from..from + count, [joined]);
        place.env.empty_trash();
    }
    Ok(bytes)
}

/// Returns where `count` neighbours begin that have the fewest bytes.
fn smallest_stretch(spills: &[Spill], count: usize) -> usize {
    let bytes = |stretch: &[Spill]| stretch.iter().map(|spill| spill.bytes).sum::<u64>();
    let stretches = spills.windows(count.max(1)).enumerate();
    stretches.min_by_key(|(_, stretch)| bytes(stretch)).map_or(0, |(at, _)| at)
}

/// Returns `spills`, the oldest first, as sources of a merge, the newest first.
pub(super) fn sources(spills: &[Spill], place: SpillPlace<'_>, span: &Span) -> Result<Vec<Source>> {
    spills.iter().rev().map(|spill| spill.source(span, place.env)).collect()
}
