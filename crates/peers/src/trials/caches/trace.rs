//! Traces: which items are asked for, one after another.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use siltstone_lab::kit::generate::permutation::Permutation;
use siltstone_lab::kit::generate::zipf::Zipf;

/// One listing among so many operations.
const LISTED: u64 = 20;
/// So often the favourites change within a trace.
const SHIFTS: u64 = 8;

/// What a trace is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Gets by Zipf's law.
    Skewed,
    /// The same, and a group that nobody prefers is listed now and then.
    Scanned,
    /// The same without listings, and now and then a sixteenth of the items changes places with others.
    Shifting,
}

impl Traffic {
    /// All.
    pub const ALL: [Self; 3] = [Self::Skewed, Self::Scanned, Self::Shifting];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Skewed => "skewed",
            Self::Scanned => "scanned",
            Self::Shifting => "shifting",
        }
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Get this item.
    Get(u64),
    /// List this group.
    List(u64),
}

/// Operations one after another, the same each time.
pub struct Trace {
    traffic: Traffic,
    items: u64,
    whole_groups: u64,
    popularity: Zipf,
    order: Permutation,
    random: SmallRng,
    number: u64,
    each: u64,
}

impl Trace {
    /// A trace over `items` items in groups of `group`, of which about `operations` are asked for.
    pub fn new(traffic: Traffic, items: u64, group: u64, skew: f64, operations: u64) -> Self {
        Self {
            traffic,
            items,
            whole_groups: (items / group).max(1),
            popularity: Zipf::new(items, skew),
            order: Permutation::new(items, 1),
            random: SmallRng::seed_from_u64(1),
            number: 0,
            each: (operations / SHIFTS).max(1),
        }
    }

    /// The next operation.
    pub fn step(&mut self) -> Step {
        self.number += 1;
        if self.traffic == Traffic::Scanned && self.number.is_multiple_of(LISTED) {
            return Step::List(self.random.random_range(0..self.whole_groups));
        }
        let mut place = self.popularity.sample(&mut self.random);
        if self.traffic == Traffic::Shifting {
            // The most popular are others each time, and those of the time before still are somewhat so.
            place = (place + self.number / self.each * (self.items / 16)) % self.items;
        }
        Step::Get(self.order.at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn counts(traffic: Traffic, operations: u64) -> (HashMap<u64, u64>, u64) {
        let mut trace = Trace::new(traffic, 10_000, 100, 0.99, operations);
        let (mut gets, mut listed) = (HashMap::new(), 0);
        for _ in 0..operations {
            match trace.step() {
                Step::Get(item) => *gets.entry(item).or_default() += 1,
                Step::List(group) => {
                    assert!(group < 100);
                    listed += 1;
                }
            }
        }
        (gets, listed)
    }

    #[test]
    fn favourites_stay_or_change_as_the_traffic_says() {
        let most = |traffic| {
            let (gets, listed) = counts(traffic, 100_000);
            (gets.values().max().copied().unwrap(), listed)
        };
        let (skewed, scanned, shifting) =
            (most(Traffic::Skewed), most(Traffic::Scanned), most(Traffic::Shifting));
        assert_eq!((skewed.1, scanned.1, shifting.1), (0, 5_000, 0));
        assert!(skewed.0 > 8_000 && scanned.0 > 8_000, "{skewed:?} {scanned:?}");
        assert!(shifting.0 < skewed.0 / 4, "{shifting:?} and {skewed:?}");
    }
}
