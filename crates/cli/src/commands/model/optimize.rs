//! `siltstone model optimize`: the parameters at which a leveled engine writes least.

use super::parameters::{Layout, Model, Parameters};
use super::wa::level_table;
use crate::failure::{Result, refused, usage};
use crate::output::{print, print_json};
use crate::sizes;
use clap::ValueEnum;
use siltstone_model::Direct;
use siltstone_model::engines::leveldb::LevelDb;
use siltstone_model::optimize::{Optimizer, Optimum};
use std::time::Instant;

/// What may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Over {
    /// Sizes of the levels there are
    LevelSizes,
    /// Number of levels, and their sizes
    Levels,
    /// One growth factor from level 1 on
    Growth,
    /// The write buffer: the smallest that reaches --target, with the best level sizes
    WriteBuffer,
}

/// Find the parameters at which a leveled engine writes least
///
/// The rest of the parameters stay as given. The search is exhaustive on a grid and then refined, so its
/// result does not depend on where it starts; it takes milliseconds.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone model optimize --engine leveldb --keys 100M --item-bytes 1000\n  \
    siltstone model optimize --engine leveldb --keys 100M --skew 0.99 --over levels --max-levels 8 --json\n  \
    siltstone model optimize --engine leveldb --keys 100M --over write-buffer --target 15 --max-write-buffer 1G")]
pub struct Args {
    #[command(flatten)]
    parameters: Parameters,
    /// What to change
    #[arg(long, value_enum, default_value = "level-sizes")]
    over: Over,
    /// Most levels that --over levels tries [default: 12]
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_positive)]
    max_levels: Option<u64>,
    /// Write amplification that --over write-buffer is to reach
    #[arg(long, value_name = "WA", allow_negative_numbers = true)]
    target: Option<f64>,
    /// Largest write buffer that --over write-buffer tries [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_size)]
    max_write_buffer: Option<u64>,
    /// Print {"before": …, "after": …, "level_sizes_items": […], "evaluations": …, "seconds": …}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let parameters = &args.parameters;
    let Layout::Leveled(engine) = parameters.layout()? else {
        usage!(
            "--engine: {} has no level sizes to choose; try leveldb or rocksdb-leveled",
            parameters.engine_name()
        );
    };
    if parameters.grow {
        usage!("--grow: the search is for a store that holds all keys; leave it out");
    }
    if parameters.model == Some(Model::Tables) {
        usage!("--model: the search is not for tables; give paper or v2");
    }
    refuse_unused(args)?;
    let started = Instant::now();
    let keys = Direct::new(&parameters.popularity()?);
    let before = engine.write_amplification(&keys).map_err(refused)?.write_amplification;
    let best = search(args, &engine, &keys)?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return print_json(&serde_json::json!({
            "before": before,
            "after": best.write_amplification,
            "level_sizes_items": best.level_sizes_items,
            "growth": best.growth,
            "write_buffer_items": best.write_buffer_items,
            "evaluations": best.evaluations,
            "grid_steps": best.grid_steps,
            "seconds": seconds,
        }));
    }
    print(&describe(args, before, &best, seconds))
}

fn refuse_unused(args: &Args) -> Result<()> {
    let given = [
        ("max-levels", args.max_levels.is_some(), Over::Levels),
        ("target", args.target.is_some(), Over::WriteBuffer),
        ("max-write-buffer", args.max_write_buffer.is_some(), Over::WriteBuffer),
    ];
    for (flag, is_given, over) in given {
        if is_given && over != args.over {
            let over = over.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
            usage!("--{flag}: only with --over {over}");
        }
    }
    Ok(())
}

fn search(args: &Args, engine: &LevelDb, keys: &Direct) -> Result<Optimum> {
    let optimizer = Optimizer::new(keys);
    let found = match args.over {
        Over::LevelSizes => optimizer.level_sizes(engine),
        Over::Levels => optimizer.level_count(engine, args.max_levels.unwrap_or(12) as usize),
        Over::Growth => optimizer.growth(engine),
        Over::WriteBuffer => {
            let Some(target) = args.target else {
                usage!("--target: say what --over write-buffer is to reach")
            };
            let largest = args.parameters.items(args.max_write_buffer.unwrap_or(1 << 30));
            optimizer.write_buffer(engine, largest, target)
        }
    };
    found.map_err(refused)
}

fn describe(args: &Args, before: f64, best: &Optimum, seconds: f64) -> String {
    let parameters = &args.parameters;
    let saved = 100.0 * (1.0 - best.write_amplification / before);
    let mut notes = String::new();
    if let Some(growth) = best.growth {
        notes.push_str(&format!("growth factor {growth:.3}\n"));
    }
    if args.over == Over::WriteBuffer {
        let bytes = best.write_buffer_items * parameters.item_bytes as f64;
        notes.push_str(&format!("write buffer {}\n", sizes::bytes(bytes as u64)));
    }
    let inner = best.level_sizes_items.split_last().map_or(&[][..], |(_, inner)| inner);
    let unneeded = inner.iter().filter(|size| **size > 0.999 * parameters.keys as f64).count();
    if unneeded > 0 {
        notes
            .push_str(&format!("{unneeded} of the levels would hold nearly all keys: they are not needed\n"));
    }
    format!(
        "{}: {} keys, skew {}: write amplification {before:.2} before, {:.2} after ({saved:.1} % less)\n{notes}\n{}\n\
        {} evaluations of the model and {} of single steps in {}\n",
        parameters.engine_name(),
        sizes::count(parameters.keys),
        parameters.skew,
        best.write_amplification,
        level_table(parameters, &best.level_sizes_items),
        sizes::count(best.evaluations),
        sizes::count(best.grid_steps),
        sizes::seconds(seconds),
    )
}
