//! Writes a hash store, one small cuckoo table at a time.

use super::FORM;
use crate::error::Result;
use crate::table::slots::SlotLayout;
use crate::table::slots::build::{CHUNK_PAGES, Placement, SlotPages};
use siltstone_design::{Digest, TableFilterSpec};
use siltstone_succinct::code::varint;
use siltstone_succinct::index::partial_key_cuckoo::{LANES, PartialKeyCuckoo};

/// The share of the last table's lanes that are meant to be filled; the others are as full as they get.
const LAST_LOAD: f64 = 0.95;

/// The cuckoo table being filled.
pub(crate) struct HashPlacement {
    layout: SlotLayout,
    buckets: u32,
    table: PartialKeyCuckoo,
    first: Digest,
    /// Fingerprints and slots of its entries, in the order in which they came.
    fingerprints: Vec<u64>,
    contents: Vec<u8>,
    index: Vec<u8>,
    filter: Vec<u8>,
}

impl HashPlacement {
    pub fn new(layout: SlotLayout, _: TableFilterSpec) -> Self {
        let buckets = (layout.slots_in(CHUNK_PAGES) / LANES).max(1) as u32;
        Self {
            layout,
            buckets,
            table: PartialKeyCuckoo::new(FORM, buckets),
            first: Digest::default(),
            fingerprints: Vec::new(),
            contents: Vec::new(),
            index: Vec::new(),
            filter: Vec::new(),
        }
    }

    /// Writes the table and starts the next.
    #[expect(
        clippy::indexing_slicing,
        reason = "each number is that of contents, and each lane has its slot; an item without one would be lost"
    )]
    fn close(&mut self, pages: &mut SlotPages) -> Result<()> {
        let table = std::mem::replace(&mut self.table, PartialKeyCuckoo::new(FORM, self.buckets));
        let lanes = table.capacity();
        let mut payload = vec![0; self.layout.pages_for(lanes) * crate::table::envelope::PAYLOAD_BYTES];
        let slot_bytes = self.layout.slot_bytes as usize;
        for (lane, number) in table.lanes().enumerate() {
            let Some(number) = number else { continue };
            let (from, to) = (number as usize * slot_bytes, SlotPages::offset(&self.layout, lane));
            payload[to..to + slot_bytes].copy_from_slice(&self.contents[from..from + slot_bytes]);
        }
        pages.write(&payload)?;
        self.index.extend_from_slice(&self.first.hi.to_le_bytes());
        self.index.extend_from_slice(&self.first.lo.to_le_bytes());
        varint::put_u64(&mut self.index, (lanes / LANES) as u64);
        let mut tags = Vec::new();
        table.filter().to_bytes(&mut tags);
        varint::put_u64(&mut self.filter, tags.len() as u64);
        self.filter.extend_from_slice(&tags);
        self.fingerprints.clear();
        self.contents.clear();
        Ok(())
    }

    /// The last table with as many buckets as its entries need.
    fn shrink(&mut self) {
        let entries = self.fingerprints.len();
        let mut buckets = (entries as f64 / (LANES as f64 * LAST_LOAD)).ceil().max(1.0) as u32;
        while buckets < self.buckets {
            let mut table = PartialKeyCuckoo::new(FORM, buckets);
            let mut all = self.fingerprints.iter().zip(0..);
            if all.all(|(fingerprint, number)| table.insert(*fingerprint, number).is_ok()) {
                self.table = table;
                return;
            }
            buckets += buckets.div_ceil(32);
        }
    }
}

impl Placement for HashPlacement {
    const IS_DISTINCT: bool = false;

    fn place(
        &mut self,
        (digest, fingerprint): (Digest, u64),
        content: &[u8],
        pages: &mut SlotPages,
    ) -> Result<()> {
        let number = self.fingerprints.len() as u32;
        if self.table.insert(fingerprint, number).is_err() {
            self.close(pages)?;
            // An empty table has room.
            let _ = self.table.insert(fingerprint, 0);
        }
        if self.fingerprints.is_empty() {
            self.first = digest;
        }
        self.fingerprints.push(fingerprint);
        let end = self.contents.len() + self.layout.slot_bytes as usize;
        self.contents.extend_from_slice(content);
        self.contents.resize(end, 0);
        Ok(())
    }

    fn finish(mut self, pages: &mut SlotPages) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        if !self.fingerprints.is_empty() {
            self.shrink();
            self.close(pages)?;
        }
        Ok((self.index, Some(self.filter)))
    }

    fn held_bytes(&self) -> usize {
        self.contents.len()
    }
}
