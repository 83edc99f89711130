//! `siltstone model sweep`: write amplification over a range of one parameter.

use super::parameters::{Layout, Model, Parameters};
use crate::failure::{Result, refused, usage};
use crate::output::{print, print_json};
use crate::plot::{Axis, Chart};
use crate::sizes;
use crate::table::Table;
use serde::Serialize;
use siltstone_model::Direct;
use siltstone_model::optimize::Optimizer;
use siltstone_model::read::Queries;
use std::path::PathBuf;

/// Estimate write and read amplification while one parameter varies
///
/// --vary names the parameter as its flag is named: keys, item-bytes, skew, write-buffer, l0-files, level1,
/// growth or levels. With --optimize, leveled engines also show what the best level sizes would write.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone model sweep --engine leveldb --keys 100M --vary skew=0,0.2,0.4,0.8,0.99,1.2 --optimize\n  \
    siltstone model sweep --engine leveldb --keys 10M --vary write-buffer=4M,16M,64M,256M --model v2 --plot sweep.svg")]
pub struct Args {
    #[command(flatten)]
    parameters: Parameters,
    /// The parameter and its values
    #[arg(long, value_name = "NAME=A,B,…", value_parser = parse_range)]
    vary: Range,
    /// Also find the best level sizes for each value
    #[arg(long)]
    optimize: bool,
    /// Draw it into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print {"parameter": …, "rows": [{"value", "write_amplification", "read_amplification", "optimized",
    /// …}]}
    #[arg(long)]
    json: bool,
}

/// A parameter and what it is to be.
#[derive(Clone, Debug)]
struct Range {
    name: String,
    values: Vec<String>,
}

fn parse_range(text: &str) -> std::result::Result<Range, String> {
    let (name, values) =
        text.split_once('=').ok_or("write a parameter and its values, like skew=0,0.5,0.99")?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        return Err("a value is missing; write them like skew=0,0.5,0.99".to_owned());
    }
    Ok(Range { name: name.trim().to_owned(), values })
}

#[derive(Serialize)]
struct Row {
    value: String,
    write_amplification: f64,
    read_amplification: f64,
    optimized: Option<f64>,
    level_sizes_items: Vec<f64>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let rows: Vec<Row> = args.vary.values.iter().map(|value| row(args, value)).collect::<Result<_>>()?;
    if let Some(file) = &args.plot {
        draw(args, &rows).save(file)?;
    }
    if args.json {
        return print_json(&serde_json::json!({
            "engine": args.parameters.engine_name(), "parameter": args.vary.name, "rows": rows,
        }));
    }
    let mut header = vec![args.vary.name.as_str(), "write amp.", "read amp."];
    if args.optimize {
        header.push("write amp. at best sizes");
    }
    let mut table = Table::new(header);
    for row in &rows {
        let mut cells = vec![
            row.value.clone(),
            format!("{:.2}", row.write_amplification),
            format!("{:.2}", row.read_amplification),
        ];
        cells.extend(row.optimized.map(|best| format!("{best:.2}")));
        table.row(cells);
    }
    print(&table.to_string())
}

/// The values side by side, in the order in which they were given.
fn draw(args: &Args, rows: &[Row]) -> Chart {
    let title = format!("{}: amplification by {}", args.parameters.engine_name(), args.vary.name);
    let mut chart = Chart::new(&title)
        .x(Axis::named(&args.vary.name, rows.iter().map(|row| row.value.clone())))
        .y(Axis::linear("amplification").from(0.0));
    let places = || (0..rows.len()).map(|place| place as f64);
    chart = chart.line("writes", places().zip(rows.iter().map(|row| row.write_amplification)));
    chart = chart.line("reads", places().zip(rows.iter().map(|row| row.read_amplification)));
    if args.optimize {
        let best = rows.iter().map(|row| row.optimized.unwrap_or(f64::NAN));
        chart = chart.line("writes at the best level sizes", places().zip(best));
    }
    chart
}

fn row(args: &Args, value: &str) -> Result<Row> {
    let parameters = with(&args.parameters, &args.vary.name, value)?;
    let layout = parameters.layout()?;
    let popularity = parameters.popularity()?;
    let cost = parameters.cost(&layout, None)?;
    let queries = Queries::default();
    let reads = match &layout {
        Layout::Leveled(engine) => queries.leveldb(engine, &popularity),
        Layout::Universal(engine) => queries.universal(engine, &popularity),
        Layout::Cola(engine) => queries.cola(engine, &popularity),
        Layout::Samt(engine) => queries.samt(engine, &popularity),
    }
    .map_err(refused)?;
    if args.optimize && parameters.model == Some(Model::Tables) {
        usage!("--optimize: not by tables; give another --model");
    }
    let optimized = match (&layout, args.optimize) {
        (_, false) => None,
        (Layout::Leveled(engine), true) => {
            let best = Optimizer::new(&Direct::new(&popularity)).level_sizes(engine).map_err(refused)?;
            Some(best.write_amplification)
        }
        (_, true) => usage!("--optimize: {} has no level sizes to choose", parameters.engine_name()),
    };
    Ok(Row {
        value: value.to_owned(),
        write_amplification: cost.write_amplification,
        read_amplification: reads.read_amplification,
        optimized,
        level_sizes_items: cost.level_sizes_items,
    })
}

/// The parameters with one of them changed.
fn with(parameters: &Parameters, name: &str, value: &str) -> Result<Parameters> {
    let mut changed = parameters.clone();
    let wrong = |why: String| crate::failure::Failure::Usage(format!("--vary {name}={value}: {why}"));
    let number = || value.parse::<f64>().map_err(|_| wrong("write a number".to_owned()));
    let size = || sizes::parse_size(value).map_err(wrong);
    let count = || sizes::parse_count(value).map_err(wrong);
    match name {
        "keys" => changed.keys = count()?,
        "item-bytes" => changed.item_bytes = size()?,
        "skew" => changed.skew = number()?,
        "write-buffer" => changed.write_buffer = Some(size()?),
        "l0-files" => changed.l0_files = Some(count()?),
        "level1" => changed.level1 = Some(size()?),
        "growth" => changed.growth = Some(number()?),
        "levels" => changed.levels = Some(count()?),
        _ => usage!(
            "--vary: {name} is none of keys, item-bytes, skew, write-buffer, l0-files, level1, growth, levels"
        ),
    }
    if changed.level_sizes.is_some() && matches!(name, "level1" | "growth" | "levels") {
        usage!("--vary: {name} follows from --level-sizes; give one of the two");
    }
    Ok(changed)
}
