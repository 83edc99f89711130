//! Sidecars of an open store: found again when it is opened, kept when it is closed, checked, and given up
//! where they are damaged.
//!
//! One rule for all. Damage costs reads and no answer, so it is noted and makes nothing unsound. What is
//! missing is made anew from the tables: files that are damaged in front of their pages are given up when the
//! store is opened for writing; pages are read once in the background when there is nothing else to do, and
//! whenever a lookup or a verification comes to them.

use super::catalog::Catalog;
use super::catalog::keyspace::OpenKeyspace;
use super::env::Env;
use crate::cache::PAGE_BYTES;
use crate::error::{Error, ErrorKind, Result};
use crate::filename;
use crate::ids::{FileId, SidecarId};
use crate::io::Access;
use crate::region_filter::sidecar::{self, Malformed, RecordsWriter, SidecarPages, SidecarRecord};
use crate::region_filter::{NewRegionFilter, RegionFilter, RegionFilterKind};
use crate::sync::Mutex;
use crate::version::{Region, Version};
use siltstone_design::HashSecret;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Pages read at once.
const READ_PAGES: u32 = 64;
/// What is said of any damage to a sidecar.
const HARMLESS: &str = "answers are unaffected, gets read more until the file is made anew from the tables, in the background of a \
                        store that is open for writing";

/// The sidecars of an open store.
pub(crate) struct Sidecars {
    env: Arc<Env>,
    catalog: Arc<Catalog>,
    /// What was found damaged or missing when the store was opened.
    notes: Mutex<Vec<String>>,
    /// Sidecars without pages, which closing writes anew.
    records: Mutex<Vec<SidecarId>>,
}

/// What a verification found of sidecars.
#[derive(Default)]
pub(crate) struct SidecarsFound {
    pub sidecars: u64,
    pub bytes: u64,
    /// What is damaged or missing, a sentence each.
    pub notes: Vec<String>,
}

/// What a sidecar came to.
#[derive(Default)]
struct Opened {
    /// Filters by their keyspaces' numbers.
    gains: Vec<(u64, NewRegionFilter)>,
    has_pages: bool,
    /// It has records alone.
    has_records: bool,
    damage: Option<Error>,
}

impl Sidecars {
    pub fn new(env: &Arc<Env>, catalog: &Arc<Catalog>) -> Self {
        let (notes, records) = Default::default();
        Self { env: Arc::clone(env), catalog: Arc::clone(catalog), notes, records }
    }

    /// Takes over filters from sidecars as far as they are sound and memory goes, and notes what is not.
    pub fn load(&self) {
        let mut notes = Vec::new();
        self.give_up_old_filters(&mut notes);
        let ids = self.find_sidecars(&mut notes);
        let (mut records, mut has_damage) = (Vec::new(), false);
        for id in ids {
            match self.open_sidecar(id) {
                // What can't be read now may be readable next time.
                Err(error) => {
                    has_damage = true;
                    notes.push(format!("{error}; {HARMLESS}"));
                }
                Ok(opened) => {
                    has_damage |= opened.damage.is_some();
                    notes.extend(opened.damage.iter().map(|error| format!("{error}; {HARMLESS}")));
                    let has_records = opened.has_records;
                    let is_used = self.take_over(id, opened);
                    if has_records {
                        self.env.reader.forget(FileId::Sidecar(id), 0);
                        records.push(id);
                    } else if !is_used {
                        self.remove_sidecar(id);
                    }
                }
            }
        }
        if records.is_empty()
            && !has_damage
            && self.catalog.all().iter().any(|keyspace| keeps_records(keyspace))
        {
            let dir = self.env.reader.metadata_dir().display();
            notes.push(format!(
                "there is no sidecar of filters in {dir}: the store has not been closed in order, or the file is gone; {HARMLESS}"
            ));
        }
        // A crash may have left the one before as well.
        while records.len() > 1 {
            self.remove_sidecar(records.remove(0));
        }
        *self.records.lock() = records;
        *self.notes.lock() = notes;
        if self.env.check_writable().is_ok() {
            self.env.empty_trash();
        }
    }

    /// Returns the numbers of the files that may be sidecars, ascending, and lets counting go on above them.
    fn find_sidecars(&self, notes: &mut Vec<String>) -> Vec<SidecarId> {
        let dir = self.env.reader.metadata_dir().to_owned();
        let names = self.env.disk.list(&dir).unwrap_or_default();
        let mut ids: Vec<SidecarId> =
            names.iter().filter_map(|name| filename::sidecar_number(name)).collect();
        ids.retain(|id| self.is_file(&dir.join(filename::sidecar(*id)), notes));
        ids.sort_unstable();
        if let Some(largest) = ids.last() {
            self.catalog.skip_ids_to(*largest);
        }
        ids
    }

    /// Removes files in which earlier programs kept filters, or passes over them where nothing may be
    /// written.
    fn give_up_old_filters(&self, notes: &mut Vec<String>) {
        let mut dirs = vec![self.env.path.clone()];
        dirs.extend(Some(self.env.reader.metadata_dir().to_owned()).filter(|dir| *dir != self.env.path));
        for dir in dirs {
            let names = self.env.disk.list(&dir).unwrap_or_default();
            for name in names.iter().filter(|name| filename::is_old_filters(name)) {
                let path = dir.join(name);
                if !self.is_file(&path, notes) {
                    continue;
                }
                notes.push(format!(
                    "{} was written by an earlier program, and what it held is made anew; {HARMLESS}",
                    path.display()
                ));
                if self.env.check_writable().is_ok() {
                    // Left behind, it would be removed at the next open.
                    let _ = self.env.disk.remove(&path);
                }
            }
        }
    }

    /// Whether there is a file behind a name. What is something else is passed over: a link that leads
    /// nowhere is removed, and a directory noted.
    fn is_file(&self, path: &Path, notes: &mut Vec<String>) -> bool {
        let probe =
            self.env.disk.open(path, Access::Read).and_then(|file| file.read_exact_at(&mut [0; 1], 0));
        match probe.map_err(|error| error.kind()) {
            Err(std::io::ErrorKind::NotFound) => {
                if self.env.check_writable().is_ok() {
                    let _ = self.env.disk.remove(path);
                }
                false
            }
            Err(std::io::ErrorKind::IsADirectory) => {
                let path = path.display();
                notes.push(format!("{path} is a directory with the name of a sidecar, and is passed over"));
                false
            }
            _ => true,
        }
    }

    /// Reads what a sidecar has in front of its pages.
    fn open_sidecar(&self, id: SidecarId) -> Result<Opened> {
        let path = self.env.reader.path(FileId::Sidecar(id));
        let file = match self.env.reader.file(FileId::Sidecar(id)) {
            Err(error) if error.kind() == ErrorKind::Corruption => {
                return Ok(Opened { damage: Some(error), ..Opened::default() });
            }
            file => file?,
        };
        let (mut opened, mut gains) = (Opened::default(), Vec::new());
        let own = stamp(&self.env.secret);
        let read = sidecar::read(&path, file.as_ref(), &mut |header, record| {
            if header.stamp != own || header.number != id {
                return Ok(());
            }
            let filter = if header.pages == 0 {
                RegionFilter::decode(record, self.env.memory())?
            } else if gains.is_empty() {
                let pages = SidecarPages::new(header, Arc::clone(&self.env.trash)).ok_or(Malformed)?;
                Some(RegionFilter::of_pages(record, Arc::new(pages))?)
            } else {
                return Err(Malformed);
            };
            let gain = filter.map(|filter| NewRegionFilter::new(record.path, filter));
            gains.extend(gain.map(|gain| (record.keyspace, gain)));
            Ok(())
        })?;
        // One of another store, or with another's name, has neither.
        if let Some(header) = read.header.filter(|header| header.stamp == own && header.number == id) {
            (opened.has_pages, opened.has_records) = (header.pages > 0, header.pages == 0);
        }
        opened.damage = read.damage;
        // Pages count if all that stands before them is sound; of records, those before the damage do.
        if !(opened.has_pages && opened.damage.is_some()) {
            opened.gains = gains;
        }
        Ok(opened)
    }

    /// Shows readers what a sidecar holds; false where it is not used, or is damaged.
    fn take_over(&self, id: SidecarId, opened: Opened) -> bool {
        let mut by_keyspace: BTreeMap<u64, Vec<NewRegionFilter>> = BTreeMap::new();
        for (number, gain) in &opened.gains {
            by_keyspace.entry(*number).or_default().push(gain.clone());
        }
        for (number, gains) in by_keyspace {
            if let Some(keyspace) = self.catalog.by_number(number) {
                self.catalog.publish(&keyspace, |version| version.filter_by(&gains));
            }
        }
        drop(opened);
        self.catalog.all().iter().any(|keyspace| {
            let version = keyspace.version();
            version.sidecars().any(|pages| pages.id == FileId::Sidecar(id))
        })
    }

    /// Removes a sidecar where that may be done. Left behind, it would be removed at the next open.
    fn remove_sidecar(&self, id: SidecarId) {
        let file = FileId::Sidecar(id);
        self.env.reader.forget(file, 0);
        if self.env.check_writable().is_ok() {
            let _ = self.env.disk.remove(&self.env.reader.path(file));
        }
    }

    /// Keeps what memory has of filters for the next open. A failure costs time then, and nothing else.
    pub fn save(&self) {
        let has_filters = |keyspace: &Arc<OpenKeyspace>| keyspace.design().has_region_filters();
        if self.catalog.manifest_bytes_written().is_none() || !self.catalog.all().iter().any(has_filters) {
            return;
        }
        let number = self.catalog.next_id();
        let path = self.env.reader.path(FileId::Sidecar(number));
        if self.write_records(number, &path).is_err() {
            let _ = self.env.disk.remove(&path);
            return;
        }
        let old = std::mem::replace(&mut *self.records.lock(), vec![number]);
        for id in old {
            let _ = self.env.disk.remove(&self.env.reader.path(FileId::Sidecar(id)));
        }
    }

    fn write_records(&self, number: SidecarId, path: &Path) -> std::io::Result<()> {
        let mut writer =
            RecordsWriter::create(self.env.disk.as_ref(), path, number, stamp(&self.env.secret))?;
        for keyspace in self.catalog.all() {
            let version = keyspace.version();
            for of_level in &version.levels {
                let level = version.shown_number(of_level.depth);
                for region in &of_level.regions {
                    let Some(filter) = &region.filter else { continue };
                    filter.encode(&mut |runs, kind, bytes| {
                        writer.add(&SidecarRecord {
                            keyspace: keyspace.id,
                            level,
                            path: region.path,
                            runs: runs.to_vec(),
                            kind,
                            filter: bytes,
                        })
                    })?;
                }
            }
        }
        writer.finish()
    }

    /// Reads the whole of a sidecar with pages; what is wrong, if anything is. Reading stops where the store
    /// is closed.
    fn check_pages(&self, pages: &SidecarPages) -> Result<Option<String>> {
        let path = self.env.reader.path(pages.id);
        let front = self
            .env
            .reader
            .file(pages.id)
            .and_then(|file| sidecar::read(&path, file.as_ref(), &mut |_, _| Ok(())));
        let mut first = match front {
            Err(error) if error.kind() == ErrorKind::Corruption => Some(error),
            front => front?.damage,
        };
        if let Some(error) = &first {
            pages.spared::<()>(Err(error.clone()))?;
        }
        let mut bytes = vec![0; READ_PAGES as usize * PAGE_BYTES];
        let mut page_bytes = [0; PAGE_BYTES];
        let (mut next, mut damaged) = (pages.first, u32::from(first.is_some()));
        while next < pages.end() {
            let count = (pages.end() - next).min(READ_PAGES);
            let Some(chunk) = bytes.get_mut(..count as usize * PAGE_BYTES) else { break };
            if pages.spared(self.env.reader.pages_for_compaction(pages.id, next, chunk))?.is_none() {
                for page in next..next + count {
                    match self.env.reader.pages_for_compaction(pages.id, page, &mut page_bytes) {
                        Err(error) if error.kind() == ErrorKind::Corruption => {
                            damaged += 1;
                            first.get_or_insert(error);
                        }
                        outcome => outcome?,
                    }
                }
            }
            next += count;
            if self.env.health.is_closed() {
                return Ok(None);
            }
        }
        pages.mark_checked();
        Ok(first.map(|error| format!("{error} ({damaged} of its {} pages)", pages.end())))
    }

    /// Returns a sidecar of one of `keyspaces` that was found at opening and whose pages nobody has read
    /// through since.
    pub fn unchecked(&self, keyspaces: &[Arc<OpenKeyspace>]) -> Option<Arc<SidecarPages>> {
        let mut found = keyspaces
            .iter()
            .filter_map(|keyspace| keyspace.version().sidecars().find(|pages| !pages.is_checked()).cloned());
        found.next()
    }

    /// Reads one sidecar that was found at opening; what is wrong, if anything is. It is not read again.
    pub fn check(&self, pages: &SidecarPages) -> Result<Option<String>> {
        let checked = self.check_pages(pages);
        pages.mark_checked();
        checked
    }

    /// Reads all sidecars of `version` of `keyspace`.
    pub fn verify(&self, keyspace: &OpenKeyspace, version: &Version) -> Result<SidecarsFound> {
        let mut found = SidecarsFound::default();
        for level in &version.levels {
            let number = version.shown_number(level.depth);
            // What is held in memory alone is missing while a store is open for writing, until it has been
            // made.
            let kind = version.spec_at(level.depth).and_then(|spec| RegionFilterKind::of(spec, false));
            if kind.is_none_or(RegionFilterKind::is_in_memory) {
                continue;
            }
            let (mut runs, mut missing) = (0, 0);
            for region in &level.regions {
                let has_entries = |at: &usize| region.runs.get(*at).is_some_and(|run| run.entries() > 0);
                runs += (0..region.runs.len()).filter(has_entries).count();
                missing += missing_places(region).filter(has_entries).count();
            }
            if missing > 0 {
                found.notes.push(format!(
                    "keyspace {:?}: of {runs} runs of level {number}, {missing} have no filters in sidecars, since a file is gone or \
                     they have not been made yet; {HARMLESS}",
                    keyspace.name
                ));
            }
        }
        for pages in version.sidecars() {
            found.sidecars += 1;
            found.bytes += pages.file_bytes();
            if let Some(what) = self.check_pages(pages)? {
                found.notes.push(format!("{what}; {HARMLESS}"));
            }
        }
        Ok(found)
    }

    /// Returns what was found damaged when the store was opened, unless everything has been made anew since:
    /// then nothing lacks.
    pub fn notes_of_opening(&self, is_lacking: impl Fn() -> bool) -> Vec<String> {
        let mut notes = self.notes.lock();
        if self.env.check_writable().is_ok() && !is_lacking() {
            notes.clear();
        }
        notes.clone()
    }
}

/// Returns the places of a region's runs, newest first, of which its filter knows nothing.
fn missing_places(region: &Region) -> impl Iterator<Item = usize> {
    let runs = region.runs.len();
    let of_filter = region.filter.iter().flat_map(move |filter| filter.missing(runs));
    of_filter.chain(0..if region.filter.is_none() { runs } else { 0 })
}

/// Tells a store's sidecars from those of others in one directory.
pub(super) fn stamp(secret: &HashSecret) -> u64 {
    secret.hash64(b"sidecars of region filters")
}

/// Whether closing keeps filters in memory for what the keyspace holds.
fn keeps_records(keyspace: &OpenKeyspace) -> bool {
    let version = keyspace.version();
    let kind = |depth: u8| version.spec_at(depth).and_then(|spec| RegionFilterKind::of(spec, false));
    version.levels.iter().any(|level| {
        kind(level.depth).is_some_and(RegionFilterKind::is_in_memory)
            && level.regions.iter().any(|region| region.runs.iter().any(|run| run.entries() > 0))
    })
}
