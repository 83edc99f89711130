//! Region filters of an open store: what one lacks is made in the background, rows and filters in memory as
//! well as files on the device.
//!
//! None of it is needed for an answer; see `region_filter/`. How files are found again is in
//! `db/sidecars.rs`.

use super::filter_job::{FilterJob, Wanting};
use super::{Scheduler, describe};
use crate::compaction::source;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::reporter::Outcome;
use crate::db::sidecars::stamp;
use crate::entry::Span;
use crate::error::Result;
use crate::ids::{FileId, RunId};
use crate::memory::Holder;
use crate::region_filter::sidecar::{PagesTarget, SidecarPages};
use crate::region_filter::{
    Filtered, FilteredRun, Lack, Means, NewRegionFilter, RegionFilter, RegionFilterBuilder, RegionFilterKind,
};
use crate::table::ReadMode;
use crate::version::{Region, Run};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// How often a long build asks whether to go on.
const ENTRIES_BETWEEN_CHECKS: u32 = 4096;

impl Scheduler {
    /// Returns the uppermost region at `levels` of `keyspace` whose filter lacks something that can be had.
    /// Where there is time, what is in memory is written to files even where it is little: closing keeps it
    /// otherwise.
    pub(super) fn wanting(
        &self,
        keyspace: &OpenKeyspace,
        levels: Range<usize>,
        has_time: bool,
    ) -> Option<Wanting> {
        let (version, limits) = (keyspace.version(), &keyspace.filter_limits);
        let (failed, room) = (self.filter_work.failed(), self.env.memory().room_for(Holder::Filter));
        let has_failed = |run: RunId| failed.has(run, room);
        let made_anew = self.filter_work.made_anew.lock();
        let made_anew_with = |run: RunId| made_anew.bits.get(&run).copied().unwrap_or(0);
        let is_calm = has_time && self.filter_work.is_calm(self.env.now_ms());
        let of_design = version.levels.iter().filter_map(|of_level| {
            let level = version.design.level_at(of_level.depth).filter(|level| levels.contains(level))?;
            Some((level, of_level))
        });
        for (level, of_level) in of_design {
            let kept_for_top = if level == 0 { 0 } else { limits.kept_for_top() };
            let means = Means {
                memory: self.env.memory(),
                has_failed: &has_failed,
                made_anew_with: &made_anew_with,
                kept_for_top,
                has_time,
                is_calm,
            };
            for region in &of_level.regions {
                let kind = RegionFilterKind::of(version.design.level(level), region.shape.has_children);
                let Some(kind) = kind else { break };
                if self.env.health.is_read_only() && !kind.is_in_memory() {
                    break;
                }
                if region.possible_filter(kind).is_refused(limits) {
                    continue;
                }
                let kind = kind.within(limits);
                if let Some(lack) = kind.lack(region.filter.as_deref(), &region.runs, &means) {
                    return Some(Wanting { level, region: Arc::clone(region), kind, lack });
                }
            }
        }
        None
    }

    /// Returns the most urgent region filter of `keyspaces` to make at `levels`; none where nothing lacks, or
    /// another thread is at it.
    pub(super) fn filter_job(
        &self,
        keyspaces: &[Arc<OpenKeyspace>],
        levels: Range<usize>,
        has_time: bool,
    ) -> Option<FilterJob> {
        let claim = self.filter_work.claim()?;
        let mut wanting = keyspaces.iter().filter_map(|keyspace| {
            let wanting = self.wanting(keyspace, levels.clone(), has_time)?;
            Some((Arc::clone(keyspace), wanting))
        });
        let (keyspace, wanting) = wanting.next()?;
        Some(FilterJob { keyspace, wanting, _claim: claim })
    }

    /// Returns the newest runs of all regions.
    fn newest_runs(&self) -> HashSet<RunId> {
        let versions: Vec<_> = self.catalog.all().iter().map(|keyspace| keyspace.version()).collect();
        let regions = versions.iter().flat_map(|version| &version.levels).flat_map(|level| &level.regions);
        regions.filter_map(|region| region.runs.first()).map(|run| run.id).collect()
    }

    /// Makes what the filter of a region lacks.
    pub(super) fn make_filter(&self, job: &FilterJob) {
        let FilterJob { keyspace, wanting, .. } = job;
        let present = wanting.region.filter.as_deref();
        let make = || match wanting.lack {
            Lack::Run(place) => self.cover_missing(keyspace, wanting, place),
            Lack::File => self.write_file(keyspace, wanting),
            Lack::Exactness => {
                let made = self.cover(keyspace, wanting, None, 0);
                if let Ok(Some(_)) = &made {
                    self.filter_work.note_made_anew(wanting, || self.newest_runs());
                }
                made
            }
            Lack::Join => Ok(present.and_then(|filter| filter.in_one(self.env.memory()))),
            Lack::Memory(bits) => Ok(present.and_then(|filter| filter.shortened(bits, self.env.memory()))),
        };
        let describe = || describe::filter(job);
        match self.reporter.job(describe, make, |made| describe::filter_outcome(job, made.as_ref())) {
            Ok(Some(filter)) => {
                let gain = NewRegionFilter::new(wanting.region.path, filter);
                self.catalog.publish(keyspace, |version| version.filter_by(&[gain]));
            }
            Ok(None) => self
                .filter_work
                .note_without_memory(wanting.tried(), self.env.memory().room_for(Holder::Filter)),
            // Without it every run is asked; whoever reads a damaged page is told.
            Err(_) => self.filter_work.note_unreadable(wanting.tried()),
        }
    }

    /// Reads through a sidecar that was found at opening.
    pub(super) fn check_sidecar(&self, pages: &SidecarPages) {
        let bytes_read = pages.file_bytes();
        let describe = || describe::check(bytes_read);
        let outcome = |problem: &mut Option<String>| Outcome {
            bytes_read,
            problem: problem.clone(),
            ..Outcome::default()
        };
        // A file that can't be read is not read again and again.
        let _ = self.reporter.job(describe, || self.sidecars.check(pages), outcome);
    }

    /// Covers the runs that a filter lacks: on top of the present one, or else all that it should know.
    fn cover_missing(
        &self,
        keyspace: &OpenKeyspace,
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
        keyspace: &OpenKeyspace,
        wanting: &Wanting,
        present: Option<&RegionFilter>,
        place: usize,
    ) -> Result<Option<RegionFilter>> {
        let Region { path, runs, .. } = &*wanting.region;
        let region = Filtered { path: *path, runs, present };
        let begun = RegionFilterBuilder::for_missing(wanting.kind, &region, place, self.env.memory());
        let Some((mut builder, places)) = begun else { return Ok(None) };
        for run in runs.get(places).unwrap_or(&[]).iter().rev() {
            if !builder.has_room() {
                break;
            }
            if !self.add_run(keyspace, run, &mut builder)? {
                return Ok(None);
            }
        }
        Ok(builder.finish(self.env.memory()))
    }

    /// Adds a run by the fingerprints that its tables keep, or else by its keys; false where the work was
    /// given up.
    fn add_run(
        &self,
        keyspace: &OpenKeyspace,
        run: &Arc<Run>,
        builder: &mut RegionFilterBuilder,
    ) -> Result<bool> {
        let kept = if builder.takes_tables() { run.fingerprints(&self.env.reader) } else { None };
        if let Some(fingerprints) = kept {
            fingerprints.iter().for_each(|table| builder.add_fingerprints(table));
        } else {
            let mut cursor = source(run, &Span::ALL, ReadMode::Compaction, &self.env.reader)?.cursor;
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
    fn write_file(&self, keyspace: &OpenKeyspace, wanting: &Wanting) -> Result<Option<RegionFilter>> {
        let Some(filter) = &wanting.region.filter else { return Ok(None) };
        let number = self.catalog.next_id();
        let path = self.env.reader.path(FileId::Sidecar(number));
        let target = PagesTarget {
            disk: self.env.disk.as_ref(),
            path: &path,
            number,
            stamp: stamp(&self.env.secret),
            keyspace: keyspace.id,
            level: wanting.level,
            region: wanting.region.path,
            trash: &self.env.trash,
            is_given_up: &|| self.is_given_up(keyspace),
        };
        let written = filter.write_pages(&target, &self.env.reader);
        match &written {
            Ok(Some(filter)) => {
                self.env.counters.table_bytes.add(filter.pages().map_or(0, |pages| pages.file_bytes()));
            }
            Ok(None) | Err(_) => {
                let _ = self.env.disk.remove(&path);
            }
        }
        written
    }
}

#[cfg(all(test, siltstone_shuttle))]
mod interleavings {
    use crate::db::tiny_designs::tiny;
    use crate::io::sim::{CrashMode, SimDisk};
    use crate::sync::{explore, thread};
    use crate::{Db, Keyspace, KeyspaceOptions, Options, Schema};
    use std::sync::Arc;

    fn open(disk: &SimDisk) -> (Db, Keyspace) {
        let options = Options {
            memory_budget_bytes: 1 << 20,
            background_threads: 0,
            reserve_bytes: 0,
            hash_secret: Some(*b"sixteen byte key"),
            ..Options::default()
        };
        let db = Db::open_on(Arc::new(disk.clone()), "/db", options).unwrap();
        let design = Some(tiny("siltstone"));
        let items =
            db.keyspace("items", KeyspaceOptions { schema: Schema::Point, design, ..Default::default() });
        (db, items.unwrap())
    }

    fn write_run(db: &Db, items: &Keyspace, run: u8) {
        for key in [run, 100] {
            items.put([key], [run]).unwrap();
        }
        db.store.committer.seal_all().unwrap();
        while db.store.scheduler.flush_any().unwrap() {}
    }

    /// Filters are made of runs as they were, while others are added to the region and it is pushed down. All
    /// that was flushed stays where gets find it, and no filter denies what its runs hold.
    #[test]
    fn a_filter_that_is_published_late_hides_nothing() {
        explore(1_500, || {
            let disk = SimDisk::new();
            let (db, items) = open(&disk);
            (0..3).for_each(|run| write_run(&db, &items, run));
            // What the filters in memory knew is gone.
            let (db, items) = open(&disk.crash(CrashMode::Kill, 0));
            let of_tables = items.current().version();
            assert!(of_tables.levels.iter().any(|level| level.regions.iter().any(|r| r.filter.is_none())));
            let maker = {
                let db = db.clone();
                thread::spawn(move || {
                    for _ in 0..6 {
                        // Filters and compactions, and no flushes, which go on beside them.
                        db.store.scheduler.work_once().unwrap();
                    }
                })
            };
            let reader = {
                let items = items.clone();
                thread::spawn(move || {
                    for round in 0..3u8 {
                        assert_eq!(items.get([round]).unwrap().as_deref(), Some(&[round][..]));
                        assert!(items.get([100]).unwrap().unwrap() >= vec![2]);
                    }
                })
            };
            (3..5).for_each(|run| write_run(&db, &items, run));
            maker.join().unwrap();
            reader.join().unwrap();
            while db.step().unwrap() {}
            for run in 0..5u8 {
                assert_eq!(items.get([run]).unwrap().as_deref(), Some(&[run][..]), "run {run}");
            }
            assert_eq!(items.get([100]).unwrap().as_deref(), Some(&[4][..]));
            assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        });
    }
}
