//! `siltstone advise`: which design suits a workload, what it costs, and why.
//!
//! The search and the prices are `siltstone_model::advise` and `price`; here flags become a workload, and the
//! advice is shown as text, as JSON or as a page.

mod own;
pub mod page;
mod text;

use crate::failure::{Failure, Result, usage};
use crate::output::{note, print, print_json};
use crate::sizes::{parse_duration, parse_positive, parse_size};
use crate::store::{self, DEFAULT_KEYSPACE, Preset};
use own::{Beside, Own};
use siltstone_model::ModelError;
use siltstone_model::advise::{Advice, PREMIUM, Request, advise, price_one};
use siltstone_model::price::{Device, Mix, Sizes, ValueSize, Workload};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Share of writes that overwrite from which on a store is taken to be overwritten for good: four times.
const MOST_OVERWRITES: f64 = 4.0;

/// Find the design that suits a workload, with its price, and why
///
/// Give what is known: how many items there are, their sizes, the memory, and what is done with them. Designs
/// are searched from every preset on: levels, fan-out, runs, table size, format, index, filters, compression,
/// write buffer, garbage. Each is priced by the engine's own planner on stores that exist only as sizes.
/// The cost of an operation is the time of the device and of the processor that it takes on the average.
///
/// With --uncertain the worst mix of operations within that Kullback-Leibler divergence of yours is made as
/// cheap as can be, instead of yours: 0.25 is a little off, 2 is anything.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone advise --items 100M --key-bytes 16 --value-bytes 100 --memory 256M\n  \
    siltstone advise --items 1e9 --key-bytes 16 --value-bytes 32 --group 128 --memory 1G --reads 0.9 --hits 0.5\n  \
    siltstone advise --items 30M --key-bytes 16 --value-bytes 100 --memory 64M --uncertain 0.5 --html advice.html\n  \
    siltstone advise --items 30M --key-bytes 16 --value-bytes 100 --memory 64M --preset lean --json\n  \
    siltstone advise --items 30M --items-at-end 300M --value-bytes 100:0.9,20K:0.1 --memory 1G --miss-us-at-most 20\n  \
    siltstone advise --store ./store --keyspace users --memory 256M\n  \
    siltstone probe . --json > device.json; siltstone advise --items 30M --memory 64M --device device.json")]
pub struct Args {
    /// Distinct items
    #[arg(long, value_name = "COUNT", value_parser = parse_positive, required_unless_present = "store")]
    items: Option<u64>,
    /// Items that the store grows to: what it costs on the way is what counts
    #[arg(long, value_name = "COUNT", value_parser = parse_positive)]
    items_at_end: Option<u64>,
    /// Take the workload that the store in DIR has had, and weigh its own design against the best
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "items", "key_bytes", "value_bytes", "group", "reads", "hits", "scans", "overwrites", "deletes", "skew",
        "compressed_ratio", "batch",
        "expires_after", "time_to_live", "puts_per_second", "preset",
    ])]
    store: Option<PathBuf>,
    /// The keyspace of the store
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE, requires = "store")]
    keyspace: String,
    /// Length of a key
    #[arg(long, value_name = "BYTES", default_value = "16", value_parser = parse_size)]
    key_bytes: u64,
    /// Length of a value, or a few lengths with the share of items that have each: 100:0.9,20K:0.1
    #[arg(long, value_name = "BYTES[:SHARE,…]", default_value = "100", value_parser = parse_sizes)]
    value_bytes: Sizes,
    /// Memory for write buffers, filters, indexes and cache together
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: u64,
    /// Items that share a prefix; 1 is a `point` keyspace
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = parse_positive)]
    group: u64,
    /// Share of operations that get an item
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = parse_share)]
    reads: f64,
    /// Share of gets that find one
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = parse_share)]
    hits: f64,
    /// Share of operations that scan a group
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    scans: f64,
    /// Share of writes that overwrite an item; the others are new
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    overwrites: f64,
    /// Share of writes that delete an item
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    deletes: f64,
    /// Exponent of the Zipf distribution of the items that are read and overwritten; 0 is uniform
    #[arg(long, default_value = "0", value_parser = parse_number)]
    skew: f64,
    /// How many times smaller keys and values become where they are compressed
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = parse_number)]
    compressed_ratio: f64,
    /// Items of a batch
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = parse_positive)]
    batch: u64,
    /// Puts until an item expires, in stores whose items do
    #[arg(long, value_name = "COUNT", value_parser = parse_positive)]
    expires_after: Option<u64>,
    /// How long an item lives, in stores whose items expire
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "puts_per_second",
        conflicts_with = "expires_after")]
    time_to_live: Option<Duration>,
    /// Puts a second, for the device's lifetime
    #[arg(long, value_name = "RATE", value_parser = parse_number)]
    puts_per_second: Option<f64>,
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
    /// Least years that the device lasts
    #[arg(long, value_name = "YEARS", value_parser = parse_number, requires = "puts_per_second")]
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
    /// Print {"best": {"design", "name", "why", "predicted"}, "front": […], "presets": {…}, "seconds": …};
    /// with --store also "store": {"workload", "design", "predicted", "saved_share", "pays_after_operations"}
    #[arg(long)]
    json: bool,
}

fn parse_share(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a share from 0 to 1, for example 0.9".to_owned()),
    }
}

fn parse_number(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("write a number from 0 on, for example 1.5".to_owned()),
    }
}

/// Reads one length, or lengths with their shares.
fn parse_sizes(text: &str) -> std::result::Result<Sizes, String> {
    let sized = |part: &str| {
        let (bytes, share) = part.split_once(':').unwrap_or((part, "1"));
        let share =
            share.parse().map_err(|_| "write lengths with shares as in 100:0.9,20K:0.1".to_owned())?;
        Ok(ValueSize { value_bytes: parse_size(bytes)? as f64, share })
    };
    let sizes: Vec<ValueSize> = text.split(',').map(sized).collect::<std::result::Result<_, String>>()?;
    Sizes::new(&sizes).map_err(|error| error.to_string())
}

impl Args {
    fn workload(&self) -> Result<Workload> {
        if self.reads + self.scans > 1.0 {
            usage!("--reads {} and --scans {} are more than all operations together", self.reads, self.scans);
        }
        if self.overwrites + self.deletes > 1.0 {
            usage!(
                "--overwrites {} and --deletes {} are more than all writes together",
                self.overwrites,
                self.deletes
            );
        }
        let items = self.items.unwrap_or(1) as f64;
        // So many changes for each new item, while the store grows to its items.
        let changed = self.overwrites + self.deletes;
        let changes = if changed < 1.0 { changed / (1.0 - changed) } else { MOST_OVERWRITES };
        let changes = items * changes.min(MOST_OVERWRITES);
        let of_changes = |share: f64| if changed > 0.0 { changes * share / changed } else { 0.0 };
        let puts_to_live = self.time_to_live.zip(self.puts_per_second);
        let puts_to_live = puts_to_live.map(|(to_live, rate)| to_live.as_secs_f64() * rate);
        let expires_after = self.expires_after.map(|puts| puts as f64);
        // A mean is enough where all are alike.
        let sizes = if self.value_bytes.iter().count() > 1 { self.value_bytes } else { Sizes::default() };
        Ok(Workload {
            items,
            overwrites: of_changes(self.overwrites),
            deletes: of_changes(self.deletes),
            expires_after_puts: expires_after.or(puts_to_live),
            skew: self.skew,
            key_bytes: self.key_bytes as f64,
            value_bytes: self.value_bytes.mean_bytes(),
            sizes,
            group_items: self.group as f64,
            batch_items: self.batch as f64,
            compressed_ratio: self.compressed_ratio,
            mix: Mix {
                hits: self.reads * self.hits,
                misses: self.reads * (1.0 - self.hits),
                scans: self.scans,
                puts: 1.0 - self.reads - self.scans,
            },
            puts_per_second: self.puts_per_second,
            ..Workload::default()
        })
    }

    fn request(&self, own: Option<&Own>) -> Result<Request> {
        let workload = own.map_or_else(|| self.workload(), |own| Ok(own.workload))?;
        let items_at_end = self.items_at_end.map(|items| items as f64);
        let workload = Workload { items_at_end, ..workload };
        Ok(Request {
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
        })
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let own = args.store.as_deref().map(|dir| Own::read(dir, &args.keyspace)).transpose()?;
    let request = args.request(own.as_ref())?;
    let started = Instant::now();
    let advice = match &args.preset {
        Some(preset) => price_one(&request, &preset.name, &preset.design).map_err(parameter)?,
        None => advise(&request).map_err(parameter)?,
    };
    let seconds = started.elapsed().as_secs_f64();
    let own = own.map(|own| own.beside(&request, &advice)).transpose()?;
    if let Some(file) = &args.html {
        let page = page::page(&request, &advice).map_err(parameter)?;
        std::fs::write(file, page).map_err(|e| Failure::at(file, e))?;
        note!("wrote {}", file.display());
    }
    if args.json {
        return print_json(&json(&advice, own.as_ref(), seconds)?);
    }
    let page = text::text(&request, &advice, seconds);
    print(&own.map_or_else(String::new, |own| own.words()))?;
    print(&page)
}

fn json(advice: &Advice, own: Option<&Beside>, seconds: f64) -> Result<serde_json::Value> {
    let mut json = serde_json::to_value(advice).map_err(|e| Failure::Failed(e.to_string()))?;
    if let Some(fields) = json.as_object_mut() {
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
        // A limit that nothing keeps to is no mistake in how it was written.
        "memory" | "years-at-least" => Failure::Failed(format!("--{error}")),
        limit if limit.ends_with("-at-most") && limit != "premium-at-most" => {
            Failure::Failed(format!("--{error}"))
        }
        _ => Failure::Usage(format!("--{error}")),
    }
}
