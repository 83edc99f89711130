//! Which filters are in memory where not all of them fit, and how exact those of regions are.
//!
//! Two ideas. A region without a filter costs a lookup a read for every run; a filter whose fingerprints are
//! a bit shorter costs it one false probe in 2^bits. So all regions get shorter fingerprints rather than some
//! none: the same bits for all. What is there is shortened in memory, and nothing is read for it. And the
//! filter of a table spares a read to those lookups alone that lead to it: to many where few items lie in a
//! part of the keys, as at the top, and to few for as many bytes at the bottom. So the filters of tables are
//! kept in the order of what they spare for a byte ([`FilterWorth`]), whichever was asked for first. How
//! short fingerprints are to be is what makes the reads of both together fewest.
//!
//! The uppermost regions come first, since every lookup asks them: the others leave what their filters will
//! need once they are full. Where not even one bit fits for all, the regions that go without have their runs
//! joined (`plan.rs` in the design).
//!
//! Nothing of it changes what lookups find.

use super::Scheduler;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::error::Result;
use crate::memory::{FilterWorth, Holder};
use crate::region_filter::{Contents, RegionFilterKind};
use crate::sync::thread::JoinHandle;
use crate::version::Version;
use siltstone_design::TriePath;
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Most bits that memory is asked for; designs say fewer.
const MOST_BITS: u8 = 24;
/// Keyspaces that are all looked at together.
const FEW_KEYSPACES: usize = 64;
/// The parts of the room, in sixty-fourths, that filters of regions leave to what grows until it is looked at
/// again, and where they are to be more exact than before, so that it can stay.
const SPARE_FOR_REGIONS: [u64; 2] = [4, 12];
/// The same for filters of tables, which come and go one by one.
const SPARE_FOR_TABLES: [u64; 2] = [1, 3];

/// What is left of `room` without so many sixty-fourths.
fn without(room: u64, parts: u64) -> u64 {
    room - room / 64 * parts
}

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

    /// Reckons which filters of `due`, or of all keyspaces where they are few, fit beside what other
    /// keyspaces have: how many bits the fingerprints of regions may have, and which filters of tables are
    /// worth their memory. Those in memory that are not are let go.
    pub fn fit_filters(&self, due: &[Arc<OpenKeyspace>]) {
        let all = self.catalog.all();
        let keyspaces = if all.len() <= FEW_KEYSPACES { &all } else { due };
        let versions: Vec<Arc<Version>> = keyspaces.iter().map(|keyspace| keyspace.version()).collect();
        let of_keyspaces: Vec<Vec<Filtering>> = versions.iter().map(|version| filtering(version)).collect();
        let wanted = Wanted::new(of_keyspaces.iter().flatten().collect(), of_runs(&versions));
        let (memory, reader) = (self.env.memory(), &self.env.reader);
        let (held, room) = (memory.held_bytes(Holder::Filter), memory.room_for_filters());
        let has_all_memory = keyspaces.len() == all.len() && self.env.options.resources.is_none();
        let room = if has_all_memory || wanted.bytes.saturating_add(held) <= room {
            // What is held beyond these filters is about to go, or to take the place of one of them.
            room
        } else {
            // Filters of keyspaces in which nothing is due, or of other stores.
            let tables = versions.iter().flat_map(|version| version.tables());
            let own = wanted.held + tables.map(|table| table.filter_bytes()).sum::<u64>();
            room.saturating_sub(held.saturating_sub(own))
        };
        let [most, least] = SPARE_FOR_REGIONS.map(|parts| wanted.bits(without(room, parts)));
        let mut exactest = 0;
        for (keyspace, regions) in keyspaces.iter().zip(&of_keyspaces) {
            let limits = &keyspace.filter_limits;
            // Longer ones, for what is made from now on, only where that stays so.
            let bits = limits.most_bits().max(least).min(most);
            let missing = |region: &Filtering| region.needs(bits).saturating_sub(region.held);
            limits.set(bits, regions.iter().filter(|region| region.is_top).map(missing).sum());
            exactest = bits.max(exactest);
        }
        let before = reader.filters_refused();
        let [least, most] = SPARE_FOR_TABLES.map(|parts| wanted.refused(exactest, without(room, parts)));
        let refused = before.at_most(most).at_least(least);
        if refused != before {
            reader.refuse_filters(refused);
        }
        if refused > FilterWorth::NONE {
            for (keyspace, version) in keyspaces.iter().zip(&versions) {
                self.let_go_of_filters(keyspace, version, refused);
            }
        }
    }
}

/// Filters of tables, or of a region, that are in memory or not.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    worth: FilterWorth,
    bytes: u64,
    /// The share of all lookups that they spare a read.
    spared: f64,
}

/// All filters that designs name.
struct Wanted<'a> {
    regions: Vec<&'a Filtering>,
    /// Of the tables of runs, the most worth first.
    runs: Vec<Candidate>,
    /// Bytes of the regions' that are in memory.
    held: u64,
    /// Bytes of all, as exact as designs say.
    bytes: u64,
}

impl<'a> Wanted<'a> {
    fn new(regions: Vec<&'a Filtering>, mut runs: Vec<Candidate>) -> Self {
        runs.sort_unstable_by_key(|run| Reverse(run.worth.to_bits()));
        let in_memory = regions.iter().filter(|region| region.kind.is_in_memory());
        let held = in_memory.map(|region| region.held).sum();
        let mut wanted = Self { regions, runs, held, bytes: 0 };
        wanted.bytes =
            wanted.bytes_of_regions(u8::MAX) + wanted.runs.iter().map(|run| run.bytes).sum::<u64>();
        wanted
    }

    /// Bytes of the filters of regions with fingerprints of so many bits, and of the largest of them once
    /// more: it is there twice while another takes its place.
    fn bytes_of_regions(&self, bits: u8) -> u64 {
        let needed = self.regions.iter().map(|region| region.needs(bits));
        let (sum, most) = needed.fold((0, 0), |(sum, most), bytes: u64| (sum + bytes, bytes.max(most)));
        sum + most
    }

    /// The bits of regions' fingerprints, as in [`FilterLimits`](crate::region_filter::FilterLimits), with
    /// which lookups read least where there is so much room.
    fn bits(&self, room: u64) -> u8 {
        if self.bytes <= room {
            return u8::MAX;
        }
        let mut best = (f64::INFINITY, 0);
        for bits in std::iter::once(u8::MAX).chain((1..=MOST_BITS).rev()) {
            let Some(left) = room.checked_sub(self.bytes_of_regions(bits)) else { continue };
            let false_probes: f64 = self.regions.iter().map(|region| region.false_probes(bits)).sum();
            let reads = false_probes + beyond(&self.runs, left).iter().map(|run| run.spared).sum::<f64>();
            if reads < best.0 {
                best = (reads, bits);
            }
        }
        best.1
    }

    /// What filters of tables are worth at most that do not fit beside those of regions with so many bits.
    fn refused(&self, bits: u8, room: u64) -> FilterWorth {
        if bits == u8::MAX && self.bytes <= room {
            return FilterWorth::NONE;
        }
        let worth = |beyond: &[Candidate]| beyond.first().map_or(FilterWorth::NONE, |first| first.worth);
        if let Some(left) = room.checked_sub(self.bytes_of_regions(bits)).filter(|_| bits > 0) {
            return worth(beyond(&self.runs, left));
        }
        // Some regions go without.
        let mut all = self.runs.clone();
        all.extend(self.regions.iter().filter_map(|region| region.shortest()));
        all.sort_unstable_by_key(|candidate| Reverse(candidate.worth.to_bits()));
        worth(beyond(&all, room))
    }
}

/// Returns the filters that tables of each run have of their own.
fn of_runs(versions: &[Arc<Version>]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for region in versions.iter().flat_map(|version| &version.levels).flat_map(|level| &level.regions) {
        for (place, run) in region.runs.iter().enumerate().filter(|(_, run)| run.filter_bytes > 0) {
            let (worth, spared) = (region.filter_worth(place), region.spared_by_filters(place));
            found.push(Candidate { worth, bytes: run.filter_bytes, spared });
        }
    }
    found
}

/// Returns those of `candidates` that do not fit into `room` after those before them.
fn beyond(candidates: &[Candidate], room: u64) -> &[Candidate] {
    let mut left = room;
    let fitting = candidates.iter().take_while(|candidate| {
        let fits = candidate.bytes <= left;
        left = left.saturating_sub(candidate.bytes);
        fits
    });
    candidates.get(fitting.count()..).unwrap_or(&[])
}

/// A region that is to have a filter.
struct Filtering {
    kind: RegionFilterKind,
    contents: Contents,
    is_top: bool,
    /// The share of all lookups that lead to it.
    share: f64,
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

    /// Reads that such a filter costs a lookup in vain.
    fn false_probes(&self, bits: u8) -> f64 {
        self.share * self.kind.at_most(bits).false_probes()
    }

    /// Its shortest filter, where that is in memory.
    fn shortest(&self) -> Option<Candidate> {
        let bytes = self.needs(1);
        let spared = self.share * self.contents.runs as f64;
        (bytes > 0).then(|| Candidate { worth: FilterWorth::of(spared, bytes), bytes, spared })
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
                share: region.share(),
                held: region.filter.as_ref().map_or(0, |filter| filter.memory_bytes()),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(spared: f64, bytes: u64) -> Candidate {
        Candidate { worth: FilterWorth::of(spared, bytes), bytes, spared }
    }

    #[test]
    fn filters_of_the_top_are_kept_and_those_of_the_bottom_go_first() {
        let (top, middle, bottom) = (candidate(1.0, 100), candidate(0.25, 200), candidate(0.25, 3200));
        let wanted = Wanted::new(Vec::new(), vec![top, middle, bottom]);
        let refused = |room: u64| wanted.refused(u8::MAX, room);
        assert_eq!((wanted.bits(3500), refused(3500)), (u8::MAX, FilterWorth::NONE));
        assert_eq!([refused(3499), refused(300)], [bottom.worth; 2]);
        assert_eq!([refused(299), refused(99)], [middle.worth, top.worth]);
    }

    fn maplets(keys: u64) -> Filtering {
        let level = siltstone_design::Design::preset("siltstone").unwrap().levels.remove(0);
        let contents = Contents { keys, bytes: keys * 32, runs: 8 };
        let kind = RegionFilterKind::of(&level, false).unwrap();
        Filtering { kind, contents, is_top: false, share: 1.0, held: 0 }
    }

    #[test]
    fn fingerprints_are_as_long_as_makes_lookups_read_least() {
        let region = maplets(100_000);
        let (whole, shortest) = (region.needs(u8::MAX), region.needs(1));
        let wanted = |runs: Vec<Candidate>| Wanted::new(vec![&region], runs);
        // The largest is there twice.
        assert_eq!(wanted(Vec::new()).bits(2 * whole), u8::MAX);
        let shorter = wanted(Vec::new()).bits(2 * whole - 1);
        assert!(shorter > 1 && shorter < u8::MAX, "{shorter} bits");
        // A filter that spares every lookup a read is worth more than exact fingerprints, and one that spares
        // hardly any is not.
        let with_useful = wanted(vec![candidate(1.0, whole - shortest)]);
        let bits = with_useful.bits(2 * whole);
        assert!(bits < shorter, "{bits} bits");
        assert_eq!(with_useful.refused(bits, 2 * whole), FilterWorth::NONE);
        let useless = candidate(1e-9, whole - shortest);
        let with_useless = wanted(vec![useless]);
        let bits = with_useless.bits(2 * whole);
        assert_eq!((bits, with_useless.refused(bits, 2 * whole)), (u8::MAX, useless.worth));
        // Where not even the shortest fit, what spares most comes first.
        let small = candidate(1.0, 10);
        let with_both = wanted(vec![small, useless]);
        assert_eq!(with_both.bits(shortest), 0);
        let refused = with_both.refused(0, shortest);
        assert!(useless.worth <= refused && refused < small.worth, "{refused:?}");
    }
}
