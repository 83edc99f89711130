//! The cuckoo table under both cuckoo filters: entries of (fingerprint, slot) in one of two buckets each.
//!
//! The idea: a new entry goes into the emptier of its two buckets. If both are full, a search through the
//! buckets to which their entries could move finds the shortest chain of moves that ends in an empty lane.
//!
//! Source: Fan et al., "Cuckoo Filter" (CoNEXT 2014); the search is in [`super::search`]. Where we differ,
//! and why: a table can be rebuilt with more buckets from itself alone (see [`super::geometry`]).
//!
//! Invariants: an entry stands in a seat of its own; `entries` counts lanes that are not empty. Equal
//! fingerprints may stand there several times, eight at most: what that means is the caller's.

use super::buckets::{Buckets, LANES, Lane, Planes, field_of, lane, slot_of};
use super::geometry::{Geometry, Seat};
use super::search::{Chain, Move};
use crate::error::DecodeError;

/// Buckets that a search for an empty lane looks into before it gives up.
const SEARCH_BUCKETS: usize = 1024;

/// A set of up to 64 slots, bit by bit.
pub(crate) type SlotSet = u64;

/// Packed buckets and the arithmetic that finds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) geometry: Geometry,
    buckets: Buckets,
    entries: u64,
    /// Entries at the load that the table is meant for.
    entries_comfortable: u64,
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It is in the table now.
    New,
    /// Its fingerprint was there already; nothing changed.
    Present,
    /// No room was found; nothing changed.
    NoRoom,
}

impl Table {
    /// An empty table. `geometry` must have fields of at least 5 bits. Beyond `load` (0 to 1) it [is
    /// tight](Table::is_tight).
    pub(crate) fn new(geometry: Geometry, slot_bits: u32, load: f64) -> Self {
        Self::of(geometry, Buckets::new(geometry.buckets(), geometry.field_bits(), slot_bits), load)
    }

    fn of(geometry: Geometry, buckets: Buckets, load: f64) -> Self {
        let entries_comfortable = (f64::from(geometry.buckets()) * LANES as f64 * load) as u64;
        Table { geometry, buckets, entries: 0, entries_comfortable }
    }

    /// Entries, those with equal fingerprints counted each.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Lanes, empty and not.
    pub(crate) fn capacity(&self) -> u64 {
        u64::from(self.geometry.buckets()) * LANES as u64
    }

    /// True beyond the load that the table is meant for: searches for room begin to take long, or to fail.
    pub(crate) fn is_tight(&self) -> bool {
        self.entries > self.entries_comfortable
    }

    /// True if all lanes that the fingerprint could take hold it already.
    pub(crate) fn is_filled_with(&self, seats: &[Seat; 2]) -> bool {
        let filled = |seat: &Seat| {
            seats.iter().filter(|other| other.bucket == seat.bucket).fold(0, |found, other| {
                found | self.buckets.find(self.buckets.load(other.bucket), other.field)
            })
        };
        seats.iter().all(|seat| filled(seat) == (1 << LANES) - 1)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.memory_bytes()
    }

    /// Fetches the cache lines of all these buckets side by side.
    ///
    /// A loop of loads alone keeps more of them in flight than one that also computes what to do with them.
    #[inline]
    pub(crate) fn prefetch(&self, seats: &[[Seat; 2]]) {
        let touched =
            seats.as_flattened().iter().fold(0, |sum, seat| sum ^ self.buckets.prefetch(seat.bucket));
        std::hint::black_box(touched);
    }

    /// Fetches, for seats whose buckets are both full, the cache lines of the buckets to which their entries
    /// could move.
    pub(crate) fn touch_moves(&self, seats: &[[Seat; 2]]) {
        let mut touched = 0;
        for [first, second] in seats {
            let planes = [self.buckets.load(first.bucket), self.buckets.load(second.bucket)];
            if planes.iter().any(|planes| self.buckets.room(*planes) > 0) {
                continue;
            }
            for (bucket, planes) in [first.bucket, second.bucket].into_iter().zip(planes) {
                for entry in self.buckets.lanes(planes) {
                    let other = self.geometry.other_seat(Seat { bucket, field: field_of(entry) });
                    touched ^= self.buckets.prefetch(other.bucket);
                }
            }
        }
        std::hint::black_box(touched);
    }

    /// True from where a good part of the entries, about a fifth, find both of their buckets full.
    pub(crate) fn is_crowded(&self) -> bool {
        self.entries > self.capacity() / 6 * 5
    }

    /// True if an entry has this fingerprint.
    #[inline]
    pub(crate) fn contains(&self, seats: &[Seat; 2]) -> bool {
        seats.iter().any(|seat| self.buckets.find(self.buckets.load(seat.bucket), seat.field) != 0)
    }

    /// [`Table::contains`] without a branch between the two buckets.
    #[inline]
    pub(crate) fn contains_branchless(&self, [first, second]: &[Seat; 2]) -> bool {
        let first = self.buckets.find(self.buckets.load(first.bucket), first.field);
        let second = self.buckets.find(self.buckets.load(second.bucket), second.field);
        first | second != 0
    }

    /// The slots of all entries with this fingerprint.
    #[inline]
    pub(crate) fn slots(&self, seats: &[Seat; 2]) -> SlotSet {
        let mut slots = 0;
        for seat in seats {
            let planes = self.buckets.load(seat.bucket);
            let mut found = self.buckets.find(planes, seat.field);
            while found != 0 {
                slots |= 1 << self.buckets.slot(planes, found.trailing_zeros());
                found &= found - 1;
            }
        }
        slots
    }

    /// Changes the slot of one entry with this fingerprint from `old` to `new`. False if there is none.
    pub(crate) fn replace_slot(&mut self, seats: &[Seat; 2], old: u8, new: u8) -> bool {
        for seat in seats {
            let planes = self.buckets.load(seat.bucket);
            let mut found = self.buckets.find(planes, seat.field);
            while found != 0 {
                let lane = found.trailing_zeros();
                if self.buckets.slot(planes, lane) == old {
                    self.buckets.set_slot(seat.bucket, planes, lane, new);
                    return true;
                }
                found &= found - 1;
            }
        }
        false
    }

    /// Passes the slot of every entry through `map`.
    pub(crate) fn remap_slots(&mut self, map: impl Fn(u8) -> u8) {
        for bucket in 0..self.geometry.buckets() {
            let lanes = self.buckets.lanes(self.buckets.load(bucket));
            let mapped = lanes.map(|entry| match entry {
                0 => 0,
                entry => lane(field_of(entry), map(slot_of(entry))),
            });
            self.buckets.store(bucket, mapped);
        }
    }

    /// Adds an entry unless one with the same fingerprint is there.
    #[inline]
    pub(crate) fn insert_if_absent(&mut self, seats: &[Seat; 2], slot: u8) -> Inserted {
        let [first_seat, second_seat] = seats;
        let (first, second) = (self.buckets.load(first_seat.bucket), self.buckets.load(second_seat.bucket));
        if self.buckets.find(first, first_seat.field) | self.buckets.find(second, second_seat.field) != 0 {
            return Inserted::Present;
        }
        if self.insert_between(seats, [first, second], slot) { Inserted::New } else { Inserted::NoRoom }
    }

    /// Adds an entry. False, and nothing changed, if no room was found for it.
    pub(crate) fn insert(&mut self, seats: &[Seat; 2], slot: u8) -> bool {
        let [first, second] = seats;
        let planes = [self.buckets.load(first.bucket), self.buckets.load(second.bucket)];
        self.insert_between(seats, planes, slot)
    }

    /// Adds an entry to the emptier of two buckets, whose planes are given.
    #[inline]
    fn insert_between(&mut self, seats: &[Seat; 2], [first, second]: [Planes; 2], slot: u8) -> bool {
        let [first_seat, second_seat] = *seats;
        let (room_first, room_second) = (self.buckets.room(first), self.buckets.room(second));
        if room_first | room_second == 0 {
            return self.insert_by_moving(seats, slot);
        }
        let (seat, planes, room) = if room_second > room_first {
            (second_seat, second, room_second)
        } else {
            (first_seat, first, room_first)
        };
        self.buckets.add(seat.bucket, planes, room, seat.field, slot);
        self.entries += 1;
        true
    }

    /// [`Table::insert`] where both buckets are full.
    #[inline(never)]
    fn insert_by_moving(&mut self, seats: &[Seat; 2], slot: u8) -> bool {
        // Nearly all searches end soon, and a large array takes longer to clear than those take.
        self.move_and_insert::<64>(seats, slot) || self.move_and_insert::<SEARCH_BUCKETS>(seats, slot)
    }

    /// [`Table::insert_by_moving`], looking into `N` buckets.
    fn move_and_insert<const N: usize>(&mut self, seats: &[Seat; 2], slot: u8) -> bool {
        let others = |bucket: u32| {
            self.lanes(bucket)
                .map(|entry| self.geometry.other_seat(Seat { bucket, field: field_of(entry) }).bucket)
        };
        let has_room = |bucket: u32| self.buckets.room(self.buckets.load(bucket)) > 0;
        let Some(chain) = Chain::<N>::find(seats.map(|seat| seat.bucket), others, has_room) else {
            return false;
        };
        // The lane that the last move left, or for the first one any empty lane: entries fill lanes from the
        // front.
        let mut hole = (0, 0);
        for Move { from, lane: from_lane, to } in chain {
            let moving = get(self.lanes(from), from_lane);
            let seat = self.geometry.other_seat(Seat { bucket: from, field: field_of(moving) });
            self.put(to, if hole.0 == to { hole.1 } else { 0 }, lane(seat.field, slot_of(moving)));
            hole = (from, from_lane);
        }
        let field = seats.iter().find(|seat| seat.bucket == hole.0).map_or(0, |seat| seat.field);
        self.put(hole.0, hole.1, lane(field, slot));
        self.entries += 1;
        true
    }

    #[inline]
    fn lanes(&self, bucket: u32) -> [Lane; LANES] {
        self.buckets.lanes(self.buckets.load(bucket))
    }

    fn put(&mut self, bucket: u32, index: u8, entry: Lane) {
        let mut lanes = self.lanes(bucket);
        set(&mut lanes, index, entry);
        self.buckets.store(bucket, lanes);
    }

    /// The same entries in a table of `per_block` buckets per block, and those that found their bucket full:
    /// a seat of each in the new table.
    ///
    /// Entries of one block come to lie in the same block again, in the same order. `None` if no table can be
    /// of that shape or if it has fewer buckets than this one.
    pub(crate) fn grown(
        &self,
        per_block: u32,
        slot_bits: u32,
        load: f64,
    ) -> Option<(Table, Vec<(Seat, u8)>)> {
        let geometry = self.geometry.with_per_block(per_block)?;
        let old_per_block = self.geometry.per_block();
        if per_block < old_per_block {
            return None;
        }
        let mut table = Table::new(geometry, slot_bits, load);
        let mut homeless = Vec::new();
        // Units ascend with the buckets, old and new, so new buckets are filled one after the other.
        let mut filling = (0, [0; LANES], 0u8);
        for bucket in 0..self.geometry.buckets() {
            let mut entries = self.lanes(bucket).map(|entry| match field_of(entry) {
                0 => (Seat::default(), 0),
                field => (geometry.seat(self.geometry.spot_at(Seat { bucket, field })), slot_of(entry)),
            });
            entries.sort_unstable_by_key(|(seat, _)| seat.bucket);
            for (seat, slot) in entries.into_iter().filter(|(seat, _)| seat.field != 0) {
                if seat.bucket != filling.0 {
                    table.append(&mut filling, seat.bucket);
                }
                if usize::from(filling.2) < LANES {
                    set(&mut filling.1, filling.2, lane(seat.field, slot));
                    filling.2 += 1;
                } else {
                    homeless.push((seat, slot));
                }
            }
        }
        table.append(&mut filling, 0);
        table.entries = self.entries - homeless.len() as u64;
        Some((table, homeless))
    }

    /// Writes the bucket being filled over whatever was there, and goes on with bucket `next`.
    fn append(&mut self, filling: &mut (u32, [Lane; LANES], u8), next: u32) {
        let (bucket, lanes, _) = std::mem::replace(filling, (next, [0; LANES], 0));
        self.buckets.store(bucket, lanes);
    }

    /// The packed buckets.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.buckets.as_bytes()
    }

    /// A table of this shape from its packed buckets, which are checked one by one.
    ///
    /// # Errors
    ///
    /// If the length is wrong, or an entry is none that [`Table::insert`] could have put there.
    pub(crate) fn from_bytes(
        bytes: &[u8],
        geometry: Geometry,
        slot_bits: u32,
        load: f64,
    ) -> Result<Self, DecodeError> {
        let (count, field_bits) = (geometry.buckets(), geometry.field_bits());
        let buckets = Buckets::from_bytes(bytes, count, field_bits, slot_bits).ok_or_else(|| {
            let expected = format!("{} bytes", Buckets::bytes_for(count, field_bits, slot_bits));
            DecodeError::new("cuckoo table, buckets", expected, format!("{} bytes", bytes.len()))
        })?;
        let mut table = Self::of(geometry, buckets, load);
        for bucket in 0..count {
            let mut sound = table.buckets.is_sound(bucket);
            for entry in table.lanes(bucket).into_iter().filter(|entry| *entry != 0) {
                sound &= geometry.is_seat(Seat { bucket, field: field_of(entry) });
                table.entries += 1;
            }
            if !sound {
                let found = format!("{:x?} in bucket {bucket}", table.lanes(bucket));
                return Err(DecodeError::new(
                    "cuckoo table, bucket",
                    "sorted entries with sound fields",
                    found,
                ));
            }
        }
        if !table.buckets.ends_clean(count) {
            return Err(DecodeError::new(
                "cuckoo table, end",
                "zeros behind the last bucket",
                "something else",
            ));
        }
        Ok(table)
    }
}

#[inline]
fn get(lanes: [Lane; LANES], index: u8) -> Lane {
    lanes.get(usize::from(index)).copied().unwrap_or(0)
}

#[inline]
#[expect(clippy::indexing_slicing, reason = "an entry without a lane would be lost")]
fn set(lanes: &mut [Lane; LANES], index: u8, entry: Lane) {
    lanes[usize::from(index)] = entry;
}

/// Buckets that hold `entries` at a load of `load` (0 to 1).
pub(crate) fn buckets_for(entries: u64, load: f64) -> u64 {
    (entries as f64 / (LANES as f64 * load)).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The highest load that either filter asks for.
    const LOAD: f64 = 0.965;

    /// Entries at which the first one finds no room, as a share of the lanes.
    fn load_at_first_failure(geometry: Geometry) -> f64 {
        let mut table = Table::new(geometry, 3, LOAD);
        let seats = |number: u64| geometry.seats(geometry.spot(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let inserted = (0u64..).find(|number| !table.insert(&seats(*number), 0)).unwrap();
        assert!((0..inserted).all(|number| table.contains(&seats(number))));
        assert_eq!(table.entries(), inserted);
        inserted as f64 / table.capacity() as f64
    }

    #[test]
    fn tables_fill_beyond_the_load_they_are_sized_for() {
        // (blocks, buckets per block, unit bits, core bits): those of the two filters, evenly divided units
        // and not, down to some five units a bucket.
        for (blocks, per_block, unit_bits, core_bits) in [
            (16_000, 2, 1, 8),
            (16_000, 2, 1, 16),
            (2000, 16, 12, 6),
            (2000, 17, 12, 6),
            (1000, 31, 10, 6),
            (300, 108, 10, 6),
            (300, 120, 10, 6),
            (200, 200, 10, 6),
        ] {
            let geometry = Geometry::new(blocks, per_block, unit_bits, core_bits).unwrap();
            let load = load_at_first_failure(geometry);
            assert!(load > LOAD + 0.003, "{load} with {geometry:?}");
        }
    }

    #[test]
    fn a_failed_insertion_changes_nothing() {
        let mut table = Table::new(Geometry::new(2, 2, 1, 12).unwrap(), 3, LOAD);
        let seats = |number: u64| table.geometry.seats(table.geometry.spot(number));
        let seats: Vec<_> = (0..1000).map(seats).collect();
        for seats in &seats {
            let before = table.clone();
            if !table.insert(seats, 5) {
                assert_eq!(table, before);
            }
        }
        assert!((14..=16).contains(&table.entries()), "{}", table.entries());
    }

    #[test]
    fn growth_keeps_every_entry() {
        let small = Geometry::new(50, 16, 10, 6).unwrap();
        let mut table = Table::new(small, 3, LOAD);
        let spot = |number: u64| small.spot(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let entries = 3000u64;
        assert!((0..entries).all(|number| table.insert(&small.seats(spot(number)), number as u8 % 8)));
        for per_block in [17, 20, 31, 32, 33, 100, 256] {
            let (mut grown, homeless) = table.grown(per_block, 3, LOAD).unwrap();
            assert_eq!(grown.entries() + homeless.len() as u64, entries);
            assert!(homeless.len() < entries as usize / 8, "{} to {per_block}", homeless.len());
            for (seat, slot) in homeless {
                assert!(grown.insert(&[seat, grown.geometry.other_seat(seat)], slot));
            }
            for number in 0..entries {
                let slots = grown.slots(&grown.geometry.seats(spot(number)));
                assert!(slots >> (number % 8) & 1 == 1, "{number} at {per_block}");
            }
            let bytes = grown.as_bytes().to_vec();
            assert_eq!(Table::from_bytes(&bytes, grown.geometry, 3, LOAD), Ok(grown));
        }
        assert!(table.grown(15, 3, LOAD).is_none() && table.grown(1025, 3, LOAD).is_none());
    }
}
