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
pub(super) fn fits_page(format: Format, key_bytes: f64, value_bytes: f64) -> bool {
    let most = match format {
        Format::Block => MOST_IN_BLOCK_BYTES,
        Format::HTable => MOST_IN_BUCKET_BYTES,
        // What is too long for a slot begins there all the same.
        Format::Hash | Format::Sorted => f64::INFINITY,
    };
    key_bytes + value_bytes <= most
}

/// What an entry takes in a table of `format` whose values have these sizes.
pub(super) fn stored(format: Format, key: StoredKey, values: &[ValueSize]) -> Stored {
    match format {
        Format::Block => in_pages(format, key, values),
        Format::HTable => in_pages(format, StoredKey { shared_bytes: 0.0, ..key }, values),
        Format::Hash => {
            let stored = in_slots(key, values);
            Stored { page_bytes: stored.page_bytes / CUCKOO_FILL, ..stored }
        }
        Format::Sorted => in_slots(key, values),
    }
}

/// Entries one behind the other.
fn in_pages(format: Format, key: StoredKey, values: &[ValueSize]) -> Stored {
    let (mut stored, mut mean, mut square) = (Stored::default(), 0.0, 0.0);
    let is_bucket = format == Format::HTable;
    for &ValueSize { value_bytes, share } in values {
        let head = 2.0 + varint(value_bytes * 16.0);
        let rest = if fits_page(format, key.bytes, value_bytes) {
            key.bytes + value_bytes - key.shared_bytes
        } else {
            stored.apart += share;
            stored.pages_apart += share * (value_bytes / PAGE_PAYLOAD_BYTES).ceil();
            PLACE_BYTES + key.bytes - key.shared_bytes
        };
        let entry = head + rest + if is_bucket { 0.3 } else { 0.0 };
        mean += share * entry;
        square += share * entry * entry;
    }
    stored.page_bytes = if is_bucket {
        // What finds no room in its bucket goes to another.
        paged(mean, WASTED_ENTRIES, HTABLE_FILL)
    } else {
        // A page ends with the first entry that does not fit, which is a long one more often than not: what
        // it lacks is the age of a renewal process.
        paged(mean, square / (2.0 * mean * mean), 1.0)
    };
    stored
}

/// Entries in slots of the size for which bytes times reads are least.
fn in_slots(key: StoredKey, values: &[ValueSize]) -> Stored {
    let record = |value_bytes: f64| varint(value_bytes * 8.0 + 2.0) + key.bytes + value_bytes;
    let with = |size: &ValueSize| {
        let slot_bytes = record(size.value_bytes).clamp(LEAST_SLOT_BYTES, PAGE_PAYLOAD_BYTES);
        let mut stored = Stored { page_bytes: slotted(slot_bytes), ..Stored::default() };
        for &ValueSize { value_bytes, share } in values {
            let rest = record(value_bytes) - slot_bytes;
            if rest > 0.0 {
                stored.apart += share;
                stored.pages_apart += share * ((rest + SPILL_BYTES) / PAGE_PAYLOAD_BYTES).ceil();
            }
        }
        stored
    };
    let cost = |stored: &Stored| (stored.page_bytes + stored.pages_apart * PAGE_BYTES) * (1.0 + stored.apart);
    let priced = values.iter().map(with);
    priced.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or_default()
}
