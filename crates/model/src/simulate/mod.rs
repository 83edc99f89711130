//! Simulators: what the models estimate, found by doing it, key by key or table by table.
//!
//! Source: Lim et al., FAST 2016, §4.5 and §5. The paper's authors hold their models against an item-level
//! simulator of LevelDB; so do we, against simulators that are exact in what they count and take seconds
//! where that one takes most of an hour. A simulator sees no values, does no I/O and reads no clock; equal
//! seeds make equal runs.
//!
//! | module | holds |
//! |---|---|
//! | `keys` | which key the next request writes: exact draws from any popularity |
//! | `tables` | tables as sorted slices; sorting and merging them |
//! | `level` | a level of tables, and which of them goes next |
//! | `leveled` | [`Leveled`]: LevelDB, and RocksDB's leveled compaction |
//! | `design` | [`simulate_design`]: our designs, driven by the engine's own planner |
//! | `universal` | [`simulate_universal`]: RocksDB's universal compaction |
//! | `protocol` | [`Protocol`]: what is loaded, warmed up, measured; miniatures |

mod design;
mod keys;
mod level;
mod leveled;
mod protocol;
mod tables;
mod universal;

pub use design::{DesignMeasured, LevelState, Moment, simulate_design};
pub use keys::Ranks;
pub use leveled::{Leveled, Order, Pick};
pub use protocol::{Load, Measured, Protocol};
pub use universal::simulate_universal;
