//! Region filters of an open store: what one lacks is made in the background, rows and filters in memory as
//! well as files on the device.
//!
//! None of it is needed for an answer; see `region_filter/`. How files are found again is in `sidecars.rs`.

use super::sidecars::stamp;
use super::store::{KeyspaceInner, Store};
use crate::compaction::source;
use crate::entry::Span;
use crate::error::Result;
use crate::ids::{FileId, RunId};
use crate::region_filter::sidecar::PagesTarget;
use crate::region_filter::{
    Filtered, FilteredRun, Lack, Means, NewRegionFilter, RegionFilter, RegionFilterBuilder, RegionFilterKind,
};
use crate::table::Walk;
use crate::version::{Region, Run, Version};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often a long build asks whether to go on.
const ENTRIES_BETWEEN_CHECKS: u32 = 4096;

/// A region whose filter lacks something.
pub(super) struct Wanting {
    level: usize,
    region: Arc<Region>,
    kind: RegionFilterKind,
    lack: Lack,
}

impl Store {
    /// Returns the uppermost region at `levels` of `keyspace` whose filter lacks something that can be had.
    /// Where there is time, what is in memory is written to files even where it is little: closing keeps it
    /// otherwise.
    pub(super) fn wanting(
        &self,
        keyspace: &KeyspaceInner,
        version: &Version,
        levels: Range<usize>,
        has_time: bool,
    ) -> Option<Wanting> {
        let failed = self.filtering.try_lock();
        let has_failed = |run: RunId| failed.as_ref().is_some_and(|failed| failed.contains(&run));
        let means = Means { memory: &self.memory, has_failed: &has_failed, has_time };
        for (level, regions) in version.levels.iter().enumerate().take(levels.end).skip(levels.start) {
            for region in &regions.regions {
                let has_children = version.has_children(level, region.path);
                let kind = RegionFilterKind::of(keyspace.design.level(level), has_children);
                let Some(kind) = kind else { break };
                if let Some(lack) = kind.lack(region.filter.as_deref(), &region.runs, &means) {
                    return Some(Wanting { level, region: Arc::clone(region), kind, lack });
                }
            }
        }
        None
    }

    /// Makes what the filter of one region at `levels` lacks; false where none lacks anything, or another
    /// thread is at it.
    pub(super) fn filter_one(&self, levels: Range<usize>, has_time: bool) -> bool {
        for keyspace in self.all_keyspaces() {
            let version = Arc::clone(&keyspace.view.load().version);
            let Some(wanting) = self.wanting(&keyspace, &version, levels.clone(), has_time) else { continue };
            let Some(mut failed) = self.filtering.try_lock() else { return false };
            let made = match wanting.lack {
                Lack::Run(place) => self.cover_missing(&keyspace, &wanting, place),
                Lack::File => self.write_file(&keyspace, &wanting),
            };
            match made {
                Ok(Some(filter)) => {
                    let gain = NewRegionFilter::new(wanting.level, wanting.region.path, filter);
                    self.publish(&keyspace, |version| version.filter_by(&[gain]));
                }
                // Without it every run is asked; whoever reads a damaged page is told.
                Ok(None) | Err(_) => failed.extend(wanting.tried()),
            }
            return true;
        }
        false
    }

    /// Covers the runs that a filter lacks: on top of the present one, or else all that it should know.
    fn cover_missing(
        &self,
        keyspace: &KeyspaceInner,
        wanting: &Wanting,
        place: usize,
    ) -> Result<Option<RegionFilter>> {
        let present = wanting.region.filter.as_deref();
        let filter = self.cover(keyspace, wanting, present, place)?;
        if filter.is_some() || present.is_none() || !wanting.kind.is_in_memory() {
            return Ok(filter);
        }
        self.cover(keyspace, wanting, None, place)
    }

    /// Makes a filter on top of `present`, the run at `place` added.
    fn cover(
        &self,
        keyspace: &KeyspaceInner,
        wanting: &Wanting,
        present: Option<&RegionFilter>,
        place: usize,
    ) -> Result<Option<RegionFilter>> {
        let Region { path, runs, .. } = &*wanting.region;
        let region = Filtered { path: *path, runs, present };
        let begun = RegionFilterBuilder::for_missing(wanting.kind, &region, place, &self.memory);
        let Some((mut builder, places)) = begun else { return Ok(None) };
        for run in runs.get(places).unwrap_or(&[]).iter().rev() {
            if !builder.has_room() {
                break;
            }
            if !self.add_run(keyspace, run, &mut builder)? {
                return Ok(None);
            }
        }
        Ok(builder.finish(&self.memory))
    }

    /// Adds a run by the fingerprints that its tables keep, or else by its keys; false where the work was
    /// given up.
    fn add_run(
        &self,
        keyspace: &KeyspaceInner,
        run: &Arc<Run>,
        builder: &mut RegionFilterBuilder,
    ) -> Result<bool> {
        let kept = if builder.takes_tables() { run.fingerprints(&self.reader) } else { None };
        if let Some(fingerprints) = kept {
            fingerprints.iter().for_each(|table| builder.add_fingerprints(table));
        } else {
            let mut cursor = source(run, &Span::ALL, Walk::Compaction, &self.reader)?.cursor;
            let mut since_check = 0u32;
            while let Some(entry) = cursor.peek() {
                builder.add(&entry.key, entry.older_in, run.entries());
                since_check += 1;
                if since_check.is_multiple_of(ENTRIES_BETWEEN_CHECKS) && self.is_given_up(keyspace) {
                    return Ok(false);
                }
                cursor.advance()?;
            }
        }
        builder.end_run(run.id, run.table_ids(), run.user_bytes());
        Ok(true)
    }

    /// Writes what is known of a region's runs to a file; `None` where it can't be had.
    fn write_file(&self, keyspace: &KeyspaceInner, wanting: &Wanting) -> Result<Option<RegionFilter>> {
        let Some(filter) = &wanting.region.filter else { return Ok(None) };
        let number = self.next_id();
        let path = self.reader.path(FileId::Sidecar(number));
        let target = PagesTarget {
            disk: self.disk.as_ref(),
            path: &path,
            number,
            stamp: stamp(&self.secret),
            keyspace: keyspace.id,
            level: wanting.level,
            region: wanting.region.path,
            trash: &self.trash,
            is_given_up: &|| self.is_given_up(keyspace),
        };
        let written = filter.write_pages(&target, &self.reader);
        match &written {
            Ok(Some(filter)) => {
                self.counters.table_bytes.add(filter.pages().map_or(0, |pages| pages.file_bytes()));
            }
            Ok(None) | Err(_) => {
                let _ = self.disk.remove(&path);
            }
        }
        written
    }

    fn is_given_up(&self, keyspace: &KeyspaceInner) -> bool {
        self.closed.load(Ordering::Relaxed) || keyspace.is_dropped()
    }
}

impl Wanting {
    /// Returns the runs that are not to be tried again after a failure: those whose keys were to be read, or
    /// the newest, so that a file is tried again once there is another.
    fn tried(&self) -> Vec<RunId> {
        let runs = &self.region.runs;
        let tried = match self.lack {
            Lack::Run(_) if self.kind.is_in_memory() => runs.get(..),
            Lack::Run(place) => runs.get(place..=place),
            Lack::File => runs.get(..1),
        };
        tried.unwrap_or(&[]).iter().map(|run| run.id).collect()
    }
}
