//! What a lookup reads where memory is short: no step, and never a page for every run.
//!
//! Stores of three sizes of items are filled and read with from one to sixteen bits of memory an item, all of
//! it: write buffers, filters, indexes and caches. Each is there twice: of the design that a keyspace has
//! when none is given, and of the one that `Options::auto_for` finds for gets and some puts.

use super::lines;
use super::stage::{Contents, Kind, Stage, directory};
use crate::kit::plot::{Axis, Chart};
use crate::kit::sizes;
use crate::kit::table::Table;
use crate::program::failure::{Failure, Result, refused};
use crate::program::output::{note, print};
use serde::{Deserialize, Serialize};
use siltstone::{Mix, Options, Workload};
use siltstone_model::advise::{Request, advise};
use std::path::PathBuf;

/// Bits of memory an item.
const BITS: [f64; 9] = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0];
/// Bytes of a key, and of the values of each size of items.
const KEY_BYTES: u64 = 16;
const VALUE_BYTES: [u64; 3] = [16, 100, 984];
/// A store has no smaller budget than this.
const LEAST_BYTES: u64 = 1 << 20;
/// What the stores are asked, which is what advice is for.
const MIX: Mix = Mix { hits: 0.45, misses: 0.45, scans: 0.0, puts: 0.1 };
/// Items for each read that is measured; as many come before, to fill the caches.
const ITEMS_PER_READ: u64 = 32;

/// Measure what lookups read where memory is short
///
/// Fills and reads stores of items of 32, 116 and 1,000 bytes with 1 to 16 bits of memory an item, of the
/// default design and of the one that is advised. Budgets below 1 MiB are left out: a store needs that much.
/// A run that is ended goes on where it was, by the file --out.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab short-memory --items 8M --out short-memory.jsonl\n  \
    siltstone-lab short-memory --items 8M --bytes 32 --out short-memory.jsonl\n  \
    siltstone-lab short-memory --items 8M --out short-memory.jsonl --table-only --plots docs/images")]
pub struct Args {
    /// Items of a store
    #[arg(long, value_name = "COUNT", default_value = "8M", value_parser = sizes::parse_positive)]
    items: u64,
    /// Only items of so many bytes
    #[arg(long, value_name = "BYTES")]
    bytes: Option<u64>,
    /// The file of records
    #[arg(long, value_name = "FILE", default_value = "short-memory.jsonl")]
    out: PathBuf,
    /// Where stores are written, one at a time [default: the system's temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Directory for the charts, made if missing
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Run nothing, and show what the file has
    #[arg(long)]
    table_only: bool,
}

/// Whose design a store has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Choice {
    Default,
    Auto,
}

impl Choice {
    const BOTH: [Self; 2] = [Self::Default, Self::Auto];

    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Auto => "auto",
        }
    }
}

/// What one store was measured to read.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    items: u64,
    item_bytes: u64,
    bits: f64,
    choice: Choice,
    /// What the advised design was made from.
    design: String,
    reads_per_hit: f64,
    reads_per_miss: f64,
    write_amplification: f64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let mut all: Vec<Measured> = lines::read(&args.out)?;
    all.retain(|measured| measured.items == args.items);
    if !args.table_only {
        for value_bytes in VALUE_BYTES {
            if args.bytes.is_none_or(|only| only == KEY_BYTES + value_bytes) {
                measure_all(args, value_bytes, &mut all)?;
            }
        }
    }
    if let Some(dir) = &args.plots {
        std::fs::create_dir_all(dir).map_err(|e| Failure::at(dir, e))?;
        for (name, title, reads) in PLOTS {
            chart(args, &all, title, reads).save(&dir.join(name))?;
        }
    }
    print(&text(&all))
}

/// Measures what is not in the file yet.
fn measure_all(args: &Args, value_bytes: u64, all: &mut Vec<Measured>) -> Result<()> {
    for bits in BITS {
        let budget_bytes = (args.items as f64 * bits / 8.0) as u64;
        for choice in Choice::BOTH {
            let is_it = |known: &Measured| {
                (known.item_bytes, known.bits, known.choice) == (KEY_BYTES + value_bytes, bits, choice)
            };
            if budget_bytes < LEAST_BYTES || all.iter().any(is_it) {
                continue;
            }
            note!("{} bytes an item, {bits} bits of memory, {}", KEY_BYTES + value_bytes, choice.name());
            let contents = Contents { items: args.items, key_bytes: KEY_BYTES, value_bytes, group: 1 };
            let measured = measure(args, contents, (bits, budget_bytes), choice)?;
            lines::append(&args.out, &measured)?;
            all.push(measured);
        }
    }
    Ok(())
}

fn measure(
    args: &Args,
    contents: Contents,
    (bits, budget_bytes): (f64, u64),
    choice: Choice,
) -> Result<Measured> {
    let workload = Workload { mix: MIX, batch_items: 100.0, ..contents.workload(0.0) };
    let (name, design) = match choice {
        Choice::Default => ("siltstone".to_owned(), None),
        Choice::Auto => {
            let best = advise(&Request::new(workload, budget_bytes)).map_err(refused)?.best;
            (best.name, Some(best.design))
        }
    };
    let options = Options { memory_budget_bytes: budget_bytes, ..Options::default() };
    let dir = directory(args.dir.as_ref(), "short-memory");
    let mut stage = Stage::new(&dir, design.as_ref(), contents, options)?;
    let then = stage.now();
    stage.fill(true)?;
    let put = stage.since(&then, contents.items);
    let count = (contents.items / ITEMS_PER_READ).max(1000);
    Ok(Measured {
        items: args.items,
        item_bytes: contents.key_bytes + contents.value_bytes,
        bits,
        choice,
        design: name,
        reads_per_hit: stage.read(Kind::Hit, count, count)?.device_reads,
        reads_per_miss: stage.read(Kind::Miss, count, count)?.device_reads,
        write_amplification: put.bytes_written * contents.items as f64 / contents.bytes() as f64,
    })
}

fn text(all: &[Measured]) -> String {
    let header = ["bytes an item", "bits", "choice", "design", "hit", "miss", "written"];
    let mut table = Table::new(header).left(4);
    for measured in all {
        table.row([
            measured.item_bytes.to_string(),
            format!("{}", measured.bits),
            measured.choice.name().to_owned(),
            measured.design.clone(),
            format!("{:.3}", measured.reads_per_hit),
            format!("{:.3}", measured.reads_per_miss),
            format!("{:.2}", measured.write_amplification),
        ]);
    }
    format!("Pages read by a get, and bytes written for each byte\n{table}")
}

type Reads = fn(&Measured) -> f64;

/// Files of charts, their titles, and what they show.
const PLOTS: [(&str, &str, Reads); 2] = [
    ("short-memory-hits.svg", "Pages read by a get that finds its item", |measured| measured.reads_per_hit),
    ("short-memory-misses.svg", "Pages read by a get that finds none", |measured| measured.reads_per_miss),
];

fn chart(args: &Args, all: &[Measured], title: &str, reads: Reads) -> Chart {
    let note = format!("{} items, filled and read with that memory; measured", sizes::count(args.items));
    let mut chart = Chart::new(title)
        .x(Axis::logarithmic("bits of memory an item, cache and write buffers included"))
        .y(Axis::linear("pages").from(0.0))
        .note(&note);
    for item_bytes in VALUE_BYTES.map(|bytes| bytes + KEY_BYTES) {
        for choice in Choice::BOTH {
            let of = all.iter().filter(|of| of.item_bytes == item_bytes && of.choice == choice);
            let points: Vec<(f64, f64)> = of.map(|of| (of.bits, reads(of))).collect();
            if !points.is_empty() {
                let name = format!("{}, {item_bytes} bytes an item", choice.name());
                chart = chart.line(&name, points);
            }
        }
    }
    chart
}
