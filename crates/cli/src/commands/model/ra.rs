//! `siltstone model ra`: read amplification, by the level where queries end.

use super::parameters::{Engine, Layout, Parameters};
use crate::failure::{Result, refused, usage};
use crate::output::{print, print_json};
use crate::sizes;
use crate::table::Table;
use clap::ValueEnum;
use siltstone_model::cost::silt::Silt;
use siltstone_model::read::{Ages as ModelAges, Queries};

/// How ages enter the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ages {
    /// As they are spread over keys and time
    Spread,
    /// Their means: the paper's
    Expected,
}

/// Estimate random reads per query
///
/// Indexes and filters are in memory; a table that is asked costs one read, or with --false-positives that
/// rate where the key is not in it. Queries prefer the keys that writes prefer unless --read-skew says
/// otherwise.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone model ra --engine leveldb --keys 100M --skew 0.99\n  \
    siltstone model ra --engine rocksdb-universal --keys 10M --false-positives 0.01 --absent 0.2 --json")]
pub struct Args {
    #[command(flatten)]
    parameters: Parameters,
    /// Zipf exponent of the keys queried, ranked as they are written [default: that of writes]
    #[arg(long, allow_negative_numbers = true)]
    read_skew: Option<f64>,
    /// Share of queries for keys that are not in the store
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, allow_negative_numbers = true)]
    absent: f64,
    /// False-positive rate of all tables' filters [default: no filters]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    false_positives: Option<f64>,
    /// How the age of a level's data enters
    #[arg(long, value_enum, default_value = "spread")]
    ages: Ages,
    /// Print {"read_amplification": …, "steps": [{"level", "share", "reads"}]}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let parameters = &args.parameters;
    if parameters.grow {
        usage!("--grow: reads are modelled for a store that holds all keys; leave it out");
    }
    let exponent = match args.read_skew {
        None => 1.0,
        Some(skew) if !(skew.is_finite() && skew >= 0.0) => {
            usage!("--read-skew: {skew} given; it must be finite and at least 0")
        }
        Some(skew) if parameters.skew > 0.0 => skew / parameters.skew,
        Some(skew) if skew > 0.0 => {
            usage!(
                "--read-skew: {skew} given, but writes are uniform: every key is equally old, so leave it out"
            )
        }
        Some(_) => 1.0,
    };
    if parameters.engine == Engine::Silt {
        return silt(args);
    }
    let ages = if args.ages == Ages::Spread { ModelAges::Spread } else { ModelAges::Expected };
    let queries = Queries { exponent, absent: args.absent, false_positives: args.false_positives, ages };
    let popularity = parameters.popularity()?;
    let cost = match parameters.layout()? {
        Layout::Leveled(engine) => queries.leveldb(&engine, &popularity),
        Layout::Universal(engine) => queries.universal(&engine, &popularity),
        Layout::Cola(engine) => queries.cola(&engine, &popularity),
        Layout::Samt(engine) => queries.samt(&engine, &popularity),
    }
    .map_err(refused)?;
    if args.json {
        return print_json(&cost);
    }
    let mut table = Table::new(["query ends in", "share", "reads"]);
    for step in cost.steps.iter().filter(|step| step.share > 0.0) {
        table.row([step.level.clone(), format!("{:.2} %", 100.0 * step.share), format!("{:.2}", step.reads)]);
    }
    print(&format!(
        "{}: {} keys, skew {}: {:.2} random reads per query\n\n{table}",
        parameters.engine_name(),
        sizes::count(parameters.keys),
        parameters.skew,
        cost.read_amplification,
    ))
}

/// SILT's own model: lookups that find their key, false positives of the hash stores' tags included.
fn silt(args: &Args) -> Result<()> {
    let parameters = &args.parameters;
    parameters.refuse_all_but_workload()?;
    if args.absent != 0.0 || args.false_positives.is_some() || args.ages != Ages::Spread {
        usage!("--engine: SILT's model has no --absent, --false-positives or --ages");
    }
    let costs =
        Silt { keys: parameters.keys as f64, item_bytes: parameters.item_bytes as f64, ..Silt::default() }
            .costs()
            .map_err(refused)?;
    if args.json {
        return print_json(&serde_json::json!({
            "read_amplification": costs.read_amplification,
            "steps": [],
            "false_positive_rate": costs.false_positive_rate,
            "hash_stores": costs.hash_stores,
        }));
    }
    print(&format!(
        "silt: {} keys: {:.4} device reads per lookup, {:.1} hash stores asked at a false-positive rate of {:.6}\n",
        sizes::count(parameters.keys),
        costs.read_amplification,
        costs.hash_stores,
        costs.false_positive_rate,
    ))
}
