//! Pages that lookups and scans read, from where items lie and how often filters are wrong.
//!
//! A key's path leads from level 0 down to a leaf. Going down it, newest run first, some items are left whose
//! newest version has not been met; those that a run takes away are found there.

use super::layout::{Layout, PAGE_BYTES, RunSize};
use super::puts::Puts;
use super::requests::Requests;
use super::trie::{Moment, Region, Trie};
use super::values::Stored;
use siltstone_design::{Format, IndexSpec, LevelSpec, RegionFilterSpec, TableFilterSpec};
use std::collections::BTreeMap;

/// What a kind of read takes, on the average.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// Pages read, none of them cached.
    pub pages: f64,
    /// Filters of regions asked.
    pub region_filters: f64,
    /// Runs considered, by their tables' filters where no region's has ruled them out.
    pub runs: f64,
    /// Tables of sorted stores searched by their tries, which are decoded on the way.
    pub tries: f64,
    /// Bytes of values decoded, of tables that compress.
    pub decoded_bytes: f64,
    /// Values that lie in pages of their own, each read at once around the cache,
    pub apart: f64,
    /// and how many pages these are.
    pub pages_apart: f64,
}

impl Taken {
    pub fn plus(self, share: f64, other: Self) -> Self {
        Self {
            pages: self.pages + share * other.pages,
            region_filters: self.region_filters + share * other.region_filters,
            runs: self.runs + share * other.runs,
            tries: self.tries + share * other.tries,
            decoded_bytes: self.decoded_bytes + share * other.decoded_bytes,
            apart: self.apart + share * other.apart,
            pages_apart: self.pages_apart + share * other.pages_apart,
        }
    }

    /// All pages that are needed.
    pub fn all_pages(&self) -> f64 {
        self.pages + self.pages_apart
    }
}

/// What each kind of read takes, and of which pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    pub hit: Taken,
    pub miss: Taken,
    pub scan: Taken,
    /// The share of requests that find their item in a log store.
    logged: f64,
    /// By level and age; filters on the device by themselves.
    classes: BTreeMap<(usize, Option<u32>), PageClass>,
}

/// Pages of a level whose runs are about of one age, and what is asked of them all.
#[derive(Clone, Debug, Default)]
pub(super) struct PageClass {
    pub level: usize,
    pub pages: f64,
    pub entries: f64,
    /// Items that are found there, of each group that is asked for alike.
    pub found: Vec<f64>,
    /// Pages that a get takes that finds its item there.
    pub pages_by_found: f64,
    /// Pages that a get of an item and of an absent key asks for in vain, and those that a scan asks for.
    pub vain_by_hit: f64,
    pub vain_by_miss: f64,
    pub by_scan: f64,
}

/// Classes of age for each doubling of it, and where a rough price will do.
const CLASSES_PER_DOUBLING: f64 = 2.0;
const CLASSES_ROUGHLY: f64 = 0.5;

/// The class of age of a run before which so many puts of the store were met.
fn age(puts: Puts, per_doubling: f64) -> u32 {
    ((1.0 + puts.changes).log2() * per_doubling) as u32
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
    /// The share of a level.
    pub fn of(shares: &[f64], level: usize) -> f64 {
        shares.get(level).copied().unwrap_or(0.0)
    }

    /// The share of a level's regions whose runs are joined, since they lack their filter.
    pub fn joined(&self, level: usize, spec: &LevelSpec) -> f64 {
        if !self.joins || spec.region_filter == RegionFilterSpec::None || is_on_device(spec) {
            return 0.0;
        }
        Self::of(&self.filters, level)
    }

    /// How many of the runs of a region without its filter are left, as a share.
    fn left(&self, runs: usize) -> f64 {
        if self.joins && runs > 0 { joined_runs(runs) / runs as f64 } else { 1.0 }
    }
}

/// The runs that are left of about so many, joined like the carries of a binary counter: the ones among its
/// digits, half of those that follow the first.
pub(super) fn joined_runs(runs: usize) -> f64 {
    if runs == 0 { 0.0 } else { f64::midpoint(1.0, (1.0 + runs as f64).log2()) }
}

/// Pages that a lookup reads to find a key's page by halves, where the table's index is not in memory.
const HALVING_PAGES: f64 = 2.5;

impl Pages {
    /// What reads take of a store at a moment, laid out as `layout` says, where `missing` is not in memory.
    pub fn at(
        (trie, moment): (&Trie, Moment<'_>),
        layout: &Layout,
        missing: &Missing,
        requests: &Requests,
        is_rough: bool,
    ) -> Self {
        let ages = if is_rough { CLASSES_ROUGHLY } else { CLASSES_PER_DOUBLING };
        let mut all = Self::default();
        for region in moment.levels.first().into_iter().flatten() {
            let regions = vec![(0, region)];
            let path = Path { trie, moment, ages, layout, missing, requests, regions };
            path.descend(&mut all);
        }
        if trie.lacks_items() {
            all.ask_for_what_is_there(requests);
        }
        all
    }

    /// Counts requests as if they were all for what is there.
    fn ask_for_what_is_there(&mut self, requests: &Requests) {
        let in_tables: f64 = self.classes.values().map(|class| requests.share(&class.found)).sum();
        let found = self.logged + in_tables;
        if found <= 0.0 {
            return;
        }
        self.hit = Taken::default().plus(1.0 / found, self.hit);
        for class in self.classes.values_mut() {
            class.found.iter_mut().for_each(|items| *items /= found);
            class.vain_by_hit /= found;
        }
    }

    /// The pages by what is asked of them.
    pub fn classes(&self) -> impl Iterator<Item = &PageClass> {
        self.classes.values().filter(|class| class.pages > 0.0)
    }

    fn class(&mut self, level: usize, age: Option<u32>, requests: &Requests) -> &mut PageClass {
        self.classes.entry((level, age)).or_insert_with(|| PageClass {
            level,
            found: vec![0.0; requests.groups().len()],
            ..PageClass::default()
        })
    }
}

/// Regions from level 0 down.
struct Path<'a> {
    trie: &'a Trie,
    moment: Moment<'a>,
    /// Classes of age for each doubling of it.
    ages: f64,
    layout: &'a Layout,
    missing: &'a Missing,
    requests: &'a Requests,
    regions: Vec<(usize, &'a Region)>,
}

impl<'a> Path<'a> {
    /// Adds what reads cost on every path that goes on from this one.
    fn descend(&self, all: &mut Pages) {
        let Some(&(level, region)) = self.regions.last() else { return };
        if region.children.is_empty() {
            self.walk(region.digest_share(), all);
            return;
        }
        for child in region.children.clone() {
            let Some(below) = self.moment.levels.get(level + 1).and_then(|regions| regions.get(child)) else {
                continue;
            };
            let mut regions = self.regions.clone();
            regions.push((level + 1, below));
            Path { regions, ..*self }.descend(all);
        }
    }

    /// Goes down the path once, for a `share` of all keys.
    fn walk(&self, share: f64, all: &mut Pages) {
        // Nobody asks for what is still to come.
        let to_come = if self.trie.lacks_items() {
            let puts = self.regions.iter().flat_map(|(_, region)| &region.puts);
            self.requests.left(self.trie, puts.fold(Puts::default(), |all, puts| all.and(*puts)))
        } else {
            vec![0.0; self.requests.groups().len()]
        };
        let mut way = Way {
            path: self,
            share,
            taken: Puts::default(),
            left: Vec::new(),
            to_come,
            expired: self.expired(),
            all,
        };
        way.left = way.left_of(self.requests.all());
        if let Some(puts) = self.moment.logged {
            way.ask_log_store(puts);
        }
        for &(level, region) in &self.regions {
            let spec = self.layout.design().level(level);
            let probes = Probes::of(self, level, spec, region);
            if spec.region_filter != RegionFilterSpec::None && !region.puts.is_empty() {
                way.ask_filter(level, spec, region);
            }
            for &puts in &region.puts {
                way.ask_run(level, spec, &probes, self.trie.run_size(level, region, puts), puts);
            }
        }
    }
}

impl Path<'_> {
    /// Of each run and all below it, the items of each group whose newest version is there and has expired,
    /// from the run at the bottom on; nothing where none does.
    fn expired(&self) -> Vec<Vec<f64>> {
        if !self.trie.expires() {
            return Vec::new();
        }
        let mut taken = self.moment.logged.unwrap_or_default();
        let mut left = self.requests.left(self.trie, taken);
        let mut of_runs = Vec::new();
        for &puts in self.regions.iter().flat_map(|(_, region)| &region.puts) {
            taken = taken.and(puts);
            let after = self.requests.left(self.trie, taken);
            let expired = 1.0 - self.trie.unexpired(puts, self.moment.now);
            of_runs.push(without(left, &after).into_iter().map(|items| items * expired).collect::<Vec<_>>());
            left = after;
        }
        let mut all = vec![0.0; self.requests.groups().len()];
        let mut below = Vec::new();
        for of_run in of_runs.into_iter().rev() {
            all.iter_mut().zip(of_run).for_each(|(all, items)| *all += items);
            below.push(all.clone());
        }
        below
    }
}

/// A key's way down a path.
struct Way<'a> {
    path: &'a Path<'a>,
    /// The share of all keys that go this way.
    share: f64,
    /// Puts of the runs that were met,
    taken: Puts,
    /// and the items that are left, of each group that is asked for alike.
    left: Vec<f64>,
    /// Those that are not there yet.
    to_come: Vec<f64>,
    /// Those that have expired, of the runs that are left; the last is of all of these.
    expired: Vec<Vec<f64>>,
    all: &'a mut Pages,
}

/// Items of each group without some of them.
fn without(mut items: Vec<f64>, some: &[f64]) -> Vec<f64> {
    items.iter_mut().zip(some).for_each(|(items, some)| *items = (*items - some).max(0.0));
    items
}

impl Way<'_> {
    /// What is left of items of each group without those that nobody finds.
    fn left_of(&self, items: Vec<f64>) -> Vec<f64> {
        let there = without(items, &self.to_come);
        match self.expired.last() {
            Some(expired) => without(there, expired),
            None => there,
        }
    }

    /// Asks a log store, which holds `puts`: an item is read from the log, around the cache, and what is not
    /// there is not read, but for one key in thousands whose tag is another's.
    fn ask_log_store(&mut self, puts: Puts) {
        let Path { trie, layout, requests, .. } = self.path;
        let before = requests.share(&self.left);
        self.taken = self.taken.and(puts);
        let left = self.left_of(requests.left(trie, self.taken));
        let found = self.share * (before - requests.share(&left)).max(0.0);
        let pages_apart = 1.0 + layout.logged_bytes() / PAGE_BYTES;
        self.all.logged += found;
        self.all.hit = self.all.hit.plus(found, Taken { apart: 1.0, pages_apart, ..Taken::default() });
        self.left = left;
    }

    /// Asks the filter of a region.
    fn ask_filter(&mut self, level: usize, spec: &LevelSpec, region: &Region) {
        let requests = self.path.requests;
        let left = requests.share(&self.left);
        let mut filter = Taken { region_filters: 1.0, ..Taken::default() };
        if let RegionFilterSpec::BloomCluster { bits_per_key } = spec.region_filter {
            // Filters on the device are read before anything else.
            filter.pages = 1.0;
            let class = self.all.class(level, None, requests);
            let sizes = region.puts.iter().map(|&puts| self.path.trie.run_size(level, region, puts));
            let densities: f64 = sizes.map(|size| size.density).sum();
            let entries = requests.items() * self.share * densities;
            class.pages += entries * f64::from(bits_per_key) / 8.0 / PAGE_BYTES;
            class.vain_by_hit += self.share * left;
            class.vain_by_miss += self.share;
        }
        self.all.miss = self.all.miss.plus(self.share, filter);
        self.all.hit = self.all.hit.plus(self.share * left, filter);
    }

    /// Asks a run of a region, which took `puts`.
    fn ask_run(&mut self, level: usize, spec: &LevelSpec, probes: &Probes, size: RunSize, puts: Puts) {
        let Path { trie, layout, missing, requests, ages, .. } = self.path;
        let page_reads = if spec.index == IndexSpec::Paged {
            2.0
        } else {
            1.0 + HALVING_PAGES * Missing::of(&missing.indexes, level)
        };
        let (before, age) = (requests.share(&self.left), age(self.taken, *ages));
        self.taken = self.taken.and(puts);
        self.expired.pop();
        let left = self.left_of(requests.left(trie, self.taken));
        let after = requests.share(&left);
        let found = (before - after).max(0.0);
        let wrong = probes.wrongly(&size);
        let asked = if spec.region_filter == RegionFilterSpec::None { 1.0 } else { wrong };
        let decoded_bytes = layout.decoded_bytes(level);
        let tries = f64::from(u8::from(spec.format == Format::Sorted));
        let Stored { page_bytes, apart, pages_apart } = layout.stored(&size);
        let hit = Taken {
            pages: page_reads,
            runs: 1.0,
            tries,
            decoded_bytes,
            apart,
            pages_apart,
            ..Taken::default()
        };
        let (pages, tries) = (wrong * page_reads, wrong * tries);
        let vain = Taken { pages, runs: asked, tries, ..Taken::default() };
        let together = layout.items_together(size.density);
        let in_group = layout.workload().group_items * size.density;
        let scanned = Taken {
            pages: page_reads + layout.items_after_first(size.density) * page_bytes / PAGE_BYTES,
            runs: 1.0,
            decoded_bytes: together * decoded_bytes,
            apart: in_group * apart,
            pages_apart: in_group * pages_apart,
            ..Taken::default()
        };
        let Self { share, all, .. } = self;
        all.hit = all.hit.plus(*share * found, hit).plus(*share * after, vain);
        all.miss = all.miss.plus(*share, vain);
        all.scan = all.scan.plus(*share, scanned);
        let class = all.class(level, Some(age), requests);
        let entries = requests.items() * *share * size.density;
        class.entries += entries;
        class.pages += entries * page_bytes / PAGE_BYTES;
        for (sum, (before, after)) in class.found.iter_mut().zip(self.left.iter().zip(&left)) {
            *sum += *share * (before - after).max(0.0);
        }
        class.pages_by_found = page_reads;
        class.vain_by_hit += *share * after * vain.pages;
        class.vain_by_miss += *share * vain.pages;
        class.by_scan += *share * scanned.pages;
        self.left = left;
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
