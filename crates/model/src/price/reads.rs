//! Pages that lookups and scans read, from where items lie and how often filters are wrong.
//!
//! A key's path leads from level 0 down to a leaf. Going down it, newest run first, `Survival` is the share
//! of items whose newest version has not been met; what it loses at a run is found there.

use super::layout::{Layout, PAGE_BYTES, RunSize};
use super::trie::{Puts, Region, Trie};
use siltstone_design::{Format, IndexSpec, LevelSpec, RegionFilterSpec, TableFilterSpec};

/// Pages read by each kind of read, none of them cached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pages {
    pub hit: f64,
    pub miss: f64,
    pub scan: f64,
}

impl Pages {
    /// Pages read in a store whose filters are in memory but for a share `missing` of them.
    pub fn of(trie: &Trie<'_>, layout: &Layout, missing: f64) -> Self {
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
    trie: &'a Trie<'a>,
    layout: &'a Layout,
    missing: f64,
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
                hit: all.hit + share * hit,
                miss: all.miss + share * miss,
                scan: all.scan + share * scan,
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
            // Filters on the device are read before anything else.
            let before_runs = if is_on_device(spec) && !region.puts.is_empty() { 1.0 } else { 0.0 };
            pages.miss += before_runs;
            pages.hit += survival * before_runs;
            for &puts in &region.puts {
                let size = self.trie.run_size(level, region, puts);
                let page_reads = if spec.index == IndexSpec::Paged { 2.0 } else { 1.0 };
                taken = taken.and(puts);
                let after = 1.0 - self.trie.density(taken);
                let found = (survival - after).max(0.0);
                let wrong = probes.wrongly(&size) * page_reads;
                pages.hit += found * page_reads + after * wrong;
                pages.miss += wrong;
                let entry_bytes = self.layout.page_bytes(&size);
                pages.scan +=
                    page_reads + self.layout.items_together(size.density) * entry_bytes / PAGE_BYTES;
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
        let missing = path.missing;
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
                Self { per_entry: wrong / entries.max(1.0) * (1.0 - missing), per_run: missing * own }
            }
            RegionFilterSpec::Maplet { remainder_bits } => {
                let has_children = !region.children.is_empty();
                let fingerprint = path.layout.maplet_bits(level, has_children, remainder_bits, entries);
                Self { per_entry: (-fingerprint).exp2() * (1.0 - missing), per_run: missing * own }
            }
        }
    }

    fn wrongly(&self, run: &RunSize) -> f64 {
        (self.per_run + self.per_entry * run.entries).min(1.0)
    }
}
