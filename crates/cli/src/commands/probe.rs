//! `siltstone probe`: what the device below a directory and the processor can do, measured the way the engine
//! uses them.

use crate::device::{PAGE_BYTES, RawReads};
use crate::failure::{Failure, Result, fail};
use crate::generate::mix;
use crate::output::{note, print, print_json};
use crate::sizes;
use crate::table::Table;
use serde::Serialize;
use siltstone::io::direct::DirectDisk;
use siltstone::io::{Access, Disk, File};
use siltstone_lab::advice::processor_time;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of a sequential read or write.
const STRETCH_BYTES: usize = 1 << 20;
/// Readers, and reads that each of them has under way.
const SHAPES: [(usize, usize); 7] = [(1, 1), (1, 8), (1, 32), (2, 32), (8, 1), (16, 1), (32, 1)];
/// How often a few bytes are appended and synced.
const SYNCS: usize = 200;
/// Bytes of the file for an item of the store that tells what processor time this machine takes, and fewest
/// and most items of it.
const BYTES_PER_ITEM: u64 = 1 << 10;
const PROCESSOR_ITEMS: std::ops::RangeInclusive<u64> = 100_000..=1_000_000;

/// Measure the device below a directory and the processor: random and sequential reads, writes, syncs, time
///
/// Writes a file of its own, reads it around the system's page cache, and removes it. A rate of a store is
/// worth something only beside that of its device in the same hour, and hosts cache what guests believe to be
/// on a device: everything is read once before it is measured. Then it fills a small store, reads it and
/// removes it: the processor time of both, beside the model's, is what `advise --device` takes into account.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  siltstone probe .\n  siltstone probe /mnt/ssd --bytes 8G --seconds 5 --json"
)]
pub struct Args {
    /// An existing directory on the device
    dir: PathBuf,
    /// Size of the file; larger than the device's cache tells more
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = sizes::parse_size)]
    bytes: u64,
    /// How long each kind of random read is measured
    #[arg(long, value_name = "TIME", default_value = "2", value_parser = sizes::parse_duration)]
    seconds: Duration,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RandomReads {
    threads: usize,
    /// Reads that a thread issues together, and waits for.
    batch: usize,
    reads_per_second: f64,
}

/// What the device can do.
#[derive(Serialize)]
struct Rates {
    bytes: u64,
    page_bytes: u64,
    random_reads: Vec<RandomReads>,
    sequential_read_bytes_per_second: f64,
    sequential_write_bytes_per_second: f64,
    /// Appending 4 KiB and syncing.
    sync_us: Syncs,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    device: Rates,
    /// Processor time of puts and gets as a multiple of what the model has for them.
    processor_time: f64,
}

#[derive(Serialize)]
struct Syncs {
    p50: f64,
    p99: f64,
    max: f64,
}

/// Removes the file, however the command ends.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // What can't be removed is left to the user, who chose the place.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if !args.dir.is_dir() {
        fail!("{} is not a directory; name an existing one on the device", args.dir.display());
    }
    let disk = DirectDisk::default();
    let bytes = args.bytes.max(STRETCH_BYTES as u64).next_multiple_of(STRETCH_BYTES as u64);
    let free = disk.free_bytes(&args.dir).map_err(|e| Failure::at(&args.dir, e))?;
    if free < bytes + bytes / 8 {
        fail!(
            "{} has {} free, too little for a file of {}; choose less with --bytes",
            args.dir.display(),
            sizes::bytes(free),
            sizes::bytes(bytes)
        );
    }
    let file = Removed(args.dir.join(format!("siltstone-probe-{}", std::process::id())));
    let device = measure(&disk, &file.0, bytes, args.seconds).map_err(|e| Failure::at(&file.0, e))?;
    drop(file);
    let items = (bytes / BYTES_PER_ITEM).clamp(*PROCESSOR_ITEMS.start(), *PROCESSOR_ITEMS.end());
    let report = Report { processor_time: processor_time(&args.dir, items)?, device };
    if args.json { print_json(&report) } else { print(&report.to_string()) }
}

fn measure(disk: &DirectDisk, path: &Path, bytes: u64, time: Duration) -> std::io::Result<Rates> {
    note!("writing {}", sizes::bytes(bytes));
    let started = Instant::now();
    write(&*disk.create(path)?, bytes)?;
    let sequential_write_bytes_per_second = bytes as f64 / started.elapsed().as_secs_f64();
    let file = disk.open(path, Access::Read)?;
    note!("reading it");
    read_through(&*file, bytes)?;
    let started = Instant::now();
    read_through(&*file, bytes)?;
    let sequential_read_bytes_per_second = bytes as f64 / started.elapsed().as_secs_f64();
    let (raw, mut random_reads) = (RawReads::of_file(path)?, Vec::new());
    for (threads, batch) in SHAPES {
        note!("random reads, {threads} threads, {batch} at a time");
        let reads_per_second = raw.per_second(threads, batch, time)?;
        random_reads.push(RandomReads { threads, batch, reads_per_second });
    }
    note!("syncs");
    let sync_us = syncs(&*disk.open(path, Access::ReadWrite)?, bytes)?;
    Ok(Rates {
        bytes,
        page_bytes: PAGE_BYTES,
        random_reads,
        sequential_read_bytes_per_second,
        sequential_write_bytes_per_second,
        sync_us,
    })
}

fn write(file: &dyn File, bytes: u64) -> std::io::Result<()> {
    // Bytes that a device or a host can neither compress nor find to be the same.
    let mut stretch = vec![0u8; STRETCH_BYTES];
    for number in 0..bytes / STRETCH_BYTES as u64 {
        for (place, word) in (0u64..).zip(stretch.as_chunks_mut::<8>().0) {
            *word = mix(number << 32 | place).to_le_bytes();
        }
        file.write_all_at(&stretch, number * STRETCH_BYTES as u64)?;
    }
    file.sync()
}

fn read_through(file: &dyn File, bytes: u64) -> std::io::Result<()> {
    let mut stretch = vec![0u8; STRETCH_BYTES];
    (0..bytes / STRETCH_BYTES as u64)
        .try_for_each(|number| file.read_exact_at(&mut stretch, number * STRETCH_BYTES as u64))
}

fn syncs(file: &dyn File, end: u64) -> std::io::Result<Syncs> {
    let page = [1u8; PAGE_BYTES as usize];
    let mut times = Vec::with_capacity(SYNCS);
    for number in 0..SYNCS as u64 {
        let started = Instant::now();
        file.write_all_at(&page, end + number * PAGE_BYTES)?;
        file.sync()?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| times.get((share * (SYNCS - 1) as f64) as usize).copied().unwrap_or(f64::NAN);
    Ok(Syncs { p50: at(0.5), p99: at(0.99), max: at(1.0) })
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = Table::new(["random reads of 4 KiB", "a second"]);
        for shape in &self.device.random_reads {
            let name = format!("{} threads, {} at a time", shape.threads, shape.batch);
            table.row([name, format!("{:.0}", shape.reads_per_second)]);
        }
        writeln!(f, "{table}")?;
        let rate = |bytes: f64| format!("{}/s", sizes::bytes(bytes as u64));
        let mut table = Table::new(["", ""]);
        table.row(["sequential reads".to_owned(), rate(self.device.sequential_read_bytes_per_second)]);
        table.row([
            "sequential writes, synced at the end".to_owned(),
            rate(self.device.sequential_write_bytes_per_second),
        ]);
        let Syncs { p50, p99, max } = self.device.sync_us;
        table.row([
            "append 4 KiB and sync: p50, p99, max".to_owned(),
            format!("{p50:.0}, {p99:.0}, {max:.0} µs"),
        ]);
        table.row([
            "processor time of puts and gets, of the model's".to_owned(),
            format!("{:.2}", self.processor_time),
        ]);
        write!(f, "{table}")
    }
}
