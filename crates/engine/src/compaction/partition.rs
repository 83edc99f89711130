//! Partitioning: the entries of a merge go to the regions that they belong to, a new run each.
//!
//! Entries come in digest order, and targets stand in that order too, so that one pass fills one run after
//! the other. A run is written as tables of at most twice the size that its level asks for.
//!
//! A compaction knows its targets beforehand ([`Partition::run`]); a bulk build is told them as it comes to
//! them (`build.rs`), and goes through the same three steps: begin a run, add to it, end it.
//!
//! Invariants: every entry belongs to a target; files of tables that no edit will name are removed.

use super::merge::Merge;
use super::retain::retain;
use super::run_filter::RunFilter;
use super::work::{Amount, Context, Made, Output, Target};
use crate::activity::{ValueSizes, WHOLE};
use crate::cache::{PAGE_BYTES, TableId};
use crate::entry::{Cursor, EntryRef, Item, PrefixTombstones};
use crate::error::{Error, ErrorKind, Result};
use crate::filename::table_path;
use crate::table::envelope::TableMeta;
use crate::table::{TableBuilder, TableSpec};
use crate::version::Version;
use crate::version::edit::{RunRecord, Step};
use siltstone_design::TriePath;

/// How often work is held back, if it is.
const BYTES_BETWEEN_PACES: u64 = 64 << 10;
/// How often a long merge asks whether to go on.
const ENTRIES_BETWEEN_CHECKS: u32 = 4096;

/// Removes the files of tables that will not be used, unless told to keep them.
struct Unfinished<'a> {
    context: &'a Context<'a>,
    tables: Vec<TableId>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        for &id in &self.tables {
            // What can't be removed now is removed as an orphan at the next open.
            let _ = self.context.disk.remove(&table_path(self.context.dir, id));
        }
    }
}

/// Partitions the entries of a merge.
pub(super) struct Partition<'a> {
    context: &'a Context<'a>,
    version: &'a Version,
    /// What the merge's sources deleted by prefix.
    tombstones: &'a PrefixTombstones,
    /// About how much each target gets.
    share: Amount,
    unfinished: Unfinished<'a>,
    bytes_since_pace: u64,
    entries_since_check: u32,
    output: Output,
}

impl<'a> Partition<'a> {
    pub fn new(
        context: &'a Context<'a>,
        version: &'a Version,
        tombstones: &'a PrefixTombstones,
        share: Amount,
    ) -> Self {
        let unfinished = Unfinished { context, tables: Vec::new() };
        let (bytes_since_pace, entries_since_check, output) = Default::default();
        Self {
            context,
            version,
            tombstones,
            share,
            unfinished,
            bytes_since_pace,
            entries_since_check,
            output,
        }
    }

    /// Gives every entry to the one of `targets` that it belongs to, and returns what that makes of the
    /// version.
    pub fn run(mut self, mut entries: Merge, targets: &[Target]) -> Result<Output> {
        for target in targets {
            self.fill(target, &mut entries)?;
        }
        debug_assert!(entries.peek().is_none(), "every entry belongs to a region");
        Ok(self.finish())
    }

    /// Keeps all tables, and returns what they make of the version.
    pub(super) fn finish(mut self) -> Output {
        (self.context.pace)(self.bytes_since_pace);
        self.unfinished.tables.clear();
        self.output
    }

    /// Leaves the files of its tables where they are: the store has been closed, and the directory may be
    /// another's.
    pub(super) fn leave_files(mut self) {
        self.unfinished.tables.clear();
    }

    /// Begins a run of `target`, which gets about `share`.
    pub(super) fn begin_run(&mut self, target: Target, share: Amount) -> NewRun<'a> {
        self.share = share;
        NewRun::begin(self, target)
    }

    /// Adds the next entry to `run`, or what becomes of it.
    #[inline]
    pub(super) fn add(&mut self, run: &mut NewRun<'a>, entry: &mut EntryRef<'_>) -> Result<()> {
        self.check_cancelled()?;
        if let (Item::Operands(operands), true, Some(folder)) =
            (entry.item, run.target.bottom, self.context.folder)
        {
            let closed = folder.close(operands)?;
            return self.add_retained(run, &mut EntryRef { item: closed.item(), ..*entry });
        }
        self.add_retained(run, entry)
    }

    #[inline]
    fn add_retained(&mut self, run: &mut NewRun<'a>, entry: &mut EntryRef<'_>) -> Result<()> {
        if retain(&mut entry.item, self.context.now_ms, run.target.bottom, &mut self.output.dropped) {
            run.add(entry, &mut self.unfinished)?;
            self.pace(entry.user_bytes());
        }
        Ok(())
    }

    /// Writes the entries of one target as a run.
    fn fill(&mut self, target: &Target, entries: &mut Merge) -> Result<()> {
        let mut run = NewRun::begin(self, *target);
        loop {
            // Not moved anywhere: an entry is a hundred bytes, written and read again at once.
            let mut head = entries.peek();
            let Some(entry) = &mut head else { break };
            if !target.path.contains(entry.key.digest.hi) {
                break;
            }
            self.add(&mut run, entry)?;
            entries.advance()?;
        }
        self.end_run(run)
    }

    /// Finishes a run and notes it; it has all of its entries.
    pub(super) fn end_run(&mut self, mut run: NewRun<'_>) -> Result<()> {
        let target = run.target;
        let tombstones = if target.bottom {
            PrefixTombstones::default()
        } else {
            PrefixTombstones::new(self.tombstones.within(target.path.first(), target.path.last()))
        };
        if run.is_empty() && tombstones.is_empty() {
            // A child that gets nothing exists all the same: the trie does not depend on what happens to be
            // in it.
            if !target.exists(self.version) {
                let exists = Step::Pushed { level: target.level, path: target.path, pushes: 0 };
                self.output.steps.push(exists);
            }
            return Ok(());
        }
        run.end_table(tombstones, &mut self.unfinished)?;
        let NewRun { tables, filter, groups, values, .. } = run;
        let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
        let entries = tables.iter().map(|table| table.entries).sum();
        let made = Made { entries, groups, share: WHOLE >> target.path.depth().min(32), values };
        self.output.made = self.output.made.and(made);
        if target.bottom {
            self.output.made_at_bottom = self.output.made_at_bottom.and(made);
        }
        self.output.steps.push(Step::Written { level: target.level, bytes });
        let run = RunRecord { id: (self.context.next_id)(), tables, kills: Vec::new() };
        filter.finish(self.context, &target, &run, &mut self.output);
        let Target { level, path, replaces, .. } = target;
        self.output.steps.push(Step::AddRun { level, path, run, replaces });
        Ok(())
    }

    /// Gives the work up where it is no longer wanted; asks now and then.
    #[inline]
    fn check_cancelled(&mut self) -> Result<()> {
        self.entries_since_check += 1;
        if self.entries_since_check == ENTRIES_BETWEEN_CHECKS {
            self.entries_since_check = 0;
            if (self.context.cancelled)() {
                let what = "work was given up: the store is closing, or the keyspace was dropped or cleared";
                return Err(Error::new(ErrorKind::Closed, what));
            }
        }
        Ok(())
    }

    /// Tells now and then how much was written.
    #[inline]
    fn pace(&mut self, bytes: u64) {
        self.bytes_since_pace += bytes;
        if self.bytes_since_pace >= BYTES_BETWEEN_PACES {
            (self.context.pace)(std::mem::take(&mut self.bytes_since_pace));
        }
    }
}

/// A run that is being written.
pub(super) struct NewRun<'a> {
    context: &'a Context<'a>,
    pub target: Target,
    /// Bytes at which a table is full.
    most_table_bytes: u64,
    /// How far apart the pages of its tables will begin.
    digests_per_page: u64,
    tables: Vec<TableMeta>,
    /// The table that is being written.
    table: Option<TableBuilder>,
    filter: RunFilter,
    /// Groups among its entries, and the digest half of the last one.
    groups: u64,
    group: Option<u64>,
    /// How large its values are.
    values: ValueSizes,
}

impl<'a> NewRun<'a> {
    fn begin(partition: &Partition<'a>, target: Target) -> Self {
        let Partition { context, version, share, .. } = *partition;
        let bytes = share.bytes + target.merged_bytes;
        Self {
            context,
            target,
            most_table_bytes: context.design.level(target.level).table_bytes.saturating_mul(2),
            digests_per_page: digests_per_page(target.path, bytes),
            tables: Vec::new(),
            table: None,
            filter: RunFilter::begin(context, version, &target, share.entries),
            groups: 0,
            group: None,
            values: ValueSizes::default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.table.is_none() && self.tables.is_empty()
    }

    /// Adds the next entry, to a new table where the present one is full.
    #[inline]
    fn add(&mut self, entry: &EntryRef<'_>, unfinished: &mut Unfinished<'_>) -> Result<()> {
        let is_full =
            |table: &TableBuilder| table.bytes() >= self.most_table_bytes || !table.takes(entry.key.digest);
        if self.table.as_ref().is_some_and(is_full) {
            self.end_table(PrefixTombstones::default(), unfinished)?;
        }
        let table = match &mut self.table {
            Some(table) => table,
            None => {
                let table = self.begin_table(unfinished)?;
                self.table.insert(table)
            }
        };
        table.add(entry)?;
        self.filter.add(entry);
        if let Item::Put { value, .. } = entry.item {
            self.values.add(value.len());
        }
        self.groups += u64::from(self.group.replace(entry.key.digest.hi) != Some(entry.key.digest.hi));
        Ok(())
    }

    fn begin_table(&self, unfinished: &mut Unfinished<'_>) -> Result<TableBuilder> {
        let Context { keyspace, design, disk, dir, reader, writing, .. } = *self.context;
        let id = (self.context.next_id)();
        unfinished.tables.push(id);
        let chunk_bytes = reader.memory().chunk_bytes();
        let spec = TableSpec::new(id, (design, self.target.level), self.digests_per_page, chunk_bytes);
        TableBuilder::create(disk, dir, TableSpec { keyspace, writing, ..spec })
    }

    /// Finishes the table that is being written, with `tombstones` in it; an empty one is begun for them
    /// where there is none.
    fn end_table(&mut self, tombstones: PrefixTombstones, unfinished: &mut Unfinished<'_>) -> Result<()> {
        let table = match self.table.take() {
            Some(table) => table,
            None => self.begin_table(unfinished)?,
        };
        let written = table.finish(tombstones)?;
        self.tables.push(self.filter.end_table(written));
        Ok(())
    }
}

/// Returns how far apart pages begin if `bytes` are spread over the digests of `path`.
fn digests_per_page(path: TriePath, bytes: u64) -> u64 {
    let pages = (bytes as f64 / PAGE_BYTES as f64).max(1.0);
    (2f64.powi(64 - i32::from(path.depth())) / pages) as u64
}
