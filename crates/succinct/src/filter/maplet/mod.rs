//! The maplet: which runs of a region may hold a key, in one immutable structure that is merged rather than
//! updated.
//!
//! The idea: every key of every run has an entry, its fingerprint and the run's slot, and entries lie in the
//! order of the fingerprints. The upper bits of a fingerprint, the quotient, are coded by position in two
//! bits or so; the rest, the remainder, is stored beside the slot. A lookup compares the remainders of one
//! quotient, one on average. Adding a run streams the old maplet and the run's sorted fingerprints into a new
//! one, with no random access and no question to the device, also where writes are blind.
//!
//! Sources: quotienting is Knuth's; quotient filters (Bender et al., "Don't Thrash: How to Cache Your Hash on
//! Flash", VLDB 2012) merge likewise; maplets are Conway, Farach-Colton and Johnson, "SplinterDB and Maplets"
//! (SIGMOD 2023). Where we differ, and why:
//!
//! - Immutable, so quotients need no free places: their counts are an Elias-Fano code in cache lines
//!   ([`sorted_lines`](crate::bits::sorted_lines)), and a lookup touches one line and one place among the
//!   remainders.
//! - In the order of fingerprints, not of the table's digests, though that costs a sort of the new run: keys
//!   of one group share a digest, and their quotients would be one.
//! - A key that is in several runs has an entry for each. Whoever asks goes from the newest run down, so
//!   older versions cost bits but no probes; and a blind write never has to know whether its key is there.
//!
//! With `n` entries and fingerprints of `f` bits an absent key meets a wrong slot at a rate of `n / 2^f`, all
//! runs together. An entry takes `f - log2 n + slot bits + 2.2` to `2.7` bits. So a region that grows keeps
//! its fingerprints, its entries become smaller, and the rate grows; slots may become longer with it.
//!
//! ```text
//!  0                     1                  2               3          4                12
//! +---------------------+------------------+---------------+----------+----------------+-------------+---------+
//! | fingerprint bits: 1 | quotient bits: 1 | slot bits: 1  | 0        | line bytes: u64| SortedLines | entries |
//! +---------------------+------------------+---------------+----------+----------------+-------------+---------+
//!                                                                      quotients, one integer each    BitVec:
//!                                                                                      slot · remainder above it
//! ```
//!
//! Invariants: entries ascend strictly by fingerprint and slot; a slot is below 2^slot bits.

mod build;
mod bytes;

use crate::bits::sorted_lines::{SortedLines, Values};
use crate::bits::vector::BitVec;

/// Most bits of a fingerprint.
pub const MAX_FINGERPRINT_BITS: u8 = 58;
/// Most bits of a slot: 64 runs, one bit each of what a lookup returns.
pub const MAX_SLOT_BITS: u8 = 6;

/// Which slots may hold which keys.
///
/// ```
/// use siltstone_succinct::filter::maplet::Maplet;
///
/// let key = 0x5bd1_e995_9d6b_7f03;
/// let mut oldest = vec![key, 7 << 60, 9 << 60];
/// oldest.sort_unstable();
/// let maplet = Maplet::new(20, 3).with_run(0, 20, &oldest).with_run(5, 20, &[key]);
/// assert_eq!(maplet.lookup(key), 1 << 0 | 1 << 5);
/// assert_eq!(maplet.lookup(1 << 60), 0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maplet {
    fingerprint_bits: u8,
    quotient_bits: u8,
    slot_bits: u8,
    quotients: SortedLines,
    entries: BitVec,
}

impl Maplet {
    /// How many entries there are.
    pub fn len(&self) -> u32 {
        self.quotients.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.quotients.is_empty()
    }

    /// Leading bits of a key's hash that an entry keeps.
    pub fn fingerprint_bits(&self) -> u8 {
        self.fingerprint_bits
    }

    /// Bits of a slot.
    pub fn slot_bits(&self) -> u8 {
        self.slot_bits
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<SortedLines>() - size_of::<BitVec>()
            + self.quotients.memory_bytes()
            + self.entries.memory_bytes()
    }

    /// The rate at which an absent key meets a wrong slot.
    pub fn false_probe_rate(&self) -> f64 {
        f64::from(self.len()) / 2f64.powi(i32::from(self.fingerprint_bits))
    }

    #[inline]
    fn remainder_bits(&self) -> u32 {
        u32::from(self.fingerprint_bits - self.quotient_bits)
    }

    /// Bits of an entry: remainder and slot.
    #[inline]
    fn entry_bits(&self) -> u32 {
        self.remainder_bits() + u32::from(self.slot_bits)
    }

    /// The leading bits of a hash, and those behind them, that make its quotient and remainder.
    #[inline]
    fn split(&self, hash: u64) -> (u64, u64) {
        let fingerprint = hash >> (64 - u32::from(self.fingerprint_bits));
        let quotient = fingerprint >> self.remainder_bits();
        (quotient, fingerprint & ((1 << self.remainder_bits()) - 1))
    }

    /// The slots that may hold the key with this hash, as bits; the slots of all runs that do are among them.
    #[inline]
    pub fn lookup(&self, hash: u64) -> u64 {
        let (quotient, remainder) = self.split(hash);
        let found = self.quotients.find(quotient);
        let width = self.entry_bits();
        let mut at = found.before as usize * width as usize;
        let mut slots = 0;
        for _ in 0..found.equal {
            let entry = self.entries.get_bits(at, width).unwrap_or(u64::MAX);
            let matches = u64::from(entry >> self.slot_bits == remainder);
            slots |= matches << (entry & ((1 << self.slot_bits) - 1));
            at += width as usize;
        }
        slots
    }

    /// Brings the first of the two cache lines that a [`Maplet::lookup`] reads towards the cache. What comes
    /// back is of no use but to keep the compiler from leaving this out; touch several hashes, of several
    /// filters, before they are looked up.
    #[inline]
    #[must_use]
    pub fn prefetch(&self, hash: u64) -> u64 {
        self.quotients.prefetch(self.split(hash).0)
    }

    /// The same for the second, which waits for the first.
    #[inline]
    #[must_use]
    pub fn prefetch_entries(&self, hash: u64) -> u64 {
        let width = self.entry_bits();
        let at = self.quotients.find(self.split(hash).0).before as usize * width as usize;
        self.entries.get_bits(at, 1).unwrap_or(0)
    }

    /// Answers [`Maplet::lookup`] for each of `hashes` into the same place of `slots`.
    ///
    /// Places of entries are found for all before the first is compared, so that cache misses overlap.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn lookup_many(&self, hashes: &[u64], slots: &mut [u64]) {
        assert_eq!(hashes.len(), slots.len(), "lookup_many: one answer per hash");
        let width = self.entry_bits();
        for (hashes, slots) in hashes.chunks(BATCH).zip(slots.chunks_mut(BATCH)) {
            let touched = hashes.iter().fold(0, |all, hash| all ^ self.prefetch(*hash));
            std::hint::black_box(touched);
            let mut firsts = [(0usize, 0u32, 0u64); BATCH];
            for (hash, first) in hashes.iter().zip(&mut firsts) {
                let (quotient, remainder) = self.split(*hash);
                let found = self.quotients.find(quotient);
                *first = (found.before as usize * width as usize, found.equal, remainder);
            }
            for ((at, equal, remainder), slots) in firsts.into_iter().zip(slots) {
                *slots = 0;
                for number in 0..equal as usize {
                    let entry =
                        self.entries.get_bits(at + number * width as usize, width).unwrap_or(u64::MAX);
                    let matches = u64::from(entry >> self.slot_bits == remainder);
                    *slots |= matches << (entry & ((1 << self.slot_bits) - 1));
                }
            }
        }
    }

    /// The entries in order: fingerprint and slot.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u8)> {
        let slots = (1 << self.slot_bits) - 1;
        self.sorted().map(move |entry| (entry >> self.slot_bits, (entry & slots) as u8))
    }

    /// The entries in order, each as one number: the slot, and the fingerprint above it.
    fn sorted(&self) -> Sorted<'_> {
        Sorted { maplet: self, quotients: self.quotients.values(), at: 0 }
    }
}

/// The entries of a maplet in order: see [`Maplet::sorted`].
struct Sorted<'a> {
    maplet: &'a Maplet,
    /// Quotients, and entries in their place as soon as they are decoded.
    quotients: Values<'a>,
    /// First bit of the next entry.
    at: usize,
}

impl Sorted<'_> {
    /// The next entries, in place of those before; none at the end.
    fn next_chunk(&mut self) -> &mut [u64] {
        let width = self.maplet.entry_bits();
        let chunk = self.quotients.next_chunk();
        for (value, entry) in chunk.iter_mut().zip(self.maplet.entries.fields(self.at, width)) {
            *value = value.checked_shl(width).unwrap_or(0) | entry;
        }
        self.at += chunk.len() * width as usize;
        chunk
    }
}

impl Iterator for Sorted<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        loop {
            if let Some(entry) = self.quotients.next_of_chunk() {
                return Some(entry);
            }
            if self.next_chunk().is_empty() {
                return None;
            }
        }
    }
}

/// Hashes that [`Maplet::lookup_many`] keeps in flight.
const BATCH: usize = 32;
