//! The workloads, in the order in which they run on a store: what reads comes before what changes it.

use serde::{Deserialize, Serialize};

/// What a client does over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Write items that do not exist yet.
    Insert,
    /// Write items that exist.
    Put,
    /// Get items that exist.
    Get,
    /// Get keys that do not exist, of groups that do.
    GetMissing,
    /// List a group.
    Scan,
}

impl Operation {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Put => "put",
            Self::Get => "get",
            Self::GetMissing => "get-missing",
            Self::Scan => "scan",
        }
    }

    /// Whether it changes the store.
    pub fn writes(self) -> bool {
        matches!(self, Self::Insert | Self::Put)
    }
}

/// A workload by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Every item once, in random order, by the engine's own way to build a store, where it has one; the
    /// store is removed again
    Bulk,
    /// Every item once, in random order, in batches from one thread
    Fill,
    /// Gets of items that exist, uniform, from many threads
    GetHit,
    /// Gets of keys that do not exist
    GetMiss,
    /// Gets of items that exist, many in a call, from two threads
    GetBatch,
    /// Listings of whole groups
    Scan,
    /// The store opened after it was closed in order, until it answers
    Reopen,
    /// One thread writes batches of existing items as fast as it can, eight get items
    Mixed,
    /// Eight threads put single existing items
    PutSingle,
    /// Existing items in batches from one thread, uniform
    Overwrite,
    /// Existing items in batches from one thread, Zipf 0.99
    OverwriteZipf,
    /// The store opened after a process that overwrote items was killed, until it answers
    Recover,
}

/// Clients that do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clients {
    /// How many.
    pub threads: usize,
    /// What they do.
    pub operation: Operation,
    /// Items they write or get in one call.
    pub batch: usize,
}

/// Clients of [`Workload::GetBatch`], and the items that each asks for in one call.
const BATCH_READERS: usize = 2;
const BATCH_OF_GETS: usize = 64;

impl Workload {
    /// All, in the order in which they run.
    pub const ALL: [Self; 12] = [
        Self::Bulk,
        Self::Fill,
        Self::GetHit,
        Self::GetMiss,
        Self::GetBatch,
        Self::Scan,
        Self::Reopen,
        Self::Mixed,
        Self::PutSingle,
        Self::Overwrite,
        Self::OverwriteZipf,
        Self::Recover,
    ];

    /// The name on the command line and in results.
    pub fn name(self) -> String {
        clap::ValueEnum::to_possible_value(&self)
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Who does what, with `threads` readers and batches of `batch`.
    pub fn clients(self, threads: usize, batch: usize) -> Vec<Clients> {
        let one = |threads, operation, batch| Clients { threads, operation, batch };
        match self {
            Self::Bulk | Self::Fill => vec![one(1, Operation::Insert, batch)],
            Self::Reopen | Self::Recover => vec![one(1, Operation::Get, 1)],
            Self::GetHit => vec![one(threads, Operation::Get, 1)],
            Self::GetMiss => vec![one(threads, Operation::GetMissing, 1)],
            Self::GetBatch => vec![one(BATCH_READERS, Operation::Get, BATCH_OF_GETS)],
            Self::Scan => vec![one(threads, Operation::Scan, 1)],
            Self::Mixed => vec![one(1, Operation::Put, batch), one(8, Operation::Get, 1)],
            Self::PutSingle => vec![one(8, Operation::Put, 1)],
            Self::Overwrite | Self::OverwriteZipf => vec![one(1, Operation::Put, batch)],
        }
    }

    /// Whether it changes the store.
    pub fn writes(self) -> bool {
        !matches!(self, Self::GetHit | Self::GetMiss | Self::GetBatch | Self::Scan | Self::Reopen)
    }

    /// Whether it makes a store of nothing.
    pub fn makes(self) -> bool {
        matches!(self, Self::Bulk | Self::Fill)
    }

    /// Whether it is about how a store opens.
    pub fn opens(self) -> bool {
        matches!(self, Self::Reopen | Self::Recover)
    }

    /// Whether it ends after a number of operations and not after a time.
    pub fn is_counted(self) -> bool {
        matches!(self, Self::Fill | Self::Overwrite | Self::OverwriteZipf)
    }

    /// Exponent of the popularity's Zipf distribution.
    pub fn skew(self) -> f64 {
        if self == Self::OverwriteZipf { 0.99 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_workload_is_in_the_order() {
        assert_eq!(Workload::value_variants(), Workload::ALL);
    }

    #[test]
    fn only_what_writes_writes() {
        for workload in Workload::ALL {
            let writes = workload.clients(4, 10).iter().any(|clients| clients.operation.writes());
            // What is written before a recovery, another process writes.
            let expected = workload.writes() && workload != Workload::Recover;
            assert_eq!(expected, writes, "{}", workload.name());
        }
    }
}
