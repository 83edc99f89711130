//! A keyspace gets another schema while it is in use: all that it holds is copied.
//!
//! The idea: a copy by the new schema is built beside the keyspace, out of what that held at one moment. Then
//! the copy catches up with what was written meanwhile, as the log tells ([`catch_up`]), round by round, each
//! shorter than the one before, and is merged as its design has it. The last part is brought to it while
//! writers wait for a few milliseconds, and one edit of the manifest lets the copy's tables be the
//! keyspace's.
//!
//! Invariants: no manifest names the copy before it takes the keyspace's place, so a crash leaves nothing of
//! it, and the next opening begins it anew. At each moment that the copy has reached it holds just what the
//! keyspace held.

mod catch_up;
#[cfg(all(test, siltstone_shuttle))]
mod interleavings;
#[cfg(test)]
mod tests;
mod walk;
mod work;

use super::background::Scheduler;
use super::background::hold::Hold;
use super::build::IngestOptions;
use super::build::ingest::ingest;
use super::build::site::Builder;
use super::catalog::Catalog;
use super::catalog::keyspace::OpenKeyspace;
use super::catalog::schema_change::{Ended, SchemaChange};
use super::env::Env;
use super::follow::{Follower, KeepLog};
use super::health::Chore;
use super::read::Searcher;
use super::reporter::Reporter;
use super::write::Committer;
use super::write_buffer::WriteBuffer;
use crate::codec::Decoder;
use crate::entry::Span;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, SchemaEvent};
use crate::operation;
use crate::record::is_batch;
use crate::stats::Stopwatch;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use walk::{LiveItem, each_live};
use work::{Caught, Next, Work};

/// How long a copy waits for others before it looks again.
const LOOK: Duration = Duration::from_millis(20);
/// How long a copy that failed waits before it is begun anew: after the first failure, and at most.
const RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Items between two looks whether the copy is still wanted.
const ITEMS_BETWEEN_LOOKS: u64 = 256;
/// Bytes of the log that are brought to the copy while writers wait, at most.
const LAST_BYTES: u64 = 64 << 10;
/// Rounds after which they may be more with each: the copy is no faster than the writers.
const PATIENT_ROUNDS: u32 = 8;
const MOST_DOUBLINGS: u32 = 16;
/// How long merges of the copy's level 0 are waited for before it takes its place.
const LONGEST_MERGES: Duration = Duration::from_secs(30);
/// How often flushes of others are waited for before writers wait with the copy.
const MOST_DELAYS: u32 = 64;

/// Makes copies of keyspaces that are to have another schema, one after the other.
pub(crate) struct Copier {
    env: Arc<Env>,
    catalog: Arc<Catalog>,
    committer: Arc<Committer>,
    scheduler: Arc<Scheduler>,
    searcher: Arc<Searcher>,
    reporter: Arc<Reporter>,
    work: Mutex<Option<Work>>,
    /// Whether a keyspace may be to have another schema.
    is_due: AtomicBool,
    /// Whether a thread sees to that.
    has_thread: AtomicBool,
    /// The keyspace whose copy was begun last.
    begun_last: AtomicU64,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// There was nothing to do.
    Idle,
    /// Something that somebody else does has to end first.
    Waits,
    Worked,
}

/// A copy after a step, and what the step did.
type After = (Option<Work>, Stepped);

impl Copier {
    pub fn new(
        (env, catalog): (&Arc<Env>, &Arc<Catalog>),
        committer: &Arc<Committer>,
        scheduler: &Arc<Scheduler>,
        searcher: &Arc<Searcher>,
        reporter: &Arc<Reporter>,
    ) -> Self {
        let (work, is_due, has_thread, begun_last) = Default::default();
        let (env, catalog) = (Arc::clone(env), Arc::clone(catalog));
        let (committer, scheduler) = (Arc::clone(committer), Arc::clone(scheduler));
        let (searcher, reporter) = (Arc::clone(searcher), Arc::clone(reporter));
        Self { env, catalog, committer, scheduler, searcher, reporter, work, is_due, has_thread, begun_last }
    }

    /// Notes that a keyspace is to have another schema. Says whether the caller is to have a thread
    /// [work](Self::work_until_done) for it.
    pub fn request(&self) -> bool {
        self.is_due.store(true, Ordering::Release);
        !self.has_thread.swap(true, Ordering::AcqRel)
    }

    /// Notes that there is no thread after all.
    pub fn has_no_thread(&self) {
        self.has_thread.store(false, Ordering::Release);
    }

    /// Whether a keyspace may be to have another schema.
    pub fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// Tells listeners of a change of a keyspace's schema.
    pub fn tell(&self, keyspace: &OpenKeyspace, change: &SchemaChange, event: fn(SchemaEvent) -> Event) {
        let why = match change.ended() {
            Some(Ended::Impossible(error)) => Some(error.to_string()),
            Some(Ended::Cancelled) => Some("it was cancelled".to_owned()),
            Some(Ended::Done) | None => None,
        };
        let (from, to) = (&change.from, change.encoder.schema());
        self.reporter.design(|| event(SchemaEvent::new(&keyspace.name, from, to, why)));
    }

    /// Notes that the thread has panicked: it does no more of the work.
    pub fn note_panic(&self) {
        self.env.health.note_panic(Chore::Copy);
    }

    /// Lets go of a copy that is being made. Nobody works on it any more.
    pub fn give_up(&self) {
        *self.work.lock() = None;
    }

    /// Works until no keyspace is to have another schema, or the store is closed.
    pub fn work_until_done(&self) {
        let mut retry = RETRY;
        while !self.env.health.is_over() {
            let stepped = self.step();
            self.env.health.note_background(Chore::Copy, stepped.as_ref().err());
            match stepped {
                Ok(Stepped::Idle) => {
                    self.has_no_thread();
                    // Somebody may have asked just before that was noted.
                    if !self.is_due() || self.has_thread.swap(true, Ordering::AcqRel) {
                        return;
                    }
                }
                Ok(Stepped::Worked) => {
                    retry = RETRY;
                    self.env.signals.wake();
                }
                Ok(Stepped::Waits) => self.env.signals.wait_for_progress(LOOK),
                Err(error) => {
                    self.env.note_full_disk(&error);
                    self.env.signals.tell_progress();
                    let failed = Stopwatch::start();
                    while failed.elapsed() < retry && !self.env.health.is_over() {
                        self.env.signals.wait_for_progress(LOOK);
                    }
                    retry = (retry * 2).min(LONGEST_RETRY);
                }
            }
        }
    }

    /// Does the next part of the work. After an error the copy is begun anew.
    pub fn step(&self) -> Result<Stepped> {
        if !self.is_due() {
            return Ok(Stepped::Idle);
        }
        let Some(mut place) = self.work.try_lock() else { return Ok(Stepped::Waits) };
        let stepped = match place.take() {
            Some(work) if work.is_wanted() => self.go_on(work),
            unwanted => {
                drop(unwanted);
                self.begin()
            }
        };
        self.env.empty_trash();
        let (work, stepped) = stepped?;
        *place = work;
        Ok(stepped)
    }

    /// Begins the copy of a keyspace that is to have another schema, if there is one.
    fn begin(&self) -> Result<After> {
        self.is_due.store(false, Ordering::Release);
        let keyspaces = self.catalog.all().into_iter();
        let due = keyspaces.filter_map(|keyspace| Some((keyspace.open_schema_change()?, keyspace)));
        let mut due: Vec<_> = due.collect();
        if due.is_empty() {
            return Ok((None, Stepped::Idle));
        }
        self.is_due.store(true, Ordering::Release);
        // Whatever is in the way of one is no reason for the others to wait.
        let last = self.begun_last.load(Ordering::Relaxed);
        due.sort_by_key(|(_, keyspace)| (keyspace.id <= last, keyspace.id));
        self.catalog.check_space();
        if self.env.health.space_is_low() {
            return Err(self.committer.disk_is_full());
        }
        let mut moments = due.into_iter().map(|(change, old)| (self.next_moment(&old), change, old));
        let found = moments.find_map(|(next, change, old)| Some((next?, change, old)));
        let Some((Next { held, end }, change, old)) = found else { return Ok((None, Stepped::Waits)) };
        self.begun_last.store(old.id, Ordering::Relaxed);
        let log = self.follow(end)?;
        let copy = OpenKeyspace::copy_of(&old, &change, self.catalog.next_id(), self.env.memory());
        let (env, catalog) = (Arc::clone(&self.env), Arc::clone(&self.catalog));
        let work = Work {
            env,
            catalog,
            old,
            change,
            copy,
            reached: Arc::new(held),
            log,
            position: end,
            rounds: 0,
            unmerged: None,
            longest_merges: LONGEST_MERGES,
            delays: 0,
            sequence: 0,
            is_done: false,
        };
        let built = self.build(&work);
        if built.is_ok() && self.builder().has_threads() {
            self.scheduler.merge_in_background(&work.copy);
        }
        self.after(work, built)
    }

    /// Follows the log from a position on, all of it: what another keyspace waits for is no reason to stop.
    fn follow(&self, from_lsn: u64) -> Result<Follower> {
        let mut log = Follower::new(&self.env, &self.catalog, from_lsn, KeepLog::All)?;
        log.see_unsynced();
        log.see_withheld();
        Ok(log)
    }

    /// Returns the copy as it is to go on after a part that ended so.
    fn after(&self, work: Work, ended: Result<Caught>) -> Result<After> {
        match ended {
            Ok(Caught::Up) => Ok((Some(work), Stepped::Worked)),
            Ok(Caught::Lost) => Ok((None, Stepped::Worked)),
            Err(_) if !work.is_wanted() => Ok((None, Stepped::Worked)),
            // These stay however often the copy is begun anew.
            Err(error) if [ErrorKind::BadKey, ErrorKind::MergeFailed].contains(&error.kind()) => {
                self.refuse(&work, error)?;
                Ok((None, Stepped::Worked))
            }
            Err(error) => Err(error),
        }
    }

    /// Lets the keyspace keep its schema, because of `error`.
    fn refuse(&self, work: &Work, error: Error) -> Result<()> {
        let _commit = self.committer.lock();
        if work.is_wanted() {
            self.catalog.end_schema_change(&work.old, &work.change, Ended::Impossible(error))?;
            drop(_commit);
            self.tell(&work.old, &work.change, Event::SchemaChangeEnded);
        }
        Ok(())
    }

    /// Returns the present moment of a keyspace; none while it gets contents that the log does not tell of.
    fn next_moment(&self, keyspace: &Arc<OpenKeyspace>) -> Option<Next> {
        let _commit = self.committer.lock();
        (!self.scheduler.is_held(keyspace)).then(|| self.present(keyspace))
    }

    /// Returns the present moment of a keyspace. The caller holds the commit lock.
    fn present(&self, keyspace: &Arc<OpenKeyspace>) -> Next {
        Next { held: self.catalog.pin(keyspace), end: self.catalog.log.bounds().1 }
    }

    fn builder(&self) -> Builder<'_> {
        let Self { env, catalog, committer, scheduler, .. } = self;
        Builder { env, catalog, committer, scheduler }
    }

    /// Builds the copy of what the keyspace held at the moment.
    fn build(&self, work: &Work) -> Result<Caught> {
        let Work { old, change, copy, reached, .. } = work;
        let view = &reached.0.view;
        let in_buffers: u64 = view.buffers().map(WriteBuffer::user_bytes).sum();
        let bytes = view.version.tables().map(|table| table.meta().bytes).sum::<u64>() + in_buffers;
        let items = old.items_estimate(self.env.now_ms()).max(1);
        change.begin_copy(bytes);
        ingest(self.builder(), copy, &IngestOptions::default(), |build| {
            let mut count = 0u64;
            each_live(reached, Span::ALL, &self.env.reader, |LiveItem { key, value, expires_at_ms }| {
                if count.is_multiple_of(ITEMS_BETWEEN_LOOKS) {
                    work.check_wanted()?;
                    let left = items.saturating_sub(count) as f64 / items as f64;
                    change.note_remaining((bytes as f64 * left) as u64);
                }
                count += 1;
                build.put_until(key, value, expires_at_ms).map_err(|error| work.misfit(key, error))
            })
        })?;
        Ok(Caught::Up)
    }

    /// Brings the copy further, or to its end.
    fn go_on(&self, mut work: Work) -> Result<After> {
        if self.env.health.space_is_low() {
            // What the copy takes, and the log that is kept for it, may be what is missing.
            drop(work);
            self.env.empty_trash();
            return Err(self.committer.disk_is_full());
        }
        if !self.builder().has_threads() {
            match self.scheduler.merge_once(&work.copy) {
                Ok(false) => {}
                merged => return self.after(work, merged.map(|_| Caught::Up)),
            }
        }
        let is_unmerged = self.waits_for_merges(&mut work);
        if is_unmerged && (!self.is_a_buffer_behind(&work) || self.is_nearly_up(&work)?) {
            work.unmerged.get_or_insert_with(Stopwatch::start);
            return Ok((Some(work), Stepped::Waits));
        }
        if !is_unmerged && self.is_nearly_up(&work)? {
            let hold =
                if self.waits_for_flush(&mut work) { None } else { self.scheduler.hold_briefly(&work.old) };
            let Some(hold) = hold else { return Ok((Some(work), Stepped::Waits)) };
            let copy = Arc::clone(&work.copy);
            let stopped = self.scheduler.stop_merging(&copy);
            let finished = stopped.and_then(|stopped| match self.bring_rest(&mut work)? {
                Caught::Up => self.finish(&mut work, &[hold, stopped]),
                Caught::Lost => Ok(Some(Caught::Lost)),
            });
            if let Ok(None) = finished {
                return Ok((Some(work), Stepped::Waits));
            }
            if work.is_done {
                self.tell(&work.old, &work.change, Event::SchemaChanged);
            }
            return self.after(work, finished.map(|caught| caught.unwrap_or(Caught::Up)));
        }
        let Some(next) = self.next_moment(&work.old) else { return Ok((Some(work), Stepped::Waits)) };
        let rounds = work.rounds;
        let caught = self.catch_up(&mut work, next, None);
        if is_unmerged {
            // Writers that are slower come so far as well while merges are waited for.
            work.rounds = rounds;
        }
        self.after(work, caught)
    }

    /// Whether so little was written since the last round that writers can wait for it.
    fn is_nearly_up(&self, work: &Work) -> Result<bool> {
        let doublings = work.rounds.saturating_sub(PATIENT_ROUNDS).min(MOST_DOUBLINGS);
        let end = self.catalog.log.bounds().1;
        if end.saturating_sub(work.position) > LAST_BYTES << doublings {
            return Ok(false);
        }
        if doublings == MOST_DOUBLINGS {
            return Ok(true);
        }
        // What a deleted prefix touches is not in the log, and may be much.
        let mut log = self.follow(work.log.position())?;
        while log.position() < end {
            let Some((_, payload)) = log.next_record()? else { break };
            if is_batch(&payload) && deletes_a_prefix(work.old.id, &payload) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the copy's level 0 is to be merged first, so that after the change gets do not meet more runs
    /// than the design has, and writers are not slowed by them. Others do that meanwhile.
    fn waits_for_merges(&self, work: &mut Work) -> bool {
        if !self.builder().has_threads() || self.scheduler.is_merged(&work.copy) {
            work.unmerged = None;
            return false;
        }
        work.unmerged.as_ref().is_none_or(|since| since.elapsed() < work.longest_merges)
    }

    /// Whether about a write buffer of the copy was written since the last round: each makes a run, and small
    /// ones would come faster than they are merged.
    fn is_a_buffer_behind(&self, work: &Work) -> bool {
        let behind = self.catalog.log.bounds().1.saturating_sub(work.position);
        behind >= work.change.design.write_buffer_bytes().max(LAST_BYTES)
    }

    /// Whether somebody else's flush is waited for, so that writers do not wait for it with the copy.
    fn waits_for_flush(&self, work: &mut Work) -> bool {
        let waits = work.delays < MOST_DELAYS && self.scheduler.try_lock_flushes().is_none();
        work.delays += u32::from(waits);
        waits
    }

    /// Brings what was written while merges of the copy were given up, if it is much: else they would have
    /// been given up for nothing. Compactions of both are held back.
    fn bring_rest(&self, work: &mut Work) -> Result<Caught> {
        if self.is_nearly_up(work)? {
            return Ok(Caught::Up);
        }
        let next = {
            let _commit = self.committer.lock();
            self.present(&work.old)
        };
        self.catch_up(work, next, None)
    }

    /// Brings the last part to the copy and lets it take the keyspace's place, while writers wait; none where
    /// they would wait for somebody else's flush. Compactions of both are held back.
    fn finish(&self, work: &mut Work, _: &[Hold<'_>; 2]) -> Result<Option<Caught>> {
        let _open = self.scheduler.keep_open()?;
        let _commit = self.committer.lock();
        work.check_wanted()?;
        if !self.is_nearly_up(work)? {
            // Much has come since that was looked at.
            return Ok(None);
        }
        let flushing = match self.scheduler.try_lock_flushes() {
            Some(flushing) => flushing,
            None if work.delays < MOST_DELAYS => {
                work.delays += 1;
                return Ok(None);
            }
            None => self.scheduler.lock_flushes(),
        };
        let next = self.present(&work.old);
        let caught = self.catch_up(work, next, Some(&flushing))?;
        if caught == Caught::Up {
            let finished = self.catalog.finish_schema_change(&work.old, &work.copy, &work.change);
            // What it holds is the keyspace's now, or may be: nobody merges it any more.
            work.copy.mark_dropped();
            finished?;
            work.is_done = true;
        }
        Ok(Some(caught))
    }
}

/// Whether a batch deletes a prefix of keyspace `number`.
fn deletes_a_prefix(number: u64, payload: &[u8]) -> bool {
    let mut from = Decoder::new(payload);
    std::iter::from_fn(|| operation::decode(&mut from))
        .any(|operation| operation.keyspace == number && operation.item.is_none())
}
