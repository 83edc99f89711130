//! Region filters over runs that have no tables, and sidecars in memory.

use super::sidecar::{PagesPlan, PagesTarget, RecordsWriter, SidecarHeader, SidecarPages, SidecarRecord};
use super::test_run::TestRun;
use super::*;
use crate::cache::{Caches, PAGE_BYTES, Probe, Reader, page_is_sound};
use crate::ids::{FileId, RunId};
use crate::io::sim::SimDisk;
use crate::io::{Access, Disk};
use crate::memory::MemoryBudget;
use siltstone_design::{Design, Encoder, HashSecret, Schema, TriePath};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Runs numbered as given, newest first.
fn runs(ids: &[RunId]) -> Vec<TestRun> {
    ids.iter().copied().map(TestRun).collect()
}

fn encoder() -> Encoder {
    Encoder::new(Schema::Point, HashSecret([1; 16]))
}

fn memory() -> Arc<MemoryBudget> {
    MemoryBudget::new(64 << 20)
}

fn reader(disk: &SimDisk) -> Reader {
    Reader::new(Arc::new(disk.clone()), "/db".into(), Caches::new(&memory(), 8), Arc::default())
}

fn kind(preset: &str) -> RegionFilterKind {
    let design = Design::preset(preset).unwrap();
    RegionFilterKind::of(design.level(usize::MAX), false)
        .or_else(|| RegionFilterKind::of(design.level(0), true))
        .unwrap()
}

/// Adds runs `ids` of ten keys each, key `n` in run `n / 10`, on top of `present`, which covers all of
/// `below`.
fn add(
    present: Option<&RegionFilter>,
    kind: RegionFilterKind,
    below: &[RunId],
    ids: &[RunId],
) -> Option<RegionFilter> {
    let runs: Vec<TestRun> = ids.iter().rev().chain(below).copied().map(TestRun).collect();
    let region = Filtered { path: TriePath::of(0, 0), runs: &runs, present };
    let (mut builder, places) = RegionFilterBuilder::for_missing(kind, &region, 0, &memory())?;
    for run in runs[places].iter().rev() {
        if !builder.has_room() {
            break;
        }
        let mut keys: Vec<u64> = (run.0 * 10..run.0 * 10 + 10).collect();
        keys.sort_by_key(|number| encoder().encode(&number.to_be_bytes()).unwrap().digest);
        for number in keys {
            builder.add(&encoder().encode(&number.to_be_bytes()).unwrap(), 0, 10);
        }
        builder.end_run(run.id(), run.table_ids(), run.user_bytes());
    }
    builder.finish(&memory())
}

/// What a filter says of key `number` in a region of `count` runs, newest first.
fn candidates(filter: &RegionFilter, number: u64, count: usize, reader: &Reader) -> Vec<Candidate> {
    let bytes = number.to_be_bytes();
    let encoder = encoder();
    let key = encoder.encode(&bytes).unwrap();
    let probe = Probe::waiting(reader, &encoder);
    probe.complete(|probe| filter.candidates(&key, count, probe)).unwrap().collect()
}

/// What a sidecar would keep of a filter: runs, kind and bytes.
fn records(filter: &RegionFilter) -> Vec<(Vec<RunId>, u8, Vec<u8>)> {
    let mut records = Vec::new();
    let mut keep = |runs: &[RunId], kind: u8, bytes: &[u8]| {
        records.push((runs.to_vec(), kind, bytes.to_vec()));
        Ok(())
    };
    filter.encode(&mut keep).unwrap();
    records
}

#[test]
fn what_was_pushed_from_below_younger_runs_is_forgotten() {
    let reader = reader(&SimDisk::new());
    for (preset, forgets) in [("siltstone", true), ("slimdb", false)] {
        let kind = kind(preset);
        let all = Arc::new(add(None, kind, &[], &[1, 2, 3, 4]).unwrap());
        assert!(all.fitted(&runs(&[5, 4, 3, 2, 1])).is_some_and(|same| Arc::ptr_eq(&same, &all)));
        let left = all.fitted(&runs(&[5, 4, 3])).unwrap();
        assert_eq!(left.covered(), 2, "{preset}");
        assert_eq!(left.missing(3).collect::<Vec<_>>(), [0]);
        for number in 10..50u64 {
            let found = candidates(&left, number, 3, &reader);
            assert_eq!(found[0], Candidate::Unknown);
            match number / 10 {
                3 => assert_eq!(found[2], Candidate::Yes, "{number}: {found:?}"),
                4 => assert_eq!(found[1], Candidate::Yes, "{number}: {found:?}"),
                _ => assert!(!found[1..].contains(&Candidate::Unknown)),
            }
        }
        // Other runs, and those with a gap.
        for other in [&[5, 4, 2][..], &[], &[9], &[4, 3, 2, 1, 0]] {
            assert!(all.fitted(&runs(other)).is_none(), "{other:?}");
        }
        // The next run is added to what is left, where the filter can forget; else all is built anew.
        assert_eq!(records(&left).len(), usize::from(forgets));
        let more = add(Some(&left), kind, &[4, 3], &[5]);
        assert_eq!(more.is_some(), forgets);
        let Some(more) = more.map(Arc::new) else { continue };
        assert!(more.fitted(&runs(&[5, 4, 3])).is_some_and(|same| Arc::ptr_eq(&same, &more)));
        assert_eq!(more.covered(), 3);
        let fresh = add(None, kind, &[], &[3, 4, 5]).unwrap();
        assert!(more.memory_bytes() <= fresh.memory_bytes() + 64);
        for number in 30..60u64 {
            let place = 2 - (number / 10 - 3) as usize;
            assert_eq!(candidates(&more, number, 3, &reader)[place], Candidate::Yes, "{number}");
        }
    }
}

/// The maplet of runs 1 to `last`, added one by one.
fn grown(last: RunId) -> RegionFilter {
    let kind = kind("siltstone");
    (2..=last).fold(add(None, kind, &[], &[1]).unwrap(), |filter, run| {
        let below: Vec<RunId> = (1..run).rev().collect();
        add(Some(&filter), kind, &below, &[run]).unwrap()
    })
}

/// Checks that `filter` names, for every key of the runs `ids` (newest first), its run.
fn check_named(filter: &RegionFilter, ids: &[(RunId, Range<u64>)], reader: &Reader) {
    for (place, (id, keys)) in ids.iter().enumerate() {
        for number in keys.clone() {
            let found = candidates(filter, number, ids.len(), reader);
            assert_eq!(found[place], Candidate::Yes, "key {number} of run {id}: {found:?}");
        }
    }
}

/// Runs `first` to `last` as [`grown`] has them, newest first.
fn of_tens(first: RunId, last: RunId) -> Vec<(RunId, Range<u64>)> {
    (first..=last).rev().map(|run| (run, run * 10..run * 10 + 10)).collect()
}

#[test]
fn a_maplet_in_two_parts_says_what_one_does() {
    let reader = reader(&SimDisk::new());
    let mut parted = 0;
    for last in 1..=40 {
        let filter = grown(last);
        parted += u32::from(filter.as_maplet().unwrap().is_parted());
        assert_eq!(filter.covered(), last as usize);
        check_named(&filter, &of_tens(1, last), &reader);
        let fresh = add(None, kind("siltstone"), &[], &(1..=last).collect::<Vec<_>>()).unwrap();
        assert_eq!(records(&filter), records(&fresh), "{last} runs");
        let in_one = filter.in_one(&memory());
        assert_eq!(in_one.is_some(), filter.as_maplet().unwrap().is_parted());
        if let Some(in_one) = in_one {
            assert!(!in_one.as_maplet().unwrap().is_parted());
            assert_eq!(in_one.memory_bytes(), fresh.memory_bytes());
            check_named(&in_one, &of_tens(1, last), &reader);
        }
    }
    assert!((20..38).contains(&parted), "{parted} of 40 in two parts");
}

#[test]
fn a_maplet_in_two_parts_follows_its_runs() {
    let reader = reader(&SimDisk::new());
    let filter = Arc::new(grown(29));
    let all = of_tens(1, 29);
    assert!(filter.as_maplet().unwrap().is_parted());
    let ids = |runs: &[(RunId, Range<u64>)]| -> Vec<RunId> { runs.iter().map(|(id, _)| *id).collect() };
    assert!(filter.fitted(&runs(&ids(&all))).is_some_and(|same| Arc::ptr_eq(&same, &filter)));
    for pushed in 1..29usize {
        let left = &all[..29 - pushed];
        let fitted = filter.fitted(&runs(&ids(left))).unwrap();
        check_named(&fitted, left, &reader);
        // The next run, the one after it, and runs that left in between.
        let more = Arc::new(add(Some(&fitted), kind("siltstone"), &ids(left), &[30, 31]).unwrap());
        let with_more: Vec<_> = of_tens(30, 31).into_iter().chain(left.iter().cloned()).collect();
        check_named(&more, &with_more, &reader);
        let rest = &with_more[..with_more.len() - left.len().min(2)];
        check_named(&more.fitted(&runs(&ids(rest))).unwrap(), rest, &reader);
    }
    // A gap below, between and above.
    for gap in [1usize, 5, 27] {
        let mut with_gap = ids(&all);
        with_gap.remove(gap);
        assert!(filter.fitted(&runs(&with_gap)).is_none(), "without run {}", 29 - gap);
    }
    // Two neighbours become one: both old, both young, and one of each.
    for newer in 2..=29u64 {
        let merged = filter.after_rewrite(&[newer, newer - 1], 99, &memory()).unwrap();
        let mut after = all.clone();
        let at = 29 - newer as usize;
        after.splice(at..at + 2, [(99, (newer - 1) * 10..newer * 10 + 10)]);
        assert_eq!(merged.covered(), 28);
        check_named(&merged, &after, &reader);
        let merged = Arc::new(merged);
        assert!(merged.fitted(&runs(&ids(&after))).is_some_and(|same| Arc::ptr_eq(&same, &merged)));
    }
    assert!(filter.after_rewrite(&[30, 29], 99, &memory()).is_none());
    assert!(filter.after_rewrite(&[29, 2], 99, &memory()).is_none());
    let short = filter.shortened(20, &memory()).unwrap();
    assert!(short.memory_bytes() < filter.memory_bytes());
    check_named(&short, &all, &reader);
}

#[test]
fn merged_runs_share_a_slot() {
    let reader = reader(&SimDisk::new());
    for preset in ["siltstone", "slimdb"] {
        let all = add(None, kind(preset), &[], &[1, 2, 3, 4]).unwrap();
        let merged = all.after_rewrite(&[3, 2], 9, &memory()).unwrap();
        assert_eq!(merged.covered(), 3);
        assert!(Arc::new(merged).fitted(&runs(&[4, 9, 1])).is_some());
        let merged = all.after_rewrite(&[3, 2], 9, &memory()).unwrap();
        for number in 20..40 {
            assert_eq!(candidates(&merged, number, 3, &reader)[1], Candidate::Yes, "{preset}: {number}");
        }
        // Runs that are no neighbours, or that it does not know.
        assert!(all.after_rewrite(&[4, 2], 9, &memory()).is_none());
        assert!(all.after_rewrite(&[7], 9, &memory()).is_none());
    }
}

/// Joins the rows of `ids`, made one by one, as background work does.
fn cluster(ids: &[RunId]) -> Arc<RegionFilter> {
    let mut joined: Option<Arc<RegionFilter>> = None;
    for id in ids {
        let row = Arc::new(add(joined.as_deref(), kind("lsm-trie"), &[], &[*id]).unwrap());
        joined = RegionFilter::joined(joined.as_ref(), &row, &runs(ids));
    }
    joined.unwrap()
}

fn target<'a>(disk: &'a SimDisk, path: &'a Path, trash: &'a Arc<crate::table::Trash>) -> PagesTarget<'a> {
    PagesTarget {
        disk,
        path,
        number: 77,
        stamp: 5,
        keyspace: 1,
        level: 4,
        region: TriePath::of(0, 0),
        trash,
        is_given_up: &|| false,
    }
}

#[test]
fn a_cluster_says_the_same_from_memory_and_from_its_file() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    let (reader, trash) = (reader(&disk), Arc::default());
    let held = cluster(&[4, 3, 2, 1]);
    assert_eq!((held.covered(), held.missing(4).count()), (4, 0));
    let path = reader.path(FileId::Sidecar(77));
    let filed = held.write_pages(&target(&disk, &path, &trash), &reader).unwrap().unwrap();
    let joined = RegionFilter::joined(Some(&held), &Arc::new(filed), &runs(&[5, 4, 3, 2, 1])).unwrap();
    // The rows have left memory; the run on top is not known.
    assert_eq!((joined.memory_bytes(), joined.covered()), (0, 4));
    assert_eq!(joined.missing(5).collect::<Vec<_>>(), [0]);
    for number in 10..50 {
        let in_memory = candidates(&held, number, 4, &reader);
        let on_device = candidates(&joined, number, 5, &reader);
        assert_eq!(on_device[0], Candidate::Unknown);
        assert_eq!(in_memory, on_device[1..], "{number}");
        assert_eq!(in_memory[4 - (number / 10) as usize], Candidate::Unknown, "{number}");
    }
    // A row for the run on top joins those in the file; what leaves the region is forgotten.
    let row = Arc::new(add(Some(&joined), kind("lsm-trie"), &[], &[5]).unwrap());
    let more = RegionFilter::joined(Some(&joined), &row, &runs(&[5, 4, 3])).unwrap();
    assert_eq!((more.covered(), more.missing(3).count()), (3, 0));
    assert!(more.memory_bytes() > 0 && more.pages().is_some());
    assert!(more.fitted(&runs(&[9, 8])).is_none());
    // Read back, the file says the same; each bit of what stands before its pages counts.
    let bytes = disk.read_file(&path).unwrap();
    let read = |bytes: &[u8]| {
        disk.write_file(&path, bytes).unwrap();
        let file = disk.open(&path, Access::Read).unwrap();
        let mut found = Vec::new();
        let read = sidecar::read(&path, file.as_ref(), &mut |header, record| {
            let pages = SidecarPages::new(header, Arc::clone(&trash)).ok_or(sidecar::Malformed)?;
            found.push(RegionFilter::of_pages(record, Arc::new(pages))?);
            Ok(())
        });
        (read.unwrap(), found)
    };
    let (whole, found) = read(&bytes);
    assert!(whole.damage.is_none() && whole.header.unwrap().number == 77);
    for number in 10..50 {
        assert_eq!(candidates(&found[0], number, 4, &reader), candidates(&held, number, 4, &reader));
    }
    for at in (0..PAGE_BYTES).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        assert!(read(&damaged).0.damage.is_some(), "byte {at}");
    }
    for length in [0, 20, 44, 60, PAGE_BYTES, bytes.len() - 1] {
        assert!(read(&bytes[..length]).0.damage.is_some(), "{length} bytes");
    }
    let page = bytes[PAGE_BYTES..].first_chunk::<PAGE_BYTES>().unwrap();
    assert!(page_is_sound(FileId::Sidecar(77), 1, page) && !page_is_sound(FileId::Table(77), 1, page));
}

#[test]
fn records_before_damage_are_read() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    let (reader, path) = (reader(&disk), Path::new("/db/00000009.sidecar"));
    let filters = [
        add(None, kind("siltstone"), &[], &[1, 2, 3]).unwrap(),
        add(None, kind("slimdb"), &[], &[4, 5]).unwrap(),
        add(None, kind("lsm-trie"), &[], &[6]).unwrap(),
    ];
    let mut writer = RecordsWriter::create(&disk, path, 9, 3).unwrap();
    let mut ends = vec![sidecar::HEADER_BYTES];
    for (level, filter) in filters.iter().enumerate() {
        let path = TriePath::of(0, 0);
        filter
            .encode(&mut |runs, kind, filter| {
                let record = SidecarRecord { keyspace: 2, level, path, runs: runs.to_vec(), kind, filter };
                ends.push(ends.last().unwrap() + record.bytes() as usize);
                writer.add(&record)
            })
            .unwrap();
    }
    writer.finish().unwrap();
    let bytes = disk.read_file(path).unwrap();
    assert_eq!(ends.last(), Some(&bytes.len()));
    let read = |bytes: &[u8]| {
        disk.write_file(path, bytes).unwrap();
        let file = disk.open(path, Access::Read).unwrap();
        let mut found = Vec::new();
        let read = sidecar::read(path, file.as_ref(), &mut |_, record| {
            found.push((record.level, RegionFilter::decode(record, &memory())?.unwrap()));
            Ok(())
        });
        (read.unwrap(), found)
    };
    let (whole, found) = read(&bytes);
    assert!(whole.damage.is_none() && found.len() == 3);
    for ((level, found), filter) in found.iter().zip(&filters) {
        for number in 10..70 {
            let expected = candidates(filter, number, filter.covered(), &reader);
            assert_eq!(candidates(found, number, filter.covered(), &reader), expected, "{level}: {number}");
        }
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let (read, found) = read(&damaged);
        assert!(read.damage.is_some(), "byte {at}");
        let sound = ends.iter().skip(1).filter(|end| **end <= at).count();
        assert_eq!(found.len(), if at < sidecar::HEADER_BYTES { 0 } else { sound }, "byte {at}");
    }
}

#[test]
fn headers_of_files_that_cannot_be_are_refused() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    let (path, trash) = (Path::new("/db/00000077.sidecar"), Arc::default());
    let plan = PagesPlan { runs: &[1], kind: 4, filter: &[0; 9], count: u32::MAX };
    assert!(target(&disk, path, &trash).begin(&plan).is_err());
    let mut bytes = [0xff; sidecar::HEADER_BYTES];
    assert_eq!(SidecarHeader::decode(&bytes), None);
    bytes[..8].copy_from_slice(sidecar::MAGIC);
    bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..sidecar::HEADER_BYTES - 4]);
    bytes[sidecar::HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    let header = SidecarHeader::decode(&bytes).unwrap();
    assert!(header.file_bytes().is_none() && SidecarPages::new(&header, trash).is_none());
    disk.write_file(path, &bytes).unwrap();
    let file = disk.open(path, Access::Read).unwrap();
    let read = sidecar::read(path, file.as_ref(), &mut |_, _| Ok(())).unwrap();
    assert!(read.damage.is_some());
}
