//! What lookups learn of their reads in upper levels: whether most of them end there.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Upper reads after which what was learnt of them counts half.
const MEMORY: u64 = 4096;
/// Upper reads before which nothing is learnt from them.
const LEAST_READS: u64 = 32;

/// What lookups that had to read in upper levels have learnt: how many, and how many of them ended there.
#[derive(Debug, Default)]
pub(crate) struct UpperReads {
    reads: AtomicU64,
    hits: AtomicU64,
}

impl UpperReads {
    pub fn note(&self, ended_above: bool) {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        let hits = self.hits.fetch_add(u64::from(ended_above), Ordering::Relaxed) + u64::from(ended_above);
        if reads >= MEMORY {
            // Other threads may count between these; a few of thousands do not matter.
            self.reads.store(reads / 2, Ordering::Relaxed);
            self.hits.store(hits / 2, Ordering::Relaxed);
        }
    }

    /// Whether most upper reads are wasted, so that most guesses are not.
    pub fn are_mostly_wasted(&self) -> bool {
        let (reads, hits) = (self.reads.load(Ordering::Relaxed), self.hits.load(Ordering::Relaxed));
        reads >= LEAST_READS && hits * 2 < reads
    }
}
