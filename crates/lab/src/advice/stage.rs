//! A store that commands fill, work on and take the costs of, one kind of operation at a time.
//!
//! Items are all there once [`Stage::fill`] is done, and stay as many: puts are overwrites. Costs are counted
//! by the store (device reads, bytes) and by the system (processor time of the whole process, background work
//! included); what they are worth in time is said by a [`Device`].

use super::client::Client;
use crate::kit::generate::items::Items;
use crate::measure::Worked;
use crate::program::failure::{Failure, Result};
use serde::{Deserialize, Serialize};
use siltstone::{
    Batch, Db, Design, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema, Stats, WriteOptions,
};
use siltstone_model::price::{Device, Workload};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Items of a batch of the fill.
const FILL_BATCH: u64 = 100;
const KEYSPACE: &str = "items";
/// Operations between looks at the clock.
const BETWEEN_LOOKS: u64 = 64;
/// What a preset's tables are scaled to: this part of the items, or less where the budget is smaller.
const TABLES_OF_ITEMS: u64 = 400;
const TABLES_OF_BUDGET: u64 = 16;
/// Moments at which a store is read whose reads are to be means over time, spread by the golden section: of
/// no cycle of merges are they all at about the same place.
const MOMENTS: u32 = 6;
const GOLDEN: f64 = 0.618_033_988_749_895;
/// Reads of a kind at each moment, at least.
const LEAST_READS: u64 = 1000;
/// Scans that come before those that are measured, at least. Gets before them leave a cache of answers to
/// gets, and most pages are new: the cache comes to know which of them it had better keep once it has been
/// asked for some hundred thousand, ten a scan.
const LEAST_SCANS_BEFORE: u64 = 16_000;

/// What a store is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contents {
    pub items: u64,
    pub key_bytes: u64,
    pub value_bytes: u64,
    pub group: u64,
}

impl Contents {
    pub fn bytes(&self) -> u64 {
        self.items * (self.key_bytes + self.value_bytes)
    }

    fn item_bytes(&self) -> f64 {
        self.bytes() as f64 / self.items.max(1) as f64
    }

    /// A preset with tables and write buffers for so many items, and for so much memory.
    pub fn scaled(&self, preset: &Design, budget_bytes: u64) -> Design {
        let of_items = (self.bytes() / TABLES_OF_ITEMS).next_power_of_two();
        preset.scaled_to(of_items.min(1 << (budget_bytes / TABLES_OF_BUDGET).max(1).ilog2()))
    }

    /// Puts that a write buffer of a design holds, about.
    pub fn write_buffer_puts(&self, design: &Design) -> u64 {
        (design.write_buffer.items(self.item_bytes()) as u64).max(1)
    }

    /// Puts after which level 0 of a store of `design` is as it was, and level 1.
    pub fn cycles(&self, design: &Design) -> [f64; 2] {
        let mut puts = self.write_buffer_puts(design) as f64;
        [0, 1].map(|level| {
            let run_bytes = puts * self.item_bytes() / 2f64.powi(i32::from(design.depth(level)));
            puts *= design.level(level).runs_per_push(run_bytes);
            puts
        })
    }

    /// Items that are overwritten before each of the moments at which a store of `design` is read, with whole
    /// write buffers as far as these are small.
    fn overwritten_at(&self, design: &Design) -> Vec<u64> {
        let at_once = self.write_buffer_puts(design);
        let mut parts: Vec<f64> =
            (0..MOMENTS).map(|moment| 1.0 - (f64::from(moment) * GOLDEN).fract()).collect();
        parts.sort_by(f64::total_cmp);
        let whole = |part: f64| {
            ((self.items as f64 * part / at_once as f64).round() as u64 * at_once).min(self.items)
        };
        parts.into_iter().map(|part| if part < 1.0 { whole(part) } else { self.items }).collect()
    }

    /// The same for the model, each item overwritten so many times.
    pub fn workload(&self, overwrites: f64) -> Workload {
        Workload {
            items: self.items as f64,
            overwrites: self.items as f64 * overwrites,
            key_bytes: self.key_bytes as f64,
            value_bytes: self.value_bytes as f64,
            group_items: self.group as f64,
            ..Workload::default()
        }
    }

    fn schema(&self) -> Schema {
        if self.group > 1 { Schema::ordered(PrefixRule::Fixed { bytes: 8 }) } else { Schema::Point }
    }
}

/// Kinds of operation, in the order of a mix's shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Hit,
    Miss,
    Scan,
    Put,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::Scan, Self::Put];
}

/// What operations took, each on the average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    pub device_reads: f64,
    pub bytes_written: f64,
    /// Bytes that merges read.
    pub bytes_merged: f64,
    pub cpu_us: f64,
}

impl Taken {
    /// Adds a part of another.
    pub fn add(&mut self, other: &Self, part: f64) {
        self.device_reads += other.device_reads * part;
        self.bytes_written += other.bytes_written * part;
        self.bytes_merged += other.bytes_merged * part;
        self.cpu_us += other.cpu_us * part;
    }

    /// Microseconds of the device.
    pub fn device_us(&self, device: &Device) -> f64 {
        self.device_reads * device.us_per_read()
            + self.bytes_written * 1e6 / device.sequential_write_bytes_per_second
            + self.bytes_merged * 1e6 / device.sequential_read_bytes_per_second
    }

    /// Microseconds of device and processor, as the advisor weighs them.
    pub fn cost_us(&self, device: &Device) -> f64 {
        self.device_us(device) + self.cpu_us
    }
}

/// A moment that costs are counted from.
pub struct Moment {
    stats: Stats,
    processor: f64,
}

/// A store on the stage. It goes when this does.
pub struct Stage {
    pub db: Db,
    pub keyspace: Keyspace,
    contents: Contents,
    client: Client,
    worked: Worked,
    // Last, so that the store is closed before.
    _removed: Removed,
}

/// Removes a directory, however its use ends.
pub struct Removed(pub PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // What can't be removed is left to the user, who chose the place.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A directory of this process below `dir`, or below the system's for what is temporary.
pub fn directory(dir: Option<&PathBuf>, what: &str) -> PathBuf {
    let above = dir.cloned().unwrap_or_else(std::env::temp_dir);
    above.join(format!("siltstone-{what}-{}", std::process::id()))
}

impl Stage {
    /// An empty store of `design`, or of the one that a keyspace has when none is given.
    pub fn new(dir: &Path, design: Option<&Design>, contents: Contents, options: Options) -> Result<Self> {
        let removed = Removed(dir.to_owned());
        let db = Db::open(dir, options)?;
        let schema = contents.schema();
        let design = design.cloned();
        let keyspace =
            db.create_keyspace(KEYSPACE, KeyspaceOptions { schema, design, ..Default::default() })?;
        let [key_bytes, value_bytes] = [contents.key_bytes, contents.value_bytes].map(|bytes| bytes as usize);
        let items = Items::new(key_bytes, value_bytes, contents.group, 1, contents.items);
        let items = items.map_err(Failure::Failed)?;
        let client = Client::new(keyspace.clone(), items, contents.items, contents.group);
        Ok(Self { db, keyspace, contents, client, worked: Worked::default(), _removed: removed })
    }

    /// Puts all items once, in random order, and lets merges keep up where it is patient.
    pub fn fill(&mut self, is_patient: bool) -> Result<()> {
        let at_once = self.write_buffer_puts();
        let mut batch = Batch::new();
        for position in 0..self.contents.items {
            self.client.put_at(position, &mut batch)?;
            if (position + 1).is_multiple_of(FILL_BATCH) || position + 1 == self.contents.items {
                self.db.write(&batch, &WriteOptions::default())?;
                batch.clear();
            }
            if is_patient && (position + 1).is_multiple_of(at_once) {
                self.db.wait_until_idle()?;
            }
        }
        self.settle()
    }

    /// Waits until there is nothing to do in the background.
    pub fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.wait_until_idle()?)
    }

    /// Puts that the write buffer holds, about.
    pub fn write_buffer_puts(&self) -> u64 {
        self.contents.write_buffer_puts(&self.keyspace.design())
    }

    /// Asks for popular items as often as a Zipf distribution of this exponent says from now on.
    pub fn set_skew(&mut self, skew: f64) {
        self.client.set_skew(skew);
    }

    /// Does `before` reads of one kind, from which the cache comes to know it, and returns what `count` more
    /// take.
    pub fn read(&mut self, kind: Kind, before: u64, count: u64) -> Result<Taken> {
        self.work(kind, before, false)?;
        let then = self.now();
        self.work(kind, count, false)?;
        Ok(self.since(&then, count))
    }

    /// Overwrites as many items as there are. Returns what reads of each kind take, of which there is one for
    /// so many items, in the mean over that time, as prices over time are; and what an overwrite takes.
    pub fn read_while_overwritten<const KINDS: usize>(
        &mut self,
        reads: [(Kind, u64); KINDS],
    ) -> Result<([Taken; KINDS], Taken)> {
        let (mut taken, mut put) = ([Taken::default(); KINDS], Taken::default());
        let mut overwritten = 0;
        for at in self.contents.overwritten_at(&self.keyspace.design()) {
            let (then, count) = (self.now(), at - overwritten);
            self.work(Kind::Put, count, true)?;
            self.settle()?;
            put.add(&self.since(&then, count), count as f64 / self.contents.items as f64);
            for ((kind, per), sum) in reads.into_iter().zip(&mut taken) {
                let count = (self.contents.items / per / u64::from(MOMENTS)).max(LEAST_READS);
                // The first time the cache has to come to know it.
                let before = if overwritten == 0 { count * u64::from(MOMENTS) } else { count };
                let least = if kind == Kind::Scan { LEAST_SCANS_BEFORE } else { 0 };
                sum.add(&self.read(kind, before.max(least), count)?, 1.0 / f64::from(MOMENTS));
            }
            overwritten = at;
        }
        Ok((taken, put))
    }

    /// Does `count` operations of one kind; puts wait for merges after each write buffer where it is patient.
    pub fn work(&mut self, kind: Kind, count: u64, is_patient: bool) -> Result<()> {
        let at_once = self.write_buffer_puts();
        for number in 1..=count {
            self.client.operate(kind)?;
            if is_patient && kind == Kind::Put && number.is_multiple_of(at_once) {
                self.db.wait_until_idle()?;
            }
        }
        Ok(())
    }

    /// Lets some clients do operations of a mix for so long, and returns how many they do in a second; what
    /// they leave to be done in the background counts.
    pub fn rate(&mut self, shares: [f64; 4], clients: usize, time: Duration) -> Result<f64> {
        let clients: Vec<Client> = (0..clients).map(|_| self.client.another()).collect();
        let started = Instant::now();
        let work = |mut client: Client| {
            let mut done = 0;
            while started.elapsed() < time {
                client.work_mixed(shares, BETWEEN_LOOKS)?;
                done += BETWEEN_LOOKS;
            }
            Ok::<_, Failure>(done)
        };
        let done = std::thread::scope(|scope| {
            let threads: Vec<_> = clients.into_iter().map(|client| scope.spawn(|| work(client))).collect();
            threads.into_iter().try_fold(0, |sum, thread| {
                let done = thread.join().map_err(|_| Failure::Failed("a client panicked".to_owned()))?;
                Ok::<_, Failure>(sum + done?)
            })
        })?;
        self.db.wait_until_idle()?;
        Ok(done as f64 / started.elapsed().as_secs_f64())
    }

    /// Does `count` operations of a mix, and returns how many took longer than `long`, and the longest time.
    pub fn work_timed(&mut self, shares: [f64; 4], count: u64, long: Duration) -> Result<(u64, Duration)> {
        let (mut beyond, mut longest) = (0, Duration::ZERO);
        for _ in 0..count {
            let kind = self.client.drawn(shares);
            let began = Instant::now();
            self.client.operate(kind)?;
            let took = began.elapsed();
            beyond += u64::from(took > long);
            longest = longest.max(took);
        }
        Ok((beyond, longest))
    }

    /// Gets every item once, and fails where one is not as it was put.
    pub fn check_all(&mut self) -> Result<()> {
        (0..self.contents.items).try_for_each(|item| self.client.get(item))
    }

    /// Does `count` operations of a mix.
    pub fn work_mixed(&mut self, shares: [f64; 4], count: u64) -> Result<()> {
        self.client.work_mixed(shares, count)
    }

    /// The present moment, to count from.
    pub fn now(&self) -> Moment {
        let stats = self.worked.stats(&self.db);
        Moment { stats, processor: self.worked.seconds() }
    }

    /// What `operations` took since a moment, each on the average.
    pub fn since(&self, then: &Moment, operations: u64) -> Taken {
        let Moment { stats: now, processor } = self.now();
        let processor = processor - then.processor;
        let each = |is: u64, was: u64| is.saturating_sub(was) as f64 / operations.max(1) as f64;
        Taken {
            device_reads: each(now.device_reads, then.stats.device_reads),
            bytes_written: each(now.device_bytes_written, then.stats.device_bytes_written),
            bytes_merged: each(now.compaction_bytes_read, then.stats.compaction_bytes_read),
            cpu_us: processor * 1e6 / operations.max(1) as f64,
        }
    }
}
