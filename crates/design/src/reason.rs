//! Why the planner chose a task: plain data, and the same in words.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a region is worked on. [`reason`](crate::plan::reason) finds it for a task of
/// [`plan`](crate::plan::plan).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The region has as many runs as it may.
    RunsFull {
        /// Runs that it has.
        runs: u64,
        /// Runs at which it is full: the design's number, or the region's own phase before its first push.
        at_most: u64,
    },
    /// The region has as many bytes as it may.
    BytesFull {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes at which it is full.
        at_most: u64,
    },
    /// A leaf is full of live data: the trie grows below it.
    LeafOutgrown {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes at which it is full.
        at_most: u64,
        /// Runs that it has.
        runs: u64,
    },
    /// More of a leaf is dead than the design's `max_garbage` allows.
    Garbage {
        /// Share of its bytes that is dead, as estimated.
        garbage: f64,
        /// Share that may be.
        at_most: f64,
    },
    /// More of what lies in the region and below it was deleted, or has expired, than `max_garbage` allows.
    Deleted {
        /// Share of the bytes there that is doomed, as estimated.
        garbage: f64,
        /// Share that may be.
        at_most: f64,
    },
    /// All that the oldest runs of a leaf hold has expired or was deleted.
    Expired {
        /// Such runs.
        runs: u64,
        /// Bytes that they have together.
        bytes: u64,
    },
    /// The region is full of runs that are too small to be pushed one level down.
    SmallRuns {
        /// Runs that it has.
        runs: u64,
        /// Bytes that they have together.
        bytes: u64,
    },
    /// A leaf is full of runs, but not of live data.
    SparseLeaf {
        /// Runs that it has.
        runs: u64,
        /// Bytes that are live, as estimated.
        live_bytes: u64,
    },
    /// Memory is short for a filter that knows the newest runs.
    Unfiltered {
        /// How many runs it would have to know.
        runs: u64,
    },
    /// The region is full of runs of one group of keys, which no region below could divide.
    OneGroup {
        /// Runs that it has.
        runs: u64,
    },
    /// Overwrites make the store larger than `max_garbage` allows, so that regions are pushed before they are
    /// full.
    Crowded {
        /// Bytes that the region has.
        bytes: u64,
        /// Bytes at which it would be full.
        at_most: u64,
    },
    /// The design has changed, and has no level where the region lies.
    NoSuchLevel {
        /// Digest bits that the region fixes.
        depth: u8,
    },
    /// The design has changed, and what lies below the region fits into it.
    FitsAbove {
        /// Bytes of the region and all below.
        bytes: u64,
    },
    /// The design has changed, and the region is to hold one run.
    ManyRuns {
        /// Runs that it has.
        runs: u64,
    },
    /// The design has changed, little is written, and the region would keep what is older.
    OlderThanDesign {
        /// Runs that it has.
        runs: u64,
    },
    /// The design has changed, and the region has runs with tables of another kind.
    OtherTables {
        /// Runs that are rewritten for it.
        runs: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::RunsFull { runs, at_most } => write!(f, "the region is full ({runs} of {at_most} runs)"),
            Self::BytesFull { bytes, at_most } => {
                write!(f, "the region is full ({} of {})", Bytes(bytes), Bytes(at_most))
            }
            Self::LeafOutgrown { bytes, at_most, runs } => {
                let (bytes, at_most) = (Bytes(bytes), Bytes(at_most));
                write!(f, "the leaf has outgrown its region ({bytes} of {at_most}, {runs} runs)")
            }
            Self::Garbage { garbage, at_most } => {
                let (garbage, over) = (garbage * 100.0, (garbage - at_most) * 100.0);
                write!(f, "{garbage:.1}% of the leaf is garbage, {over:.1}% more than max_garbage allows")
            }
            Self::Deleted { garbage, at_most } => {
                let (garbage, over) = (garbage * 100.0, (garbage - at_most) * 100.0);
                write!(f, "{garbage:.1}% of the region and what lies below is deleted or expired, ")?;
                write!(f, "{over:.1}% more than max_garbage allows")
            }
            Self::Expired { runs, bytes } => {
                write!(f, "all of the {runs} oldest runs ({}) is deleted or expired", Bytes(bytes))
            }
            Self::SmallRuns { runs, bytes } => {
                write!(f, "{runs} runs of {} together are too small to be pushed", Bytes(bytes))
            }
            Self::SparseLeaf { runs, live_bytes } => {
                write!(f, "the leaf has {runs} runs and only {} of live data", Bytes(live_bytes))
            }
            Self::Unfiltered { runs } => write!(f, "memory is short for a filter of {runs} runs"),
            Self::OneGroup { runs } => write!(f, "the region has {runs} runs of one group of keys"),
            Self::Crowded { bytes, at_most } => write!(
                f,
                "overwrites make the store larger than max_garbage allows (the region has {} of {})",
                Bytes(bytes),
                Bytes(at_most)
            ),
            Self::NoSuchLevel { depth } => {
                write!(f, "the design has changed and has no level of {depth} bits")
            }
            Self::FitsAbove { bytes } => {
                write!(f, "the design has changed, and all below fits the region ({})", Bytes(bytes))
            }
            Self::ManyRuns { runs } => {
                write!(f, "the design has changed, and the region's {runs} runs are to be one")
            }
            Self::OlderThanDesign { runs } => {
                write!(
                    f,
                    "the design has changed, and little is written that would push the region's {runs} runs"
                )
            }
            Self::OtherTables { runs } => {
                write!(f, "the design has changed, and {runs} runs have or hide tables of another kind")
            }
        }
    }
}

/// Bytes in words, in binary units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1 << 10 {
            return write!(f, "{} B", self.0);
        }
        let mut amount = self.0 as f64 / 1024.0;
        let mut unit = UNITS[0];
        for larger in &UNITS[1..] {
            // What would be shown as 1024.0 is one of the next unit.
            if amount < 1023.95 {
                break;
            }
            amount /= 1024.0;
            unit = larger;
        }
        write!(f, "{amount:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_unit_that_suits_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (25_270_682, "24.1 MiB"),
            (3 << 40, "3.0 TiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
