//! What a design has to keep to.

use super::Request;
use crate::ModelError;
use crate::price::Costs;
use serde::Serialize;
use siltstone_design::Design;

/// A limit that designs have to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Filters, indexes and write buffers do not fit the memory.
    Memory,
    /// More space than may be taken.
    Space,
    /// More device reads per get that finds an item than there may be.
    Reads,
    /// More device reads per get that finds none.
    MissReads,
    /// More device reads per scan.
    ScanReads,
    /// Gets that find an item take too long.
    HitTime,
    /// Gets that find none take too long.
    MissTime,
    /// Scans take too long.
    ScanTime,
    /// The device is worn out too early.
    Years,
}

impl Limit {
    /// Limits on what costs at most so much, in the order in which they are looked at.
    pub const CEILINGS: [Self; 7] = [
        Self::Space,
        Self::Reads,
        Self::MissReads,
        Self::ScanReads,
        Self::HitTime,
        Self::MissTime,
        Self::ScanTime,
    ];

    /// The name of the parameter that sets it.
    pub(super) fn parameter(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Space => "space-at-most",
            Self::Reads => "reads-at-most",
            Self::MissReads => "miss-reads-at-most",
            Self::ScanReads => "scan-reads-at-most",
            Self::HitTime => "hit-us-at-most",
            Self::MissTime => "miss-us-at-most",
            Self::ScanTime => "scan-us-at-most",
            Self::Years => "years-at-least",
        }
    }

    /// What it limits.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Space => "space at the peak",
            Self::Reads => "reads a get",
            Self::MissReads => "reads a get that finds nothing",
            Self::ScanReads => "reads a scan",
            Self::HitTime => "microseconds a get",
            Self::MissTime => "microseconds a get that finds nothing",
            Self::ScanTime => "microseconds a scan",
            Self::Years => "years of the device",
        }
    }

    /// What to do where no design keeps to it.
    fn to_loosen(self) -> &'static str {
        match self {
            Self::Memory => "give more",
            Self::Years => "ask for fewer",
            _ => "allow more",
        }
    }

    /// What a design that costs so much has of it, in bytes, times the items, reads, microseconds or years.
    pub fn of(self, costs: &Costs) -> f64 {
        match self {
            Self::Memory => costs.memory_bytes.total,
            Self::Space => costs.peak_space_amplification,
            Self::Reads => costs.reads_per_hit,
            Self::MissReads => costs.reads_per_miss,
            Self::ScanReads => costs.reads_per_scan,
            Self::HitTime => costs.latency_us.hit,
            Self::MissTime => costs.latency_us.miss,
            Self::ScanTime => costs.latency_us.scan,
            Self::Years => costs.device_years.unwrap_or(f64::INFINITY),
        }
    }

    /// What a design has of it that breaks it: of memory, what it would take.
    pub(super) fn reached(self, costs: &Costs) -> f64 {
        self.of(costs) + if self == Self::Memory { costs.memory_bytes.unfitted() } else { 0.0 }
    }

    /// The better of two values of it.
    pub(super) fn better(self, a: f64, b: f64) -> f64 {
        if self == Self::Years { a.max(b) } else { a.min(b) }
    }

    /// The error where none of so many designs keeps to it, of which the best comes as near as `nearest`.
    pub(super) fn is_kept_by_none(self, considered: usize, nearest: f64) -> ModelError {
        let nearest = match self {
            Self::Memory => format!("{:.1} MiB", nearest / (1024.0 * 1024.0)),
            Self::HitTime | Self::MissTime | Self::ScanTime => format!("{nearest:.1} µs"),
            _ => format!("{nearest:.2}"),
        };
        let message = format!(
            "none of {considered} designs keeps to it, and the nearest has {nearest}; {}",
            self.to_loosen()
        );
        ModelError::new(self.parameter(), message)
    }
}

impl Request {
    /// Where it sets a limit, in the unit of [`Limit::of`]; `None` where it does not.
    pub fn bound(&self, limit: Limit) -> Option<f64> {
        match limit {
            Limit::Memory => Some(self.memory_bytes as f64),
            Limit::Space => self.space_at_most,
            Limit::Reads => self.reads_at_most,
            Limit::MissReads => self.miss_reads_at_most,
            Limit::ScanReads => self.scan_reads_at_most,
            Limit::HitTime => self.hit_us_at_most,
            Limit::MissTime => self.miss_us_at_most,
            Limit::ScanTime => self.scan_us_at_most,
            Limit::Years => self.years_at_least,
        }
    }

    /// The limits that it sets beside that on memory.
    fn bounds_beside_memory(&self) -> impl Iterator<Item = (Limit, f64)> {
        let limits = Limit::CEILINGS.into_iter().chain([Limit::Years]);
        limits.filter_map(|limit| self.bound(limit).map(|bound| (limit, bound)))
    }

    /// Whether it sets a limit beside that on memory.
    pub(super) fn has_limits_beside_memory(&self) -> bool {
        self.bounds_beside_memory().next().is_some()
    }

    /// Returns the first limit that a design of this price breaks; `None` if it keeps to all.
    ///
    /// ```
    /// use siltstone_design::presets;
    /// use siltstone_model::advise::{Limit, Request};
    /// use siltstone_model::price::Workload;
    ///
    /// let request = Request::new(Workload::default(), 16 << 20);
    /// let design = presets::siltstone().scaled_to(1 << 20);
    /// let costs = request.pricer()?.price(&design, request.memory_bytes)?;
    /// assert_eq!(request.broken(&design, &costs), None);
    /// let narrow = Request { space_at_most: Some(1.0), ..request };
    /// assert_eq!(narrow.broken(&design, &costs), Some(Limit::Space));
    /// # Ok::<(), siltstone_model::ModelError>(())
    /// ```
    pub fn broken(&self, design: &Design, costs: &Costs) -> Option<Limit> {
        self.all_broken(design, costs).next()
    }

    /// All of them, in the order in which they are looked at.
    pub(super) fn all_broken(&self, design: &Design, costs: &Costs) -> impl Iterator<Item = Limit> {
        let memory = &costs.memory_bytes;
        let has_no_room = !memory.fits()
            || 2 * design.write_buffer_bytes() > self.memory_bytes / 2
            || memory.total > self.memory_bytes as f64;
        let is_beyond = |limit: &Limit| self.bound(*limit).is_some_and(|most| limit.of(costs) > most);
        let wears_out = self.years_at_least.is_some_and(|least| Limit::Years.of(costs) < least);
        let of_memory = has_no_room.then_some(Limit::Memory).into_iter();
        of_memory
            .chain(Limit::CEILINGS.into_iter().filter(is_beyond))
            .chain(wears_out.then_some(Limit::Years))
    }

    /// How far beyond its limits a design is, as the sum of shares of them.
    pub(super) fn overrun(&self, design: &Design, costs: &Costs) -> f64 {
        let beyond = |value: f64, most: f64| (value / most - 1.0).max(0.0);
        let budget = self.memory_bytes as f64;
        let memory = costs.memory_bytes.unfitted() + costs.memory_bytes.total;
        let over = |limit: Limit| self.bound(limit).map_or(0.0, |most| beyond(limit.of(costs), most));
        let years = self.years_at_least.map_or(0.0, |least| beyond(least, Limit::Years.of(costs)));
        let buffers = beyond(4.0 * design.write_buffer_bytes() as f64, budget);
        beyond(memory, budget) + buffers + Limit::CEILINGS.into_iter().map(over).sum::<f64>() + years
    }

    /// Checks that limits are numbers that make sense.
    pub(super) fn check_limits(&self) -> Result<(), ModelError> {
        for (limit, bound) in self.bounds_beside_memory() {
            ModelError::positive(limit.parameter(), bound)?;
        }
        Ok(())
    }
}
