//! A store that is filled and read as a story says, and what was predicted of it.

use super::points::{History, Story, stories};
use super::record::{Figures, Point};
use crate::clients::KEYSPACE;
use crate::clients::client::{Load, Run};
use crate::clients::filled::Filled;
use crate::clients::watch::run_clients;
use crate::clients::workload::{Mix as ClientMix, Operation, Workload};
use crate::kit::sizes;
use crate::measure::{Reads, process_seconds};
use crate::program::failure::{Failure, Result, refused};
use crate::program::output::note;
use siltstone::{Db, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema};
use siltstone_model::price::{Device, Mix, Pricer};
use std::path::{Path, PathBuf};

/// Items of a batch.
const BATCH: u64 = 100;
/// Hits among the gets that are measured. Misses alone would find the cache full of what other misses have
/// brought, which no store sees.
const HITS_PERCENT: u32 = 90;
/// Items per read that is measured, and per group that is listed,
const ITEMS_PER_READ: u64 = 8;
const ITEMS_PER_SCAN: u64 = 512;
/// and how many times as many come before, to fill the caches and to find how to divide them: more where some
/// items are asked for more than others, since what stays is what comes again.
const READS_BEFORE: u64 = 5;
const SKEWED_READS_BEFORE: u64 = 16;

/// Returns the processor time that this machine takes for what the model's takes a second for: a store of so
/// many items is written below `dir` and read, and both are set beside what is predicted.
///
/// # Errors
/// A store that can't be written there or read.
pub fn processor_time(dir: &Path, items: u64) -> Result<f64> {
    let stories = stories(items);
    let Some(story) = stories.first() else { return Ok(1.0) };
    note!("{}, {} items, for the machine's processor time", story.key(), sizes::count(story.items));
    let [_, budget, _] = story.budgets();
    let Some(point) = run_story(story, &[budget], dir, false, 1.0)?.pop() else { return Ok(1.0) };
    let ratio = |of: fn(&Figures) -> f64| of(&point.measured) / of(&point.predicted);
    let factor = (ratio(|f| f.cpu_us_per_put) * ratio(|f| f.cpu_us_per_get)).sqrt();
    note!("this machine takes {factor:.2} of the processor time of the model's");
    Ok(factor)
}

/// Fills the store of a story, and reads it with each budget.
pub fn run_story(
    story: &Story,
    budgets: &[u64],
    dir: &Path,
    is_headlong: bool,
    processor_time: f64,
) -> Result<Vec<Point>> {
    let dir = dir.join(format!("siltstone-predictions-{}", std::process::id()));
    let removed = Removed(dir.clone());
    let written = write(story, &dir, story.budgets()[0], is_headlong)?;
    let mut points = Vec::new();
    for &budget_bytes in budgets {
        let measured = measure_reads(story, &dir, budget_bytes, &written)?;
        points.push(Point {
            store: story.key(),
            items: story.items,
            item_bytes: story.item_bytes(),
            budget_bytes,
            measured,
            predicted: predict(story, budget_bytes, processor_time)?,
        });
    }
    drop(removed);
    Ok(points)
}

/// Removes a store, however its run ends.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // What can't be removed is left to the user, who chose the place.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What writing a store cost.
struct Written {
    filled: Filled,
    write_amplification: f64,
    /// At the end where it was filled, on the average where it was overwritten: garbage comes and goes.
    space_amplification: f64,
    cpu_us_per_put: f64,
}

fn load(workload: Workload, story: &Story, batch: u64, operations: u64) -> Load {
    Load {
        workload,
        mix: workload.mix(50),
        skew: if workload == Workload::Fill { 0.0 } else { story.skew() },
        threads: 1,
        batch: batch as usize,
        deadline: None,
        operations,
    }
}

/// Writes the store of a story. Merges keep up with the writer where it is not headlong, which is what the
/// model counts: where they lag, regions hold more than their limits when they are merged, and less is
/// written.
fn write(story: &Story, dir: &Path, budget_bytes: u64, is_headlong: bool) -> Result<Written> {
    let schema = match story.group {
        1 => Schema::Point,
        _ => Schema::ordered(PrefixRule::Fixed { bytes: 8 }),
    };
    let options = Options { memory_budget_bytes: budget_bytes, ..Options::default() };
    let db = Db::open(dir, options)?;
    let design = Some(story.design.clone());
    let keyspace = db.create_keyspace(KEYSPACE, KeyspaceOptions { schema, design, ..Default::default() })?;
    let mut filled = Filled {
        items: story.items,
        seed: 1,
        key_bytes: story.key_bytes(),
        value_bytes: story.value_bytes,
        group: story.group,
        existing: 0,
        complete: true,
    };
    let (mut before, mut processor) = (db.stats(), process_seconds());
    let mut puts = story.items;
    let at_once = if is_headlong { u64::MAX } else { story.write_buffer_puts() };
    // Without the log, of which as much is kept as write buffers ask for.
    let table_bytes = || {
        let stats = db.stats();
        stats.space_bytes.saturating_sub(stats.wal_bytes)
    };
    // Returns the space that the store took after each write buffer.
    let mut write_all = |workload: Workload, puts: u64| -> Result<Vec<u64>> {
        let (mut left, mut space) = (puts, Vec::new());
        while left > 0 {
            let now = left.min(at_once);
            left -= now;
            work(&db, &keyspace, &mut filled, &load(workload, story, BATCH, now))?;
            if left > 0 {
                db.wait_until_idle()?;
                space.push(table_bytes());
            }
        }
        db.flush()?;
        db.wait_until_idle()?;
        space.push(table_bytes());
        Ok(space)
    };
    let filling = write_all(Workload::Fill, story.items)?;
    let mut space_bytes = filling.last().copied().unwrap_or(0) as f64;
    if story.history != History::Growth {
        (before, processor) = (db.stats(), process_seconds());
        puts = story.overwrites();
        let overwriting = write_all(Workload::Overwrite, puts)?;
        space_bytes = overwriting.iter().sum::<u64>() as f64 / overwriting.len() as f64;
    }
    let after = db.stats();
    let user = (after.user_bytes_written - before.user_bytes_written) as f64;
    let written = Written {
        write_amplification: (after.device_bytes_written - before.device_bytes_written) as f64 / user,
        space_amplification: space_bytes / (story.items * story.item_bytes()) as f64,
        cpu_us_per_put: (process_seconds() - processor) * 1e6 / puts as f64,
        filled,
    };
    drop(keyspace);
    db.close()?;
    Ok(written)
}

/// Runs clients and checks what they read.
fn work(db: &Db, keyspace: &Keyspace, filled: &mut Filled, load: &Load) -> Result<()> {
    let items = filled.generator().map_err(Failure::Failed)?;
    let run = Run::new(db, keyspace, items, filled, load);
    run_clients(&run)?.check_reads()?;
    let existing = run.existing();
    if load.workload == Workload::Fill {
        filled.existing = existing;
    }
    Ok(())
}

fn measure_reads(story: &Story, dir: &Path, budget_bytes: u64, written: &Written) -> Result<Figures> {
    let options = Options { memory_budget_bytes: budget_bytes, ..Options::default() };
    let db = Db::open_read_only(dir, options)?;
    let Some(keyspace) = db.get_keyspace(KEYSPACE) else {
        return Err(Failure::Failed(format!("{} has lost its keyspace", dir.display())));
    };
    let mut filled = written.filled.clone();
    let reads = (story.items / ITEMS_PER_READ).max(1000);
    let mix = ClientMix { first: Operation::Get, first_percent: HITS_PERCENT, second: Operation::GetMissing };
    let load = Load { mix, ..load(Workload::ReadHit, story, 1, reads) };
    let before = if story.skew() > 0.0 { SKEWED_READS_BEFORE } else { READS_BEFORE };
    work(&db, &keyspace, &mut filled, &Load { operations: reads * before, ..load })?;
    let (before, processor) = (keyspace.stats(), process_seconds());
    work(&db, &keyspace, &mut filled, &load)?;
    let processor = process_seconds() - processor;
    let Reads { hits, misses, by_hits, by_misses, .. } = Reads::between(&before, &keyspace.stats());
    let memory = db.stats().memory;
    let reads_per_scan = (story.group > 1).then(|| scan(story, (&db, &keyspace), &mut filled)).transpose()?;
    Ok(Figures {
        write_amplification: written.write_amplification,
        space_amplification: written.space_amplification,
        reads_per_hit: by_hits as f64 / hits as f64,
        reads_per_miss: by_misses as f64 / misses as f64,
        reads_per_scan,
        filter_and_index_bytes: Some((memory.filter + memory.index) as f64),
        memory_bytes: (memory.filter + memory.index + memory.cache) as f64,
        cpu_us_per_put: written.cpu_us_per_put,
        cpu_us_per_get: processor * 1e6 / reads as f64,
    })
}

/// Lists groups, and returns what each read.
fn scan(story: &Story, (db, keyspace): (&Db, &Keyspace), filled: &mut Filled) -> Result<f64> {
    let scans = (story.items / ITEMS_PER_SCAN).max(1000);
    let load = load(Workload::Scan, story, 1, scans);
    work(db, keyspace, filled, &Load { operations: scans * READS_BEFORE, ..load })?;
    let before = keyspace.stats();
    work(db, keyspace, filled, &load)?;
    let Reads { scans, by_scans, .. } = Reads::between(&before, &keyspace.stats());
    Ok(by_scans as f64 / scans as f64)
}

/// What is predicted of the store of a story.
pub fn predict(story: &Story, budget_bytes: u64, processor_time: f64) -> Result<Figures> {
    let workload = story.workload(BATCH);
    // Of reads alone, as they are measured: nothing is held for writers.
    let hits = f64::from(HITS_PERCENT) / 100.0;
    let mix = Mix { hits, misses: 1.0 - hits, scans: 0.0, puts: 0.0 };
    let pricer_of = |mix: Mix| {
        let reading = siltstone_model::price::Workload { mix, ..workload };
        Pricer::new(&reading, &Device { processor_time, ..Device::default() }).map_err(refused)
    };
    let price = |pricer: Pricer| pricer.price(&story.design, budget_bytes).map_err(refused);
    let costs = price(pricer_of(mix)?)?;
    // A group is read from every run on its path, and how many runs level 0 has at the end is chance.
    let scanning = Mix { hits: 0.0, misses: 0.0, scans: 1.0, puts: 0.0 };
    let scanned = (story.group > 1).then(|| price(pricer_of(scanning)?.over_time())).transpose()?;
    let memory = &costs.memory_bytes;
    let is_growth = story.history == History::Growth;
    Ok(Figures {
        write_amplification: costs.change_write_amplification,
        space_amplification: if is_growth {
            costs.space_amplification
        } else {
            costs.mean_space_amplification
        },
        reads_per_hit: costs.reads_per_hit,
        reads_per_miss: costs.reads_per_miss,
        reads_per_scan: scanned.map(|costs| costs.reads_per_scan),
        filter_and_index_bytes: Some(memory.filter + memory.index),
        memory_bytes: memory.filter + memory.index + memory.cache,
        cpu_us_per_put: costs.cpu_us_per_put,
        cpu_us_per_get: hits * costs.cpu_us_per_hit + (1.0 - hits) * costs.cpu_us_per_miss,
    })
}
