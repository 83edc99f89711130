//! What is done to a simulated store, and what is measured on it.

use super::keys::Ranks;
use crate::ModelError;
use crate::engines::{Cost, Step};

/// What the store holds before requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Every key, inserted once in key order: the paper's start.
    Sequential,
    /// Nothing: the store grows.
    Empty,
}

/// The course of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// What the store holds at first.
    pub load: Load,
    /// Requests before measuring begins.
    pub warm_up: u64,
    /// Requests measured; both are rounded up to whole memtables.
    pub requests: u64,
    /// Equal seeds make equal runs.
    pub seed: u64,
    /// Simulates one key in so many, with all limits divided by as much; 1 is the store itself.
    ///
    /// Time still advances with all requests, so rates need no correction. The smaller the store the more the
    /// borders between tables matter: write amplification comes out 0.5 % low at 10 and 2 % low at 33 as long
    /// as a table keeps 200 items, and lower below that.
    pub miniature: u32,
}

impl Protocol {
    /// The paper's (§4.5): every key once in order, then ten times as many requests, all measured.
    pub fn paper(keys: u64) -> Self {
        Self { load: Load::Sequential, warm_up: 0, requests: keys.saturating_mul(10), seed: 1, miniature: 1 }
    }

    /// The steady state: every key once in order, five times as many requests to forget that order, then as
    /// many measured.
    pub fn steady(keys: u64) -> Self {
        Self { warm_up: keys.saturating_mul(5), requests: keys.saturating_mul(5), ..Self::paper(keys) }
    }

    /// Growth from nothing: as many requests as there are keys.
    pub fn growth(keys: u64) -> Self {
        Self { load: Load::Empty, requests: keys, ..Self::paper(keys) }
    }

    pub(super) fn check(&self, ranks: &Ranks) -> Result<(), ModelError> {
        let keys = ranks.keys();
        if keys >= 1 << 32 {
            return Err(ModelError::new("keys", format!("{keys} given; a simulator holds fewer than 2^32")));
        }
        if self.requests == 0 {
            return Err(ModelError::new("requests", "0 given; measure at least 1"));
        }
        if self.miniature == 0 || u64::from(self.miniature) > keys {
            let message = format!("1 key in {} of {keys} given; at least 1 must remain", self.miniature);
            return Err(ModelError::new("miniature", message));
        }
        Ok(())
    }
}

/// What a simulation found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// Write amplification by step, as the models give it.
    pub cost: Cost,
    /// Requests measured.
    pub requests: u64,
    /// Items in levels 1 to L at the end.
    pub level_items: Vec<f64>,
}

impl Measured {
    /// From the items written into level 0, 1, … during `requests`.
    pub(super) fn new(
        requests: u64,
        written: Vec<f64>,
        level_items: Vec<f64>,
        level_sizes: Vec<f64>,
    ) -> Self {
        let per_request = |items: &f64| items / requests as f64;
        let mut steps = vec![Step::new("memtable", "log", 1.0)];
        for (level, items) in written.iter().enumerate() {
            steps.push(match level {
                0 => Step::new("memtable", "level-0", per_request(items)),
                _ => Step::between_levels(level - 1, per_request(items)),
            });
        }
        Self { cost: Cost::new(steps, level_sizes, Vec::new()), requests, level_items }
    }
}
