//! Settings that write less: for as many levels and as much memory as before, and what else could be had at a
//! price.
//!
//! Source: Lim et al., FAST 2016, §6, with the settings that RocksDB has instead of free level sizes: the
//! size of level 1 and one growth factor. FAST 2016 finds sizes by a general solver; two numbers can be
//! searched whole, on a logarithmic grid that is made finer about its best point. Levels stay as many as they
//! are, so that lookups cost what they did, and tables take about as much space; more memory, fewer levels or
//! more level-0 tables are offered as alternatives with what they cost.

use super::predict::{Frame, Prediction, predict};
use super::settings::{Priority, Settings, Style};
use super::workload::Workload;
use crate::{Direct, ModelError, Tabulated};
use serde::Serialize;

/// Room that is left in the last level's target before one more level opens: the store may grow this much.
pub(crate) const HEADROOM: f64 = 1.1;
/// Suggestions keep all tables within this many times the last level, or what they take now if that is more.
pub(crate) const MOST_SPACE: f64 = 1.4;
/// A suggestion that saves less than this share is not worth a change.
pub const WORTHWHILE: f64 = 0.01;

/// A setting to change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its name in OPTIONS.
    pub name: String,
    /// Its value now.
    pub from: String,
    /// Its value then.
    pub to: String,
}

/// Something else that could be done, and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Alternative {
    /// What it is.
    pub what: String,
    /// The changes.
    pub changes: Vec<Change>,
    /// What is predicted with them.
    pub prediction: Prediction,
}

/// What comes out of tuning.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Advice {
    /// With the settings as they are.
    pub now: Prediction,
    /// Changes that cost no reads and no memory; empty where nothing saves [`WORTHWHILE`].
    pub changes: Vec<Change>,
    /// With these changes.
    pub after: Prediction,
    /// Others, at a price, best first.
    pub alternatives: Vec<Alternative>,
    /// Where `now` and `after` are for a load: what would be written once the keys that are there are only
    /// updated.
    pub updates: Option<UpdatesLater>,
}

/// Write amplification of updates that come after a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UpdatesLater {
    /// With the settings as they are.
    pub now: f64,
    /// With the changes.
    pub after: f64,
}

/// Predicts, and searches for settings that write less.
///
/// # Errors
/// Settings that describe no working engine, naming them.
pub fn advise(settings: &Settings, workload: &Workload) -> Result<Advice, ModelError> {
    let direct = Direct::new(&workload.popularity);
    let table = Tabulated::new(&direct);
    let mut search =
        Search { logged: settings, workload, keys: &table, exact: &direct, most_space: MOST_SPACE };
    let now = search.exactly(settings)?;
    search.most_space = now.space_amplification.max(MOST_SPACE);
    let levels = now.level_bytes.len();
    let best = match settings.style {
        Style::Leveled => search.with_levels(settings, levels)?,
        Style::Universal { .. } => None,
    };
    let best =
        best.filter(|(_, after)| after.write_amplification < now.write_amplification * (1.0 - WORTHWHILE));
    let tuned = best.as_ref().map_or(settings, |(tuned, _)| tuned);
    let updates = match workload.after_load()? {
        Some(later) => {
            let keys = Direct::new(&later.popularity);
            let search = Search { workload: &later, exact: &keys, ..search };
            let [now, after] = [settings, tuned].map(|settings| search.exactly(settings));
            Some(UpdatesLater { now: now?.write_amplification, after: after?.write_amplification })
        }
        None => None,
    };
    let (changes, after) = match best {
        Some((tuned, after)) => (changes(settings, &tuned), after),
        None => (Vec::new(), now.clone()),
    };
    let mut alternatives = search.alternatives(levels)?;
    let limit = after.write_amplification * (1.0 - WORTHWHILE);
    alternatives.retain(|other| {
        other.prediction.write_amplification < limit || other.prediction.sorted_runs < after.sorted_runs
    });
    alternatives
        .sort_by(|a, b| a.prediction.write_amplification.total_cmp(&b.prediction.write_amplification));
    Ok(Advice { now, changes, after, alternatives, updates })
}

struct Search<'a> {
    logged: &'a Settings,
    workload: &'a Workload,
    keys: &'a Tabulated,
    exact: &'a Direct,
    most_space: f64,
}

/// Points of the grid per side, and how often it is made finer.
const POINTS: u32 = 24;
const ROUNDS: u32 = 5;

impl Search<'_> {
    fn exactly(&self, settings: &Settings) -> Result<Prediction, ModelError> {
        let frame = Frame::new(settings, self.logged, self.workload, self.exact);
        predict(settings, frame, self.workload.item, self.workload.course, self.exact)
    }

    fn quickly(&self, settings: &Settings) -> Option<f64> {
        let frame = Frame::new(settings, self.logged, self.workload, self.keys);
        let found = predict(settings, frame, self.workload.item, self.workload.course, self.keys).ok()?;
        let fits = found.space_amplification <= self.most_space;
        (fits && found.write_amplification.is_finite()).then_some(found.write_amplification)
    }

    /// The best level-1 size and multiplier with so many levels below level 0, if there are any.
    fn with_levels(
        &self,
        base: &Settings,
        levels: usize,
    ) -> Result<Option<(Settings, Prediction)>, ModelError> {
        if levels + 1 > base.levels || levels == 0 {
            return Ok(None);
        }
        let start = modern(base);
        let last = self.workload.course.live(self.exact) * self.workload.item.table;
        if levels == 1 {
            // One level of everything: its target has to be above the data, and nothing else matters.
            let tuned = Settings { base_bytes: whole(last * HEADROOM), dynamic_level_bytes: false, ..start };
            let prediction = self.exactly(&tuned)?;
            return Ok(Some((tuned, prediction)));
        }
        let mut best: Option<(f64, Settings)> = None;
        let (mut first, mut multiplier) = ((last * 1e-6, last * 0.9), (1.2, 100.0));
        for _ in 0..ROUNDS {
            for row in 0..=POINTS {
                for column in 0..=POINTS {
                    let tuned = at(&start, between(first, row), between(multiplier, column), levels, last);
                    let Some(tuned) = tuned else { continue };
                    let Some(cost) = self.quickly(&tuned) else { continue };
                    if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                        best = Some((cost, tuned));
                    }
                }
            }
            let Some((_, found)) = &best else { return Ok(None) };
            first = around(first, found.base_bytes);
            multiplier = around(multiplier, found.multiplier);
        }
        let Some((_, tuned)) = best else { return Ok(None) };
        let prediction = self.exactly(&tuned)?;
        Ok(Some((tuned, prediction)))
    }

    fn alternatives(&self, levels: usize) -> Result<Vec<Alternative>, ModelError> {
        let now = self.logged;
        let mut offers: Vec<(String, Settings, usize)> = Vec::new();
        for factor in [2.0, 4.0] {
            let buffer = now.write_buffer_bytes * factor;
            let grown = Settings { write_buffer_bytes: buffer, ..now.clone() };
            offers.push((format!("write buffers {factor} times as large"), grown, levels));
        }
        let twice = Settings { level0_tables: now.level0_tables * 2.0, ..now.clone() };
        offers.push(("twice as many tables in level 0".to_owned(), twice, levels));
        let leveled = now.style == Style::Leveled;
        if leveled && levels > 1 {
            offers.push(("one level less".to_owned(), now.clone(), levels - 1));
        }
        if leveled {
            offers.push(("one level more".to_owned(), now.clone(), levels + 1));
        }
        let mut alternatives = Vec::new();
        for (what, settings, levels) in offers {
            let found = match settings.style {
                Style::Leveled => self.with_levels(&settings, levels)?,
                Style::Universal { .. } => {
                    let prediction = self.exactly(&settings)?;
                    Some((settings, prediction))
                }
            };
            let Some((tuned, prediction)) = found else { continue };
            alternatives.push(Alternative { what, changes: changes(now, &tuned), prediction });
        }
        Ok(alternatives)
    }
}

/// The choices that always write less, with the rest as it is.
fn modern(settings: &Settings) -> Settings {
    let mut modern = settings.clone();
    if modern.priority == Priority::Largest {
        modern.priority = Priority::LeastOverlap;
    }
    modern.multiplier_additional = Vec::new();
    modern
}

/// The settings at one point of the grid, if they give so many levels.
fn at(start: &Settings, first: f64, multiplier: f64, levels: usize, last: f64) -> Option<Settings> {
    // Numbers that a person can read, and that RocksDB keeps: whole bytes and thousandths.
    let tuned = Settings {
        base_bytes: whole(first),
        multiplier: (multiplier * 1000.0).round() / 1000.0,
        ..start.clone()
    };
    let below = levels as i32 - 1;
    let room = tuned.base_bytes * tuned.multiplier.powi(below);
    // With fixed sizes the last level's target must exceed the data, with dynamic ones it follows the data.
    let fits = if tuned.dynamic_level_bytes {
        tuned.base_bytes * HEADROOM >= last / tuned.multiplier.powi(below)
    } else {
        room >= last * HEADROOM
    };
    (fits && tuned.level_targets(last).len() == levels).then_some(tuned)
}

fn whole(bytes: f64) -> f64 {
    // In whole KiB: finer digits would only pretend.
    (bytes / 1024.0).round().max(1.0) * 1024.0
}

fn between(range: (f64, f64), point: u32) -> f64 {
    range.0 * (range.1 / range.0).powf(f64::from(point) / f64::from(POINTS))
}

/// A quarter of the range, in logarithms, about a value.
fn around(range: (f64, f64), value: f64) -> (f64, f64) {
    let reach = (range.1 / range.0).powf(0.125);
    (value / reach, value * reach)
}

/// What has to be changed to come from one to the other.
fn changes(from: &Settings, to: &Settings) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut change = |name: &str, from: String, to: String| {
        if from != to {
            changes.push(Change { name: name.to_owned(), from, to });
        }
    };
    let bytes = |value: f64| format!("{value:.0}");
    change("write_buffer_size", bytes(from.write_buffer_bytes), bytes(to.write_buffer_bytes));
    change("level0_file_num_compaction_trigger", bytes(from.level0_tables), bytes(to.level0_tables));
    change("max_bytes_for_level_base", bytes(from.base_bytes), bytes(to.base_bytes));
    change(
        "max_bytes_for_level_multiplier",
        format!("{:.6}", from.multiplier),
        format!("{:.6}", to.multiplier),
    );
    let flag = |value: bool| value.to_string();
    change(
        "level_compaction_dynamic_level_bytes",
        flag(from.dynamic_level_bytes),
        flag(to.dynamic_level_bytes),
    );
    if from.multiplier_additional.iter().any(|factor| *factor != 1.0) && to.multiplier_additional.is_empty() {
        let list: Vec<String> = from.multiplier_additional.iter().map(|factor| format!("{factor}")).collect();
        let ones = vec!["1"; list.len()].join(":");
        change("max_bytes_for_level_multiplier_additional", list.join(":"), ones);
    }
    if from.priority != to.priority {
        change("compaction_pri", format!("{:?}", from.priority), "kMinOverlappingRatio".to_owned());
    }
    changes
}
