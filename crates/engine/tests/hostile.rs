//! Hostile files: whatever lies in the place of a store's file, opening, reading, verifying, inspecting and
//! repairing the store end soon, with an answer or an error, and take little memory: no panic, no allocation
//! that a file merely claims to need, no waiting for a pipe, no reading of a device, no file changed that a
//! symbolic link leads to.
//!
//! Memory is counted by the allocator, so the tests of this file run one at a time. Each case works on a copy
//! of one small store, in a thread that has a time to end in.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

mod common;

use common::{Rng, is_long, options, tiny};
use peak_alloc::PeakAlloc;
use siltstone::inspect;
use siltstone::{Backups, Db, ErrorKind, KeyspaceOptions, Options};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// What a case may allocate, beside as much as the file that is looked at really has on the device.
const MOST_BYTES: usize = 12 << 20;
/// When a case is taken not to end; machines are busy.
const PATIENCE: Duration = Duration::from_secs(120);
const TEBIBYTE: u64 = 1 << 40;

/// Items of each keyspace.
const ITEMS: u32 = 120;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn store_options() -> Options {
    Options { event_log_bytes: 64 << 10, ..options() }
}

/// A closed store with tables of every format, sidecars, an event log and writes in its log.
fn make(dir: &Path) {
    let db = Db::open(dir, store_options()).unwrap();
    let mut rng = Rng::new(7);
    for preset in ["siltstone", "slimdb", "stepped-merge", "lsm-trie", "silt"] {
        let design = KeyspaceOptions { design: Some(tiny(preset)), ..KeyspaceOptions::default() };
        let items = db.keyspace(preset, design).unwrap();
        for number in 0..ITEMS {
            items.put(number.to_be_bytes(), rng.bytes(if number % 60 == 7 { 5000 } else { 60 })).unwrap();
        }
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    let silt = db.get_keyspace("silt").unwrap();
    (ITEMS..ITEMS + 40).for_each(|number| silt.put(number.to_be_bytes(), rng.bytes(60)).unwrap());
    db.flush().unwrap();
    db.backup(dir.with_extension("backups")).unwrap();
    let unflushed = db.get_keyspace("siltstone").unwrap();
    (0..20u32).for_each(|number| unflushed.put(number.to_le_bytes(), "in the log").unwrap());
    drop((silt, unflushed));
    db.close().unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to)
        } else {
            fs::copy(entry.path(), to).map(drop).unwrap()
        }
    }
}

/// The first of the store's files of each kind.
fn one_of_each(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut kinds = BTreeMap::new();
    let mut paths: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let kind = match inspect::file(&path) {
            Ok(inspect::Inspection::Table(table)) => {
                table.design.split(',').next().unwrap().to_owned() + " table"
            }
            _ => path.extension().map_or_else(
                || name.split('-').next().unwrap().to_owned(),
                |extension| extension.to_str().unwrap().to_owned(),
            ),
        };
        kinds.entry(kind).or_insert(path);
    }
    kinds
}

/// Does everything that takes a directory or a file with the store in `dir`, and ignores what it says.
fn use_store(dir: &Path, file: &Path) {
    let _ = inspect::file(file);
    if let Ok(db) = Db::open_read_only(dir, store_options()) {
        for name in db.keyspaces() {
            let items = db.get_keyspace(&name).unwrap();
            for item in items.iter().into_iter().flatten() {
                if item.is_err() {
                    break;
                }
            }
            let _ = items.get(7u32.to_be_bytes());
        }
    }
    let _ = Db::verify_dir(dir, &store_options(), &mut |_| {});
    let repaired = dir.with_extension("repaired");
    let _ = Db::repair(dir, &repaired, &store_options(), &mut |_| {});
    let _ = fs::remove_dir_all(&repaired);
    if let Ok(db) = Db::open(dir, store_options()) {
        for name in db.keyspaces() {
            let items = db.get_keyspace(&name).unwrap();
            let _ = items.put("one", "more").and_then(|()| items.get("one").map(drop));
            let _ = items.get(7u32.to_be_bytes());
        }
        let _ = db.flush().and_then(|()| db.step().map(drop));
        let _ = db.close();
    }
}

/// Runs `work` in a thread, which has to end in time and without a panic, and to allocate no more than
/// `most` bytes at once. Returns what that was.
fn within_bounds(what: &str, most: usize, work: impl FnOnce() + Send + 'static) -> usize {
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let _ = tell.send(outcome.is_ok());
    });
    let ended = told.recv_timeout(PATIENCE);
    assert_eq!(ended, Ok(true), "{what}: a panic, or no end within {PATIENCE:?}");
    let peak = ALLOCATED.peak_usage().saturating_sub(before);
    assert!(peak <= most, "{what}: {peak} bytes were allocated, {most} at most");
    peak
}

/// A way to put something else in the place of the file.
type Replace = fn(&Path);

fn sparse(path: &Path, bytes: u64) {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap()
        .set_len(bytes)
        .unwrap();
}

fn replacements() -> Vec<(&'static str, Replace)> {
    fn anew(path: &Path) {
        fs::remove_file(path).unwrap();
    }
    vec![
        ("nothing in it", |path| fs::write(path, b"").unwrap()),
        ("one byte", |path| fs::write(path, b"s").unwrap()),
        ("zeros", |path| fs::write(path, [0; 8192]).unwrap()),
        ("a tebibyte of zeros", |path| {
            anew(path);
            sparse(path, TEBIBYTE);
        }),
        ("itself and a tebibyte of zeros", |path| sparse(path, TEBIBYTE)),
        ("a directory", |path| {
            anew(path);
            fs::create_dir(path).unwrap();
        }),
        ("a pipe", |path| {
            anew(path);
            rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        }),
        ("a link to a device without an end", |path| {
            anew(path);
            symlink("/dev/zero", path).unwrap();
        }),
        ("a dangling link", |path| {
            anew(path);
            symlink("/nowhere/at/all", path).unwrap();
        }),
        ("a link to itself", |path| {
            anew(path);
            symlink(path, path).unwrap();
        }),
        ("nothing", anew),
    ]
}

#[test]
fn whatever_lies_in_the_place_of_a_file_ends_soon_and_takes_little_memory() {
    let _alone = alone();
    let scratch = tempfile::tempdir().unwrap();
    let sound = scratch.path().join("sound");
    make(&sound);
    let kinds = one_of_each(&sound);
    for kind in
        ["CURRENT", "MANIFEST", "wal", "Block table", "HTable table", "Sorted table", "EVENTS", "LOCK"]
    {
        assert!(kinds.contains_key(kind), "no {kind} among {:?}", kinds.keys());
    }
    let (mut cases, mut largest) = (0, 0);
    for (kind, path) in &kinds {
        for (name, replace) in replacements() {
            let dir = scratch.path().join("copy");
            copy(&sound, &dir);
            let file = dir.join(path.file_name().unwrap());
            replace(&file);
            let what = format!("{name} in the place of {kind}");
            let worked_on = dir.clone();
            let peak = within_bounds(&what, MOST_BYTES, move || use_store(&worked_on, &file));
            (cases, largest) = (cases + 1, largest.max(peak));
            fs::remove_dir_all(&dir).unwrap();
        }
    }
    println!("{cases} cases, {largest} bytes allocated at most");
    assert!(cases >= 100);
}

/// Puts the numbers that a file may claim at `at`, of `bytes` bytes, and has `seal` make the checksums right.
fn claims(file: &[u8], at: usize, bytes: usize, seal: impl Fn(&mut [u8])) -> Vec<Vec<u8>> {
    let numbers: &[u64] = match is_long() {
        true => &[0, 1, 0x7fff_ffff, 0xffff_ffff, 1 << 32, 1 << 63, u64::MAX],
        false => &[0x7fff_ffff, 1 << 63, u64::MAX],
    };
    let claimed = numbers.iter().map(|number| {
        let mut file = file.to_vec();
        file[at..at + bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
        seal(&mut file);
        file
    });
    claimed.collect()
}

/// Versions of a file whose lengths and offsets are lies, with the checksums that belong to them.
fn lies(kind: &str, file: &[u8]) -> Vec<Vec<u8>> {
    let crc_to = |file: &mut [u8], from: usize, to: usize, at: usize| {
        let crc = crc32c::crc32c(&file[from..to]).to_le_bytes();
        file[at..at + 4].copy_from_slice(&crc);
    };
    let end = file.len();
    if kind.ends_with("table") {
        // Where the footer says that the properties are, and how long.
        let seal = |file: &mut [u8]| crc_to(file, end - 48, end - 8, end - 4);
        let fields = [(end - 24, 8), (end - 16, 4), (end - 36, 4), (end - 32, 8)];
        return fields.iter().flat_map(|(at, bytes)| claims(file, *at, *bytes, seal)).collect();
    }
    if kind == "sidecar" {
        let seal = |file: &mut [u8]| crc_to(file, 0, 40, 40);
        return [(12, 4), (16, 8), (32, 8)]
            .iter()
            .flat_map(|(at, bytes)| claims(file, *at, *bytes, seal))
            .collect();
    }
    if kind == "wal" || kind == "MANIFEST" {
        // The length of the first record, whose checksum has the file's epoch and the record's position in it.
        let (epoch, first) = (file[20..28].to_vec(), file[28..36].to_vec());
        let seal = |file: &mut [u8]| {
            let covered = [&epoch[..], &first, &file[1024..1036]].concat();
            file[1036..1040].copy_from_slice(&crc32c::crc32c(&covered).to_le_bytes());
        };
        if end < 1040 {
            return Vec::new();
        }
        return [1028, 1032].iter().flat_map(|at| claims(file, *at, 4, seal)).collect();
    }
    Vec::new()
}

#[test]
fn lengths_that_files_claim_are_not_believed() {
    let _alone = alone();
    let scratch = tempfile::tempdir().unwrap();
    let sound = scratch.path().join("sound");
    make(&sound);
    let mut cases = BTreeMap::<&str, u32>::new();
    let kinds = one_of_each(&sound);
    for (kind, path) in &kinds {
        for lie in lies(kind, &fs::read(path).unwrap()) {
            let dir = scratch.path().join("copy");
            copy(&sound, &dir);
            let file = dir.join(path.file_name().unwrap());
            fs::write(&file, lie).unwrap();
            let worked_on = dir.clone();
            within_bounds(&format!("a lie in {kind}"), MOST_BYTES, move || use_store(&worked_on, &file));
            fs::remove_dir_all(&dir).unwrap();
            *cases.entry(kind).or_default() += 1;
        }
    }
    println!("{cases:?}");
    assert!(cases.len() >= 6 && cases.values().all(|count| *count >= 6), "{cases:?}");
}

#[test]
fn whatever_lies_among_backups_ends_soon_and_takes_little_memory() {
    let _alone = alone();
    let scratch = tempfile::tempdir().unwrap();
    let sound = scratch.path().join("store");
    make(&sound);
    let backups = sound.with_extension("backups");
    let records: Vec<PathBuf> = fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files: Vec<PathBuf> =
        fs::read_dir(backups.join("files")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_record = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "backup");
    let is_manifest = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "manifest");
    let looked_at = [
        records.iter().find(is_record),
        files.iter().find(is_manifest),
        files.iter().find(|f| !is_manifest(f)),
    ];
    for path in looked_at.map(Option::unwrap) {
        for (name, replace) in replacements() {
            let dir = scratch.path().join("copy");
            copy(&backups, &dir);
            replace(&dir.join(path.strip_prefix(&backups).unwrap()));
            let (worked_on, dest) = (dir.clone(), scratch.path().join("restored"));
            let what = format!("{name} in the place of {}", path.display());
            within_bounds(&what, MOST_BYTES, move || {
                let Ok(backups) = Backups::open(&worked_on) else { return };
                let _ = backups.list();
                let _ = backups.verify(&mut |_| {});
                let _ = backups.restore(1, &dest);
                let _ = fs::remove_dir_all(&dest);
            });
            fs::remove_dir_all(&dir).unwrap();
        }
    }
}

/// It followed the link, and emptied and overwrote the file that it led to.
#[test]
fn a_link_in_the_place_of_a_lock_or_a_new_file_leads_nowhere() {
    let _alone = alone();
    let scratch = tempfile::tempdir().unwrap();
    let victim = scratch.path().join("victim");
    for name in ["LOCK", "CURRENT.new", "MANIFEST-00000001", "00000001.wal"] {
        fs::write(&victim, "somebody else's").unwrap();
        let dir = scratch.path().join(format!("store-{name}"));
        fs::create_dir(&dir).unwrap();
        symlink(&victim, dir.join(name)).unwrap();
        let opened = Db::open(&dir, store_options());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "somebody else's", "{name}");
        if let Err(error) = opened {
            assert!(error.to_string().contains(name), "{name}: {error}");
        }
    }
}

#[test]
fn a_store_is_used_through_links_to_it_and_to_its_tables() {
    let _alone = alone();
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    make(&dir);
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
        if entry.file_name().to_str().unwrap().ends_with(".table") {
            let to = elsewhere.join(entry.file_name());
            fs::rename(entry.path(), &to).unwrap();
            symlink(&to, entry.path()).unwrap();
        }
    }
    let link = scratch.path().join("link");
    symlink(&dir, &link).unwrap();
    let db = Db::open(&link, store_options()).unwrap();
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    // By whatever name, it is one store.
    let again = Db::open(&dir, store_options()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Locked, "{again}");
    let items = db.get_keyspace("siltstone").unwrap();
    items.put("one", "more").unwrap();
    db.flush().unwrap();
    items.compact().unwrap();
    // The twenty in the log, of which one was there, and one more.
    assert_eq!(items.len().unwrap(), u64::from(ITEMS) + 20);
    drop(items);
    db.close().unwrap();
    let dangling = scratch.path().join("dangling");
    symlink("/nowhere/at/all", &dangling).unwrap();
    let error = Db::open_read_only(&dangling, store_options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAStore, "{error}");
}

/// Whether the process may read and write whatever it likes, as root does.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_directory_without_permissions_is_said_to_be_one() {
    let _alone = alone();
    if is_root() {
        println!("not run: the superuser has every permission");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    make(&dir);
    for (mode, reads) in [(0o500, true), (0o300, false), (0o000, false)] {
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
        let written = Db::open(&dir, store_options()).map(drop);
        let read = Db::open_read_only(&dir, store_options()).map(drop);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(read.is_ok(), reads, "mode {mode:o}: {read:?}");
        let error = written.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "mode {mode:o}: {error}");
        assert!(error.to_string().contains("store"), "mode {mode:o}: {error}");
    }
    let db = Db::open(&dir, store_options()).unwrap();
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn what_a_dead_process_left_in_the_lock_does_not_matter() {
    let _alone = alone();
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    make(&dir);
    for text in ["process 1", "process 99999999999999999999999", "", "\0\u{1}noise"] {
        fs::write(dir.join("LOCK"), text).unwrap();
        let db = Db::open(&dir, store_options()).unwrap();
        let held = Db::open(&dir, store_options()).unwrap_err();
        assert_eq!(held.kind(), ErrorKind::Locked, "{held}");
        db.close().unwrap();
    }
}
