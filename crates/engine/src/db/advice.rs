//! Files that are only advice, cluster files and `GUIDES`: found again when a store is opened, checked, and mended where they are
//! damaged.
//!
//! One rule for both. Damage costs reads and no answer, so it is noted and makes nothing unsound. What is missing is made anew from
//! the tables: files whose header or length is wrong are given up when the store is opened for writing; other pages are read
//! once in the background when there is nothing else to do, and whenever a lookup or a verification comes to them.

use super::background::Scheduler;
use super::catalog::keyspace::OpenKeyspace;
use super::clusters::stamp;
use super::guides::GUIDES;
use super::open::verify::VerifyReport;
use crate::cache::{CLUSTER, PAGE_BYTES, TableId, cluster_name};
use crate::error::{Error, ErrorKind, Result};
use crate::io::Access;
use crate::stats::ReadTrace;
use crate::table::block::page::page_header;
use crate::table::envelope::PAGE_HEADER_BYTES;
use crate::version::cluster::{ClusterFile, ClusterPlace, cluster_bits};
use crate::version::guide::GuideSpec;
use crate::version::level::Version;
use std::path::Path;
use std::sync::Arc;

/// Pages read at once.
const READ_PAGES: u32 = 64;
/// What is said of any damage to advice.
const HARMLESS: &str = "answers are unaffected, gets read more until the file is made anew from the tables, in the background of a \
                        store that is open for writing";

impl Scheduler {
    /// Takes over guides and clusters as far as they are sound, and notes what is not.
    pub(super) fn load_advice(&self) {
        let mut notes = Vec::new();
        match self.load_guides() {
            Ok(true) => {}
            Ok(false) if self.catalog.all().iter().any(|keyspace| wants_guides(keyspace)) => {
                let path = self.env.path.join(GUIDES);
                notes.push(format!(
                    "there is no {}: the store has not been closed in order, or the file is gone; {HARMLESS}",
                    path.display()
                ));
            }
            Ok(false) => {}
            Err(error) => notes.push(format!("{error}; {HARMLESS}")),
        }
        self.load_clusters(&mut notes);
        *self.filters.notes.lock() = notes;
    }

    /// Finds the files of clusters that belong to regions as they are now, and removes the others.
    fn load_clusters(&self, notes: &mut Vec<String>) {
        let dir = self.env.reader.metadata_dir().to_owned();
        let names = self.env.disk.list(&dir).unwrap_or_default();
        let numbered = names.iter().filter_map(|name| {
            let id = name.strip_suffix(".cluster")?.parse::<u64>().ok()?;
            (id < CLUSTER && cluster_name(id) == *name).then_some(id)
        });
        let mut ids: Vec<u64> = numbered.collect();
        ids.retain(|id| self.is_file(&dir.join(cluster_name(*id)), notes));
        if let Some(largest) = ids.iter().max() {
            self.catalog.skip_ids_to(*largest);
        }
        let keyspaces = self.catalog.all();
        for id in ids {
            let path = dir.join(cluster_name(id));
            let (file, place) = match self.open_cluster(id | CLUSTER, &path) {
                Ok((file, place)) => (Some(file), Some(place)),
                Err(error) => {
                    notes.push(format!("{error}; {HARMLESS}"));
                    // What can't be read now may be readable next time.
                    if error.kind() != ErrorKind::Corruption {
                        continue;
                    }
                    (None, None)
                }
            };
            let place = place.filter(|place| place.stamp == stamp(&self.env.secret));
            if let (Some(file), Some(place)) = (file, place) {
                let file = Arc::new(file);
                if let Some(keyspace) = keyspaces.iter().find(|keyspace| keyspace.id == place.keyspace) {
                    self.catalog
                        .publish(keyspace, |version| version.cluster_with(place.level, place.path, &file));
                    let version = Arc::clone(&keyspace.view.load().version);
                    if version.cluster_files().any(|used| used.id == file.id) {
                        continue;
                    }
                }
            }
            if self.env.check_writable().is_ok() {
                self.env.reader.forget(id | CLUSTER, 1);
                // Left behind, it would be removed at the next open.
                let _ = self.env.disk.remove(&path);
            }
        }
        if self.env.check_writable().is_ok() {
            self.env.empty_trash();
        }
    }

    /// Whether there is a file behind a name. What is something else is passed over: a link that leads nowhere is removed, and a
    /// directory noted.
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
                notes.push(format!(
                    "{path} is a directory with the name of a cluster file, and is passed over"
                ));
                false
            }
            _ => true,
        }
    }

    /// A cluster file by its header, and where it belongs; an error where the header or the file's length is wrong.
    fn open_cluster(&self, id: TableId, path: &Path) -> Result<(ClusterFile, ClusterPlace)> {
        let wrong = |expected: &str, found: &str| Error::corruption(path.display(), 0, expected, found);
        let page = self.env.reader.page(id, 0, &mut ReadTrace::default())?;
        let used = page_header(&page[..]).map_or(0, |(used, _)| used);
        let payload = page.get(PAGE_HEADER_BYTES..used).unwrap_or(&[]);
        let found = ClusterFile::from_header(id, payload, Arc::clone(&self.env.trash));
        let (file, place) = found.ok_or_else(|| wrong("the header of a cluster", "something else"))?;
        let length = self.env.disk.open(path, Access::Read).and_then(|opened| opened.len());
        let length = length.map_err(|error| Error::io(&error, "reading", path))?;
        if length != file.bytes() {
            let (expected, found) = (format!("{} bytes", file.bytes()), format!("{length}"));
            return Err(wrong(&expected, &found));
        }
        Ok((file, place))
    }

    /// Reads every page of a cluster file; what is wrong, if anything is. Reading stops where the store is closed.
    fn check_cluster(&self, file: &ClusterFile) -> Result<Option<String>> {
        let mut bytes = vec![0; READ_PAGES as usize * PAGE_BYTES];
        let mut page_bytes = [0; PAGE_BYTES];
        let (mut next, mut damaged, mut first) = (0, 0u32, None);
        while next < file.pages() {
            let count = (file.pages() - next).min(READ_PAGES);
            let Some(chunk) = bytes.get_mut(..count as usize * PAGE_BYTES) else { break };
            if file.spared(self.env.reader.pages_for_compaction(file.id, next, chunk))?.is_none() {
                for page in next..next + count {
                    let read = self.env.reader.pages_for_compaction(file.id, page, &mut page_bytes);
                    match read {
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
        file.mark_checked();
        Ok(first.map(|error| format!("{error} ({damaged} of its {} pages)", file.pages())))
    }

    /// Whether cluster files were found at opening that nobody has read through since.
    pub(super) fn has_unchecked_clusters(&self, version: &Version) -> bool {
        version.cluster_files().any(|file| !file.is_checked())
    }

    /// Reads one cluster file that was found at opening; false where there is none left, or another thread is at it.
    pub(super) fn check_one_cluster(&self) -> bool {
        for keyspace in self.catalog.all() {
            let version = Arc::clone(&keyspace.view.load().version);
            let Some(file) = version.cluster_files().find(|file| !file.is_checked()) else { continue };
            let Some(_alone) = self.filters.guiding.try_lock() else { return false };
            // A file that can't be read is not read again and again.
            let _ = self.report_check(&keyspace, file, || self.check_cluster(file));
            file.mark_checked();
            return true;
        }
        false
    }

    /// Adds to `report` what advice there is for `version` of `keyspace`, and what is wrong with it.
    pub(super) fn verify_advice(
        &self,
        keyspace: &OpenKeyspace,
        version: &Version,
        report: &mut VerifyReport,
    ) -> Result<()> {
        for (number, level) in version.levels.iter().enumerate() {
            if cluster_bits(keyspace.design.level(number)).is_none() {
                continue;
            }
            let (mut runs, mut missing) = (0u64, 0u64);
            for region in &level.regions {
                let has_entries = |at: &usize| region.runs.get(*at).is_some_and(|run| run.entries() > 0);
                runs += (0..region.runs.len()).filter(has_entries).count() as u64;
                missing += match &region.cluster {
                    Some(cluster) => cluster.missing().filter(has_entries).count() as u64,
                    None => (0..region.runs.len()).filter(has_entries).count() as u64,
                };
            }
            if missing > 0 {
                report.notes.push(format!(
                    "keyspace {:?}: of {runs} runs of level {number}, {missing} have no filters in cluster files or {GUIDES}, since \
                     a file is gone or they have not been made yet; {HARMLESS}",
                    keyspace.name
                ));
            }
        }
        for file in version.cluster_files() {
            report.clusters += 1;
            report.cluster_bytes += file.bytes();
            if let Some(what) = self.check_cluster(file)? {
                report.notes.push(format!("{what}; {HARMLESS}"));
            }
        }
        Ok(())
    }

    /// What was found damaged when the store was opened, unless everything has been made anew since.
    pub(super) fn notes_of_opening(&self) -> Vec<String> {
        let mut notes = self.filters.notes.lock();
        let lacks = |keyspace: &Arc<OpenKeyspace>| {
            let version = Arc::clone(&keyspace.view.load().version);
            self.unguided(keyspace, &version, 0..usize::MAX).is_some()
                || self.unclustered(keyspace, &version, 0..usize::MAX, false).is_some()
        };
        if self.env.check_writable().is_ok() && !self.catalog.all().iter().any(lacks) {
            notes.clear();
        }
        notes.clone()
    }
}

/// Whether guides could be kept for what the keyspace holds.
fn wants_guides(keyspace: &OpenKeyspace) -> bool {
    let version = Arc::clone(&keyspace.view.load().version);
    let mut levels = version.levels.iter().enumerate();
    levels.any(|(number, level)| {
        GuideSpec::of(keyspace.design.level(number), false).is_some()
            && level.regions.iter().any(|region| region.runs.iter().any(|run| run.entries() > 0))
    })
}
