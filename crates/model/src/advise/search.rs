//! The search: seeds, then one change at a time as long as it helps.
//!
//! Filling a store of a structure takes most of the time, so filled stores are kept by what is structure, and
//! designs that differ in filters and indexes alone are priced on the same one. The search ends where no
//! change helps or the work that it may do is done. Work is counted in regions that stores look at for what
//! there is to do, and prices in as many as take their time; no clock has a say, so that the same request
//! gets the same advice on every machine.

use super::front::{dimensions, dominates, spread, undominated};
use super::moves;
use super::{Limit, Request};
use crate::ModelError;
use crate::price::{Costs, FilledStore, Pricer, Workload};
use siltstone_design::{Design, presets};
use std::collections::{BTreeMap, HashMap};

/// Sizes of level 0's tables that presets are tried with, as powers of two of bytes, the largest first: what
/// is small takes long to follow in a large store.
const SEED_SIZES: [u32; 6] = [24, 23, 22, 21, 20, 18];
/// Seeds from which changes are tried, and changes that are kept of each at most.
const STARTS: usize = 3;
const MOST_STEPS: usize = 40;
/// Regions that the search may look at, presets in full included, which leave it half at least: of an
/// optimised build, a second's.
const MOST_WORK: f64 = 22e6;
/// The share of these that seeds may take, beside the first ones of each preset, and the share of one store.
const SEED_SHARE: f64 = 0.3;
const STORE_SHARE: f64 = 1.0 / 16.0;
/// What pricing in full may take on top, of those that may be the best, but for the first of them, and of the
/// front.
const FINAL_WORK: f64 = 5e6;
const FRONT_WORK: f64 = 4e6;
/// A rough price, one with what a cache holds of items that are not all asked for alike, and how many times
/// more a full one takes, and a full store.
const WORK_PER_PRICE: f64 = 3e3;
const WORK_PER_SKEWED_PRICE: f64 = 13e3;
const PRICE_IN_FULL: f64 = 16.0;
const STORE_IN_FULL: f64 = 3.0;
/// How much worse a design counts that costs more in the mix that is told than it may: by so high a power of
/// how much more. It may lead to one that does not.
const BEYOND_PREMIUM: i32 = 4;
/// The least that a change has to save.
const LEAST_SAVING: f64 = 1e-3;
/// Designs that are priced in full for the front.
const MOST_OF_FRONT: usize = 14;
/// Designs that are priced in full to find the best, and more where none of these keeps to a limit after all.
const FINALISTS: usize = 4;
/// How far a rough price may be beyond the premium of one that is priced in full.
const NEARLY: f64 = 1.01;
const SECOND_LOOKS: usize = 40;

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
    /// The cheapest of those that broke a limit other than memory's.
    pub cheapest_refused: Option<(Limit, Candidate)>,
}

/// The search's state.
pub(super) struct Search<'a> {
    request: &'a Request,
    pricer: &'a Pricer,
    stores: HashMap<String, Option<FilledStore<'a>>>,
    priced: HashMap<String, Option<usize>>,
    accepted: Vec<Candidate>,
    refused: BTreeMap<Limit, usize>,
    cheapest_refused: Option<(Limit, Candidate)>,
    /// The one that is least beyond its limits of those that break any, and how far it is.
    nearest_refused: Option<(f64, Candidate)>,
    considered: usize,
    work: f64,
    /// The most regions that a flush looked at in any store, by the preset that the design was made from.
    followed: BTreeMap<&'static str, f64>,
    /// The most that a design may cost in the mix that is told, where the worst mix counts; what counts is
    /// the mix that is told before that is known, and where it is certain.
    most_cost: Option<f64>,
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
            cheapest_refused: None,
            nearest_refused: None,
            considered: 0,
            work: 0.0,
            followed: BTreeMap::new(),
            most_cost: None,
        };
        for (origin, store, design) in presets {
            let roughly = if store.is_rough() { 1.0 } else { STORE_IN_FULL };
            search.note_followed(origin, store.looked_at() / roughly, search.flushes(design));
            search.work += store.looked_at() * (1.0 - 1.0 / roughly);
        }
        search.work = search.work.min(MOST_WORK / 2.0);
        search
    }

    /// Prices the seeds, and changes the best of them: those for the mix that is told, and then those for the
    /// worst mix.
    pub fn run(&mut self) {
        self.seed();
        if self.accepted.is_empty() && !self.request.is_quick {
            self.approach();
        }
        self.change_the_best();
        self.most_cost = self.with_premium(self.accepted.iter());
        if self.most_cost.is_some() {
            let mut accepted = std::mem::take(&mut self.accepted);
            for candidate in &mut accepted {
                candidate.objective = self.objective(&candidate.costs);
            }
            self.accepted = accepted;
            // Those that were refused so far were compared by another objective.
            self.cheapest_refused = None;
            self.change_the_best();
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

    /// What pricing a design in full takes, about.
    fn work_in_full(&self, design: &Design) -> f64 {
        let store = self.stores.get(&structure(design)).and_then(Option::as_ref);
        let of_store = store.map_or(0.0, FilledStore::looked_at);
        of_store * STORE_IN_FULL + self.work_per_price() * PRICE_IN_FULL
    }

    /// The work that may have been done by the end of this part of the search.
    fn most_work(&self) -> f64 {
        let searches_twice = self.request.uncertainty.is_some() && !self.request.is_quick;
        let is_first_of_two = searches_twice && self.most_cost.is_none();
        if is_first_of_two { MOST_WORK * 0.6 } else { MOST_WORK }
    }

    pub fn change_the_best(&mut self) {
        if self.request.is_quick {
            return;
        }
        let mut tried: Vec<&'static str> = Vec::new();
        for start in self.ranked() {
            let Some(candidate) = self.accepted.get(start).cloned() else { continue };
            // Sizes of one preset end in much the same place.
            if tried.len() < STARTS && !tried.contains(&candidate.origin) {
                tried.push(candidate.origin);
                self.climb(candidate);
            }
        }
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
        for size in SEED_SIZES {
            for (origin, preset) in presets::all() {
                if self.work < most {
                    self.consider(&preset.scaled_to(1 << size), origin);
                }
            }
        }
    }

    /// Takes the first change that helps, and goes on with the next from there, until none does.
    fn climb(&mut self, start: Candidate) {
        let mut best = start;
        for _ in 0..MOST_STEPS {
            let before = best.objective;
            for changed in moves::of_filters(&best.design) {
                self.try_change(&mut best, &changed);
            }
            for changed in moves::of_structure(&best.design, &self.request.workload) {
                self.try_change(&mut best, &changed);
            }
            if best.objective > before * (1.0 - LEAST_SAVING) || self.work > self.most_work() {
                return;
            }
        }
    }

    /// Where no seed keeps to the limits: takes what comes nearer to them, until something does.
    fn approach(&mut self) {
        for _ in 0..MOST_STEPS {
            let Some((before, nearest)) = self.nearest_refused.clone() else { return };
            let changes = moves::of_filters(&nearest.design).into_iter();
            for changed in changes.chain(moves::of_structure(&nearest.design, &self.request.workload)) {
                self.consider(&changed, nearest.origin);
            }
            let is_nearer = self.nearest_refused.as_ref().is_some_and(|(now, _)| *now < before);
            if !self.accepted.is_empty() || !is_nearer || self.work > self.most_work() {
                return;
            }
        }
    }

    fn try_change(&mut self, best: &mut Candidate, changed: &Design) {
        let at = self.consider(changed, best.origin);
        if let Some(candidate) = at.and_then(|at| self.accepted.get(at))
            && candidate.objective < best.objective * (1.0 - LEAST_SAVING / 10.0)
        {
            *best = candidate.clone();
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
        if self.work > self.most_work() {
            return None;
        }
        let memory_bytes = self.request.memory_bytes;
        let costs = self.store(design, origin)?.costs_with(design, memory_bytes);
        self.considered += 1;
        self.work += self.work_per_price();
        let candidate = self.candidate(design, origin, costs);
        let place = match self.request.broken(design, &candidate.costs) {
            None => {
                self.accepted.push(candidate);
                Some(self.accepted.len() - 1)
            }
            Some(limit) => {
                self.refuse(limit, candidate);
                None
            }
        };
        self.priced.insert(key, place);
        place
    }

    fn refuse(&mut self, limit: Limit, candidate: Candidate) {
        *self.refused.entry(limit).or_default() += 1;
        let overrun = self.request.overrun(&candidate.design, &candidate.costs);
        if self.nearest_refused.as_ref().is_none_or(|(nearest, _)| overrun < *nearest) {
            self.nearest_refused = Some((overrun, candidate.clone()));
        }
        let is_cheapest =
            self.cheapest_refused.as_ref().is_none_or(|(_, other)| candidate.objective < other.objective);
        if limit != Limit::Memory && is_cheapest {
            self.cheapest_refused = Some((limit, candidate));
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
        let workload = &self.request.workload;
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

    /// Prices what is worth it in full, and so each of `presets`: rough prices may have refused one that
    /// keeps to the limits.
    pub fn finish(self, presets: &[(&'static str, FilledStore<'_>, Design)]) -> Result<Found, ModelError> {
        let ranked = self.ranked();
        let mix = &self.request.workload.mix;
        let by_rank: Vec<&Candidate> = ranked.iter().filter_map(|at| self.accepted.get(*at)).collect();
        let points: Vec<_> = by_rank.iter().map(|c| dimensions(&c.costs, mix)).collect();
        // Who is in haste gets the best.
        let most_of_front = if self.request.is_quick { 0 } else { MOST_OF_FRONT };
        let undominated = undominated(&points);
        let of_front: Vec<[f64; 4]> = undominated.iter().filter_map(|at| points.get(*at).copied()).collect();
        let affordable = |places: &mut dyn Iterator<Item = usize>, mut work: f64| -> Vec<usize> {
            let is_affordable = |at: &usize| {
                let may_be = work > 0.0;
                work -= by_rank.get(*at).map_or(0.0, |candidate| self.work_in_full(&candidate.design));
                may_be
            };
            places.take_while(is_affordable).collect()
        };
        let chosen = spread(&of_front, most_of_front).into_iter();
        let chosen = affordable(&mut chosen.filter_map(|at| undominated.get(at).copied()), FRONT_WORK);
        let mut cheapest: Vec<usize> = (0..by_rank.len()).collect();
        let cost = |at: &usize| by_rank.get(*at).map_or(f64::INFINITY, |candidate| candidate.costs.cost);
        cheapest.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        cheapest.truncate(FINALISTS);
        let cheapest = affordable(&mut cheapest.into_iter(), FINAL_WORK / 2.0);
        // A rough price may be beyond the premium where the full one is not.
        let most = self.most_cost.map_or(f64::INFINITY, |most| most * NEARLY);
        let mut best = (0..by_rank.len()).filter(|at| cost(at) <= most).take(FINALISTS);
        let mut places = affordable(&mut best, FINAL_WORK / 2.0);
        places.extend(cheapest.into_iter().chain(chosen));
        places.sort_unstable();
        places.dedup();
        let mut exact = Vec::new();
        // A rough price may be on the other side of a limit: then what comes next is looked at as well.
        let rest = (0..by_rank.len()).filter(|at| !places.contains(at));
        let ordered: Vec<usize> =
            places.iter().copied().chain(rest).take(places.len() + SECOND_LOOKS).collect();
        for (number, candidate) in ordered.into_iter().filter_map(|at| by_rank.get(at)).enumerate() {
            if number >= places.len() && !exact.is_empty() {
                break;
            }
            let store = self.pricer.filled(&candidate.design, false)?;
            exact.extend(self.price_in_full(&store, &candidate.design, candidate.origin));
        }
        for (origin, store, design) in presets {
            if !store.is_rough() && !exact.iter().any(|(candidate, _)| candidate.design == *design) {
                exact.extend(self.price_in_full(store, design, origin));
            }
        }
        // The worst mix decides among those that cost little enough in the mix that is told.
        let most_cost = self.with_premium(exact.iter().map(|(candidate, _)| candidate));
        let most_cost = most_cost.unwrap_or(f64::INFINITY);
        let costs_too_much = |candidate: &Candidate| candidate.costs.cost > most_cost;
        let within = exact.iter().filter(|(candidate, _)| !costs_too_much(candidate));
        let with_more = within.map(|(_, with_more)| *with_more).fold(f64::INFINITY, f64::min);
        let mut exact: Vec<Candidate> = exact.into_iter().map(|(candidate, _)| candidate).collect();
        exact.sort_by(|a, b| {
            let in_order = costs_too_much(a).cmp(&costs_too_much(b));
            in_order.then(a.objective.total_cmp(&b.objective))
        });
        let Some(best) = exact.first().cloned() else { return Err(self.nothing_fits()) };
        let points: Vec<_> = exact.iter().map(|c| dimensions(&c.costs, mix)).collect();
        let differing = spread(&points, MOST_OF_FRONT + 1);
        let others = beside_first(&points).into_iter().filter(|at| differing.contains(at));
        let others = others.filter_map(|at| exact.get(at).cloned()).collect();
        let cheapest_refused = self.refused_in_full();
        let Self { considered, refused, .. } = self;
        let more_bytes = self.request.more_bytes();
        Ok(Found { best, others, with_more, more_bytes, considered, refused, cheapest_refused })
    }

    /// Returns a design with its full price, where that keeps to the limits, and what it costs with a little
    /// more memory.
    fn price_in_full(
        &self,
        store: &FilledStore<'_>,
        design: &Design,
        origin: &'static str,
    ) -> Option<(Candidate, f64)> {
        let costs = store.costs(self.request.memory_bytes);
        let objective = self.request.objective(&costs);
        let priced = Candidate { design: design.clone(), origin, costs, objective };
        let keeps_to_limits = self.request.broken(design, &priced.costs).is_none();
        keeps_to_limits.then(|| (priced, self.objective_with_more(store)))
    }

    fn candidate(&self, design: &Design, origin: &'static str, costs: Costs) -> Candidate {
        let objective = self.objective(&costs);
        Candidate { design: design.clone(), origin, costs, objective }
    }

    /// The cheapest design that a limit rules out, with its full price, as the best has; `None` where that
    /// keeps to the limits after all.
    fn refused_in_full(&self) -> Option<(Limit, Candidate)> {
        let (_, rough) = self.cheapest_refused.as_ref()?;
        let costs = self.pricer.filled(&rough.design, false).ok()?.costs(self.request.memory_bytes);
        let limit = self.request.broken(&rough.design, &costs)?;
        if self.most_cost.is_some_and(|most| costs.cost > most) {
            return None;
        }
        let objective = self.request.objective(&costs);
        Some((limit, Candidate { objective, costs, ..rough.clone() }))
    }

    /// Returns what a store's operations cost with a little more memory.
    fn objective_with_more(&self, store: &FilledStore<'_>) -> f64 {
        self.request.objective(&store.costs(self.request.memory_bytes + self.request.more_bytes()))
    }

    /// The error where no design keeps to the limits: it names what most break.
    fn nothing_fits(&self) -> ModelError {
        let (limit, _) =
            self.refused.iter().max_by_key(|(_, number)| **number).unwrap_or((&Limit::Memory, &0));
        limit.is_kept_by_none(self.considered)
    }
}

/// Those that none dominates, but for the first and those that it is dominated by: it has the best
/// objective, which goes before fewer bytes.
fn beside_first(points: &[[f64; 4]]) -> Vec<usize> {
    let Some(first) = points.first() else { return Vec::new() };
    let beats = |at: &usize| points.get(*at).is_some_and(|point| dominates(point, first));
    undominated(points).into_iter().filter(|at| *at != 0 && !beats(at)).collect()
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
