//! How exact region filters are where memory is short.
//!
//! The idea: a region without a filter costs a lookup a read for every run; a filter whose fingerprints are a
//! bit shorter costs it one false probe in 2^bits. So where the filters that the designs name do not fit, all
//! regions get shorter fingerprints rather than some none: as many bits as fit, the same for all. What is
//! there is shortened in memory, and nothing is read for it.
//!
//! The uppermost regions come first, since every lookup asks them: the others leave what their filters will
//! need once they are full. Where not even one bit fits for all, the regions that go without have their runs
//! joined (`plan.rs` in the design).
//!
//! Nothing of it changes what lookups find.

use super::Scheduler;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::error::Result;
use crate::memory::Holder;
use crate::region_filter::{Contents, KEPT_FROM_REGION_FILTERS, RegionFilterKind};
use crate::sync::thread::JoinHandle;
use crate::version::Version;
use siltstone_design::TriePath;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Most bits that memory is asked for; designs say fewer.
const MOST_BITS: u8 = 24;
/// Keyspaces that are all looked at together.
const FEW_KEYSPACES: usize = 64;
/// The part of the room that is left to what grows until it is looked at again.
const SPARE: u64 = 16;

impl Scheduler {
    /// Starts the thread of a store that is open for reading alone: it makes the region filters that are not
    /// there yet, in memory, and ends.
    pub fn start_for_reading(self: &Arc<Self>) -> Result<Option<JoinHandle<()>>> {
        if self.env.options.background_threads == 0 {
            return Ok(None);
        }
        let scheduler = Arc::clone(self);
        let work = move || {
            let keyspaces = scheduler.catalog.all();
            while !scheduler.env.health.is_over() {
                scheduler.fit_filters(&keyspaces);
                let Some(job) = scheduler.filter_job(&keyspaces, 0..usize::MAX, false) else { return };
                scheduler.make_filter(&job);
            }
        };
        // What can't be made is done without, and a panic leaves the filters that are there.
        let guarded = move || drop(catch_unwind(AssertUnwindSafe(work)));
        Ok(Some(self.env.spawn("filters", guarded)?))
    }

    /// Reckons how many bits the region filters of `due`, or of all keyspaces where they are few, may tell
    /// keys apart by, so that those of all regions fit beside what other keyspaces have.
    pub(super) fn fit_filters(&self, due: &[Arc<OpenKeyspace>]) {
        let memory = self.env.memory();
        let all = self.catalog.all();
        let keyspaces = if all.len() <= FEW_KEYSPACES { &all } else { due };
        let of_keyspace = |keyspace: &Arc<OpenKeyspace>| filtering(&keyspace.version());
        let regions: Vec<Vec<Filtering>> = keyspaces.iter().map(of_keyspace).collect();
        let in_memory = regions.iter().flatten().filter(|region| region.kind.is_in_memory());
        let held: u64 = in_memory.map(|region| region.held).sum();
        let keep_free = memory.total_bytes() / KEPT_FROM_REGION_FILTERS;
        // Filters of tables, and those of keyspaces in which nothing is due, or of other stores.
        let others = memory.held_bytes(Holder::Filter).saturating_sub(held);
        let room = memory.room_for_filters(keep_free).saturating_sub(others);
        let bytes = |bits: u8| regions.iter().flatten().map(|region| region.needs(bits)).sum::<u64>();
        let most = room - room / SPARE;
        let fitting = if bytes(u8::MAX) <= most {
            u8::MAX
        } else {
            (1..=MOST_BITS).rev().find(|bits| bytes(*bits) <= most).unwrap_or(0)
        };
        // Longer ones, for what is made from now on, only where that stays so.
        let is_to_stay = fitting == u8::MAX || bytes(fitting) <= room - room / SPARE * 3;
        for (keyspace, regions) in keyspaces.iter().zip(&regions) {
            let limits = &keyspace.filter_limits;
            let bits = if is_to_stay { fitting } else { fitting.min(limits.most_bits()) };
            let missing = |region: &Filtering| region.needs(bits).saturating_sub(region.held);
            limits.set(bits, regions.iter().filter(|region| region.is_top).map(missing).sum());
        }
    }
}

/// A region that is to have a filter.
struct Filtering {
    kind: RegionFilterKind,
    contents: Contents,
    is_top: bool,
    /// Bytes that its filter takes.
    held: u64,
}

impl Filtering {
    /// Bytes that its filter would take with fingerprints that tell keys apart by `bits` bits at most.
    fn needs(&self, bits: u8) -> u64 {
        let kind = self.kind.at_most(bits);
        let full = if self.is_top { kind.full_bytes(self.contents) } else { None };
        full.max(kind.estimated_bytes(self.contents)).unwrap_or(0)
    }
}

/// Returns the regions of a version that are to have filters.
fn filtering(version: &Version) -> Vec<Filtering> {
    let mut found = Vec::new();
    for of_level in &version.levels {
        let Some(level) = version.design.level_at(of_level.depth) else { continue };
        for region in of_level.regions.iter().filter(|region| !region.runs.is_empty()) {
            let kind = RegionFilterKind::of(version.design.level(level), region.shape.has_children);
            let Some(kind) = kind else { break };
            let runs = &region.shape.runs;
            let keys = runs.iter().map(|run| run.entries).sum();
            found.push(Filtering {
                kind,
                contents: Contents { keys, bytes: region.shape.bytes(), runs: runs.len() },
                is_top: region.path == TriePath::ROOT,
                held: region.filter.as_ref().map_or(0, |filter| filter.memory_bytes()),
            });
        }
    }
    found
}
