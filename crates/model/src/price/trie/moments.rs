//! The moments at which a store that is filled as sizes is looked at.
//!
//! What lies above others fills up and is emptied, and leaves gather garbage until they are merged, most of
//! them at about the same time where all items are changed alike. Reads are priced in the mean over the time
//! in which all of that happens, at a few moments of it: a design that is priced at one of them alone may
//! just have been merged.

use super::{GOLDEN, Region, Trie};
use crate::price::layout::RunSize;
use crate::price::puts::Puts;

/// The share of all puts that is looked at, the last ones, where nothing is changed.
const SHARE_OF_FILL: f64 = 1.0 / 4.0;

/// A moment of a store's life.
#[derive(Clone, Copy, Debug)]
pub(in crate::price) struct Moment<'a> {
    /// Puts so far.
    pub now: f64,
    /// The regions that are followed, by level.
    pub levels: &'a [Vec<Region>],
    /// What the write buffer holds that gets read from the log.
    pub logged: Option<Puts>,
}

impl Trie {
    /// The moments at which it is looked at, of which the last is the end.
    pub fn moments(&self) -> impl Iterator<Item = Moment<'_>> {
        let logged = self.logged;
        let before = self.before.iter().map(move |(now, levels)| Moment { now: *now, levels, logged });
        before.chain(std::iter::once(Moment { now: self.now, levels: &self.levels, logged }))
    }

    /// What a log store holds that is half full, as it is on the average.
    pub(super) fn half_a_log_store(&self) -> Option<Puts> {
        let workload = self.layout.workload();
        if workload.mix.puts <= 0.0 || !self.layout.overwrites_in_write_buffer() {
            return None;
        }
        let (half, made) = (self.layout.write_buffer_puts() / 2.0, (self.now, self.now));
        Some(if workload.changes() > 0.0 {
            Puts::changes(self.keys.changes_touching(half), made)
        } else {
            Puts::first((half / self.items).min(1.0), made)
        })
    }

    /// How many times as much leaves hold when all items are there as at a moment: what lies above them fills
    /// up and empties, however many items there are.
    pub fn leaves_grown_since(&self, moment: &Moment<'_>) -> f64 {
        let to_come = self.items - moment.now;
        if to_come <= 0.0 {
            return 1.0;
        }
        let levels = moment.levels.iter().enumerate();
        let leaves = levels.flat_map(|(level, regions)| regions.iter().map(move |region| (level, region)));
        let held = leaves.filter(|(_, region)| region.children.is_empty()).map(|(level, region)| {
            let sizes = region.puts.iter().map(|&puts| self.run_size(level, region, puts).entries);
            region.weight * sizes.sum::<f64>()
        });
        let held: f64 = held.sum();
        if held > 0.0 { 1.0 + to_come / held } else { 1.0 }
    }

    /// How many flushes before the end of so many puts, some `at_once`, each of the moments is that comes
    /// before it: spread over as many puts as there are items, or the last ones of a fill, and evenly over
    /// the cycle in which level 0 fills up.
    pub(super) fn flushes_before_end(
        &self,
        moments: usize,
        at_once: f64,
        puts: f64,
    ) -> impl Iterator<Item = f64> {
        let looked_at = if self.now > 0.0 { self.items.min(puts) } else { puts * SHARE_OF_FILL };
        let outer = looked_at / at_once;
        let inner = self.cycle_of_level_0(at_once).min(outer);
        let parts = moments.next_power_of_two();
        (1..moments).map(move |moment| {
            // No cycle of what lies below is a multiple of what is between them.
            let part = (moment as f64 * GOLDEN).fract();
            // Of the numbers below a power of two, each next one is far from those before by its bits.
            let phase = moment.reverse_bits() >> (usize::BITS - parts.trailing_zeros());
            ((part * outer / inner).floor() * inner + phase as f64 / parts as f64 * inner).floor()
        })
    }

    /// Flushes of so many puts `at_once` after which level 0 is as it was.
    fn cycle_of_level_0(&self, at_once: f64) -> f64 {
        let regions = 2f64.powi(i32::from(self.design().depth(0)));
        let (entries, density) = (at_once / regions, (at_once / self.items).min(1.0));
        let run = RunSize { level: 0, has_children: true, entries, density, tombstones: 0.0 };
        self.design().level(0).runs_per_push(self.layout.run_bytes(&run)).ceil()
    }

    /// Whether there are moments at which some items are not there yet, or no longer.
    pub fn lacks_items(&self) -> bool {
        !self.before.is_empty() || self.expires()
    }
}
