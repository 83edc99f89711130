//! Which items are read, and which of them are left where.
//!
//! Items that are asked for often are mostly those that are written often, so that their newest versions lie
//! together in young runs, whose few pages a cache soon holds. Requests are therefore followed by popularity:
//! after `t` changes an item that takes a share `q` of them is unchanged with probability `e^−qt`, as in
//! FAST'16's `Unique` (Lim et al., §3.2).

use super::puts::Puts;
use super::trie::Trie;
use super::workload::Workload;
use crate::{Grouping, ModelError, Popularity};

/// Probabilities of a group of items are within this ratio: an error of 5 % at most in how many are touched,
/// of which sums over groups leave far less.
const GROUPING: Grouping = Grouping::Moments { ratio: 3.0 };

/// Items that are asked for about as often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub items: f64,
    /// The share of requests that one of them takes.
    pub rate: f64,
}

/// How requests are spread over items.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    groups: Vec<Alike>,
    /// Whether what is read most is what is written most.
    follow_writes: bool,
    /// Groups of items with a prefix in common, which scans list.
    prefixes: f64,
}

impl Requests {
    pub fn of(workload: &Workload) -> Result<Self, ModelError> {
        let skew = workload.read_skew.unwrap_or(workload.skew);
        let popularity = if skew > 0.0 {
            Popularity::zipf_grouped(workload.items.ceil() as u64, skew, GROUPING)?
        } else {
            Popularity::uniform(workload.items.ceil() as u64)?
        };
        let groups = popularity.groups().iter();
        Ok(Self {
            groups: groups.map(|group| Alike { items: group.keys, rate: group.probability }).collect(),
            follow_writes: workload.read_skew.is_none(),
            prefixes: (workload.items / workload.group_items.max(1.0)).max(1.0),
        })
    }

    /// Items by how often they are asked for.
    pub fn groups(&self) -> &[Alike] {
        &self.groups
    }

    /// How many items there are.
    pub fn items(&self) -> f64 {
        self.groups.iter().map(|group| group.items).sum()
    }

    /// Groups of items with a prefix in common.
    pub fn prefixes(&self) -> f64 {
        self.prefixes
    }

    /// All items, of each group.
    pub fn all(&self) -> Vec<f64> {
        self.groups.iter().map(|group| group.items).collect()
    }

    /// The items of each group that are not among `puts`.
    pub fn left(&self, trie: &Trie, puts: Puts) -> Vec<f64> {
        let groups = self.groups.iter();
        if self.follow_writes {
            let share = |group: &Alike| (1.0 - puts.first) * (-group.rate * puts.changes).exp();
            groups.map(|group| group.items * share(group)).collect()
        } else {
            let share = 1.0 - trie.met(puts);
            groups.map(|group| group.items * share).collect()
        }
    }

    /// The share of requests that are for so many items of each group.
    pub fn share(&self, items: &[f64]) -> f64 {
        self.groups.iter().zip(items).map(|(group, items)| group.rate * items).sum()
    }
}
