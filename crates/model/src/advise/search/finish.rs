//! The end of the search: what may be the best is priced in full, and so is the front.

use super::super::Limit;
use super::super::front::{dimensions, dominates, spread, undominated};
use super::{
    Candidate, Found, REFUSED_FINALISTS, STARTS, STORE_IN_FULL, Search, firsts_and_others, structure,
};
use crate::ModelError;
use crate::price::FilledStore;
use siltstone_design::Design;

/// What pricing in full may take on top, of those that may be the best, but for the first of them, and of the
/// front.
const FINAL_WORK: f64 = 5e6;
const FRONT_WORK: f64 = 4e6;
/// How many times more a price in full takes.
const PRICE_IN_FULL: f64 = 16.0;
/// Designs that are priced in full for the front.
const MOST_OF_FRONT: usize = 14;
/// Designs that are priced in full to find the best, and more where none of these keeps to a limit after all.
const FINALISTS: usize = 4;
/// How far a rough price may be beyond the premium of one that is priced in full.
const NEARLY: f64 = 1.01;
const SECOND_LOOKS: usize = 40;

impl Search<'_> {
    /// Prices what is worth it in full, and so each of `presets`: rough prices may have refused one that
    /// keeps to the limits.
    pub fn finish(self, presets: &[(&'static str, FilledStore<'_>, Design)]) -> Result<Found, ModelError> {
        let ranked = self.ranked();
        let mix = &self.request.workload.mix;
        let by_rank: Vec<&Candidate> = ranked.iter().filter_map(|at| self.accepted.get(*at)).collect();
        let points: Vec<_> = by_rank.iter().map(|c| dimensions(&c.costs, mix)).collect();
        let places = self.finalists(&by_rank, &points);
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
            exact.extend(self.within_limits(&store, &candidate.design, candidate.origin));
        }
        for (origin, store, design) in presets {
            if !store.is_rough() && !exact.iter().any(|(candidate, _)| candidate.design == *design) {
                exact.extend(self.within_limits(store, design, origin));
            }
        }
        let refused_in_full = self.refused_in_full(&mut exact);
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
        let mut beside = beside_first(&points);
        beside.retain(|at| differing.contains(at));
        if self.request.uncertainty.is_some() {
            // The premium is on the cheapest, which is of interest though it may be no worse in anything.
            let cheapest =
                (1..exact.len()).min_by(|a, b| cost_of(&exact, *a).total_cmp(&cost_of(&exact, *b)));
            beside.extend(cheapest.filter(|at| !beside.contains(at)));
            beside.sort_unstable();
        }
        let others = beside.into_iter().filter_map(|at| exact.get(at).cloned()).collect();
        let is_better = |(limit, refused): &(Limit, Candidate)| {
            *limit != Limit::Memory && refused.objective < best.objective && !costs_too_much(refused)
        };
        let better_refused = refused_in_full.into_iter().find(is_better);
        let Self { considered, refused, .. } = self;
        let more_bytes = self.request.more_bytes();
        Ok(Found { best, others, with_more, more_bytes, considered, refused, better_refused })
    }

    /// Returns a design with its full price, and the limit that it breaks, if any.
    fn price_in_full(
        &self,
        store: &FilledStore<'_>,
        design: &Design,
        origin: &'static str,
    ) -> (Candidate, Option<Limit>) {
        let costs = store.costs(self.request.memory_bytes);
        let objective = self.request.objective(&costs);
        let limit = self.request.broken(design, &costs);
        (Candidate { design: design.clone(), origin, costs, objective }, limit)
    }

    /// Returns the same where it keeps to the limits, with what it costs with a little more memory.
    fn within_limits(
        &self,
        store: &FilledStore<'_>,
        design: &Design,
        origin: &'static str,
    ) -> Option<(Candidate, f64)> {
        let (priced, limit) = self.price_in_full(store, design, origin);
        limit.is_none().then(|| (priced, self.objective_with_more(store)))
    }

    /// The places, among those that keep to the limits and the best first, of those that are priced in full.
    fn finalists(&self, by_rank: &[&Candidate], points: &[[f64; 4]]) -> Vec<usize> {
        // Who is in haste gets the best.
        let most_of_front = if self.request.is_quick { 0 } else { MOST_OF_FRONT };
        let undominated = undominated(points);
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
        let cheapest = cheapest(by_rank);
        let cheapest = affordable(&mut cheapest.into_iter(), FINAL_WORK / 2.0);
        // A rough price may be beyond the premium where the full one is not.
        let most = self.most_cost.map_or(f64::INFINITY, |most| most * NEARLY);
        let is_cheap = |at: &usize| by_rank.get(*at).is_some_and(|candidate| candidate.costs.cost <= most);
        let mut best = (0..by_rank.len()).filter(is_cheap).take(FINALISTS);
        let mut places = affordable(&mut best, FINAL_WORK / 2.0);
        places.extend(cheapest.into_iter().chain(chosen));
        // What is advised for the mix that is told is to be no better in the worst one.
        let place = |design: &Design| by_rank.iter().position(|candidate| candidate.design == *design);
        let mut of_centre = self.best_of_centre.iter().filter_map(place);
        places.extend(affordable(&mut of_centre, FINAL_WORK / 2.0));
        places.sort_unstable();
        places.dedup();
        places
    }

    /// What pricing a design in full takes, about.
    fn work_in_full(&self, design: &Design) -> f64 {
        let store = self.stores.get(&structure(design)).and_then(Option::as_ref);
        let of_store = store.map_or(0.0, FilledStore::looked_at);
        of_store * STORE_IN_FULL + self.work_per_price() * PRICE_IN_FULL
    }

    /// Prices those that a limit ruled out and that roughly cost least in full, as the best is, one of them
    /// where there is haste: the ones that keep to the limits after all go to `exact`, and the others are
    /// returned, with their limits.
    fn refused_in_full(&self, exact: &mut Vec<(Candidate, f64)>) -> Vec<(Limit, Candidate)> {
        let mut refused = Vec::new();
        let most = if self.request.is_quick { 1 } else { REFUSED_FINALISTS };
        for rough in self.cheapest_refused.iter().take(most) {
            // One that can't be followed is none that would be better.
            let Ok(store) = self.pricer.filled(&rough.design, false) else { continue };
            match self.price_in_full(&store, &rough.design, rough.origin) {
                (priced, None) => exact.push((priced, self.objective_with_more(&store))),
                (priced, Some(limit)) => refused.push((limit, priced)),
            }
        }
        refused
    }

    /// Returns what a store's operations cost with a little more memory.
    fn objective_with_more(&self, store: &FilledStore<'_>) -> f64 {
        self.request.objective(&store.costs(self.request.memory_bytes + self.request.more_bytes()))
    }

    /// The error where no design keeps to the limits: it names what most break.
    fn nothing_fits(&self) -> ModelError {
        // What breaks another limit fits the memory.
        let beside_memory = self.refused.iter().filter(|(limit, _)| **limit != Limit::Memory);
        let most = beside_memory.max_by_key(|(_, number)| **number);
        let limit = most.map_or(Limit::Memory, |(limit, _)| *limit);
        let nearest = self.reached.get(&limit).copied().unwrap_or(f64::NAN);
        limit.is_kept_by_none(self.considered, nearest)
    }
}

/// The places of those that may be the best in the mix that is told: the cheapest, and the cheapest that was
/// made of each preset, since rough prices are good enough to tell what is alike apart, and less so what is
/// not.
pub(super) fn cheapest(candidates: &[&Candidate]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..candidates.len()).collect();
    let cost = |at: &usize| candidates.get(*at).map_or(f64::INFINITY, |candidate| candidate.costs.cost);
    places.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let origin = |at: usize| candidates.get(at).map(|candidate| candidate.origin);
    let (firsts, _) = firsts_and_others(places.clone(), origin);
    places.truncate(FINALISTS);
    places.extend(firsts.into_iter().take(STARTS));
    places
}

/// What operations of the one at a place cost in the mix that is told.
fn cost_of(candidates: &[Candidate], at: usize) -> f64 {
    candidates.get(at).map_or(f64::INFINITY, |candidate| candidate.costs.cost)
}

/// Those that none dominates, but for the first and those that it is dominated by: it has the best
/// objective, which goes before fewer bytes.
fn beside_first(points: &[[f64; 4]]) -> Vec<usize> {
    let Some(first) = points.first() else { return Vec::new() };
    let beats = |at: &usize| points.get(*at).is_some_and(|point| dominates(point, first));
    undominated(points).into_iter().filter(|at| *at != 0 && !beats(at)).collect()
}
