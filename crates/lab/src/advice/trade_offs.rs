//! What memory buys, from `advise`: SlimDB's Figure 9 drawn again for designs of ours, and the trade-offs
//! between SILT, LSM-trie, SlimDB and what is advised.
//!
//! All of it is predicted. The paper's figure counts the I/Os of its own model's layouts with half a billion
//! entries. Here the engine's designs are priced by the engine's planner, and the cost is time of device and
//! processor.

use crate::kit::plot::{Axis, Chart};
use crate::kit::sizes;
use crate::kit::table::Table;
use crate::program::failure::{Failure, Result, refused};
use crate::program::output::{note, print, print_json};
use serde::Serialize;
use siltstone::presets;
use siltstone_model::advise::{Request, advise};
use siltstone_model::price::{Costs, Device, Mix, Pricer, Workload};
use std::path::PathBuf;

/// Bytes of memory an item that are tried.
const BYTES_PER_ITEM: [f64; 12] = [0.1, 0.15, 0.22, 0.33, 0.5, 0.7, 1.0, 1.4, 2.0, 2.6, 3.2, 4.0];
/// The presets beside what is advised.
const BESIDE: [&str; 4] = ["silt", "lsm-trie", "slimdb", "siltstone"];

/// The paper's workloads of file metadata (SlimDB §4): which operations there are.
const WORKLOADS: [(&str, Mix); 4] = [
    ("creation", Mix { hits: 0.0, misses: 0.5, scans: 0.0, puts: 0.5 }),
    ("update", Mix { hits: 0.5, misses: 0.0, scans: 0.0, puts: 0.5 }),
    ("stat", Mix { hits: 1.0, misses: 0.0, scans: 0.0, puts: 0.0 }),
    ("mix", Mix { hits: 0.5, misses: 0.25, scans: 0.0, puts: 0.25 }),
];

/// Draw what memory buys: SlimDB's Figure 9, and SILT, LSM-trie and SlimDB beside what is advised
///
/// Sweeps the memory from 0.1 to 4 bytes an item. Writes `advised-by-memory.svg` (the paper's four workloads,
/// each with the design that is advised at that memory) and `trade-offs.svg` (four presets and what is
/// advised, on the workload `mix`). Both are predicted.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab trade-offs --out docs/images\n  \
    siltstone-lab trade-offs --items 20M --quick --json")]
pub struct Args {
    /// Items of 16 + 100 bytes
    #[arg(long, value_name = "COUNT", default_value = "500M", value_parser = sizes::parse_positive)]
    items: u64,
    /// Directory for the charts, made if missing
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// Presets at several sizes only, rather than a search
    #[arg(long)]
    quick: bool,
    /// Print the points as one JSON object
    #[arg(long)]
    json: bool,
}

/// One design at one memory size.
#[derive(Clone, Serialize)]
struct Point {
    bytes_per_item: f64,
    name: String,
    cost: f64,
    write_amplification: f64,
    reads_per_hit: f64,
    reads_per_miss: f64,
    fits: bool,
}

impl Point {
    fn of(bytes_per_item: f64, name: &str, costs: &Costs, mix: &Mix) -> Self {
        Self {
            bytes_per_item,
            name: name.to_owned(),
            cost: costs.operation_cost.of(mix),
            write_amplification: costs.write_amplification,
            reads_per_hit: costs.reads_per_hit,
            reads_per_miss: costs.reads_per_miss,
            fits: costs.memory_bytes.unfitted() <= 0.0,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.out).map_err(|e| Failure::at(&args.out, e))?;
    let mut advised = Vec::new();
    for (name, mix) in WORKLOADS {
        note!("{name}");
        advised.push((
            name,
            BYTES_PER_ITEM.iter().filter_map(|bytes| best(args, *bytes, mix)).collect::<Vec<_>>(),
        ));
    }
    let beside = BESIDE.iter().map(|name| preset(args, name)).collect::<Result<Vec<_>>>()?;
    let of_mix = advised.last().map(|(_, points)| points.clone()).unwrap_or_default();
    figure_9(args, &advised).save(&args.out.join("advised-by-memory.svg"))?;
    trade_offs(args, &beside, &of_mix).save(&args.out.join("trade-offs.svg"))?;
    if args.json {
        let advised: std::collections::BTreeMap<_, _> = advised.into_iter().collect();
        let presets: std::collections::BTreeMap<_, _> = BESIDE.into_iter().zip(beside).collect();
        return print_json(&serde_json::json!({ "advised": advised, "presets": presets }));
    }
    let mut table =
        Table::new(["bytes an item", "workload", "design", "µs", "written", "hit", "miss"]).left(3);
    for (name, points) in &advised {
        for point in points {
            table.row([
                format!("{:.2}", point.bytes_per_item),
                (*name).to_owned(),
                point.name.clone(),
                format!("{:.2}", point.cost),
                format!("{:.2}", point.write_amplification),
                format!("{:.3}", point.reads_per_hit),
                format!("{:.3}", point.reads_per_miss),
            ]);
        }
    }
    print(&format!("What is advised for {} items, predicted\n{table}", sizes::count(args.items)))
}

fn workload(args: &Args, mix: Mix) -> Workload {
    Workload { items: args.items as f64, batch_items: 100.0, mix, ..Workload::default() }
}

fn memory_bytes(args: &Args, bytes_per_item: f64) -> u64 {
    (args.items as f64 * bytes_per_item) as u64
}

/// What is advised; none where no design fits.
fn best(args: &Args, bytes_per_item: f64, mix: Mix) -> Option<Point> {
    let (workload, memory) = (workload(args, mix), memory_bytes(args, bytes_per_item));
    let request = if args.quick { Request::quick(workload, memory) } else { Request::new(workload, memory) };
    let advice = advise(&request).ok()?;
    Some(Point::of(bytes_per_item, &advice.best.name, &advice.best.predicted, &mix))
}

/// A preset at every memory size, on the last workload; what does not fit is read instead.
fn preset(args: &Args, name: &str) -> Result<Vec<Point>> {
    let mix = WORKLOADS.last().map_or_else(Mix::default, |(_, mix)| *mix);
    let pricer = Pricer::new(&workload(args, mix), &Device::default()).map_err(refused)?;
    let Some((_, design)) = presets::all().into_iter().find(|(known, _)| *known == name) else {
        return Err(Failure::Failed(format!("there is no preset {name}")));
    };
    let store = pricer.filled(&design, false).map_err(refused)?;
    let at = |bytes: &f64| Point::of(*bytes, name, &store.costs(memory_bytes(args, *bytes)), &mix);
    Ok(BYTES_PER_ITEM.iter().map(at).collect())
}

fn chart(args: &Args, title: &str) -> Chart {
    let note = format!("{} items of 16 + 100 bytes; predicted, not measured", sizes::count(args.items));
    Chart::new(title)
        .x(Axis::logarithmic("bytes of memory an item, cache and write buffers included"))
        .y(Axis::linear("µs of device and processor an operation").from(0.0))
        .note(&note)
}

fn figure_9(args: &Args, advised: &[(&str, Vec<Point>)]) -> Chart {
    let title = "What memory buys, each point with the design that is advised for it";
    advised.iter().fold(chart(args, title), |chart, (name, points)| {
        chart.line(name, points.iter().map(|point| (point.bytes_per_item, point.cost)))
    })
}

fn trade_offs(args: &Args, beside: &[Vec<Point>], advised: &[Point]) -> Chart {
    let title = "SILT, LSM-trie, SlimDB and the default beside what is advised (mix)";
    let points = |points: &[Point]| -> Vec<(f64, f64)> {
        points.iter().map(|point| (point.bytes_per_item, point.cost)).collect()
    };
    let mut all = chart(args, title);
    for (name, of_preset) in BESIDE.iter().zip(beside) {
        all = all.line(name, points(of_preset));
    }
    all.line("advised", points(advised))
}
