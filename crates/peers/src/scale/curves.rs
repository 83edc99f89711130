//! Tables and charts of the records at several numbers of items: a row for each number, a line for each
//! engine.

use super::Size;
use crate::failure::{Failure, Result};
use crate::record::Figures;
use crate::run::Parameters;
use crate::workload::Workload;
use serde_json::json;
use siltstone_lab::kit::plot::{Axis, Chart};
use siltstone_lab::kit::sizes;
use siltstone_lab::kit::table::Table;
use std::path::Path;

/// A figure that is followed from number to number.
struct Curve {
    /// Its column, and its name in JSON.
    name: &'static str,
    workload: Workload,
    pick: fn(&Figures, &Parameters) -> Option<f64>,
    /// As people read it.
    text: fn(f64) -> String,
    /// The chart that it is drawn in.
    chart: Option<(&'static str, &'static str)>,
}

fn two(value: f64) -> String {
    format!("{value:.2}")
}

fn three(value: f64) -> String {
    format!("{value:.3}")
}

fn percent(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

fn milliseconds(value: f64) -> String {
    format!("{value:.1} ms")
}

fn calls_ms(figures: &Figures, operation: &str, most: bool) -> Option<f64> {
    let calls = figures.by_operation.get(operation)?;
    Some(if most { calls.max_us } else { calls.p999_us } / 1e3)
}

fn rate(figures: &Figures) -> Option<f64> {
    Some(figures.operations_per_second)
}

fn bits(bytes: u64, figures: &Figures) -> f64 {
    bytes as f64 * 8.0 / figures.items.max(1) as f64
}

const CURVES: [Curve; 19] = [
    Curve {
        name: "built/s",
        workload: Workload::Bulk,
        pick: |f, _| rate(f),
        text: sizes::rate,
        chart: Some(("built", "items per second, by bulk build")),
    },
    Curve {
        name: "inserts/s",
        workload: Workload::Fill,
        pick: |f, _| rate(f),
        text: sizes::rate,
        chart: Some(("inserts", "items per second")),
    },
    Curve {
        name: "last tenth by the first",
        workload: Workload::Fill,
        pick: |f, _| Some(f.tenths.last()? / f.tenths.first()?),
        text: two,
        chart: None,
    },
    Curve {
        name: "CPU us an insert",
        workload: Workload::Fill,
        pick: |f, _| Some(f.cpu_us_per_operation),
        text: two,
        chart: None,
    },
    Curve {
        name: "written per byte",
        workload: Workload::Fill,
        pick: |f, _| Some(f.write_amplification),
        text: two,
        chart: Some(("written", "bytes written per byte of items")),
    },
    Curve {
        name: "batch p99.9",
        workload: Workload::Fill,
        pick: |f, _| calls_ms(f, "insert", false),
        text: milliseconds,
        chart: None,
    },
    Curve {
        name: "batch max",
        workload: Workload::Fill,
        pick: |f, _| calls_ms(f, "insert", true),
        text: milliseconds,
        chart: None,
    },
    Curve {
        name: "planning, of the time",
        workload: Workload::Fill,
        pick: |f, _| Some(f.planning_seconds? / (f.seconds + f.settle_seconds)),
        text: |value| format!("{:.2} %", value * 100.0),
        chart: None,
    },
    Curve {
        name: "filters, indexes: bits",
        workload: Workload::GetHit,
        pick: |f, _| Some(bits(f.structures_bytes?, f)),
        text: two,
        chart: Some(("structures", "bits of filters and indexes in memory per item")),
    },
    Curve {
        name: "all memory: bits",
        workload: Workload::GetHit,
        pick: |f, _| Some(bits(f.group_peak_bytes?, f)),
        text: two,
        chart: None,
    },
    Curve {
        name: "hits/s",
        workload: Workload::GetHit,
        pick: |f, _| rate(f),
        text: sizes::rate,
        chart: Some(("hits", "gets per second of items that exist")),
    },
    Curve {
        name: "of raw reads",
        workload: Workload::GetHit,
        pick: |f, _| Some(f.operations_per_second / f.raw?.as_many),
        text: percent,
        chart: None,
    },
    Curve {
        name: "reads a hit",
        workload: Workload::GetHit,
        pick: |f, _| f.device_reads_per_read,
        text: three,
        chart: Some(("reads", "device reads per get of an item that exists")),
    },
    Curve {
        name: "misses/s",
        workload: Workload::GetMiss,
        pick: |f, _| rate(f),
        text: sizes::rate,
        chart: Some(("misses", "gets per second of keys that do not exist")),
    },
    Curve {
        name: "reads a miss",
        workload: Workload::GetMiss,
        pick: |f, _| f.device_reads_per_read,
        text: three,
        chart: None,
    },
    Curve {
        name: "batched gets/s",
        workload: Workload::GetBatch,
        pick: |f, _| rate(f),
        text: sizes::rate,
        chart: None,
    },
    Curve {
        name: "opened in",
        workload: Workload::Reopen,
        pick: |f, _| f.open_seconds,
        text: sizes::seconds,
        chart: Some(("open", "seconds until a store that was closed answers")),
    },
    Curve {
        name: "overwritten per byte",
        workload: Workload::Overwrite,
        pick: |f, _| Some(f.write_amplification),
        text: two,
        chart: None,
    },
    Curve {
        name: "recovered in",
        workload: Workload::Recover,
        pick: |f, _| f.open_seconds,
        text: sizes::seconds,
        chart: Some(("recovery", "seconds until a store whose process was killed answers")),
    },
];

fn value(size: &Size, engine: &str, curve: &Curve) -> Option<f64> {
    let workload = curve.workload.name();
    let record = size.records.iter().find(|record| record.engine == engine && record.workload == workload)?;
    (curve.pick)(record.figures()?, &size.parameters).filter(|value| value.is_finite())
}

fn engines(sizes: &[Size]) -> Vec<&str> {
    let mut engines: Vec<&str> = Vec::new();
    for record in sizes.iter().flat_map(|size| &size.records) {
        if !engines.contains(&record.engine.as_str()) {
            engines.push(&record.engine);
        }
    }
    engines
}

/// A table for each engine, with a row for each figure and a column for each number of items.
fn tables(all: &[Size]) -> String {
    let mut text = String::new();
    for engine in engines(all) {
        let numbers = all.iter().map(|size| sizes::count(size.parameters.items));
        let mut table = Table::new(std::iter::once("items".to_owned()).chain(numbers));
        for curve in &CURVES {
            let cell = |size: &Size| value(size, engine, curve).map_or_else(|| "-".to_owned(), curve.text);
            let cells: Vec<String> = all.iter().map(cell).collect();
            if cells.iter().any(|cell| cell != "-") {
                table.row(std::iter::once(curve.name.to_owned()).chain(cells));
            }
        }
        text.push_str(&format!("{engine}\n{table}\n"));
        for size in all {
            for record in size.records.iter().filter(|record| record.engine == engine) {
                if record.is_wrong() {
                    text.push_str(&format!(
                        "WRONG ANSWERS: {} {}\n",
                        sizes::count(size.parameters.items),
                        record.workload
                    ));
                }
                if let Some(why) = record.why.as_ref().filter(|why| !why.is_empty()) {
                    text.push_str(&format!(
                        "{} {}: {why}\n",
                        sizes::count(size.parameters.items),
                        record.workload
                    ));
                }
            }
        }
    }
    text
}

/// All figures as one JSON object: engine, number of items, figure.
///
/// # Errors
/// None in practice: all figures are numbers.
pub fn json(all: &[Size]) -> Result<String> {
    let mut by_engine = serde_json::Map::new();
    for engine in engines(all) {
        let mut by_number = serde_json::Map::new();
        for size in all {
            let figures: serde_json::Map<_, _> = CURVES
                .iter()
                .filter_map(|curve| Some((curve.name.to_owned(), value(size, engine, curve)?.into())))
                .collect();
            by_number.insert(size.parameters.items.to_string(), figures.into());
        }
        by_engine.insert(engine.to_owned(), by_number.into());
    }
    let parameters: Vec<_> = all.iter().map(|size| json!(size.parameters)).collect();
    Ok(serde_json::to_string_pretty(&json!({ "parameters": parameters, "engines": by_engine }))? + "\n")
}

/// Writes the tables and the charts to `dir`; returns the tables.
///
/// # Errors
/// A file cannot be written.
pub fn write(dir: &Path, all: &[Size]) -> Result<String> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::at(dir, e))?;
    let text = tables(all);
    let path = dir.join("curves.txt");
    std::fs::write(&path, &text).map_err(|e| Failure::at(&path, e))?;
    for curve in &CURVES {
        let Some((file, axis)) = curve.chart else { continue };
        let mut chart = Chart::new(axis).x(Axis::logarithmic("items")).y(Axis::linear(axis).from(0.0));
        let mut drawn = false;
        for engine in engines(all) {
            let point = |size: &Size| Some((size.parameters.items as f64, value(size, engine, curve)?));
            let points: Vec<(f64, f64)> = all.iter().filter_map(point).collect();
            if points.len() > 1 {
                chart = chart.line(engine, points);
                drawn = true;
            }
        }
        if let (true, Some(size)) = (drawn, all.first()) {
            let p = &size.parameters;
            let cap = sizes::bytes(p.memory_cap_bytes);
            let note = format!("items of {} + {} bytes, memory cap {cap}", p.key_bytes, p.value_bytes);
            chart.note(&note).save(&dir.join(format!("{file}.svg")))?;
        }
    }
    Ok(text)
}
