//! Writes the rows of a Bloom cluster into a sidecar, column by column.

use super::super::sidecar::{CLUSTER_PAGES, PagesPlan, PagesTarget};
use super::cluster::{BloomCluster, Source};
use super::file::FiledRows;
use crate::cache::{PAGE_BYTES, Reader};
use crate::error::Result;
use crate::ids::RunId;
use crate::table::envelope::{PAGE_HEADER_BYTES, PAYLOAD_BYTES};
use siltstone_succinct::filter::bloom_cluster::ClusterShape;
use std::sync::Arc;

/// Pages read at once.
const READ_PAGES: u32 = 64;
/// How often writing asks whether to go on, in columns.
const COLUMNS_BETWEEN_CHECKS: u32 = 4096;

impl BloomCluster {
    /// Writes all rows that are known into a file and returns the cluster of that file; `None` where it can't
    /// be had.
    pub fn write(&self, target: &PagesTarget<'_>, reader: &Reader) -> Result<Option<Self>> {
        let known: Vec<_> = self.known().cloned().collect();
        let old = self.file.as_deref();
        let rows = known.iter().filter_map(|(_, source)| match source {
            Source::Row(row) => Some(row.row.shape()),
            Source::File(number) => old?.shape.rows().get(*number).copied(),
            Source::Nothing => None,
        });
        let Some(shape) = ClusterShape::new(self.columns(), rows.collect(), PAYLOAD_BYTES) else {
            return Ok(None);
        };
        assert_eq!(shape.rows().len(), known.len(), "a row is known without its shape");
        let runs: Vec<RunId> = known.iter().map(|(run, _)| *run).collect();
        let mut bytes = Vec::new();
        shape.to_bytes(&mut bytes);
        let plan = PagesPlan { runs: &runs, kind: CLUSTER_PAGES, filter: &bytes, count: shape.pages() };
        let mut writer = target.begin(&plan)?;
        let mut boxes = old.map(|file| BoxReader { reader, file, first: 0, bytes: Vec::new() });
        let mut payload: Vec<u8> = Vec::with_capacity(PAYLOAD_BYTES);
        let mut page = 0;
        for column in 0..shape.columns() {
            let place = shape.place(column);
            if place.page != page {
                writer.page(&payload)?;
                payload.clear();
                page = place.page;
            }
            payload.resize(place.offset, 0);
            let old_box = match &mut boxes {
                Some(boxes) => boxes.file.pages.spared(boxes.read(column))?,
                None => Some(Vec::new()),
            };
            // The file turned out to be damaged: its rows are made anew first.
            let Some(old_box) = old_box else { return Ok(None) };
            append_box(&mut payload, &known, column, old, &old_box);
            if place.pages > 1 {
                for part in payload.chunks(PAYLOAD_BYTES) {
                    writer.page(part)?;
                }
                payload.clear();
                page = place.page + place.pages;
            }
            if column % COLUMNS_BETWEEN_CHECKS == 0 && (target.is_given_up)() {
                return Ok(None);
            }
        }
        if !payload.is_empty() {
            writer.page(&payload)?;
        }
        let pages = writer.finish()?;
        let runs = known.iter().enumerate().map(|(number, (run, _))| (*run, Source::File(number))).collect();
        let file = FiledRows { pages: Arc::new(pages), runs: plan.runs.to_vec(), shape };
        Ok(Some(Self { spread: self.spread, runs, file: Some(Arc::new(file)) }))
    }
}

/// Appends what the rows `known` have in `column`, of which some stand in `old_box`.
fn append_box(
    payload: &mut Vec<u8>,
    known: &[(RunId, Source)],
    column: u32,
    old: Option<&FiledRows>,
    old_box: &[u8],
) {
    let old_parts: Vec<&[u8]> = old.map_or_else(Vec::new, |old| old.shape.split(old_box).collect());
    for (_, source) in known {
        payload.extend_from_slice(match source {
            Source::Row(row) => row.row.filter(column),
            #[expect(clippy::indexing_slicing, reason = "the row's shape was taken from the same file")]
            Source::File(number) => old_parts[*number],
            Source::Nothing => &[],
        });
    }
}

/// Reads the boxes of a file column by column.
struct BoxReader<'a> {
    reader: &'a Reader,
    file: &'a FiledRows,
    /// The pages held: the first one's number among the boxes', and their bytes.
    first: u32,
    bytes: Vec<u8>,
}

impl BoxReader<'_> {
    fn read(&mut self, column: u32) -> Result<Vec<u8>> {
        let place = self.file.shape.place(column);
        let mut filters = Vec::with_capacity(self.file.shape.box_bytes());
        let mut offset = place.offset;
        for number in place.page..place.page + place.pages {
            let held = self.first..self.first + (self.bytes.len() / PAGE_BYTES) as u32;
            if !held.contains(&number) {
                let pages = &self.file.pages;
                let count = READ_PAGES.min(pages.count - number);
                self.bytes.resize(count as usize * PAGE_BYTES, 0);
                self.first = number;
                let read = self.reader.pages_for_compaction(pages.id, pages.first + number, &mut self.bytes);
                if read.is_err() {
                    self.bytes.clear();
                }
                read?;
            }
            let at = (number - self.first) as usize * PAGE_BYTES;
            let page = self.bytes.get(at + PAGE_HEADER_BYTES..at + PAGE_BYTES).unwrap_or(&[]);
            let missing = self.file.shape.box_bytes() - filters.len();
            filters.extend(page.iter().skip(offset).take(missing));
            offset = 0;
        }
        Ok(filters)
    }
}
