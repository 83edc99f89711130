//! Builds a maplet by merging: sorted entries go in, and come out laid out for as many as there are.

use super::{MAX_FINGERPRINT_BITS, MAX_SLOT_BITS, Maplet};
use crate::bits::sorted_lines::{Geometry, SortedLinesBuilder};
use crate::bits::vector::BitVecBuilder;

/// Entries gathered before they are written, and as many again that may be added before this is asked.
const CHUNK: usize = 512;

/// Takes entries in order, each as one number: the slot, and the fingerprint above it.
pub(super) struct Writer {
    fingerprint_bits: u8,
    quotient_bits: u8,
    slot_bits: u8,
    quotients: SortedLinesBuilder,
    entries: BitVecBuilder,
    /// Entries that are not written yet, so many at the front, and the last that is.
    chunk: [u64; 2 * CHUNK],
    filled: usize,
    last: Option<u64>,
}

impl Writer {
    /// A writer of up to `count` entries.
    pub fn new(fingerprint_bits: u8, slot_bits: u8, count: u64) -> Self {
        // From half an entry to one per quotient: there an entry takes least for the rate.
        let quotient_bits = (count.max(1).next_power_of_two().ilog2() as u8).min(fingerprint_bits);
        let geometry = Geometry::for_hashes(count, 1 << quotient_bits, 0);
        let width = usize::from(fingerprint_bits - quotient_bits + slot_bits);
        Self {
            fingerprint_bits,
            quotient_bits,
            slot_bits,
            quotients: SortedLinesBuilder::new(geometry),
            entries: BitVecBuilder::with_capacity(count as usize * width),
            chunk: [0; 2 * CHUNK],
            filled: 0,
            last: None,
        }
    }

    /// Adds an entry; one that is there already changes nothing.
    #[inline]
    pub fn push(&mut self, entry: u64) {
        self.merge(&[entry], &[], |_| entry);
    }

    /// Adds `old` entries, at most [`CHUNK`], and those of `new`, as `entry_of` makes them, that go before;
    /// how many these are.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "the remainder keeps places within the chunk, and none is checked"
    )]
    fn merge(&mut self, old: &[u64], new: &[u64], entry_of: impl Fn(&u64) -> u64) -> usize {
        if self.filled >= CHUNK {
            self.write();
        }
        let (mut filled, mut taken) = (self.filled, 0);
        // None goes behind the largest number there is.
        let mut next = new.first().map_or(u64::MAX, &entry_of);
        for entry in old {
            while next < *entry {
                self.chunk[filled % (2 * CHUNK)] = next;
                filled += 1;
                taken += 1;
                next = new.get(taken).map_or(u64::MAX, &entry_of);
                if filled >= CHUNK {
                    self.filled = filled;
                    self.write();
                    filled = 0;
                }
            }
            self.chunk[filled % (2 * CHUNK)] = *entry;
            filled += 1;
        }
        self.filled = filled;
        taken
    }

    /// Writes what was gathered.
    #[inline(never)]
    #[expect(
        clippy::indexing_slicing,
        reason = "what was filled lies within the chunk, or entries would be lost"
    )]
    fn write(&mut self) {
        let entries = &mut self.chunk[..self.filled];
        let first = entries.first().copied();
        debug_assert!(entries.is_sorted() && self.last <= first.or(self.last), "entries ascend");
        let repeats = entries.iter().zip(entries.iter().skip(1)).fold(false, |any, (a, b)| any | (a == b));
        let distinct = if repeats { dedup(entries) } else { entries.len() };
        let repeated = usize::from(first.is_some() && first == self.last);
        let entries = &entries[repeated..distinct];
        let width = u32::from(self.fingerprint_bits - self.quotient_bits + self.slot_bits);
        self.quotients.push_all(entries, width);
        self.entries.push_fields(entries, width);
        self.last = entries.last().copied().or(self.last);
        self.filled = 0;
    }

    pub fn finish(mut self) -> Maplet {
        self.write();
        Maplet {
            fingerprint_bits: self.fingerprint_bits,
            quotient_bits: self.quotient_bits,
            slot_bits: self.slot_bits,
            quotients: self.quotients.finish(),
            entries: self.entries.finish(),
        }
    }
}

/// Moves the first of equal neighbours to the front; how many there are.
fn dedup(entries: &mut [u64]) -> usize {
    let mut last = None;
    let mut distinct = 0;
    for at in 0..entries.len() {
        let entry = entries.get(at).copied();
        if entry != last
            && let (Some(entry), Some(place)) = (entry, entries.get_mut(distinct))
        {
            *place = entry;
            distinct += 1;
        }
        last = entry;
    }
    distinct
}

impl Maplet {
    /// One without entries, for fingerprints and slots of so many bits.
    ///
    /// # Panics
    ///
    /// If `fingerprint_bits` is 0 or above [`MAX_FINGERPRINT_BITS`], or `slot_bits` above [`MAX_SLOT_BITS`].
    pub fn new(fingerprint_bits: u8, slot_bits: u8) -> Self {
        assert!(
            (1..=MAX_FINGERPRINT_BITS).contains(&fingerprint_bits),
            "{fingerprint_bits} fingerprint bits"
        );
        assert!(slot_bits <= MAX_SLOT_BITS, "{slot_bits} slot bits");
        Writer::new(fingerprint_bits, slot_bits, 0).finish()
    }

    /// This maplet and the keys of one more run, whose `hashes` are sorted and have `hash_bits` leading bits
    /// to go by.
    ///
    /// Fingerprints shrink to `hash_bits` if they are longer, and stay so.
    ///
    /// # Panics
    ///
    /// If the slot does not fit, if `hash_bits` is 0, or if there would be more than 2^32 - 1 entries.
    #[must_use]
    pub fn with_run(&self, slot: u8, hash_bits: u8, hashes: &[u64]) -> Self {
        self.with_run_in(self.slot_bits, slot, hash_bits, hashes)
    }

    /// The same with slots of `slot_bits` bits from now on. Where regions are mostly lower than they may be,
    /// slots that grow with them save a bit or two of each entry.
    ///
    /// # Panics
    ///
    /// As [`Maplet::with_run`], or if slots would shrink.
    #[must_use]
    pub fn with_run_in(&self, slot_bits: u8, slot: u8, hash_bits: u8, hashes: &[u64]) -> Self {
        assert!(slot_bits >= self.slot_bits && slot_bits <= MAX_SLOT_BITS, "{slot_bits} slot bits");
        assert!(u32::from(slot) < 1 << slot_bits, "slot {slot} of {slot_bits} bits");
        assert!(hash_bits > 0, "hashes have bits");
        debug_assert!(hashes.is_sorted(), "hashes are sorted");
        let fingerprint_bits = self.fingerprint_bits.min(hash_bits);
        let cut = self.fingerprint_bits - fingerprint_bits;
        let shift = 64 - u32::from(fingerprint_bits);
        let slots = (1u64 << self.slot_bits) - 1;
        let entry_of = |hash: &u64| hash >> shift << slot_bits | u64::from(slot);
        let mut writer =
            Writer::new(fingerprint_bits, slot_bits, u64::from(self.len()) + hashes.len() as u64);
        if cut > 0 {
            let shortened = |entry: u64| entry >> cut & !slots | entry & slots;
            let mut old =
                self.sorted().map(|entry| self.with_longer_slot(shortened(entry), slot_bits)).peekable();
            let mut new = hashes.iter().map(entry_of).peekable();
            let mut tied = Vec::new();
            while let Some(first) = old.next() {
                // Entries that were told apart by the bits cut off may tie now, their slots in any order.
                tied.push(first);
                let is_tied = |entry: &u64| entry >> slot_bits == first >> slot_bits;
                tied.extend(std::iter::from_fn(|| old.next_if(is_tied)));
                tied.sort_unstable();
                for entry in tied.drain(..) {
                    std::iter::from_fn(|| new.next_if(|new| *new < entry)).for_each(|new| writer.push(new));
                    writer.push(entry);
                }
            }
            new.for_each(|entry| writer.push(entry));
            return writer.finish();
        }
        self.merged(slot_bits, writer, hashes, entry_of)
    }

    /// This maplet and the entries of `young`, whose slot 0 becomes `first` and so on, with slots of
    /// `slot_bits` bits. Fingerprints are as long as the shorter ones of the two.
    ///
    /// ```
    /// use siltstone_succinct::filter::maplet::Maplet;
    ///
    /// let (old, young) = (3 << 60, 9 << 60);
    /// let below = Maplet::new(20, 1).with_run(0, 20, &[old]).with_run(1, 20, &[old]);
    /// let above = Maplet::new(20, 0).with_run(0, 20, &[old, young]);
    /// let both = below.with_maplet(2, 2, &above);
    /// assert_eq!((both.lookup(old), both.lookup(young)), (0b111, 0b100));
    /// ```
    ///
    /// # Panics
    ///
    /// If a slot does not fit, if slots would shrink, or if there would be more than 2^32 - 1 entries.
    #[must_use]
    pub fn with_maplet(&self, slot_bits: u8, first: u8, young: &Self) -> Self {
        assert!(slot_bits >= self.slot_bits && slot_bits <= MAX_SLOT_BITS, "{slot_bits} slot bits");
        if self.fingerprint_bits > young.fingerprint_bits {
            return self.shortened(young.fingerprint_bits).with_maplet(slot_bits, first, young);
        }
        if self.fingerprint_bits < young.fingerprint_bits {
            return self.with_maplet(slot_bits, first, &young.shortened(self.fingerprint_bits));
        }
        let moved = young.entries().map(|(print, slot)| {
            let slot = u64::from(slot) + u64::from(first);
            assert!(slot < 1 << slot_bits, "slot {slot} of {slot_bits} bits");
            print << slot_bits | slot
        });
        let moved: Vec<u64> = moved.collect();
        let count = u64::from(self.len()) + u64::from(young.len());
        self.merged(slot_bits, Writer::new(self.fingerprint_bits, slot_bits, count), &moved, |entry| *entry)
    }

    /// What comes of `writer` when it has taken this maplet's entries, with slots of `slot_bits` bits, and
    /// those that `entry_of` makes of `new`, which ascend.
    #[inline]
    fn merged(
        &self,
        slot_bits: u8,
        mut writer: Writer,
        mut new: &[u64],
        entry_of: impl Fn(&u64) -> u64 + Copy,
    ) -> Self {
        let mut sorted = self.sorted();
        loop {
            let old = sorted.next_chunk();
            if old.is_empty() {
                break;
            }
            if slot_bits > self.slot_bits {
                old.iter_mut().for_each(|entry| *entry = self.with_longer_slot(*entry, slot_bits));
            }
            let before = writer.merge(old, new, entry_of);
            new = new.split_at(before).1;
        }
        new.iter().for_each(|number| writer.push(entry_of(number)));
        writer.finish()
    }

    /// An entry of this maplet with a slot of `slot_bits` bits.
    #[inline]
    fn with_longer_slot(&self, entry: u64, slot_bits: u8) -> u64 {
        let slots = (1u64 << self.slot_bits) - 1;
        (entry & !slots) << (slot_bits - self.slot_bits) | entry & slots
    }

    /// The same entries with fingerprints of `fingerprint_bits` bits, if they are longer now: less memory,
    /// and twice as many false probes for each bit.
    ///
    /// ```
    /// use siltstone_succinct::filter::maplet::Maplet;
    ///
    /// let keys: Vec<u64> = (0..1000).map(|key| key << 54).collect();
    /// let maplet = Maplet::new(30, 0).with_run(0, 30, &keys);
    /// let short = maplet.shortened(12);
    /// assert!(short.memory_bytes() < maplet.memory_bytes() / 2 && short.lookup(keys[7]) == 1);
    /// ```
    ///
    /// # Panics
    ///
    /// If `fingerprint_bits` is 0.
    #[must_use]
    pub fn shortened(&self, fingerprint_bits: u8) -> Self {
        self.with_run(0, fingerprint_bits, &[])
    }

    /// The entries of slot `first` and those above it, which become slot 0 and so on: the oldest runs have
    /// left the region.
    ///
    /// ```
    /// use siltstone_succinct::filter::maplet::Maplet;
    ///
    /// let (old, young) = (3 << 60, 9 << 60);
    /// let maplet = Maplet::new(20, 1).with_run(0, 20, &[old, young]).with_run(1, 20, &[young]);
    /// let left = maplet.without_slots_below(1);
    /// assert_eq!((left.lookup(old), left.lookup(young)), (0, 1));
    /// ```
    #[must_use]
    pub fn without_slots_below(&self, first: u8) -> Self {
        let stay = || self.entries().filter(|(_, slot)| *slot >= first);
        let mut writer = Writer::new(self.fingerprint_bits, self.slot_bits, stay().count() as u64);
        for (print, slot) in stay() {
            writer.push(print << self.slot_bits | u64::from(slot - first));
        }
        writer.finish()
    }

    /// The same entries, slot `s` become `slots[s]`; entries of slots without one are left out.
    ///
    /// # Panics
    ///
    /// If a new slot does not fit.
    #[must_use]
    pub fn remapped(&self, slots: &[u8]) -> Self {
        let mut writer = Writer::new(self.fingerprint_bits, self.slot_bits, u64::from(self.len()));
        let mut equal: Vec<u8> = Vec::new();
        let mut last = 0;
        let mut flush = |print: u64, equal: &mut Vec<u8>| {
            equal.sort_unstable();
            equal.drain(..).for_each(|slot| writer.push(print << self.slot_bits | u64::from(slot)));
        };
        for (print, slot) in self.entries() {
            if print != last {
                flush(last, &mut equal);
                last = print;
            }
            if let Some(slot) = slots.get(usize::from(slot)) {
                assert!(u32::from(*slot) < 1 << self.slot_bits, "slot {slot} of {} bits", self.slot_bits);
                equal.push(*slot);
            }
        }
        flush(last, &mut equal);
        writer.finish()
    }
}
