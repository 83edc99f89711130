//! The simulated disk's own promises: what survives which crash, and which calls fail when.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::*;

const SECTOR: usize = SECTOR_BYTES as usize;

/// A disk with a durable directory `/db`.
fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    disk
}

/// A file whose name and bytes are durable.
fn settled_file(disk: &SimDisk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    disk.write_file(path, bytes).unwrap();
    disk.open(Path::new(path), Access::ReadWrite).unwrap()
}

fn create(disk: &SimDisk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(Path::new(path)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn names(disk: &SimDisk) -> Vec<String> {
    disk.list(Path::new("/db")).unwrap()
}

/// Every different outcome of a crash for one file, over many seeds.
fn outcomes(disk: &SimDisk, mode: CrashMode, path: &str) -> BTreeSet<Vec<u8>> {
    let image = disk.snapshot();
    (0..400).map(|seed| image.crash(mode, seed).read_file(path).unwrap_or_default()).collect()
}

#[test]
fn a_killed_process_loses_nothing() {
    let disk = disk();
    create(&disk, "/db/a", b"never synced");
    let after = disk.crash(CrashMode::Kill, 0);
    assert_eq!(after.read_file("/db/a").unwrap(), b"never synced");
    assert_eq!(after.snapshot().unsynced_ops(), 0);
    assert_eq!(after.crash(CrashMode::PowerCut, 0).read_file("/db/a").unwrap(), b"never synced");
}

#[test]
fn a_power_cut_leaves_what_was_synced() {
    let disk = disk();
    let file = create(&disk, "/db/a", b"synced");
    file.sync().unwrap();
    assert!(names(&disk.crash(CrashMode::PowerCut, 0)).is_empty(), "the name was not synced");
    disk.sync_dir(Path::new("/db")).unwrap();
    file.write_all_at(b"SYNCED, or not", 0).unwrap();
    assert_eq!(disk.crash(CrashMode::PowerCut, 0).read_file("/db/a").unwrap(), b"synced");

    file.set_len(2).unwrap();
    disk.rename(Path::new("/db/a"), Path::new("/db/b")).unwrap();
    let after = disk.crash(CrashMode::PowerCut, 0);
    assert_eq!(after.read_file("/db/a").unwrap(), b"synced");
    file.sync().unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    let after = disk.crash(CrashMode::PowerCut, 0);
    assert_eq!(names(&after), ["b"]);
    assert_eq!(after.read_file("/db/b").unwrap(), b"SY");
}

#[test]
fn a_removed_name_comes_back_unless_synced() {
    let disk = disk();
    settled_file(&disk, "/db/a", b"bytes");
    disk.remove(Path::new("/db/a")).unwrap();
    assert_eq!(disk.crash(CrashMode::PowerCut, 0).read_file("/db/a").unwrap(), b"bytes");
    disk.sync_dir(Path::new("/db")).unwrap();
    assert!(names(&disk.crash(CrashMode::PowerCut, 0)).is_empty());
    assert_eq!(disk.state.lock().image().inodes.len(), 0, "nothing can reach the file any more");
}

#[test]
fn a_torn_write_ends_at_a_sector_of_the_file() {
    let disk = disk();
    let file = settled_file(&disk, "/db/log", &[1; 100]);
    file.write_all_at(&[2; 1500], 100).unwrap();
    let lens: BTreeSet<usize> =
        outcomes(&disk, CrashMode::Torn, "/db/log").iter().map(|bytes| bytes.len()).collect();
    assert_eq!(lens, BTreeSet::from([100, 512, 1024, 1536, 1600]));
}

#[test]
fn a_torn_crash_keeps_a_prefix_over_the_whole_disk() {
    let disk = disk();
    let log = settled_file(&disk, "/db/log", b"");
    let table = settled_file(&disk, "/db/table", b"");
    for step in 0..20_u8 {
        log.write_all_at(&[step], u64::from(step)).unwrap();
        table.write_all_at(&[step], u64::from(step)).unwrap();
        disk.create(Path::new(&format!("/db/new{step:02}"))).unwrap();
    }
    let image = disk.snapshot();
    let mut seen = BTreeSet::new();
    for seed in 0..1500 {
        let after = image.crash(CrashMode::Torn, seed);
        let log = after.read_file("/db/log").unwrap().len();
        let table = after.read_file("/db/table").unwrap().len();
        let new = names(&after).len() - 2;
        assert!(log >= table && table >= new && new + 1 >= log, "{log} {table} {new}");
        seen.insert(log + table + new);
    }
    assert_eq!(seen, (0..=60).collect(), "every prefix turns up");
}

#[test]
fn reordered_sectors_survive_apart() {
    let disk = disk();
    let file = settled_file(&disk, "/db/a", &[1; 3 * SECTOR]);
    file.write_all_at(&[2; 3 * SECTOR], 0).unwrap();
    let outcomes = outcomes(&disk, CrashMode::Reordered, "/db/a");
    assert_eq!(outcomes.len(), 8, "each of three sectors, old or new");
    for bytes in outcomes {
        for sector in bytes.chunks(SECTOR) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is never torn");
        }
    }
}

#[test]
fn a_sector_shows_a_version_that_the_file_had() {
    let disk = disk();
    let file = settled_file(&disk, "/db/log", b"");
    for (at, byte) in b"abcd".iter().enumerate() {
        file.write_all_at(&[*byte], at as u64).unwrap();
    }
    let mut seen = BTreeSet::new();
    for bytes in outcomes(&disk, CrashMode::Reordered, "/db/log") {
        let text: Vec<u8> = bytes.iter().copied().take_while(u8::is_ascii_lowercase).collect();
        let is_garbage = text.len() < bytes.len() && bytes[text.len()..].iter().any(|byte| *byte != 0);
        if !is_garbage {
            assert!(b"abcd".starts_with(&text), "{bytes:?}");
            seen.insert((text.len(), bytes.len()));
        }
    }
    assert!(seen.contains(&(4, 4)) && seen.contains(&(0, 0)), "all and none: {seen:?}");
    assert!(seen.contains(&(0, 4)) && seen.contains(&(2, 4)), "longer than its data: {seen:?}");
}

#[test]
fn unwritten_bytes_may_be_garbage_but_synced_bytes_are_not() {
    let disk = disk();
    let file = settled_file(&disk, "/db/a", &[1; SECTOR]);
    file.write_all_at(&[2; SECTOR], SECTOR_BYTES).unwrap();
    let mut garbage = 0;
    for bytes in outcomes(&disk, CrashMode::Reordered, "/db/a") {
        assert!(bytes[..SECTOR].iter().all(|byte| *byte == 1));
        garbage += usize::from(bytes[SECTOR..].iter().any(|byte| *byte != 0 && *byte != 2));
    }
    assert!(garbage > 5);

    file.sync().unwrap();
    file.set_len(4 * SECTOR_BYTES).unwrap();
    for bytes in outcomes(&disk, CrashMode::Reordered, "/db/a") {
        assert!(bytes[2 * SECTOR..].iter().all(|byte| *byte == 0), "an extension alone reads as zeros");
    }
}

#[test]
fn bytes_cut_off_do_not_come_back_behind_the_cut() {
    let disk = disk();
    let file = settled_file(&disk, "/db/a", &[1; 2 * SECTOR]);
    file.set_len(0).unwrap();
    file.set_len(2 * SECTOR_BYTES).unwrap();
    let outcomes = outcomes(&disk, CrashMode::Reordered, "/db/a");
    assert!(outcomes.contains(&vec![1; 2 * SECTOR]), "neither operation survived");
    assert!(outcomes.contains(&vec![0; 2 * SECTOR]), "both survived");
    assert!(outcomes.contains(&vec![]), "only the cut survived");
}

#[test]
fn a_replacing_rename_leaves_the_old_or_the_new_file() {
    let disk = disk();
    settled_file(&disk, "/db/CURRENT", b"old");
    create(&disk, "/db/tmp", b"new").sync().unwrap();
    disk.rename(Path::new("/db/tmp"), Path::new("/db/CURRENT")).unwrap();
    let image = disk.snapshot();
    let mut seen = BTreeSet::new();
    for mode in [CrashMode::Torn, CrashMode::Reordered] {
        for seed in 0..100 {
            let after = image.crash(mode, seed);
            seen.insert((after.read_file("/db/CURRENT").unwrap(), names(&after).len()));
        }
    }
    let expected = [(b"new".to_vec(), 1), (b"old".to_vec(), 1), (b"old".to_vec(), 2)];
    assert_eq!(seen, BTreeSet::from(expected));
}

#[test]
fn an_unsynced_rename_never_loses_the_file() {
    let disk = disk();
    settled_file(&disk, "/db/a", b"bytes");
    disk.rename(Path::new("/db/a"), Path::new("/db/b")).unwrap();
    disk.create_dir_all(Path::new("/other")).unwrap();
    let image = disk.snapshot();
    let found: BTreeSet<Vec<String>> =
        (0..100).map(|seed| names(&image.crash(CrashMode::Reordered, seed))).collect();
    assert_eq!(found, BTreeSet::from([vec!["a".to_owned()], vec!["b".to_owned()]]));
}

#[test]
fn crashes_are_the_same_for_the_same_seed() {
    let run = |mode, seed| {
        let disk = disk();
        for file in 0..5 {
            create(&disk, &format!("/db/{file}"), &[file; 3000]);
        }
        let after = disk.crash(mode, seed);
        names(&after)
            .into_iter()
            .map(|name| after.read_file(format!("/db/{name}")).unwrap())
            .collect::<Vec<_>>()
    };
    for mode in CrashMode::ALL {
        for seed in 0..20 {
            assert_eq!(run(mode, seed), run(mode, seed));
        }
    }
    assert_ne!(run(CrashMode::Reordered, 2), run(CrashMode::Reordered, 3));
}

#[test]
fn crashed_disks_are_healthy() {
    let disk = disk();
    create(&disk, "/db/a", b"bytes");
    let _lock = disk.lock(Path::new("/db/LOCK"), "me").unwrap();
    disk.inject(Fault::on_any(FaultError::Io));
    disk.set_capacity(Some(0));
    disk.set_now_ms(5);
    disk.halt_after(0);
    let after = disk.crash(CrashMode::Kill, 0);
    assert_eq!(after.now_ms(), 5);
    let file = create(&after, "/db/b", b"more");
    file.sync().unwrap();
    after.lock(Path::new("/db/LOCK"), "you").unwrap();
}

#[test]
fn images_are_taken_at_every_call() {
    let disk = disk();
    disk.record_images(true);
    let file = disk.create(Path::new("/db/a")).unwrap();
    disk.set_marker(7);
    file.write_all_at(&[1; 600], 8).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    disk.rename(Path::new("/db/a"), Path::new("/db/b")).unwrap();
    assert!(disk.remove(Path::new("/db/none")).is_err());
    let recorded = disk.take_recorded();
    let calls: Vec<String> = recorded.iter().map(|(call, _)| call.to_string()).collect();
    assert_eq!(
        calls,
        [
            "call 1: create /db/a",
            "call 2: write /db/a [8, +600]",
            "call 3: sync /db/a",
            "call 4: sync directory /db",
            "call 5: rename /db/a to /db/b",
            "call 6: remove /db/none (failed)",
        ]
    );
    assert_eq!(recorded.iter().map(|(call, _)| call.marker).collect::<Vec<_>>(), [0, 7, 7, 7, 7, 7]);
    let images: Vec<&DiskImage> = recorded.iter().map(|(_, image)| image).collect();
    // Effects show at once; those of a sync only afterwards.
    assert_eq!(images.iter().map(|image| image.unsynced_ops()).collect::<Vec<_>>(), [1, 2, 2, 1, 1, 1]);
    assert!(images[1].is_same(images[2]) && !images[2].is_same(images[3]));
    assert_eq!(images[0].read_file("/db/a").unwrap(), b"");
    assert_eq!(images[1].read_file("/db/a").unwrap().len(), 608);
    assert_eq!(images[4].list("/db").unwrap(), ["b"]);
    assert!(names(&images[3].crash(CrashMode::PowerCut, 0)).is_empty());
    assert_eq!(names(&images[4].crash(CrashMode::PowerCut, 0)), ["a"]);
    assert!(disk.take_recorded().is_empty());
}

#[test]
fn an_image_does_not_change_with_the_disk() {
    let disk = disk();
    let file = create(&disk, "/db/a", &[1; 10_000]);
    let image = disk.snapshot();
    file.write_all_at(&[2; 10_000], 0).unwrap();
    file.set_len(1).unwrap();
    file.sync().unwrap();
    disk.remove(Path::new("/db/a")).unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    drop(file);
    assert_eq!(image.read_file("/db/a").unwrap(), [1; 10_000]);
    assert!(names(&image.crash(CrashMode::PowerCut, 0)).is_empty());
}

#[test]
fn many_unsynced_operations_are_freed_without_recursion() {
    let disk = disk();
    let file = create(&disk, "/db/a", b"");
    for at in 0..200_000 {
        file.write_all_at(b"x", at % 1000).unwrap();
    }
    assert!(disk.snapshot().unsynced_ops() >= 200_000);
    file.sync().unwrap();
}

#[test]
fn a_halted_disk_refuses_everything() {
    let disk = disk();
    disk.halt_after(2);
    let file = create(&disk, "/db/a", b"last words");
    let mut buf = [0; 4];
    file.read_exact_at(&mut buf, 0).unwrap();
    assert!(!disk.is_halted(), "reads do not count");
    let error = file.sync().unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Other, "simulated crash"));
    assert!(disk.is_halted());
    assert!(file.read_exact_at(&mut buf, 0).is_err());
    assert!(file.len().is_err());
    assert!(disk.list(Path::new("/db")).is_err());
    assert!(disk.open(Path::new("/db/a"), Access::Read).is_err());
    assert!(disk.lock(Path::new("/db/LOCK"), "").is_err());
    assert!(disk.free_bytes(Path::new("/db")).is_err());
    assert_eq!(disk.mutating_calls(), 3);
    assert_eq!(disk.crash(CrashMode::Kill, 0).read_file("/db/a").unwrap(), b"last words");
    disk.resume();
    file.sync().unwrap();
}

#[test]
fn faults_strike_where_and_when_told() {
    let disk = disk();
    disk.inject(Fault::new(CallKind::Write, FaultError::Io).on_path(".log").after(1).times(2));
    let log = disk.create(Path::new("/db/1.log")).unwrap();
    let table = create(&disk, "/db/1.sst", b"spared");
    let results: Vec<bool> = (0..5).map(|at| log.write_all_at(b"x", at).is_ok()).collect();
    assert_eq!(results, [true, false, false, true, true]);
    table.sync().unwrap();

    disk.inject(Fault::new(CallKind::Rename, FaultError::Io).on_path("CURRENT"));
    assert!(disk.rename(Path::new("/db/1.sst"), Path::new("/db/CURRENT")).is_err());
    disk.rename(Path::new("/db/1.sst"), Path::new("/db/2.sst")).unwrap();
    disk.clear_faults();
    disk.rename(Path::new("/db/2.sst"), Path::new("/db/CURRENT")).unwrap();

    disk.inject(Fault::new(CallKind::Read, FaultError::Io).times(1));
    let error = table.read_exact_at(&mut [0], 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    table.read_exact_at(&mut [0], 0).unwrap();
    disk.inject(Fault::on_any(FaultError::StorageFull));
    assert_eq!(disk.create(Path::new("/db/x")).unwrap_err().kind(), ErrorKind::StorageFull);
}

#[test]
fn a_short_write_leaves_its_first_bytes() {
    let disk = disk();
    let file = create(&disk, "/db/a", b"");
    disk.inject(Fault::new(CallKind::Write, FaultError::ShortWrite { bytes: 3 }).times(1));
    assert!(file.write_all_at(b"abcdef", 0).is_err());
    assert_eq!(disk.read_file("/db/a").unwrap(), b"abc");
}

#[test]
fn a_failed_sync_loses_its_bytes_for_good() {
    let disk = disk();
    let file = settled_file(&disk, "/db/a", &[1; 4]);
    file.write_all_at(&[2; 2], 0).unwrap();
    disk.inject(Fault::new(CallKind::Sync, FaultError::Io).times(1));
    assert!(file.sync().is_err());
    let may_survive = outcomes(&disk, CrashMode::Torn, "/db/a");
    assert_eq!(may_survive, BTreeSet::from([vec![1; 4], vec![2, 2, 1, 1]]));

    file.write_all_at(&[3], 5).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.read_file("/db/a").unwrap(), [2, 2, 1, 1, 0, 3], "still readable");
    for mode in [CrashMode::PowerCut, CrashMode::Torn, CrashMode::Reordered] {
        assert_eq!(disk.crash(mode, 0).read_file("/db/a").unwrap(), [1, 1, 1, 1, 0, 3], "never durable");
    }
    file.write_all_at(&[4; 6], 0).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.crash(CrashMode::PowerCut, 0).read_file("/db/a").unwrap(), [4; 6]);
}

#[test]
fn a_failed_directory_sync_loses_nothing() {
    let disk = disk();
    create(&disk, "/db/a", b"").sync().unwrap();
    disk.inject(Fault::new(CallKind::SyncDir, FaultError::Io).times(1));
    assert!(disk.sync_dir(Path::new("/db")).is_err());
    assert!(names(&disk.crash(CrashMode::PowerCut, 0)).is_empty());
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(names(&disk.crash(CrashMode::PowerCut, 0)), ["a"]);
}

#[test]
fn a_full_disk_writes_what_fits_and_recovers() {
    let disk = disk();
    let file = create(&disk, "/db/a", &[1; 600]);
    disk.set_capacity(Some(1000));
    assert_eq!(disk.free_bytes(Path::new("/db")).unwrap(), 400);
    assert_eq!(file.write_all_at(&[2; 600], 600).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(disk.used_bytes(), 1000);
    assert_eq!(disk.free_bytes(Path::new("/db")).unwrap(), 0);
    assert_eq!(file.set_len(1001).unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_all_at(&[3; 1000], 0).unwrap();

    let other = disk.create(Path::new("/db/b")).unwrap();
    assert_eq!(other.write_all_at(&[1], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    disk.remove(Path::new("/db/a")).unwrap();
    assert!(other.write_all_at(&[1], 0).is_err(), "the removed file is still open");
    drop(file);
    other.write_all_at(&[1], 0).unwrap();
    assert_eq!(disk.used_bytes(), 1);
    file_set_len_frees(&disk, &other);
}

fn file_set_len_frees(disk: &SimDisk, file: &Arc<dyn File>) {
    file.set_len(1000).unwrap();
    file.set_len(0).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 1000);
}

#[test]
fn damage_reaches_what_is_durable() {
    let disk = disk();
    let file = settled_file(&disk, "/db/a", &[0; 8]);
    disk.flip_bit("/db/a", 3, 7).unwrap();
    disk.corrupt("/db/a", 6, &[9, 9]).unwrap();
    let expected = [0, 0, 0, 128, 0, 0, 9, 9];
    assert_eq!(disk.read_file("/db/a").unwrap(), expected);
    assert_eq!(disk.crash(CrashMode::PowerCut, 0).read_file("/db/a").unwrap(), expected);
    assert_eq!(disk.flip_bit("/db/a", 8, 0).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(file.len().unwrap(), 8);
}

#[test]
fn calls_and_bytes_are_counted_by_kind_and_suffix() {
    let disk = disk();
    let log = create(&disk, "/db/1.log", &[0; 100]);
    create(&disk, "/db/2.sst", &[0; 30]);
    create(&disk, "/db/3.sst", &[0; 3]);
    log.read_exact_at(&mut [0; 10], 0).unwrap();
    log.sync().unwrap();
    let stats = disk.stats();
    assert_eq!(stats.tally(CallKind::Write, ".sst"), Tally { calls: 2, bytes: 33 });
    assert_eq!(stats.bytes(CallKind::Write), 133);
    assert_eq!(stats.tally(CallKind::Read, "1.log"), Tally { calls: 1, bytes: 10 });
    assert_eq!(stats.calls(CallKind::Sync), 1);
    disk.reset_stats();
    assert_eq!(disk.stats(), SimStats::default());
}

#[test]
fn the_clock_is_moved_by_hand() {
    let disk = SimDisk::new();
    let start = disk.now_ms();
    disk.advance_ms(10);
    assert_eq!(disk.now_ms(), start + 10);
    disk.set_now_ms(3);
    assert_eq!(disk.now_ms(), 3);
}

#[test]
fn settle_and_write_file_leave_nothing_at_risk() {
    let disk = disk();
    create(&disk, "/db/a", b"a");
    disk.settle();
    disk.write_file("/db/b", b"b").unwrap();
    assert_eq!(disk.snapshot().unsynced_ops(), 0);
    let after = disk.crash(CrashMode::PowerCut, 0);
    assert_eq!(names(&after), ["a", "b"]);
    assert_eq!(after.read_file("/db/b").unwrap(), b"b");
}

#[test]
fn random_numbers_follow_from_seeds() {
    let numbers = |disk: &SimDisk| [disk.random_u64(), disk.random_u64()];
    let begun = |seed| {
        let disk = disk();
        disk.set_random_seed(seed);
        disk
    };
    assert_eq!(numbers(&begun(1)), numbers(&begun(1)));
    assert_ne!(numbers(&begun(1)), numbers(&begun(2)));
    // A crash goes on with others, which follow from its seed.
    let disk = begun(1);
    let before = numbers(&disk);
    let after = |seed| numbers(&disk.crash(CrashMode::PowerCut, seed));
    assert_eq!(after(3), after(3));
    assert!(after(3) != after(4) && after(0) != before);
    assert_eq!(after(0), numbers(&disk));
}

/// Random operations against the plainest possible model: what is read, and what a power cut leaves.
#[test]
fn agrees_with_a_plain_model() {
    for seed in 0..30 {
        let mut random = crash::SplitMix64(seed);
        let disk = disk();
        let file = settled_file(&disk, "/db/a", b"");
        let (mut current, mut durable) = (Vec::new(), Vec::new());
        let mut images = Vec::new();
        for _ in 0..200 {
            match random.below(10) {
                0 => {
                    let len = random.below(9000);
                    file.set_len(len).unwrap();
                    current.resize(len as usize, 0);
                }
                1 => {
                    file.sync().unwrap();
                    durable.clone_from(&current);
                }
                _ => {
                    let (offset, len) = (random.below(9000) as usize, random.below(5000) as usize);
                    let byte = random.below(256) as u8;
                    file.write_all_at(&vec![byte; len], offset as u64).unwrap();
                    if len > 0 {
                        current.resize(current.len().max(offset + len), 0);
                        current[offset..offset + len].fill(byte);
                    }
                }
            }
            images.push((disk.snapshot(), current.clone(), durable.clone()));
        }
        for (image, current, durable) in images {
            assert!(image.crash(CrashMode::Kill, 0).read_file("/db/a").unwrap() == current);
            assert!(image.crash(CrashMode::PowerCut, 0).read_file("/db/a").unwrap() == durable);
            for mode in [CrashMode::Torn, CrashMode::Reordered] {
                let after = image.crash(mode, random.next()).read_file("/db/a").unwrap();
                assert!(after.len() <= 14_000);
            }
        }
    }
}
