//! The rows of a Bloom cluster in the pages of a sidecar.

use super::super::sidecar::{CLUSTER_PAGES, SidecarPages, SidecarRecord};
use crate::cache::{Page, Pause, Probe};
use crate::error::Result;
use crate::ids::RunId;
use crate::table::envelope::{PAGE_HEADER_BYTES, PAYLOAD_BYTES};
use siltstone_succinct::filter::bloom_cluster::{ClusterShape, MOST_ROWS};
use std::sync::Arc;

/// Returns the shape of the Bloom cluster that `record` describes, if it is of one in pages, and sound.
pub(crate) fn cluster_shape(record: &SidecarRecord<'_>) -> Option<ClusterShape> {
    let shape = ClusterShape::from_bytes(record.filter, PAYLOAD_BYTES).ok()?;
    (record.kind == CLUSTER_PAGES && shape.rows().len() == record.runs.len()).then_some(shape)
}

/// Boxes in a file, and the runs they have rows of.
#[derive(Debug)]
pub(super) struct FiledRows {
    pub pages: Arc<SidecarPages>,
    pub runs: Vec<RunId>,
    pub shape: ClusterShape,
}

impl FiledRows {
    /// Decodes a shape for rows of `runs`; `None` where runs, shape and pages do not agree.
    pub fn decode(runs: &[RunId], bytes: &[u8], pages: Arc<SidecarPages>) -> Option<Self> {
        let shape = ClusterShape::from_bytes(bytes, PAYLOAD_BYTES).ok()?;
        let agrees =
            shape.rows().len() == runs.len() && runs.len() <= MOST_ROWS && shape.pages() == pages.count;
        agrees.then(|| Self { pages, runs: runs.to_vec(), shape })
    }

    /// Returns the number of the row of `run`.
    pub fn place_of(&self, run: RunId) -> Option<usize> {
        self.runs.iter().position(|of_file| *of_file == run)
    }

    /// Returns the number of the first page of a column's box.
    pub fn first_page(&self, column: u32) -> u32 {
        self.pages.first + self.shape.place(column).page
    }

    /// Returns a page; `None` where it is damaged.
    fn page(&self, number: u32, probe: &mut Probe<'_>) -> Result<Option<Page>, Pause> {
        match probe.page(self.pages.id, number) {
            Ok(page) => Ok(Some(page)),
            Err(Pause::Failed(error)) => Ok(self.pages.spared(Err(error))?),
            Err(needs) => Err(needs),
        }
    }

    /// Returns the rows that may hold the key, as bits; `None` where the file is damaged.
    pub fn candidates(
        &self,
        column: u32,
        fingerprint: u64,
        probe: &mut Probe<'_>,
    ) -> Result<Option<u128>, Pause> {
        if self.pages.is_damaged() {
            return Ok(None);
        }
        let place = self.shape.place(column);
        let first = self.pages.first + place.page;
        let Some(page) = self.page(first, probe)? else { return Ok(None) };
        let from = PAGE_HEADER_BYTES + place.offset;
        if place.pages == 1 {
            let filters = page.get(from..from + self.shape.box_bytes()).unwrap_or(&[]);
            return Ok(Some(self.shape.candidates(filters, fingerprint)));
        }
        let mut filters = page.get(from..).unwrap_or(&[]).to_vec();
        for number in first + 1..first + place.pages {
            let Some(page) = self.page(number, probe)? else { return Ok(None) };
            filters.extend_from_slice(page.get(PAGE_HEADER_BYTES..).unwrap_or(&[]));
        }
        Ok(Some(self.shape.candidates(&filters, fingerprint)))
    }
}
