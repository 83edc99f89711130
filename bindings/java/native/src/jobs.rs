//! What background work has done for each keyspace of a store, counted as the engine tells it.
//!
//! The engine keeps such figures for a store as a whole. Whoever shows many keyspaces as stores of their own, as Kafka
//! Streams' metrics do, wants them of each.

use parking_lot::Mutex;
use siltstone::events::{Event, EventListener, JobEnd, JobInfo, Work};
use std::collections::HashMap;
use std::sync::Arc;

/// Jobs of one kind.
#[derive(Clone, Copy, Default)]
pub struct Jobs {
    pub running: u64,
    pub ended: u64,
    pub failed: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub total_us: u64,
    pub least_us: u64,
    pub most_us: u64,
}

impl Jobs {
    fn note(&mut self, end: &JobEnd) {
        self.running = self.running.saturating_sub(1);
        if end.error.is_some() {
            self.failed += 1;
            return;
        }
        self.bytes_read += end.bytes_read;
        self.bytes_written += end.bytes_written;
        self.total_us += end.duration_us;
        self.most_us = self.most_us.max(end.duration_us);
        self.least_us = if self.ended == 0 { end.duration_us } else { self.least_us.min(end.duration_us) };
        self.ended += 1;
    }
}

/// Jobs of one keyspace: flushes, compactions, and others.
#[derive(Clone, Copy, Default)]
pub struct OfKeyspace {
    pub flushes: Jobs,
    pub compactions: Jobs,
    pub others: Jobs,
}

impl OfKeyspace {
    fn of(&mut self, work: Work) -> &mut Jobs {
        match work {
            Work::Flush => &mut self.flushes,
            Work::Push | Work::Split | Work::Rewrite | Work::Gather | Work::DropRuns => &mut self.compactions,
            _ => &mut self.others,
        }
    }
}

/// What concerns a store as a whole.
#[derive(Clone, Copy, Default)]
pub struct OfStore {
    /// Times that writers were stopped, and for how long.
    pub stalls: u64,
    pub stalled_us: u64,
    /// Jobs for no keyspace alone that failed, such as syncing the log.
    pub failed: u64,
}

#[derive(Default)]
struct Counted {
    keyspaces: HashMap<String, OfKeyspace>,
    /// Whether all keyspaces are in the map that there are: not while the store is being opened.
    knows_all: bool,
    store: OfStore,
}

/// Counts jobs; the store's listener.
#[derive(Default)]
pub struct Ledger(Mutex<Counted>);

impl Ledger {
    /// What was done for a keyspace since the store was opened.
    pub fn keyspace(&self, name: &str) -> OfKeyspace {
        self.0.lock().keyspaces.get(name).copied().unwrap_or_default()
    }

    /// What concerned all of them.
    pub fn store(&self) -> OfStore {
        self.0.lock().store
    }

    /// Counts for these keyspaces too; once the store is open, for none that it was not told of.
    pub fn know(&self, names: impl IntoIterator<Item = String>) {
        let mut counted = self.0.lock();
        counted.knows_all = true;
        for name in names {
            counted.keyspaces.entry(name).or_default();
        }
    }

    /// Forgets a keyspace that was dropped. A job of it that begins late brings nothing back.
    pub fn forget(&self, name: &str) {
        self.0.lock().keyspaces.remove(name);
    }

    fn began(&self, job: &JobInfo) {
        let Some(name) = &job.keyspace else { return };
        let mut counted = self.0.lock();
        if !counted.knows_all {
            counted.keyspaces.entry(name.clone()).or_default();
        }
        if let Some(of) = counted.keyspaces.get_mut(name) {
            of.of(job.work).running += 1;
        }
    }

    fn ended(&self, end: &JobEnd) {
        let mut counted = self.0.lock();
        match &end.info.keyspace {
            // One that was dropped meanwhile is forgotten, and stays so.
            Some(name) => {
                if let Some(of) = counted.keyspaces.get_mut(name) {
                    of.of(end.info.work).note(end);
                }
            }
            None => counted.store.failed += u64::from(end.error.is_some()),
        }
    }
}

/// Tells a ledger what the engine does.
pub struct Listener(pub Arc<Ledger>);

impl EventListener for Listener {
    fn on_event(&self, event: &Event) {
        match event {
            Event::JobBegan(job) => self.0.began(job),
            Event::JobEnded(end) => self.0.ended(end),
            Event::WritersStalled(stall) => {
                let mut counted = self.0.0.lock();
                counted.store.stalls += 1;
                counted.store.stalled_us += stall.duration_us;
            }
            _ => {}
        }
    }
}
