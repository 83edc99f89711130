//! `siltstone bench silt`: the tables and figures of SILT's evaluation (Lim et al., SOSP 2011, §5 and §6),
//! with the paper's figure beside ours.
//!
//! The paper measured 100 million items of 1 KiB on an SSD of 48,000 random reads a second. Here are fewer,
//! and hash stores as much smaller, so that the same share of the items, three in ten, lies in them before
//! they are merged. Memory is a sixteenth of the items or less, and reads go around the system's page cache,
//! those of the log too.

mod device;
mod growth;
mod index;
mod kinds;
mod model;
mod store;
mod throughput;

use super::evaluation::{Common, Results};
use crate::program::failure::Result;
use std::path::PathBuf;
use std::time::Duration;

/// Redo the tables and figures of SILT (SOSP 2011)
///
/// Table 5 (indexes in memory, by processor time), Tables 6 and 7 and Figures 9 to 11 (stores), gets as a
/// share of what the device gives (§6.1), Figures 7 and 8 (sizes of slots, and the model of §5 beside a
/// running store). Prints a table for each and draws it into --out. The stores are written below --dir and
/// removed afterwards.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone bench silt --quick\n  \
    siltstone bench silt --only index --large --out ./figures\n  \
    siltstone bench silt --dir /mnt/ssd/bench --items 10M")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Only this part
    #[arg(long, value_enum, value_name = "PART")]
    only: Option<Part>,
    /// Where the SVG plots go
    #[arg(long, value_name = "DIR", default_value = "bench-silt")]
    out: PathBuf,
    /// Items of the stores, of 1,020 bytes each; Figure 10 inserts as many again [default: 5M, with --quick
    /// 60K]
    #[arg(long, value_name = "COUNT", value_parser = crate::kit::sizes::parse_positive)]
    items: Option<u64>,
    /// How long each workload of a store runs [default: 20 s, with --quick 2 s]
    #[arg(long, value_name = "TIME", value_parser = crate::kit::sizes::parse_duration)]
    seconds: Option<Duration>,
    /// Indexes of the paper's 126 million keys as well; takes 4 GB of memory
    #[arg(long)]
    large: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Table 5
    Index,
    /// Gets beside the device's raw rate
    Device,
    /// Tables 6 and 7, Figures 9 to 11
    Stores,
    /// Figures 7 and 8
    Model,
}

impl Args {
    fn items(&self) -> u64 {
        self.items.unwrap_or(self.common.scale(60_000, 5_000_000))
    }

    /// Keys of the indexes; the paper has 126 million.
    fn keys(&self) -> Vec<usize> {
        let large = self.large.then_some(126_000_000);
        std::iter::once(self.common.scale(2 << 20, 16 << 20)).chain(large).collect()
    }

    fn is_quick(&self) -> bool {
        self.common.quick
    }

    fn seconds(&self) -> Duration {
        self.seconds.unwrap_or(Duration::from_secs(self.common.scale(2, 20)))
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let wants = |part: Part| args.only.is_none_or(|only| only == part);
    // Figure 10 doubles the items; while a part of them is merged it is there twice.
    let parts = [(Part::Stores, 3), (Part::Device, 2), (Part::Model, 1)];
    let most = parts.iter().filter(|(part, _)| wants(*part)).map(|(_, times)| *times).max();
    if most.is_some() || args.common.dir.is_some() {
        let bytes = args.items().saturating_mul(store::ITEM_BYTES).saturating_mul(most.unwrap_or(0));
        args.common.check_dir(bytes)?;
    }
    let mut results = Results::new(&args.out, &args.common)?;
    if wants(Part::Index) {
        index::run(args, &mut results);
    }
    if wants(Part::Stores) {
        let scratch = args.common.scratch("silt")?;
        kinds::run(args, &mut results, scratch.path())?;
        growth::run(args, &mut results, scratch.path())?;
        throughput::run(args, &mut results, scratch.path())?;
    }
    if wants(Part::Device) {
        let scratch = args.common.scratch("silt-device")?;
        device::run(args, &mut results, scratch.path())?;
    }
    if wants(Part::Model) {
        let scratch = args.common.scratch("silt-model")?;
        model::run(args, &mut results, scratch.path())?;
    }
    results.print(args.common.json)
}
