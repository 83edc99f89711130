//! LevelDB: a memtable, overlapping level-0 tables, then levels of one sorted run, compacted a table at a
//! time.
//!
//! Source: Lim et al., FAST 2016, §4 and Algorithm 1; [`Form::V2`] is a later refinement. For each step the
//! model asks how many inserts pass while a level's whole key range is compacted once (`Interval`), and what
//! is written to the next level meanwhile:
//!
//! ```text
//! log        1
//! level 0    Unique(buffer) / buffer
//! level 1    Merge(Unique(I₀), S₁) / I₀                            I₀ = buffer · level-0 tables
//! level l+1  [Merge(Unique(I_l), S_{l+1}) + false overlap] / I_l   I_l = I_{l−1} + DInterval(S_l)
//! ```
//!
//! The term `I_{l−1}` stands for what a level holds beyond its limit while those above it are served first.
//! Where forms differ:
//!
//! | | [`Form::Paper`] | [`Form::V2`] |
//! |---|---|---|
//! | false overlap | `Unique(I_l)` | `min(Unique(I_l), S_{l+1})`: no more than the next level holds |
//! | last step's interval | `I_{L−1}` | `DInterval(S_{L−1}) + I₀` |
//!
//! *Ours* beyond the paper: deletions (below), `flush_dedup` (LevelDB writes every version of a key that the
//! memtable holds, RocksDB only the newest), picking the largest table (see `rocksdb_leveled`), and tables
//! cut where the next level's begin, which avoids false overlaps (§4.3.2 mentions such proposals; RocksDB has
//! it by now).
//!
//! **Deletions.** A share of requests are deletions, drawn from the same popularity. A key's newest record
//! then is a tombstone with that probability, independently of its popularity; tables above the last level
//! keep tombstones, the last drops them with the items they hide. So sizes above the last are scaled by the
//! mean record size, and the last level holds the live share of the keys.

use super::{Cost, Step, sizes};
use crate::{ModelError, Primitives};

/// Which variant of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As printed: within 3.5 % of simulation with a 4 MiB buffer, too high by 4 to 14 % with 0.1 to 1 GB.
    #[default]
    Paper,
    /// False overlaps bounded by the next level, a shorter interval for the last step: better with large
    /// buffers.
    V2,
}

/// Which table of a level is compacted next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// The one after the last compacted, in key order: LevelDB, RocksDB's `kRoundRobin`.
    #[default]
    RoundRobin,
    /// The largest: RocksDB's `kByCompensatedSize`, its only choice until version 4. See `rocksdb_leveled`.
    Largest,
}

/// Requests that delete.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deletes {
    /// Share of all requests that are deletions, below 1.
    pub fraction: f64,
    /// Size of a tombstone over the size of an item, 0 to 1.
    pub tombstone_size: f64,
}

impl Deletes {
    /// The mean size of a record, in items.
    fn record_size(&self) -> f64 {
        1.0 - self.fraction + self.fraction * self.tombstone_size
    }

    fn live(&self) -> f64 {
        1.0 - self.fraction
    }
}

/// A leveled engine's parameters. Sizes in items, or in the unit that the popularity's weights count.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelDb {
    /// The log's size at which the memtable is flushed.
    pub write_buffer: f64,
    /// Level-0 tables at which they are compacted.
    pub level0_tables: f64,
    /// Levels 1 to L, ascending; the last is all keys.
    pub level_sizes: Vec<f64>,
    /// Whether a flush writes a key once (RocksDB, and the paper's model) or every version of it (LevelDB).
    pub flush_dedup: bool,
    /// Which table goes next.
    pub pick: Pick,
    /// Which variant of the model.
    pub form: Form,
    /// Whether tables are cut where the next level's begin (RocksDB from 7.8 on, unless
    /// `level_compaction_dynamic_file_size` is off), so that there is no false overlap.
    pub aligned_tables: bool,
    /// Deletions among the requests.
    pub deletes: Deletes,
}

/// The log's size and the memtable's, in bytes, as LevelDB comes.
pub const DEFAULT_WRITE_BUFFER_BYTES: f64 = 4_194_304.0;
/// Level 1 in bytes, as LevelDB comes.
pub const DEFAULT_LEVEL1_BYTES: f64 = 10_485_760.0;
/// Tables in level 0 that start a compaction.
pub const DEFAULT_LEVEL0_TABLES: f64 = 4.0;
/// Growth from level to level.
pub const DEFAULT_GROWTH: f64 = 10.0;

impl LevelDb {
    /// LevelDB's defaults for `keys` items of `item_bytes`: 4 MiB buffer, 4 tables, levels from 10 MiB
    /// growing by 10.
    pub fn with_defaults(keys: f64, item_bytes: f64) -> Result<Self, ModelError> {
        ModelError::positive("item-bytes", item_bytes)?;
        let level1 = DEFAULT_LEVEL1_BYTES / item_bytes;
        let level_sizes = sizes::geometric(level1, DEFAULT_GROWTH, keys)?;
        Ok(Self::new(DEFAULT_WRITE_BUFFER_BYTES / item_bytes, DEFAULT_LEVEL0_TABLES, level_sizes))
    }

    /// The paper's model of an engine with these sizes.
    pub fn new(write_buffer: f64, level0_tables: f64, level_sizes: Vec<f64>) -> Self {
        Self {
            write_buffer,
            level0_tables,
            level_sizes,
            flush_dedup: true,
            pick: Pick::default(),
            form: Form::default(),
            aligned_tables: false,
            deletes: Deletes::default(),
        }
    }

    /// Refuses parameters that describe no engine, naming them.
    pub fn check(&self) -> Result<(), ModelError> {
        ModelError::positive("write-buffer", self.write_buffer)?;
        if !(self.level0_tables.is_finite() && self.level0_tables >= 1.0) {
            let message = format!("{} given; there must be at least 1", self.level0_tables);
            return Err(ModelError::new("l0-files", message));
        }
        let Some(&last) = self.level_sizes.last() else {
            return Err(ModelError::new("level-sizes", "none given; there must be at least one level"));
        };
        sizes::custom(&self.level_sizes, last)?;
        ModelError::fraction("delete-fraction", self.deletes.fraction)?;
        ModelError::fraction("tombstone-size", self.deletes.tombstone_size)?;
        if self.deletes.fraction == 1.0 {
            return Err(ModelError::new("delete-fraction", "1 given; some requests must write"));
        }
        Ok(())
    }

    /// What the engine writes per byte inserted, step by step, once the store holds all keys.
    pub fn write_amplification(&self, keys: &impl Primitives) -> Result<Cost, ModelError> {
        self.check()?;
        let mut steps = vec![Step::new("memtable", "log", 1.0)];
        let mut intervals = Vec::new();
        self.flows(keys, &self.level_sizes, |flow| match flow {
            Flow::Flush { amplification } => steps.push(Step::new("memtable", "level-0", amplification)),
            Flow::Compaction { level, interval, amplification } => {
                intervals.push(interval);
                steps.push(Step::between_levels(level, amplification));
            }
        });
        Ok(Cost::new(steps, self.level_sizes.clone(), intervals))
    }

    /// The sum alone, for other level sizes than the engine's, unchecked and without allocating: for
    /// searches.
    pub fn total_with(&self, keys: &impl Primitives, level_sizes: &[f64]) -> f64 {
        let mut total = 1.0;
        self.flows(keys, level_sizes, |flow| {
            total += match flow {
                Flow::Flush { amplification } | Flow::Compaction { amplification, .. } => amplification,
            };
        });
        total
    }

    /// Inserts until level 0 is compacted.
    pub(crate) fn level0_interval(&self, keys: &impl Primitives) -> f64 {
        self.write_buffer * self.level0_tables / (keys.per_request() * self.deletes.record_size())
    }

    /// Requests between two compactions of the same key out of a level of this size, without what lies above
    /// it.
    pub(crate) fn key_interval(&self, keys: &impl Primitives, size: f64) -> f64 {
        let size = size / self.deletes.record_size();
        match self.pick {
            Pick::RoundRobin => keys.dinterval(size),
            Pick::Largest => keys.unique_inverse(size),
        }
    }

    /// The size of a level out of which the same key is compacted once per so many requests: inverse of
    /// `key_interval`.
    pub(crate) fn size_of_key_interval(&self, keys: &impl Primitives, interval: f64) -> f64 {
        let size = match self.pick {
            Pick::RoundRobin => keys.size_of_interval(interval),
            Pick::Largest => keys.unique(interval),
        };
        size * self.deletes.record_size()
    }

    /// Bytes written to the next level, in units of sizes, while `interval` requests pass.
    pub(crate) fn written(&self, keys: &impl Primitives, step: Compaction) -> f64 {
        let record = self.deletes.record_size();
        let moved = keys.unique(step.interval);
        let (resident, merged) = if step.into_last {
            let live = keys.total() * self.deletes.live();
            (live, live)
        } else {
            let after = step.interval + keys.unique_inverse(step.next_size / record);
            (step.next_size, keys.unique(after) * record)
        };
        let false_overlap = match (step.from_level0, self.form) {
            _ if self.aligned_tables => 0.0,
            (true, _) => 0.0,
            (false, Form::Paper) => moved * record,
            (false, Form::V2) => (moved * record).min(resident),
        };
        merged + false_overlap
    }

    /// Interval of the step out of a level, given the interval of the one above.
    pub(crate) fn step_interval(&self, above: f64, own: f64, level0: f64, into_last: bool) -> f64 {
        match self.form {
            Form::V2 if into_last => level0 + own,
            _ => above + own,
        }
    }

    fn flows(&self, keys: &impl Primitives, level_sizes: &[f64], mut flow: impl FnMut(Flow)) {
        let bytes_per_request = keys.per_request() * self.deletes.record_size();
        let buffer = self.write_buffer / bytes_per_request;
        let flushed =
            if self.flush_dedup { keys.unique(buffer) / (buffer * keys.per_request()) } else { 1.0 };
        flow(Flow::Flush { amplification: flushed });
        let level0 = self.level0_interval(keys);
        let (mut above, mut own_size) = (0.0, None);
        for (level, &next_size) in level_sizes.iter().enumerate() {
            let into_last = level + 1 == level_sizes.len();
            let interval = match own_size {
                None => level0,
                Some(size) => self.step_interval(above, self.key_interval(keys, size), level0, into_last),
            };
            let step = Compaction { interval, next_size, into_last, from_level0: level == 0 };
            let amplification = self.written(keys, step) / (interval * bytes_per_request);
            flow(Flow::Compaction { level, interval, amplification });
            (above, own_size) = (interval, Some(next_size));
        }
    }

    /// What the usual worst-case analysis gives (§4.4): no key is ever written twice, so merging levels of
    /// `u` and `v` items writes `u + v` for `u` moved.
    pub fn worst_case(&self) -> f64 {
        let level0 = self.write_buffer * self.level0_tables;
        let mut total = 2.0;
        let mut above = level0;
        for &size in &self.level_sizes {
            total += 1.0 + size / above;
            above = size;
        }
        total
    }
}

/// A merge into the next level, as the model sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compaction {
    /// Requests during which it goes once through the key space.
    pub interval: f64,
    /// What the next level holds.
    pub next_size: f64,
    pub into_last: bool,
    pub from_level0: bool,
}

enum Flow {
    Flush { amplification: f64 },
    Compaction { level: usize, interval: f64, amplification: f64 },
}
