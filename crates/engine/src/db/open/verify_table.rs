//! Verification of one table: every page, every entry, and whether filters and index lead to it.

use crate::cache::{PAGE_BYTES, Probe};
use crate::db::env::Env;
use crate::entry::{Answer, EntryRef, Item, Span};
use crate::error::{Error, Result};
use crate::region_filter::Candidate;
use crate::table::{ReadMode, Table};
use crate::version::Region;
use siltstone_design::Encoder;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Pages read at once.
const READ_PAGES: u32 = 64;

/// Neighbouring pages of a table that are all damaged.
struct DamagedPages {
    pages: Range<u32>,
    /// What is wrong with the first of them.
    first: Error,
}

impl DamagedPages {
    /// Says what is damaged, in one sentence however many pages there are.
    fn in_words(&self, path: &Path) -> String {
        let (first, last) = (self.pages.start, self.pages.end.saturating_sub(1));
        match (self.first.offset(), self.first.expected(), self.first.found()) {
            (Some(offset), Some(expected), Some(found)) if first < last => format!(
                "pages {first}-{last} of {}: the first is damaged at byte {offset}: expected {expected}, found {found}",
                path.display()
            ),
            // A corruption says which page it is; a refusal of the device does not.
            (None, ..) => format!("pages {first}-{last}: {}", self.first),
            _ => self.first.to_string(),
        }
    }
}

/// A table, and where it lies.
pub(super) struct TablePlace<'a> {
    pub region: &'a Region,
    /// The place of its run among the region's, newest first.
    pub at: usize,
    pub table: &'a Arc<Table>,
}

/// A table that is being checked, and what was found so far.
pub(super) struct TableCheck<'a> {
    env: &'a Env,
    region: &'a Region,
    /// The place of its run among the region's, newest first.
    at: usize,
    table: &'a Arc<Table>,
    encoder: &'a Encoder,
    /// Entries decoded.
    pub entries: u64,
    /// What is wrong beside what [`TableCheck::run`] returns.
    pub problems: Vec<String>,
}

impl<'a> TableCheck<'a> {
    pub fn new(env: &'a Env, place: TablePlace<'a>, encoder: &'a Encoder) -> Self {
        let TablePlace { region, at, table } = place;
        Self { env, region, at, table, encoder, entries: 0, problems: Vec::new() }
    }

    /// Checks the table; `Some` says what is wrong with it, unless `problems` does.
    pub fn run(&mut self) -> Result<Option<String>> {
        let (reader, meta) = (&self.env.reader, self.table.meta());
        let damaged = self.read_pages()?;
        let path = reader.path(meta.id);
        let length = reader.file(meta.id)?.len().map_err(|error| Error::io(&error, "reading", &path))?;
        if length > meta.bytes {
            let (path, surplus) = (path.display(), length - meta.bytes);
            let problem = format!("{path}: {surplus} bytes follow the table's end at byte {}", meta.bytes);
            self.problems.push(problem);
        }
        let before = self.problems.len();
        self.problems.extend(damaged.iter().map(|pages| pages.in_words(&path)));
        // What a cut took of the pages says enough.
        if damaged.is_empty() || length >= meta.bytes {
            self.problems.extend(self.table.verify_sections(reader)?);
        }
        // Walking on would stop at the first damage again.
        if self.problems.len() > before { Ok(None) } else { self.walk() }
    }

    /// Reads every page, also those that no walk passes, such as overflow pages; returns those that are
    /// damaged.
    fn read_pages(&self) -> Result<Vec<DamagedPages>> {
        let meta = self.table.meta();
        let mut bytes = vec![0; READ_PAGES as usize * PAGE_BYTES];
        let (mut next, mut damaged) = (0, Vec::new());
        while next < meta.pages {
            let count = (meta.pages - next).min(READ_PAGES);
            let Some(chunk) = bytes.get_mut(..count as usize * PAGE_BYTES) else { break };
            if let Err(error) = self.env.reader.pages_for_compaction(meta.id, next, chunk) {
                self.damaged_pages(next..next + count, error, &mut damaged)?;
            }
            next += count;
        }
        Ok(damaged)
    }

    /// Walks over all entries.
    fn walk(&mut self) -> Result<Option<String>> {
        let meta = self.table.meta();
        let mut cursor = self.table.stream(Span::ALL, ReadMode::Compaction, &self.env.reader)?;
        let mut deleted = 0u64;
        let mut previous: Option<Vec<u8>> = None;
        loop {
            cursor.load_value()?;
            let Some(entry) = cursor.peek() else { break };
            let number = self.entries;
            let place = crate::codec::sort_key(entry.key.digest, entry.key.key);
            if previous.as_ref().is_some_and(|before| *before >= place) {
                return Ok(Some(format!("entry {number} is out of order")));
            }
            let (first, last) = (&meta.first, &meta.last);
            if (entry.key.digest, entry.key.key) < (first.0, first.1.as_slice())
                || (entry.key.digest, entry.key.key) > (last.0, last.1.as_slice())
            {
                return Ok(Some(format!("entry {number} lies outside the table's bounds")));
            }
            if let Some(problem) = self.look_up(&entry)? {
                return Ok(Some(format!("entry {number}: {problem}")));
            }
            self.entries += 1;
            deleted += u64::from(entry.item == Item::Deleted);
            previous = Some(place);
            cursor.advance()?;
        }
        Ok(((self.entries, deleted) != (meta.entries, meta.deleted)).then(|| {
            format!(
                "it holds {} entries with {deleted} tombstones, its properties say {} and {}",
                self.entries, meta.entries, meta.deleted
            )
        }))
    }

    /// Adds the damaged pages among `pages`, of which at least one is, to `damaged`.
    fn damaged_pages(&self, pages: Range<u32>, error: Error, damaged: &mut Vec<DamagedPages>) -> Result<()> {
        if !error.is_loss() {
            return Err(error);
        }
        let mut bytes = [0; PAGE_BYTES];
        let mut found = false;
        for page in pages.clone() {
            match self.env.reader.pages_for_compaction(self.table.id(), page, &mut bytes) {
                Err(error) if error.is_loss() => {
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
    fn look_up(&self, entry: &EntryRef<'_>) -> Result<Option<String>> {
        let Self { region, at, table, .. } = *self;
        // A filter in memory may name a newer run that holds the key as well; one on the device says
        // something of each run.
        let probe = || Probe::waiting(&self.env.reader, self.encoder);
        let candidates = probe().complete(|probe| region.candidates(&entry.key, probe))?;
        let newer = if region.has_filter_in_memory() { 0 } else { at };
        if candidates.take(at + 1).skip(newer).all(|candidate| candidate == Candidate::No) {
            return Ok(Some(
                "the filter of its region does not lead to it; close the store and remove its .sidecar files"
                    .to_owned(),
            ));
        }
        let found = probe().complete(|probe| table.get(&entry.key, probe))?;
        let same = match (&found, entry.item) {
            (Answer::Put { value, .. }, Item::Put { value: expected, .. }) => value.bytes() == expected,
            (Answer::Operands(operands), Item::Operands(expected)) => operands == expected,
            (Answer::Deleted, Item::Deleted) => true,
            _ => false,
        };
        let problem = || "filter and index do not lead to it, or to something else".to_owned();
        Ok((!same).then(problem))
    }
}
