//! What a design costs for a workload: bytes written, device reads, memory, space.
//!
//! The engine is held to what [`price`] says. Three things are put together:
//!
//! * `trie` lets the engine's own planner ([`siltstone_design::plan::plan`]) work on regions that exist only
//!   as sizes. Regions of a level are alike, since digests are uniform: a few of each level, of all phases,
//!   stand for all. What a merge writes follows from FAST'16's `Unique` (Lim et al., §3.3 and §3.4): a run
//!   stands for the writes that it took, and a merged run for the writes of all.
//! * `layout` says how many bytes an entry takes in a table of each format, and how many bits its filters
//!   and indexes take.
//! * `reads` says how many pages a lookup reads, from where items lie and how often filters are wrong.
//!
//! ```
//! use siltstone_design::presets;
//! use siltstone_model::price::{Workload, price};
//!
//! // 30 million items of 16 + 100 bytes in groups of 128.
//! let workload = Workload { items: 3e7, group_items: 128.0, ..Workload::default() };
//! let ours = price(&presets::siltstone(), &workload, 512 << 20)?;
//! let leveled = price(&presets::leveled(), &workload, 512 << 20)?;
//! assert!(ours.write_amplification < 4.0 && leveled.write_amplification > 8.0);
//! assert!(ours.reads_per_hit < 1.05);
//! # Ok::<(), siltstone_model::ModelError>(())
//! ```

mod costs;
mod layout;
mod reads;
mod trie;
mod workload;

pub use costs::{Costs, LevelCosts, MemoryCosts};
pub use workload::Workload;

use crate::ModelError;
use layout::Layout;
use siltstone_design::Design;
use trie::Trie;

/// Returns what `design` costs for `workload` in a store whose memory budget is `budget_bytes`.
///
/// Costs are those of the moment when all of the workload's writes are done and the store is idle; means and
/// peaks are over the time that its writes take.
///
/// # Errors
/// A workload with a number that makes no sense, or a design that [`Design::check`] refuses.
pub fn price(design: &Design, workload: &Workload, budget_bytes: u64) -> Result<Costs, ModelError> {
    design.check().map_err(|error| ModelError::new("design", error.to_string()))?;
    workload.check()?;
    let layout = Layout::new(design, workload);
    let trie = Trie::filled(design, workload, &layout)?;
    Ok(costs::of(&trie, &layout, workload, budget_bytes))
}
