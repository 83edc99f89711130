//! `siltstone model slimdb`: which indexes and filters each level should have, for a memory budget and an
//! operation mix.

use crate::failure::{Result, refused, usage};
use crate::output::{print, print_json};
use crate::sizes::{parse_positive, parse_size};
use crate::table::Table;
use siltstone_model::cost::slimdb::{Mix, Priced, Row, SlimDb, SteppedWrites, WriteWeights};
use std::fmt::Write as _;

/// Choose SlimDB's layout level by level, by its paper's model (VLDB 2017, section 4); the defaults are its
/// Figure 9
///
/// Without a budget, lists the cheapest layouts from 256 MB to 900 MB for the paper's four workloads. Costs
/// are in random reads of a block per operation.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone model slimdb\n  \
    siltstone model slimdb --max-stepped-levels 3      the paper's reading: one layout for all workloads\n  \
    siltstone model slimdb --memory 300MB --mix 0.5,0.25,0.25 --json")]
pub struct Args {
    /// Memory for filters and indexes
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Shares of lookups that find their key, lookups that don't, and writes
    #[arg(long, value_name = "FOUND,MISSED,WRITES", value_delimiter = ',', num_args = 1)]
    mix: Option<Vec<f64>>,
    /// At most so many levels may hold several runs [default: no limit]
    #[arg(long, value_name = "COUNT")]
    max_stepped_levels: Option<u32>,
    /// Levels
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    levels: u32,
    /// Growth from level to level, and runs of a stepped level
    #[arg(long, value_name = "FACTOR", default_value_t = 8.0)]
    growth: f64,
    /// Entries of the first level
    #[arg(long, value_name = "COUNT", value_parser = parse_positive, default_value = "131072")]
    first_level_items: u64,
    /// Entries in a block
    #[arg(long, value_name = "COUNT", default_value_t = 16.0)]
    block_items: f64,
    /// False-positive rate of a level's filter
    #[arg(long, value_name = "RATE", default_value_t = 0.001)]
    false_positive_rate: f64,
    /// Cost of writing a block in sequence, in random reads
    #[arg(long, value_name = "READS", default_value_t = 0.146)]
    block_write: f64,
    /// Charge plain stepped merge as Table 1 prints it (r·w/B instead of w/B)
    #[arg(long)]
    printed_row_4: bool,
    /// Charge every entry for every level, not only for those above the one it rests in
    #[arg(long)]
    cumulative_writes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A stretch of budgets with the same best layout.
#[derive(serde::Serialize)]
struct Stretch {
    from_bytes: f64,
    to_bytes: f64,
    layout: Vec<u8>,
    rows: Vec<&'static str>,
    memory_bytes: f64,
    cost: f64,
}

impl Stretch {
    /// Whether people are shown it; most stretches are narrower than anyone would set a budget.
    fn is_wide(&self) -> bool {
        self.to_bytes - self.from_bytes >= 1e6
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let store = store(args);
    let mixes = mixes(args)?;
    let range = match args.memory {
        Some(bytes) => (bytes as f64, bytes as f64),
        None => (256e6, 900e6),
    };
    let mut all = Vec::new();
    for (name, mix) in mixes {
        all.push((name, mix, stretches(&store.front(mix).map_err(refused)?, range)));
    }
    if args.json {
        let workloads: Vec<_> = all
            .iter()
            .map(|(name, mix, stretches)| serde_json::json!({"name": name, "mix": mix, "best": stretches}))
            .collect();
        return print_json(&serde_json::json!({"store": store, "workloads": workloads}));
    }
    print(&page(&store, &all))
}

fn store(args: &Args) -> SlimDb {
    SlimDb {
        levels: args.levels,
        growth: args.growth,
        first_level_items: args.first_level_items as f64,
        block_items: args.block_items,
        false_positive_rate: args.false_positive_rate,
        block_write: args.block_write,
        stepped_writes: if args.printed_row_4 { SteppedWrites::Printed } else { SteppedWrites::Once },
        write_weights: if args.cumulative_writes { WriteWeights::Cumulative } else { WriteWeights::Resting },
        max_stepped_levels: args.max_stepped_levels,
    }
}

fn mixes(args: &Args) -> Result<Vec<(&'static str, Mix)>> {
    let Some(shares) = &args.mix else { return Ok(Mix::FIGURE_9.to_vec()) };
    let &[positive_reads, negative_reads, writes] = shares.as_slice() else {
        usage!("--mix: {} shares given; give three, such as 0.5,0.25,0.25", shares.len());
    };
    let sum = positive_reads + negative_reads + writes;
    if shares.iter().any(|share| !(0.0..=1.0).contains(share)) || (sum - 1.0).abs() > 1e-6 {
        usage!("--mix: shares must be 0 to 1 and add up to 1, such as 0.5,0.25,0.25");
    }
    Ok(vec![("given", Mix { positive_reads, negative_reads, writes })])
}

/// What is best where between two budgets.
fn stretches(front: &[Priced], (from, to): (f64, f64)) -> Vec<Stretch> {
    let ends = front.iter().skip(1).map(|next| next.memory_bytes).chain([f64::INFINITY]);
    front
        .iter()
        .zip(ends)
        .filter(|(layout, end)| layout.memory_bytes <= to && *end > from)
        .map(|(layout, end)| Stretch {
            from_bytes: layout.memory_bytes.max(from),
            to_bytes: end.min(to),
            layout: layout.numbers(),
            rows: layout.rows.iter().map(|row| row.name()).collect(),
            memory_bytes: layout.memory_bytes,
            cost: layout.cost,
        })
        .collect()
}

fn page(store: &SlimDb, all: &[(&str, Mix, Vec<Stretch>)]) -> String {
    let items: f64 = store.level_items().iter().sum();
    let mut text = format!("{} levels, {:.0} million entries in all", store.levels, items / 1e6);
    let _ = match store.max_stepped_levels {
        Some(most) => writeln!(text, ", at most {most} of them stepped\n"),
        None => writeln!(text, "\n"),
    };
    let mut table = Table::new(["workload", "layout", "budget, MB", "takes, MB", "cost"]).left(3);
    for (name, _, stretches) in all {
        if stretches.is_empty() {
            table.row([*name, "none fits", "", "", ""]);
        }
        for stretch in stretches.iter().filter(|stretch| stretches.len() == 1 || stretch.is_wide()) {
            let layout: Vec<String> = stretch.layout.iter().map(u8::to_string).collect();
            table.row([
                (*name).to_owned(),
                format!("({})", layout.join(",")),
                format!("{:.1} to {:.1}", stretch.from_bytes / 1e6, stretch.to_bytes / 1e6),
                format!("{:.1}", stretch.memory_bytes / 1e6),
                format!("{:.4}", stretch.cost),
            ]);
        }
    }
    let narrow =
        all.iter().flat_map(|(_, _, stretches)| stretches).filter(|stretch| !stretch.is_wide()).count();
    let _ = write!(text, "{table}");
    if narrow > 0 && all.iter().any(|(_, _, stretches)| stretches.len() > 1) {
        let _ = writeln!(
            text,
            "\n{narrow} more layouts are best for less than 1 MB of budget each; --json lists them."
        );
    }
    let _ = write!(text, "\nRows:");
    for row in Row::ALL {
        let _ = write!(text, "  {} {}", row.number(), row.name());
    }
    text.push('\n');
    text
}
