//! Pages that lookups and scans read, from where items lie and how often filters are wrong.
//!
//! A key's path leads from level 0 down to a leaf. Going down it, newest run first, `Survival` is the share
//! of items whose newest version has not been met; what it loses at a run is found there.

use super::layout::{Layout, PAGE_BYTES, RunSize};
use super::puts::Puts;
use super::trie::{Region, Trie};
use siltstone_design::{Format, IndexSpec, LevelSpec, RegionFilterSpec, TableFilterSpec};

/// What a kind of read takes, on the average.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// Pages read, none of them cached.
    pub pages: f64,
    /// Filters of regions asked.
    pub region_filters: f64,
    /// Runs considered, by their tables' filters where no region's has ruled them out.
    pub runs: f64,
    /// Bytes of values decoded, of tables that compress.
    pub decoded_bytes: f64,
}

impl Taken {
    fn plus(self, share: f64, other: Self) -> Self {
        Self {
            pages: self.pages + share * other.pages,
            region_filters: self.region_filters + share * other.region_filters,
            runs: self.runs + share * other.runs,
            decoded_bytes: self.decoded_bytes + share * other.decoded_bytes,
        }
    }
}

/// What each kind of read takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pages {
    pub hit: Taken,
    pub miss: Taken,
    pub scan: Taken,
}

/// The shares of each level's filters and indexes that are not in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Missing {
    pub filters: Vec<f64>,
    pub indexes: Vec<f64>,
    /// Whether runs that lack their region's filter are joined: where there are writes, as a binary counter's
    /// carries.
    pub joins: bool,
}

impl Missing {
    fn of(shares: &[f64], level: usize) -> f64 {
        shares.get(level).copied().unwrap_or(0.0)
    }

    /// How many times more is written into a level, since runs without their region's filter are joined: each
    /// takes part in a join for every carry of the counter, half of the doublings up to a full region.
    pub fn written_anew(&self, level: usize, spec: &LevelSpec) -> f64 {
        if !self.joins || spec.region_filter == RegionFilterSpec::None || is_on_device(spec) {
            return 0.0;
        }
        Self::of(&self.filters, level) * f64::from(spec.runs.max(1)).log2() / 2.0
    }

    /// How many of the runs of a region without its filter are left, as a share.
    fn left(&self, runs: usize) -> f64 {
        if self.joins && runs > 0 { f64::from(runs.count_ones()) / runs as f64 } else { 1.0 }
    }
}

/// Pages that a lookup reads to find a key's page by halves, where the table's index is not in memory.
const HALVING_PAGES: f64 = 2.5;

impl Pages {
    /// What reads take in a store laid out as `layout` says, where `missing` is not in memory.
    pub fn of(trie: &Trie, layout: &Layout, missing: &Missing) -> Self {
        let mut all = Self::default();
        for region in trie.levels.first().into_iter().flatten() {
            let path = Path { trie, layout, missing, regions: vec![(0, region)] };
            path.descend(&mut all);
        }
        all
    }
}

/// Regions from level 0 down.
struct Path<'a> {
    trie: &'a Trie,
    layout: &'a Layout,
    missing: &'a Missing,
    regions: Vec<(usize, &'a Region)>,
}

impl<'a> Path<'a> {
    /// Adds what reads cost on every path that goes on from this one.
    fn descend(&self, all: &mut Pages) {
        let Some(&(level, region)) = self.regions.last() else { return };
        if region.children.is_empty() {
            let share = region.digest_share();
            let Pages { hit, miss, scan } = self.walk();
            *all = Pages {
                hit: all.hit.plus(share, hit),
                miss: all.miss.plus(share, miss),
                scan: all.scan.plus(share, scan),
            };
            return;
        }
        for &child in &region.children {
            let Some(below) = self.trie.levels.get(level + 1).and_then(|regions| regions.get(child)) else {
                continue;
            };
            let mut regions = self.regions.clone();
            regions.push((level + 1, below));
            Path { regions, ..*self }.descend(all);
        }
    }

    /// Goes down the path once.
    fn walk(&self) -> Pages {
        let mut pages = Pages::default();
        let mut taken = Puts::default();
        let mut survival = 1.0;
        for &(level, region) in &self.regions {
            let spec = self.layout.design().level(level);
            let probes = Probes::of(self, level, spec, region);
            if spec.region_filter != RegionFilterSpec::None && !region.puts.is_empty() {
                // Filters on the device are read before anything else.
                let filter = Taken {
                    pages: if is_on_device(spec) { 1.0 } else { 0.0 },
                    region_filters: 1.0,
                    ..Taken::default()
                };
                pages.miss = pages.miss.plus(1.0, filter);
                pages.hit = pages.hit.plus(survival, filter);
            }
            for &puts in &region.puts {
                let size = self.trie.run_size(level, region, puts);
                let page_reads = if spec.index == IndexSpec::Paged {
                    2.0
                } else {
                    1.0 + HALVING_PAGES * Missing::of(&self.missing.indexes, level)
                };
                taken = taken.and(puts);
                let after = 1.0 - self.trie.met(taken);
                let found = (survival - after).max(0.0);
                let wrong = probes.wrongly(&size);
                let asked = if spec.region_filter == RegionFilterSpec::None { 1.0 } else { wrong };
                let decoded_bytes = self.layout.decoded_bytes(level);
                let hit = Taken { pages: page_reads, runs: 1.0, decoded_bytes, ..Taken::default() };
                pages.hit = pages.hit.plus(found, hit);
                let vain = Taken { pages: wrong * page_reads, runs: asked, ..Taken::default() };
                pages.hit = pages.hit.plus(after, vain);
                pages.miss = pages.miss.plus(1.0, vain);
                let entry_bytes = self.layout.page_bytes(&size);
                let together = self.layout.items_together(size.density);
                let scanned = Taken {
                    pages: page_reads + together * entry_bytes / PAGE_BYTES,
                    runs: 1.0,
                    decoded_bytes: together * decoded_bytes,
                    ..Taken::default()
                };
                pages.scan = pages.scan.plus(1.0, scanned);
                survival = after;
            }
        }
        pages
    }
}

fn is_on_device(spec: &LevelSpec) -> bool {
    matches!(spec.region_filter, RegionFilterSpec::BloomCluster { .. })
}

/// How often runs of a region are read for keys that they do not hold.
struct Probes {
    /// For a run's entry that the region's filter takes for the key.
    per_entry: f64,
    /// For a run, by its own filter.
    per_run: f64,
}

impl Probes {
    fn of(path: &Path<'_>, level: usize, spec: &LevelSpec, region: &Region) -> Self {
        let own = match spec.table_filter {
            TableFilterSpec::None if spec.format == Format::Hash => 8.0 / 32768.0,
            TableFilterSpec::None => 1.0,
            TableFilterSpec::Bloom { bits_per_key } => 0.6185f64.powi(i32::from(bits_per_key)),
            TableFilterSpec::Cuckoo { fingerprint_bits } => {
                8.0 * 0.95 / 2f64.powi(i32::from(fingerprint_bits))
            }
            TableFilterSpec::Fragments { fragment_bits } => 0.5f64.powi(i32::from(fragment_bits)),
        };
        let missing = Missing::of(&path.missing.filters, level);
        let left = path.missing.left(region.puts.len());
        let lacking = |wrong: f64| wrong * (1.0 - missing) + missing;
        let entries: f64 =
            region.puts.iter().map(|&puts| path.trie.run_size(level, region, puts).entries).sum();
        match spec.region_filter {
            RegionFilterSpec::None => Self { per_entry: 0.0, per_run: lacking(own) },
            RegionFilterSpec::BloomCluster { bits_per_key } => {
                Self { per_entry: 0.0, per_run: 0.6185f64.powi(i32::from(bits_per_key)) }
            }
            RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits } => {
                let wrong = 8.0 * 0.8 / 2f64.powi(i32::from(fingerprint_bits));
                Self { per_entry: wrong / entries.max(1.0) * (1.0 - missing), per_run: missing * own * left }
            }
            RegionFilterSpec::Maplet { remainder_bits } => {
                let has_children = !region.children.is_empty();
                let fingerprint = path.layout.maplet_bits(level, has_children, remainder_bits, entries);
                Self { per_entry: (-fingerprint).exp2() * (1.0 - missing), per_run: missing * own * left }
            }
        }
    }

    fn wrongly(&self, run: &RunSize) -> f64 {
        (self.per_run + self.per_entry * run.entries).min(1.0)
    }
}
