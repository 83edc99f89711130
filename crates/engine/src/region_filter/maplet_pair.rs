//! Two maplets over the runs of a region: a large one over the older runs, and a small one over those that
//! came last, each with slots of its own.
//!
//! A new run goes into the small one, so that the large one is not written again with each run. Once the
//! small one has a good part of the large one's entries, the two become one; and also where the store has
//! time for it. Until then a lookup asks both. Their rates of false probes add up to what one of them would
//! have.
//!
//! This is what a log-structured store does with its items, done with its filter. While a region takes 28
//! runs of equal size one by one, the entries of 159 runs are written; one maplet would write those of 406.

use super::run::FilteredRun;
use super::sidecar::KeepRecord;
use super::slotted::{Prefetch, Slotted, keep_filter};
use crate::ids::RunId;
use crate::memory::MemoryBudget;
use siltstone_design::EncodedKey;
use siltstone_succinct::filter::maplet::Maplet;
use std::sync::Arc;

/// Entries that the large maplet has for each of the small one, at least.
const OLD_PER_YOUNG: u32 = 4;

/// The maplet of a region, in two parts at most.
#[derive(Clone, Debug)]
pub(crate) struct MapletPair {
    old: Slotted<Maplet>,
    /// Over the runs that follow those of `old`.
    young: Option<Slotted<Maplet>>,
}

impl MapletPair {
    /// One with a single part, over the oldest runs of a region.
    pub fn whole(old: Slotted<Maplet>) -> Self {
        Self { old, young: None }
    }

    /// The parts that there are, the older one first.
    fn parts(&self) -> impl Iterator<Item = &Slotted<Maplet>> {
        std::iter::once(&self.old).chain(&self.young)
    }

    /// Returns how many runs it covers.
    #[inline]
    pub fn covered(&self) -> usize {
        self.old.covered() + self.young.as_ref().map_or(0, Slotted::covered)
    }

    /// Whether it has two parts.
    pub fn is_parted(&self) -> bool {
        self.young.is_some()
    }

    /// Returns the runs that it covers, oldest first.
    pub fn runs(&self) -> Vec<RunId> {
        self.parts().flat_map(Slotted::runs).copied().collect()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.parts().map(Slotted::memory_bytes).sum()
    }

    /// Returns how many entries it has.
    pub fn entries(&self) -> u64 {
        self.parts().map(|part| u64::from(part.filter().len())).sum()
    }

    /// Returns the bits of its longest fingerprints.
    pub fn fingerprint_bits(&self) -> u8 {
        self.parts().map(|part| part.filter().fingerprint_bits()).max().unwrap_or(0)
    }

    /// Returns the rate at which an absent key meets a wrong slot.
    pub fn false_probe_rate(&self) -> f64 {
        self.parts().map(|part| part.filter().false_probe_rate()).sum()
    }

    /// Returns the runs that may hold the newest version of `key`, as bits, the oldest lowest.
    #[inline]
    pub fn slots(&self, key: &EncodedKey<'_>) -> u64 {
        let old = self.old.slots(key);
        match &self.young {
            None => old,
            Some(young) => old | young.slots(key).checked_shl(self.old.covered() as u32).unwrap_or(0),
        }
    }

    #[inline]
    pub fn prefetch(&self, key: &EncodedKey<'_>, step: Prefetch) {
        self.parts().for_each(|part| part.prefetch(key, step));
    }

    /// Returns what is left of it for `runs` (newest first), as [`Slotted::fitted`] does.
    pub fn fitted(&self, runs: &[impl FilteredRun]) -> Option<Option<Self>> {
        let Some(young) = &self.young else {
            return Some(self.old.fitted(runs)?.map(Self::whole));
        };
        let oldest = runs.last()?.id();
        if !self.old.runs().contains(&oldest) {
            // All that the old part covers has been pushed.
            let left = young.fitted(runs)?.unwrap_or_else(|| young.clone());
            return Some(Some(Self::whole(left)));
        }
        let old = self.old.fitted(runs)?;
        let covered = old.as_ref().unwrap_or(&self.old).covered();
        if !young.fits(runs.get(..runs.len().checked_sub(covered)?)?) {
            return None;
        }
        Some(old.map(|old| Self { old, young: Some(young.clone()) }))
    }

    /// Returns the maplet of just the runs that it covers, in one.
    pub fn of_present_runs(&self) -> Option<Arc<Maplet>> {
        let old = self.old.of_present_runs()?;
        let Some(young) = &self.young else { return Some(old) };
        let (first, covered) = (self.old.covered(), self.covered());
        Some(Arc::new(old.with_maplet(slot_bits(covered, &old), first as u8, &*young.of_present_runs()?)))
    }

    /// Returns the same in one part; `None` where memory is short.
    pub fn in_one(&self, memory: &Arc<MemoryBudget>) -> Option<Self> {
        Slotted::new(self.runs(), self.of_present_runs()?, memory).map(Self::whole)
    }

    /// Returns it after the neighbouring runs `merged` have become `run`; `None` where it can't be had from
    /// this one.
    pub fn after_rewrite(&self, merged: &[RunId], run: RunId, memory: &Arc<MemoryBudget>) -> Option<Self> {
        if let Some(old) = self.old.after_rewrite(merged, run, memory) {
            return Some(Self { old, young: self.young.clone() });
        }
        let young = self.young.as_ref()?;
        if let Some(young) = young.after_rewrite(merged, run, memory) {
            return Some(Self { old: self.old.clone(), young: Some(young) });
        }
        let knows_all = || merged.iter().all(|run| self.parts().any(|part| part.runs().contains(run)));
        if !knows_all() {
            return None;
        }
        self.in_one(memory)?.after_rewrite(merged, run, memory)
    }

    /// Returns the same with fingerprints of `bits` bits at most.
    pub fn shortened(&self, bits: u8, memory: &Arc<MemoryBudget>) -> Option<Self> {
        let shorter = |part: &Slotted<Maplet>| part.smaller(memory, |maplet| maplet.shortened(bits));
        let young = match &self.young {
            None => None,
            Some(young) => Some(shorter(young)?),
        };
        Some(Self { old: shorter(&self.old)?, young })
    }

    /// Returns what another run is added on top of; `None` where it can't be had.
    ///
    /// What knows of runs that have left forgets them first.
    pub(super) fn growing(&self) -> Option<Growing> {
        if self.parts().any(Slotted::knows_gone) {
            return Some(Growing { below: None, runs: self.runs(), maplet: self.of_present_runs()? });
        }
        let (runs, maplet) = match &self.young {
            Some(young) => (young.runs().to_vec(), young.of_present_runs()?),
            None => (Vec::new(), Arc::new(Maplet::new(self.old.filter().fingerprint_bits(), 0))),
        };
        Some(Growing { below: Some(self.old.clone()), runs, maplet })
    }

    /// Hands its runs, its kind and its bytes to `keep`, as those of one maplet.
    pub fn encode(&self, keep: &mut KeepRecord<'_>) -> std::io::Result<()> {
        let Some(maplet) = self.of_present_runs() else { return Ok(()) };
        keep_filter(&self.runs(), &*maplet, keep)
    }
}

/// The part of a region's maplet that runs are added to, and the one below it, which stays as it is.
pub(super) struct Growing {
    pub below: Option<Slotted<Maplet>>,
    /// The runs of the part that grows, oldest first.
    pub runs: Vec<RunId>,
    pub maplet: Arc<Maplet>,
}

impl Growing {
    /// Returns how many runs both parts cover.
    pub fn covered(&self) -> usize {
        self.below.as_ref().map_or(0, Slotted::covered) + self.runs.len()
    }

    /// Returns the rate at which an absent key meets a wrong slot of either part.
    pub fn false_probe_rate(&self) -> f64 {
        let below = self.below.as_ref().map_or(0.0, |below| below.filter().false_probe_rate());
        below + self.maplet.false_probe_rate()
    }

    /// Returns the maplet of the region, in one part unless the one that grew is still far smaller; `None`
    /// where memory is short.
    pub fn finish(self, memory: &Arc<MemoryBudget>) -> Option<MapletPair> {
        let Some(old) = self.below else {
            return Slotted::new(self.runs, self.maplet, memory).map(MapletPair::whole);
        };
        if self.runs.is_empty() {
            return Some(MapletPair::whole(old));
        }
        let is_small = self.maplet.len() < old.filter().len() / OLD_PER_YOUNG;
        let young = Slotted::new(self.runs, self.maplet, memory)?;
        let pair = MapletPair { old, young: Some(young) };
        // Where there is no memory for both to be made one, they serve as they are.
        let whole = if is_small { None } else { pair.in_one(memory) };
        Some(whole.unwrap_or(pair))
    }
}

/// The bits of slots that tell `runs` runs apart, and are no fewer than those of `before`: where runs were
/// merged, slots are longer than they would have to be.
pub(super) fn slot_bits(runs: usize, before: &Maplet) -> u8 {
    (runs.next_power_of_two().ilog2() as u8).max(before.slot_bits())
}
