//! Verification: every byte of every table of a snapshot is read and checked against what it should be.

use super::verify_table::{TableCheck, TablePlace};
use crate::db::catalog::{Pinned, PinnedKeyspace};
use crate::db::store::Store;
use crate::db::write_buffer::WriteBuffer;
use crate::entry::Span;
use crate::error::Result;
use crate::version::check;
use serde::Serialize;
use siltstone_design::Encoder;

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
    /// Entries in write buffers: what of the log is not in tables yet. The log was checked when the store was
    /// opened; what log stores serve from it is read again.
    pub log_entries: u64,
    /// Sidecars of filters on the device that were read.
    pub sidecars: u64,
    /// Bytes of these sidecars.
    pub sidecar_bytes: u64,
    /// What is wrong, a sentence each; empty where the store is sound.
    pub problems: Vec<String>,
    /// What is damaged or missing of sidecars, a sentence each: answers are the same without them, and they
    /// are made anew.
    pub notes: Vec<String>,
    /// What to do about the problems, a sentence each.
    pub advice: Vec<String>,
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

/// Reads every byte of what `pinned` holds and checks it.
pub(in crate::db) fn verify(
    store: &Store,
    pinned: &Pinned,
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<VerifyReport> {
    let notes = store.sidecars.notes_of_opening(|| store.scheduler.lacks_filters(false));
    let report = VerifyReport { notes, ..VerifyReport::default() };
    let tables = || pinned.keyspaces.values().flat_map(|pinned| pinned.view.version.tables());
    let bytes_total = tables().map(|table| table.meta().bytes).sum();
    let mut verification = Verification { store, pinned, report, bytes_total };
    for keyspace in pinned.keyspaces.values().filter(|pinned| pinned.keyspace.check_exists().is_ok()) {
        verification.verify_keyspace(keyspace, progress)?;
    }
    verification.report.advise();
    Ok(verification.report)
}

impl VerifyReport {
    /// A report of a store that can't be opened because of `problem`.
    pub(in crate::db) fn of(problem: String) -> Self {
        let mut report = Self { problems: vec![problem], ..Self::default() };
        report.advise();
        report
    }

    /// Says what to do about the problems.
    pub(in crate::db) fn advise(&mut self) {
        self.advice.clear();
        if !self.problems.is_empty() {
            let advice = "restore a backup or a checkpoint that is older than the damage, or read all that can be read into a new \
                          store: `siltstone repair DIR NEW`, or Db::repair";
            self.advice.push(advice.to_owned());
        }
    }
}

/// A verification under way.
struct Verification<'a> {
    store: &'a Store,
    pinned: &'a Pinned,
    report: VerifyReport,
    bytes_total: u64,
}

impl Verification<'_> {
    fn verify_keyspace(
        &mut self,
        pinned: &PinnedKeyspace,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> Result<()> {
        let PinnedKeyspace { keyspace, view } = pinned;
        for buffer in view.buffers() {
            self.report.log_entries += buffer.entries();
            let read = self.verify_buffer(buffer, keyspace.encoder);
            self.note(read.map(|()| None))?;
        }
        let structure = check::problems(&view.version);
        let named = structure.into_iter().map(|problem| format!("keyspace {:?}: {problem}", keyspace.name));
        self.report.problems.extend(named);
        let mut found = self.store.sidecars.verify(keyspace, &view.version)?;
        self.report.sidecars += found.sidecars;
        self.report.sidecar_bytes += found.bytes;
        self.report.notes.append(&mut found.notes);
        let regions = view.version.levels.iter().flat_map(|level| &level.regions);
        let places = regions.flat_map(|region| {
            let runs = region.runs.iter().enumerate();
            runs.flat_map(move |(at, run)| run.tables.iter().map(move |table| (region, at, table)))
        });
        for (region, at, table) in places {
            let path = self.store.env.reader.path(table.id());
            let mut check =
                TableCheck::new(&self.store.env, TablePlace { region, at, table }, &keyspace.encoder);
            let checked = check.run();
            self.report.entries += check.entries;
            self.report.problems.append(&mut check.problems);
            self.note(checked.map(|found| found.map(|problem| format!("{}: {problem}", path.display()))))?;
            self.report.tables += 1;
            self.report.pages += u64::from(table.meta().pages);
            self.report.bytes += table.meta().bytes;
            progress(VerifyProgress { bytes_done: self.report.bytes, bytes_total: self.bytes_total });
        }
        Ok(())
    }

    /// Notes a problem, or a loss that a reader met; other errors are passed on.
    fn note(&mut self, found: Result<Option<String>>) -> Result<()> {
        match found {
            Err(error) if error.is_loss() => {
                self.report.problems.push(error.to_string());
            }
            found => self.report.problems.extend(found?),
        }
        Ok(())
    }

    /// Reads everything in a write buffer.
    fn verify_buffer(&self, buffer: &WriteBuffer, encoder: Encoder) -> Result<()> {
        let scan = buffer.scan(self.pinned.point.sequence, encoder, &self.store.env.reader, true)?;
        let mut cursor = scan.stream(&Span::ALL)?;
        while cursor.peek().is_some() {
            cursor.advance()?;
        }
        Ok(())
    }
}
