//! Who writes what to a store that is to be tuned: from what a person says, a trace, or the store's own LOG.
//!
//! Source: Lim et al., FAST 2016, §3.3, turned around. A flush writes `Unique(buffer)` of `buffer` requests, and RocksDB counts
//! both, so the share that is left tells how popular the popular keys are: [`infer_skew`] finds the Zipf skew that
//! leaves just that share. *Limits*: it sees what repeats within one memtable. Any distribution has some Zipf
//! distribution with the same share; keys in order, or new keys only, look uniform.

use super::log::LogSummary;
use super::settings::{Remark, Settings};
use crate::{Direct, ModelError, Popularity, Primitives};
use serde::Serialize;

/// What an item takes, in bytes, in the places it comes through.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ItemBytes {
    /// In the user's write batch, the unit that amplification is counted in.
    pub batch: f64,
    /// In the log.
    pub log: f64,
    /// In a table, with its share of the index, compressed if tables are.
    pub table: f64,
    /// In a memtable.
    pub memory: f64,
}

impl ItemBytes {
    /// Estimates for a key and value of so many bytes together, each written in a batch of its own.
    pub fn of_payload(payload: f64) -> Self {
        Self {
            // 12 bytes of header per batch, a tag and two lengths per item.
            batch: payload + 16.0,
            log: payload + 16.0,
            // Sequence number, three lengths, shared prefixes and the index about cancel out to this.
            table: payload + 8.0,
            // Sequence number, two lengths, and a node with 1.33 pointers on average, aligned.
            memory: payload + 27.0,
        }
    }
}

/// What a person told. What is missing is taken from the LOG.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Distinct keys.
    pub keys: Option<f64>,
    /// Bytes of key and value together.
    pub item_bytes: Option<f64>,
    /// Zipf skew; 0 for uniform.
    pub skew: Option<f64>,
    /// Popularity from a trace; goes before `keys` and `skew`.
    pub popularity: Option<Popularity>,
}

/// A workload as the predictions need it.
#[derive(Clone, Debug)]
pub struct Workload {
    /// How popular keys are.
    pub popularity: Popularity,
    /// The Zipf skew, unless the popularity is from a trace.
    pub skew: Option<f64>,
    /// What items take.
    pub item: ItemBytes,
    /// Requests per flush, as counted in the LOG.
    pub requests_per_flush: Option<f64>,
    /// Level-0 tables per compaction, as counted in the LOG.
    pub level0_tables: Option<f64>,
    /// Where figures are from, and what was noticed.
    pub remarks: Vec<Remark>,
}

/// No more than this skew is inferred: beyond, a handful of keys are all that is written.
pub const MOST_SKEW: f64 = 2.0;

impl Workload {
    /// Puts together what was told and what the LOG counted.
    ///
    /// # Errors
    /// What is missing in both, and how to give it; a value that makes no sense.
    pub fn new(given: &Given, settings: &Settings, log: Option<&LogSummary>) -> Result<Self, ModelError> {
        let events = log.map(|log| log.events).unwrap_or_default();
        let mut remarks = Vec::new();
        let item = item_bytes(given, log)?;
        let keys = key_count(given, log, item, &mut remarks)?;
        let full = events.full_flushes > 0.0;
        let requests_per_flush = full.then(|| events.full_requests / events.full_flushes);
        let (popularity, skew) = match (&given.popularity, given.skew) {
            (Some(popularity), _) => (popularity.clone(), None),
            (None, Some(skew)) => (Popularity::zipf(keys, skew)?, Some(skew)),
            (None, None) => {
                let skew = skew_from_log(keys, &events, &mut remarks)?;
                (Popularity::zipf(keys, skew)?, Some(skew))
            }
        };
        if let Some(log) = log {
            remark_on_log(log, settings, &mut remarks);
        }
        let level0_tables = (events.level0_compactions > 0.0)
            .then(|| (events.level0_tables / events.level0_compactions).max(1.0));
        Ok(Self { popularity, skew, item, requests_per_flush, level0_tables, remarks })
    }

    /// Requests that fill what one flush writes, with the settings' memtable.
    pub fn requests_per_flush(&self, settings: &Settings) -> f64 {
        settings.full_memtable_bytes() * settings.buffers_per_flush / self.item.memory
    }
}

fn item_bytes(given: &Given, log: Option<&LogSummary>) -> Result<ItemBytes, ModelError> {
    let estimate = match given.item_bytes {
        Some(bytes) => Some(ItemBytes::of_payload(ModelError::positive("item-bytes", bytes)?)),
        None => None,
    };
    let Some(log) = log else {
        return estimate.ok_or_else(|| {
            ModelError::new("item-bytes", "missing; give --item-bytes (key and value together) or --log LOG")
        });
    };
    let (totals, events) = (log.totals, log.events);
    let ratio = |part: f64, whole: f64| (whole > 0.0 && part > 0.0).then(|| part / whole);
    let batch = ratio(totals.ingest_bytes, totals.keys).or(estimate.map(|item| item.batch));
    let table = ratio(events.table_bytes, events.table_items).or(estimate.map(|item| item.table));
    let (Some(batch), Some(table)) = (batch, table) else {
        let message =
            "the LOG has no flush and no statistics yet; give --item-bytes, or a LOG of some minutes of work";
        return Err(ModelError::new("item-bytes", message));
    };
    let fallback = ItemBytes::of_payload((batch - 16.0).max(1.0));
    Ok(ItemBytes {
        batch,
        log: ratio(totals.log_bytes, totals.keys).unwrap_or(0.0),
        table,
        memory: ratio(events.full_memory_bytes, events.full_requests).unwrap_or(fallback.memory),
    })
}

fn key_count(
    given: &Given,
    log: Option<&LogSummary>,
    item: ItemBytes,
    remarks: &mut Vec<Remark>,
) -> Result<u64, ModelError> {
    let keys = match (given.keys, log) {
        (Some(keys), _) => keys,
        (None, None) => match &given.popularity {
            Some(popularity) => popularity.keys(),
            None => return Err(ModelError::new("keys", "missing; give --keys, --trace FILE or --log LOG")),
        },
        (None, Some(log)) => {
            let last = log.levels.iter().rev().find(|level| level.level > 0 && level.bytes > 0.0);
            let Some(last) = last else {
                let message = "the LOG's statistics show no level below 0 yet; give --keys";
                return Err(ModelError::new("keys", message));
            };
            let keys = (last.bytes / item.table).round();
            remarks.push(Remark {
                setting: "keys".to_owned(),
                effect: format!("{keys:.0}, from the size of the last level (L{})", last.level),
            });
            keys
        }
    };
    ModelError::positive("keys", keys)?;
    // Beyond this a popularity could not be grouped in f64 without losing whole keys.
    if !(1.0..=1e15).contains(&keys) {
        return Err(ModelError::new("keys", format!("{keys} given; use 1 to 1e15")));
    }
    Ok(keys.round() as u64)
}

fn skew_from_log(
    keys: u64,
    events: &super::log::Events,
    remarks: &mut Vec<Remark>,
) -> Result<f64, ModelError> {
    if events.flushes == 0.0 || events.flush_requests <= 0.0 {
        remarks.push(Remark {
            setting: "skew".to_owned(),
            effect: "not given and no flush in a LOG to derive it from: taken as 0, uniform".to_owned(),
        });
        return Ok(0.0);
    }
    let requests = events.flush_requests / events.flushes;
    let kept = events.flushed_items / events.flush_requests;
    let inferred = infer_skew(keys, requests, kept)?;
    let uniform = Direct::new(&Popularity::uniform(keys)?).unique(requests) / requests;
    remarks.push(Remark {
        setting: "skew".to_owned(),
        effect: format!(
            "{inferred:.3}, since flushes of {requests:.0} writes kept {:.2} % of them (uniform keys: {:.2} %)",
            100.0 * kept,
            100.0 * uniform
        ),
    });
    Ok(inferred)
}

/// The Zipf skew under which `requests` among `keys` keys leave the share `kept` of distinct keys.
///
/// 0 if even uniform keys would repeat more often; at most [`MOST_SKEW`].
///
/// # Errors
/// No keys or no requests.
///
/// ```
/// use siltstone_model::tune::workload::infer_skew;
/// use siltstone_model::{Direct, Popularity, Primitives};
///
/// let kept = Direct::new(&Popularity::zipf(1_000_000, 0.99)?).unique(4194.0) / 4194.0;
/// assert!((infer_skew(1_000_000, 4194.0, kept)? - 0.99).abs() < 1e-3);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
pub fn infer_skew(keys: u64, requests: f64, kept: f64) -> Result<f64, ModelError> {
    ModelError::positive("requests", requests)?;
    let share = |skew: f64| -> Result<f64, ModelError> {
        Ok(Direct::new(&Popularity::zipf(keys, skew)?).unique(requests) / requests)
    };
    if kept >= share(0.0)? {
        return Ok(0.0);
    }
    let (mut low, mut high) = (0.0, MOST_SKEW);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if share(middle)? > kept {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok((low + high) / 2.0)
}

fn remark_on_log(log: &LogSummary, settings: &Settings, remarks: &mut Vec<Remark>) {
    let mut remark = |setting: &str, effect: String| {
        remarks.push(Remark { setting: setting.to_owned(), effect });
    };
    let (totals, events) = (log.totals, log.events);
    if totals.stalled > 0.01 {
        let effect = format!(
            "writers were held back {:.0} % of the time: compaction was behind, levels were fuller than they should be, \
             and less was written than a store that keeps up would",
            100.0 * totals.stalled
        );
        remark("stalls", effect);
    }
    if events.flush_deletes > 0.0 {
        let share = 100.0 * events.flush_deletes / events.flush_requests;
        remark("deletions", format!("{share:.1} % of writes; counted as overwrites"));
    }
    if events.early_flushes > 0.1 * events.flushes {
        let effect = format!(
            "{:.0} of {:.0} memtables were flushed before they were full; the prediction is for full ones",
            events.early_flushes, events.flushes
        );
        remark("early flushes", effect);
    }
    if log.column_families.len() > 1 {
        let effect = format!(
            "{} column families share the log; what is measured is for all, what is predicted for {:?}",
            log.column_families.len(),
            settings.family
        );
        remark("column families", effect);
    }
    if let (Some(logged), Some(version)) = (&log.version, &settings.version)
        && logged != version
    {
        remark("version", format!("OPTIONS are of RocksDB {version}, the LOG of {logged}"));
    }
    let growth =
        log.halfway_bytes.map(|before| log.levels.iter().map(|level| level.bytes).sum::<f64>() / before);
    if let Some(growth) = growth.filter(|growth| *growth > 1.15) {
        let effect = format!(
            "the store grew by {:.0} % in the LOG's later half; a growing store writes less than this predicts",
            100.0 * (growth - 1.0)
        );
        remark("growth", effect);
    }
}
