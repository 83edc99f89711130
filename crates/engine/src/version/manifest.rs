//! The manifest: the log of edits, and CURRENT, which names it.
//!
//! ```text
//! CURRENT            "siltstone 1\n" + name of the manifest + "\n" + "synced N\n" + CRC-32C of these lines, 8 hex digits + "\n"
//! MANIFEST-00000001  a log (record.rs, magic "SILTMANI") whose payloads are edits (edit.rs)
//! ```
//!
//! Every edit is synced before anything relies on it, and followed by an empty record that proves it was: a
//! damaged last edit is then told from one that a crash tore. What proves the end of a manifest that was cut
//! off is not in it: CURRENT says how long it was when it was begun, and the write-ahead log how far it has
//! been synced since ([`ManifestEnd`]). A manifest is begun afresh, with the state as
//! it is, at every open and when it has grown to several times that state; CURRENT is replaced by rename.

use super::designs::DesignChange;
use super::edit::{Edit, Step};
use super::version::Version;
use crate::activity::Activity;
use crate::error::{Error, ErrorKind, Result};
use crate::filename::{self, CURRENT, CURRENT_NEW, is_manifest};
use crate::io::{Disk, File, read_file};
use crate::record::{self, Epoch, LOG_HEADER_BYTES, LogHeader, LogReader, LogStart, ManifestEnd};
use crate::table::Table;
use crate::table::envelope::TableMeta;
use siltstone_design::{Design, Schema};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const MAGIC: &[u8; 8] = b"SILTMANI";
const FIRST_LINE: &str = "siltstone 1";
const SYNCED: &str = "synced ";
/// A manifest is rewritten when it passes this and four times its first state.
const REWRITE_BYTES: u64 = 1 << 20;

/// A keyspace as the manifest describes it.
#[derive(Clone)]
pub(crate) struct KeyspaceState {
    pub name: String,
    pub schema: Schema,
    /// Name of the merge operator, where it takes merges.
    pub merge_operator: Option<String>,
    pub version: Version,
    /// Writes before this are in tables.
    pub flushed: LogStart,
    /// The schema that it is to have.
    pub schema_to_come: Option<SchemaToCome>,
}

/// A schema that a keyspace is to have.
#[derive(Clone)]
pub(crate) struct SchemaToCome {
    pub schema: Schema,
    /// The design that it is to have with it.
    pub design: Arc<Design>,
    /// Wall-clock milliseconds at which that was asked for.
    pub at_ms: u64,
}

impl SchemaToCome {
    /// Reads what an edit says.
    fn parse(schema: &str, design: &str, at_ms: u64) -> std::result::Result<Self, String> {
        let broken = |what: &str, e: serde_json::Error| format!("another {what}: {e}");
        let schema = serde_json::from_str(schema).map_err(|e| broken("schema", e))?;
        let design: Design = serde_json::from_str(design).map_err(|e| broken("design", e))?;
        design.check().map_err(|e| e.to_string())?;
        Ok(Self { schema, design: Arc::new(design), at_ms })
    }

    /// Returns schema and design as edits have them.
    pub fn written(&self) -> Result<(String, String)> {
        let json = |error: serde_json::Error| Error::because(ErrorKind::InvalidInput, error).of("schema");
        let schema = serde_json::to_string(&self.schema).map_err(json)?;
        Ok((schema, serde_json::to_string(&*self.design).map_err(json)?))
    }

    /// Returns the step that says so.
    pub fn to_step(&self) -> Result<Step> {
        let (schema, design) = self.written()?;
        Ok(Step::SchemaChange { schema, design, at_ms: self.at_ms })
    }
}

impl KeyspaceState {
    /// Takes a step about its schema.
    fn change_schema(&mut self, step: &Step) -> std::result::Result<(), String> {
        match step {
            Step::SchemaChange { schema, design, at_ms } => {
                self.schema_to_come = Some(SchemaToCome::parse(schema, design, *at_ms)?);
            }
            Step::SchemaKept => self.schema_to_come = None,
            Step::SchemaChanged { schema, design, sequence, at_ms } => {
                let SchemaToCome { schema, design, .. } = SchemaToCome::parse(schema, design, *at_ms)?;
                self.version = Version::new(design).following(&self.version, (*sequence, *at_ms));
                (self.schema, self.schema_to_come) = (schema, None);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A store as the manifest describes it.
#[derive(Clone, Default)]
pub(crate) struct StoreState {
    pub next_id: u64,
    pub secret: [u8; 16],
    pub log_start: LogStart,
    /// The log is synced up to this LSN at least.
    pub log_end: u64,
    /// How far the store's clock came; 0 where nothing expires.
    pub clock_ms: u64,
    /// Memory that whoever had it open for writing last gave it; 0 where nobody said.
    pub memory_budget_bytes: u64,
    pub keyspaces: BTreeMap<u64, KeyspaceState>,
}

impl StoreState {
    /// Returns from where on the log is needed. Where a crash came between a flush and the note that the log
    /// begins later, that is behind what the manifest says of the log itself; segments before are not read,
    /// whatever has become of them.
    pub fn needed_log(&self) -> LogStart {
        let flushed = self.keyspaces.values().map(|keyspace| keyspace.flushed).min();
        flushed.map_or(self.log_start, |flushed| flushed.max(self.log_start))
    }

    /// Applies one edit, or says why it can't be; the state is of no use then.
    fn apply(
        &mut self,
        edit: &Edit,
        open: &mut dyn FnMut(&TableMeta, &Schema) -> Arc<Table>,
    ) -> std::result::Result<(), String> {
        for step in &edit.steps {
            match step {
                Step::NextId(id) => self.next_id = *id,
                Step::Secret(secret) => self.secret = *secret,
                Step::LogStart(start) => self.log_start = *start,
                Step::LogEnd(lsn) => self.log_end = *lsn,
                Step::Clock(ms) => self.clock_ms = self.clock_ms.max(*ms),
                Step::MemoryBudget(bytes) => self.memory_budget_bytes = *bytes,
                Step::Created { name, schema, design } => {
                    let broken = |what: &str, e: serde_json::Error| format!("keyspace {name}'s {what}: {e}");
                    let design: Design = serde_json::from_str(design).map_err(|e| broken("design", e))?;
                    design.check().map_err(|e| e.to_string())?;
                    let keyspace = KeyspaceState {
                        name: name.clone(),
                        schema: serde_json::from_str(schema).map_err(|e| broken("schema", e))?,
                        merge_operator: None,
                        version: Version::new(Arc::new(design)),
                        flushed: self.log_start,
                        schema_to_come: None,
                    };
                    self.keyspaces.insert(edit.keyspace, keyspace);
                }
                Step::Dropped => {
                    self.keyspaces.remove(&edit.keyspace);
                }
                Step::Replaced { by } => {
                    let there_is_none = || format!("keyspace {by} is to replace another, but is not there");
                    let by = self.keyspaces.remove(by).ok_or_else(there_is_none)?;
                    if let Some(keyspace) = self.keyspaces.get_mut(&edit.keyspace) {
                        keyspace.version = by.version.in_place_of(&keyspace.version);
                    }
                }
                Step::Cleared => {
                    if let Some(keyspace) = self.keyspaces.get_mut(&edit.keyspace) {
                        let empty = Version::new(Arc::clone(&keyspace.version.design));
                        keyspace.version = empty.in_place_of(&keyspace.version);
                    }
                }
                Step::SchemaChange { .. } | Step::SchemaKept | Step::SchemaChanged { .. } => {
                    if let Some(keyspace) = self.keyspaces.get_mut(&edit.keyspace) {
                        keyspace.change_schema(step)?;
                    }
                }
                // A number is never used again, not even that of a table long gone: entries speak of tables
                // by number.
                Step::AddRun { run, .. } => {
                    let largest = run.tables.iter().map(|table| table.id).fold(run.id, u64::max);
                    self.next_id = self.next_id.max(largest + 1);
                }
                _ => {}
            }
        }
        let Some(keyspace) = self.keyspaces.get_mut(&edit.keyspace) else { return Ok(()) };
        for step in &edit.steps {
            match step {
                Step::Flushed { start, .. } => keyspace.flushed = *start,
                Step::MergeOperator(name) => keyspace.merge_operator = Some(name.clone()),
                _ => {}
            }
        }
        let schema = keyspace.schema;
        keyspace.version.change(edit, &mut |meta| open(meta, &schema)).map(drop)
    }

    /// Edits that build this state from nothing.
    fn to_edits(&self) -> Result<Vec<Edit>> {
        let mut steps = vec![
            Step::NextId(self.next_id),
            Step::Secret(self.secret),
            Step::LogStart(self.log_start),
            Step::LogEnd(self.log_end),
        ];
        steps.extend((self.clock_ms > 0).then_some(Step::Clock(self.clock_ms)));
        let budget = self.memory_budget_bytes;
        steps.extend((budget > 0).then_some(Step::MemoryBudget(budget)));
        let mut edits = vec![Edit { keyspace: 0, steps }];
        for (&id, keyspace) in &self.keyspaces {
            let json = |e: serde_json::Error| Error::because(ErrorKind::InvalidInput, e).of("design");
            let version = &keyspace.version;
            let changes = version.history.changes();
            let first = changes.first().map_or(&version.design, |change| &change.from);
            let mut steps = vec![
                Step::Created {
                    name: keyspace.name.clone(),
                    schema: serde_json::to_string(&keyspace.schema).map_err(json)?,
                    design: serde_json::to_string(&**first).map_err(json)?,
                },
                Step::Flushed { start: keyspace.flushed, user_bytes: version.user_bytes },
            ];
            steps.extend(keyspace.merge_operator.clone().map(Step::MergeOperator));
            steps.extend(keyspace.schema_to_come.as_ref().map(SchemaToCome::to_step).transpose()?);
            let activity = version.activity;
            steps.extend((activity != Activity::default()).then(|| Step::Activity(Box::new(activity))));
            for change in changes {
                let design = serde_json::to_string(&*change.to).map_err(json)?;
                let DesignChange { sequence, at_ms, first_run, chosen, .. } = *change;
                steps.push(Step::Redesigned { design, sequence, at_ms, first_run, chosen });
                steps.extend(change.settled_ms.map(|at_ms| Step::Settled { at_ms }));
            }
            steps.extend(version.to_steps());
            edits.push(Edit { keyspace: id, steps });
        }
        Ok(edits)
    }
}

/// The bytes of manifest `number` that holds `state`.
pub(crate) fn encode(number: u64, epoch: Epoch, state: &StoreState) -> Result<Vec<u8>> {
    let mut bytes = LogHeader { number, epoch, first_lsn: 0 }.encode(MAGIC);
    for edit in state.to_edits()? {
        let position = bytes.len() as u64 - LOG_HEADER_BYTES;
        record::append(&mut bytes, epoch, position, 0, &edit.encode());
    }
    Ok(bytes)
}

/// The manifest's writing end.
pub(crate) struct Manifest {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    number: u64,
    file: Arc<dyn File>,
    epoch: Epoch,
    end: u64,
    synced: u64,
    first_bytes: u64,
    bytes_written: u64,
    /// A sync failed: what was appended may be lost, and an edit behind it would make that look like damage.
    has_lost: bool,
}

impl Manifest {
    /// Begins manifest `number` with `state` and makes it the current one.
    pub fn create(disk: Arc<dyn Disk>, dir: &Path, number: u64, state: &StoreState) -> Result<Self> {
        let path = dir.join(filename::manifest(number));
        let epoch = Epoch(disk.random_u64());
        let bytes = encode(number, epoch, state)?;
        let fail = |e: std::io::Error| Error::io(&e, "writing manifest", &path);
        let file = disk.create(&path).map_err(fail)?;
        file.write_all_at(&bytes, 0).map_err(fail)?;
        file.sync().map_err(fail)?;
        let end = bytes.len() as u64 - LOG_HEADER_BYTES;
        let bytes_written = bytes.len() as u64;
        let dir = dir.to_owned();
        let (synced, first_bytes, has_lost) = (end, end, false);
        let mut manifest =
            Self { disk, dir, number, file, epoch, end, synced, first_bytes, bytes_written, has_lost };
        manifest.mark_synced();
        manifest.make_current()?;
        Ok(manifest)
    }

    fn make_current(&self) -> Result<()> {
        let name = filename::manifest(self.number);
        let lines = format!("{FIRST_LINE}\n{name}\n{SYNCED}{}\n", self.synced);
        let text = format!("{lines}{:08x}\n", crc32c::crc32c(lines.as_bytes()));
        let (new, current) = (self.dir.join(CURRENT_NEW), self.dir.join(CURRENT));
        let fail = |e: std::io::Error| Error::io(&e, "writing", &current);
        let file = self.disk.create(&new).map_err(fail)?;
        file.write_all_at(text.as_bytes(), 0).map_err(fail)?;
        file.sync().map_err(fail)?;
        // The manifest's own name must not be lost while CURRENT's new one is kept.
        self.disk.sync_dir(&self.dir).map_err(fail)?;
        self.disk.rename(&new, &current).map_err(fail)?;
        self.disk.sync_dir(&self.dir).map_err(fail)
    }

    /// Appends an edit without syncing it. After an error nothing was appended; after a failed sync nothing
    /// is.
    pub fn append(&mut self, edit: &Edit) -> Result<()> {
        self.append_all(std::slice::from_ref(edit))
    }

    /// Appends edits in one write without syncing them. After an error nothing was appended, or a crash finds
    /// the first of them.
    pub fn append_all(&mut self, edits: &[Edit]) -> Result<()> {
        self.check_kept()?;
        let mut bytes = Vec::new();
        for edit in edits {
            let position = self.end + bytes.len() as u64;
            record::append(&mut bytes, self.epoch, position, self.synced, &edit.encode());
        }
        self.write(&bytes)
    }

    /// Fails after a failed sync: what was written before it may be lost, and a later sync that succeeds says
    /// nothing of that.
    fn check_kept(&self) -> Result<()> {
        if !self.has_lost {
            return Ok(());
        }
        let error = std::io::Error::other("an earlier sync of it failed");
        Err(Error::io(&error, "writing manifest", &self.path()))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, LOG_HEADER_BYTES + self.end)
            .map_err(|e| Error::io(&e, "writing manifest", &self.path()))?;
        self.end += bytes.len() as u64;
        self.bytes_written += bytes.len() as u64;
        Ok(())
    }

    /// Makes sure that an edit whose writing failed is not there, not even after a crash: an empty record
    /// takes its place.
    pub fn withdraw(&mut self) -> Result<()> {
        self.check_kept()?;
        let mut mark = Vec::new();
        record::append(&mut mark, self.epoch, self.end, self.synced, &[]);
        self.write(&mark)?;
        self.sync()
    }

    /// Makes appended edits durable; a failure poisons a store.
    pub fn sync(&mut self) -> Result<()> {
        let synced = self.file.sync().map_err(|e| Error::io(&e, "syncing manifest", &self.path()));
        self.has_lost |= synced.is_err();
        synced?;
        self.synced = self.end;
        self.mark_synced();
        Ok(())
    }

    /// Appends a record that proves the earlier ones synced. It matters only if it is there, so errors don't.
    fn mark_synced(&mut self) {
        let mut mark = Vec::new();
        record::append(&mut mark, self.epoch, self.end, self.synced, &[]);
        let _ = self.write(&mark);
    }

    fn path(&self) -> PathBuf {
        self.dir.join(filename::manifest(self.number))
    }

    /// How far it is synced.
    pub fn synced_end(&self) -> ManifestEnd {
        ManifestEnd { number: self.number, position: self.synced }
    }

    /// Whether the log of edits has outgrown the state it describes.
    pub fn wants_rewrite(&self) -> bool {
        self.end > REWRITE_BYTES.max(4 * self.first_bytes)
    }

    /// Begins the next manifest with `state` and removes this one.
    pub fn rewrite(&mut self, state: &StoreState) -> Result<()> {
        let mut next = Self::create(Arc::clone(&self.disk), &self.dir, self.number + 1, state)?;
        next.bytes_written += self.bytes_written;
        let old = std::mem::replace(self, next);
        // Left behind, it would be removed at the next open.
        let _ = self.disk.remove(&old.path());
        Ok(())
    }

    /// Bytes written to manifests since the store was opened.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }
}

/// What CURRENT and the manifest say.
pub(crate) struct Loaded {
    pub state: StoreState,
    /// Where the manifest ends.
    pub end: ManifestEnd,
}

impl Loaded {
    /// Compares the manifest with how far one is known to have been synced.
    ///
    /// # Errors
    /// `Corruption` where it is cut off, or where CURRENT names an earlier one.
    pub fn check_end(&self, dir: &Path, synced: ManifestEnd) -> Result<()> {
        if synced.number > self.end.number {
            let (expected, found) = (filename::manifest(synced.number), filename::manifest(self.end.number));
            return Err(Error::corruption(&dir.join(CURRENT), 0, expected, found).and(MANIFEST_ADVICE));
        }
        if synced.number == self.end.number && synced.position > self.end.position {
            let path = dir.join(filename::manifest(self.end.number));
            return Err(cut_off(&path, self.end.position));
        }
        Ok(())
    }
}

/// What to do about a damaged manifest.
const MANIFEST_ADVICE: &str = "restore the file from a copy, or salvage all that is readable into a new store: `siltstone repair DIR NEW`, \
     or Db::repair in the library";

/// What to say of a manifest that ends at `position` and had been synced further.
fn cut_off(path: &Path, position: u64) -> Error {
    let at = LOG_HEADER_BYTES + position;
    Error::corruption(path, at, "an edit that had been synced", "none").and(MANIFEST_ADVICE)
}

/// What CURRENT says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Current<'a> {
    /// Name of the manifest.
    pub manifest: &'a str,
    /// Position up to which it was synced when CURRENT was written; earlier programs did not say.
    pub synced: u64,
}

/// Reads CURRENT's text.
pub(crate) fn parse_current(text: &str) -> Option<Current<'_>> {
    let (lines, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let with_newline = text.get(..lines.len() + 1)?;
    let (first, rest) = lines.split_once('\n')?;
    let sound =
        first == FIRST_LINE && u32::from_str_radix(crc, 16).ok()? == crc32c::crc32c(with_newline.as_bytes());
    let (manifest, synced) = match rest.split_once('\n') {
        Some((name, synced)) => (name, synced.strip_prefix(SYNCED)?.parse().ok()?),
        None => (rest, 0),
    };
    (sound && is_manifest(manifest)).then_some(Current { manifest, synced })
}

/// Reads the manifest that CURRENT names; `None` where there is no CURRENT.
pub(crate) fn load(
    disk: &dyn Disk,
    dir: &Path,
    open: &mut dyn FnMut(&TableMeta, &Schema, &StoreState) -> Arc<Table>,
) -> Result<Option<Loaded>> {
    let current = dir.join(CURRENT);
    let text = match read_file(disk, &current) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(&e, "reading", &current)),
    };
    let found = std::str::from_utf8(&text).ok().and_then(parse_current).ok_or_else(|| {
        Error::corruption(&current, 0, "the name of a manifest", "something else").and(
            "`siltstone repair DIR NEW`, or Db::repair, reads the store into a new one, and finds the manifest by itself",
        )
    })?;
    let path = dir.join(found.manifest);
    let bytes = read_file(disk, &path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::corruption(&path, 0, "the manifest that CURRENT names", "no such file")
        }
        _ => Error::io(&e, "reading", &path),
    })?;
    let Parsed { state, end, damage } = parse(&bytes, &path, open)?;
    if let Some(damage) = damage {
        return Err(damage);
    }
    if found.synced > end.position {
        return Err(cut_off(&path, end.position));
    }
    if state.next_id == 0 {
        let error = Error::corruption(&path, LOG_HEADER_BYTES, "the store's first edit", "none");
        return Err(error.and(MANIFEST_ADVICE));
    }
    Ok(Some(Loaded { state, end }))
}

/// As much of a manifest as makes sense.
pub(crate) struct Parsed {
    /// The state after the last good edit.
    pub state: StoreState,
    /// Where the good part ends.
    pub end: ManifestEnd,
    /// What ended it too early, if that can be told from the file.
    pub damage: Option<Error>,
}

/// Reads the bytes of the manifest at `path`.
///
/// # Errors
/// `Corruption` where they have no header of a manifest, `InvalidInput` where it is of another version.
pub(crate) fn parse(
    bytes: &[u8],
    path: &Path,
    open: &mut dyn FnMut(&TableMeta, &Schema, &StoreState) -> Arc<Table>,
) -> Result<Parsed> {
    let damaged = |at: u64, expected: &str, found: String| {
        Error::corruption(path, LOG_HEADER_BYTES + at, expected, found).and(MANIFEST_ADVICE)
    };
    let header = LogHeader::decode(MAGIC, bytes, path)?.ok_or_else(|| {
        Error::corruption(path, 0, "a manifest header", "something else").and(MANIFEST_ADVICE)
    })?;
    let mut reader = LogReader::new(bytes.get(LOG_HEADER_BYTES as usize..).unwrap_or(&[]), 0, header.epoch);
    let mut state = StoreState::default();
    while let Some((position, payload)) = reader.next_record() {
        if payload.is_empty() {
            continue;
        }
        let secret_holder = StoreState { secret: state.secret, ..StoreState::default() };
        let Some(edit) = Edit::decode(payload) else {
            let damage = Some(damaged(position, "an edit", "steps this program can't read".into()));
            return Ok(Parsed { state, end: ManifestEnd { number: header.number, position }, damage });
        };
        if let Err(what) = state.apply(&edit, &mut |meta, schema| open(meta, schema, &secret_holder)) {
            // Part of the edit has happened: what stands before it is read once more.
            let before = bytes.get(..(LOG_HEADER_BYTES + position) as usize).unwrap_or(&[]);
            let damage = Some(damaged(position, "an edit of the state before it", what));
            return Ok(Parsed { damage, ..parse(before, path, open)? });
        }
    }
    let end = reader.end();
    let is_damaged = end.proven_synced > end.position;
    let damage = is_damaged.then(|| damaged(end.position, "a record that had been synced", "none".into()));
    let end = ManifestEnd { number: header.number, position: end.position };
    Ok(Parsed { state, end, damage })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::{CallKind, Fault, FaultError, SimDisk};

    const DIR: &str = "/db";

    /// The manifest of a store that has never held anything, and its disk.
    fn created() -> (SimDisk, Manifest) {
        let (disk, dir) = (SimDisk::new(), Path::new(DIR));
        disk.create_dir_all(dir).unwrap();
        let manifest = Manifest::create(Arc::new(disk.clone()), dir, 1, &StoreState::default());
        (disk, manifest.unwrap())
    }

    #[test]
    fn nothing_is_left_of_an_edit_that_does_not_fit() {
        let (disk, mut manifest) = created();
        let schema = serde_json::to_string(&Schema::Point).unwrap();
        let design = serde_json::to_string(&Design::default()).unwrap();
        let created = Step::Created { name: "items".into(), schema, design };
        manifest.append(&Edit { keyspace: 1, steps: vec![created] }).unwrap();
        let good_end = manifest.synced_end().position;
        let no_run = Step::RemoveRun { level: 0, path: siltstone_design::TriePath::ROOT, run: 77 };
        let steps = vec![Step::NextId(9), Step::Written { level: 0, bytes: 5 }, no_run];
        manifest.append(&Edit { keyspace: 1, steps }).unwrap();
        manifest.sync().unwrap();
        let path = Path::new(DIR).join("MANIFEST-00000001");
        let bytes = read_file(&disk, &path).unwrap();
        let parsed = parse(&bytes, &path, &mut |_, _, _| unreachable!("there are no tables")).unwrap();
        assert!(parsed.damage.unwrap().to_string().contains("run 77 is to go"), "{:?}", parsed.end);
        assert!(parsed.end.position >= good_end);
        assert_ne!(parsed.state.next_id, 9);
        assert!(parsed.state.keyspaces[&1].version.levels.iter().all(|level| level.bytes_written == 0));
    }

    /// It synced the manifest once more, and took what the failed sync had lost for kept.
    #[test]
    fn no_edit_is_withdrawn_from_a_manifest_whose_sync_failed() {
        let (disk, mut manifest) = created();
        let before = manifest.synced_end();
        let edit = Edit { keyspace: 0, steps: vec![Step::NextId(7)] };
        manifest.append(&edit).unwrap();
        disk.inject(Fault::new(CallKind::Sync, FaultError::Io));
        assert!(manifest.sync().is_err());
        disk.clear_faults();
        assert!(manifest.append(&edit).is_err());
        assert!(manifest.withdraw().is_err());
        assert_eq!(manifest.synced_end().position, before.position);
    }
}
