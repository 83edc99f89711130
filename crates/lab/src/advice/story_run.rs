//! A store that is filled and read as a story says, and what was predicted of it.

use super::points::{History, MOMENTS, Story, stories};
use super::record::{Figures, Point};
use super::stage::Removed;
use crate::clients::KEYSPACE;
use crate::clients::client::{Load, Run};
use crate::clients::filled::Filled;
use crate::clients::watch::run_clients;
use crate::clients::workload::{Mix as ClientMix, Operation, Workload};
use crate::kit::sizes;
use crate::measure::{Reads, Worked};
use crate::program::failure::{Failure, Result, fail, refused};
use crate::program::output::note;
use siltstone::{Db, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema, Stats};
use siltstone_model::price::{Costs, Device, Mix, Pricer};
use std::path::Path;

/// Items of a batch.
const BATCH: u64 = 100;
/// Hits among the gets that are measured. Misses alone would find the cache full of what other misses have
/// brought, which no store sees.
const HITS_PERCENT: u32 = 90;
/// Items per read that is measured, and per group that is listed,
const ITEMS_PER_READ: u64 = 8;
const ITEMS_PER_SCAN: u64 = 512;
const LEAST_READS: u64 = 1000;
/// and how many times as many come before, to fill the caches and to find how to divide them: more where some
/// items are asked for more than others, since what stays is what comes again.
const READS_BEFORE: u64 = 5;
const SKEWED_READS_BEFORE: u64 = 16;
const SCANS_BEFORE: u64 = 3;

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
    let mut written = write(story, &dir, is_headlong)?;
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
    measure_over_time(story, &dir, &mut written.filled, &mut points)?;
    drop(removed);
    Ok(points)
}

/// Lists groups with each budget, looks at what filters and indexes take, and fills both in. A store that was
/// overwritten is looked at at several moments of the cycle in which its upper levels fill up; it is
/// overwritten further between.
fn measure_over_time(story: &Story, dir: &Path, filled: &mut Filled, points: &mut [Point]) -> Result<()> {
    let moments = moments(story);
    for moment in 0..moments {
        if moment > 0 {
            let store = Store::open(story, dir)?;
            let at_once = story.contents().write_buffer_puts(&story.design);
            store.write(story, filled, Workload::Overwrite, story.overwritten_between(), at_once)?;
            store.close()?;
        }
        let add = |mean: &mut Option<f64>, now: f64| {
            *mean = Some(mean.unwrap_or(0.0) + now / f64::from(moments));
        };
        for Point { budget_bytes, measured, .. } in &mut *points {
            let store = Store::open_read_only(dir, *budget_bytes)?;
            // Filters are read with the first gets, as those are that a writer makes.
            store.work(filled, &reading(story, story.items / ITEMS_PER_READ / u64::from(MOMENTS)))?;
            let memory = store.stats().memory;
            add(&mut measured.filter_and_index_bytes, (memory.filter + memory.index) as f64);
            if story.group > 1 {
                add(&mut measured.reads_per_scan, scan(story, &store, filled)?);
            }
        }
    }
    Ok(())
}

/// The moments at which a store is looked at.
fn moments(story: &Story) -> u32 {
    if story.history == History::Growth { 1 } else { MOMENTS }
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

/// Gets, of which most find an item.
fn reading(story: &Story, gets: u64) -> Load {
    let mix = ClientMix { first: Operation::Get, first_percent: HITS_PERCENT, second: Operation::GetMissing };
    Load { mix, ..load(Workload::ReadHit, story, 1, gets.max(LEAST_READS)) }
}

/// An open store of a story.
struct Store {
    db: Db,
    keyspace: Keyspace,
    worked: Worked,
}

impl Store {
    /// The store of `story`, which is made where there is none, with the largest of its budgets.
    fn open(story: &Story, dir: &Path) -> Result<Self> {
        let schema = match story.group {
            1 => Schema::Point,
            _ => Schema::ordered(PrefixRule::Fixed { bytes: 8 }),
        };
        let options = Options { memory_budget_bytes: story.budgets()[0], ..Options::default() };
        let db = Db::open(dir, options)?;
        let design = Some(story.design.clone());
        let keyspace = db.keyspace(KEYSPACE, KeyspaceOptions { schema, design, ..Default::default() })?;
        Ok(Self { db, keyspace, worked: Worked::default() })
    }

    fn open_read_only(dir: &Path, budget_bytes: u64) -> Result<Self> {
        let options = Options { memory_budget_bytes: budget_bytes, ..Options::default() };
        let db = Db::open_read_only(dir, options)?;
        let Some(keyspace) = db.get_keyspace(KEYSPACE) else {
            return Err(Failure::Failed(format!("{} has lost its keyspace", dir.display())));
        };
        Ok(Self { db, keyspace, worked: Worked::default() })
    }

    fn stats(&self) -> Stats {
        self.worked.stats(&self.db)
    }

    /// Runs clients and checks what they read.
    fn work(&self, filled: &mut Filled, load: &Load) -> Result<()> {
        let items = filled.generator().map_err(Failure::Failed)?;
        let run = Run::new(&self.db, &self.keyspace, items, filled, load);
        run_clients(&run)?.check_reads()?;
        if load.workload == Workload::Fill {
            filled.existing = run.existing();
        }
        Ok(())
    }

    /// Puts so many items, waits for merges after each `at_once`, and returns the space that the store took
    /// then, without the log, of which as much is kept as write buffers ask for.
    fn write(
        &self,
        story: &Story,
        filled: &mut Filled,
        workload: Workload,
        puts: u64,
        at_once: u64,
    ) -> Result<Vec<u64>> {
        let (mut left, mut space) = (puts, Vec::new());
        while left > 0 {
            let now = left.min(at_once);
            left -= now;
            self.work(filled, &load(workload, story, BATCH, now))?;
            if left == 0 {
                self.db.flush()?;
            }
            self.db.wait_until_idle()?;
            let stats = self.stats();
            space.push(stats.space_bytes.saturating_sub(stats.wal_bytes));
        }
        Ok(space)
    }

    fn close(self) -> Result<()> {
        drop(self.keyspace);
        Ok(self.db.close()?)
    }
}

/// Writes the store of a story. Merges keep up with the writer where it is not headlong, which is what the
/// model counts: where they lag, regions hold more than their limits when they are merged, and less is
/// written.
fn write(story: &Story, dir: &Path, is_headlong: bool) -> Result<Written> {
    let store = Store::open(story, dir)?;
    let mut filled = Filled {
        items: story.items,
        seed: 1,
        key_bytes: story.key_bytes(),
        value_bytes: story.value_bytes,
        group: story.group,
        existing: 0,
        complete: true,
    };
    let at_once = if is_headlong { u64::MAX } else { story.contents().write_buffer_puts(&story.design) };
    let (mut before, mut worked) = (store.stats(), store.worked.seconds());
    let mut puts = story.items;
    let filling = store.write(story, &mut filled, Workload::Fill, puts, at_once)?;
    let mut space_bytes = filling.last().copied().unwrap_or(0) as f64;
    if story.history != History::Growth {
        (before, worked) = (store.stats(), store.worked.seconds());
        puts = story.overwrites();
        let overwriting = store.write(story, &mut filled, Workload::Overwrite, puts, at_once)?;
        space_bytes = overwriting.iter().sum::<u64>() as f64 / overwriting.len() as f64;
    }
    let after = store.stats();
    let user = (after.user_bytes_written - before.user_bytes_written) as f64;
    let written = Written {
        write_amplification: (after.device_bytes_written - before.device_bytes_written) as f64 / user,
        space_amplification: space_bytes / (story.items * story.item_bytes()) as f64,
        cpu_us_per_put: (store.worked.seconds() - worked) * 1e6 / puts as f64,
        filled,
    };
    store.close()?;
    Ok(written)
}

/// Reads the store of a story as it is at the end of all puts. What is a mean over time is not known yet.
fn measure_reads(story: &Story, dir: &Path, budget_bytes: u64, written: &Written) -> Result<Figures> {
    let store = Store::open_read_only(dir, budget_bytes)?;
    let mut filled = written.filled.clone();
    let load = reading(story, story.items / ITEMS_PER_READ);
    let reads = load.operations;
    let before = if story.skew() > 0.0 { SKEWED_READS_BEFORE } else { READS_BEFORE };
    store.work(&mut filled, &reading(story, reads * before))?;
    let (before, worked) = (store.keyspace.stats(), store.worked.seconds());
    store.work(&mut filled, &load)?;
    let worked = store.worked.seconds() - worked;
    let Reads { hits, misses, by_hits, by_misses, .. } = Reads::between(&before, &store.keyspace.stats());
    let memory = store.stats().memory;
    Ok(Figures {
        write_amplification: written.write_amplification,
        space_amplification: written.space_amplification,
        reads_per_hit: by_hits as f64 / hits as f64,
        reads_per_miss: by_misses as f64 / misses as f64,
        reads_per_scan: None,
        filter_and_index_bytes: None,
        memory_bytes: (memory.filter + memory.index + memory.cache) as f64,
        cpu_us_per_put: written.cpu_us_per_put,
        cpu_us_per_get: worked * 1e6 / reads as f64,
    })
}

/// Lists groups, and returns what each read.
fn scan(story: &Story, store: &Store, filled: &mut Filled) -> Result<f64> {
    let scans = (story.items / ITEMS_PER_SCAN).max(LEAST_READS);
    let load = load(Workload::Scan, story, 1, scans / u64::from(MOMENTS));
    store.work(filled, &Load { operations: scans * SCANS_BEFORE, ..load })?;
    let before = store.keyspace.stats();
    store.work(filled, &load)?;
    let Reads { scans, by_scans, .. } = Reads::between(&before, &store.keyspace.stats());
    Ok(by_scans as f64 / scans as f64)
}

/// What is predicted of the store of a story.
pub fn predict(story: &Story, budget_bytes: u64, processor_time: f64) -> Result<Figures> {
    let workload = story.workload(BATCH);
    // Of reads alone, as they are measured: nothing is held for writers.
    let hits = f64::from(HITS_PERCENT) / 100.0;
    let mix = Mix { hits, misses: 1.0 - hits, scans: 0.0, puts: 0.0 };
    // What is looked at at several moments is priced at each of them; the first is the end of all puts.
    let at_moments = |mix: Mix| -> Result<Vec<Costs>> {
        let at = |moment: u32| {
            let further = u64::from(moment) * story.overwritten_between();
            let overwrites = workload.overwrites + further as f64;
            let reading = siltstone_model::price::Workload { mix, overwrites, ..workload };
            let device = Device { processor_time, ..Device::default() };
            let pricer = Pricer::new(&reading, &device).map_err(refused)?;
            pricer.price(&story.design, budget_bytes).map_err(refused)
        };
        (0..moments(story)).map(at).collect()
    };
    let mean = |all: &[Costs], of: fn(&Costs) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    let read = at_moments(mix)?;
    let Some(costs) = read.first() else { fail!("{} is looked at at no moment", story.key()) };
    let held = mean(&read, |costs| costs.memory_bytes.filter + costs.memory_bytes.index);
    let scanning = Mix { hits: 0.0, misses: 0.0, scans: 1.0, puts: 0.0 };
    let scanned = (story.group > 1).then(|| at_moments(scanning)).transpose()?;
    let memory = &costs.memory_bytes;
    Ok(Figures {
        write_amplification: costs.change_write_amplification,
        space_amplification: if story.history == History::Growth {
            costs.space_amplification
        } else {
            costs.mean_space_amplification
        },
        reads_per_hit: costs.reads_per_hit,
        reads_per_miss: costs.reads_per_miss,
        reads_per_scan: scanned.map(|all| mean(&all, |costs| costs.reads_per_scan)),
        filter_and_index_bytes: Some(held),
        memory_bytes: memory.filter + memory.index + memory.cache,
        cpu_us_per_put: costs.cpu_us_per_put,
        cpu_us_per_get: hits * costs.cpu_us_per_hit + (1.0 - hits) * costs.cpu_us_per_miss,
    })
}
