//! What `siltstone tune` shows: for people as a page, for programs as one JSON object.

use super::Outcome;
use crate::sizes;
use crate::table::Table;
use serde_json::{Value, json};
use siltstone_model::Direct;
use siltstone_model::tune::course::Course;
use siltstone_model::tune::predict::Prediction;
use siltstone_model::tune::settings::{Remark, Style};
use siltstone_model::tune::suggest::Change;
use std::fmt::Write as _;

/// One JSON object.
pub fn json(outcome: &Outcome) -> Value {
    let Outcome { settings, workload, measured, advice } = outcome;
    json!({
        "settings": settings,
        "workload": {
            "keys": workload.popularity.keys(),
            "course": workload.course,
            "skew": workload.skew,
            "item_bytes": workload.item,
            "level0_tables_per_compaction": workload.level0_tables,
        },
        "measured": measured,
        "before": advice.now,
        "changes": advice.changes,
        "after": advice.after,
        "once_loaded": advice.updates,
        "alternatives": advice.alternatives,
        "remarks": remarks(outcome),
        "siltstone": super::siltstone::costs(workload),
    })
}

/// A page of text.
pub fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    workload(outcome, &mut text);
    predictions(outcome, &mut text);
    changes(outcome, &mut text);
    alternatives(outcome, &mut text);
    if let Some(line) = super::siltstone::line(&outcome.workload) {
        let _ = writeln!(text, "\n{line}");
    }
    let remarks = remarks(outcome);
    if !remarks.is_empty() {
        text.push_str("\nLeft out, assumed or noticed\n");
        for Remark { setting, effect } in remarks {
            let _ = writeln!(text, "  {setting}: {effect}");
        }
    }
    text
}

fn remarks(outcome: &Outcome) -> Vec<&Remark> {
    outcome.settings.remarks.iter().chain(&outcome.workload.remarks).collect()
}

fn workload(outcome: &Outcome, text: &mut String) {
    let Outcome { settings, workload, .. } = outcome;
    let keys = sizes::count(workload.course.live(&Direct::new(&workload.popularity)).round() as u64);
    let popularity = match workload.skew {
        Some(skew) if skew < 0.05 => "about equally popular".to_owned(),
        Some(skew) => format!("Zipf {skew:.3}"),
        None => "popularity from the trace".to_owned(),
    };
    let loaded = if workload.course == Course::Updates { "" } else { " after the load" };
    let style = match settings.style {
        Style::Leveled if settings.dynamic_level_bytes => "leveled, level sizes from the last level's",
        Style::Leveled => "leveled",
        Style::Universal { .. } => "universal",
    };
    let _ = writeln!(
        text,
        "Store: {keys} keys{loaded}, {popularity}; {:.0} bytes an item in tables; {style}",
        workload.item.table
    );
}

fn predictions(outcome: &Outcome, text: &mut String) {
    let Outcome { measured, advice, .. } = outcome;
    let changed = !advice.changes.is_empty();
    let mut table = if changed { Table::new(["", "now", "then"]) } else { Table::new(["", "now"]) };
    let mut row = |name: &str, cell: &dyn Fn(&Prediction) -> String| {
        let mut cells = vec![name.to_owned(), cell(&advice.now)];
        if changed {
            cells.push(cell(&advice.after));
        }
        table.row(cells);
    };
    row("write amplification, predicted", &|p| format!("{:.2}", p.write_amplification));
    if let Some(updates) = &advice.updates {
        let cells = ["  once loaded, of updates".to_owned(), format!("{:.2}", updates.now)];
        table.row(cells.into_iter().chain(changed.then(|| format!("{:.2}", updates.after))));
    }
    if let Some(measured) = measured {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
        let mut line = |name: &str, value| {
            table.row(if changed {
                vec![name.to_owned(), number(value), String::new()]
            } else {
                vec![name.to_owned(), number(value)]
            });
        };
        line("  measured since the store was opened", measured.write_amplification);
        if measured.later_write_amplification.is_some() {
            line("  measured in the later half of that", measured.later_write_amplification);
        }
    }
    let steps = advice.now.steps.len().max(advice.after.steps.len());
    for number in 0..steps {
        let step = |p: &Prediction| {
            p.steps.get(number).map_or("–".to_owned(), |s| format!("{:.2}", s.write_amplification))
        };
        let Some(named) = advice.now.steps.get(number).or(advice.after.steps.get(number)) else { continue };
        let mut cells = vec![format!("  {} → {}", named.from, named.to), step(&advice.now)];
        if changed {
            cells.push(step(&advice.after));
        }
        table.row(cells);
    }
    let mut row = |name: &str, cell: &dyn Fn(&Prediction) -> String| {
        let mut cells = vec![name.to_owned(), cell(&advice.now)];
        if changed {
            cells.push(cell(&advice.after));
        }
        table.row(cells);
    };
    row("sorted runs a miss passes, on average", &|p| format!("{:.1}", p.sorted_runs));
    row("memory of memtables, at most", &|p| sizes::bytes(p.memtable_bytes as u64));
    row("tables over live data", &|p| format!("{:.2}", p.space_amplification));
    row("largest compaction out of level 0", &|p| sizes::bytes(p.level0_compaction_bytes as u64));
    row("levels", &|p| {
        let sizes: Vec<String> = p.level_bytes.iter().map(|bytes| sizes::bytes(*bytes as u64)).collect();
        sizes.join(", ")
    });
    let _ = write!(text, "\n{table}");
}

fn changes(outcome: &Outcome, text: &mut String) {
    let advice = &outcome.advice;
    if advice.changes.is_empty() {
        let why = match outcome.settings.style {
            Style::Leveled => {
                "Level sizes are fine as they are: no others save 1 % without more levels or memory."
            }
            Style::Universal { .. } => {
                "No change is proposed for universal compaction; see below what memory would do."
            }
        };
        let _ = writeln!(text, "\n{why}");
        return;
    }
    let saved = 100.0 * (1.0 - advice.after.write_amplification / advice.now.write_amplification);
    let _ =
        writeln!(text, "\nTo change, for {saved:.0} % less to write with as many levels and as much memory");
    for change in &advice.changes {
        let _ = writeln!(text, "  {}", described(change));
    }
}

fn described(change: &Change) -> String {
    let Change { name, from, to } = change;
    let readable = |value: &str| match value.parse::<u64>() {
        Ok(bytes) if bytes >= 1 << 20 => format!("{value} ({})", sizes::bytes(bytes)),
        _ => value.to_owned(),
    };
    format!("{name}: {} → {}", readable(from), readable(to))
}

fn alternatives(outcome: &Outcome, text: &mut String) {
    if outcome.advice.alternatives.is_empty() {
        return;
    }
    let mut table = Table::new([
        "or, at a price",
        "writes",
        "runs",
        "memtables",
        "tables over data",
        "level-0 compaction",
    ]);
    for other in &outcome.advice.alternatives {
        table.row([
            other.what.clone(),
            format!("{:.2}", other.prediction.write_amplification),
            format!("{:.1}", other.prediction.sorted_runs),
            sizes::bytes(other.prediction.memtable_bytes as u64),
            format!("{:.2}", other.prediction.space_amplification),
            sizes::bytes(other.prediction.level0_compaction_bytes as u64),
        ]);
        for change in &other.changes {
            table.row([format!("    {}={}", change.name, change.to)]);
        }
    }
    let _ = write!(text, "\n{table}");
}
