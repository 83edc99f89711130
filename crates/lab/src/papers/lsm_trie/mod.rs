//! `siltstone bench lsm-trie`: the comparisons of LSM-trie's evaluation (Wu et al., ATC 2015) and of its
//! parallel search (Cheng et al., SPE 2020), with the papers' figures beside ours.
//!
//! The papers filled stores of hundreds of gigabytes with tables of 32 MB. Here tables shrink with the data,
//! so that the trie has five levels all the same, most of the data in the last. Where the papers compare with
//! LevelDB, this command has the design of Siltstone that is laid out like it.

mod parallel;
mod store;
mod tables;

use super::evaluation::{Common, Results};
use crate::program::failure::Result;
use siltstone::{Design, presets};
use std::path::PathBuf;
use std::time::Duration;

/// Redo the comparisons of LSM-trie (ATC 2015) and of its parallel search (SPE 2020)
///
/// Buckets that overflow (fill and moves), whole stores (PUT, write amplification, GET, space), and parallel
/// search (Figures 5 to 8, Table 3). Prints a table for each and draws it into --out. The stores are written
/// below --dir and removed afterwards.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone bench lsm-trie --quick\n  \
    siltstone bench lsm-trie --only tables --out ./figures\n  \
    siltstone bench lsm-trie --dir /mnt/ssd/bench --items 100M")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Only this part
    #[arg(long, value_enum, value_name = "PART")]
    only: Option<Part>,
    /// Where the SVG plots go
    #[arg(long, value_name = "DIR", default_value = "bench-lsm-trie")]
    out: PathBuf,
    /// Items of the stores [default: 30M, with --quick 300K]
    #[arg(long, value_name = "COUNT", value_parser = crate::kit::sizes::parse_positive)]
    items: Option<u64>,
    /// How long each read workload runs [default: 10 s, with --quick 0.5 s]
    #[arg(long, value_name = "TIME", value_parser = crate::kit::sizes::parse_duration)]
    seconds: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// How full buckets get, and what moves for it
    Tables,
    /// Whole stores: PUT, write amplification, GET, space
    Stores,
    /// Parallel search
    Parallel,
}

impl Args {
    fn items(&self) -> u64 {
        self.items.unwrap_or(self.common.scale(300_000, 30_000_000))
    }

    fn seconds(&self) -> Duration {
        self.seconds.unwrap_or(Duration::from_millis(self.common.scale(500, 10_000)))
    }
}

/// Bytes of an item: 16 of key and 100 of value.
const ITEM_BYTES: u64 = 116;

/// LSM-trie with tables small enough for `items` items to reach the fifth level: with the paper's fan-out and
/// regions of eight, or of four where tables would be tiny.
fn scaled(items: u64) -> Design {
    let data = items * ITEM_BYTES;
    // What the four upper levels hold, in tables, by fan-out and region; at most half of the data is to stay
    // there.
    let upper = |fan_out: u64| (0..4).map(|level| fan_out * fan_out.pow(level)).sum::<u64>();
    let of_eight = data / (2 * upper(8));
    if of_eight >= 128 << 10 {
        return presets::lsm_trie_with(of_eight);
    }
    let mut design = presets::lsm_trie_with((data / (2 * upper(4))).max(64 << 10));
    for level in &mut design.levels {
        level.fanout_bits = level.fanout_bits.min(2);
        level.runs = if level.runs > 8 { 16 } else { 4 };
    }
    design
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let wants = |part: Part| args.only.is_none_or(|only| only == part);
    if wants(Part::Stores) || wants(Part::Parallel) || args.common.dir.is_some() {
        args.common.check_dir(0)?;
    }
    let mut results = Results::new(&args.out, &args.common)?;
    if wants(Part::Tables) {
        tables::run(&mut results)?;
    }
    if wants(Part::Stores) {
        let scratch = args.common.scratch("lsm-trie")?;
        store::run(args, &mut results, scratch.path())?;
    }
    if wants(Part::Parallel) {
        let scratch = args.common.scratch("lsm-trie-parallel")?;
        parallel::run(args, &mut results, scratch.path())?;
    }
    results.print(args.common.json)
}
