//! Gathered items become tables: straight where they come in the store's order, by way of sorted temporary
//! tables where they do not fit memory, and by one merge in the end.

use super::gather::Gathered;
use super::site::Site;
use super::sizes::Histogram;
use super::spill::SpillPlace;
use super::stage::{Stage, Streaming, join_spills, sources};
use crate::compaction::build::{Build, Ingredients, merge};
use crate::compaction::merge::Source;
use crate::compaction::{Context, Layout, Output, Placed};
use crate::db::background::describe;
use crate::entry::{Cursor, EntryRef, PrefixTombstones, Span};
use crate::error::{Error, Result};
use crate::events::Part;
use siltstone_design::Digest;
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
    sizes: Histogram,
    stage: Stage<'a>,
    temporary_bytes: u64,
}

impl<'a> Placer<'a> {
    /// A placer that counts sizes in about so many bytes of memory.
    pub fn new(site: Site<'a>, context: &'a Context<'a>, sizes_bytes: u64) -> Self {
        let place =
            SpillPlace { env: &site.store.env, encoder: site.keyspace.encoder, next_id: context.next_id };
        let (sizes, stage) = (Histogram::new(sizes_bytes), Stage::Gathering);
        Self { site, context, place, sizes, stage, temporary_bytes: 0 }
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
        let was_sorted = items.is_sorted;
        items.sort();
        if matches!(self.stage, Stage::Gathering) && was_sorted && self.site.base.tables().next().is_none() {
            self.begin_stream(items);
        }
        self.leave_stream(items)?;
        match &mut self.stage {
            Stage::Streaming(streaming) => {
                count(&mut self.sizes, items);
                streaming.add(items, &self.sizes)?;
            }
            Stage::Gathering | Stage::Spilled(_) => self.spill(items)?,
        }
        items.clear();
        Ok(())
    }

    /// Lets items go straight into tables, if enough of them have come to say how many there will be.
    fn begin_stream(&mut self, items: &Gathered) {
        let mut sizes = Histogram::new(0);
        count(&mut sizes, items);
        if sizes.expected().is_some() {
            let Site { base, no_tombstones, .. } = self.site;
            let build = Build::new(self.context, base, no_tombstones);
            let layout = Layout::new(self.context.design, base);
            self.stage = Stage::Streaming(Box::new(Streaming::new(build, layout)));
        }
    }

    /// Merges what went straight into tables with the rest, if items have come that belong before them.
    fn leave_stream(&mut self, items: &Gathered) -> Result<()> {
        let Stage::Streaming(streaming) = &self.stage else { return Ok(()) };
        if streaming.goes_on_with(items) {
            return Ok(());
        }
        if let Stage::Streaming(streaming) = std::mem::replace(&mut self.stage, Stage::Gathering) {
            let spill = streaming.into_spill(self.place)?;
            self.site.store.env.counters.table_bytes.add(spill.bytes);
            self.temporary_bytes += spill.bytes;
            self.stage = Stage::Spilled(vec![spill]);
        }
        Ok(())
    }

    /// Writes the items, which are sorted, to a temporary table.
    fn spill(&mut self, items: &Gathered) -> Result<()> {
        let Self { site: Site { store, keyspace, .. }, place, sizes, .. } = self;
        let input =
            Part { entries: items.len() as u64, bytes: items.memory_bytes() as u64, ..Part::default() };
        let spill = store.scheduler.report(
            || describe::sort(keyspace, input),
            || place.write_all(&mut Counted { entries: items.walk(), sizes }),
            |spill| describe::sorted(spill.entries, spill.bytes),
        )?;
        sizes.end_batch();
        self.temporary_bytes += spill.bytes;
        match &mut self.stage {
            Stage::Spilled(spills) => spills.push(spill),
            stage => *stage = Stage::Spilled(vec![spill]),
        }
        Ok(())
    }

    /// Writes all items where they are to stay, the last of them those of `gathered`.
    pub fn finish(mut self, mut gathered: Gathered) -> Result<Built> {
        let _open = self.site.store.scheduler.keep_open()?;
        gathered.sort();
        self.leave_stream(&gathered)?;
        count(&mut self.sizes, &gathered);
        let Self { site, context, place, sizes, temporary_bytes, stage } = &mut self;
        let spills = match std::mem::replace(stage, Stage::Gathering) {
            Stage::Streaming(mut streaming) => {
                streaming.add(&gathered, sizes)?;
                let output = streaming.finish(sizes)?;
                return Ok(Built { output, inputs: Vec::new(), temporary_bytes: *temporary_bytes });
            }
            Stage::Gathering => Vec::new(),
            Stage::Spilled(mut spills) => {
                *temporary_bytes += join_spills(&mut spills, *place, context)?;
                spills
            }
        };
        let gathered = Arc::new(gathered);
        let mut layout = Layout::new(context.design, site.base);
        let placed = layout.rest(&sizes.seen());
        let encoder = site.keyspace.encoder;
        let env = &site.store.env;
        let given = |span: &Span| -> Result<Vec<Source>> {
            // Threads do not share numbers, and name none here.
            let place = SpillPlace { env, encoder, next_id: &|| 0 };
            let newest = Arc::clone(&gathered).walk_within(span);
            let newest = Source { cursor: Box::new(newest), tombstones: PrefixTombstones::default() };
            let mut all = vec![newest];
            all.extend(sources(&spills, place, span)?);
            Ok(all)
        };
        let inputs = layout.inputs();
        let ingredients = Ingredients { given: &given, taken: &layout.taken };
        let mut output = merge_in_threads(*site, &ingredients, &placed)?;
        output.steps.append(&mut layout.steps);
        Ok(Built { output, inputs, temporary_bytes: *temporary_bytes })
    }
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

/// Entries that are counted as they are walked over.
struct Counted<'a, C> {
    entries: C,
    sizes: &'a mut Histogram,
}

impl<C: Cursor> Cursor for Counted<'_, C> {
    #[inline]
    fn peek(&self) -> Option<EntryRef<'_>> {
        self.entries.peek()
    }

    #[inline]
    fn advance(&mut self) -> Result<Option<Digest>> {
        if let Some(entry) = self.entries.peek() {
            self.sizes.add(&entry);
        }
        self.entries.advance()
    }
}

/// Counts the gathered items, which are sorted.
fn count(sizes: &mut Histogram, gathered: &Gathered) {
    let mut walk = Counted { entries: gathered.walk(), sizes };
    // A walk in memory meets no errors.
    while matches!(walk.advance(), Ok(Some(_))) {}
    walk.sizes.end_batch();
}

/// Merges `ingredients` into the regions `placed`, in several threads where the store has any.
fn merge_in_threads(site: Site<'_>, ingredients: &Ingredients<'_>, placed: &[Placed]) -> Result<Output> {
    let Site { store, keyspace, base, told, .. } = site;
    // This thread and those that would compact: the keyspace is not compacted meanwhile.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (store.env.options.background_threads + 1).min(cores).clamp(1, MOST_THREADS);
    let parts = in_parts(placed, threads);
    let merge_part = |part: &[Placed]| {
        let pace = |bytes| told.placed(bytes);
        store.scheduler.with_context(keyspace, base, &pace, |context| merge(context, base, ingredients, part))
    };
    let outputs: Vec<Result<Output>> = std::thread::scope(|scope| {
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
