//! The designs that a keyspace has had.
//!
//! A version belongs to one design, and its levels may be of earlier ones: a level is known by how many
//! digest bits its regions fix. `siltstone_design::redesign` says what is left of earlier designs and how
//! that ends; nothing of that is stored but when a redesign began, whether it pushes older runs down, and
//! when it was over.

use crate::ids::RunId;
use siltstone_design::Design;
use std::sync::Arc;

/// Redesigns that are remembered; of older ones only what they led to is known.
const MOST_REMEMBERED: usize = 64;

/// A keyspace got another design.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DesignChange {
    pub from: Arc<Design>,
    pub to: Arc<Design>,
    /// Sequence number of the newest write before it.
    pub sequence: u64,
    /// Wall-clock milliseconds at which it began.
    pub at_ms: u64,
    /// Runs of before have smaller numbers.
    pub first_run: RunId,
    /// When nothing was left of the designs before; none as long as something is.
    pub settled_ms: Option<u64>,
    /// Where the store made it by itself.
    pub chosen: Option<Chosen>,
}

impl DesignChange {
    /// Whether a run is to be pushed wherever it lies above others.
    pub fn pushes(&self, run: RunId) -> bool {
        run < self.first_run && self.chosen.is_some_and(|chosen| chosen.pushes_down)
    }
}

/// What a store chose a design for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Millionths of an operation's time that it was to save.
    pub saved_millionths: u64,
    /// Whether runs of before that lie above others are pushed down, since so little is written that they
    /// would stay, and be read, where the design has them come and go.
    pub pushes_down: bool,
}

impl Chosen {
    pub fn new(saved_share: f64, pushes_down: bool) -> Self {
        Self { saved_millionths: (saved_share * 1e6).round() as u64, pushes_down }
    }

    /// The share of an operation's time that it was to save.
    pub fn saved_share(self) -> f64 {
        self.saved_millionths as f64 / 1e6
    }
}

/// The redesigns of a keyspace, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct DesignHistory {
    changes: Arc<Vec<DesignChange>>,
}

impl DesignHistory {
    pub fn changes(&self) -> &[DesignChange] {
        &self.changes
    }

    /// The changes that the store made by itself: from which design to which.
    pub fn chosen(&self) -> impl Iterator<Item = (&Design, &Design)> {
        let chosen = self.changes.iter().filter(|change| change.chosen.is_some());
        chosen.map(|change| (&*change.from, &*change.to))
    }

    /// Returns the redesign that is under way.
    pub fn open(&self) -> Option<&DesignChange> {
        self.changes.last().filter(|change| change.settled_ms.is_none())
    }

    /// Returns the history with one more redesign; one that was under way is over with it.
    pub fn with(&self, change: DesignChange) -> Self {
        let mut changes = self.settled(change.at_ms).changes.to_vec();
        changes.push(change);
        let forgotten = changes.len().saturating_sub(MOST_REMEMBERED);
        Self { changes: Arc::new(changes.split_off(forgotten)) }
    }

    /// Returns the history once the redesign that is under way, if any is, is over.
    pub fn settled(&self, at_ms: u64) -> Self {
        let mut changes = self.changes.to_vec();
        if let Some(last) = changes.last_mut() {
            last.settled_ms.get_or_insert(at_ms);
        }
        Self { changes: Arc::new(changes) }
    }
}
