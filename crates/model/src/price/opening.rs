//! How long a store takes to open, from what opening reads.
//!
//! The engine (`db/open` there) reads the manifest, which names the tables of every run; replays the log into
//! the write buffers, half of one on the average; and takes the filters of regions over from the file that
//! closing wrote. Tables are not touched. Files that are made anew are synced one after the other. After a
//! kill there is no file of filters, and they are made from the tables while the store answers already.
//!
//! Times of steps were measured on stores in memory (docs/models.md has them), and divided by 0.72 as those
//! of `processor`.

use super::Device;
use super::layout::Layout;
use super::memory::{Held, MemoryCosts};
use siltstone_design::RegionFilterSpec;

/// Syncs of manifest, log and directory.
const SYNCS: f64 = 8.0;
/// Seconds of processor time of opening in any case: threads, and files that are found;
const SECONDS: f64 = 1.1e-3;
/// of a run, which is read from the manifest and written to the next;
const SECONDS_PER_RUN: f64 = 4.4e-6;
/// of a put that is replayed;
const SECONDS_PER_PUT: f64 = 0.093e-6;
/// of a byte of a maplet, and of a multi-level cuckoo filter, that is checked and decoded.
const SECONDS_PER_MAPLET_BYTE: f64 = 2.2e-9;
const SECONDS_PER_CUCKOO_BYTE: f64 = 7.4e-9;

/// What opening reads and does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// Bytes of the log and of filters.
    bytes: f64,
    /// Processor time on the model's machine.
    processor_seconds: f64,
}

impl Opening {
    /// That of a store which holds so much, of which `memory` has what fits.
    pub fn of(held: &Held, layout: &Layout, memory: &MemoryCosts) -> Self {
        let runs: f64 = held.levels.iter().map(|level| level.runs).sum();
        let puts = layout.write_buffer_puts() / 2.0;
        let (mut filter_bytes, mut filter_seconds) = (0.0, 0.0);
        for (level, bytes) in held.region_filters_by_level(layout) {
            let per_byte = match layout.design().level(level).region_filter {
                RegionFilterSpec::MultiLevelCuckoo { .. } => SECONDS_PER_CUCKOO_BYTE,
                RegionFilterSpec::Maplet { .. } => SECONDS_PER_MAPLET_BYTE,
                RegionFilterSpec::None | RegionFilterSpec::BloomCluster { .. } => 0.0,
            };
            filter_bytes += bytes;
            filter_seconds += bytes * per_byte;
        }
        let fits = if filter_bytes > 0.0 { (memory.filter / filter_bytes).min(1.0) } else { 0.0 };
        let of_steps = SECONDS + runs * SECONDS_PER_RUN + puts * SECONDS_PER_PUT;
        Self {
            bytes: puts * layout.logged_bytes() + filter_bytes * fits,
            processor_seconds: of_steps + filter_seconds * fits,
        }
    }

    /// How long it takes.
    pub fn seconds(self, device: &Device) -> f64 {
        SYNCS * device.sync_us / 1e6
            + self.processor_seconds * device.processor_time
            + self.bytes / device.sequential_read_bytes_per_second
    }
}
