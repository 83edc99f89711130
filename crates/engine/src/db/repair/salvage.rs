//! What can be read is written into the new store: tables from the deepest level up, then the log.

use super::found::Found;
use super::kept::Kept;
use super::report::{Loss, RepairProgress, RepairReport};
use super::target::Target;
use crate::cache::PAGE_BYTES;
use crate::codec::Decoder;
use crate::db::batch::Batch;
use crate::db::keyspace::Keyspace;
use crate::entry::Item;
use crate::error::{Error, ErrorKind, Result};
use crate::filename::{self, LOST_AND_FOUND};
use crate::ids::TableId;
use crate::io::{Access, Disk, read_file};
use crate::merge_operator::{Rewritten, UNKNOWN, rewritten};
use crate::operation::{self, Operation};
use crate::options::KeyspaceOptions;
use crate::table::envelope::TableMeta;
use crate::table::salvage::{Salvaged, read_meta, salvage};
use crate::version::manifest::KeyspaceState;
use crate::wal::salvage::{Segment, missing_before, read_segments};
use siltstone_design::{Design, Digest, Encoder, HashSecret};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Bytes of keys and values that are written at once.
const BATCH_BYTES: u64 = 1 << 20;
/// Operations that are written at once.
const BATCH_OPERATIONS: usize = 4096;
/// Tables of keyspaces that are not known and that get one of their own, which is to be sorted out by hand.
const MOST_UNPLACED: u64 = 256;

/// A repair under way.
pub(super) struct Salvaging<'a> {
    target: &'a dyn Target,
    disk: &'a dyn Disk,
    found: &'a Found,
    progress: &'a mut dyn FnMut(RepairProgress),
    done: RepairProgress,
    report: RepairReport,
    kept: Kept,
    /// Keyspaces made for tables of unknown ones.
    unplaced: u64,
    /// Keyspaces of the new store by their numbers in the old one.
    keyspaces: BTreeMap<u64, Keyspace>,
}

/// Writes into the new store, a batch at a time.
struct Writer<'a> {
    target: &'a dyn Target,
    batch: Batch,
    /// Keys that do not fit the keyspace, which a damaged table may have.
    misfits: u64,
}

impl<'a> Writer<'a> {
    fn new(target: &'a dyn Target) -> Self {
        Self { target, batch: Batch::new(), misfits: 0 }
    }

    /// Adds an operation; without an item it deletes the prefix `key`.
    fn add(&mut self, keyspace: &Keyspace, key: &[u8], item: Option<Item<'_>>) -> Result<()> {
        let added = match item {
            Some(Item::Put { value, expires_at_ms }) => {
                self.batch.put_until(keyspace, key, value, expires_at_ms)
            }
            Some(Item::Deleted) => self.batch.delete(keyspace, key),
            Some(Item::Operands(operands)) => self.add_operands(keyspace, key, operands),
            None => self.batch.delete_prefix(keyspace, key),
        };
        match added {
            Err(error) if matches!(error.kind(), ErrorKind::BadKey | ErrorKind::InvalidInput) => {
                self.misfits += 1
            }
            added => added?,
        }
        if self.batch.bytes() >= BATCH_BYTES || self.batch.len() >= BATCH_OPERATIONS {
            self.write()?;
        }
        Ok(())
    }

    /// Adds merges, and what they are for where that is known.
    fn add_operands(&mut self, keyspace: &Keyspace, key: &[u8], operands: &[u8]) -> Result<()> {
        let Some(Rewritten { base, operands }) = rewritten(operands) else {
            return Err(Error::invalid("the operands of an entry are malformed"));
        };
        match base {
            Some(Some(value)) => self.batch.put(keyspace, key, value)?,
            Some(None) => self.batch.delete(keyspace, key)?,
            None => {}
        }
        operands.iter().try_for_each(|operand| self.batch.merge(keyspace, key, operand))
    }

    fn write(&mut self) -> Result<()> {
        self.target.write(&self.batch)?;
        self.batch.clear();
        Ok(())
    }
}

/// Whether the second of two tables may go on with the run of the first, as far as the tables say: the last
/// of a run has its deleted prefixes, and their numbers and their keys ascend. Where they are of different
/// runs, a deleted prefix may come back, and no item is lost.
fn may_be_of_one_run(one: &TableMeta, next: &TableMeta) -> bool {
    one.tombstones.is_empty() && one.last < next.first
}

impl<'a> Salvaging<'a> {
    pub fn new(
        target: &'a dyn Target,
        disk: &'a dyn Disk,
        found: &'a Found,
        progress: &'a mut dyn FnMut(RepairProgress),
    ) -> Self {
        let manifest = found.damage.as_ref().map(ToString::to_string);
        let report = RepairReport { manifest, ..RepairReport::default() };
        let (done, kept, unplaced, keyspaces) = Default::default();
        Self { target, disk, found, progress, done, report, kept, unplaced, keyspaces }
    }

    /// Does all of it, and says what it did.
    pub fn run(mut self) -> Result<RepairReport> {
        for (id, keyspace) in &self.found.state.keyspaces {
            let options = KeyspaceOptions {
                schema: keyspace.schema,
                design: Some(Design::clone(&keyspace.version.design)),
                merge_operator: keyspace.merge_operator.clone(),
            };
            self.keyspaces.insert(*id, self.target.keyspace(&keyspace.name, options)?);
        }
        let segments = read_segments(self.disk, &self.found.dir, self.found.state.log_end)?;
        let named = self.found.state.keyspaces.values().flat_map(|keyspace| keyspace.version.tables());
        let named: BTreeMap<u64, u64> = named.map(|table| (table.id(), table.meta().bytes)).collect();
        self.done.bytes_total = named.values().sum::<u64>() + segments.iter().map(|s| s.bytes).sum::<u64>();
        if !self.found.is_whole {
            if let Some(manifest) = &self.found.manifest {
                self.keep(&manifest.clone())?;
            }
            self.unnamed_tables(&named)?;
        }
        self.named_tables()?;
        self.log(&segments)?;
        self.report.keyspaces = self.target.names();
        self.report.kept = self.kept.names.into_iter().collect();
        self.report.notes.append(&mut self.kept.notes);
        Ok(self.report)
    }

    /// Keeps a file of the damaged store as it is.
    fn keep(&mut self, name: &str) -> Result<()> {
        self.kept.keep(self.disk, self.found, self.target.dir(), name)
    }

    /// Reads the tables of one run into `keyspace`. Its last table has the prefixes that were deleted in all
    /// of it, and these hide what is older than the run, never what is in it.
    fn run_of(&mut self, tables: &[&TableMeta], keyspace: &Keyspace, how: &str) -> Result<()> {
        let mut misfits = Vec::with_capacity(tables.len());
        for meta in tables {
            let mut writer = Writer::new(self.target);
            for tombstone in meta.tombstones.iter() {
                writer.add(keyspace, &tombstone.prefix, None)?;
            }
            writer.write()?;
            misfits.push(writer.misfits);
        }
        tables.iter().zip(misfits).try_for_each(|(meta, misfits)| self.table(meta, misfits, keyspace, how))
    }

    /// Reads the entries of one table into `keyspace`; so many of its deleted prefixes were `misfits`.
    fn table(&mut self, meta: &TableMeta, misfits: u64, keyspace: &Keyspace, how: &str) -> Result<()> {
        let name = filename::table(meta.id);
        let mut writer = Writer { misfits, ..Writer::new(self.target) };
        let mut sink = |key: &[u8], item: Item<'_>| writer.add(keyspace, key, Some(item));
        let found = salvage(meta, &self.found.reader, &mut sink)?;
        writer.write()?;
        self.report.entries += found.entries;
        self.report.tables += 1;
        let missing = meta.entries.saturating_sub(found.entries) + writer.misfits;
        if missing > 0 || found.damaged_pages > 0 {
            let Salvaged { damaged_pages, without_value, .. } = found;
            let renamed =
                if damaged_pages == u64::from(meta.pages) { self.renamed(&name, meta.id) } else { None };
            self.report.losses.push(Loss {
                file: name.clone(),
                keyspace: Some(keyspace.name().to_owned()),
                bytes: damaged_pages * PAGE_BYTES as u64,
                entries: missing,
                what: format!(
                    "{how}{damaged_pages} of {} pages can't be read; {without_value} entries have lost their values{}",
                    meta.pages,
                    renamed.unwrap_or_default()
                ),
            });
            if self.found.names.contains(&name) {
                self.keep(&name)?;
            }
        }
        self.done.bytes_done += meta.bytes;
        (self.progress)(self.done);
        Ok(())
    }

    /// What to do where a file, by its own account, is another table than the one that its name says.
    fn renamed(&self, name: &str, id: TableId) -> Option<String> {
        let path = self.found.dir.join(name);
        let file = self.disk.open(&path, Access::Read).ok()?;
        let (meta, _) = read_meta(file.as_ref(), &path).ok().filter(|(meta, _)| meta.id != id)?;
        Some(format!(
            "; by its own account it is {}: where files have changed names, give them back and repair once more",
            filename::table(meta.id)
        ))
    }

    /// Reads the tables that the manifest names, older ones first.
    fn named_tables(&mut self) -> Result<()> {
        for (id, state) in &self.found.state.keyspaces {
            let Some(keyspace) = self.keyspaces.get(id).cloned() else { continue };
            for level in state.version.levels.iter().rev() {
                for run in level.regions.iter().flat_map(|region| region.runs.iter().rev()) {
                    let tables: Vec<_> = run.tables.iter().map(|table| table.meta()).collect();
                    self.run_of(&tables, &keyspace, "")?;
                }
            }
        }
        Ok(())
    }

    /// Reads tables that a damaged manifest does not name. Their place in time is not known: they may hold
    /// what is newer than the named ones, or what those have replaced. So what is named, or in the log,
    /// overwrites them, and they are kept as well.
    fn unnamed_tables(&mut self, named: &BTreeMap<u64, u64>) -> Result<()> {
        let mut numbers: Vec<u64> =
            self.found.names.iter().filter_map(|name| filename::table_number(name)).collect();
        numbers.sort_unstable();
        let mut placed: BTreeMap<String, (Keyspace, Vec<TableMeta>)> = BTreeMap::new();
        for number in numbers.into_iter().filter(|number| !named.contains_key(number)) {
            if let Some((keyspace, meta)) = self.unnamed_table(number)? {
                let (_, tables) =
                    placed.entry(keyspace.name().to_owned()).or_insert_with(|| (keyspace, Vec::new()));
                tables.push(meta);
            }
        }
        for (keyspace, tables) in placed.into_values() {
            for run in tables.chunk_by(may_be_of_one_run) {
                let run: Vec<_> = run.iter().collect();
                self.run_of(&run, &keyspace, "no manifest names it; ")?;
            }
        }
        Ok(())
    }

    /// Keeps a table that a damaged manifest does not name, and finds its keyspace.
    fn unnamed_table(&mut self, number: u64) -> Result<Option<(Keyspace, TableMeta)>> {
        let file = filename::table(number);
        let path = self.found.dir.join(&file);
        let fail = |e: std::io::Error| Error::io(&e, "reading", &path);
        let opened = self.disk.open(&path, Access::Read).and_then(|table| Ok((table.len()?, table)));
        self.keep(&file)?;
        let bytes = opened.as_ref().map_or(0, |(bytes, _)| *bytes);
        self.done.bytes_total += bytes;
        let mut loss = Loss { file, keyspace: None, bytes, entries: 0, what: String::new() };
        let read = opened.map_err(fail).and_then(|(_, table)| read_meta(table.as_ref(), &path));
        let (meta, written_for) = match read {
            Ok(read) => read,
            Err(error) if error.is_loss() => {
                // Half a table that was being written when the store stopped looks the same.
                loss.what = format!("no manifest names it, and nothing says what is in it: {error}");
                self.report.losses.push(loss);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let keyspace = match self.keyspace_of(&meta, written_for) {
            Some(keyspace) => keyspace,
            None if self.unplaced < MOST_UNPLACED => {
                self.unplaced += 1;
                let has_merges = self.has_merges(&meta)?;
                self.unplaced(loss.file.trim_end_matches(".table"), has_merges)?
            }
            None => {
                loss.entries = meta.entries;
                loss.what = "no manifest names it, and its keyspace is not known; it was kept and not read"
                    .to_owned();
                self.report.losses.push(loss);
                return Ok(None);
            }
        };
        self.report.unnamed_tables += 1;
        self.report.notes.push(format!(
            "{} of keyspace {:?}: no manifest names it; its items were read, and where another table or the log has the same \
             key, that was taken",
            loss.file,
            keyspace.name()
        ));
        Ok(Some((keyspace, meta)))
    }

    /// The keyspace that a table was written for, as the table says, if the manifest knows it. Tables of
    /// earlier programs don't say: theirs is the keyspace whose digests a table's bounds have and whose
    /// design makes such tables, if that is just one.
    fn keyspace_of(&self, meta: &TableMeta, written_for: u64) -> Option<Keyspace> {
        let secret = HashSecret(self.found.state.secret);
        let rules = self.target.prefix_rules();
        let fits = |state: &KeyspaceState| {
            let encoder = Encoder::new(state.schema, secret);
            let encoder = encoder.with_rules(rules).unwrap_or(encoder);
            let is_same =
                |(digest, key): &(Digest, Vec<u8>)| encoder.encode(key).is_ok_and(|k| k.digest == *digest);
            let history = state.version.history.changes();
            let designs = history.iter().map(|change| &change.from).chain([&state.version.design]);
            let mut levels = designs.flat_map(|design| &design.levels);
            let is_whole = meta.entries > 0 && is_same(&meta.first) && is_same(&meta.last);
            is_whole && (written_for > 0 || levels.any(|level| meta.is_as(level)))
        };
        let states = &self.found.state.keyspaces;
        let mut candidates = states
            .iter()
            .filter(|(id, state)| [0, **id].contains(&written_for) && fits(state))
            .map(|(id, _)| *id);
        match (candidates.next(), candidates.next()) {
            (Some(only), None) => self.keyspaces.get(&only).cloned(),
            _ => None,
        }
    }

    /// A keyspace of its own for what belongs to one that is not known. Where there are merges, it has the
    /// operator that was given for such, or the one that keeps them as they are.
    fn unplaced(&mut self, what: &str, has_merges: bool) -> Result<Keyspace> {
        let name = format!("{LOST_AND_FOUND}-{what}");
        let merge_operator = has_merges.then(|| self.target.unknown_operator().to_owned());
        if merge_operator.as_deref() == Some(UNKNOWN) && !self.target.names().contains(&name) {
            self.report.notes.push(format!(
                "keyspace {name:?} holds merges, and which operator made them is not known: they are kept as they are, and \
                 reading them fails until it is named; repair once more with its name \
                 (`siltstone repair DIR NEW --merge-operator NAME`)"
            ));
        }
        self.target.keyspace(&name, KeyspaceOptions { merge_operator, ..KeyspaceOptions::default() })
    }

    /// Whether a table holds merges, as far as it can be read.
    fn has_merges(&self, meta: &TableMeta) -> Result<bool> {
        let mut has_merges = false;
        let mut look = |_: &[u8], item: Item<'_>| {
            has_merges |= matches!(item, Item::Operands(_));
            Ok(())
        };
        salvage(meta, &self.found.reader, &mut look)?;
        Ok(has_merges)
    }

    /// The numbers of the keyspaces that the log has merges of.
    fn merged_in_log(&self, segments: &[Segment]) -> Result<BTreeSet<u64>> {
        let mut merged = BTreeSet::new();
        for segment in segments.iter().filter(|segment| !segment.payloads.is_empty()) {
            let path = self.found.dir.join(filename::wal(segment.number));
            let bytes = read_file(self.disk, &path).map_err(|e| Error::io(&e, "reading", &path))?;
            for range in &segment.payloads {
                let mut from = Decoder::new(bytes.get(range.clone()).unwrap_or(&[]));
                while let Some(operation) = operation::decode(&mut from) {
                    if let Some(Item::Operands(_)) = operation.item {
                        merged.insert(operation.keyspace);
                    }
                }
            }
        }
        Ok(merged)
    }

    /// Reads the log, also what follows its damage.
    fn log(&mut self, segments: &[Segment]) -> Result<()> {
        let state = &self.found.state;
        // Where the manifest does not say from where on the log counts, all of it does that is without a gap.
        let is_whole = self.found.is_whole;
        let mut first = state.log_start.segment;
        if !is_whole {
            first = segments.last().map_or(0, |last| last.number);
            while segments.iter().any(|segment| segment.number + 1 == first && segment.is_readable) {
                first -= 1;
            }
        } else {
            let start = state.needed_log();
            let bytes = missing_before(segments, start, state.log_end);
            if bytes > 0 {
                self.report.losses.push(Loss {
                    file: filename::wal(start.segment),
                    keyspace: None,
                    bytes,
                    entries: 0,
                    what: "the log began there, and it is missing; what was read of the log comes later"
                        .to_owned(),
                });
            }
        }
        let merged = if is_whole { BTreeSet::new() } else { self.merged_in_log(segments)? };
        for segment in segments {
            self.done.bytes_done += segment.bytes;
            if segment.number >= first {
                self.segment(segment, is_whole, &merged)?;
            } else if !is_whole {
                self.passed_over(segment)?;
            }
            (self.progress)(self.done);
        }
        Ok(())
    }

    /// Keeps a segment that is damaged, and tells what is lost; whether it is.
    fn damage_of(&mut self, segment: &Segment, name: &str) -> Result<bool> {
        let Some(what) = segment.damage.clone() else { return Ok(false) };
        self.keep(name)?;
        let (file, bytes) = (name.to_owned(), segment.lost_bytes);
        self.report.losses.push(Loss { file, keyspace: None, bytes, entries: 0, what });
        Ok(true)
    }

    /// Keeps a segment that comes before a gap, where nothing says from where on the log counts: what it
    /// holds may be older than what the tables do.
    fn passed_over(&mut self, segment: &Segment) -> Result<()> {
        let name = filename::wal(segment.number);
        if !self.damage_of(segment, &name)? && !segment.payloads.is_empty() {
            self.keep(&name)?;
            self.report.notes.push(format!(
                "{name} was kept and not read: segments of the log behind it are missing or can't be read, and what it holds may \
                 be older than the tables"
            ));
        }
        Ok(())
    }

    fn segment(&mut self, segment: &Segment, is_whole: bool, merged: &BTreeSet<u64>) -> Result<()> {
        let name = filename::wal(segment.number);
        self.damage_of(segment, &name)?;
        if segment.payloads.is_empty() {
            return Ok(());
        }
        let path: PathBuf = self.found.dir.join(&name);
        let bytes = read_file(self.disk, &path).map_err(|e| Error::io(&e, "reading", &path))?;
        let mut writer = Writer::new(self.target);
        let mut strange = 0u64;
        for range in &segment.payloads {
            let mut from = Decoder::new(bytes.get(range.clone()).unwrap_or(&[]));
            while !from.is_empty() {
                let Some(Operation { keyspace, key, item, .. }) = operation::decode(&mut from) else {
                    strange += from.remaining() as u64;
                    break;
                };
                let flushed =
                    self.found.state.keyspaces.get(&keyspace).map_or(0, |state| state.flushed.segment);
                if is_whole && segment.number < flushed {
                    continue;
                }
                let target = match self.keyspaces.get(&keyspace) {
                    Some(keyspace) => keyspace.clone(),
                    // Of a keyspace that was dropped, as a whole manifest says.
                    None if is_whole => continue,
                    None => self.unplaced(&format!("log-{keyspace}"), merged.contains(&keyspace))?,
                };
                writer.add(&target, key, item)?;
                self.report.operations += 1;
            }
        }
        writer.write()?;
        if strange > 0 || writer.misfits > 0 {
            self.keep(&name)?;
            let what =
                format!("{} operations make no sense, or do not fit their keyspace", writer.misfits.max(1));
            let entries = writer.misfits;
            self.report.losses.push(Loss { file: name, keyspace: None, bytes: strange, entries, what });
        }
        Ok(())
    }
}
