//! How often each key is written: N keys and a probability for each, grouped so that 10^8 of them take some
//! 100 pairs of numbers.
//!
//! Source: Lim et al., FAST 2016, §3.2 and §6.2 (the "compressed key popularity distribution"). The paper
//! joins keys whose probabilities differ by at most a tenth and keeps their mean. *Ours*
//! ([`Grouping::Moments`]) keeps two values per group that have the mean, the variance and the skewness of
//! the keys in it, a two-point Gauss quadrature: the error falls with the fourth power of the group's width
//! instead of the second, so that groups can be wider and the result is still closer. For a Zipf distribution
//! groups are ranges of ranks, and their moments come from Euler-Maclaurin sums: the time taken does not
//! depend on the number of keys.
//!
//! Invariants: probabilities lie in (0, 1] and `Σ keys · probability = 1`; weights are not negative and not
//! all zero.

mod grouping;
mod zipf;

pub use grouping::Grouping;

use crate::ModelError;
use grouping::Grouper;
use std::collections::HashMap;
use std::hash::Hash;

/// Keys of (almost) equal probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// How many keys; not necessarily whole, since a quadrature may split them.
    pub keys: f64,
    /// The probability that a request is for one given key of the group.
    pub probability: f64,
    /// The weights of all keys of the group together: their number, unless the distribution is weighted.
    pub weight: f64,
}

/// A distribution of requests over keys: independent requests, no locality in the key space (paper, §3.2).
///
/// A *weight* per key makes [`unique`](crate::Primitives::unique) count something other than keys (§8):
/// bytes, where items vary in length, or the probability of a query, for read amplification.
///
/// ```
/// use siltstone_model::Popularity;
///
/// let zipf = Popularity::zipf(100_000_000, 0.99)?;
/// assert!(zipf.groups().len() < 200);
/// let keys: f64 = zipf.groups().iter().map(|g| g.keys).sum();
/// assert!((keys - 1e8).abs() < 1.0);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Popularity {
    groups: Vec<Group>,
    error_bound: f64,
}

impl Popularity {
    /// `keys` equally popular keys.
    pub fn uniform(keys: u64) -> Result<Self, ModelError> {
        let keys = key_count(keys)?;
        Ok(Self { groups: vec![Group { keys, probability: 1.0 / keys, weight: keys }], error_bound: 0.0 })
    }

    /// `keys` keys, the `i`-th most popular requested in proportion to `i^-skew`. Skew 0 is uniform, YCSB's
    /// is 0.99.
    pub fn zipf(keys: u64, skew: f64) -> Result<Self, ModelError> {
        Self::zipf_grouped(keys, skew, Grouping::default())
    }

    /// The same, grouped as told; [`Grouping::Exact`] takes memory for every key and is for tests.
    pub fn zipf_grouped(keys: u64, skew: f64, grouping: Grouping) -> Result<Self, ModelError> {
        key_count(keys)?;
        grouping.check()?;
        if !(skew.is_finite() && (0.0..=zipf::MOST_SKEW).contains(&skew)) {
            let most = zipf::MOST_SKEW;
            return Err(ModelError::new("skew", format!("{skew} given; it must lie between 0 and {most}")));
        }
        if skew == 0.0 && grouping != Grouping::Exact {
            return Self::uniform(keys);
        }
        Self::checked(zipf::groups(keys, skew, grouping), grouping)
    }

    /// A measured distribution: for each entry, how often *one* key was requested (any unit) and how many
    /// such keys there are. Entries with frequency or count zero stand for keys that are never written, and
    /// are left out.
    ///
    /// ```
    /// // One key takes half of all requests, a thousand share the rest.
    /// let p = siltstone_model::Popularity::histogram([(1000.0, 1.0), (1.0, 1000.0)], Default::default())?;
    /// assert_eq!(p.keys(), 1001.0);
    /// # Ok::<(), siltstone_model::ModelError>(())
    /// ```
    pub fn histogram(
        entries: impl IntoIterator<Item = (f64, f64)>,
        grouping: Grouping,
    ) -> Result<Self, ModelError> {
        Self::weighted_histogram(
            entries.into_iter().map(|(frequency, keys)| (frequency, keys, 1.0)),
            grouping,
        )
    }

    /// A histogram of (frequency of one key, number of such keys, weight of each of them).
    ///
    /// Within a group of similar frequencies, weights are taken to be independent of the frequency.
    pub fn weighted_histogram(
        entries: impl IntoIterator<Item = (f64, f64, f64)>,
        grouping: Grouping,
    ) -> Result<Self, ModelError> {
        grouping.check()?;
        let mut sorted = Vec::new();
        for (frequency, keys, weight) in entries {
            let sound = [frequency, keys, weight].iter().all(|x| x.is_finite() && *x >= 0.0);
            if !sound {
                let given = format!("({frequency}, {keys}, {weight}) given");
                return Err(ModelError::new("histogram", format!("{given}; numbers must be finite and ≥ 0")));
            }
            if frequency > 0.0 && keys > 0.0 {
                sorted.push((frequency, keys, weight));
            }
        }
        let total: f64 = sorted.iter().map(|(frequency, keys, _)| frequency * keys).sum();
        if sorted.is_empty() || !total.is_finite() {
            return Err(ModelError::new("histogram", "no key with a frequency above 0; give at least one"));
        }
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut grouper = Grouper::new(grouping);
        for (frequency, keys, weight) in sorted {
            grouper.add(frequency / total, keys, weight * keys);
        }
        Self::checked(grouper.finish(), grouping)
    }

    /// The distribution of the keys in `requests`, each as often as it occurs.
    ///
    /// Keys that a longer trace would have shown are missing, so the trace should be several times longer
    /// than the number of keys; a shorter one makes the tail look smaller than it is.
    pub fn trace<K: Hash + Eq>(
        requests: impl IntoIterator<Item = K>,
        grouping: Grouping,
    ) -> Result<Self, ModelError> {
        let mut counts: HashMap<K, u64> = HashMap::new();
        for key in requests {
            *counts.entry(key).or_default() += 1;
        }
        if counts.is_empty() {
            return Err(ModelError::new("trace", "no request in it; give at least one"));
        }
        let mut keys_by_count: HashMap<u64, u64> = HashMap::new();
        for count in counts.into_values() {
            *keys_by_count.entry(count).or_default() += 1;
        }
        Self::histogram(keys_by_count.into_iter().map(|(count, keys)| (count as f64, keys as f64)), grouping)
    }

    fn checked(groups: Vec<Group>, grouping: Grouping) -> Result<Self, ModelError> {
        if groups.iter().map(|g| g.weight).sum::<f64>() <= 0.0 {
            return Err(ModelError::new("weights", "all are 0; give at least one key a weight above 0"));
        }
        Ok(Self { groups, error_bound: grouping.error_bound() })
    }

    /// The same keys with another weight each, a function of the key's probability.
    ///
    /// The error bound holds for weights that are constant; for smooth weights it holds with the group's
    /// spread of weights added.
    pub fn reweighted(&self, weight: impl Fn(f64) -> f64) -> Result<Self, ModelError> {
        let mut groups = self.groups.clone();
        for group in &mut groups {
            let each = weight(group.probability);
            if !(each.is_finite() && each >= 0.0) {
                return Err(ModelError::new(
                    "weights",
                    format!("{each} given; weights must be finite and ≥ 0"),
                ));
            }
            group.weight = each * group.keys;
        }
        if groups.iter().all(|g| g.weight == 0.0) {
            return Err(ModelError::new("weights", "all are 0; give at least one key a weight above 0"));
        }
        Ok(Self { groups, error_bound: self.error_bound })
    }

    /// The same keys weighted by the probability that a *query* asks for them, where queries prefer the same
    /// keys as writes do, in proportion to `probability^exponent`: 1 for queries like writes, 0 for uniform
    /// ones. Weights add up to 1.
    pub fn queried(&self, exponent: f64) -> Result<Self, ModelError> {
        if !(exponent.is_finite() && exponent >= 0.0) {
            let given = format!("{exponent} given; it must be finite and ≥ 0");
            return Err(ModelError::new("read-skew", given));
        }
        let total: f64 = self.groups.iter().map(|g| g.keys * g.probability.powf(exponent)).sum();
        self.reweighted(|probability| probability.powf(exponent) / total)
    }

    /// The groups, least popular first.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The number of distinct keys, N.
    pub fn keys(&self) -> f64 {
        self.groups.iter().map(|g| g.keys).sum()
    }

    /// The weight of all keys; N if the distribution is not weighted.
    pub fn total_weight(&self) -> f64 {
        self.groups.iter().map(|g| g.weight).sum()
    }

    /// The expected weight of a request's key; 1 if the distribution is not weighted.
    pub fn weight_per_request(&self) -> f64 {
        self.groups.iter().map(|g| g.weight * g.probability).sum()
    }

    /// An upper bound on the relative error that grouping causes in `unique`, for any number of requests.
    ///
    /// See [`Grouping::error_bound`].
    pub fn error_bound(&self) -> f64 {
        self.error_bound
    }
}

fn key_count(keys: u64) -> Result<f64, ModelError> {
    if keys == 0 {
        return Err(ModelError::new("keys", "0 given; there must be at least 1"));
    }
    if keys > 1 << 52 {
        return Err(ModelError::new("keys", format!("{keys} given; at most 2^52 can be counted exactly")));
    }
    Ok(keys as f64)
}
