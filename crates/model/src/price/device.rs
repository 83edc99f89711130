//! The device below a store and the processor beside it: what bytes, reads and steps take in time.
//!
//! The device's rates come from `siltstone probe`, whose JSON [`Device::from_json`] reads. The processor's
//! steps are those of one machine (`processor.rs` says how they were found); another processor takes a factor
//! on all of them, which the probe measures too.

use crate::ModelError;
use serde::{Deserialize, Serialize};

/// A device and a processor.
///
/// ```
/// use siltstone_model::price::Device;
///
/// let probed = r#"{ "random_reads": [{ "threads": 1, "batch": 32, "reads_per_second": 91000 }],
///     "sequential_write_bytes_per_second": 1.2e9, "capacity_bytes": 1.0e12, "endurance_bytes": 6.0e14 }"#;
/// let device = Device::from_json(probed)?;
/// assert_eq!(device.random_reads_per_second, 91_000.0);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Device {
    /// Random reads of a page a second, many under way at once.
    pub random_reads_per_second: f64,
    /// Microseconds until a random read of a page has come that is under way alone.
    pub read_latency_us: f64,
    /// Bytes a second of large reads.
    pub sequential_read_bytes_per_second: f64,
    /// Bytes a second of large writes.
    pub sequential_write_bytes_per_second: f64,
    /// Microseconds until a few bytes that were appended to a file are safe.
    pub sync_us: f64,
    /// Bytes that it holds; `None` where nobody knows.
    pub capacity_bytes: Option<f64>,
    /// Bytes that may be written to it in its life, its maker's TBW; `None` where nobody knows.
    pub endurance_bytes: Option<f64>,
    /// How long a step takes here, as a multiple of what it takes where the steps were measured.
    pub processor_time: f64,
}

impl Default for Device {
    /// A middling solid-state disk behind a virtual machine, whose maker promises a full write a day for
    /// five years of a terabyte.
    fn default() -> Self {
        Self {
            random_reads_per_second: 58e3,
            read_latency_us: 100.0,
            sequential_read_bytes_per_second: 0.8e9,
            sequential_write_bytes_per_second: 0.5e9,
            sync_us: 1000.0,
            capacity_bytes: Some(1e12),
            endurance_bytes: Some(1.8e15),
            processor_time: 1.0,
        }
    }
}

/// Where a file of a device comes from.
const HOW_TO_MAKE_ONE: &str = "make one with `siltstone probe DIR --json > FILE`";

/// What a file of a device may say: what `siltstone probe --json` writes, and what people add.
#[derive(Default, PartialEq, Deserialize)]
struct DeviceFile {
    #[serde(default)]
    random_reads: Vec<RandomReads>,
    random_reads_per_second: Option<f64>,
    read_latency_us: Option<f64>,
    sequential_read_bytes_per_second: Option<f64>,
    sequential_write_bytes_per_second: Option<f64>,
    sync_us: Option<Syncs>,
    capacity_bytes: Option<f64>,
    endurance_bytes: Option<f64>,
    processor_time: Option<f64>,
}

#[derive(PartialEq, Deserialize)]
struct RandomReads {
    threads: Option<u64>,
    batch: Option<u64>,
    reads_per_second: f64,
}

/// How long a sync takes: as the probe has it, or as a device has it.
#[derive(PartialEq, Deserialize)]
#[serde(untagged)]
enum Syncs {
    Probed { p50: f64 },
    Known(f64),
}

impl Syncs {
    fn us(&self) -> f64 {
        match *self {
            Self::Probed { p50 } => p50,
            Self::Known(us) => us,
        }
    }
}

impl RandomReads {
    /// Whether one read was under way at a time.
    fn is_one_by_one(&self) -> bool {
        (self.threads, self.batch) == (Some(1), Some(1))
    }
}

impl Device {
    /// The device of a file that `siltstone probe --json` has written: the most random reads that it reached,
    /// how long one took by itself, a sync mostly, and the processor's factor. `capacity_bytes` and
    /// `endurance_bytes` may be added; what is missing is taken from the default.
    ///
    /// # Errors
    /// What is no such JSON or says nothing of a device, or a number in it that makes no sense.
    pub fn from_json(text: &str) -> Result<Self, ModelError> {
        let refused = |why: &str| ModelError::new("device", format!("{why}; {HOW_TO_MAKE_ONE}"));
        let file: DeviceFile = serde_json::from_str(text).map_err(|error| refused(&error.to_string()))?;
        if file == DeviceFile::default() {
            return Err(refused("this JSON says nothing of a device"));
        }
        let usual = Self::default();
        // The most that any number of threads reached.
        let probed = file.random_reads.iter().map(|reads| reads.reads_per_second).reduce(f64::max);
        let one_by_one = file.random_reads.iter().find(|reads| reads.is_one_by_one());
        let latency_us = one_by_one.map(|reads| 1e6 / reads.reads_per_second);
        let device = Self {
            random_reads_per_second: file
                .random_reads_per_second
                .or(probed)
                .unwrap_or(usual.random_reads_per_second),
            read_latency_us: file.read_latency_us.or(latency_us).unwrap_or(usual.read_latency_us),
            sequential_read_bytes_per_second: file
                .sequential_read_bytes_per_second
                .unwrap_or(usual.sequential_read_bytes_per_second),
            sequential_write_bytes_per_second: file
                .sequential_write_bytes_per_second
                .unwrap_or(usual.sequential_write_bytes_per_second),
            sync_us: file.sync_us.map_or(usual.sync_us, |syncs| syncs.us()),
            capacity_bytes: file.capacity_bytes.or(usual.capacity_bytes),
            endurance_bytes: file.endurance_bytes.or(usual.endurance_bytes),
            processor_time: file.processor_time.unwrap_or(usual.processor_time),
        };
        device.check()?;
        Ok(device)
    }

    /// Checks that its numbers make sense.
    ///
    /// # Errors
    /// A number that is not positive, or not finite.
    pub fn check(&self) -> Result<(), ModelError> {
        for (name, value) in [
            ("random_reads_per_second", self.random_reads_per_second),
            ("read_latency_us", self.read_latency_us),
            ("sequential_read_bytes_per_second", self.sequential_read_bytes_per_second),
            ("sequential_write_bytes_per_second", self.sequential_write_bytes_per_second),
            ("sync_us", self.sync_us),
            ("capacity_bytes", self.capacity_bytes.unwrap_or(1.0)),
            ("endurance_bytes", self.endurance_bytes.unwrap_or(1.0)),
            ("processor_time", self.processor_time),
        ] {
            ModelError::positive(name, value)?;
        }
        Ok(())
    }

    /// Microseconds of a random read.
    pub fn us_per_read(&self) -> f64 {
        1e6 / self.random_reads_per_second
    }
}
