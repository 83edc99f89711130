//! Where values lie: in the page of their entry, or in pages of their own.
//!
//! The rules are the engine's. A block table keeps in a page what fits one (`table/block/build.rs` there), a
//! hash table of pages what takes three quarters of one (`table/htable/build.rs`); a longer value goes to
//! pages of its own, which a get fetches by one more read, around the cache (`table/parts.rs`). Tables of
//! slots choose a size for which bytes times reads are least, and what does not fit a slot goes on elsewhere
//! (`table/slots/choose.rs`).

use super::layout::{CUCKOO_FILL, HTABLE_FILL, PAGE_BYTES, PAGE_PAYLOAD_BYTES, paged, slotted, varint};
use super::sizes::ValueSize;
use siltstone_design::Format;

/// Longest key and value that share a page of a block table and of a hash table of pages.
const MOST_IN_BLOCK_BYTES: f64 = PAGE_PAYLOAD_BYTES - 32.0;
const MOST_IN_BUCKET_BYTES: f64 = 3072.0;
/// Bytes that say which page a value is in.
const PLACE_BYTES: f64 = 3.0;
/// The smallest slot, and what a slot has in front of an entry that goes on elsewhere.
const LEAST_SLOT_BYTES: f64 = 16.0;
const SPILL_BYTES: f64 = 9.0;
/// What a page lacks where the next entry finds no room, in entries of one size.
const WASTED_ENTRIES: f64 = 0.5;

/// What an entry takes in a table, on the average over the sizes of values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stored {
    /// Bytes of pages in which entries stand together.
    pub page_bytes: f64,
    /// The share of entries that go on in pages of their own,
    pub apart: f64,
    /// and how many of these there are for an entry.
    pub pages_apart: f64,
}

impl Stored {
    /// What an entry takes of which a share is another.
    pub fn mixed(self, share: f64, other: Self) -> Self {
        let mix = |whole: f64, other: f64| whole + share * (other - whole);
        Self {
            page_bytes: mix(self.page_bytes, other.page_bytes),
            apart: mix(self.apart, other.apart),
            pages_apart: mix(self.pages_apart, other.pages_apart),
        }
    }
}

/// An entry's key as a table has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredKey {
    pub bytes: f64,
    /// Bytes of it that it has in common with the one before it, and does without.
    pub shared_bytes: f64,
}

/// Whether a key and a value of so many bytes stand in a page together.
fn fits_page(format: Format, key_bytes: f64, value_bytes: f64) -> bool {
    let most = match format {
        Format::Block => MOST_IN_BLOCK_BYTES,
        Format::HTable => MOST_IN_BUCKET_BYTES,
        // What is too long for a slot begins there all the same.
        Format::Hash | Format::Sorted => f64::INFINITY,
    };
    key_bytes + value_bytes <= most
}

/// The sizes of values as tables have them, compressed or not.
#[derive(Clone, Debug)]
pub(super) struct Values {
    sizes: Vec<ValueSize>,
    /// Bytes that a page of a block table lacks at its end.
    wasted_bytes: Option<f64>,
}

impl Values {
    /// Those of items with keys of so many bytes.
    pub fn of(key_bytes: f64, sizes: Vec<ValueSize>) -> Self {
        let wasted_bytes = (sizes.len() > 1).then(|| wasted_bytes(key_bytes, &sizes));
        Self { sizes, wasted_bytes }
    }

    /// No value, as tombstones have it.
    pub fn none() -> Self {
        Self { sizes: vec![ValueSize { value_bytes: 0.0, share: 1.0 }], wasted_bytes: None }
    }

    /// Bytes of values that stand in the page of their entry, on the average over all entries.
    pub fn bytes_in_page(&self, format: Format, key_bytes: f64) -> f64 {
        let in_page = |size: &&ValueSize| fits_page(format, key_bytes, size.value_bytes);
        self.sizes.iter().filter(in_page).map(|size| size.share * size.value_bytes).sum()
    }

    /// What an entry takes in a table of `format`.
    pub fn stored(&self, format: Format, key: StoredKey) -> Stored {
        match format {
            Format::Block => self.in_pages(format, key),
            Format::HTable => self.in_pages(format, StoredKey { shared_bytes: 0.0, ..key }),
            Format::Hash => {
                let stored = self.in_slots(key);
                Stored { page_bytes: stored.page_bytes / CUCKOO_FILL, ..stored }
            }
            Format::Sorted => self.in_slots(key),
        }
    }

    /// Entries one behind the other.
    fn in_pages(&self, format: Format, key: StoredKey) -> Stored {
        let (mut stored, mut mean) = (Stored::default(), 0.0);
        let is_bucket = format == Format::HTable;
        for &ValueSize { value_bytes, share } in &self.sizes {
            let entry = entry_bytes(format, key, value_bytes);
            if !fits_page(format, key.bytes, value_bytes) {
                stored.apart += share;
                stored.pages_apart += share * (value_bytes / PAGE_PAYLOAD_BYTES).ceil();
            }
            mean += share * (entry + if is_bucket { 0.3 } else { 0.0 });
        }
        stored.page_bytes = if is_bucket {
            // What finds no room in its bucket goes to another.
            paged(mean, WASTED_ENTRIES, HTABLE_FILL)
        } else {
            paged(mean, self.wasted_bytes.map_or(WASTED_ENTRIES, |bytes| bytes / mean), 1.0)
        };
        stored
    }

    /// Entries in slots of the size for which bytes times reads are least.
    fn in_slots(&self, key: StoredKey) -> Stored {
        let record = |value_bytes: f64| varint(value_bytes * 8.0 + 2.0) + key.bytes + value_bytes;
        let with = |size: &ValueSize| {
            let slot_bytes = record(size.value_bytes).clamp(LEAST_SLOT_BYTES, PAGE_PAYLOAD_BYTES);
            let mut stored = Stored { page_bytes: slotted(slot_bytes), ..Stored::default() };
            for &ValueSize { value_bytes, share } in &self.sizes {
                let rest = record(value_bytes) - slot_bytes;
                if rest > 0.0 {
                    stored.apart += share;
                    stored.pages_apart += share * ((rest + SPILL_BYTES) / PAGE_PAYLOAD_BYTES).ceil();
                }
            }
            stored
        };
        let cost =
            |stored: &Stored| (stored.page_bytes + stored.pages_apart * PAGE_BYTES) * (1.0 + stored.apart);
        let priced = self.sizes.iter().map(with);
        priced.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or_default()
    }
}

/// Bytes of an entry in a page, its value included where that stands there.
fn entry_bytes(format: Format, key: StoredKey, value_bytes: f64) -> f64 {
    let in_page = if fits_page(format, key.bytes, value_bytes) { value_bytes } else { PLACE_BYTES };
    2.0 + varint(value_bytes * 16.0) + key.bytes + in_page - key.shared_bytes
}

/// Bytes of a step of a page's room.
const STEP_BYTES: f64 = 8.0;
const STEPS: usize = (PAGE_PAYLOAD_BYTES / STEP_BYTES) as usize;
/// Rounds until the entries that pages begin with are spread as they stay.
const ROUNDS: usize = 32;

/// Bytes that a page of a block table lacks at its end on the average, where a page ends with the first entry
/// that does not fit, and the next begins with it: a long one more often than not.
fn wasted_bytes(key_bytes: f64, sizes: &[ValueSize]) -> f64 {
    let key = StoredKey { bytes: key_bytes, shared_bytes: 0.0 };
    let entries: Vec<(usize, f64)> = sizes
        .iter()
        .map(|size| {
            let bytes = entry_bytes(Format::Block, key, size.value_bytes);
            (((bytes / STEP_BYTES).ceil() as usize).clamp(1, STEPS), size.share)
        })
        .collect();
    // Of each room that is left: steps that are filled yet, and the shares of entries that then do not fit.
    let mut left: Vec<(f64, Vec<f64>)> = Vec::with_capacity(STEPS + 1);
    for room in 0..=STEPS {
        let (mut filled, mut next) = (0.0, vec![0.0; entries.len()]);
        for (number, (steps, share)) in entries.iter().enumerate() {
            match room.checked_sub(*steps).and_then(|rest| left.get(rest)) {
                Some((then_filled, then_next)) => {
                    filled += share * (*steps as f64 + then_filled);
                    next.iter_mut().zip(then_next).for_each(|(next, then)| *next += share * then);
                }
                None => next.iter_mut().skip(number).take(1).for_each(|next| *next += share),
            }
        }
        left.push((filled, next));
    }
    let mut first: Vec<f64> = entries.iter().map(|(_, share)| *share).collect();
    let mut filled = 0.0;
    for _ in 0..ROUNDS {
        let mut then_first = vec![0.0; entries.len()];
        filled = 0.0;
        for ((steps, _), share) in entries.iter().zip(&first) {
            let Some((then_filled, next)) = left.get(STEPS - steps) else { continue };
            filled += share * (*steps as f64 + then_filled);
            then_first.iter_mut().zip(next).for_each(|(first, next)| *first += share * next);
        }
        first = then_first;
    }
    (STEPS as f64 - filled) * STEP_BYTES
}
