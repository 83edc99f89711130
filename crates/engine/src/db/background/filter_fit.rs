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
//! need once they are full. Where not even one bit fits for all, regions have theirs in the same order as
//! tables, by what they spare for a byte; those that go without have their runs joined (`plan.rs` in the
//! design), and are worth the less for it.
//!
//! Nothing of it changes what lookups find.

use super::Scheduler;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::error::Result;
use crate::memory::{FilterWorth, Holder};
use crate::region_filter::{PossibleFilter, RegionFilterKind};
use crate::sync::thread::JoinHandle;
use crate::version::Version;
use siltstone_design::TriePath;
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Most bits that memory is asked for; designs say fewer.
const MOST_BITS: u8 = 24;
/// Most bits where some regions go without a filter.
const MOST_BITS_OF_SOME: u8 = 8;
/// Keyspaces that are all looked at together.
const FEW_KEYSPACES: usize = 64;
/// The parts of the room, in sixty-fourths, that filters of regions leave to what grows until it is looked at
/// again, and where they are to be more exact than before, so that it can stay.
const SPARE_FOR_REGIONS: [u64; 2] = [4, 12];
/// The same where filters come and go one by one: those of tables, and where some regions go without.
const SPARE_FOR_SOME: [u64; 2] = [1, 3];

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
                let Some(job) = scheduler.filter_job(&keyspaces, 0..usize::MAX, true) else { return };
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
        let has_all_memory = keyspaces.len() == all.len() && self.env.options.resources.is_none();
        let room = self.env.memory().room_for_filters();
        if has_all_memory && !self.filter_work.look_for_changes(&versions, room) {
            return;
        }
        let of_keyspaces: Vec<Vec<Filtering>> = versions.iter().map(|version| filtering(version)).collect();
        let wanted = Wanted::new(of_keyspaces.iter().flatten().collect(), of_runs(&versions));
        if has_all_memory {
            self.filter_work.note_fitting(wanted.regions.len() + wanted.runs.len(), room);
        }
        let (memory, reader) = (self.env.memory(), &self.env.reader);
        let held = memory.held_bytes(Holder::Filter);
        let room = if has_all_memory || wanted.bytes.saturating_add(held) <= room {
            // What is held beyond these filters is about to go, or to take the place of one of them.
            room
        } else {
            // Filters of keyspaces in which nothing is due, or of other stores.
            let tables = versions.iter().flat_map(|version| version.tables());
            let own = wanted.held + tables.map(|table| table.filter_bytes()).sum::<u64>();
            room.saturating_sub(held.saturating_sub(own))
        };
        let before = reader.filters_refused();
        let [of_all, of_some] =
            [SPARE_FOR_REGIONS, SPARE_FOR_SOME].map(|spare| spare.map(|parts| without(room, parts)));
        let refused = if let Some(most) = wanted.bits(of_all[0]) {
            let least = wanted.bits(of_all[1]).unwrap_or(1);
            let mut exactest = 0;
            for (keyspace, regions) in keyspaces.iter().zip(&of_keyspaces) {
                // Longer ones, for what is made from now on, only where that stays so.
                let bits = keyspace.filter_limits.most_bits().max(least).min(most);
                keyspace.filter_limits.set(bits, FilterWorth::NONE, missing_at_top(regions, bits));
                exactest = bits.max(exactest);
            }
            let [least, most] = of_some.map(|room| wanted.refused(exactest, room));
            before.at_most(most).at_least(least)
        } else {
            let ranked = wanted.ranked(of_some[1]);
            let [least, most] = of_some.map(|room| ranked.refused(room));
            let refused = before.at_most(most).at_least(least);
            for (keyspace, regions) in keyspaces.iter().zip(&of_keyspaces) {
                keyspace.filter_limits.set(ranked.bits, refused, missing_at_top(regions, ranked.bits));
                self.let_go_of_region_filters(keyspace, regions);
            }
            refused
        };
        if refused != before {
            reader.refuse_filters(refused);
        }
        if refused > FilterWorth::NONE {
            for (keyspace, version) in keyspaces.iter().zip(&versions) {
                self.let_go_of_filters(keyspace, version, refused);
            }
        }
    }

    /// Lets go of the filters of regions for which there is no room.
    fn let_go_of_region_filters(&self, keyspace: &OpenKeyspace, regions: &[Filtering]) {
        let is_refused =
            |region: &&Filtering| region.held > 0 && region.possible.is_refused(&keyspace.filter_limits);
        let refused = regions.iter().filter(is_refused).map(|filtering| filtering.possible.region.path);
        let paths: Vec<TriePath> = refused.collect();
        if !paths.is_empty() {
            self.catalog.publish(keyspace, |version| version.without_filters_of(&paths));
        }
    }
}

/// Filters of tables, or of a region, that are in memory or not.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    worth: FilterWorth,
    bytes: u64,
    /// Reads of a lookup that they spare.
    spared: f64,
    /// Bytes more while another takes its place: of those of regions, which are there twice then.
    replaced: u64,
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
        sort(&mut runs);
        let in_memory = regions.iter().filter(|region| region.possible.kind.is_in_memory());
        let held = in_memory.map(|region| region.held).sum();
        let mut wanted = Self { regions, runs, held, bytes: 0 };
        wanted.bytes =
            wanted.bytes_of_regions(u8::MAX) + wanted.runs.iter().map(|run| run.bytes).sum::<u64>();
        wanted
    }

    /// Bytes of the filters of regions with fingerprints of so many bits, and of the largest of them once
    /// more: it is there twice while another takes its place.
    fn bytes_of_regions(&self, bits: u8) -> u64 {
        let needed = self.regions.iter().map(|region| region.possible.bytes(bits));
        let (sum, most) = needed.fold((0, 0), |(sum, most), bytes: u64| (sum + bytes, bytes.max(most)));
        sum + most
    }

    /// The bits of regions' fingerprints, as in [`FilterLimits`](crate::region_filter::FilterLimits), with
    /// which lookups read least where there is so much room; `None` where not even one bit fits for all.
    fn bits(&self, room: u64) -> Option<u8> {
        if self.bytes <= room {
            return Some(u8::MAX);
        }
        let longest = self.longest(room)?;
        if self.runs.is_empty() {
            return Some(longest);
        }
        let mut best = (f64::INFINITY, None);
        let shorter = (1..=MOST_BITS.min(longest.saturating_sub(1))).rev();
        for bits in std::iter::once(longest).chain(shorter) {
            let Some(left) = room.checked_sub(self.bytes_of_regions(bits)) else { continue };
            let false_probes: f64 =
                self.regions.iter().map(|region| region.possible.false_probes(bits)).sum();
            let reads = false_probes + beyond(&self.runs, left).iter().map(|run| run.spared).sum::<f64>();
            if reads < best.0 {
                best = (reads, Some(bits));
            }
        }
        best.1
    }

    /// The most bits with which the filters of all regions fit into `room`, if any do.
    fn longest(&self, room: u64) -> Option<u8> {
        let fit = |bits: u8| self.bytes_of_regions(bits) <= room;
        if fit(u8::MAX) {
            return Some(u8::MAX);
        }
        // By halves: each look goes over all regions.
        let (mut fits, mut too_long) = (0, MOST_BITS + 1);
        while too_long - fits > 1 {
            let middle = fits.midpoint(too_long);
            if fit(middle) { fits = middle } else { too_long = middle }
        }
        (fits > 0).then_some(fits)
    }

    /// What filters of tables are worth at most that do not fit beside those of all regions with so many
    /// bits.
    fn refused(&self, bits: u8, room: u64) -> FilterWorth {
        if bits == u8::MAX && self.bytes <= room {
            return FilterWorth::NONE;
        }
        most_worth(beyond(&self.runs, room.saturating_sub(self.bytes_of_regions(bits))))
    }

    /// The same where not all regions fit, with all filters that there could be then.
    fn ranked(&self, room: u64) -> Ranked {
        let mut best = self.with(1);
        let mut most = best.spared(room);
        for bits in 2..=MOST_BITS_OF_SOME {
            let ranked = self.with(bits);
            let spared = ranked.spared(room);
            if spared > most {
                (best, most) = (ranked, spared);
            }
        }
        best
    }

    /// The filters of tables and those of regions with so many bits, the most worth first.
    fn with(&self, bits: u8) -> Ranked {
        let mut filters = self.runs.clone();
        filters.extend(self.regions.iter().filter_map(|region| {
            let possible = &region.possible;
            let (bytes, replaced, spared) =
                (possible.bytes(bits), possible.bytes_now(bits), possible.spared(bits));
            (bytes > 0).then(|| Candidate { worth: FilterWorth::of(spared, bytes), bytes, spared, replaced })
        }));
        sort(&mut filters);
        Ranked { bits, filters }
    }
}

/// Filters of tables, and of regions with so many bits, the most worth first.
struct Ranked {
    bits: u8,
    filters: Vec<Candidate>,
}

impl Ranked {
    /// Reads of a lookup that those spare which fit into `room`.
    fn spared(&self, room: u64) -> f64 {
        let fitting = self.filters.len() - beyond(&self.filters, room).len();
        self.filters.iter().take(fitting).map(|filter| filter.spared).sum()
    }

    /// What those are worth at most that do not, where some do not.
    fn refused(&self, room: u64) -> FilterWorth {
        most_worth(beyond(&self.filters, room)).at_least(FilterWorth::LEAST)
    }
}

/// Puts the filters that are worth most first.
fn sort(filters: &mut [Candidate]) {
    filters.sort_unstable_by_key(|filter| Reverse(filter.worth.to_bits()));
}

/// What the first of `sorted` is worth.
fn most_worth(sorted: &[Candidate]) -> FilterWorth {
    sorted.first().map_or(FilterWorth::NONE, |first| first.worth)
}

/// Returns those of `candidates` that do not fit into `room` after those before them.
fn beyond(candidates: &[Candidate], room: u64) -> &[Candidate] {
    let (mut sum, mut largest) = (0, 0);
    let fitting = candidates.iter().take_while(|candidate| {
        sum += candidate.bytes;
        largest = candidate.replaced.max(largest);
        sum + largest <= room
    });
    candidates.get(fitting.count()..).unwrap_or(&[])
}

/// Returns the filters that tables of each run have of their own.
fn of_runs(versions: &[Arc<Version>]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for region in versions.iter().flat_map(|version| &version.levels).flat_map(|level| &level.regions) {
        for (place, run) in region.runs.iter().enumerate().filter(|(_, run)| run.filter_bytes > 0) {
            let (worth, spared) = (region.filter_worth(place), region.spared_by_filters(place));
            found.push(Candidate { worth, bytes: run.filter_bytes, spared, replaced: 0 });
        }
    }
    found
}

/// A region that is to have a filter.
struct Filtering {
    possible: PossibleFilter,
    /// Bytes that its filter takes.
    held: u64,
}

/// Returns what the uppermost region's filter may still come to need.
fn missing_at_top(regions: &[Filtering], bits: u8) -> u64 {
    let top = regions.iter().filter(|region| region.possible.region.is_top());
    top.map(|region| region.possible.bytes(bits).saturating_sub(region.held)).sum()
}

/// Returns the regions of a version that are to have filters.
fn filtering(version: &Version) -> Vec<Filtering> {
    let mut found = Vec::new();
    for of_level in &version.levels {
        let Some(level) = version.design.level_at(of_level.depth) else { continue };
        for region in of_level.regions.iter().filter(|region| !region.runs.is_empty()) {
            let kind = RegionFilterKind::of(version.design.level(level), region.shape.has_children);
            let Some(kind) = kind else { break };
            let held = region.filter.as_ref().map_or(0, |filter| filter.memory_bytes());
            found.push(Filtering { possible: region.possible_filter(kind), held });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region_filter::{Asked, Contents};

    fn candidate(spared: f64, bytes: u64) -> Candidate {
        Candidate { worth: FilterWorth::of(spared, bytes), bytes, spared, replaced: 0 }
    }

    #[test]
    fn filters_of_the_top_are_kept_and_those_of_the_bottom_go_first() {
        let (top, middle, bottom) = (candidate(1.0, 100), candidate(0.25, 200), candidate(0.25, 3200));
        let wanted = Wanted::new(Vec::new(), vec![top, middle, bottom]);
        let refused = |room: u64| wanted.refused(u8::MAX, room);
        assert_eq!((wanted.bits(3500), refused(3500)), (Some(u8::MAX), FilterWorth::NONE));
        assert_eq!([refused(3499), refused(300)], [bottom.worth; 2]);
        assert_eq!([refused(299), refused(99)], [middle.worth, top.worth]);
    }

    fn maplets(keys: u64) -> Filtering {
        let level = siltstone_design::Design::preset("siltstone").unwrap().levels.remove(0);
        let contents = Contents { keys, bytes: keys * 32, runs: 8 };
        let kind = RegionFilterKind::of(&level, false).unwrap();
        let region = Asked { path: TriePath::of(0, 1), has_children: false };
        Filtering { possible: PossibleFilter { kind, region, contents, known_bytes: None }, held: 0 }
    }

    #[test]
    fn the_uppermost_region_has_room_for_what_it_will_be_pushed_with() {
        let level = siltstone_design::Design::preset("siltstone").unwrap().levels.remove(0);
        let kind = RegionFilterKind::of(&level, true).unwrap();
        let bytes = |run_bytes: u64, runs: u64| {
            let (keys, region) = (runs * run_bytes / 32, Asked { path: TriePath::ROOT, has_children: true });
            let contents = Contents { keys, bytes: runs * run_bytes, runs: runs as usize };
            PossibleFilter { kind, region, contents, known_bytes: None }.bytes(u8::MAX) as f64
        };
        // As much whether two of its runs are there or all but one,
        let full = bytes(level.table_bytes, u64::from(level.runs) - 1);
        assert!((bytes(level.table_bytes, 2) / full - 1.0).abs() < 0.01);
        // half where runs are half as large, of which it has no more, and a quarter at least: smaller ones
        // are joined.
        for (part, of_full) in [(2, 0.5), (4, 0.25), (64, 0.25)] {
            let ratio = bytes(level.table_bytes / part, 2) / full;
            assert!((0.9 * of_full..1.3 * of_full).contains(&ratio), "{part}: {ratio}");
        }
    }

    #[test]
    fn fingerprints_are_as_long_as_makes_lookups_read_least() {
        let region = maplets(100_000);
        let (whole, shortest) = (region.possible.bytes(u8::MAX), region.possible.bytes(1));
        let wanted = |runs: Vec<Candidate>| Wanted::new(vec![&region], runs);
        // The largest is there twice.
        assert_eq!(wanted(Vec::new()).bits(2 * whole), Some(u8::MAX));
        let shorter = wanted(Vec::new()).bits(2 * whole - 1).unwrap();
        assert!(shorter > 1 && shorter < u8::MAX, "{shorter} bits");
        // A filter that spares every lookup a read is worth more than exact fingerprints, and one that spares
        // hardly any is not.
        let with_useful = wanted(vec![candidate(1.0, whole - shortest)]);
        let bits = with_useful.bits(2 * whole).unwrap();
        assert!(bits < shorter, "{bits} bits");
        assert_eq!(with_useful.refused(bits, 2 * whole), FilterWorth::NONE);
        let useless = candidate(1e-9, whole - shortest);
        let with_useless = wanted(vec![useless]);
        let bits = with_useless.bits(2 * whole).unwrap();
        assert_eq!((bits, with_useless.refused(bits, 2 * whole)), (u8::MAX, useless.worth));
        // Where not even the shortest fit, what spares most for a byte comes first.
        let small = candidate(1.0, 10);
        let with_both = wanted(vec![small, useless]);
        assert_eq!(with_both.bits(2 * shortest - 1), None);
        let refused = with_both.with(1).refused(shortest);
        assert!(useless.worth < refused && refused < small.worth, "{refused:?}");
    }

    #[test]
    fn filters_that_are_there_and_stay_so_long_count_as_what_they_take() {
        let level = siltstone_design::Design::preset("slimdb").unwrap().levels.remove(0);
        let contents = Contents { keys: 100_000, bytes: 3_200_000, runs: 4 };
        let kind = RegionFilterKind::of(&level, true).unwrap();
        let region = Asked { path: TriePath::of(0, 4), has_children: true };
        let mut filtering =
            Filtering { possible: PossibleFilter { kind, region, contents, known_bytes: None }, held: 0 };
        let estimated = filtering.possible.bytes(u8::MAX);
        let held = estimated * 3 / 4;
        // Estimates are for what is yet to be made, and have it refused where it might not fit.
        assert_eq!(Wanted::new(vec![&filtering], Vec::new()).bits(2 * held), None);
        (filtering.held, filtering.possible.known_bytes) = (held, Some(held));
        assert_eq!(Wanted::new(vec![&filtering], Vec::new()).bits(2 * held), Some(u8::MAX));
    }

    #[test]
    fn regions_that_lookups_ask_in_vain_have_filters_before_those_with_one_run() {
        let of = |depth: u8, runs: usize, keys: u64, has_children: bool| {
            let mut filtering = maplets(keys);
            filtering.possible.region = Asked { path: TriePath::of(0, depth), has_children };
            filtering.possible.contents.runs = runs;
            filtering
        };
        let (upper, lower) = (of(4, 8, 30_000, true), of(8, 1, 3_000, false));
        let regions: Vec<&Filtering> = std::iter::repeat_n(&lower, 160).chain([&upper; 15]).collect();
        let wanted = Wanted::new(regions, Vec::new());
        let all = upper.possible.bytes(1) * 16;
        assert_eq!(wanted.bits(all), None);
        let ranked = wanted.ranked(all);
        let (bits, refused) = (ranked.bits, ranked.refused(all));
        assert!(lower.possible.worth(bits) <= refused && refused < upper.possible.worth(bits), "{refused:?}");
        // With a little more, fingerprints are longer rather than that leaves have any.
        let more = all + all / 4;
        assert!(wanted.bits(more).is_none() && wanted.ranked(more).bits > bits, "{bits} bits");
    }
}
