//! `siltstone advise`: which design suits a workload, what it costs, and why.
//!
//! The search and the prices are `siltstone_model::advise` and `price`; here flags become a workload, and the
//! advice is shown as text, as JSON or as a page.

mod own;
pub mod page;
mod text;
mod workload;

use crate::failure::{Failure, Result, usage};
use crate::output::{note, print, print_json};
use crate::sizes::{parse_positive, parse_size};
use crate::store::{self, DEFAULT_KEYSPACE, Preset};
use own::{Beside, Own};
use siltstone_model::ModelError;
use siltstone_model::advise::{Advice, PREMIUM, Request, advise, price_one};
use siltstone_model::price::{Device, Workload};
use std::path::{Path, PathBuf};
use std::time::Instant;
use workload::{WorkloadArgs, parse_number};

/// Find the design that suits a workload, with its price, and why
///
/// Give the memory, and what is known of the rest: how many items there are, their sizes, and what is done
/// with them. Designs are searched from every preset on: levels, fan-out, runs, table size, format, index,
/// filters, compression, write buffer, garbage. Each is priced by the engine's own planner on stores that
/// exist only as sizes. The cost of an operation is the time of the device and of the processor that it takes
/// on the average.
///
/// With --uncertain the worst mix of operations within that Kullback-Leibler divergence of yours is made as
/// cheap as can be, instead of yours: 0.25 is a little off, 2 is anything.
#[derive(clap::Args, Debug)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "Examples:\n  \
    siltstone advise --memory 256M\n  \
    siltstone advise --items 100M --key-bytes 16 --value-bytes 100 --memory 256M\n  \
    siltstone advise --items 1e9 --key-bytes 16 --value-bytes 32 --group 128 --memory 1G --reads 0.9 --hits 0.5\n  \
    siltstone advise --items 30M --key-bytes 16 --value-bytes 100 --memory 64M --uncertain 0.5 --html advice.html\n  \
    siltstone advise --items 30M --key-bytes 16 --value-bytes 100 --memory 64M --preset lean --json\n  \
    siltstone advise --items 30M --items-at-end 300M --value-bytes 100:0.9,20K:0.1 --memory 1G --miss-us-at-most 20\n  \
    siltstone advise --store ./store --keyspace users --memory 256M\n  \
    siltstone advise --store ./store --memory 256M --json | siltstone advise --workload - --read-skew 0.99 --memory 256M\n  \
    siltstone probe . --json > device.json; siltstone advise --items 30M --memory 64M --device device.json")]
pub struct Args {
    #[command(flatten)]
    workload: Option<WorkloadArgs>,
    /// Take the workload that the store in DIR has had, and weigh its own design against the best
    #[arg(long, value_name = "DIR", conflicts_with = "preset")]
    store: Option<PathBuf>,
    /// Items that the store grows to: what it costs on the way is what counts
    #[arg(long, value_name = "COUNT", value_parser = parse_positive)]
    items_at_end: Option<u64>,
    /// The keyspace of the store [default: default]
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Memory for write buffers, filters, indexes and cache together
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: u64,
    /// Most bytes on disk per byte of items, at the peak
    #[arg(long, value_name = "FACTOR", value_parser = parse_number)]
    space_at_most: Option<f64>,
    /// Most device reads of a get that finds an item
    #[arg(long, value_name = "READS", value_parser = parse_number)]
    reads_at_most: Option<f64>,
    /// Most device reads of a get that finds nothing
    #[arg(long, value_name = "READS", value_parser = parse_number)]
    miss_reads_at_most: Option<f64>,
    /// Most device reads of a scan of a group
    #[arg(long, value_name = "READS", value_parser = parse_number)]
    scan_reads_at_most: Option<f64>,
    /// Most microseconds that a get takes on the average that finds an item, if nothing else is going on
    #[arg(long, value_name = "MICROSECONDS", value_parser = parse_number)]
    hit_us_at_most: Option<f64>,
    /// The same of a get that finds nothing
    #[arg(long, value_name = "MICROSECONDS", value_parser = parse_number)]
    miss_us_at_most: Option<f64>,
    /// The same of a scan of a group
    #[arg(long, value_name = "MICROSECONDS", value_parser = parse_number)]
    scan_us_at_most: Option<f64>,
    /// Least years that the device lasts, where it is known how many puts a second there are
    #[arg(long, value_name = "YEARS", value_parser = parse_number)]
    years_at_least: Option<f64>,
    /// How far the mix of operations may be from the one given, as a Kullback-Leibler divergence
    #[arg(long, value_name = "DIVERGENCE", value_parser = parse_number)]
    uncertain: Option<f64>,
    /// What a design for uncertain mixes may cost more than the best in the mix given, as a share
    #[arg(long, value_name = "SHARE", value_parser = parse_number, default_value_t = PREMIUM, requires = "uncertain")]
    premium_at_most: f64,
    /// Price this preset only, with PRESET:SIZE with tables of another size
    #[arg(long, value_name = "PRESET[:SIZE]", value_parser = store::parse_preset)]
    preset: Option<Preset>,
    /// What `siltstone probe --json` found of the device
    #[arg(long, value_name = "FILE")]
    device: Option<PathBuf>,
    /// Write a page with the front, the design and knobs into this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print {"best": {"design", "name", "why", "predicted", "worst_cost"}, "front": […], "presets": {…},
    /// "next_memory": {"bytes", "saved_us", "saved_share"}, "considered": …, "refused": {…}, "workload": {…},
    /// "seconds": …}; with --store also "store": {"workload", "design", "predicted", "saved_share",
    /// "pays_after_operations"}
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Returns the request, and what has to be said of it in sentences.
    fn request(&self, own: Option<&Own>) -> Result<(Request, Vec<String>)> {
        let (workload, remarks) = match own {
            Some(own) => (own.workload, own.remark().into_iter().collect()),
            None => {
                let given = self.workload.clone().unwrap_or_default().workload(self.memory)?;
                (given.workload, given.remark().into_iter().collect())
            }
        };
        if self.years_at_least.is_some() && workload.puts_per_second.is_none() {
            usage!("--years-at-least needs a rate of puts; add --puts-per-second");
        }
        let items_at_end = self.items_at_end.map(|items| items as f64).or(workload.items_at_end);
        let workload = Workload { items_at_end, ..workload };
        let request = Request {
            for_any_schema: own.is_some_and(|own| own.is_grouped),
            device: self.device.as_deref().map_or_else(|| Ok(Device::default()), read_device)?,
            space_at_most: self.space_at_most,
            reads_at_most: self.reads_at_most,
            miss_reads_at_most: self.miss_reads_at_most,
            scan_reads_at_most: self.scan_reads_at_most,
            hit_us_at_most: self.hit_us_at_most,
            miss_us_at_most: self.miss_us_at_most,
            scan_us_at_most: self.scan_us_at_most,
            years_at_least: self.years_at_least,
            uncertainty: self.uncertain,
            premium_at_most: self.premium_at_most,
            ..Request::new(workload, self.memory)
        };
        // What is wrong with a flag is told from what no design keeps to.
        request.check().map_err(|error| Failure::Usage(format!("--{error}")))?;
        Ok((request, remarks))
    }

    /// Reads what the store has had to do, if one was named.
    fn own(&self) -> Result<Option<Own>> {
        let Some(dir) = self.store.as_deref() else {
            if self.keyspace.is_some() {
                usage!("--keyspace is one of a store's; say with --store DIR of which");
            }
            return Ok(None);
        };
        if self.workload.is_some() {
            usage!(
                "--store takes the workload that the store has had, and no other flags of a workload; to change parts of it, put \
                 flags over what it prints: {}",
                own::changed("--items 100M")
            );
        }
        Own::read(dir, self.keyspace.as_deref().unwrap_or(DEFAULT_KEYSPACE)).map(Some)
    }
}

/// Puts sentences before those that say why.
fn say_first(advice: &mut Advice, sentences: &[String]) {
    for choice in std::iter::once(&mut advice.best).chain(advice.front.first_mut()) {
        choice.why.splice(0..0, sentences.iter().cloned());
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let own = args.own()?;
    let (request, remarks) = args.request(own.as_ref())?;
    let started = Instant::now();
    let mut advice = match &args.preset {
        Some(preset) => price_one(&request, &preset.name, &preset.design).map_err(parameter)?,
        None => advise(&request).map_err(parameter)?,
    };
    let seconds = started.elapsed().as_secs_f64();
    say_first(&mut advice, &remarks);
    let own = own.map(|own| own.beside(&request, &advice)).transpose()?;
    if let Some(file) = &args.html {
        let page = page::page(&request, &advice).map_err(parameter)?;
        std::fs::write(file, page).map_err(|e| Failure::at(file, e))?;
        note!("wrote {}", file.display());
    }
    if args.json {
        return print_json(&json(&advice, &request.workload, own.as_ref(), seconds)?);
    }
    let page = text::text(&request, &advice, seconds);
    print(&own.map_or_else(String::new, |own| own.words()))?;
    print(&page)
}

fn json(
    advice: &Advice,
    workload: &Workload,
    own: Option<&Beside>,
    seconds: f64,
) -> Result<serde_json::Value> {
    let mut json = serde_json::to_value(advice).map_err(|e| Failure::Failed(e.to_string()))?;
    let workload = serde_json::to_value(workload).map_err(|e| Failure::Failed(e.to_string()))?;
    if let Some(fields) = json.as_object_mut() {
        fields.insert("workload".to_owned(), workload);
        fields.insert("seconds".to_owned(), seconds.into());
        if let Some(own) = own {
            let own = serde_json::to_value(own).map_err(|e| Failure::Failed(e.to_string()))?;
            fields.insert("store".to_owned(), own);
        }
    }
    Ok(json)
}

/// Reads a file of a device.
fn read_device(path: &Path) -> Result<Device> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::at(path, e))?;
    Device::from_json(&text).map_err(|e| Failure::at(path, e))
}

/// An error about something that is a flag here.
fn parameter(error: ModelError) -> Failure {
    match error.parameter() {
        "device" | "design" | "mix" => Failure::Failed(error.to_string()),
        // A limit that nothing keeps to is no mistake in how it was written: that was checked before.
        "memory" | "years-at-least" => Failure::Failed(format!("--{error}")),
        limit if limit.ends_with("-at-most") && limit != "premium-at-most" => {
            Failure::Failed(format!("--{error}"))
        }
        "expires-after-puts" => Failure::Usage(format!("--expires-after: {}", error.message())),
        _ => Failure::Usage(format!("--{error}")),
    }
}
