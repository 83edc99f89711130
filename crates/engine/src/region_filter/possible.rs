//! The filter that a region may have: what it takes, and what it is worth.

use super::kind::RegionFilterKind;
use super::limits::FilterLimits;
use super::run::Contents;
use crate::memory::FilterWorth;
use siltstone_design::TriePath;

/// The share of lookups that are taken to be of what is not there.
const MISS_SHARE: f64 = 1.0 / 8.0;

/// A region as lookups come to it: what filters there can spare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub path: TriePath,
    pub has_children: bool,
}

impl Asked {
    /// Whether it is the uppermost region.
    pub fn is_top(&self) -> bool {
        self.path == TriePath::ROOT
    }

    /// The share of all lookups that lead to it, of those that come so deep.
    pub fn share(&self) -> f64 {
        (-f64::from(self.path.depth())).exp2()
    }

    /// The share of all lookups that ask the run at `place`, of so many, in vain: all that lead to the
    /// region, and of the oldest run where nothing lies below it only those of what is not there.
    pub fn in_vain(&self, place: usize, runs: usize) -> f64 {
        let is_last = place + 1 == runs && !self.has_children;
        if is_last { self.share() * MISS_SHARE } else { self.share() }
    }
}

/// A filter that a region has, or may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PossibleFilter {
    /// What it is like where memory is no reason for shorter fingerprints.
    pub kind: RegionFilterKind,
    /// The region, and what lies there.
    pub region: Asked,
    pub contents: Contents,
    /// What it takes where it is there, whole, and of a kind that can't be shortened. Otherwise its bytes are
    /// estimated.
    pub known_bytes: Option<u64>,
}

impl PossibleFilter {
    /// Returns about what it takes with fingerprints that tell keys apart by `bits` bits at most.
    pub fn bytes_now(&self, bits: u8) -> u64 {
        let estimated = || self.kind.at_most(bits).estimated_bytes(self.contents).unwrap_or(0);
        self.known_bytes.unwrap_or_else(estimated)
    }

    /// Returns the same of what it has to have room for: of the uppermost region once that is full.
    pub fn bytes(&self, bits: u8) -> u64 {
        let kind = self.kind.at_most(bits);
        let full = if self.region.is_top() { kind.full_bytes(self.contents) } else { None };
        full.unwrap_or(0).max(self.bytes_now(bits))
    }

    /// Reads that it costs a lookup in vain.
    pub fn false_probes(&self, bits: u8) -> f64 {
        self.region.share() * self.kind.at_most(bits).false_probes()
    }

    /// Reads of a lookup that it spares: those of the runs that are asked in vain, and that it does not name.
    pub fn spared(&self, bits: u8) -> f64 {
        let runs = self.contents.runs;
        let in_vain: f64 = (0..runs).map(|place| self.region.in_vain(place, runs)).sum();
        let named = self.kind.at_most(bits).false_probes() / runs.max(1) as f64;
        in_vain * (1.0 - named).max(0.0)
    }

    /// What it is worth.
    pub fn worth(&self, bits: u8) -> FilterWorth {
        FilterWorth::of(self.spared(bits), self.bytes(bits))
    }

    /// Whether there is no room for it; there is for what lies on the device.
    pub fn is_refused(&self, limits: &FilterLimits) -> bool {
        limits.leave_some_without()
            && self.kind.is_in_memory()
            && self.worth(limits.most_bits()) <= limits.refused()
    }
}
