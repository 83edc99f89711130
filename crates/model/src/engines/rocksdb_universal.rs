//! RocksDB's universal compaction, by simulating tables of which only the size is known.
//!
//! Source: Lim et al., FAST 2016, §5 and Appendix C, Algorithm 3. Tables stand in a list, newest first. When
//! there are enough, the first of three conditions that holds picks neighbours to merge: (1) the newer tables
//! together outweigh the oldest by a percentage: all of them; (2) a run of tables in which none is much
//! larger than those before it together: those; (3) still too many: the newest. Sizes of new and merged
//! tables come from the primitives.
//!
//! *Ours*: what is written is told apart by the condition that caused it, and the start (an empty store, a
//! full one, or tables of one's own) and the popularity can change between calls, so that loading and
//! updating can differ.

use super::{Cost, Step};
use crate::{Direct, Grouping, ModelError, Popularity, Primitives};

/// Universal compaction's parameters, named as RocksDB's options are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Universal {
    /// Size of the write-ahead log, in items.
    pub write_buffer: f64,
    /// Tables at which compaction starts.
    pub level0_file_num_compaction_trigger: usize,
    /// Tables at which writes wait for compaction.
    pub level0_stop_writes_trigger: usize,
    /// Condition 1, per cent.
    pub max_size_amplification_percent: f64,
    /// Condition 2, per cent.
    pub size_ratio: f64,
    /// Whether a flush writes a key once; RocksDB does.
    pub flush_dedup: bool,
}

impl Universal {
    /// The paper's settings (§5): RocksDB's own, but compaction from 12 tables on.
    pub fn new(write_buffer: f64) -> Self {
        Self {
            write_buffer,
            level0_file_num_compaction_trigger: 12,
            level0_stop_writes_trigger: 14,
            max_size_amplification_percent: 200.0,
            size_ratio: 1.0,
            flush_dedup: true,
        }
    }

    /// Refuses parameters under which nothing would ever be compacted or written.
    pub fn check(&self) -> Result<(), ModelError> {
        ModelError::positive("write-buffer", self.write_buffer)?;
        ModelError::positive("max-size-amplification-percent", self.max_size_amplification_percent)?;
        let trigger = self.level0_file_num_compaction_trigger;
        if !(2..=10_000).contains(&trigger) {
            let message = format!("{trigger} given; it must lie between 2 and 10000");
            return Err(ModelError::new("l0-files", message));
        }
        // With one more, the store can come to stand still: writes wait and no condition merges anything.
        if self.level0_stop_writes_trigger < trigger + 2 {
            let given = self.level0_stop_writes_trigger;
            let message = format!("{given} given; it must be above l0-files by at least 2");
            return Err(ModelError::new("level0-stop-writes-trigger", message));
        }
        if !(self.size_ratio.is_finite() && self.size_ratio >= 0.0) {
            let message = format!("{} given; it must be at least 0", self.size_ratio);
            return Err(ModelError::new("size-ratio", message));
        }
        Ok(())
    }

    /// Write amplification of ten times as many updates as there are keys: what the paper measures.
    ///
    /// The store holds all keys in one table before, and has then taken as many *uniform* inserts as there
    /// are keys, whatever the popularity of the updates: so the authors' simulation begins.
    pub fn write_amplification(&self, keys: &impl Primitives) -> Result<Cost, ModelError> {
        let mut tables = Tables::new(*self)?;
        tables.load(&[keys.total()]);
        let round = keys.total() / keys.per_request();
        let uniform = [(1.0, round, keys.per_request())];
        tables.insert(&Direct::new(&Popularity::weighted_histogram(uniform, Grouping::default())?), round);
        let settled = tables.written;
        tables.insert(keys, 10.0 * round);
        Ok(tables.cost_since(&settled))
    }
}

/// What has been written, in items.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Written {
    /// Inserted, and written to the log.
    pub inserted: f64,
    /// Flushed from memtables.
    pub flushed: f64,
    /// Merged because of conditions 1, 2 and 3.
    pub merged: [f64; 3],
}

/// A store under universal compaction: the sizes of its tables, newest first.
#[derive(Clone, Debug)]
pub struct Tables {
    options: Universal,
    sizes: Vec<f64>,
    written: Written,
}

impl Tables {
    /// An empty store.
    pub fn new(options: Universal) -> Result<Self, ModelError> {
        options.check()?;
        Ok(Self { options, sizes: Vec::new(), written: Written::default() })
    }

    /// Replaces the tables by others, newest first, that came from nowhere.
    pub fn load(&mut self, sizes: &[f64]) {
        self.sizes = sizes.to_vec();
    }

    /// The tables' sizes, newest first.
    pub fn sizes(&self) -> &[f64] {
        &self.sizes
    }

    /// What has been written so far.
    pub fn written(&self) -> Written {
        self.written
    }

    /// Inserts until at least so many requests more have been written.
    pub fn insert(&mut self, keys: &impl Primitives, requests: f64) {
        let per_request = keys.per_request();
        let end = self.written.inserted + requests * per_request;
        while self.written.inserted < end {
            if self.sizes.len() < self.options.level0_stop_writes_trigger {
                let table = keys.unique(self.options.write_buffer / per_request);
                self.written.inserted += self.options.write_buffer;
                self.written.flushed +=
                    if self.options.flush_dedup { table } else { self.options.write_buffer };
                self.sizes.insert(0, table);
            }
            if self.sizes.len() >= self.options.level0_file_num_compaction_trigger {
                self.compact(keys);
            }
        }
    }

    /// Merges what the first condition that holds picks.
    fn compact(&mut self, keys: &impl Primitives) {
        let Some((condition, picked)) = self.pick() else { return };
        let merged = keys.merge_all(self.sizes.get(picked.clone()).unwrap_or_default());
        self.sizes.splice(picked, [merged]);
        if let Some(written) = self.written.merged.get_mut(condition) {
            *written += merged;
        }
    }

    /// What is merged next, if anything: the number of the condition that holds, from 0, and the tables.
    pub fn pick(&self) -> Option<(usize, std::ops::Range<usize>)> {
        let first = self.amplified().map(|all| (0, all));
        let second = || self.alike().map(|run| (1, run));
        first.or_else(second).or_else(|| self.surplus().map(|newest| (2, newest)))
    }

    /// Condition 1: the newer tables weigh too much beside the oldest.
    fn amplified(&self) -> Option<std::ops::Range<usize>> {
        let (oldest, newer) = self.sizes.split_last()?;
        let percent = 100.0 * newer.iter().sum::<f64>() / oldest;
        (percent > self.options.max_size_amplification_percent).then_some(0..self.sizes.len())
    }

    /// Condition 2: the first run of at least two tables, each within the ratio of those before it together.
    fn alike(&self) -> Option<std::ops::Range<usize>> {
        let ratio = 1.0 + self.options.size_ratio / 100.0;
        (0..self.sizes.len()).find_map(|start| {
            let mut together = *self.sizes.get(start)?;
            let mut end = start + 1;
            for &size in self.sizes.get(end..)? {
                if together * ratio < size {
                    break;
                }
                together += size;
                end += 1;
            }
            (end - start >= 2).then_some(start..end)
        })
    }

    /// Condition 3: the newest, so many as are too many.
    fn surplus(&self) -> Option<std::ops::Range<usize>> {
        let count = self.sizes.len().checked_sub(self.options.level0_file_num_compaction_trigger)?;
        (count >= 2).then_some(0..count)
    }

    /// The cost of what was written since then.
    pub fn cost_since(&self, then: &Written) -> Cost {
        let inserted = self.written.inserted - then.inserted;
        let mut steps = vec![
            Step::new("memtable", "log", 1.0),
            Step::new("memtable", "level-0", (self.written.flushed - then.flushed) / inserted),
        ];
        let names = ["size amplification", "size ratio", "table count"];
        for ((name, now), then) in names.into_iter().zip(self.written.merged).zip(then.merged) {
            steps.push(Step::new("level-0", format!("level-0 ({name})"), (now - then) / inserted));
        }
        Cost::new(steps, Vec::new(), Vec::new())
    }
}
