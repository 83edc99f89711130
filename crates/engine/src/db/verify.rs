//! Verification: every byte of every table of a snapshot is read and checked against what it should be.

use super::Snapshot;
use super::head::Head;
use crate::cache::PAGE_BYTES;
use crate::entry::{EntryRef, Item, Lookup, Span};
use crate::error::{Error, ErrorKind, Result};
use crate::stats::ReadTrace;
use crate::table::{Table, Walk};
use crate::version::check;
use crate::version::level::{Candidate, Region};
use serde::Serialize;
use siltstone_design::Encoder;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What a verification found.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Tables read.
    pub tables: u64,
    /// Pages read.
    pub pages: u64,
    /// Entries decoded.
    pub entries: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Entries in heads: what of the log is not in tables yet. The log was checked when the store was opened; what log stores
    /// serve from it is read again.
    pub log_entries: u64,
    /// Cluster files read.
    pub clusters: u64,
    /// Bytes of the cluster files.
    pub cluster_bytes: u64,
    /// What is wrong, a sentence each; empty where the store is sound.
    pub problems: Vec<String>,
    /// What is damaged or missing of files that are only advice, cluster files and `GUIDES`, a sentence each: answers are
    /// the same without them, and they are made anew.
    pub notes: Vec<String>,
}

/// How far a verification has come.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Bytes of tables checked.
    pub bytes_done: u64,
    /// Bytes of all tables.
    pub bytes_total: u64,
}

/// Neighbouring pages of a table that are all damaged.
struct DamagedPages {
    pages: Range<u32>,
    /// What is wrong with the first of them.
    first: Error,
}

impl DamagedPages {
    fn in_words(&self, path: &Path) -> String {
        let path = path.display().to_string();
        let (first, last) = (self.pages.start, self.pages.end.saturating_sub(1));
        let what = self.first.to_string();
        match what.strip_prefix(&path) {
            Some(what) if first < last => format!("pages {first}-{last} of {path}: the first{what}"),
            _ => what,
        }
    }
}

/// Every so many entries one is looked up through filter and index.
const LOOKUP_EVERY: u64 = 16;

impl Snapshot {
    pub(super) fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        let store = &self.handle.store;
        let mut report = VerifyReport { notes: store.notes_of_opening(), ..VerifyReport::default() };
        let tables = || self.views.values().flat_map(|(_, view)| view.version.tables());
        let bytes_total = tables().map(|table| table.meta().bytes).sum();
        for (keyspace, view) in self.views.values().filter(|(keyspace, _)| !keyspace.is_dropped()) {
            for head in view.heads() {
                report.log_entries += head.entries();
                match self.verify_head(head, keyspace.encoder) {
                    Err(error) if error.kind() == ErrorKind::Corruption => {
                        report.problems.push(error.to_string());
                    }
                    outcome => outcome?,
                }
            }
            let structure = check::problems(&view.version, &keyspace.design);
            report
                .problems
                .extend(structure.into_iter().map(|p| format!("keyspace {:?}: {p}", keyspace.name)));
            store.verify_advice(keyspace, &view.version, &mut report)?;
            let regions = view.version.levels.iter().flat_map(|level| &level.regions);
            let places = regions.flat_map(|region| {
                let runs = region.runs.iter().enumerate();
                runs.flat_map(move |(at, run)| run.tables.iter().map(move |table| (region, at, table)))
            });
            for (region, at, table) in places {
                let path = store.reader.path(table.id());
                match self.verify_table(region, at, table, &mut report) {
                    Ok(None) => {}
                    Ok(Some(problem)) => report.problems.push(format!("{}: {problem}", path.display())),
                    Err(error) if error.kind() == ErrorKind::Corruption => {
                        report.problems.push(error.to_string())
                    }
                    Err(error) => return Err(error),
                }
                report.tables += 1;
                report.pages += u64::from(table.meta().pages);
                report.bytes += table.meta().bytes;
                progress(VerifyProgress { bytes_done: report.bytes, bytes_total });
            }
        }
        Ok(report)
    }

    /// Reads everything in a head.
    fn verify_head(&self, head: &Head, encoder: Encoder) -> Result<()> {
        let scan = head.scan(self.held.sequence, encoder, &self.handle.store.reader, true)?;
        let mut cursor = scan.stream(&Span::ALL)?;
        while cursor.peek().is_some() {
            cursor.advance()?;
        }
        Ok(())
    }

    /// Checks one table, of the run at place `at` of a region's pile; `Some` says what is wrong with it, unless `report` does.
    fn verify_table(
        &self,
        region: &Region,
        at: usize,
        table: &Arc<Table>,
        report: &mut VerifyReport,
    ) -> Result<Option<String>> {
        let reader = &self.handle.store.reader;
        let meta = table.meta();
        // Pages no walk passes, such as overflow pages, are read as well.
        let mut pages = vec![0; 64 * PAGE_BYTES];
        let (mut next, mut damaged) = (0, Vec::<DamagedPages>::new());
        while next < meta.pages {
            let count = (meta.pages - next).min(64);
            let Some(chunk) = pages.get_mut(..count as usize * PAGE_BYTES) else { break };
            if let Err(error) = reader.pages_for_compaction(meta.id, next, chunk) {
                self.damaged_pages(meta.id, next..next + count, error, &mut damaged)?;
            }
            next += count;
        }
        let path = reader.path(meta.id);
        let length = reader.file(meta.id)?.len().map_err(|error| Error::io(&error, "reading", &path))?;
        if length > meta.bytes {
            let (path, surplus) = (path.display(), length - meta.bytes);
            report
                .problems
                .push(format!("{path}: {surplus} bytes follow the table's end at byte {}", meta.bytes));
        }
        if !damaged.is_empty() {
            // Walking on would stop at the first of them again.
            report.problems.extend(damaged.iter().map(|pages| pages.in_words(&path)));
            return Ok(None);
        }
        if let Some(problem) = table.verify_sections(reader)? {
            return Ok(Some(problem));
        }
        let mut cursor = table.stream(Span::ALL, Walk::Compaction, reader)?;
        let (mut entries, mut deleted) = (0u64, 0u64);
        let mut previous: Option<Vec<u8>> = None;
        while let Some(entry) = cursor.peek() {
            let place = crate::table::sort_key(entry.key.digest, entry.key.key);
            if previous.as_ref().is_some_and(|before| *before >= place) {
                return Ok(Some(format!("entry {entries} is out of order")));
            }
            let (first, last) = (&meta.first, &meta.last);
            if (entry.key.digest, entry.key.key) < (first.0, first.1.as_slice())
                || (entry.key.digest, entry.key.key) > (last.0, last.1.as_slice())
            {
                return Ok(Some(format!("entry {entries} lies outside the table's bounds")));
            }
            if entries.is_multiple_of(LOOKUP_EVERY)
                && let Some(problem) = self.verify_lookup(region, at, table, &entry)?
            {
                return Ok(Some(format!("entry {entries}: {problem}")));
            }
            entries += 1;
            report.entries += 1;
            deleted += u64::from(entry.item == Item::Deleted);
            previous = Some(place);
            cursor.advance()?;
        }
        Ok(((entries, deleted) != (meta.entries, meta.deleted)).then(|| {
            format!(
                "it holds {entries} entries with {deleted} tombstones, its properties say {} and {}",
                meta.entries, meta.deleted
            )
        }))
    }

    /// Adds the damaged pages among `pages`, of which at least one is, to `damaged`.
    fn damaged_pages(
        &self,
        table: u64,
        pages: Range<u32>,
        error: Error,
        damaged: &mut Vec<DamagedPages>,
    ) -> Result<()> {
        if error.kind() != ErrorKind::Corruption {
            return Err(error);
        }
        let mut bytes = [0; PAGE_BYTES];
        let mut found = false;
        for page in pages.clone() {
            match self.handle.store.reader.pages_for_compaction(table, page, &mut bytes) {
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    found = true;
                    match damaged.last_mut() {
                        Some(before) if before.pages.end == page => before.pages.end = page + 1,
                        _ => damaged.push(DamagedPages { pages: page..page + 1, first: error }),
                    }
                }
                outcome => outcome?,
            }
        }
        if !found {
            // Where each page alone is sound, the file was read differently the second time.
            damaged.push(DamagedPages { pages: pages.start..pages.start + 1, first: error });
        }
        Ok(())
    }

    /// Looks an entry up as a reader would.
    fn verify_lookup(
        &self,
        region: &Region,
        at: usize,
        table: &Arc<Table>,
        entry: &EntryRef<'_>,
    ) -> Result<Option<String>> {
        // A newer run may hold the key as well, and then it is that one's.
        let mut trace = ReadTrace::default();
        let mut candidates = region.candidates(&entry.key, &self.handle.store.reader, &mut trace)?;
        if candidates.nth(at) == Some(Candidate::No) && region.guide.is_none() {
            return Ok(Some(
                "the cluster of its region does not lead to it; remove the store's .cluster files".into(),
            ));
        }
        let mut candidates =
            region.candidates(&entry.key, &self.handle.store.reader, &mut trace)?.take(at + 1);
        if candidates.all(|candidate| candidate == Candidate::No) {
            return Ok(Some(
                "the filter of its region does not lead to it; close the store and remove the file GUIDES"
                    .to_owned(),
            ));
        }
        let found = table.get(&entry.key, &self.handle.store.reader, &mut ReadTrace::default())?;
        let same = match (&found, entry.item) {
            (Lookup::Put { value, .. }, Item::Put { value: expected, .. }) => value == expected,
            (Lookup::Deleted, Item::Deleted) => true,
            _ => false,
        };
        let problem = || "filter and index do not lead to it, or to something else".to_owned();
        Ok((!same).then(problem))
    }
}
