//! `siltstone model wa`: write amplification, step by step.

use super::parameters::{Engine, Layout, Model, Parameters};
use crate::failure::{Result, refused, usage};
use crate::output::{print, print_json};
use crate::sizes;
use crate::table::Table;
use siltstone_model::cost::silt::Silt;
use siltstone_model::engines::{Cost, Step};
use std::fmt::Write as _;

/// Estimate what an engine writes per byte inserted
///
/// With --steady, the default, the store holds all keys and takes updates; with --grow it starts empty and
/// takes as many requests as there are keys. Level sizes are limits; the last level's is all keys. --model
/// tables is within some 4 % of simulation, round-robin picking, where paper and v2 are off by up to 10 %;
/// docs/models.md says how.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone model wa --engine leveldb --keys 100M --item-bytes 1000\n  \
    siltstone model wa --engine rocksdb-leveled --keys 1e9 --item-bytes 200 --write-buffer 64M --level1 256M --pick round-robin --aligned-tables\n  \
    siltstone model wa --engine cola --keys 100M --growth 3 --skew 0.99 --json | jq .write_amplification")]
pub struct Args {
    #[command(flatten)]
    parameters: Parameters,
    /// Size of a table, for --model tables, which this asks for [default: 2M]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_size, conflicts_with = "grow")]
    table_bytes: Option<u64>,
    /// Print {"write_amplification": …, "steps": [{"from", "to", "write_amplification"}],
    /// "level_sizes_items": […]}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let parameters = &args.parameters;
    let leveled = matches!(parameters.engine, Engine::Leveldb | Engine::RocksdbLeveled);
    if args.table_bytes.is_some() && !leveled {
        usage!("--table-bytes: the model of {} has no such parameter", parameters.engine_name());
    }
    if args.table_bytes.is_some() && parameters.model.is_some_and(|model| model != Model::Tables) {
        usage!("--table-bytes: only with --model tables");
    }
    let cost = match parameters.engine {
        Engine::Silt => silt(parameters)?,
        _ => parameters.cost(&parameters.layout()?, args.table_bytes)?,
    };
    let note = if args.table_bytes.is_none() { outside(parameters)? } else { None };
    if args.json {
        return print_json(&serde_json::json!({
            "engine": parameters.engine_name(),
            "write_amplification": cost.write_amplification,
            "steps": cost.steps,
            "level_sizes_items": cost.level_sizes_items,
            "note": note,
        }));
    }
    let mut text = describe(parameters, &cost);
    if let Some(note) = note {
        let _ = writeln!(text, "\nnote: {note}");
    }
    print(&text)
}

/// Says where the leveled model was found to be off: write buffers larger than level 1.
fn outside(parameters: &Parameters) -> Result<Option<&'static str>> {
    let leveled = matches!(parameters.engine, Engine::Leveldb | Engine::RocksdbLeveled);
    if !leveled || parameters.grow || parameters.model == Some(Model::Tables) {
        return Ok(None);
    }
    let Layout::Leveled(engine) = parameters.layout()? else { return Ok(None) };
    let outside = engine.level_sizes.first().is_some_and(|level1| engine.write_buffer > *level1);
    Ok(outside.then_some(
        "the write buffer is larger than level 1, where this model may be 10 to 20 % too high; --model tables is more accurate",
    ))
}

/// SILT's own model, with the paper's other parameters.
fn silt(parameters: &Parameters) -> Result<Cost> {
    // Refuses what the model does not have.
    parameters.refuse_all_but_workload()?;
    let silt =
        Silt { keys: parameters.keys as f64, item_bytes: parameters.item_bytes as f64, ..Silt::default() };
    let costs = silt.costs().map_err(refused)?;
    let steps = vec![
        Step::new("memory", "log store", costs.log_writes),
        Step::new("log store", "hash store", costs.conversion_writes),
        Step::new("hash store", "sorted store", costs.merge_writes),
    ];
    Ok(Cost {
        write_amplification: costs.write_amplification,
        steps,
        level_sizes_items: Vec::new(),
        intervals: Vec::new(),
    })
}

fn describe(parameters: &Parameters, cost: &Cost) -> String {
    let mut text = format!(
        "{}: {} keys of {} bytes, skew {}: write amplification {:.2}\n\n",
        parameters.engine_name(),
        sizes::count(parameters.keys),
        sizes::count(parameters.item_bytes),
        parameters.skew,
        cost.write_amplification,
    );
    let mut table = Table::new(["from", "to", "write amp."]).left(2);
    for step in &cost.steps {
        table.row([step.from.clone(), step.to.clone(), format!("{:.2}", step.write_amplification)]);
    }
    let _ = write!(text, "{table}");
    if !cost.level_sizes_items.is_empty() {
        let _ = write!(text, "\n{}", level_table(parameters, &cost.level_sizes_items));
    }
    text
}

/// Sizes of levels 1 to L.
pub fn level_table(parameters: &Parameters, level_sizes: &[f64]) -> Table {
    let mut table = Table::new(["level", "items", "bytes", "times the one above"]);
    let mut above = None;
    for (index, &size) in level_sizes.iter().enumerate() {
        table.row([
            (index + 1).to_string(),
            sizes::count(size.round() as u64),
            sizes::bytes((size * parameters.item_bytes as f64) as u64),
            above.map_or_else(|| "–".to_owned(), |above: f64| format!("{:.2}", size / above)),
        ]);
        above = Some(size);
    }
    table
}
