//! Who writes what to a store that is to be tuned: from what a person says, a trace, or the store's own LOG.
//!
//! Source: Lim et al., FAST 2016, §3.3, turned around. A flush writes `Unique(buffer)` of `buffer` requests,
//! and RocksDB counts both, so the share that is left tells how popular the popular keys are: [`infer_skew`]
//! finds the Zipf skew that leaves just that share. *Limits*: it sees what repeats within one memtable. Any
//! distribution has some Zipf distribution with the same share; keys in order, or new keys only, look
//! uniform.

use super::course::{Course, Loaded, uniform_keys};
use super::log::{LogSummary, Totals};
use super::settings::{Remark, Settings, Style};
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
    /// Whether predictions are for a load (true) or for updates; otherwise for what the LOG shows.
    pub load: Option<bool>,
}

/// What is read beside what is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reads {
    /// The share of operations that are gets.
    pub share: f64,
    /// The share of gets that find something.
    pub found: f64,
}

impl Reads {
    /// What the statistics of a LOG count, if they count gets.
    fn of(log: &LogSummary) -> Option<Self> {
        let Totals { keys, gets, found, .. } = log.totals;
        (gets > 0.0).then(|| Self { share: gets / (gets + keys), found: (found / gets).min(1.0) })
    }
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
    /// Bytes of a key, where the LOG says so.
    pub key_bytes: Option<f64>,
    /// How many operations are gets, as a share, and how many of these find something, where the LOG says so.
    pub reads: Option<Reads>,
    /// What the predictions are for.
    pub course: Course,
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
        let full = events.full_flushes > 0.0;
        let requests_per_flush = full.then(|| events.full_requests / events.full_flushes);
        let loaded = load_in_log(given, log, item, &mut remarks);
        let (popularity, skew) = match (&given.popularity, loaded) {
            (Some(popularity), _) => (popularity.clone(), None),
            (None, Some(loaded)) => {
                let (keys, skew) = keys_of_load(given, &loaded, &events, &mut remarks)?;
                (Popularity::zipf(keys, skew)?, Some(skew))
            }
            (None, None) => {
                let keys = key_count(given, log, item, &mut remarks)?;
                let skew = match given.skew {
                    Some(skew) => skew,
                    None => skew_from_log(keys, &events, &mut remarks)?,
                };
                (Popularity::zipf(keys, skew)?, Some(skew))
            }
        };
        let course = match (loaded, given.load) {
            (Some(loaded), _) => Course::Load { requests: loaded.requests },
            // Without a LOG that shows one, a load writes every key once on average.
            (None, Some(true)) => Course::Load { requests: popularity.keys() },
            (None, _) => Course::Updates,
        };
        if let Some(log) = log {
            remark_on_log(log, settings, course, &mut remarks);
        }
        let level0_tables = (events.level0_compactions > 0.0)
            .then(|| (events.level0_tables / events.level0_compactions).max(1.0));
        let key_bytes = events.bytes_of_key();
        let reads = log.and_then(Reads::of);
        Ok(Self {
            popularity,
            skew,
            item,
            key_bytes,
            reads,
            course,
            requests_per_flush,
            level0_tables,
            remarks,
        })
    }

    /// Where this is a load: the updates that could follow it, of the keys that are there by then.
    pub(super) fn after_load(&self) -> Result<Option<Self>, ModelError> {
        let Course::Load { .. } = self.course else { return Ok(None) };
        let popularity = match self.skew {
            Some(skew) => {
                let live = self.course.live(&Direct::new(&self.popularity));
                Popularity::zipf(live.round().max(1.0) as u64, skew)?
            }
            None => self.popularity.clone(),
        };
        Ok(Some(Self { popularity, course: Course::Updates, ..self.clone() }))
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

/// The load that the LOG shows, unless predictions are to be for updates.
fn load_in_log(
    given: &Given,
    log: Option<&LogSummary>,
    item: ItemBytes,
    remarks: &mut Vec<Remark>,
) -> Option<Loaded> {
    if given.load == Some(false) {
        return None;
    }
    let (loaded, ordered) = Loaded::of(log?, item)?;
    let mut remark = |effect: String| remarks.push(Remark { setting: "load".to_owned(), effect });
    if ordered && given.load.is_none() {
        remark(
            "keys were loaded in order, where tables are moved down and hardly rewritten: predictions are for updates \
             of these keys, which write more than was measured"
                .to_owned(),
        );
        return None;
    }
    remark(format!(
        "the LOG begins with an empty store, so predictions are for its {:.0} writes to one; the line \"once loaded\" is for \
         updates afterwards",
        loaded.requests
    ));
    Some(loaded)
}

/// Keys and skew of a load, where they are not given.
fn keys_of_load(
    given: &Given,
    loaded: &Loaded,
    events: &super::log::Events,
    remarks: &mut Vec<Remark>,
) -> Result<(u64, f64), ModelError> {
    let (keys, skew) = match (given.keys, given.skew) {
        (Some(keys), skew) => {
            let keys = checked_keys(keys)?;
            return Ok((keys, skew.map_or_else(|| skew_from_log(keys, events, remarks), Ok)?));
        }
        (None, Some(skew)) => (loaded.keys(skew)?, skew),
        (None, None) => loaded.keys_and_skew()?,
    };
    let effect = format!(
        "{keys} with skew {skew:.3} would be written in time, from how often keys repeat within flushes and in the store"
    );
    remarks.push(Remark { setting: "keys".to_owned(), effect });
    Ok((keys, skew))
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
            let in_last = (last.bytes / item.table).round();
            let (keys, place) = match keys_beyond_last_level(log, item, in_last) {
                Some(keys) => {
                    let place = format!(
                        "since flushes repeat fewer keys than the {in_last:.0} of L{} would",
                        last.level
                    );
                    (keys, place)
                }
                None => (in_last, format!("from the size of the last level (L{})", last.level)),
            };
            remarks.push(Remark { setting: "keys".to_owned(), effect: format!("{keys:.0}, {place}") });
            keys
        }
    };
    checked_keys(keys)
}

/// The number of keys where the last level clearly does not hold nearly all, as while a store grows or
/// compaction is behind: what flushes keep of their writes then asks for many more.
fn keys_beyond_last_level(log: &LogSummary, item: ItemBytes, in_last: f64) -> Option<f64> {
    const CLEARLY: f64 = 1.3;
    const REPETITIONS: f64 = 100.0;
    let events = &log.events;
    let repeated = events.flush_requests - events.flushed_items;
    if events.flushes == 0.0 || repeated < REPETITIONS {
        return None;
    }
    let in_store = log.levels.iter().map(|level| level.bytes).sum::<f64>() / item.table;
    let kept = events.flushed_items / events.flush_requests;
    // Keys that were not written yet may be as many again, but hardly more.
    let keys = uniform_keys(events.flush_requests / events.flushes, kept, 2.0 * in_store);
    (keys > CLEARLY * in_last).then_some(keys.round())
}

fn checked_keys(keys: f64) -> Result<u64, ModelError> {
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

fn remark_on_log(log: &LogSummary, settings: &Settings, course: Course, remarks: &mut Vec<Remark>) {
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
    if log.from_events {
        let effect = "the LOG has no statistics of most of these writes (RocksDB dumps them every stats_dump_period_sec): \
                      measured figures are counted from its events, each write taken to be a batch of its own";
        remark("statistics", effect.to_owned());
    }
    let last = log.levels.iter().map(|level| level.bytes).fold(0.0, f64::max);
    let targets = settings.level_targets(last);
    let inner = targets.len().saturating_sub(1);
    let fuller = log.levels.iter().skip(1).zip(targets.iter().take(inner));
    let fuller =
        fuller.map(|(level, target)| (level.level, level.bytes / target)).filter(|(_, times)| *times > 1.5);
    if settings.style == Style::Leveled
        && !settings.dynamic_level_bytes
        && let Some((level, times)) = fuller.max_by(|a, b| a.1.total_cmp(&b.1))
    {
        let effect = format!(
            "L{level} held {times:.1} times what it should: compaction was behind, which saves writes and \
             costs reads; predictions are for a store that keeps up, which writes more"
        );
        remark("level sizes", effect);
    }
    let growth =
        log.halfway_bytes.map(|before| log.levels.iter().map(|level| level.bytes).sum::<f64>() / before);
    if let Some(growth) = growth.filter(|growth| *growth > 1.15 && course == Course::Updates) {
        let effect = format!(
            "the store grew by {:.0} % in the LOG's later half; a growing store writes less than this predicts",
            100.0 * (growth - 1.0)
        );
        remark("growth", effect);
    }
}
