//! Gathered items become tables: straight where they come in the store's order or fit memory, else by way of
//! a temporary file, from which they come back a part at a time.

use super::gather::Gathered;
use super::scatter::{Scatter, Scattered};
use super::site::{Builder, Site};
use super::sizes::Histogram;
use super::spill::{Spill, SpillPlace};
use super::stage::{Stage, Streaming};
use crate::compaction::build::{Build, Ingredients, merge};
use crate::compaction::merge::Source;
use crate::compaction::{Context, Layout, Output, Placed};
use crate::db::background::describe;
use crate::entry::{PrefixTombstones, Span};
use crate::error::{Error, Result};
use crate::events::Part;
use std::sync::Arc;

/// Threads that merge at most.
const MOST_THREADS: usize = 8;

/// What a bulk build has written where it is to stay.
pub(super) struct Built {
    pub output: Output,
    /// The runs that took part.
    pub inputs: Vec<Part>,
    /// Bytes of temporary tables that were written.
    pub temporary_bytes: u64,
}

/// Takes gathered items, a batch at a time.
pub(super) struct Placer<'a> {
    site: Site<'a>,
    context: &'a Context<'a>,
    place: SpillPlace<'a>,
    sort_bytes: usize,
    sizes: Histogram,
    stage: Stage<'a>,
    temporary_bytes: u64,
}

impl<'a> Placer<'a> {
    /// A placer that sorts in about so many bytes of memory, and counts sizes in so many others.
    pub fn new(site: Site<'a>, context: &'a Context<'a>, (sort_bytes, sizes_bytes): (usize, u64)) -> Self {
        let place =
            SpillPlace { env: site.store.env, encoder: site.keyspace.encoder, next_id: context.next_id };
        let (sizes, stage) = (Histogram::new(sizes_bytes), Stage::Gathering);
        Self { site, context, place, sort_bytes, sizes, stage, temporary_bytes: 0 }
    }

    /// Writes a batch of items, of which more will come, and empties it.
    pub fn take(&mut self, items: &mut Gathered) -> Result<()> {
        if items.len() == 0 {
            return Ok(());
        }
        let store = self.site.store;
        let _open = store.scheduler.keep_open()?;
        self.site.keyspace.check_exists()?;
        store.catalog.check_space();
        if store.env.health.space_is_low() {
            return Err(store.committer.disk_is_full());
        }
        if matches!(self.stage, Stage::Gathering)
            && items.is_sorted
            && self.site.base.tables().next().is_none()
        {
            self.begin_stream(items);
        }
        self.leave_stream(items)?;
        match &mut self.stage {
            Stage::Streaming(streaming) => streaming.add(items, &mut self.sizes)?,
            Stage::Gathering | Stage::Scattered { .. } => self.scatter(items)?,
        }
        items.clear();
        Ok(())
    }

    /// Lets items go straight into tables, if enough of them have come to say how many there will be.
    fn begin_stream(&mut self, items: &mut Gathered) {
        items.sort();
        let mut sizes = Histogram::new(0);
        sizes.add_all(items);
        if sizes.expected().is_some() {
            let Site { base, no_tombstones, .. } = self.site;
            let build = Build::new(self.context, base, no_tombstones);
            let layout = Layout::new(self.context.design, base);
            self.stage = Stage::Streaming(Box::new(Streaming::new(build, layout)));
        }
    }

    /// Sets what went straight into tables aside, if items have come that belong before it.
    fn leave_stream(&mut self, items: &mut Gathered) -> Result<()> {
        let Stage::Streaming(streaming) = &self.stage else { return Ok(()) };
        items.sort();
        if streaming.goes_on_with(items) {
            return Ok(());
        }
        if let Stage::Streaming(streaming) = std::mem::replace(&mut self.stage, Stage::Gathering) {
            let spill = streaming.into_spill(self.place)?;
            self.site.store.env.counters.table_bytes.add(spill.bytes);
            self.temporary_bytes += spill.bytes;
            self.begin_scatter(Some(spill))?;
        }
        Ok(())
    }

    fn begin_scatter(&mut self, before: Option<Spill>) -> Result<()> {
        let scatter = Box::new(Scatter::new(self.place, self.sort_bytes / 2, self.site.writing())?);
        self.stage = Stage::Scattered { before, scatter };
        Ok(())
    }

    /// Lets items go to the parts of the temporary file that they belong to.
    fn scatter(&mut self, items: &Gathered) -> Result<()> {
        if matches!(self.stage, Stage::Gathering) {
            self.begin_scatter(None)?;
        }
        let Self { site: Site { store, keyspace, .. }, sizes, stage, .. } = self;
        let Stage::Scattered { scatter, .. } = stage else { return Ok(()) };
        let entries = items.len() as u64;
        let input = Part { entries, bytes: items.memory_bytes() as u64, ..Part::default() };
        self.temporary_bytes += store.scheduler.report(
            || describe::sort(keyspace, input),
            || scatter.add(items, sizes),
            |written| describe::sorted(entries, *written),
        )?;
        Ok(())
    }

    /// Ends the temporary file: all of its parts can be sorted in memory, or are sorted already.
    fn end_scatter(&mut self, scatter: Scatter<'_>, threads: usize) -> Result<Arc<Scattered>> {
        let Self { site: Site { store, keyspace, .. }, context, place, sizes, temporary_bytes, .. } = self;
        // What held items that were gathered, by now.
        let most_bytes = self.sort_bytes / threads;
        scatter.finish((*place, *context), sizes, most_bytes, &mut |spill| {
            *temporary_bytes += spill.bytes;
            let input = Part { entries: spill.entries, bytes: spill.bytes, ..Part::default() };
            let outcome = |(): &mut ()| describe::sorted(spill.entries, spill.bytes);
            // It is done.
            let _ = store.scheduler.report(|| describe::sort(keyspace, input), || Ok(()), outcome);
        })
    }

    /// Writes all items where they are to stay, the last of them those of `gathered`.
    pub fn finish(mut self, mut gathered: Gathered) -> Result<Built> {
        let _open = self.site.store.scheduler.keep_open()?;
        self.leave_stream(&mut gathered)?;
        let threads = merging_threads(self.site.store);
        let Given { before, scattered, gathered } = match std::mem::replace(&mut self.stage, Stage::Gathering)
        {
            Stage::Streaming(mut streaming) => {
                streaming.add(&gathered, &mut self.sizes)?;
                let output = streaming.finish(&self.sizes)?;
                return Ok(Built { output, inputs: Vec::new(), temporary_bytes: self.temporary_bytes });
            }
            Stage::Gathering => {
                gathered.sort();
                self.sizes.add_all(&gathered);
                Given { gathered: Some(Arc::new(gathered)), ..Given::default() }
            }
            stage @ Stage::Scattered { .. } => {
                self.stage = stage;
                self.scatter(&gathered)?;
                // Its memory is wanted.
                drop(gathered);
                match std::mem::replace(&mut self.stage, Stage::Gathering) {
                    Stage::Scattered { before, scatter } => {
                        let scattered = Some(self.end_scatter(*scatter, threads)?);
                        Given { before, scattered, gathered: None }
                    }
                    Stage::Gathering | Stage::Streaming(_) => Given::default(),
                }
            }
        };
        let Self { site, context, sizes, temporary_bytes, .. } = &self;
        let mut layout = Layout::new(context.design, site.base);
        let placed = layout.rest(&sizes.seen());
        let env = &site.store.env;
        // The newest first.
        let given = |span: &Span| -> Result<Vec<Source>> {
            let mut all = Vec::new();
            if let Some(gathered) = &gathered {
                let cursor = Box::new(Arc::clone(gathered).walk_within(span));
                all.push(Source { cursor, tombstones: PrefixTombstones::default() });
            }
            all.extend(scattered.as_ref().map(|scattered| scattered.source(span, env)).transpose()?);
            all.extend(before.as_ref().map(|before| before.source(span, &env.reader)).transpose()?);
            Ok(all)
        };
        let inputs = layout.inputs();
        let ingredients = Ingredients { given: &given, taken: &layout.taken };
        let mut output = merge_in_threads(*site, &ingredients, &placed, threads)?;
        output.steps.append(&mut layout.steps);
        Ok(Built { output, inputs, temporary_bytes: *temporary_bytes })
    }
}

/// Where all items are in the end, the oldest first.
#[derive(Default)]
struct Given {
    before: Option<Spill>,
    scattered: Option<Arc<Scattered>>,
    gathered: Option<Arc<Gathered>>,
}

impl Drop for Placer<'_> {
    fn drop(&mut self) {
        let open = self.site.store.scheduler.keep_open();
        match std::mem::replace(&mut self.stage, Stage::Gathering) {
            // The directory may be another process's by now.
            Stage::Streaming(streaming) if open.is_err() => streaming.leave_files(),
            stage => drop(stage),
        }
        if open.is_ok() {
            self.site.store.env.empty_trash();
        }
    }
}

/// How many threads merge: this one and those that would compact, as the keyspace is not compacted meanwhile.
fn merging_threads(store: Builder<'_>) -> usize {
    let cores = crate::sync::thread::available_parallelism().map_or(1, usize::from);
    (store.env.options.background_threads + 1).min(cores).clamp(1, MOST_THREADS)
}

/// Merges `ingredients` into the regions `placed`, in several threads where the store has any.
fn merge_in_threads(
    site: Site<'_>,
    ingredients: &Ingredients<'_>,
    placed: &[Placed],
    threads: usize,
) -> Result<Output> {
    let Site { store, keyspace, base, told, .. } = site;
    let parts = in_parts(placed, threads);
    let writing = site.writing();
    let merge_part = |part: &[Placed]| {
        let pace = |bytes| told.placed(bytes);
        store.scheduler.with_context(keyspace, base, &pace, |context| {
            merge(&Context { writing, ..*context }, base, ingredients, part)
        })
    };
    let outputs: Vec<Result<Output>> = crate::sync::thread::scope(|scope| {
        let Some((first, rest)) = parts.split_first() else { return Vec::new() };
        let others: Vec<_> = rest.iter().map(|part| scope.spawn(|| merge_part(part))).collect();
        let mut outputs = vec![merge_part(first)];
        let panicked = || Err(Error::invalid("a thread of the build has panicked"));
        outputs.extend(others.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())));
        outputs
    });
    let (mut all, mut failure) = (Output::default(), None);
    for output in outputs {
        match output {
            Ok(output) => all.join(output),
            Err(error) => failure = Some(error),
        }
    }
    let Some(error) = failure else { return Ok(all) };
    store.catalog.remove_new_tables(&all.steps, base);
    Err(error)
}

/// Cuts the regions into neighbouring parts of about one size.
fn in_parts(placed: &[Placed], parts: usize) -> Vec<&[Placed]> {
    let all: u64 = placed.iter().map(|placed| placed.share.bytes).sum();
    let most = all.div_ceil(parts.max(1) as u64);
    let (mut cut, mut from, mut bytes) = (Vec::new(), 0, 0u64);
    for (at, region) in placed.iter().enumerate() {
        if bytes > 0 && bytes + region.share.bytes / 2 > most {
            cut.extend(placed.get(from..at));
            (from, bytes) = (at, 0);
        }
        bytes += region.share.bytes;
    }
    cut.extend(placed.get(from..));
    cut
}
