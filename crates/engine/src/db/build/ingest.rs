//! A bulk build from its first item to its edit of the manifest.

use super::gather::Gathered;
use super::options::{IngestOptions, IngestReport};
use super::place::{Built, Placer};
use super::site::{Builder, Site, Told};
use crate::compaction::{Context, Output};
use crate::db::background::describe;
use crate::db::background::hold::Hold;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::view::Origin;
use crate::db::write::operations::{check_expiry, check_value};
use crate::entry::PrefixTombstones;
use crate::error::{Error, Result};
use crate::events::{Part, Reason};
use crate::memory::Holder;
use crate::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use crate::sync::thread::{Scope, ScopedJoinHandle};
use crate::version::Version;
use crate::version::edit::{RunRecord, Step};
use siltstone_design::EncodedKey;
use std::sync::Arc;
use std::time::Duration;

/// The share of the budget in which items are gathered, two batches of them, and sorted in the end, and that
/// of what is known of their sizes. What waits to be written to a temporary file takes half of the former
/// beside.
const SORT_SHARE: u64 = 4;
const SIZES_SHARE: u64 = 64;
/// Items are sorted in so much memory at least.
const LEAST_SORT_BYTES: usize = 16 << 10;

/// Where batches of gathered items become tables.
enum Lane<'a> {
    /// In the thread that gives the items: the store has no others.
    Here(Box<Placer<'a>>),
    /// In another one, while the next batch is gathered.
    Beside(Beside<'a>),
}

/// A batch of items on its way to the thread that makes tables of them.
enum Batch {
    More(Gathered),
    Last(Gathered),
}

/// The thread that makes tables, as the one sees it that gathers.
struct Beside<'a> {
    full: SyncSender<Batch>,
    emptied: Receiver<Gathered>,
    thread: ScopedJoinHandle<'a, Result<Option<Built>>>,
}

/// Takes the items of a bulk build; see [`Keyspace::ingest_with`](crate::Keyspace::ingest_with).
pub struct Ingest<'a> {
    site: Site<'a>,
    gathered: Gathered,
    /// Bytes of memory that a batch may take.
    batch_bytes: usize,
    /// `None` once it has failed.
    lane: Option<Lane<'a>>,
    report: IngestReport,
}

impl std::fmt::Debug for Ingest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingest").field("report", &self.report).finish_non_exhaustive()
    }
}

/// Builds tables of what `give` puts.
pub(in crate::db) fn ingest<E: From<Error>>(
    store: Builder<'_>,
    keyspace: &Arc<OpenKeyspace>,
    options: &IngestOptions,
    give: impl FnOnce(&mut Ingest<'_>) -> Result<(), E>,
) -> Result<IngestReport, E> {
    let told = Told::new(options);
    let hold = begin(store, keyspace)?;
    let keyspace = hold.keyspace();
    let base = {
        let _flushing = store.scheduler.lock_flushes();
        hold.version_before()?
    };
    let no_tombstones = PrefixTombstones::default();
    let site = Site { store, keyspace, base: &base, told: &told, no_tombstones: &no_tombstones };
    let env = &store.env;
    let budget = env.memory().total_bytes();
    let sort_bytes = options.sort_bytes.unwrap_or((budget / SORT_SHARE) as usize).max(LEAST_SORT_BYTES);
    let _memory = env.memory().hold(Holder::Compaction, sort_bytes as u64 * 3 / 2 + budget / SIZES_SHARE);
    env.reader.fit_cache();
    let built = if store.has_threads() {
        // One batch is gathered while another one is sorted and written.
        crate::sync::thread::scope(|scope| give_to(Ingest::beside(site, sort_bytes, scope), &hold, give))
    } else {
        let pace = |bytes| told.placed(bytes);
        store.scheduler.with_context(keyspace, &base, &pace, |context| {
            let context = &Context { writing: site.writing(), ..*context };
            let placer = Placer::new(site, context, (sort_bytes, sizes_bytes(store)));
            Ok(give_to(Ingest::here(site, sort_bytes, placer), &hold, give))
        })?
    };
    env.signals.wake();
    built
}

fn give_to<E: From<Error>>(
    mut ingest: Ingest<'_>,
    hold: &Hold<'_>,
    give: impl FnOnce(&mut Ingest<'_>) -> Result<(), E>,
) -> Result<IngestReport, E> {
    give(&mut ingest)?;
    ingest.finish(hold).map_err(E::from)
}

/// Bytes of memory for what is known of the items' sizes.
fn sizes_bytes(store: Builder<'_>) -> u64 {
    store.env.memory().total_bytes() / SIZES_SHARE
}

/// Holds the keyspace's compactions back, and flushes what was written to it so far.
fn begin<'a>(store: Builder<'a>, keyspace: &Arc<OpenKeyspace>) -> Result<Hold<'a>> {
    keyspace.check_exists()?;
    let hold = store.scheduler.hold(keyspace)?;
    let keyspace = hold.keyspace();
    store.committer.seal_then(keyspace, Reason::Requested, || store.scheduler.mark_moment(keyspace))?;
    store.scheduler.flush_older(keyspace)?;
    Ok(hold)
}

impl<'a> Ingest<'a> {
    fn here(site: Site<'a>, batch_bytes: usize, placer: Placer<'a>) -> Self {
        Self::new(site, batch_bytes, Lane::Here(Box::new(placer)))
    }

    fn beside(site: Site<'a>, sort_bytes: usize, scope: &'a Scope<'a, '_>) -> Self {
        let batch_bytes = sort_bytes / 2;
        let (full, batches) = sync_channel(1);
        let (give_back, emptied) = channel();
        // The batch that is gathered while the first one is placed.
        let _ = give_back.send(Gathered::new(site.keyspace.encoder, batch_bytes));
        let thread = scope.spawn(move || place_batches(site, sort_bytes, &batches, give_back));
        Self::new(site, batch_bytes, Lane::Beside(Beside { full, emptied, thread }))
    }

    fn new(site: Site<'a>, batch_bytes: usize, lane: Lane<'a>) -> Self {
        let gathered = Gathered::new(site.keyspace.encoder, batch_bytes);
        Self { site, gathered, batch_bytes, lane: Some(lane), report: IngestReport::default() }
    }

    /// Sets `key` to `value` once the build ends, unless it is put again.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.ingest_with(&siltstone::IngestOptions::default(), |ingest| {
    ///     ingest.put("a", "1")?;
    ///     ingest.put("b", "2")
    /// })?;
    /// assert_eq!(items.len()?, 2);
    /// # Ok(())
    /// # }
    /// ```
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
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let ttl = std::time::Duration::from_secs(60);
    /// items.ingest_with(&siltstone::IngestOptions::default(), |ingest| ingest.put_with_ttl("a", "1", ttl))?;
    /// assert!(items.contains("a")?);
    /// # Ok(())
    /// # }
    /// ```
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
        self.site.store.env.clock.note_use();
        let expires_at_ms = self.site.store.env.now_ms().saturating_add(ttl_ms).max(1);
        self.put_until(key.as_ref(), value.as_ref(), expires_at_ms)
    }

    #[inline]
    pub(in crate::db) fn put_until(&mut self, key: &[u8], value: &[u8], expires_at_ms: u64) -> Result<()> {
        check_expiry(self.site.keyspace, expires_at_ms)?;
        let encoded = self.encode(key, value)?;
        let bytes = key.len() + value.len();
        if self.gathered.lacks_room(bytes, self.batch_bytes) && self.gathered.len() > 0 {
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
        self.site.keyspace.check_key_to_come(key).map_err(numbered)?;
        self.site.keyspace.encode(key).map_err(numbered)
    }

    /// Makes room for more items.
    fn drain(&mut self) -> Result<()> {
        self.site.told.given(&self.report);
        let mut last = Gathered::new(self.site.keyspace.encoder, 0);
        self.gathered.hand_last_to(&mut last);
        match &mut self.lane {
            Some(Lane::Here(placer)) => placer.take(&mut self.gathered)?,
            Some(Lane::Beside(beside)) => {
                if !beside.exchange(&mut self.gathered) {
                    return Err(self.failure());
                }
            }
            None => return Err(self.failure()),
        }
        last.hand_last_to(&mut self.gathered);
        Ok(())
    }

    /// Returns why the other thread ended too early.
    fn failure(&mut self) -> Error {
        match self.lane.take() {
            Some(Lane::Beside(Beside { thread, .. })) => match thread.join() {
                Ok(Err(error)) => error,
                Ok(Ok(_)) | Err(_) => Error::invalid("a thread of the build has panicked"),
            },
            _ => Error::invalid("the build has failed before; begin another one"),
        }
    }

    /// Writes all items where they are to stay.
    fn place(&mut self) -> Result<Built> {
        let nothing = Gathered::new(self.site.keyspace.encoder, 0);
        let gathered = std::mem::replace(&mut self.gathered, nothing);
        match self.lane.take() {
            Some(Lane::Here(placer)) => placer.finish(gathered),
            Some(Lane::Beside(Beside { full, emptied, thread })) => {
                // The batch that waits there is wanted no more, but its memory is.
                drop(emptied);
                // If nobody takes it, the thread has failed, and says why.
                let _ = full.send(Batch::Last(gathered));
                match thread.join() {
                    Ok(Ok(Some(built))) => Ok(built),
                    Ok(Err(error)) => Err(error),
                    Ok(Ok(None)) | Err(_) => Err(Error::invalid("a thread of the build has panicked")),
                }
            }
            None => Err(self.failure()),
        }
    }

    /// Makes the items part of the store.
    fn finish(mut self, hold: &Hold<'_>) -> Result<IngestReport> {
        let Site { store, keyspace, told, .. } = self.site;
        told.given(&self.report);
        if self.report.items == 0 {
            return Ok(self.report);
        }
        let input = Part { entries: self.report.items, bytes: self.report.user_bytes, ..Part::default() };
        let given = input.clone();
        let work = || {
            let Built { output, mut inputs, temporary_bytes } = self.place()?;
            inputs.insert(0, given);
            let outcome = describe::outcome(&inputs, temporary_bytes, &output);
            let bytes: u64 = outcome.outputs.iter().map(|part| part.bytes).sum();
            let report = IngestReport {
                temporary_bytes,
                table_bytes: bytes,
                tables: outcome.outputs.iter().map(|part| part.tables).sum(),
                entries: outcome.outputs.iter().map(|part| part.entries).sum(),
                ..self.report
            };
            // If the store has been closed meanwhile, the directory may be another process's by now.
            let _open = store.scheduler.keep_open()?;
            self.commit(output, hold)?;
            Ok((outcome, report))
        };
        let explain = |(outcome, _): &mut (_, _)| std::mem::take(outcome);
        let (_, report) = store.scheduler.report(|| describe::ingest(keyspace, input), work, explain)?;
        store.scheduler.look_for_large_group(keyspace);
        Ok(report)
    }

    /// Makes what was written part of the keyspace, below what was written to it meanwhile.
    fn commit(&self, mut output: Output, hold: &Hold<'_>) -> Result<()> {
        let Site { store, keyspace, .. } = self.site;
        let Builder { env, catalog, scheduler, .. } = store;
        // Other writes that came before must not be lost where this is kept, so it syncs the log.
        let is_copy = keyspace.is_copy();
        let announce = || catalog.announce(&store.committer.lock(), keyspace);
        let _announced = (!is_copy).then(announce).transpose()?;
        scheduler.count_written(&output.steps);
        if !is_copy {
            env.counters.user_bytes.add(self.report.user_bytes);
        }
        env.sync_dir()?;
        let _flushing = scheduler.lock_flushes();
        // Only estimates.
        let _ = scheduler.note_kills(keyspace, &mut output.steps);
        let version = keyspace.version();
        raise_newer(&version, hold, &|| catalog.next_id(), &mut output.steps);
        let user_bytes = version.user_bytes + self.report.user_bytes;
        output.steps.push(Step::Flushed { start: keyspace.flushed(), user_bytes });
        catalog.commit(keyspace, output, Origin::Build)?;
        keyspace.check_exists()
    }
}

impl Beside<'_> {
    /// Hands a full batch over for an empty one; `false` if the other thread has ended.
    fn exchange(&self, items: &mut Gathered) -> bool {
        let Ok(empty) = self.emptied.recv() else { return false };
        let full = std::mem::replace(items, empty);
        self.full.send(Batch::More(full)).is_ok()
    }
}

/// Makes tables of batches until there are no more; `None` where the last one does not come.
fn place_batches(
    site: Site<'_>,
    sort_bytes: usize,
    batches: &Receiver<Batch>,
    emptied: Sender<Gathered>,
) -> Result<Option<Built>> {
    let pace = |bytes| site.told.placed(bytes);
    site.store.scheduler.with_context(site.keyspace, site.base, &pace, |context| {
        let context = &Context { writing: site.writing(), ..*context };
        let mut placer = Placer::new(site, context, (sort_bytes, sizes_bytes(site.store)));
        while let Ok(batch) = batches.recv() {
            match batch {
                Batch::More(mut items) => {
                    placer.take(&mut items)?;
                    // Whoever does not want it back has given up, and will send no more.
                    let _ = emptied.send(items);
                }
                Batch::Last(items) => return placer.finish(items).map(Some),
            }
        }
        Ok(None)
    })
}

/// Puts the runs of level 0 that were flushed during the hold above the new ones of `steps` again.
fn raise_newer(version: &Version, hold: &Hold<'_>, next_id: &dyn Fn() -> u64, steps: &mut Vec<Step>) {
    let newer = hold.newer();
    let mut raised = Vec::new();
    for step in steps.iter() {
        let Step::AddRun { path, .. } = *step else { continue };
        // Each is put on top, so the oldest of them comes first.
        for run in version.runs(path).iter().rev().filter(|run| newer.contains(&run.id)) {
            let tables = run.tables.iter().map(|table| table.meta().clone()).collect();
            let record = RunRecord { id: next_id(), tables, kills: run.kills.clone() };
            raised.push(Step::AddRun { level: 0, path, run: record, replaces: None });
            raised.push(Step::RemoveRun { level: 0, path, run: run.id });
        }
    }
    steps.append(&mut raised);
}
