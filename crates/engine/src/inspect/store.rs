//! A store's directory: its files by kind, and what the manifest says of its keyspaces.
//!
//! Nothing is opened but CURRENT and the manifest, so this takes as long for a store of any size, and works
//! for one that is damaged or open in another process. What is in a file, [`file`](super::file) says.

use super::unnamed_manifest;
use crate::db::level_stats;
use crate::db::open::directory;
use crate::error::{Error, Result};
use crate::filename::{self, CURRENT};
use crate::io::os::OsDisk;
use crate::io::{Access, Disk, read_file};
use crate::record::ManifestEnd;
use crate::stats::{DesignChange, LevelStats};
use crate::table::Table;
use crate::version::manifest::{self, KeyspaceState, Parsed, StoreState, parse_current};
use serde::Serialize;
use siltstone_design::{Design, Encoder, HashSecret, Schema};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// How often the files of a store that another process is writing are looked at until they agree.
const TRIES: usize = 20;

/// What a store's directory holds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StoreInspection {
    /// Name of the manifest that counts; none where that can't be told.
    pub manifest: Option<String>,
    /// Its files by kind, in the order of the kinds' names.
    pub files: Vec<FilesInspection>,
    /// Its keyspaces by name, as far as the manifest can be read.
    pub keyspaces: Vec<KeyspaceInspection>,
    /// What is wrong, a sentence each.
    pub damage: Vec<String>,
}

impl StoreInspection {
    /// Whether a file that the store needs is missing, has another length or can't be read.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let dir = dir.path().join("db");
    /// siltstone::Db::open(&dir, siltstone::Options::default())?.close()?;
    /// assert!(!siltstone::inspect::store(&dir)?.is_damaged());
    /// std::fs::write(dir.join("CURRENT"), "nonsense").unwrap();
    /// assert!(siltstone::inspect::store(&dir)?.is_damaged());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }
}

/// The files of one kind.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct FilesInspection {
    /// The kind: `table`, `wal`, `sidecar`, `manifest`, or `other` of the few that a store has one of.
    pub kind: &'static str,
    /// Their number.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them the store does not need: tables and manifests that nothing names. Work under way
    /// makes such files, and a crash leaves them.
    pub unneeded: u64,
}

/// A keyspace as the manifest describes it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KeyspaceInspection {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// How its keys are divided.
    pub schema: Schema,
    /// The schema that it is to have, where it is getting another.
    pub schema_to_come: Option<Schema>,
    /// Name of its design: of a preset, or `custom`.
    pub preset: String,
    /// Its design.
    pub design: Design,
    /// Its merge operator, where it takes merges.
    pub merge_operator: Option<String>,
    /// What its levels hold, top first. Filters of regions do not stand in the manifest and count as nothing.
    pub levels: Vec<LevelStats>,
    /// The redesigns that it has had, oldest first; of very many only the last.
    pub history: Vec<DesignChange>,
}

/// Says what the store in `dir` consists of, without opening it or reading its tables.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let dir = dir.path().join("db");
/// use siltstone::{Db, KeyspaceOptions, Options, inspect, presets};
///
/// let db = Db::open(&dir, Options::default())?;
/// let items = db.keyspace("items", KeyspaceOptions::default())?;
/// items.put("key", "value")?;
/// db.flush()?;
/// items.redesign(presets::lean())?;
/// let store = inspect::store(&dir)?;
/// assert!(!store.is_damaged());
/// let items = &store.keyspaces[0];
/// assert_eq!((items.name.as_str(), items.preset.as_str()), ("items", "lean"));
/// assert_eq!(items.levels.iter().map(|level| level.entries).sum::<u64>(), 1);
/// assert_eq!(items.history[0].to, presets::lean());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `NotAStore` for directories without a store, `Io` where they can't be read.
pub fn store(dir: &Path) -> Result<StoreInspection> {
    let disk = OsDisk;
    let mut tries = 0;
    loop {
        tries += 1;
        let (inspection, end) = look(&disk, dir)?;
        // Where the writer moved files under us, the manifest goes on meanwhile.
        let is_settled = !inspection.is_damaged() || end == Named::read(&disk, dir).end;
        if is_settled || tries >= TRIES {
            return Ok(inspection);
        }
    }
}

/// What CURRENT and the manifest that it names say, as far as they can be read.
#[derive(Default)]
struct Named {
    manifest: Option<String>,
    state: StoreState,
    end: Option<ManifestEnd>,
    damage: Option<Error>,
}

impl Named {
    fn read(disk: &dyn Disk, dir: &Path) -> Self {
        let path = dir.join(CURRENT);
        let damaged = |damage| Self { damage: Some(damage), ..Self::default() };
        let text = match read_file(disk, &path) {
            Ok(text) => text,
            Err(error) => return damaged(Error::io(&error, "reading", &path)),
        };
        let current = std::str::from_utf8(&text).ok().and_then(parse_current);
        let Some(current) = current else { return damaged(unnamed_manifest(&path)) };
        let path = dir.join(current.manifest);
        let open = &mut |meta: &_, schema: &Schema, state: &StoreState| {
            // No key is looked up, so a rule that this program does not know makes no difference.
            Arc::new(Table::new(
                Clone::clone(meta),
                Encoder::new(*schema, HashSecret(state.secret)),
                Arc::default(),
            ))
        };
        let bytes = read_file(disk, &path).map_err(|error| Error::io(&error, "reading", &path));
        let parsed = bytes.and_then(|bytes| manifest::parse(&bytes, &path, open));
        let manifest = Some(current.manifest.to_owned());
        match parsed {
            Ok(Parsed { state, end, damage }) => Self { manifest, state, end: Some(end), damage },
            Err(error) => Self { manifest, damage: Some(error), ..Self::default() },
        }
    }
}

/// Looks at a store once, and says where its manifest ended.
fn look(disk: &dyn Disk, dir: &Path) -> Result<(StoreInspection, Option<ManifestEnd>)> {
    let Named { manifest, state, end, damage } = Named::read(disk, dir);
    let names = directory::names(disk, dir)?.ok_or_else(|| directory::missing(dir))?;
    directory::check_is_store(&names, dir, false)?;
    if !names.iter().any(|name| name == CURRENT) {
        return Err(directory::missing(dir));
    }
    let mut damage: Vec<String> = damage.iter().map(ToString::to_string).collect();
    let tables: BTreeMap<String, u64> = state
        .keyspaces
        .values()
        .flat_map(|keyspace| keyspace.version.tables())
        .map(|table| (filename::table(table.id()), table.meta().bytes))
        .collect();
    let mut missing: BTreeSet<&str> = tables.keys().map(String::as_str).collect();
    let mut kinds: BTreeMap<&str, FilesInspection> = BTreeMap::new();
    for name in names.iter().filter(|name| filename::is_ours(name)) {
        // A file may go while we look.
        let length = disk.open(&dir.join(name), Access::Read).and_then(|file| file.len());
        let Ok(bytes) = length else { continue };
        missing.remove(name.as_str());
        let kind = kind_of(name);
        let files =
            kinds.entry(kind).or_insert_with(|| FilesInspection { kind, ..FilesInspection::default() });
        files.files += 1;
        files.bytes += bytes;
        let is_needed = match kind {
            // Where the manifest can't be read, nobody knows.
            "table" => end.is_none() || tables.contains_key(name),
            "manifest" => manifest.is_none() || manifest.as_deref() == Some(name),
            _ => true,
        };
        files.unneeded += u64::from(!is_needed);
        if let Some(expected) = tables.get(name).filter(|expected| **expected != bytes) {
            damage.push(format!("{name} has {bytes} bytes, and {expected} by the manifest"));
        }
    }
    damage.extend(missing.into_iter().map(|name| format!("{name} is missing")));
    let mut keyspaces: Vec<KeyspaceInspection> =
        state.keyspaces.iter().map(|(id, keyspace)| described(*id, keyspace)).collect();
    keyspaces.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((StoreInspection { manifest, files: kinds.into_values().collect(), keyspaces, damage }, end))
}

fn kind_of(name: &str) -> &'static str {
    match name {
        _ if filename::is_table(name) => "table",
        _ if filename::is_wal(name) => "wal",
        _ if filename::is_sidecar(name) => "sidecar",
        _ if filename::is_manifest(name) => "manifest",
        _ => "other",
    }
}

fn described(id: u64, keyspace: &KeyspaceState) -> KeyspaceInspection {
    let version = &keyspace.version;
    KeyspaceInspection {
        id,
        name: keyspace.name.clone(),
        schema: keyspace.schema,
        schema_to_come: keyspace.schema_to_come.as_ref().map(|change| change.schema),
        preset: version.design.preset_name(),
        design: Design::clone(&version.design),
        merge_operator: keyspace.merge_operator.clone(),
        levels: version.levels.iter().map(|level| level_stats(version, level)).collect(),
        history: version.history.changes().iter().map(DesignChange::from).collect(),
    }
}
