//! Item-level simulation of RocksDB's universal compaction: every table is the list of its keys, and which to
//! merge is asked of the very [`Tables`] that the table-level model uses, so that only the sizes differ.
//!
//! Source: Lim et al., FAST 2016, §5 and Appendix C. Their model estimates the size of a merged table from
//! the sizes merged; here it is counted. Tables are merged one after the other with flushes, none while
//! another is under way.

use super::keys::{Ranks, Sampler};
use super::protocol::{Load, Measured, Protocol};
use super::tables::{sort_distinct, union};
use crate::ModelError;
use crate::engines::rocksdb_universal::{Tables, Universal};
use crate::engines::{Cost, Step};

/// Runs a store under universal compaction through `protocol`.
///
/// [`Load::Sequential`] begins with one table of all keys, as the model does. `progress` hears the requests
/// done so far and those to do, about every memtable.
///
/// # Errors
/// If a parameter makes no store, or there are 2^32 keys or more.
///
/// ```
/// use siltstone_model::engines::rocksdb_universal::Universal;
/// use siltstone_model::simulate::{Protocol, Ranks, simulate_universal};
/// use siltstone_model::{Direct, Popularity};
///
/// let options = Universal::new(1000.0);
/// let protocol = Protocol { warm_up: 200_000, ..Protocol::paper(200_000) };
/// let measured = simulate_universal(&options, &Ranks::zipf(200_000, 0.99)?, &protocol, &mut |_, _| {})?;
/// let model = options.write_amplification(&Direct::new(&Popularity::zipf(200_000, 0.99)?))?;
/// let error = model.write_amplification / measured.cost.write_amplification - 1.0;
/// assert!(error.abs() < 0.02, "{error}");
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
pub fn simulate_universal(
    options: &Universal,
    ranks: &Ranks,
    protocol: &Protocol,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Measured, ModelError> {
    protocol.check(ranks)?;
    let one_in = f64::from(protocol.miniature);
    let mut sampler = Sampler::new(ranks, protocol.miniature, protocol.seed);
    let mut store = Store {
        options: *options,
        picker: Tables::new(*options)?,
        tables: Vec::new(),
        scratch: Vec::new(),
        written: [0.0; 4],
    };
    if protocol.load == Load::Sequential {
        store.tables.push((0..sampler.keys()).collect());
    }
    let total = protocol.warm_up + protocol.requests;
    let per_memtable = options.write_buffer.ceil().max(1.0) as u64;
    let (mut done, mut measured) = (0, 0);
    while done < total {
        if done >= protocol.warm_up && measured == 0 {
            store.written = [0.0; 4];
        }
        let mut memtable = Vec::new();
        sampler.draw_of(per_memtable, &mut memtable);
        store.flush(memtable, per_memtable as f64 / one_in, sampler.key_bits());
        if done >= protocol.warm_up {
            measured += per_memtable;
        }
        done += per_memtable;
        progress(done.min(total), total);
    }
    Ok(store.measured(measured, one_in))
}

struct Store {
    options: Universal,
    /// Knows the conditions; asked with the sizes of the tables.
    picker: Tables,
    /// Newest first.
    tables: Vec<Vec<u32>>,
    scratch: Vec<u32>,
    /// Items flushed, and merged for conditions 1, 2 and 3.
    written: [f64; 4],
}

impl Store {
    /// Makes a memtable, which took `requests`, the newest table, and merges until there is room for another.
    fn flush(&mut self, mut memtable: Vec<u32>, requests: f64, key_bits: u32) {
        sort_distinct(&mut memtable, &mut self.scratch, key_bits);
        let flushed = if self.options.flush_dedup { memtable.len() as f64 } else { requests };
        self.count(0, flushed);
        self.tables.insert(0, memtable);
        loop {
            if self.tables.len() >= self.options.level0_file_num_compaction_trigger {
                self.compact();
            }
            if self.tables.len() < self.options.level0_stop_writes_trigger {
                return;
            }
        }
    }

    fn compact(&mut self) {
        let sizes: Vec<f64> = self.tables.iter().map(|table| table.len() as f64).collect();
        self.picker.load(&sizes);
        let Some((condition, picked)) = self.picker.pick() else { return };
        let merged = union(self.tables.get(picked.clone()).unwrap_or_default());
        self.count(condition + 1, merged.len() as f64);
        self.tables.splice(picked, [merged]);
    }

    fn count(&mut self, what: usize, items: f64) {
        if let Some(written) = self.written.get_mut(what) {
            *written += items;
        }
    }

    fn measured(&self, requests: u64, one_in: f64) -> Measured {
        let [flushed, merged @ ..] = self.written.map(|items| items * one_in / requests as f64);
        let mut steps = vec![Step::new("memtable", "log", 1.0), Step::new("memtable", "level-0", flushed)];
        for (name, merged) in ["size amplification", "size ratio", "table count"].into_iter().zip(merged) {
            steps.push(Step::new("level-0", format!("level-0 ({name})"), merged));
        }
        Measured { cost: Cost::new(steps, Vec::new(), Vec::new()), requests, level_items: Vec::new() }
    }
}
