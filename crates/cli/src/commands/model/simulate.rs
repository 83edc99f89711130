//! `siltstone model simulate`: the same question as `wa`, answered by doing it key by key, in memory.

use super::parameters::{Layout, Parameters};
use crate::commands::model::wa::level_table;
use crate::failure::{Result, refused, usage};
use crate::output::{note, print, print_json};
use crate::progress::count_bar;
use crate::sizes;
use crate::store::{self, Preset, parse_preset};
use crate::table::Table;
use clap::{ArgMatches, FromArgMatches};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use siltstone::Design;
use siltstone_model::engines::leveldb::{self, LevelDb};
use siltstone_model::engines::rocksdb_universal::Universal;
use siltstone_model::simulate::{
    DesignMeasured, Leveled, Load, Measured, Pick, Protocol, Ranks, simulate_design, simulate_universal,
};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

/// Simulate a store key by key and count what it writes
///
/// The store first takes every key once, in key order, and then requests of the popularity asked for; with
/// --grow it starts empty. Everything but values is simulated: memtables, tables, how they overlap and where
/// they are cut. Engines are leveldb, rocksdb-leveled and rocksdb-universal; --design simulates one of
/// Siltstone's own designs instead, driven by the planner that runs the store. Equal seeds make equal runs.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone model simulate --keys 10M --skew 0.99\n  \
    siltstone model simulate --keys 100M --miniature 10 --json | jq .write_amplification\n  \
    siltstone model simulate --design stepped-merge --keys 20M --item-bytes 116 --skew 0.8")]
pub struct Inner {
    #[command(flatten)]
    parameters: Parameters,
    /// One of Siltstone's designs instead of an engine: a preset's name or a JSON file
    #[arg(long, value_name = "PRESET|FILE.json", conflicts_with = "engine")]
    design: Option<String>,
    /// Requests measured [default: ten times as many as keys; with --grow as many]
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_positive)]
    requests: Option<u64>,
    /// Requests before measuring begins
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_count, default_value = "0")]
    warm_up: u64,
    /// Size of a table below level 0 [default: 2M]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_size, conflicts_with = "design")]
    table_bytes: Option<u64>,
    /// Simulates one key in so many, with all sizes divided by as much, which takes as much less time
    ///
    /// Write amplification is then off by about a per cent, more where a table keeps fewer than 200 items.
    #[arg(long, value_name = "K", value_parser = sizes::parse_positive, default_value = "1")]
    miniature: u64,
    /// Seed of the requests
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print as `model wa` does, with "requests", "seconds", "items_per_second"; for a design with
    /// "space_amplification", "levels" and "timeline"
    #[arg(long)]
    json: bool,
}

/// The arguments, of which --engine has a default here, so that --design can stand in its place.
#[derive(Debug)]
pub struct Args(Inner);

impl clap::Args for Args {
    fn augment_args(command: clap::Command) -> clap::Command {
        let optional = |engine: clap::Arg| engine.required(false).default_value("leveldb");
        Inner::augment_args(command).mut_arg("engine", optional)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        Inner::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Items that a miniature's tables must keep for its result to hold.
const LEAST_TABLE_ITEMS: f64 = 200.0;

/// Runs the command.
pub fn run(Args(args): &Args) -> Result<()> {
    match &args.design {
        Some(name) => run_design(args, &design(name)?),
        None => run_engine(args),
    }
}

impl Inner {
    fn ranks(&self) -> Result<Ranks> {
        Ranks::zipf(self.parameters.keys, self.parameters.skew).map_err(refused)
    }

    fn protocol(&self) -> Result<Protocol> {
        let keys = self.parameters.keys;
        let usual = if self.parameters.grow { Protocol::growth(keys) } else { Protocol::paper(keys) };
        if self.parameters.grow && self.warm_up > 0 {
            usage!(
                "--warm-up: a store that grows is measured from the beginning; leave out one of --grow and --warm-up"
            );
        }
        Ok(Protocol {
            requests: self.requests.unwrap_or(usual.requests),
            warm_up: self.warm_up,
            seed: self.seed,
            miniature: u32::try_from(self.miniature).unwrap_or(u32::MAX),
            ..usual
        })
    }
}

/// Calls `simulate` with a progress bar; what it returns and the seconds it took.
fn timed<T>(simulate: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> (T, f64) {
    let bar: ProgressBar = count_bar(Some(0), "inserts");
    let began = Instant::now();
    let result = simulate(&mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    (result, began.elapsed().as_secs_f64())
}

/// Items inserted per second, the load included.
fn items_per_second(protocol: &Protocol, keys: u64, seconds: f64) -> f64 {
    let loaded = if protocol.load == Load::Empty { 0 } else { keys };
    (loaded + protocol.warm_up + protocol.requests) as f64 / seconds
}

fn leveled(parameters: &Parameters, table_bytes: Option<u64>, engine: &LevelDb) -> Result<Leveled> {
    for (flag, is_given) in [
        ("model", parameters.model.is_some()),
        ("aligned-tables", engine.aligned_tables),
        ("delete-fraction", engine.deletes.fraction > 0.0),
    ] {
        if is_given {
            usage!("--{flag}: the simulator has no such parameter");
        }
    }
    let item_bytes = parameters.item_bytes as f64;
    let mut store = Leveled::leveldb(engine.level_sizes.clone(), item_bytes).map_err(refused)?;
    store.write_buffer = engine.write_buffer;
    store.level0_tables = engine.level0_tables as usize;
    store.flush_dedup = engine.flush_dedup;
    if let Some(bytes) = table_bytes {
        store.table = bytes as f64 / item_bytes;
    }
    if engine.pick == leveldb::Pick::Largest {
        store.pick = Pick::Largest;
    }
    Ok(store)
}

fn universal(args: &Inner, engine: &Universal, progress: &mut dyn FnMut(u64, u64)) -> Result<Measured> {
    if args.table_bytes.is_some() {
        usage!("--table-bytes: a run of rocksdb-universal is one table");
    }
    simulate_universal(engine, &args.ranks()?, &args.protocol()?, progress).map_err(refused)
}

fn run_engine(args: &Inner) -> Result<()> {
    let parameters = &args.parameters;
    let layout = parameters.layout()?;
    let (ranks, protocol) = (args.ranks()?, args.protocol()?);
    let (measured, seconds) = match &layout {
        Layout::Leveled(engine) => {
            let store = leveled(parameters, args.table_bytes, engine)?;
            let kept = store.table / args.miniature as f64;
            if args.miniature > 1 && kept < LEAST_TABLE_ITEMS {
                note!(
                    "--miniature {}: a table keeps {kept:.1} items; below {LEAST_TABLE_ITEMS} the result is unreliable, \
                     take a smaller miniature",
                    args.miniature
                );
            }
            timed(|progress| store.simulate(&ranks, &protocol, progress).map_err(refused))
        }
        Layout::Universal(engine) => timed(|progress| universal(args, engine, progress)),
        _ => usage!(
            "--engine: {} has no simulator; there are leveldb, rocksdb-leveled, rocksdb-universal",
            parameters.engine_name()
        ),
    };
    let measured = measured?;
    let rate = items_per_second(&protocol, parameters.keys, seconds);
    if args.json {
        return print_json(&json!({
            "engine": parameters.engine_name(),
            "write_amplification": measured.cost.write_amplification,
            "steps": measured.cost.steps,
            "level_sizes_items": measured.cost.level_sizes_items,
            "level_items": measured.level_items,
            "requests": measured.requests,
            "miniature": protocol.miniature,
            "seed": protocol.seed,
            "seconds": seconds,
            "items_per_second": rate,
        }));
    }
    let mut text = heading(args, &parameters.engine_name(), measured.cost.write_amplification);
    let _ = write!(text, "{}", steps(&measured.cost.steps));
    if !measured.cost.level_sizes_items.is_empty() {
        let _ = write!(text, "\n{}", level_table(parameters, &measured.cost.level_sizes_items));
    }
    let _ = writeln!(text, "\n{} items inserted", sizes::rate(rate));
    print(&text)
}

fn heading(args: &Inner, name: &str, write_amplification: f64) -> String {
    let parameters = &args.parameters;
    let miniature =
        if args.miniature > 1 { format!(" (1 key in {})", args.miniature) } else { String::new() };
    format!(
        "{name}, simulated{miniature}: {} keys of {} bytes, skew {}: write amplification {write_amplification:.2}\n\n",
        sizes::count(parameters.keys),
        sizes::count(parameters.item_bytes),
        parameters.skew,
    )
}

fn steps(steps: &[siltstone_model::engines::Step]) -> Table {
    let mut table = Table::new(["from", "to", "write amp."]).left(2);
    for step in steps {
        table.row([step.from.clone(), step.to.clone(), format!("{:.2}", step.write_amplification)]);
    }
    table
}

/// A preset by its name, or a design from a file.
fn design(name: &str) -> Result<Design> {
    if let Ok(Preset { design, .. }) = parse_preset(name) {
        return Ok(design);
    }
    if !name.ends_with(".json") {
        usage!(
            "--design: {name:?} is neither a preset nor a .json file; presets are: {}",
            siltstone::presets::names()
        );
    }
    Ok(store::read_design(Path::new(name))?.design)
}

fn run_design(args: &Inner, design: &Design) -> Result<()> {
    let parameters = &args.parameters;
    // A design has its own memtable and levels, so the engines' flags say nothing here; refuse them by asking
    // for none.
    for (flag, is_given) in [
        ("write-buffer", parameters.write_buffer.is_some()),
        ("l0-files", parameters.l0_files.is_some()),
        ("level1", parameters.level1.is_some()),
        ("growth", parameters.growth.is_some()),
        ("level-sizes", parameters.level_sizes.is_some()),
        ("levels", parameters.levels.is_some()),
        ("pick", parameters.pick.is_some()),
        ("flush-dedup", parameters.flush_dedup.is_some()),
        ("model", parameters.model.is_some()),
        ("aligned-tables", parameters.aligned_tables),
        ("delete-fraction", parameters.delete_fraction.is_some()),
    ] {
        if is_given {
            usage!(
                "--{flag}: part of the design; write the design to a file, change it there, and give the file"
            );
        }
    }
    let (ranks, protocol) = (args.ranks()?, args.protocol()?);
    let item_bytes = parameters.item_bytes as f64;
    let (measured, seconds) =
        timed(|progress| simulate_design(design, item_bytes, &ranks, &protocol, progress).map_err(refused));
    let measured = measured?;
    let rate = items_per_second(&protocol, parameters.keys, seconds);
    if args.json {
        return print_json(&design_json(design, &measured, &protocol, seconds, rate));
    }
    let mut text = heading(args, &design.preset_name(), measured.cost.write_amplification);
    let _ = write!(text, "{}\n{}", steps(&measured.cost.steps), levels(&measured));
    let _ = writeln!(
        text,
        "\nspace: {:.3} entries per distinct key on average, {:.3} at most\n{} items inserted",
        measured.space_amplification,
        measured.most_space_amplification,
        sizes::rate(rate),
    );
    print(&text)
}

fn levels(measured: &DesignMeasured) -> Table {
    let mut table = Table::new(["level", "regions", "runs", "runs a region", "at most", "entries"]);
    for (number, level) in measured.levels.iter().enumerate() {
        table.row([
            number.to_string(),
            sizes::count(level.regions),
            sizes::count(level.runs),
            format!("{:.2}", sizes::ratio(level.runs, level.regions)),
            level.most_runs.to_string(),
            sizes::count(level.items.round() as u64),
        ]);
    }
    table
}

fn design_json(
    design: &Design,
    measured: &DesignMeasured,
    protocol: &Protocol,
    seconds: f64,
    rate: f64,
) -> Value {
    let levels = measured.levels.iter().map(|level| {
        json!({ "regions": level.regions, "runs": level.runs, "most_runs": level.most_runs, "items": level.items })
    });
    let timeline = measured.timeline.iter().map(|moment| {
        json!({
            "requests": moment.requests,
            "space_amplification": moment.space_amplification,
            "runs_per_region": moment.runs_per_region,
            "compacted_per_request": moment.compacted_per_request,
        })
    });
    json!({
        "preset": design.preset_name(),
        "write_amplification": measured.cost.write_amplification,
        "steps": measured.cost.steps,
        "level_sizes_items": measured.cost.level_sizes_items,
        "space_amplification": measured.space_amplification,
        "most_space_amplification": measured.most_space_amplification,
        "levels": levels.collect::<Vec<_>>(),
        "timeline": timeline.collect::<Vec<_>>(),
        "requests": measured.requests,
        "miniature": protocol.miniature,
        "seed": protocol.seed,
        "seconds": seconds,
        "items_per_second": rate,
    })
}
