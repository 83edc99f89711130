//! The pool: threads that do the background work of several stores.
//!
//! One thread flushes, some do everything else, and one syncs and keeps time. A store says when there may be
//! something to do ([`Membership::wake`]); a thread that is free takes the store whose writers wait most, and
//! of those that wait alike the one that was served longest ago, and asks it for one piece of work. A store
//! in which nothing was due is not asked again before it says so, or its time comes.
//!
//! Memory: where the write buffers of all stores take more than their share, the largest of any store is
//! flushed, whoever has filled the others ([`Shared::make_room`]).
//!
//! Invariants: no lock is held while a store works; a store's flushes do not overlap; once
//! [`Membership::leave`] returns no thread works for the store, nor holds it; a store that fails is left
//! alone for a while, one that panicked for good, and neither keeps a thread from the others.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Holder, MemoryBudget};
use crate::stats::Stopwatch;
use crate::sync::atomic::AtomicBool;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::thread_local;
use crate::sync::{Condvar, Mutex};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often stores that sync nothing are looked at, for what has come due by time alone.
const LOOK: Duration = Duration::from_secs(1);

thread_local! {
    /// Whether this is a thread of a pool: it must not wait for itself.
    static IS_OF_POOL: Cell<bool> = const { Cell::new(false) };
}

fn is_of_pool() -> bool {
    IS_OF_POOL.with(Cell::get)
}

/// How a piece of work went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Something,
    /// Nothing was due.
    Nothing,
    /// It is tried again later.
    Failed,
}

/// What write buffers of a store hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unflushed {
    /// All of them.
    pub bytes: u64,
    /// Those that wait for their flush.
    pub sealed_bytes: u64,
    /// The largest that takes writes.
    pub largest_bytes: u64,
}

/// A store as the pool sees it.
pub(crate) trait Member: Send + Sync {
    /// How long writers wait: 0 not at all, 1 badly.
    fn urgency(&self) -> f64;
    /// Whether no more work is to be done: it is closed, or poisoned.
    fn is_over(&self) -> bool;
    /// Flushes one write buffer.
    fn flush(&self) -> Done;
    /// Does one other job.
    fn work(&self) -> Done;
    /// Makes buffered writes survive a power cut.
    fn sync(&self);
    /// How often it is to be synced; never where `None`.
    fn sync_interval(&self) -> Option<Duration>;
    /// Looks for what has come due by time alone.
    fn look_again(&self);
    /// What its write buffers hold; nothing where they can't be flushed.
    fn unflushed(&self) -> Unflushed;
    /// Has the largest write buffer flushed.
    fn seal_largest(&self);
    /// Memory is there again for writers that wait.
    fn tell_progress(&self);
    /// Notes that its work panicked; it is not asked again.
    fn note_panic(&self);
}

/// What a thread does for stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Flush,
    Work,
}

/// One kind of a store's work.
#[derive(Default)]
pub(super) struct Lane {
    pub is_due: bool,
    /// Counts the times that it was said to be due.
    pub notes: u64,
    pub running: usize,
    /// When it was served last, in turns.
    pub served: u64,
}

/// A store in the pool.
pub(super) struct Place {
    pub member: Arc<dyn Member>,
    flush: Lane,
    work: Lane,
    /// Threads that work for it.
    pub running: usize,
    /// It is left alone until then.
    pub retry_at: Duration,
    pub sync_at: Duration,
    is_leaving: bool,
    pub has_panicked: bool,
}

impl State {
    /// Takes hold of a store, so that it does not leave meanwhile.
    pub(super) fn hold(&mut self, number: u64) -> Option<(u64, Arc<dyn Member>)> {
        let place = self.places.get_mut(&number).filter(|place| place.takes_part())?;
        place.running += 1;
        Some((number, Arc::clone(&place.member)))
    }
}

impl Place {
    /// What is to be done of one kind.
    pub(super) fn lane(&mut self, kind: Kind) -> &mut Lane {
        match kind {
            Kind::Flush => &mut self.flush,
            Kind::Work => &mut self.work,
        }
    }

    /// Whether it has work of a kind that may begin now.
    pub(super) fn can_be_served(&self, kind: Kind, now: Duration) -> bool {
        let lane = match kind {
            Kind::Flush => &self.flush,
            Kind::Work => &self.work,
        };
        lane.is_due && !(kind == Kind::Flush && lane.running > 0) && self.retry_at <= now && self.takes_part()
    }

    pub(super) fn is_due(&self, kind: Kind) -> bool {
        match kind {
            Kind::Flush => self.flush.is_due,
            Kind::Work => self.work.is_due,
        }
    }

    pub(super) fn served(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Flush => self.flush.served,
            Kind::Work => self.work.served,
        }
    }

    /// Notes that there may be something to do.
    pub(super) fn note_due(&mut self) {
        for lane in [&mut self.flush, &mut self.work] {
            lane.is_due = true;
            lane.notes += 1;
        }
    }

    /// Whether anything is to be done for it.
    pub(super) fn takes_part(&self) -> bool {
        !self.is_leaving && !self.has_panicked && !self.member.is_over()
    }
}

/// The stores, and what is to be done.
#[derive(Default)]
pub(super) struct State {
    pub places: BTreeMap<u64, Place>,
    next_number: u64,
    pub turn: u64,
    /// Number of the store from which on the next look begins.
    pub look_from: u64,
    pub is_over: bool,
    threads: Vec<JoinHandle<()>>,
}

/// What a pool's threads and its members share.
pub(super) struct Shared {
    pub state: Mutex<State>,
    pub flush_due: Condvar,
    pub work_due: Condvar,
    /// The keeper of time is to look at the state again.
    pub time: Condvar,
    /// A thread is done with a store.
    pub done: Condvar,
    /// Whether write buffers take too much.
    pub wants_room: AtomicBool,
    /// What they hold in stores that can flush them, and when that was reckoned.
    pub unflushed: Mutex<(Duration, u64)>,
    pub clock: Stopwatch,
    pub memory: Arc<MemoryBudget>,
}

/// Threads that several stores share.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: usize,
}

/// A store's place in a pool.
#[derive(Clone)]
pub(crate) struct Membership {
    shared: Arc<Shared>,
    number: u64,
}

impl Pool {
    /// A pool of so many workers, beside a thread that flushes and one that syncs.
    pub fn new(memory: &Arc<MemoryBudget>, workers: usize) -> Self {
        let (state, flush_due, work_due, time, done) = Default::default();
        let (wants_room, unflushed) = Default::default();
        let (clock, memory) = (Stopwatch::start(), Arc::clone(memory));
        let shared = Shared { state, flush_due, work_due, time, done, wants_room, unflushed, clock, memory };
        Self { shared: Arc::new(shared), workers }
    }

    /// Threads that run.
    pub fn threads(&self) -> usize {
        self.shared.state.lock().threads.len()
    }

    /// Takes in a store, and starts the threads if it is the first.
    pub fn join(&self, member: Arc<dyn Member>) -> Result<Membership> {
        let mut state = self.shared.state.lock();
        self.start(&mut state)?;
        let now = self.shared.clock.elapsed();
        let number = state.next_number;
        state.next_number += 1;
        let sync_at = now + member.sync_interval().unwrap_or(LOOK);
        let due = || Lane { is_due: true, ..Lane::default() };
        let (flush, work) = (due(), due());
        let (running, retry_at) = (0, now);
        let place =
            Place { member, flush, work, running, retry_at, sync_at, is_leaving: false, has_panicked: false };
        state.places.insert(number, place);
        drop(state);
        self.shared.flush_due.notify_one();
        self.shared.work_due.notify_one();
        self.shared.time.notify_one();
        Ok(Membership { shared: Arc::clone(&self.shared), number })
    }

    /// Starts the threads that are missing: all of them, for the first store.
    fn start(&self, state: &mut State) -> Result<()> {
        while state.threads.len() < self.workers + 2 {
            let (name, run): (_, fn(&Shared)) = match state.threads.len() {
                0 => ("flush", |shared| shared.serve(Kind::Flush)),
                1 => ("sync", Shared::keep_time),
                _ => ("compact", |shared| shared.serve(Kind::Work)),
            };
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name(format!("siltstone-{name}")).spawn(move || {
                IS_OF_POOL.with(|is_of_pool| is_of_pool.set(true));
                run(&shared);
            });
            let failed = |error| Error::because(ErrorKind::Io, error).of("starting a thread");
            state.threads.push(thread.map_err(failed)?);
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let threads = {
            let mut state = self.shared.state.lock();
            state.is_over = true;
            std::mem::take(&mut state.threads)
        };
        self.shared.flush_due.notify_all();
        self.shared.work_due.notify_all();
        self.shared.time.notify_all();
        if !is_of_pool() {
            // A thread that panicked has nothing left to say.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
    }
}

impl Membership {
    /// Says that there may be something to do for the store.
    pub fn wake(&self) {
        let mut state = self.shared.state.lock();
        let Some(place) = state.places.get_mut(&self.number) else { return };
        place.note_due();
        drop(state);
        self.shared.flush_due.notify_one();
        self.shared.work_due.notify_one();
    }

    /// Asks for write buffers to be flushed, of whatever store, where all together take too much; called
    /// after writes.
    #[inline]
    pub fn bound_memtables(&self) {
        let memory = &self.shared.memory;
        if memory.held_bytes(Holder::Memtable) > self.shared.flushed_above() {
            self.shared.ask_for_room();
        }
    }

    /// Whether writers have to wait for memory that flushes will free. What a store holds that can't flush
    /// does not stop the others.
    pub fn is_short_of_memory(&self) -> bool {
        let most = self.shared.memory.most_memtable_bytes();
        self.shared.memory.held_bytes(Holder::Memtable) > most && self.shared.unflushed_bytes() > most
    }

    /// Leaves the pool, and waits until no thread works for the store any more.
    pub fn leave(&self) {
        let mut state = self.shared.state.lock();
        if let Some(place) = state.places.get_mut(&self.number) {
            place.is_leaving = true;
        }
        let is_busy = |state: &State| state.places.get(&self.number).is_some_and(|place| place.running > 0);
        while is_busy(&state) && !is_of_pool() {
            self.shared.done.wait(&mut state);
        }
        let place = state.places.remove(&self.number);
        drop(state);
        // Not under the lock: it may be the last that holds the store's parts.
        drop(place);
    }
}
