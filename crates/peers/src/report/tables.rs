//! One table per workload, one row per engine, and a sentence for every run that did not end as it should.

use crate::record::{Calls, Figures, Outcome, Record};
use crate::run::Parameters;
use crate::workload::{Operation, Workload};
use siltstone_lab::kit::sizes;
use siltstone_lab::kit::table::Table;

/// All tables.
pub fn all(parameters: &Parameters, records: &[Record]) -> String {
    let p = parameters;
    let mut text = format!(
        "{} items of {}+{} bytes in groups of {}, memory cap {}, batches of {}, {} reading threads\n",
        sizes::count(p.items),
        p.key_bytes,
        p.value_bytes,
        p.group,
        sizes::bytes(p.memory_cap_bytes),
        p.batch,
        p.threads
    );
    if p.fill_memory_cap_bytes != p.memory_cap_bytes {
        text.push_str(&format!("filled with a memory cap of {}\n", sizes::bytes(p.fill_memory_cap_bytes)));
    }
    if records.iter().any(|record| record.figures.is_some() && !record.capped) {
        text.push_str("memory was not capped: no control group could be made\n");
    }
    for workload in Workload::ALL {
        let name = workload.name();
        let rows: Vec<&Record> =
            records.iter().filter(|r| r.workload == name && r.figures.is_some()).collect();
        if workload.opens() && !rows.is_empty() {
            text.push_str(&format!("\n{name}\n{}", openings(&rows)));
        } else if !rows.is_empty() {
            let clients = workload.clients(p.threads as usize, p.batch as usize);
            let operations: Vec<_> = clients.iter().map(|clients| clients.operation).collect();
            text.push_str(&format!(
                "\n{name}\n{}\n{}",
                speeds(&operations, &rows),
                costs(&operations, &rows)
            ));
        }
    }
    let remarks: Vec<String> = records.iter().filter_map(remark).collect();
    if !remarks.is_empty() {
        text.push_str(&format!("\n{}\n", remarks.join("\n")));
    }
    text
}

/// The sentence about a run that did not end as it should.
fn remark(record: &Record) -> Option<String> {
    let name = format!("{} {}", record.engine, record.workload);
    let why = record.why.as_deref().unwrap_or_default();
    if let Some(f) = record.figures().filter(|_| record.is_wrong()) {
        return Some(format!(
            "{name}: WRONG ANSWERS: {} items not found, {} found that were never written, {} wrong",
            f.not_found, f.found_unexpectedly, f.wrong
        ));
    }
    if record.figures().is_some_and(|f| !f.settled) {
        return Some(format!("{name}: background work had not ended within the budget {why}"));
    }
    match record.outcome {
        Outcome::Complete => None,
        Outcome::OutOfTime => Some(format!("{name}: {why}")),
        Outcome::Failed => Some(format!("{name}: FAILED: {why}")),
        Outcome::Skipped => Some(format!("{name}: skipped: {why}")),
    }
}

/// How fast: a row per engine and operation.
fn speeds(operations: &[Operation], records: &[&Record]) -> Table {
    let mut table =
        Table::new(["engine", "operation", "rate", "p50 µs", "p99 µs", "p99.9 µs", "max ms", "> 50 ms"])
            .left(2);
    for (record, figures) in with_figures(records) {
        for operation in operations {
            let none = Calls::default();
            let calls = figures.by_operation.get(operation.name()).unwrap_or(&none);
            table.row([
                name(record),
                operation.name().to_owned(),
                sizes::rate(calls.per_second),
                format!("{:.0}", calls.p50_us),
                format!("{:.0}", calls.p99_us),
                format!("{:.0}", calls.p999_us),
                format!("{:.1}", calls.max_us / 1e3),
                sizes::count(calls.stalls),
            ]);
        }
    }
    table
}

/// At what cost: a row per engine.
fn costs(operations: &[Operation], records: &[&Record]) -> Table {
    let writes = operations.iter().any(|operation| operation.writes());
    let reads = operations.iter().any(|operation| !operation.writes());
    let mut header = vec!["engine", "CPU µs"];
    if writes {
        header.extend(["write amp.", "of it cancelled", "settled in", "space"]);
    }
    if reads {
        header.extend(["reads, engine's", "kernel's", "KiB, kernel's"]);
    }
    if !writes {
        header.extend(["raw, as many", "share", "raw, 32 deep", "share"]);
    }
    header.extend(["resident", "anonymous", "with cache"]);
    let mut table = Table::new(header);
    for (record, figures) in with_figures(records) {
        let mut cells = vec![name(record), format!("{:.2}", figures.cpu_us_per_operation)];
        if writes {
            let more = if figures.settled { "" } else { "> " };
            cells.extend([
                format!("{more}{:.2}", figures.write_amplification),
                format!(
                    "{:.2}",
                    sizes::ratio(figures.after_settling.cancelled_write_bytes, figures.user_bytes_written)
                ),
                format!("{more}{}", sizes::seconds(figures.settle_seconds)),
                format!("{:.2} ×", figures.space_amplification),
            ]);
        }
        if reads {
            let or_dash =
                |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"));
            cells.extend([
                or_dash(figures.device_reads_per_read),
                or_dash(figures.kernel_reads_per_read),
                format!("{:.2}", figures.kernel_bytes_per_read / 1024.0),
            ]);
        }
        if !writes {
            let beside = |raw: f64| {
                let share = 100.0 * figures.operations_per_second / raw.max(1e-9);
                [sizes::rate(raw), format!("{share:.0} %")]
            };
            let none = || ["–".to_owned(), "–".to_owned()];
            cells.extend(figures.raw.map_or_else(none, |raw| beside(raw.as_many)));
            cells.extend(figures.raw.map_or_else(none, |raw| beside(raw.depth_32)));
        }
        cells.extend([
            sizes::bytes(figures.rss_peak_bytes),
            sizes::bytes(figures.anonymous_peak_bytes),
            figures.group_peak_bytes.map_or_else(|| "–".to_owned(), sizes::bytes),
        ]);
        table.row(cells);
    }
    table
}

/// How long stores took to open: a row per engine.
fn openings(records: &[&Record]) -> Table {
    let mut table = Table::new([
        "engine",
        "opened in",
        "read for it",
        "written before the kill",
        "resident",
        "with cache",
    ]);
    for (record, figures) in with_figures(records) {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        table.row([
            name(record),
            or_dash(figures.open_seconds.map(sizes::seconds)),
            sizes::bytes(figures.open_read_bytes),
            or_dash(figures.written_before_kill.map(sizes::count)),
            sizes::bytes(figures.rss_peak_bytes),
            or_dash(figures.group_peak_bytes.map(sizes::bytes)),
        ]);
    }
    table
}

fn with_figures<'a>(records: &[&'a Record]) -> impl Iterator<Item = (&'a Record, &'a Figures)> {
    records.iter().filter_map(|record| Some((*record, record.figures()?)))
}

/// The engine's name, marked where its figures are not what they seem.
fn name(record: &Record) -> String {
    let mark = match record.outcome {
        _ if record.is_wrong() => " WRONG",
        Outcome::OutOfTime => " (cut short)",
        _ => "",
    };
    format!("{}{mark}", record.engine)
}

/// A run in a line, for progress.
pub fn in_a_line(figures: &Figures) -> String {
    if let Some(seconds) = figures.open_seconds {
        return format!(
            "opened in {}, {} read",
            sizes::seconds(seconds),
            sizes::bytes(figures.open_read_bytes)
        );
    }
    let calls: Vec<String> = figures
        .by_operation
        .iter()
        .map(|(name, calls)| format!("{} {name}s", sizes::rate(calls.per_second)))
        .collect();
    format!(
        "{} in {}, settled in {}, CPU {:.2} µs each",
        calls.join(", "),
        sizes::seconds(figures.seconds),
        sizes::seconds(figures.settle_seconds),
        figures.cpu_us_per_operation
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(engine: &str, outcome: Outcome, figures: Option<Figures>) -> Record {
        Record {
            engine: engine.to_owned(),
            workload: "get-hit".to_owned(),
            outcome,
            why: Some("because".to_owned()),
            library: String::new(),
            settings: String::new(),
            capped: true,
            figures,
        }
    }

    fn parameters() -> Parameters {
        Parameters {
            items: 1000,
            key_bytes: 16,
            value_bytes: 100,
            group: 128,
            seed: 1,
            batch: 100,
            threads: 2,
            seconds: 1.0,
            warm_up_seconds: 0.0,
            overwrites: 1.0,
            memory_cap_bytes: 64 << 20,
            fill_memory_cap_bytes: 64 << 20,
            budget_seconds: 9.0,
        }
    }

    #[test]
    fn nothing_goes_unsaid() {
        let fine = Figures { settled: true, ..Figures::default() };
        let wrong = Figures { not_found: 3, ..fine.clone() };
        let text = all(
            &parameters(),
            &[
                record("good", Outcome::Complete, Some(fine.clone())),
                record("late", Outcome::OutOfTime, Some(fine)),
                record("liar", Outcome::Complete, Some(wrong)),
                record("dead", Outcome::Failed, None),
                record("gone", Outcome::Skipped, None),
            ],
        );
        for part in ["late (cut short)", "liar WRONG", "3 items not found", "dead get-hit: FAILED: because"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(text.contains("gone get-hit: skipped: because") && !text.contains("good get-hit"));
    }

    #[test]
    fn charts_and_json_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let figures = Figures { operations_per_second: 5.0, ..Figures::default() };
        let records = [record("good", Outcome::Complete, Some(figures))];
        crate::report::write(dir.path(), &parameters(), &records).unwrap();
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(dir.path().join("summary.json")).unwrap()).unwrap();
        assert_eq!(json["records"][0]["figures"]["operations_per_second"], 5.0);
        assert!(dir.path().join("tables.txt").exists());
    }
}
