//! The multi-level cuckoo filter: one filter for the runs of a region, which names the run that may hold a
//! key.
//!
//! The idea: the primary table is a cuckoo filter whose entries carry a slot, the number of a run. A
//! fingerprint stands there once; a key whose fingerprint another key had first goes, in full, to a small
//! secondary table. So a lookup names one run at most, and one read answers it, however many runs there are.
//!
//! Source: Ren, Zheng, Arulraj and Gibson, "SlimDB" (VLDB 2017), §3.2, Algorithms 1 and 2, and §5.3. Where we
//! differ, and why:
//!
//! - A key whose fingerprint is there may be the same key or another. Who wrote it after reading it knows the
//!   slot it was in ([`Knowledge::InSlot`]), and the entry with that slot is changed. Whoever wrote blindly
//!   goes to the secondary.
//! - A lookup asks the primary first: a key is in the secondary only if its fingerprint is in the primary.
//! - When the secondary is full, a further copy of the fingerprint goes to the primary. The copies of a
//!   fingerprint are a multiset of slots in which every key keeps one of its own; so a truthful
//!   [`Knowledge::InSlot`] may change any copy with that slot, and still no key is lost. A ninth copy goes to
//!   a stash.
//! - It grows without the keys, by any factor: entries store more fingerprint bits than the filter needs at
//!   first, and growth turns them into bucket numbers (`cuckoo/geometry.rs`). So it is always about as full
//!   as it may be.
//! - Entries are semi-sorted (`cuckoo/buckets.rs`): 14-bit fingerprints with 3-bit slots take 16 bits an
//!   entry.
//!
//! How it is used: a published filter is shared and never changes. For a new run,
//! [`MultiLevelCuckooFilter::grown`] makes a copy with room for the run's keys,
//! [`MultiLevelCuckooFilter::insert_run`] adds them, and the copy is published with the run. When the newest
//! runs are merged into one, [`MultiLevelCuckooFilter::remap`] renumbers the slots.
//!
//! Invariants: for every key inserted, the slot of its newest insertion is among its candidates. A key in the
//! secondary has its fingerprint in the primary or the stash. Every key that is not in the secondary has,
//! among the copies of its fingerprint, one with the slot of its newest insertion that is no other key's.

mod candidates;
mod encoding;
mod parameters;
mod secondary;
mod stash;

pub use candidates::Candidates;
pub use parameters::{Full, Knowledge, Parameters, RunKey, UnsoundParameters};

use crate::filter::cuckoo;
use crate::filter::cuckoo::geometry::{Geometry, Seat, Spot};
use crate::filter::cuckoo::table::{Inserted, Table, buckets_for};
use secondary::Secondary;
use stash::Stash;

/// Bits of a fingerprint that give its other place and that growth never consumes. More would leave fewer
/// units per bucket, which then take unequal shares of the keys; fewer would give keys too few pairs of
/// places to choose from.
const CORE_BITS: u32 = 6;
/// Buckets per block of a new filter, as a power of two: it can grow by a sixteenth.
const FIRST_PER_BLOCK_BITS: u32 = 4;
/// Keys whose cache lines are fetched together.
const BATCH: usize = 32;
/// Below this load it is not for lack of room in all if an entry finds none. Above it the filter grows: where
/// keys have several copies each, which go to the same two buckets, searches fail from a load of 0.8 on, and
/// take a hundred times as long as an insertion.
const CROWDED_LOAD: f64 = 0.75;
/// What the secondary may always take, in bytes.
const SECONDARY_BYTES_LEAST: u64 = 512;

/// A map from keys to the newest run that may hold them.
///
/// ```
/// use siltstone_succinct::filter::multi_level_cuckoo::{
///     Knowledge, MultiLevelCuckooFilter, Parameters, RunKey,
/// };
///
/// let hash = |key: &str| key.bytes().fold(7, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
/// let run = |keys: &[&'static str], knowledge| -> Vec<RunKey> {
///     keys.iter().map(|key| RunKey { hash: hash(key), key: key.as_bytes(), knowledge }).collect()
/// };
///
/// let mut filter = MultiLevelCuckooFilter::new(Parameters::default(), 3)?;
/// filter.insert_run(0, run(&["clay", "loam", "silt"], Knowledge::Unknown))?;
///
/// // A newer run; of "silt" it was read before that it is in slot 0.
/// let mut newer = filter.grown(2)?;
/// newer.insert_run(1, run(&["sand"], Knowledge::Unknown))?;
/// newer.insert_run(1, run(&["silt"], Knowledge::InSlot(0)))?;
///
/// assert_eq!(newer.lookup(hash("loam"), b"loam").newest(), Some(0));
/// assert_eq!(newer.lookup(hash("silt"), b"silt").collect::<Vec<_>>(), [1]);
/// assert!(newer.lookup(hash("peat"), b"peat").is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiLevelCuckooFilter {
    parameters: Parameters,
    primary: Table,
    secondary: Secondary,
    stash: Stash,
}

impl MultiLevelCuckooFilter {
    /// An empty filter, sized for `keys` keys: those of the first run, or more if more are known to come.
    ///
    /// # Errors
    ///
    /// If a parameter is out of range.
    pub fn new(parameters: Parameters, keys: u64) -> Result<Self, UnsoundParameters> {
        parameters.check()?;
        let blocks = buckets_for(keys, parameters.load()).div_ceil(1 << FIRST_PER_BLOCK_BITS);
        // Enough for 16 billion keys; and then it is merely full.
        let blocks = blocks.clamp(1, u64::from(u32::MAX >> FIRST_PER_BLOCK_BITS)) as u32;
        let geometry = geometry(&parameters, blocks, 1 << FIRST_PER_BLOCK_BITS);
        #[expect(clippy::expect_used, reason = "parameters in range have a geometry")]
        let geometry = geometry.expect("parameters were checked");
        let primary = Table::new(geometry, u32::from(parameters.slot_bits), parameters.load());
        Ok(MultiLevelCuckooFilter {
            parameters,
            primary,
            secondary: Secondary::default(),
            stash: Stash::default(),
        })
    }

    /// What the filter was made with.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// The slots of runs that may hold the newest version of the key, newest first.
    ///
    /// Several only where keys were written blindly and the secondary is full. None: no run holds it.
    #[inline]
    pub fn lookup(&self, hash: u64, key: &[u8]) -> Candidates {
        let spot = self.primary.geometry.spot(hash);
        self.lookup_at(spot, &self.primary.geometry.seats(spot), hash, key)
    }

    #[inline]
    fn lookup_at(&self, spot: Spot, seats: &[Seat; 2], hash: u64, key: &[u8]) -> Candidates {
        let mut slots = self.primary.slots(seats);
        if !self.stash.is_empty() {
            slots |= self.stash.slots(self.primary.geometry.identity(spot));
        }
        if slots == 0 {
            return Candidates::NONE;
        }
        match self.secondary.get(hash, key) {
            Some(slot) => Candidates(1 << slot),
            None => Candidates(slots),
        }
    }

    /// Brings the cache lines that a [`MultiLevelCuckooFilter::lookup`] reads first towards the cache; touch
    /// several hashes, of several filters, before they are looked up.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        let geometry = &self.primary.geometry;
        self.primary.prefetch(&[geometry.seats(geometry.spot(hash))]);
    }

    /// Answers [`MultiLevelCuckooFilter::lookup`] for each pair of hash and key into the same place of
    /// `found`.
    ///
    /// The cache lines of many keys are fetched side by side, which pays where the filter does not fit the
    /// cache.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn lookup_many<K: AsRef<[u8]>>(&self, questions: &[(u64, K)], found: &mut [Candidates]) {
        assert_eq!(questions.len(), found.len(), "lookup_many: one answer per question");
        let mut spots = [Spot::default(); BATCH];
        let mut seats = [[Seat::default(); 2]; BATCH];
        for (questions, found) in questions.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            for ((spot, seats), (hash, _)) in spots.iter_mut().zip(&mut seats).zip(questions) {
                *spot = self.primary.geometry.spot(*hash);
                *seats = self.primary.geometry.seats(*spot);
            }
            self.primary.prefetch(&seats);
            for (((found, spot), seats), (hash, key)) in
                found.iter_mut().zip(spots).zip(&seats).zip(questions)
            {
                *found = self.lookup_at(spot, seats, *hash, key.as_ref());
            }
        }
    }

    /// Adds one key that the run in `slot` holds. Many at once: [`MultiLevelCuckooFilter::insert_run`].
    ///
    /// # Errors
    ///
    /// If it is full; nothing has changed then.
    ///
    /// # Panics
    ///
    /// If `slot` needs more bits than a slot has.
    pub fn insert(&mut self, slot: u8, key: RunKey<'_>) -> Result<(), Full> {
        self.check_slot(slot);
        self.insert_at(self.primary.geometry.seats(self.primary.geometry.spot(key.hash)), slot, &key)
    }

    /// Adds the keys of the run in `slot`, which is as new as any before or newer.
    ///
    /// The filter grows where it must, in small steps that each cost a pass over it;
    /// [`MultiLevelCuckooFilter::grown`] beforehand spares them.
    ///
    /// # Errors
    ///
    /// If it is full. Some keys have been added then; the others have not.
    ///
    /// # Panics
    ///
    /// If `slot` needs more bits than a slot has.
    pub fn insert_run<'a>(
        &mut self,
        slot: u8,
        keys: impl IntoIterator<Item = RunKey<'a>>,
    ) -> Result<(), Full> {
        self.check_slot(slot);
        let mut keys = keys.into_iter();
        let mut batch = [RunKey::default(); BATCH];
        let mut seats = [[Seat::default(); 2]; BATCH];
        loop {
            let mut len = 0;
            for ((place, seats), key) in batch.iter_mut().zip(&mut seats).zip(&mut keys) {
                *seats = self.primary.geometry.seats(self.primary.geometry.spot(key.hash));
                *place = key;
                len += 1;
            }
            self.primary.prefetch(&seats);
            if self.primary.is_crowded() {
                self.primary.touch_moves(&seats);
            }
            let per_block = self.primary.geometry.per_block();
            for (key, seats) in batch.iter().zip(&seats).take(len) {
                if self.primary.geometry.per_block() == per_block {
                    self.insert_at(*seats, slot, key)?;
                } else {
                    self.insert(slot, *key)?;
                }
            }
            if len < BATCH {
                return Ok(());
            }
        }
    }

    fn check_slot(&self, slot: u8) {
        let bits = self.parameters.slot_bits;
        assert!(slot >> bits == 0, "slot {slot} needs more than the filter's {bits} slot bits");
    }

    #[inline]
    fn insert_at(&mut self, seats: [Seat; 2], slot: u8, key: &RunKey<'_>) -> Result<(), Full> {
        if !self.stash.is_empty() && self.stash.slots(self.identity(key)) != 0 {
            return self.insert_present(seats, slot, key);
        }
        match self.primary.insert_if_absent(&seats, slot) {
            Inserted::New => {
                if self.primary.is_tight() {
                    self.grow_a_step();
                }
                Ok(())
            }
            Inserted::Present => self.insert_present(seats, slot, key),
            Inserted::NoRoom => self.insert_copy(slot, key),
        }
    }

    /// Adds a key whose fingerprint is there already.
    fn insert_present(&mut self, seats: [Seat; 2], slot: u8, key: &RunKey<'_>) -> Result<(), Full> {
        if self.secondary.set(key.hash, key.key, slot) {
            return Ok(());
        }
        // The key is not in the secondary, so one of the copies is its own; if it is true that it was in slot
        // `old`, its copy has that slot. Copies with equal slots are as good as one another.
        if let Knowledge::InSlot(old) = key.knowledge
            && (self.primary.replace_slot(&seats, old, slot)
                || !self.stash.is_empty() && self.stash.replace(self.identity(key), old, slot))
        {
            return Ok(());
        }
        let secondary_bytes = self.secondary.used_bytes_with(key.key.len()) as u64;
        if secondary_bytes <= self.secondary_bytes_most() && self.secondary.insert(key.hash, key.key, slot) {
            return Ok(());
        }
        self.insert_copy(slot, key)
    }

    /// Adds the fingerprint, whether it is there or not, and grows where that is needed.
    #[cold]
    fn insert_copy(&mut self, slot: u8, key: &RunKey<'_>) -> Result<(), Full> {
        loop {
            let spot = self.primary.geometry.spot(key.hash);
            let seats = self.primary.geometry.seats(spot);
            if self.primary.insert(&seats, slot) {
                if self.primary.is_tight() {
                    self.grow_a_step();
                }
                return Ok(());
            }
            let crowded = self.load() < CROWDED_LOAD || self.primary.is_filled_with(&seats);
            if crowded {
                let identity = self.primary.geometry.identity(spot);
                self.stash.add(identity, slot);
                return Ok(());
            }
            if !self.grow_a_step() {
                return Err(self.full());
            }
        }
    }

    fn identity(&self, key: &RunKey<'_>) -> u64 {
        self.primary.geometry.identity(self.primary.geometry.spot(key.hash))
    }

    fn secondary_bytes_most(&self) -> u64 {
        match u64::from(self.parameters.secondary_permille) {
            0 => 0,
            permille => (self.primary.memory_bytes() as u64 * permille / 1000).max(SECONDARY_BYTES_LEAST),
        }
    }

    fn full(&self) -> Full {
        Full { entries: self.entries(), floor_bits: self.parameters.floor_bits }
    }

    /// A copy with room for `keys` keys more, which takes one pass over the filter. Keys that are known to be
    /// in a slot ([`Knowledge::InSlot`]) need no room.
    ///
    /// # Errors
    ///
    /// If a filter of that many keys would have shorter fingerprints than it may.
    pub fn grown(&self, keys: u64) -> Result<Self, Full> {
        let entries = self.primary.entries().saturating_add(keys);
        let per_block =
            buckets_for(entries, self.parameters.load()).div_ceil(u64::from(self.primary.geometry.blocks()));
        if per_block <= u64::from(self.primary.geometry.per_block()) {
            return Ok(self.clone());
        }
        let per_block =
            u32::try_from(per_block).ok().filter(|per_block| *per_block <= self.parameters.per_block_most());
        let (primary, homeless) =
            per_block.and_then(|per_block| self.primary_grown(per_block)).ok_or_else(|| self.full())?;
        let mut filter = MultiLevelCuckooFilter {
            parameters: self.parameters,
            primary,
            secondary: self.secondary.clone(),
            stash: self.stash.clone(),
        };
        filter.settle(&homeless);
        Ok(filter)
    }

    /// Grows in place by an eighth. False if it may not grow.
    #[cold]
    fn grow_a_step(&mut self) -> bool {
        let per_block = self.primary.geometry.per_block();
        let larger = (per_block + (per_block / 8).max(1)).min(self.parameters.per_block_most());
        if larger == per_block {
            return false;
        }
        let Some((primary, homeless)) = self.primary_grown(larger) else {
            return false;
        };
        self.primary = primary;
        self.settle(&homeless);
        true
    }

    fn primary_grown(&self, per_block: u32) -> Option<(Table, Vec<(Seat, u8)>)> {
        self.primary.grown(per_block, u32::from(self.parameters.slot_bits), self.parameters.load())
    }

    /// Finds room for entries whose buckets growth filled with others.
    fn settle(&mut self, homeless: &[(Seat, u8)]) {
        let geometry = self.primary.geometry;
        let mut seats = [[Seat::default(); 2]; BATCH];
        for homeless in homeless.chunks(BATCH) {
            for (seats, (seat, _)) in seats.iter_mut().zip(homeless) {
                *seats = [*seat, geometry.other_seat(*seat)];
            }
            self.primary.prefetch(&seats);
            for (seats, (seat, slot)) in seats.iter().zip(homeless) {
                if !self.primary.insert(seats, *slot) {
                    self.stash.add(geometry.identity(geometry.spot_at(*seat)), *slot);
                }
            }
        }
    }

    /// Passes the slot of every entry through `slots`: slot `i` becomes `slots[i]`.
    ///
    /// For runs that were merged: they are next to one another, and get one slot. The order of slots stays.
    ///
    /// # Panics
    ///
    /// If `slots` descends somewhere, or names a slot that needs more bits than a slot has.
    pub fn remap(&mut self, slots: &[u8]) {
        assert!(slots.is_sorted(), "remap: {slots:?} would make older runs newer");
        slots.iter().for_each(|slot| self.check_slot(*slot));
        // Slots past the table's end were never given to a run; if they were, they stay above all others at
        // least.
        let map = |slot: u8| slots.get(usize::from(slot)).copied().unwrap_or(slot);
        self.primary.remap_slots(map);
        self.secondary.remap_slots(map);
        self.stash.remap_slots(map);
    }

    /// Entries and keys held. A key counts once for each run whose key was not known to be an older one's.
    pub fn entries(&self) -> u64 {
        self.primary.entries() + self.secondary.keys() as u64 + self.stash.len() as u64
    }

    /// True if nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The share of the primary table's lanes in use, from 0 to 1.
    pub fn load(&self) -> f64 {
        self.primary.entries() as f64 / self.primary.capacity() as f64
    }

    /// Keys in the secondary table.
    pub fn secondary_keys(&self) -> usize {
        self.secondary.keys()
    }

    /// Different entries in the stash: mostly none.
    pub fn stashed(&self) -> usize {
        self.stash.len()
    }

    /// Bits by which fingerprints differ at the present size; a fraction between doublings.
    pub fn effective_fingerprint_bits(&self) -> f64 {
        self.primary.geometry.effective_bits()
    }

    /// The share of keys in no run for which a run is named, from 0 to 1.
    pub fn expected_false_positive_rate(&self) -> f64 {
        cuckoo::expected_false_positive_rate(&self.primary)
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.primary.memory_bytes()
            + self.secondary.memory_bytes()
            + self.stash.memory_bytes()
    }
}

fn geometry(parameters: &Parameters, blocks: u32, per_block: u32) -> Option<Geometry> {
    let fields = u32::from(parameters.fingerprint_bits + parameters.growth_bits);
    Geometry::new(blocks, per_block, FIRST_PER_BLOCK_BITS + fields - CORE_BITS, CORE_BITS)
}
