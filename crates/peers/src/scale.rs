//! The same workloads at several numbers of items: how what a store does and costs grows with it.
//!
//! ```text
//! RESULTS/10M/…                 a campaign's results for each number of items (`supervise.rs`)
//! RESULTS/curves.txt *.svg      made of the records each time
//! ```
//!
//! Stores are made and removed one after the other, so that the disk has to hold the largest alone. Whatever
//! has a record is not run again.

mod curves;

use crate::failure::{Failure, Result};
use crate::record::Record;
use crate::run::Parameters;
use crate::supervise::{self, Campaign, INTERRUPTED};
use crate::workload::Workload;
use siltstone_lab::kit::sizes;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What runs at each number of items, unless other workloads are named.
const WORKLOADS: [Workload; 8] = [
    Workload::Bulk,
    Workload::Fill,
    Workload::GetHit,
    Workload::GetMiss,
    Workload::GetBatch,
    Workload::Reopen,
    Workload::Overwrite,
    Workload::Recover,
];

/// The workloads at several numbers of items, and curves of what they cost.
#[derive(clap::Args, Clone, Debug)]
pub struct Scale {
    /// Numbers of items, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "COUNTS", value_parser = sizes::parse_positive,
        default_value = "1M,3M,10M,30M,100M,300M,1000M")]
    items: Vec<u64>,
    /// Directory for results
    #[arg(long, default_value = "peers-scale")]
    results: PathBuf,
    /// Directory for stores, on the device to be measured; each is removed when its workloads are done
    #[arg(long, default_value = "peers-stores")]
    dir: PathBuf,
    /// Engines, separated by commas; a name ending in * takes all that begin so
    #[arg(long, value_delimiter = ',', value_name = "ENGINES", default_value = "siltstone-siltstone")]
    only: Vec<String>,
    /// Workloads, separated by commas [default: bulk, fill, get-hit, get-miss, get-batch, reopen, overwrite,
    /// recover]
    #[arg(long, value_enum, value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// Memory of a run, page cache included
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_size, default_value = "1G")]
    memory_cap: u64,
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
    #[arg(long, value_name = "BYTES", default_value = "16", value_parser = sizes::parse_positive)]
    value_bytes: u64,
    /// Items that share an 8-byte prefix
    #[arg(long, value_name = "COUNT", default_value = "128", value_parser = sizes::parse_positive)]
    group: u64,
    /// Which keys there are, in which order
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Length of the workloads that end after a time; a quarter of it goes before as warm-up
    #[arg(long, value_name = "TIME", value_parser = sizes::parse_duration, default_value = "15s")]
    seconds: Duration,
    /// Overwrites as a multiple of the items
    #[arg(long, default_value = "0.1")]
    overwrites: f64,
    /// Time after which a run is ended, and again for its background work
    #[arg(long, value_name = "TIME", value_parser = sizes::parse_duration, default_value = "2h")]
    budget: Duration,
    /// Try again what failed
    #[arg(long)]
    retry_failed: bool,
    /// Print the curves of the results that are there and run nothing
    #[arg(long)]
    report: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// The records of one number of items.
pub struct Size {
    parameters: Parameters,
    records: Vec<Record>,
}

impl Scale {
    /// Runs what has no record yet, from the fewest items on, and prints tables and writes curves.
    ///
    /// # Errors
    /// Names that no engine has; files that can't be written; the user wants to stop. A run that fails is a
    /// record.
    pub fn run(&self) -> Result<()> {
        ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).map_err(Failure::new)?;
        let mut numbers = self.items.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let mut all = Vec::new();
        for items in numbers {
            let campaign = self.campaign(items)?;
            if !self.report {
                let _ = writeln!(std::io::stderr(), "{} items", sizes::count(items));
                campaign.run()?;
            }
            let records = campaign.records()?;
            all.push(Size { parameters: campaign.parameters, records });
        }
        let text = curves::write(&self.results, &all)?;
        let output = if self.json { curves::json(&all)? } else { text };
        std::io::stdout().write_all(output.as_bytes())?;
        Ok(())
    }

    fn campaign(&self, items: u64) -> Result<Campaign> {
        let seconds = self.seconds.as_secs_f64();
        let parameters = Parameters {
            items,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            group: self.group,
            seed: self.seed,
            batch: self.batch,
            threads: self.threads.into(),
            seconds,
            warm_up_seconds: seconds / 4.0,
            overwrites: self.overwrites,
            memory_cap_bytes: self.memory_cap,
            fill_memory_cap_bytes: self.memory_cap,
            budget_seconds: self.budget.as_secs_f64(),
        };
        parameters.check()?;
        let mut workloads =
            if self.workloads.is_empty() { WORKLOADS.to_vec() } else { self.workloads.clone() };
        workloads.sort_unstable();
        workloads.dedup();
        Ok(Campaign {
            results: self.results.join(sizes::count(items)),
            dir: self.dir.clone(),
            parameters,
            engines: supervise::engines(&self.only)?,
            workloads,
            retry_failed: self.retry_failed,
            keep_stores: false,
        })
    }
}
