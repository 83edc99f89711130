//! What is left of a damaged store: as much of its manifest as can be read, and its files.

use crate::cache::{Caches, Reader};
use crate::error::{Error, Result};
use crate::filename::{self, CURRENT};
use crate::io::{Disk, read_file};
use crate::memory::MemoryBudget;
use crate::options::Options;
use crate::record::ManifestEnd;
use crate::table::Table;
use crate::table::envelope::TableMeta;
use crate::version::manifest::{self, Loaded, Parsed, StoreState, parse_current};
use crate::wal::noted_manifest_end;
use siltstone_design::{Encoder, HashSecret, Schema};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is left of a store.
pub(super) struct Found {
    pub dir: PathBuf,
    /// Names of its files.
    pub names: Vec<String>,
    /// What the manifest says, as far as it can be read.
    pub state: StoreState,
    /// The manifest that was read.
    pub manifest: Option<String>,
    /// What is wrong with it, or with CURRENT.
    pub damage: Option<Error>,
    /// Whether it is the newest and nothing is missing of it, so that it can be believed where CURRENT can't:
    /// it then names every table, and says from where on the log counts.
    pub is_whole: bool,
    pub reader: Arc<Reader>,
}

impl Found {
    /// Looks at the store in `dir`.
    pub fn look(disk: &Arc<dyn Disk>, dir: &Path, options: &Options) -> Result<Self> {
        let names = disk.list(dir).map_err(|e| Error::io(&e, "listing", dir))?;
        let memory = MemoryBudget::new(options.memory_budget_bytes);
        let caches = Caches::new(&memory, options.max_open_files);
        let reader = Reader::new(Arc::clone(disk), dir.to_owned(), caches, Arc::default());
        let ReadManifest { name, state, damage, is_whole } =
            read_manifest(disk.as_ref(), dir, &names, options)?;
        let reader = Arc::new(reader);
        Ok(Self { dir: dir.to_owned(), names, state, manifest: name, damage, is_whole, reader })
    }
}

/// A manifest as far as it can be read; the fields are those of [`Found`].
struct ReadManifest {
    name: Option<String>,
    state: StoreState,
    damage: Option<Error>,
    is_whole: bool,
}

/// Reads the manifest that CURRENT names, or else the newest that can be read, and says what is wrong with
/// it.
fn read_manifest(disk: &dyn Disk, dir: &Path, names: &[String], options: &Options) -> Result<ReadManifest> {
    let current = read_file(disk, &dir.join(CURRENT)).unwrap_or_default();
    let current = std::str::from_utf8(&current).ok().and_then(parse_current);
    let mut candidates: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| filename::manifest_number(name).is_some()).collect();
    candidates.sort_by_key(|name| std::cmp::Reverse(filename::manifest_number(name)));
    let (mut damage, mut is_newest) = (None, true);
    if let Some(current) = current {
        candidates.sort_by_key(|name| *name != current.manifest);
    } else {
        damage = Some(Error::corruption(&dir.join(CURRENT), 0, "the name of a manifest", "something else"));
    }
    for name in candidates {
        let path = dir.join(name);
        let parsed = match parse(disk, &path, options) {
            Ok(parsed) if parsed.state.next_id > 0 => parsed,
            Ok(parsed) => {
                (damage, is_newest) = (damage.or(parsed.damage), false);
                continue;
            }
            Err(error) => {
                damage.get_or_insert(error);
                is_newest = false;
                continue;
            }
        };
        let Parsed { state, end, damage: own } = parsed;
        let loaded = Loaded { state, end };
        let begun = current.filter(|current| current.manifest == name).map_or(0, |current| current.synced);
        let begun = ManifestEnd { number: end.number, position: begun };
        let noted = noted_manifest_end(disk, dir)?.max(begun);
        let own = own.or_else(|| loaded.check_end(dir, noted).err());
        let is_whole = is_newest && own.is_none();
        let (name, state, damage) = (Some(name.to_owned()), loaded.state, damage.or(own));
        return Ok(ReadManifest { name, state, damage, is_whole });
    }
    let missing = || Error::missing(&dir.join(filename::manifest(1)));
    let (state, damage) = (StoreState::default(), Some(damage.unwrap_or_else(missing)));
    Ok(ReadManifest { name: None, state, damage, is_whole: false })
}

fn parse(disk: &dyn Disk, path: &Path, options: &Options) -> Result<Parsed> {
    let bytes = read_file(disk, path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::missing(path),
        _ => Error::io(&error, "reading", path),
    })?;
    let mut open = |meta: &TableMeta, schema: &Schema, state: &StoreState| {
        let encoder = Encoder::new(*schema, HashSecret(state.secret));
        let encoder = encoder.with_rules(&options.prefix_rules).unwrap_or(encoder);
        Arc::new(Table::new(meta.clone(), encoder, Arc::default()))
    };
    manifest::parse(&bytes, path, &mut open)
}
