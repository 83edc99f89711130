//! Advice for people who read it in a terminal.

use crate::sizes;
use crate::table::Table;
use siltstone_model::advise::{Advice, Request, strata};
use siltstone_model::price::{Costs, Workload};
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
        workload.key_bytes.round(),
        workload.mean_value_bytes().round(),
        sizes::bytes(request.memory_bytes),
        best.name
    );
    let _ = writeln!(text, "{}\n", operations(workload));
    for line in strata(&best.design) {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "  leaves hold {:.0} % of garbage at most\n", best.design.max_garbage * 100.0);
    for sentence in &best.why {
        let _ = writeln!(text, "{sentence}");
    }
    if advice.front.len() > 1 {
        let mut table = Table::new(COLUMNS);
        for choice in &advice.front {
            table.row(row(&choice.name, &choice.predicted));
        }
        let _ = write!(
            text,
            "\nNone of these is beaten in bytes written, reads, memory and space at once; at the ends of the list is what the \
             least of one of them takes of the others\n{table}"
        );
    }
    let mut table = Table::new(COLUMNS);
    for (name, costs) in &advice.presets {
        table.row(row(name, costs));
    }
    let presets = if advice.presets.len() == 1 { "The preset" } else { "The presets" };
    let _ = write!(text, "\n{presets}\n{table}");
    let _ = writeln!(text, "\n{}. --json prints the design for `bench --design`", looked_at(advice, seconds));
    text
}

/// How much was looked at.
fn looked_at(advice: &Advice, seconds: f64) -> String {
    let refused: usize = advice.refused.values().sum();
    match (advice.considered, refused) {
        (1, 0) => format!("1 design priced in {seconds:.2} s, which keeps to every limit"),
        (1, _) => format!("1 design priced in {seconds:.2} s, which is beyond a limit"),
        (all, _) => format!("{all} designs priced in {seconds:.2} s, {refused} of them beyond a limit"),
    }
}

/// A number with two decimals at most.
fn short(number: f64) -> String {
    ((number * 100.0).round() / 100.0).to_string()
}

/// What is done with the store: as it was given, or taken for granted.
fn operations(workload: &Workload) -> String {
    let mix = workload.mix.normalized();
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut text = format!(
        "Operations: {} gets that find an item, {} that find none",
        percent(mix.hits),
        percent(mix.misses)
    );
    if mix.scans > 0.0 {
        let _ = write!(text, ", {} scans of a group", percent(mix.scans));
    }
    let _ = write!(text, ", {} puts", percent(mix.puts));
    if mix.puts <= 0.0 {
        text.push_str(
            ": nothing that writing costs is weighed (shares of --reads and --scans leave the rest to puts)",
        );
    }
    let per_item = workload.changes() / workload.items;
    if per_item > 0.0 {
        let _ = write!(text, "; each item is overwritten or deleted {per_item:.2} times on the average");
    }
    match (workload.skew, workload.read_skew) {
        (skew, Some(read)) => {
            let _ = write!(text, "; skew {} of writes, {} of reads", short(skew), short(read));
        }
        (skew, None) if skew > 0.0 => {
            let _ = write!(text, "; skew {}", short(skew));
        }
        _ => text.push_str("; all items alike"),
    }
    text.push('.');
    text
}

fn row(name: &str, costs: &Costs) -> [String; 10] {
    let memory = &costs.memory_bytes;
    let unfitted = if memory.fits() { "" } else { " (too many)" };
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
