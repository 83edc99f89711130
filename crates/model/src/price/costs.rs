//! What a design costs, put together.

use super::Device;
use super::cache::Cache;
use super::layout::Layout;
use super::memory::{MemoryCosts, fitted};
use super::processor::{us_per_put, us_per_read};
use super::reads::{Missing, Pages};
use super::requests::Requests;
use super::trie::{Trie, Written};
use super::workload::Mix;
use serde::Serialize;

/// What a design costs for a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Costs {
    /// Mean microseconds of the device and of the processor that an operation of the mix takes: what
    /// [`advise`](crate::advise::advise()) makes small.
    pub cost: f64,
    /// The same of each kind of operation.
    pub operation_cost: OperationCosts,
    /// Bytes written to the device per byte put, the log included, from the first put on.
    pub write_amplification: f64,
    /// The same of the overwrites and deletes alone; of all puts where there are none.
    pub change_write_amplification: f64,
    /// Bytes written to the log per byte put.
    pub log_amplification: f64,
    /// The levels, from the top.
    pub levels: Vec<LevelCosts>,
    /// Pages that a get of an item needs, cached or not.
    pub pages_per_hit: f64,
    /// Pages that a get of an absent key needs, cached or not.
    pub pages_per_miss: f64,
    /// Pages that a scan of one group needs, cached or not.
    pub pages_per_scan: f64,
    /// Device reads per get of an item, of which popular ones are asked for as often as the workload says.
    pub reads_per_hit: f64,
    /// Device reads per get of a key that is not there.
    pub reads_per_miss: f64,
    /// Device reads per scan of one group.
    pub reads_per_scan: f64,
    /// Bytes of memory by what they are for.
    pub memory_bytes: MemoryCosts,
    /// Filter bits in memory per item, if all filters are in memory.
    pub filter_bits_per_item: f64,
    /// Index bits in memory per item, if all indexes are in memory.
    pub index_bits_per_item: f64,
    /// Items that are there at the end.
    pub live_items: f64,
    /// Bytes of all tables at the end.
    pub table_bytes: f64,
    /// Bytes of all tables at the end per byte of items that are there.
    pub space_amplification: f64,
    /// The mean over time: while items are overwritten, or while they are put where none are.
    pub mean_space_amplification: f64,
    /// The peak over the same time.
    pub peak_space_amplification: f64,
    /// Microseconds of processor time per get, hits and misses as the mix has them.
    pub cpu_us_per_get: f64,
    /// The same of a get that finds something.
    pub cpu_us_per_hit: f64,
    /// The same of a get that does not.
    pub cpu_us_per_miss: f64,
    /// The same of a scan of one group.
    pub cpu_us_per_scan: f64,
    /// Microseconds of processor time per put, flushes and compactions included.
    pub cpu_us_per_put: f64,
    /// Seconds that opening takes at the end of a working day: the manifest, and half a write buffer of log.
    pub open_seconds: f64,
    /// Full writes of the device a day; `None` without a rate of puts or a device's capacity.
    pub drive_writes_per_day: Option<f64>,
    /// Years until the device has been written as often as it may be; `None` without a rate of puts or a
    /// device's endurance.
    pub device_years: Option<f64>,
}

/// What one level holds and has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LevelCosts {
    /// Bytes written into it per byte put.
    pub write_amplification: f64,
    /// Regions with runs.
    pub regions: f64,
    /// Runs.
    pub runs: f64,
    /// Entries in its tables.
    pub entries: f64,
    /// Bytes of its tables.
    pub bytes: f64,
}

/// Seconds that opening takes in any case, per run and per put that is replayed from the log: rough guesses.
const OPEN_SECONDS: [f64; 3] = [3e-3, 6e-6, 4e-7];
const SECONDS_PER_DAY: f64 = 86_400.0;
const DAYS_PER_YEAR: f64 = 365.25;

/// What is asked beside the store as it is filled.
pub(super) struct Question<'a> {
    pub trie: &'a Trie,
    /// How entries lie: the trie's, or another with the same tables.
    pub layout: &'a Layout,
    pub requests: &'a Requests,
    pub device: &'a Device,
    pub budget_bytes: f64,
    /// Whether a rough price will do.
    pub is_rough: bool,
}

/// Microseconds of reads and gets.
struct ReadTimes {
    hit: f64,
    miss: f64,
    scan: f64,
    get: f64,
}

/// Bytes written and read for puts, and puts.
struct Writes {
    amplification: f64,
    changes: f64,
    log: f64,
    us_per_put: f64,
    device_us_per_put: f64,
}

impl Question<'_> {
    pub fn answer(&self) -> Costs {
        let (trie, workload) = (self.trie, self.layout.workload());
        let (in_memory, held, memory) = fitted(trie, self.layout, self.budget_bytes);
        let missing = held.missing(&in_memory, &memory, workload.mix.puts > 0.0);
        let pages = Pages::of(trie, &in_memory, &missing, self.requests, self.is_rough);
        let keeps_answers = self.layout.keeps_answers();
        let cache = Cache { bytes: memory.cache, keeps_answers, is_rough: self.is_rough, workload };
        let reads = cache.missed(self.requests, &pages);
        let group = workload.group_items;
        let hit = us_per_read(&pages.hit, reads.hit, 0.0);
        let miss = us_per_read(&pages.miss, reads.miss, 0.0);
        let scan = us_per_read(&pages.scan, reads.scan, group);
        let mix = workload.mix.normalized();
        let gets = mix.hits + mix.misses;
        let get = if gets > 0.0 { (mix.hits * hit + mix.misses * miss) / gets } else { hit };
        let slow = self.device.processor_time;
        let times = ReadTimes { hit: hit * slow, miss: miss * slow, scan: scan * slow, get: get * slow };
        let writes = self.writes(&missing);
        let operation_cost = self.operation_cost([reads.hit, reads.miss, reads.scan], &times, &writes);
        let live = trie.live_items();
        let live_bytes = (live * workload.item_bytes()).max(1.0);
        let table_bytes = trie.bytes();
        let runs: f64 = held.levels.iter().map(|level| level.runs).sum();
        let [least, of_run, of_put] = OPEN_SECONDS;
        let user_bytes = workload.user_bytes();
        Costs {
            cost: operation_cost.of(&mix),
            operation_cost,
            write_amplification: writes.amplification,
            change_write_amplification: writes.changes,
            log_amplification: writes.log,
            pages_per_hit: pages.hit.pages,
            pages_per_miss: pages.miss.pages,
            pages_per_scan: pages.scan.pages,
            reads_per_hit: reads.hit,
            reads_per_miss: reads.miss,
            reads_per_scan: reads.scan,
            filter_bits_per_item: held.filters() * 8.0 / workload.items,
            index_bits_per_item: held.indexes() * 8.0 / workload.items,
            live_items: live,
            table_bytes,
            space_amplification: table_bytes / live_bytes,
            mean_space_amplification: trie.space.mean_bytes() / live_bytes,
            peak_space_amplification: trie.space.peak_bytes / live_bytes,
            cpu_us_per_get: times.get,
            cpu_us_per_hit: times.hit,
            cpu_us_per_miss: times.miss,
            cpu_us_per_scan: times.scan,
            cpu_us_per_put: writes.us_per_put,
            open_seconds: least + runs * of_run + self.layout.write_buffer_puts() / 2.0 * of_put,
            drive_writes_per_day: self
                .per_day(&writes)
                .zip(self.device.capacity_bytes)
                .map(|(day, all)| day / all),
            device_years: self.years(&writes),
            levels: held
                .levels
                .into_iter()
                .zip(&trie.written)
                .map(|(level, written)| LevelCosts {
                    write_amplification: written.bytes / user_bytes,
                    ..level
                })
                .collect(),
            memory_bytes: memory,
        }
    }

    /// What each kind of operation takes of the device and the processor.
    fn operation_cost(&self, reads: [f64; 3], times: &ReadTimes, writes: &Writes) -> OperationCosts {
        let [hit, miss, scan] = reads.map(|reads| reads * self.device.us_per_read());
        OperationCosts {
            hit: times.hit + hit,
            miss: times.miss + miss,
            scan: times.scan + scan,
            put: writes.us_per_put + writes.device_us_per_put,
        }
    }

    /// Bytes written a day, while items are changed or put.
    fn per_day(&self, writes: &Writes) -> Option<f64> {
        let workload = self.layout.workload();
        let puts = workload.puts_per_second?;
        Some(puts * SECONDS_PER_DAY * workload.item_bytes() * writes.changes)
    }

    fn years(&self, writes: &Writes) -> Option<f64> {
        Some(self.device.endurance_bytes? / self.per_day(writes)? / DAYS_PER_YEAR)
    }

    /// What puts cost.
    fn writes(&self, missing: &Missing) -> Writes {
        let (trie, workload) = (self.trie, self.layout.workload());
        let joined = |written: &[Written]| -> Vec<Written> {
            let levels = written.iter().enumerate();
            let anew = |level| missing.written_anew(level, self.layout.design().level(level));
            levels.map(|(level, written)| written.with_joins(anew(level))).collect()
        };
        let (written, by_inserts) = (joined(&trie.written), joined(&trie.written_by_inserts));
        let bytes = |written: &[Written]| written.iter().map(|level| level.bytes).sum::<f64>();
        let tables = bytes(&written);
        let log = self.layout.logged_bytes() / workload.item_bytes();
        let amplification = log + tables / workload.user_bytes();
        let changes = if workload.changes() > 0.0 {
            log + (tables - bytes(&by_inserts)) / workload.change_bytes().max(1.0)
        } else {
            amplification
        };
        // What comes next is like the changes, once there were enough of them to tell.
        let (written, puts) = if workload.changes() >= workload.items {
            (joined(&trie.written_by_changes()), workload.changes())
        } else {
            (written, workload.items + workload.changes())
        };
        let read: f64 = written.iter().map(|level| level.read_bytes).sum();
        let item = (workload.item_bytes(), workload.batch_items);
        let us_per_put = us_per_put(&written, |level| self.layout.decoded_bytes(level), puts, item);
        let device_us_per_put = (self.layout.logged_bytes() + bytes(&written) / puts) * 1e6
            / self.device.sequential_write_bytes_per_second
            + read / puts * 1e6 / self.device.sequential_read_bytes_per_second;
        Writes {
            amplification,
            changes,
            log,
            us_per_put: us_per_put * self.device.processor_time,
            device_us_per_put,
        }
    }
}

/// What each kind of operation costs, in microseconds of device and processor.
///
/// The cost of a mix is the mean of these by its shares, so that other mixes are priced without another look
/// at the design.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OperationCosts {
    /// A get that finds an item.
    pub hit: f64,
    /// A get that finds none.
    pub miss: f64,
    /// A scan of one group.
    pub scan: f64,
    /// A put.
    pub put: f64,
}

impl OperationCosts {
    /// In the order of [`Mix::shares`](super::Mix::shares).
    pub fn all(&self) -> [f64; 4] {
        [self.hit, self.miss, self.scan, self.put]
    }

    /// What an operation of `mix` costs on the average.
    pub fn of(&self, mix: &Mix) -> f64 {
        self.of_all(mix.shares())
    }

    /// What so many operations cost together, in the order of [`Mix::shares`](super::Mix::shares).
    pub fn of_all(&self, operations: [f64; 4]) -> f64 {
        operations.iter().zip(self.all()).map(|(count, cost)| count * cost).sum()
    }
}
