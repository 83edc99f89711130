//! The workload that advice is asked for: from flags, from a file of JSON, or from a file with flags over it.

use crate::failure::{Failure, Result, usage};
use crate::sizes::{self, parse_duration, parse_positive, parse_size};
use siltstone_model::price::{Mix, Sizes, ValueSize, Workload};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Share of writes that overwrite from which on a store is taken to be overwritten for good: four times.
const MOST_OVERWRITES: f64 = 4.0;
/// How far shares of sizes may be from 1 together: people round them.
const SUM_MAY_BE_OFF: f64 = 0.02;
/// Share of gets that find an item, where a file speaks of no gets.
const USUAL_HITS: f64 = 0.9;

/// What a store holds and what is done with it, as flags.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct WorkloadArgs {
    /// Take the workload from a file of JSON, in which any part may be missing, or from what `advise --json`
    /// prints; `-` is standard input. Of a mix that it has, missing parts are 0. Flags stand over what it
    /// says
    #[arg(long, value_name = "FILE|-")]
    workload: Option<PathBuf>,
    /// Distinct items [default: 16 bytes of them for each byte of memory, of 16 + 84 bytes where no sizes are
    /// given, as `Options::auto` assumes]
    #[arg(long, value_name = "COUNT", value_parser = parse_positive)]
    items: Option<u64>,
    /// Length of a key [default: 16]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    key_bytes: Option<u64>,
    /// Length of a value, or a few lengths with the share of items that have each: 100:0.9,20K:0.1
    /// [default: 100]
    #[arg(long, value_name = "BYTES[:SHARE,…]", value_parser = parse_sizes)]
    value_bytes: Option<Sizes>,
    /// Items that share a prefix; 1 is a `point` keyspace [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = parse_positive)]
    group: Option<u64>,
    /// Length of the prefix that items of a group share [default: 8, or half of a key that is no longer]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    prefix_bytes: Option<u64>,
    /// Share of operations that get an item [default: 0.5]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    reads: Option<f64>,
    /// Share of gets that find one [default: 0.9]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    hits: Option<f64>,
    /// Share of operations that scan a group; needs --group [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    scans: Option<f64>,
    /// Share of writes that overwrite an item; the others are new [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    overwrites: Option<f64>,
    /// Share of writes that delete an item [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    deletes: Option<f64>,
    /// Exponent of the Zipf distribution of the items that are overwritten, and read; 0 is uniform [default:
    /// 0]
    #[arg(long, value_parser = parse_number)]
    skew: Option<f64>,
    /// The same of the items that are read, where these are others [default: that of --skew]
    #[arg(long, value_name = "SKEW", value_parser = parse_number)]
    read_skew: Option<f64>,
    /// Items of a batch [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = parse_positive)]
    batch: Option<u64>,
    /// Puts until an item expires, in stores whose items do
    #[arg(long, value_name = "COUNT", value_parser = parse_positive)]
    expires_after: Option<u64>,
    /// How long an item lives, in stores whose items expire and where it is known how many puts a second
    /// there are
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "expires_after")]
    time_to_live: Option<Duration>,
    /// How many times smaller keys and values become in tables that compress [default: 1]
    #[arg(long, value_name = "FACTOR", value_parser = parse_number)]
    compressed_ratio: Option<f64>,
    /// Puts a second, for the device's lifetime
    #[arg(long, value_name = "RATE", value_parser = parse_number)]
    puts_per_second: Option<f64>,
}

/// A workload, and what of it nobody has said.
pub struct Given {
    pub workload: Workload,
    /// Whether the number of items is what is assumed for the memory.
    pub are_items_assumed: bool,
}

impl Given {
    /// What was assumed of it, in a sentence.
    pub fn remark(&self) -> Option<String> {
        let Workload { items, key_bytes, .. } = self.workload;
        self.are_items_assumed.then(|| {
            format!(
                "How many items there are was not said: {} of {:.0} + {:.0} bytes are assumed, sixteen times as many bytes as there \
                 is memory; --items gives their number.",
                sizes::count(items as u64),
                key_bytes,
                self.workload.mean_value_bytes()
            )
        })
    }
}

/// What a file says.
#[derive(Default)]
struct Said {
    workload: Workload,
    has_items: bool,
    has_values: bool,
}

/// Parses a share of a whole.
fn parse_share(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a share from 0 to 1, for example 0.9".to_owned()),
    }
}

/// Parses a finite number that is not below 0.
pub fn parse_number(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("write a number from 0 on, for example 1.5".to_owned()),
    }
}

/// Parses one length, or lengths with their shares.
fn parse_sizes(text: &str) -> std::result::Result<Sizes, String> {
    const HOW: &str = "write one length, or lengths with their shares of all items as in 100:0.9,20K:0.1";
    let is_one = !text.contains(',');
    let sized = |part: &str| {
        let (bytes, share) = part.split_once(':').or(is_one.then_some((part, "1"))).ok_or(HOW)?;
        let share = share.parse().map_err(|_| HOW)?;
        Ok(ValueSize { value_bytes: parse_size(bytes)? as f64, share })
    };
    let sizes: Vec<ValueSize> = text.split(',').map(sized).collect::<std::result::Result<_, String>>()?;
    let sum: f64 = sizes.iter().map(|size| size.share).sum();
    if (sum - 1.0).abs() > SUM_MAY_BE_OFF {
        return Err(format!("the shares add up to {sum}, and have to be 1 together; {HOW}"));
    }
    Sizes::new(&sizes).map_err(|error| error.to_string())
}

impl WorkloadArgs {
    /// Returns the workload for a store with so much memory: what the file says, if there is one, with the
    /// flags over it.
    pub fn workload(&self, memory_bytes: u64) -> Result<Given> {
        let said = self.workload.as_deref().map_or_else(|| Ok(Said::default()), read)?;
        let are_items_assumed = self.items.is_none() && !said.has_items;
        let mut given = said.workload;
        let over = |flag: Option<u64>, given: f64| flag.map_or(given, |flag| flag as f64);
        let key_bytes = over(self.key_bytes, given.key_bytes);
        if let Some(sizes) = self.value_bytes {
            given.value_bytes = sizes.mean_bytes();
            // A mean is enough where all are alike.
            given.sizes = if sizes.iter().count() > 1 { sizes } else { Sizes::default() };
        } else if are_items_assumed && !said.has_values {
            given.value_bytes = Workload::of_memory(memory_bytes).value_bytes;
        }
        if are_items_assumed {
            given.items = Workload { key_bytes, ..given }.with_items_of_memory(memory_bytes).items;
        }
        let items = over(self.items, given.items);
        let (overwrites, deletes) = self.changes(&given, items)?;
        // Without a file nobody has said what the prefix is, and short keys have a shorter one.
        let is_assumed = self.workload.is_none() && given.prefix_bytes >= key_bytes;
        let prefix_bytes = if is_assumed { (key_bytes / 2.0).floor() } else { given.prefix_bytes };
        let mix = self.mix(given.mix)?;
        let mut workload = given;
        (workload.items, workload.overwrites, workload.deletes) = (items, overwrites, deletes);
        workload.puts_per_second = self.puts_per_second.or(workload.puts_per_second);
        if self.time_to_live.is_some() && workload.puts_per_second.is_none() {
            usage!("--time-to-live needs a rate of puts; add --puts-per-second");
        }
        let puts_to_live = self.time_to_live.zip(workload.puts_per_second);
        let puts_to_live = puts_to_live.map(|(to_live, rate)| to_live.as_secs_f64() * rate);
        let expires_after = self.expires_after.map(|puts| puts as f64).or(puts_to_live);
        workload.expires_after_puts = expires_after.or(workload.expires_after_puts);
        workload.skew = self.skew.unwrap_or(workload.skew);
        workload.read_skew = self.read_skew.or(workload.read_skew);
        workload.key_bytes = key_bytes;
        workload.group_items = over(self.group, workload.group_items);
        workload.prefix_bytes = over(self.prefix_bytes, prefix_bytes);
        workload.batch_items = over(self.batch, workload.batch_items);
        workload.compressed_ratio = self.compressed_ratio.unwrap_or(workload.compressed_ratio);
        workload.mix = mix;
        // Not for the model to refuse: a store whose keys were in groups once has counted scans of them.
        if mix.scans > 0.0 && !workload.is_grouped() {
            usage!(
                "--scans: a scan lists the items that share a prefix, and no items do; say with --group N how many do"
            );
        }
        Ok(Given { workload, are_items_assumed })
    }

    /// Returns the shares of operations.
    fn mix(&self, given: Mix) -> Result<Mix> {
        if self.reads.or(self.hits).or(self.scans).is_none() {
            return Ok(given);
        }
        let Mix { hits, misses, scans, .. } = given.normalized();
        let found = if hits + misses > 0.0 { hits / (hits + misses) } else { USUAL_HITS };
        let (reads, scans) = (self.reads.unwrap_or(hits + misses), self.scans.unwrap_or(scans));
        let puts = 1.0 - reads - scans;
        if puts < -1e-9 {
            usage!("--reads {reads} and --scans {scans} are more than all operations together");
        }
        let found = self.hits.unwrap_or(found);
        Ok(Mix { hits: reads * found, misses: reads * (1.0 - found), scans, puts: puts.max(0.0) })
    }

    /// Returns how many overwrites and deletes there are after the items were put.
    fn changes(&self, given: &Workload, items: f64) -> Result<(f64, f64)> {
        if self.overwrites.or(self.deletes).is_none() {
            return Ok((given.overwrites, given.deletes));
        }
        let writes = given.items + given.changes();
        let overwrites = self.overwrites.unwrap_or(given.overwrites / writes);
        let deletes = self.deletes.unwrap_or(given.deletes / writes);
        let changed = overwrites + deletes;
        if changed > 1.0 {
            usage!("--overwrites {overwrites} and --deletes {deletes} are more than all writes together");
        }
        // So many changes for each new item, while the store grows to its items.
        let changes = if changed < 1.0 { changed / (1.0 - changed) } else { MOST_OVERWRITES };
        let changes = items * changes.min(MOST_OVERWRITES);
        let of_changes = |share: f64| if changed > 0.0 { changes * share / changed } else { 0.0 };
        Ok((of_changes(overwrites), of_changes(deletes)))
    }
}

/// Reads a workload from a file of JSON: alone, or as a part of advice.
fn read(path: &Path) -> Result<Said> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let path = if path == Path::new("-") { Path::new("standard input") } else { path };
    let text = text.map_err(|e| Failure::at(path, e))?;
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|e| Failure::at(path, e))?;
    let json = json.get("workload").unwrap_or(&json);
    let workload = serde_json::from_value(json.clone()).map_err(|e| {
        Failure::at(path, format!("is no workload: {e}; `siltstone advise --json` prints one"))
    })?;
    let has = |part: &str| json.get(part).is_some();
    Ok(Said { workload, has_items: has("items"), has_values: has("value_bytes") || has("sizes") })
}
