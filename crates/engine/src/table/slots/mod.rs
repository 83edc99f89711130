//! Tables of slots of one size: where a slot lies, and what stands in it. Hash stores and sorted stores are
//! made of them.
//!
//! Source: Lim et al., "SILT" (SOSP 2011), §3.2 and §3.3, and for items that vary in size §4, "indirection
//! with inlining". Where we differ, and why:
//!
//! - The size of a table's slots is chosen from the sizes of its first entries (`choose.rs`). Digest order is
//!   random order, so these are a fair sample.
//! - Pages have checksums, so slots are cut from the payloads of pages. They begin afresh in every page where
//!   that wastes little, and else run on across pages within a chunk; such a slot is read as two neighbouring
//!   pages, in one read.
//! - What does not fit its slot goes on in overflow pages of the same file, not on another device.
//!
//! ```text
//! slot     0: empty
//!          ┌──────────────┬───────────────┬─────────────────┬─────┬───────┬───────┐
//! record   │ tag varint   │ key length    │ expiry          │ key │ value │ zeros │
//!          │              │ varint, if    │ varint ms, if   │     │       │       │
//!          │              │ flagged       │ flagged         │     │       │       │
//!          └──────────────┴───────────────┴─────────────────┴─────┴───────┴───────┘
//! tag      2 + value length · 8 + flags: 1 deleted, 2 expires, 4 key length follows (else the table's)
//!          ┌───┬──────────┬─────────────────┬────────────────────┐
//! spilled  │ 1 │ page u32 │ tail length u32 │ the record's start │     the rest stands in overflow pages from `page` on
//!          └───┴──────────┴─────────────────┴────────────────────┘
//! ```
//!
//! Invariants: overflow pages never stand between the pages of a chunk; a spilled record's head fills its
//! slot.

pub(crate) mod build;
pub(crate) mod choose;
pub(crate) mod cursor;
pub(crate) mod read;
pub(crate) mod record;

use super::page::PAYLOAD_BYTES;

/// Smallest slot: a spilled record's header and some of its start.
pub(crate) const MIN_SLOT_BYTES: u32 = 16;
/// Largest slot: with its checksum it fills a page.
pub(crate) const MAX_SLOT_BYTES: u32 = PAYLOAD_BYTES as u32;
/// Slots begin afresh in every page where that leaves at most one part in so many unused.
const MOST_WASTE_PARTS: usize = 16;

/// How a table's slots are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotLayout {
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// Length of the keys whose records do not tell it; 0 where all do.
    pub key_bytes: u32,
}

impl Default for SlotLayout {
    fn default() -> Self {
        Self { slot_bytes: MIN_SLOT_BYTES, key_bytes: 0 }
    }
}

impl SlotLayout {
    pub fn bytes(&self) -> usize {
        self.slot_bytes.clamp(MIN_SLOT_BYTES, MAX_SLOT_BYTES) as usize
    }

    /// Slots of a page where they begin afresh in every page; `None` where they run on.
    pub fn per_page(&self) -> Option<usize> {
        let count = PAYLOAD_BYTES / self.bytes();
        let unused = PAYLOAD_BYTES - count * self.bytes();
        (unused * MOST_WASTE_PARTS <= PAYLOAD_BYTES).then_some(count)
    }

    /// Page, counted from the start of the chunk, and offset in its payload at which a slot of the chunk
    /// begins.
    #[inline]
    pub fn position(&self, slot: usize) -> (usize, usize) {
        match self.per_page() {
            Some(count) => (slot / count, slot % count * self.bytes()),
            None => (slot * self.bytes() / PAYLOAD_BYTES, slot * self.bytes() % PAYLOAD_BYTES),
        }
    }

    /// Slots that fit a chunk of so many pages.
    pub fn slots_in(&self, pages: usize) -> usize {
        self.per_page().map_or_else(|| pages * PAYLOAD_BYTES / self.bytes(), |count| pages * count)
    }

    /// Pages of a chunk of so many slots.
    pub fn pages_for(&self, slots: usize) -> usize {
        let Some(count) = self.per_page() else { return (slots * self.bytes()).div_ceil(PAYLOAD_BYTES) };
        slots.div_ceil(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_lie_side_by_side_and_within_their_chunk() {
        for slot_bytes in MIN_SLOT_BYTES..=MAX_SLOT_BYTES {
            let layout = SlotLayout { slot_bytes, key_bytes: 0 };
            let slots = layout.slots_in(64);
            assert_eq!(layout.pages_for(slots), 64, "{slot_bytes}");
            let mut end = 0;
            for slot in [0, 1, 2, slots / 2, slots - 1] {
                let (page, offset) = layout.position(slot);
                let start = page * PAYLOAD_BYTES + offset;
                assert!(slot == 0 || start >= end);
                end = start + slot_bytes as usize;
                assert!(end <= 64 * PAYLOAD_BYTES);
                assert!(layout.per_page().is_none() || offset + slot_bytes as usize <= PAYLOAD_BYTES);
            }
            // Little is wasted: less than a slot per chunk, or the sixteenth of a page per page.
            let unused = 64 * PAYLOAD_BYTES - slots * slot_bytes as usize;
            assert!(unused <= 64 * PAYLOAD_BYTES / MOST_WASTE_PARTS, "{slot_bytes}: {unused}");
        }
        // The paper's items of 20 and 1000 bytes, with two bytes of ours, stand four to a page.
        assert_eq!(SlotLayout { slot_bytes: 1022, key_bytes: 20 }.per_page(), Some(4));
    }
}
