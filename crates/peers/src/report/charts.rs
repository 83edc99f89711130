//! Charts of what the tables say, one per question; engines stand below one another.

use crate::failure::Result;
use crate::record::{Figures, Record};
use crate::run::Parameters;
use crate::workload::Workload;
use siltstone_lab::kit::plot::{Axis, Chart};
use siltstone_lab::kit::sizes;
use std::path::Path;

type Pick = fn(&Figures) -> Option<f64>;

struct Question {
    file: &'static str,
    title: &'static str,
    axis: &'static str,
    logarithmic: bool,
    /// A bar for each engine: its name, the workload, the figure.
    bars: &'static [(&'static str, Workload, Pick)],
}

fn rate(figures: &Figures, operation: &str) -> Option<f64> {
    Some(figures.by_operation.get(operation)?.per_second)
}

fn p999_ms(figures: &Figures, operation: &str) -> Option<f64> {
    Some(figures.by_operation.get(operation)?.p999_us / 1e3)
}

const QUESTIONS: [Question; 7] = [
    Question {
        file: "writes.svg",
        title: "Items written",
        axis: "items per second",
        logarithmic: false,
        bars: &[
            ("insert", Workload::Fill, |f| rate(f, "insert")),
            ("overwrite", Workload::Overwrite, |f| rate(f, "put")),
            ("overwrite, Zipf", Workload::OverwriteZipf, |f| rate(f, "put")),
            ("beside eight readers", Workload::Mixed, |f| rate(f, "put")),
        ],
    },
    Question {
        file: "write-amplification.svg",
        title: "Write amplification",
        axis: "bytes written per byte of items, by the kernel's count",
        logarithmic: false,
        bars: &[
            ("insert", Workload::Fill, |f| Some(f.write_amplification)),
            ("overwrite", Workload::Overwrite, |f| Some(f.write_amplification)),
            ("overwrite, Zipf", Workload::OverwriteZipf, |f| Some(f.write_amplification)),
        ],
    },
    Question {
        file: "reads.svg",
        title: "Gets",
        axis: "gets per second",
        logarithmic: true,
        bars: &[
            ("hit", Workload::GetHit, |f| rate(f, "get")),
            ("miss", Workload::GetMiss, |f| rate(f, "get-missing")),
        ],
    },
    Question {
        file: "device-reads.svg",
        title: "Read from the device",
        axis: "KiB per get, by the kernel's count",
        logarithmic: false,
        bars: &[
            ("hit", Workload::GetHit, |f| Some(f.kernel_bytes_per_read / 1024.0)),
            ("miss", Workload::GetMiss, |f| Some(f.kernel_bytes_per_read / 1024.0)),
        ],
    },
    Question {
        file: "scans.svg",
        title: "Listings of groups",
        axis: "groups per second",
        logarithmic: false,
        bars: &[("scan", Workload::Scan, |f| rate(f, "scan"))],
    },
    Question {
        file: "latencies.svg",
        title: "Latency, 99.9 %",
        axis: "milliseconds",
        logarithmic: true,
        bars: &[
            ("insert of a batch", Workload::Fill, |f| p999_ms(f, "insert")),
            ("put of a batch, mixed", Workload::Mixed, |f| p999_ms(f, "put")),
            ("get, mixed", Workload::Mixed, |f| p999_ms(f, "get")),
            ("single put", Workload::PutSingle, |f| p999_ms(f, "put")),
        ],
    },
    Question {
        file: "cpu.svg",
        title: "CPU time",
        axis: "microseconds per operation, background work included",
        logarithmic: true,
        bars: &[
            ("insert", Workload::Fill, |f| Some(f.cpu_us_per_operation)),
            ("get", Workload::GetHit, |f| Some(f.cpu_us_per_operation)),
            ("overwrite", Workload::Overwrite, |f| Some(f.cpu_us_per_operation)),
        ],
    },
];

/// The engine that others are set beside in one chart, where it took part.
const BASELINE: &str = "rocksdb-leveled";

/// Rates that have one figure for each engine.
const RATES: [(&str, Workload, Pick); 8] = [
    ("inserts", Workload::Fill, |f| rate(f, "insert")),
    ("single puts", Workload::PutSingle, |f| rate(f, "put")),
    ("puts beside gets", Workload::Mixed, |f| rate(f, "put")),
    ("gets beside puts", Workload::Mixed, |f| rate(f, "get")),
    ("gets", Workload::GetHit, |f| rate(f, "get")),
    ("many gets a call", Workload::GetBatch, |f| rate(f, "get")),
    ("gets of absent keys", Workload::GetMiss, |f| rate(f, "get-missing")),
    ("scans of a group", Workload::Scan, |f| rate(f, "scan")),
];

/// Draws every chart that has something to show into `dir`.
///
/// # Errors
/// A file cannot be written.
pub fn draw(dir: &Path, parameters: &Parameters, records: &[Record]) -> Result<()> {
    let mut engines: Vec<&str> = Vec::new();
    for record in records.iter().filter(|record| record.figures.is_some()) {
        if !engines.contains(&record.engine.as_str()) {
            engines.push(&record.engine);
        }
    }
    // Places count from the bottom; the first engine stands at the top.
    engines.reverse();
    let note = format!(
        "{} items of {}+{} bytes, memory cap {}; no bar: not run, or failed",
        sizes::count(parameters.items),
        parameters.key_bytes,
        parameters.value_bytes,
        sizes::bytes(parameters.memory_cap_bytes)
    );
    for question in &QUESTIONS {
        let axis = if question.logarithmic { Axis::logarithmic } else { Axis::linear };
        let names = Axis::named("", engines.iter().copied());
        let mut chart = Chart::new(question.title).x(axis(question.axis)).y(names).note(&note);
        let mut drawn = false;
        // Bars of one place stand from the bottom up as well.
        for (name, workload, pick) in question.bars.iter().rev() {
            let values: Vec<f64> = engines
                .iter()
                .map(|engine| value(records, engine, *workload, *pick).unwrap_or(f64::NAN))
                .collect();
            if values.iter().any(|value| *value > 0.0) {
                chart = chart.bars(name, values);
                drawn = true;
            }
        }
        if drawn {
            chart.save(&dir.join(question.file))?;
        }
    }
    beside_baseline(records, &engines, &note).map_or(Ok(()), |chart| Ok(chart.save(&dir.join("beside.svg"))?))
}

/// Draws all rates of all engines, from the last to the first, as multiples of those of one.
fn beside_baseline(records: &[Record], engines: &[&str], note: &str) -> Option<Chart> {
    let of = |engine: &str, (_, workload, pick): &(&str, Workload, Pick)| {
        value(records, engine, *workload, *pick).filter(|rate| *rate > 0.0)
    };
    let rates: Vec<_> = RATES.iter().rev().filter(|rate| of(BASELINE, rate).is_some()).collect();
    if rates.is_empty() || engines.len() < 2 {
        return None;
    }
    let axis = Axis::logarithmic(&format!("times the rate of {BASELINE}"));
    let names = Axis::named("", rates.iter().map(|(name, ..)| *name));
    let mut chart = Chart::new("All rates beside RocksDB's").x(axis).y(names).note(note);
    for engine in engines {
        let ratio = |rate| Some(of(engine, rate)? / of(BASELINE, rate)?);
        chart = chart.bars(engine, rates.iter().map(|rate| ratio(rate).unwrap_or(f64::NAN)));
    }
    Some(chart)
}

fn value(records: &[Record], engine: &str, workload: Workload, pick: Pick) -> Option<f64> {
    let name = workload.name();
    let record = records.iter().find(|r| r.engine == engine && r.workload == name)?;
    pick(record.figures()?)
}
