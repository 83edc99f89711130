//! Region filters to be made: whose turn it is, and what a region's filter lacks.

use crate::db::catalog::keyspace::OpenKeyspace;
use crate::ids::RunId;
use crate::region_filter::{Lack, RegionFilterKind};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::version::{Region, Run};
use std::collections::HashSet;
use std::sync::Arc;

/// Who makes filters, and what can't be made.
#[derive(Default)]
pub(super) struct FilterWork {
    /// Whether somebody is at it: one at a time, since building takes memory.
    is_claimed: Arc<AtomicBool>,
    /// Runs whose keys can't be read, and so not be covered.
    pub failed: Mutex<HashSet<RunId>>,
    /// The newest runs of regions whose filters were made anew for exactness: once is enough.
    pub made_anew: Mutex<HashSet<RunId>>,
}

/// The right to make filters, until it is dropped.
pub(super) struct Claim(Arc<AtomicBool>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl FilterWork {
    /// Claims the making of filters; `None` where another thread is at it.
    pub fn claim(&self) -> Option<Claim> {
        let was_claimed = self.is_claimed.swap(true, Ordering::AcqRel);
        (!was_claimed).then(|| Claim(Arc::clone(&self.is_claimed)))
    }
}

/// A region filter that is to be made.
pub(super) struct FilterJob {
    pub keyspace: Arc<OpenKeyspace>,
    pub wanting: Wanting,
    pub _claim: Claim,
}

/// A region whose filter lacks something.
pub(super) struct Wanting {
    pub level: usize,
    pub region: Arc<Region>,
    pub kind: RegionFilterKind,
    pub lack: Lack,
}

impl Wanting {
    /// Returns the runs that are not to be tried again after a failure: those whose keys were to be read, or
    /// the newest, so that a file is tried again once there is another.
    pub fn tried(&self) -> Vec<RunId> {
        let runs = &self.region.runs;
        let tried = match self.lack {
            Lack::Run(_) if self.kind.is_in_memory() => runs.get(..),
            Lack::Run(place) => runs.get(place..=place),
            Lack::File | Lack::Memory(_) => runs.get(..1),
            Lack::Exactness => None,
        };
        tried.unwrap_or(&[]).iter().map(|run| run.id).collect()
    }

    /// Returns the runs whose keys are to be read.
    pub fn runs_to_read(&self) -> &[Arc<Run>] {
        let runs = &self.region.runs;
        let covered = self.region.filter.as_ref().map_or(0, |filter| filter.covered());
        let to_read = match self.lack {
            Lack::Run(_) if self.kind.is_in_memory() => runs.get(..runs.len().saturating_sub(covered)),
            Lack::Run(place) => runs.get(place..=place),
            Lack::Exactness => runs.get(..),
            Lack::File | Lack::Memory(_) => None,
        };
        to_read.unwrap_or(&[])
    }
}
