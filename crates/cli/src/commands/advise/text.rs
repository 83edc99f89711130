//! Advice for people who read it in a terminal.

use crate::sizes;
use crate::table::Table;
use siltstone_model::advise::{Advice, Request, strata};
use siltstone_model::price::Costs;
use std::fmt::Write;

/// The columns of a price.
const COLUMNS: [&str; 10] = [
    "design",
    "µs an operation",
    "written",
    "reads: hit",
    "miss",
    "scan",
    "filters, indexes",
    "bits an item",
    "space",
    "peak",
];

/// A page of text.
pub fn text(request: &Request, advice: &Advice, seconds: f64) -> String {
    let workload = &request.workload;
    let mut text = String::new();
    let best = &advice.best;
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "{}{} items of {} + {} bytes, {} of memory: {}\n",
        sizes::count(workload.items as u64),
        workload.items_at_end.map_or_else(String::new, |items| format!(" to {}", sizes::count(items as u64))),
        workload.key_bytes,
        workload.mean_value_bytes(),
        sizes::bytes(request.memory_bytes),
        best.name
    );
    for line in strata(&best.design) {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "  leaves hold {:.0} % of garbage at most\n", best.design.max_garbage * 100.0);
    for sentence in &best.why {
        let _ = writeln!(text, "{sentence}");
    }
    let mut table = Table::new(COLUMNS);
    for choice in &advice.front {
        table.row(row(&choice.name, &choice.predicted));
    }
    let _ =
        write!(text, "\nNone of these is beaten in bytes written, reads, memory and space at once\n{table}");
    let mut table = Table::new(COLUMNS);
    for (name, costs) in &advice.presets {
        table.row(row(name, costs));
    }
    let _ = write!(text, "\nThe presets\n{table}");
    let refused: usize = advice.refused.values().sum();
    let _ = writeln!(
        text,
        "\n{} designs priced in {seconds:.2} s, {refused} of them beyond a limit. --json prints the design for `bench --design`",
        advice.considered
    );
    text
}

fn row(name: &str, costs: &Costs) -> [String; 10] {
    let memory = &costs.memory_bytes;
    let unfitted = if memory.unfitted() > 0.0 { " (too many)" } else { "" };
    [
        name.to_owned(),
        format!("{:.2}", costs.cost),
        format!("{:.2}", costs.write_amplification),
        format!("{:.3}", costs.reads_per_hit),
        format!("{:.3}", costs.reads_per_miss),
        format!("{:.1}", costs.reads_per_scan),
        format!("{}{unfitted}", sizes::bytes((memory.filter + memory.index + memory.unfitted()) as u64)),
        format!("{:.2}", costs.filter_bits_per_item + costs.index_bits_per_item),
        format!("{:.2}", costs.space_amplification),
        format!("{:.2}", costs.peak_space_amplification),
    ]
}
