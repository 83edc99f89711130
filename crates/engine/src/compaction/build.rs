//! A bulk build's tables: entries in the store's order become runs, each in the region that the
//! [layout](super::layout) has for it.
//!
//! Entries are handed over one by one, so that what comes in digest order goes straight into tables. What
//! does not is merged first ([`merge`]), with the runs that take part in it.

use super::layout::Placed;
use super::merge::{Merge, Source};
use super::partition::{NewRun, Partition};
use super::work::{Amount, Context, Output};
use super::{hold, of_age};
use crate::cache::Reader;
use crate::entry::{Cursor, EntryRef, PrefixTombstones, Span};
use crate::error::Result;
use crate::version::{Run, Version};
use std::sync::Arc;

/// Writes entries in the store's order as runs.
pub(crate) struct Build<'a> {
    partition: Partition<'a>,
    run: Option<NewRun<'a>>,
}

impl<'a> Build<'a> {
    /// Begins to write on top of `version`, with what the runs that take part deleted by prefix.
    pub fn new(context: &'a Context<'a>, version: &'a Version, tombstones: &'a PrefixTombstones) -> Self {
        Self { partition: Partition::new(context, version, tombstones, Amount::default()), run: None }
    }

    /// Adds the next entry; `next` names one region after the other, in digest order.
    #[inline]
    pub fn add(&mut self, entry: &mut EntryRef<'_>, next: &mut dyn FnMut() -> Option<Placed>) -> Result<()> {
        loop {
            match &mut self.run {
                Some(run) if run.target.path.contains(entry.key.digest.hi) => {
                    return self.partition.add(run, entry);
                }
                _ => {
                    let placed = next();
                    debug_assert!(placed.is_some(), "every entry belongs to a region");
                    let Some(placed) = placed else { return Ok(()) };
                    self.begin(&placed)?;
                }
            }
        }
    }

    fn begin(&mut self, placed: &Placed) -> Result<()> {
        if let Some(run) = self.run.take() {
            self.partition.end_run(run)?;
        }
        self.run = Some(self.partition.begin_run(placed.target, placed.share));
        Ok(())
    }

    /// Ends the last run, and the empty ones of the regions that `next` still names.
    pub fn finish(mut self, next: &mut dyn FnMut() -> Option<Placed>) -> Result<Output> {
        while let Some(placed) = next() {
            self.begin(&placed)?;
        }
        if let Some(run) = self.run.take() {
            self.partition.end_run(run)?;
        }
        Ok(self.partition.finish())
    }

    /// Gives the build up without touching its files: the store has been closed.
    pub fn leave_files(self) {
        self.partition.leave_files();
    }
}

/// What a merge of a bulk build is made of.
pub(crate) struct Ingredients<'a> {
    /// What was given, newest first, within a span of the store's order.
    pub given: &'a (dyn Fn(&Span) -> Result<Vec<Source>> + Sync),
    /// The runs that take part: by their levels' depth, and by age among their region's runs.
    pub taken: &'a [Vec<Vec<Arc<Run>>>],
}

impl Ingredients<'_> {
    /// Returns what the runs that take part deleted by prefix.
    pub fn tombstones(&self) -> PrefixTombstones {
        let runs = self.taken.iter().flatten().flatten();
        PrefixTombstones::new(runs.flat_map(|run| run.tombstones.iter().cloned()).collect())
    }

    /// All sources within `span`, newest first.
    fn sources(&self, span: &Span, reader: &Arc<Reader>) -> Result<Vec<Source>> {
        let mut sources = (self.given)(span)?;
        for runs in self.taken.iter().flatten().filter(|runs| !runs.is_empty()) {
            sources.push(of_age(runs, span, reader)?);
        }
        Ok(sources)
    }
}

/// Merges `ingredients` into the regions `placed`, which follow one another in digest order.
pub(crate) fn merge(
    context: &Context<'_>,
    version: &Version,
    ingredients: &Ingredients<'_>,
    placed: &[Placed],
) -> Result<Output> {
    let (Some(first), Some(last)) = (placed.first(), placed.last()) else { return Ok(Output::default()) };
    let span = Span::of_hi(first.bounds().0, last.bounds().1);
    let tombstones = ingredients.tombstones();
    let sources = ingredients.sources(&span, context.reader)?;
    let _memory = hold(context, sources.len());
    let mut merge = Merge::new(sources, context.folder.cloned())?;
    let mut build = Build::new(context, version, &tombstones);
    let mut regions = placed.iter().copied();
    let mut next = || regions.next();
    loop {
        let mut head = merge.peek();
        let Some(entry) = &mut head else { break };
        build.add(entry, &mut next)?;
        merge.advance()?;
    }
    build.finish(&mut next)
}
