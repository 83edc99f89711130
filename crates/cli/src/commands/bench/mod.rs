//! `siltstone bench`: measured workloads on items that can be told from their number.
//!
//! `fill` writes a store; every other workload runs on a store that a fill has written, so one fill serves
//! many measurements. What was filled is kept in the store itself ([`Filled`]), and reads check what they
//! find.

mod counters;
mod predicted;
mod report;
mod stores;

use crate::clients::client::{Load, Run};
use crate::clients::filled::Filled;
use crate::clients::workload::Workload;
use crate::clients::{KEYSPACE, bulk, watch};
use crate::failure::{Failure, Result, fail, usage};
use crate::generate::items::{GROUP_PREFIX_BYTES, Items};
use crate::laboratory;
use crate::measure::process_seconds;
use crate::output::{note, print, print_json};
use crate::sizes;
use crate::store::{self, NewPreset, Preset, Suffix};
use counters::Counters;
use siltstone::{AutoDesign, Db, Durability, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema};
use siltstone_lab::papers::{Evaluation, Task};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often merge and merge-rmw count each counter up, on the average.
const MERGES_PER_COUNTER: u64 = 10;
/// How long a workload runs that is told neither --seconds nor --operations.
const DEFAULT_SECONDS: u64 = 10;

/// Measure a workload, or redo a paper's evaluation
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    workload: Option<WorkloadArgs>,
}

/// What runs on stores of its own.
// A description of a variant would stand in for that of its options in the help.
#[derive(clap::Subcommand, Debug)]
enum Other {
    Stores(stores::StoresArgs),
    #[command(flatten)]
    Paper(Evaluation),
}

/// Runs the command.
pub fn run(bench: Args) -> Result<()> {
    match (bench.other, bench.workload) {
        (Some(Other::Stores(args)), _) => stores::run(&args),
        (Some(Other::Paper(paper)), _) => laboratory::hand_over(&Task::Evaluation(paper)),
        (None, Some(args)) => run_workload(&args),
        (None, None) => usage!("name a workload or a paper; `siltstone bench --help` lists them"),
    }
}

/// Measure a workload
///
/// `fill` writes --items items, each once, in random order, into a new store. The other workloads run on a
/// filled store and take --items, --key-bytes, --value-bytes, --group and --seed from it; given again, they
/// must be the same. Reads check every value they find; a read that should find an item and does not is an
/// error.
///
/// Threads are closed loops: each sends its next call when the last has returned. With --batch, gets are
/// multi_get calls and puts are atomic batches of that many items, contains is contains_many,
/// insert-if-absent add_many, delete delete_many, and a transaction reads and writes that many items:
/// operations and rates count items, latencies are those of whole calls. Scans and what reads before it
/// writes otherwise are never batched.
///
/// merge and merge-rmw count up counters, one for each item, in a keyspace of their own with the merge
/// operator add; afterwards all counters together must have grown by as much as was counted. With
/// --items 1M in the fill they are 10 M increments over 1 M counters.
#[derive(clap::Args, Debug)]
#[command(after_help = help_footer())]
pub struct WorkloadArgs {
    /// What to do
    #[arg(value_enum, value_name = "WORKLOAD")]
    workload: Workload,
    /// Directory of the store
    #[arg(long)]
    dir: PathBuf,
    /// Layout of the store that fill creates, with PRESET:SIZE with tables of another size, such as
    /// lsm-trie:256K, and with +dictionary behind it with tables that compress; auto takes what suits the
    /// memory budget, as `Options::auto` does
    #[arg(long, value_name = "PRESET[:SIZE][+dictionary]|auto", value_parser = NewPreset::parse)]
    preset: Option<NewPreset>,
    /// The same from a file: a design as JSON, as `keyspaces --json` prints it, or what `advise --json`
    /// prints
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    design: Option<PathBuf>,
    /// Number of items [default of fill: 1M]
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_positive)]
    items: Option<u64>,
    /// Length of every key [default of fill: 16]
    #[arg(long, value_name = "BYTES", value_parser = sizes::parse_size)]
    key_bytes: Option<u64>,
    /// Length of every value [default of fill: 100]
    #[arg(long, value_name = "BYTES", value_parser = sizes::parse_size)]
    value_bytes: Option<u64>,
    /// Items that share an 8-byte prefix; 1 is a `point` keyspace [default of fill: 1]
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_positive)]
    group: Option<u64>,
    /// Order of the keys of a group in the store that fill creates [default: ordered]
    #[arg(long, value_enum)]
    suffix: Option<Suffix>,
    /// Which keys exist, in which order they are written [default of fill: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Exponent of the Zipf distribution of the items read and overwritten; 0 is uniform [default: 0, YCSB:
    /// 0.99]
    #[arg(long, value_parser = parse_skew, allow_negative_numbers = true)]
    skew: Option<f64>,
    /// Threads
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Items per call
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = sizes::parse_positive)]
    batch: u64,
    /// Stop after this time [default of all but fill, overwrite, merge and merge-rmw: 10 s]
    #[arg(long, value_name = "TIME", value_parser = sizes::parse_duration)]
    seconds: Option<Duration>,
    /// Stop after this many operations [default of fill and overwrite: as many as there are items; of
    /// merge and merge-rmw: ten times as many]
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_positive)]
    operations: Option<u64>,
    /// Share of gets in mixed-blind and mixed-rmw
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = clap::value_parser!(u32).range(0..=100))]
    read_percent: u32,
    /// Memory for memtables, filters, indexes and cache
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse_size)]
    memory_budget: u64,
    /// Whether the keyspace looks for a design that suits the workload better: off, propose (and say so in
    /// the statistics and the event log) or apply
    #[arg(long, value_name = "WHAT", default_value = "off")]
    auto_design: AutoDesign,
    /// What a write survives
    #[arg(long, value_enum, default_value = "buffered")]
    durability: DurabilityArg,
    /// Let fill replace a store that an earlier fill has written
    #[arg(long)]
    overwrite_dir: bool,
    /// Let fill build tables of all items instead of putting them
    #[arg(long, conflicts_with_all = ["batch", "seconds"])]
    bulk: bool,
    /// Ask the kernel to drop the store's files from its page cache first (Linux)
    #[arg(long)]
    drop_page_cache: bool,
    /// Read tables around the system's page cache
    #[arg(long)]
    direct_reads: bool,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
}

impl WorkloadArgs {
    /// The design that was asked for by its name or by its file, if any.
    fn chosen(&self) -> Result<Option<Preset>> {
        match &self.design {
            Some(file) => store::read_design(file).map(Some),
            None => self.preset.as_ref().map(|preset| preset.chosen(&options(self))).transpose(),
        }
    }

    /// Refuses options that speak of other items than those of the store.
    fn must_match(&self, filled: &Filled) -> Result<()> {
        let dir = self.dir.display();
        if !filled.complete {
            fail!("the fill of {dir} was interrupted; fill it again with --overwrite-dir");
        }
        if filled.existing == 0 {
            fail!("{dir} was filled with no items at all (keyspace {KEYSPACE:?}); fill it again");
        }
        for (option, asked, has) in [
            ("--items", self.items, filled.items),
            ("--seed", self.seed, filled.seed),
            ("--key-bytes", self.key_bytes, filled.key_bytes),
            ("--value-bytes", self.value_bytes, filled.value_bytes),
            ("--group", self.group, filled.group),
        ] {
            if asked.is_some_and(|asked| asked != has) {
                fail!("{dir} was filled with {option} {has}; leave {option} out or fill another directory");
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DurabilityArg {
    /// A killed process
    Buffered,
    /// A power cut
    Synced,
}

impl DurabilityArg {
    fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Synced => "synced",
        }
    }
}

fn help_footer() -> String {
    format!(
        "Presets: {}, auto\n\nExamples:\n  \
        siltstone bench fill --dir ./b --items 10M --group 128 --batch 100\n  \
        siltstone bench fill --dir ./c --items 10M --bulk\n  \
        siltstone bench read-hit --dir ./b --threads 8 --seconds 30 --memory-budget 256M\n  \
        siltstone bench read-miss --dir ./b --json | jq .device_reads_per_get\n  \
        siltstone bench scan --dir ./b\n  \
        siltstone bench merge --dir ./b --threads 8\n  \
        siltstone bench ycsb-a --dir ./b --threads 4 --seconds 1m",
        siltstone::presets::names()
    )
}

fn parse_skew(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(skew) if (0.0..=10.0).contains(&skew) => Ok(skew),
        _ => Err("write an exponent from 0 (uniform) to 10, for example 0.99".to_owned()),
    }
}

fn run_workload(args: &WorkloadArgs) -> Result<()> {
    if args.workload != Workload::Fill {
        if args.overwrite_dir || args.bulk || args.suffix.is_some() {
            usage!(
                "--overwrite-dir, --bulk and --suffix are options of fill; {} takes the store as it is",
                args.workload.name()
            );
        }
        return run_on_filled(args);
    }
    let filled = Filled {
        items: args.items.unwrap_or(1_000_000),
        seed: args.seed.unwrap_or(1),
        key_bytes: args.key_bytes.unwrap_or(16),
        value_bytes: args.value_bytes.unwrap_or(100),
        group: args.group.unwrap_or(1),
        existing: 0,
        complete: false,
    };
    if args.suffix.is_some() && filled.group == 1 {
        usage!("--suffix needs keys with a prefix: add --group");
    }
    let items = match filled.generator() {
        Ok(items) => items,
        Err(why) => usage!("{why}"),
    };
    let schema = match filled.group {
        1 => Schema::Point,
        _ => Schema::SemiSorted {
            prefix: PrefixRule::Fixed { bytes: GROUP_PREFIX_BYTES as u16 },
            suffix: args.suffix.unwrap_or(Suffix::Ordered).order(),
        },
    };
    let preset = args.chosen()?;
    let design = preset.as_ref().map(|preset| preset.design.clone());
    let keyspace_options = KeyspaceOptions { schema, design, ..KeyspaceOptions::default() };
    if let Some(preset) = &preset {
        preset.check_for(&schema)?;
    }
    // What is refused must neither clear the directory nor leave half a store in it.
    options(args).check_keyspace(&keyspace_options).map_err(|error| {
        Failure::Failed(format!(
            "{error}; --preset takes a size, as in siltstone:64K, and --memory-budget the budget"
        ))
    })?;
    clear_for_fill(&args.dir, args.overwrite_dir)?;
    let db = store::open_or_create(&args.dir, options(args))?;
    filled.save(&db)?;
    let keyspace = db.create_keyspace(KEYSPACE, keyspace_options)?;
    measure(args, &db, &keyspace, items, filled).map(|_| ())
}

/// Runs a workload on a store that a fill has written.
fn run_on_filled(args: &WorkloadArgs) -> Result<()> {
    if args.drop_page_cache {
        watch::drop_page_cache(&args.dir)?;
    }
    // Who looks for another design has to be able to change it, and to count reads.
    let db = if args.workload.writes() || args.auto_design != AutoDesign::Off {
        store::open_existing(&args.dir, options(args))?
    } else {
        store::open_read_only_with(&args.dir, options(args))?
    };
    let Some(filled) = Filled::load(&db)? else {
        fail!("{} was not filled by `siltstone bench fill`; fill a directory first", args.dir.display());
    };
    args.must_match(&filled)?;
    let Some(keyspace) = db.get_keyspace(KEYSPACE) else {
        fail!("{} has no keyspace {KEYSPACE:?}; fill it again with --overwrite-dir", args.dir.display());
    };
    if let Some(preset) = args.chosen()?
        && keyspace.design() != preset.design
    {
        fail!(
            "{} was filled with the design {}, not {}",
            args.dir.display(),
            keyspace.design().preset_name(),
            preset.name
        );
    }
    if args.workload.scans() && filled.group == 1 {
        fail!("{} needs groups to scan; fill a store with --group", args.workload.name());
    }
    let counters = if args.workload.counts() { Some(Counters::open(&db, &keyspace)?) } else { None };
    let keyspace = counters.as_ref().map_or(keyspace, Counters::keyspace);
    let items = match filled.generator() {
        Ok(items) => items,
        Err(why) => fail!("what {} says of its items makes no sense: {why}", args.dir.display()),
    };
    let counted = measure(args, &db, &keyspace, items, filled)?;
    counters.map_or(Ok(()), |counters| counters.check(counted))
}

/// Runs the clients, drains the background work and reports. Returns how many operations there were.
fn measure(
    args: &WorkloadArgs,
    db: &Db,
    keyspace: &Keyspace,
    items: Items,
    mut filled: Filled,
) -> Result<u64> {
    let load = Load {
        workload: args.workload,
        mix: args.workload.mix(args.read_percent),
        skew: args.skew.unwrap_or_else(|| args.workload.default_skew()),
        threads: usize::from(args.threads),
        batch: args.batch as usize,
        deadline: deadline(args),
        operations: operations(args, &filled),
    };
    let (before, processor) = (db.stats(), process_seconds());
    let run = Run::new(db, keyspace, items, &filled, &load);
    let outcome = if args.bulk { bulk::fill(&run)? } else { watch::run_clients(&run)? };
    let at_write_end = db.stats();
    let drain = Instant::now();
    if args.workload.writes() {
        if args.workload == Workload::Fill {
            // So that reads find everything in tables.
            db.flush()?;
        }
        db.wait_until_idle()?;
    }
    let drain_seconds = drain.elapsed().as_secs_f64();
    let after = db.stats();
    let cpu_seconds = process_seconds() - processor;
    if args.workload.inserts() {
        filled.existing = run.existing();
        filled.complete = true;
        filled.save(db)?;
        // Or these few bytes would pin the log behind them through later runs.
        db.flush()?;
    }
    let stats = report::Measured {
        before: &before,
        at_write_end: &at_write_end,
        after: &after,
        drain_seconds,
        cpu_seconds,
    };
    let predicted = predicted::predict(args, &load, &filled, &keyspace.design(), outcome.operations);
    let report = report::Report::new(args, &load, &filled, &outcome, &stats, predicted, keyspace.name())?;
    if args.json {
        print_json(&report)?
    } else {
        print(&report.to_string())?
    }
    if let Some(error) = &after.background_error {
        fail!("background work failed: {error}");
    }
    outcome.check_reads()?;
    Ok(outcome.operations)
}

fn options(args: &WorkloadArgs) -> Options {
    let durability = match args.durability {
        DurabilityArg::Buffered => Durability::Buffered,
        DurabilityArg::Synced => Durability::Synced,
    };
    Options {
        memory_budget_bytes: args.memory_budget,
        durability,
        direct_reads: args.direct_reads,
        auto_design: args.auto_design,
        ..Options::default()
    }
}

fn deadline(args: &WorkloadArgs) -> Option<Duration> {
    let by_count = args.workload.counts() || matches!(args.workload, Workload::Fill | Workload::Overwrite);
    match args.seconds {
        None if args.operations.is_none() && !by_count => Some(Duration::from_secs(DEFAULT_SECONDS)),
        seconds => seconds,
    }
}

fn operations(args: &WorkloadArgs, filled: &Filled) -> u64 {
    match args.workload {
        Workload::Fill => args.operations.unwrap_or(filled.items).min(filled.items),
        Workload::Overwrite if args.seconds.is_none() => args.operations.unwrap_or(filled.existing),
        _ if args.workload.counts() && args.seconds.is_none() => {
            args.operations.unwrap_or(filled.existing.saturating_mul(MERGES_PER_COUNTER))
        }
        _ => args.operations.unwrap_or(u64::MAX),
    }
}

/// Makes sure that fill finds no directory, an empty one, or one it may replace.
fn clear_for_fill(dir: &Path, overwrite: bool) -> Result<()> {
    let Ok(mut entries) = std::fs::read_dir(dir) else { return Ok(()) };
    if entries.next().is_none() {
        return Ok(());
    }
    if !overwrite {
        fail!(
            "{} is not empty; choose another directory, or replace an earlier fill with --overwrite-dir",
            dir.display()
        );
    }
    // Opening for writing takes the lock, so nobody uses what is about to go; what is no bench store stays.
    let db = store::open_existing(dir, Options::default())?;
    if Filled::load(&db)?.is_none() {
        fail!("{} was not written by `siltstone bench fill`; it is not overwritten", dir.display());
    }
    db.close()?;
    note!("removing the earlier store in {}", dir.display());
    std::fs::remove_dir_all(dir).map_err(|e| Failure::at(dir, e))
}
