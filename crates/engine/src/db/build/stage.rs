//! What a bulk build has done with the items so far.

use super::gather::Gathered;
use super::scatter::Scatter;
use super::sizes::Histogram;
use super::spill::{Spill, SpillPlace};
use crate::compaction::build::Build;
use crate::compaction::{Layout, Output, Placed};
use crate::entry::Cursor;
use crate::error::Result;
use crate::version::edit::Step;
use siltstone_design::Digest;
use std::collections::VecDeque;

/// What has become of the items that are no longer gathered.
pub(super) enum Stage<'a> {
    /// None are.
    Gathering,
    /// They came in the store's order, and are in tables where they are to stay.
    Streaming(Box<Streaming<'a>>),
    /// They are in a temporary file, by parts of the digests; but for those that came in the store's order
    /// before that, which are in tables.
    Scattered { before: Option<Spill>, scatter: Box<Scatter<'a>> },
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

    /// Adds the items, which are sorted, as if those to come were like all that `sizes` counts.
    pub fn add(&mut self, items: &Gathered, sizes: &mut Histogram) -> Result<()> {
        let known = sizes.expected();
        let counts_first = known.is_none();
        if counts_first {
            sizes.add_all(items);
        }
        let expected = known.or_else(|| sizes.expected());
        let Self { build, layout, found, last } = self;
        let mut walk = items.walk();
        while let Some(mut entry) = walk.peek() {
            if !counts_first {
                sizes.add(&entry);
            }
            let mut next = || match &expected {
                _ if !found.is_empty() => found.pop_front(),
                Some(expected) => layout.next(expected),
                None => layout.next(&sizes.seen()),
            };
            build.add(&mut entry, &mut next)?;
            walk.advance()?;
        }
        sizes.end_batch();
        if let Some((digest, key)) = items.last() {
            *last = (digest, key.to_vec());
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
