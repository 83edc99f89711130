//! Read amplification: random reads per query, from how old the data in each level is.
//!
//! Source: Lim et al., FAST 2016, §8, Theorem 4: a query ends in the first level that holds its key, which is
//! the one whose ages cover the key's last insert. The share of queries that end in level `l` is
//! `Unique(e(l), w) − Unique(s(l), w)`, with `s` and `e` the ages where the level begins and ends and `w` the
//! distribution of queries; times the cost of such a query, summed. [`Ages::Expected`] is that, with the mean
//! ages that the paper speaks of.
//!
//! *Ours*, [`Ages::Spread`]: ages are not the same everywhere. What a round-robin level holds at some key
//! goes back to that key's last compaction, which is any part of `DInterval` ago, and adds to the age of what
//! lay above it then. These parts are independent, so a key written at rate `a` is absent from levels up to
//! `l` with probability `Π (1 − e^(−aD)) / (aD)`, which is what `Density` averages to (Theorem 3): shares add
//! up to exactly what the write model says each level holds. Taking the mean age instead makes upper levels
//! look fuller.
//!
//! Costs: one read in the table that has the key; in one that has not, one read, or with filters their
//! false-positive rate. Memtables cost nothing; indexes and filters are in memory.

use crate::engines::cola::Growing;
use crate::engines::leveldb::{LevelDb, Pick};
use crate::engines::rocksdb_universal::{Tables, Universal};
use crate::popularity::Group;
use crate::{Direct, ModelError, Popularity, Primitives};
use serde::Serialize;

/// How the age of a level's oldest data enters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ages {
    /// As it is spread over keys and time.
    #[default]
    Spread,
    /// Its mean, for all keys: the paper's.
    Expected,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queries {
    /// Queries prefer the keys that writes prefer, as the write probability to this power: 1 for the same
    /// distribution, 0 for uniform queries.
    pub exponent: f64,
    /// Share of queries for keys that are not there.
    pub absent: f64,
    /// False-positive rate of the filters of all tables; `None` without filters.
    pub false_positives: Option<f64>,
    /// How ages enter.
    pub ages: Ages,
}

impl Default for Queries {
    fn default() -> Self {
        Self { exponent: 1.0, absent: 0.0, false_positives: None, ages: Ages::Spread }
    }
}

/// Where queries end, and what they cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReadStep {
    /// `memtable`, `level-0`, `level-1`, …, `absent`.
    pub level: String,
    /// Share of all queries that end here.
    pub share: f64,
    /// Mean reads of such a query, all levels it went through included.
    pub reads: f64,
}

/// The expected number of random reads per query.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReadCost {
    /// Σ share · reads.
    pub read_amplification: f64,
    /// By the level where queries end.
    pub steps: Vec<ReadStep>,
}

/// A part of a store that is searched after those above it.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// One table per key; the oldest data at a key is any part of `requests` older than what lies above.
    Swept { requests: f64 },
    /// One table per key; it is exactly so much older.
    Even { requests: f64 },
    /// From none to `most − 1` tables, all numbers equally often, of so many requests each; merged into one
    /// if told.
    Pile { requests: f64, most: u32, merged: bool },
    /// Holds every key.
    Last,
}

/// A group of keys on its way down.
struct Descent {
    rate: f64,
    weight: f64,
    /// Share of its queries that found nothing yet, and the reads these have done.
    unfound: f64,
    reads: f64,
}

impl Queries {
    fn check(&self) -> Result<(), ModelError> {
        ModelError::fraction("absent", self.absent)?;
        if let Some(rate) = self.false_positives {
            ModelError::fraction("false-positives", rate)?;
        }
        Ok(())
    }

    fn miss(&self) -> f64 {
        self.false_positives.unwrap_or(1.0)
    }

    /// LevelDB's and RocksDB's leveled layouts, with the intervals of the write model.
    ///
    /// ```
    /// use siltstone_model::engines::leveldb::LevelDb;
    /// use siltstone_model::read::Queries;
    /// use siltstone_model::Popularity;
    ///
    /// let leveldb = LevelDb::with_defaults(1e8, 1000.0)?;
    /// let uniform = Popularity::uniform(100_000_000)?;
    /// let skewed = Popularity::zipf(100_000_000, 0.99)?;
    /// let reads = |p| Queries::default().leveldb(&leveldb, p).map(|cost| cost.read_amplification);
    /// // Nearly every query goes through all five levels and a table or two of level 0; skew ends many early.
    /// assert!((5.5..6.5).contains(&reads(&uniform)?));
    /// assert!(reads(&skewed)? < 4.0);
    /// # Ok::<(), siltstone_model::ModelError>(())
    /// ```
    pub fn leveldb(&self, engine: &LevelDb, popularity: &Popularity) -> Result<ReadCost, ModelError> {
        engine.check()?;
        let keys = Direct::new(popularity);
        let buffer = engine.level0_interval(&keys) / engine.level0_tables;
        let most = engine.level0_tables.round() as u32;
        let mut stages = vec![
            ("memtable".to_owned(), Stage::Swept { requests: buffer }),
            ("level-0".to_owned(), Stage::Pile { requests: buffer, most, merged: false }),
        ];
        let inner = engine.level_sizes.len().saturating_sub(1);
        for (index, &size) in engine.level_sizes.iter().take(inner).enumerate() {
            let requests = engine.key_interval(&keys, size);
            let stage = match engine.pick {
                _ if requests.is_infinite() => Stage::Last,
                Pick::RoundRobin => Stage::Swept { requests },
                Pick::Largest => Stage::Even { requests },
            };
            stages.push((format!("level-{}", index + 1), stage));
        }
        stages.push((format!("level-{}", engine.level_sizes.len()), Stage::Last));
        self.price(&stages, popularity)
    }

    /// COLA: one table per level, from none to `r − 1` merges old.
    pub fn cola(&self, cola: &Growing, popularity: &Popularity) -> Result<ReadCost, ModelError> {
        self.growing(cola, popularity, true)
    }

    /// SAMT: up to `r − 1` tables per level when it is not being merged.
    pub fn samt(&self, samt: &Growing, popularity: &Popularity) -> Result<ReadCost, ModelError> {
        self.growing(samt, popularity, false)
    }

    fn growing(
        &self,
        engine: &Growing,
        popularity: &Popularity,
        merged: bool,
    ) -> Result<ReadCost, ModelError> {
        let log = engine.check(&Direct::new(popularity))?;
        let mut stages = vec![("memtable".to_owned(), Stage::Swept { requests: log })];
        let mut requests = log;
        for level in 1..engine.levels {
            stages.push((format!("level-{level}"), Stage::Pile { requests, most: engine.growth, merged }));
            requests *= f64::from(engine.growth);
        }
        stages.push((format!("level-{}", engine.levels), Stage::Last));
        self.price(&stages, popularity)
    }

    /// Universal compaction, averaged over as many states of the simulated store as it goes through while
    /// every key is rewritten three times over, at most 2,000.
    pub fn universal(&self, engine: &Universal, popularity: &Popularity) -> Result<ReadCost, ModelError> {
        const MOST_STATES: f64 = 2_000.0;
        let keys = Direct::new(popularity);
        let mut tables = Tables::new(*engine)?;
        tables.load(&[keys.total()]);
        let round = keys.total() / keys.per_request();
        tables.insert(&keys, round);
        let flush = engine.write_buffer / keys.per_request();
        let states = (3.0 * round / flush).ceil().clamp(1.0, MOST_STATES);
        let (mut memtable, mut level0, mut reads) = ([0.0; 2], [0.0; 2], 0.0);
        for _ in 0..states as u32 {
            tables.insert(&keys, 3.0 * round / states);
            let mut stages = vec![("memtable".to_owned(), Stage::Swept { requests: flush })];
            for (older, &size) in tables.sizes().iter().enumerate().map(|(i, s)| (i + 1, s)) {
                let requests = keys.unique_inverse(size);
                let last = older == tables.sizes().len() || requests.is_infinite();
                stages.push((String::new(), if last { Stage::Last } else { Stage::Even { requests } }));
            }
            let cost = self.price(&stages, popularity)?;
            reads += cost.read_amplification / states;
            for (index, step) in cost.steps.iter().enumerate() {
                let to = match (index, step.level.as_str()) {
                    (_, "absent") => continue,
                    (0, _) => &mut memtable,
                    _ => &mut level0,
                };
                let [share, weighted] = to;
                *share += step.share / states;
                *weighted += step.share * step.reads / states;
            }
        }
        let step = |level: &str, [share, weighted]: [f64; 2]| ReadStep {
            level: level.to_owned(),
            share,
            reads: if share > 0.0 { weighted / share } else { 0.0 },
        };
        let mut steps = vec![step("memtable", memtable), step("level-0", level0)];
        let present = memtable[1] + level0[1];
        steps.push(step("absent", [self.absent, reads - present]));
        Ok(ReadCost { read_amplification: reads, steps })
    }

    /// Sends every group down the stages.
    fn price(&self, stages: &[(String, Stage)], popularity: &Popularity) -> Result<ReadCost, ModelError> {
        self.check()?;
        let queries = popularity.queried(self.exponent)?;
        let mut groups: Vec<Descent> = queries.groups().iter().map(Descent::new).collect();
        let mut steps = Vec::new();
        let (mut absent_reads, miss) = (0.0, self.miss());
        for (level, stage) in stages {
            let stage = stage.with(self.ages);
            let in_memory = level == "memtable";
            let (mut share, mut cost) = (0.0, 0.0);
            for group in &mut groups {
                let (found, reads) = group.pass(stage, if in_memory { [0.0, 0.0] } else { [1.0, miss] });
                share += group.weight * found;
                cost += group.weight * found * reads;
            }
            absent_reads += if in_memory { 0.0 } else { miss * stage.tables() };
            let reads = if share > 0.0 { cost / share } else { 0.0 };
            steps.push(ReadStep { level: level.clone(), share: share * (1.0 - self.absent), reads });
        }
        steps.push(ReadStep { level: "absent".to_owned(), share: self.absent, reads: absent_reads });
        let read_amplification = steps.iter().map(|step| step.share * step.reads).sum();
        Ok(ReadCost { read_amplification, steps })
    }
}

impl Stage {
    /// The stage as it looks when only mean ages count.
    fn with(self, ages: Ages) -> Self {
        match (self, ages) {
            (Self::Swept { requests }, Ages::Expected) => Self::Even { requests: requests / 2.0 },
            _ => self,
        }
    }

    /// Mean number of tables a query that finds nothing asks.
    fn tables(self) -> f64 {
        match self {
            Self::Swept { .. } | Self::Even { .. } | Self::Last => 1.0,
            Self::Pile { most, merged: false, .. } => f64::from(most - 1) / 2.0,
            Self::Pile { most, merged: true, .. } => 1.0 - 1.0 / f64::from(most),
        }
    }
}

impl Descent {
    fn new(group: &Group) -> Self {
        let rate = (-(-group.probability).ln_1p()).min(700.0);
        Self { rate, weight: group.weight, unfound: 1.0, reads: 0.0 }
    }

    /// Searches a stage: the share of the group's queries that end there and their mean reads, given what a
    /// hit and a miss in a table cost.
    fn pass(&mut self, stage: Stage, [hit, miss]: [f64; 2]) -> (f64, f64) {
        let (mut found, mut reads, mut unfound, mut unfound_reads) = (0.0, 0.0, 0.0, 0.0);
        let mut tables = |chance: f64, requests: f64, count: u32| {
            let mut left = self.unfound * chance;
            for before in 0..count {
                let ends = left * -(-self.rate * requests).exp_m1();
                found += ends;
                reads += ends * (self.reads + f64::from(before) * miss + hit);
                left -= ends;
            }
            unfound += left;
            unfound_reads += left * (self.reads + f64::from(count) * miss);
        };
        match stage {
            Stage::Last => tables(1.0, f64::INFINITY, 1),
            Stage::Even { requests } => tables(1.0, requests, 1),
            Stage::Swept { requests } => {
                let x = self.rate * requests;
                // The age at which the same share is found.
                let missing = if x < 1e-8 { 1.0 - x / 2.0 } else { -(-x).exp_m1() / x };
                tables(1.0, -missing.ln() / self.rate, 1);
            }
            Stage::Pile { requests, most, merged: false } => {
                (0..most).for_each(|count| tables(1.0 / f64::from(most), requests, count));
            }
            Stage::Pile { requests, most, merged: true } => {
                let chance = 1.0 / f64::from(most);
                (0..most).for_each(|merges| tables(chance, requests * f64::from(merges), merges.min(1)));
            }
        }
        let mean = |sum: f64, share: f64| if share > 0.0 { sum / share } else { 0.0 };
        (self.unfound, self.reads) = (unfound, mean(unfound_reads, unfound));
        (found, mean(reads, found))
    }
}
