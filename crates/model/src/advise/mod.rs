//! Which design suits a workload: a search over layouts under limits, priced by [`price`](crate::price).
//!
//! Designs are made from every preset at several sizes, and then changed in one place at a time (`moves`) as
//! long as that makes an operation of the workload's mix cheaper (`search`). What was met on the way that
//! nothing else beats in writes, reads, memory and space at once is the Pareto front. Prices of a search
//! follow fewer regions; what is returned is priced in full, and checked against every limit again.
//!
//! What limits there are is in `limits`. Whether a store should change from the design that it has is weighed
//! in `change`.
//!
//! Where the mix is uncertain, the design is the one whose worst case is best (`robust`) among those that
//! cost little more than the best in the mix that is told, after Endure
//! (Huynh, Chaudhari, Terzi and Athanassoulis, VLDB 2022).
//!
//! ```
//! use siltstone_model::advise::{Request, advise};
//! use siltstone_model::price::Workload;
//!
//! let workload = Workload { items: 1e7, group_items: 128.0, ..Workload::default() };
//! let advice = advise(&Request::quick(workload, 64 << 20))?;
//! let best = &advice.best;
//! assert!(best.predicted.memory_bytes.total <= (64 << 20) as f64);
//! assert!(advice.presets.values().all(|preset| best.predicted.cost <= preset.cost * 1.0001));
//! println!("{}: {}", best.name, best.why.join(" "));
//! # Ok::<(), siltstone_model::ModelError>(())
//! ```

mod change;
mod front;
mod limits;
mod moves;
#[cfg(test)]
mod reach;
pub mod robust;
mod search;
mod words;

use crate::ModelError;
use crate::price::{Costs, Device, Pricer, Workload};
pub use change::{Change, Done, Regret, rewriting_us, weigh};
pub use limits::Limit;
use serde::Serialize;
use siltstone_design::{Design, Format, LevelSpec, PrefixRule, Schema, SuffixOrder, presets};
use std::collections::BTreeMap;
pub use words::strata;

/// What to advise on: the workload, and what the design has to keep to.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The workload.
    pub workload: Workload,
    /// The device and the processor.
    pub device: Device,
    /// Memory for everything: write buffers, filters, indexes and cache.
    pub memory_bytes: u64,
    /// Most bytes on disk per byte of items, at the peak.
    pub space_at_most: Option<f64>,
    /// Most device reads of a get that finds an item,
    pub reads_at_most: Option<f64>,
    /// of one that finds none,
    pub miss_reads_at_most: Option<f64>,
    /// and of a scan of one group.
    pub scan_reads_at_most: Option<f64>,
    /// Most microseconds that a get takes on the average that finds an item, on a device of which nothing
    /// else is asked meanwhile ([`Costs::latency_us`]);
    pub hit_us_at_most: Option<f64>,
    /// one that finds none;
    pub miss_us_at_most: Option<f64>,
    /// and a scan of one group.
    pub scan_us_at_most: Option<f64>,
    /// Least years that the device has to last, where the workload says how many puts a second there are.
    pub years_at_least: Option<f64>,
    /// How far the mix may be from the one that is told, as a Kullback-Leibler divergence in nats: 0.25 is
    /// little, 2 is much. The worst case within is made small, rather than the cost of the mix itself.
    pub uncertainty: Option<f64>,
    /// What such a design may cost more than the best that is found for the mix that is told, as a share of
    /// that, by the prices of the model. That best is looked for first, as without uncertainty.
    pub premium_at_most: f64,
    /// Whether the design has to suit keys of every schema, whatever the workload's are.
    pub for_any_schema: bool,
    /// Whether presets and their sizes will do: a tenth of the time.
    pub is_quick: bool,
}

impl Request {
    /// A request without limits but for memory, on the device that [`Device`] takes by default.
    pub fn new(workload: Workload, memory_bytes: u64) -> Self {
        Self {
            workload,
            device: Device::default(),
            memory_bytes,
            space_at_most: None,
            reads_at_most: None,
            miss_reads_at_most: None,
            scan_reads_at_most: None,
            hit_us_at_most: None,
            miss_us_at_most: None,
            scan_us_at_most: None,
            years_at_least: None,
            uncertainty: None,
            premium_at_most: PREMIUM,
            for_any_schema: false,
            is_quick: false,
        }
    }

    /// The same, of presets at several sizes alone.
    pub fn quick(workload: Workload, memory_bytes: u64) -> Self {
        Self { is_quick: true, ..Self::new(workload, memory_bytes) }
    }

    /// What prices designs for it.
    ///
    /// # Errors
    /// A number of the workload or of the device that makes no sense.
    pub fn pricer(&self) -> Result<Pricer, ModelError> {
        Ok(Pricer::new(&self.workload, &self.device)?.over_time())
    }

    /// How much more memory [`NextMemory`] is about.
    fn more_bytes(&self) -> u64 {
        (self.memory_bytes / 16).max(1)
    }

    /// Checks that a design can hold the keys that it is for.
    fn check_design(&self, design: &Design) -> Result<(), ModelError> {
        let refused = |error: String| ModelError::new("design", error);
        let bytes = self.workload.prefix_bytes.max(1.0) as u16;
        let grouped =
            Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes }, suffix: SuffixOrder::Ordered };
        let is_grouped = self.workload.is_grouped() || self.for_any_schema;
        let schema = if is_grouped { grouped } else { Schema::Point };
        design.check_for(&schema).map_err(|error| refused(error.to_string()))?;
        // The engine takes both: it searches the one by halves, and walks the other's groups slot by slot.
        let scatters = |level: &LevelSpec| matches!(level.format, Format::HTable | Format::Hash);
        if is_grouped && design.levels.iter().any(scatters) {
            return Err(refused(
                "hash tables of pages and hash stores find keys of groups slowly; use block tables"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// What a design costs whose operations cost this, in the mix or in the worst mix that is expected.
    fn objective(&self, costs: &Costs) -> f64 {
        match self.uncertainty {
            Some(radius) => {
                robust::worst_cost(&self.workload.mix.shares(), &costs.operation_cost.all(), radius)
            }
            None => costs.cost,
        }
    }

    /// Checks the numbers that are not the workload's or the device's: memory, limits, and how uncertain the
    /// mix is. [`advise`] and [`price_one`] do so too.
    ///
    /// # Errors
    /// A number that makes no sense, whatever the workload.
    pub fn check(&self) -> Result<(), ModelError> {
        if self.memory_bytes < LEAST_MEMORY_BYTES {
            let given = format!("{} bytes given; give at least 1M", self.memory_bytes);
            return Err(ModelError::new("memory", given));
        }
        self.check_limits()?;
        if self.premium_at_most.is_nan() || self.premium_at_most < 0.0 {
            let given = format!("{} given; it must be a share from 0 on", self.premium_at_most);
            return Err(ModelError::new("premium-at-most", given));
        }
        match self.uncertainty {
            Some(radius) if !(radius.is_finite() && radius >= 0.0) => {
                Err(ModelError::new("uncertain", format!("{radius} given; it must be finite and ≥ 0")))
            }
            _ => Ok(()),
        }
    }
}

/// The [premium](Request::premium_at_most) that is paid by default for a design that suits other mixes too.
pub const PREMIUM: f64 = 0.05;
/// Regions that a preset may look at to be priced in full; beyond that a rough price has to do.
const PRESET_WORK: f64 = 1.5e6;
/// Least memory of a store.
const LEAST_MEMORY_BYTES: u64 = 1 << 20;

/// A design with its price.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The design.
    pub design: Design,
    /// Its preset's name, or that of the preset it was made from.
    pub name: String,
    /// Why, in sentences.
    pub why: Vec<String>,
    /// What it costs.
    pub predicted: Costs,
    /// What an operation costs in the worst mix that is expected; the mix's own cost where it is certain.
    pub worst_cost: f64,
}

/// What more memory would buy.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NextMemory {
    /// So many bytes more
    pub bytes: u64,
    /// save so many microseconds of an operation,
    pub saved_us: f64,
    /// which is this share of its cost.
    pub saved_share: f64,
}

/// What to choose.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The design with the cheapest operations.
    pub best: Choice,
    /// Designs that no other beats in bytes written, reads, memory and space at once; the best first, the
    /// others by what they cost, where the mix is uncertain in the worst mix.
    pub front: Vec<Choice>,
    /// What the presets cost, also those that break a limit; roughly, where a store is so large that more
    /// would take too long.
    pub presets: BTreeMap<String, Costs>,
    /// What more memory would buy.
    pub next_memory: NextMemory,
    /// Designs that were priced.
    pub considered: usize,
    /// How many of them broke a limit, by the first that they broke.
    pub refused: BTreeMap<Limit, usize>,
}

/// Prices one design instead of searching for one: the advice has it alone. A design that breaks limits is
/// priced as well; the advice says in words which it breaks.
///
/// # Errors
/// A number that makes no sense, or a design that can't hold the workload's keys.
pub fn price_one(request: &Request, name: &str, design: &Design) -> Result<Advice, ModelError> {
    request.check()?;
    request.check_design(design)?;
    let pricer = request.pricer()?;
    let store = pricer.filled(design, false)?;
    let predicted = store.costs(request.memory_bytes);
    let more_bytes = request.more_bytes();
    let with_more = request.objective(&store.costs(request.memory_bytes + more_bytes));
    let objective = request.objective(&predicted);
    let refused = request.broken(design, &predicted).map(|limit| (limit, 1));
    let breaks = words::what_it_breaks(request, design, &predicted);
    let presets = BTreeMap::from([(name.to_owned(), predicted.clone())]);
    let best = search::Candidate { design: design.clone(), origin: "", costs: predicted, objective };
    let found = search::Found {
        best,
        others: Vec::new(),
        with_more,
        more_bytes,
        considered: 1,
        refused: refused.into_iter().collect(),
        better_refused: None,
    };
    let mut advice = words::advice(request, found, presets);
    name.clone_into(&mut advice.best.name);
    advice.best.why.splice(0..0, breaks);
    advice.front = vec![advice.best.clone()];
    Ok(advice)
}

/// Finds the design whose operations cost least within the limits.
///
/// # Errors
/// A number that makes no sense, or limits that no design keeps to: the error's parameter names the one that
/// most designs break.
pub fn advise(request: &Request) -> Result<Advice, ModelError> {
    request.check()?;
    let pricer = request.pricer()?;
    let fill = |design: &Design| {
        let in_full = pricer.filled_within(design, false, PRESET_WORK);
        in_full.or_else(|_| pricer.filled(design, true))
    };
    let filled = presets::all()
        .into_iter()
        .filter(|(_, design)| request.check_design(design).is_ok())
        .map(|(name, design)| Ok((name, fill(&design)?, design)))
        .collect::<Result<Vec<_>, ModelError>>()?;
    let presets = filled
        .iter()
        .map(|(name, store, _)| ((*name).to_owned(), store.costs(request.memory_bytes)))
        .collect();
    let mut search = search::Search::new(request, &pricer, &filled);
    search.run();
    let found = search.finish(&filled)?;
    Ok(words::advice(request, found, presets))
}
