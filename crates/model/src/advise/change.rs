//! Whether a store should change its design: what another one would save, what the change costs, and when
//! the one has come to more than the other.
//!
//! A change is weighed whenever a store has done enough to tell. What staying costs is added up
//! ([`Regret`]), and a change is made once that exceeds what the change costs. So whoever changes for the
//! first time has lost by staying no more than what changing costs, whatever comes next: the rule of ski
//! rental (Karlin et al., Algorithmica 1988).
//!
//! It does not go back and forth, for three reasons. A design that is nearly as good as the best is as good
//! as the best. A workload that comes back to the present design's wipes out the regret. And each change
//! makes the next one wait longer: by what it cost, until operations have cost ten times that; and one that
//! goes back to a design which the store had before makes the next wait twice as long, until as many
//! operations as the horizon has have gone by in peace.

use super::{Request, advise};
use crate::ModelError;
use crate::price::{Device, OperationCosts, us_per_rewrite};
use serde::Serialize;
use siltstone_design::Design;

/// The least share of an operation's cost that a change has to save, and the share below which the present
/// design is as good as any.
const LEAST_SAVING: f64 = 0.1;
const AS_GOOD: f64 = 0.05;
/// How many times what it costs a change has to save within the horizon: estimates are not exact.
const MARGIN: f64 = 2.0;
/// How many times what it is priced at an operation is taken to cost at most, whatever it has read: a cache
/// may be cold.
const MOST_OF_PRICE: f64 = 2.0;
/// How many times what a change costs returns of long ago make the next one wait, at most.
const MOST_RECALLED: f64 = 4.0;
/// The part of what operations cost that changes may in the long run.
const PART_OF_WORK: f64 = 0.1;

/// Another design, and what it would change.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The design.
    pub design: Design,
    /// Its name: a preset's, or that of the preset it was made from.
    pub name: String,
    /// Microseconds of device and processor that an operation would take less, in the mean over the mix.
    pub saved_us: f64,
    /// The same as a share of what it takes now; 0 or less where the present design is best.
    pub saved_share: f64,
    /// Microseconds of device and processor that the change itself takes: all tables are rewritten once.
    pub cost_us: f64,
    /// What an operation takes now,
    pub present_us: f64,
    /// what each kind does,
    pub present: OperationCosts,
    /// and what it would take.
    pub changed: OperationCosts,
    /// Device reads that a hit, a miss and a scan are expected to take now,
    pub reads: [f64; 3],
    /// and microseconds of one.
    pub us_per_read: f64,
}

/// Operations that were done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// How many hits, misses, scans and puts.
    pub operations: [f64; 4],
    /// Device reads that the hits, the misses and the scans took, where they were counted.
    pub reads: Option<[f64; 3]>,
}

impl Done {
    /// How many operations.
    pub fn count(&self) -> f64 {
        self.operations.iter().sum()
    }
}

impl Change {
    /// Microseconds that operations took with the present design: as it is priced, but for what they read
    /// more or less than expected.
    pub fn taken_by(&self, done: &Done) -> f64 {
        let priced = self.present.of_all(done.operations);
        let Some(reads) = done.reads else { return priced };
        let expected = self.reads.iter().zip(done.operations).map(|(reads, count)| reads * count);
        let more: f64 = reads.iter().zip(expected).map(|(reads, expected)| reads - expected).sum();
        (priced + more * self.us_per_read).max(priced / MOST_OF_PRICE).min(priced * MOST_OF_PRICE)
    }

    /// What it would have saved of these operations, rather than of the mix.
    ///
    /// The model says whether the other design is better; how much staying costs, what the present one has
    /// read says as well. Where that is more than expected, its levels are fuller than on the average, and
    /// the other's need not be. Where it is less, the other would do better than expected too. Yet where
    /// operations take no longer than they are expected to with the other, nothing is saved: so the share is
    /// the lesser of both.
    pub fn of(self, done: &Done) -> Self {
        let (taken, priced) = (self.taken_by(done), self.present.of_all(done.operations));
        let all = done.count().max(1.0);
        let changed = self.changed.of_all(done.operations);
        let share = |now: f64| (now - changed) / now.max(1e-12);
        let saved = if taken > priced { taken - changed } else { share(priced) * taken };
        let saved_share = share(priced).min(share(taken));
        Self { present_us: taken / all, saved_us: saved / all, saved_share, ..self }
    }

    /// Whether it leaves a clearly smaller part of what operations take than another change does.
    pub fn is_better_than(&self, other: &Self) -> bool {
        let after = |change: &Self| 1.0 - change.saved_us / change.present_us.max(1e-12);
        after(self) < after(other) * (1.0 - AS_GOOD)
    }

    /// Operations after which it has paid for itself.
    pub fn pays_after(&self) -> f64 {
        if self.saved_us > 0.0 { self.cost_us / self.saved_us } else { f64::INFINITY }
    }
}

/// Returns how many microseconds of device and processor it takes to rewrite tables of so many entries and
/// bytes once.
///
/// ```
/// use siltstone_model::advise::rewriting_us;
/// use siltstone_model::price::Device;
///
/// assert!(rewriting_us(&Device::default(), (1e6, 1.2e8)) > 3e5);
/// ```
pub fn rewriting_us(device: &Device, (entries, bytes): (f64, f64)) -> f64 {
    let moved =
        1.0 / device.sequential_read_bytes_per_second + 1.0 / device.sequential_write_bytes_per_second;
    bytes * moved * 1e6 + us_per_rewrite(entries, bytes) * device.processor_time
}

/// Finds the design that suits `request` best, and weighs it against `present`, of whose tables there are so
/// many entries and bytes.
///
/// ```
/// use siltstone_design::presets;
/// use siltstone_model::advise::{Request, weigh};
/// use siltstone_model::price::{Mix, Workload};
///
/// // Mostly misses, in a store whose leaves have no filters.
/// let mix = Mix { hits: 0.1, misses: 0.8, scans: 0.0, puts: 0.1 };
/// let request = Request::quick(Workload { items: 1e6, mix, ..Workload::default() }, 32 << 20);
/// let change = weigh(&request, &presets::lean().scaled_to(256 << 10), (1e6, 1.2e8))?;
/// assert!(change.saved_share > 0.3);
/// let none = weigh(&request, &change.design, (1e6, 1.2e8))?;
/// assert!(none.saved_share < 0.001);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
///
/// # Errors
/// As [`advise`].
pub fn weigh(request: &Request, present: &Design, tables: (f64, f64)) -> Result<Change, ModelError> {
    let best = advise(request)?.best;
    let pricer = request.pricer()?;
    let present = pricer.price(present, request.memory_bytes)?;
    let now = request.objective(&present);
    let saved_us = now - best.worst_cost;
    let cost_us = rewriting_us(&request.device, tables);
    Ok(Change {
        saved_share: saved_us / now.max(1e-12),
        present_us: now,
        saved_us,
        cost_us,
        name: best.name,
        design: best.design,
        present: present.operation_cost,
        reads: [present.reads_per_hit, present.reads_per_miss, present.reads_per_scan],
        us_per_read: request.device.us_per_read(),
        changed: best.predicted.operation_cost,
    })
}

/// What it has cost to stay with a design where another was better.
#[derive(Clone, Debug, Default)]
pub struct Regret {
    us: f64,
    /// What changes have cost, less a part of what operations have since: it has to come on top of what the
    /// next change costs.
    spent_us: f64,
    /// So has this, for changes that went back,
    owed_us: f64,
    /// and operations since the last change.
    peaceful: f64,
    /// Designs that were left.
    left: Vec<Design>,
}

impl Regret {
    /// What there is to know of a store that was closed since, and has made these changes by itself, from one
    /// design to another, the oldest first; one costs about so much. How long ago they were is not known, nor
    /// what was done since. So the last one still makes the next wait, by what one costs, and returns do, but
    /// no longer than four changes cost. What staying has cost is forgotten.
    ///
    /// ```
    /// use siltstone_design::presets;
    /// use siltstone_model::advise::Regret;
    ///
    /// let (lean, leveled) = (presets::lean(), presets::leveled());
    /// // It went back, and waits for three times what a change costs.
    /// assert_eq!(Regret::after([(&lean, &leveled), (&leveled, &lean)], 5e5).waits_for_us(5e5), 1.5e6);
    /// ```
    pub fn after<'a>(changes: impl IntoIterator<Item = (&'a Design, &'a Design)>, cost_us: f64) -> Self {
        let mut regret = Self::default();
        changes.into_iter().for_each(|(from, to)| regret.leave(from, to, cost_us));
        let (spent_us, owed_us) = (regret.spent_us.min(cost_us), regret.owed_us.min(MOST_RECALLED * cost_us));
        Self { spent_us, owed_us, ..regret }
    }

    /// Microseconds that staying has to have cost before a change that takes so many is due.
    pub fn waits_for_us(&self, cost_us: f64) -> f64 {
        cost_us + self.spent_us + self.owed_us
    }

    /// Takes note that `operations` were done while `change` would have been better or was not, and says
    /// whether it is time to make it, where changes have to pay within `horizon` operations.
    ///
    /// ```
    /// use siltstone_design::presets;
    /// use siltstone_model::advise::{Regret, Request, weigh};
    /// use siltstone_model::price::{Mix, Workload};
    ///
    /// let mix = Mix { hits: 0.1, misses: 0.8, scans: 0.0, puts: 0.1 };
    /// let request = Request::quick(Workload { items: 1e6, mix, ..Workload::default() }, 32 << 20);
    /// let change = weigh(&request, &presets::lean().scaled_to(256 << 10), (1e6, 1.2e8))?;
    /// let mut regret = Regret::default();
    /// // Not at once, but once staying has cost more than changing does.
    /// assert!(!regret.note(&change, change.pays_after() * 0.5, 1e9));
    /// assert!(regret.note(&change, change.pays_after() * 0.6, 1e9));
    /// # Ok::<(), siltstone_model::ModelError>(())
    /// ```
    pub fn note(&mut self, change: &Change, operations: f64, horizon: f64) -> bool {
        self.peaceful += operations;
        if self.peaceful >= horizon {
            self.peaceful = 0.0;
            self.owed_us /= 2.0;
        }
        self.spent_us = (self.spent_us - PART_OF_WORK * change.present_us * operations).max(0.0);
        if change.saved_share < AS_GOOD {
            self.us = 0.0;
            return false;
        }
        if change.saved_share < LEAST_SAVING || change.saved_us * horizon < MARGIN * change.cost_us {
            return false;
        }
        self.us += change.saved_us * operations;
        self.us >= self.waits_for_us(change.cost_us)
    }

    /// Takes note that a change was made, away from a design.
    pub fn note_change(&mut self, change: &Change, from: &Design) {
        self.leave(from, &change.design, change.cost_us);
    }

    fn leave(&mut self, from: &Design, to: &Design, cost_us: f64) {
        if self.left.contains(to) {
            self.owed_us = cost_us + 2.0 * self.owed_us;
        } else {
            self.spent_us += cost_us;
        }
        (self.us, self.peaceful) = (0.0, 0.0);
        if !self.left.contains(from) {
            self.left.push(from.clone());
        }
    }
}
