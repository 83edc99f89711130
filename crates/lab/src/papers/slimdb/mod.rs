//! `siltstone bench slimdb`: the tables and figures of SlimDB's evaluation (Ren et al., VLDB 2017, §5), with
//! the paper's figure beside ours.
//!
//! The paper measured on an SSD of 4,000 random reads a second and a processor of 2008; what it printed is
//! shown for its shape, not to be beaten. Where it compares with LevelDB and RocksDB, this command has the
//! designs of Siltstone that are laid out like them; measurements beside the engines themselves are another
//! program's business.

mod blind;
mod filters;
mod index;
mod system;

use super::evaluation::{Common, Results};
use crate::program::failure::Result;
use std::path::PathBuf;
use std::time::Duration;

/// Redo the tables and figures of SlimDB (VLDB 2017)
///
/// Tables 3 and 4 (page indexes), 5 and 6 and Figure 10 (filters), Figures 11 to 14 and Table 7 (whole
/// stores). Prints a table for each and draws it into --out. The stores are written below --dir and removed
/// afterwards.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone bench slimdb --quick\n  \
    siltstone bench slimdb --only filters --out ./figures\n  \
    siltstone bench slimdb --dir /mnt/ssd/bench --items 50M")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Only this part
    #[arg(long, value_enum, value_name = "PART")]
    only: Option<Part>,
    /// Where the SVG plots go
    #[arg(long, value_name = "DIR", default_value = "bench-slimdb")]
    out: PathBuf,
    /// Items of the stores [default: 20M, with --quick 500K]
    #[arg(long, value_name = "COUNT", value_parser = crate::kit::sizes::parse_positive)]
    items: Option<u64>,
    /// How long each workload of a store runs [default: 20 s, with --quick 2 s]
    #[arg(long, value_name = "TIME", value_parser = crate::kit::sizes::parse_duration)]
    seconds: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Tables 3 and 4
    Index,
    /// Tables 5 and 6, Figure 10
    Filters,
    /// Figures 11 to 14, Table 7
    System,
}

impl Args {
    fn items(&self) -> u64 {
        self.items.unwrap_or(self.common.scale(500_000, 20_000_000))
    }

    /// Keys of each of the eight levels of a filter; the paper has 10 million.
    fn keys_per_level(&self) -> u64 {
        self.common.scale(500_000, 4_000_000)
    }

    /// How long each workload of a store runs.
    fn seconds(&self) -> Duration {
        self.seconds.unwrap_or(Duration::from_secs(self.common.scale(2, 20)))
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let wants = |part: Part| args.only.is_none_or(|only| only == part);
    if wants(Part::System) || args.common.dir.is_some() {
        args.common.check_dir(0)?;
    }
    let mut results = Results::new(&args.out, &args.common)?;
    if wants(Part::Index) {
        index::run(&mut results)?;
    }
    if wants(Part::Filters) {
        filters::run(args, &mut results)?;
        blind::run(args, &mut results)?;
    }
    if wants(Part::System) {
        let scratch = args.common.scratch("slimdb")?;
        system::run(args, &mut results, scratch.path())?;
    }
    results.print(args.common.json)
}
