//! Which key the next request writes: exact draws from any popularity, in a few nanoseconds, the same for the
//! same seed.
//!
//! Keys are dealt into groups of like popularity. An alias table (Walker, 1977; Vose, 1991) picks a group by
//! an upper bound of its weight, then a key of the group is drawn evenly and accepted with its own share of
//! the bound; else all is drawn anew. So the distribution is exact although no number is kept per key: 10^8
//! keys under Zipf take some 300 groups, which stay in the first-level cache, and 3 % of the draws are
//! rejected. A Zipf sampler by inversion needs a logarithm and an exponential per draw; here only draws below
//! the group's least share compute a power.
//!
//! Ranks by popularity are spread over the key order by a bijection, since the models assume that popular
//! keys are not neighbours.

use crate::ModelError;
use rand_distr::{Binomial, Distribution};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// How popular keys are, by rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Ranks {
    /// All alike.
    Uniform {
        /// How many.
        keys: u64,
    },
    /// The key of rank *i*, from 1, is asked for in proportion to *i*^−skew.
    Zipf {
        /// How many.
        keys: u64,
        /// The exponent.
        skew: f64,
    },
    /// Groups of keys alike: how many, and the weight of each.
    Groups(Vec<(u64, f64)>),
}

impl Ranks {
    /// `keys` keys, all alike.
    pub fn uniform(keys: u64) -> Result<Self, ModelError> {
        Self::Uniform { keys }.checked()
    }

    /// `keys` keys of Zipf popularity with exponent `skew`; 0 is uniform.
    pub fn zipf(keys: u64, skew: f64) -> Result<Self, ModelError> {
        if skew == 0.0 { Self::uniform(keys) } else { Self::Zipf { keys, skew }.checked() }
    }

    /// So many keys of each weight, in any unit.
    pub fn groups(groups: Vec<(u64, f64)>) -> Result<Self, ModelError> {
        Self::Groups(groups).checked()
    }

    /// The number of keys.
    pub fn keys(&self) -> u64 {
        match self {
            Self::Uniform { keys } | Self::Zipf { keys, .. } => *keys,
            Self::Groups(groups) => groups.iter().map(|(keys, _)| *keys).sum(),
        }
    }

    fn checked(self) -> Result<Self, ModelError> {
        if self.keys() == 0 {
            return Err(ModelError::new("keys", "0 given; there must be at least 1"));
        }
        match &self {
            Self::Zipf { skew, .. } if !(skew.is_finite() && *skew >= 0.0) => {
                Err(ModelError::new("skew", format!("{skew} given; it must be at least 0 and finite")))
            }
            Self::Groups(groups) if !groups.iter().all(|(_, weight)| weight.is_finite() && *weight > 0.0) => {
                Err(ModelError::new("histogram", "weights must be above 0 and finite"))
            }
            _ => Ok(self),
        }
    }
}

/// Keys whose weights lie between `bound` and `bound × least_share`.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The first of its keys, among those that can be drawn.
    first: u32,
    count: u32,
    bound: f64,
    least_share: f64,
}

/// One slot of the alias table.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Below this the slot stands for its own group, from it on for the other.
    threshold: u64,
    group: u32,
    other: u32,
}

/// Draws keys: numbers below [`Sampler::keys`], in the order of the key space.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    rng: Xoshiro256PlusPlus,
    groups: Vec<Group>,
    slots: Vec<Slot>,
    skew: f64,
    /// Rank of each key that can be drawn, where not all can.
    kept: Option<Vec<u32>>,
    /// Share of all requests that are for keys that can be drawn.
    kept_share: f64,
    order: Order,
    keys: u32,
}

/// Ranks in a group differ by at most one part in so many.
const WIDTH: u32 = 16;

impl Sampler {
    /// Draws from one key in `one_in`, chosen by their hash; [`Sampler::draw_of`] accounts for requests for
    /// the others.
    ///
    /// There must be fewer than 2^32 keys.
    pub(crate) fn new(ranks: &Ranks, one_in: u32, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let hash = rng.next_u64();
        let is_kept = |rank: u32| {
            one_in == 1
                || siltstone_design::digest::mix64(u64::from(rank) ^ hash).is_multiple_of(one_in.into())
        };
        let (groups, kept, kept_share, skew) = match ranks {
            Ranks::Uniform { keys } => {
                let count = (keys / u64::from(one_in)).max(1) as u32;
                let share = f64::from(count) / *keys as f64;
                (vec![Group { first: 0, count, bound: 1.0, least_share: 1.0 }], None, share, 0.0)
            }
            Ranks::Zipf { keys, skew } => {
                let all = 0..*keys as u32;
                let weight = |rank: u32| zipf_weight(rank, *skew);
                let kept = (one_in > 1).then(|| {
                    let kept: Vec<u32> = all.clone().filter(|&rank| is_kept(rank)).collect();
                    if kept.is_empty() { vec![0] } else { kept }
                });
                let share = kept.as_ref().map_or(1.0, |kept| {
                    kept.iter().rev().map(|&rank| weight(rank)).sum::<f64>()
                        / all.rev().map(weight).sum::<f64>()
                });
                (zipf_groups(*keys as u32, kept.as_deref(), *skew), kept, share, *skew)
            }
            Ranks::Groups(given) => {
                let (groups, share) = alike_groups(given, &is_kept);
                (groups, None, share, 0.0)
            }
        };
        let keys = groups.last().map_or(0, |last| last.first + last.count);
        let slots = alias_table(&groups);
        let order = Order::new(u64::from(keys), rng.next_u64());
        Self { rng, groups, slots, skew, kept, kept_share, order, keys }
    }

    /// How many keys can be drawn.
    pub(crate) fn keys(&self) -> u32 {
        self.keys
    }

    /// Bits that any key fits in.
    pub(crate) fn key_bits(&self) -> u32 {
        (u32::BITS - self.keys.saturating_sub(1).leading_zeros()).max(1)
    }

    /// Spreads ranks over all 32-bit numbers instead of the numbers below [`Sampler::keys`], so that keys are
    /// as far apart as digests are.
    pub(crate) fn spread(mut self) -> Self {
        self.order = Order::new(1 << 32, self.rng.next_u64());
        self
    }

    /// Appends the keys of the next `requests` requests to `keys`, of those that can be drawn.
    pub(crate) fn draw_of(&mut self, requests: u64, keys: &mut Vec<u32>) {
        // Keys that are all alike need no spreading; it would only take time.
        let as_they_are = self.groups.len() == 1 && self.order.n == u64::from(self.keys);
        for _ in 0..self.kept_of(requests) {
            let index = self.draw_index();
            keys.push(if as_they_are { index } else { self.order.at(index) });
        }
    }

    /// How many of the next `requests` requests are for keys that can be drawn.
    pub(crate) fn kept_of(&mut self, requests: u64) -> u64 {
        if self.kept_share < 1.0 {
            // Without error: the share lies in 0..1.
            Binomial::new(requests, self.kept_share).map_or(0, |drawn| drawn.sample(&mut self.rng))
        } else {
            requests
        }
    }

    /// Where in the key order the key with this index stands.
    pub(crate) fn key_at(&self, index: u32) -> u32 {
        self.order.at(index)
    }

    /// The index of the next request's key, of those that can be drawn.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "slots number their groups, and a product's upper half is below its factor"
    )]
    pub(crate) fn draw_index(&mut self) -> u32 {
        loop {
            let (slot, coin) = below(self.rng.next_u64(), self.slots.len() as u64);
            let slot = self.slots[slot as usize];
            let number = if coin < slot.threshold { slot.group } else { slot.other };
            let group = self.groups[number as usize];
            let (within, coin) = below(self.rng.next_u64(), group.count.into());
            let index = group.first + within as u32;
            let share = (coin >> 11) as f64 / (1u64 << 53) as f64;
            if share < group.least_share || share < self.weight(index) / group.bound {
                return index;
            }
        }
    }

    #[cold]
    fn weight(&self, index: u32) -> f64 {
        let rank = self.kept.as_ref().and_then(|kept| kept.get(index as usize)).copied();
        zipf_weight(rank.unwrap_or(index), self.skew)
    }
}

/// `random` as a number below `n`, and what remains of its randomness.
#[inline]
fn below(random: u64, n: u64) -> (u64, u64) {
    let product = u128::from(random) * u128::from(n);
    ((product >> 64) as u64, product as u64)
}

fn zipf_weight(rank: u32, skew: f64) -> f64 {
    (-skew * (f64::from(rank) + 1.0).ln()).exp()
}

/// Groups of ascending ranks: single ones at first, then each a sixteenth as wide as what comes before it.
fn zipf_groups(keys: u32, kept: Option<&[u32]>, skew: f64) -> Vec<Group> {
    let count = kept.map_or(keys, |kept| kept.len() as u32);
    let rank_at = |index: u32| kept.and_then(|kept| kept.get(index as usize)).copied().unwrap_or(index);
    let mut groups = Vec::new();
    let mut first = 0;
    while first < count {
        let rank = rank_at(first);
        let end_rank = rank.saturating_add(1).saturating_add(rank / WIDTH);
        let end =
            kept.map_or(end_rank, |kept| kept.partition_point(|&rank| rank < end_rank) as u32).min(count);
        let last = rank_at(end - 1);
        let bound = zipf_weight(rank, skew);
        // A rounding error below the true share, so that the shortcut never accepts what the power would
        // reject.
        let least_share = if last == rank { 1.0 } else { zipf_weight(last, skew) / bound * (1.0 - 1e-12) };
        groups.push(Group { first, count: end - first, bound, least_share });
        first = end;
    }
    groups
}

/// Groups of keys alike, thinned to those kept; with the share of requests that these get.
fn alike_groups(given: &[(u64, f64)], is_kept: &dyn Fn(u32) -> bool) -> (Vec<Group>, f64) {
    let (mut groups, mut first, mut rank) = (Vec::new(), 0u32, 0u32);
    let (mut kept_weight, mut weight_sum) = (0.0, 0.0);
    for &(count, weight) in given {
        let end = rank + count as u32;
        let kept = (rank..end).filter(|&rank| is_kept(rank)).count() as u32;
        rank = end;
        weight_sum += weight * count as f64;
        if kept > 0 {
            groups.push(Group { first, count: kept, bound: weight, least_share: 1.0 });
            kept_weight += weight * f64::from(kept);
            first += kept;
        }
    }
    (groups, kept_weight / weight_sum)
}

/// Vose's construction: each slot is filled by one group and topped up from one that has too much.
fn alias_table(groups: &[Group]) -> Vec<Slot> {
    let weight = |group: &Group| group.bound * f64::from(group.count);
    let sum: f64 = groups.iter().map(weight).sum();
    let scaled = groups.iter().map(|group| weight(group) / sum * groups.len() as f64);
    let (mut small, mut large): (Vec<_>, Vec<_>) =
        (0u32..).zip(scaled).partition(|&(_, share): &(u32, f64)| share < 1.0);
    let mut slots = Vec::with_capacity(groups.len());
    while let (Some(&(low, share)), Some(rich)) = (small.last(), large.last_mut()) {
        small.pop();
        slots.push(Slot { threshold: (share * u64::MAX as f64) as u64, group: low, other: rich.0 });
        rich.1 -= 1.0 - share;
        if rich.1 < 1.0 {
            small.extend(large.pop());
        }
    }
    // What is left is full but for rounding.
    slots.extend(small.into_iter().chain(large).map(|(group, _)| Slot {
        threshold: u64::MAX,
        group,
        other: group,
    }));
    slots
}

/// A seeded bijection of `0..n`: alternating multiplications by odd numbers and xor-shifts on the next power
/// of two, repeated until the image lies below `n` (cycle walking: Black and Rogaway, 2002).
#[derive(Clone, Debug)]
struct Order {
    n: u64,
    mask: u32,
    half: u32,
    factors: [u32; 3],
    addend: u32,
}

impl Order {
    fn new(n: u64, seed: u64) -> Self {
        let bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).clamp(2, u32::BITS);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mask = u32::MAX >> (u32::BITS - bits);
        let mut odd = || rng.next_u64() as u32 | 1;
        Self { n, mask, half: bits / 2, factors: [odd(), odd(), odd()], addend: odd() }
    }

    #[inline]
    fn at(&self, index: u32) -> u32 {
        let mut x = index;
        loop {
            x = x.wrapping_add(self.addend) & self.mask;
            for factor in self.factors {
                x = x.wrapping_mul(factor) & self.mask;
                x ^= x >> self.half;
            }
            if u64::from(x) < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Chi-square of draws by rank over cells of at least 20 expected; the normal approximation of its 99.99
    /// % quantile.
    fn check(ranks: &Ranks, one_in: u32, weight: impl Fn(u64) -> f64) {
        const DRAWS: u64 = 300_000;
        let mut sampler = Sampler::new(ranks, one_in, 42);
        let mut counts = vec![0u64; sampler.keys() as usize];
        for _ in 0..DRAWS {
            counts[sampler.draw_index() as usize] += 1;
        }
        let rank = |index: usize| sampler.kept.as_ref().map_or(index as u64, |kept| kept[index].into());
        let sum: f64 = (0..counts.len()).map(|index| weight(rank(index))).sum();
        let (mut chi_square, mut cells, mut expected, mut found) = (0.0, 0.0, 0.0, 0.0);
        for (index, &count) in counts.iter().enumerate() {
            expected += DRAWS as f64 * weight(rank(index)) / sum;
            found += count as f64;
            if expected >= 20.0 || index + 1 == counts.len() {
                chi_square += (found - expected) * (found - expected) / f64::max(expected, 1.0);
                cells += 1.0;
                (expected, found) = (0.0, 0.0);
            }
        }
        let limit = cells + 3.8 * f64::sqrt(2.0 * cells) + 10.0;
        assert!(
            chi_square < limit,
            "{ranks:?}, 1 in {one_in}: chi-square {chi_square:.1} over {cells} cells"
        );
    }

    #[test]
    fn draws_follow_the_exact_distribution() {
        for keys in [1, 2, 3, 17, 1000, 50_000] {
            check(&Ranks::uniform(keys).unwrap(), 1, |_| 1.0);
            for skew in [0.2, 0.5, 0.99, 1.0, 1.5, 3.0] {
                let zipf = Ranks::zipf(keys, skew).unwrap();
                for one_in in [1, 10] {
                    check(&zipf, one_in, |rank| (rank as f64 + 1.0).powf(-skew));
                }
            }
        }
        let groups = Ranks::groups(vec![(1000, 1.0), (3, 500.0), (200, 3.0)]).unwrap();
        check(&groups, 1, |rank| match rank {
            0..1000 => 1.0,
            1000..1003 => 500.0,
            _ => 3.0,
        });
    }

    #[test]
    fn a_seed_is_a_run() {
        let zipf = Ranks::zipf(10_000, 0.99).unwrap();
        let draws = |seed| {
            let mut sampler = Sampler::new(&zipf, 3, seed);
            let mut keys = Vec::new();
            sampler.draw_of(1000, &mut keys);
            keys
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }

    #[test]
    fn a_miniature_gets_its_share_of_requests() {
        for (ranks, spread) in [
            (Ranks::uniform(100_000).unwrap(), 0.01),
            (Ranks::zipf(100_000, 0.5).unwrap(), 0.02),
            (Ranks::groups(vec![(50_000, 1.0), (50_000, 3.0)]).unwrap(), 0.02),
        ] {
            let mut sampler = Sampler::new(&ranks, 10, 7);
            assert!((f64::from(sampler.keys()) / 10_000.0 - 1.0).abs() < 0.05);
            let mut keys = Vec::new();
            sampler.draw_of(1_000_000, &mut keys);
            assert!((keys.len() as f64 / 100_000.0 - 1.0).abs() < 0.03 + spread, "{ranks:?}: {}", keys.len());
        }
    }

    #[test]
    fn keys_are_spread_without_collision() {
        for keys in [1, 2, 3, 5, 1000, 1024, 65_537] {
            let sampler = Sampler::new(&Ranks::zipf(keys, 0.5).unwrap(), 1, 3);
            let images: HashSet<u32> = (0..sampler.keys()).map(|index| sampler.order.at(index)).collect();
            assert_eq!(images.len() as u64, keys);
            assert!(images.iter().all(|image| u64::from(*image) < keys));
        }
        let wide = Sampler::new(&Ranks::uniform(10_000).unwrap(), 1, 3).spread();
        let all: Vec<u32> = (0..wide.keys()).map(|index| wide.key_at(index)).collect();
        // Each sixteenth of the space holds its share, give or take four deviations.
        for part in 0..16u32 {
            let inside = all.iter().filter(|key| **key >> 28 == part).count();
            assert!((525..=725).contains(&inside), "{inside}");
        }
    }
}
