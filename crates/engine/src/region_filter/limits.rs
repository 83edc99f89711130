//! Which region filters a keyspace may have, and how exact they may be, for want of memory.

use crate::memory::FilterWorth;
use crate::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// What background work has reckoned for a keyspace; see `db/background/filter_fit.rs`.
#[derive(Debug)]
pub(crate) struct FilterLimits {
    most_bits: AtomicU8,
    refused: AtomicU32,
    kept_for_top: AtomicU64,
}

impl Default for FilterLimits {
    fn default() -> Self {
        let (refused, kept_for_top) = (AtomicU32::new(FilterWorth::NONE.to_bits()), AtomicU64::new(0));
        Self { most_bits: AtomicU8::new(u8::MAX), refused, kept_for_top }
    }
}

impl FilterLimits {
    /// The most bits by which filters are to tell keys apart; `u8::MAX` where memory is no reason for fewer
    /// than the design says.
    pub fn most_bits(&self) -> u8 {
        self.most_bits.load(Ordering::Relaxed)
    }

    /// What filters are worth that there is no room for.
    pub fn refused(&self) -> FilterWorth {
        FilterWorth::from_bits(self.refused.load(Ordering::Relaxed))
    }

    /// Whether there is no room for the filters of all regions, however short their fingerprints.
    pub fn leave_some_without(&self) -> bool {
        self.refused() > FilterWorth::NONE
    }

    /// Bytes that the filter of the uppermost region may still come to need: those below leave them.
    pub fn kept_for_top(&self) -> u64 {
        self.kept_for_top.load(Ordering::Relaxed)
    }

    /// Sets what memory allows.
    pub fn set(&self, most_bits: u8, refused: FilterWorth, kept_for_top: u64) {
        self.most_bits.store(most_bits, Ordering::Relaxed);
        self.refused.store(refused.to_bits(), Ordering::Relaxed);
        self.kept_for_top.store(kept_for_top, Ordering::Relaxed);
    }
}
