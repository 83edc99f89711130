//! What a cache keeps.
//!
//! Source: Che, Tung and Wang, "Hierarchical Web Caching Systems" (JSAC 2002): a full cache holds what was
//! asked for in a *characteristic time*, which is the one after which it would be full.
//!
//! Both caches of the engine let in to stay only what is asked for again soon: within the time that a small
//! queue of newcomers and the notes of who left last go back. Source: Martina, Garetto and Leonardi, "A
//! Unified Approach to the Performance Analysis of Caching Systems" (INFOCOM 2014), for LRU of two stages:
//! what is asked for again within the first time with probability `q`, and within the second with `x`, is
//! there with probability `qx / (1 − x + qx)`. Where we differ, and why: things are asked for together, so
//! that what is known of them is not a rate but the share that is untouched in a time.

/// How near to its room a cache has to be filled by what is found, and the steps that finding it takes at
/// most.
const LAST_ERROR: f64 = 1e-3;
const MOST_STEPS: usize = 40;
/// How far a search for a time looks first beside where it may be, as a logarithm, and how much farther each
/// time.
const FIRST_STEP: f64 = 0.5;
const STEP_GROWTH: f64 = 4.0;
/// What is asked for less often in its life is never kept.
const LEAST_OFTEN: f64 = 1e-9;
/// Rounds in which what stays and what comes in are fitted to each other.
const ROUNDS: usize = 2;

/// How a cache decides what stays: parts of its room that newcomers have, and as much as is noted of those
/// that have left, newcomers included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    newcomers: f64,
    noted: f64,
}

/// S3-FIFO, as `cache/row.rs` of the engine has it.
pub(super) const ANSWERS: Policy = Policy { newcomers: 0.1, noted: 1.1 };
/// That of the `quick_cache` crate.
pub(super) const PAGES: Policy = Policy { newcomers: 0.03, noted: 0.53 };

/// Characteristic times of a cache, in operations: of its newcomers, of its notes, and of what stays.
pub(super) type Times = [f64; 3];

impl Policy {
    /// The times of a cache with so much room for things of so many sizes, of which shares are untouched in a
    /// time; what stays no longer than `most` stays for good.
    pub fn times(self, room: f64, sizes: &[f64], untouched: impl Fn(f64) -> Vec<f64>, most: f64) -> Times {
        if room <= 0.0 {
            return Times::default();
        }
        let held =
            |shares: &[f64]| -> f64 { sizes.iter().zip(shares).map(|(size, share)| size * share).sum() };
        // Only what is absent comes in when it is asked for.
        let come_in = |time: f64, absent: &[f64]| {
            let pairs = untouched(time).into_iter().zip(absent);
            held(&pairs.map(|(untouched, absent)| (1.0 - untouched) * absent).collect::<Vec<_>>())
        };
        let mut absent = vec![1.0; sizes.len()];
        let (mut noted, mut staying) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ROUNDS {
            noted = time_until(most, noted, self.noted * room, |time| come_in(time, &absent));
            let not_noted = untouched(noted);
            let stays_until = |time: f64| -> Vec<f64> {
                not_noted.iter().zip(untouched(time)).map(|(first, second)| stays(*first, second)).collect()
            };
            let to_stay = (1.0 - self.newcomers) * room;
            staying = time_until(most, staying.min(noted), to_stay, |time| held(&stays_until(time)));
            absent = stays_until(staying).into_iter().map(|stays| 1.0 - stays).collect();
        }
        let about = noted * self.newcomers / self.noted;
        let newcomers = time_until(most, about, self.newcomers * room, |time| come_in(time, &absent));
        [newcomers, noted, staying]
    }
}

/// The share of things that are not cached, of which so many are not asked for within each time.
pub(super) fn absent([newcomer, noted, staying]: [f64; 3]) -> f64 {
    newcomer * (1.0 - stays(noted, staying))
}

/// The same of things that live for a time, in which each is asked for `often`: a new one is absent until it
/// is kept, which it is from the first request on that another follows while it is noted.
///
/// That comes after `t` on the average, at about the same chance at any time, so that in a life of `L` it is
/// before that for `(t / L)(1 − e^(−L/t))` of the time.
pub(super) fn absent_of_living(untouched: Times, often: f64) -> f64 {
    let [_, not_noted, _] = untouched;
    let kept_in_life = often * (1.0 - not_noted);
    let new = if kept_in_life > LEAST_OFTEN { -(-kept_in_life).exp_m1() / kept_in_life } else { 1.0 };
    let absent = absent(untouched);
    absent + (1.0 - absent) * new
}

/// The share that stays of what is not asked for within the time of the notes, and within that of its stay.
fn stays(not_noted: f64, untouched: f64) -> f64 {
    let both = (1.0 - not_noted) * (1.0 - untouched);
    if both > 0.0 { both / (untouched + both) } else { 0.0 }
}

/// The operations after which `held`, which grows with them, comes to `room`; `most` where it does not
/// before. The search begins at `about`, or at `most` where that is less.
///
/// Regula falsi on logarithms of times, where an end that stays is trusted half as much each time (Dowell and
/// Jarratt, "A Modified Regula Falsi Method", BIT 1971).
fn time_until(most: f64, about: f64, room: f64, held: impl Fn(f64) -> f64) -> f64 {
    let short = |logarithm: f64| held(logarithm.exp()) / room - 1.0;
    let (first, last) = (0.0, most.max(1.0).ln());
    // Steps of growing length from where it may be lead to two ends that it lies between.
    let mut low = about.ln().clamp(first, last);
    let mut below = short(low);
    if below.abs() < LAST_ERROR {
        return low.exp();
    }
    let (mut high, mut above) = (low, below);
    let mut step = FIRST_STEP;
    while below >= 0.0 {
        if low <= first {
            return 1.0;
        }
        (high, above) = (low, below);
        low = (low - step).max(first);
        below = short(low);
        step *= STEP_GROWTH;
    }
    while above <= 0.0 {
        if high >= last {
            return most;
        }
        (low, below) = (high, above);
        high = (high + step).min(last);
        above = short(high);
        step *= STEP_GROWTH;
    }
    for _ in 0..MOST_STEPS {
        let middle = (low * above - high * below) / (above - below);
        let at = short(middle);
        if at.abs() < LAST_ERROR {
            return middle.exp();
        }
        if at < 0.0 {
            (low, below) = (middle, at);
            above /= 2.0;
        } else {
            (high, above) = (middle, at);
            below /= 2.0;
        }
    }
    f64::midpoint(low, high).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use std::collections::VecDeque;

    /// A cache of two stages, of numbers: newcomers, those that stay, the one asked for last in front, and
    /// notes of those that have left.
    #[derive(Default)]
    struct Simulated {
        newcomers: VecDeque<usize>,
        staying: VecDeque<usize>,
        notes: VecDeque<usize>,
    }

    impl Simulated {
        /// Forgets `item`, if it is there.
        fn forget(&mut self, item: usize) {
            self.newcomers.retain(|held| *held != item);
            self.staying.retain(|held| *held != item);
        }

        /// Asks for `item`, and returns whether it was there.
        fn ask(&mut self, item: usize, policy: Policy, room: f64) -> bool {
            let newcomers = (policy.newcomers * room) as usize;
            if let Some(place) = self.staying.iter().position(|held| *held == item) {
                self.staying.remove(place);
                self.staying.push_front(item);
                return true;
            }
            if let Some(place) = self.newcomers.iter().position(|held| *held == item) {
                self.newcomers.remove(place);
                self.staying.push_front(item);
                self.staying.truncate(room as usize - newcomers);
                return true;
            }
            if let Some(place) = self.notes.iter().position(|noted| *noted == item) {
                self.notes.remove(place);
                self.staying.push_front(item);
                self.staying.truncate(room as usize - newcomers);
                return false;
            }
            self.newcomers.push_front(item);
            self.notes.extend(if self.newcomers.len() > newcomers {
                self.newcomers.pop_back()
            } else {
                None
            });
            if self.notes.len() > (policy.noted * room) as usize - newcomers {
                self.notes.pop_front();
            }
            false
        }
    }

    /// The share of requests that a simulated cache misses and ours, of things of which some are asked for
    /// more often, and each of which another comes for after so many requests.
    fn missed(policy: Policy, room: f64, lifetime: Option<usize>) -> [f64; 2] {
        const THINGS: usize = 2000;
        let popularity = crate::Popularity::zipf_grouped(2000, 0.99, crate::Grouping::Exact).unwrap();
        let chances: Vec<f64> = popularity.groups().iter().map(|group| group.probability).collect();
        let mut random = rand::rngs::SmallRng::seed_from_u64(7);
        let (mut cache, mut missed) = (Simulated::default(), 0);
        // By turns another comes for each.
        let mut present: Vec<usize> = (0..THINGS).collect();
        for request in 0..120_000 {
            let turns = lifetime.map(|requests| requests / THINGS);
            if let Some(turn) = turns.filter(|turns| request % turns == 0).map(|turns| request / turns) {
                cache.forget(present[turn % THINGS]);
                present[turn % THINGS] += THINGS;
            }
            let mut at = random.random::<f64>();
            let thing = chances.iter().position(|chance| {
                at -= chance;
                at < 0.0
            });
            let was_there = cache.ask(present[thing.unwrap_or(0)], policy, room);
            missed += i32::from(request >= 40_000 && !was_there);
        }
        let untouched = |time: f64| chances.iter().map(|chance| (-chance * time).exp()).collect();
        let times = policy.times(room, &vec![1.0; chances.len()], untouched, 1e8);
        let lifetime = lifetime.map_or(f64::INFINITY, |requests| requests as f64);
        let of_one = |chance: &f64| {
            chance * absent_of_living(times.map(|time| (-chance * time).exp()), chance * lifetime)
        };
        [f64::from(missed) / 80_000.0, chances.iter().map(of_one).sum::<f64>()]
    }

    #[test]
    fn a_cache_misses_what_a_simulated_one_does() {
        for (policy, room) in [(ANSWERS, 100.0), (ANSWERS, 400.0), (PAGES, 100.0), (PAGES, 400.0)] {
            let [simulated, ours] = missed(policy, room, None);
            assert!((simulated - ours).abs() < 0.015, "{policy:?} {room}: {simulated} {ours}");
            for lifetime in [40_000, 10_000, 4_000] {
                let [simulated, ours] = missed(policy, room, Some(lifetime));
                println!("{policy:?} {room}, {lifetime}: {simulated} {ours}");
                assert!((simulated - ours).abs() < 0.03, "{policy:?} {room}, {lifetime}: {simulated} {ours}");
            }
        }
    }

    #[test]
    fn of_things_that_are_asked_for_alike_as_many_are_there_as_there_is_room_for() {
        for room in [1.0, 10.0, 50.0, 99.0] {
            let untouched = |time: f64| vec![(-time / 100.0).exp(); 100];
            let times = PAGES.times(room, &[1.0; 100], untouched, 1e6);
            let found = 1.0 - absent(times.map(|time| (-time / 100.0).exp()));
            assert!((found - room / 100.0).abs() < 0.02, "{room}: {found}");
        }
    }
}
