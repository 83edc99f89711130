//! What a design costs for a workload: bytes written, device reads, memory, space.
//!
//! The engine is held to what [`price`] says. Three things are put together:
//!
//! * `trie` lets the engine's own planner ([`siltstone_design::plan`]) work on regions that exist only as
//!   sizes. Regions of a level are alike, since digests are uniform: a few of each level, of all phases,
//!   stand for all. What a merge writes follows from FAST'16's `Unique` (Lim et al., §3.3 and §3.4): a run
//!   stands for the writes that it took, and a merged run for the writes of all (`puts`).
//! * `layout` says how many bytes an entry takes in a table of each format, and how many bits its filters
//!   and indexes take; `values` which values lie in pages of their own.
//! * `reads` says how many pages a lookup reads, from where items lie and how often filters are wrong;
//!   `requests` which items are asked for, `memory` which filters there is room for, `cache` how many of the
//!   pages are cached, as `replacement` says what a cache keeps and `lifetimes` for how long.
//! * `observed` goes the other way: from what a running store counts to the workload's skew and groups.
//! * `path` weighs what a store that grows costs on the way.
//! * `processor` and [`Device`] turn all of it into time, and `opening` says how long it takes to open.
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
mod lifetimes;
mod memory;
mod observed;
mod opening;
mod path;
mod processor;
mod puts;
mod reads;
mod replacement;
mod requests;
mod sizes;
mod trie;
mod values;
mod workload;
mod written;

pub use costs::{Costs, LevelCosts, OperationCosts, ReadLatencies};
pub use device::Device;
pub use memory::MemoryCosts;
pub use observed::{group_items_of, skew_of};
pub(crate) use processor::us_per_rewrite;
pub use sizes::{Sizes, ValueSize};
pub use workload::{Mix, Workload};

use crate::ModelError;
use costs::Question;
use layout::Layout;
use puts::Keys;
use requests::Requests;
use siltstone_design::Design;
use trie::{Effort, Trie};

/// Regions that are followed of a level, about, and where a rough price will do.
const FOLLOWED: usize = 32;
const FOLLOWED_ROUGHLY: usize = 8;
/// Flushes of a fill that a rough price takes at once.
const FILL_ROUGHLY_AT_ONCE: f64 = 4.0;
/// Moments at which a store is looked at whose reads are priced over time.
const MOMENTS: usize = 6;

/// Returns what `design` costs for `workload` on `device` in a store whose memory budget is `budget_bytes`.
///
/// Costs are those of the moment when all of the workload's writes are done and the store is idle; means and
/// peaks are over the time that its writes take. See [`Pricer::over_time`] for what does not depend on the
/// moment, and for stores that grow ([`Workload::items_at_end`]): this is the price of the items that there
/// are.
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
    /// The store as it is, and that at several sizes on its way where it grows; roughly and else.
    now: [AtSize; 1],
    growing: Option<[Vec<AtSize>; 2]>,
    is_over_time: bool,
}

/// A store's workload where it has come to a size.
#[derive(Clone, Debug)]
struct AtSize {
    /// Its share of all operations on the way.
    share: f64,
    workload: Workload,
    keys: Keys,
    requests: Requests,
}

impl AtSize {
    fn new(share: f64, workload: Workload) -> Result<Self, ModelError> {
        let (keys, requests) = (Keys::of(&workload)?, Requests::of(&workload)?);
        Ok(Self { share, workload, keys, requests })
    }

    /// The sizes of a store on its way.
    fn of_path(workload: &Workload, is_rough: bool) -> Result<Vec<Self>, ModelError> {
        path::sizes(workload, is_rough)
            .into_iter()
            .map(|(share, workload)| Self::new(share, workload))
            .collect()
    }
}

impl Pricer {
    /// Returns what prices designs for `workload` on `device`.
    ///
    /// # Errors
    /// A number that makes no sense.
    pub fn new(workload: &Workload, device: &Device) -> Result<Self, ModelError> {
        workload.check()?;
        device.check()?;
        let workload = Workload { value_bytes: workload.mean_value_bytes(), ..*workload };
        let now = [AtSize::new(1.0, workload.grown_to(workload.items))?];
        let grows = workload.items_at_end.is_some_and(|at_end| at_end > workload.items);
        let growing = if grows {
            Some([AtSize::of_path(&workload, true)?, AtSize::of_path(&workload, false)?])
        } else {
            None
        };
        Ok(Self { workload, device: *device, now, growing, is_over_time: false })
    }

    /// Prices reads and memory in the mean over the time in which each item is changed once, rather than for
    /// the runs that happen to be there at the end: that of the last changes, and of as many where the
    /// workload has fewer. Where nothing is changed, the mean is over the last quarter of the puts. And all
    /// of it is in the mean over the way to [`items_at_end`](Workload::items_at_end), where the store grows,
    /// rather than as it is.
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
        let mut over_time = Self { is_over_time: true, ..self };
        let growing = over_time.growing.iter_mut().flatten().flatten();
        for sized in over_time.now.iter_mut().chain(growing) {
            sized.workload = sized.workload.changed_throughout();
        }
        over_time
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
        self.filled_within(design, is_rough, f64::INFINITY)
    }

    /// The same where so many regions at most may be looked at for it.
    ///
    /// # Errors
    /// As [`Pricer::price`], and where these are not enough.
    pub(crate) fn filled_within(
        &self,
        design: &Design,
        is_rough: bool,
        most_looked_at: f64,
    ) -> Result<FilledStore<'_>, ModelError> {
        design.check().map_err(|error| ModelError::new("design", error.to_string()))?;
        let (followed, fill_at_once) =
            if is_rough { (FOLLOWED_ROUGHLY, FILL_ROUGHLY_AT_ONCE) } else { (FOLLOWED, 1.0) };
        let moments = if self.is_over_time { MOMENTS } else { 1 };
        let mut store = FilledStore { pricer: self, is_rough, sizes: Vec::new() };
        for sized in self.sizes(is_rough) {
            let most_looked_at = most_looked_at - store.looked_at();
            let effort = Effort { followed, fill_at_once, moments, most_looked_at };
            store.sizes.push((sized, Trie::filled(design, &sized.workload, &sized.keys, effort)?));
        }
        Ok(store)
    }

    /// At how many sizes a store is priced roughly.
    pub(crate) fn sizes_at_once(&self) -> f64 {
        self.sizes(true).len() as f64
    }

    /// The sizes at which stores are priced.
    fn sizes(&self, is_rough: bool) -> &[AtSize] {
        match &self.growing {
            Some([roughly, well]) if self.is_over_time => {
                if is_rough {
                    roughly
                } else {
                    well
                }
            }
            _ => &self.now,
        }
    }
}

/// A store of one design after all puts of a workload, as sizes; a growing one where it has come to each of
/// several.
#[derive(Debug)]
pub struct FilledStore<'a> {
    pricer: &'a Pricer,
    is_rough: bool,
    sizes: Vec<(&'a AtSize, Trie)>,
}

impl FilledStore<'_> {
    /// Regions that were looked at for what there was to do.
    pub(crate) fn looked_at(&self) -> f64 {
        self.sizes.iter().map(|(_, trie)| trie.looked_at()).sum()
    }

    /// Whether its prices are rough.
    pub(crate) fn is_rough(&self) -> bool {
        self.is_rough
    }

    /// Returns what it costs with a budget of `budget_bytes`.
    pub fn costs(&self, budget_bytes: u64) -> Costs {
        self.answer(|sized, trie| self.at(sized, trie, trie.layout(), &sized.requests, budget_bytes))
    }

    /// Returns what it costs where reads are as skewed as `read_skew` says ([`Workload::read_skew`]),
    /// whatever the workload says.
    ///
    /// # Errors
    /// A skew that makes no sense.
    pub fn costs_where_read(&self, read_skew: f64, budget_bytes: u64) -> Result<Costs, ModelError> {
        let read = |workload: &Workload| Workload { read_skew: Some(read_skew), ..*workload };
        read(&self.pricer.workload).check()?;
        let requests = self.sizes.iter().map(|(sized, _)| Requests::of(&read(&sized.workload)));
        let requests = requests.collect::<Result<Vec<_>, ModelError>>()?;
        let mut requests = requests.iter();
        Ok(self.answer(|sized, trie| {
            let requests = requests.next().unwrap_or(&sized.requests);
            self.at(sized, trie, trie.layout(), requests, budget_bytes)
        }))
    }

    /// Returns what a design costs about that has the same levels and tables with other filters and indexes,
    /// whose bytes in tables are taken to be the same.
    pub fn costs_with(&self, design: &Design, budget_bytes: u64) -> Costs {
        self.answer(|sized, trie| {
            let layout = Layout::new(design, &sized.workload);
            self.at(sized, trie, &layout, &sized.requests, budget_bytes)
        })
    }

    /// What it costs over its sizes, of which `at` says what each costs.
    #[expect(clippy::expect_used, reason = "a store that was filled has a size")]
    fn answer(&self, mut at: impl FnMut(&AtSize, &Trie) -> Costs) -> Costs {
        let path: Vec<(f64, Costs)> =
            self.sizes.iter().map(|(sized, trie)| (sized.share, at(sized, trie))).collect();
        path::over(&path).expect("a store has a size")
    }

    /// What it costs at one size.
    fn at(
        &self,
        sized: &AtSize,
        trie: &Trie,
        layout: &Layout,
        requests: &Requests,
        budget_bytes: u64,
    ) -> Costs {
        debug_assert_eq!(sized.workload.items, layout.workload().items);
        let device = &self.pricer.device;
        let (is_rough, budget_bytes) = (self.is_rough, budget_bytes as f64);
        Question { trie, layout, requests, device, budget_bytes, is_rough }.answer()
    }
}
