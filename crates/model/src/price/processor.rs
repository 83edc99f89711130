//! Processor time of operations, from the steps that they take.
//!
//! The times of steps were fitted to the 81 points of `siltstone-lab predictions --items 5M`, on a machine
//! that did nothing else, by least squares of relative errors that also keep near what steps took before,
//! and divided by 0.72: so much of the time of an older machine, an EPYC of 2.45 GHz, that one takes. They
//! are of optimised builds in a virtual machine, system calls included:
//! [`Device::processor_time`](super::Device::processor_time) is the factor for another. Those of coding are
//! of values of 90 to 220 bytes by themselves, and that of an item of a scan is from the older machine. That
//! of a key which a multi-level cuckoo filter has already is from two stores of `slimdb`.
//!
//! *Limits*: large caches take more processor time than small ones, which fit the processor's.

use super::layout::Layout;
use super::reads::Taken;
use super::written::Written;
use siltstone_design::RegionFilterSpec;

/// Nanoseconds of steps of a put.
struct PutSteps {
    /// A call, which a batch is one of.
    call: f64,
    /// An item in the log and the write buffer.
    item: f64,
    /// A byte of it there.
    byte: f64,
    /// An entry that a flush or a merge writes,
    entry: f64,
    /// for each doubling of the runs that are merged,
    comparison: f64,
    /// for each byte of tables that is written or read for it,
    table_byte: f64,
    /// for each byte of its value that is decoded and encoded, in tables that compress,
    coded_byte: f64,
    /// for one whose key the region's multi-level cuckoo filter has of an older run,
    present: f64,
    /// and for a file of its own: made, synced, named in the manifest.
    table: f64,
}

const PUT: PutSteps = PutSteps {
    call: 2200.0,
    item: 950.0,
    byte: 0.4,
    entry: 25.0,
    comparison: 56.0,
    table_byte: 0.3,
    table: 540_000.0,
    coded_byte: 5.0,
    present: 900.0,
};

/// Nanoseconds of steps of a get.
struct GetSteps {
    /// The call, and the write buffers.
    call: f64,
    /// A region's filter.
    region_filter: f64,
    /// A run, by its table's filter or index.
    run: f64,
    /// A sorted store's trie.
    trie: f64,
    /// A page that is searched,
    page: f64,
    /// and read from the device before.
    read: f64,
    /// An item that a scan returns.
    scanned_item: f64,
    /// A byte of a value that is decoded.
    decoded_byte: f64,
    /// A page of a value that has pages of its own: checked, and copied together.
    page_apart: f64,
}

const GET: GetSteps = GetSteps {
    call: 490.0,
    region_filter: 145.0,
    run: 90.0,
    trie: 1200.0,
    page: 500.0,
    read: 2950.0,
    scanned_item: 160.0,
    decoded_byte: 0.6,
    page_apart: 1000.0,
};

/// Microseconds of a put of a store laid out as `layout` says, where so much was written for `puts` puts.
pub(super) fn us_per_put(written: &[Written], layout: &Layout, puts: f64) -> f64 {
    let mut tables = 0.0;
    for (number, level) in written.iter().enumerate() {
        if matches!(layout.design().level(number).region_filter, RegionFilterSpec::MultiLevelCuckoo { .. }) {
            tables += level.present * PUT.present;
        }
        tables += level.entries * layout.decoded_bytes(number) * PUT.coded_byte;
        tables += level.entries * PUT.entry
            + level.compared * PUT.comparison
            + (level.bytes + level.read_bytes) * PUT.table_byte
            + level.runs * PUT.table;
    }
    let workload = layout.workload();
    let put = PUT.call / workload.batch_items + PUT.item + workload.item_bytes() * PUT.byte;
    (put + tables / puts.max(1.0)) / 1e3
}

/// Doublings of the runs that are merged where all of a store is rewritten, on the average.
const DOUBLINGS_OF_REWRITE: f64 = 2.0;

/// Microseconds of rewriting so many entries of tables of so many bytes once.
pub(crate) fn us_per_rewrite(entries: f64, bytes: f64) -> f64 {
    let by_entry = PUT.entry + DOUBLINGS_OF_REWRITE * PUT.comparison;
    (entries * by_entry + 2.0 * bytes * PUT.table_byte) / 1e3
}

/// Microseconds of a read that takes so many device reads, and returns `items`.
pub(super) fn us_per_read(taken: &Taken, device_reads: f64, items: f64) -> f64 {
    let pages = taken.pages * GET.page + device_reads * GET.read;
    let filters = taken.region_filters * GET.region_filter + taken.runs * GET.run + taken.tries * GET.trie;
    let values = taken.decoded_bytes * GET.decoded_byte + taken.pages_apart * GET.page_apart;
    (GET.call + filters + pages + values + items * GET.scanned_item) / 1e3
}
