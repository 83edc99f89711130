//! What a design costs, put together.

use super::Device;
use super::cache::{Cache, DeviceReads};
use super::layout::{Layout, PAGE_BYTES};
use super::lifetimes::Lifetimes;
use super::memory::{Fitted, Held, MemoryCosts};
use super::opening::Opening;
use super::processor::{us_per_put, us_per_read};
use super::reads::{Pages, Taken};
use super::requests::Requests;
use super::trie::Trie;
use super::workload::Mix;
use super::written::Written;
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
    /// Microseconds that a read of each kind takes where it is the only one: its device reads one after the
    /// other, and the processor.
    pub latency_us: ReadLatencies,
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
    /// The mean over time: while items are overwritten, or while they are put where none are. It is per byte
    /// of the items that are there at the end: of a store that is only filled, it is about a half.
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
    /// Seconds until a store that was closed in order is open again: the manifest, half a write buffer of
    /// log, and the filters of regions that were in memory.
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

impl ReadTimes {
    /// What each kind of operation takes of the processor and, this long for reads, of the device.
    fn operation_cost(&self, [hit, miss, scan]: [f64; 3], writes: &Writes) -> OperationCosts {
        OperationCosts {
            hit: self.hit + hit,
            miss: self.miss + miss,
            scan: self.scan + scan,
            put: writes.us_per_put + writes.device_us_per_put,
        }
    }

    /// What a read of each kind takes by itself, where the device takes so long.
    fn latencies(&self, [hit, miss, scan]: [f64; 3]) -> ReadLatencies {
        ReadLatencies { hit: self.hit + hit, miss: self.miss + miss, scan: self.scan + scan }
    }
}

/// Bytes written and read for puts, and puts.
struct Writes {
    amplification: f64,
    changes: f64,
    log: f64,
    us_per_put: f64,
    device_us_per_put: f64,
}

/// What was written into each level, joins included.
struct WrittenByPuts {
    all: Vec<Written>,
    /// Before anything was changed.
    by_inserts: Vec<Written>,
    /// By so many puts that those to come are like.
    next: Vec<Written>,
    puts: f64,
}

impl WrittenByPuts {
    /// How long tables live if puts are such a share of operations.
    fn lifetimes(&self, held: &Held, share_of_puts: f64) -> Lifetimes {
        let bytes = held.levels.iter().map(|level| level.bytes);
        Lifetimes::of(bytes, &self.next, self.puts, share_of_puts)
    }
}

impl Question<'_> {
    pub fn answer(&self) -> Costs {
        let (trie, workload) = (self.trie, self.layout.workload());
        let fitted = Fitted::of(trie, self.layout, self.budget_bytes);
        let held = Held::mean(fitted.iter().map(|fitted| &fitted.held));
        let written = self.written(&fitted);
        let lifetimes = written.lifetimes(&held, workload.mix.normalized().puts);
        let ([hit, miss, scan], reads) = self.reads(&fitted, &lifetimes);
        let times = self.read_times([&hit, &miss, &scan], &reads);
        let mix = workload.mix.normalized();
        let writes = self.writes(&written);
        let taken = [&hit, &miss, &scan];
        let reads_of_each = [reads.hit, reads.miss, reads.scan];
        let on_device = |us_per_read| self.device_us(reads_of_each, taken, us_per_read);
        let operation_cost = times.operation_cost(on_device(self.device.us_per_read()), &writes);
        let latency_us = times.latencies(on_device(self.device.read_latency_us));
        let live = trie.live_items();
        let live_bytes = (live * workload.item_bytes()).max(1.0);
        let table_bytes = trie.bytes();
        let memory = MemoryCosts::mean(fitted.iter().map(|fitted| &fitted.memory));
        let open_seconds = fitted.last().map_or(0.0, |Fitted { held, memory, .. }| {
            Opening::of(held, self.layout, memory).seconds(self.device)
        });
        let user_bytes = workload.user_bytes();
        Costs {
            cost: operation_cost.of(&mix),
            operation_cost,
            write_amplification: writes.amplification,
            change_write_amplification: writes.changes,
            log_amplification: writes.log,
            latency_us,
            pages_per_hit: hit.all_pages(),
            pages_per_miss: miss.all_pages(),
            pages_per_scan: scan.all_pages(),
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
            open_seconds,
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

    /// What each kind of read takes, and how much of it from the device: in the mean of the moments at which
    /// the store is looked at. What young runs are asked for depends on the moment as much as what is in
    /// memory of their filters, and what a cache can keep of them.
    fn reads(&self, fitted: &[Fitted<'_>], lifetimes: &Lifetimes) -> ([Taken; 3], DeviceReads) {
        let (workload, keeps_answers) = (self.layout.workload(), self.layout.keeps_answers());
        let at_moment = |fitted: &Fitted<'_>| {
            let Fitted { moment, layout, memory, missing, .. } = fitted;
            let at = (self.trie, *moment);
            (memory.cache, Pages::at(at, layout, missing, self.requests, self.is_rough))
        };
        let at_moments: Vec<(f64, Pages)> = fitted.iter().map(at_moment).collect();
        let cache = Cache { keeps_answers, is_rough: self.is_rough, workload, lifetimes };
        let share = 1.0 / at_moments.len().max(1) as f64;
        let (mut taken, mut reads) = ([Taken::default(); 3], DeviceReads::default());
        for ((_, pages), missed) in at_moments.iter().zip(cache.missed(self.requests, &at_moments)) {
            let kinds = [pages.hit, pages.miss, pages.scan];
            taken.iter_mut().zip(kinds).for_each(|(mean, taken)| *mean = mean.plus(share, taken));
            // What lies apart is never cached.
            reads.hit += share * (missed.hit + pages.hit.apart);
            reads.miss += share * missed.miss;
            reads.scan += share * (missed.scan + pages.scan.apart);
        }
        (taken, reads)
    }

    /// Processor time of reads of so many pages, and of so many from the device.
    fn read_times(&self, [hit, miss, scan]: [&Taken; 3], reads: &DeviceReads) -> ReadTimes {
        let workload = self.layout.workload();
        let hit = us_per_read(hit, reads.hit, 0.0);
        let miss = us_per_read(miss, reads.miss, 0.0);
        let scan = us_per_read(scan, reads.scan, workload.group_items);
        let mix = workload.mix.normalized();
        let gets = mix.hits + mix.misses;
        let get = if gets > 0.0 { (mix.hits * hit + mix.misses * miss) / gets } else { hit };
        let slow = self.device.processor_time;
        ReadTimes { hit: hit * slow, miss: miss * slow, scan: scan * slow, get: get * slow }
    }

    /// Microseconds of the device that each kind of read takes, where a read of a page takes so many and what
    /// lies in several is read at once.
    fn device_us(&self, reads: [f64; 3], taken: [&Taken; 3], us_per_read: f64) -> [f64; 3] {
        let us_per_page = PAGE_BYTES * 1e6 / self.device.sequential_read_bytes_per_second;
        let of = |(reads, taken): (f64, &Taken)| {
            reads * us_per_read + (taken.pages_apart - taken.apart).max(0.0) * us_per_page
        };
        let [hit, miss, scan] = reads;
        let [of_hit, of_miss, of_scan] = taken;
        [(hit, of_hit), (miss, of_miss), (scan, of_scan)].map(of)
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

    /// What puts have written.
    fn written(&self, fitted: &[Fitted<'_>]) -> WrittenByPuts {
        let (trie, workload) = (self.trie, self.layout.workload());
        let joined = |written: &[Written]| -> Vec<Written> {
            let levels = written.iter().enumerate();
            let with_joins = |(level, written): (usize, &Written)| {
                let spec = self.layout.design().level(level);
                let at_moments = fitted.iter().map(|fitted| fitted.missing.joined(level, spec));
                written.with_joins(at_moments.sum::<f64>() / fitted.len().max(1) as f64, spec)
            };
            levels.map(with_joins).collect()
        };
        let all = joined(&trie.written);
        // What comes next is like the changes, once there were enough of them to tell.
        let (next, puts) = if workload.is_changed_throughout() {
            (joined(&trie.written_by_changes()), workload.changes())
        } else {
            (all.clone(), workload.items + workload.changes())
        };
        WrittenByPuts { all, by_inserts: joined(&trie.written_by_inserts), next, puts }
    }

    /// What puts cost that have written so much.
    fn writes(&self, written: &WrittenByPuts) -> Writes {
        let workload = self.layout.workload();
        let WrittenByPuts { all, by_inserts, next, puts } = written;
        let bytes = |written: &[Written]| written.iter().map(|level| level.bytes).sum::<f64>();
        let tables = bytes(all);
        let log = self.layout.logged_bytes() / workload.item_bytes();
        let amplification = log + tables / workload.user_bytes();
        let changes = if workload.changes() > 0.0 {
            log + (tables - bytes(by_inserts)) / workload.change_bytes().max(1.0)
        } else {
            amplification
        };
        let read: f64 = next.iter().map(|level| level.read_bytes).sum();
        let us_per_put = us_per_put(next, self.layout, *puts);
        let device_us_per_put = (self.layout.logged_bytes() + bytes(next) / puts) * 1e6
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

/// How long reads take, in microseconds, on the average: where nothing else is asked of the device meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReadLatencies {
    /// A get that finds an item.
    pub hit: f64,
    /// A get that finds none.
    pub miss: f64,
    /// A scan of one group.
    pub scan: f64,
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
