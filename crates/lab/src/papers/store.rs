//! A store that an evaluation fills and measures.

use crate::clients::client::{Load, Outcome, Run};
use crate::clients::filled::Filled;
use crate::clients::workload::{Operation, Workload};
use crate::clients::{KEYSPACE, watch};
use crate::kit::sizes::ratio;
use crate::measure::Reads;
use crate::program::failure::{Failure, Result};
use hdrhistogram::Histogram;
use siltstone::{Db, Keyspace, KeyspaceOptions, Options};
use std::path::Path;

/// A store and what it is filled with.
pub struct Store {
    pub db: Db,
    pub keyspace: Keyspace,
    pub filled: Filled,
}

/// What a workload gave.
pub struct Measured {
    pub outcome: Outcome,
    pub per_second: f64,
    pub reads_per_get: f64,
}

impl Measured {
    /// Returns the latencies of one kind of call, in nanoseconds.
    pub fn latencies(&self, operation: Operation) -> Option<&Histogram<u64>> {
        self.outcome.latencies.get(operation as usize)
    }
}

impl Store {
    /// Opens the store at `path`, or creates it; `filled` says what is in it.
    pub fn open(path: &Path, options: Options, keyspace: KeyspaceOptions, filled: Filled) -> Result<Self> {
        let db = Db::open(path, options)?;
        let keyspace = db.keyspace(KEYSPACE, keyspace)?;
        Ok(Self { db, keyspace, filled })
    }

    /// Runs the clients of `load`; fails where a read does not find what was written.
    pub fn work(&mut self, load: &Load) -> Result<Outcome> {
        let items = self.filled.generator().map_err(Failure::Failed)?;
        let run = Run::new(&self.db, &self.keyspace, items, &self.filled, load);
        let outcome = watch::run_clients(&run)?;
        outcome.check_reads()?;
        if load.workload == Workload::Fill {
            self.filled.existing = run.existing();
        }
        Ok(outcome)
    }

    /// Runs the clients of `load`, and counts the device's reads for their gets.
    pub fn measure(&mut self, load: &Load) -> Result<Measured> {
        let before = self.keyspace.stats();
        let outcome = self.work(load)?;
        let reads = Reads::between(&before, &self.keyspace.stats());
        Ok(Measured {
            per_second: outcome.operations as f64 / outcome.seconds,
            reads_per_get: ratio(reads.by_hits + reads.by_misses, reads.hits + reads.misses),
            outcome,
        })
    }

    /// Brings everything into tables, up to where nothing is left to do.
    pub fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.wait_until_idle()?)
    }

    /// Closes the store.
    pub fn close(self) -> Result<()> {
        drop(self.keyspace);
        Ok(self.db.close()?)
    }

    /// Closes the store and removes its files.
    pub fn remove(self) -> Result<()> {
        let path = self.db.path().to_owned();
        self.close()?;
        std::fs::remove_dir_all(&path).map_err(|e| Failure::at(&path, e))
    }
}
