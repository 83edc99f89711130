//! The command line.

use crate::failure::{Failure, Result};
use crate::report;
use crate::run::{self, Parameters, Request};
use crate::scale::Scale;
use crate::supervise::{self, Campaign, INTERRUPTED};
use crate::trials;
use crate::workload::Workload;
use clap::Parser;
use siltstone_lab::kit::generate::items::GROUP_PREFIX_BYTES;
use siltstone_lab::kit::sizes;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Run the same workloads on Siltstone and on other storage engines, under one memory cap
///
/// Each workload runs on each engine in a process and a memory control group of its own. Results are kept in
/// --results: runs that are there are not run again, so that the same command goes on after an interruption.
/// At the end it prints tables and writes them, summary.json and charts to --results.
#[derive(Parser, Debug)]
#[command(name = "siltstone-peers", version, after_help = footer(), args_override_self = true, args_conflicts_with_subcommands = true)]
struct Args {
    /// Something else than the workloads
    #[command(subcommand)]
    other: Option<Other>,
    /// Directory for results
    #[arg(long, default_value = "peers-results")]
    results: PathBuf,
    /// Directory for stores, on the device to be measured; each is removed when its workloads are done
    #[arg(long, default_value = "peers-stores")]
    dir: PathBuf,
    /// Engines, separated by commas; a name ending in * takes all that begin so [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ENGINES")]
    only: Vec<String>,
    /// Workloads, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// Items that fill writes [default: 30M, with --quick 300K]
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_positive)]
    items: Option<u64>,
    /// Memory of a run, page cache included [default: a seventh of the items, at least 128M]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_size)]
    memory_cap: Option<u64>,
    /// Memory while the store is filled, where it is not to be the same: a small cap is often meant for reads
    /// alone
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_size)]
    fill_memory_cap: Option<u64>,
    /// Threads that read
    #[arg(long, value_name = "COUNT", default_value = "32", value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: u16,
    /// Items of a batch
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = sizes::parse_positive)]
    batch: u64,
    /// Length of keys
    #[arg(long, value_name = "BYTES", default_value = "16", value_parser = sizes::parse_positive)]
    key_bytes: u64,
    /// Length of values
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = sizes::parse_positive)]
    value_bytes: u64,
    /// Items that share an 8-byte prefix
    #[arg(long, value_name = "COUNT", default_value = "128", value_parser = sizes::parse_positive)]
    group: u64,
    /// Which keys there are, in which order
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Length of the workloads that end after a time; a quarter of it goes before as warm-up [default: 60s,
    /// with --quick 1s]
    #[arg(long, value_name = "TIME", value_parser = sizes::parse_duration)]
    seconds: Option<Duration>,
    /// Overwrites as a multiple of the items
    #[arg(long, default_value = "1", value_parser = parse_factor)]
    overwrites: f64,
    /// Time after which a run is ended, and again for its background work [default: 15m, with --quick 20s]
    #[arg(long, value_name = "TIME", value_parser = sizes::parse_duration)]
    budget: Option<Duration>,
    /// A smoke run of some minutes whose figures say little
    #[arg(long)]
    quick: bool,
    /// Try again what failed
    #[arg(long)]
    retry_failed: bool,
    /// Keep the stores: a campaign with the same items, batches and memory to fill with takes them over
    #[arg(long)]
    keep_stores: bool,
    /// Print the results that are there and run nothing
    #[arg(long)]
    report: bool,
    /// Print the results as one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// List the engines, their settings, and which are missing
    #[arg(long)]
    list: bool,
}

/// What is done instead of a comparison at one number of items.
#[derive(clap::Subcommand, Debug)]
enum Other {
    /// The workloads at several numbers of items, and curves of what they cost
    Scale(Scale),
    #[command(flatten)]
    Trial(trials::Trial),
}

impl Other {
    fn run(&self) -> Result<()> {
        match self {
            Self::Scale(scale) => scale.run(),
            Self::Trial(trial) => trial.run(),
        }
    }
}

fn footer() -> String {
    let names = |names: Vec<String>| names.join(" ");
    format!(
        "Engines: {}\n\nExamples:\n  \
        siltstone-peers --quick\n  \
        siltstone-peers --items 5M --only 'siltstone*,rocksdb-leveled,lmdb' --results r5 --dir /data\n  \
        siltstone-peers --items 30M --memory-cap 512M --workloads fill,get-hit --budget 20m\n  \
        siltstone-peers scale --items 1M,10M,100M --memory-cap 1G --results curves\n  \
        siltstone-peers bulk --items 50M --memory-cap 512M --dir /data/bulk\n  \
        siltstone-peers merges --only 'siltstone-*'\n  \
        siltstone-peers --report --results r5 --json | jq '.records[].figures.operations_per_second'",
        names(crate::engine::Engine::all().into_iter().map(|engine| engine.name).collect())
    )
}

fn parse_factor(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= 1000.0 => Ok(factor),
        _ => Err("write a number above 0, for example 1 or 10".to_owned()),
    }
}

/// Runs the program.
pub fn run() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    let answer = || PathBuf::from(arguments.next().unwrap_or_default());
    let done = if first == supervise::CHILD_ARGUMENT {
        serve(&{ answer }())
    } else if first == run::open::WRITER_ARGUMENT {
        run::open::write_until_killed()
    } else if first == trials::CHILD_ARGUMENT {
        trials::serve(&{ answer }())
    } else {
        let args = Args::parse();
        args.other.as_ref().map_or_else(|| compare(&args), Other::run)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "siltstone-peers: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The process of a run: takes the request from standard input.
fn serve(answer: &Path) -> Result<()> {
    let served = supervise::request::<Request>().and_then(|request| run::serve(&request, answer));
    supervise::say_failure(answer, served)
}

fn compare(args: &Args) -> Result<()> {
    let campaign = campaign(args)?;
    if args.list {
        return list(&campaign);
    }
    let mut skipped = Vec::new();
    if !args.report {
        ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).map_err(Failure::new)?;
        skipped = campaign.run()?;
    }
    let mut records = campaign.records()?;
    records.extend(skipped);
    let text = report::write(&campaign.results, &campaign.parameters, &records)?;
    let output = if args.json { report::json(&campaign.parameters, &records)? } else { text };
    std::io::stdout().write_all(output.as_bytes())?;
    Ok(())
}

fn list(campaign: &Campaign) -> Result<()> {
    let mut text = String::new();
    for engine in &campaign.engines {
        let version = engine.version().unwrap_or_else(|why| format!("MISSING: {why}"));
        text.push_str(&format!(
            "{}\n    {version}\n    {}\n",
            engine.name,
            engine.settings(campaign.parameters.memory(Workload::GetHit))
        ));
    }
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn campaign(args: &Args) -> Result<Campaign> {
    let pick = |full: u64, quick: u64| if args.quick { quick } else { full };
    let items = args.items.unwrap_or(pick(30_000_000, 300_000));
    let seconds = args.seconds.unwrap_or(Duration::from_secs(pick(60, 1))).as_secs_f64();
    let budget = args.budget.unwrap_or(Duration::from_secs(pick(900, 20))).as_secs_f64();
    let seventh = (items * (args.key_bytes + args.value_bytes) / 7).next_multiple_of(16 << 20);
    if args.key_bytes <= GROUP_PREFIX_BYTES as u64 {
        return Err(Failure::new(format_args!("--key-bytes must be at least {}", GROUP_PREFIX_BYTES + 1)));
    }
    let memory_cap_bytes = args.memory_cap.unwrap_or(seventh.max(128 << 20));
    let parameters = Parameters {
        items,
        key_bytes: args.key_bytes,
        value_bytes: args.value_bytes,
        group: args.group,
        seed: args.seed,
        batch: args.batch,
        threads: args.threads.into(),
        seconds,
        warm_up_seconds: seconds / 4.0,
        overwrites: args.overwrites,
        memory_cap_bytes,
        fill_memory_cap_bytes: args.fill_memory_cap.unwrap_or(memory_cap_bytes),
        budget_seconds: budget,
    };
    parameters.check()?;
    let mut workloads =
        if args.workloads.is_empty() { Workload::ALL.to_vec() } else { args.workloads.clone() };
    workloads.sort_unstable();
    workloads.dedup();
    Ok(Campaign {
        results: args.results.clone(),
        dir: args.dir.clone(),
        parameters: stored(args, parameters)?,
        engines: supervise::engines(&args.only)?,
        workloads,
        retry_failed: args.retry_failed,
        keep_stores: args.keep_stores,
    })
}

/// A report is about the parameters that its results have.
fn stored(args: &Args, parameters: Parameters) -> Result<Parameters> {
    if !args.report {
        return Ok(parameters);
    }
    let path = args.results.join("parameters.json");
    let json = std::fs::read(&path).map_err(|e| Failure::at(&path, e))?;
    serde_json::from_slice(&json).map_err(|e| Failure::at(&path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn engines_are_chosen_by_name_and_beginning() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            supervise::engines(&only)
                .map(|engines| engines.into_iter().map(|engine| engine.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["lmdb", "redb"]).unwrap(), ["redb", "lmdb"]);
        assert!(names(&["siltstone*"]).unwrap().len() >= 3);
        assert!(names(&["rocksdb"]).unwrap_err().to_string().contains("rocksdb-leveled"));
    }

    #[test]
    fn the_cap_follows_from_the_items() {
        let of = |line: &[&str]| campaign(&Args::parse_from(line)).unwrap().parameters.memory_cap_bytes >> 20;
        assert_eq!(of(&["p"]), 480);
        assert_eq!(of(&["p", "--quick"]), 128);
        assert_eq!(of(&["p", "--items", "5M", "--memory-cap", "96M"]), 96);
    }
}
