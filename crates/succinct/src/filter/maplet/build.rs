//! Builds a maplet by merging: sorted entries go in, and come out laid out for as many as there are.

use super::{MAX_FINGERPRINT_BITS, MAX_SLOT_BITS, Maplet};
use crate::bits::sorted_lines::{Geometry, Group, SortedLinesBuilder};
use crate::bits::vector::BitVecBuilder;

/// Takes entries in order, each as one number: the slot, and the fingerprint above it.
pub(super) struct Writer {
    fingerprint_bits: u8,
    quotient_bits: u8,
    slot_bits: u8,
    quotients: SortedLinesBuilder,
    entries: BitVecBuilder,
    last: Option<u64>,
}

impl Writer {
    /// A writer of up to `count` entries.
    pub fn new(fingerprint_bits: u8, slot_bits: u8, count: u64) -> Self {
        // From half an entry to one per quotient: there an entry takes least for the rate.
        let quotient_bits = (count.max(1).next_power_of_two().ilog2() as u8).min(fingerprint_bits);
        Self::with_quotients(fingerprint_bits, quotient_bits, slot_bits, count)
    }

    /// The same with so many bits of a fingerprint coded by position.
    pub fn with_quotients(fingerprint_bits: u8, quotient_bits: u8, slot_bits: u8, count: u64) -> Self {
        let geometry = Geometry::for_hashes(count, 1 << quotient_bits, 0);
        let width = usize::from(fingerprint_bits - quotient_bits + slot_bits);
        Self {
            fingerprint_bits,
            quotient_bits,
            slot_bits,
            quotients: SortedLinesBuilder::new(geometry),
            entries: BitVecBuilder::with_capacity(count as usize * width),
            last: None,
        }
    }

    /// Adds an entry; one that is there already changes nothing.
    #[inline]
    pub fn push(&mut self, entry: u64) {
        if self.last == Some(entry) {
            return;
        }
        debug_assert!(self.last < Some(entry), "entries ascend");
        self.last = Some(entry);
        let width = u32::from(self.fingerprint_bits - self.quotient_bits + self.slot_bits);
        self.quotients.push(Group { value: entry >> width, plain: 1, marks: 0 });
        self.entries.push_bits(entry, width);
    }

    pub fn finish(self) -> Maplet {
        Maplet {
            fingerprint_bits: self.fingerprint_bits,
            quotient_bits: self.quotient_bits,
            slot_bits: self.slot_bits,
            quotients: self.quotients.finish(),
            entries: self.entries.finish(),
        }
    }
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

    /// This maplet and the keys of one more run, whose `hashes` are sorted and have `hash_bits` leading bits to go by.
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

    /// The same with slots of `slot_bits` bits from now on. Where piles are mostly lower than they may be, slots that grow with
    /// them save a bit or two of each entry.
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
        let slots = (1 << self.slot_bits) - 1;
        let old = self.sorted().map(|entry| entry >> self.slot_bits >> cut << slot_bits | entry & slots);
        let mut writer =
            Writer::new(fingerprint_bits, slot_bits, u64::from(self.len()) + hashes.len() as u64);
        let mut new = hashes.iter().map(|hash| hash >> shift << slot_bits | u64::from(slot)).peekable();
        if cut > 0 {
            // Entries that were told apart by the bits cut off may tie now, their slots in any order.
            let mut entries: Vec<u64> = old.chain(new).collect();
            entries.sort_unstable();
            entries.iter().for_each(|entry| writer.push(*entry));
            return writer.finish();
        }
        for entry in old {
            while let Some(new) = new.next_if(|new| *new < entry) {
                writer.push(new);
            }
            writer.push(entry);
        }
        new.for_each(|new| writer.push(new));
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
