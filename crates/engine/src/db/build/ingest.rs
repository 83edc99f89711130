//! A bulk build from its first item to its edit of the manifest.

use super::gather::Gathered;
use super::options::{IngestOptions, IngestProgress, IngestReport};
use super::sizes::Histogram;
use super::spill::SpillPlace;
use super::stage::{Stage, Streaming, join_spills, sources};
use crate::compaction::build::{Build, Ingredients, merge};
use crate::compaction::merge::Source;
use crate::compaction::{Context, Layout, Output, Placed};
use crate::db::background::describe;
use crate::db::background::hold::Hold;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::store::Store;
use crate::db::write::operations::{check_expiry, check_value};
use crate::entry::{Cursor, PrefixTombstones, Span};
use crate::error::{Error, Result};
use crate::events::{Part, Reason};
use crate::memory::{Holder, Reservation};
use crate::version::Version;
use crate::version::edit::{RunRecord, Step};
use siltstone_design::EncodedKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The share of the budget in which items are sorted, and that of what is known of their sizes.
const SORT_SHARE: u64 = 4;
const SIZES_SHARE: u64 = 64;
/// Items are sorted in so much memory at least.
const LEAST_SORT_BYTES: usize = 16 << 10;
/// Threads that merge at most.
const MOST_THREADS: usize = 8;

/// How far a build is, for whoever wants to hear of it.
struct Told<'a> {
    options: &'a IngestOptions,
    items: AtomicU64,
    user_bytes: AtomicU64,
    placed_bytes: AtomicU64,
}

impl Told<'_> {
    fn placed(&self, bytes: u64) {
        self.placed_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    fn given(&self, report: &IngestReport) {
        self.items.store(report.items, Ordering::Relaxed);
        self.user_bytes.store(report.user_bytes, Ordering::Relaxed);
        self.tell();
    }

    fn tell(&self) {
        if let Some(progress) = &self.options.progress {
            let [items, user_bytes, placed_bytes] = [&self.items, &self.user_bytes, &self.placed_bytes]
                .map(|count| count.load(Ordering::Relaxed));
            progress(IngestProgress { items, user_bytes, placed_bytes });
        }
    }
}

/// What all of a build uses.
#[derive(Clone, Copy)]
struct Site<'a> {
    store: &'a Store,
    keyspace: &'a Arc<OpenKeyspace>,
    /// What the keyspace held when the build began.
    base: &'a Version,
    told: &'a Told<'a>,
    no_tombstones: &'a PrefixTombstones,
}

/// Takes the items of a bulk build; see [`Keyspace::ingest_with`](crate::Keyspace::ingest_with).
pub struct Ingest<'a> {
    site: Site<'a>,
    context: &'a Context<'a>,
    place: SpillPlace<'a>,
    gathered: Gathered,
    sort_bytes: usize,
    sizes: Histogram,
    stage: Stage<'a>,
    report: IngestReport,
    _memory: Reservation,
}

impl std::fmt::Debug for Ingest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingest").field("report", &self.report).finish_non_exhaustive()
    }
}

/// Builds tables of what `give` puts.
pub(super) fn ingest<E: From<Error>>(
    store: &Store,
    keyspace: &Arc<OpenKeyspace>,
    options: &IngestOptions,
    give: impl FnOnce(&mut Ingest<'_>) -> Result<(), E>,
) -> Result<IngestReport, E> {
    let (items, user_bytes, placed_bytes) = Default::default();
    let told = Told { options, items, user_bytes, placed_bytes };
    let hold = begin(store, keyspace)?;
    let base = {
        let _flushing = store.scheduler.lock_flushes();
        hold.version_before()?
    };
    let no_tombstones = PrefixTombstones::default();
    let site = Site { store, keyspace, base: &base, told: &told, no_tombstones: &no_tombstones };
    let pace = |bytes| told.placed(bytes);
    store.scheduler.with_context(keyspace, &pace, |context| {
        let mut ingest = Ingest::new(site, context, options);
        let built = match give(&mut ingest) {
            Ok(()) => ingest.finish(&hold).map_err(E::from),
            Err(error) => Err(error),
        };
        drop(ingest);
        store.env.signals.wake();
        Ok(built)
    })?
}

/// Holds the keyspace's compactions back, and flushes what was written to it so far.
fn begin<'a>(store: &'a Store, keyspace: &Arc<OpenKeyspace>) -> Result<Hold<'a>> {
    keyspace.check_exists()?;
    let hold = store.scheduler.hold(keyspace)?;
    store.committer.seal_then(keyspace, Reason::Requested, || store.scheduler.mark_moment(keyspace))?;
    store.scheduler.flush_older(keyspace)?;
    Ok(hold)
}

impl<'a> Ingest<'a> {
    fn new(site: Site<'a>, context: &'a Context<'a>, options: &IngestOptions) -> Self {
        let env = &site.store.env;
        let budget = env.memory().total_bytes();
        let sort_bytes = options.sort_bytes.unwrap_or((budget / SORT_SHARE) as usize).max(LEAST_SORT_BYTES);
        let sizes_bytes = budget / SIZES_SHARE;
        let held = sort_bytes as u64 + sizes_bytes;
        let encoder = site.keyspace.encoder;
        let ingest = Self {
            place: SpillPlace { env, encoder, next_id: context.next_id },
            site,
            context,
            gathered: Gathered::new(encoder, sort_bytes),
            sort_bytes,
            sizes: Histogram::new(sizes_bytes),
            stage: Stage::Gathering,
            report: IngestReport::default(),
            _memory: env.memory().hold(Holder::Compaction, held),
        };
        env.reader.fit_cache();
        ingest
    }

    /// Sets `key` to `value` once the build ends, unless it is put again.
    ///
    /// # Errors
    /// `BadKey` where the key does not fit the schema, `InvalidInput` where the value is over 1 GiB, both
    /// with the item's number, counted from 1; those of writing. The build can't go on after the latter.
    #[inline]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_until(key.as_ref(), value.as_ref(), 0)
    }

    /// Sets `key` to `value`, which is gone after `ttl`, counted from now.
    ///
    /// # Errors
    /// As [`Ingest::put`].
    pub fn put_with_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let expires_at_ms = self.site.store.env.now_ms().saturating_add(ttl_ms).max(1);
        self.put_until(key.as_ref(), value.as_ref(), expires_at_ms)
    }

    #[inline]
    fn put_until(&mut self, key: &[u8], value: &[u8], expires_at_ms: u64) -> Result<()> {
        check_expiry(self.site.keyspace, expires_at_ms)?;
        let encoded = self.encode(key, value)?;
        let bytes = key.len() + value.len();
        if self.gathered.lacks_room(bytes, self.sort_bytes) && self.gathered.len() > 0 {
            self.drain()?;
        }
        self.gathered.add(&encoded, value, expires_at_ms);
        self.report.items += 1;
        self.report.user_bytes += bytes as u64;
        Ok(())
    }

    /// Returns where `key` goes, if it can be stored with `value`.
    #[inline]
    fn encode<'k>(&self, key: &'k [u8], value: &[u8]) -> Result<EncodedKey<'k>> {
        let numbered = |error: Error| error.of(format_args!("item {}", self.report.items + 1));
        check_value(value).map_err(numbered)?;
        self.site.keyspace.encoder.encode(key).map_err(|error| numbered(error.into()))
    }

    /// Makes room for more items.
    fn drain(&mut self) -> Result<()> {
        let store = self.site.store;
        let _open = store.scheduler.keep_open()?;
        self.site.keyspace.check_exists()?;
        store.env.check_space();
        if store.env.health.space_is_low() {
            return Err(store.committer.disk_is_full());
        }
        self.site.told.given(&self.report);
        let was_sorted = self.gathered.is_sorted;
        self.gathered.sort();
        if matches!(self.stage, Stage::Gathering) && was_sorted && self.site.base.tables().next().is_none() {
            self.begin_stream();
        }
        self.leave_stream()?;
        match &mut self.stage {
            Stage::Streaming(streaming) => {
                count(&mut self.sizes, &self.gathered, 1);
                streaming.add(&self.gathered, 1, &self.sizes)?;
                // The next item may be of the same key.
                self.gathered.keep_last();
                Ok(())
            }
            Stage::Gathering | Stage::Spilled(_) => self.spill(),
        }
    }

    /// Lets items go straight into tables, if enough of them have come to say how many there will be.
    fn begin_stream(&mut self) {
        let mut sizes = Histogram::new(0);
        count(&mut sizes, &self.gathered, 1);
        if sizes.expected().is_some() {
            let Site { base, no_tombstones, .. } = self.site;
            let build = Build::new(self.context, base, no_tombstones);
            let layout = Layout::new(self.context.design, base);
            self.stage = Stage::Streaming(Box::new(Streaming::new(build, layout)));
        }
    }

    /// Merges what went straight into tables with the rest, if items have come that belong before them.
    fn leave_stream(&mut self) -> Result<()> {
        let Stage::Streaming(streaming) = &self.stage else { return Ok(()) };
        if streaming.goes_on_with(&self.gathered) {
            return Ok(());
        }
        if let Stage::Streaming(streaming) = std::mem::replace(&mut self.stage, Stage::Gathering) {
            let spill = streaming.into_spill(self.place)?;
            self.site.store.env.counters.table_bytes.add(spill.bytes);
            self.report.temporary_bytes += spill.bytes;
            self.stage = Stage::Spilled(vec![spill]);
        }
        Ok(())
    }

    /// Writes the items, which are sorted, to a temporary table.
    fn spill(&mut self) -> Result<()> {
        count(&mut self.sizes, &self.gathered, 0);
        let Site { store, keyspace, .. } = self.site;
        let input = Part {
            entries: self.gathered.len() as u64,
            bytes: self.gathered.memory_bytes() as u64,
            ..Part::default()
        };
        let spill = store.scheduler.report(
            || describe::sort(keyspace, input),
            || self.place.write(&self.gathered),
            |spill| describe::sorted(spill.entries, spill.bytes),
        )?;
        self.report.temporary_bytes += spill.bytes;
        match &mut self.stage {
            Stage::Spilled(spills) => spills.push(spill),
            stage => *stage = Stage::Spilled(vec![spill]),
        }
        self.gathered.clear();
        Ok(())
    }

    /// Makes the items part of the store.
    fn finish(&mut self, hold: &Hold<'_>) -> Result<IngestReport> {
        let Site { store, keyspace, told, .. } = self.site;
        told.given(&self.report);
        if self.report.items == 0 {
            return Ok(self.report);
        }
        let _open = store.scheduler.keep_open()?;
        self.gathered.sort();
        self.leave_stream()?;
        let input = Part { entries: self.report.items, bytes: self.report.user_bytes, ..Part::default() };
        let given = input.clone();
        let work = || {
            let (output, mut inputs) = self.place_items()?;
            inputs.insert(0, given);
            let outcome = describe::outcome(&inputs, self.report.temporary_bytes, &output);
            let bytes: u64 = outcome.outputs.iter().map(|part| part.bytes).sum();
            let report = IngestReport {
                table_bytes: bytes,
                tables: outcome.outputs.iter().map(|part| part.tables).sum(),
                entries: outcome.outputs.iter().map(|part| part.entries).sum(),
                ..self.report
            };
            self.commit(output, hold)?;
            Ok((outcome, report))
        };
        let explain = |(outcome, _): &mut (_, _)| std::mem::take(outcome);
        let (_, report) = store.scheduler.report(|| describe::ingest(keyspace, input), work, explain)?;
        Ok(report)
    }

    /// Writes all items that are not there yet where they are to stay, and says what took part beside them.
    fn place_items(&mut self) -> Result<(Output, Vec<Part>)> {
        count(&mut self.sizes, &self.gathered, 0);
        let Self { site, context, place, sizes, .. } = self;
        let gathered = std::mem::replace(&mut self.gathered, Gathered::new(site.keyspace.encoder, 0));
        let spills = match std::mem::replace(&mut self.stage, Stage::Gathering) {
            Stage::Streaming(mut streaming) => {
                streaming.add(&gathered, 0, sizes)?;
                let output = streaming.finish(sizes)?;
                return Ok((output, Vec::new()));
            }
            Stage::Gathering => Vec::new(),
            Stage::Spilled(mut spills) => {
                self.report.temporary_bytes += join_spills(&mut spills, *place, context)?;
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
        Ok((output, inputs))
    }

    /// Makes what was written part of the keyspace, below what was written to it meanwhile.
    fn commit(&self, mut output: Output, hold: &Hold<'_>) -> Result<()> {
        let Site { store, keyspace, .. } = self.site;
        let Store { env, catalog, scheduler, .. } = store;
        // Other writes that came before must not be lost where this is kept.
        catalog.log.sync()?;
        scheduler.count_written(&output.steps);
        env.counters.user_bytes.add(self.report.user_bytes);
        env.sync_dir()?;
        let _flushing = scheduler.lock_flushes();
        // Only estimates.
        let _ = scheduler.note_kills(keyspace, &mut output.steps);
        let version = keyspace.version();
        raise_newer(&version, hold, &|| catalog.next_id(), &mut output.steps);
        let user_bytes = version.user_bytes + self.report.user_bytes;
        output.steps.push(Step::Flushed { start: keyspace.flushed(), user_bytes });
        catalog.commit(keyspace, output, None)?;
        keyspace.check_exists()
    }
}

impl Drop for Ingest<'_> {
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

/// Counts the gathered items, which are sorted, but for the last `left_out`.
fn count(sizes: &mut Histogram, gathered: &Gathered, left_out: usize) {
    let mut walk = gathered.walk(left_out);
    while let Some(entry) = walk.peek() {
        sizes.add(&entry);
        // A walk in memory meets no errors.
        if walk.advance().is_err() {
            break;
        }
    }
    sizes.end_batch();
}

/// Merges `ingredients` into the regions `placed`, in several threads where the store has any.
fn merge_in_threads(site: Site<'_>, ingredients: &Ingredients<'_>, placed: &[Placed]) -> Result<Output> {
    let Site { store, keyspace, base, told, .. } = site;
    let threads = store.env.options.background_threads.clamp(1, MOST_THREADS);
    let parts = in_parts(placed, threads);
    let merge_part = |part: &[Placed]| {
        let pace = |bytes| told.placed(bytes);
        store.scheduler.with_context(keyspace, &pace, |context| merge(context, base, ingredients, part))
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

/// Puts the runs of level 0 that were flushed during the hold above the new ones of `steps` again.
fn raise_newer(version: &Version, hold: &Hold<'_>, next_id: &dyn Fn() -> u64, steps: &mut Vec<Step>) {
    let newer = hold.newer();
    let mut raised = Vec::new();
    for step in steps.iter() {
        let Step::AddRun { level: 0, path, .. } = *step else { continue };
        let Some(region) = version.levels.first().and_then(|level| level.region(path)) else { continue };
        // Each is put on top, so the oldest of them comes first.
        for run in region.runs.iter().rev().filter(|run| newer.contains(&run.id)) {
            let tables = run.tables.iter().map(|table| table.meta().clone()).collect();
            let record = RunRecord { id: next_id(), tables, kills: run.kills.clone() };
            raised.push(Step::AddRun { level: 0, path, run: record, replaces: None });
            raised.push(Step::RemoveRun { level: 0, path, run: run.id });
        }
    }
    steps.append(&mut raised);
}
