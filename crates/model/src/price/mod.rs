//! What a design costs for a workload: bytes written, device reads, memory, space.
//!
//! The engine is held to what [`price`] says. Three things are put together:
//!
//! * `trie` lets the engine's own planner ([`siltstone_design::plan::plan`]) work on regions that exist only
//!   as sizes. Regions of a level are alike, since digests are uniform: a few of each level, of all phases,
//!   stand for all. What a merge writes follows from FAST'16's `Unique` (Lim et al., §3.3 and §3.4): a run
//!   stands for the writes that it took, and a merged run for the writes of all (`puts`).
//! * `layout` says how many bytes an entry takes in a table of each format, and how many bits its filters
//!   and indexes take.
//! * `reads` says how many pages a lookup reads, from where items lie and how often filters are wrong;
//!   `requests` which items are asked for, `memory` which filters there is room for, `cache` how many of the
//!   pages are cached, as `replacement` says what a cache keeps.
//! * `observed` goes the other way: from what a running store counts to the workload's skew and groups.
//! * `processor` and [`Device`] turn all of it into time.
//!
//! ```
//! use siltstone_design::presets;
//! use siltstone_model::price::{Device, Workload, price};
//!
//! // 30 million items of 16 + 100 bytes in groups of 128.
//! let workload = Workload { items: 3e7, group_items: 128.0, ..Workload::default() };
//! let device = Device::default();
//! let ours = price(&presets::siltstone(), &workload, &device, 512 << 20)?;
//! let leveled = price(&presets::leveled(), &workload, &device, 512 << 20)?;
//! assert!(ours.write_amplification < 4.0 && leveled.write_amplification > 8.0);
//! assert!(ours.reads_per_hit < 1.05);
//! # Ok::<(), siltstone_model::ModelError>(())
//! ```

mod cache;
mod costs;
mod device;
mod layout;
mod memory;
mod observed;
mod processor;
mod puts;
mod reads;
mod replacement;
mod requests;
mod trie;
mod workload;

pub use costs::{Costs, LevelCosts, OperationCosts};
pub use device::Device;
pub use memory::MemoryCosts;
pub use observed::{group_items_of, skew_of};
pub(crate) use processor::us_per_rewrite;
pub use workload::{Mix, Workload};

use crate::ModelError;
use costs::Question;
use layout::Layout;
use puts::Keys;
use requests::Requests;
use siltstone_design::Design;
use trie::Trie;

/// Regions that are followed of a level, about, and moments of a cycle of level 0 at which a store is looked
/// at whose reads are priced over time; and both where a rough price will do.
const FOLLOWED: (usize, usize) = (32, 4);
const FOLLOWED_ROUGHLY: (usize, usize) = (8, 2);

/// Returns what `design` costs for `workload` on `device` in a store whose memory budget is `budget_bytes`.
///
/// Costs are those of the moment when all of the workload's writes are done and the store is idle; means and
/// peaks are over the time that its writes take. See [`Pricer::over_time`] for what does not depend on the
/// moment.
///
/// # Errors
/// A workload or a device with a number that makes no sense, or a design that [`Design::check`] refuses.
pub fn price(
    design: &Design,
    workload: &Workload,
    device: &Device,
    budget_bytes: u64,
) -> Result<Costs, ModelError> {
    Pricer::new(workload, device)?.price(design, budget_bytes)
}

/// Prices many designs for one workload: what does not depend on the design is worked out once.
#[derive(Clone, Debug)]
pub struct Pricer {
    workload: Workload,
    device: Device,
    keys: Keys,
    requests: Requests,
    is_over_time: bool,
}

impl Pricer {
    /// Returns what prices designs for `workload` on `device`.
    ///
    /// # Errors
    /// A number that makes no sense.
    pub fn new(workload: &Workload, device: &Device) -> Result<Self, ModelError> {
        workload.check()?;
        device.check()?;
        let (keys, requests) = (Keys::of(workload)?, Requests::of(workload)?);
        Ok(Self { workload: *workload, device: *device, keys, requests, is_over_time: false })
    }

    /// Prices reads and memory in the mean over the last cycle of level 0, rather than for the runs that
    /// happen to be there at the end.
    ///
    /// ```
    /// use siltstone_design::presets;
    /// use siltstone_model::price::{Device, Pricer, Workload};
    ///
    /// let pricer = Pricer::new(&Workload::default(), &Device::default())?;
    /// let at_the_end = pricer.price(&presets::leveled(), 64 << 20)?;
    /// let over_time = pricer.over_time().price(&presets::leveled(), 64 << 20)?;
    /// assert_eq!(at_the_end.write_amplification, over_time.write_amplification);
    /// assert!(over_time.levels[0].runs > 0.0);
    /// # Ok::<(), siltstone_model::ModelError>(())
    /// ```
    pub fn over_time(self) -> Self {
        Self { is_over_time: true, ..self }
    }

    /// Returns what `design` costs with a budget of `budget_bytes`.
    ///
    /// # Errors
    /// A design that [`Design::check`] refuses, or whose write buffer is flushed too often to be followed.
    pub fn price(&self, design: &Design, budget_bytes: u64) -> Result<Costs, ModelError> {
        Ok(self.filled(design, false)?.costs(budget_bytes))
    }

    /// Returns a store of `design` after all puts; a rough one follows fewer regions, and takes a quarter of
    /// the time.
    ///
    /// # Errors
    /// As [`Pricer::price`].
    pub fn filled(&self, design: &Design, is_rough: bool) -> Result<FilledStore<'_>, ModelError> {
        design.check().map_err(|error| ModelError::new("design", error.to_string()))?;
        let (followed, moments) = if is_rough { FOLLOWED_ROUGHLY } else { FOLLOWED };
        let moments = if self.is_over_time { moments } else { 1 };
        Ok(FilledStore {
            pricer: self,
            is_rough,
            trie: Trie::filled(design, &self.workload, &self.keys, (followed, moments))?,
        })
    }
}

/// A store of one design after all puts of a workload, as sizes.
#[derive(Debug)]
pub struct FilledStore<'a> {
    pricer: &'a Pricer,
    is_rough: bool,
    trie: Trie,
}

impl FilledStore<'_> {
    /// Returns what it costs with a budget of `budget_bytes`.
    pub fn costs(&self, budget_bytes: u64) -> Costs {
        self.answer(self.trie.layout(), &self.pricer.requests, budget_bytes)
    }

    /// Returns what it costs where reads are as skewed as `read_skew` says ([`Workload::read_skew`]),
    /// whatever the workload says.
    ///
    /// # Errors
    /// A skew that makes no sense.
    pub fn costs_where_read(&self, read_skew: f64, budget_bytes: u64) -> Result<Costs, ModelError> {
        let workload = Workload { read_skew: Some(read_skew), ..self.pricer.workload };
        workload.check()?;
        Ok(self.answer(self.trie.layout(), &Requests::of(&workload)?, budget_bytes))
    }

    /// Returns what a design costs about that has the same levels and tables with other filters and indexes,
    /// whose bytes in tables are taken to be the same.
    pub fn costs_with(&self, design: &Design, budget_bytes: u64) -> Costs {
        self.answer(&Layout::new(design, &self.pricer.workload), &self.pricer.requests, budget_bytes)
    }

    fn answer(&self, layout: &Layout, requests: &Requests, budget_bytes: u64) -> Costs {
        let device = &self.pricer.device;
        let (trie, is_rough, budget_bytes) = (&self.trie, self.is_rough, budget_bytes as f64);
        Question { trie, layout, requests, device, budget_bytes, is_rough }.answer()
    }
}
