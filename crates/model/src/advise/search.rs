//! The search: seeds, then climbs from them.
//!
//! Filling a store of a structure takes most of the time, so filled stores are kept by what is structure, and
//! designs that differ in filters and indexes alone are priced on the same one. The search ends where no
//! change helps or the work that it may do is done. Work is counted in regions that stores look at for what
//! there is to do, and prices in as many as take their time; no clock has a say, so that the same request
//! gets the same advice on every machine.

mod climb;
mod finish;

use super::moves;
use super::{Limit, Request};
use crate::price::{Costs, FilledStore, Pricer, Workload};
use siltstone_design::{Design, presets};
use std::collections::{BTreeMap, HashMap};

/// Sizes of level 0's tables that presets are tried with, as powers of two of bytes, the largest first: what
/// is small takes long to follow in a large store.
const SEED_SIZES: [u32; 6] = [24, 23, 22, 21, 20, 18];
/// Presets of which something has to keep to the limits, if it can be brought to; rounds of changes at most
/// that bring one nearer to them.
const STARTS: usize = 3;
const MOST_STEPS: usize = 40;
/// Regions that the search may look at, presets in full included, which leave it a third at least: of an
/// optimised build, a second's.
const MOST_WORK: f64 = 45e6;
const PRESETS_SHARE: f64 = 2.0 / 3.0;
/// The share of these for what there is without limits other than memory's, where there are any, and what
/// comes on top where the worst mix counts.
const SHARE_WITHOUT_LIMITS: f64 = 0.4;
const SHARE_FOR_WORST: f64 = 0.4;
/// The share of these that seeds may take, beside the first ones of each preset, and the share of one store.
const SEED_SHARE: f64 = 0.3;
const STORE_SHARE: f64 = 1.0 / 16.0;
/// A rough price, one with what a cache holds of items that are not all asked for alike, and how many times
/// more a full store takes.
const WORK_PER_PRICE: f64 = 13e3;
const WORK_PER_SKEWED_PRICE: f64 = 36e3;
const STORE_IN_FULL: f64 = 3.0;
/// How much worse a design counts that costs more in the mix that is told than it may: by so high a power of
/// how much more. It may lead to one that does not.
const BEYOND_PREMIUM: i32 = 4;
/// Those that a limit rules out of which one is looked for that would be better.
const REFUSED_FINALISTS: usize = 4;

/// A design that was priced, roughly.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub design: Design,
    /// The preset that it was made from.
    pub origin: &'static str,
    pub costs: Costs,
    pub objective: f64,
}

/// What was found, the best first, priced in full.
#[derive(Debug)]
pub(super) struct Found {
    pub best: Candidate,
    /// The rest of the front, the best first.
    pub others: Vec<Candidate>,
    /// The best with more memory.
    pub with_more: f64,
    pub more_bytes: u64,
    pub considered: usize,
    pub refused: BTreeMap<Limit, usize>,
    /// One that would be better than the best, but for a limit other than memory's.
    pub better_refused: Option<(Limit, Candidate)>,
}

/// The search's state.
pub(super) struct Search<'a> {
    request: &'a Request,
    pricer: &'a Pricer,
    stores: HashMap<String, Option<FilledStore<'a>>>,
    priced: HashMap<String, Option<usize>>,
    accepted: Vec<Candidate>,
    refused: BTreeMap<Limit, usize>,
    /// Of each limit, the best value that any has that was refused for it.
    reached: BTreeMap<Limit, f64>,
    /// The cheapest of those that broke a limit other than memory's, the cheapest first.
    cheapest_refused: Vec<Candidate>,
    /// Of those made from each preset that break a limit, the one that is least beyond it, and how far.
    nearest_refused: BTreeMap<&'static str, (f64, Candidate)>,
    considered: usize,
    /// The work that was done, and that may have been done by the end of this part of the search.
    work: f64,
    most_work: f64,
    /// The most regions that a flush looked at in any store, by the preset that the design was made from.
    followed: BTreeMap<&'static str, f64>,
    /// The most that a design may cost in the mix that is told, where the worst mix counts; what counts is
    /// the mix that is told before that is known, and where it is certain.
    most_cost: Option<f64>,
    /// Those that may be the best in the mix that is told, the likeliest first, once the worst mix counts.
    best_of_centre: Vec<Design>,
    /// Whether limits other than memory's do not count yet.
    are_limits_off: bool,
}

impl<'a> Search<'a> {
    /// A search after `presets` were followed in full.
    pub fn new(
        request: &'a Request,
        pricer: &'a Pricer,
        presets: &[(&'static str, FilledStore<'_>, Design)],
    ) -> Self {
        let mut search = Self {
            request,
            pricer,
            stores: HashMap::new(),
            priced: HashMap::new(),
            accepted: Vec::new(),
            refused: BTreeMap::new(),
            reached: BTreeMap::new(),
            cheapest_refused: Vec::new(),
            nearest_refused: BTreeMap::new(),
            considered: 0,
            work: 0.0,
            most_work: MOST_WORK,
            followed: BTreeMap::new(),
            most_cost: None,
            best_of_centre: Vec::new(),
            are_limits_off: false,
        };
        for (origin, store, design) in presets {
            let roughly = if store.is_rough() { 1.0 } else { STORE_IN_FULL };
            search.note_followed(origin, store.looked_at() / roughly, search.flushes(design));
            search.work += store.looked_at() * (1.0 - 1.0 / roughly);
        }
        search.work = search.work.min(MOST_WORK * PRESETS_SHARE);
        search
    }

    /// Prices the seeds, and changes the best of them: those for the mix that is told, and then those for the
    /// worst mix.
    pub fn run(&mut self) {
        if self.request.is_quick {
            self.seed();
            return;
        }
        self.are_limits_off = self.request.has_limits_beside_memory();
        self.most_work = if self.are_limits_off { MOST_WORK * SHARE_WITHOUT_LIMITS } else { MOST_WORK };
        self.seed();
        if self.are_limits_off {
            // Which limit binds is told from what there would be without, and much of that keeps to it.
            self.change_the_best();
            self.turn_to_the_limits();
            self.most_work = MOST_WORK;
        }
        self.approach_limits();
        self.change_the_best();
        if self.request.uncertainty.is_some() {
            self.most_work = MOST_WORK * (1.0 + SHARE_FOR_WORST);
            self.turn_to_the_worst_mix();
            self.change_the_best();
        }
    }

    /// Compares by the worst mix from now on, of those that cost little more in the mix that is told.
    fn turn_to_the_worst_mix(&mut self) {
        self.most_cost = self.with_premium(self.accepted.iter());
        let of_centre: Vec<&Candidate> = self.accepted.iter().collect();
        let best = finish::cheapest(&of_centre).into_iter().filter_map(|at| of_centre.get(at));
        self.best_of_centre = best.map(|candidate| candidate.design.clone()).collect();
        let mut accepted = std::mem::take(&mut self.accepted);
        for candidate in &mut accepted {
            candidate.objective = self.objective(&candidate.costs);
        }
        self.accepted = accepted;
        // Those that were refused so far were compared by another objective.
        self.cheapest_refused.clear();
    }

    /// Holds what was found to all limits from now on.
    fn turn_to_the_limits(&mut self) {
        self.are_limits_off = false;
        let accepted = std::mem::take(&mut self.accepted);
        self.priced.retain(|_, place| place.is_none());
        for candidate in accepted {
            self.place(format!("{:?}", candidate.design), candidate);
        }
    }

    /// What the cheapest of `candidates` costs in the mix that is told, and the premium; `None` where the mix
    /// is certain.
    fn with_premium<'c>(&self, candidates: impl Iterator<Item = &'c Candidate>) -> Option<f64> {
        self.request.uncertainty?;
        let least = candidates.map(|candidate| candidate.costs.cost).min_by(f64::total_cmp)?;
        Some(least * (1.0 + self.request.premium_at_most))
    }

    /// What a design counts as whose operations cost this: the less, the better.
    fn objective(&self, costs: &Costs) -> f64 {
        let Some(most) = self.most_cost else { return costs.cost };
        self.request.objective(costs) * (costs.cost / most).max(1.0).powi(BEYOND_PREMIUM)
    }

    /// What a rough price takes.
    fn work_per_price(&self) -> f64 {
        let Workload { skew, read_skew, .. } = self.request.workload;
        let is_skewed = read_skew.unwrap_or(skew) > 0.0;
        self.pricer.sizes_at_once() * if is_skewed { WORK_PER_SKEWED_PRICE } else { WORK_PER_PRICE }
    }

    /// Prices every preset as it is and with as large a write buffer as the budget has room for, and then at
    /// one size after the other.
    fn seed(&mut self) {
        let largest = (self.request.memory_bytes / 8).max(1).ilog2().min(27);
        for (origin, preset) in presets::all() {
            self.consider(&preset, origin);
            self.consider(&preset.scaled_to(1 << largest), origin);
        }
        let most = self.work + MOST_WORK * SEED_SHARE;
        // No climb begins well from what has hardly room for its write buffer.
        let suits = |size: &u32| self.request.is_quick || *size < largest;
        for size in SEED_SIZES.into_iter().filter(suits) {
            for (origin, preset) in presets::all() {
                if self.work < most {
                    self.consider(&preset.scaled_to(1 << size), origin);
                }
            }
        }
    }

    /// Where seeds of few presets keep to the limits: takes what comes nearer to them of others, the cheapest
    /// first, so that there are enough to start from; where none do, what is nearest first, until one does.
    fn approach_limits(&mut self) {
        let has_any = !self.accepted.is_empty();
        let refused = self.nearest_refused.iter().filter(|(origin, _)| !self.has_accepted(origin));
        let rank = |overrun: f64, objective: f64| if has_any { objective } else { overrun };
        let mut others: Vec<(f64, &'static str)> =
            refused.map(|(origin, (overrun, c))| (rank(*overrun, c.objective), *origin)).collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
        let accepted = presets::all().into_iter().filter(|(origin, _)| self.has_accepted(origin)).count();
        let mut missing = if has_any { STARTS.saturating_sub(accepted) } else { 1 };
        for (_, origin) in others {
            if missing == 0 {
                return;
            }
            self.approach(origin);
            missing -= usize::from(self.has_accepted(origin));
        }
    }

    /// Whether a design that was made from a preset keeps to the limits.
    fn has_accepted(&self, origin: &str) -> bool {
        self.accepted.iter().any(|candidate| candidate.origin == origin)
    }

    /// Takes what comes nearer to the limits of what was made from a preset, until something keeps to them.
    fn approach(&mut self, origin: &'static str) {
        for _ in 0..MOST_STEPS {
            let Some((before, nearest)) = self.nearest_refused.get(origin).cloned() else { return };
            let accepted = self.accepted.len();
            let changes = moves::of_filters(&nearest.design).into_iter();
            for (_, changed) in changes.chain(moves::of_structure(&nearest.design, &self.request.workload)) {
                self.consider(&changed, origin);
            }
            let is_nearer = self.nearest_refused.get(origin).is_some_and(|(now, _)| *now < before);
            if self.accepted.len() > accepted || !is_nearer || self.work > self.most_work {
                return;
            }
        }
    }

    /// Prices a design unless that was done; returns its place if it keeps to the limits.
    pub fn consider(&mut self, design: &Design, origin: &'static str) -> Option<usize> {
        if !moves::is_sensible(design) || self.request.check_design(design).is_err() {
            return None;
        }
        let key = format!("{design:?}");
        if let Some(known) = self.priced.get(&key) {
            return *known;
        }
        if self.work > self.most_work {
            return None;
        }
        let memory_bytes = self.request.memory_bytes;
        let costs = self.store(design, origin)?.costs_with(design, memory_bytes);
        self.considered += 1;
        self.work += self.work_per_price();
        let candidate = self.candidate(design, origin, costs);
        self.place(key, candidate)
    }

    /// Keeps a design that keeps to the limits, notes its place under `key`, and returns it.
    fn place(&mut self, key: String, candidate: Candidate) -> Option<usize> {
        let place = match self.request.broken(&candidate.design, &candidate.costs) {
            Some(limit) if limit == Limit::Memory || !self.are_limits_off => {
                self.refuse(limit, candidate);
                None
            }
            _ => {
                self.accepted.push(candidate);
                Some(self.accepted.len() - 1)
            }
        };
        self.priced.insert(key, place);
        place
    }

    fn refuse(&mut self, limit: Limit, candidate: Candidate) {
        *self.refused.entry(limit).or_default() += 1;
        let has = limit.reached(&candidate.costs);
        let reached = self.reached.entry(limit).or_insert(has);
        *reached = limit.better(*reached, has);
        let overrun = self.request.overrun(&candidate.design, &candidate.costs);
        if self.nearest_refused.get(candidate.origin).is_none_or(|(nearest, _)| overrun < *nearest) {
            self.nearest_refused.insert(candidate.origin, (overrun, candidate.clone()));
        }
        if limit != Limit::Memory {
            let cheaper = |other: &Candidate| other.objective <= candidate.objective;
            let place = self.cheapest_refused.partition_point(cheaper);
            if place < REFUSED_FINALISTS {
                self.cheapest_refused.insert(place, candidate);
                self.cheapest_refused.truncate(REFUSED_FINALISTS);
            }
        }
    }

    /// The filled store of a design's structure; `None` where it can't be followed.
    fn store(&mut self, design: &Design, origin: &'static str) -> Option<&FilledStore<'a>> {
        let key = structure(design);
        let is_known = self.stores.contains_key(&key);
        if !is_known {
            // A store that alone takes a good part of what may be done is none that is worth it.
            let most = MOST_WORK * STORE_SHARE;
            let flushes = self.flushes(design);
            let of_flush = self.followed.get(origin).copied().unwrap_or(0.0);
            let filled = if flushes * of_flush < most {
                let filled = self.pricer.filled_within(design, true, most).ok();
                let looked_at = filled.as_ref().map_or(most, FilledStore::looked_at);
                self.note_followed(origin, looked_at, flushes);
                filled
            } else {
                None
            };
            self.stores.insert(key.clone(), filled);
        }
        self.stores.get(&key).and_then(Option::as_ref)
    }

    /// About how often a store of a design has flushed its write buffer.
    fn flushes(&self, design: &Design) -> f64 {
        let workload = self.request.workload.changed_throughout();
        let puts = workload.mean_items() / workload.items * (workload.items + workload.changes());
        puts / design.write_buffer.items(workload.item_bytes()).max(1.0)
    }

    fn note_followed(&mut self, origin: &'static str, looked_at: f64, flushes: f64) {
        self.work += looked_at;
        let most = self.followed.entry(origin).or_default();
        *most = most.max(looked_at / flushes.max(1.0));
    }

    /// The places of those that keep to the limits, the cheapest first.
    fn ranked(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.accepted.len()).collect();
        let objective = |at: &usize| self.accepted.get(*at).map_or(f64::INFINITY, |c| c.objective);
        places.sort_by(|a, b| objective(a).total_cmp(&objective(b)));
        places
    }

    fn candidate(&self, design: &Design, origin: &'static str, costs: Costs) -> Candidate {
        let objective = self.objective(&costs);
        Candidate { design: design.clone(), origin, costs, objective }
    }
}

/// The first of `places` of each origin, and the others, both in their order.
fn firsts_and_others(
    places: Vec<usize>,
    origin: impl Fn(usize) -> Option<&'static str>,
) -> (Vec<usize>, Vec<usize>) {
    let mut origins = Vec::new();
    places.into_iter().partition(|at| {
        let origin = origin(*at);
        let is_first = !origins.contains(&origin);
        if is_first {
            origins.push(origin);
        }
        is_first
    })
}

/// What of a design decides which tables there are, as text.
fn structure(design: &Design) -> String {
    use std::fmt::Write;
    let mut text = format!("{:?} {} {}", design.write_buffer, design.max_garbage, design.pushes_early);
    for level in &design.levels {
        let (bits, runs, bytes) = (level.fanout_bits, level.runs, level.table_bytes);
        // Writing to a string can't fail.
        let _ = write!(text, "; {bits} {runs} {:?} {bytes} {:?}", level.format, level.compression);
    }
    text
}
