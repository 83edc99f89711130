//! `siltstone bench stores`: many stores in one process that share a budget and threads.

use crate::failure::{Result, fail};
use crate::generate::items::Items;
use crate::measure::rss_peak_bytes;
use crate::output::{print, print_json};
use crate::progress::count_bar;
use crate::sizes;
use crate::table::Table;
use serde::Serialize;
use siltstone::{Batch, Db, Keyspace, KeyspaceOptions, Options, ResourceOptions, Resources, WriteOptions};
use std::path::PathBuf;
use std::time::Instant;

/// Measure many stores in one process
///
/// Creates --stores stores with one keyspace each, writes --items items of 100 bytes into every one, in turn
/// and in batches, reads them back, closes all stores, opens them again and reads once more. Reads check
/// every value. All stores share one memory budget and one pool of threads. Each has about three files open,
/// so `ulimit -n` may have to be raised.
#[derive(clap::Args, Debug)]
pub struct StoresArgs {
    /// New or empty directory, in which each store has one of its own
    #[arg(long)]
    dir: PathBuf,
    /// Number of stores
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = sizes::parse_positive)]
    stores: u64,
    /// Number of items in each
    #[arg(long, value_name = "COUNT", default_value = "20K", value_parser = sizes::parse_positive)]
    items: u64,
    /// Items per batch
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = sizes::parse_positive)]
    batch: u64,
    /// Gets of each store in each of the two phases that read
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = sizes::parse_positive)]
    reads: u64,
    /// Memory for all stores together
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = sizes::parse_size)]
    memory_budget: u64,
    /// Compaction threads for all stores together
    #[arg(long, value_name = "COUNT", default_value = "2")]
    background_threads: usize,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
}

/// What one phase took, and what the process held at its end.
#[derive(Serialize)]
struct Phase {
    phase: &'static str,
    seconds: f64,
    operations: u64,
    resident_bytes: u64,
    threads: u64,
}

#[derive(Serialize)]
struct Report {
    stores: u64,
    items_per_store: u64,
    memory_budget: u64,
    phases: Vec<Phase>,
    write_amplification: f64,
    resident_peak_bytes: u64,
}

/// A number of the process's status, where the system says so.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

struct Stores<'a> {
    args: &'a StoresArgs,
    resources: Resources,
    open: Vec<(Db, Keyspace)>,
    phases: Vec<Phase>,
}

impl Stores<'_> {
    fn phase(&mut self, phase: &'static str, work: impl FnOnce(&mut Self) -> Result<u64>) -> Result<()> {
        let begun = Instant::now();
        let operations = work(self)?;
        let seconds = begun.elapsed().as_secs_f64();
        let (resident_bytes, threads) = (status("VmRSS") * 1024, status("Threads"));
        self.phases.push(Phase { phase, seconds, operations, resident_bytes, threads });
        Ok(())
    }

    fn open(&mut self) -> Result<u64> {
        let bar = count_bar(Some(self.args.stores), "stores");
        for number in 0..self.args.stores {
            let options = Options { resources: Some(self.resources.clone()), ..Options::default() };
            let db = Db::open(self.args.dir.join(format!("store-{number:05}")), options)?;
            let keyspace = db.keyspace("items", KeyspaceOptions::default())?;
            self.open.push((db, keyspace));
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(self.args.stores)
    }

    /// The items of store `number`: others than those of every other.
    fn items(&self, number: usize) -> Result<Items> {
        Items::new(16, 100, 1, number as u64 + 1, self.args.items).map_err(crate::failure::Failure::Usage)
    }

    fn fill(&mut self) -> Result<u64> {
        let bar = count_bar(Some(self.args.stores * self.args.items), "items");
        let (mut key, mut value, mut batch) = (Vec::new(), Vec::new(), Batch::new());
        for first in (0..self.args.items).step_by(self.args.batch as usize) {
            let end = self.args.items.min(first + self.args.batch);
            for (number, (db, keyspace)) in self.open.iter().enumerate() {
                let items = self.items(number)?;
                batch.clear();
                for item in first..end {
                    items.key(item, &mut key);
                    items.value(item, 0, &mut value);
                    batch.put(keyspace, &key, &value)?;
                }
                db.write(&batch, &WriteOptions::default())?;
                bar.inc(end - first);
            }
        }
        bar.finish_and_clear();
        Ok(self.args.stores * self.args.items)
    }

    fn read(&mut self) -> Result<u64> {
        let (mut key, mut scratch) = (Vec::new(), Vec::new());
        for round in 0..self.args.reads {
            // Any number without a factor in common with most counts scatters them.
            let item = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.args.items;
            for (number, (_, keyspace)) in self.open.iter().enumerate() {
                let items = self.items(number)?;
                items.key(item, &mut key);
                match keyspace.get(&key)? {
                    Some(value) if items.is_value_of(item, &value, &mut scratch) => {}
                    found => fail!("item {item} of store {number} is wrong: {found:?}"),
                }
            }
        }
        Ok(self.args.reads * self.args.stores)
    }

    fn close(&mut self) -> Result<u64> {
        for (db, keyspace) in self.open.drain(..) {
            drop(keyspace);
            db.close()?;
        }
        Ok(self.args.stores)
    }
}

/// Runs the command.
pub fn run(args: &StoresArgs) -> Result<()> {
    let is_new = std::fs::read_dir(&args.dir).map_or(true, |mut names| names.next().is_none());
    if !is_new {
        fail!("{} holds something; name a new or empty directory", args.dir.display());
    }
    let resources = Resources::new(ResourceOptions {
        memory_budget_bytes: args.memory_budget,
        background_threads: args.background_threads,
        ..ResourceOptions::default()
    })?;
    let mut stores = Stores { args, resources, open: Vec::new(), phases: Vec::new() };
    stores.phase("create", Stores::open)?;
    stores.phase("fill", Stores::fill)?;
    stores.phase("read", Stores::read)?;
    let totals = stores.open.iter().map(|(db, _)| db.stats());
    let (device, user) = totals.fold((0, 0), |(device, user), stats| {
        (device + stats.device_bytes_written, user + stats.user_bytes_written)
    });
    stores.phase("close", Stores::close)?;
    stores.phase("open again", Stores::open)?;
    stores.phase("read again", Stores::read)?;
    let report = Report {
        stores: args.stores,
        items_per_store: args.items,
        memory_budget: args.memory_budget,
        phases: stores.phases,
        write_amplification: device as f64 / user.max(1) as f64,
        resident_peak_bytes: rss_peak_bytes(),
    };
    if args.json { print_json(&report) } else { print(&text(&report)) }
}

fn text(report: &Report) -> String {
    let mut table = Table::new(["phase", "seconds", "per second", "resident", "threads"]).left(1);
    for phase in &report.phases {
        let rate = phase.operations as f64 / phase.seconds.max(1e-9);
        table.row([
            phase.phase.to_owned(),
            format!("{:.2}", phase.seconds),
            format!("{rate:.0}"),
            sizes::bytes(phase.resident_bytes),
            phase.threads.to_string(),
        ]);
    }
    format!(
        "{} stores of {} items, {} of memory for all\n{table}write amplification {:.2}, resident at most {}\n",
        report.stores,
        report.items_per_store,
        sizes::bytes(report.memory_budget),
        report.write_amplification,
        sizes::bytes(report.resident_peak_bytes)
    )
}
