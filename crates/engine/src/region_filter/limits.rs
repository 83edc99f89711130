//! How exact the region filters of a keyspace may be, for want of memory.

use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What background work has reckoned for a keyspace; see `db/background/filter_fit.rs`.
#[derive(Debug)]
pub(crate) struct FilterLimits {
    most_bits: AtomicU8,
    kept_for_top: AtomicU64,
}

impl Default for FilterLimits {
    fn default() -> Self {
        Self { most_bits: AtomicU8::new(u8::MAX), kept_for_top: AtomicU64::new(0) }
    }
}

impl FilterLimits {
    /// The most bits by which filters are to tell keys apart; `u8::MAX` where memory is no reason for fewer
    /// than the design says, and 0 where not even one bit fits for all regions.
    pub fn most_bits(&self) -> u8 {
        self.most_bits.load(Ordering::Relaxed)
    }

    /// Whether there is no room for the filters of all regions, however short their fingerprints.
    pub fn leave_some_without(&self) -> bool {
        self.most_bits() == 0
    }

    /// Bytes that the filter of the uppermost region may still come to need: those below leave them.
    pub fn kept_for_top(&self) -> u64 {
        self.kept_for_top.load(Ordering::Relaxed)
    }

    /// Sets what memory allows.
    pub fn set(&self, most_bits: u8, kept_for_top: u64) {
        self.most_bits.store(most_bits, Ordering::Relaxed);
        self.kept_for_top.store(kept_for_top, Ordering::Relaxed);
    }
}
