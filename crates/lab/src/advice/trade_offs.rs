//! What memory buys, from `advise`: SlimDB's Figure 9 drawn again for designs of ours, and the trade-offs
//! between SILT, LSM-trie, SlimDB and what is advised.
//!
//! Lines are predicted. The paper's figure counts the I/Os of its own model's layouts with half a billion
//! entries. Here the engine's designs are priced by the engine's planner, and the cost is time of device and
//! processor. With `--measure` stores of some of the points are filled and read, and stand in the second
//! chart as measured points.

use super::lines;
use super::stage::{Contents, Kind, Stage, Taken, directory};
use crate::kit::plot::{Axis, Chart};
use crate::kit::sizes;
use crate::kit::table::Table;
use crate::program::failure::{Failure, Result, refused};
use crate::program::output::{note, print, print_json};
use serde::{Deserialize, Serialize};
use siltstone::{Design, Options, presets};
use siltstone_model::advise::{Request, advise};
use siltstone_model::price::{Costs, Device, Mix, Pricer, Workload};
use std::path::PathBuf;

/// Bytes of memory an item that are tried.
const BYTES_PER_ITEM: [f64; 12] = [0.1, 0.15, 0.22, 0.33, 0.5, 0.7, 1.0, 1.4, 2.0, 2.6, 3.2, 4.0];
/// The presets beside what is advised.
const BESIDE: [&str; 4] = ["silt", "lsm-trie", "slimdb", "siltstone"];

/// Those at which stores are measured.
const MEASURED_BYTES_PER_ITEM: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// Items for each read that is measured; as many come before, to fill the caches.
const ITEMS_PER_READ: u64 = 8;

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
/// advised, on the workload `mix`). Lines are predicted; with --measure stores are filled and read at four of
/// the memory sizes, and give points.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab trade-offs --out docs/images\n  \
    siltstone-lab trade-offs --items 20M --quick --json\n  \
    siltstone-lab trade-offs --items 5M --measure trade-offs.jsonl --out docs/images")]
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
    /// Measure stores as well; presets are scaled to the items then. Records go to this file, from which a
    /// run that was ended goes on
    #[arg(long, value_name = "FILE")]
    measure: Option<PathBuf>,
    /// Where stores are written, one at a time [default: the system's temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
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
    #[serde(skip)]
    design: Design,
}

/// What a store costs that was filled and read.
#[derive(Clone, Serialize, Deserialize)]
struct Measured {
    items: u64,
    bytes_per_item: f64,
    name: String,
    design: Design,
    cost: f64,
    write_amplification: f64,
    reads_per_hit: f64,
    reads_per_miss: f64,
}

impl Point {
    fn of(args: &Args, bytes_per_item: f64, (name, design): (&str, &Design), mix: Mix) -> Result<Self> {
        let pricer = Pricer::new(&workload(args, mix), &Device::default()).map_err(refused)?.over_time();
        let costs = pricer.price(design, memory_bytes(args, bytes_per_item)).map_err(refused)?;
        Ok(Self::new(bytes_per_item, name, design, &costs))
    }

    fn new(bytes_per_item: f64, name: &str, design: &Design, costs: &Costs) -> Self {
        Self {
            bytes_per_item,
            name: name.to_owned(),
            cost: costs.cost,
            write_amplification: costs.change_write_amplification,
            reads_per_hit: costs.reads_per_hit,
            reads_per_miss: costs.reads_per_miss,
            fits: costs.memory_bytes.fits(),
            design: design.clone(),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.out).map_err(|e| Failure::at(&args.out, e))?;
    let mut advised = Vec::new();
    for (name, mix) in WORKLOADS {
        note!("{name}");
        let points = BYTES_PER_ITEM.iter().filter_map(|bytes| best(args, *bytes, mix).transpose());
        advised.push((name, points.collect::<Result<Vec<_>>>()?));
    }
    let beside = BESIDE.iter().map(|name| preset(args, name)).collect::<Result<Vec<_>>>()?;
    let of_mix = advised.last().map(|(_, points)| points.clone()).unwrap_or_default();
    let of_presets = beside.iter().flatten();
    let measured_presets = measure_all(args, of_presets.clone())?;
    let measured_advised = measure_all(args, of_mix.iter())?;
    figure_9(args, &advised).save(&args.out.join("advised-by-memory.svg"))?;
    trade_offs(args, (&beside, &measured_presets), (&of_mix, &measured_advised))
        .save(&args.out.join("trade-offs.svg"))?;
    let all_points: Vec<&Point> = of_presets.chain(&of_mix).collect();
    let measured: Vec<Measured> = measured_presets.iter().chain(&measured_advised).cloned().collect();
    let measured = if measured.is_empty() { String::new() } else { measured_text(&measured, &all_points) };
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
    print(&format!("What is advised for {} items, predicted\n{table}{measured}", sizes::count(args.items)))
}

/// Each item is overwritten once.
fn workload(args: &Args, mix: Mix) -> Workload {
    Workload { mix, ..contents(args).workload(1.0) }
}

fn memory_bytes(args: &Args, bytes_per_item: f64) -> u64 {
    (args.items as f64 * bytes_per_item) as u64
}

/// What is advised; none where no design fits.
fn best(args: &Args, bytes_per_item: f64, mix: Mix) -> Result<Option<Point>> {
    let (workload, memory) = (workload(args, mix), memory_bytes(args, bytes_per_item));
    let request = if args.quick { Request::quick(workload, memory) } else { Request::new(workload, memory) };
    let advice = match advise(&request) {
        Err(error) if error.parameter() == "memory" => return Ok(None),
        advice => advice.map_err(refused)?,
    };
    let best = &advice.best;
    Ok(Some(Point::new(bytes_per_item, &best.name, &best.design, &best.predicted)))
}

/// A preset at every memory size, on the last workload; what does not fit is read instead.
fn preset(args: &Args, name: &str) -> Result<Vec<Point>> {
    let mix = WORKLOADS.last().map_or_else(Mix::default, |(_, mix)| *mix);
    let Some((_, design)) = presets::all().into_iter().find(|(known, _)| *known == name) else {
        return Err(Failure::Failed(format!("there is no preset {name}")));
    };
    let at = |bytes: &f64| {
        let (is_measured, memory) = (args.measure.is_some(), memory_bytes(args, *bytes));
        let design = if is_measured { contents(args).scaled(&design, memory) } else { design.clone() };
        Point::of(args, *bytes, (name, &design), mix)
    };
    BYTES_PER_ITEM.iter().map(at).collect()
}

fn contents(args: &Args) -> Contents {
    Contents { items: args.items, key_bytes: 16, value_bytes: 100, group: 1 }
}

/// Measures the points of some memory sizes; those that the file has are not measured again.
fn measure_all<'a>(args: &Args, points: impl Iterator<Item = &'a Point>) -> Result<Vec<Measured>> {
    let Some(file) = &args.measure else { return Ok(Vec::new()) };
    let known: Vec<Measured> = lines::read(file)?;
    let mut all = Vec::new();
    for point in points.filter(|point| MEASURED_BYTES_PER_ITEM.contains(&point.bytes_per_item)) {
        let is_it = |known: &&Measured| {
            known.items == args.items
                && known.bytes_per_item == point.bytes_per_item
                && known.design == point.design
        };
        let measured = match known.iter().find(is_it) {
            Some(known) => Measured { name: point.name.clone(), ..known.clone() },
            None => {
                note!("{} with {} bytes an item", point.name, point.bytes_per_item);
                let measured = measure(args, point)?;
                lines::append(file, &measured)?;
                measured
            }
        };
        all.push(measured);
    }
    Ok(all)
}

/// Fills a store, overwrites and reads it, and takes what the workload `mix` costs.
fn measure(args: &Args, point: &Point) -> Result<Measured> {
    let contents = contents(args);
    let memory_budget_bytes = memory_bytes(args, point.bytes_per_item);
    let options = Options { memory_budget_bytes, ..Options::default() };
    let dir = directory(args.dir.as_ref(), "trade-offs");
    let mut stage = Stage::new(&dir, Some(&point.design), contents, options)?;
    stage.fill(true)?;
    let reads = [Kind::Hit, Kind::Miss].map(|kind| (kind, ITEMS_PER_READ));
    let ([hit, miss], put) = stage.read_while_overwritten(reads)?;
    let mix = WORKLOADS.last().map_or_else(Mix::default, |(_, mix)| *mix);
    let [of_hits, of_misses, _, of_puts] = mix.shares();
    let cost = |taken: Taken| taken.cost_us(&Device::default());
    Ok(Measured {
        items: args.items,
        bytes_per_item: point.bytes_per_item,
        name: point.name.clone(),
        design: point.design.clone(),
        cost: of_hits * cost(hit) + of_misses * cost(miss) + of_puts * cost(put),
        write_amplification: put.bytes_written * args.items as f64 / contents.bytes() as f64,
        reads_per_hit: hit.device_reads,
        reads_per_miss: miss.device_reads,
    })
}

fn measured_text(measured: &[Measured], points: &[&Point]) -> String {
    let header = ["bytes an item", "design", "µs", "written", "hit", "miss"];
    let mut table = Table::new(header).left(2);
    for of in measured {
        let is_it = |point: &&&Point| point.design == of.design && point.bytes_per_item == of.bytes_per_item;
        let Some(point) = points.iter().find(is_it) else { continue };
        let both = |measured: f64, predicted: f64| format!("{measured:.2} / {predicted:.2}");
        table.row([
            format!("{:.1}", of.bytes_per_item),
            of.name.clone(),
            both(of.cost, point.cost),
            both(of.write_amplification, point.write_amplification),
            both(of.reads_per_hit, point.reads_per_hit),
            both(of.reads_per_miss, point.reads_per_miss),
        ]);
    }
    format!("\nThe workload mix, measured / predicted\n{table}")
}

fn chart(args: &Args, title: &str) -> Chart {
    let rings = if args.measure.is_some() { ", rings are measured" } else { "" };
    let note = format!("{} items of 16 + 100 bytes; lines are predicted{rings}", sizes::count(args.items));
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

/// Each preset and what is advised: predicted, and measured as far as it was.
fn trade_offs(
    args: &Args,
    (beside, measured_beside): (&[Vec<Point>], &[Measured]),
    (advised, measured_advised): (&[Point], &[Measured]),
) -> Chart {
    let title = "SILT, LSM-trie, SlimDB and the default beside what is advised (mix)";
    let both = |chart: Chart, name: &str, points: &[Point], measured: Vec<&Measured>| {
        let chart = chart.line(name, points.iter().map(|point| (point.bytes_per_item, point.cost)));
        if measured.is_empty() {
            return chart;
        }
        let measured = measured.into_iter().map(|measured| (measured.bytes_per_item, measured.cost));
        chart.printed(&format!("{name}, measured"), measured)
    };
    let cost = Axis::logarithmic("µs of device and processor an operation");
    let presets = BESIDE.iter().zip(beside).fold(chart(args, title).y(cost), |chart, (name, points)| {
        let measured = measured_beside.iter().filter(|measured| measured.name == *name);
        both(chart, name, points, measured.collect())
    });
    both(presets, "advised", advised, measured_advised.iter().collect())
}
