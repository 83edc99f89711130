//! Named designs.
//!
//! Both presets have the same head, tables, index and filters; they differ in `runs`, so that what stepped merge
//! saves in writes and costs in reads can be seen by itself.

use crate::design::{Design, FilterSpec, Format, Head, IndexSpec, LevelSpec};

const MIB: u64 = 1 << 20;

/// The level both presets are made of.
const LEVEL: LevelSpec = LevelSpec {
    fanout_bits: 3,
    runs: 8,
    format: Format::Block,
    index: IndexSpec::Separators,
    filter: FilterSpec::Bloom { bits_per_key: 10 },
    table_bytes: 8 * MIB,
};

/// The LevelDB-like baseline: one run per region below level 0, merged with on every push.
///
/// Few runs to search and little space held by old versions; every level rewrites its data several times.
pub fn leveled() -> Design {
    // A leveled region holds one run of as many bytes as a stepped region's whole pile.
    let leveled = LevelSpec { runs: 1, table_bytes: LEVEL.table_bytes * u64::from(LEVEL.runs), ..LEVEL };
    Design {
        head: Head::MemTable { bytes: LEVEL.table_bytes },
        levels: vec![LevelSpec { fanout_bits: 0, ..LEVEL }, leveled, leveled],
        max_garbage: 0.33,
    }
}

/// The same trie with up to eight runs per region: stepped merge (Jagadish et al., VLDB'97), the growth scheme of
/// LSM-trie and of SlimDB's upper levels. Every level writes its data once.
pub fn stepped_merge() -> Design {
    Design {
        head: Head::MemTable { bytes: LEVEL.table_bytes },
        levels: vec![LevelSpec { fanout_bits: 0, ..LEVEL }, LEVEL, LEVEL],
        max_garbage: 0.33,
    }
}

/// Every preset with its name, default first.
pub fn all() -> Vec<(&'static str, Design)> {
    vec![("stepped-merge", stepped_merge()), ("leveled", leveled())]
}

impl Design {
    /// The preset called `name` (see [`all`]).
    pub fn preset(name: &str) -> Option<Self> {
        all().into_iter().find(|(known, _)| *known == name).map(|(_, design)| design)
    }

    /// The name of the preset equal to this design, or `"custom"`.
    pub fn preset_name(&self) -> &'static str {
        all().into_iter().find(|(_, design)| design == self).map_or("custom", |(name, _)| name)
    }
}

impl Default for Design {
    fn default() -> Self {
        stepped_merge()
    }
}
