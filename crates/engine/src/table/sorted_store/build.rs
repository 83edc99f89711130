//! Writes a sorted store, a chunk of pages and a trie at a time.

use super::fragments::{FragmentsBuilder, fragment_bits};
use super::{chunk_slots, trie_keys, trie_spec};
use crate::error::Result;
use crate::table::envelope::PAYLOAD_BYTES;
use crate::table::slots::SlotLayout;
use crate::table::slots::build::{CHUNK_PAGES, Placement, SlotPages};
use siltstone_design::{Digest, TableFilterSpec};
use siltstone_succinct::code::varint;
use siltstone_succinct::index::entropy_trie::EntropyTrie;

/// The chunk and the trie being filled.
pub(crate) struct SortedPlacement {
    layout: SlotLayout,
    filter_spec: TableFilterSpec,
    fragments: Option<FragmentsBuilder>,
    payload: Vec<u8>,
    slots: usize,
    keys: Vec<u64>,
    index: Vec<u8>,
}

impl SortedPlacement {
    pub fn new(layout: SlotLayout, filter_spec: TableFilterSpec) -> Self {
        let payload = vec![0; CHUNK_PAGES * PAYLOAD_BYTES];
        let fragments = fragment_bits(filter_spec).map(FragmentsBuilder::new);
        Self { layout, filter_spec, fragments, payload, slots: 0, keys: Vec::new(), index: Vec::new() }
    }

    fn end_chunk(&mut self, pages: &mut SlotPages) -> Result<()> {
        let used = self.layout.pages_for(self.slots) * PAYLOAD_BYTES;
        pages.write(self.payload.get(..used).unwrap_or(&self.payload))?;
        self.payload.fill(0);
        self.slots = 0;
        Ok(())
    }

    fn end_trie(&mut self) {
        let Some(first) = self.keys.first() else { return };
        self.index.extend_from_slice(&first.to_le_bytes());
        let mut trie = Vec::new();
        EntropyTrie::build(trie_spec(self.layout, self.filter_spec), &self.keys).to_bytes(&mut trie);
        varint::put_u64(&mut self.index, trie.len() as u64);
        self.index.extend_from_slice(&trie);
        self.keys.clear();
    }
}

impl Placement for SortedPlacement {
    const IS_DISTINCT: bool = true;

    #[expect(
        clippy::indexing_slicing,
        reason = "a chunk that is full has been ended; an item without a slot would be lost"
    )]
    fn place(
        &mut self,
        (digest, fingerprint): (Digest, u64),
        content: &[u8],
        pages: &mut SlotPages,
    ) -> Result<()> {
        let at = SlotPages::offset(&self.layout, self.slots);
        self.payload[at..at + content.len()].copy_from_slice(content);
        self.slots += 1;
        self.keys.push(digest.hi);
        if let Some(fragments) = &mut self.fragments {
            fragments.push(fingerprint);
        }
        if self.slots == chunk_slots(self.layout) {
            self.end_chunk(pages)?;
        }
        if self.keys.len() == trie_keys(self.layout) {
            self.end_trie();
        }
        Ok(())
    }

    fn finish(mut self, pages: &mut SlotPages) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        self.end_chunk(pages)?;
        self.end_trie();
        Ok((self.index, self.fragments.map(FragmentsBuilder::finish)))
    }

    fn held_bytes(&self) -> usize {
        self.slots * self.layout.slot_bytes as usize
    }
}
