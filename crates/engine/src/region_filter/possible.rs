//! The filter that a region may have: what it takes, and what it is worth.

use super::kind::RegionFilterKind;
use super::limits::FilterLimits;
use super::run::Contents;
use crate::memory::{FilterWorth, MISS_SHARE};
use siltstone_design::TriePath;

/// A filter in memory that a region has, or may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PossibleFilter {
    /// What it is like where memory is no reason for shorter fingerprints.
    pub kind: RegionFilterKind,
    /// The region, and what lies there.
    pub path: TriePath,
    pub contents: Contents,
    pub has_children: bool,
}

impl PossibleFilter {
    /// Whether it is of the uppermost region.
    pub fn is_top(&self) -> bool {
        self.path == TriePath::ROOT
    }

    /// Returns about what it takes with fingerprints that tell keys apart by `bits` bits at most.
    pub fn bytes_now(&self, bits: u8) -> u64 {
        self.kind.at_most(bits).estimated_bytes(self.contents).unwrap_or(0)
    }

    /// Returns the same of what it has to have room for: of the uppermost region once that is full.
    pub fn bytes(&self, bits: u8) -> u64 {
        let kind = self.kind.at_most(bits);
        let full = if self.is_top() { kind.full_bytes(self.contents) } else { None };
        full.unwrap_or(0).max(self.bytes_now(bits))
    }

    /// The share of all lookups that lead to the region, of those that come so deep.
    pub fn share(&self) -> f64 {
        (-f64::from(self.path.depth())).exp2()
    }

    /// Reads that it costs a lookup in vain.
    pub fn false_probes(&self, bits: u8) -> f64 {
        self.share() * self.kind.at_most(bits).false_probes()
    }

    /// Reads of a lookup that it spares: those of the runs that are asked in vain, and that it does not name.
    /// That is all of them, but for the oldest where nothing lies below it: only what is not there is looked
    /// for in vain there.
    pub fn spared(&self, bits: u8) -> f64 {
        let runs = self.contents.runs as f64;
        let in_vain = if self.has_children { runs } else { (runs - 1.0).max(0.0) + MISS_SHARE };
        let named = self.kind.at_most(bits).false_probes() / runs.max(1.0);
        self.share() * in_vain * (1.0 - named).max(0.0)
    }

    /// What it is worth.
    pub fn worth(&self, bits: u8) -> FilterWorth {
        FilterWorth::of(self.spared(bits), self.bytes(bits))
    }

    /// Whether there is no room for it.
    pub fn is_refused(&self, limits: &FilterLimits) -> bool {
        limits.leave_some_without() && self.worth(limits.most_bits()) <= limits.refused()
    }
}
